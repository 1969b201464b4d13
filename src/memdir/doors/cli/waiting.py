"""One item of the inbox on the screen: what it would change, in full, and what it rests on, marked as what it is.

Every line of a text that somebody else wrote stands behind a margin, so that it cannot pass for a line of ours.
"""

from datetime import datetime

from memdir.doors.cli.diffs import render_diff
from memdir.doors.cli.output import Output, Styled
from memdir.doors.cli.rows import show_time
from memdir.errors import MemdirError
from memdir.records import Edit, Forget, InboxItem, InboxState, IndexEdit, ReplaceLine, Save
from memdir.store.files import FileStore
from memdir.store.payloads import find_edits, find_evidence, mask_text

_BAR, _QUOTE = "  | ", "  > "
# What `show` has a place of its own for.
_SHOWN = frozenset(("edits", "evidence", "secrets"))


def show_item(out: Output, shown: str, item: InboxItem, store: FileStore, now: datetime) -> None:
    out.line(Styled(f"item {shown}", "bold"), f": {item.kind.value}, ", Styled(item.state.value, "yellow"))
    _show_facts(out, item, now)
    try:
        edits = find_edits(item.payload)
    except MemdirError as error:
        edits = ()
        out.line(Styled(f"what it would change cannot be understood ({error})", "red"))
    for edit in edits:
        out.line()
        _show_edit(out, edit, item, store)
    _show_evidence(out, item)
    if item.state is InboxState.WAITING:
        out.line()
        out.line(f"`memdir inbox approve {shown}` lets it happen, `memdir inbox reject {shown}` does not")


def _show_facts(out: Output, item: InboxItem, now: datetime) -> None:
    source = f" ({item.origin.why})" if item.origin.why else ""
    session = f", session {item.origin.session}" if item.origin.session else ""
    facts = [
        ("what", item.title),
        ("why", item.why),
        ("memory", item.name),
        ("from", f"{item.origin.who}{session}{source}"),
        ("since", show_time(out, item.at, now)),
        ("decided", show_time(out, item.decided, now) if item.decided else ""),
        ("note", item.note),
    ]
    facts += [(key, _render_value(value)) for key, value in item.payload.items() if key not in _SHOWN]
    for label, text in facts:
        if "\n" in text:
            out.line(f"  {label}")
            _show_lines(out, text, item, _BAR)
        elif text:
            out.line(Styled(f"  {label:<9}", "dim"), mask_text(text, item.payload))


def _render_value(value: object) -> str:
    return value if isinstance(value, str) else str(value)


def _show_edit(out: Output, edit: Edit, item: InboxItem, store: FileStore) -> None:
    if isinstance(edit, Save):
        draft = edit.draft
        verb = "would save" if edit.expect is None else "would replace"
        out.line(Styled(f"{verb} ", "bold"), Styled(mask_text(draft.name or draft.title, item.payload), "cyan"))
        head = f"title: {draft.title}\ndescription: {draft.description}\ntype: {draft.kind.value}\n\n"
        _show_lines(out, head + draft.body, item, _BAR)
        return
    if isinstance(edit, IndexEdit):
        out.line(Styled("would change the index line of ", "bold"), Styled(edit.name, "cyan"))
        if isinstance(edit, ReplaceLine):
            _show_lines(out, edit.line, item, _BAR)
        return
    before = _find_text(store, edit.name)
    if isinstance(edit, Forget):
        out.line(Styled("would forget ", "bold"), Styled(edit.name, "cyan"))
        _show_lines(out, before, item, _BAR)
        return
    out.line(Styled("would rewrite ", "bold"), Styled(edit.name, "cyan"))
    _show_lines(out, edit.text, item, _BAR)
    out.line(Styled("compared with what it says now", "bold"))
    diff = render_diff(mask_text(before, item.payload), mask_text(edit.text, item.payload), edit.name, edit.name)
    out.diff(diff[2:] or ["(no difference)"])


def _show_evidence(out: Output, item: InboxItem) -> None:
    for quote in find_evidence(item.payload):
        where = ", ".join(part for part in (quote.source, quote.message and f"message {quote.message}") if part)
        out.line()
        out.line(
            Styled("it rests on this, which came from elsewhere", "bold"),
            f" ({mask_text(where, item.payload)})" if where else "",
            Styled(": untrusted, neither a fact nor an instruction", "yellow"),
        )
        _show_lines(out, quote.quote, item, _QUOTE)


def _show_lines(out: Output, text: str, item: InboxItem, margin: str) -> None:
    for line in mask_text(text, item.payload).rstrip("\n").replace("\r\n", "\n").split("\n"):
        out.line(Styled(margin, "dim"), line)


def _find_text(store: FileStore, name: str) -> str:
    try:
        return store.read(name).text
    except MemdirError:
        return ""
