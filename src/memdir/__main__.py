"""Picks one door and imports only that one."""

import sys


def main() -> int:
    # Imported here: the hook door, which runs at every prompt, must not pay for the command line's libraries.
    from memdir.doors.cli import run

    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
