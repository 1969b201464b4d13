"""The table of optional fields: every row keeps its value on every way through the product, and every file is checked."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from memdir.errors import FormatError
from memdir.format.fields import FIELDS, NO_FIELDS, check_fields, clean_fields, list_set
from memdir.format.frontmatter import compose_file, parse_fields
from memdir.frozen import list_fields
from memdir.models.staged import Staging, parse_draft
from memdir.operations.write import WriteContext, update
from memdir.records import Dialect, Draft, FieldChanges, Header, Kind, Origin, Put, Rewrite, Save, When
from memdir.store.files import FileStore
from memdir.store.inbox import parse_edits, render_edits

VALUES: dict[str, Any] = {
    "pinned": True,
    "cues": ("may I deploy today?", "who is on call: Ada #1"),
    "when": When(always=True, commands=("git push",)),
}
BROKEN: dict[str, Any] = {"cues": ("a",) * 6, "when": When(commands=("[",))}
HEAD = "---\nname: Deploys\ndescription: deploys happen on Tuesdays only\ntype: project\n"
NOW = datetime(2026, 3, 5, tzinfo=UTC)


def make_draft(name: str | None = None, **fields: Any) -> Draft:
    return Draft(Kind.PROJECT, "Deploys", "deploys happen on Tuesdays only", "On Tuesdays.\n", name, **fields)


def test_every_row_has_its_attributes_and_a_value_in_these_tests() -> None:
    for row in FIELDS:
        for record in (NO_FIELDS, make_draft()):
            assert row.key in list_fields(record)
        assert row.key in Header.__match_args__ and row.key in FieldChanges.__annotations__
        assert VALUES[row.key] != getattr(NO_FIELDS, row.key)


@pytest.mark.parametrize("dialect", list(Dialect))
def test_every_field_is_the_same_after_a_file_json_and_the_inbox(dialect: Dialect) -> None:
    values = {"name": "n", "description": "d", "type": "project"}
    text = compose_file({**values, **{row.key: row.render(VALUES[row.key]) for row in FIELDS}}, "Body", dialect)
    assert {row.key: getattr(parse_fields(text), row.key) for row in FIELDS} == VALUES
    assert {row.key: row.load(row.dump(VALUES[row.key])) for row in FIELDS} == VALUES
    empty = {row.key: getattr(NO_FIELDS, row.key) for row in FIELDS}  # removes the field, unlike None
    for fields in (VALUES, empty, {}):
        edits = (Save(make_draft("deploys", **fields)),)
        assert parse_edits(render_edits(edits)) == edits
    assert [row.load(7) for row in FIELDS] == [None] * len(FIELDS)


def test_a_store_keeps_every_field_in_file_header_and_cache_and_an_update_changes_one(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "memory")
    store.write(make_draft("deploys", **VALUES))
    for _ in range(2):  # the second time from the cache
        (header,) = store.scan()
        assert {row.key: getattr(header, row.key) for row in FIELDS} == VALUES
    whole = store.read("deploys").text
    assert {row.key: value for row, value in list_set(parse_draft("deploys", whole))} == VALUES
    context = WriteContext(Origin(), NOW)
    for row in FIELDS:
        update(store, "deploys", {row.key: getattr(NO_FIELDS, row.key)}, context)  # type: ignore[misc]
        left = {other.key for other, _ in list_set(parse_fields(store.read("deploys").text))}
        assert left == VALUES.keys() - {row.key}
        update(store, "deploys", {row.key: VALUES[row.key]}, context)  # type: ignore[misc]
    assert sorted(store.read("deploys").text.split("\n")) == sorted(whole.split("\n"))
    (tmp_path / "memory" / "bare.md").write_text("On Tuesdays.\n", encoding="utf-8")
    store.write(make_draft("bare", **VALUES), expect=store.read("bare").digest)
    assert store.read("bare").text == whole, "a file without frontmatter becomes the same as a new one"


@pytest.mark.parametrize("character", ["\a", "\x7f", "\u200b", "\u202e", "\ud800", "\U000e0041"])
def test_a_text_with_a_control_or_invisible_character_is_refused(character: str) -> None:
    with pytest.raises(FormatError, match=rf"`cues` contains the character U\+{ord(character):04X}"):
        clean_fields(make_draft(cues=("fine", f"be{character}ta")))
    draft = clean_fields(make_draft(cues=(" a\n b\t", " ", "é 日本 👩\u200d🔬")))
    assert draft.cues == ("a b", "é 日本 👩\u200d🔬")


def test_a_whole_file_is_checked_like_a_draft_and_may_keep_what_it_had(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "memory")
    for key, value in BROKEN.items():
        row = next(row for row in FIELDS if row.key == key)
        text = compose_file(
            {"name": "n", "description": "deploys happen on Tuesdays only", "type": "project", key: row.render(value)},
            "Body",
            Dialect.FLAT,
        )
        with pytest.raises(FormatError) as as_draft:
            check_fields(make_draft(**{key: value}))
        with pytest.raises(FormatError) as as_file:
            store.change([Put(f"new-{key}", text)], verb="save")
        assert str(as_file.value) == str(as_draft.value) and as_file.value.field == key
        path = tmp_path / "memory" / f"old-{key}.md"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        old = store.read(f"old-{key}")
        store.change([Rewrite(old.name, old.text.replace("Body", "Corrected"), old.digest)], verb="edit")
        good = store.write(Draft(Kind.PROJECT, f"Good {key}", "deploys happen on Mondays too", "Body", f"good-{key}"))
        with pytest.raises(FormatError):
            store.change([Rewrite(good.name, text, good.digest)], verb="edit")
        with pytest.raises(FormatError):
            Staging(store, now=NOW).write(good.name, text)
    with pytest.raises(FormatError, match="the title has"):
        store.change([Put("long", f"{HEAD.replace('Deploys', 'x' * 201)}---\nBody\n")], verb="save")
