"""Whether what a model wrote may be kept as it is: by where its words came from, not by what it says of itself.

What rests on the person's own plain words is kept. What carries text from tools, files, pages or quotes needs review,
whatever its type. What rests on the agent's own words may be a fact about the project, but no rule and no portrait of the
person. A deletion needs somebody's word, and so does an update that drops what nobody spoke of. What a team shares needs
review: others would read it. What waits in the inbox is stored without the credentials in it.
"""

import re
from collections.abc import Mapping, Sequence

from memdir.extraction.find import FORGET, MemoryRequest, mask_values
from memdir.extraction.merge import is_said
from memdir.extraction.provenance import SpeakerSources, Trust, find_keys, judge_words
from memdir.format import frontmatter
from memdir.format.drafts import make_slug
from memdir.frozen import dataclass, replace
from memdir.language.words import split_text
from memdir.models.staged import StagedMemory
from memdir.records import Kind
from memdir.store.plan import Finder, WriteRules, is_shared, is_team
from memdir.store.secret_text import SecretFinding
from memdir.store.secrets import find_secrets, mask, render_findings
from memdir.text import one_line, shorten

SECRET = "it holds a secret"
ECHO = "the agent said it, and it had that from elsewhere"
SHARED = "a team shares it, and only a person may say so"
_FACTS = (Kind.PROJECT, Kind.REFERENCE)
_TELLING = 5  # characters of a secret that may stand at the end of a name: `ghp` tells nothing
# Lines of a head that say nothing besides what the fields say.
_PLAIN = re.compile(r"\s*(?:(?:name|description):[^#]*|metadata:|(?:type|pinned):\s*\w+|modified:[\s\d:TZ+.'\"-]*)\s*")


@dataclass(frozen=True, slots=True)
class DoubtfulWrite:
    """A write that needs review, why, and the words it rests on as far as that is known."""

    staged: StagedMemory
    why: str
    quote: str = ""


def judge_staged(
    staged: Sequence[StagedMemory],
    sources: SpeakerSources,
    evidence: Mapping[str, str],
    requests: Sequence[MemoryRequest],
) -> tuple[DoubtfulWrite, ...]:
    """The writes that may not be kept without a person."""
    doubts = []
    for at in staged:
        quote = evidence.get(at.name, "")
        if why := _find_doubt(at, sources, quote, requests):
            doubts.append(DoubtfulWrite(at, why, quote))
    return tuple(doubts)


def is_borrowed(request: MemoryRequest) -> bool:
    """Whether a request has a sentence in words that are not the person's, as where they praise what the agent said."""
    own = find_keys(request.quote)
    found = (find_keys(sentence) for sentence in split_text(request.body))
    return request.action != FORGET and any(len(keys - own) * 2 > len(keys) for keys in found)


def doubt_shared(staged: StagedMemory, rules: WriteRules) -> DoubtfulWrite | None:
    """Why a write to what others read needs review, whoever said it; None for any other."""
    return DoubtfulWrite(staged, SHARED) if is_shared(staged.name, rules) else None


def find_credentials(staged: StagedMemory, find: Finder | None) -> list[SecretFinding]:
    """The credentials in a write that were not in the memory before."""
    found = (find or find_secrets)(staged.text or "")
    return [at for at in found if (staged.text or "")[at.start : at.end] not in (staged.before or "")]


def doubt_credentials(staged: StagedMemory, find: Finder | None) -> DoubtfulWrite | None:
    """Why a write with a credential in it needs review; None for one without."""
    found = find_credentials(staged, find)
    return DoubtfulWrite(staged, f"{SECRET}: {'; '.join(render_findings(found))}") if found else None


def mask_doubt(doubt: DoubtfulWrite, find: Finder | None) -> DoubtfulWrite:
    """A doubt as it may be kept: the credentials removed from the text, the reason and the quotation."""
    text, found = doubt.staged.text or "", find_credentials(doubt.staged, find)
    secrets = [text[at.start : at.end] for at in found]
    masked = doubt.staged
    if secrets:
        name = masked.name if masked.before is not None else _mask_name(masked.name, secrets)
        masked = replace(masked, name=name, text=_mask_file(text, secrets))
    why, quote = (mask_words(mask_values(words, secrets), find) for words in (doubt.why, doubt.quote))
    return DoubtfulWrite(masked, why, quote)


def mask_words(text: str, find: Finder | None) -> str:
    """A reason or a quotation as it may be kept."""
    return mask(text, (find or find_secrets)(text)) if text else ""


def _mask_file(text: str, secrets: Sequence[str]) -> str:
    """Field by field, so that the head can still be read."""
    fields = frontmatter.parse_fields(text)
    if fields.problem:
        return mask_values(text, secrets)
    changes = {"name": mask_values(fields.title, secrets), "description": mask_values(fields.description, secrets)}
    body = mask_values(frontmatter.split_frontmatter(text).body, secrets)
    return mask_values(frontmatter.replace_body(frontmatter.set_fields(text, changes), body), secrets)


def _mask_name(name: str, secrets: Sequence[str]) -> str:
    """A name without a secret that became part of it: names are shown everywhere."""
    folder, slash, leaf = name.rpartition("/")
    for slug in map(make_slug, secrets):
        leaf = re.sub(re.escape(slug), "masked", leaf, flags=re.IGNORECASE)
        # A long title is cut, perhaps in the middle of the secret.
        cut = next((end for end in range(len(slug), _TELLING, -1) if leaf.lower().endswith(slug[:end])), 0)
        leaf = f"{leaf[:-cut]}masked" if cut else leaf
    return folder + slash + leaf


def _find_doubt(staged: StagedMemory, sources: SpeakerSources, quote: str, requests: Sequence[MemoryRequest]) -> str:
    if is_team(staged.name):
        return SHARED
    if staged.text is None:
        asked = any(request.action == FORGET and is_said(request, staged.before or "") for request in requests)
        return "" if asked else "nobody asked to forget it"
    # A new memory is written anew from its fields; one that is rewritten keeps whatever its head says.
    if staged.before is not None and _find_extras(staged.text) - _find_extras(staged.before):
        return "it puts something into the head of the file that belongs nowhere"
    kind, was = (frontmatter.parse_fields(text or "").kind for text in (staged.text, staged.before))
    # A fact that becomes a rule is judged as if it were new: it was let in as a fact.
    added = _find_added("" if was in _FACTS and kind not in _FACTS else staged.before or "", staged.text)
    if not added:
        return "" if staged.before is None else "it only takes something away, and nobody asked for that"
    verdict = judge_words(added, quote, sources)
    if verdict.trust is Trust.PERSON or (verdict.trust is Trust.AGENT and kind in _FACTS):
        return _find_loss(staged.before or "", staged.text, sources)
    return verdict.why


def _find_added(before: str, after: str) -> str:
    """What a write says that the memory did not say before: title, description and body, sentence by sentence."""
    old = set(split_text(_flatten(before)))
    return "\n".join(sentence for sentence in split_text(_flatten(after)) if sentence not in old)


def _find_loss(before: str, after: str, sources: SpeakerSources) -> str:
    """Whether a sentence goes that is neither put in other words nor anything the person spoke of."""
    flat = _flatten(after)
    kept, words = set(split_text(flat)), find_keys(flat)
    for sentence in split_text(frontmatter.split_frontmatter(before).body):
        keys = find_keys(sentence)
        is_gone = sentence not in kept and len(keys & words) * 2 < len(keys)
        if is_gone and not keys & sources.person.places.keys():
            return f"it takes away what nobody spoke of: “{shorten(one_line(sentence), 80)}”"
    return ""


def _flatten(text: str) -> str:
    fields = frontmatter.parse_fields(text)
    return "\n".join((fields.title, fields.description, frontmatter.split_frontmatter(text).body))


def _find_extras(text: str) -> set[str]:
    """Lines of a head that say more than title, description and type."""
    lines = frontmatter.split_frontmatter(text).head.splitlines()
    return {line.strip() for line in lines if line.strip() and not _PLAIN.fullmatch(line)}
