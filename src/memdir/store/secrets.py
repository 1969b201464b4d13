"""Secrets in text: found before the text is stored, reported by rule and place, never repeated.

    find_secrets(text)      what is in it and where
    find_for(environment, text)   the same with the person's own rules and exceptions
    mask(text, findings)    the text without the values
    holds_token(text)       only whether it contains a token or key with a known format

Formats of tokens are searched in all readings of a text (`secret_text`), what depends on the words around it
(`secret_context`) only where these stand as written. Of overlapping matches the one of the more particular rule is kept.

It does not know a secret that looks like an ordinary word, nor see through encryption, two levels of encoding, letters of
other alphabets that look alike, or pictures.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from memdir.errors import SettingsError
from memdir.frozen import dataclass
from memdir.project.settings import Environment, read_config
from memdir.store import secret_text
from memdir.store.secret_context import find_placed, find_told, is_masked, is_published, measure_bits, measure_mixing
from memdir.store.secret_text import AllowedValue, FoldedText, SecretFinding, SecretMatch, SecretRule, compile_pattern

# A person's own rules and exceptions, beside the config file; never from a project's committed files.
FILE = "secrets.toml"
_LEFT = r"(?<![A-Za-z0-9_])(?:"
_RIGHT = r")(?![A-Za-z0-9_-])"
# What a match in joined text must mix at least: words that happen to stand together do not.
_JOINED_MIXING = 0.25


def find_secrets(
    text: str, *, allow: Sequence[AllowedValue] = (), extra: Sequence[SecretRule] = ()
) -> tuple[SecretFinding, ...]:
    """The secrets of a text, in its order. `extra` rules precede the built-in ones; what is allowed is left out."""
    if not text:
        return ()
    matches = _drop_overlaps(_find_matches(text, extra))
    breaks = [at.start() for at in compile_pattern(r"\n").finditer(text)] if matches else []
    return tuple(
        SecretFinding(at.rule, at.what, bisect_right(breaks, at.start - 1) + 1, at.start, at.end)
        for at in matches
        if not any(_allows(allowed, text, at) for allowed in allow)
    )


def find_for(environment: Environment, text: str) -> tuple[SecretFinding, ...]:
    """The secrets of a text by the built-in rules and the person's own."""
    own = read_own_rules(environment.config_file.with_name(FILE))
    return find_secrets(text, allow=own.allow, extra=own.rules)


def holds_token(text: str) -> bool:
    """Whether there is a key or token with a known format, whatever stands around it."""
    return next(_find_matches(text, tokens_only=True), None) is not None


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


@cache
def read_rules() -> tuple[SecretRule, ...]:
    """The built-in formats, in the order of their precedence."""
    rows = [{"bits": 0.0 if row.get("inside") else 2.0, **row} for row in secret_text.read_tables()["rules"]]
    return tuple(SecretRule(**{**row, "hints": tuple(row["hints"])}) for row in rows)


@cache
def _list_rules(*, inside: bool) -> tuple[SecretRule, ...]:
    """Rules with `inside` may span blanks and need the whole text; all others match in its long runs."""
    return tuple(rule for rule in read_rules() if rule.inside is inside)


def _find_matches(text: str, extra: Sequence[SecretRule] = (), *, tokens_only: bool = False) -> Iterator[SecretMatch]:
    """Every match, placed in the text as given; they may overlap, the more particular ones come first."""
    folded = secret_text.fold_text(text)
    yield from _place(folded, _find_plain(folded.text, extra, tokens_only=tokens_only))
    if (joined := secret_text.join_pieces(folded.text)) is not None:
        yield from _place(folded, _place(joined, _find_joined(joined)))
    if (decoded := secret_text.decode_percent(folded.text)) is not None:
        again = secret_text.fold_text(decoded.text)
        matches = _find_plain(again.text, extra, tokens_only=tokens_only)
        yield from _place(folded, _place(decoded, _place(again, matches)))
    for start, end, said in secret_text.find_base64(folded.text):
        inner = next(_find_plain(secret_text.fold_text(said).text, extra, tokens_only=tokens_only), None)
        if inner is not None:
            yield from _place(folded, [SecretMatch(inner.rule, f"{inner.what}, in base64", start, end)])


def _drop_overlaps(matches: Iterable[SecretMatch]) -> list[SecretMatch]:
    """Of matches that overlap the first; the rest in the order of the text."""
    ordered = sorted(enumerate(matches), key=lambda at: (at[1].start, at[0]))
    apart: list[tuple[int, SecretMatch]] = []
    for rank, match in ordered:
        while apart and apart[-1][1].end > match.start and apart[-1][0] > rank:
            apart.pop()
        if not apart or apart[-1][1].end <= match.start:
            apart.append((rank, match))
    return [match for _, match in apart]


def _find_plain(text: str, extra: Sequence[SecretRule], *, tokens_only: bool) -> Iterator[SecretMatch]:
    low = _lower(text)
    yield from _match(text, low, extra)
    yield from _match(text, low, _list_rules(inside=True))
    dense = secret_text.find_dense(text)
    yield from _place(dense, _match(dense.text, _lower(dense.text), _list_rules(inside=False)))
    if not tokens_only:
        yield from find_placed(text, low)
        yield from find_told(text, low, dense)


def _match(text: str, low: str, rules: Sequence[SecretRule]) -> Iterator[SecretMatch]:
    for rule in rules:
        if not rule.hints or any(hint in low for hint in rule.hints):
            pattern = rule.pattern if rule.inside else f"{_LEFT}{rule.pattern}{_RIGHT}"
            for match in compile_pattern(pattern).finditer(text):
                yield from _judge(rule, match)


def _find_joined(reading: FoldedText) -> Iterator[SecretMatch]:
    low = _lower(reading.text)
    for rule in _list_rules(inside=False):
        if any(hint in low for hint in rule.hints):
            for match in compile_pattern(rule.pattern).finditer(reading.text):
                for found in _judge(rule, match):
                    if _is_joined(reading, match.start(), found):
                        yield SecretMatch(found.rule, f"{found.what}, in pieces", found.start, found.end)


def _is_joined(reading: FoldedText, start: int, match: SecretMatch) -> bool:
    """Whether a match goes over a joint, begins and ends where a piece does, and is no row of words."""
    text, end = reading.text, match.end
    if (
        not reading.has_joint(start, end)
        or not (_is_edge(text[start - 1 : start]) or reading.has_joint(start - 1, start + 1))
        or not (_is_edge(text[end : end + 1]) or reading.has_joint(end - 1, end + 1))
    ):
        return False
    value = text[match.start : end]
    if value.isupper():  # in base32 digits are few
        return any(at.isdigit() for at in value)
    return measure_mixing(value[len(value) // 4 :]) >= _JOINED_MIXING


def _is_edge(at: str) -> bool:
    return not (at.isalnum() or at == "_")


def _lower(text: str) -> str:
    low = text.lower()
    if len(low) != len(text):  # a few letters grow in lower case; positions must stay the same
        low = "".join(at if len(at.lower()) != 1 else at.lower() for at in text)
    return low


def _judge(rule: SecretRule, match: re.Match[str]) -> Iterator[SecretMatch]:
    group = "value" if match.re.groupindex.get("value") and match["value"] else 0
    value = match[group]
    if not rule.inside and (is_masked(value) or measure_bits(value) < rule.bits):
        return
    if rule.id == "google-api-key" and is_published(value):
        return
    if rule.id == "jwt":
        said = secret_text.decode_base64(value.partition(".")[0])
        if not (said.startswith("{") and said.rstrip().endswith("}") and ('"alg"' in said or '"typ"' in said)):
            return
    yield SecretMatch(rule.id, rule.what, *match.span(group))


def _place(reading: FoldedText, matches: Iterable[SecretMatch]) -> Iterator[SecretMatch]:
    for at in matches:
        yield SecretMatch(at.rule, at.what, *reading.find_place(at.start, at.end))


def _allows(allow: AllowedValue, text: str, match: SecretMatch) -> bool:
    if allow.rule and allow.rule != match.rule:
        return False
    start, end = match.start, match.end
    if allow.on_line:
        start = text.rfind("\n", 0, match.start) + 1
        end = text.find("\n", match.start)
        end = len(text) if end < 0 else end
    return bool(compile_pattern(allow.pattern).search(text[start:end]))


@dataclass(frozen=True, slots=True)
class OwnSecretRules:
    """What a person adds to the built-in rules, and which values they allow."""

    rules: tuple[SecretRule, ...] = ()
    allow: tuple[AllowedValue, ...] = ()


_RULE = {"id": str, "pattern": str, "what": str, "hints": list, "bits": float}
_ALLOW = {"pattern": str, "why": str, "rule": str, "on_line": bool}


def read_own_rules(path: Path) -> OwnSecretRules:
    """The rows [[rule]] and [[allow]] of a file, none if there is no such file (docs/secrets.md describes them).

    Raises SettingsError for anything wrong: a rule that is silently missing would be worse than none.
    """
    table = read_config(path)
    for key in table:
        if key not in ("rule", "allow"):
            raise SettingsError(f"{path}: there is no [[{key}]]", key=key, hint="it holds [[rule]] and [[allow]]")
    rules = []
    for row in _read_rows(table, "rule", path, _RULE, ("id", "pattern")):
        hints, bits = row.get("hints", ()), row.get("bits", 0.0)
        what = str(row.get("what") or f"what the rule {row['id']} describes")
        words = tuple(str(at).lower() for at in hints) if isinstance(hints, list) else ()
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
            f"{path}: {name} is no list of tables", key=name, hint=f"write [[{name}]], with two brackets"
        )
    for row in rows:
        for key, value in row.items():
            if key not in fields:
                raise SettingsError(f"{path}: {key} is not known there", key=key, hint=f"known: {', '.join(fields)}")
            if not isinstance(value, int | float if fields[key] is float else fields[key]):
                raise SettingsError(f"{path}: {key} is of the wrong type", key=key, hint="see docs/secrets.md")
        for key in needed:
            if not row.get(key):
                raise SettingsError(f"{path}: a row has no {key}", key=key, hint="see docs/secrets.md")
        yield row


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
