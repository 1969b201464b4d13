"""Headers as lines for a selector's eyes: `- [type] file (time): description`, newest first.

Each entry is one physical line whatever its description holds, and the same headers give the same bytes, so that they
can be cached as part of a prompt. Which headers to show is the caller's choice beyond "the newest".
"""

from collections.abc import Iterable
from datetime import UTC, datetime

from memdir import limits
from memdir.records import Header
from memdir.text import one_line


def render_line(header: Header) -> str:
    """One header on one line; a type or description that is missing leaves no trace."""
    kind = f"[{header.kind}] " if header.kind is not None else ""
    description = one_line(header.description)
    line = f"- {kind}{one_line(header.file)} ({_render_time(header.modified)})"
    return f"{line}: {description}" if description else line


def render_manifest(headers: Iterable[Header], limit: int = limits.MANIFEST_ENTRIES) -> str:
    """The newest headers, a line each; of the same age by file, so that the order does not depend on the input's."""
    newest = sorted(headers, key=lambda header: header.file)
    newest.sort(key=lambda header: header.modified, reverse=True)
    return "\n".join(render_line(header) for header in newest[: max(0, limit)])


def _render_time(moment: datetime) -> str:
    try:
        moment = moment.astimezone(UTC)
    except OverflowError:  # within hours of the first or last day of the calendar
        moment = moment.replace(tzinfo=UTC)
    return moment.replace(tzinfo=None).isoformat(timespec="seconds") + "Z"
