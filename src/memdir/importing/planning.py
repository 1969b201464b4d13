"""What an import would do to a store, candidate by candidate, before anything is done.

A candidate is new, the same as a memory that is there, nearly the same and merged into it, was imported before, waits
in the inbox because it holds a secret, or is refused with the reason. An import that was undone counts as never made;
a memory that was imported and then changed or forgotten does not come back.
"""

from collections.abc import Iterable
from datetime import datetime

from memdir import frontmatter
from memdir.dialects import translate
from memdir.drafts import make_slug
from memdir.errors import ConflictError, FormatError, MemdirError, NotFoundError
from memdir.frozen import replace
from memdir.importing.matching import Known
from memdir.importing.records import Candidate, Fate, Found, ImportPlan, Step
from memdir.judging import doubt_credentials, mask_doubt, mask_words
from memdir.records import Dialect, InboxItem, InboxKind, InboxState, Memory, Origin, Put, Signature
from memdir.secrets import find_secrets
from memdir.staging import Staged
from memdir.store.contract import make_memory
from memdir.store.files import FileStore
from memdir.store.payloads import render_edits
from memdir.store.plan import digest_of, encode, plan_put
from memdir.store.shared import check_shared
from memdir.text import fold
from memdir.tidy.facts import Fact, make_exact
from memdir.tidy.uniting import has_own_fields, unite

VERB = "import"
_NOWHERE = Signature(0, 0, 0, 0)
_NAMES = 1_000


class _Nothing:
    """A view of no files: whether a name is free is known already."""

    def read_bytes(self, path: str) -> None:
        return None

    def list_files(self, folder: str) -> tuple[str, ...]:
        return ()


def plan_import(
    store: FileStore, found: Found, *, now: datetime, origin: Origin, since: datetime | None = None
) -> ImportPlan:
    """The steps for all candidates, in their order; those older than `since` are left out."""
    wanted = [at for at in found.candidates if since is None or at.modified is None or at.modified >= since]
    return _Planning(store, now, origin).run(replace(found, candidates=tuple(wanted)))


class _Planning:
    """One plan while it is made."""

    def __init__(self, store: FileStore, now: datetime, origin: Origin) -> None:
        self._store, self._now, self._origin = store, now, origin
        self._memories = dict(_read_all(store))
        self._known = Known(Fact(at) for at in self._memories.values() if at.header.kind is not None)
        self._taken = {fold(at.path.removesuffix(".md")) for at in store.look()}
        self._past = _find_past(store)
        self._merges: dict[str, str] = {}
        nested = sum(at.header.dialect is Dialect.NESTED for at in self._memories.values())
        self._dialect = Dialect.NESTED if nested * 2 > len(self._memories) else Dialect.FLAT

    def run(self, found: Found) -> ImportPlan:
        steps = tuple(self._place(candidate) for candidate in found.candidates)
        texts = {step.name: self._known.facts[step.name].memory.text for step in steps if step.fate is Fate.MERGED}
        final = tuple(
            replace(step, text=texts[step.name]) if step.fate is Fate.NEW and step.name in texts else step
            for step in steps
        )
        merges = [(name, text, self._memories[name].digest) for name, text in self._merges.items()]
        return ImportPlan(found, final, merges)

    def _place(self, candidate: Candidate) -> Step:
        if candidate.refusal:
            return Step(candidate, Fate.REFUSED, why=candidate.refusal)
        if not _is_text(candidate.text + candidate.hook):
            return Step(replace(candidate, text="", said=candidate.source), Fate.REFUSED, why="it is not valid Unicode")
        text = candidate.text if candidate.is_whole else translate(candidate.text, self._dialect)
        fact = self._make_fact(candidate.name or make_slug(frontmatter.parse_fields(text).title), text)
        if (same := self._known.find_same(fact)) is not None and not self._is_second(candidate, same):
            return Step(candidate, Fate.SAME, same.name, f"{same.name} says the same")
        if _make_key(fact.memory) in self._past:
            return Step(candidate, Fate.BEFORE, self._past[_make_key(fact.memory)], "changed or forgotten since")
        if (waiting := self._doubt(candidate, fact, text)) is not None:
            return waiting
        return self._merge(candidate, fact) or self._add(candidate, fact, text)

    def _is_second(self, candidate: Candidate, same: Fact) -> bool:
        """Two files of one directory that say the same are two files; a dream may make them one."""
        return candidate.is_whole and same.name not in self._memories

    def _merge(self, candidate: Candidate, fact: Fact) -> Step | None:
        near = self._known.find_near(fact)
        if near is None or self._is_second(candidate, near) or has_own_fields(fact, near):
            return None
        try:
            text = unite(near, fact, self._find_hooks(candidate))
        except FormatError:
            return None
        if text == near.memory.text:
            return Step(candidate, Fate.SAME, near.name, f"{near.name} says the same in other words")
        if near.memory.header.pinned:
            return None
        self._known.add(self._make_fact(near.name, text))
        if near.name in self._memories:
            self._merges[near.name] = text
        return Step(candidate, Fate.MERGED, near.name, f"{near.name} says nearly the same", text)

    def _find_hooks(self, candidate: Candidate) -> tuple[str, ...]:
        """What an index said of it, unless that holds a secret: the file alone was searched for one."""
        hook, find = candidate.hook, self._store.rules.find or find_secrets
        return (hook,) if hook and not find(hook) else ()

    def _add(self, candidate: Candidate, fact: Fact, text: str) -> Step:
        try:
            name = self._find_free(fact.name)
            rules = replace(self._store.rules, skip_index=True)
            check_shared(plan_put(_Nothing(), name, text, "", rules), rules)
        except MemdirError as error:
            return Step(candidate, Fate.REFUSED, why=f"{error}")
        self._taken.add(fold(name))
        self._known.add(self._make_fact(name, text))
        why = f"{fact.name} is taken by another memory" if name != fact.name else ""
        return Step(candidate, Fate.NEW, name, why, text)

    def _doubt(self, candidate: Candidate, fact: Fact, text: str) -> Step | None:
        """A candidate with a secret waits, without the secret; one that was decided about is not asked again."""
        doubt = doubt_credentials(Staged(fact.name, text, None, None), self._store.rules.find)
        if doubt is None:
            return None
        masked = mask_doubt(doubt, self._store.rules.find)
        name, body = masked.staged.name, masked.staged.text or ""
        key = f"{VERB}:{digest_of(encode(name + chr(10) + make_exact(frontmatter.split(body).body)))[:32]}"
        known = self._store.inbox_find(key)
        if known is not None and known.state is not InboxState.WAITING:
            return Step(candidate, Fate.BEFORE, name, f"{known.state.value} in the inbox")
        source = mask_words(candidate.source, self._store.rules.find)
        payload = {"edits": render_edits([Put(name, body)]), "evidence": [], "source": source}
        kind = InboxKind.MEMORY
        item = InboxItem(kind, f"import {name}", masked.why, self._now, key, name, self._origin, payload)
        return Step(candidate, Fate.WAITING, name, masked.why, body, None if known is not None else item)

    def _find_free(self, name: str) -> str:
        for number in range(1, _NAMES):
            folder, slash, leaf = name.rpartition("/")
            free = name if number == 1 else f"{folder}{slash}{leaf[:90]}-{number}"
            if fold(free) not in self._taken:
                return free
        raise ConflictError("a thousand memories have this name")

    def _make_fact(self, name: str, text: str) -> Fact:
        return Fact(make_memory(name, encode(text), _NOWHERE, self._store.scope))


def _is_text(text: str) -> bool:
    """Whether a file could hold this: JSON may spell half of a character."""
    try:
        encode(text)
    except UnicodeEncodeError:
        return False
    return True


def _read_all(store: FileStore) -> Iterable[tuple[str, Memory]]:
    for header in store.scan():
        try:
            yield header.name, store.read(header.name)
        except MemdirError:
            continue


def _find_past(store: FileStore) -> dict[str, str]:
    """What earlier imports brought, those that were undone left out: the text's key, and the name it came under."""
    past: dict[str, str] = {}
    for act in store.acts():
        if act.verb != VERB or act.undone_by is not None:
            continue
        for change in act.changes:
            if change.splice is None and change.before is None and change.after is not None:
                name = change.path.removesuffix(".md")
                try:
                    data = store.read_content(change.after)
                except NotFoundError:  # purged
                    continue
                past[_make_key(make_memory(name, data, _NOWHERE, store.scope))] = name
    return past


def _make_key(memory: Memory) -> str:
    """By what a memory says, not by how its head is written: a dialect may change between two imports."""
    return f"{fold(memory.header.title)}\n{make_exact(memory.body)}"
