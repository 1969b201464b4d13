"""Several clones at once, with processes that are killed and a remote that vanishes: in the end all are equal."""

import json
import os
import random
import subprocess
import sys
import threading
from pathlib import Path

from clihelp import SOURCE
from homes import git
from team_member import MARK
from teams import Member, make_team

IS_FULL = os.environ.get("MEMDIR_LOAD") == "full"
CLONES, STEPS, KILLS = (8, 500, 33) if IS_FULL else (3, 40, 1)  # kills of each


class Player(threading.Thread):
    """Plays one member: starts the process, reads along, kills it now and then, and takes the remote away."""

    def __init__(self, member: Member, seed: int, gate: threading.Lock) -> None:
        super().__init__()
        self.member = member
        self.rng = random.Random(f"{seed}-{member.name}")
        self.seed = seed
        self.gate = gate
        self.written: dict[int, list[str]] = {}
        self.removed: set[str] = set()
        self.done: set[int] = set()
        self.kills = self.away = 0
        self.outcomes: list[str] = []
        self.errors: list[str] = []

    def run(self) -> None:
        at = 0
        try:
            while at < STEPS:
                at = self.play(at)
        finally:
            self.show_remote()

    def play(self, first: int) -> int:
        """One process, from a step on until it ends or is killed; answers the step to go on with."""
        command = [sys.executable, str(Path(__file__).parent / "team_member.py"), str(self.member.cli.project)]
        arguments = [str(self.seed), str(first), str(STEPS), self.member.name]
        env = {**self.member.variables, "PYTHONPATH": os.pathsep.join((str(SOURCE), str(Path(__file__).parent)))}
        env.pop("MEMDIR_NOW")
        pipe = subprocess.PIPE
        last_sync = self.rng.randint(1, 6)
        reached = first
        with subprocess.Popen([*command, *arguments], env=env, stdout=pipe, stderr=pipe) as process:
            assert process.stdout is not None and process.stderr is not None
            for line in process.stdout:
                row = json.loads(line)
                reached = max(reached, self.take(row))
                self.hide_remote()
                last_sync -= row.get("what") == "sync"
                if last_sync == 0 and self.kills < KILLS:
                    self.kill(process)
                    break
            # What it still said before it died counts as well.
            for line in process.stdout:
                if line.endswith(b"\n"):
                    reached = max(reached, self.take(json.loads(line)))
            told = process.stderr.read().decode("utf-8", "replace")
        if process.returncode not in (0, -9):
            self.errors.append(told)
            return STEPS
        return reached if process.returncode else STEPS

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
        elif self.rng.random() < 0.03 / CLONES and self.gate.acquire(blocking=False):
            self.away = 4
            self.member.remote.rename(self.member.remote.with_suffix(".away"))

    def show_remote(self) -> None:
        if self.away:
            self.away = 0
            self.member.remote.with_suffix(".away").rename(self.member.remote)
            self.gate.release()


def settle(members: list[Member]) -> None:
    """Sync until a whole round brings nothing new."""
    for _ in range(20):
        done = [member.sync() for member in members]
        assert {at.outcome.value for at in done} <= {"synced", "busy"}, done
        if not any(at.sent or at.received or at.outcome.value == "busy" for at in done):
            return
    raise AssertionError("the clones do not come to rest")


def test_clones_with_killed_processes_and_a_vanishing_remote_end_equal_and_lose_nothing(tmp_path: Path) -> None:
    members = make_team(tmp_path, *("ada", "bob", "cyd", "dan", "eli", "fay", "gus", "hal")[:CLONES])
    gate = threading.Lock()
    players = [Player(member, 7, gate) for member in members]
    for player in players:
        player.start()
    for player in players:
        player.join()
    assert [error for player in players for error in player.errors] == []
    settle(members)
    # Each keeps what is about himself, and an index without lines is as good as none.
    ends = [{path: text for path, text in at.files().items() if text and path[:3] != "me-"} for at in members]
    for end in ends:  # lines of an index are made by each member: the same ones, each in an order of his own
        end["MEMORY.md"] = "\n".join(sorted(end.get("MEMORY.md", "").splitlines()))
    assert all(end == ends[0] for end in ends[1:])
    there = {mark for text in ends[0].values() for mark in MARK.findall(text)}
    removed = {mark for player in players for mark in player.removed}
    written = {mark for at in players for number in at.done for mark in at.written.get(number, [])}
    assert written - there - removed == set(), "an acknowledged change was lost"
    assert len(written) > CLONES * STEPS // 5 and sum(at.kills for at in players) >= 1
    history = git(members[0].remote, "log", "--all", "-p", "--format=%an")
    assert "about-a-person" not in history and "type: user" not in history
    mine = [path for at in members for path in at.files() if path.startswith("me-")]
    assert all(at.has(path.removesuffix(".md")) for at in members for path in at.files() if path in mine)
