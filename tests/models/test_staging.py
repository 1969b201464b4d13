"""Staging: a run's writes before they happen."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from homes import write
from memdir.errors import FormatError, NotFoundError, PathError
from memdir.models.staged import Staging, make_edits, parse_operations, stage
from memdir.records import Draft, Forget, Kind, Put, Rewrite, Save
from memdir.store.files import FileStore
from memdir.store.memory import MemoryStore
from memdir.testing import sample_memory
from tables import table

NOW = datetime(2026, 3, 5, 12, tzinfo=UTC)
NEW = "---\nname: Deploys\ndescription: Deploys go out on Tuesday mornings only\ntype: project\n---\n\nTuesdays.\n"


def make() -> tuple[MemoryStore, Staging]:
    store = MemoryStore()
    store.write(sample_memory(name="terse"))
    return store, Staging(store, now=NOW)


def test_nothing_reaches_the_store_until_the_edits_do() -> None:
    store, staging = make()
    staging.write("deploys", NEW)
    staging.forget("terse")
    assert [header.name for header in store.scan()] == ["terse"]
    store.change(make_edits(staging.staged), verb="extract")
    assert [header.name for header in store.scan()] == ["deploys"]


def test_a_run_sees_its_own_writes() -> None:
    _, staging = make()
    assert staging.write("deploys", NEW) is True
    assert staging.read("Deploys") == NEW
    assert staging.write("deploys", NEW.replace("Tuesdays.", "Mondays.")) is True
    staging.forget("terse")
    with pytest.raises(NotFoundError):
        staging.read("terse")


def test_each_memory_becomes_one_edit_however_often_it_was_written() -> None:
    store, staging = make()
    text = staging.read("terse")
    staging.write("terse", text.replace("closing", "final"))
    staging.write("terse", text.replace("closing", "last"))
    staging.write("deploys", NEW)
    edits = make_edits(staging.staged)
    assert edits[0] == Rewrite("terse", text.replace("closing", "last"), store.read("terse").digest)
    assert edits[1] == Save(
        Draft(Kind.PROJECT, "Deploys", "Deploys go out on Tuesday mornings only", "Tuesdays.\n", "deploys")
    )
    assert len(edits) == 2


def test_a_forgotten_memory_is_an_edit_that_knows_the_version_it_saw() -> None:
    store, staging = make()
    staging.forget("terse")
    assert make_edits(staging.staged) == (Forget("terse", store.read("terse").digest),)


@table("name", ["../x", "MEMORY", "a b", "team/../x", ".hidden", ""])
def test_a_name_outside_the_grammar_is_refused(name: str) -> None:
    _, staging = make()
    with pytest.raises(PathError):
        staging.write(name, NEW)


@table(
    "text",
    [
        "no frontmatter at all",
        NEW.replace("type: project", "type: opinion"),
        NEW.replace("Deploys go out on Tuesday mornings only", "important info"),
        NEW.replace("Tuesdays.", "\x1b[31mred"),
        NEW.replace("Tuesdays.\n", ""),
    ],
)
def test_a_file_that_may_not_be_saved_is_refused_when_it_is_written(text: str) -> None:
    _, staging = make()
    with pytest.raises(FormatError):
        staging.write("deploys", text)
    assert staging.staged == ()


def test_a_draft_renews_the_memory_it_names() -> None:
    _, staging = make()
    name = staging.save(Draft(Kind.FEEDBACK, "Terse replies", "Answers end without any summary", "Just stop.", "terse"))
    assert name == "terse"
    assert "Just stop." in staging.read("terse")
    assert len(staging.staged) == 1


def test_a_run_can_go_back_to_an_earlier_point() -> None:
    _, staging = make()
    point = staging.copy()
    staging.write("deploys", NEW)
    staging.restore(point)
    assert staging.staged == ()
    staging.write("deploys", NEW)
    staging.drop("Deploys")
    assert staging.staged == ()


def test_operations_are_carried_out_one_by_one_and_all_problems_are_returned() -> None:
    _, staging = make()
    rows = [
        {"action": "create", "name": "deploys", "type": "project", "title": "Deploys", "body": "Tuesdays.",
         "description": "Deploys go out on Tuesday mornings only", "cues": ["may I deploy today?", "x" * 500, 7]},
        {"action": "update", "name": "nowhere", "type": "project", "title": "x", "description": "y", "body": "z"},
        {"action": "sing", "name": "terse"},
        "what",
        {"action": "delete", "name": "terse"},
    ]  # fmt: skip
    done, problems = stage(parse_operations(json.dumps({"operations": rows})), staging)
    assert list(done) == ["deploys", "terse"] and len(problems) == 3
    assert "nowhere" in problems[0] and "no action" in problems[1] and "not an object" in problems[2]
    assert "cues:\n  - may I deploy today?\n---" in (staging.staged[0].text or "").replace('"', "")


FREEZE = "---\nname: Freeze\ndescription: Merge freeze from {}\ntype: {}\n---\n\nDecided {}. We deploy on Tuesdays.\n"


def test_a_raw_write_of_a_project_memory_has_its_dates_resolved() -> None:
    store, staging = make()
    raw = FREEZE.format("tomorrow", "project", "yesterday")
    staging.write("freeze", raw)
    dated = FREEZE.format("2026-03-06", "project", "2026-03-04")
    assert staging.read("freeze") == dated
    store.change(make_edits(staging.staged), verb="extract")
    assert store.read("freeze").text == dated and "Merge freeze from 2026-03-06" in store.index()
    staging.write("terse", staging.read("terse") + "\nSaid yesterday.\n")
    assert "Said yesterday." in staging.read("terse")  # feedback is of no day


def test_every_way_into_a_store_resolves_dates_and_only_of_what_is_new(memory: Path) -> None:
    write(memory / "three.md", FREEZE.format("tomorrow", "project", "yesterday"))
    with FileStore(memory, clock=lambda: NOW) as store:
        store.write(Draft(Kind.PROJECT, "One", "The demo for the board is tomorrow", "We met on Monday.\n", "one"))
        assert "2026-03-06" in store.index() and store.read("one").body == "We met on 2026-03-02.\n"
        store.change([Put("two", FREEZE.format("tomorrow", "project", "today"))], verb="save")
        assert store.read("two").text == FREEZE.format("2026-03-06", "project", "2026-03-05")
        found = store.read("three")
        store.edit("three", found.text + "\nThe vendor comes in two weeks.\n", expect=found.digest)
        assert store.read("three").text == found.text + "\nThe vendor comes on 2026-03-19.\n"
