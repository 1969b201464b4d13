"""May what a dreaming model wrote be kept as it is? By where its words came from, and by what they would become.

A merge has the lowest trust of its parts. So a rule, or a portrait of the person, may be made of rules and portraits,
of the daily log and of the person's own words, but not of facts about the project; a fact of anything that is
remembered. What a tool, a file or a paste says is nobody's word. What a team shares is for a person to change. Nothing
pins itself, and no credential is carried anywhere.

It judges texts that are there (judging does so for a conversation's), and decides nothing about what is lost.
"""

from collections.abc import Iterable, Mapping, Sequence

from memdir import frontmatter
from memdir.dream.losses import Remaining, list_sentences
from memdir.frozen import dataclass, replace
from memdir.judging import SHARED, doubt_credentials
from memdir.records import Header, Kind, Message
from memdir.staging import Staged
from memdir.store.plan import Rules
from memdir.store.shared import is_shared, is_team
from memdir.taint import Sources, Trust, judge, trace
from memdir.taint.claims import find_keys
from memdir.text import fold

FACT, RULE, TEAM = "fact", "rule", "team"
_FACTS = (Kind.PROJECT, Kind.REFERENCE)


@dataclass(frozen=True, slots=True)
class _Ground:
    """What counts as said already, and whose words all the others are."""

    known: Remaining
    sources: Sources


class Belief:
    """What may be believed for which class of memory; made when it is first asked for."""

    def __init__(
        self,
        headers: Iterable[Header],
        texts: Mapping[str, str],
        ages: Mapping[str, float],
        notes: Sequence[Message],
        shown: Sequence[Message],
    ) -> None:
        self._classes = {header.name: find_class(header.name, header.kind) for header in headers}
        self._texts, self._ages = texts, ages
        self._notes, self._shown = notes, shown
        self._made: dict[str, _Ground] = {}

    def find(self, wanted: str) -> _Ground:
        if wanted not in self._made:
            own = {name: text for name, text in self._texts.items() if wanted in (FACT, self._classes.get(name, FACT))}
            others = [text for name, text in self._texts.items() if name not in own]
            heard = [*self._shown, *(Message("assistant", _flatten(text)) for text in others)]
            # The log is private: for the team it is no more than the agent's word.
            notes = [replace(at, role="assistant") for at in self._notes] if wanted == TEAM else self._notes
            sources = trace((*notes, *heard), [(name, _flatten(text)) for name, text in own.items()])
            self._made[wanted] = _Ground(Remaining(own, self._ages), sources)
        return self._made[wanted]


def find_class(name: str, kind: Kind | None) -> str:
    if is_team(name):
        return TEAM
    return FACT if kind in _FACTS or kind is None else RULE


def find_doubts(staged: Sequence[Staged], belief: Belief, evidence: Mapping[str, str], rules: Rules) -> dict[str, str]:
    """Name to why its new text may not be kept without a person."""
    found = ((at.name, _find_doubt(at, belief, evidence.get(fold(at.name), ""), rules)) for at in staged)
    return {name: why for name, why in found if why}


def _find_doubt(staged: Staged, belief: Belief, quote: str, rules: Rules) -> str:
    if is_shared(staged.name, rules):
        return SHARED
    if staged.text is None:
        return ""
    if secret := doubt_credentials(staged, rules.find):
        return secret.why
    fields = frontmatter.parse_fields(staged.text)
    if fields.pinned:  # one that was pinned before is never staged
        return "it would pin itself, and only a person does that"
    wanted = find_class(staged.name, fields.kind)
    ground = belief.find(wanted)
    if _is_known(staged, ground.known):
        return ""
    verdict = judge(_flatten(staged.text), quote, ground.sources)
    is_kept = verdict.trust is Trust.PERSON or (verdict.trust is Trust.AGENT and wanted == FACT)
    return "" if is_kept else verdict.why


def _is_known(staged: Staged, known: Remaining) -> bool:
    """Whether it says nothing new: every sentence stands somewhere, and its head has no word that its body has not."""
    text = staged.text or ""
    before, after = frontmatter.parse_fields(staged.before or ""), frontmatter.parse_fields(text)
    if not all(known.has(sentence) for sentence in list_sentences(text)):
        return False
    labels = find_keys(f"{after.title}\n{after.description}")
    return labels <= find_keys(frontmatter.split(text).body) | find_keys(f"{before.title}\n{before.description}")


def _flatten(text: str) -> str:
    fields = frontmatter.parse_fields(text)
    return "\n".join((fields.title, fields.description, frontmatter.split(text).body))
