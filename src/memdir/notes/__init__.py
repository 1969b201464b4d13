"""Session notes: a running summary of one conversation, for the moment at which its host shortens it.

    template.py   sections, what in them is fixed, and the proof that an update left it alone
    cutting.py    limits, and what a reader gets within them
    due.py        when an update is worth it
    place.py      the file, its lock, who waits for whom
    calls.py      what an agent's tool calls did           lines.py     lists with keys and a bound
    by_rules.py   an update without a model                by_model.py  with one, in two forms
    keeping.py    all of it in order: `update_notes`

Notes are not memories: nothing here reads or writes the memory directory, and `forget --purge` does not reach them.
"""

from memdir.notes.cutting import hook_digest, list_oversize, measure_notes, render_for_compaction
from memdir.notes.due import Counts, count, is_due
from memdir.notes.keeping import (
    Manner,
    News,
    Noted,
    NotesSkip,
    does_compact,
    find_home,
    read_manner,
    read_news,
    update_notes,
)
from memdir.notes.place import Kept, Place, find_notes, find_place, list_notes, read_notes_file, wait_for_update
from memdir.notes.template import Notes, check_update, is_empty, make_template, open_notes, parse_notes, render_notes

__all__ = [
    "Counts",
    "Kept",
    "Manner",
    "News",
    "Noted",
    "Notes",
    "NotesSkip",
    "Place",
    "check_update",
    "count",
    "does_compact",
    "find_home",
    "find_notes",
    "find_place",
    "hook_digest",
    "is_due",
    "is_empty",
    "list_notes",
    "list_oversize",
    "make_template",
    "measure_notes",
    "open_notes",
    "parse_notes",
    "read_manner",
    "read_news",
    "read_notes_file",
    "render_for_compaction",
    "render_notes",
    "update_notes",
    "wait_for_update",
]
