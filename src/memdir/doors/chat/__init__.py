"""`memdir chat`: the reference host, where all of memory is wired, and the command a newcomer runs first.

    wishes.py       how it was called, and its clock      screen.py       all that is shown, as text or JSON events
    reading.py      lines: a terminal, a pipe, a file     loop.py         a line comes, and what follows
    talk.py         the state of one chat                 transcript.py   the conversation on disk, to be resumed
    commands.py     the table of /commands                shown.py        what some of them show
    turning.py      a turn with a model                   remembering.py  a turn without one
    tools.py        file tools for the model              allowing.py     may it use them
    dreaming.py     a dream beside it, when due           demo.py         three days in a few seconds

It translates between a person, a model and `conversing.Session`, and holds no rule of memory. Verbs of the command line
are run for it by whoever opened both doors.
"""

import gc
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from memdir.doors.chat.talk import RunVerb
from memdir.doors.chat.wishes import Wish


def chat(*, cwd: Path, variables: Mapping[str, str] | None, run_verb: RunVerb, spec: str | None, **options: Any) -> int:
    """One chat, from the first prompt to the last; `options` are those of a Wish. Answers the exit code."""
    # Imported here: who only asks for a demo, or for help, does without.
    from memdir.doors.chat.loop import Chat

    gc.enable()  # it may be a long one
    wish = Wish(model=spec, **options)
    try:
        return Chat(wish, cwd=cwd, variables=variables, run_verb=run_verb).run()
    except BrokenPipeError:
        # Whoever read along has gone: there is nobody to tell, and the interpreter's last flush goes nowhere.
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        return 0


def demo(*, color: str, run_verb: RunVerb) -> int:
    """Three days of a project in a temporary folder."""
    from memdir.doors.chat.demo import play

    gc.enable()
    return play(color=color, run_verb=run_verb)
