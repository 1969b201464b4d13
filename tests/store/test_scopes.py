"""What the background may do to what a team shares (nothing), and where secrets may stand (nowhere they need not)."""

import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from clihelp import Cli
from decisions import approve
from dream_stores import end, make_text, put, use
from dream_stores import write as write_call
from extraction_talks import NOW, make_file
from memdir.dream import dream
from memdir.errors import ConflictError, FormatError, LockedError, SecretError
from memdir.extraction import ConversationSource, extract
from memdir.extraction.find import find_hidden_requests, find_requests
from memdir.extraction.turns import EndedTurn, ExtractOptions, extract_turn
from memdir.format.frontmatter import make_slug
from memdir.frozen import replace
from memdir.interfaces.import_formats import ImportContext, read_sources
from memdir.interfaces.imports import apply_import, export, plan_import
from memdir.operations.move import move
from memdir.operations.write import WriteAction, WriteContext
from memdir.project.settings import read_environment
from memdir.recall.pipeline import recall
from memdir.records import (
    BatchResult,
    Draft,
    Forget,
    Header,
    InboxItem,
    InboxKind,
    Kind,
    Message,
    Origin,
    Pick,
    Put,
    Query,
    Rewrite,
    Save,
    Scope,
)
from memdir.store.facts import find_ages, find_authors
from memdir.store.files import FileStore
from memdir.store.inbox import parse_edits, render_edits
from memdir.store.open import open_project
from memdir.store.sessions import SessionFile
from memdir.store.state import Author
from opinions import WordReader

TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
PASSWORD = "Zx9kkQ2pLw7"
TEAM = Draft(
    Kind.PROJECT, "Deploys", "On which days the shop is deployed", "We deploy on Tuesdays only.", "team/deploys"
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[FileStore]:
    with FileStore(tmp_path / "home" / "memory", clock=lambda: NOW) as store:
        yield store


def say(text: str, id: str = "u1") -> tuple[Message, ...]:
    return Message("user", text, id, NOW), Message("assistant", "Fine.", f"{id}-answer", NOW)


def names(store: FileStore) -> list[str]:
    return sorted(header.name for header in store.scan())


def operation(**row: str) -> str:
    empty = dict.fromkeys(("action", "name", "type", "title", "description", "body", "why", "how", "evidence"), "")
    return json.dumps({"operations": [{**empty, **row}]})


def find_traces(folder: Path, value: str) -> list[str]:
    """Every file below a folder that holds a value: in its name, its bytes, or a cell of a database."""
    found = []
    for path in sorted(folder.rglob("*")):
        if value.lower() in path.name.lower():
            found.append(f"{path} (name)")
        if path.is_file() and value.encode() in path.read_bytes():
            found.append(str(path))
        elif path.suffix == ".db":
            found += [f"{path} ({table})" for table in _find_in_tables(path, value)]
    return found


def _find_in_tables(path: Path, value: str) -> Iterator[str]:
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        for (table,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            for row in db.execute(f'SELECT * FROM "{table}"'):
                if any(value in (at.decode("utf-8", "replace") if isinstance(at, bytes) else str(at)) for at in row):
                    yield table
    finally:
        db.close()


def test_rules_keep_a_request_privately_and_leave_the_teams_memory_alone(store: FileStore) -> None:
    before = store.write(TEAM).text
    done = extract(store, say("please remember that we deploy on Fridays only"), now=NOW)
    assert len(done.written) == 1 and not done.written[0].startswith("team/")
    assert store.read("team/deploys").text == before and store.inbox() == ()


def test_what_the_team_says_already_is_not_kept_twice(store: FileStore) -> None:
    store.write(TEAM)
    extract(store, say("please remember that we deploy on Tuesdays only"), now=NOW)
    assert names(store) == ["team/deploys"]


def test_a_wish_to_forget_what_a_team_shares_waits(store: FileStore) -> None:
    store.write(TEAM)
    done = extract(store, say("please forget that we deploy on Tuesdays only"), now=NOW)
    assert (done.forgotten, done.waiting, names(store)) == ((), ("team/deploys",), ["team/deploys"])
    (item,) = store.inbox()
    assert "others will read it" in item.why
    approve(store, item)
    assert names(store) == []


def test_a_model_neither_makes_nor_changes_nor_forgets_a_team_memory(store: FileStore) -> None:
    before = store.write(TEAM).text
    said = "we deploy on Wednesdays only now, remember that"
    row = {"type": "project", "title": "Deploys", "description": "On which days the shop is deployed"}
    for number, change in enumerate(
        (
            {"action": "update", "name": "team/deploys", "body": "We deploy on Wednesdays only.", "evidence": said},
            {"action": "create", "name": "team/more", "body": "We deploy on Wednesdays only.", "evidence": said},
            {"action": "delete", "name": "team/deploys", "evidence": said},
        )
    ):
        model = WordReader([operation(**{**row, **change})])
        done = extract(store, say(said, f"m{number}"), model=model, now=NOW)
        assert change["name"] in done.waiting and not any(name.startswith("team/") for name in done.written)
        assert store.read("team/deploys").text == before and not done.forgotten


def test_a_dream_proposes_what_it_would_do_to_a_teams_memory(store: FileStore) -> None:
    text = make_text("Rate limit", "How much the public API allows", "The public API allows 100 requests a minute.")
    put(store, "team/limit", text)
    put(store, "team/limit-again", text.replace("Rate limit", "The rate limit"))
    put(store, "limit", text.replace("name: Rate", "name: Our rate"))
    before = {name: store.read(name).text for name in names(store)}
    dream(store, now=NOW)
    assert {name: store.read(name).text for name in names(store)} == before
    items = store.inbox()
    assert items and all(item.kind is InboxKind.PROPOSAL and "others will read it" in item.why for item in items)
    approve(store, items[0])
    assert len(names(store)) == 2
    dream(store, now=NOW)
    changed = make_text("Rate limit", "How much the public API allows", "The public API allows 100 requests.")
    dream(store, model=WordReader([use(write_call("team/limit", changed, "shorter")), end()]), now=NOW)
    assert "team/limit" not in names(store) or store.read("team/limit").text == before["team/limit"]


@pytest.mark.parametrize("folder", ["team", "Team"])
def test_approving_is_no_way_for_a_user_memory_into_the_team(store: FileStore, folder: str) -> None:
    about = Draft(Kind.USER, "Person", "Knows Go well and is new to React", "Go.", f"{folder}/me")
    item = InboxItem(InboxKind.MEMORY, "T", "W", NOW, payload={"edits": render_edits([Save(about)])})
    (waiting,) = store.inbox_add([item])
    with pytest.raises(FormatError, match="is a user memory"):
        approve(store, waiting)
    whole = make_file("user", "Person", "Knows Go well and is new to React", "Go.")
    store.write(TEAM)
    digest = store.read("team/deploys").digest
    for edit in (Put(f"{folder}/me", whole), Rewrite("team/deploys", whole, digest)):
        with pytest.raises(FormatError, match="is a user memory"):
            store.change([edit], verb="dream")
    assert names(store) == ["team/deploys"]


def test_a_put_lays_bytes_where_nothing_is_and_reads_back_as_json(store: FileStore) -> None:
    text = make_file("project", "Deploys", "On which days the shop is deployed", "Tuesdays.").replace("\n", "\r\n")
    edits = (Put("sub/deploys", text, "my own words"), Forget("gone"))
    assert parse_edits(render_edits(edits)) == edits
    store.change(edits[:1], verb="promote")
    assert store.read_bytes("sub/deploys.md") == text.encode() and "my own words" in store.index()
    for name, more, reason in (
        ("sub/Deploys", "", "already exists"),
        ("sub/x", "\u202e", "U\\+202E"),
        ("sub/y", "x" * 1_100_000, "bytes"),
    ):
        with pytest.raises((FormatError, ConflictError), match=reason):
            store.change([Put(name, text + more)], verb="promote")
    assert store.undo()[0].verb == "promote" and names(store) == [] and store.index() == ""


def test_a_move_that_stops_half_way_has_the_memory_in_both_places_and_can_be_ended(tmp_path: Path) -> None:
    cli = Cli(tmp_path, MEMDIR_LOCK_SECONDS="0")
    cli.save("replies")
    opened = open_project(cli.project, environ=cli.variables)
    private, user = opened.private, opened.user
    assert user is not None
    context = WriteContext(Origin(), opened.now())
    with private.hold_lock("lock"), pytest.raises(LockedError):
        move(private, "replies", user, "replies", context, verb="promote")
    assert names(private) == names(user) == ["replies"], "the new place first"
    moved = move(private, "replies", user, "replies", context, verb="promote")
    assert moved.action is WriteAction.CHANGED and [store for store, _ in moved.changes] == [private]
    assert (names(private), names(user)) == ([], ["replies"])
    opened.close()


def test_a_memory_keeps_its_age_and_author_whatever_way_it_takes(tmp_path: Path) -> None:
    """V9. Each way but the copy by an archive is done to the memory that the one before left."""
    moments = [NOW - timedelta(days=900)]
    bob = Author("Bob", "bob@example.org")
    homes = {
        scope: FileStore(tmp_path / scope, scope=scope, clock=lambda: moments[-1], find_author=lambda: bob)
        for scope in (Scope.PRIVATE, Scope.USER)
    }
    (private, user), context = homes.values(), WriteContext(Origin("person"), NOW)
    private.write(
        Draft(Kind.FEEDBACK, "Deploys", "On which days the shop is deployed", "On Tuesdays.", "deploys"),
        origin=Origin("agent"),
    )
    moments.append(NOW)

    def copy() -> None:
        (tmp_path / "copy.tar").write_bytes(export(private, now=NOW).data)
        other = homes[Scope.AGENT] = FileStore(tmp_path / "copy", clock=lambda: NOW)
        environment = read_environment({"HOME": str(tmp_path)})
        hits = read_sources("copy.tar", None, cwd=tmp_path, context=ImportContext(environment, NOW))
        origin = Origin("import")
        apply_import(other, plan_import(other, hits, now=NOW, origin=origin), origin=origin)

    ways: dict[str, Callable[[], object]] = {
        "pinned": lambda: private.pin("deploys"),
        "not pinned": lambda: private.pin("deploys", pinned=False),
        "forgotten, undone": lambda: (private.change([Forget("deploys")], verb="forget"), private.undo()),
        "forgotten, restored": lambda: (private.change([Forget("deploys")], verb="forget"), private.restore("deploys")),
        "edited, undone": lambda: (
            private.edit(
                "deploys",
                make_text("Deploys", "On which days the shop is deployed", "Never.", "feedback"),
                expect=private.read("deploys").digest,
            ),
            private.undo(),
        ),
        "for the team and back": lambda: (
            move(private, "deploys", private, "team/deploys", context, verb="promote"),
            move(private, "team/deploys", private, "deploys", context, verb="demote"),
        ),
        "for all projects": lambda: move(private, "deploys", user, "deploys", context, verb="promote"),
        "back": lambda: move(user, "deploys", private, "deploys", context, verb="demote"),
        "archive": copy,
    }
    wrong = []
    for way, walk in ways.items():
        walk()
        store = homes.get(Scope.AGENT) or (user if way == "for all projects" else private)
        age = find_ages(store, [store.read("deploys")], now=NOW)["deploys"]
        if (find_authors(store, ["deploys"])["deploys"], age) != ("agent", moments[0]):
            wrong.append((way, find_authors(store, ["deploys"]), age))
    assert wrong == []
    for store in homes.values():
        store.close()


@pytest.mark.parametrize("meanwhile", ["changed", "moved"])
def test_a_memory_that_somebody_else_is_quicker_with_while_it_moves_is_in_one_place(
    tmp_path: Path, meanwhile: str
) -> None:
    cli = Cli(tmp_path)
    cli.save("replies")
    opened = open_project(cli.project, environ=cli.variables)
    private, user = opened.private, opened.user
    assert user is not None
    context = WriteContext(Origin(), opened.now())

    class Slow(FileStore):
        def change(self, edits: Any, **more: Any) -> BatchResult:
            done = super().change(edits, **more)
            now = private.read("replies")
            if meanwhile == "changed":
                private.edit("replies", now.text + "\nAnd so on.\n", expect=now.digest)
            else:
                move(private, "replies", slow, "replies", context, verb="promote")
            return done

    slow = Slow(user.root, scope=Scope.USER)
    with pytest.raises(ConflictError):
        move(private, "replies", slow, "replies", context, verb="promote")
    there = (["replies"], []) if meanwhile == "changed" else ([], ["replies"])
    assert (names(private), names(user)) == there
    slow.close()
    opened.close()


def test_a_model_that_chooses_is_not_told_of_a_team_that_is_off(tmp_path: Path) -> None:
    told: list[str] = []

    def choose(query: Query, headers: Sequence[Header], limit: int) -> Sequence[Pick]:
        told.extend(header.name for header in headers)
        return ()

    with FileStore(tmp_path / "memory", clock=lambda: NOW, team=False) as store:
        store.write(TEAM)
        store.write(replace(TEAM, name="mine"))
        recall((store,), "on which days is the shop deployed?", selector=choose, now=NOW)
    assert told == ["mine"]


@pytest.mark.parametrize(
    ("said", "secret"),
    [
        (f"please remember that the deploy token is {TOKEN}", TOKEN),
        (f"remember: the admin password is {PASSWORD}", PASSWORD),
        (f"Merk dir bitte: das Passwort für den Testserver ist {PASSWORD}", PASSWORD),
        ("please remember that the door code is 48151623", "48151623"),
    ],
)
def test_a_request_with_a_secret_waits_without_it_and_is_not_dropped(store: FileStore, said: str, secret: str) -> None:
    assert find_requests(say(said), now=NOW) == () and len(find_hidden_requests(say(said), now=NOW)) == 1
    done = extract(store, say(said), now=NOW, conversation=ConversationSource("s1"))
    assert done.written == () and len(done.waiting) == 1 and names(store) == []
    (item,) = store.inbox()
    assert "it holds a secret" in item.why and "[masked]" in repr(item.payload)
    assert find_traces(store.root.parent, secret) == [] and secret not in repr(done)
    again = extract(store, say(said), now=NOW, conversation=ConversationSource("s1"))
    assert len(store.inbox()) == 1 and len(again.waiting) <= 1
    approve(store, item)
    assert len(names(store)) == 1 and find_traces(store.root.parent, secret) == []


def test_every_request_with_a_secret_waits_also_one_that_a_model_did_not_hear(store: FileStore) -> None:
    said = f"please remember that the deploy token is {TOKEN}. And remember that the admin password is {PASSWORD}."
    row = {"action": "create", "name": "token", "type": "reference", "title": "Deploy token"}
    more = {"description": "Which token the deploy needs", "body": f"It is {TOKEN}.", "evidence": TOKEN}
    extract(store, say(said), model=WordReader([operation(**row, **more)]), now=NOW)
    assert "password" in " ".join(f"{item.why} {item.payload}" for item in store.inbox())
    assert find_traces(store.root.parent, PASSWORD) == find_traces(store.root.parent, TOKEN) == []


def test_a_name_that_was_cut_in_the_middle_of_a_secret_shows_none_of_it(store: FileStore) -> None:
    secret = "xoxb-" + "2718281828459-" + "3141592653589-" + "aB3dE6gH9kLm2pQr5sTu7vWx"
    title = f"The token with which the release robot of the shop posts its news to the channel: {secret}"
    row = {"action": "create", "name": make_slug(title), "type": "reference", "title": title}
    more = {"description": "Which token the robot needs", "body": f"It is {secret}.", "evidence": secret}
    extract(store, say(f"the token is {secret}"), model=WordReader([operation(**row, **more)]), now=NOW)
    (item,) = store.inbox()
    assert item.name.endswith("masked") and find_traces(store.root.parent, "2718281828459") == []


def test_the_rest_of_a_message_with_a_secret_is_kept(store: FileStore) -> None:
    said = f"remember that we deploy on Tuesdays only. Also remember that the db password is {PASSWORD}."
    done = extract(store, say(said), now=NOW)
    assert len(done.written) == 1 and len(done.waiting) == 1
    assert find_traces(store.root.parent, PASSWORD) == []


def test_a_request_with_a_secret_does_not_wait_for_its_turn(store: FileStore) -> None:
    session = SessionFile(store.state, "s1")
    turn = EndedTurn(say(f"please remember that the deploy token is {TOKEN}"), conversation=ConversationSource("s1"))
    done = extract_turn(store, session, turn, options=ExtractOptions(every=9), model=None, now=NOW)
    assert len(done.waiting) == 1 and len(store.inbox()) == 1


def plant_by_model(store: FileStore) -> None:
    row = {"action": "create", "name": f"token-{TOKEN.lower()}", "type": "reference", "title": f"Token {TOKEN}"}
    more = {"description": f"Which token the deploy needs: {TOKEN}", "body": f"It is {TOKEN}.", "evidence": TOKEN}
    extract(store, say(f"the token is {TOKEN}"), model=WordReader([operation(**row, **more)]), now=NOW)


def plant_by_rules(store: FileStore) -> None:
    extract(store, say(f"from now on, always use the token {TOKEN} for deploys, remember that"), now=NOW)


def plant_by_dream(store: FileStore) -> None:
    put(store, "notes", make_text("Deploy notes", "How the shop is deployed on a Tuesday", "By hand."))
    text = make_text("Token", f"Which token the deploy needs, {TOKEN}", f"The deploy token is {TOKEN}.", "reference")
    dream(store, model=WordReader([use(write_call("token", text, TOKEN, TOKEN)), end()]), now=NOW)


def plant_in_the_team(store: FileStore) -> None:
    store.write(TEAM)
    bad = store.read("team/deploys").text.replace("Tuesdays", TOKEN)
    digest = store.read("team/deploys").digest
    for edit in (Save(Draft(Kind.PROJECT, "Token", f"Which token is {TOKEN}", "x", "team/x")), Put("team/y", bad)):
        with pytest.raises(SecretError):
            store.change([edit], verb="dream")
    with pytest.raises(SecretError):
        store.edit("team/deploys", bad, expect=digest)


@pytest.mark.parametrize("plant", [plant_by_model, plant_by_rules, plant_by_dream, plant_in_the_team])
def test_no_way_of_the_background_leaves_a_secret_on_the_disk(
    store: FileStore, plant: Callable[[FileStore], None]
) -> None:
    plant(store)
    store.scan()
    assert find_traces(store.root.parent, TOKEN) == []


def test_a_person_is_warned_and_the_value_stands_only_where_they_put_it(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    body = f"It is {TOKEN}."
    told = [
        cli.save("a", body, "--json"),
        cli("edit", "a", "--body", f"Now {body}"),
        cli("remember", f"the deploy token is {TOKEN}"),
        cli("remember", "--scope", "user", "--type", "feedback", f"always deploy with the token {TOKEN}"),
        cli("save", "--scope", "team", "--type", "project", "--name", "t", "--description", "d e f", "--body", body),
        cli("log", "add", f"used {TOKEN} for the deploy"),
        cli("list"),
        cli("show"),
        cli("prompt"),
        cli("history"),
        cli("inbox"),
        cli("status"),
        cli("doctor"),
        cli("recall", "which token is for the deploy?", "--explain"),
    ]
    asked = "ghp_" + "z9Y8x7W6v5U4t3S2r1Q0p9O8n7M6l5K4j3I2"
    assert cli("recall", f"deploy token {asked}", "--limit", "5", "--json").json["memories"]
    assert find_traces(cli.home, asked) == [], "what was asked is in the ledger without it"
    for result in told:
        assert TOKEN not in result.out + result.err
    assert all("github-token" in result.err for result in told[:6]), [result.err for result in told[:6]]
    user, memory = cli.home / ".claude" / "memory", cli.memory
    places = {Path(trace.split(" (")[0]) for trace in find_traces(cli.home, TOKEN)}
    notes = {path for path in places if "logs" in path.parts}
    memories = {path for path in places if path.suffix == ".md" and path.parent in (memory, user)}
    rest = {path.name for path in places - notes - memories}
    assert len(memories) == 3 and len(notes) == 1 and rest <= {"history.db", "index.db", "history.db-wal"}, rest
    assert not any(path.name == "MEMORY.md" for path in places)
