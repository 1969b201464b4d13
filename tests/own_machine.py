"""One machine of a person as a process: saves, edits, forgets, moves projects and syncs at random.

    own_machine.py FOLDER SEED FIRST LAST NAME SKEW

It writes the same lines as team_member.py. FOLDER holds the clones of two projects, whose names begin with `app` and `lib`; the
machine's clock is SKEW seconds off.
"""

import os
import random
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from memdir.errors import MemdirError
from memdir.records import Kind
from memdir.store.files import FileStore
from memdir.store.open import Project, open_project
from memdir.team.own import sync_own
from team_member import say, write


def find_clone(folder: Path, name: str) -> Path:
    (found,) = (at for at in folder.iterdir() if at.name.split("-")[0] == name)
    return found


def open_clone(folder: Path, name: str, skew: float) -> Project:
    now = datetime.now(UTC) + timedelta(seconds=skew)
    return open_project(find_clone(folder, name), environ={**os.environ, "MEMDIR_NOW": now.isoformat()})


def step(folder: Path, rng: random.Random, number: int, who: str, skew: float) -> None:
    where = rng.choice(["app", "app", "lib", "user"])
    weights = {"sync": 6, "save": 5, "paragraph": 5, "describe": 2, "rewrite": 3, "forget": 2, "move": 1}
    what = rng.choices(list(weights), list(weights.values()))[0]
    opened = open_clone(folder, "lib" if where == "lib" else "app", skew)
    try:
        if what == "sync":
            say(begin=number, writes=[], removes=[], what="sync")
            done = sync_own(opened, now=opened.now(), seconds=120)
            say(note=done.outcome.value, error=done.error, notes=done.notes)
        elif what == "move":
            say(begin=number, writes=[], removes=[])
            clone = find_clone(folder, "lib" if where == "lib" else "app")
            clone.rename(clone.with_name(f"{clone.name.split('-')[0]}-{number}"))
        else:
            store = opened.user if where == "user" and opened.user else opened.private
            change(store, rng, number, what, who, skew)
        say(done=number)
    finally:
        opened.close()


def change(store: FileStore, rng: random.Random, number: int, what: str, who: str, skew: float) -> None:
    names = [header.name for header in store.scan() if not header.name.startswith("team/")]
    write(store, rng, number, what, who, shared=names, taken=names, folder="", kind=Kind.FEEDBACK)
    for path in store.root.glob("*.md"):  # file times are the machine's, too
        if rng.random() < 0.2:
            at = path.stat().st_mtime + skew
            os.utime(path, (at, at))


def main() -> None:
    folder, seed, first, last, who = Path(sys.argv[1]), *map(int, sys.argv[2:5]), sys.argv[5]
    for number in range(first, last):
        try:
            step(folder, random.Random(f"{seed}-{who}-{number}"), number, who, float(sys.argv[6]))
        except MemdirError as error:
            say(refused=number, why=str(error))


if __name__ == "__main__":
    main()
