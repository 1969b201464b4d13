"""A sentence, tried against the rules of a language.

Precision first: a memory that nobody wanted costs more trust than one that is missing. So a sentence must say it at the
right place, mean it for good and not for the task at hand, and a question, a quotation, a supposition or a report says
nothing. It looks at one sentence at a time.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import datetime

from memdir.frozen import dataclass
from memdir.records import Kind
from memdir.rules.naming import tidy
from memdir.rules.passing import is_about_code, is_private, is_put_away
from memdir.rules.plain import has_date
from memdir.rules.sentences import Sentence
from memdir.rules.tongue import (
    Category,
    Need,
    Rule,
    Tongue,
    compile_pattern,
    find_starts,
    has,
    may_fit,
    skip_interjections,
    starts,
)

_CONDITION = r"(?:when|whenever|if|before|after|wenn|falls|bevor|quand|si|avant|cuando|antes)\b"
_SCOPE = r"(?:in|for|on|with|during|while|bei|für|dans|pour|lors|en|para) [^,]{2,50},"
_FORGETTING = r"forget|vergess|vergiss|oubli|olvid|忘|no matter|or not|until i say|lose|not to self"
_SENTENCE = 500  # a longer one was not typed as one
_CONTENT = 600
_SHORT = 60
_WORD_OR_TWO = 16  # "Always." after a sentence belongs to it


@dataclass(frozen=True, slots=True)
class Heard:
    """A rule that fits a sentence: from sentence `first` to `last`, and the content as it was said.

    `points` says that it means the agent's message before it ("never do that again").
    """

    rule: Rule
    tongue: Tongue
    first: int
    last: int
    content: str
    points: bool = False


@dataclass(frozen=True, slots=True)
class Setting:
    """What surrounds a message: an agent's message before it, whether it is mostly material, and its day."""

    answered: bool
    is_long: bool
    now: datetime


def hear_all(sentences: Sequence[Sentence], tongues: Sequence[Tongue], setting: Setting) -> Iterator[Heard]:
    """What each sentence says, in the first language that hears something in it."""
    for place, sentence in enumerate(sentences):
        following = sentences[place + 1].hidden if place + 1 < len(sentences) else ""
        for tongue in tongues:
            found = list(_hear_sentence(sentence, following, place, tongue, setting))
            if found:
                yield from found
                break


def _hear_sentence(sentence: Sentence, following: str, place: int, tongue: Tongue, setting: Setting) -> Iterator[Heard]:
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
        found = _match(rule, sentence.hidden, [whole] if Need.WHOLE in rule.needs else places)
        if not found or has(tongue.reported, sentence.hidden[: found.start()]):
            continue
        content = _find_content(rule, tongue, sentence, found, whole, setting)
        if _is_meant(rule, tongue, sentence, content, following, setting.now, found.start()):
            yield Heard(rule, tongue, place, place, content[:_CONTENT])
            if rule.category is Category.DEADLINE:
                yield from _hear_pointer(sentence, place, tongue)
            return


def _may_be_tried(rule: Rule, asks: bool, setting: Setting) -> bool:
    strong = Need.STRONG in rule.needs
    if (setting.is_long and not strong) or (Need.ANSWERED in rule.needs and not setting.answered):
        return False
    return not asks or strong or Need.LASTING in rule.needs


def _find_content(
    rule: Rule, tongue: Tongue, sentence: Sentence, found: re.Match[str], whole: int, setting: Setting
) -> str:
    start, end = found.span("what") if found.re.groups else found.span()
    if rule.category is not Category.FORGET and start < end:
        start, end = _keep_sign(sentence.hidden, found, start, end, tongue)
    if Need.STRONG not in rule.needs and starts(tongue.pronouns, sentence.hidden[start:]) and found.start() > whole:
        start = whole  # "I hate mocks, never use them": what "them" means stands before it
    if rule.category is Category.CORRECTION or _corrects(rule, sentence.hidden, found, start, setting):
        start = skip_interjections(sentence.hidden, tongue)  # what stands before it belongs to it
    elif (
        Kind.FEEDBACK in (rule.kind, rule.default) and found.start() > whole and starts(_SCOPE, sentence.hidden[whole:])
    ):
        start = whole  # "in commit messages, always…": where it holds belongs to it
    elif rule.kind is Kind.FEEDBACK and starts(_CONDITION, sentence.hidden[whole:]):
        start = whole  # "if you change the schema, always…": the condition belongs to it
    return sentence.text[start:end].strip()


def _corrects(rule: Rule, hidden: str, found: re.Match[str], start: int, setting: Setting) -> bool:
    """Whether an order for good stands in a later clause of an answer: what is before it says what it is about."""
    plain = Need.STRONG not in rule.needs and Kind.FEEDBACK in (rule.kind, rule.default)
    return setting.answered and plain and found.start() == start and 0 < start < _SHORT and "," in hidden[:start]


def _keep_sign(hidden: str, found: re.Match[str], start: int, end: int, tongue: Tongue) -> tuple[int, int]:
    """Where the content lies, with the cue if that holds a negation: to lose one is to keep the opposite.

    "Don't forget that" is the exception: its negation turns only the forgetting round.
    """
    if _is_negative(hidden[found.start() : start], tongue):
        start = found.start()
    if _is_negative(hidden[end : found.end()], tongue):
        end = found.end()
    return start, end


def _is_negative(cue: str, tongue: Tongue) -> bool:
    return has(tongue.negates, cue) and not has(_FORGETTING, cue)


def _match(rule: Rule, text: str, places: Sequence[int]) -> re.Match[str] | None:
    pattern = compile_pattern(rule.pattern)
    return next((found for place in places if (found := pattern.match(text, place))), None)


def _hear_pointer(sentence: Sentence, place: int, tongue: Tongue) -> Iterator[Heard]:
    """ "…, findings go into Jira": a pointer in a clause after a date."""
    places = [at for at in find_starts(sentence.hidden, tongue)[1] if at]
    for rule in tongue.rules:
        found = _match(rule, sentence.hidden, places) if rule.category is Category.POINTER else None
        if found:
            yield Heard(rule, tongue, place, place, sentence.text[found.start() :].strip())
            return


def is_question(text: str, tongue: Tongue) -> bool:
    if has(tongue.tags, text) and not starts(tongue.questions, text):
        return False
    return text.rstrip(" )\"'”」").endswith(("?", "？")) or starts(tongue.questions, text)


def is_task(text: str, tongue: Tongue) -> bool:
    """Whether only the work at hand is meant."""
    return has(tongue.tasks, compile_pattern(tongue.widens).sub(" ", text) if tongue.widens else text)


def _is_meant(
    rule: Rule, tongue: Tongue, sentence: Sentence, content: str, following: str, now: datetime, begin: int
) -> bool:
    text = sentence.hidden
    own = text[begin:] if Need.LASTING in rule.needs else text  # "rename it, and from now on…": the task is not meant
    if (_is_about_now(rule) and has(tongue.states, text)) or (_is_about_work(rule) and is_task(own, tongue)):
        return False
    if rule.category in (Category.DECISION, Category.DEADLINE, Category.CORRECTION) and is_private(text):
        return False
    if is_put_away(text) or (rule.category in (Category.DECISION, Category.DEADLINE) and is_about_code(text)):
        return False
    if Need.LASTING in rule.needs and starts(tongue.idle, tidy(content, tongue)):
        return False
    if Need.SOUND in rule.needs and has(tongue.ails, content):
        return False
    if Need.GENERAL in rule.needs and not _is_general(text, following, tongue):
        return False
    return Need.DATED not in rule.needs or has_date(sentence.text, now)


def _is_general(text: str, following: str, tongue: Tongue) -> bool:
    """Whether it is meant for good, by its own words or by a short sentence after it: "Always.", "that's our rule"."""
    if has(tongue.general, text) or has(tongue.vouches, text):
        return True
    return (len(following) <= _WORD_OR_TWO and has(tongue.general, following)) or (
        len(following) <= _SHORT and has(tongue.vouches, following)
    )


def _is_about_now(rule: Rule) -> bool:
    """Whether what it hears could be the state of a task; a date or a place outside is none."""
    return rule.category not in (Category.DEADLINE, Category.DECISION, Category.POINTER)


def _is_about_work(rule: Rule) -> bool:
    """Whether the rule hears how to work or who works: that may be meant for the task at hand only."""
    how = rule.category in (Category.REQUEST, Category.CORRECTION, Category.CONFIRMATION, Category.IDENTITY)
    return how and Need.STRONG not in rule.needs
