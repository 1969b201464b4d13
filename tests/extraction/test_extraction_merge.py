"""Merging: a wish meets what memory already holds."""

from datetime import UTC, datetime

import pytest

from memdir.errors import NotFoundError
from memdir.extraction import extract
from memdir.extraction.find import MemoryRequest, find_requests
from memdir.extraction.merge import Placement, find_rival, is_said, place
from memdir.format import frontmatter
from memdir.models.staged import Staging, make_edits
from memdir.operations.write import WriteContext, remember
from memdir.records import Draft, Kind, Message, Origin
from memdir.store.memory import MemoryStore
from tables import read_rows, table

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
ROWS = read_rows("request_merges")


def hear(text: str, before: str = "I have done it.") -> MemoryRequest:
    wishes = find_requests([Message("assistant", before), Message("user", text, id="u1", at=NOW)], now=NOW)
    assert len(wishes) == 1, wishes
    return wishes[0]


def make(*told: str) -> tuple[MemoryStore, Staging]:
    """A store that was told these things before."""
    store = MemoryStore()
    for text in told:
        staging = Staging(store, now=NOW)
        place(hear(text), staging)
        store.change(make_edits(staging.staged), verb="extract")
    return store, Staging(store, now=NOW)


def meet(staging: Staging, text: str) -> Placement:
    (placed,) = place(hear(text), staging)
    return placed


def write(store: MemoryStore, name: str, description: str, body: str, kind: Kind = Kind.FEEDBACK) -> None:
    store.write(Draft(kind, name.replace("-", " ").title(), description, body, name))


def test_what_is_new_makes_a_memory_that_is_named_typed_and_described() -> None:
    _, staging = make()
    placed = meet(staging, "from now on write commit messages in the imperative mood")
    assert placed.action == "create"
    fields = frontmatter.parse_fields(staging.read(placed.name))
    assert (placed.name, fields.kind) == ("write-commit-messages-in-imperative-mood", Kind.FEEDBACK)
    assert fields.description == "from now on write commit messages in the imperative mood"


@table("again", ["remember that we deploy only on Tuesdays", "Please remember: we deploy on Tuesdays."])
def test_what_is_there_already_stays_as_it_is(again: str) -> None:
    _, staging = make("remember that we deploy only on Tuesdays")
    assert meet(staging, again).action == "unchanged"
    assert staging.staged == ()


@table(
    "old new",
    [
        ("remember that we deploy on Tuesdays", "we deploy on Tuesdays only, because support is staffed then"),
        ("remember that the demo account exists", "remember that the demo account must never be deleted"),
    ],
)
def test_what_says_more_about_the_same_is_added_or_kept_beside_it(old: str, new: str) -> None:
    _, staging = make(old)
    placed = meet(staging, new)
    assert placed.action in ("update", "create")
    assert new.removeprefix("remember that ") in staging.read(placed.name)


@table("old new gone", ROWS["a_correction_replaces_the_old_sentence"])
def test_a_correction_replaces_the_old_sentence(old: str, new: str, gone: str) -> None:
    store, staging = make(old)
    placed = meet(staging, new)
    assert (placed.action, len(staging.staged)) == ("update", 1)
    text = staging.read(placed.name)
    assert gone not in text, text
    assert [header.name for header in store.scan()] == [placed.name]


@table("old new", ROWS["what_only_disagrees_is_kept_beside_and_named"])
def test_what_only_disagrees_is_kept_beside_and_named(old: str, new: str) -> None:
    store, staging = make(old)
    (first,) = store.scan()
    placed = meet(staging, new)
    assert placed.action == "create"
    rival = find_rival(hear(new).body, placed.name, staging)
    assert rival is not None and rival[0] == first.name


def test_no_file_name_carries_a_date() -> None:
    _, staging = make("We freeze all merges from 2026-11-19, the mobile team cuts its release then.")
    placed = meet(staging, "No, we freeze all merges from 2026-11-20, the mobile team cuts its release a day later.")
    assert (placed.action, placed.name) == ("update", "freeze-merges")
    assert "2026-11-19" not in staging.read(placed.name)


@table("old new", ROWS["another_subject_is_another_memory"])
def test_another_subject_is_another_memory(old: str, new: str) -> None:
    _, staging = make(old)
    placed = meet(staging, new)
    assert placed.action == "create", staging.read(placed.name)


def test_a_merge_keeps_why_and_how_and_renews_the_description() -> None:
    store, _ = make()
    body = "The deploy day is Tuesday.\n\n**Why:** Support is fully staffed then.\n\n**How to apply:** Plan with it.\n"
    write(store, "deploy-day", "The deploy day is Tuesday", body, Kind.PROJECT)
    staging = Staging(store, now=NOW)
    assert meet(staging, "no, remember that the deploy day is Friday").name == "deploy-day"
    text = staging.read("deploy-day")
    assert "the deploy day is Friday" in text
    assert "Support is fully staffed then." in text and "Plan with it." in text
    assert frontmatter.parse_fields(text).description == "the deploy day is Friday"


def test_only_the_contradicted_sentence_of_a_longer_memory_changes() -> None:
    store, _ = make()
    body = "The staging server is called aurora. The deploy day is Tuesday. Backups run at night.\n"
    write(store, "staging", "Name of the staging server, deploy day, backups", body, Kind.PROJECT)
    staging = Staging(store, now=NOW)
    meet(staging, "no, remember that the deploy day is Friday.")
    told = frontmatter.split_frontmatter(staging.read("staging")).body.strip()
    assert told == "The staging server is called aurora. the deploy day is Friday. Backups run at night."


def test_two_wishes_of_one_run_meet_each_other() -> None:
    _, staging = make()
    first = meet(staging, "remember that the deploy day is Tuesday")
    assert meet(staging, "remember that the deploy day is Tuesday").action == "unchanged"
    assert meet(staging, "no, remember that the deploy day is Friday").name == first.name
    assert len(staging.staged) == 1


def test_a_taken_name_gets_a_number() -> None:
    store, _ = make()
    write(store, "deploy-only-on-tuesdays", "How the office plants are watered", "Water the plants.", Kind.REFERENCE)
    placed = meet(Staging(store, now=NOW), "remember that we deploy only on Tuesdays")
    assert (placed.action, placed.name) == ("create", "deploy-only-on-tuesdays-2")


@table("text", ["forget that I use vim", "please forget what I told you about vim", "vergiss, dass ich vim benutze"])
def test_a_memory_about_just_that_is_forgotten(text: str) -> None:
    store, _ = make("remember that I use vim for everything", "remember that we deploy on Tuesday")
    staging = Staging(store, now=NOW)
    assert meet(staging, text).action == "forget"
    assert [at.text for at in staging.staged] == [None]


def test_of_a_memory_that_holds_more_only_the_sentence_goes() -> None:
    store, _ = make()
    write(store, "tools", "Uses vim as editor and fish as shell", "Uses vim as editor. Uses fish as shell.", Kind.USER)
    staging = Staging(store, now=NOW)
    placed = meet(staging, "forget that I use vim")
    assert (placed.action, placed.name) == ("update", "tools")
    assert frontmatter.split_frontmatter(staging.read("tools")).body.strip() == "Uses fish as shell."
    assert "vim" not in staging.read("tools")


@table("said", ["I live in Ghent and am vegetarian", "I am vegetarian and allergic to nuts. Ask before you order."])
def test_a_forget_that_means_half_a_clause_changes_nothing_and_names_the_memory(said: str) -> None:
    store, _ = make()
    write(store, "facts", f"What the person told on home and work: {said}", said, Kind.USER)
    staging = Staging(store, now=NOW)
    placed = meet(staging, "forget that I am vegetarian")
    assert (placed.name, placed.action, staging.staged) == ("facts", "unclear", ())
    with pytest.raises(NotFoundError, match="facts also says something else") as raised:
        remember([store], "forget that I am vegetarian", WriteContext(Origin(), NOW))
    assert "memdir edit facts" in raised.value.hint and raised.value.name == "facts"


def test_a_forget_that_could_mean_two_memories_is_unclear() -> None:
    store, _ = make()
    write(store, "freeze-a", "Merge freeze for the mobile release", "Merge freeze for mobile.", Kind.PROJECT)
    write(store, "freeze-b", "Merge freeze for the backend release", "Merge freeze for backend.", Kind.PROJECT)
    staging = Staging(store, now=NOW)
    assert meet(staging, "forget what I said about the merge freeze").action == "unclear"
    assert staging.staged == ()
    assert meet(staging, "forget what I said about the merge freeze for mobile").name == "freeze-a"


def test_a_forget_that_means_nothing_known_is_unclear() -> None:
    _, staging = make("remember that we deploy on Tuesday")
    assert meet(staging, "forget that I live in Lisbon").action == "unclear"


def test_a_memory_says_a_wish_in_the_same_or_in_other_words() -> None:
    wish = hear("remember that the demo account must never be deleted, sales uses it daily")
    same = "---\nname: Demo\ndescription: The demo account must never be deleted\ntype: project\n---\n\n"
    assert is_said(wish, same + "Sales uses the demo account daily, so it must never be deleted.\n")
    assert not is_said(wish, same.replace("demo account must never be deleted", "office is closed") + "Closed.\n")


def test_a_memory_with_another_value_does_not_say_it() -> None:
    wish = hear("remember that the deploy day is Friday")
    assert not is_said(
        wish, "---\nname: Deploys\ndescription: The deploy day is Tuesday\ntype: project\n---\n\nTuesday.\n"
    )


def test_what_is_to_be_forgotten_is_recognised() -> None:
    wish = hear("forget that I prefer tabs")
    assert wish.target == "I prefer tabs"
    text = "---\nname: Tabs\ndescription: The user prefers tabs over spaces\ntype: feedback\n---\n\nTabs.\n"
    assert is_said(wish, text)
    assert not is_said(wish, text.replace("tabs", "cats").replace("Tabs", "Cats"))


def test_among_hundreds_of_others_a_new_subject_is_still_new() -> None:
    store = MemoryStore()
    for number in range(300):
        write(store, f"fact-{number}", f"Server number {number} stands in rack {number % 37}", f"Rack {number % 37}.")
    staging = Staging(store, now=NOW)
    assert meet(staging, "from now on keep answers under five sentences").action == "create"


def test_extract_takes_the_tables_of_an_api_and_the_name_of_a_model() -> None:
    store = MemoryStore()
    talk = [{"role": "user", "content": "Remember that the tracker is Linear"}, {"role": "assistant", "content": "ok"}]
    assert len(extract(store, talk, model="none").written) == 1
    assert "Linear" in store.scan()[0].description


@table("first second", ROWS["what_differs_in_a_number_a_sign_or_its_order_is_not_known_already"])
def test_what_differs_in_a_number_a_sign_or_its_order_is_not_known_already(first: str, second: str) -> None:
    store, staging = make(f"remember that {first}")
    assert meet(staging, f"remember that {second}").action == "create"
    store.change(make_edits(staging.staged), verb="extract")
    texts = "\n".join(store.read(at.name).text.lower() for at in store.scan())
    assert first.lower() in texts and second.lower() in texts


@table(
    "first second",
    [
        ("the beta flag is on", "the beta flag is off"),
        ("backups run while the database is up", "backups run while the database is down"),
        ("the report goes from us", "the report goes to us"),
    ],
)
def test_what_differs_in_a_small_word_is_kept_as_said_last(first: str, second: str) -> None:
    store, staging = make(f"remember that {first}")
    assert meet(staging, f"remember that {second}").action != "unchanged"
    store.change(make_edits(staging.staged), verb="extract")
    assert second in "\n".join(store.read(at.name).text.lower() for at in store.scan())
