"""`Memory`, the main class of the public API, and `AsyncMemory`, its asynchronous version.

    with memdir.Memory("agent/notes") as memory:
        memory.remember("we deploy on Tuesdays only")
        print([hit.title for hit in memory.recall("may I deploy on Friday?")])

Each method calls one function of another module and contains no logic of its own.
"""

from collections.abc import Callable, Coroutine, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar, Unpack

from memdir.errors import NotFoundError
from memdir.operations import review, write
from memdir.operations.find import find_memory, find_past, list_memories
from memdir.operations.write import TakenName, WriteContext, WriteResult
from memdir.records import Change, Draft, FieldChanges, Header, InboxItem, Kind, Model, Origin, Scope, StoredMemory
from memdir.store.contract import Clock, StoreBase
from memdir.store.open import Project, open_project, open_store

if TYPE_CHECKING:
    from memdir.dream import DreamResult
    from memdir.extraction import ExtractResult
    from memdir.recall.find import SearchHit
    from memdir.recall.pipeline import RecallResult
    from memdir.session import Session

Params = ParamSpec("Params")
Result = TypeVar("Result")
PERSON = Origin()


class Memory:
    """The memory of this project, or the one given by `where`.

    `where` is a directory, a store, several stores (writes go to the first) or an open Project. By default, it is the
    project in the working directory, with the user's memory. `model` is used by `learn` and `dream`: a function, or a
    name that `open_model` accepts. By default, the project's settings decide; a directory or store uses patterns.

    Methods raise NotFoundError, ConflictError, FormatError, SecretError, LockedError, DiskError or ModelError, and
    SettingsError if memory is off. If a change needs review, no error is raised and its `action` is WAITING.
    """

    def __init__(
        self,
        where: str | Path | Project | StoreBase | Sequence[StoreBase] | None = None,
        *,
        model: Model | str | None = None,
        origin: Origin = PERSON,
        clock: Clock | None = None,
    ) -> None:
        self._closing = ExitStack()
        if where is None or isinstance(where, str | Path):
            where = open_project() if where is None else open_store(where)
            self._closing.callback(where.close)
        self._project = where if isinstance(where, Project) else None
        if isinstance(where, Project):
            where.check_on()
            where = where.stores
        self.stores: tuple[StoreBase, ...] = (where,) if isinstance(where, StoreBase) else tuple(where)
        self._origin, self._clock, self._model = origin, clock or self.stores[0].clock, model

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def remember(self, text: str, *, kind: Kind | str | None = None, name: str | None = None) -> WriteResult:
        """Save a sentence verbatim, in the memory that it extends or corrects, or as a new memory.

        With a `name`, always create a new memory. If the sentence asks to forget something, delete that instead.
        """
        memory_kind = None if kind is None else Kind(kind)
        return write.remember(self.stores, _check_text(text), self._context(), kind=memory_kind, name=name)

    def save(self, draft: Draft, *, replace: bool = False) -> WriteResult:
        """Save a draft as a new memory or, with `replace`, replace the memory with its name."""
        choice = TakenName.REPLACE if replace else TakenName.REFUSE
        return write.save(self.stores[0], draft, self._context(), taken=choice)

    def recall(self, question: str, *, limit: int | None = None) -> "RecallResult":
        """Return the memories that are relevant to a question, often none; with a `limit`, the best matches."""
        from memdir.recall.pipeline import recall, recall_in_project

        if self._project is not None:
            return recall_in_project(self._project, _check_text(question), limit=limit)
        return recall(self.stores, _check_text(question), now=self._clock(), limit=limit)

    def search(self, words: str, *, limit: int = 20) -> "tuple[SearchHit, ...]":
        """Return the memories that contain all these words in any form, each with its best matching line."""
        from memdir.recall.find import search_memories

        return search_memories(self.stores, _check_text(words), limit=limit)

    def get(self, name: str) -> StoredMemory:
        """Return a memory by its name, unambiguous title or path."""
        store, header = find_memory(self.stores, name)
        return store.read(header.name)

    def list(self, *, kind: Kind | str | None = None, scope: Scope | str | None = None) -> tuple[Header, ...]:
        """Return the headers of all memories, newest first."""
        return tuple(memory.header for memory in list_memories(self.stores, kind=kind, scope=scope))

    def update(self, name: str, *, expect: str | None = None, **fields: Unpack[FieldChanges]) -> WriteResult:
        """Change fields of a memory. Raise ConflictError if its digest is no longer `expect`."""
        store, header = find_memory(self.stores, name)
        return write.update(store, header.name, fields, self._context(), expect=expect)

    def forget(self, what: str, *, expect: str | None = None) -> WriteResult:
        """Delete a memory by its name or by words that clearly describe one. It can be restored from history."""
        return write.forget_meant(self.stores, _check_text(what), self._context(), expect=expect)

    def restore(self, name: str, *, change: int | None = None) -> WriteResult:
        """Restore the version of a memory that a change wrote, by default the previous version."""
        store, known = find_past(self.stores, name)
        return write.restore(store, known, self._context(), change=change)

    def history(self, name: str | None = None, *, limit: int = 50) -> tuple[Change, ...]:
        """Return the changes of a memory, or all changes in the first store, newest first."""
        store, known = (self.stores[0], None) if name is None else find_past(self.stores, name)
        return store.changes(known, limit=limit)

    def undo(self, change: int | None = None) -> WriteResult:
        """Undo the last change in the first store, or the change with this ID. An undo can itself be undone."""
        return write.undo(self.stores[0], change, self._context())

    def learn(self, messages: Sequence[object]) -> "ExtractResult":
        """Learn from messages: `Message` records, tables such as `{"role": "user", "content": …}`, or SDK objects."""
        from memdir.extraction import NOWHERE, extract
        from memdir.extraction.turns import make_conversation

        if isinstance(messages, str):
            raise TypeError('learn() needs messages, such as [{"role": "user", "content": "…"}], not a string')
        source = NOWHERE if self._project is None else make_conversation(self._project)
        return extract(self.stores[0], messages, model=self._open_model(), now=self._clock(), conversation=source)

    def dream(self, *, preview: bool = False) -> "DreamResult":
        """Merge duplicates, make dates absolute and repair the index, as one change. With `preview`, change no memory."""
        from memdir.dream import DreamResult, dream, find_dream_context, preview_dream
        from memdir.dream.by_model import NO_CONTEXT

        context = NO_CONTEXT if self._project is None else find_dream_context(self._project)
        options: dict[str, Any] = {"model": self._open_model(), "now": self._clock(), "context": context}
        if preview:
            return DreamResult(preview_dream(self.stores[0], **options))
        return dream(self.stores[0], **options)

    def review(self, item: InboxItem | None = None, *, approve: bool = True) -> tuple[InboxItem, ...]:
        """Return the items that need review, oldest first. If an `item` is given, approve or reject it first."""
        if item is not None:
            owner = next((store for store in self.stores if item in store.inbox(None)), None)
            if owner is None:
                raise NotFoundError(f"inbox item {item.id} not found", name=str(item.id), hint="review() lists them")
            review.decide(owner, item.id, approve, self._context())
        return tuple(waiting for store in self.stores for waiting in store.inbox())

    def session(self, id: str = "") -> "Session":
        """Return a conversation that uses this memory. An existing ID continues that conversation."""
        from memdir.session import Session

        return Session(self._project or self.stores, model=self._open_model(), id=id, clock=self._clock)

    def close(self) -> None:
        """Close the stores that this object opened; stores that were passed in stay open."""
        self._closing.close()

    def _context(self) -> WriteContext:
        if self._project is None:
            return WriteContext(self._origin, self._clock())
        root, check_on = self._project.places.root.path, self._project.check_on
        return WriteContext(self._origin, self._clock(), root, check_on=check_on)

    def _open_model(self) -> Model | None:
        from memdir.models.open import find_model, open_model

        if isinstance(self._model, str):
            self._model = open_model(self._model)
        if self._model is None and self._project is not None:
            project = self._project
            return find_model(project.settings, project.environment, project=str(project.places.root.path))
        return self._model


def _check_text(text: object) -> str:
    if not isinstance(text, str):
        raise TypeError(f"expected text, not {type(text).__name__}")
    return text


def _in_thread(
    method: Callable[Concatenate[Memory, Params], Result],
) -> Callable[Concatenate["AsyncMemory", Params], Coroutine[Any, Any, Result]]:
    """Return an asynchronous version of a method, which runs in a thread."""

    async def call(self: "AsyncMemory", /, *args: Params.args, **options: Params.kwargs) -> Result:
        from asyncio import to_thread

        return await to_thread(method, self.memory, *args, **options)

    call.__doc__ = method.__doc__
    return call


class AsyncMemory:
    """An asynchronous `Memory` with the same arguments; each method runs in a thread."""

    def __init__(
        self,
        where: str | Path | Project | StoreBase | Sequence[StoreBase] | None = None,
        *,
        model: Model | str | None = None,
        origin: Origin = PERSON,
        clock: Clock | None = None,
    ) -> None:
        self.memory = Memory(where, model=model, origin=origin, clock=clock)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    remember = _in_thread(Memory.remember)
    save = _in_thread(Memory.save)
    recall = _in_thread(Memory.recall)
    search = _in_thread(Memory.search)
    get = _in_thread(Memory.get)
    list = _in_thread(Memory.list)
    update = _in_thread(Memory.update)
    forget = _in_thread(Memory.forget)
    restore = _in_thread(Memory.restore)
    history = _in_thread(Memory.history)
    undo = _in_thread(Memory.undo)
    learn = _in_thread(Memory.learn)
    dream = _in_thread(Memory.dream)
    review = _in_thread(Memory.review)
    session = _in_thread(Memory.session)
    close = _in_thread(Memory.close)
