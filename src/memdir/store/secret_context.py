"""Secrets known by what stands around them: after a name such as `db_password =`, in a header, an address or a sentence.

The value may look like anything, so it is judged. Entropy counts how varied its characters are; mixing, how often two
neighbours are of different classes (small, capital, digit, other). Random strings mix in half of their places, words and
names in few: that tells them apart where entropy does not. Pure; linear in the text. The words are in `secret_rules.toml`.

    find_placed(text, low)        assignments, headers, addresses, options, tags
    find_told(text, low, dense)   sentences: "the password is …", "der Schlüssel lautet …", "密码是…"
"""

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import islice, pairwise
from math import log2

from memdir.store.plan import digest_of
from memdir.store.secret_text import FoldedText, SecretMatch, compile_pattern, read_tables

_JUDGED = 200  # characters of a value that are looked at; more of it says nothing new
_WINDOW = 110  # characters of a sentence that are looked at
_TOKENS = 16  # and words
_HEADERS = ("apikey", "api_key", "token")
_CJK_LEADS = "是为為成叫即は:=→を"
_STRIP_LEFT = "\"'`(*[<“”„«‘「『,;:"
_STRIP_RIGHT = "\"'`)*]>“”»’」』.,;:"


def find_placed(text: str, low: str) -> Iterator[SecretMatch]:
    """All matches, the surest first; `low` is the text in lower case."""
    if "://" in text and "@" in text:
        for match in _pattern("contexts", "url").finditer(text):
            value = match["value"]
            if not _is_standin(value) and value != match["user"] and text[match.start() - 1 : match.start()].isalnum():
                yield SecretMatch("url-password", "a password in an address", *match.span("value"))
    if "curl" in low and "-u" in low:
        yield from _find_users(text)
    yield from _find_given(text)
    if "bearer" in low:
        for match in _pattern("contexts", "bearer").finditer(text):
            if _is_random(match["value"], shortest=20):
                yield SecretMatch("bearer-token", "a bearer token", *match.span("value"))
    if " -" in text or "\n-" in text or text.startswith("-"):
        yield from _find_named(text, "option")
    if "</" in text:
        yield from _find_named(text, "tag")


def _find_users(text: str) -> Iterator[SecretMatch]:
    for match in _pattern("contexts", "user").finditer(text):
        if "curl" not in text[max(match.start() - 600, 0) : match.start()]:
            continue
        given = match["given"].replace('"', "").replace("'", "")
        user, _, password = given.partition(":")
        value = (password or (user if given.endswith(":") else "")).removeprefix("{").removesuffix("}")
        if len(value) > 3 and "{" not in value and not _is_standin(value) and not (value.isalpha() and value.islower()):
            yield SecretMatch("curl-password", "a password on a command line", *match.span("given"))


def _find_given(text: str) -> Iterator[SecretMatch]:
    for operator in _pattern("contexts", "operator").finditer(text):
        name, before = _read_name(text, operator.start())
        kind = _name_kind(name)
        match = _pattern("contexts", "value").match(text, operator.end()) if kind else None
        if match is None:
            continue
        group = "quoted" if match["quoted"] else "bare"
        value = match[group].rstrip(".,;:)]}*\\") if group == "bare" else match[group]
        start = match.start(group)
        if not value or match[group].endswith("..."):
            continue
        low = name.lower()
        is_header = low.endswith(("authorization", "-key", "-token", "-auth", "-apikey")) or low in _HEADERS
        if is_header and _is_sent(value, match["scheme"] or "", before):
            yield SecretMatch("auth-header", "a credential in a header", start, start + len(value))
        elif _is_likely(kind, value, is_quoted=group == "quoted"):
            yield _make_match(kind, start, start + len(value))


def _find_named(text: str, key: str) -> Iterator[SecretMatch]:
    for match in _pattern("contexts", key).finditer(text):
        kind = _name_kind(match["name"])
        if kind and _is_likely(kind, match["value"], is_quoted=False):
            yield _make_match(kind, *match.span("value"))


def _make_match(kind: str, start: int, end: int) -> SecretMatch:
    if kind == "password":
        return SecretMatch("assigned-password", "a password given to a name", start, end)
    return SecretMatch("assigned-secret", "a key or token given to a name", start, end)


def _read_name(text: str, end: int) -> tuple[str, str]:
    """The name that ends there, quotes and stars aside, and what stands before it."""
    before = text[max(end - 100, 0) : end].rstrip(" \t").rstrip("*_").rstrip("\"'])`\\")
    match = _pattern("contexts", "name").match(before[::-1])
    return (match.group()[::-1], before[: -match.end()]) if match else ("", "")


def _is_sent(value: str, scheme: str, before: str) -> bool:
    """Whether a header's value is a credential; on a command line that sends it, shorter ones count too."""
    sends = before.rstrip("\"'=").rstrip().endswith(("-H", "--header"))
    if _is_standin(value) or value[0] in "${([*" or not (sends or scheme):
        return False
    if scheme.lower() == "basic" and compile_pattern(r"[A-Za-z0-9+/]{8,}={0,2}").fullmatch(value):
        return True
    return _is_uuid(value) or _is_random(value, shortest=10 if sends else 16)


def _is_likely(kind: str, value: str, *, is_quoted: bool) -> bool:
    is_call = not is_quoted and compile_pattern(r"\{?[A-Za-z_][\w.]*[(\[]").match(value)
    if is_call or "://" in value or _is_standin(value):
        return False
    if kind == "password":
        return " " not in value and (_is_password(value, told=True) or _is_random(value, shortest=10))
    if kind == "key":
        return _is_random(value, shortest=24)
    return _is_random(value) or _is_uuid(value) or (is_quoted and _is_random(value, shortest=12))


def _name_kind(name: str) -> str:
    """What a name promises: a password, a secret, perhaps a key; or nothing."""
    words = [at.lower() for at in _pattern("contexts", "name_words").findall(name) if not at.isdigit()]
    if not words or words[-1] in _words("about") or not _words("open").isdisjoint(words):
        return ""
    bare = "".join(words)
    if words[-1] in _words("passwords") or bare.endswith(("password", "passwd", "pwd", "passwort")):
        return "password"
    if words[-1] in _words("secrets") or bare.endswith(tuple(_words("ends"))):
        return "secret"
    if words[-1] in ("key", "keys"):
        return "secret" if len(words) > 1 and words[-2] in _words("keyed") else "key"
    return ""


def find_told(text: str, low: str, dense: FoldedText) -> Iterator[SecretMatch]:
    """All matches in sentences; `low` is the text in lower case, `dense` its long runs."""
    if any(at in low for at in read_tables()["prose"]["stems"].split()):
        yield from _find_passwords(text, low)
    yield from _find_keys(text, low, dense)
    if "pin" in low or "geheimzahl" in low or "暗証" in low:
        yield from _find_pins(text)
    if "phrase" in low or "frase" in low:
        for match in _pattern("prose", "phrase").finditer(text):
            if set(read_tables()["prose"]["not_phrase"].split()).isdisjoint(match["value"].lower().split()):
                yield SecretMatch("told-password", "a passphrase in a sentence", *match.span("value"))
    for match in _pattern("prose", "pairs").finditer(low):
        if _is_apart(low, match.start(), match.end()):
            yield from _find_pair(text, match.end())


def _find_passwords(text: str, low: str) -> Iterator[SecretMatch]:
    nouns = [at.span() for at in _pattern("prose", "passwords").finditer(low) if _is_apart(low, *at.span())]
    for number, (_, begin) in enumerate(nouns):
        # Up to the next such word: that one speaks for what follows it, and no word is looked at twice.
        end = nouns[number + 1][0] if number + 1 < len(nouns) else len(text)
        window = _cut(text[begin : min(begin + _WINDOW, end)])
        for token in islice(_pattern("contexts", "token").finditer(window), _TOKENS):
            start, value = _strip(token.group(), token.start())
            is_argument = _pattern("values", "argument").match(value)
            if not is_argument and _leads(window[:start]) and _is_password(value, told=True):
                at = begin + start
                yield SecretMatch("told-password", "a password in a sentence", at, at + len(value))
                break


def _find_keys(text: str, low: str, dense: FoldedText) -> Iterator[SecretMatch]:
    """From each long run back: is it made by chance, and does its sentence speak of a key before it?"""
    for run in compile_pattern(r"[!-~]{16,}").finditer(dense.text):
        begin = dense.find_place(run.start(), run.end())[0]
        start, value = _strip(run.group(), begin)
        before = low[max(start - _WINDOW, 0) : start]
        nouns = [at for at in _pattern("prose", "keys").finditer(before) if _is_apart(before, at.start(), at.end())]
        if (
            not nouns
            or _pattern("prose", "public").search(before, 0, nouns[-1].start())
            or _pattern("contexts", "end").search(before, nouns[-1].end() + 2)
        ):
            continue
        since = before[nouns[-1].end() :]
        if nouns[-1].group().isascii() and _pattern("contexts", "given").match(since):
            continue  # an assignment, which `find_placed` judges
        if _is_key(value, since, before):
            yield SecretMatch("told-secret", "a key or token in a sentence", start, start + len(value))


def _is_apart(low: str, start: int, end: int) -> bool:
    """Whether a word stands for itself and not in a name such as `credentials.url`; Chinese and Japanese always do."""
    if low[start] > "\u2e80":
        return True
    left = low[start - 1 : start]
    if (left.isalnum() and left < "\u2e80") or left in ("_", ".", "$"):
        return False
    return not compile_pattern(r"[a-z0-9_]|[./-][a-z0-9_]").match(low, end)


def _is_key(value: str, before: str, context: str) -> bool:
    if (
        "://" in value
        or "/" in value[:2]
        or compile_pattern(r"[\"'<>{}()]").search(value)
        or _pattern("values", "file").search(value)
        or _pattern("values", "open").match(value)
        or _pattern("prose", "not_keys").search(context)
    ):
        return False
    if _is_uuid(value):
        return _leads(before) and not _is_standin(value)
    return _is_random(value, shortest=32 if _is_hex(value) and not _leads(before) else 16)


def _find_pins(text: str) -> Iterator[SecretMatch]:
    for match in _pattern("prose", "pins").finditer(text):
        if not _is_apart(text, match.start(), match.end()):
            continue
        window = _cut(text[match.end() : match.end() + 45])
        for number in compile_pattern(r"(?<![\w.,:/-])\d{4,8}(?![\w:/-]|[.,]\d)").finditer(window):
            if _leads(window[: number.start()]) and not 1900 <= int(number.group()) <= 2100:
                start, end = (match.end() + at for at in number.span())
                yield SecretMatch("told-pin", "a PIN in a sentence", start, end)
                break


def _find_pair(text: str, begin: int) -> Iterator[SecretMatch]:
    window = _cut(text[begin : begin + 70])
    for match in _pattern("contexts", "pair").finditer(window):
        value = match["value"].rstrip(_STRIP_RIGHT)
        if _is_password(value, told=False):
            start = begin + match.start("value")
            yield SecretMatch("told-password", "a name and its password in a sentence", start, start + len(value))
            return


def _leads(before: str) -> bool:
    """Whether what stands before a value says that the value comes now: nothing but signs, or a word like "is"."""
    bare = before.rstrip(" \t\"'`“”„‘’«»「『*(,")
    return not bare.strip(" \t:=*_-") or bare[-1] in _CJK_LEADS or bool(_lead().search(bare.lower()))


def _strip(token: str, start: int) -> tuple[int, str]:
    left = token.lstrip(_STRIP_LEFT)
    return start + len(token) - len(left), left.rstrip(_STRIP_RIGHT)


def _cut(window: str) -> str:
    lead = len(window) - len(window.lstrip(" \t:=*\n"))
    end = _pattern("contexts", "end").search(window, lead)
    return window[: end.start()] if end else window


@cache
def _lead() -> re.Pattern[str]:
    return re.compile(rf"(?<!\w)(?:{_pattern('prose', 'leads').pattern})\Z")


@cache
def _words(key: str) -> frozenset[str]:
    return frozenset(read_tables()["names"][key].split())


@cache
def _pattern(table: str, key: str) -> re.Pattern[str]:
    """A pattern of a table; those of several languages as alternatives."""
    found = read_tables()[table][key]
    return re.compile(found if isinstance(found, str) else "|".join(found))


def measure_bits(value: str) -> float:
    """Shannon's entropy of its characters, in bits for each."""
    counts = Counter(value).values()
    return -sum(n / len(value) * log2(n / len(value)) for n in counts) if value else 0.0


def measure_mixing(value: str) -> float:
    """In which share of its places two neighbours are of different classes."""
    if len(value) < 2:
        return 0.0
    classes = [1 if at.islower() else 2 if at.isupper() else 3 if at.isdigit() else 4 for at in value]
    return sum(a != b for a, b in pairwise(classes)) / (len(value) - 1)


def is_masked(value: str) -> bool:
    """Whether this only stands in for a secret."""
    return bool(_pattern("values", "masks").search(value))


def _is_standin(value: str) -> bool:
    """Whether this is what people write where a secret would be; asked of a value without a known format."""
    value = value[:_JUDGED]
    return is_masked(value) or any(_pattern("values", key).search(value) for key in ("words", "standins"))


def is_published(value: str) -> bool:
    """Whether its owner has made it public."""
    return digest_of(value.encode("utf-8", "replace"))[:16] in read_tables()["values"]["published"].split()


def _is_uuid(value: str) -> bool:
    return bool(_pattern("values", "uuid").fullmatch(value))


def _is_hex(value: str) -> bool:
    return bool(_pattern("values", "hex").fullmatch(value))


def _is_random(value: str, *, shortest: int = 16) -> bool:
    """Whether a value looks as if chance had made it, as keys and tokens do."""
    value = value[:_JUDGED]
    if len(value) < shortest or _is_standin(value) or compile_pattern(r"\s").search(value):
        return False
    bits, mixing = measure_bits(value), measure_mixing(value)
    if _is_hex(value):
        return len(value) >= shortest and bits >= 2.7 and mixing >= 0.1
    if sum(at.isdigit() for at in value) < (2 if len(value) < 32 else 1) and len(value) < 40:
        return False
    if _is_spoken(value):
        return False
    if compile_pattern(r"[A-Z2-7]+").fullmatch(value):  # base32 has few digits
        return bits >= 3.3 and mixing >= 0.15
    return bits >= (3.0 if len(value) < 24 else 3.3) and mixing >= (0.3 if len(value) < 32 else 0.22)


def _is_password(value: str, *, told: bool) -> bool:
    """Whether a word looks chosen as a password: letters with digits or signs, and no name that has such too.

    With `told`, the text says outright that this is one; then names of few letters and a number pass as well.
    """
    if not 5 <= len(value) <= 128 or _is_standin(value):
        return False
    letters = sum(at.isalpha() for at in value)
    digits = sum(at.isdigit() for at in value)
    signs = sum(not at.isalnum() and at not in "-_.'’," for at in value.rstrip("!?@"))
    if (
        letters < 3
        or not (digits or signs)
        or _pattern("values", "code").search(value)
        or _pattern("values", "techniques").fullmatch(value)
    ):
        return False
    return not _pattern("values", "names").fullmatch(value) or (
        told and bool(_pattern("values", "told_name").fullmatch(value))
    )


def _is_spoken(value: str) -> bool:
    """Words put together with `-`, `_`, `.` or capitals: an identifier, whatever its length."""
    words = [at for at in re.split(r"[^A-Za-z0-9]+|(?<=[a-z])(?=[A-Z])", value) if at]
    plain = sum(len(at) for at in words if compile_pattern(r"[A-Z]?[a-z]{2,}|[A-Z]{2,}|\d{1,4}").fullmatch(at))
    return plain * 4 >= 3 * sum(len(at) for at in words)
