"""What a person typed, as one memory of one store. The project's own memory comes first; `--scope` narrows."""

import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from difflib import get_close_matches
from pathlib import Path

from memdir.errors import DiskError, FormatError, LockedError, NotFoundError, SettingsError
from memdir.format.clip import IndexFill, measure_index
from memdir.format.drafts import HOW, WHY, find_missing_parts, make_slug
from memdir.format.index import INDEX_FILE
from memdir.frozen import replace
from memdir.interfaces.cli import choose_store
from memdir.interfaces.cli.output import complain, is_terminal
from memdir.interfaces.derivable import find_derivable
from memdir.language.dates import ReplacedDate, make_absolute
from memdir.limits import FILE_BYTES
from memdir.project.settings import Environment
from memdir.records import Draft, Header, Kind, Scope
from memdir.store.files import FileStore
from memdir.store.lookup import find_existing, find_free_name, find_header
from memdir.store.open import Project
from memdir.store.plan import TEAM_FOLDER, index_path, is_team
from memdir.store.secrets import find_for, find_secrets, mask, render_findings
from memdir.text import fold

# --- names ---

# How long a verb that only looks waits to record outside edits before it goes on without.
_NOTICE_SECONDS = 1.0
# Whether a scope means what the team shares of the project's memory, or the rest of it; others mean all of theirs.
_SHARED: dict[str | None, bool] = {Scope.PRIVATE.value: False, Scope.TEAM.value: True}


def find_memory(opened: Project, text: str, scope: str | None = None) -> tuple[FileStore, Header]:
    """The memory meant by a name, an unambiguous title or a path; raises NotFoundError."""
    stores = opened.stores if scope is None else (choose_store(opened, scope),)
    for store in stores:
        if inside := _find_inside(store, text):
            return store, find_header(store.scan(), inside)
    headers: list[Header] = []
    for store in stores:
        own = {fold(header.name) for header in headers}
        headers += [header for header in store.scan() if fold(header.name) not in own]
    wanted = _SHARED.get(scope)
    header = find_header([at for at in headers if wanted is None or (at.scope is Scope.TEAM) is wanted], text)
    home = Scope.PRIVATE if header.scope is Scope.TEAM else header.scope
    return next((store for store in stores if store.scope is home), stores[0]), header


def find_past(opened: Project, text: str, scope: str | None = None) -> tuple[FileStore, str]:
    """As `find_memory`, for memories that may be gone: then their very name, if history knows it."""
    try:
        store, header = find_memory(opened, text, scope)
        return store, header.name
    except NotFoundError:
        name = spell_name(text, scope)
        for store in opened.stores if scope is None else (choose_store(opened, scope),):
            if store.changes(name, limit=1):
                return store, name
        raise


def spell_name(text: str, scope: str | None) -> str:
    """A name as it stands below the memory directory; of the team's memories the folder may be left out."""
    name = text.strip().removeprefix("./").removesuffix(".md")
    return f"{TEAM_FOLDER}/{name}" if scope == Scope.TEAM.value and not is_team(name) else name


def find_surfaced(opened: Project, text: str, scope: str | None = None) -> tuple[FileStore, str]:
    """As `find_past`, also for memories that only the ledger of recalls remembers."""
    try:
        return find_past(opened, text, scope)
    except NotFoundError:
        name = spell_name(text, scope)
        for store in opened.stores if scope is None else (choose_store(opened, scope),):
            if store.recalls(name, limit=1):
                return store, name
        raise


def refuse_verb(word: str, verbs: Iterable[str]) -> str:
    """What to say to a verb that is none."""
    near = get_close_matches(word, list(verbs), n=1)
    return f"there is no verb {word!r}" + (f" (did you mean {near[0]}?)" if near else "")


def notice(store: FileStore) -> None:
    """Record outside edits before history is shown; a directory that is busy or read-only is shown as it stands."""
    if not store.root.is_dir():
        return
    try:
        store.notice(seconds=_NOTICE_SECONDS)
    except (LockedError, DiskError):
        return


def _find_inside(store: FileStore, text: str) -> str:
    """The name of a memory given by its whole path; empty if the path leads elsewhere or is none."""
    if not os.path.isabs(text) or "\0" in text:
        return ""
    for root in (str(store.root), os.path.realpath(store.root)):
        if text.startswith(root.rstrip("/") + "/"):
            return text[len(root.rstrip("/")) + 1 :]
    return ""


# --- incoming ---
# Text on its way in: read from standard input, dates made absolute; and what to warn of once it is saved.

_OPTIONS = {WHY: "--why TEXT", HOW: "--how TEXT"}


@dataclass(slots=True)
class DateResolver:
    """Makes the relative dates of project memories absolute and keeps what it replaced."""

    kind: Kind | None
    now: datetime
    done: list[ReplacedDate] = field(default_factory=list)

    def apply(self, text: str) -> str:
        if self.kind is not Kind.PROJECT:
            return text
        dated, replaced = make_absolute(text, self.now)
        self.done += replaced
        return dated

    def apply_maybe(self, text: str | None) -> str | None:
        return None if text is None else self.apply(text)

    @property
    def rows(self) -> list[dict[str, str]]:
        return [{"was": at.was, "now": at.now_text} for at in self.done]


def read_body(text: str) -> str:
    """The text itself, or for `-` all of standard input."""
    if text != "-":
        return text
    if sys.stdin is None:
        raise FormatError("standard input is closed", field="body", hint="give the text with --body")
    if is_terminal(sys.stdin):
        complain("type the text, then Ctrl-D on a line of its own")
    # One byte more than a memory may hold: enough to be refused, whatever is piped in.
    data = sys.stdin.buffer.read(FILE_BYTES + 1)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        if len(data) > FILE_BYTES:
            raise FormatError(f"a memory may hold {FILE_BYTES:,} bytes", field="body", hint="keep the gist") from None
        raise FormatError("the text on standard input is not UTF-8", field="body", hint="convert it first") from None


def find_warnings(draft: Draft, name: str, root: Path, environment: Environment) -> list[str]:
    """What is missing in a memory, what in it is a secret, and what could be looked up in the project instead."""
    warnings = [
        *warn_of_secrets(draft.title, "the title", environment),
        *warn_of_secrets(draft.description, "the description", environment),
        *warn_of_secrets(draft.body, "the body", environment),
    ]
    missing = find_missing_parts(draft.kind, draft.body)
    if missing:
        adding = " ".join((f"memdir edit {name}", *(_OPTIONS[part] for part in missing)))
        warnings.append(f"a {draft.kind} memory should also say {' and '.join(missing)}; `{adding}` adds it")
    for reason in find_derivable(f"{draft.description}\n\n{draft.body}", root, timeout=2.0):
        warnings.append(f"{reason.what} ({reason.source}); remember what was surprising about it instead")
    return warnings


def warn_of_secrets(text: str, place: str, environment: Environment) -> list[str]:
    """Which secrets a text holds, by rule and place; never the value."""
    try:
        found = find_for(environment, text)
    except SettingsError as error:  # the text is kept by now; what is wrong is worth a warning, not a failure
        return [f"secrets were not looked for: {error}"]
    said = render_findings(found, place=place)
    return [f"this looks like a secret: {at}; say where it is kept instead" for at in said]


def mask_secrets(text: str, environment: Environment) -> str:
    """A text as it may be shown without having been asked for: the values are not repeated."""
    try:
        return mask(text, find_for(environment, text))
    except SettingsError:  # what cannot be searched is not shown
        return mask(text, find_secrets(text))


def place_draft(store: FileStore, draft: Draft, scope: str | None) -> Draft:
    """The draft with a name in the folder of its scope; two titles that make one name never meet there."""
    if scope != Scope.TEAM.value:
        return draft
    named = replace(draft, name=f"{TEAM_FOLDER}/{draft.name or make_slug(draft.title)}")
    if draft.name is not None:
        return draft if is_team(draft.name) else named
    existing = find_existing(store, named)
    if existing is None or fold(existing.header.title) == fold(draft.title):
        return named
    return replace(named, name=find_free_name(store, named))


def warn_of_team(store: FileStore, scope: Scope) -> list[str]:
    """That what was saved is kept and shared, but told nowhere here."""
    if scope not in (Scope.TEAM, Scope.PROJECT) or store.team:
        return []
    return ["what a team shares is not told in conversations here; `memdir config set team true` changes that"]


def measure_store_index(store: FileStore, name: str) -> IndexFill:
    """How full the index is that points to this memory."""
    folder = index_path(name)[0].removesuffix(INDEX_FILE).rstrip("/")
    return measure_index(store.index(folder), store.scan())


def warn_of_fill(fill: IndexFill) -> list[str]:
    if not fill.is_high:
        return []
    advice = f": {'; '.join(fill.proposals)}" if fill.proposals else ""
    return [f"the index is {fill.share:.0%} full ({fill.lines} lines, {fill.bytes:,} bytes){advice}"]
