"""Every hostile string as name, title, description, body and query: stored inside, or refused in one clear line."""

import base64
import json
import os
import random
import subprocess
import sys
import unicodedata
from pathlib import Path
from urllib.parse import unquote

import pytest

from loads import bench
from memdir.errors import MemdirError, PathError
from memdir.files import check_name
from memdir.format.frontmatter import make_slug
from memdir.operations.find import find_memory
from memdir.records import Draft, Kind
from memdir.store.files import FileStore
from memdir.store.memory import MemoryStore
from tables import table

GOOD = "Nightly build cache of the release branch"


def read_traversals() -> list[str]:
    folder = bench("security", "path_traversal")
    lines = [line for path in sorted(folder.rglob("*.txt")) for line in path.read_bytes().split(b"\n")]
    return [line.decode("utf-8", "replace") for line in lines if line]


def read_naughty() -> list[str]:
    found = json.loads(bench("security", "blns", "blns.json").read_text(encoding="utf-8"))
    return [str(text) for text in found]


def hostile_strings() -> list[str]:
    return [*read_traversals(), *read_naughty()]


def tree(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def climbs(name: str) -> bool:
    """Whether any reading of a name leaves its folder: literal, decoded three times, NFKC, or by Windows rules."""
    forms = {name}
    for _ in range(3):
        forms |= {unquote(form) for form in forms}
    forms |= {unicodedata.normalize("NFKC", form) for form in forms}
    return any(".." in form or ":" in form or "\\" in form or form.startswith("/") or "\0" in form for form in forms)


def test_no_hostile_name_is_accepted_that_any_reading_could_use_to_climb() -> None:
    accepted = []
    for text in hostile_strings():
        for name in (text, f"sub/{text}", text.removesuffix(".md")):
            try:
                check_name(name)
                accepted.append(name)
            except PathError as error:
                assert "\n" not in str(error)
    assert [name for name in accepted if climbs(name)] == []


def drafts_of(number: int, text: str) -> list[Draft]:
    title = f"Number {number}"
    return [
        Draft(Kind.USER, title, GOOD, "body", text),
        Draft(Kind.USER, text, GOOD, "body"),
        Draft(Kind.USER, title, f"{GOOD} {text}", "body", f"d{number}"),
        Draft(Kind.USER, title, GOOD, text, f"b{number}"),
    ]


def feed(store: FileStore | MemoryStore, texts: list[str]) -> int:
    """Every text in every field, taken out again; each refusal is one line. Answers how many were stored."""
    stored = 0
    for number, text in enumerate(texts):
        for draft in drafts_of(number, text):
            try:
                saved = store.write(draft)
            except MemdirError as error:
                assert str(error) and "\n" not in str(error)
                continue
            check_name(saved.header.name)
            assert f"({saved.header.name}.md)" in store.index()
            store.delete(saved.header.name)
            stored += 1
        try:
            find_memory([store], text)
        except MemdirError as error:
            assert "\n" not in str(error)
    return stored


def test_every_hostile_string_in_every_field_is_stored_under_a_good_name_or_refused() -> None:
    step = 1 if os.environ.get("MEMDIR_LOAD") == "full" else 4
    texts = hostile_strings()[::step]
    # Small stores: an index of thousands of lines would be all that this measures.
    assert sum(feed(MemoryStore(), texts[at : at + 100]) for at in range(0, len(texts), 100)) > 400


def test_hostile_strings_on_a_real_directory_stay_inside(tmp_path: Path) -> None:
    memory = tmp_path / "outer" / "memory"
    step = 1 if os.environ.get("MEMDIR_LOAD") == "full" else 40
    with FileStore(memory) as store:
        feed(store, hostile_strings()[::step])
    assert [path for path in tree(tmp_path) if not path.startswith("outer/memory") and path != "outer"] == []
    assert [path.name for path in memory.iterdir() if path.suffix == ".md"] in ([], ["MEMORY.md"])


def test_any_title_makes_a_name_that_the_guard_accepts() -> None:
    for text in hostile_strings():
        if text.strip():
            check_name(make_slug(text))


@table("name", ["naïve", "日本語", "हिन्दी", "Ünïcode_1", "مرحبا", "ёлка", "a" * 100])
def test_letters_of_any_script_are_fine(name: str) -> None:
    assert check_name(unicodedata.normalize("NFC", name))


@table("name", ["a" * 101, "é" * 101, "語" * 67, "x\u200by", "x\u202ey", "\u3164", "e\u0301", "a\ufe0f", "CON", "Lpt1", "mEmOrY",
     "ＭＥＭＯＲＹ", "a/" * 8 + "b", "logs/x", "a//b", "a/", "/a", ".hidden", "a.b", "con\u0307x/../y", "．．", "x\n",
     "😀"])  # fmt: skip
def test_anything_else_is_refused(name: str) -> None:
    with pytest.raises(PathError):
        check_name(name)


@table("root", ["/", "/a", "C:\\", "C:", "\\\\server\\share", "//server/share", "/x/\0/y", "~", "~/notes"])
def test_roots_that_could_be_anything_are_refused(root: str) -> None:
    with pytest.raises(PathError):
        FileStore(Path(root)).write(Draft(Kind.USER, "T", GOOD, "b"))


def test_the_command_line_answers_each_in_one_line(tmp_path: Path) -> None:
    """200 random strings through real processes, in every option a person could put them."""
    dice = random.Random(5)
    texts = [text for text in hostile_strings() if "\0" not in text and "\ufffd" not in text]
    options = [
        lambda text: ["save", "--type", "user", "--name", text, "--description", GOOD, "--body", "b"],
        lambda text: ["save", "--type", "user", "--title", text, "--description", GOOD, "--body", "b"],
        lambda text: ["save", "--type", "user", "--name", "n", "--description", text, "--body", "b", "--replace"],
        lambda text: ["save", "--type", "user", "--name", "n", "--description", GOOD, "--body", text, "--replace"],
        lambda text: ["read", "--", text],
        lambda text: ["forget", "--", text],
        lambda text: ["history", "--", text],
    ]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "HOME": str(tmp_path / "home")}
    project = tmp_path / "project"
    project.mkdir()
    (tmp_path / "home").mkdir()
    before = tree(tmp_path)
    for number, text in enumerate(dice.sample(texts, 200 if os.environ.get("MEMDIR_LOAD") == "full" else 60)):
        command = [sys.executable, "-m", "memdir", *options[number % len(options)](text)]
        done = subprocess.run(command, env=env, cwd=project, capture_output=True, stdin=subprocess.DEVNULL, check=False)
        shown = base64.b64encode(text.encode()).decode()
        assert done.returncode in (0, 1, 2), f"{shown}: {done.stderr!r}"
        assert b"Traceback" not in done.stderr and b"\x1b" not in done.stdout + done.stderr, shown
        if done.returncode == 1:
            lines = [line for line in done.stderr.splitlines() if line.startswith(b"memdir: ")]
            assert len(lines) == 1, f"{shown}: {done.stderr!r}"
    assert {path for path in tree(tmp_path) - before if not path.startswith("home/")} == set()
