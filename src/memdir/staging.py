"""A fork's writes before they happen: kept aside, shown back to it, and handed over as one batch of edits.

So a run that dies half way has changed nothing, and one that ends well changes everything at once. Each write is
checked when it is made, by the same rules as the store's own, because only then can the model still put it right.

It does not write to the store and does not judge where a text came from.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Protocol

from memdir import frontmatter
from memdir.drafts import check_description
from memdir.errors import FormatError, NotFoundError
from memdir.frozen import dataclass
from memdir.guard import check_name
from memdir.records import Draft, Edit, Forget, Header, Kind, Memory, Rewrite, Save
from memdir.store.plan import Rules, View, check_kind, check_text, digest_of, encode, plan_write
from memdir.text import fold


class Ground(View, Protocol):
    """What a run stands on: a store, or what one would be."""

    @property
    def rules(self) -> Rules: ...
    def scan(self) -> tuple[Header, ...]: ...
    def read(self, name: str) -> Memory: ...


@dataclass(frozen=True, slots=True)
class Staged:
    """One memory as the fork left it; None stands for "no file". `before` is the text it found, `digest` its digest."""

    name: str
    text: str | None
    before: str | None
    digest: str | None


class Staging:
    """The writes of one run over one store."""

    def __init__(self, store: Ground, *, now: datetime) -> None:
        self.store = store
        self._now = now
        self._staged: dict[str, Staged] = {}

    def scan(self) -> tuple[Header, ...]:
        """The headers that were there before the run."""
        return self.store.scan()

    def read(self, name: str) -> str:
        """A memory's text as this run sees it."""
        key = fold(name)
        if key in self._staged:
            text = self._staged[key].text
            if text is None:
                raise NotFoundError(f"no memory named {name}", name=name)
            return text
        check_name(name)
        return self.store.read(name).text

    def find_before(self, name: str) -> str | None:
        """A memory's text as the run found it."""
        check_name(name)
        return self._find(name).before

    def write(self, name: str, text: str) -> bool:
        """Put a whole file, frontmatter included, under a name; answers whether the memory is new."""
        check_name(name)
        found = self._find(name)
        if found.before is None:
            self._check_new(name, text)
        else:
            fields = frontmatter.parse_fields(text)
            check_kind(fields, self.store.rules)
            check_text(text, "body")
            if fields.description != frontmatter.parse_fields(found.before).description:
                check_description(fields.description, fields.kind)
        self._staged[fold(name)] = Staged(found.name, text, found.before, found.digest)
        return found.before is None

    def save(self, draft: Draft) -> str:
        """A draft under its own name, or under that of the memory it renews; answers the name."""
        name, planned = plan_write(self, draft, self._find_digest(draft), self._now, self.store.rules)
        after = next((at.after for at in planned if at.path == f"{name}.md"), None)
        if after is not None:
            found = self._find(name)
            self._staged[fold(name)] = Staged(name, after.decode("utf-8"), found.before, found.digest)
        return name

    def forget(self, name: str) -> None:
        self.read(name)
        found = self._find(name)
        if found.before is None:
            del self._staged[fold(name)]  # it never came to be
        else:
            self._staged[fold(name)] = Staged(found.name, None, found.before, found.digest)

    def drop(self, name: str) -> None:
        """Leave one memory as it was before the run."""
        self._staged.pop(fold(name), None)

    def copy(self) -> dict[str, Staged]:
        """The run so far, for `take_back`."""
        return dict(self._staged)

    def take_back(self, copy: dict[str, Staged]) -> None:
        """Go back to an earlier point of the run."""
        self._staged = dict(copy)

    @property
    def staged(self) -> tuple[Staged, ...]:
        """What changed, in the order in which it was first touched."""
        return tuple(at for at in self._staged.values() if at.text != at.before)

    # --- a view for planning ----------------------------------------------------------------------------------------

    def read_bytes(self, path: str) -> bytes | None:
        staged = self._staged.get(fold(path.removesuffix(".md")))
        if staged is not None:
            return None if staged.text is None else encode(staged.text)
        return self.store.read_bytes(path)

    def list_files(self, folder: str) -> list[str]:
        listed = self.store.list_files(folder)
        prefix = f"{folder}/" if folder else ""
        new = (f"{at.name}.md" for at in self._staged.values() if at.text is not None)
        return sorted({*listed, *(path[len(prefix) :] for path in new if _is_directly_in(path, prefix))})

    def _find(self, name: str) -> Staged:
        key = fold(name)
        if key in self._staged:
            return self._staged[key]
        try:
            memory = self.store.read(name)
        except NotFoundError:
            return Staged(name, None, None, None)
        return Staged(memory.header.name, memory.text, memory.text, memory.digest)

    def _find_digest(self, draft: Draft) -> str | None:
        if draft.name is None:
            return None
        data = self.read_bytes(f"{draft.name}.md")
        return None if data is None else digest_of(data)

    def _check_new(self, name: str, text: str) -> None:
        draft = parse_draft(name, text)
        check_description(draft.description, draft.kind)
        plan_write(self.store, draft, None, self._now, self.store.rules)


def make_edits(staged: Iterable[Staged]) -> tuple[Edit, ...]:
    """The batch that makes the store read as the run left it."""
    edits: list[Edit] = []
    for at in staged:
        if at.text is None:
            edits.append(Forget(at.name, at.digest))
        elif at.digest is None:
            edits.append(Save(parse_draft(at.name, at.text)))
        else:
            edits.append(Rewrite(at.name, at.text, at.digest))
    return tuple(edits)


def parse_draft(name: str, text: str) -> Draft:
    """A whole file as a draft, so that a new one is written in the directory's own dialect."""
    fields = frontmatter.parse_fields(text)
    if fields.kind is None or fields.problem:
        raise FormatError(
            f"{name}.md cannot be saved: {fields.problem or 'it has no type'}",
            field="frontmatter",
            hint="it needs name, description and type (user, feedback, project or reference) between two --- lines",
        )
    body = frontmatter.split(text).body.lstrip("\r\n")
    return Draft(Kind(fields.kind), fields.title or name, fields.description, body, name, fields.pinned or None)


def _is_directly_in(path: str, prefix: str) -> bool:
    return path.startswith(prefix) and "/" not in path[len(prefix) :]
