"""A patch set becomes one act: the inbox first, then every change together, then the proof that nothing was lost.

Whoever was quicker wins: a patch whose memory changed meanwhile, or was pinned, is left out as a whole. Logs are marked
as distilled last, because only then have they become memories. Applying a set twice does nothing the second time.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from memdir.dream.losses import list_sentences
from memdir.dream.material import mark_read
from memdir.dream.sets import VERB, PatchSet
from memdir.dream_lock import Held
from memdir.errors import MemdirError, NotFoundError
from memdir.frozen import dataclass, replace
from memdir.records import Act, Changed, Forget, Origin, Rewrite, Save
from memdir.store.files import FileStore
from memdir.store.plan import is_index
from memdir.taint.claims import fold_text

WHO = "dream"


@dataclass(frozen=True, slots=True)
class Proof:
    """Every sentence that the act took out of a memory: how many, how many still stand somewhere, how many history has.

    `missing` is what neither a memory nor the history holds: nothing, or something is badly wrong.
    """

    removed: int = 0
    elsewhere: int = 0
    in_history: int = 0
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Applied:
    """What came of a set: the act, the memories it changed, those left out, and the items that wait since now.

    `repeated` says that the set was applied before, `undone_by` which act has taken it back since.
    """

    act: int | None
    changed: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    waiting: tuple[int, ...] = ()
    proof: Proof = Proof()
    repeated: bool = False
    undone_by: int | None = None


def apply_dream(store: FileStore, patches: PatchSet, held: Held, now: datetime) -> Applied:
    """Apply a set; raises LockedError, with nothing done, if this dream no longer holds the directory."""
    held.check()
    if store.has_mark(patches.mark):
        mark_read(store, patches.logs)
        act = store.change((), verb=VERB, mark=patches.mark).act
        return Applied(act, repeated=True, undone_by=None if act is None else store.read_act(act).undone_by)
    before = _read_texts(store, _list_names(patches))
    known = {item.id for item in store.inbox(None)}
    items = store.inbox_add(replace(item, at=now) for item in patches.proposals)
    held.check()
    done = store.change(
        [patch.edits for patch in patches.patches],
        verb=VERB,
        origin=Origin(WHO, f"by {patches.by}, dream {patches.id}"),
        mark=patches.mark,
        drop_conflicts=True,
        keep_pinned=True,
    )
    mark_read(store, patches.logs)
    return _tell(store, done, before, tuple(item.id for item in items if item.id not in known))


def prove(store: FileStore, act: Act, before: Mapping[str, str]) -> Proof:
    """Look up every sentence that an act took out of these memories, where they stand now and in the history."""
    names = [header.name for header in store.scan()]
    now = {name: _fold_all(text) for name, text in _read_texts(store, names).items()}
    standing = frozenset[str]().union(*now.values())
    removed = elsewhere = kept = 0
    missing: list[str] = []
    for change in act.changes:
        name = change.path.removesuffix(".md")
        if name not in before or change.before is None:
            continue
        gone = {at: fold_text(at) for at in list_sentences(before[name])}
        gone = {at: folded for at, folded in gone.items() if folded not in now.get(name, ())}
        recorded = _fold_all(_read_recorded(store, change.before))
        removed += len(gone)
        elsewhere += sum(folded in standing for folded in gone.values())
        kept += sum(folded in recorded for folded in gone.values())
        missing += [at for at, folded in gone.items() if folded not in recorded and folded not in standing]
    return Proof(removed, elsewhere, kept, tuple(missing))


def _tell(store: FileStore, done: Changed, before: Mapping[str, str], waiting: tuple[int, ...]) -> Applied:
    dropped = tuple(dict.fromkeys(done.dropped))
    if done.act is None:
        return Applied(None, dropped=dropped, waiting=waiting)
    act = store.read_act(done.act)
    names = tuple(at.path.removesuffix(".md") for at in act.changes if not is_index(at.path))
    return Applied(act.id, names, dropped, waiting, prove(store, act, before), done.repeated)


def _list_names(patches: PatchSet) -> Iterator[str]:
    for patch in patches.patches:
        for edit in patch.edits:
            if isinstance(edit, Rewrite | Forget):
                yield edit.name
            elif isinstance(edit, Save) and edit.draft.name:
                yield edit.draft.name


def _read_texts(store: FileStore, names: Iterable[str]) -> dict[str, str]:
    texts = {}
    for name in dict.fromkeys(names):
        try:
            texts[name] = store.read(name).text
        except MemdirError:
            continue
    return texts


def _read_recorded(store: FileStore, digest: str) -> str:
    try:
        return store.read_content(digest).decode("utf-8", "replace")
    except NotFoundError:
        return ""


def _fold_all(text: str) -> frozenset[str]:
    return frozenset(map(fold_text, list_sentences(text)))
