"""One member of a team as a process: saves, edits, forgets and syncs at random, and says what it does before and after.

    team_member.py PROJECT SEED FIRST LAST NAME

A line of JSON a step on standard output: {"begin": N, "writes": [...], "removes": [...]} before, {"done": N} after. The
marks are words that stand nowhere else, so whoever reads along knows which of them must still be there in the end.
"""

import json
import os
import random
import re
import sys
from collections.abc import Collection, Sequence
from pathlib import Path

from memdir.errors import MemdirError
from memdir.records import Draft, Kind
from memdir.store.files import FileStore
from memdir.store.open import Project, open_project
from memdir.sync.sync import open_sync, sync

MARK = re.compile(r"mark[a-z]+x\d+y")


def say(**row: object) -> None:
    os.write(1, json.dumps(row).encode("ascii") + b"\n")


def step(opened: Project, rng: random.Random, number: int, who: str) -> None:
    """One random change of this member's."""
    store = opened.private
    names = {header.name: header for header in store.scan() if header.name.startswith("team/")}
    shared = sorted(name for name, header in names.items() if header.kind is not Kind.USER)
    what = rng.choices(["sync", "save", "paragraph", "describe", "rewrite", "forget", "user"], [6, 5, 5, 2, 3, 2, 1])[0]
    if what == "sync":
        say(begin=number, writes=[], removes=[], what="sync")
        done = sync(open_sync(opened, seconds=120), now=opened.now())
        say(note=done.outcome.value, error=done.error, withheld=[at.path for at in done.withheld])
    elif what == "user":
        say(begin=number, writes=[], removes=[])
        path = store.root / "team" / f"me-{who}-{number}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            f"---\nname: Me\ndescription: About {who}\ntype: user\n---\n\nabout-a-person\n", encoding="utf-8"
        )
    else:
        write(store, rng, number, what, who, shared=shared, taken=names)
    say(done=number)


def write(
    store: FileStore, rng: random.Random, number: int, what: str, who: str, *,
    shared: Sequence[str], taken: Collection[str], folder: str = "team/", kind: Kind = Kind.PROJECT,
) -> None:  # fmt: skip
    """One random change of a store: a new memory, or one to a memory of `shared`."""
    mark = f"mark{who}x{number}y"
    if what != "save" and shared:
        change(store, rng, number, mark, what, rng.choice(list(shared)))
        return
    free = [at for at in (f"{folder}note-{at}" for at in range(6)) if at not in taken]
    say(begin=number, writes=[mark], removes=[])
    name = rng.choice(free or [f"{folder}own-{who}-{number}"])
    store.write(Draft(kind, f"Note {number}", f"What {mark} says about releases", f"Body {mark}.", name))


def change(store: FileStore, rng: random.Random, number: int, mark: str, what: str, name: str) -> None:
    memory = store.read(name)
    paragraphs = memory.body.strip().split("\n\n")
    if what == "forget":
        say(begin=number, writes=[], removes=MARK.findall(memory.text))
        store.delete(name, expect=memory.digest)
        return
    text, removes = memory.text, []
    if what == "describe":
        removes = MARK.findall(memory.header.description)
        text = text.replace(f"description: {memory.header.description}", f"description: What {mark} says", 1)
        if mark not in text:
            say(begin=number, writes=[], removes=[])
            return
    elif what == "paragraph":
        text = f"{text.rstrip()}\n\nMore {mark}.\n"
    else:
        old = rng.choice(paragraphs)
        removes = MARK.findall(old)
        text = text.replace(old, f"Rather {mark}.", 1)
    say(begin=number, writes=[mark], removes=removes)
    store.edit(name, text, expect=memory.digest)


def main() -> None:
    project, seed, first, last, who = Path(sys.argv[1]), *map(int, sys.argv[2:5]), sys.argv[5]
    opened = open_project(project)
    for number in range(first, last):
        try:
            step(opened, random.Random(f"{seed}-{who}-{number}"), number, who)
        except MemdirError as error:
            say(refused=number, why=str(error))
    opened.close()


if __name__ == "__main__":
    main()
