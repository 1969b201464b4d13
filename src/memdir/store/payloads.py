"""What an inbox item carries, as JSON: the edits it would make, and the evidence for them.

    {"edits": [...], "evidence": [{"quote": "...", "source": "...", "message": "..."}], "secrets": ["..."]}

`evidence` is text from elsewhere, to be shown and never believed: `source` says what it is (a message, a tool, a file,
a web page), `message` which one of its session. `secrets` are passages that no door may print. An item of another kind
may carry whatever it needs besides. Pure; reading forgives what it does not know, but an edit that cannot be understood
is refused, because it would be carried out.
"""

from collections.abc import Iterable, Mapping, Sequence

from memdir.errors import FormatError
from memdir.frozen import dataclass
from memdir.records import AddPointer, Draft, DropPointer, Edit, Forget, Kind, Put, ReplaceLine, Rewrite, Save

MASK = "[masked]"


@dataclass(frozen=True, slots=True)
class Quote:
    """A passage on which an item rests, and where it stood."""

    quote: str
    source: str = ""
    message: str = ""


def render_edits(edits: Iterable[Edit]) -> list[dict[str, object]]:
    return [_render_edit(edit) for edit in edits]


def parse_edits(value: object) -> tuple[Edit, ...]:
    """The edits of a payload; FormatError if one of them is none."""
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        raise _refusal("edits")
    return tuple(_parse_edit(at) for at in value)


def find_edits(payload: Mapping[str, object]) -> tuple[Edit, ...]:
    return parse_edits(payload.get("edits") or ())


def render_evidence(quotes: Iterable[Quote]) -> list[dict[str, object]]:
    return [{"quote": at.quote, "source": at.source, "message": at.message} for at in quotes]


def find_evidence(payload: Mapping[str, object]) -> tuple[Quote, ...]:
    """The evidence of a payload; what is no quote is left out."""
    found = payload.get("evidence")
    rows = found if isinstance(found, list) else [found]
    quotes = [Quote(at) if isinstance(at, str) else _parse_quote(at) for at in rows if isinstance(at, str | Mapping)]
    return tuple(at for at in quotes if at.quote)


def mask(value: object, payload: Mapping[str, object]) -> object:
    """The value, a text or any JSON, without the secrets the payload names."""
    listed = payload.get("secrets")
    secrets = [at for at in listed if isinstance(at, str) and at] if isinstance(listed, list) else []
    return _mask(value, sorted(secrets, key=len, reverse=True))


def mask_text(text: str, payload: Mapping[str, object]) -> str:
    return str(mask(text, payload))


def _mask(value: object, secrets: Sequence[str]) -> object:
    if isinstance(value, str):
        for secret in secrets:
            value = value.replace(secret, MASK)
        return value
    if isinstance(value, Mapping):
        return {key: _mask(at, secrets) for key, at in value.items()}
    return [_mask(at, secrets) for at in value] if isinstance(value, list) else value


def _render_edit(edit: Edit) -> dict[str, object]:
    if isinstance(edit, Forget):
        return {"edit": "forget", "name": edit.name, "expect": edit.expect}
    if isinstance(edit, Rewrite):
        return {"edit": "rewrite", "name": edit.name, "text": edit.text, "expect": edit.expect}
    if isinstance(edit, Put):
        return {"edit": "put", "name": edit.name, "text": edit.text, "hook": edit.hook}
    if isinstance(edit, AddPointer | DropPointer):
        return {"edit": "add_pointer" if isinstance(edit, AddPointer) else "drop_pointer", "name": edit.name}
    if isinstance(edit, ReplaceLine):
        return {"edit": "replace_line", "name": edit.name, "was": edit.was, "line": edit.line}
    draft = edit.draft
    return {
        "edit": "save",
        "type": draft.kind.value,
        "title": draft.title,
        "description": draft.description,
        "body": draft.body,
        "name": draft.name,
        "pinned": draft.pinned,
        "expect": edit.expect,
    }


def _parse_edit(value: object) -> Edit:
    if not isinstance(value, Mapping):
        raise _refusal("edit")
    what = value.get("edit")
    if what == "forget":
        return Forget(_text(value, "name"), _maybe(value, "expect"))
    if what == "rewrite":
        return Rewrite(_text(value, "name"), _text(value, "text"), _text(value, "expect"))
    if what == "put":
        return Put(_text(value, "name"), _text(value, "text"), _maybe(value, "hook") or "")
    if what in ("add_pointer", "drop_pointer"):
        return AddPointer(_text(value, "name")) if what == "add_pointer" else DropPointer(_text(value, "name"))
    if what == "replace_line":
        return ReplaceLine(_text(value, "name"), _text(value, "was"), _text(value, "line"))
    if what != "save" or value.get("type") not in [kind.value for kind in Kind]:
        raise _refusal("edit")
    pinned = value.get("pinned")
    draft = Draft(
        Kind(_text(value, "type")),
        _text(value, "title"),
        _text(value, "description"),
        _text(value, "body"),
        _maybe(value, "name"),
        pinned if isinstance(pinned, bool) else None,
    )
    return Save(draft, _maybe(value, "expect"))


def _parse_quote(value: Mapping[str, object]) -> Quote:
    return Quote(*(at if isinstance(at := value.get(key), str) else "" for key in ("quote", "source", "message")))


def _text(value: Mapping[str, object], field: str) -> str:
    found = value.get(field)
    if not isinstance(found, str):
        raise _refusal(field)
    return found


def _maybe(value: Mapping[str, object], field: str) -> str | None:
    return None if value.get(field) is None else _text(value, field)


def _refusal(field: str) -> FormatError:
    return FormatError(
        "this item cannot be understood", field=field, hint="reject it; what made it can propose it anew"
    )
