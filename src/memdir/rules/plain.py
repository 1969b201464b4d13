"""Which part of a message is the person's own plain words, and whether it holds a date or a secret.

`taint` tells what was quoted or pasted; this room adds what a rule must not hear besides: lines of code and logs, a
letter or a chat between others, and a text that was handed over to be worked on.
"""

import re
from datetime import datetime

from memdir.dates import make_absolute
from memdir.secrets import find_secrets
from memdir.taint import split_message

# A request to work on a text, and a word for that text, which then follows.
_HANDS_OVER = re.compile(
    r"\b(?:translat|polish|proofread|rewrit|correct|improv|edit|summari[sz]|fix|check|rephras|reword|shorten|wording|"
    r"friendlier|politer|glätt|überarbeit|korrigier|übersetz|verbesser|corrig|tradui|relis|reformul|amélior|revis|"
    r"traduc|mejora|reescrib)\w*\b|润色|翻译|修改|改一下|校对|直して|訳し|添削|校正",
    re.IGNORECASE,
)
_TEXT = re.compile(
    r"\b(?:e?-?mails?|texts?|letters?|messages?|paragraphs?|sentences?|drafts?|threads?|posts?|announcements?|"
    r"nachrichten?|briefe?|absatz|absätze|courriel|lettre|correos?|mensajes?|cartas?|textos?|this|das|ça|ceci|esto)\b|"
    r"邮件|文章|段落|消息|メール|文",
    re.IGNORECASE,
)
_LEAD_LINES = 3
_GREETING = re.compile(
    r"\s*(?:(?:hi|hello|dear|hey) (?:all|team|everyone|everybody|folks)\b|dear \w+|liebe[rs]? |sehr geehrte|"
    r"hallo (?:zusammen|team|alle)|bonjour (?:à|a) tous|chers? |chère|hola a todos|estimad|querid|"
    r"各位|大家好|尊敬的|親愛的|お疲れ様|お世話になっております|関係者各位)",
    re.IGNORECASE,
)
_TALK = re.compile(
    r"\s*(?:\[?\d{1,2}:\d\d\]? ?)?(?!note|rule|remember|important)[a-z][\w.-]{1,15}:\s+\S", re.IGNORECASE
)
_LOG = re.compile(r"\s*(?:\[?(?:WARN|ERROR|INFO|DEBUG|FATAL|TRACE)\b|npm (?:WARN|ERR)|//|#include|#\s|\$ |Traceback)")
_MONTH = (
    "jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|"
    "nov(?:ember)?|dec(?:ember)?|januar|februar|märz|mai|juni|juli|oktober|dezember|janvier|février|mars|avril|juin|"
    "juillet|août|septembre|octobre|novembre|décembre|enero|febrero|marzo|abril|mayo|junio|julio|agosto|septiembre|"
    "octubre|noviembre|diciembre"
)
_DATE = re.compile(
    rf"\b\d{{4}}-\d\d(?:-\d\d)?\b|\bQ[1-4]\b|\b\d{{1,2}}[./]\d{{1,2}}(?:[./]\d{{2,4}})?\b|"
    rf"\d{{1,2}}\s*月(?:\s*\d{{1,2}}\s*[日号])?|"
    rf"\b(?:{_MONTH})\b\.?(?: \d|$)|\b(?:in|until|by|before|im|bis|en|jusqu'en|hasta) (?:{_MONTH}|may)\b|"
    rf"\b\d{{1,2}}(?:st|nd|rd|th|er|\.)?(?: of| de)? (?:{_MONTH}|may)\b|\bthis (?:morning|afternoon|evening)\b|月底",
    re.IGNORECASE,
)
# Numbers that open something; the scanner of secrets leaves them to those who know the context.
_NUMBER = re.compile(
    r"(?:\b(?:pass ?words?|passwort|kennwort|mot de passe|contraseña|(?:launch|access|door|entry|security|alarm|"
    r"unlock) code|pin(?: code)?|api[- ]?(?:key|token)|credit card|kreditkarte|iban|ssn|cvv|tarjeta|carte bancaire|"
    r"wi-?fi key)\b|密码|口令|密钥|パスワード|暗証番号)"
    r"[^\n]{0,40}?(?<![\w-])(?!\d{4}-\d\d-\d\d)(?!\d{1,3}\b)(?=\S*\d)(?P<value>\S{4,})",
    re.IGNORECASE,
)


def find_plain(text: str) -> str:
    """The person's own words; a quotation inside a line leaves a mark, a pasted block a line end."""
    spans = ((span.text if span.plain else "\n" if "\n" in span.text else " … ") for span in split_message(text))
    lines = _cut_letter("".join(spans).splitlines())
    kept: list[str] = []
    for number, line in enumerate(lines):
        if _LOG.match(line):
            continue
        more = not line.strip() and any(lines[number:]) and len(kept) <= _LEAD_LINES
        if more and _is_handing_over(" ".join(kept)):
            break
        kept.append(line)
    return "\n".join(kept)


def has_date(text: str, now: datetime) -> bool:
    return _DATE.search(text) is not None or bool(make_absolute(text, now)[1])


def holds_secret(text: str) -> bool:
    return bool(find_secrets(text)) or _NUMBER.search(text) is not None


def find_secret_values(text: str) -> tuple[str, ...]:
    """What in a text may not be repeated, the longest first: a part of one may be another."""
    found = {text[at.start : at.end] for at in find_secrets(text)} | {at["value"] for at in _NUMBER.finditer(text)}
    return tuple(sorted(found, key=len, reverse=True))


def name_secrets(text: str) -> str:
    """What sort of secrets a text holds, in words; never the values."""
    kinds = [f"{at.what} ({at.rule})" for at in find_secrets(text)] or ["a number that opens something"]
    return ", ".join(dict.fromkeys(kinds))


def _is_handing_over(text: str) -> bool:
    """Whether a text asks to work on another that follows it."""
    return bool(_HANDS_OVER.search(text)) and (text.rstrip().endswith((":", "：")) or bool(_TEXT.search(text)))


def _cut_letter(lines: list[str]) -> list[str]:
    """Up to where a letter, or a chat between others, begins."""
    talk = [number for number, line in enumerate(lines) if _TALK.match(line)]
    starts = [number for number, line in enumerate(lines) if _GREETING.match(line)]
    found = [*talk[:1], *starts] if len(talk) > 1 else starts
    return lines[: min(found)] if found and min(found) > 0 else lines
