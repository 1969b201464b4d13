"""What a value looks like: made by chance, chosen as a password, or standing in for one. Pure, by rules of thumb.

Entropy counts how varied the characters are; mixing, how often two neighbours are of different classes (small, capital,
digit, other). Random strings mix in half of their places, words and names in few: that tells them apart where entropy
does not.
"""

import re
from collections import Counter
from functools import cache
from itertools import pairwise
from math import log2

from memdir.secrets.records import Allow

_JUDGED = 200  # characters of a value that are looked at; more of it says nothing new
# Whatever else a rule says, this is no secret.
MASKS = (
    Allow(r"(?i)x{6}|x{3}[-_.]x{3}|[*•●∗]{3}|\.{3}|…|#{5}|\?{4}|_{5}|-{5}|~{5}", "a mask"),
    Allow(r"(?i)example|redacted|masked|placeholder|removed|censored|_your_|_here", "a word that says so"),
    Allow(r"\$\{|\$\(|\{\{|\}\}|<%|%>|\$[A-Z][A-Z_]{2,}|^\$\w+$|^%\w+%$|^%s$|^@\w+@$", "a variable"),
    Allow(r"(?i)abcdefghijklmnopqrst|0123456789abcdef0123456789abcdef", "the alphabet"),
)
# Neither is this, unless its shape alone says what it is.
_WORDS = (
    Allow(
        r"(?i)(?:your|my|some|the|insert|put|enter|replace|paste)[-_ ]?(?:own[-_ ]?)?(?:[a-z]{2,12}[-_ ]?){0,2}"
        r"(?:key|token|secret|pass|pw|here|bot|value)",
        "a word for what belongs there",
    ),
    Allow(r"(?i)[-_](?:here|goes)\b|here[-_]", "a word for what belongs there"),
    Allow(r"^(.)\1+$|^(..)\2{3,}$|(.)\3{11}", "one character again and again"),
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


@cache
def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)
