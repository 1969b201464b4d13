"""Secrets known by where they stand: after a name such as `db_password =`, in a header or an address, behind `curl -u`.

The value itself may look like anything, so it is judged by `likeness`. Pure; linear in the text.
"""

import re
import unicodedata
from binascii import a2b_base64
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import pairwise
from math import log2

from memdir.frozen import dataclass

# --- folding ---
# Other readings of a text, in which a disguised secret is plain: folded, dense, joined, percent- and base64-decoded.
#
# Each reading knows where its characters stand in the text it was made from. Linear time; nothing is judged here.

Span = tuple[int, int]

# Characters that print as nothing, or only say where a word may be cut.
_UNSEEN = frozenset("\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u3164\ufeff\uffa0")
_SHORTEST = 13  # of the tokens that are known by their shape
_RUN = rf"[!-~]{{{_SHORTEST},}}+"
_PART = r"[\w+/=~.-]"
_STRINGS = rf"[\"'`](?<={_PART}[\"'`])[ \t\r\n]{{0,40}}+[+.&\\]?[ \t\r\n]{{0,40}}+[\"'`](?={_PART})"  # "abc" + "def"
_LINES = rf"\n[ \t>#*|/\"'`+]{{0,40}}+(?={_PART})"  # a line that goes on
# Pieces with one blank between them: no ordinary words, but with digits, signs or capitals in them, or single letters.
_ODD = r"[A-Za-z]{0,40}+[0-9_+/=~-]|[A-Za-z][a-z]{0,40}+[A-Z]|[A-Z]{2,40}+(?![a-z])|[A-Za-z](?![A-Za-z])"
_PIECE = rf"(?={_ODD}){_PART}{{1,80}}+"
_BLANKS = rf"(?<!{_PART}){_PIECE}(?: {_PIECE})++"
_PERCENT = r"(?:%[0-9A-Fa-f]{2})++"
_BASE64 = (
    r"(?<![A-Za-z0-9+/_-])(?:[A-Za-z0-9+/_-]{20,20000}+={0,2}(?!\r?\n)"
    r"|(?:[A-Za-z0-9+/]{60,76}\r?\n[ \t>]{0,40}+){1,400}+[A-Za-z0-9+/]{0,76}+={0,2}|[A-Za-z0-9+/_-]{20,20000}+={0,2})"
)


@dataclass(frozen=True, slots=True)
class FoldedText:
    """A text made from another: pieces, each with where it begins here, and where and how long it is there."""

    text: str
    here: tuple[int, ...] = (0,)
    there: tuple[int, ...] = (0,)
    lengths: tuple[int, ...] = (-1,)  # in the other text; -1: character by character
    joints: tuple[int, ...] = ()  # where something was left out, in order

    def find_place(self, start: int, end: int) -> Span:
        """Where a span stands in the text this one was made from."""
        return self._place(start)[0], self._place(max(end - 1, start))[1]

    def has_joint(self, start: int, end: int) -> bool:
        """Whether something was left out between the two."""
        at = bisect_right(self.joints, start)
        return at < len(self.joints) and self.joints[at] < end

    def _place(self, at: int) -> Span:
        piece = bisect_right(self.here, at) - 1
        begin, length = self.there[piece], self.lengths[piece]
        if length >= 0:
            return begin, begin + length
        return begin + at - self.here[piece], begin + at - self.here[piece] + 1


def fold_text(text: str) -> FoldedText:
    """NFKC by character, without what cannot be seen."""
    used = set(text)
    odd = {at: folded for at in used if at > "\x7f" and (folded := _fold(at)) != at}
    odd.update((at, "") for at in used if at < " " and at not in "\t\n\r")
    if not odd:
        return FoldedText(text)
    pattern = re.compile("[" + "".join(map(re.escape, odd)) + "]")
    return _rebuild(text, ((match.start(), match.end(), odd[match.group()]) for match in pattern.finditer(text)))


def find_dense(text: str) -> FoldedText:
    """Only the runs that are long enough for a token, a line each: of prose hardly anything is left."""
    return _gather(text, [[match.span()] for match in _compile(_RUN).finditer(text)])


def decode_percent(text: str) -> FoldedText | None:
    """With %41 and the like as characters, one level; None if there are none."""
    matches = list(_compile(_PERCENT).finditer(text)) if "%" in text else []
    if not matches:
        return None
    return _rebuild(text, ((at.start(), at.end(), _decode_bytes(at.group())) for at in matches))


def join_pieces(text: str) -> FoldedText | None:
    """Strings put together, and words that go on after a line or a blank, each as one line; None if there are none.

    Ordinary words are not joined by a blank, only pieces that look like parts of something longer.
    """
    chains = list(_find_chains(text, sorted(_find_joints(text))))
    return _gather(text, chains) if chains else None


def find_base64(text: str) -> Iterator[tuple[int, int, str]]:
    """Runs of base64 that hold text, decoded once: start, end, what they say."""
    for match in _compile(_BASE64).finditer(text):
        run = match.group()
        said = "" if run.islower() or run.isupper() else decode_base64(_compile(r"[\s>]+").sub("", run))
        if said:
            yield match.start(), match.end(), said


def decode_base64(run: str) -> str:
    """The text behind a run of base64, of either alphabet; empty if it is not text."""
    bare = run.rstrip("=").replace("-", "+").replace("_", "/")
    if len(bare) % 4 == 1:
        return ""
    try:
        text = a2b_base64(bare + "=" * (-len(bare) % 4)).decode("utf-8")
    except ValueError:
        return ""
    odd = sum(1 for at in text if at < " " and at not in "\t\n\r")
    return text if odd * 20 <= len(text) else ""


def _find_joints(text: str) -> Iterator[Span]:
    for match in _compile(_STRINGS).finditer(text):
        yield match.span()
    for match in _compile(_LINES).finditer(text):
        head = text[max(match.start() - 40, 0) : match.start()]
        bare = head.rstrip(" \t\r\\+\"'`")
        if bare and (bare[-1].isalnum() or bare[-1] in "_+/=~.-"):
            yield match.start() - len(head) + len(bare), match.end()
    for match in _compile(_BLANKS).finditer(text):
        yield from (blank.span() for blank in _compile(" ").finditer(text, *match.span()))


def _find_chains(text: str, joints: list[Span]) -> Iterator[list[Span]]:
    """The pieces that nothing but joints stand between, where a token could be made of them."""
    part = _compile(rf"{_PART}++")
    chain: list[Span] = []
    reach = 0  # where the last piece ends
    for start, end in joints:
        if start < reach and chain and start < chain[-1][0]:
            continue  # the same joint, found in two ways
        if not chain or start != reach:
            yield from _close(text, chain)
            left = part.match(text[max(start - 400, 0) : start][::-1])
            chain = [(start - (left.end() if left else 0), start)]
        else:
            chain[-1] = chain[-1][0], start
        right = part.match(text, end)
        reach = right.end() if right else end
        chain.append((end, reach))
    yield from _close(text, chain)


def _close(text: str, chain: list[Span]) -> Iterator[list[Span]]:
    said = "".join(text[start:end] for start, end in chain)
    if len(chain) > 1 and len(said) >= _SHORTEST and not (said.isalpha() and said.islower()):
        yield chain


def _gather(text: str, chains: Iterable[list[Span]]) -> FoldedText:
    """The spans of each chain as one line; where two of a chain meet is a joint."""
    parts: list[str] = []
    here: list[int] = []
    there: list[int] = []
    joints: list[int] = []
    size = 0
    for chain in chains:
        for number, (start, end) in enumerate(chain):
            if number:
                joints.append(size)
            here.append(size)
            there.append(start)
            parts.append(text[start:end])
            size += end - start
        parts.append("\n")
        here.append(size)
        there.append(chain[-1][1])
        size += 1
    lengths = (-1,) * len(here)
    return FoldedText("".join(parts), tuple(here) or (0,), tuple(there) or (0,), lengths or (-1,), tuple(joints))


def _rebuild(text: str, changes: Iterable[tuple[int, int, str]]) -> FoldedText:
    """The text with some spans replaced."""
    parts: list[str] = []
    here: list[int] = []
    there: list[int] = []
    lengths: list[int] = []
    at = size = 0
    for start, end, new in (*changes, (len(text), len(text), "")):
        for begin, length, part in ((at, -1, text[at:start]), (start, end - start, new)):
            if part:
                here.append(size)
                there.append(begin)
                lengths.append(length)
                parts.append(part)
                size += len(part)
        at = end
    return FoldedText("".join(parts), tuple(here) or (0,), tuple(there) or (0,), tuple(lengths) or (-1,))


def _decode_bytes(run: str) -> str:
    return bytes.fromhex(run.replace("%", "")).decode("utf-8", "replace")


@cache
def _fold(at: str) -> str:
    if at in _UNSEEN or "\ufe00" <= at <= "\ufe0f" or unicodedata.category(at) in ("Cf", "Cc", "Cs"):
        return ""
    return unicodedata.normalize("NFKC", at)


@cache
def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


# --- records ---
# What the scanner is made of and what it answers. A finding says what and where; it never holds the value.


def make_secret_rule(id_: str, what: str, pattern: str, *hints: str, bits: float = 2.0) -> "SecretRule":
    """A row of the tables of vendors' tokens."""
    return SecretRule(id_, what, pattern, hints, bits)


@dataclass(frozen=True, slots=True)
class SecretRule:
    """One shape of secret: a pattern for the value, or with a group `value` for what surrounds it too.

    `hints` are words in lower case, one of which the text must hold before the pattern is even made. `bits` is the
    entropy a value must have at least, by character. The scanner itself sees that a match is no part of a longer word,
    unless `inside` says that the pattern does so.
    """

    id: str
    what: str
    pattern: str
    hints: tuple[str, ...] = ()
    bits: float = 0.0
    inside: bool = False


@dataclass(frozen=True, slots=True)
class AllowedValue:
    """A value that is no secret although a rule finds it, and why. With `rule`, for that rule only.

    The pattern is searched in the value, or with `on_line` in the line the value begins on.
    """

    pattern: str
    why: str
    rule: str = ""
    on_line: bool = False


@dataclass(frozen=True, slots=True)
class SecretFinding:
    """A secret in a text: which rule, in words what it is, and where. Lines count from 1, characters from 0."""

    rule: str
    what: str
    line: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class SecretMatch:
    """A match in some reading of a text, before it is known where it stands in the text itself."""

    rule: str
    what: str
    start: int
    end: int


# --- likeness ---
# What a value looks like: made by chance, chosen as a password, or standing in for one. Pure, by rules of thumb.
#
# Entropy counts how varied the characters are; mixing, how often two neighbours are of different classes (small,
# capital,
# digit, other). Random strings mix in half of their places, words and names in few: that tells them apart where
# entropy
# does not.

_JUDGED = 200  # characters of a value that are looked at; more of it says nothing new
# Whatever else a rule says, this is no secret.
MASKS = (
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
    return next((at.why for at in MASKS if _compile(at.pattern).search(value)), "")


def find_word(value: str) -> str:
    """The same for a value that no shape speaks for."""
    value = value[:_JUDGED]
    return next((at.why for at in (*MASKS, *_WORDS) if _compile(at.pattern).search(value)), "")


def is_standin(value: str) -> bool:
    """Whether this is what people write where a secret would stand."""
    return bool(find_word(value) or _compile(_STANDINS).search(value[:_JUDGED]))


def is_published(value: str) -> bool:
    """Whether its owner has made it public."""
    import hashlib  # here, because it loads OpenSSL and few texts hold a key

    return hashlib.sha256(value.encode("utf-8", "replace")).hexdigest()[:16] in _PUBLISHED


def is_uuid(value: str) -> bool:
    return bool(_compile(_UUID).fullmatch(value))


def is_hex(value: str) -> bool:
    return bool(_compile(_HEX).fullmatch(value))


def is_random(value: str, *, shortest: int = 16) -> bool:
    """Whether a value looks as if chance had made it, as keys and tokens do."""
    value = value[:_JUDGED]
    if len(value) < shortest or is_standin(value) or _compile(r"\s").search(value):
        return False
    bits, mixing = measure_bits(value), measure_mixing(value)
    if is_hex(value):
        return len(value) >= shortest and bits >= 2.7 and mixing >= 0.1
    if sum(at.isdigit() for at in value) < (2 if len(value) < 32 else 1) and len(value) < 40:
        return False
    if _is_spoken(value):
        return False
    if _compile(r"[A-Z2-7]+").fullmatch(value):  # base32 has few digits
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
    if letters < 3 or not (digits or signs) or _compile(_CODE).search(value) or _compile(_TECHNIQUES).fullmatch(value):
        return False
    return not _compile(_NAMES).fullmatch(value) or (told and bool(_compile(_TOLD_NAME).fullmatch(value)))


def _is_spoken(value: str) -> bool:
    """Words put together with `-`, `_`, `.` or capitals: an identifier, whatever its length."""
    words = [at for at in re.split(r"[^A-Za-z0-9]+|(?<=[a-z])(?=[A-Z])", value) if at]
    plain = sum(len(at) for at in words if _compile(r"[A-Z]?[a-z]{2,}|[A-Z]{2,}|\d{1,4}").fullmatch(at))
    return plain * 4 >= 3 * sum(len(at) for at in words)


def _classify(at: str) -> int:
    return 1 if at.islower() else 2 if at.isupper() else 3 if at.isdigit() else 4


# --- contexts ---

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
_CONTEXTS_WORDS = r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+"
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


def find_placed(text: str, low: str) -> Iterator[SecretMatch]:
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


def _find_urls(text: str) -> Iterator[SecretMatch]:
    for match in _compile(_URL).finditer(text):
        value = match["value"]
        if not is_standin(value) and value != match["user"] and text[match.start() - 1 : match.start()].isalnum():
            yield SecretMatch("url-password", "a password in an address", *match.span("value"))


def _find_users(text: str) -> Iterator[SecretMatch]:
    for match in _compile(_USER).finditer(text):
        if "curl" not in text[max(match.start() - 600, 0) : match.start()]:
            continue
        given = match["given"].replace('"', "").replace("'", "")
        user, _, password = given.partition(":")
        value = (password or (user if given.endswith(":") else "")).removeprefix("{").removesuffix("}")
        if len(value) > 3 and "{" not in value and not is_standin(value) and not (value.isalpha() and value.islower()):
            yield SecretMatch("curl-password", "a password on a command line", *match.span("given"))


def _find_given(text: str) -> Iterator[SecretMatch]:
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
            yield SecretMatch("auth-header", "a credential in a header", start, start + len(value))
        elif _is_likely(kind, value, is_quoted=group == "quoted"):
            yield _make_hit(kind, start, start + len(value))


def _find_bearers(text: str) -> Iterator[SecretMatch]:
    for match in _compile(_BEARER).finditer(text):
        if is_random(match["value"], shortest=20):
            yield SecretMatch("bearer-token", "a bearer token", *match.span("value"))


def _find_named(text: str, pattern: str) -> Iterator[SecretMatch]:
    for match in _compile(pattern).finditer(text):
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
    words = [at.lower() for at in _compile(_CONTEXTS_WORDS).findall(name) if not at.isdigit()]
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


# --- prose ---
# Secrets that somebody tells in a sentence: "the password is …", "der Schlüssel lautet …", "密码是…".
#
# A word for a password or a key is found first; then the words after it are judged, up to the end of the sentence. A
# password must follow such a word directly, or a word like "is", because it may look like anything; a key or token
# shows
# by itself that chance has made it, and may stand anywhere in the sentence. Six languages, each a row of words.

_WINDOW = 110
_TOKENS = 16

# Letters that every word for a password has some of.
_STEMS = (
    "pass",
    "pw",
    "login",
    "credential",
    "kenn",
    "zugang",
    "shared",
    "identifiant",
    "secr",
    "contra",
    "clave",
    "credencial",
    "密",
    "口令",
    "パス",
    "合言葉",
)
# By language: words for a password, words for a key, words that lead to a value.
_PROSE_PASSWORDS = (
    r"pass[ -]?(?:words?|phrases?|codes?)|passwds?|pwd|pw|pass(?=\s*[=:])|shared secret|login(?:s)?|credentials?",
    r"passw(?:ort|örter)|kenn(?:wort|wörter)|zugangsdaten|zugangscode",
    r"mots? de passe|identifiants?|phrase secrète",
    r"contraseñas?|clave(?:s)?|credenciales",
    r"密码|密碼|口令|账号密码",
    r"パスワード|パスコード|合言葉",
)
_KEYS = (
    r"(?:api|access|secret|private|encryption|licen[sc]e|signing|master|client)[ _-]?(?:keys?|tokens?|secrets?)|"
    r"tokens?|secrets?|keys?|app[ _-]?id|"
    r"seed|x-[a-z-]{2,20}(?:key|token|auth)|secret_key|[a-z_]{0,30}(?:_key|_token|_secret)|bearer|credentials?|webhook",
    r"(?:[a-zäöü-]{0,30})schlüssel|geheimnis|(?:[a-z-]{0,20}-)?secret",
    r"jetons?|clés?|secrets?",
    r"claves?|secretos?|llaves?",
    r"密钥|密鑰|秘钥|金鑰|令牌|凭证|私钥",
    r"キー|トークン|シークレット|秘密鍵|鍵",
)
_LEADS = (
    r"is|was|are|were|be|reads|equals|remains|still|now|currently|again|simply|just|example|e\.g\.|namely|like|from|to|type|enter|use|with|using|as|word",
    r"ist|war|lautet|lauten|heißt|bleibt|noch|immer|jetzt|aktuell|derzeit|beispiel|etwa|von|mit|auf|eingeben",
    r"est|était|reste|toujours|encore|actuellement|exemple|avec|soit",
    r"es|era|sigue|siendo|actualmente|ahora|ejemplo|con",
)
_CJK_LEADS = "是为為成叫即は:=→を"
_PINS = r"PINs?|pin[ -]codes?|Geheimzahl|暗証番号"
_PAIRS = (
    r"(?:account|login|user|credentials|basic auth|zugangsdaten|zugang|konto|benutzer|identifiants|compte|cuenta|"
    r"usuario)|账号|帐号|账户|アカウント"
)
_PAIR = r"(?<![\w/:@])[\w.+@-]{2,60}(?: ?/ |:)(?P<value>[!-+.-<>-~-]{6,80})(?![,=])"
_TOKEN = r"[!-~\u00a1-\u02af]+"
_GIVEN = r"[\"'\]]{0,2}[ \t]{0,2}[:=]"
_PROSE_ENDS = r"[.!?](?=\s|\Z)|[。！？]|\n"
_NOT_KEYS = (
    r"(?<![a-z])(?:commit|sha\d*|hash(?:es)?|checksum|digest|rev(?:ision)?|md5|uuid|guid|build|image|tag|etag|integrity|"
    r"fingerprint|trace|request|session|ticket|document|file|branch|object|id|prüfsumme|提交|哈希)"
    r"\W{0,4}(?:is|ist|was|von|of|:)?\W{0,3}\Z"
)
_ARGUMENT = r"[A-Za-z_]\w*=(?!=)[^\d]*\Z"  # of a call, in code
# A key that everybody may have: the word before it says so, or it begins as public keys of SSH do, or it is a checksum.
_PUBLIC = r"(?:public|öffentliche[rns]?|publique|pública|公开|公開)[ -]?\Z"
_PROSE_OPEN = r"AAAA[BCE][0-9A-Za-z]{2}|.{0,80}\bsha\d{1,3}[:-]"
_FILE = r"(?i)\.(?:js|ts|css|json|md|py|png|jpe?g|svg|html?|txt|ya?ml|toml|lock|log|zip|gz|pdf|so|whl)$"
_LETTERS = "[a-zäöüßéèêáíóúñ]{2,15}"
_PHRASE = (
    r"(?i)(?:passphrase|phrase secrète|frase de paso)[^.:\n]{0,50}:\s{0,3}"
    rf"(?P<value>{_LETTERS}(?: {_LETTERS}){{2,9}})(?=[.\n]|\Z)"
)
_PHRASE_NOT = frozenset(
    "in is the see ask stored kept saved vault none not im beim der die siehe steht liegt voir dans".split()
)
_STRIP_LEFT = "\"'`(*[<“”„«‘「『,;:"
_STRIP_RIGHT = "\"'`)*]>“”»’」』.,;:"


def find_told(text: str, low: str, dense: FoldedText) -> Iterator[SecretMatch]:
    """What a sentence tells; `low` is the text in lower case, `dense` its long runs."""
    if any(at in low for at in _STEMS):
        yield from _find_passwords(text, low)
    yield from _find_keys(text, low, dense)
    if "pin" in low or "geheimzahl" in low or "暗証" in low:
        yield from _find_pins(text)
    if "phrase" in low or "frase" in low:
        yield from _find_phrases(text)
    for match in _compile(_PAIRS).finditer(low):
        if _is_apart(low, match.start(), match.end()):
            yield from _find_pair(text, match.end())


def _find_passwords(text: str, low: str) -> Iterator[SecretMatch]:
    nouns = [at.span() for at in _compile("|".join(_PROSE_PASSWORDS)).finditer(low) if _is_apart(low, *at.span())]
    for number, (_, begin) in enumerate(nouns):
        # Up to the next such word: that one speaks for what follows it, and no word is looked at twice.
        end = nouns[number + 1][0] if number + 1 < len(nouns) else len(text)
        window = _cut(text[begin : min(begin + _WINDOW, end)])
        for start, value in _list_words(window):
            if _leads(window[:start]) and is_password(value, told=True) and not _compile(_ARGUMENT).match(value):
                yield SecretMatch(
                    "told-password", "a password in a sentence", begin + start, begin + start + len(value)
                )
                break


def _find_keys(text: str, low: str, dense: FoldedText) -> Iterator[SecretMatch]:
    """From each long run back: is it made by chance, and does its sentence speak of a key before it?"""
    for run in _compile(r"[!-~]{16,}").finditer(dense.text):
        begin = dense.find_place(run.start(), run.end())[0]
        start, value = _strip(run.group(), begin)
        before = low[max(start - _WINDOW, 0) : start]
        nouns = [at for at in _compile("|".join(_KEYS)).finditer(before) if _is_apart(before, at.start(), at.end())]
        if (
            not nouns
            or _compile(_PUBLIC).search(before, 0, nouns[-1].start())
            or _compile(_PROSE_ENDS).search(before, nouns[-1].end() + 2)
        ):
            continue
        noun = nouns[-1]
        since = before[noun.end() :]
        if noun.group().isascii() and _compile(_GIVEN).match(since):
            continue  # contexts is the judge of those
        if _is_key(value, since, before):
            yield SecretMatch("told-secret", "a key or token in a sentence", start, start + len(value))


def _list_words(window: str) -> Iterator[tuple[int, str]]:
    for count, token in enumerate(_compile(_TOKEN).finditer(window)):
        if count >= _TOKENS:
            return
        yield _strip(token.group(), token.start())


def _is_apart(low: str, start: int, end: int) -> bool:
    """Whether a word stands for itself and not in a name such as `credentials.url`; Chinese and Japanese always do."""
    if low[start] > "\u2e80":
        return True
    left, right = low[start - 1 : start], low[end : end + 2]
    return not ((left.isalnum() and left < "\u2e80") or left in ("_", ".", "$")) and not _compile(
        r"[a-z0-9_]|[./-][a-z0-9_]"
    ).match(right)


def _is_key(value: str, before: str, context: str) -> bool:
    if (
        "://" in value
        or "/" in value[:2]
        or _compile(r"[\"'<>{}()]").search(value)
        or _compile(_FILE).search(value)
        or _compile(_NOT_KEYS).search(context)
    ):
        return False
    if _compile(_PROSE_OPEN).match(value):
        return False
    if is_uuid(value):
        return _leads(before) and not is_standin(value)
    return is_random(value, shortest=32 if is_hex(value) and not _leads(before) else 16)


def _find_pins(text: str) -> Iterator[SecretMatch]:
    for match in _compile(_PINS).finditer(text):
        if not _is_apart(text, match.start(), match.end()):
            continue
        window = _cut(text[match.end() : match.end() + 45])
        for number in _compile(r"(?<![\w.,:/-])\d{4,8}(?![\w:/-]|[.,]\d)").finditer(window):
            if _leads(window[: number.start()]) and not 1900 <= int(number.group()) <= 2100:
                yield SecretMatch(
                    "told-pin", "a PIN in a sentence", match.end() + number.start(), match.end() + number.end()
                )
                break


def _find_phrases(text: str) -> Iterator[SecretMatch]:
    for match in _compile(_PHRASE).finditer(text):
        if _PHRASE_NOT.isdisjoint(match["value"].lower().split()):
            yield SecretMatch("told-password", "a passphrase in a sentence", *match.span("value"))


def _find_pair(text: str, begin: int) -> Iterator[SecretMatch]:
    window = _cut(text[begin : begin + 70])
    for match in _compile(_PAIR).finditer(window):
        value = match["value"].rstrip(_STRIP_RIGHT)
        if is_password(value, told=False):
            start = begin + match.start("value")
            yield SecretMatch("told-password", "a name and its password in a sentence", start, start + len(value))
            return


def _leads(before: str) -> bool:
    """Whether what stands before a value says that the value comes now: nothing but signs, or a word like "is"."""
    bare = before.rstrip(" \t\"'`“”„‘’«»「『*(,")
    return not bare.strip(" \t:=*_-") or bare[-1] in _CJK_LEADS or bool(_lead_words().search(bare.lower()))


def _strip(token: str, start: int) -> tuple[int, str]:
    left = token.lstrip(_STRIP_LEFT)
    return start + len(token) - len(left), left.rstrip(_STRIP_RIGHT)


def _cut(window: str) -> str:
    lead = len(window) - len(window.lstrip(" \t:=*\n"))
    end = _compile(_PROSE_ENDS).search(window, lead)
    return window[: end.start()] if end else window


@cache
def _lead_words() -> re.Pattern[str]:
    return re.compile(rf"(?<!\w)(?:{'|'.join(_LEADS)})\Z")
