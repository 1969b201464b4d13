"""Is a file text: by its name, before it is opened, and by its bytes. Pure.

An unknown ending is refused: what a model is given word for word should be something a person would read. A name
without an ending (README, Makefile) is judged by its bytes alone.
"""

_ENDINGS = frozenset(
    """
    md mdx mdc markdown mkd txt text rst adoc asciidoc org tex bib textile wiki pod
    json jsonc json5 jsonl ndjson yaml yml toml ini cfg conf config properties csv tsv xml xsd xsl xslt dtd svg plist
    env html htm xhtml css scss sass less styl vue svelte astro
    py pyi pyx ipynb js mjs cjs jsx ts mts cts tsx java kt kts scala groovy gradle clj cljs cljc edn
    c h cc cpp cxx hh hpp hxx m mm cs fs fsi fsx vb go rs swift d zig nim v vala cr jl r rmd lua pl pm t raku rb
    erb rake gemspec php phtml ex exs eex heex erl hrl elm hs lhs ml mli re rei rkt scm lisp el ss sml dart pas pp ada
    adb ads f f90 f95 for cob sol move cairo asm s wat cu glsl hlsl wgsl vert frag metal sv svh vhd vhdl tcl
    sh bash zsh fish ps1 psm1 psd1 bat cmd awk sed nu
    sql psql ddl graphql gql proto thrift avsc prisma tf hcl nix bzl bazel cmake mk mak make just dockerfile
    ejs hbs mustache jinja jinja2 j2 njk liquid pug haml slim tmpl tpl template example sample dist
    diff patch log lock editorconfig gitignore gitattributes gitmodules dockerignore npmignore eslintrc prettierrc
    babelrc nvmrc feature robot http rest
    """.split()
)
_BROKEN_SHARE = 0.02  # an old Latin-1 text in a Western language has less than this of letters that are no UTF-8


def has_text_name(path: str) -> bool:
    name = path.rpartition("/")[2]
    return "." not in name[1:] or name.rpartition(".")[2].casefold() in _ENDINGS


def decode_text(data: bytes) -> str | None:
    """The bytes as text, odd ones as U+FFFD; None when it is no text."""
    if b"\0" in data:
        return None
    text = data.decode("utf-8-sig", "replace").replace("\r\n", "\n")
    return text if text.count("\ufffd") <= max(len(text) * _BROKEN_SHARE, 4) else None
