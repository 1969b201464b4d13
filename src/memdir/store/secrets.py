"""Find secrets in text before it is stored; they are reported by rule and position, never repeated.

    find_secrets(text)        return the rule and position of each secret
    open_finder(environment)  return a function that also applies the user's own rules and exceptions
    mask(text, findings)      return the text without the values
    holds_token(text)         return only whether it contains a token or key with a known format

Secrets are searched in the normalised text (`text.fold_text`), and in its percent-decoded and base64-decoded forms. Of
overlapping matches, the one with the more specific rule is kept.

It does not recognise secrets that look like ordinary words, nor those hidden by encryption, two levels of encoding,
look-alike letters of other alphabets, or pictures.
"""

import re
from binascii import a2b_base64
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice, pairwise
from math import log2
from pathlib import Path
from typing import Any

from memdir.errors import SettingsError
from memdir.format.frontmatter import digest_of
from memdir.frozen import dataclass, replace
from memdir.project.settings import Environment, read_config
from memdir.records import Model, Reply, Request
from memdir.text import FoldedText, decode_percent, find_dense, fold_text

_TABLES_FILE = Path(__file__).with_name("secret_rules.toml")


@dataclass(frozen=True, slots=True)
class SecretRule:
    """A secret format. `pattern` matches the value, or the value with its context if it has a group named `value`.

    The text must contain one of `hints` (lower case). `bits` is the minimum entropy per character. Unless `inside` is true,
    a match must not be part of a longer word.
    """

    id: str
    what: str
    pattern: str
    hints: tuple[str, ...] = ()
    bits: float = 0.0
    inside: bool = False


@dataclass(frozen=True, slots=True)
class AllowedValue:
    """A value that is not a secret although a rule matches, and why. `rule` limits it to one rule.

    The pattern is searched in the value or, with `on_line`, in the line in which the value begins.
    """

    pattern: str
    why: str
    rule: str = ""
    on_line: bool = False


@dataclass(frozen=True, slots=True)
class SecretFinding:
    """The rule, description and position of a secret in a text, without its value.

    Lines count from 1. `line` is set once a match in decoded text has been mapped to the original text.
    """

    rule: str
    what: str
    start: int
    end: int
    line: int = 0


_EXAMINED_CHARS = 200  # characters of a value that are examined
_WINDOW = 110  # characters of a sentence that are examined
_TOKENS = 16  # words of a sentence that are examined
_HEADERS = ("apikey", "api_key", "token")
_CJK_INTRODUCTIONS = "是为為成叫即は:=→を"
_STRIP_LEFT = "\"'`(*[<“”„«‘「『,;:"
_STRIP_RIGHT = "\"'`)*]>“”»’」』.,;:"
# The user's own rules and exceptions, next to the config file; never from a project's committed files.
FILE = "secrets.toml"
_LEFT = r"(?<![A-Za-z0-9_])(?:"
_RIGHT = r")(?![A-Za-z0-9_-])"
_BASE64 = (
    r"(?<![A-Za-z0-9+/_-])(?:[A-Za-z0-9+/_-]{20,20000}+={0,2}(?!\r?\n)"
    r"|(?:[A-Za-z0-9+/]{60,76}\r?\n[ \t>]{0,40}+){1,400}+[A-Za-z0-9+/]{0,76}+={0,2}|[A-Za-z0-9+/_-]{20,20000}+={0,2})"
)


@dataclass(frozen=True, slots=True)
class OwnSecretRules:
    """The user's additions to the built-in rules, and the values they allow."""

    rules: tuple[SecretRule, ...] = ()
    allow: tuple[AllowedValue, ...] = ()


_RULE = {"id": str, "pattern": str, "what": str, "hints": list, "bits": float}
_ALLOW = {"pattern": str, "why": str, "rule": str, "on_line": bool}


@cache
def _read_tables() -> dict[str, Any]:
    import tomllib  # imported here because most processes do not scan for secrets

    return tomllib.loads(_TABLES_FILE.read_text(encoding="utf-8"))


@cache
def compile_pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def find_secrets(
    text: str, *, allow: Sequence[AllowedValue] = (), extra: Sequence[SecretRule] = (), most: int | None = None
) -> tuple[SecretFinding, ...]:
    """Return the secrets in a text, in order, without allowed values. `extra` rules precede the built-in rules, and
    `most` limits the number of matches."""
    if not text:
        return ()
    matches = _drop_overlaps(islice(_find_matches(text, extra), most))
    breaks = [newline.start() for newline in compile_pattern(r"\n").finditer(text)] if matches else []
    return tuple(
        replace(finding, line=bisect_right(breaks, finding.start - 1) + 1)
        for finding in matches
        if not any(_allows(allowed, text, finding) for allowed in allow)
    )


def find_new_secrets(
    text: str, before: str, find: Callable[[str], Sequence[SecretFinding]] | None = None
) -> list[SecretFinding]:
    """Return the secrets in a text that `before` does not contain. `find` defaults to the built-in rules."""
    find = find or find_secrets
    known = {before[finding.start : finding.end] for finding in find(before)} if before else set()
    return [finding for finding in find(text) if text[finding.start : finding.end] not in known]


def open_finder(environment: Environment, *, forgive: bool = False) -> Callable[[str], tuple[SecretFinding, ...]]:
    """Return a function that finds secrets using the built-in rules and the user's own, which are read immediately.

    Raises SettingsError if the user's rules cannot be read. With `forgive`, unreadable rules are ignored instead.
    """
    own = OwnSecretRules()
    try:
        own = read_own_rules(environment.config_file.with_name(FILE))
    except SettingsError:
        if not forgive:
            raise
    return lambda text: find_secrets(text, allow=own.allow, extra=own.rules)


def holds_token(text: str) -> bool:
    """Return whether a text contains a key or token with a known format, regardless of context."""
    return next(_find_matches(text, tokens_only=True), None) is not None


def render_advice(name: str) -> str:
    """Return what to do about a secret in the user's own memory."""
    where = f"`memdir edit {name}` to say where it is kept instead"
    return (
        f"its file has it, prompts do not get it; {where}, `memdir forget {name} --purge` to erase it from history too"
    )


def mask(text: str, findings: Iterable[SecretFinding]) -> str:
    parts: list[str] = []
    offset = 0
    for finding in sorted(findings, key=lambda finding: finding.start):
        if finding.end <= offset:
            continue
        if finding.start >= offset:
            parts += [text[offset : finding.start], f"[masked: {finding.rule}]"]
        offset = finding.end
    return "".join([*parts, text[offset:]])


def mask_model(model: Model) -> Model:
    """Wrap a model so that secrets in memdir's own requests are masked; requests of a host are not changed."""

    def ask(request: Request) -> Reply:
        texts = (
            one if one.raw else replace(one, text=mask(one.text, find_secrets(one.text))) for one in request.messages
        )
        return model(replace(request, messages=tuple(texts)))

    return ask


def render_findings(findings: Iterable[SecretFinding], *, place: str = "") -> tuple[str, ...]:
    """Return a line of text for each finding, with its description, rule and position."""
    where = f" of {place}" if place else ""
    return tuple(f"{finding.what} ({finding.rule}) in line {finding.line}{where}" for finding in findings)


@cache
def read_rules() -> tuple[SecretRule, ...]:
    rows = [{"bits": 0.0 if row.get("inside") else 2.0, **row} for row in _read_tables()["rules"]]
    return tuple(SecretRule(**{**row, "hints": tuple(row["hints"])}) for row in rows)


@cache
def _list_rules(*, inside: bool) -> tuple[SecretRule, ...]:
    """Return the rules with this value of `inside`. Rules with `inside` are matched against the full text."""
    return tuple(rule for rule in read_rules() if rule.inside is inside)


def _find_matches(text: str, extra: Sequence[SecretRule] = (), *, tokens_only: bool = False) -> Iterator[SecretFinding]:
    """Yield all matches with their positions in `text`, more specific rules first; matches may overlap."""
    folded = fold_text(text)
    dense, decoded = find_dense(folded.text), decode_percent(folded.text)
    yield from _map_back(folded, _find_in_text(folded.text, dense, extra, tokens_only=tokens_only))
    if decoded is not None:
        again = fold_text(decoded.text)
        matches = _find_in_text(again.text, find_dense(again.text), extra, tokens_only=tokens_only)
        yield from _map_back(folded, _map_back(decoded, _map_back(again, matches)))
    for start, end, decoded_text in _find_base64(folded.text):
        inside = fold_text(decoded_text).text
        inner = next(_find_in_text(inside, find_dense(inside), extra, tokens_only=tokens_only), None)
        if inner is not None:
            yield from _map_back(folded, [SecretFinding(inner.rule, f"{inner.what}, in base64", start, end)])


def _drop_overlaps(matches: Iterable[SecretFinding]) -> list[SecretFinding]:
    ordered = sorted(enumerate(matches), key=lambda ranked: (ranked[1].start, ranked[0]))
    apart: list[tuple[int, SecretFinding]] = []
    for rank, match in ordered:
        while apart and apart[-1][1].end > match.start and apart[-1][0] > rank:
            apart.pop()
        if not apart or apart[-1][1].end <= match.start:
            apart.append((rank, match))
    return [match for _, match in apart]


def _find_in_text(
    text: str, dense: FoldedText, extra: Sequence[SecretRule], *, tokens_only: bool
) -> Iterator[SecretFinding]:
    low = _lower(text)
    yield from _match_rules(text, low, extra)
    yield from _match_rules(text, low, _list_rules(inside=True))
    yield from _map_back(dense, _match_rules(dense.text, _lower(dense.text), _list_rules(inside=False)))
    if not tokens_only:
        yield from _find_contextual(text, low)
        yield from _find_in_prose(text, low, dense)


def _match_rules(text: str, low: str, rules: Sequence[SecretRule]) -> Iterator[SecretFinding]:
    for rule in rules:
        if not rule.hints or any(hint in low for hint in rule.hints):
            pattern = rule.pattern if rule.inside else f"{_LEFT}{rule.pattern}{_RIGHT}"
            for match in compile_pattern(pattern).finditer(text):
                yield from _check_match(rule, match)


def _lower(text: str) -> str:
    low = text.lower()
    if len(low) != len(text):  # keep letters whose lower case is longer, because positions must stay the same
        low = "".join(char if len(char.lower()) != 1 else char.lower() for char in text)
    return low


def _check_match(rule: SecretRule, match: re.Match[str]) -> Iterator[SecretFinding]:
    group = "value" if match.re.groupindex.get("value") and match["value"] else 0
    value = match[group]
    if not rule.inside and (_is_masked(value) or _measure_entropy(value) < rule.bits):
        return
    if rule.id == "google-api-key":
        published = _read_tables()["values"]["published"].split()
        if digest_of(value.encode("utf-8", "replace"))[:16] in published:
            return
    if rule.id == "jwt":
        header = _decode_base64(value.partition(".")[0])
        if not (header.startswith("{") and header.rstrip().endswith("}") and ('"alg"' in header or '"typ"' in header)):
            return
    yield SecretFinding(rule.id, rule.what, *match.span(group))


def _find_base64(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and decoded text of each base64 run that encodes text."""
    for match in compile_pattern(_BASE64).finditer(text):
        run = match.group()
        decoded = "" if run.islower() or run.isupper() else _decode_base64(compile_pattern(r"[\s>]+").sub("", run))
        if decoded:
            yield match.start(), match.end(), decoded


def _decode_base64(run: str) -> str:
    """Decode a run of standard or URL-safe base64; return "" if the result is not text."""
    bare = run.rstrip("=").replace("-", "+").replace("_", "/")
    if len(bare) % 4 == 1:
        return ""
    try:
        text = a2b_base64(bare + "=" * (-len(bare) % 4)).decode("utf-8")
    except ValueError:
        return ""
    odd = sum(1 for char in text if char < " " and char not in "\t\n\r")
    return text if odd * 20 <= len(text) else ""


def _map_back(reading: FoldedText, matches: Iterable[SecretFinding]) -> Iterator[SecretFinding]:
    positions = ((match, *reading.find_place(match.start, match.end)) for match in matches)
    return (replace(match, start=start, end=end) for match, start, end in positions)


def _allows(allow: AllowedValue, text: str, match: SecretFinding) -> bool:
    if allow.rule and allow.rule != match.rule:
        return False
    start, end = match.start, match.end
    if allow.on_line:
        start = text.rfind("\n", 0, match.start) + 1
        end = text.find("\n", match.start)
        end = len(text) if end < 0 else end
    return bool(compile_pattern(allow.pattern).search(text[start:end]))


def read_own_rules(path: Path) -> OwnSecretRules:
    """Return the [[rule]] and [[allow]] rows of a file (see docs/secrets.md); there are none if it is missing.

    Raises SettingsError for any error, so that no rule is silently ignored.
    """
    table = read_config(path)
    for key in table:
        if key not in ("rule", "allow"):
            raise SettingsError(f"{path}: unknown table [[{key}]]", key=key, hint="use [[rule]] and [[allow]]")
    rules = []
    for row in _read_rows(table, "rule", path, _RULE, ("id", "pattern")):
        hints, bits = row.get("hints", ()), row.get("bits", 0.0)
        what = str(row.get("what") or f"a match of the rule {row['id']}")
        words = tuple(str(hint).lower() for hint in hints) if isinstance(hints, list) else ()
        entropy = float(bits) if isinstance(bits, int | float) else 0.0
        rules.append(SecretRule(str(row["id"]), what, _check_pattern(row["pattern"], path), words, entropy))
    allow = []
    for row in _read_rows(table, "allow", path, _ALLOW, ("pattern", "why")):
        pattern = _check_pattern(row["pattern"], path)
        allow.append(AllowedValue(pattern, str(row["why"]), str(row.get("rule", "")), row.get("on_line") is True))
    return OwnSecretRules(tuple(rules), tuple(allow))


def _read_rows(
    table: Mapping[str, object], name: str, path: Path, fields: Mapping[str, type], needed: tuple[str, ...]
) -> Iterator[Mapping[str, object]]:
    rows = table.get(name, [])
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        raise SettingsError(
            f"{path}: {name} is not a list of tables", key=name, hint=f"write [[{name}]] with two brackets"
        )
    for row in rows:
        for key, value in row.items():
            if key not in fields:
                raise SettingsError(f"{path}: unknown key {key}", key=key, hint=f"use {', '.join(fields)}")
            if not isinstance(value, int | float if fields[key] is float else fields[key]):
                raise SettingsError(f"{path}: {key} has the wrong type", key=key, hint="see docs/secrets.md")
        for key in needed:
            if not row.get(key):
                raise SettingsError(f"{path}: a row lacks {key}", key=key, hint="see docs/secrets.md")
        yield row


def _check_pattern(pattern: object, path: Path) -> str:
    try:
        match = re.compile(str(pattern)).search("")
    except (re.error, OverflowError, RecursionError) as error:
        message = f"{path}: invalid regular expression: {error}"
        raise SettingsError(message, key="pattern", hint="quote it with '…' to keep backslashes") from None
    if match:
        message = f"{path}: a pattern matches the empty text"
        raise SettingsError(message, key="pattern", hint="make it more specific")
    return str(pattern)


# --- secrets recognised by their context: a name such as `db_password =`, a header, a URL or a sentence ---------------
# Such a value has no fixed format, so its randomness is measured in two ways: the entropy of its characters, and how
# often adjacent characters have different classes (lower case, upper case, digit, other). Random strings change class
# at every second character, words and names rarely. The search takes linear time. The words are in `secret_rules.toml`.
#
#     _find_contextual(text, low)        assignments, headers, URLs, options, tags
#     _find_in_prose(text, low, dense)   sentences: "the password is …", "der Schlüssel lautet …", "密码是…"


def _find_contextual(text: str, low: str) -> Iterator[SecretFinding]:
    """Yield secrets recognised by a name, header, URL, option or tag, surest first. `low` is the lower-case text."""
    if "://" in text and "@" in text:
        for match in _pattern("contexts", "url").finditer(text):
            value = match["value"]
            if not _is_dummy(value) and value != match["user"] and text[match.start() - 1 : match.start()].isalnum():
                yield SecretFinding("url-password", "a password in a URL", *match.span("value"))
    if "curl" in low and "-u" in low:
        yield from _find_curl_passwords(text)
    yield from _find_arguments(text, low)
    yield from _find_assigned(text)
    if "bearer" in low:
        for match in _pattern("contexts", "bearer").finditer(text):
            if _is_random(match["value"], shortest=20):
                yield SecretFinding("bearer-token", "a bearer token", *match.span("value"))
    if " -" in text or "\n-" in text or text.startswith("-"):
        yield from _find_named_values(text, "option")
    if "</" in text:
        yield from _find_named_values(text, "tag")


def _find_curl_passwords(text: str) -> Iterator[SecretFinding]:
    for match in _pattern("contexts", "user").finditer(text):
        if "curl" not in text[max(match.start() - 600, 0) : match.start()]:
            continue
        argument = match["given"].replace('"', "").replace("'", "")
        user, _, password = argument.partition(":")
        value = (password or (user if argument.endswith(":") else "")).removeprefix("{").removesuffix("}")
        if len(value) > 3 and "{" not in value and not _is_dummy(value) and not (value.isalpha() and value.islower()):
            yield SecretFinding("curl-password", "a password on a command line", *match.span("given"))


def _find_arguments(text: str, low: str) -> Iterator[SecretFinding]:
    """Yield passwords that a program takes as an argument, whatever they look like."""
    for command in _read_tables()["contexts"]["commands"]:
        if any(hint in low for hint in command["hints"]):
            for lead in compile_pattern(command["pattern"]).finditer(text):
                match = _pattern("contexts", "argument").match(text, lead.end())
                if match and not _is_dummy(match["value"]):
                    yield SecretFinding("command-password", "a password on a command line", *match.span("value"))


def _find_assigned(text: str) -> Iterator[SecretFinding]:
    for operator in _pattern("contexts", "operator").finditer(text):
        name, before = _read_name(text, operator.start())
        kind = _classify_name(name)
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
        if is_header and _is_credential(value, match["scheme"] or "", before):
            yield SecretFinding("auth-header", "a credential in a header", start, start + len(value))
        elif _is_likely(kind, value, is_quoted=group == "quoted"):
            yield _make_match(kind, start, start + len(value))


def _find_named_values(text: str, key: str) -> Iterator[SecretFinding]:
    for match in _pattern("contexts", key).finditer(text):
        kind = _classify_name(match["name"])
        if kind and _is_likely(kind, match["value"], is_quoted=False):
            yield _make_match(kind, *match.span("value"))


def _make_match(kind: str, start: int, end: int) -> SecretFinding:
    if kind == "password":
        return SecretFinding("assigned-password", "a password assigned to a name", start, end)
    return SecretFinding("assigned-secret", "a key or token assigned to a name", start, end)


def _read_name(text: str, end: int) -> tuple[str, str]:
    """Return the variable or field name that ends at `end`, without quotes and asterisks, and the text before it."""
    before = text[max(end - 100, 0) : end].rstrip(" \t").rstrip("*_").rstrip("\"'])`\\")
    match = _pattern("contexts", "name").match(before[::-1])
    return (match.group()[::-1], before[: -match.end()]) if match else ("", "")


def _is_credential(value: str, scheme: str, before: str) -> bool:
    """Return whether a header's value is a credential. After `-H` or `--header`, shorter values count too."""
    sends = before.rstrip("\"'=").rstrip().endswith(("-H", "--header"))
    if _is_dummy(value) or value[0] in "${([*" or not (sends or scheme):
        return False
    if scheme.lower() == "basic" and compile_pattern(r"[A-Za-z0-9+/]{8,}={0,2}").fullmatch(value):
        return True
    return _is_uuid(value) or _is_random(value, shortest=10 if sends else 16)


def _is_likely(kind: str, value: str, *, is_quoted: bool) -> bool:
    is_call = not is_quoted and compile_pattern(r"\{?[A-Za-z_][\w.]*[(\[]").match(value)
    if is_call or "://" in value or _is_dummy(value):
        return False
    if kind == "password":
        return " " not in value and (_is_password(value, told=True) or _is_random(value, shortest=10))
    if kind == "key":
        return _is_random(value, shortest=24)
    return _is_random(value) or _is_uuid(value) or (is_quoted and _is_random(value, shortest=12))


def _classify_name(name: str) -> str:
    """Return the kind of secret that a variable name suggests: "password", "secret", "key" or ""."""
    words = [word.lower() for word in _pattern("contexts", "name_words").findall(name) if not word.isdigit()]
    if not words or words[-1] in _list_name_words("about") or not _list_name_words("open").isdisjoint(words):
        return ""
    bare = "".join(words)
    if words[-1] in _list_name_words("passwords") or bare.endswith(("password", "passwd", "pwd", "passwort")):
        return "password"
    if words[-1] in _list_name_words("secrets") or bare.endswith(tuple(_list_name_words("ends"))):
        return "secret"
    if words[-1] in ("key", "keys"):
        return "secret" if len(words) > 1 and words[-2] in _list_name_words("keyed") else "key"
    return ""


def _find_in_prose(text: str, low: str, dense: FoldedText) -> Iterator[SecretFinding]:
    if any(stem in low for stem in _read_tables()["prose"]["stems"].split()):
        yield from _find_passwords(text, low)
    yield from _find_keys(text, low, dense)
    if "pin" in low or "geheimzahl" in low or "暗証" in low:
        yield from _find_pins(text)
    if "phrase" in low or "frase" in low:
        for match in _pattern("prose", "phrase").finditer(text):
            if set(_read_tables()["prose"]["not_phrase"].split()).isdisjoint(match["value"].lower().split()):
                yield SecretFinding("told-password", "a passphrase in a sentence", *match.span("value"))
    for match in _pattern("prose", "pairs").finditer(low):
        if _is_word(low, match.start(), match.end()):
            yield from _find_password_after_name(text, match.end())


def _find_passwords(text: str, low: str) -> Iterator[SecretFinding]:
    nouns = [noun.span() for noun in _pattern("prose", "passwords").finditer(low) if _is_word(low, *noun.span())]
    for number, (_, begin) in enumerate(nouns):
        # Stop at the next noun, so that no text is examined twice.
        end = nouns[number + 1][0] if number + 1 < len(nouns) else len(text)
        window = _cut_sentence(text[begin : min(begin + _WINDOW, end)])
        for token in islice(_pattern("contexts", "token").finditer(window), _TOKENS):
            start, value = _strip_punctuation(token.group(), token.start())
            is_argument = _pattern("values", "argument").match(value)
            if not is_argument and _introduces(window[:start]) and _is_password(value, told=True):
                start += begin
                yield SecretFinding("told-password", "a password in a sentence", start, start + len(value))
                break


def _find_keys(text: str, low: str, dense: FoldedText) -> Iterator[SecretFinding]:
    """Yield long random strings that follow the mention of a key in the same sentence."""
    for run in compile_pattern(r"[!-~]{16,}").finditer(dense.text):
        begin = dense.find_place(run.start(), run.end())[0]
        start, value = _strip_punctuation(run.group(), begin)
        before = low[max(start - _WINDOW, 0) : start]
        nouns = [noun for noun in _pattern("prose", "keys").finditer(before) if _is_word(before, *noun.span())]
        if (
            not nouns
            or _pattern("prose", "public").search(before, 0, nouns[-1].start())
            or _pattern("contexts", "end").search(before, nouns[-1].end() + 2)
        ):
            continue
        since = before[nouns[-1].end() :]
        if nouns[-1].group().isascii() and _pattern("contexts", "given").match(since):
            continue  # `_find_contextual` checks assignments
        if _is_key(value, since, before):
            yield SecretFinding("told-secret", "a key or token in a sentence", start, start + len(value))


def _is_word(low: str, start: int, end: int) -> bool:
    """Return whether a word stands alone, not in a name such as `credentials.url`. CJK words always do."""
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
        return _introduces(before) and not _is_dummy(value)
    return _is_random(value, shortest=32 if _is_hex(value) and not _introduces(before) else 16)


def _find_pins(text: str) -> Iterator[SecretFinding]:
    for match in _pattern("prose", "pins").finditer(text):
        if not _is_word(text, match.start(), match.end()):
            continue
        window = _cut_sentence(text[match.end() : match.end() + 45])
        for number in compile_pattern(r"(?<![\w.,:/-])\d{4,8}(?![\w:/-]|[.,]\d)").finditer(window):
            if _introduces(window[: number.start()]) and not 1900 <= int(number.group()) <= 2100:
                start, end = (match.end() + offset for offset in number.span())
                yield SecretFinding("told-pin", "a PIN in a sentence", start, end)
                break


def _find_password_after_name(text: str, begin: int) -> Iterator[SecretFinding]:
    window = _cut_sentence(text[begin : begin + 70])
    for match in _pattern("contexts", "pair").finditer(window):
        value = match["value"].rstrip(_STRIP_RIGHT)
        if _is_password(value, told=False):
            start = begin + match.start("value")
            yield SecretFinding("told-password", "a name and its password in a sentence", start, start + len(value))
            return


def _introduces(before: str) -> bool:
    """Return whether the text before a value introduces it: only punctuation, or a word like "is"."""
    bare = before.rstrip(" \t\"'`“”„‘’«»「『*(,")
    lead = compile_pattern(rf"(?<!\w)(?:{_pattern('prose', 'leads').pattern})\Z")
    return not bare.strip(" \t:=*_-") or bare[-1] in _CJK_INTRODUCTIONS or bool(lead.search(bare.lower()))


def _strip_punctuation(token: str, start: int) -> tuple[int, str]:
    left = token.lstrip(_STRIP_LEFT)
    return start + len(token) - len(left), left.rstrip(_STRIP_RIGHT)


def _cut_sentence(window: str) -> str:
    lead = len(window) - len(window.lstrip(" \t:=*\n"))
    end = _pattern("contexts", "end").search(window, lead)
    return window[: end.start()] if end else window


@cache
def _list_name_words(key: str) -> frozenset[str]:
    return frozenset(_read_tables()["names"][key].split())


@cache
def _pattern(table: str, key: str) -> re.Pattern[str]:
    """Compile a pattern from a table; a list of patterns, one per language, is joined as alternatives."""
    patterns = _read_tables()[table][key]
    return re.compile(patterns if isinstance(patterns, str) else "|".join(patterns))


def _measure_entropy(value: str) -> float:
    counts = Counter(value).values()
    return -sum(n / len(value) * log2(n / len(value)) for n in counts) if value else 0.0


def _measure_class_changes(value: str) -> float:
    """Return the share of adjacent character pairs whose characters are of different classes."""
    if len(value) < 2:
        return 0.0
    classes = [1 if char.islower() else 2 if char.isupper() else 3 if char.isdigit() else 4 for char in value]
    return sum(a != b for a, b in pairwise(classes)) / (len(value) - 1)


def _is_masked(value: str) -> bool:
    return bool(_pattern("values", "masks").search(value))


def _is_dummy(value: str) -> bool:
    """Return whether a value without a known format is a placeholder for a secret."""
    value = value[:_EXAMINED_CHARS]
    return _is_masked(value) or any(_pattern("values", key).search(value) for key in ("words", "standins"))


def _is_uuid(value: str) -> bool:
    return bool(_pattern("values", "uuid").fullmatch(value))


def _is_hex(value: str) -> bool:
    return bool(_pattern("values", "hex").fullmatch(value))


def _is_random(value: str, *, shortest: int = 16) -> bool:
    value = value[:_EXAMINED_CHARS]
    if len(value) < shortest or _is_dummy(value) or compile_pattern(r"\s").search(value):
        return False
    bits, mixing = _measure_entropy(value), _measure_class_changes(value)
    if _is_hex(value):
        return len(value) >= shortest and bits >= 2.7 and mixing >= 0.1
    if sum(char.isdigit() for char in value) < (2 if len(value) < 32 else 1) and len(value) < 40:
        return False
    if _is_identifier(value):
        return False
    if compile_pattern(r"[A-Z2-7]+").fullmatch(value):  # base32 has few digits
        return bits >= 3.3 and mixing >= 0.15
    return bits >= (3.0 if len(value) < 24 else 3.3) and mixing >= (0.3 if len(value) < 32 else 0.22)


def _is_password(value: str, *, told: bool) -> bool:
    """Return whether a word looks like a password: letters with digits or signs, but not a name with a number.

    `told`: the text says that it is a password, so short names with a number count too.
    """
    if not 5 <= len(value) <= 128 or _is_dummy(value):
        return False
    letters = sum(char.isalpha() for char in value)
    digits = sum(char.isdigit() for char in value)
    signs = sum(not char.isalnum() and char not in "-_.'’," for char in value.rstrip("!?@"))
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


def _is_identifier(value: str) -> bool:
    """Return whether this is an identifier: words joined by `-`, `_`, `.` or capitals."""
    words = [word for word in re.split(r"[^A-Za-z0-9]+|(?<=[a-z])(?=[A-Z])", value) if word]
    plain = sum(len(word) for word in words if compile_pattern(r"[A-Z]?[a-z]{2,}|[A-Z]{2,}|\d{1,4}").fullmatch(word))
    return plain * 4 >= 3 * sum(len(word) for word in words)
