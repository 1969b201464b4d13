"""The command line. `run` is its door; each verb is a small room, imported when it is called.

    app.py      the program and its options        words.py    errors in words, exit codes
    call.py     what a call was given              output.py   all printing, everything cleaned   columns.py  tables
    quick.py    `recall` without click
    verb.py     what verbs share                   names.py    what was typed -> a memory         rows.py     JSON rows
    reference.py  docs/cli.md from the commands

It translates between a terminal and the rooms behind it, and holds no rule of memory.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from memdir.doors.cli.call import Call, Door
from memdir.doors.cli.output import PipeClosedError, complain, flush
from memdir.doors.cli.quick import parse_recall
from memdir.doors.cli.words import DONE, INTERRUPTED, REFUSED, render_error, render_os_error
from memdir.errors import MemdirError


def run(
    argv: list[str],
    *,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    doors: Mapping[str, Door] = MappingProxyType({}),
) -> int:
    """One call of the command line; answers its exit code and never raises for what a person can do wrong.

    `doors` are others that a verb leads to: doors do not know each other, so whoever knows them all hands them in.
    """
    call = Call(environ, cwd, doors)
    try:
        code = _run(argv, call)
        flush(sys.stdout)
        return code
    except MemdirError as error:
        complain(render_error(error))
    except KeyboardInterrupt:
        return INTERRUPTED
    except PipeClosedError:
        _silence()
        return DONE
    except OSError as error:
        complain(render_os_error(error))
        _silence()
    finally:
        call.close()
    return REFUSED


def _run(argv: list[str], call: Call) -> int:
    if (quick := parse_recall(argv)) is not None:
        from memdir.doors.cli.answering import answer

        directory, wish = quick
        call.prepare(directory, "auto")
        answer(call, wish)
        return DONE
    # Imported here, as the verbs are: whoever recalls does without click, and the others without search.
    from memdir.doors.cli.app import run_app

    return run_app(argv, call)


def _silence() -> None:
    """Let the interpreter's last flush go nowhere: its reader has gone, or its disk is full."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    except (OSError, ValueError, AttributeError):
        pass  # no descriptor behind it, so nothing is left to flush
