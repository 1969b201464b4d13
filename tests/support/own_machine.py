"""One machine of a person as a process: saves, edits, forgets, moves projects and syncs at random.

    own_machine.py FOLDER SEED FIRST LAST NAME SKEW [team]

It writes the same lines as team_member.py. FOLDER holds the clones of two projects, whose names begin with `app` and `lib`; the
machine's clock is SKEW seconds off. With `team` it is a member of a team in `app`, who syncs the team's folder only.
"""

import os
import random
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from memdir.errors import MemdirError
from memdir.records import Kind
from memdir.store.files import FileStore
from memdir.store.open import Project, find_identity, find_moved_directories, open_project, relink
from memdir.sync.own import sync_own
from memdir.sync.sync import open_sync, sync
from team_member import say, write


def find_clone(folder: Path, name: str) -> Path:
    (found,) = (at for at in folder.iterdir() if at.name.split("-")[0] == name)
    return found


def open_clone(folder: Path, name: str, skew: float, environ: Mapping[str, str] = os.environ) -> Project:
    now = datetime.now(UTC) + timedelta(seconds=skew)
    return open_project(find_clone(folder, name), environ={**environ, "MEMDIR_NOW": now.isoformat()})


def step(folder: Path, rng: random.Random, number: int, who: str, skew: float, is_team: bool) -> None:
    where = "team" if is_team else rng.choice(["app", "app", "lib", "user"])
    weights = {"sync": 6, "save": 5, "paragraph": 5, "describe": 2, "rewrite": 3, "forget": 2, "move": 1}
    what = rng.choices(list(weights), list(weights.values()))[0]
    opened = open_clone(folder, "lib" if where == "lib" else "app", skew)
    try:
        if what == "sync":
            say(begin=number, writes=[], removes=[], what="sync")
            now = opened.now()
            done = sync(open_sync(opened, seconds=120), now=now) if is_team else sync_own(opened, now=now, seconds=120)
            say(note=done.outcome.value, error=done.error, notes=done.notes)
        elif what == "move":
            say(begin=number, writes=[], removes=[])
            clone = find_clone(folder, "lib" if where == "lib" else "app")
            clone.rename(clone.with_name(f"{clone.name.split('-')[0]}-{number}"))
            if is_team:
                take_along(folder, skew)
        else:
            store = opened.user if where == "user" and opened.user else opened.private
            change(store, rng, number, what, who, skew, "team/" if is_team else "")
        say(done=number)
    finally:
        opened.close()


def take_along(folder: Path, skew: float, environ: Mapping[str, str] = os.environ) -> None:
    """The memory of a moved project, as `memdir relink` moves it; nothing if it was taken along already."""
    opened = open_clone(folder, "app", skew, environ)
    opened.close()
    found = find_moved_directories(opened.environment, find_identity(opened.places.root.path))
    if found and not opened.private.root.is_dir():
        relink(found[0].path, opened.private.root, environment=opened.environment)


def change(store: FileStore, rng: random.Random, number: int, what: str, who: str, skew: float, folder: str) -> None:
    names = [header.name for header in store.scan() if header.name.startswith("team/") == bool(folder)]
    write(store, rng, number, what, who, shared=names, taken=names, folder=folder, kind=Kind.FEEDBACK)
    for path in (store.root / folder).glob("*.md"):  # file times are the machine's, too
        if rng.random() < 0.2:
            at = path.stat().st_mtime + skew
            os.utime(path, (at, at))


def main() -> None:
    folder, seed, first, last, who = Path(sys.argv[1]), *map(int, sys.argv[2:5]), sys.argv[5]
    skew, is_team = float(sys.argv[6]), len(sys.argv) > 7
    if is_team:
        take_along(folder, skew)  # killed between moving a project and its memory
    for number in range(first, last):
        try:
            step(folder, random.Random(f"{seed}-{who}-{number}"), number, who, skew, is_team)
        except MemdirError as error:
            say(refused=number, why=str(error))


if __name__ == "__main__":
    main()
