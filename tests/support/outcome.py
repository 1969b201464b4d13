"""What became of an action that ran in a forked child, as bytes that travel back to the parent.

It does not fork and does not wait: pressure.py and syscalls.py do.
"""

import os
import pickle
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Outcome:
    """`value` if the action returned; else the class (`kind`), words and errno of its exception, and the traceback."""

    value: object = None
    kind: str = ""
    message: str = ""
    errno: int = 0
    detail: str = ""

    @property
    def error(self) -> str:
        """One line such as "OSError: [Errno 28] No space left on device"; empty if all went well."""
        return f"{self.kind}: {self.message}" if self.kind else ""


def fork() -> int:
    """os.fork without Python's warning about threads: the child runs one action and leaves through os._exit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def attempt(action: Callable[[], object]) -> tuple[object, BaseException | None]:
    """Run it and catch whatever comes: in a child nothing may travel up into the test runner's copied stack."""
    try:
        return action(), None
    except BaseException as error:
        return None, error


def render_outcome(value: object, error: BaseException | None) -> bytes:
    """Exceptions become text (not every one survives pickling); so does a value that cannot be pickled."""
    if error is not None:
        number = error.errno if isinstance(error, OSError) and error.errno else 0
        detail = "".join(traceback.format_exception(error))
        return pickle.dumps(Outcome(None, type(error).__name__, str(error), number, detail))
    try:
        return pickle.dumps(Outcome(value))
    except (pickle.PicklingError, TypeError, AttributeError):
        return pickle.dumps(Outcome(repr(value)))


def parse_outcome(raw: bytes, status: int) -> Outcome:
    """The outcome sent; without one, words for how the process ended (`status`: its exit code, negative a signal)."""
    if raw:
        sent = pickle.loads(raw)
        assert isinstance(sent, Outcome)
        return sent
    how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
    return Outcome(kind="Ended", message=f"the child {how} before it could report")
