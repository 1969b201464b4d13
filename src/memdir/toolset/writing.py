"""The tools that change memory: save, update, forget, log. Each is one act of history, said to be an agent's.

The checks are those of every other way in: names by the guard, drafts by the store, dates made absolute, secrets
refused in what a team shares and warned of elsewhere. Nothing is pinned here: what stays in every prompt is for a
person to say.
"""

from memdir.daily_log import append_log
from memdir.dates import make_absolute
from memdir.derivable import find_derivable
from memdir.drafts import find_missing_parts
from memdir.errors import ConflictError, FormatError, SettingsError
from memdir.frozen import replace
from memdir.opening import Opened
from memdir.records import Draft, Kind, Memory, Origin, Scope
from memdir.secrets import render_findings
from memdir.secrets.own import find_for
from memdir.settings import Environment
from memdir.store.files import FileStore
from memdir.store.preview import find_existing, preview_text
from memdir.toolset.looking import Arguments, Row, Where, check_told, find_one

_PARTS = ("description", "body")


class _Dating:
    """Makes the relative dates of a project memory absolute, and keeps what it replaced."""

    def __init__(self, where: Where, kind: Kind | None) -> None:
        self.now, self.is_wanted = where.now, kind is Kind.PROJECT
        self.done: list[str] = []

    def apply(self, value: object) -> str:
        if not self.is_wanted:
            return str(value)
        text, replaced = make_absolute(str(value), self.now)
        self.done += [f"{at.was} -> {at.now_text}" for at in replaced]
        return text


def save(where: Where, given: Arguments, origin: Origin) -> Row:
    opened = where.opened
    kind = Kind(str(given["type"]))
    dating = _Dating(where, kind)
    name = str(given["name"]).removesuffix(".md")
    draft = Draft(kind, name, dating.apply(given["description"]), dating.apply(given["body"]), name)
    store = _choose_store(opened, given.get("scope"))
    check_told(store, name)
    memory, action = _write(store, draft, origin)
    return _make_written(opened, memory, action, dating.done)


def update(where: Where, given: Arguments, origin: Origin) -> Row:
    if not any(part in given for part in _PARTS):
        raise FormatError("there is nothing to change", field="body", hint=f"give one of {', '.join(_PARTS)}")
    store, header = find_one(where.opened, str(given["name"]))
    before = store.read(header.name)
    expect = given.get("expect")
    if isinstance(expect, str) and expect != before.digest:
        hint = "read it again and decide anew"
        raise ConflictError(f"{header.name} has changed since", expected=expect, found=before.digest, hint=hint)
    kind = before.header.kind
    if kind is None:
        hint = f"`memdir edit {header.name} --type …` gives it one; or save it anew and forget this"
        raise FormatError(f"{header.name} has no type", field="type", hint=hint)
    dating = _Dating(where, kind)
    draft = Draft(
        kind,
        before.header.title,
        dating.apply(given["description"]) if "description" in given else before.header.description,
        dating.apply(given["body"]) if "body" in given else before.body,
        header.name,
    )
    after = store.write(draft, expect=before.digest, origin=origin)
    action = "unchanged" if after.digest == before.digest else "changed"
    return _make_written(where.opened, after, action, dating.done)


def forget(where: Where, given: Arguments, origin: Origin) -> Row:
    store, header = find_one(where.opened, str(given["name"]))
    store.delete(header.name, origin=origin)
    option = f" --scope {store.scope}" if store.scope in (Scope.USER, Scope.PROJECT) else ""
    act = store.acts(header.name, limit=1)[0].id
    return {"name": header.name, "scope": header.scope.value, "undo": f"memdir undo{option} {act}"}


def log(where: Where, given: Arguments) -> Row:
    log = append_log(where.opened.private, str(given["text"]), now=where.opened.now())
    return {"day": log.day.isoformat(), "path": log.path}


def _choose_store(opened: Opened, scope: object) -> FileStore:
    if scope != Scope.USER.value:
        return opened.private
    if opened.user is None:
        raise SettingsError("there is no user memory here", key="user_memory", hint="leave `scope` out")
    return opened.user


def _write(store: FileStore, draft: Draft, origin: Origin) -> tuple[Memory, str]:
    """The memory, and whether it was made now; the very same one again is nothing to refuse."""
    try:
        return store.write(draft, origin=origin), "created"
    except ConflictError:
        existing = find_existing(store, draft)
        if existing is None:
            raise
    name = existing.header.name
    if preview_text(store, replace(draft, name=name), existing, store.clock()) == existing.text:
        return existing, "unchanged"
    hint = "memory_read shows it, memory_update changes it, or save under another name"
    raise ConflictError(f"{name} exists already and says something else", found=existing.digest, hint=hint)


def _make_written(opened: Opened, memory: Memory, action: str, dates: list[str]) -> Row:
    header = memory.header
    warnings = [] if action == "unchanged" else _find_warnings(opened, memory)
    return {
        "name": header.name,
        "scope": header.scope.value,
        "action": action,
        "digest": memory.digest,
        "dates": dates,
        "warnings": warnings,
    }


def _find_warnings(opened: Opened, memory: Memory) -> list[str]:
    """What the one who wrote it may want to put right at once."""
    header = memory.header
    warnings = _find_secrets(memory.text, opened.environment)
    if header.kind is not None and (missing := find_missing_parts(header.kind, memory.body)):
        warnings.append(f"a {header.kind} memory should also say {' and '.join(missing)}")
    for reason in find_derivable(f"{header.description}\n\n{memory.body}", opened.places.root.path, timeout=2.0):
        warnings.append(f"{reason.what} ({reason.source}); remember what was surprising about it instead")
    return warnings


def _find_secrets(text: str, environment: Environment) -> list[str]:
    """Which secrets a text holds, by rule and place; never the value."""
    try:
        found = render_findings(find_for(environment, text), place="the file")
    except SettingsError as error:  # the text is kept by now; what is wrong is worth a warning, not a failure
        return [f"secrets were not looked for: {error}"]
    return [f"this looks like a secret: {at}; put where it is kept in its place" for at in found]
