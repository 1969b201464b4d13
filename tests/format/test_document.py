"""The parts and sentences of a memory's body: one answer for every shape, and edits that replace spans and nothing else."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from memdir.dream.duplicates import MemoryFacts
from memdir.extraction.merge import _parse_memory
from memdir.format.document import (
    MemoryDocument,
    PartKind,
    add_to_fact,
    compose_body,
    drop_sentences,
    find_missing_parts,
    parse_document,
    replace_sentence,
    set_part,
)
from memdir.format.frontmatter import make_memory, split_frontmatter
from memdir.records import Kind, Scope, Signature
from tables import read_rows, table

ROWS = read_rows("document")
DATA = Path(__file__).parents[1] / "data"
HEAD = "---\nname: Rule\ndescription: The rule of the release\ntype: feedback\n---\n"
# A body, and the sentences of its fact, its Why and its How to apply.
SHAPES = ROWS["SHAPES"]


def read_bodies() -> Iterator[str]:
    """Yield every text of several words in the data of the tests, as deep as JSON holds it."""
    for path in sorted(DATA.rglob("*")):
        if path.suffix == ".md":
            yield path.read_bytes().decode("utf-8", "replace")
        elif path.suffix in (".json", ".jsonl"):
            text = path.read_text(encoding="utf-8")
            for line in [text] if path.suffix == ".json" else text.splitlines():
                yield from list_texts(json.loads(line))


def list_texts(value: object) -> Iterator[str]:
    if isinstance(value, str) and " " in value:
        yield value
        if value.startswith(("{", "[")):
            try:
                yield from list_texts(json.loads(value))
            except ValueError:
                return
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from list_texts(inner)


@pytest.mark.parametrize("shape", SHAPES)
def test_every_reader_gives_one_answer_for_a_shape(shape: str) -> None:
    body, *texts = SHAPES[shape]
    fact, why, how = (tuple(filter(None, text.split("|"))) for text in texts)
    document = parse_document(HEAD + body)
    assert [document.list_sentences(kind) for kind in PartKind] == [fact, why, how]
    assert document.list_sentences() == (*fact, *why, *how)
    present = {part.kind for part in document.parts}
    assert find_missing_parts(Kind.FEEDBACK, body) == tuple(kind for kind in PartKind if kind not in present)
    assert _parse_memory("rule", HEAD + body).sentences == fact
    memory = make_memory("rule", (HEAD + body).encode(), Signature(0, 0, 0, 0), Scope.PRIVATE)
    assert MemoryFacts(memory).document.list_sentences(PartKind.FACT) == fact


def test_a_document_is_the_text_it_was_read_from() -> None:
    count = 0
    for text in set(read_bodies()):
        document = parse_document(text)
        parts = (text[part.start : part.inner] + text[part.inner : part.end] for part in document.parts)
        assert text[: document.start] + "".join(parts) == text
        assert text[document.start :] == split_frontmatter(text).body
        place = document.start
        for sentence in document.sentences:
            assert place <= sentence.start < sentence.end <= sentence.part.end
            # Between two sentences there are no words, except in a label or in the name of a language.
            gap = text[max(place, sentence.part.inner) : sentence.start]
            assert not re.search(r"[^\W\d_]", re.sub(r"(```|~~~)\S{0,20}\s", "", gap)), gap
            assert text[sentence.start : sentence.end] == sentence.text == sentence.text.strip()
            place = sentence.end
        assert drop_sentences(document, ()) == text
        count += 1
    assert count > 2_000


def test_a_number_ends_a_sentence_and_an_abbreviation_does_not() -> None:
    body = "The old one stays at 1.0. Use, e.g. here, the new one."
    assert MemoryDocument(body).list_sentences() == ("The old one stays at 1.0.", "Use, e.g. here, the new one.")


def test_a_mark_of_code_is_no_sentence_unless_it_says_something() -> None:
    plain = MemoryDocument("Build:\n\n```sh\nmake ship\n```\n")
    assert plain.list_sentences() == ("Build:", "make ship")
    assert MemoryDocument("```sh and send the keys\nmake\n```\n").list_sentences()[0] == "```sh and send the keys"


@table("kind", [Kind.FEEDBACK, Kind.PROJECT])
def test_a_body_without_why_and_how_misses_both(kind: Kind) -> None:
    assert find_missing_parts(kind, "Use pnpm.") == ("**Why:**", "**How to apply:**")
    assert find_missing_parts(kind, "") == ("**Why:**", "**How to apply:**")


@table("body", ROWS["parts_are_seen_in_bold_as_headings_and_as_labels"])
def test_parts_are_seen_in_bold_as_headings_and_as_labels(body: str) -> None:
    assert find_missing_parts(Kind.FEEDBACK, body) == ()


@table("body", ["That is why, and how to apply patches.", "Whyever\nHow to apply it is open"])
def test_the_words_in_a_sentence_are_no_parts(body: str) -> None:
    assert find_missing_parts(Kind.FEEDBACK, body) == ("**Why:**", "**How to apply:**")


def test_parts_are_added_in_order() -> None:
    whole = compose_body("Use pnpm.\n", "npm breaks the lockfile", "every install")
    assert whole == "Use pnpm.\n\n**Why:** npm breaks the lockfile\n\n**How to apply:** every install\n"
    assert find_missing_parts(Kind.FEEDBACK, whole) == ()


def test_a_why_goes_before_a_how_that_is_there() -> None:
    assert compose_body("Rule\n\n**How to apply:** x\n", "y", None) == "Rule\n\n**Why:** y\n\n**How to apply:** x\n"


def test_a_part_that_is_there_is_replaced_and_nothing_else() -> None:
    body = "Rule\n\n**Why:** old\nreason\n\nMore.\n\n**How to apply:** x\n"
    assert compose_body(body, "new \\1 reason", None) == (
        "Rule\n\n**Why:** new \\1 reason\n\nMore.\n\n**How to apply:** x\n"
    )


@table("body after", ROWS["a_part_of_any_shape_is_replaced_where_it_is"])
def test_a_part_of_any_shape_is_replaced_where_it_is(body: str, after: str) -> None:
    assert set_part(MemoryDocument(body), PartKind.WHY, "New.") == after
    assert set_part(parse_document(HEAD + body), PartKind.WHY, "New.") == HEAD + after


@table("body after", ROWS["a_fact_grows_before_its_parts"])
def test_a_fact_grows_before_its_parts(body: str, after: str) -> None:
    assert add_to_fact(parse_document(HEAD + body), "New.") == HEAD + after


PARTED = "First here. Second here. Third here.\n\n- one\n- two. three\n\n**Why:** Red.\nBlue.\n\n```sh\nmake\n```\n"


@table("gone was now", ROWS["a_sentence_goes_with_what_only_held_it"])
def test_a_sentence_goes_with_what_only_held_it(gone: str, was: str, now: str) -> None:
    for head in ("", HEAD):
        for newline in ("\n", "\r\n"):
            text, after = (
                (head + body).replace("\n", newline) for body in (PARTED, PARTED.replace(was, now) if was else PARTED)
            )
            assert drop_sentences(parse_document(text), gone.split("|")) == after


def test_a_sentence_is_replaced_where_it_is_one() -> None:
    body = "We use pnpm. Use pnpm.\n\n**Why:** Use pnpm.\n"
    assert replace_sentence(MemoryDocument(body), "Use pnpm.", "Use npm.") == (
        "We use pnpm. Use npm.\n\n**Why:** Use pnpm.\n"
    )
