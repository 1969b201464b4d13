"""A team over a server: the real server on a real PostgreSQL, members with folders of their own."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from machines import Machine
from memdir.errors import SettingsError
from memdir.store.open import Project
from memdir.sync.server import ServerRemote, check_server
from memdir.sync.state import SyncResult
from memdir.sync.sync import open_sync, sync
from own_machine import find_clone, take_along
from postgres import Postgres, Proxy
from team_player import Player, find_lost, find_written
from teams import memory_text, read_team

# The server comes with its own extra; Organisation is a tenant with clients, `serve` the real application on loopback.
http_servers: Any = pytest.importorskip("http_servers")
Organisation = Any

IS_FULL = os.environ.get("MEMDIR_LOAD") == "full"
MEMBERS, STEPS, KILLS = (8, 300, 20) if IS_FULL else (3, 27, 1)  # kills of each
SKEWS = (0, -3 * 86_400, 3 * 86_400, 40, -7_200, 400 * 86_400, 7_200, -40)


@pytest.fixture(scope="module")
def port(postgres: Postgres) -> Iterator[int]:
    with http_servers.serve(postgres.database) as found:
        yield found


@pytest.fixture
def org(postgres: Postgres, port: int) -> Organisation:
    made = http_servers.Organisation(postgres, port)
    assert made.admin("POST", "/v1/stores", {"name": "platform"})[0] == 201
    return made


class Member(Machine):
    """A member of a team at a server, which they reach by a port of their own."""

    def __init__(self, tmp_path: Path, name: str, org: Organisation, *, skew: float = 0) -> None:
        super().__init__(tmp_path, name, tmp_path)
        self.org, self.skew, self.lost = org, skew, 0
        self.proxy = Proxy(f"host=127.0.0.1 port={org.port}")
        self.token = self.cli.home / "token"

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.proxy.port}"

    def join(self, *options: str, access: str = "read_write") -> dict[str, Any]:
        self.token.write_text(self.org.token(access, name=self.name) + "\n", encoding="utf-8")
        done = self("team", "join", self.address, "--token-file", str(self.token), "--no-review", "--json", *options)
        assert done.code == 0, (done.out, done.err)
        return dict(done.json)

    def hide(self) -> bool:
        self.proxy.cut = lambda data: "before"
        return True

    def show(self) -> None:
        self.proxy.cut = lambda data: ""

    def open_here(self) -> Project:
        take_along(self.projects, self.skew, self.variables)  # the last process may have been killed while it moved
        return self.open(find_clone(self.projects, "app"))

    def sync_team(self) -> SyncResult:
        opened = self.open_here()
        try:
            return sync(open_sync(opened, seconds=120), now=opened.now())
        finally:
            opened.close()

    def team(self) -> dict[str, str]:
        opened = self.open_here()
        opened.close()
        return read_team(opened.private.root)


@pytest.fixture
def pair(tmp_path: Path, org: Organisation) -> tuple[Member, Member]:
    return Member(tmp_path, "ada", org), Member(tmp_path, "bob", org)


def settle(members: list[Member]) -> None:
    for _ in range(20):
        done = [member.sync_team() for member in members]
        assert {at.outcome.value for at in done} <= {"synced", "busy"}, done
        assert not any(at.refused for at in done), "V4: MEMORY.md could not be read"
        if not any(at.sent or at.received or at.outcome.value == "busy" for at in done):
            return
    raise AssertionError("the members do not come to rest")


def test_files_go_both_ways_with_deletions_merges_and_authors(pair: tuple[Member, Member], org: Organisation) -> None:
    ada, bob = pair
    ada.write("team/deploys", memory_text("Deploys", "On Tuesdays."))
    ada.write("team/gone", memory_text("Gone"))
    assert ada.join()["sent"] == ["team/deploys", "team/gone"]
    assert {at["name"] for at in bob.join("--store", "platform")["received"]} == {"team/deploys", "team/gone"}
    assert bob.team() == ada.team()
    status, row = org.admin("GET", "/v1/stores/platform/memories/deploys")
    assert status == 200 and "On Tuesdays." in row["content"]
    ada.write("team/deploys", memory_text("Deploys", "On Tuesdays.", "By Ada."))
    bob.write("team/deploys", memory_text("Deploys", "By Bob.", "On Tuesdays."))
    (bob.memory() / "team" / "gone.md").unlink()
    settle([bob, ada])
    assert ada.team() == bob.team() and "gone.md" not in ada.team()
    assert "By Ada." in ada.team()["deploys.md"] and "By Bob." in ada.team()["deploys.md"]
    rows = ada("team", "log", "--json").json
    assert {at["author"] for at in rows} == {"ada", "bob"}, "V4: a name, not the token's number"
    # Written in the page, or by an agent over MCP: it arrives as a file.
    org.admin("PUT", "/v1/stores/platform/memories/by-web", {"content": memory_text("Web"), "content_sha256": None})
    settle([ada, bob])
    assert "by-web.md" in ada.team() and "by-web.md" in bob.team()
    status = json.dumps(ada("team", "status", "--json").json)
    assert ada.address in status and ada.token.read_text(encoding="utf-8").strip() not in status
    assert (ada.cli.home / ".config" / "memdir" / "tokens.json").stat().st_mode & 0o777 == 0o600


def test_offline_work_merges_later_and_a_lost_answer_is_applied_once(
    pair: tuple[Member, Member], org: Organisation
) -> None:
    ada, bob = pair
    ada.write("team/one", memory_text("One"))
    ada.join()
    bob.join()
    ada.hide()
    ada.write("team/two", memory_text("Two"))
    bob.write("team/one", memory_text("One", "Text.", "By Bob."))
    assert ada.sync_team().outcome.value == "offline" and bob.sync_team().outcome.value == "synced"
    before = org.admin("GET", "/v1/stores/platform")[1]["revision"]
    ada.proxy.cut = lambda data: "after" if data.startswith(b"POST") or b'"files"' in data else ""
    done = ada.sync_team()
    ada.show()
    assert done.outcome.value in ("offline", "synced"), done
    settle([ada, bob])
    assert ada.team() == bob.team() and {"one.md", "two.md"} <= set(ada.team())
    versions = org.admin("GET", "/v1/stores/platform/versions?path=two")[1]["versions"]
    assert len(versions) == 1 and org.admin("GET", "/v1/stores/platform")[1]["revision"] > before


def test_a_stale_folder_brings_nothing_back_and_overwrites_nothing(pair: tuple[Member, Member]) -> None:
    ada, bob = pair
    for name in ("gone", "kept", "third"):
        ada.write(f"team/{name}", memory_text(name.title(), "First."))
    ada.join()
    bob.join()
    (ada.memory() / "team" / "gone.md").unlink()
    ada.write("team/kept", memory_text("Kept", "First.", "Second."))
    ada.sync_team()
    # The manifest is lost as well: the whole list is asked for, and the point still tells what was here.
    (bob.memory() / ".memdir" / "team-server.json").unlink()
    done = bob.sync_team()
    assert done.sent == () and bob.team() == ada.team() and "gone.md" not in bob.team()


def test_a_member_of_a_team_without_memories_may_move_the_project(pair: tuple[Member, Member]) -> None:
    ada, bob = pair
    ada.join()
    bob.join()
    ada.app.rename(ada.app.with_name("app-2"))
    bob.write("team/one", memory_text("One"))
    settle([bob, ada])
    assert "one.md" in ada.team()


def test_read_only_review_and_refusals_of_the_server(tmp_path: Path, org: Organisation) -> None:
    ada, eve = Member(tmp_path, "ada", org), Member(tmp_path, "eve", org)
    ada.write("team/one", memory_text("One"))
    ada.join()
    eve.write("team/mine", memory_text("Mine"))
    done = eve.join(access="read_only")
    assert done["sent"] == [] and [at["path"] for at in done["withheld"]] == ["mine.md"]
    assert "one.md" in eve.team()
    org.admin("PATCH", "/v1/stores/platform", {"review": True})
    ada.write("team/two", memory_text("Two"))
    ada.write("team/three", memory_text("Three"))
    held = ada.sync_team()
    assert held.outcome.value == "denied" and "two.md" in held.error and "three.md" in held.error
    assert ada.sync_team().outcome.value == "denied"
    items = org.admin("GET", "/v1/stores/platform/inbox")[1]["items"]
    names = [edit["name"] for item in items for edit in item["edits"]]
    for item in items:
        org.admin("POST", f"/v1/stores/platform/inbox/{item['id']}/approve", {})
    assert set(names) == {"two", "three"}
    org.admin("PATCH", "/v1/stores/platform", {"review": False})
    settle([ada])
    assert {"one.md", "two.md", "three.md"} <= set(ada.team())


def test_a_team_is_begun_on_a_server_where_the_token_may(tmp_path: Path, org: Organisation) -> None:
    ada = Member(tmp_path, "ada", org)
    ada.write("team/one", memory_text("One"))
    ada.token.write_text(org.token("read_only"), encoding="utf-8")
    begin = ("team", "init", ada.address, "--token-file", str(ada.token))
    assert "read-only" in ada(*begin).refusal and not (ada.memory() / ".memdir" / "team.json").exists()
    ada.token.write_text(org.token("admin"), encoding="utf-8")
    assert ada(*begin, "--json").json["sent"] == ["team/one"]
    stores = org.admin("GET", "/v1/stores")[1]["stores"]
    assert {at["name"]: at["memories"] for at in stores} == {"platform": 0, "app": 1}
    assert ada(*begin, "--json").json["sent"] == [], "it may be said again"


def test_joining_says_what_is_wrong(tmp_path: Path, org: Organisation) -> None:
    ada = Member(tmp_path, "ada", org)
    assert "needs a token" in ada("team", "join", ada.address).refusal
    ada.token.write_text("mdt_wrong", encoding="utf-8")
    wrong = ada("team", "join", ada.address, "--token-file", str(ada.token))
    assert "rejected the token" in wrong.refusal and not (ada.memory() / ".memdir" / "team.json").exists()
    org.admin("POST", "/v1/stores", {"name": "second"})
    ada.token.write_text(org.token("read_write"), encoding="utf-8")
    several = ada("team", "join", ada.address, "--token-file", str(ada.token))
    assert "--store" in several.refusal and "platform" in several.refusal
    ada.hide()
    assert "cannot reach" in ada("team", "join", ada.address, "--token-file", str(ada.token)).refusal


def test_a_token_goes_to_servers_that_may_have_it_only() -> None:
    wrong = []
    cases = {
        "https://memory.example.org/": True, "https://example.org/memdir": True, "http://127.0.0.1:8000": True,
        "http://[::1]:8000": True, "http://localhost:8000": True, "http://memory.example.org": False,
        "http://127.0.0.1.example.org": False, "https://name:secret@example.org": False, "ftp://example.org": False,
        "https://example.org/?token=x": False, "https://": False, "memory.example.org": False, "https://[": False,
    }  # fmt: skip
    for address, is_right in cases.items():
        try:
            check_server(address)
        except SettingsError:
            wrong += [address] if is_right else []
        else:
            wrong += [] if is_right else [address]
    assert wrong == []


def test_a_server_from_a_backup_is_told_apart_from_one_that_deleted_something() -> None:
    find = ServerRemote.find_common
    known: dict[str, dict[str, object] | None] = {"": None, "0:5": None, "0:4": None, "0:6": {}, "1:2": {}}
    assert {at: find(None, at, "0:5") for at in known} == known  # type: ignore[arg-type]
    assert find(None, "0:9", "1:3") is None  # type: ignore[arg-type]


def test_members_end_equal_and_lose_nothing(tmp_path: Path, org: Organisation) -> None:
    names = ("ada", "bob", "cyd", "dan", "eli", "fay", "gus", "hal")[:MEMBERS]
    members = [Member(tmp_path, name, org, skew=skew) for name, skew in zip(names, SKEWS, strict=False)]
    players = []
    for member in members:
        member.join()
        arguments = [str(member.projects)], [member.name, str(member.skew), "team"]
        players.append(Player(
            member.name, 13, "own_machine.py", arguments, member.variables, steps=STEPS, kills=KILLS, hide=member.hide,
            show=member.show, often=0.03,
        ))  # fmt: skip
    for player in players:
        player.start()
    for player in players:
        player.join()
    assert [error for player in players for error in player.errors] == []
    settle(members)
    ends = [{path: text for path, text in at.team().items() if text} for at in members]
    assert [sorted(end.items() ^ ends[0].items()) for end in ends[1:]] == [[]] * (len(ends) - 1)
    assert find_lost(players, ends[0].values()) == set(), "an acknowledged change was lost"
    assert len(find_written(players)) > MEMBERS * STEPS // 5 and sum(at.kills for at in players) >= 1
    rows = {at["path"]: at["content"] for at in org.admin("GET", "/v1/stores/platform/files")[1]["files"]}
    assert rows == ends[0]
