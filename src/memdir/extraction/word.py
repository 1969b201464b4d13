"""The wording of a memory made from what a person said: its title, description, body and type.

The words stay theirs. Politeness is removed, a reason is set apart, "I" becomes the user where that can be done without
breaking the sentence, and dates become absolute. Nothing is added that was not said.
"""

import re
from datetime import datetime

from memdir.errors import FormatError
from memdir.format.drafts import check_description, compose_body
from memdir.frozen import dataclass
from memdir.language.dates import make_absolute
from memdir.language.requests import RequestLanguage, compile_pattern, has, starts
from memdir.language.words import compile_any, count_content, load_today
from memdir.records import Kind
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
_SMALL = re.compile(r"[a-zà-ÿ][a-zà-ÿ'-]*(?:\s|$|[,:;])")
_TOOLS = frozenset(
    "npm pnpm yarn git pip uv cargo make docker kubectl pytest eslint ruff mypy go bash zsh vim main master".split()
)
_MONTH_END = "(?<![上下个一])(?:本|这个|这)?月底(?=[之以]?前|必须|要|得)"
_FRAMES = {"de": "Sagt von sich: „{}“", "fr": "Dit de soi : « {} »", "es": "Dice de sí: «{}»"}
# First person in English, with the verb that follows and, after an adverb, the one after that.
_SELF = re.compile(
    r"(?<![\w/.'-])(?:(?P<said>i'm|im|i am|i've|i'd|i'll|me|my)(?![\w'/.-](?!\s|$)|/)|"
    r"(?P<saidi>i)(?:\s+(?P<verb>[a-z']+)(?P<more>\s+[a-z']+)?)?(?![\w/]))",
    re.IGNORECASE,
)
_USER = {
    "i'm": "the user is", "im": "the user is", "i am": "the user is", "i've": "the user has", "i'd": "the user would",
    "i'll": "the user will", "me": "the user", "my": "the user's",
}  # fmt: skip
_THEY = {
    "i'm": "they are", "im": "they are", "i am": "they are", "i've": "they have", "i'd": "they would",
    "i'll": "they will", "me": "them", "my": "their",
}  # fmt: skip
_VERBS = {
    "have": "has", "am": "is", "do": "does", "don't": "doesn't", "dont": "doesn't", "were": "was",
    "haven't": "hasn't", "go": "goes",
}  # fmt: skip
_MODAL = re.compile(
    "can|could|will|would|should|must|may|might|can't|cannot|won't|shouldn't|did|didn't|had|was|wasn't|[a-z]+ed|wrote|"
    "spent|went|ran|made|got|saw|told|said|knew|never|always|also|still|just|usually|often|really|only|mostly|mainly|"
    "barely|rarely|primarily|currently|and|or"
)
_ADVERB = re.compile(
    "(?:never|always|also|still|just|usually|often|really|only|mostly|mainly|barely|rarely|primarily|currently|"
    "actually|strongly)$"
)


@dataclass(frozen=True, slots=True)
class WordedMemory:
    kind: Kind
    title: str
    description: str
    body: str


def word_memory(
    content: str,
    language: RequestLanguage,
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
    rule, why = _split_reason(tidy(content, language), language, kind)
    day = None if kind is Kind.FEEDBACK else now  # "we deploy on Tuesdays" is a habit, not the coming one
    sentences = [_finish(part, language, kind, day) for part in rule.split("\n") if part.strip()]
    sentences += [f"“{praised}”"] if praised else []
    may_be_short = asked or kind is Kind.USER
    least = _TELLING[may_be_short or not language.spaced]
    if not sentences or (not praised and count_content(" ".join(sentences)).telling < least):
        return None
    joined = (" " if language.spaced else "").join(sentences)
    body = compose_body(joined, _finish(why, language, Kind.FEEDBACK, day) if why else None, None)
    # One line that passes as a description: the first sentence, more of them, or the person's whole sentence.
    dated = f"{sentences[0].rstrip('.。')} ({now.date().isoformat()})"
    about = f"{_ABOUT[kind]}: {sentences[0]}" if may_be_short else ""
    lines = (sentences[0], joined, dated, _date(quote, day), about)[1 if praised else 0 :]
    description = next(filter(None, (_check_line(line, kind) for line in lines)), "")
    title = _make_title(_date(praised or rule.split("\n")[0], day), language)
    return WordedMemory(kind, title, description, body.strip() + "\n") if title and description else None


def guess_request_kind(content: str, language: RequestLanguage, default: Kind) -> Kind:
    """What sort of thing this is, by how it begins."""
    text = tidy(content, language)
    orders = starts(language.directs, text)
    prefers = starts(language.prefers, text)
    if has(language.places, text) and not prefers and (not orders or starts(language.looks, text)):
        return Kind.REFERENCE
    if prefers:
        return Kind.FEEDBACK
    if starts(language.about_me, text):
        return Kind.USER
    if orders:
        return Kind.FEEDBACK
    return Kind.USER if default is Kind.PROJECT and has(language.mine, text) else default


def tidy(content: str, language: RequestLanguage) -> str:
    """The content without what leads to it and the politeness around it."""
    text = "\n".join(" ".join(line.split()) for line in content.splitlines())
    head = compile_pattern(language.that).match(text)
    text = text[head.end() :] if head else text
    tail = compile_pattern(language.tail).search(text) if language.tail else None
    text = text[: tail.start()] if tail else text
    text = text.strip().rstrip(" ,;:-–—?？、，")
    return text[:-1] if text.endswith(")") and "(" not in text else text


def _split_reason(text: str, language: RequestLanguage, kind: Kind) -> tuple[str, str]:
    """The rule or fact, and the reason the person gave for it, if they did."""
    if kind not in (Kind.FEEDBACK, Kind.PROJECT) or not language.why or "\n" in text:
        return text, ""
    found = compile_pattern(language.why).search(text)
    if not found or found.start() < 8:
        return text, ""
    return text[: found.start()].rstrip(" ,;"), found["why"].strip()


def _check_line(text: str, kind: Kind) -> str:
    line = shorten(one_line(text), _DESCRIPTION).rstrip(".。")
    try:
        check_description(line, kind)
    except FormatError:
        return ""
    return line


def _make_title(text: str, language: RequestLanguage) -> str:
    """A few words that name the subject: of the first clause that says something, conditions apart."""
    clauses = [part for part in _CLAUSE_END.split(text.strip().rstrip(".!?。！？")) if part.strip()]
    if len(clauses) > 1 and compile_any("title_condition").match(clauses[0]):
        clauses = clauses[1:]
    if not language.spaced:
        return _make_cjk_title(clauses)
    words: list[str] = []
    for clause in clauses:
        found = [word.strip(".'*`?!:") for word in _WORD.findall(clause)]
        words += [word for word in found if word and word.casefold() not in language.empty]
        if sum(word.casefold() not in language.links for word in words) >= _TITLE_LEAST:
            break
    return _capitalise(_trim_links(words, language.links))


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


def _make_cjk_title(clauses: list[str]) -> str:
    head = title = ""
    for clause in clauses:
        head = f"{head} {clause}".strip()
        if len(head) >= _TITLE_LEAST_CJK:
            break
    for part in re.findall(r"[!-~]+|\s+|.", head):
        if len(title) + len(part) > _TITLE_CJK and title:
            break
        title += part
    return title.strip().rstrip("をにがはでとのもへ、，")


def _retell(text: str, language: RequestLanguage, kind: Kind) -> str:
    """The sentence as somebody else would say it of the person, where the language lets that be done word by word."""
    if language.name == "en":
        return _retell_english(text)
    if language.name == "zh":
        return re.sub(r"我(?!们|們|方|国|国)", "用户", text)
    if language.name == "ja":
        return re.sub(r"(?:私|僕|俺|わたし)(?=[はがもの])", "ユーザー", text)
    return _FRAMES[language.name].format(_capitalise(text).rstrip(".")) if kind is Kind.USER else text


def _retell_english(text: str) -> str:
    """ "I" is the user the first time, and they from then on, which needs no other form of the verb."""
    parts: list[str] = []
    end = 0
    for found in _SELF.finditer(text):
        parts += [text[end : found.start()], _say_they(found) if parts else _say_user(found)]
        end = found.end()
    retold = "".join([*parts, text[end:]])
    return retold[0].upper() + retold[1:] if retold.startswith("the user") else retold


def _say_user(found: re.Match[str]) -> str:
    verb, more = found["verb"] or "", found["more"] or ""
    if found["said"]:
        return _USER[found["said"].lower()]
    if _ADVERB.match(verb.lower()) and more:
        return f"the user {verb} {_third_person(more.strip())}"
    return f"the user {_third_person(verb)}{more}" if verb else "the user"


def _say_they(found: re.Match[str]) -> str:
    if found["said"]:
        return _THEY[found["said"].lower()]
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


def _date(text: str, now: datetime | None) -> str:
    """Relative dates made absolute, unless there is no day to see them from, or a day of the week is named as such."""
    if now is None or compile_any("habit").search(text):
        return text
    month_end = make_absolute("by the end of the month", now)[0].removeprefix("by ")
    text = compile_pattern(_MONTH_END).sub(month_end, text)
    for words, form in load_today().items():
        text = compile_pattern(words).sub(form.format(now.date().isoformat()), text)
    return make_absolute(text, now)[0]


def _finish(text: str, language: RequestLanguage, kind: Kind, day: datetime | None) -> str:
    """A sentence of the memory: retold, with absolute dates, a capital and a full stop."""
    text = _capitalise(_date(_retell(text, language, kind), day).strip().rstrip("!！ ").strip())
    if not text or text[-1] in ".。…”»」?？":
        return text
    return text + ("." if language.spaced else "。")


def _capitalise(text: str) -> str:
    found = _SMALL.match(text)
    plain = found and found[0].strip(" ,:;") not in _TOOLS
    return text[0].upper() + text[1:] if plain else text
