"""`memdir demo`: three days of a project in a temporary folder, played through the real chat in a few seconds.

Nothing of the person's is read or written: home, project and memory lie in the folder, which goes when it is over. No
model is asked.
"""

import os
import sys
import tempfile
from pathlib import Path

from memdir.doors.chat.allowing import Permissions
from memdir.doors.chat.loop import handle
from memdir.doors.chat.reading import is_terminal
from memdir.doors.chat.screen import Screen
from memdir.doors.chat.talk import RunVerb, Talk
from memdir.doors.chat.wishes import Wish
from memdir.settings import read_environment

# A line with # is told to the onlooker, one with + is done by another agent; any other is typed into the chat.
SCRIPT = """
# Day one. Somebody talks to an assistant that has a memory. No model, no server: rules and plain files.
/now 2026-03-02
I'm a data scientist, new to Rust.
Don't summarise at the end of your answers, I can read the diff.
We freeze all merges from Thursday, the mobile team cuts its release then.
Pipeline bugs are tracked in Linear.
# Each became a Markdown file with a line in MEMORY.md, and "Thursday" became a date.
# Day two, a new conversation: plans change.
/now 2026-03-03
/clear
No, we freeze all merges from Friday, the mobile team cuts its release a day later.
Pipeline bugs are tracked in Jira.
Remember that the staging database is reset every Sunday night.
forget what I said about the staging database
# The same memory was changed, one was forgotten; nothing is lost, /undo would bring it back.
# Day three, a week later, another conversation: questions in other words.
/now 2026-03-09
/clear
how should a reply end?
until when can I merge?
where do I file a defect of the pipeline?
when is staging emptied?
# The date is the corrected one, what is old says so, two that disagree say so, and what was forgotten is gone.
# Why did the right one come up? Score, its parts (words, meaning, age), the words that met, and who is told.
/recall --explain until when can I merge?
# Meanwhile another agent has written into the same folder: it said again what was known, and forgot the index.
+
# A dream tidies up between sessions. It is one step, says why, loses nothing, and one undo takes it back.
/dream
# The two trackers contradict each other: that is only proposed, and waits for a person's word.
/inbox
/undo
# All of it was played in a temporary folder that is gone now. `memdir chat` begins your own.
"""
_TWICE = """---
name: The user's background
description: The user is a data scientist, new to Rust
type: user
---

The user is a data scientist, new to Rust.
"""


def play(*, color: str, run_verb: RunVerb) -> int:
    """The whole of it; answers the exit code."""
    plain = not is_terminal(sys.stdout) or read_environment().no_color
    dressed = color == "always" or (color == "auto" and not plain)
    screen = Screen(color=dressed)
    with tempfile.TemporaryDirectory(prefix="memdir-demo-") as folder:
        home = Path(folder).resolve()
        project = home / "ingest"
        (project / ".git").mkdir(parents=True)
        variables = {"HOME": str(home), "PATH": os.defpath}
        wish = Wish(color="always" if dressed else "never")
        talk = Talk(
            wish, screen, Permissions(), id="demo", cwd=project, variables=variables, run_verb=run_verb
        )  # fmt: skip
        try:
            for line in SCRIPT.strip().split("\n"):
                _step(talk, line)
        finally:
            talk.close()
    return 0


def _step(talk: Talk, line: str) -> None:
    if line.startswith("#"):
        talk.screen.tell("told", line.removeprefix("#").strip())
    elif line == "+":
        path = talk.opened.private.root / "background-of-the-user.md"
        path.write_text(_TWICE, encoding="utf-8")
    else:
        talk.screen.tell("heard", line)
        handle(talk, line)
