"""The assistant without a model: a sentence or two made of memories, with name and age, and nothing it does not know.

    question --recall--> memories --answer_question--> what the nearest of them says
    statement --extract--> what was kept --tell_learned--> what it will be remembered as

Of memories that contradict each other the newest speaks first, and that they disagree is said. Pure: what is recalled
and what is kept are decided elsewhere. It understands nothing; it quotes. It speaks English, whatever it quotes.
"""

import re
from collections.abc import Iterable, Sequence
from datetime import datetime

from memdir import frontmatter
from memdir.age import days_old, render_age
from memdir.extracted import Extracted, Reason
from memdir.frozen import dataclass
from memdir.gates import Skip
from memdir.recall import Recalled
from memdir.records import Excerpt, Header, Kind, Memory
from memdir.rules import hearing
from memdir.rules.sentences import split_sentences as split_said
from memdir.rules.tongue import find_tongues
from memdir.rules.wishing import TONGUES
from memdir.search.terms import parse_terms
from memdir.taint import split_sentences
from memdir.text import one_line, shorten
from memdir.tidy.contradictions import Claim, find_claims
from memdir.tidy.facts import Fact, split_parts
from memdir.tidy.quantities import covers

_NEAR = 0.55  # of the best score: what is further away was not asked for
_MOST = 2  # memories that have their say
_RIVALS = 3  # and of those that disagree
_CHARS = 320  # of one of them
_WHY = ("why", "warum", "wieso", "pourquoi", "por qué", "为什么", "為什麼", "なぜ", "どうして")
# People leave the question mark out; what goes on behind a comma is mostly an order ("when you are done, …").
_ASKING = re.compile(
    r"(?:when|where|what|who|whose|which|how|why|wann|wo|was|wer|wie|warum|welche[rsn]?|quand|où|qui|comment|pourquoi|"
    r"quels?|quelles?|cuándo|dónde|qué|quién|cómo|cuál)\b[^,;.!\n]{3,80}\Z",
    re.IGNORECASE,
)
# Who wants to know all there is: a search by these words finds nothing, or something by chance.
_ALL = (
    r"what (?:do|did|can) you (?:already |actually |still )?(?:know|remember|recall)",
    r"what have you (?:learned|learnt|remembered|noted|stored|saved|kept)",
    r"what(?:'s| is) in (?:your|the) memory",
    r"(?:list|show)(?: me)? (?:everything|all memories|your memories)",
    r"(?:tell me )?(?:everything|all|what) you (?:know|remember)",
    r"who am i|wer bin ich|qui suis-je|quién soy",
    r"was wei(?:ß|ss)t du|was hast du dir(?: alles)? gemerkt|woran erinnerst du dich",
    r"que sais-tu|qu'est-ce que tu sais|de quoi te souviens-tu|qué sabes|qué recuerdas",
)
_OF_WHOM = (
    r"so far|already|alles|noch|(?:about|of|über|von|de|sur|sobre) "
    r"(?:me|us|myself|this project|the project|mich|mir|uns|moi|nous|mí|nosotros)"
)
_ALL_HAN = (
    r"你(?:都)?(?:知道|记得|記得)(?:关于)?(?:我的?)?(?:什么|哪些|什麼).{0,3}|我是[谁誰]|"
    r"何を(?:知って|覚えて)い(?:る|ますか)|私は誰(?:ですか)?"
)
_OVERVIEW = re.compile(rf"(?:(?:{'|'.join(_ALL)})(?: (?:{_OF_WHOM}))*|{_ALL_HAN})", re.IGNORECASE)
_ABOUT_ONE = re.compile(r"\b(?:me|myself|i|mich|mir|ich|moi|je|mí|soy)\b|我|私", re.IGNORECASE)
_LISTED = 5
_OFFER = "Tell me and I will remember it."
_UNHEARD = 'I kept nothing of that. To have it kept, begin with "remember".'
_ONE_WORD = "One word is too little to search by. Ask with a few more, or tell me something to remember."
_ORIENT = 'I remember what you tell me and answer from it: begin with "remember", or ask in a few words; see /help.'
_VERBS = {
    "create": "Noted",
    "update": "Changed",
    "forget": "Forgotten",
    "unchanged": "I know that already",
    "unclear": "I could not tell which memory you mean",
    "wait": "This waits for your word (/inbox)",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """What is said, which memories say it, and whether they disagree."""

    text: str
    names: tuple[str, ...] = ()
    is_conflict: bool = False


def answer_question(found: Recalled, *, now: datetime, asks: bool = True) -> Answer:
    """What the recalled memories say to the message that brought them up, whether it asks something or states it."""
    if not found.memories:
        return Answer(_tell_nothing(found.skipped, asks))
    best = max(excerpt.score for excerpt in found.memories)
    near = [excerpt for excerpt in found.memories if excerpt.score >= _NEAR * best]
    facts = [Fact(_make_memory(excerpt)) for excerpt in near]
    rivals = _find_rivals(facts)
    told = [pair for pair in zip(near, facts, strict=True) if pair[1] in rivals] or [*zip(near, facts, strict=True)]
    if rivals:
        told.sort(key=lambda pair: pair[0].dated, reverse=True)
    told = told[: _RIVALS if rivals else _MOST]
    lines = [_tell(excerpt, fact, found.query, now) for excerpt, fact in told]
    if rivals:
        lines[0] = f"My memories disagree; the newest says: {lines[0]}"
        lines[1:] = [f"Older: {line}" for line in lines[1:]]
    return Answer("\n".join(lines), tuple(excerpt.header.name for excerpt, _ in told), bool(rivals))


def is_question(text: str) -> bool:
    """Whether somebody wants to know something, in one of the six languages."""
    if _ASKING.match(text.strip()):
        return True
    tongues = find_tongues(text, TONGUES)
    return any(hearing.is_question(said.hidden, tongue) for said in split_said(text) for tongue in tongues)


def is_overview(text: str) -> bool:
    """Whether somebody asks for all that is remembered, or for what is of themselves."""
    return _OVERVIEW.fullmatch(one_line(text).strip(" .,!?¿¡。！？")) is not None


def tell_known(headers: Iterable[Header], text: str) -> Answer:
    """The newest of all memories, those on the person alone if they ask about themselves and there are some."""
    found = sorted(headers, key=lambda header: header.modified, reverse=True)
    if not found:
        return Answer(f"I remember nothing yet. {_OFFER}")
    head = "I remember:"
    if _ABOUT_ONE.search(text):
        own = [header for header in found if header.kind is Kind.USER]
        found, head = own or found, head if own else "Nothing about you yet. I remember:"
    told = found[:_LISTED]
    lines = [f"- {shorten(one_line(at.description or at.title), _CHARS)} ({at.name})" for at in told]
    rest = len(found) - len(told)
    more = f"And {rest} more: /memory list shows them." if rest else "/memory list shows all, /recall TEXT finds some."
    return Answer("\n".join([head, *lines, more]), tuple(at.name for at in told))


def tell_learned(done: Extracted) -> str:
    """What became of a statement; empty if nothing did."""
    lines = [_tell_reason(reason) for reason in done.reasons if reason.action in _VERBS]
    return "\n".join(dict.fromkeys(lines))


def _tell_nothing(skip: Skip | None, asks: bool) -> str:
    if skip in (None, Skip.NOTHING_FITS, Skip.EMPTY):
        return f"I know nothing about that. {_OFFER}" if asks else _UNHEARD
    if skip is Skip.ONE_WORD:
        return _ONE_WORD if asks else _ORIENT
    if skip in (Skip.PAUSED, Skip.PRIVATE) and not asks:
        return f"I kept nothing of that: {skip.words}."
    return f"I looked nothing up: {skip.words}."


def _find_rivals(facts: Sequence[Fact]) -> list[Fact]:
    """Those that say another value of the same thing than another of them does."""
    claims = [claim for fact in facts for claim in find_claims(fact)]
    return [
        fact for fact in facts if any(_are_rivals(one, other) for one in claims if one.fact is fact for other in claims)
    ]


def _are_rivals(one: Claim, other: Claim) -> bool:
    if (one.sort, one.frame) != (other.sort, other.frame) or one.fact is other.fact or one.value == other.value:
        return False
    return not covers(one.value, other.value) and not covers(other.value, one.value)


def _tell(excerpt: Excerpt, fact: Fact, query: str, now: datetime) -> str:
    said = _find_passage(fact, query) or excerpt.header.description or excerpt.header.title
    age = f"noted {render_age(excerpt.dated, now)}"
    if days_old(excerpt.dated, now) > 1 and not excerpt.caveat:
        age += "; check that it still holds"
    told = f"{shorten(one_line(said), _CHARS)} ({excerpt.header.name}, {age})"
    return f"{told} {one_line(excerpt.caveat)}" if excerpt.caveat else told


def _find_passage(fact: Fact, query: str) -> str:
    """The sentence nearest to the question, by the words they share, else the first; the reason if that is asked."""
    main, parts = split_parts(fact.memory.body)
    lowered = query.casefold()
    reason = parts.get("Why", "")
    if reason and any(word in lowered for word in _WHY):
        return reason
    sentences = split_sentences(main)
    if not sentences:
        return main or reason
    wanted = set(parse_terms(query))
    return max(sentences, key=lambda sentence: len(wanted.intersection(parse_terms(sentence))))


def _tell_reason(reason: Reason) -> str:
    fields = frontmatter.parse_fields(reason.text)
    what = reason.name if reason.action == "forget" else fields.description or reason.name
    if reason.action == "unclear":
        return f"{_VERBS[reason.action]}: {shorten(one_line(reason.quote), _CHARS)}"
    return f"{_VERBS[reason.action]}: {shorten(one_line(what), _CHARS)}"


def _make_memory(excerpt: Excerpt) -> Memory:
    return Memory(excerpt.header, excerpt.text, excerpt.text, excerpt.digest)
