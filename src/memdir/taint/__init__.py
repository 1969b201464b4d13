"""Where the words of a memory came from, and so whether it may be believed.

A model that writes memories can be talked into anything by the text it reads. So it is not asked where a memory came
from; its words are looked up. Each sentence must rest on the person's own plain words; one that carries foreign text
makes the whole memory foreign, one that rests on the agent's words or on nothing makes it the agent's. What follows
`**Why:**` or `**How to apply:**` may be the agent's.

It decides nothing about keeping (judging), and knows no files. It compares words: it can be deceived by a sentence made
wholly of words the person used close together, and it believes no translation.
"""

import re
from collections.abc import Collection, Iterator, Sequence

from memdir.frozen import dataclass, replace
from memdir.search.terms import make_term
from memdir.search.words import open_words
from memdir.taint.claims import (
    Claim,
    find_keys,
    find_order,
    fold_text,
    is_hearsay,
    is_negated,
    parse_claim,
    split_sentences,
)
from memdir.taint.reminders import strip_reminders
from memdir.taint.sources import Passage, Shelf, Sources, Trust, trace
from memdir.taint.split import Span, split_message
from memdir.text import one_line, shorten

__all__ = [
    "Shelf",
    "Sources",
    "Span",
    "Trust",
    "Verdict",
    "is_carried",
    "judge",
    "split_message",
    "split_sentences",
    "strip_reminders",
    "trace",
]

PERSON_SHARE = 0.7  # of a sentence's telling words that the person must have said, where foreign text is about
ALONE_SHARE = 0.3  # where there is none: a paraphrase can only be the agent's own
NOVEL_MAX = 2  # words of the agent's own in a sentence, where foreign text is about
CARRIED_SHARE = 0.5  # of a sentence's telling words found in one foreign passage: that is where it came from
AGENT_SHARE = 0.5
LABEL_SHARE = 0.5  # of a title's words that the sentences below it must hold
TITLE_WORDS = 2  # a title this short may be the agent's own: "Background", "Three rules"
WIDE_EASE = 0.6  # pairs of characters overlap at their edges: fewer of them survive a paraphrase
NEAR = 0.5  # how near another word must be to count as the same in foreign text
NUMBER_FREE = 12  # smaller numbers are counted by anybody

_PART = re.compile(r"\A[*_]*(?:why|how to apply|how)\b[^:：]{0,20}[:：][*_]*", re.IGNORECASE)
_CLAUSE = re.compile(r"[,;:—–()\n，；：、。]")
_FRONT = re.compile(r"\A(?:name|title|description|type)\s*:\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whose words a memory rests on, why in a few words, and the messages they stand in."""

    trust: Trust
    why: str = ""
    message_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Finding:
    claim: Claim
    trust: Trust
    why: str = ""
    messages: tuple[str, ...] = ()  # where it was found, if it was
    things: frozenset[str] = frozenset()  # what it names and the person does not
    is_part: bool = False


def judge(text: str, evidence: str, sources: Sources) -> Verdict:
    """Whose words a memory (title, description and body) rests on; `evidence` is what the model says it rests on."""
    findings = [_judge_claim(claim, sources, is_part) for claim, is_part in _parse_claims(text)]
    findings = list(_believe_labels(findings))
    if doubt := _judge_evidence(evidence, sources):
        return doubt
    for trust in (Trust.FOREIGN, Trust.AGENT):
        for at in findings:
            if at.trust is trust and not (at.is_part and trust is Trust.AGENT):
                return Verdict(trust, f"{at.why}: “{shorten(one_line(at.claim.text), 80)}”", at.messages)
    rests = [at for at in findings if at.trust is Trust.PERSON]
    if not rests:
        return Verdict(Trust.AGENT, "nothing in it is the person's")
    ids = dict.fromkeys(message for at in rests for message in at.messages)
    return Verdict(Trust.PERSON, "the person's own words", tuple(ids))


def is_carried(text: str, sources: Sources) -> bool:
    """Whether foreign text says a sentence of this, or names what it names, and the person less of it."""
    for claim, _ in _parse_claims(text):
        _, own = sources.person.find_best(claim.keys)
        _, shared = sources.foreign.find_best(claim.keys)
        if max(own, 1) < shared and shared >= _ease(claim, CARRIED_SHARE) * len(claim.keys):
            return True
        if _find_carrier_of_things(claim, _find_novel_things(claim, sources.person), sources):
            return True
    return False


def _parse_claims(text: str) -> Iterator[tuple[Claim, bool]]:
    is_part = False
    for sentence in split_sentences(text):
        is_part = is_part or _PART.match(sentence) is not None
        claim = parse_claim(_FRONT.sub("", _PART.sub("", sentence)))
        if claim.keys or claim.exact or claim.numbers:
            yield claim, is_part


def _judge_evidence(quote: str, sources: Sources) -> Verdict | None:
    """A quotation that stands in foreign text and not in the person's tells where the memory came from."""
    words = find_keys(quote)
    if not words:
        return None
    _, own = sources.person.find_best(words)
    passage, foreign = sources.foreign.find_best(words)
    if passage is not None and foreign > own and foreign >= 0.8 * len(words):
        return Verdict(Trust.FOREIGN, "its evidence is no plain word of the person", (passage.message,))
    return None


# --- one sentence ---------------------------------------------------------------------------------------------------


def _judge_claim(claim: Claim, sources: Sources, is_part: bool) -> _Finding:
    novel = _find_novel_things(claim, sources.person)
    if carrier := _find_carrier_of_things(claim, novel, sources):
        return _Finding(claim, Trust.FOREIGN, "foreign text names it", (carrier,), novel, is_part)
    best, own = sources.person.find_best(claim.keys)
    if sources.foreign.passages:
        finding = _judge_among_foreign(claim, sources, best, own)
    else:
        grounded = own >= _ease(claim, ALONE_SHARE) * len(claim.keys)
        finding = (Trust.PERSON, "", best) if grounded else (Trust.AGENT, "nobody but the agent says it", None)
    trust, why, passage = finding
    if novel and trust is Trust.PERSON:
        trust, why, passage = Trust.AGENT, "the person never named it", None
    return _soften(_Finding(claim, trust, why, (passage.message,) if passage else (), novel, is_part), sources)


def _judge_among_foreign(
    claim: Claim, sources: Sources, best: Passage | None, own: int
) -> tuple[Trust, str, Passage | None]:
    said = best.keys if best else frozenset()
    novel = claim.keys - said
    carrier, shared = sources.foreign.find_best(claim.keys)
    total = len(claim.keys)
    carried = carrier is not None and shared > 1 and shared >= _ease(claim, CARRIED_SHARE) * total
    if carrier is not None and _is_smuggled(claim, novel, sources.foreign):
        return Trust.FOREIGN, "foreign text says it", carrier
    if own >= _ease(claim, PERSON_SHARE) * total and len(novel) <= max(NOVEL_MAX, (1 - _ease(claim, 1.0)) * total):
        if carried and best and carrier and (_is_hearsay(best) or _is_turned(claim, best, carrier)):
            return Trust.FOREIGN, "the person did not say it so, foreign text does", carrier
        if carried and best and carrier and shared >= own and _is_closer(claim, carrier, best):
            return Trust.FOREIGN, "foreign text says it in these words", carrier
        if carrier is not None and shared > own and novel & carrier.keys:
            return Trust.FOREIGN, "foreign text says more of it than the person", carrier
        return Trust.PERSON, "", best
    if carried and shared > own:
        return Trust.FOREIGN, "foreign text says it", carrier
    _, echoed = sources.agent.find_best(claim.keys)
    if claim.language and sources.foreign.languages - {claim.language}:
        return Trust.FOREIGN, "it may be a translation of foreign text", None
    if echoed >= _ease(claim, AGENT_SHARE) * total and not claim.orders:
        return Trust.AGENT, "nobody but the agent says it", None
    return Trust.FOREIGN, "the person did not say it, and foreign text is about", None


def _soften(finding: _Finding, sources: Sources) -> _Finding:
    """A reason or an advice may be the agent's own, as long as nothing shows that it is foreign."""
    if not finding.is_part or finding.messages or finding.trust is not Trust.FOREIGN:
        return finding
    own = sources.person.find_best(finding.claim.keys)[1] * 2 >= len(finding.claim.keys)
    if not own and finding.claim.language and sources.foreign.languages - {finding.claim.language}:
        return finding
    return replace(finding, trust=Trust.AGENT)


def _is_smuggled(claim: Claim, novel: Collection[str], foreign: Shelf) -> bool:
    """Whether words the person did not say stand together in foreign text, themselves or their neighbours."""
    if not novel:
        return False
    least = 3 if any(not key.isascii() for key in novel) else 2
    same = foreign.find_best(novel)[1]
    if same >= least and same * 2 >= len(novel):
        return True
    meant = {near: key for word in re.findall(r"[A-Za-z]+", claim.text) for near, key in _find_near(word, novel)}
    passage, _ = foreign.find_best(meant)
    found = {meant[key] for key in passage.keys & meant.keys()} if passage else set()
    return len(found) > least and len(found) * 3 >= 2 * len(novel)


def _find_near(word: str, novel: Collection[str]) -> Iterator[tuple[str, str]]:
    """Keys of words that mean about the same as a word the person did not say."""
    table, term = open_words(), make_term(word)
    key = term[:6]
    if key not in novel:
        return
    yield key, key
    for near, cosine in table.near(term) if table else ():
        if cosine >= NEAR:
            yield near[:6], key


def _is_hearsay(passage: Passage) -> bool:
    return all(is_hearsay(sentence) for sentence in split_sentences(passage.text))


def _is_turned(claim: Claim, best: Passage, carrier: Passage) -> bool:
    """Whether the person said the opposite, and foreign text says it like this."""
    return _is_negated(claim, best) is not claim.negated and _is_negated(claim, carrier) is claim.negated


def _is_closer(claim: Claim, carrier: Passage, best: Passage) -> bool:
    """Whether the words follow each other as in foreign text rather than as the person put them."""
    order = find_order(claim.text)
    return len(order & find_order(carrier.text)) > len(order & find_order(best.text))


def _is_negated(claim: Claim, passage: Passage) -> bool:
    """As it concerns the claim: by the clause that holds all its words, if there is one, else by all of it."""
    shared = claim.keys & passage.keys
    for clause in _CLAUSE.split(passage.text):
        if shared <= find_keys(clause):
            return is_negated(clause)
    return is_negated(passage.text)


def _ease(claim: Claim, share: float) -> float:
    wide = sum(not key.isascii() for key in claim.keys)
    return share * WIDE_EASE if wide * 2 > len(claim.keys) else share


# --- things with a name ---------------------------------------------------------------------------------------------


def _find_novel_things(claim: Claim, person: Shelf) -> frozenset[str]:
    """Addresses, code, names and numbers that the person never typed in plain words."""
    exact = {at for at in claim.exact if not _stands_in(at, person.text)}
    names = {at for at in claim.names if not _stands_in(at, person.text) and not find_keys(at) & person.places.keys()}
    numbers = {at for at in claim.numbers if not _stands_in(at, person.text) and not _is_free(at)}
    return frozenset(exact | names | numbers)


def _find_carrier_of_things(claim: Claim, novel: frozenset[str], sources: Sources) -> str:
    """The foreign message that has one of them, names, numbers and days only beside other words of the sentence.

    A day is no novelty by itself: "by Thursday" is written out.
    """
    foreign = sources.foreign
    days = {day for day in claim.days if not _stands_in(day, sources.person.text)}
    for thing in sorted(thing for thing in novel | days if _stands_in(thing, foreign.text)):
        least = 0 if thing in claim.exact else 2 if thing in claim.days else 1
        others = claim.keys - find_keys(thing)
        for passage in foreign.passages:
            if len(others & passage.keys) >= min(least, len(others)) and _stands_in(thing, fold_text(passage.text)):
                return passage.message
        if thing in claim.exact:
            return "?"
    return ""


def _is_free(number: str) -> bool:
    return number.isdigit() and (int(number) <= NUMBER_FREE or not int(number))


def _stands_in(thing: str, text: str) -> bool:
    place = text.find(thing)
    while place >= 0:
        before, after = text[place - 1 : place], text[place + len(thing) : place + len(thing) + 1]
        if not (_is_word(before) and _is_word(thing[0])) and not (_is_word(after) and _is_word(thing[-1])):
            return True
        place = text.find(thing, place + 1)
    return False


def _is_word(char: str) -> bool:
    """Letters of scripts whose words stand apart; a Chinese character may touch anything."""
    return bool(char) and (char.isalnum() or char == "_") and char < "\u2e80"


# --- titles ---------------------------------------------------------------------------------------------------------


def _believe_labels(findings: Sequence[_Finding]) -> Iterator[_Finding]:
    """A title or description says again what the sentences below it say: these vouch for it."""
    rests = [at for at in findings if at.trust is Trust.PERSON]
    known = frozenset().union(*(at.claim.keys for at in rests))
    for number, at in enumerate(findings):
        keys, novel = at.claim.keys, len(at.claim.keys - known)
        covered = len(keys) - novel >= _ease(at.claim, LABEL_SHARE) * len(keys) and novel <= NOVEL_MAX
        short = not number and len(keys) <= TITLE_WORDS and not at.claim.orders
        vouched = bool(rests) and not at.messages and not at.things and (covered or short)
        yield replace(at, trust=Trust.PERSON) if vouched else at
