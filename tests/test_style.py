"""The words of memdir: phrases and names that read like a translation are counted, and may not become more.

A hit is a place to look, not a verdict: `LIMIT` leaves room for quotations and for words that mean what they say.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

from loads import ROOT
from tables import read_rows, table

ROWS = read_rows("style")
LIMIT = 1_950  # 250 when every package is reworded
PROSE = ROWS["PROSE"]
DOCSTRING = re.compile(r"\s*(?:What|Who|Where|Which|Why|How|Those)\b")
NAMES = {"at", *"found given kept told said meant wanted ran made done taken seen held put shown".split()}
# Prompts have their own voice, the log quotes, and the references are generated from the code.
SKIPPED = ("models/prompts", "docs/log.md", "docs/api.md", "docs/cli.md", "CHANGELOG", "NOTICE", "/static/")


def list_prose(path: str, text: str) -> Iterator[tuple[int, str]]:
    """Yield line and text of comments, strings, Markdown outside code, and text of templates."""
    if path.endswith(".py"):
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type in (tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", -1)):
                yield token.start[0], token.string
        return
    is_code = False
    for number, line in enumerate(text.splitlines(), 1):
        if path.endswith(".md") and line.lstrip().startswith(("```", "~~~")):
            is_code = not is_code
        elif not is_code:
            yield number, re.sub(r"`[^`]*`|\{[%{#].*?[%}#]\}|<[^>]*>", " ", line)


def list_names(tree: ast.AST) -> Iterator[ast.Name]:
    """Yield the names that loops, comprehensions and assignments bind."""
    for node in ast.walk(tree):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.For | ast.comprehension | ast.NamedExpr):
            targets = [node.target]
        for target in targets:
            yield from (name for name in ast.walk(target) if isinstance(name, ast.Name))


def find_hits(path: str, text: str) -> Iterator[str]:
    for line, prose in list_prose(path, text):
        for rule, pattern in PROSE.items():
            for _ in re.finditer(pattern, prose, re.MULTILINE):
                yield f"{path}:{line} {rule}"
    if not path.endswith(".py"):
        return
    tree = ast.parse(text)
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)
    for node in (node for node in ast.walk(tree) if isinstance(node, kinds)):
        if DOCSTRING.match(ast.get_docstring(node) or ""):
            yield f"{path}:{getattr(node, 'lineno', 1)} docstring: begin with the verb"
    yield from (
        f"{path}:{name.lineno} name {name.id}: say what it holds" for name in list_names(tree) if name.id in NAMES
    )


def list_files() -> Iterator[Path]:
    for folder, pattern in (("src", "*.py"), ("src", "*.html"), ("docs", "*.md")):
        yield from sorted((ROOT / folder).rglob(pattern))
    yield from sorted(ROOT.glob("*.md"))


def test_the_words_stay_plain() -> None:
    paths = {path.relative_to(ROOT).as_posix(): path for path in list_files()}
    hits = [
        hit
        for path, file in paths.items()
        if not any(part in f"/{path}" for part in SKIPPED)
        for hit in find_hits(path, file.read_text(encoding="utf-8"))
    ]
    assert len(hits) <= LIMIT, f"{len(hits)} places, at most {LIMIT}:\n" + "\n".join(hits)


@table("path text", ROWS["a_planted_phrase_is_seen"])
def test_a_planted_phrase_is_seen(path: str, text: str) -> None:
    assert list(find_hits(path, text))
