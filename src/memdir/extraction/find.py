"""The local extractor: what a conversation wants remembered or forgotten, found by rules in six languages, no model.

    messages --find_wishes--> wishes --place--> staging

`tongue` and the languages hold the patterns, `hearing` and `joining` find what they fit, `naming` words it as a memory,
`merging` lets it meet what is there already. It hears a person's own plain words; what was pasted is told by `taint`.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import datetime

from memdir.errors import FormatError
from memdir.extraction.provenance import split_message
from memdir.format.drafts import check_description, compose_body
from memdir.frozen import dataclass, replace
from memdir.language.dates import make_absolute
from memdir.language.filler import count_content
from memdir.language.ignore import IgnoreReach, find_ignoring
from memdir.language.requests import (
    RequestCategory,
    RequestLanguage,
    RequestRule,
    RuleNeed,
    compile_pattern,
    find_request_languages,
    find_starts,
    has,
    may_fit,
    skip_interjections,
    starts,
)
from memdir.language.words import Sentence, split_items, split_sentences
from memdir.records import Kind, Message
from memdir.store.inbox import MASK
from memdir.store.secrets import find_secrets
from memdir.text import one_line, shorten

__all__ = [
    "Placement",
    "Wanted",
    "find_hidden_wishes",
    "find_wishes",
]


# --- plain ---
# Which part of a message is the person's own plain words, and whether it holds a date or a secret.
#
# `taint` tells what was quoted or pasted; this room adds what a rule must not hear besides: lines of code and logs, a
# letter or a chat between others, and a text that was handed over to be worked on.

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


# --- passing ---
# What is not worth keeping even if somebody asks: what the project itself tells, and what passes with the task.
#
# Narrow patterns over words that programmers share in every language: source files, commits, calls, branches. Whether
# a
# text really stands in the project is `derivable`'s question, which reads it.

_SOURCE = (
    r"(?:py|pyi|js|jsx|ts|tsx|mjs|go|rs|java|rb|c|cc|cpp|h|hpp|cs|php|kt|swift|scala|ex|toml|ya?ml|json|cfg|ini|lock|"
    r"css|scss|html|sql|sh)"
)
_DERIVABLE = re.compile(
    rf"(?<![\w/:.@-])(?:[\w.-]+/)*[\w-]+\.{_SOURCE}\b(?![/.]\w)|"  # a source file
    r"\bcommit [0-9a-f]{7,40}\b|\b(?:PR|pull request|issue|ticket) #?\d+ (?:fixed|introduced|added|removed)\b|"
    r"\b\w+\(\)|"
    r"\b(?:class|function|method|interface|struct|enum|module|component|hook)\b.{0,30}\b(?:inherits|extends|"
    r"implements|returns|"
    r"takes|calls|wraps)\b|\b(?:[A-Z][a-z]+){2,}\b.{0,20}\b(?:inherits|extends|implements|returns|is an? (?:singleton|"
    r"subclass|"
    r"interface|abstract|class|function|method))\b"
)
_RECORDED = re.compile(
    r"\bcommit [0-9a-f]{7,40}\b|\b(?:in|see|from) (?:the )?(?:package\.json|pyproject\.toml|cargo\.toml|go\.mod|"
    r"pom\.xml)\b",
    re.IGNORECASE,
)
_RECIPE = re.compile(r"(?:the )?(?:fix|solution|workaround)(?:\s*:| (?:is|was) to\b)", re.IGNORECASE)
# Holidays and meals are decided and due as well, but they are no project.
_PRIVATE = re.compile(
    r"\b(?:pizza|lunch|dinner|breakfast|restaurant|vacation|wedding|party|birthday|movies?|airport|flight|"
    r"train|dentist|doctor|gym|school|groceries|kino|essen|urlaub|mittag\w*|hochzeit|flughafen|déjeuner|dîner|"
    r"vacances|"
    r"mariage|cena|almuerzo|vacaciones|boda|fiesta)\b|披萨|吃饭|午饭|旅行|度假|ピザ|ランチ|旅行|休暇",
    re.IGNORECASE,
)

# What is decided about a part of the code, or put into a variable or a file, is the task at hand.
_PART = re.compile(
    r"\b(?:the|this|that|die|der|das|diese[rsn]?|la|le|cette|el|esta|este) (?:variable|function|funktion|fonction|"
    r"función|"
    r"method|methode|méthode|método|class|klasse|classe|clase|loop|schleife|boucle|bucle|button|parameter|argument|"
    r"column|field)\b(?! names?)|这个(?:变量|函数|方法|类)|この(?:変数|関数|メソッド|クラス)",
    re.IGNORECASE,
)
_KEPT = re.compile(
    r"\b(?:in|dans|en) (?:an?|einer?|une?|una?) (?:\w+ )?(?:variablen?|file|datei|fichier|archivo)\b", re.IGNORECASE
)


def is_recorded(content: str) -> bool:
    """Whether it points to where the project itself records it: a commit, a file of dependencies."""
    return _RECORDED.search(content) is not None


def is_derivable(content: str) -> bool:
    """Whether it says what the code, its layout or its history say, or how something was mended."""
    return bool(_DERIVABLE.search(content) or _RECIPE.match(content))


def is_private(text: str) -> bool:
    return _PRIVATE.search(text) is not None


def is_about_code(text: str) -> bool:
    """Whether it is about one part of the code at hand."""
    return _PART.search(text) is not None


def is_put_away(text: str) -> bool:
    """Whether what is to be remembered goes into a variable or a file."""
    return _KEPT.search(text) is not None


# --- records ---
# What the local extractor hands on: a wish, and what became of it.

SAVE = "save"
FORGET = "forget"

_WHYS = {
    RequestCategory.REQUEST: "asked for",
    RequestCategory.CORRECTION: "a correction of the way of working",
    RequestCategory.CONFIRMATION: "praise for a way of working",
    RequestCategory.IDENTITY: "who the user is",
    RequestCategory.DEADLINE: "a date to be kept",
    RequestCategory.DECISION: "a decision",
    RequestCategory.POINTER: "where to look outside the project",
    RequestCategory.FORGET: "asked to forget",
}


@dataclass(frozen=True, slots=True)
class Wanted:
    """One thing a person wants remembered or forgotten, worded as a memory, with their own words beside it."""

    category: RequestCategory
    action: str
    kind: Kind | None
    title: str
    description: str
    body: str
    quote: str
    message: str = ""
    at: datetime | None = None
    language: str = ""
    hides: str = ""  # what secret was taken out of its words

    @property
    def is_explicit(self) -> bool:
        return self.category in (RequestCategory.REQUEST, RequestCategory.FORGET)

    @property
    def why(self) -> str:
        """For people."""
        return _WHYS[self.category]

    @property
    def target(self) -> str:
        """What is to be forgotten."""
        return self.body if self.action == FORGET else ""


@dataclass(frozen=True, slots=True)
class Placement:
    """What a wish came to: create, update, forget, unchanged or unclear; the memory, if it is known."""

    name: str
    action: str
    wish: Wanted | None
    quote: str = ""


# --- naming ---
# From a person's words to a memory's: a title, a description, a body, the type.
#
# The words stay theirs. Politeness goes, a reason is set apart, "I" becomes the user where that can be done without
# breaking the sentence, and dates become absolute. Nothing is added that was not said.

_TITLE_WORDS = 5
_TITLE_LEAST = 2
_TITLE_CHARS = 56
_TITLE_CJK = 24
_TITLE_LEAST_CJK = 5
_DESCRIPTION = 140
# For a description that says one word, where that is all there is to say: "the user is vegan", "I prefer tabs".
_ABOUT = {
    Kind.USER: "Personal background and circumstances",
    Kind.FEEDBACK: "How the user likes work done",
    Kind.PROJECT: "Noted about this project",
    Kind.REFERENCE: "Where things are found",
}
_TELLING = (2, 1)  # words that say something; fewer are no memory, but what was asked for and "I'm dyslexic" are one
_CLAUSE_END = re.compile(r"\s*(?:[,;—–(，、；：（。]|:(?=\s|$)|\s-\s)\s*")
_WORD = re.compile(r"[^\s,;!?()\[\]\"“”„«»「」『』]+")
_CONDITION = re.compile(
    r"(?:when|whenever|every time|each time|next time|any ?time|if|before|after|jedes mal|wenn|bevor|quand|"
    r"chaque fois|cada vez|cuando)\b",
    re.IGNORECASE,
)
_SMALL = re.compile(r"[a-zà-ÿ][a-zà-ÿ'-]*(?:\s|$|[,:;])")
_TOOLS = frozenset(
    "npm pnpm yarn git pip uv cargo make docker kubectl pytest eslint ruff mypy go bash zsh vim main master".split()
)
_HABIT = re.compile(r"\b(?:day|tag|jour|día)s? (?:is|are|ist|sind|est|sont|es|son)\b", re.IGNORECASE)
_TODAY = {
    r"\bthis (?:morning|afternoon|evening)\b|\bearlier today\b|\btonight\b": "on {}",
    r"\bheute (?:morgen|früh|mittag|nachmittag|abend|vormittag)\b": "am {}",
    r"\bce (?:matin|soir|midi)\b|\bcet après-midi\b": "le {}",
    r"\besta (?:mañana|tarde|noche)\b": "el {}",
    "今天(?:早上|上午|中午|下午|晚上)|今早|今晚": " {} ",
    "今朝|今夜|今日の(?:朝|午前|午後|夜|夕方)": " {} ",
}
# First person in English, with the verb that follows and, after an adverb, the one after that.
_SELF = re.compile(
    r"(?<![\w/.'-])(?:(?P<said>i'm|im|i am|i've|i'd|i'll|me|my)(?![\w'/.-](?!\s|$)|/)|"
    r"(?P<saidi>i)(?:\s+(?P<verb>[a-z']+)(?P<more>\s+[a-z']+)?)?(?![\w/]))",
    re.IGNORECASE,
)
_SHORT = {"i'm": "is", "im": "is", "i am": "is", "i've": "has", "i'd": "would", "i'll": "will"}
_THEY = {
    "i'm": "they are", "im": "they are", "i am": "they are", "i've": "they have", "i'd": "they would",
    "i'll": "they will", "me": "them", "my": "their",
}  # fmt: skip
_VERBS = {
    "have": "has",
    "am": "is",
    "do": "does",
    "don't": "doesn't",
    "dont": "doesn't",
    "were": "was",
    "haven't": "hasn't",
    "go": "goes",
}
_MODAL = re.compile(
    "can|could|will|would|should|must|may|might|can't|cannot|won't|shouldn't|did|didn't|had|was|wasn't|[a-z]+ed|wrote|"
    "spent|went|"
    "ran|made|got|saw|told|said|knew|never|always|also|still|just|usually|often|really|only|mostly|mainly|barely|"
    "rarely|"
    "primarily|currently|and|or"
)
_ADVERB = re.compile(
    "(?:never|always|also|still|just|usually|often|really|only|mostly|mainly|barely|rarely|primarily|currently|"
    "actually|strongly)$"
)


@dataclass(frozen=True, slots=True)
class WordedMemory:
    """A memory's parts."""

    kind: Kind
    title: str
    description: str
    body: str


def word_memory(
    content: str,
    tongue: RequestLanguage,
    kind: Kind,
    now: datetime,
    *,
    quote: str = "",
    praised: str = "",
    asked: bool = False,
) -> WordedMemory | None:
    """The memory that says this; None when no description could be made of it that recall could judge by.

    `praised` is what the agent had said where a person only says "keep doing that"; what was `asked` for may be short.
    """
    rule, why = split_reason(tidy(content, tongue), tongue, kind)
    day = None if kind is Kind.FEEDBACK else now  # "we deploy on Tuesdays" is a habit, not the coming one
    told = [_finish(_date(retell(part, tongue, kind), day), tongue) for part in rule.split("\n") if part.strip()]
    told += [f"“{praised}”"] if praised else []
    may_be_short = asked or kind is Kind.USER
    if not told or (
        not praised and count_content(" ".join(told)).telling < _TELLING[may_be_short or not tongue.spaced]
    ):
        return None
    reason = _finish(_date(retell(why, tongue, Kind.FEEDBACK), day), tongue) if why else None
    body = compose_body((" " if tongue.spaced else "").join(told), reason, None)
    about = _ABOUT[kind] if may_be_short else ""
    description = _describe(told, tongue, kind, _date(quote, day), now, about, praised=bool(praised))
    title = make_title(_date(praised or rule.split("\n")[0], day), tongue)
    return WordedMemory(kind, title, description, body.strip() + "\n") if title and description else None


def guess_request_kind(content: str, tongue: RequestLanguage, default: Kind) -> Kind:
    """What sort of thing this is, by how it begins."""
    text = tidy(content, tongue)
    orders = starts(tongue.directs, text)
    asks = (orders and not starts(tongue.looks, text)) or starts(tongue.prefers, text)
    if has(tongue.places, text) and not asks:
        return Kind.REFERENCE
    if starts(tongue.prefers, text):
        return Kind.FEEDBACK
    if starts(tongue.about_me, text):
        return Kind.USER
    if orders:
        return Kind.FEEDBACK
    return Kind.USER if default is Kind.PROJECT and has(tongue.mine, text) else default


def tidy(content: str, tongue: RequestLanguage) -> str:
    """The content without what leads to it and the politeness around it."""
    text = "\n".join(" ".join(line.split()) for line in content.splitlines())
    head = compile_pattern(tongue.that).match(text)
    text = text[head.end() :] if head else text
    tail = compile_pattern(tongue.tail).search(text) if tongue.tail else None
    text = text[: tail.start()] if tail else text
    text = text.strip().rstrip(" ,;:-–—?？、，")
    return text[:-1] if text.endswith(")") and "(" not in text else text


def split_reason(text: str, tongue: RequestLanguage, kind: Kind) -> tuple[str, str]:
    """The rule or fact, and the reason the person gave for it, if they did."""
    if kind not in (Kind.FEEDBACK, Kind.PROJECT) or not tongue.why or "\n" in text:
        return text, ""
    found = compile_pattern(tongue.why).search(text)
    if not found or found.start() < 8:
        return text, ""
    return text[: found.start()].rstrip(" ,;"), found["why"].strip()


def make_title(text: str, tongue: RequestLanguage) -> str:
    """A few words that name the subject: of the first clause that says something, conditions apart."""
    clauses = [part for part in _CLAUSE_END.split(text.strip().rstrip(".!?。！？")) if part.strip()]
    if len(clauses) > 1 and _CONDITION.match(clauses[0]):
        clauses = clauses[1:]
    if not tongue.spaced:
        return _title_unspaced(clauses)
    words: list[str] = []
    for clause in clauses:
        found = [word.strip(".'*`?!:") for word in _WORD.findall(clause)]
        words += [word for word in found if word and word.casefold() not in tongue.empty]
        if sum(word.casefold() not in tongue.links for word in words) >= _TITLE_LEAST:
            break
    return _capitalise(_trim_links(words, tongue.links))


def _trim_links(words: list[str], links: frozenset[str]) -> str:
    """At most so many words that are not prepositions, with the prepositions between them."""
    kept: list[str] = []
    for word in words:
        full = sum(at.casefold() not in links for at in kept) >= _TITLE_WORDS
        if full or len(" ".join([*kept, word])) > _TITLE_CHARS:
            break
        kept.append(word)
    while kept and kept[-1].casefold() in links:
        kept.pop()
    while kept and kept[0].casefold() in links:
        kept.pop(0)
    return " ".join(kept)


def _title_unspaced(clauses: list[str]) -> str:
    head = ""
    for clause in clauses:
        head = f"{head} {clause}".strip()
        if len(head) >= _TITLE_LEAST_CJK:
            break
    title = ""
    for part in re.findall(r"[!-~]+|\s+|.", head):
        if len(title) + len(part) > _TITLE_CJK and title:
            break
        title += part
    return title.strip().rstrip("をにがはでとのもへ、，")


def retell(text: str, tongue: RequestLanguage, kind: Kind) -> str:
    """The sentence as somebody else would say it of the person, where the language lets that be done word by word."""
    if tongue.name == "en":
        return _retell_english(text)
    if tongue.name == "zh":
        return re.sub(r"我(?!们|們|方|国|国)", "用户", text)
    if tongue.name == "ja":
        return re.sub(r"(?:私|僕|俺|わたし)(?=[はがもの])", "ユーザー", text)
    frame = {"de": "Sagt von sich: „{}“", "fr": "Dit de soi : « {} »", "es": "Dice de sí: «{}»"}[tongue.name]
    return frame.format(_capitalise(text).rstrip(".")) if kind is Kind.USER else text


def _retell_english(text: str) -> str:
    """ "I" is the user where it first stands, and they from then on, which needs no other form of the verb."""
    parts: list[str] = []
    place = 0
    for found in _SELF.finditer(text):
        parts += [text[place : found.start()], _say_they(found) if parts else _say_user(found)]
        place = found.end()
    told = "".join([*parts, text[place:]])
    return told[0].upper() + told[1:] if told.startswith("the user") else told


def _say_user(found: re.Match[str]) -> str:
    said, verb, more = (found["said"] or "i").lower(), found["verb"] or "", found["more"] or ""
    if said in ("me", "my"):
        return "the user" if said == "me" else "the user's"
    if said != "i":
        return f"the user {_SHORT[said]}"
    if _ADVERB.match(verb.lower()) and more:
        return f"the user {verb} {_third_person(more.strip())}"
    return f"the user {_third_person(verb)}{more}" if verb else "the user"


def _say_they(found: re.Match[str]) -> str:
    said = (found["said"] or "i").lower()
    if said in _THEY:
        return _THEY[said]
    rest = f" {found['verb']}" if found["verb"] else ""
    return f"they{rest}{found['more'] or ''}".replace("they am", "they are").replace("they was", "they were")


def _third_person(verb: str) -> str:
    low = verb.lower()
    if low in _VERBS:
        return _VERBS[low]
    if _MODAL.fullmatch(low) or not low.isalpha():
        return verb
    if low.endswith(("s", "sh", "ch", "x", "z", "o")):
        return f"{verb}es"
    return f"{verb[:-1]}ies" if low.endswith("y") and low[-2:-1] not in "aeiou" else f"{verb}s"


def _describe(
    told: list[str], tongue: RequestLanguage, kind: Kind, quote: str, now: datetime, about: str, *, praised: bool
) -> str:
    """One line that passes as a description: the first sentence, more of them, or the person's whole sentence."""
    dated = f"{told[0].rstrip('.。')} ({now.date().isoformat()})"
    joined = (" " if tongue.spaced else "").join(told)
    named = f"{about}: {told[0]}" if about else ""
    for text in (*told[:1], joined, dated, quote, named)[1 if praised else 0 :]:
        line = shorten(one_line(text), _DESCRIPTION).rstrip(".。")
        try:
            check_description(line, kind)
        except FormatError:
            continue
        return line
    return ""


def _date(text: str, now: datetime | None) -> str:
    """Relative dates made absolute, unless there is no day to see them from, or a day of the week is named as such."""
    if now is None or _HABIT.search(text):
        return text
    text = compile_pattern("(?<![上下个一])(?:本|这个|这)?月底(?=[之以]?前|必须|要|得)").sub(_find_month_end(now), text)
    for words, form in _TODAY.items():
        text = compile_pattern(words).sub(form.format(now.date().isoformat()), text)
    return make_absolute(text, now)[0]


def _find_month_end(now: datetime) -> str:
    return make_absolute("by the end of the month", now)[0].removeprefix("by ")


def _finish(text: str, tongue: RequestLanguage) -> str:
    text = _capitalise(text.strip().rstrip("!！ ").strip())
    if not text or text[-1] in ".。…”»」?？":
        return text
    return text + ("." if tongue.spaced else "。")


def _capitalise(text: str) -> str:
    found = _SMALL.match(text)
    plain = found and found[0].strip(" ,:;") not in _TOOLS
    return text[0].upper() + text[1:] if plain else text


# --- hearing ---
# A sentence, tried against the rules of a language.
#
# Precision first: a memory that nobody wanted costs more trust than one that is missing. So a sentence must say it at
# the
# right place, mean it for good and not for the task at hand, and a question, a quotation, a supposition or a report
# says
# nothing. It looks at one sentence at a time.

_HEARING_CONDITION = r"(?:when|whenever|if|before|after|wenn|falls|bevor|quand|si|avant|cuando|antes)\b"
_SCOPE = r"(?:in|for|on|with|during|while|bei|für|dans|pour|lors|en|para) [^,]{2,50},"
_FORGETTING = r"forget|vergess|vergiss|oubli|olvid|忘|no matter|or not|until i say|lose|not to self"
_SENTENCE = 500  # a longer one was not typed as one
_CONTENT = 600
_HEARING_SHORT = 60
_WORD_OR_TWO = 16  # "Always." after a sentence belongs to it


@dataclass(frozen=True, slots=True)
class RuleMatch:
    """A rule that fits a sentence: from sentence `first` to `last`, and the content as it was said.

    `points` says that it means the agent's message before it ("never do that again").
    """

    rule: RequestRule
    tongue: RequestLanguage
    first: int
    last: int
    content: str
    points: bool = False


@dataclass(frozen=True, slots=True)
class MessageContext:
    """What surrounds a message: an agent's message before it, whether it is mostly material, and its day."""

    answered: bool
    is_long: bool
    now: datetime


def match_rules(
    sentences: Sequence[Sentence], tongues: Sequence[RequestLanguage], setting: MessageContext
) -> Iterator[RuleMatch]:
    """What each sentence says, in the first language that hears something in it."""
    for place, sentence in enumerate(sentences):
        following = sentences[place + 1].hidden if place + 1 < len(sentences) else ""
        for tongue in tongues:
            found = list(_hear_sentence(sentence, following, place, tongue, setting))
            if found:
                yield from found
                break


def _hear_sentence(
    sentence: Sentence, following: str, place: int, tongue: RequestLanguage, setting: MessageContext
) -> Iterator[RuleMatch]:
    """The first rule that fits; after a date there may also be a pointer in a later clause."""
    asks = is_question(sentence.hidden, tongue) and not starts(tongue.begs, sentence.hidden)
    if sentence.hidden.startswith(("(", "（")):
        return  # an aside
    if len(sentence.text) > _SENTENCE or (asks and not has(tongue.asks, sentence.hidden)):
        return
    if not may_fit(tongue, sentence.hidden):
        return
    whole, places = find_starts(sentence.hidden, tongue)
    for rule in tongue.rules:
        if not _may_be_tried(rule, asks, setting):
            continue
        found = _match(rule, sentence.hidden, [whole] if RuleNeed.WHOLE in rule.needs else places)
        if not found or has(tongue.reported, sentence.hidden[: found.start()]):
            continue
        content = _find_content(rule, tongue, sentence, found, whole, setting)
        if _is_meant(rule, tongue, sentence, content, following, setting.now, found.start()):
            yield RuleMatch(rule, tongue, place, place, content[:_CONTENT])
            if rule.category is RequestCategory.DEADLINE:
                yield from _hear_pointer(sentence, place, tongue)
            return


def _may_be_tried(rule: RequestRule, asks: bool, setting: MessageContext) -> bool:
    strong = RuleNeed.STRONG in rule.needs
    if (setting.is_long and not strong) or (RuleNeed.ANSWERED in rule.needs and not setting.answered):
        return False
    return not asks or strong or RuleNeed.LASTING in rule.needs


def _find_content(
    rule: RequestRule,
    tongue: RequestLanguage,
    sentence: Sentence,
    found: re.Match[str],
    whole: int,
    setting: MessageContext,
) -> str:
    start, end = found.span("what") if found.re.groups else found.span()
    if rule.category is not RequestCategory.FORGET and start < end:
        start, end = _keep_sign(sentence.hidden, found, start, end, tongue)
    if RuleNeed.STRONG not in rule.needs and starts(tongue.pronouns, sentence.hidden[start:]) and found.start() > whole:
        start = whole  # "I hate mocks, never use them": what "them" means stands before it
    if rule.category is RequestCategory.CORRECTION or _corrects(rule, sentence.hidden, found, start, setting):
        start = skip_interjections(sentence.hidden, tongue)  # what stands before it belongs to it
    elif (
        Kind.FEEDBACK in (rule.kind, rule.default) and found.start() > whole and starts(_SCOPE, sentence.hidden[whole:])
    ):
        start = whole  # "in commit messages, always…": where it holds belongs to it
    elif rule.kind is Kind.FEEDBACK and starts(_HEARING_CONDITION, sentence.hidden[whole:]):
        start = whole  # "if you change the schema, always…": the condition belongs to it
    return sentence.text[start:end].strip()


def _corrects(rule: RequestRule, hidden: str, found: re.Match[str], start: int, setting: MessageContext) -> bool:
    """Whether an order for good stands in a later clause of an answer: what is before it says what it is about."""
    plain = RuleNeed.STRONG not in rule.needs and Kind.FEEDBACK in (rule.kind, rule.default)
    return (
        setting.answered and plain and found.start() == start and 0 < start < _HEARING_SHORT and "," in hidden[:start]
    )


def _keep_sign(hidden: str, found: re.Match[str], start: int, end: int, tongue: RequestLanguage) -> tuple[int, int]:
    """Where the content lies, with the cue if that holds a negation: to lose one is to keep the opposite.

    "Don't forget that" is the exception: its negation turns only the forgetting round.
    """
    if _is_negative(hidden[found.start() : start], tongue):
        start = found.start()
    if _is_negative(hidden[end : found.end()], tongue):
        end = found.end()
    return start, end


def _is_negative(cue: str, tongue: RequestLanguage) -> bool:
    return has(tongue.negates, cue) and not has(_FORGETTING, cue)


def _match(rule: RequestRule, text: str, places: Sequence[int]) -> re.Match[str] | None:
    pattern = compile_pattern(rule.pattern)
    return next((found for place in places if (found := pattern.match(text, place))), None)


def _hear_pointer(sentence: Sentence, place: int, tongue: RequestLanguage) -> Iterator[RuleMatch]:
    """ "…, findings go into Jira": a pointer in a clause after a date."""
    places = [at for at in find_starts(sentence.hidden, tongue)[1] if at]
    for rule in tongue.rules:
        found = _match(rule, sentence.hidden, places) if rule.category is RequestCategory.POINTER else None
        if found:
            yield RuleMatch(rule, tongue, place, place, sentence.text[found.start() :].strip())
            return


def is_question(text: str, tongue: RequestLanguage) -> bool:
    if has(tongue.tags, text) and not starts(tongue.questions, text):
        return False
    return text.rstrip(" )\"'”」").endswith(("?", "？")) or starts(tongue.questions, text)


def is_task(text: str, tongue: RequestLanguage) -> bool:
    """Whether only the work at hand is meant."""
    return has(tongue.tasks, compile_pattern(tongue.widens).sub(" ", text) if tongue.widens else text)


def _is_meant(
    rule: RequestRule,
    tongue: RequestLanguage,
    sentence: Sentence,
    content: str,
    following: str,
    now: datetime,
    begin: int,
) -> bool:
    text = sentence.hidden
    own = (
        text[begin:] if RuleNeed.LASTING in rule.needs else text
    )  # "rename it, and from now on…": the task is not meant
    if (_is_about_now(rule) and has(tongue.states, text)) or (_is_about_work(rule) and is_task(own, tongue)):
        return False
    if rule.category in (RequestCategory.DECISION, RequestCategory.DEADLINE, RequestCategory.CORRECTION) and is_private(
        text
    ):
        return False
    if is_put_away(text) or (
        rule.category in (RequestCategory.DECISION, RequestCategory.DEADLINE) and is_about_code(text)
    ):
        return False
    if RuleNeed.LASTING in rule.needs and starts(tongue.idle, tidy(content, tongue)):
        return False
    if RuleNeed.SOUND in rule.needs and has(tongue.ails, content):
        return False
    if RuleNeed.GENERAL in rule.needs and not _is_general(text, following, tongue):
        return False
    return RuleNeed.DATED not in rule.needs or has_date(sentence.text, now)


def _is_general(text: str, following: str, tongue: RequestLanguage) -> bool:
    """Whether it is meant for good, by its own words or by a short sentence after it: "Always.", "that's our rule"."""
    if has(tongue.general, text) or has(tongue.vouches, text):
        return True
    return (len(following) <= _WORD_OR_TWO and has(tongue.general, following)) or (
        len(following) <= _HEARING_SHORT and has(tongue.vouches, following)
    )


def _is_about_now(rule: RequestRule) -> bool:
    """Whether what it hears could be the state of a task; a date or a place outside is none."""
    return rule.category not in (RequestCategory.DEADLINE, RequestCategory.DECISION, RequestCategory.POINTER)


def _is_about_work(rule: RequestRule) -> bool:
    """Whether the rule hears how to work or who works: that may be meant for the task at hand only."""
    how = rule.category in (
        RequestCategory.REQUEST,
        RequestCategory.CORRECTION,
        RequestCategory.CONFIRMATION,
        RequestCategory.IDENTITY,
    )
    return how and RuleNeed.STRONG not in rule.needs


# --- joining ---
# What was heard, put together: content that points back, a list under a request, the sentence after a correction.

_POINTING = 6  # words of a sentence that says nothing without the one before it
_NEAR = 200  # characters of a sentence that another may point back to
_FOLLOWING = 160  # and of one that belongs to the correction before it
_SAYING = 3  # words of a sentence that says something
_MOST = 8  # items of a list


def join_heard(heard: Sequence[RuleMatch], sentences: Sequence[Sentence], answered: bool) -> list[RuleMatch]:
    """Each thing that was heard with all that belongs to it; what points at nothing is left out."""
    joined: list[RuleMatch] = []
    taken = {at.first for at in heard}
    for at in heard:
        last = joined[-1] if joined else None
        if last and last.last >= at.first and at.rule.category is not RequestCategory.POINTER:
            continue
        if last and _belongs_to(at, last):
            joined[-1] = replace(last, last=at.first, content=f"{last.content}\n{at.content}")
        elif last and _spans(at, last, sentences):
            between = sentences[at.first - 1].text
            joined[-1] = replace(last, last=at.first, content=f"{last.content}\n{between}")
        elif not _is_misplaced(at, sentences):
            whole = _complete(at, last, sentences, answered)
            joined += [_go_on(whole, sentences, taken)] if whole else []
    return joined


def _belongs_to(at: RuleMatch, last: RuleMatch) -> bool:
    """Whether it only goes on with what was heard in the sentence before."""
    if last.last != at.first - 1 or last.rule.category is RequestCategory.FORGET:
        return False
    if last.rule.category is RequestCategory.CORRECTION and at.rule.category is RequestCategory.CORRECTION:
        return True  # one correction, in as many sentences as it takes
    same = last.rule.category is at.rule.category and at.rule.kind is Kind.FEEDBACK
    return _points_back(at) or (same and has(at.tongue.refers, tidy(at.content, at.tongue)))


def _spans(at: RuleMatch, last: RuleMatch, sentences: Sequence[Sentence]) -> bool:
    """Whether it means all that was ordered before it: "ask first. don't guess. that goes for everything"."""
    follows = last.last == at.first - 2 and last.rule.category is not RequestCategory.FORGET
    return follows and _points_back(at) and _is_directing(sentences[at.first - 1], at.tongue)


def _is_misplaced(at: RuleMatch, sentences: Sequence[Sentence]) -> bool:
    if RuleNeed.ALONE in at.rule.needs and _is_among_orders(at, sentences):
        return True
    return RuleNeed.DIRECTING in at.rule.needs and not (at.first and _is_directing(sentences[at.first - 1], at.tongue))


def _points_back(at: RuleMatch) -> bool:
    content = tidy(at.content, at.tongue)
    return at.rule.category is not RequestCategory.FORGET and (not content or starts(at.tongue.pronouns, content))


def _complete(at: RuleMatch, last: RuleMatch | None, sentences: Sequence[Sentence], answered: bool) -> RuleMatch | None:
    """What it points back to put before it; None if that is nothing, or the task at hand."""
    if not _points_back(at):
        return _lead_in(at, last, sentences)
    if last and last.last == at.first - 1:
        return replace(at, content=f"{tidy(last.content, last.tongue)}\n{at.content}")
    if at.rule.category is RequestCategory.CONFIRMATION:
        return at
    if at.first:
        previous = sentences[at.first - 1]
        passes = is_task(previous.hidden, at.tongue) and RuleNeed.LASTING not in at.rule.needs
        if len(previous.text) >= _NEAR or passes:
            return None
        return replace(at, first=at.first - 1, content=f"{strip_leads(previous, at.tongue)}\n{at.content}")
    words = len(tidy(at.content, at.tongue).split())
    if not 0 < words <= _POINTING:
        return at
    return replace(at, points=True) if answered else None


def _lead_in(at: RuleMatch, last: RuleMatch | None, sentences: Sequence[Sentence]) -> RuleMatch:
    """A correction with the complaint before it, which says what it is about: "no more mocks. They lie." """
    free = at.first > (last.last + 1 if last else 0)
    if at.rule.category is not RequestCategory.CORRECTION or not free:
        return at
    previous = sentences[at.first - 1]
    said = strip_leads(previous, at.tongue)
    refers = has(at.tongue.refers, tidy(at.content, at.tongue)) or starts(at.tongue.negates, said)
    passes = len(said) > _FOLLOWING or is_question(previous.hidden, at.tongue) or is_task(previous.hidden, at.tongue)
    if passes or not refers or len(said.split()) < _SAYING:
        return at
    return replace(at, first=at.first - 1, content=f"{said}\n{at.content}")


def _is_among_orders(at: RuleMatch, sentences: Sequence[Sentence]) -> bool:
    """Whether "keep in mind" belongs to an order in the same message: "write a story, keep in mind who reads it"."""
    others = [one for place, one in enumerate(sentences) if place != at.first]
    orders = any(starts(at.tongue.orders, one.hidden) or is_question(one.hidden, at.tongue) for one in others)
    return orders and not has(at.tongue.lasts, sentences[at.first].hidden)


def _is_directing(sentence: Sentence, tongue: RequestLanguage) -> bool:
    places = (skip_interjections(sentence.hidden, tongue), find_starts(sentence.hidden, tongue)[0])
    passes = is_task(sentence.hidden, tongue) or is_question(sentence.hidden, tongue)
    return not passes and any(starts(tongue.directs, sentence.hidden[place:]) for place in places)


def _go_on(at: RuleMatch, sentences: Sequence[Sentence], taken: set[int]) -> RuleMatch:
    after = at.last + 1
    if after >= len(sentences) or (after in taken and at.rule.category is not RequestCategory.CORRECTION):
        return at
    following = sentences[after]
    if at.content.rstrip().endswith((":", "：")) or not tidy(at.content, at.tongue):
        return _take_list(at, sentences)
    if (
        at.rule.category is not RequestCategory.CORRECTION
        or len(following.text) > _FOLLOWING
        or is_question(following.hidden, at.tongue)
    ):
        return at
    if is_task(following.hidden, at.tongue) or not starts(at.tongue.goes_on, following.hidden):
        return at
    return replace(at, last=after, content=f"{at.content}\n{following.text}")


def _take_list(at: RuleMatch, sentences: Sequence[Sentence]) -> RuleMatch:
    last = at.last
    lines: list[str] = []
    for sentence in sentences[at.last + 1 : at.last + 1 + _MOST]:
        if lines and not sentence.bullet:
            break
        lines.append(f"{len(lines) + 1}) {sentence.text}")
        last += 1
    content = " ".join(lines) if len(lines) > 1 else lines[0].removeprefix("1) ")
    return replace(at, last=last, content=content)


def strip_leads(sentence: Sentence, tongue: RequestLanguage) -> str:
    """The sentence without the interjections before it: only those that a comma or the like sets apart."""
    return sentence.text[skip_interjections(sentence.hidden, tongue) :].strip(" .!,。！，、")


# --- wishing ---
# What the messages of a conversation want remembered or forgotten.
#
#     message --plain part--> sentences --rules of six languages--> heard --joined, worded--> wishes
#
# It does not know what memory already holds.

_WISHING_CLAUSE_END = re.compile(r"[,;，；、]\s*| (?:gesagt|erzählt|geschrieben) hab\w*|(?<=[^ ]) (?:- |– |— )")
_TOKEN = re.compile(r"[!-~]{24,}")  # a key or an address: letters, but of no language
_LONG = 1200  # a longer message is mostly material: only what asks for memory in so many words is heard in it
_BEFORE = 240  # of the agent's message
_PRAISED = 4  # words beside the praise itself, to count as saying what for
_WISHING_MOST = 8  # wishes of one message


def find_wishes(messages: Sequence[Message], *, now: datetime) -> tuple[Wanted, ...]:
    """All that the user's messages want, in order; the assistant's message before one gives a confirmation content.

    What holds a secret is left out.
    """
    return tuple(wish for wish in _hear_messages(messages, now) if not wish.hides)


def find_hidden_wishes(messages: Sequence[Message], *, now: datetime) -> tuple[Wanted, ...]:
    """What was plainly asked to be kept and holds a secret, in words without it: a person has to decide about those."""
    found = _hear_messages(messages, now)
    return tuple(wish for wish in found if wish.hides and wish.is_explicit and wish.action == SAVE)


def _hear_messages(messages: Sequence[Message], now: datetime) -> list[Wanted]:
    found: list[Wanted] = []
    before: str | None = None
    for message in messages:
        if message.role == "assistant" and message.text.strip():
            before = message.text
        if message.role == "user" and not message.is_meta:
            found += _hear_message(message, before, message.at or now)
    return found


def _hear_message(message: Message, before: str | None, now: datetime) -> list[Wanted]:
    tongues = find_request_languages(_TOKEN.sub(" ", message.text))
    if not any(may_fit(tongue, at.hidden) for at in split_sentences(message.text) for tongue in tongues):
        return []
    if find_ignoring(message.text) in (IgnoreReach.TURN, IgnoreReach.CONVERSATION):
        return []
    sentences = split_sentences(find_plain(message.text))
    if any(has(tongue.refusals, at.hidden) for tongue in tongues for at in sentences):
        return []
    plays = any(starts(tongue.plays, at.hidden) for tongue in tongues for at in sentences)
    is_long = plays or sum(len(at.text) for at in sentences) > _LONG
    setting = MessageContext(before is not None, is_long, now)
    heard = join_heard(list(match_rules(sentences, tongues, setting)), sentences, setting.answered)
    wishes = [wish for at in heard for wish in _make_wishes(at, sentences, before or "", message, now)]
    parts = ([wish for wish in wishes if bool(wish.hides) is hides] for hides in (False, True))
    return [wish for part in parts for wish in _drop_repeated(part)[:_WISHING_MOST]]


def _make_wishes(
    at: RuleMatch, sentences: Sequence[Sentence], before: str, message: Message, now: datetime
) -> Iterator[Wanted]:
    quote = " ".join(sentence.text for sentence in sentences[at.first : at.last + 1])
    content, praised = at.content, ""
    if at.rule.category is RequestCategory.CONFIRMATION:
        content, praised = _find_praised(at, sentences, before)
    elif at.points:
        praised = shorten(split_sentences(before)[0].text, _BEFORE)
    for part in split_items(content) if RuleNeed.STRONG in at.rule.needs else [content]:
        said = f"{quote}\n{part}\n{praised}"
        if holds_secret(said):
            yield from _hide(at, part, praised, quote, message, now)
            continue
        wish = _make_wish(at, part, praised, quote, message, now)
        if wish is not None and not holds_secret(wish.body):
            yield wish


def _hide(at: RuleMatch, part: str, praised: str, quote: str, message: Message, now: datetime) -> Iterator[Wanted]:
    """A wish without its secret; where nothing telling is left of a request, one that says so."""
    said = f"{quote}\n{part}\n{praised}"
    values, secrets = find_secret_values(said), name_secrets(said)
    part, praised, quote = (_mask(text, values) for text in (part, praised, quote))
    wish = _make_wish(at, part, praised, quote, message, now)
    if wish is not None:
        yield replace(wish, hides=secrets)
    elif at.rule.category is RequestCategory.REQUEST:
        about = f"Something that was to be remembered and held {secrets}"
        title = "A request with a secret"
        yield Wanted(
            at.rule.category, SAVE, Kind.PROJECT, title, about, quote, quote, message.id, message.at, hides=secrets
        )


def _mask(text: str, values: Sequence[str]) -> str:
    for value in values:
        text = text.replace(value, MASK)
    return text


def _make_wish(at: RuleMatch, content: str, praised: str, quote: str, message: Message, now: datetime) -> Wanted | None:
    category, tongue = at.rule.category, at.tongue
    if category is RequestCategory.FORGET:
        return _make_forget(at, content, quote, message)
    kind = at.rule.kind or guess_request_kind(content, tongue, at.rule.default)
    said = tidy(content, tongue)
    if is_recorded(said) or (kind is not Kind.FEEDBACK and is_derivable(said)):
        return None
    worded = word_memory(
        content, tongue, kind, now, quote=quote, praised=praised, asked=RuleNeed.STRONG in at.rule.needs
    )
    if worded is None:
        return None
    return Wanted(
        category, SAVE, kind, worded.title, worded.description, worded.body, quote, message.id, message.at, tongue.name
    )


def _make_forget(at: RuleMatch, content: str, quote: str, message: Message) -> Wanted | None:
    clause = _WISHING_CLAUSE_END.split(tidy(content, at.tongue).split("\n")[0])[0]
    target = shorten(clause.rstrip(".!。！ "), 200)
    if len(target) < 2:
        return None
    kind = guess_request_kind(content, at.tongue, Kind.PROJECT)
    return Wanted(
        at.rule.category,
        FORGET,
        kind,
        shorten(target, 60),
        target,
        target,
        quote,
        message.id,
        message.at,
        at.tongue.name,
    )


def _find_praised(at: RuleMatch, sentences: Sequence[Sentence], before: str) -> tuple[str, str]:
    """What the praise is for: the person's own words if they name it,
    else the beginning of the agent's message too."""
    tongue = at.tongue
    said = [
        strip_leads(one, tongue)
        for one in sentences
        if not is_question(one.hidden, tongue) and not has(tongue.tasks, one.hidden)
    ]
    named = count_content(compile_pattern(tongue.praise).sub(" ", " ".join(said))).telling
    if named >= _PRAISED or not before.strip():
        return "\n".join(filter(None, said)), ""
    first = shorten(split_sentences(before)[0].text, _BEFORE)
    return ("\n".join(filter(None, said)) if named else at.content), first


def _drop_repeated(wishes: Sequence[Wanted]) -> list[Wanted]:
    seen: dict[str, Wanted] = {}
    for wish in wishes:
        seen.setdefault(f"{wish.action} {wish.body.casefold()}", wish)
    return list(seen.values())
