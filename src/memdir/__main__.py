"""Picks one door and imports only that one."""

import gc
import sys


def main() -> int:
    # A call lives for a fraction of a second: looking for garbage costs it a tenth of that and finds none.
    gc.disable()
    # Imported here: the hook door, which runs at every prompt, must not pay for the command line's libraries.
    from memdir.doors.cli import run

    code = run(sys.argv[1:])
    gc.freeze()
    return code


if __name__ == "__main__":
    sys.exit(main())
