"""Several clones at once, with processes that are killed and a remote that vanishes: in the end all are equal."""

import os
import threading
from pathlib import Path

from homes import git
from team_player import Player, find_lost, find_written
from teams import Member, make_team

IS_FULL = os.environ.get("MEMDIR_LOAD") == "full"
CLONES, STEPS, KILLS = (8, 200, 14) if IS_FULL else (3, 40, 1)  # kills of each


def make_player(member: Member, gate: threading.Lock) -> Player:
    """The remote is away for all at once, by whoever holds the gate."""
    away = member.remote.with_suffix(".away")

    def hide() -> bool:
        return gate.acquire(blocking=False) and bool(member.remote.rename(away))

    def show() -> None:
        away.rename(member.remote)
        gate.release()

    arguments = [str(member.cli.project)], [member.name]
    return Player(
        member.name, 7, "team_member.py", arguments, member.variables, steps=STEPS, kills=KILLS, hide=hide, show=show,
        often=0.03 / CLONES,
    )  # fmt: skip


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
    players = [make_player(member, gate) for member in members]
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
    assert find_lost(players, ends[0].values()) == set(), "an acknowledged change was lost"
    assert len(find_written(players)) > CLONES * STEPS // 5 and sum(at.kills for at in players) >= 1
    history = git(members[0].remote, "log", "--all", "-p", "--format=%an")
    assert "about-a-person" not in history and "type: user" not in history
    mine = [path for at in members for path in at.files() if path.startswith("me-")]
    assert all(at.has(path.removesuffix(".md")) for at in members for path in at.files() if path in mine)
