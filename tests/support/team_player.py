"""Plays members of a team, or machines of a person, as processes that are killed, with a remote that vanishes."""

import json
import os
import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from clihelp import SOURCE
from team_member import MARK


class Player(threading.Thread):
    """Plays one member: starts the process, reads along, kills it now and then, and takes the remote away.

    `arguments` are those of the script before and after the numbers of seed and steps; `hide` takes the remote away and
    returns whether it did, `show` brings it back.
    """

    def __init__(
        self, name: str, seed: int, script: str, arguments: tuple[Sequence[str], Sequence[str]],
        variables: Mapping[str, str], *, steps: int, kills: int, hide: Callable[[], bool], show: Callable[[], object],
        often: float,
    ) -> None:  # fmt: skip
        super().__init__()
        self.rng = random.Random(f"{seed}-{name}")
        self.seed, self.script, self.arguments, self.variables = seed, script, arguments, variables
        self.first, self.steps, self.most_kills, self.hide, self.show, self.often = 0, steps, kills, hide, show, often
        self.written: dict[int, list[str]] = {}
        self.removed: set[str] = set()
        self.done: set[int] = set()
        self.kills = self.away = 0
        self.outcomes: list[str] = []
        self.errors: list[str] = []

    def run(self) -> None:
        at = self.first
        try:
            while at < self.steps:
                at = self.play(at)
        finally:
            self.show_remote()

    def play(self, first: int) -> int:
        """One process, from a step on until it ends or is killed; answers the step to go on with."""
        before, after = self.arguments
        numbers = [str(self.seed), str(first), str(self.steps)]
        command = [sys.executable, str(Path(__file__).parent / self.script), *before, *numbers, *after]
        env = {**self.variables, "PYTHONPATH": os.pathsep.join((str(SOURCE), str(Path(__file__).parent)))}
        env.pop("MEMDIR_NOW", None)
        pipe = subprocess.PIPE
        last_sync = self.rng.randint(1, 6)
        reached = first
        with subprocess.Popen(command, env=env, stdout=pipe, stderr=pipe) as process:
            assert process.stdout is not None and process.stderr is not None
            for line in process.stdout:
                row = json.loads(line)
                reached = max(reached, self.take(row))
                self.hide_remote()
                last_sync -= row.get("what") == "sync"
                if last_sync == 0 and self.kills < self.most_kills:
                    self.kill(process)
                    break
            # What it still said before it died counts as well.
            for line in process.stdout:
                if line.endswith(b"\n"):
                    reached = max(reached, self.take(json.loads(line)))
            told = process.stderr.read().decode("utf-8", "replace")
        if process.returncode not in (0, -9):
            self.errors.append(told)
            return self.steps
        return reached if process.returncode else self.steps

    def kill(self, process: "subprocess.Popen[bytes]") -> None:
        """Somewhere in the middle of a sync."""
        self.kills += 1
        try:
            process.wait(timeout=self.rng.uniform(0, 0.15))
        except subprocess.TimeoutExpired:
            process.kill()

    def take(self, row: dict[str, object]) -> int:
        if "begin" in row:
            number = row["begin"]
            assert isinstance(number, int) and isinstance(row["writes"], list) and isinstance(row["removes"], list)
            self.written[number] = row["writes"]
            self.removed |= set(row["removes"])
            return number + 1
        if isinstance(row.get("done"), int):
            self.done.add(int(str(row["done"])))
        if "note" in row:
            self.outcomes.append(str(row["note"]))
            if row["note"] == "failed":
                self.errors.append(str(row["error"]))
        return 0

    def hide_remote(self) -> None:
        """Take the remote away now and then, for as long as this member says a few lines."""
        if self.away:
            self.away -= 1
            if not self.away:
                self.away = 1
                self.show_remote()
        elif self.rng.random() < self.often and self.hide():
            self.away = 4

    def show_remote(self) -> None:
        if self.away:
            self.away = 0
            self.show()


def find_lost(players: Sequence[Player], texts: Iterable[str]) -> set[str]:
    """Marks that somebody wrote, was told so, and nobody removed, but that are not there."""
    there = {mark for text in texts for mark in MARK.findall(text)}
    return find_written(players) - there - {mark for player in players for mark in player.removed}


def find_written(players: Sequence[Player]) -> set[str]:
    return {mark for at in players for number in at.done for mark in at.written.get(number, [])}
