"""What the dream by rules is measured by is enough, soundly labelled and soundly planted. No rule is asked anything."""

import difflib
import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import read_corpus
from dream_data import (
    DUPLICATES,
    MISSING,
    NOW,
    WAYS,
    Note,
    Planted,
    find_bench,
    plant,
    read_background,
    read_contradictions,
    read_dead_lines,
    read_facts,
    read_long_lines,
    read_lookalikes,
    read_relative,
)
from memdir.format.frontmatter import check_description, check_title, make_slug, parse_fields, split_frontmatter
from memdir.format.index import INDEX_FILE, parse_index
from memdir.language.dates import make_absolute
from memdir.limits import INDEX_LINE_CHARS
from memdir.records import Kind
from memdir.store.files import FileStore
from tables import table

LEAST = 12  # of each way, and of each sort of difference
SORTS = {"number", "date", "name", "negation", "unit"}
ATTRIBUTES = {"date", "version", "name", "yesno", "number"}
REASONS = {"subject", "attribute", "compatible", "specific", "past"}
NUMBER = re.compile(r"\d+(?:[.,:-]\d+)*")
QUOTED = re.compile(r"`[^`]+`|\"[^\"]+\"")
NEGATION = re.compile(r"\b(?:not|never|no|nobody|nothing|cannot|without|unless|unable)\b|n't\b", re.IGNORECASE)


def find_own_notes() -> Iterator[tuple[str, Note]]:
    """Everything of our own that carries no relative date on purpose."""
    for fact in read_facts():
        yield fact.id, fact.note
        yield from ((f"{fact.id} {at.way}", at.note) for at in fact.rewordings)
    sides = [(pair.id, pair.a, pair.b) for pair in read_lookalikes()]
    sides += [(claims.id, claims.a, claims.b) for claims in read_contradictions()]
    yield from ((f"{id_} {side}", note) for id_, a, b in sides for side, note in (("a", a), ("b", b)))
    yield from ((line.note.title, line.note) for line in read_long_lines())


def fold(text: str) -> str:
    """Letters and digits alone, in their case: two spellings of a name are two names."""
    return "".join(char for char in text if char.isalnum())


def count_claims(text: str) -> tuple[Counter[str], Counter[str], int]:
    """What is the same in two texts that say the same: numbers, quoted names, and how often something is denied."""
    return (
        Counter(NUMBER.findall(text)),
        Counter(QUOTED.findall(text)),
        len(NEGATION.findall(text)),
    )


def test_there_are_sixty_facts_of_all_four_types() -> None:
    assert len(read_facts()) == 60
    assert {fact.note.kind for fact in read_facts()} == set(Kind)


@table("way", WAYS)
def test_each_way_rewords_enough_facts_and_is_the_first_of_a_fifth(way: str) -> None:
    facts = read_facts()
    assert sum(any(at.way == way for at in fact.rewordings) for fact in facts) >= LEAST
    assert sum(fact.rewordings[0].way == way for fact in facts) == len(facts) // len(WAYS)
    assert all(at.way in WAYS for fact in facts for at in fact.rewordings)


def test_a_rewording_keeps_numbers_quoted_names_and_denials() -> None:
    pairs = [(fact, at) for fact in read_facts() for at in fact.rewordings]
    assert [(fact.id, at.way) for fact, at in pairs if count_claims(fact.note.body) != count_claims(at.note.body)] == []


def test_a_rewording_keeps_its_parts_and_changes_the_words() -> None:
    pairs = [(fact, at) for fact in read_facts() for at in fact.rewordings]
    assert [fact.id for fact, at in pairs if fold(fact.note.body) == fold(at.note.body)] == []
    assert [fact.id for fact, at in pairs if fact.note.body.count("**") != at.note.body.count("**")] == []
    assert [fact.id for fact in read_facts() if len({at.way for at in fact.rewordings}) < len(fact.rewordings)] == []


def test_an_added_clause_stands_in_the_rewording_and_not_in_the_fact() -> None:
    pairs = [(fact, at) for fact in read_facts() for at in fact.rewordings]
    assert [fact.id for fact, at in pairs if bool(at.clause) != (at.way == "clause")] == []
    added = [(fact, at) for fact, at in pairs if at.clause]
    assert [fact.id for fact, at in added if at.clause not in at.note.body or at.clause in fact.note.body] == []


def test_there_are_enough_look_alikes_of_each_sort() -> None:
    plain = Counter(pair.what for pair in read_lookalikes() if not pair.reworded)
    assert set(plain) == SORTS and min(plain.values()) >= LEAST
    assert {pair.what for pair in read_lookalikes() if pair.reworded} == SORTS


def test_look_alikes_differ_in_one_place_or_are_reworded_around_it() -> None:
    for pair in read_lookalikes():
        a, b = pair.differs
        assert a != b and a in pair.a.body and b in pair.b.body, pair.id
        if not pair.reworded:
            places = [at.start() for at in re.finditer(re.escape(a), pair.a.body)]
            assert pair.b.body in [pair.a.body[:at] + b + pair.a.body[at + len(a) :] for at in places], pair.id
            assert difflib.SequenceMatcher(None, pair.a.body, pair.b.body, autojunk=False).ratio() > 0.8, pair.id


def test_contradictions_are_enough_on_both_sides() -> None:
    rows = read_contradictions()
    assert len(rows) >= 100
    assert min(Counter(row.contradicts for row in rows).values()) >= 50
    for held in (True, False):
        counts = Counter(row.attribute for row in rows if row.contradicts is held)
        assert set(counts) == ATTRIBUTES and min(counts.values()) >= 9
    assert {row.why for row in rows if not row.contradicts} == REASONS
    assert {row.why for row in rows if row.contradicts} == {""}


def test_the_two_statements_of_a_row_are_never_the_same() -> None:
    assert [row.id for row in read_contradictions() if fold(row.a.body) == fold(row.b.body)] == []


def test_relative_dates_are_enough_and_in_six_languages() -> None:
    rows = read_relative()
    counts = Counter(row.lang for row in rows)
    assert len(rows) >= 40 and counts["en"] >= 30
    assert min(counts[lang] for lang in ("de", "fr", "es", "zh", "ja")) >= 2
    assert [row.id for row in rows if row.when.tzinfo is None or row.when >= NOW] == []
    assert [row.id for row in rows if row.note.kind is not Kind.PROJECT] == []


def test_a_relative_phrase_stands_there_once_and_its_absolute_one_is_a_date() -> None:
    rows = read_relative()
    assert [row.id for row in rows if row.note.body.count(row.was) != 1 or row.want in row.note.body] == []
    assert [row.id for row in rows if not re.search(r"\d{4}(?:-(?:\d\d|Q[1-4]))?", row.want)] == []


def test_only_the_phrase_itself_is_relative_in_those_memories() -> None:
    for row in read_relative():
        put = row.note.body.replace(row.was, row.want)
        assert make_absolute(put, row.when)[1] == () == make_absolute(row.note.description, row.when)[1], row.id


def test_nothing_else_of_our_own_has_a_relative_date() -> None:
    texts = ((where, f"{note.description}\n\n{note.body}") for where, note in find_own_notes())
    assert [where for where, text in texts if make_absolute(text, NOW)[1]] == []


def test_index_lines_are_enough_and_long_ones_hold_what_their_file_does_not() -> None:
    assert len(read_dead_lines()) == 30 and len(read_long_lines()) == 20
    for line in read_long_lines():
        assert line.keep in line.hook and line.keep not in line.note.body, line.note.title


def test_every_title_and_description_could_be_saved() -> None:
    for _, note in [*find_own_notes(), *((row.id, row.note) for row in read_relative())]:
        check_title(note.title)
        check_description(note.description, note.kind)


def test_no_text_stands_there_twice_by_accident() -> None:
    facts = [note.body for fact in read_facts() for note in (fact.note, *(at.note for at in fact.rewordings))]
    pairs = [note.body for pair in read_lookalikes() for note in (pair.a, pair.b)]
    rest = [row.note.body for row in read_relative()] + [line.note.body for line in read_long_lines()]
    counts = Counter(map(fold, [*facts, *pairs, *rest]))
    assert [text for text, count in counts.items() if count > 1] == []


def test_ids_count_up_from_one() -> None:
    for mark, rows in (
        ("f", read_facts()),
        ("l", read_lookalikes()),
        ("c", read_contradictions()),
        ("r", read_relative()),
    ):
        assert [row.id for row in rows] == [f"{mark}{place:03d}" for place in range(1, len(rows) + 1)]


def digest(folder: Path) -> dict[str, tuple[str, int]]:
    return {
        path.name: (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
        for path in folder.glob("*.md")
        if path.name != INDEX_FILE
    } | {INDEX_FILE: (hashlib.sha256((folder / INDEX_FILE).read_bytes()).hexdigest(), 0)}


def find_files(planted: Planted) -> list[str]:
    """Every planted name; a name that stands twice would be a file written over."""
    copies = [copy for _, copy in planted.duplicates]
    pairs = [name for _, a, b in (*planted.rewordings, *planted.lookalikes) for name in (a, b)]
    return [*planted.background, *copies, *pairs, *(name for _, name in (*planted.relative, *planted.long))]


@pytest.mark.parametrize("background", [0, 300])
def test_what_is_planted_lies_there_and_can_be_read(tmp_path: Path, background: int) -> None:
    if background and find_bench() is None:
        pytest.skip("bench data absent: locomo_observations")
    planted = plant(tmp_path / "memory", background=background)
    names = find_files(planted)
    assert planted.skipped == "" and len(planted.background) == background
    assert sorted(names) == sorted(path.stem for path in planted.folder.glob("*.md") if path.name != INDEX_FILE)
    with FileStore(planted.folder) as store:
        headers = {header.name: header for header in store.scan()}
    assert sorted(headers) == sorted(names)
    assert [header.name for header in headers.values() if header.problem or header.modified > NOW] == []
    assert [row.id for row, name in planted.relative if headers[name].modified != row.when] == []


def test_copies_are_copies_and_nothing_else_is(tmp_path: Path) -> None:
    planted = plant(tmp_path / "memory", background=0)
    texts = {name: (planted.folder / f"{name}.md").read_bytes() for name in find_files(planted)}
    assert len(planted.duplicates) == DUPLICATES
    assert [copy for name, copy in planted.duplicates if texts[name] != texts[copy]] == []
    bodies = Counter(split_frontmatter(text.decode("utf-8")).body for text in texts.values())
    assert sum(count - 1 for count in bodies.values()) == DUPLICATES


def test_the_index_points_to_all_but_the_missing_and_beyond_to_the_dead(tmp_path: Path) -> None:
    planted = plant(tmp_path / "memory", background=0)
    lines = [line for line in parse_index((planted.folder / INDEX_FILE).read_text(encoding="utf-8")) if line.is_pointer]
    pointed = Counter(line.name for line in lines)
    assert max(pointed.values()) == 1
    assert set(planted.dead) == set(pointed) - set(find_files(planted)) and len(planted.dead) == 30
    assert set(planted.missing) == set(find_files(planted)) - set(pointed) and len(planted.missing) == MISSING
    long = {line.name for line in lines if len(line.text.rstrip("\n")) > INDEX_LINE_CHARS}
    assert long == {name for _, name in planted.long} and len(long) == 20


def test_the_same_seed_plants_the_same_and_another_does_not(tmp_path: Path) -> None:
    first, second, third = (plant(tmp_path / str(number), background=0, seed=number // 2) for number in range(3))
    assert digest(first.folder) == digest(second.folder) != digest(third.folder)


def test_titles_make_names_that_differ_only_where_they_must(tmp_path: Path) -> None:
    planted = plant(tmp_path / "memory", background=0)
    for fact, name, other in planted.rewordings:
        assert (name, other) == (make_slug(fact.note.title), make_slug(fact.rewordings[0].note.title))
        fields = parse_fields((planted.folder / f"{other}.md").read_text(encoding="utf-8"))
        assert fields.title == fact.rewordings[0].note.title and fields.kind is fact.note.kind


def test_the_background_is_from_the_dev_half_with_questions_it_answers() -> None:
    home = find_bench()
    if home is None:
        pytest.skip("bench data absent: locomo_observations")
    groups = list(read_corpus(home / "corpus.jsonl"))
    entries, questions = read_background(300, seed=0)
    held = {entry.id for entry in entries}
    assert len(held) == 300 == len({fold(entry.text) for entry in entries})
    assert {entry.id.split("/")[0] for entry in entries} == set(groups[::2])
    assert len(questions) >= 150 and all(question.gold <= held for question in questions)


def test_without_the_public_data_the_rest_is_planted_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMDIR_BENCH", str(tmp_path / "nowhere"))
    planted = plant(tmp_path / "memory")
    assert planted.skipped.startswith("bench data absent")
    assert not planted.background and not planted.questions and len(planted.duplicates) == DUPLICATES
