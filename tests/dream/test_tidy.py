"""The dream by rules: what is one memory and what stays two, what is mended, what is only proposed."""

import json
import os
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from decisions import approve
from dream_data import Note
from dream_data import read_rows as read_data
from loads import scaled
from memdir.dream.duplicates import MemoryFacts, differ_in_value, is_copy, list_words, make_exact
from memdir.dream.plan import TidyResult, plan_tidy
from memdir.dream.records import Patch, PatchKind
from memdir.errors import MemdirError
from memdir.format.frontmatter import compose_file, encode, make_memory
from memdir.limits import DREAM_LINES, FILE_BYTES, INDEX_FILE_BYTES
from memdir.records import Dialect, Draft, Forget, InboxKind, Kind, Rewrite, Save, Scope, Signature
from memdir.store.files import FileStore
from memdir.store.memory import MemoryStore
from memdir.store.plan import plan_pointers
from search_stores import write_memory as write_plain
from tables import read_rows

ROWS = read_rows("tidy")
DATA = Path(__file__).parents[1] / "data"
NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)


def make_fact(
    body: str, *, name: str = "a", title: str = "Title", kind: Kind = Kind.PROJECT, days: int = 5
) -> MemoryFacts:
    return note_fact(Note(kind, title, "What it is about", body), name=name, days=days)


def note_fact(note: Note, *, name: str = "a", days: int = 5) -> MemoryFacts:
    when = NOW - timedelta(days=days)
    fields = {"name": note.title, "description": note.description, "type": note.kind.value}
    text = compose_file(fields | {"modified": when.isoformat()}, note.body, Dialect.NESTED)
    return MemoryFacts(make_memory(name, encode(text), Signature(1, 1, 1, 1), Scope.PRIVATE))


def put(store: MemoryStore | FileStore, title: str, body: str, *, kind: Kind = Kind.PROJECT, **more: object) -> str:
    description = str(more.get("description") or f"{body.split('.')[0]} in the nightly release checklist")
    return store.write(Draft(kind, title, description, body, pinned=bool(more.get("pinned")) or None)).header.name


def tidy(store: MemoryStore | FileStore) -> TidyResult:
    """Plan and apply, as a dream does."""
    planned = plan_tidy(store, now=NOW)
    store.change([at.edits for at in planned.patches], verb="dream", drop_conflicts=True, keep_pinned=True)
    return planned


def kinds(patches: Sequence[Patch]) -> Counter[str]:
    return Counter(at.kind for at in patches)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(clock=lambda: NOW)


def test_texts_that_look_alike_and_say_different_things_are_not_the_same() -> None:
    merged = []
    for row in (DATA / "tidy_lookalikes.jsonl").read_text(encoding="utf-8").splitlines():
        pair = json.loads(row)
        one, other = make_fact(pair["a"]), make_fact(pair["b"], name="b")
        if is_copy(one, other):
            merged.append(row)
    assert not merged


def test_equal_bodies_under_titles_that_tell_two_things_apart_stay_two() -> None:
    body = "It is in the sheet of the finance workbook."
    for one, other in (("Tax table for 2025", "Tax table for 2026"), ("Left column", "Right column")):
        assert not is_copy(make_fact(body, title=one), make_fact(body, title=other, name="b"))
    assert is_copy(make_fact(body, title="Tax table"), make_fact(body, title="Where the taxes are", name="b"))


def test_markup_does_not_count_in_a_comparison() -> None:
    assert make_exact("- **A**  b\n- `c`") == make_exact("* A b\n* c")


def test_a_copy_goes_and_what_only_it_said_stays(store: MemoryStore) -> None:
    put(store, "Deploys", "Deploy with `make ship`.\n\n**Why:** It checks.", kind=Kind.FEEDBACK)
    other = "Deploy with `make ship`.\n\n**Why:** It checks."
    put(store, "x", other, kind=Kind.FEEDBACK, description="Shipping to the Oslo cluster at night")
    planned = tidy(store)
    (memory,) = (store.read(at.name) for at in store.scan())
    assert kinds(planned.patches) == {"duplicate": 1} and memory.header.name == "deploys"
    assert memory.header.description == "Deploy with `make ship` in the nightly release checklist"
    assert "Shipping to the Oslo cluster at night." in memory.body and store.index().count(".md)") == 1
    store.undo()
    assert len(store.scan()) == 2 and store.index().count(".md)") == 2


def test_links_lead_to_the_one_that_stays_and_code_is_left_alone(store: MemoryStore) -> None:
    put(store, "Containers", "Tests start the database in a container.")
    put(store, "Databases", "Tests start the database in a container.")
    put(store, "Other", "See [[Containers]] and [[databases|there]] but not `[[databases]]`.")
    put(store, "More", "See [[containers]] as well.")
    tidy(store)
    assert {at.name for at in store.scan()} == {"containers", "other", "more"}
    assert store.read("other").body == "See [[Containers]] and [[containers|there]] but not `[[databases]]`.\n"


def test_the_conflict_copy_of_a_sync_tool_is_a_duplicate_and_never_a_failure(tmp_path: Path) -> None:
    text = "---\nname: Tracker\ndescription: Where billing bugs are tracked\ntype: reference\n---\n\nIn {}.\n"
    for name, where in (("a1", "BILL"), ("a1 (1)", "BILL"), ("a1 (2)", "PAY")):
        write_memory(tmp_path / "memory", name, text.format(where))
    store = write_index(tmp_path / "memory", "- [Tracker](a1.md) — Where billing bugs are tracked\n")
    planned = tidy(store)
    assert kinds(planned.patches) == {"duplicate": 1} and {at.name for at in store.scan()} == {"a1", "a1 (2)"}
    assert not plan_tidy(store, now=NOW).patches
    store.undo()
    assert {at.name for at in store.scan()} == {"a1", "a1 (1)", "a1 (2)"}


def test_a_pinned_memory_stays_byte_for_byte_and_takes_nothing_in(store: MemoryStore) -> None:
    text = "Tests start Postgres in a container."
    put(store, "One", text, pinned=True, description="Tests start Postgres in a container")
    put(store, "One too", text, description="Tests start Postgres in a container")
    put(store, "Two", "Tests start Postgres in a container, as in the guide of the team.")
    before = store.read("one").text
    planned = tidy(store)
    assert store.read("one").text == before
    assert any("as in the guide of the team" in store.read(at.name).body for at in store.scan())
    assert all("one" not in [edit.name for edit in at.edits if isinstance(edit, Rewrite)] for at in planned.patches)


def test_names_given_to_keep_are_as_pinned(store: MemoryStore) -> None:
    for title in ("One", "One too"):
        put(store, title, "The launch is in Oslo.")
    assert plan_tidy(store, now=NOW).patches
    assert not plan_tidy(store, now=NOW, keep=frozenset(["one", "one-too"])).patches


def test_memories_of_the_team_and_of_one_person_are_not_merged(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "memory")
    for name in ("one", "team/one"):
        store.write(Draft(Kind.PROJECT, name, "Nightly release logs in Grafana", "The logs are in Grafana.", name=name))
    assert not plan_tidy(store, now=NOW).patches


def test_a_memory_that_changed_meanwhile_wins(store: MemoryStore) -> None:
    put(store, "Gateway", "The gateway drops messages.")
    put(store, "Large messages", "The gateway drops messages.")
    planned = plan_tidy(store, now=NOW)
    (away,) = (edit.name for at in planned.patches for edit in at.edits if isinstance(edit, Forget))
    store.write(
        Draft(Kind.PROJECT, "X", "Nightly release checklist renewed", "New.", away), expect=store.read(away).digest
    )
    done = store.change([at.edits for at in planned.patches], verb="dream", drop_conflicts=True)
    assert done.change is None and len(store.scan()) == 2


@pytest.mark.parametrize("more", ["ticket: OPS-77\n", "# the board asked for it\n", "metadata:\n  sla: gold\n"])
def test_a_field_or_remark_of_its_own_keeps_a_copy(tmp_path: Path, more: str) -> None:
    for name, own in (("a", ""), ("b", more)):
        head = f"name: Backup\ndescription: When the nightly backup runs\ntype: project\n{own}"
        write_memory(tmp_path / "memory", name, f"---\n{head}---\n\nThe backup runs at 02:30.\n")
    store = FileStore(tmp_path / "memory")
    assert not kinds(plan_tidy(store, now=NOW).patches)["duplicate"]
    write_memory(store.root, "a", (store.root / "b.md").read_text(encoding="utf-8"))
    assert kinds(plan_tidy(store, now=NOW).patches)["duplicate"] == 1


def test_in_blocks_of_code_white_space_counts() -> None:
    one = "Use this:\n\n```yaml\na:\n  b: 1\n  c: 2\n```"
    assert not is_copy(make_fact(one), make_fact(one.replace("  c", "c"), name="b"))
    assert is_copy(make_fact(one), make_fact(one.replace("Use  this:", "- Use this:"), name="b"))


def test_merging_three_says_each_phrase_of_a_head_once_and_keeps_what_only_order_tells(store: MemoryStore) -> None:
    body = "The gateway drops messages."
    put(store, "Gateway", body, description="Gateway check before the backup of messages")
    put(store, "Gateway too", body, description="Backup of messages before the gateway check")
    put(store, "Gateway also", body, description="Backup of messages before the gateway check")
    tidy(store)
    (header,) = store.scan()
    text = store.read(header.name).text
    assert text.count("Gateway check before") == text.count("Backup of messages before") == 1


def test_in_team_memory_the_same_one_stays_on_every_machine(tmp_path: Path) -> None:
    kept = []
    for place, ages in (("one", (9, 2)), ("two", (2, 9))):
        folder = tmp_path / place / "memory"
        for name, days in zip(("team/a", "team/b"), ages, strict=True):
            text = "---\nname: Backup\ndescription: When the backup runs\ntype: project\n---\n\nIt runs at 02:30.\n"
            write_memory(folder, name, text, days=days)
        write_memory(folder, "mine", f"---\nname: Mine\ndescription: {place}\ntype: user\n---\n\nSee [[team/b]].\n")
        store = FileStore(folder)
        tidy(store)
        kept += [at.name for at in store.scan() if at.name.startswith("team/")]
    assert kept == ["team/a", "team/a"]


def test_dates_are_said_as_of_the_day_the_memory_was_written(tmp_path: Path) -> None:
    folder = tmp_path / "memory"
    folder.mkdir()
    head = "name: Demo\ndescription: The demo is tomorrow for the board\nmetadata:\n  type: project\n"
    text = f"---\n{head}  modified: 2026-11-10T09:00:00+01:00\n---\n\nThe demo is tomorrow.\n"
    (folder / "demo.md").write_text(text, encoding="utf-8")
    store = FileStore(folder)
    tidy(store)
    memory = store.read("demo")
    assert memory.body == "The demo is 2026-11-11.\n" and "2026-11-11" in memory.header.description
    assert not plan_tidy(store, now=NOW).patches


def test_a_reference_keeps_its_words_about_time(store: MemoryStore) -> None:
    put(store, "One", "The meeting is tomorrow.", kind=Kind.REFERENCE)
    assert not plan_tidy(store, now=NOW).patches


def write_memory(folder: Path, name: str, text: str, *, days: float = 5) -> None:
    path = folder / f"{name}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    os.utime(path, ((NOW - timedelta(days=days)).timestamp(),) * 2)


def write_index(folder: Path, text: str) -> FileStore:
    folder.mkdir(exist_ok=True)
    (folder / "MEMORY.md").write_text(text, encoding="utf-8")
    return FileStore(folder)


def test_a_long_line_gives_its_detail_to_the_memory_and_keeps_its_link(tmp_path: Path) -> None:
    folder = tmp_path / "memory"
    put(FileStore(folder), "Tiles", "The server gives 800 tiles a second.")
    hook = "800 tiles a second; above that the latency doubles, and on match days the page sends 1,100, so warm the CDN"
    long = f"- **[Tiles](tiles.md)** — {hook}, said by operations in the spring and again in the autumn"
    store = write_index(folder, f"# Index\n\nProse.\n\n{long}\n")
    planned = tidy(store)
    (line,) = (line for line in store.index().splitlines() if "tiles.md" in line)
    assert kinds(planned.patches) == {"long_line": 1}
    assert line.startswith("- **[Tiles](tiles.md)** — 800 tiles a second") and len(line) <= 150
    assert "on match days the page sends 1,100" in store.read("tiles").body and "Prose." in store.index()


def test_a_hook_that_is_cut_within_its_sentence_shows_it(tmp_path: Path) -> None:
    folder = tmp_path / "memory"
    put(FileStore(folder), "Deploys", "The shop is deployed.")
    who = "whoever is on duty and " * 3
    hook = f"the shop is deployed on Fridays by {who}awake, except in December, when nobody is"
    store = write_index(folder, f"- [Deploys](deploys.md) — {hook}\n")
    tidy(store)
    assert store.index().endswith("awake…\n") and "except in December" in store.read("deploys").body


def test_an_empty_index_gets_the_pointers_it_lacks(tmp_path: Path) -> None:
    put(FileStore(tmp_path / "memory"), "Tiles", "The server gives 800 tiles a second.")
    store = write_index(tmp_path / "memory", "")
    tidy(store)
    assert store.index().startswith("- [Tiles](tiles.md)")
    store.undo()
    assert store.index() == "" and (store.root / "MEMORY.md").exists()


def test_a_line_that_points_to_a_log_is_not_dead(tmp_path: Path) -> None:
    store = write_index(tmp_path / "memory", "- [A day](logs/2026/01/2026-01-01.md) — what was done\n")
    assert kinds(plan_tidy(store, now=NOW).patches) == {"dead_pointer": 1}
    write_memory(store.root, "logs/2026/01/2026-01-01", "- 10:00 something\n")
    assert not plan_tidy(store, now=NOW).patches


def test_a_long_line_moves_only_the_sentences_that_the_memory_lacks(tmp_path: Path) -> None:
    folder = tmp_path / "memory"
    known = "The tiles of the map are rendered each night by the worker in Rotterdam and copied to the four mirrors before six."
    fresh = "Berit may be asked about the fonts of the old style sheets"
    write_memory(folder, "tiles", f"---\nname: Tiles\ndescription: Map tiles\ntype: project\n---\n\n{known}\n")
    store = write_index(folder, f"- [Tiles](tiles.md) — {known} {fresh}\n")
    assert kinds(tidy(store).patches) == {"long_line": 1}
    text = store.read("tiles").text
    assert text.count("rendered each night") == 1 and text.count(fresh) == 1


def test_a_long_line_of_the_older_form_is_cut_too(tmp_path: Path) -> None:
    folder = tmp_path / "memory"
    put(FileStore(folder), "Tiles", "The server gives 800 tiles a second.")
    words = "tiles of the map server, drawn by the nightly job, " * 4
    store = write_index(folder, f"- {words}[tiles.md]\n")
    tidy(store)
    assert len(store.index()) <= 151 and store.index().endswith("[tiles.md]\n")
    assert "drawn by the nightly job" in store.read("tiles").body


def test_a_pinned_memory_with_detail_in_its_long_line_keeps_the_line(tmp_path: Path) -> None:
    folder = tmp_path / "memory"
    put(FileStore(folder), "Tiles", "The server gives 800 tiles a second.", pinned=True)
    store = write_index(folder, f"- [Tiles](tiles.md) — {'something else about the server ' * 6}\n")
    assert not plan_tidy(store, now=NOW).patches


def test_an_index_that_cannot_be_read_is_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "memory"
    put(FileStore(folder), "Tiles", "The server gives 800 tiles a second.")
    store = write_index(folder, "x" * (INDEX_FILE_BYTES + 1))
    assert not plan_tidy(store, now=NOW).patches


def test_an_index_larger_than_any_memory_may_be_is_still_written_to_and_put_in_order(tmp_path: Path) -> None:
    folder = tmp_path / "memory"
    for at in range(2):
        put(FileStore(folder), f"Tiles {at}", "The server gives 800 tiles a second.")
    filler = "".join(f"- [Page {at}](https://example.org/{at}) {'x' * 1_000}\n" for at in range(FILE_BYTES // 1_000))
    store = write_index(folder, f"- [Tiles](tiles-0.md) — the server\n{filler}- [Gone](gone.md) — nowhere\n")
    before = store.index()
    assert len(before) > FILE_BYTES
    tidied = plan_tidy(store, now=NOW)
    assert kinds(tidied.patches) == {"dead_pointer": 1, "missing_pointer": 1}
    store.change([at.edits for at in tidied.patches], verb="dream")
    assert "gone.md" not in store.index() and "(tiles-1.md)" in store.index()
    store.undo()
    assert store.index() == before


def test_skip_index_means_no_index_patches(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "memory", skip_index=True)
    put(store, "Tiles", "The server gives 800 tiles a second.")
    assert not plan_tidy(store, now=NOW).patches


def test_broken_and_strange_files_stop_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "memory"
    put(FileStore(folder), "Tiles", "The server gives 800 tiles a second.")
    (folder / "broken.md").write_bytes(b"---\nname: [\n\xff\xfe")
    (folder / "empty.md").write_bytes(b"")
    (folder / "link.md").symlink_to(folder / "tiles.md")
    try:
        planned = plan_tidy(FileStore(folder), now=NOW)
    except MemdirError as error:
        pytest.fail(str(error))
    assert set(kinds(planned.patches)) <= {"missing_pointer"}


def test_memories_that_differ_in_one_value_are_seen_as_such() -> None:
    """No contradiction is resolved by patterns; a chat shows the newer of two such memories first."""
    right = wrong = 0
    for pair in read_data("contradictions"):
        found = differ_in_value(list_words(pair.a.body), list_words(pair.b.body))
        right += found and pair.contradicts
        wrong += found and not pair.contradicts
    assert right >= 35 and wrong <= 2, (right, wrong)


def test_without_a_model_nothing_is_proposed_about_contradictions(store: MemoryStore) -> None:
    put(store, "Node", "The web app runs on Node 20.")
    put(store, "Node of the app", "The web app runs on Node 22.")
    planned = plan_tidy(store, now=NOW)
    assert not planned.patches and not planned.proposals


def test_a_passed_plan_is_proposed_and_goes_only_when_a_person_says_so(store: MemoryStore) -> None:
    name = put(store, "Freeze for mobile", "The merge freeze ends on 2026-10-12.")
    planned = plan_tidy(store, now=NOW)
    ((names, proposal),) = planned.proposals
    assert names == (name,) and proposal.title.startswith("Over: ") and not planned.patches
    (item,) = store.inbox_add([proposal])
    assert item.kind is InboxKind.PROPOSAL and name in {at.name for at in store.scan()}
    approve(store, item)
    assert name not in {at.name for at in store.scan()}
    store.undo()
    assert name in {at.name for at in store.scan()}


@pytest.mark.parametrize("body", ROWS["what_is_recent_lasting_or_an_account_has_not_expired"])
def test_what_is_recent_lasting_or_an_account_has_not_expired(store: MemoryStore, body: str) -> None:
    put(store, "Something", body)
    assert not plan_tidy(store, now=NOW).proposals


def test_the_same_proposal_waits_once_and_is_not_asked_again(store: MemoryStore) -> None:
    put(store, "Freeze for mobile", "The merge freeze ends on 2026-10-12.")
    for _ in range(2):
        store.inbox_add(item for _, item in plan_tidy(store, now=NOW).proposals)
    assert len(store.inbox()) == 1


@pytest.mark.slow
def test_ten_thousand_memories_are_looked_at_in_a_time_that_grows_as_they_do(tmp_path: Path) -> None:
    count = scaled(10_000)
    notes = [row.body for fact in read_data("dream_pairs") for row in (fact, fact.rewordings[0])]
    store = MemoryStore(clock=lambda: NOW)
    drafts = [
        Draft(
            Kind.PROJECT,
            f"Matter {at}",
            "Nightly release checklist of matters",
            f"{notes[at % len(notes)]} It is ticket T-{at}.",
        )
        for at in range(count)
    ]
    store.change([Save(at) for at in drafts[:: max(1, count // 500)]], verb="save")
    for at, draft in enumerate(drafts):
        data = compose_file(
            {"name": draft.title, "description": draft.description, "type": "project"}, draft.body, Dialect.FLAT
        )
        store._files.setdefault(f"matter-{at}.md", (encode(data), Signature(at, 1, 1, 1)))
    planned = plan_tidy(store, now=NOW)
    assert set(kinds(planned.patches)) <= {PatchKind.MISSING_POINTER.value, PatchKind.DATE.value}


@pytest.mark.slow
def test_of_very_many_missing_pointers_a_dream_adds_the_newest_and_the_next_one_more(tmp_path: Path) -> None:
    folder = tmp_path / "memory"
    for number in range(DREAM_LINES + 3):
        write_plain(folder, f"part-{number}", f"What part{number} does", f"The body of part{number}.")
    store = FileStore(folder)
    first = plan_tidy(store, now=NOW).patches
    assert len(first) == DREAM_LINES and all(at.kind is PatchKind.MISSING_POINTER for at in first)
    store.carry_out(
        lambda view: plan_pointers(view, [name for at in first for name in at.names]), verb="index"
    )  # so many are added at the end, all at once
    assert store.index().count("\n") == DREAM_LINES
    assert len(plan_tidy(store, now=NOW).patches) == 3
