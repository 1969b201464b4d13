"""Text on its way in: read from standard input, dates made absolute; and what to warn of once it is saved."""

import sys
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from memdir.clip import Fill, measure
from memdir.dates import Replaced, make_absolute
from memdir.derivable import find_derivable
from memdir.doors.cli.output import complain, is_terminal
from memdir.drafts import HOW, WHY, find_missing_parts, make_slug
from memdir.errors import FormatError, SettingsError
from memdir.frozen import replace
from memdir.index import INDEX_FILE
from memdir.limits import FILE_BYTES
from memdir.records import Draft, Kind, Scope
from memdir.secrets import find_secrets, mask, render_findings
from memdir.secrets.own import find_for
from memdir.settings import Environment
from memdir.store.files import FileStore
from memdir.store.plan import TEAM_FOLDER, index_path
from memdir.store.preview import find_existing, find_free_name
from memdir.store.shared import is_team
from memdir.text import fold

_OPTIONS = {WHY: "--why TEXT", HOW: "--how TEXT"}


@dataclass(slots=True)
class Dating:
    """Makes the relative dates of project memories absolute and keeps what it replaced."""

    kind: Kind | None
    now: datetime
    done: list[Replaced] = field(default_factory=list)

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


def measure_index(store: FileStore, name: str) -> Fill:
    """How full the index is that points to this memory."""
    folder = index_path(name)[0].removesuffix(INDEX_FILE).rstrip("/")
    return measure(store.index(folder), store.scan())


def warn_of_fill(fill: Fill) -> list[str]:
    if not fill.is_high:
        return []
    advice = f": {'; '.join(fill.proposals)}" if fill.proposals else ""
    return [f"the index is {fill.share:.0%} full ({fill.lines} lines, {fill.bytes:,} bytes){advice}"]
