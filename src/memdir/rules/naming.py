"""From a person's words to a memory's: a title, a description, a body, the type.

The words stay theirs. Politeness goes, a reason is set apart, "I" becomes the user where that can be done without
breaking the sentence, and dates become absolute. Nothing is added that was not said.
"""

import re
from datetime import datetime

from memdir.dates import make_absolute
from memdir.drafts import check_description, compose_body
from memdir.errors import FormatError
from memdir.filler import count_content
from memdir.frozen import dataclass
from memdir.records import Kind
from memdir.rules.systems import SYSTEM
from memdir.rules.tongue import Tongue, compile_pattern, has, starts
from memdir.text import one_line, shorten

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
class Worded:
    """A memory's parts."""

    kind: Kind
    title: str
    description: str
    body: str


def word_memory(
    content: str, tongue: Tongue, kind: Kind, now: datetime, *, quote: str = "", praised: str = "", asked: bool = False
) -> Worded | None:
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
    return Worded(kind, title, description, body.strip() + "\n") if title and description else None


def guess_kind(content: str, tongue: Tongue, default: Kind) -> Kind:
    """What sort of thing this is, by how it begins."""
    text = tidy(content, tongue)
    orders = starts(tongue.directs, text)
    asks = (orders and not starts(tongue.looks, text)) or starts(tongue.prefers, text)
    if has(tongue.places or SYSTEM, text) and not asks:
        return Kind.REFERENCE
    if starts(tongue.prefers, text):
        return Kind.FEEDBACK
    if starts(tongue.about_me, text):
        return Kind.USER
    if orders:
        return Kind.FEEDBACK
    return Kind.USER if default is Kind.PROJECT and has(tongue.mine, text) else default


def tidy(content: str, tongue: Tongue) -> str:
    """The content without what leads to it and the politeness around it."""
    text = "\n".join(" ".join(line.split()) for line in content.splitlines())
    head = compile_pattern(tongue.that).match(text)
    text = text[head.end() :] if head else text
    tail = compile_pattern(tongue.tail).search(text) if tongue.tail else None
    text = text[: tail.start()] if tail else text
    text = text.strip().rstrip(" ,;:-–—?？、，")
    return text[:-1] if text.endswith(")") and "(" not in text else text


def split_reason(text: str, tongue: Tongue, kind: Kind) -> tuple[str, str]:
    """The rule or fact, and the reason the person gave for it, if they did."""
    if kind not in (Kind.FEEDBACK, Kind.PROJECT) or not tongue.why or "\n" in text:
        return text, ""
    found = compile_pattern(tongue.why).search(text)
    if not found or found.start() < 8:
        return text, ""
    return text[: found.start()].rstrip(" ,;"), found["why"].strip()


def make_title(text: str, tongue: Tongue) -> str:
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


def retell(text: str, tongue: Tongue, kind: Kind) -> str:
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
    told: list[str], tongue: Tongue, kind: Kind, quote: str, now: datetime, about: str, *, praised: bool
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


def _finish(text: str, tongue: Tongue) -> str:
    text = _capitalise(text.strip().rstrip("!！ ").strip())
    if not text or text[-1] in ".。…”»」?？":
        return text
    return text + ("." if tongue.spaced else "。")


def _capitalise(text: str) -> str:
    found = _SMALL.match(text)
    plain = found and found[0].strip(" ,:;") not in _TOOLS
    return text[0].upper() + text[1:] if plain else text
