"""Secrets that somebody tells in a sentence: "the password is …", "der Schlüssel lautet …", "密码是…".

A word for a password or a key is found first; then the words after it are judged, up to the end of the sentence. A
password must follow such a word directly, or a word like "is", because it may look like anything; a key or token shows
by itself that chance has made it, and may stand anywhere in the sentence. Six languages, each a row of words.
"""

import re
from collections.abc import Iterator
from functools import cache

from memdir.secrets.folding import Reading
from memdir.secrets.likeness import is_hex, is_password, is_random, is_standin, is_uuid
from memdir.secrets.records import Hit

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
_PASSWORDS = (
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
_ENDS = r"[.!?](?=\s|\Z)|[。！？]|\n"
_NOT_KEYS = (
    r"(?<![a-z])(?:commit|sha\d*|hash(?:es)?|checksum|digest|rev(?:ision)?|md5|uuid|guid|build|image|tag|etag|integrity|"
    r"fingerprint|trace|request|session|ticket|document|file|branch|object|id|prüfsumme|提交|哈希)"
    r"\W{0,4}(?:is|ist|was|von|of|:)?\W{0,3}\Z"
)
_ARGUMENT = r"[A-Za-z_]\w*=(?!=)[^\d]*\Z"  # of a call, in code
# A key that everybody may have: the word before it says so, or it begins as public keys of SSH do, or it is a checksum.
_PUBLIC = r"(?:public|öffentliche[rns]?|publique|pública|公开|公開)[ -]?\Z"
_OPEN = r"AAAA[BCE][0-9A-Za-z]{2}|.{0,80}\bsha\d{1,3}[:-]"
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


def find_told(text: str, low: str, dense: Reading) -> Iterator[Hit]:
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


def _find_passwords(text: str, low: str) -> Iterator[Hit]:
    nouns = [at.span() for at in _compile("|".join(_PASSWORDS)).finditer(low) if _is_apart(low, *at.span())]
    for number, (_, begin) in enumerate(nouns):
        # Up to the next such word: that one speaks for what follows it, and no word is looked at twice.
        end = nouns[number + 1][0] if number + 1 < len(nouns) else len(text)
        window = _cut(text[begin : min(begin + _WINDOW, end)])
        for start, value in _list_words(window):
            if _leads(window[:start]) and is_password(value, told=True) and not _compile(_ARGUMENT).match(value):
                yield Hit("told-password", "a password in a sentence", begin + start, begin + start + len(value))
                break


def _find_keys(text: str, low: str, dense: Reading) -> Iterator[Hit]:
    """From each long run back: is it made by chance, and does its sentence speak of a key before it?"""
    for run in _compile(r"[!-~]{16,}").finditer(dense.text):
        begin = dense.find_place(run.start(), run.end())[0]
        start, value = _strip(run.group(), begin)
        before = low[max(start - _WINDOW, 0) : start]
        nouns = [at for at in _compile("|".join(_KEYS)).finditer(before) if _is_apart(before, at.start(), at.end())]
        if (
            not nouns
            or _compile(_PUBLIC).search(before, 0, nouns[-1].start())
            or _compile(_ENDS).search(before, nouns[-1].end() + 2)
        ):
            continue
        noun = nouns[-1]
        since = before[noun.end() :]
        if noun.group().isascii() and _compile(_GIVEN).match(since):
            continue  # contexts is the judge of those
        if _is_key(value, since, before):
            yield Hit("told-secret", "a key or token in a sentence", start, start + len(value))


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
    if _compile(_OPEN).match(value):
        return False
    if is_uuid(value):
        return _leads(before) and not is_standin(value)
    return is_random(value, shortest=32 if is_hex(value) and not _leads(before) else 16)


def _find_pins(text: str) -> Iterator[Hit]:
    for match in _compile(_PINS).finditer(text):
        if not _is_apart(text, match.start(), match.end()):
            continue
        window = _cut(text[match.end() : match.end() + 45])
        for number in _compile(r"(?<![\w.,:/-])\d{4,8}(?![\w:/-]|[.,]\d)").finditer(window):
            if _leads(window[: number.start()]) and not 1900 <= int(number.group()) <= 2100:
                yield Hit("told-pin", "a PIN in a sentence", match.end() + number.start(), match.end() + number.end())
                break


def _find_phrases(text: str) -> Iterator[Hit]:
    for match in _compile(_PHRASE).finditer(text):
        if _PHRASE_NOT.isdisjoint(match["value"].lower().split()):
            yield Hit("told-password", "a passphrase in a sentence", *match.span("value"))


def _find_pair(text: str, begin: int) -> Iterator[Hit]:
    window = _cut(text[begin : begin + 70])
    for match in _compile(_PAIR).finditer(window):
        value = match["value"].rstrip(_STRIP_RIGHT)
        if is_password(value, told=False):
            start = begin + match.start("value")
            yield Hit("told-password", "a name and its password in a sentence", start, start + len(value))
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
    end = _compile(_ENDS).search(window, lead)
    return window[: end.start()] if end else window


@cache
def _lead_words() -> re.Pattern[str]:
    return re.compile(rf"(?<!\w)(?:{'|'.join(_LEADS)})\Z")


@cache
def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)
