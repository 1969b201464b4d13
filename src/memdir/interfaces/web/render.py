"""Render Markdown, diffs, highlights and times as HTML or text. All input is untrusted, so it is escaped or sanitised.

Markdown is rendered without raw HTML and images, then sanitised with an allow-list. Hidden and direction-changing
characters are shown as escapes, because they could disguise the text.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from difflib import SequenceMatcher
from functools import cache, lru_cache
from html import escape
from urllib.parse import quote

import nh3
from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

from memdir.format.document import parse_document
from memdir.frozen import dataclass
from memdir.recall.terms import parse_terms
from memdir.text import fold, printable, shorten
from memdir.verify.records import CheckedClaim, ClaimStatus

SHOWN_BYTES = 65_536  # The part of a memory that is rendered; the source shows all of it.
_CONTEXT = 3  # Unchanged lines around a change.
_TAGS = set(
    "p a code pre em strong s blockquote ul ol li h1 h2 h3 h4 h5 h6 table thead tbody tr th td br hr span mark".split()
)
_ATTRIBUTES = {"a": {"href"}}
_CLASSES = {"claim", "ok", "bad", "dim"}
_LINK = re.compile(r"\[\[([^\[\]\n|]{1,200})(?:\|([^\[\]\n]{1,200}))?\]\]")
_WORD_OR_SIGNS = re.compile(r"([\w./_-]*\w)|[^\w./_-]+|[./_-]")


@dataclass(frozen=True, slots=True)
class DiffLine:
    """A line of a diff: `sign` is empty, + or −; `html` marks the changed words."""

    number: int
    sign: str
    html: Markup


@dataclass(frozen=True, slots=True)
class TextBlock:
    """A rendered paragraph or sentence of a memory, with its folded sentences and its span in the file."""

    html: Markup
    sentences: tuple[str, ...]
    start: int
    end: int
    claims: tuple[CheckedClaim, ...] = ()


@cache
def _make_parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "linkify": False, "typographer": False, "maxNesting": 20})
    parser.enable(["table", "strikethrough"]).disable("image")
    return parser


def render_markdown(
    text: str, *, claims: Sequence[CheckedClaim] = (), links: Mapping[str, str] | None = None
) -> Markup:
    """Return safe HTML with `claims` marked; `links` maps folded names of memories to URLs."""
    parser = _make_parser()
    tokens = parser.parse(printable(text[:SHOWN_BYTES]))
    for token in tokens:
        if token.children:
            token.children = list(_change_children(token.children, claims, links or {}))
    html = parser.renderer.render(tokens, parser.options, {})
    own = set((links or {}).values())  # Other relative URLs could lead to our own pages.
    clean = nh3.clean(
        html,
        tags=_TAGS,
        attributes=_ATTRIBUTES,
        allowed_classes={"code": _CLASSES, "span": _CLASSES},
        url_schemes={"http", "https", "mailto"},
        url_relative=lambda url: url if url in own else None,
        link_rel="noopener noreferrer nofollow",
    )
    return Markup(clean)


def _change_children(
    tokens: Iterable[Token], claims: Sequence[CheckedClaim], links: Mapping[str, str]
) -> Iterator[Token]:
    """Yield the tokens with claims marked and `[[links]]` resolved; an unresolved link stays text."""
    inside = 0
    for token in tokens:
        inside += token.nesting if token.type in ("link_open", "link_close") else 0
        if token.type == "code_inline":
            claim = next((one for one in claims if one.claim.text and one.claim.text in token.content), None)
            if claim is not None:
                token.attrSet("class", f"claim {_find_css_class(claim)}".strip())
            yield token
        elif token.type == "text" and not inside:
            yield from _split_links(token.content, links)
        else:
            yield token


def _split_links(text: str, links: Mapping[str, str]) -> Iterator[Token]:
    end = 0
    for match in _LINK.finditer(text):
        target = links.get(fold(match[1].strip().removesuffix(".md")))
        if target is None:
            continue
        yield _make_text_token(text[end : match.start()])
        yield Token("link_open", "a", 1, attrs={"href": target})
        yield _make_text_token((match[2] or match[1]).strip())
        yield Token("link_close", "a", -1)
        end = match.end()
    yield _make_text_token(text[end:])


def _make_text_token(content: str) -> Token:
    return Token("text", "", 0, content=content)


def _find_css_class(checked: CheckedClaim) -> str:
    return "bad" if checked.is_stale else "ok" if checked.status is ClaimStatus.PRESENT else ""


def split_blocks(
    text: str, claims: Sequence[CheckedClaim], links: Mapping[str, str], *, limit: int = SHOWN_BYTES
) -> tuple[TextBlock, ...]:
    """Split the body of a memory into blocks, and plain paragraphs into sentences."""
    document = parse_document(text)
    blocks = []
    for begin, end, is_plain in _find_blocks(text[document.start :][:limit]):
        low, high = document.start + begin, document.start + end
        sentences = [sentence for sentence in document.sentences if low <= sentence.start < high]
        # A block begins with a label such as **Why:**; closing emphasis marks stay with the sentence before them.
        leads = {sentence.part: max(low, sentence.part.start) for sentence in reversed(sentences)}
        starts = [leads.pop(sentence.part, sentence.start) for sentence in sentences] if is_plain else []
        starts = [low, *starts[1:]]
        for first, last in zip(starts, [*starts[1:], high], strict=True):
            inside = tuple(checked for checked in claims if first <= checked.claim.start < last)
            html = render_markdown(text[first:last], claims=inside, links=links)
            folded = tuple(fold(sentence.text) for sentence in sentences if first <= sentence.start < last)
            blocks.append(TextBlock(html, folded, first, last, inside))
    return tuple(blocks)


def _find_blocks(body: str) -> Iterator[tuple[int, int, bool]]:
    """Yield the span of each top-level Markdown block, and whether it is a plain paragraph."""
    lines = body.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    for token in _make_parser().parse(body):
        if token.level == 0 and token.map and token.nesting >= 0:
            low, high = token.map
            if low < len(lines):
                yield starts[low], starts[min(high, len(lines))], token.type == "paragraph_open"


def mark_words(text: str, words: Iterable[str]) -> Markup:
    """Return plain text as HTML with every grammatical form of these words marked."""
    marked = {term for word in words for term in parse_terms(word)}

    def mark(match: re.Match[str]) -> str:
        word = escape(match[0])
        return f"<mark>{word}</mark>" if len(match[0]) > 2 and marked.intersection(parse_terms(match[0])) else word

    return Markup(_WORD_OR_SIGNS.sub(lambda match: mark(match) if match[1] else escape(match[0]), printable(text)))


def mark_block(text: str, other: str) -> Markup:
    """Return a block of plain text with the words marked that another text also contains."""
    return Markup('<pre class="wrap">{}</pre>').format(mark_words(text, [other]))


def render_diff(before: str, after: str, *, context: int = _CONTEXT, most: int = 400) -> tuple[DiffLine, ...]:
    """Return the changed lines with context; `number` 0 and an empty sign mark a gap."""
    old, new = printable(before).splitlines(), printable(after).splitlines()
    lines: list[DiffLine] = []
    groups = SequenceMatcher(None, old, new, autojunk=len(old) > 2_000).get_grouped_opcodes(context)
    for number, group in enumerate(groups):
        if number:
            lines.append(DiffLine(0, "", Markup("…")))
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                lines += [DiffLine(i1 + n + 1, "", Markup(escape(line))) for n, line in enumerate(old[i1:i2])]
                continue
            removed, added = old[i1:i2], new[j1:j2]
            if len(removed) == len(added):
                pairs = [_mark_changes(one, other) for one, other in zip(removed, added, strict=True)]
            else:
                pairs = []
            lines += [
                DiffLine(i1 + n + 1, "−", pairs[n][0] if pairs else Markup(escape(line)))
                for n, line in enumerate(removed)
            ]
            lines += [
                DiffLine(j1 + n + 1, "+", pairs[n][1] if pairs else Markup(escape(line)))
                for n, line in enumerate(added)
            ]
        if len(lines) > most:
            return (*lines[:most], DiffLine(0, "", Markup("… and more")))
    return tuple(lines)


def _mark_changes(old: str, new: str) -> tuple[Markup, Markup]:
    left, right = (re.findall(r"\s+|\w+|[^\w\s]", text) for text in (old, new))
    matcher = SequenceMatcher(None, left, right, autojunk=False)
    if len(left) * len(right) > 250_000 or matcher.ratio() < 0.4:
        return Markup(escape(old)), Markup(escape(new))
    marked: tuple[list[str], list[str]] = ([], [])
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        for parts, words, name in ((marked[0], left[i1:i2], "del"), (marked[1], right[j1:j2], "ins")):
            text = escape("".join(words))
            parts.append(text if tag == "equal" or not text else f"<{name}>{text}</{name}>")
    return Markup("".join(marked[0])), Markup("".join(marked[1]))


def show_ago(at: datetime | None, now: datetime) -> str:
    """Return a short age: seconds, 4 min, 2 hours, 3 days, 5 months."""
    if at is None:
        return "never"
    seconds = max(0, int((now - at).total_seconds()))
    for size, word in ((365 * 86400, "year"), (60 * 86400, ""), (86400, "day"), (3600, "hour"), (60, "min")):
        if seconds >= size:
            count = seconds // (30 * 86400 if not word else size)
            name = word or "month"
            return f"{count} {name}" if name == "min" else f"{count} {name}{'' if count == 1 else 's'}"
    return "seconds"


def show_time(at: datetime | None, now: datetime) -> str:
    """Return a readable local time: today, 09:12; 3 Nov, 17:20; 3 Nov 2025."""
    if at is None:
        return "never"
    local, today = at.astimezone(), now.astimezone()
    if local.date() == today.date():
        return f"today, {local:%H:%M}"
    if local.year == today.year:
        return f"{local.day} {local:%b}, {local:%H:%M}"
    return f"{local.day} {local:%b %Y}"


def show_day(at: datetime, now: datetime) -> str:
    local = at.astimezone()
    name = "Today" if local.date() == now.astimezone().date() else f"{local:%A}"
    return f"{name}, {local.day} {local:%B}" + ("" if local.year == now.astimezone().year else f" {local.year}")


def show_size(count: int) -> str:
    return f"{count} bytes" if count < 1_000 else f"{count / 1000:.1f} KB" if count < 1e6 else f"{count / 1e6:.1f} MB"


def quote_path(name: str) -> str:
    return quote(name, safe="/")


def mark_code(text: str) -> Markup:
    """Return one line of plain text with `words` in backticks as code."""
    parts = escape(plain(text)).split("`")
    return Markup("".join(f"<code>{part}</code>" if number % 2 else part for number, part in enumerate(parts)))


def plain(text: object, width: int = 0) -> str:
    """Return untrusted text as one line without hidden characters."""
    line = printable(" ".join(str(text).split()))
    return shorten(line, width) if width else line


# Icons and pictures.


@lru_cache(64)
def icon(name: str) -> Markup:
    return Markup(f'<svg class="i" aria-hidden="true"><use href="#{escape(name)}"/></svg>')


@lru_cache(64)
def kind(name: str) -> Markup:
    inner = " no type" if name == "none" else f"{icon(name)} {escape(name)}"
    return Markup(f'<span class="kind">{inner}</span>')


def find_words(texts: Iterable[str]) -> dict[str, str]:
    """Map each search term to its most common spelling in the texts."""
    counters: dict[str, Counter[str]] = {}
    for text in texts:
        for word in dict.fromkeys(token.strip(".,;:!?()[]\"'`").lower() for token in text.split()):
            for term in parse_terms(word):
                counters.setdefault(term, Counter())[word] += 1
    return {term: counts.most_common(1)[0][0] for term, counts in counters.items()}
