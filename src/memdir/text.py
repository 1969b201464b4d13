"""Functions for text: compare names, make text safe to print or store, estimate tokens, find JSON and code in prose,
decode disguised text, and merge two versions.

Pure functions. Patterns are compiled on first use, because every process loads this module.
"""

import json
import re
import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import accumulate

from memdir.errors import FormatError, ReplyError
from memdir.frozen import compile_late, dataclass

# Invisible or direction-changing characters that print as nothing or reorder what follows; shown escaped on a terminal.
_HIDDEN = compile_late(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e0fff]"
)
# The hidden characters below U+E0000 that Python considers printable.
_UNSEEN = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0")
# Characters that no memory needs and that only serve to deceive a terminal, an editor or a model.
_FORBIDDEN = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\U000e0000-\U000e007f](?<!\r)"
_FORBIDDEN_LINES, _FORBIDDEN_INLINE = compile_late(_FORBIDDEN), compile_late(f"[\n\t\r\u2028\u2029]|{_FORBIDDEN}")

_PAIRS = 4_000_000  # max comparisons of pieces: two thousand paragraphs on both sides, a quarter of a second
# A piece and the number of equal pieces before it, so that the second of two equal pieces differs.
_Piece = tuple[str, int]


# Characters of Chinese and Japanese, for use inside a character class.
HIRAGANA = r"\u3040-\u309f"
KATAKANA = r"\u30a0-\u30ff\uff66-\uff9f"
HAN = r"\u3005\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
CJK = f"{HIRAGANA}{KATAKANA}{HAN}"
_WORDS = rf"[{CJK}]|(?:(?![{CJK}])\w)+"
_FOLDED = compile_late(_WORDS)
# A text without any of these signs is not disguised by markup, an entity or a broken word.
_DISGUISES = compile_late(r"[&<_*~`\xad]|[-\u2010\u2011][ \t]*\r?\n")
_TAGS = compile_late(
    r"</?(br|p|div|li|td|tr|h\d)?(?:(?(1)|[A-Za-z][\w-]{0,20}))(?:\s[^<>\n]{0,200})?/?>", re.IGNORECASE
)
_MARKUP = compile_late(r"(?<!\d)[_*~`]+|[_*~`]+(?!\d)")
_HYPHENS = compile_late(r"(\w)[-\xad\u2010\u2011][ \t]*\r?\n[ \t]*(?=\w)")
_MARKS = compile_late("[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]")
# For each Latin letter, the letters of other scripts that look like it, in both cases.
_LATIN = {
    "a": "\u0430\u0410\u03b1\u0391\u0251\u1d00", "b": "\u0412\u0432\u0392\u03b2\u0299\u042c\u044c",
    "c": "\u0441\u0421\u03f2\u03f9\u1d04", "d": "\u0501\u1d05\u0111", "e": "\u0435\u0415\u0454\u03b5\u0395\u1d07",
    "f": "\ua730\u03dd", "g": "\u0261\u0262\u050d", "h": "\u041d\u043d\u04bb\u0397\u029c", "i": "\u0456\u0406\u03b9\u0399\u0131\u026a\u04cf\u04c0",
    "j": "\u0458\u0408\u03f3\u1d0a", "k": "\u043a\u041a\u03ba\u039a\u1d0b", "l": "\u029f\u0142", "m": "\u043c\u041c\u039c\u1d0d",
    "n": "\u03b7\u0274\u039d\u0578", "o": "\u043e\u041e\u03bf\u039f\u1d0f\u0585\u00f8", "p": "\u0440\u0420\u03c1\u03a1\u1d18",
    "q": "\u051b", "r": "\u0433\u0280", "s": "\u0455\u0405\ua731\u057d", "t": "\u0442\u0422\u03c4\u03a4\u1d1b",
    "u": "\u03c5\u1d1c\u057f", "v": "\u0475\u03bd\u1d20", "w": "\u051d\u03c9\u1d21", "x": "\u0445\u0425\u03c7\u03a7",
    "y": "\u0443\u0423\u03b3\u03a5\u028f\u04af", "z": "\u0396\u1d22",
}  # fmt: skip
LOOKALIKES = {ord(sign): plain for plain, signs in _LATIN.items() for sign in signs}
_FOLDED_SIGNS = compile_late(rf"{_WORDS}|[^\w\s.,;:!?…。、，；：！？\"'’‘“”„«»「」()*`]|!(?==)")


def fold(name: str) -> str:
    """Normalise a name for comparison: NFKC, then case folding.

    All characters are kept, because a file system or a person may distinguish names by any of them.
    """
    return name.lower() if name.isascii() else unicodedata.normalize("NFKC", name).casefold()


def fold_link(name: str) -> str:
    """Normalise a `[[link]]` for comparison as `fold` does, treating `_`, `-` and space as equal."""
    return re.sub(r"[\s_-]+", "-", fold(name)).strip("-")


def fold_words(text: str, *, signs: bool = False) -> str:
    """Return the normalised words of a text: NFKC, without case, punctuation, markup, accents and invisible characters.

    Texts are compared in this form, so that a disguised word equals the plain one: entities are decoded, tags and `_`
    inside a word dropped, look-alike letters replaced, and words broken at a line end joined. Each Chinese or Japanese
    character is a word. With `signs`, accents, tags and signs that change the meaning are kept: `x < 5` is not `x > 5`.
    """
    if _DISGUISES.search(text):
        # Imported here: few texts contain an entity, and the table is large.
        import html

        text = html.unescape(html.unescape(text)) if "&" in text else text
        text = text if signs else _TAGS.sub(lambda tag: " " if tag[1] else "", text)
        text = _HYPHENS.sub(r"\1", _MARKUP.sub("", text))
    if not text.isascii():
        text = fold_text(text).text.translate(LOOKALIKES)
        text = text if signs else _MARKS.sub("", unicodedata.normalize("NFD", text))
    return " ".join((_FOLDED_SIGNS if signs else _FOLDED).findall(fold(text)))


def printable(text: str) -> str:
    """Return text with every control, hidden or direction-changing character escaped, except newline and tab."""
    return text if _is_plain(text) else _HIDDEN.sub(_escape, text)


def one_line(text: str) -> str:
    """Return printable text with each run of white space as one space."""
    return printable(" ".join(text.split()))


def shorten(text: str, width: int) -> str:
    """Return text of at most `width` characters, cut at a word if possible, with an ellipsis if it was cut."""
    if len(text) <= width:
        return text
    cut = text[: max(width - 1, 0)]
    space = cut.rfind(" ")
    return (cut[:space] if space > width // 2 else cut).rstrip(" ,;:.-–—") + "…"


def shorten_home(path: str, home: object) -> str:
    """Return a path with `~` in place of the home directory."""
    start = f"{str(home).rstrip('/')}/"
    return f"~/{path.removeprefix(start)}" if path.startswith(start) and start != "/" else path


def cut_middle(text: str, chars: int, mark: str = "[{:,} characters are left out here]") -> str:
    """Replace the middle of a long text by `mark`, because requests and errors are at the beginning or the end."""
    half = chars // 2
    mark = mark.format(len(text) - 2 * half)
    return text if len(text) <= chars else f"{text[:half]}\n{mark}\n{text[-half:]}"


def replace_surrogates(text: str) -> str:
    """Replace surrogates, so that the text can be encoded as UTF-8."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def find_forbidden(text: str, *, lines: bool) -> str:
    """Return a name for the first character that may not be stored (control, surrogate, tag, direction override), or ""."""
    match = (_FORBIDDEN_LINES if lines else _FORBIDDEN_INLINE).search(text)
    return f"the character U+{ord(match.group()):04X}" if match else ""


def check_text(text: str, field: str) -> None:
    if forbidden := find_forbidden(text, lines=field == "body"):
        raise FormatError(f"the {field} contains {forbidden}", field=field, hint="remove the character and save again")


def _is_plain(text: str) -> bool:
    """Return whether a quick check proves that the text contains no hidden character."""
    bare = text.replace("\n", "").replace("\t", "")
    if not bare.isprintable():
        return False
    return bare.isascii() or (max(bare) < "\U000e0000" and _UNSEEN.isdisjoint(bare))


def _escape(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


# --- code -----------------------------------------------------------------------------------------------------------

# A fence can be in quotations and list items at any depth. A line with further backticks is a code span, not a fence.
_FENCE = compile_late(
    r"^[ \t>]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)*(`{3,}+(?=[^`\n]*$)|~{3,}+)[ \t]*([^\s`]*)[^\n]*"
    r"(?:\n((?s:.*?))^[ \t>]*\1[`~]*[ \t\r]*(?:\n|\Z)|\n?((?s:.*)))",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class CodeFence:
    """A fenced code block: `start` to `end` includes the fence lines, `inner` to `inner_end` excludes them."""

    start: int
    inner: int
    inner_end: int
    end: int
    mark: str
    language: str
    is_closed: bool


def find_fences(text: str) -> tuple[CodeFence, ...]:
    """Return the fenced blocks of code in Markdown; an unclosed block extends to the end of the text."""
    return tuple(map(_make_fence, _FENCE.finditer(text))) if "```" in text or "~~~" in text else ()


def match_fence(text: str, start: int) -> CodeFence | None:
    """Return the fenced code block that begins at the offset `start`, or None."""
    match = _FENCE.match(text, start)
    return _make_fence(match) if match else None


def _make_fence(match: re.Match[str]) -> CodeFence:
    is_closed = match[3] is not None
    return CodeFence(match.start(), *match.span(3 if is_closed else 4), match.end(), match[1], match[2], is_closed)


def list_lines(text: str) -> Iterator[tuple[str, CodeFence | None]]:
    """Yield the lines of a text without newlines, each with the code block that contains it."""
    fences = iter(find_fences(text))
    fence, start = next(fences, None), 0
    for line in text.split("\n"):
        if fence and fence.is_closed and start >= fence.end:
            fence = next(fences, None)
        yield line, fence if fence and start >= fence.start else None
        start += len(line) + 1


def find_code_spans(text: str) -> tuple[tuple[int, int], ...]:
    """Return the contents of code spans: from a run of backticks to the next run of the same length."""
    runs = [match.span() for match in re.finditer("`+", text)]
    closing: list[int | None] = [None] * len(runs)
    latest: dict[int, int] = {}
    for number in range(len(runs) - 1, -1, -1):
        length = runs[number][1] - runs[number][0]
        closing[number], latest[length] = latest.get(length), number
    spans, number = list[tuple[int, int]](), 0
    while number < len(runs):
        if (end := closing[number]) is not None:
            spans.append((runs[number][1], runs[end][0]))
            number = end
        number += 1
    return tuple(spans)


def blank_fences(text: str, sign: str = " ") -> str:
    """Overwrite fenced code blocks with `sign`, keeping the length and lines of the text."""
    return _FENCE.sub(lambda match: re.sub(r"[^\n]", sign, match[0]), text)


# --- tokens ---------------------------------------------------------------------------------------------------------
# No tokenizer is loaded: words are counted by their length, digits in threes, runs of signs, line breaks and indents,
# and the characters of Chinese, Japanese, Korean and Cyrillic; each kind has a weight. Long words cost more in other
# Latin languages than in English, so the commonest little words tell how English a text is.
#
# The weights were fitted to o200k, a tokenizer that ships in a package, on one half of 200 texts in seven languages
# (`benchmarks/tokens.py`). On the other half the error is 5 % in the median and 13 % at the 90th percentile; all texts
# together are 3 % too low. Claude's own tokenizer does not ship in any package and counts differently, so the
# error against it is not known: the number is an estimate.

MEDIAN_ERROR, TAIL_ERROR = 0.06, 0.14  # maximum errors that a test allows over all 200 texts
WHOLE_CHARS = 30_000  # in a longer text, 30 evenly spaced pieces are counted
_PIECES = 30

_ENGLISH = frozenset(
    """
    the of and to in is it that for on with as are be this not or by from at an was you a i no if we but so one what
    when which will can has have there all its their your
    """.split()
)
_OTHER = frozenset(
    """
    der die das und ist nicht ein eine einen dem den des für mit auf im zu von wir ich sich bei aus als nach wird werden
    sind war auch nur noch wenn le la les du et une est pour que dans pas sur au aux ce qui ne se plus par il elle nous
    vous je en un avec sont el los las una por con para lo más como es y del al
    """.split()
)
_WORD = compile_late(r"[A-ZÀ-ÖØ-ÞŒ]?[a-zß-öø-ÿœ]+|[A-ZÀ-ÖØ-ÞŒ]+(?![a-zß-öø-ÿœ])")
_ACCENT = compile_late(r"[À-ÖØ-öø-ÿœŒ]")
_HAN, _KANA = compile_late("[\u3400-\u9fff\uf900-\ufaff]"), compile_late("[\u3040-\u30ff]")
# Patterns with the tokens of a match and of each further character in it. All but the first six match no ASCII.
_ASCII_COSTS = 6
_COSTS = tuple(
    (compile_late(pattern), first, further)
    for pattern, first, further in (
        (r"[!-/:-@\[-`{-~]+", 0.90, 0.23),
        (r"[A-Z]{2,}", 0, 0.09),
        (r"[0-9]{1,3}", 1.10, 0),
        (r" (?=[0-9])", 1.09, 0),
        (r"(?<![!-/:-@\[-`{-~\n])\n+", 0.68, 0),  # a break after a sign is part of the sign's token
        (r"  +", 0.68, 0),
        ("[\uac00-\ud7af]", 0.90, 0),
        ("[\u3000-\u303f\uff00-\uffef]", 0.78, 0),
        ("[\u2000-\u2bff]", 1.20, 0),
        ("[\u0400-\u04ff]+", 0.82, 0.22),
        ("[\u0100-\u0151\u0154-\u03ff\u0500-\u1fff\ua000-\uabff\ufb00-\ufeff\U00010000-\U0010ffff]", 0.80, 0),
    )
)


def estimate_tokens(text: str) -> int:
    if len(text) <= WHOLE_CHARS:
        return max(1, round(_count_tokens(text))) if text else 0
    size, step = WHOLE_CHARS // _PIECES, len(text) // _PIECES
    sample = "".join(text[number * step : number * step + size] for number in range(_PIECES))
    return round(_count_tokens(sample) * len(text) / len(sample))


def _count_tokens(text: str) -> float:
    count = _count_word_tokens(text)
    for pattern, first, further in _COSTS[: _ASCII_COSTS if text.isascii() else None]:
        matches = pattern.findall(text)
        count += first * len(matches) + (further * (sum(map(len, matches)) - len(matches)) if further else 0)
    if text.isascii():
        return count
    han, kana = len(_HAN.findall(text)), len(_KANA.findall(text))
    # The same characters take more tokens in Japanese, which is recognised by its kana.
    return count + han * (0.75 + 0.23 * min(1.0, 4 * kana / (han + kana + 1))) + 0.64 * kana


def _count_word_tokens(text: str) -> float:
    words = _WORD.findall(text)
    english = sum(map(_ENGLISH.__contains__, words))
    other = sum(map(_OTHER.__contains__, words)) + (0 if text.isascii() else 0.5 * len(_ACCENT.findall(text)))
    foreign = other / (english + other + 1)
    lengths = Counter(map(len, words))
    as_english = 0.84 * len(words) + 0.11 * _count_letters_beyond(lengths, 4) + 0.25 * _count_letters_beyond(lengths, 8)
    as_other = 0.88 * len(words) + 0.15 * _count_letters_beyond(lengths, 3)
    return (1 - foreign) * as_english + foreign * as_other


def _count_letters_beyond(lengths: Counter[int], limit: int) -> int:
    return sum((length - limit) * count for length, count in lengths.items() if length > limit)


# --- JSON -----------------------------------------------------------------------------------------------------------

_OPENING = compile_late(r"[{\[]")


def parse_json(data: str | bytes) -> object:
    """Return the value of a JSON text, or None if it is not valid."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def as_table(value: object) -> Mapping[str, object]:
    """Return the value if it is a mapping, else an empty mapping."""
    return value if isinstance(value, Mapping) else {}


def as_list(value: object) -> Sequence[object]:
    """Return the value if it is a list or tuple, else an empty tuple."""
    return value if isinstance(value, list | tuple) else ()


def as_text(value: object) -> str:
    """Return the value if it is a string, else ""."""
    return value if isinstance(value, str) else ""


def find_json(text: str) -> Iterator[object]:
    """Yield every outermost JSON object or list in a text, whether in prose, in a fence or alone."""
    decoder = json.JSONDecoder()
    offset = 0
    while match := _OPENING.search(text, offset):
        try:
            value, offset = decoder.raw_decode(text, match.start())
            yield value
        except ValueError:
            offset = match.end()
        except RecursionError:
            return  # retrying at every bracket would take minutes


def find_rows(text: str, key: str) -> list[object]:
    """Return the JSON list in a model's reply, alone or under `key` in an object; raises ReplyError if none."""
    values = list(find_json(text))
    for value in values:
        rows = value.get(key) if isinstance(value, dict) else value
        if isinstance(rows, list):
            return rows
    if not values:
        raise ReplyError(f"there is no JSON in {shorten(one_line(text), 60)!r}" if text.strip() else "it is empty")
    raise ReplyError(f'the JSON has no list "{key}"')


# --- readings: other forms of a text, in which disguised words are plain ----------------------------------------------
# A reading is the text folded (NFKC, without invisible characters), dense (only its long runs), or decoded from percent
# signs. Each maps its characters to their offsets in the text it was made from. All take linear time.

Span = tuple[int, int]
# Characters that print as nothing, or only mark where a word may be broken.
_INVISIBLE = frozenset("\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u3164\ufeff\uffa0")
_SHORTEST = 13  # characters of the shortest token with a known format
_RUN = compile_late(rf"[!-~]{{{_SHORTEST},}}+")
_PERCENT = compile_late(r"(?:%[0-9A-Fa-f]{2})++")


@dataclass(frozen=True, slots=True)
class FoldedText:
    """A text derived from another. `pieces` map offsets: the start here, and the start and length in the other text."""

    text: str
    here: tuple[int, ...] = (0,)
    there: tuple[int, ...] = (0,)
    lengths: tuple[int, ...] = (-1,)  # in the other text; -1: character by character

    def find_place(self, start: int, end: int) -> Span:
        return self._find_original(start)[0], self._find_original(max(end - 1, start))[1]

    def _find_original(self, offset: int) -> Span:
        piece = bisect_right(self.here, offset) - 1
        begin, length = self.there[piece], self.lengths[piece]
        if length >= 0:
            return begin, begin + length
        return begin + offset - self.here[piece], begin + offset - self.here[piece] + 1


def fold_text(text: str) -> FoldedText:
    """Fold to NFKC by character, without invisible characters."""
    used = set(text)
    odd = {char: folded for char in used if char > "\x7f" and (folded := _fold(char)) != char}
    odd.update((char, "") for char in used if char < " " and char not in "\t\n\r")
    if not odd:
        return FoldedText(text)
    pattern = re.compile("[" + "".join(map(re.escape, odd)) + "]")
    return _rebuild(text, ((*match.span(), odd[match.group()]) for match in pattern.finditer(text)))


def find_dense(text: str) -> FoldedText:
    """Return only the character runs that are long enough for a token, one per line."""
    return _assemble(
        piece for match in _RUN.finditer(text) for piece in ((match.start(), -1, match[0]), (match.end(), -1, "\n"))
    )


def decode_percent(text: str) -> FoldedText | None:
    """Decode one level of percent-encoding, such as %41, or return None if there is none."""
    matches = list(_PERCENT.finditer(text)) if "%" in text else []
    decoded = [bytes.fromhex(match.group().replace("%", "")).decode("utf-8", "replace") for match in matches]
    return _rebuild(text, [(*one.span(), new) for one, new in zip(matches, decoded, strict=True)]) if matches else None


def _rebuild(text: str, changes: Iterable[tuple[int, int, str]]) -> FoldedText:
    pieces: list[tuple[int, int, str]] = []
    offset = 0
    for start, end, new in (*changes, (len(text), len(text), "")):
        pieces += [(offset, -1, text[offset:start]), (start, end - start, new)]
        offset = end
    return _assemble(pieces)


def _assemble(pieces: Iterable[tuple[int, int, str]]) -> FoldedText:
    """Build a text from pieces of offset and length in the original, and replacement text."""
    visible = [piece for piece in pieces if piece[2]] or [(0, -1, "")]
    there, lengths, parts = zip(*visible, strict=True)
    here = accumulate((len(part) for part in parts[:-1]), initial=0)
    return FoldedText("".join(parts), tuple(here), there, lengths)


@cache
def _fold(char: str) -> str:
    if char in _INVISIBLE or "\ufe00" <= char <= "\ufe0f" or unicodedata.category(char) in ("Cf", "Cc", "Cs"):
        return ""
    return unicodedata.normalize("NFKC", char)


# --- merge two versions of a text with a common base -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MergedUnits:
    """The merged pieces, and the pieces of the base that both sides changed differently."""

    pieces: tuple[str, ...]
    clashes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Edits:
    """The edits of one side: removed base pieces, pieces added before a base piece, and replacements of one."""

    gone: frozenset[int]
    added: dict[int, tuple[_Piece, ...]]
    changed: dict[int, tuple[_Piece, ...]]  # empty if the piece was only removed


def merge_units(base: Sequence[str], one: Sequence[str], other: Sequence[str], *, pairs: int = _PAIRS) -> MergedUnits:
    """Merge the edits of both sides into the base, less precisely if there are more than `pairs` to compare."""
    if tuple(one) == tuple(base) or tuple(one) == tuple(other):
        return MergedUnits(tuple(other))
    if tuple(other) == tuple(base):
        return MergedUnits(tuple(one))
    old = _number_pieces(base)
    first, second = _find_edits(old, _number_pieces(one), pairs), _find_edits(old, _number_pieces(other), pairs)
    # A piece a side has more often than the base is newly written: the other's removal does not apply to it.
    counts = [Counter(pieces_of) for pieces_of in (base, one, other)]
    rewritten = {text for text in {*one, *other} if max(counts[1][text], counts[2][text]) > counts[0][text]}
    # A piece that one side only moved is not new there, so the other's removal applies.
    in_both = {*_number_pieces(one)} & {*_number_pieces(other)}
    dead = {piece for piece in old if piece not in in_both and piece[0] not in rewritten}
    # A dictionary, because a piece that both sides added occurs once, wherever they added it.
    pieces: dict[_Piece, None] = {}
    for position in range(len(old) + 1):
        low, high = sorted((first.added.get(position, ()), second.added.get(position, ())))
        pieces |= dict.fromkeys(piece for piece in (*low, *high) if piece not in dead)
        is_kept = position not in first.gone and position not in second.gone
        if position < len(old) and (is_kept or base[position] in rewritten):
            pieces[old[position]] = None
    clashes = [base[position] for position in _find_clashes(first, second)]
    return MergedUnits(tuple(text for text, _ in pieces), tuple(clashes))


def _number_pieces(pieces: Sequence[str]) -> list[_Piece]:
    counts: Counter[str] = Counter()
    numbered = []
    for piece in pieces:
        numbered.append((piece, counts[piece]))
        counts[piece] += 1
    return numbered


def _find_edits(base: Sequence[_Piece], side: Sequence[_Piece], pairs: int) -> _Edits:
    gone: set[int] = set()
    added: dict[int, tuple[_Piece, ...]] = {}
    changed: dict[int, tuple[_Piece, ...]] = {}
    is_small = len(base) * len(side) <= pairs
    # Imported here: only a sync of two changed files needs it.
    from difflib import SequenceMatcher

    steps = SequenceMatcher(None, base, side, autojunk=False).get_opcodes() if is_small else _compare_ends(base, side)
    for tag, low, high, start, end in steps:
        if tag == "equal":
            continue
        if end > start:
            added[low] = tuple(side[start:end])
        gone.update(range(low, high))
        changed |= dict.fromkeys(range(low, high), tuple(side[start:end]))
    return _Edits(frozenset(gone), added, changed)


def _compare_ends(base: Sequence[_Piece], side: Sequence[_Piece]) -> list[tuple[str, int, int, int, int]]:
    """Return opcodes like a SequenceMatcher, treating everything between the common start and end as one change."""
    shorter = min(len(base), len(side))
    low = next((offset for offset in range(shorter) if base[offset] != side[offset]), shorter)
    tail = next((offset for offset in range(shorter - low) if base[-1 - offset] != side[-1 - offset]), shorter - low)
    return [("replace", low, len(base) - tail, low, len(side) - tail)]


def _find_clashes(first: _Edits, second: _Edits) -> list[int]:
    known: dict[tuple[int, int], bool] = {}  # cached: neighbours are often replaced together
    both = sorted(first.gone & second.gone)
    for one, other in ((first.changed[position], second.changed[position]) for position in both):
        if (id(one), id(other)) not in known:
            # If one contains all of the other, they do not conflict.
            is_part = set(one) <= set(other) or set(other) <= set(one)
            known[id(one), id(other)] = not is_part or (not one) != (not other)
    return [position for position in both if known[id(first.changed[position]), id(second.changed[position])]]
