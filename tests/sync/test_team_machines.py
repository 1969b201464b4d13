"""A person's machines at once: killed, offline, with wrong clocks and projects that move; in the end all are equal."""

import os
import shutil
from pathlib import Path

import pytest

from machines import Machine, add_clone, read_memories
from memdir.store.open import Project
from memdir.sync import own
from memdir.sync.state import SyncResult
from own_machine import find_clone
from team_player import Player, find_lost, find_written
from teams import make_remote

IS_FULL = os.environ.get("MEMDIR_LOAD") == "full"
MACHINES, STEPS, KILLS = (8, 300, 20) if IS_FULL else (3, 27, 1)  # kills of each
SKEWS = (0, -3 * 86_400, 3 * 86_400, 40, -7_200, 400 * 86_400, 7_200, -40)


class OwnMachine(Machine):
    """A machine that reaches the remote by a link of its own, which can be taken away."""

    def __init__(self, tmp_path: Path, name: str, skew: float) -> None:
        super().__init__(tmp_path, name, tmp_path / "remote.git")
        self.skew, self.net = skew, self.cli.home / "net"
        self.net.symlink_to(tmp_path)
        add_clone(self.projects / "lib", "lib", scheme="git@git.example.org:me/{}.git")

    @property
    def address(self) -> str:
        return f"file://{self.net}/remote.git"

    def start(self, key: Path | None) -> None:
        opened = self.open_here()
        setup = own.OwnSetup(self.address, key_file="" if key is None else str(key))
        done = own.start(
            opened, setup, now=opened.now(), encrypt=True if key is not None and not key.exists() else None
        )
        assert done.outcome.value == "synced", done
        opened.close()

    def open_here(self, name: str = "app") -> Project:
        return self.open(find_clone(self.projects, name))

    def sync_here(self) -> list[SyncResult]:
        """From each project: one that was just moved is known by being opened."""
        done = []
        for name in ("app", "lib"):
            opened = self.open_here(name)
            done.append(own.sync_own(opened, now=opened.now(), seconds=120))
            opened.close()
        return done

    def read_all(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for name in ("app", "lib"):
            opened = self.open_here(name)
            opened.close()
            found |= {f"{name}/{path}": text for path, text in read_memories(opened.private.root).items()}
        return found | {f"user/{path}": text for path, text in read_memories(self.user).items()}

    def make_player(self, first: int, steps: int, kills: int) -> Player:
        def show() -> None:
            self.net.symlink_to(self.remote.parent)

        def hide() -> bool:
            self.net.unlink()
            return True

        arguments = [str(self.projects)], [self.name, str(self.skew)]
        player = Player(
            self.name, 11, "own_machine.py", arguments, self.variables, steps=steps, kills=kills, hide=hide, show=show,
            often=0.03,
        )  # fmt: skip
        player.first = first
        return player


def play(players: list[Player]) -> None:
    for player in players:
        player.start()
    for player in players:
        player.join()
    assert [error for player in players for error in player.errors] == []


def settle(machines: list[OwnMachine]) -> None:
    """Sync until a whole round brings nothing new."""
    for _ in range(20):
        done = [result for machine in machines for result in machine.sync_here()]
        assert {at.outcome.value for at in done} <= {"synced", "busy"}, done
        if not any(at.sent or at.received or at.outcome.value == "busy" for at in done):
            return
    raise AssertionError("the machines do not come to rest")


@pytest.mark.parametrize("is_encrypted", [False, True], ids=["plain", "encrypted"])
def test_machines_end_equal_lose_nothing_and_a_stale_one_brings_nothing_back(
    tmp_path: Path, is_encrypted: bool
) -> None:
    if is_encrypted:
        pytest.importorskip("pyrage")
    steps = STEPS // 3 if is_encrypted else STEPS
    make_remote(tmp_path)
    names = ("ada", "bob", "cyd", "dan", "eli", "fay", "gus", "hal")[:MACHINES]
    machines = [OwnMachine(tmp_path, name, skew) for name, skew in zip(names, SKEWS, strict=False)]
    for machine in machines:
        machine.start(tmp_path / "age.key" if is_encrypted else None)
    early = [machine.make_player(0, steps // 3, KILLS // 3) for machine in machines]
    play(early)
    settle(machines[:1])
    stale = machines[0].cli.home.with_name("stale")
    shutil.copytree(machines[0].cli.home, stale, symlinks=True)
    late = [machine.make_player(steps // 3, steps, KILLS - KILLS // 3) for machine in machines]
    play(late)
    players = [*early, *late]
    settle(machines)
    # An index without lines is as good as none.
    ends = [{path: text for path, text in at.read_all().items() if text} for at in machines]
    assert all(end == ends[0] for end in ends[1:])
    assert find_lost(players, ends[0].values()) == set(), "an acknowledged change was lost"
    assert len(find_written(players)) > MACHINES * steps // 5 and sum(at.kills for at in players) >= 1
    # One machine comes back from an old copy of its disk, and has nothing to say that the others do not know.
    machines[0].cli.home.rename(machines[0].cli.home.with_name("newer"))
    stale.rename(machines[0].cli.home)
    assert [result.sent for result in machines[0].sync_here()] == [(), ()]
    settle(machines)
    assert all({path: text for path, text in at.read_all().items() if text} == ends[0] for at in machines)
