"""The command line. `run` is its door; each verb is a small room, imported when it is called.

    app.py      the program and its options        words.py    errors in words, exit codes
    call.py     what a call was given              output.py   all printing, everything cleaned   columns.py  tables
    verb.py     what verbs share                   names.py    what was typed -> a memory         rows.py     JSON rows
    reference.py  docs/cli.md from the commands

It translates between a terminal and the rooms behind it, and holds no rule of memory.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import click

from memdir.doors.cli.app import app
from memdir.doors.cli.call import Call
from memdir.doors.cli.output import PipeClosedError, complain, flush
from memdir.doors.cli.words import DONE, INTERRUPTED, MISUSED, REFUSED, render_error, render_misuse, render_os_error
from memdir.errors import MemdirError


def run(argv: list[str], *, environ: Mapping[str, str] | None = None, cwd: Path | None = None) -> int:
    """One call of the command line; answers its exit code and never raises for what a person can do wrong."""
    call = Call(environ, cwd)
    try:
        code = _run(argv, call)
        flush(sys.stdout)
        return code
    except MemdirError as error:
        complain(render_error(error))
    except click.UsageError as error:
        complain(render_misuse(error))
        return MISUSED
    except click.ClickException as error:
        complain(render_misuse(error))
    except (click.Abort, KeyboardInterrupt) as error:
        return REFUSED if isinstance(error.__cause__, EOFError) else INTERRUPTED
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
    try:
        answer = app.main(list(argv), prog_name="memdir", standalone_mode=False, obj=call)
    except SystemExit as end:  # click's way out of shell completion
        answer = end.code
    return answer if isinstance(answer, int) else DONE


def _silence() -> None:
    """Let the interpreter's last flush go nowhere: its reader has gone, or its disk is full."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    except (OSError, ValueError, AttributeError):
        pass  # no descriptor behind it, so nothing is left to flush
