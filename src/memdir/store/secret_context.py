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
from itertools import pairwise
from math import log2

from memdir.store.secret_text import AllowedValue, FoldedText, SecretMatch, compile_pattern, read_tables

_JUDGED = 200  # characters of a value that are looked at; more of it says nothing new
# Whatever else a rule says, this is no secret.
_MASKS = (
    AllowedValue(r"(?i)x{6}|x{3}[-_.]x{3}|[*•●∗]{3}|\.{3}|…|#{5}|\?{4}|_{5}|-{5}|~{5}", "a mask"),
    AllowedValue(r"(?i)example|redacted|masked|placeholder|removed|censored|_your_|_here", "a word that says so"),
    AllowedValue(r"\$\{|\$\(|\{\{|\}\}|<%|%>|\$[A-Z][A-Z_]{2,}|^\$\w+$|^%\w+%$|^%s$|^@\w+@$", "a variable"),
    AllowedValue(r"(?i)abcdefghijklmnopqrst|0123456789abcdef0123456789abcdef", "the alphabet"),
)
# Neither is this, unless its shape alone says what it is.
_WORDS = (
    AllowedValue(
        r"(?i)(?:your|my|some|the|insert|put|enter|replace|paste)[-_ ]?(?:own[-_ ]?)?(?:[a-z]{2,12}[-_ ]?){0,2}"
        r"(?:key|token|secret|pass|pw|here|bot|value)",
        "a word for what belongs there",
    ),
    AllowedValue(r"(?i)[-_](?:here|goes)\b|here[-_]", "a word for what belongs there"),
    AllowedValue(r"^(.)\1+$|^(..)\2{3,}$|(.)\3{11}", "one character again and again"),
)
# What people write where a password would stand.
_STANDINS = (
    r"(?i)^(?:pass(?:word|wd|phrase|code)?\d{0,3}|pwd|pw|secret|token|key|apikey|user(?:name)?|login|changeme\d*|"
    r"change[-_]?(?:it|me|this)\w*|default|test(?:ing)?\d{0,3}|demo|dummy|fake\w*|foo(?:bar)?|bar|baz|qux|none|null|nil|"
    r"undefined|true|false|empty|required|optional|secure|unknown|hidden|todo|tbd|fixme|n/a|abc|xyz|yyy|xxx|zzz|admin|root)$"
    r"|not[-_](?:a|an|set|real|so|long|the|my|very)|^(?:a|an|no)[-_](?:fake|real)?|fake[-_]|[-_]fake|[-_]key$|(?:^|[-_])(?:key|password|token)[-_](?:here|goes)"
    r"|^<|^\[|^\{[a-z_ ]+\}$|^\(|>$|\]$|^-+$|^\.+$|^/\S*/|^~/|^\./"
)
# Keys that their owner has published, in sample programs that everybody may run: the SHA-256 of each, its beginning.
_PUBLISHED = frozenset(
    """
    0b476bdf9acf2123 2037abcaffb2b777 27a9a42931dff7eb 37f8f09bdf12c2f2 3a8b61d0f636b007
    3f370c9dd8225c63 49f777db995e8260 4c98242dcadc8b29 8731261cb72d8626 a19f89ab3555eac1
    a6c814bc555ae62c dc0fcf046c61640c e4a5542bb7fd7b67 ea9bb1082cf95663 eb540d2b6ee2a0a4
    """.split()
)
_UUID = r"[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}"
_HEX = r"[0-9a-fA-F]+"
# Names of techniques that end in a number; no password, even where the text says that one comes now.
_TECHNIQUES = (
    r"(?i)(?:utf|sha|aes|rsa|md|base|iso|rfc|hmac|bcrypt|argon|oauth|totp|pbkdf|scrypt|ecdsa|fido|http|tls|ssl|ssh|k8s|s3|ec2|"
    r"i18n|l10n|a11y|p256|[hre]s256|ed25519|x25519|1password|keepass\w*|windows|python|postgres\w*|mysql|node|java|ubuntu|"
    r"debian)[-_]?\d*[-\w.]{0,12}"
)
# Other names with a digit or a sign: versions, dates, tickets, files, addresses, paths, code.
_NAMES = (
    r"(?i)[a-z]{1,6}[-_/. ]?v?\d{1,5}(?:[-_.:]\d+)*[a-z]?|v?\d[\d.,:/-]*[a-z%]{0,3}|\d+(?:st|nd|rd|th|er|e)|"
    r"[a-z]+[-_ ]?v?\d{1,2}(?:\.\d+)+|[\w.+-]+@[\w-]+\.[\w.-]+|[a-z]+://.*|.*[/\\].*|[\w-]+(?:\.[\w-]+)+|"
    r"(?-i:[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)|[a-z]+(?:_[a-z0-9]+)+\d?|\w+(?:->|::)\w+.*"
)
_TOLD_NAME = r"[A-Za-z]{4,}\d{2,}[!?]?|[A-Za-z]{5,}\d[!?]?"
_CODE = r"[\"|<>{}`]|[\[(][\w\"']*[\])]?$|^[?.=)\]]"
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
_NAME_WORDS = r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+"
_URL = r"://(?P<user>[^\s:/@\"'<>]{0,80}+):(?P<value>[^\s/@\"'<>]{3,200}+)@(?=[\w\[])"
_BEARER = r"[Bb](?i:earer)[ \t]{1,4}(?P<value>[A-Za-z0-9._~+/=-]{20,2000}+)"
_USER = (
    r"-(?:(?<=\s-)u|-user)(?:[ \t]{1,4}|=)(?P<given>\"[^\"\n]{1,200}\"(?::\"[^\"\n]{1,200}\")?|'[^'\n]{1,200}'"
    r"|[^\s\"']{1,200}(?:'[^'\n]{1,100}')?)"
)
_WINDOW = 110  # characters of a sentence that are looked at
_TOKENS = 16  # and words
_CJK_LEADS = "是为為成叫即は:=→を"
_PAIR = r"(?<![\w/:@])[\w.+@-]{2,60}(?: ?/ |:)(?P<value>[!-+.-<>-~-]{6,80})(?![,=])"
_TOKEN = r"[!-~\u00a1-\u02af]+"
_GIVEN = r"[\"'\]]{0,2}[ \t]{0,2}[:=]"
_SENTENCE_END = r"[.!?](?=\s|\Z)|[。！？]|\n"
_ARGUMENT = r"[A-Za-z_]\w*=(?!=)[^\d]*\Z"  # of a call, in code
# A public key of SSH, or a checksum.
_OPEN = r"AAAA[BCE][0-9A-Za-z]{2}|.{0,80}\bsha\d{1,3}[:-]"
_FILE = r"(?i)\.(?:js|ts|css|json|md|py|png|jpe?g|svg|html?|txt|ya?ml|toml|lock|log|zip|gz|pdf|so|whl)$"
_STRIP_LEFT = "\"'`(*[<“”„«‘「『,;:"
_STRIP_RIGHT = "\"'`)*]>“”»’」』.,;:"


def find_placed(text: str, low: str) -> Iterator[SecretMatch]:
    """All matches, the surest first; `low` is the text in lower case."""
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


def _find_urls(text: str) -> Iterator[SecretMatch]:
    for match in compile_pattern(_URL).finditer(text):
        value = match["value"]
        if not is_standin(value) and value != match["user"] and text[match.start() - 1 : match.start()].isalnum():
            yield SecretMatch("url-password", "a password in an address", *match.span("value"))


def _find_users(text: str) -> Iterator[SecretMatch]:
    for match in compile_pattern(_USER).finditer(text):
        if "curl" not in text[max(match.start() - 600, 0) : match.start()]:
            continue
        given = match["given"].replace('"', "").replace("'", "")
        user, _, password = given.partition(":")
        value = (password or (user if given.endswith(":") else "")).removeprefix("{").removesuffix("}")
        if len(value) > 3 and "{" not in value and not is_standin(value) and not (value.isalpha() and value.islower()):
            yield SecretMatch("curl-password", "a password on a command line", *match.span("given"))


def _find_given(text: str) -> Iterator[SecretMatch]:
    for operator in compile_pattern(_OPERATOR).finditer(text):
        name, before = _read_name(text, operator.start())
        kind = _name_kind(name)
        match = compile_pattern(_VALUE).match(text, operator.end()) if kind else None
        if match is None:
            continue
        group = "quoted" if match["quoted"] else "bare"
        value = match[group].rstrip(".,;:)]}*\\") if group == "bare" else match[group]
        start = match.start(group)
        if not value or match[group].endswith("..."):
            continue
        if _is_header(name) and _is_sent(value, match["scheme"] or "", before):
            yield SecretMatch("auth-header", "a credential in a header", start, start + len(value))
        elif _is_likely(kind, value, is_quoted=group == "quoted"):
            yield _make_hit(kind, start, start + len(value))


def _find_bearers(text: str) -> Iterator[SecretMatch]:
    for match in compile_pattern(_BEARER).finditer(text):
        if is_random(match["value"], shortest=20):
            yield SecretMatch("bearer-token", "a bearer token", *match.span("value"))


def _find_named(text: str, pattern: str) -> Iterator[SecretMatch]:
    for match in compile_pattern(pattern).finditer(text):
        kind = _name_kind(match["name"])
        if kind and _is_likely(kind, match["value"], is_quoted=False):
            yield _make_hit(kind, *match.span("value"))


def _make_hit(kind: str, start: int, end: int) -> SecretMatch:
    if kind == "password":
        return SecretMatch("assigned-password", "a password given to a name", start, end)
    return SecretMatch("assigned-secret", "a key or token given to a name", start, end)


def _read_name(text: str, end: int) -> tuple[str, str]:
    """The name that ends there, quotes and stars aside, and what stands before it."""
    before = text[max(end - 100, 0) : end].rstrip(" \t").rstrip("*_").rstrip("\"'])`\\")
    match = compile_pattern(_NAME).match(before[::-1])
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
    if scheme.lower() == "basic" and compile_pattern(r"[A-Za-z0-9+/]{8,}={0,2}").fullmatch(value):
        return True
    return is_uuid(value) or is_random(value, shortest=10 if sends else 16)


def _is_likely(kind: str, value: str, *, is_quoted: bool) -> bool:
    if (
        is_standin(value)
        or "://" in value
        or (not is_quoted and compile_pattern(r"\{?[A-Za-z_][\w.]*[(\[]").match(value))
    ):
        return False
    if kind == "password":
        return " " not in value and (is_password(value, told=True) or is_random(value, shortest=10))
    if kind == "key":
        return is_random(value, shortest=24)
    return is_random(value) or is_uuid(value) or (is_quoted and is_random(value, shortest=12))


def _name_kind(name: str) -> str:
    """What a name promises: a password, a secret, perhaps a key; or nothing."""
    words = [at.lower() for at in compile_pattern(_NAME_WORDS).findall(name) if not at.isdigit()]
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
    """What a sentence tells; `low` is the text in lower case, `dense` its long runs."""
    if any(at in low for at in read_tables()["prose"]["stems"].split()):
        yield from _find_passwords(text, low)
    yield from _find_keys(text, low, dense)
    if "pin" in low or "geheimzahl" in low or "暗証" in low:
        yield from _find_pins(text)
    if "phrase" in low or "frase" in low:
        yield from _find_phrases(text)
    for match in _prose("pairs").finditer(low):
        if _is_apart(low, match.start(), match.end()):
            yield from _find_pair(text, match.end())


def _find_passwords(text: str, low: str) -> Iterator[SecretMatch]:
    nouns = [at.span() for at in _prose("passwords").finditer(low) if _is_apart(low, *at.span())]
    for number, (_, begin) in enumerate(nouns):
        # Up to the next such word: that one speaks for what follows it, and no word is looked at twice.
        end = nouns[number + 1][0] if number + 1 < len(nouns) else len(text)
        window = _cut(text[begin : min(begin + _WINDOW, end)])
        for start, value in _list_words(window):
            if _leads(window[:start]) and is_password(value, told=True) and not compile_pattern(_ARGUMENT).match(value):
                yield SecretMatch(
                    "told-password", "a password in a sentence", begin + start, begin + start + len(value)
                )
                break


def _find_keys(text: str, low: str, dense: FoldedText) -> Iterator[SecretMatch]:
    """From each long run back: is it made by chance, and does its sentence speak of a key before it?"""
    for run in compile_pattern(r"[!-~]{16,}").finditer(dense.text):
        begin = dense.find_place(run.start(), run.end())[0]
        start, value = _strip(run.group(), begin)
        before = low[max(start - _WINDOW, 0) : start]
        nouns = [at for at in _prose("keys").finditer(before) if _is_apart(before, at.start(), at.end())]
        if (
            not nouns
            or _prose("public").search(before, 0, nouns[-1].start())
            or compile_pattern(_SENTENCE_END).search(before, nouns[-1].end() + 2)
        ):
            continue
        noun = nouns[-1]
        since = before[noun.end() :]
        if noun.group().isascii() and compile_pattern(_GIVEN).match(since):
            continue  # contexts is the judge of those
        if _is_key(value, since, before):
            yield SecretMatch("told-secret", "a key or token in a sentence", start, start + len(value))


def _list_words(window: str) -> Iterator[tuple[int, str]]:
    for count, token in enumerate(compile_pattern(_TOKEN).finditer(window)):
        if count >= _TOKENS:
            return
        yield _strip(token.group(), token.start())


def _is_apart(low: str, start: int, end: int) -> bool:
    """Whether a word stands for itself and not in a name such as `credentials.url`; Chinese and Japanese always do."""
    if low[start] > "\u2e80":
        return True
    left, right = low[start - 1 : start], low[end : end + 2]
    return not ((left.isalnum() and left < "\u2e80") or left in ("_", ".", "$")) and not compile_pattern(
        r"[a-z0-9_]|[./-][a-z0-9_]"
    ).match(right)


def _is_key(value: str, before: str, context: str) -> bool:
    if (
        "://" in value
        or "/" in value[:2]
        or compile_pattern(r"[\"'<>{}()]").search(value)
        or compile_pattern(_FILE).search(value)
        or _prose("not_keys").search(context)
    ):
        return False
    if compile_pattern(_OPEN).match(value):
        return False
    if is_uuid(value):
        return _leads(before) and not is_standin(value)
    return is_random(value, shortest=32 if is_hex(value) and not _leads(before) else 16)


def _find_pins(text: str) -> Iterator[SecretMatch]:
    for match in _prose("pins").finditer(text):
        if not _is_apart(text, match.start(), match.end()):
            continue
        window = _cut(text[match.end() : match.end() + 45])
        for number in compile_pattern(r"(?<![\w.,:/-])\d{4,8}(?![\w:/-]|[.,]\d)").finditer(window):
            if _leads(window[: number.start()]) and not 1900 <= int(number.group()) <= 2100:
                yield SecretMatch(
                    "told-pin", "a PIN in a sentence", match.end() + number.start(), match.end() + number.end()
                )
                break


def _find_phrases(text: str) -> Iterator[SecretMatch]:
    for match in _prose("phrase").finditer(text):
        if not set(read_tables()["prose"]["not_phrase"].split()) & set(match["value"].lower().split()):
            yield SecretMatch("told-password", "a passphrase in a sentence", *match.span("value"))


def _find_pair(text: str, begin: int) -> Iterator[SecretMatch]:
    window = _cut(text[begin : begin + 70])
    for match in compile_pattern(_PAIR).finditer(window):
        value = match["value"].rstrip(_STRIP_RIGHT)
        if is_password(value, told=False):
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
    end = compile_pattern(_SENTENCE_END).search(window, lead)
    return window[: end.start()] if end else window


@cache
def _lead() -> re.Pattern[str]:
    return re.compile(rf"(?<!\w)(?:{_prose('leads').pattern})\Z")


@cache
def _words(key: str) -> frozenset[str]:
    return frozenset(read_tables()["names"][key].split())


@cache
def _prose(key: str) -> re.Pattern[str]:
    """A pattern of the table of sentences; of several languages, as alternatives."""
    found = read_tables()["prose"][key]
    return re.compile(found if isinstance(found, str) else "|".join(found))


def measure_bits(value: str) -> float:
    """Shannon's entropy of its characters, in bits for each."""
    counts = Counter(value).values()
    return -sum(n / len(value) * log2(n / len(value)) for n in counts) if value else 0.0


def measure_mixing(value: str) -> float:
    """In which share of its places two neighbours are of different classes."""
    if len(value) < 2:
        return 0.0
    classes = [_classify(at) for at in value]
    return sum(a != b for a, b in pairwise(classes)) / (len(value) - 1)


def find_mask(value: str) -> str:
    """Why this only stands in for a secret, in words; nothing if it does not."""
    return next((at.why for at in _MASKS if compile_pattern(at.pattern).search(value)), "")


def find_word(value: str) -> str:
    """The same for a value that no shape speaks for."""
    value = value[:_JUDGED]
    return next((at.why for at in (*_MASKS, *_WORDS) if compile_pattern(at.pattern).search(value)), "")


def is_standin(value: str) -> bool:
    """Whether this is what people write where a secret would stand."""
    return bool(find_word(value) or compile_pattern(_STANDINS).search(value[:_JUDGED]))


def is_published(value: str) -> bool:
    """Whether its owner has made it public."""
    import hashlib  # here, because it loads OpenSSL and few texts hold a key

    return hashlib.sha256(value.encode("utf-8", "replace")).hexdigest()[:16] in _PUBLISHED


def is_uuid(value: str) -> bool:
    return bool(compile_pattern(_UUID).fullmatch(value))


def is_hex(value: str) -> bool:
    return bool(compile_pattern(_HEX).fullmatch(value))


def is_random(value: str, *, shortest: int = 16) -> bool:
    """Whether a value looks as if chance had made it, as keys and tokens do."""
    value = value[:_JUDGED]
    if len(value) < shortest or is_standin(value) or compile_pattern(r"\s").search(value):
        return False
    bits, mixing = measure_bits(value), measure_mixing(value)
    if is_hex(value):
        return len(value) >= shortest and bits >= 2.7 and mixing >= 0.1
    if sum(at.isdigit() for at in value) < (2 if len(value) < 32 else 1) and len(value) < 40:
        return False
    if _is_spoken(value):
        return False
    if compile_pattern(r"[A-Z2-7]+").fullmatch(value):  # base32 has few digits
        return bits >= 3.3 and mixing >= 0.15
    return bits >= (3.0 if len(value) < 24 else 3.3) and mixing >= (0.3 if len(value) < 32 else 0.22)


def is_password(value: str, *, told: bool) -> bool:
    """Whether a word looks chosen as a password: letters with digits or signs, and no name that has such too.

    With `told`, the text says outright that this is one; then names of few letters and a number pass as well.
    """
    if not 5 <= len(value) <= 128 or is_standin(value):
        return False
    letters = sum(at.isalpha() for at in value)
    digits = sum(at.isdigit() for at in value)
    signs = sum(not at.isalnum() and at not in "-_.'’," for at in value.rstrip("!?@"))
    if (
        letters < 3
        or not (digits or signs)
        or compile_pattern(_CODE).search(value)
        or compile_pattern(_TECHNIQUES).fullmatch(value)
    ):
        return False
    return not compile_pattern(_NAMES).fullmatch(value) or (told and bool(compile_pattern(_TOLD_NAME).fullmatch(value)))


def _is_spoken(value: str) -> bool:
    """Words put together with `-`, `_`, `.` or capitals: an identifier, whatever its length."""
    words = [at for at in re.split(r"[^A-Za-z0-9]+|(?<=[a-z])(?=[A-Z])", value) if at]
    plain = sum(len(at) for at in words if compile_pattern(r"[A-Z]?[a-z]{2,}|[A-Z]{2,}|\d{1,4}").fullmatch(at))
    return plain * 4 >= 3 * sum(len(at) for at in words)


def _classify(at: str) -> int:
    return 1 if at.islower() else 2 if at.isupper() else 3 if at.isdigit() else 4
