"""Relative dates in project memories made absolute, from the day on which the memory was written.

Which day that is the memory's own head says, else the time of its file. `memdir.dates` does the rewriting.
"""

from datetime import datetime

from memdir import frontmatter
from memdir.dates import make_absolute
from memdir.errors import FormatError
from memdir.records import Kind, Memory, Rewrite
from memdir.store.contract import read_time
from memdir.tidy.records import Patch, PatchKind


def plan_dates(memory: Memory, now: datetime) -> Patch | None:
    if memory.header.kind is not Kind.PROJECT or memory.header.problem:
        return None
    when = _find_time(memory, now)
    body, done = make_absolute(memory.body, when)
    description, more = make_absolute(memory.header.description, when)
    if not done and not more:
        return None
    try:
        text = frontmatter.replace_body(memory.text, body)
        text = frontmatter.set_fields(text, {"description": description}) if more else text
    except FormatError:
        return None
    told = dict.fromkeys(f"{one.was} → {one.now_text}" for one in (*done, *more))
    reason = f"dates of {memory.header.name} said as of {when.date().isoformat()}, when it was written"
    edit = Rewrite(memory.header.name, text, memory.digest)
    return Patch(PatchKind.DATE, (memory.header.name,), (edit,), reason, "; ".join(told))


def _find_time(memory: Memory, now: datetime) -> datetime:
    """When it was written, in the zone its head names; a file's time is seen in the zone of `now`."""
    said = read_time(frontmatter.parse_fields(memory.text).modified)
    return said if said is not None else memory.header.modified.astimezone(now.tzinfo)
