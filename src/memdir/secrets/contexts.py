"""Secrets known by where they stand: after a name such as `db_password =`, in a header or an address, behind `curl -u`.

The value itself may look like anything, so it is judged by `likeness`. Pure; linear in the text.
"""

import re
from collections.abc import Iterator
from functools import cache

from memdir.secrets.likeness import is_password, is_random, is_standin, is_uuid
from memdir.secrets.records import Hit

# What stands between a name and its value; the name is read backwards from there, the value forwards.
_OPERATOR = r"(?:=>|:=|->|={1,2}|:)(?![:=>])"
_VALUE = (
    r"[*_]{0,2}[ \t]{0,8}+"
    r"(?:(?:\\?[\"'`])?(?P<scheme>(?i:bearer|basic|token|api-token|apikey|key|digest))[ \t]{1,4}(?=[^\s=:]))?"
    r"(?:\\?(?P<quote>[\"'`])(?P<quoted>[^\"'`\n\\]{4,300}+)|(?P<bare>[^\s\"'`,;<>|=:]{4,2000}+={0,3}+))"
)
_OPTION = (
    r"-(?<![\w-]-)-?(?P<name>[A-Za-z][\w-]{2,60}+)[ \t]{1,4}[\"']?(?P<value>[^\s\"'`,;<>|-][^\s\"'`,;<>|]{3,300}+)"
)
_TAG = r"<(?P<name>[A-Za-z][\w.-]{2,60}+)>(?P<value>[^\s<>]{4,300}+)</"
_NAME = r"[\w$.-]{2,80}"
_WORDS = r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+"
_PASSWORDS = frozenset("password passwords passwd pwd pass pw passphrase passcode passwort kennwort".split())
_SECRETS = frozenset(
    "secret secrets token tokens apikey authtoken credential credentials creds auth authorization".split()
)
_ENDS = ("apikey", "secret", "token", "password", "passwd", "pwd", "accesskey", "authkey", "secretkey", "privatekey")
_KEYED = frozenset(
    "api access auth private encryption signing master secret service account license app client".split()
)
# The last word of a name that says the value is about a secret, not one.
_ABOUT = frozenset(
    """id ids name names url uri urls path paths file files dir folder type kind size length len version count expiry
    ttl expires expired header headers field label ref arn prefix suffix pattern regex env var variable policy rotation
    manager store vault hint help placeholder format algorithm alg word words board stroke press pressed char chars str
    date at in location endpoint host domain issuer scope scopes audience user username email status state usage limit
    limits""".split()
)
# Words that make a key or a token something everybody may see.
_OPEN = frozenset(
    """public pub csrf xsrf authenticity foreign primary sort cache partition bucket idempotency page next continuation
    cursor i18n translation dedupe site schema sequence index hot map object storage row column json yaml dict unique
    composite lookup config feature chain""".split()
)
_URL = r"://(?P<user>[^\s:/@\"'<>]{0,80}+):(?P<value>[^\s/@\"'<>]{3,200}+)@(?=[\w\[])"
_BEARER = r"[Bb](?i:earer)[ \t]{1,4}(?P<value>[A-Za-z0-9._~+/=-]{20,2000}+)"
_USER = (
    r"-(?:(?<=\s-)u|-user)(?:[ \t]{1,4}|=)(?P<given>\"[^\"\n]{1,200}\"(?::\"[^\"\n]{1,200}\")?|'[^'\n]{1,200}'"
    r"|[^\s\"']{1,200}(?:'[^'\n]{1,100}')?)"
)


def find_placed(text: str, low: str) -> Iterator[Hit]:
    """Everything this room knows, the surest first; `low` is the text in lower case."""
    if "://" in text and "@" in text:
        yield from _find_urls(text)
    if "curl" in low and "-u" in low:
        yield from _find_users(text)
    yield from _find_given(text)
    if "bearer" in low:
        yield from _find_bearers(text)
    if " -" in text or "\n-" in text or text.startswith("-"):
        yield from _find_named(text, _OPTION)
    if "</" in text:
        yield from _find_named(text, _TAG)


def _find_urls(text: str) -> Iterator[Hit]:
    for match in _compile(_URL).finditer(text):
        value = match["value"]
        if not is_standin(value) and value != match["user"] and text[match.start() - 1 : match.start()].isalnum():
            yield Hit("url-password", "a password in an address", *match.span("value"))


def _find_users(text: str) -> Iterator[Hit]:
    for match in _compile(_USER).finditer(text):
        if "curl" not in text[max(match.start() - 600, 0) : match.start()]:
            continue
        given = match["given"].replace('"', "").replace("'", "")
        user, _, password = given.partition(":")
        value = (password or (user if given.endswith(":") else "")).removeprefix("{").removesuffix("}")
        if len(value) > 3 and "{" not in value and not is_standin(value) and not (value.isalpha() and value.islower()):
            yield Hit("curl-password", "a password on a command line", *match.span("given"))


def _find_given(text: str) -> Iterator[Hit]:
    for operator in _compile(_OPERATOR).finditer(text):
        name, before = _read_name(text, operator.start())
        kind = _name_kind(name)
        match = _compile(_VALUE).match(text, operator.end()) if kind else None
        if match is None:
            continue
        group = "quoted" if match["quoted"] else "bare"
        value = match[group].rstrip(".,;:)]}*\\") if group == "bare" else match[group]
        start = match.start(group)
        if not value or match[group].endswith("..."):
            continue
        if _is_header(name) and _is_sent(value, match["scheme"] or "", before):
            yield Hit("auth-header", "a credential in a header", start, start + len(value))
        elif _is_likely(kind, value, is_quoted=group == "quoted"):
            yield _make_hit(kind, start, start + len(value))


def _find_bearers(text: str) -> Iterator[Hit]:
    for match in _compile(_BEARER).finditer(text):
        if is_random(match["value"], shortest=20):
            yield Hit("bearer-token", "a bearer token", *match.span("value"))


def _find_named(text: str, pattern: str) -> Iterator[Hit]:
    for match in _compile(pattern).finditer(text):
        kind = _name_kind(match["name"])
        if kind and _is_likely(kind, match["value"], is_quoted=False):
            yield _make_hit(kind, *match.span("value"))


def _make_hit(kind: str, start: int, end: int) -> Hit:
    if kind == "password":
        return Hit("assigned-password", "a password given to a name", start, end)
    return Hit("assigned-secret", "a key or token given to a name", start, end)


def _read_name(text: str, end: int) -> tuple[str, str]:
    """The name that ends there, quotes and stars aside, and what stands before it."""
    before = text[max(end - 100, 0) : end].rstrip(" \t").rstrip("*_").rstrip("\"'])`\\")
    match = _compile(_NAME).match(before[::-1])
    return (match.group()[::-1], before[: -match.end()]) if match else ("", "")


def _is_header(name: str) -> bool:
    low = name.lower()
    return low.endswith(("authorization", "-key", "-token", "-auth", "-apikey")) or low in (
        "apikey",
        "api_key",
        "token",
    )


def _is_sent(value: str, scheme: str, before: str) -> bool:
    """Whether a header's value is a credential; on a command line that sends it, shorter ones count too."""
    sends = before.rstrip("\"'=").rstrip().endswith(("-H", "--header"))
    if is_standin(value) or value[0] in "${([*" or not (sends or scheme):
        return False
    if scheme.lower() == "basic" and _compile(r"[A-Za-z0-9+/]{8,}={0,2}").fullmatch(value):
        return True
    return is_uuid(value) or is_random(value, shortest=10 if sends else 16)


def _is_likely(kind: str, value: str, *, is_quoted: bool) -> bool:
    if is_standin(value) or "://" in value or (not is_quoted and _compile(r"\{?[A-Za-z_][\w.]*[(\[]").match(value)):
        return False
    if kind == "password":
        return " " not in value and (is_password(value, told=True) or is_random(value, shortest=10))
    if kind == "key":
        return is_random(value, shortest=24)
    return is_random(value) or is_uuid(value) or (is_quoted and is_random(value, shortest=12))


def _name_kind(name: str) -> str:
    """What a name promises: a password, a secret, perhaps a key; or nothing."""
    words = [at.lower() for at in _compile(_WORDS).findall(name) if not at.isdigit()]
    if not words or words[-1] in _ABOUT or not _OPEN.isdisjoint(words):
        return ""
    bare = "".join(words)
    if words[-1] in _PASSWORDS or bare.endswith(("password", "passwd", "pwd", "passwort")):
        return "password"
    if words[-1] in _SECRETS or bare.endswith(_ENDS):
        return "secret"
    if words[-1] in ("key", "keys"):
        return "secret" if len(words) > 1 and words[-2] in _KEYED else "key"
    return ""


@cache
def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)
