"""What was heard, put together: content that points back, a list under a request, the sentence after a correction."""

from collections.abc import Sequence

from memdir.frozen import replace
from memdir.records import Kind
from memdir.rules.hearing import Heard, is_question, is_task
from memdir.rules.naming import tidy
from memdir.rules.sentences import Sentence
from memdir.rules.tongue import Category, Need, Tongue, find_starts, has, skip_interjections, starts

_POINTING = 6  # words of a sentence that says nothing without the one before it
_NEAR = 200  # characters of a sentence that another may point back to
_FOLLOWING = 160  # and of one that belongs to the correction before it
_SAYING = 3  # words of a sentence that says something
_MOST = 8  # items of a list


def join_heard(heard: Sequence[Heard], sentences: Sequence[Sentence], answered: bool) -> list[Heard]:
    """Each thing that was heard with all that belongs to it; what points at nothing is left out."""
    joined: list[Heard] = []
    taken = {at.first for at in heard}
    for at in heard:
        last = joined[-1] if joined else None
        if last and last.last >= at.first and at.rule.category is not Category.POINTER:
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


def _belongs_to(at: Heard, last: Heard) -> bool:
    """Whether it only goes on with what was heard in the sentence before."""
    if last.last != at.first - 1 or last.rule.category is Category.FORGET:
        return False
    if last.rule.category is Category.CORRECTION and at.rule.category is Category.CORRECTION:
        return True  # one correction, in as many sentences as it takes
    same = last.rule.category is at.rule.category and at.rule.kind is Kind.FEEDBACK
    return _points_back(at) or (same and has(at.tongue.refers, tidy(at.content, at.tongue)))


def _spans(at: Heard, last: Heard, sentences: Sequence[Sentence]) -> bool:
    """Whether it means all that was ordered before it: "ask first. don't guess. that goes for everything"."""
    follows = last.last == at.first - 2 and last.rule.category is not Category.FORGET
    return follows and _points_back(at) and _is_directing(sentences[at.first - 1], at.tongue)


def _is_misplaced(at: Heard, sentences: Sequence[Sentence]) -> bool:
    if Need.ALONE in at.rule.needs and _is_among_orders(at, sentences):
        return True
    return Need.DIRECTING in at.rule.needs and not (at.first and _is_directing(sentences[at.first - 1], at.tongue))


def _points_back(at: Heard) -> bool:
    content = tidy(at.content, at.tongue)
    return at.rule.category is not Category.FORGET and (not content or starts(at.tongue.pronouns, content))


def _complete(at: Heard, last: Heard | None, sentences: Sequence[Sentence], answered: bool) -> Heard | None:
    """What it points back to put before it; None if that is nothing, or the task at hand."""
    if not _points_back(at):
        return _lead_in(at, last, sentences)
    if last and last.last == at.first - 1:
        return replace(at, content=f"{tidy(last.content, last.tongue)}\n{at.content}")
    if at.rule.category is Category.CONFIRMATION:
        return at
    if at.first:
        previous = sentences[at.first - 1]
        passes = is_task(previous.hidden, at.tongue) and Need.LASTING not in at.rule.needs
        if len(previous.text) >= _NEAR or passes:
            return None
        return replace(at, first=at.first - 1, content=f"{strip_leads(previous, at.tongue)}\n{at.content}")
    words = len(tidy(at.content, at.tongue).split())
    if not 0 < words <= _POINTING:
        return at
    return replace(at, points=True) if answered else None


def _lead_in(at: Heard, last: Heard | None, sentences: Sequence[Sentence]) -> Heard:
    """A correction with the complaint before it, which says what it is about: "no more mocks. They lie." """
    free = at.first > (last.last + 1 if last else 0)
    if at.rule.category is not Category.CORRECTION or not free:
        return at
    previous = sentences[at.first - 1]
    said = strip_leads(previous, at.tongue)
    refers = has(at.tongue.refers, tidy(at.content, at.tongue)) or starts(at.tongue.negates, said)
    passes = len(said) > _FOLLOWING or is_question(previous.hidden, at.tongue) or is_task(previous.hidden, at.tongue)
    if passes or not refers or len(said.split()) < _SAYING:
        return at
    return replace(at, first=at.first - 1, content=f"{said}\n{at.content}")


def _is_among_orders(at: Heard, sentences: Sequence[Sentence]) -> bool:
    """Whether "keep in mind" belongs to an order in the same message: "write a story, keep in mind who reads it"."""
    others = [one for place, one in enumerate(sentences) if place != at.first]
    orders = any(starts(at.tongue.orders, one.hidden) or is_question(one.hidden, at.tongue) for one in others)
    return orders and not has(at.tongue.lasts, sentences[at.first].hidden)


def _is_directing(sentence: Sentence, tongue: Tongue) -> bool:
    places = (skip_interjections(sentence.hidden, tongue), find_starts(sentence.hidden, tongue)[0])
    passes = is_task(sentence.hidden, tongue) or is_question(sentence.hidden, tongue)
    return not passes and any(starts(tongue.directs, sentence.hidden[place:]) for place in places)


def _go_on(at: Heard, sentences: Sequence[Sentence], taken: set[int]) -> Heard:
    after = at.last + 1
    if after >= len(sentences) or (after in taken and at.rule.category is not Category.CORRECTION):
        return at
    following = sentences[after]
    if at.content.rstrip().endswith((":", "：")) or not tidy(at.content, at.tongue):
        return _take_list(at, sentences)
    if (
        at.rule.category is not Category.CORRECTION
        or len(following.text) > _FOLLOWING
        or is_question(following.hidden, at.tongue)
    ):
        return at
    if is_task(following.hidden, at.tongue) or not starts(at.tongue.goes_on, following.hidden):
        return at
    return replace(at, last=after, content=f"{at.content}\n{following.text}")


def _take_list(at: Heard, sentences: Sequence[Sentence]) -> Heard:
    last = at.last
    lines: list[str] = []
    for sentence in sentences[at.last + 1 : at.last + 1 + _MOST]:
        if lines and not sentence.bullet:
            break
        lines.append(f"{len(lines) + 1}) {sentence.text}")
        last += 1
    content = " ".join(lines) if len(lines) > 1 else lines[0].removeprefix("1) ")
    return replace(at, last=last, content=content)


def strip_leads(sentence: Sentence, tongue: Tongue) -> str:
    """The sentence without the interjections before it: only those that a comma or the like sets apart."""
    return sentence.text[skip_interjections(sentence.hidden, tongue) :].strip(" .!,。！，、")
