"""Secrets in text: found before it is kept, named by rule and place, never repeated.

    find_secrets(text)      what is in it and where
    mask(text, findings)    the text with the values taken out
    holds_token(text)       only whether there is a token or key that tells what it is by its shape

The rooms: records; folding makes the readings (NFKC, pieces put together, percent, base64); likeness judges values;
formats is the table of vendors' tokens, contexts and prose know secrets by what stands around them; scanning puts them
together; own reads a person's own rules. Nothing here touches a network, and nothing but `own` a file.

What it does not do: prove that a secret is alive, know one that looks like an ordinary word, or see through encryption,
two levels of encoding, letters of other alphabets that look alike, or pictures.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from memdir.errors import SettingsError
from memdir.frozen import dataclass
from memdir.project.settings import Environment, read_config
from memdir.store.secret_rules import CLOUDS, SERVICES
from memdir.store.secret_text import (
    AllowedValue,
    FoldedText,
    SecretFinding,
    SecretMatch,
    SecretRule,
    decode_base64,
    decode_percent,
    find_base64,
    find_dense,
    find_mask,
    find_placed,
    find_told,
    fold_text,
    is_published,
    join_pieces,
    measure_bits,
    measure_mixing,
)

__all__ = [
    "find_secrets",
    "holds_token",
    "mask",
    "render_findings",
]


# --- formats ---
# Tokens that tell what they are by their shape, as their vendors document it. Tables; nothing is matched here.
#
# A prefix alone is never enough: it must be followed by as many characters as the vendor gives out. Identifiers that
# open
# nothing by themselves (account numbers, publishable keys) are not in it.

_W = "[A-Za-z0-9_-]"

_KEYS = (
    SecretRule(
        "private-key",
        "a private key",
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?=[^-]{0,300}?[A-Za-z0-9+/]{30})"
        r"[^-]{30,20000}+(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----)?",
        ("private key",),
        inside=True,
    ),
    SecretRule(
        "private-key",
        "a PuTTY private key",
        r"PuTTY-User-Key-File-[23]: [^\n]{1,60}(?:\n[ \t>]{0,20}(?:[A-Za-z0-9-]{3,20}: [^\n]{0,200}"
        r"|[A-Za-z0-9+/=]{1,76}))*+",
        ("putty-user-key-file",),
        inside=True,
    ),
)
# A signed token: header and claims in base64 of JSON. Its header is read before it counts.
JWT = SecretRule(
    "jwt", "a signed token (JWT)", f"eyJ{_W}{{14,1000}}\\.eyJ{_W}{{14,8000}}(?:\\.{_W}{{10,2000}})?", (".eyj",), 3.0
)

FORMATS: tuple[SecretRule, ...] = (*_KEYS, *CLOUDS, *SERVICES, JWT)


# --- scanning ---
# The rules over every reading of a text, and what is left of their hits. Pure.
#
# Shapes of tokens are looked for in all readings; what depends on the words around it only where these stand as
# written.
# Of two hits on the same place the one of the more particular rule is kept.

_LEFT = r"(?<![A-Za-z0-9_])(?:"
_RIGHT = r")(?![A-Za-z0-9_-])"
# Those that may have blanks in them need the whole text; all others show in its long runs.
_WIDE = tuple(rule for rule in FORMATS if rule.inside)
_DENSE = tuple(rule for rule in FORMATS if not rule.inside)
# What a match in joined text must mix at least: words that happen to stand together do not.
_JOINED_MIXING = 0.25


def find_hits(text: str, extra: Sequence[SecretRule] = (), *, tokens_only: bool = False) -> Iterator[SecretMatch]:
    """Every hit, placed in the text as it was given; they may overlap, the more particular ones come first."""
    folded = fold_text(text)
    yield from _place(folded, _find_plain(folded.text, extra, tokens_only=tokens_only))
    joined = join_pieces(folded.text)
    if joined is not None:
        yield from _place(folded, _place(joined, _find_joined(joined)))
    decoded = decode_percent(folded.text)
    if decoded is not None:
        again = fold_text(decoded.text)
        hits = _find_plain(again.text, extra, tokens_only=tokens_only)
        yield from _place(folded, _place(decoded, _place(again, hits)))
    for start, end, said in find_base64(folded.text):
        inner = next(_find_plain(fold_text(said).text, extra, tokens_only=tokens_only), None)
        if inner is not None:
            yield from _place(folded, [SecretMatch(inner.rule, f"{inner.what}, in base64", start, end)])


def keep_apart(hits: Iterable[SecretMatch]) -> list[SecretMatch]:
    """Of hits that overlap the first; the rest in the order of the text."""
    ordered = sorted(enumerate(hits), key=lambda at: (at[1].start, at[0]))
    apart: list[tuple[int, SecretMatch]] = []
    for rank, hit in ordered:
        while apart and apart[-1][1].end > hit.start and apart[-1][0] > rank:
            apart.pop()
        if not apart or apart[-1][1].end <= hit.start:
            apart.append((rank, hit))
    return [hit for _, hit in apart]


def _find_plain(text: str, extra: Sequence[SecretRule], *, tokens_only: bool) -> Iterator[SecretMatch]:
    low = _lower(text)
    yield from _match(text, low, extra)
    yield from _match(text, low, _WIDE)
    dense = find_dense(text)
    yield from _place(dense, _match(dense.text, _lower(dense.text), _DENSE))
    if not tokens_only:
        yield from find_placed(text, low)
        yield from find_told(text, low, dense)


def _match(text: str, low: str, rules: Sequence[SecretRule]) -> Iterator[SecretMatch]:
    for rule in rules:
        if not rule.hints or any(hint in low for hint in rule.hints):
            for match in _compile(rule, joined=False).finditer(text):
                yield from _judge(rule, match)


def _find_joined(reading: FoldedText) -> Iterator[SecretMatch]:
    low = _lower(reading.text)
    for rule in _DENSE:
        if any(hint in low for hint in rule.hints):
            for match in _compile(rule, joined=True).finditer(reading.text):
                for hit in _judge(rule, match):
                    if _is_joined(reading, match.start(), hit):
                        yield SecretMatch(hit.rule, f"{hit.what}, in pieces", hit.start, hit.end)


def _is_joined(reading: FoldedText, start: int, hit: SecretMatch) -> bool:
    """Whether a match goes over a joint, begins and ends where a piece does, and is no row of words."""
    text, end = reading.text, hit.end
    if not reading.has_joint(start, end) or not (
        _is_edge(text[start - 1 : start]) or reading.has_joint(start - 1, start + 1)
    ):
        return False
    if not (_is_edge(text[end : end + 1]) or reading.has_joint(end - 1, end + 1)):
        return False
    value = text[hit.start : end]
    if value.isupper():  # in base32 digits are few
        return any(at.isdigit() for at in value)
    return measure_mixing(value[len(value) // 4 :]) >= _JOINED_MIXING


def _is_edge(at: str) -> bool:
    return not (at.isalnum() or at == "_")


def _lower(text: str) -> str:
    low = text.lower()
    if len(low) != len(text):  # a few letters grow in lower case; places must stay the same
        low = "".join(at if len(at.lower()) != 1 else at.lower() for at in text)
    return low


def _judge(rule: SecretRule, match: re.Match[str]) -> Iterator[SecretMatch]:
    group = "value" if match.re.groupindex.get("value") and match["value"] else 0
    value = match[group]
    if not rule.inside and (find_mask(value) or measure_bits(value) < rule.bits):
        return
    if rule.id == "google-api-key" and is_published(value):
        return
    if rule is JWT and not _has_header(value):
        return
    yield SecretMatch(rule.id, rule.what, *match.span(group))


def _has_header(value: str) -> bool:
    said = decode_base64(value.partition(".")[0])
    return said.startswith("{") and said.rstrip().endswith("}") and ('"alg"' in said or '"typ"' in said)


def _place(reading: FoldedText, hits: Iterable[SecretMatch]) -> Iterator[SecretMatch]:
    for hit in hits:
        yield SecretMatch(hit.rule, hit.what, *reading.find_place(hit.start, hit.end))


@cache
def _compile(rule: SecretRule, *, joined: bool) -> re.Pattern[str]:
    return re.compile(rule.pattern if rule.inside or joined else f"{_LEFT}{rule.pattern}{_RIGHT}")


# --- secrets ---


def find_secrets(
    text: str, *, allow: Sequence[AllowedValue] = (), extra: Sequence[SecretRule] = ()
) -> tuple[SecretFinding, ...]:
    """The secrets of a text, in its order. `extra` rules come before the built-in ones; what is allowed is left out."""
    if not text:
        return ()
    hits = keep_apart(find_hits(text, extra))
    breaks = [match.start() for match in _secrets_compile(r"\n").finditer(text)] if hits else []
    return tuple(
        SecretFinding(hit.rule, hit.what, bisect_right(breaks, hit.start - 1) + 1, hit.start, hit.end)
        for hit in hits
        if not any(_allows(at, text, hit) for at in allow)
    )


def holds_token(text: str) -> bool:
    """Whether there is a key or token that tells what it is by its shape, whatever stands around it."""
    return next(find_hits(text, tokens_only=True), None) is not None


def mask(text: str, findings: Iterable[SecretFinding]) -> str:
    """The text with `[masked: rule]` in the place of each value."""
    parts: list[str] = []
    at = 0
    for finding in sorted(findings, key=lambda finding: finding.start):
        if finding.end <= at:
            continue
        if finding.start >= at:
            parts += [text[at : finding.start], f"[masked: {finding.rule}]"]
        at = finding.end
    return "".join([*parts, text[at:]])


def render_findings(findings: Iterable[SecretFinding], *, place: str = "") -> tuple[str, ...]:
    """Each finding in words, for people: what, by which rule, where."""
    where = f" of {place}" if place else ""
    return tuple(f"{at.what} ({at.rule}) in line {at.line}{where}" for at in findings)


def _allows(allow: AllowedValue, text: str, hit: SecretMatch) -> bool:
    if allow.rule and allow.rule != hit.rule:
        return False
    if not allow.on_line:
        return bool(_secrets_compile(allow.pattern).search(text[hit.start : hit.end]))
    start = text.rfind("\n", 0, hit.start) + 1
    end = text.find("\n", hit.start)
    return bool(_secrets_compile(allow.pattern).search(text[start : len(text) if end < 0 else end]))


@cache
def _secrets_compile(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


# --- own ---
# A person's own rules and exceptions: `secrets.toml` beside the config file. Never from a project's committed files.
#
#     [[rule]]
#     id = "acme-token"
#     what = "a token of our gateway"
#     pattern = 'acme_[0-9a-f]{40}'
#
#     [[allow]]
#     pattern = '^demo-'
#     why = "passwords of the public demo"
#     rule = "told-password"        # optional: for that rule only
#     on_line = false               # optional: look at the whole line, not at the value
#
# Whatever cannot be read raises: a rule that is silently missing would be worse than none.

FILE = "secrets.toml"
_RULE = {"id": str, "pattern": str, "what": str, "hints": list, "bits": float}
_ALLOW = {"pattern": str, "why": str, "rule": str, "on_line": bool}


@dataclass(frozen=True, slots=True)
class OwnSecretRules:
    """What a person adds to the built-in rules, and what they let pass."""

    rules: tuple[SecretRule, ...] = ()
    allow: tuple[AllowedValue, ...] = ()


def find_for(environment: Environment, text: str) -> tuple[SecretFinding, ...]:
    """The secrets of a text by the built-in rules and the person's own."""
    own = read_own_rules(environment.config_file.with_name(FILE))
    return find_secrets(text, allow=own.allow, extra=own.rules)


def read_own_rules(path: Path) -> OwnSecretRules:
    """The rules and exceptions of a file, none if there is no such file; raises SettingsError for what is wrong."""
    table = read_config(path)
    for key in table:
        if key not in ("rule", "allow"):
            raise SettingsError(f"{path}: there is no [[{key}]]", key=key, hint="it holds [[rule]] and [[allow]]")
    rules = [_make_rule(row, path) for row in _read_rows(table, "rule", path)]
    return OwnSecretRules(tuple(rules), tuple(_make_allow(row, path) for row in _read_rows(table, "allow", path)))


def _make_rule(row: Mapping[str, object], path: Path) -> SecretRule:
    _check(row, _RULE, ("id", "pattern"), path)
    hints = row.get("hints", ())
    words = tuple(str(at).lower() for at in hints) if isinstance(hints, list) else ()
    bits = row.get("bits", 0.0)
    what = str(row.get("what") or f"what the rule {row['id']} describes")
    pattern = _check_pattern(row["pattern"], path)
    return SecretRule(str(row["id"]), what, pattern, words, float(bits) if isinstance(bits, int | float) else 0.0)


def _make_allow(row: Mapping[str, object], path: Path) -> AllowedValue:
    _check(row, _ALLOW, ("pattern", "why"), path)
    pattern = _check_pattern(row["pattern"], path)
    return AllowedValue(pattern, str(row["why"]), str(row.get("rule", "")), row.get("on_line") is True)


def _read_rows(table: Mapping[str, object], key: str, path: Path) -> list[Mapping[str, object]]:
    rows = table.get(key, [])
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        raise SettingsError(f"{path}: {key} is no list of tables", key=key, hint=f"write [[{key}]], with two brackets")
    return rows


def _check(row: Mapping[str, object], fields: Mapping[str, type], needed: tuple[str, ...], path: Path) -> None:
    for key, value in row.items():
        if key not in fields:
            raise SettingsError(f"{path}: {key} is not known there", key=key, hint=f"known: {', '.join(fields)}")
        if not isinstance(value, int | float if fields[key] is float else fields[key]):
            raise SettingsError(f"{path}: {key} is of the wrong type", key=key, hint="see docs/secrets.md")
    for key in needed:
        if not row.get(key):
            raise SettingsError(f"{path}: a row has no {key}", key=key, hint="see docs/secrets.md")


def _check_pattern(pattern: object, path: Path) -> str:
    try:
        found = re.compile(str(pattern)).search("")
    except (re.error, OverflowError, RecursionError) as error:
        message = f"{path}: a pattern is no regular expression: {error}"
        raise SettingsError(message, key="pattern", hint="quote it with '…', so that \\ stays \\") from None
    if found:
        message = f"{path}: a pattern fits nothing at all, so it would fit everywhere"
        raise SettingsError(message, key="pattern", hint="make it more particular")
    return str(pattern)
