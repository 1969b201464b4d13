"""Helpers to test your own stores and agents: the contract of a store, a sample memory, a scripted model.

`check_store(make_store)` raises AssertionError with a message if a store breaks the contract. It needs no test
framework. It does not check durability, several processes, or history.
"""

from collections.abc import Callable, Iterable

from memdir.errors import ConflictError, FormatError, MemdirError, NotFoundError, PathError
from memdir.records import Draft, Kind, Reply, Request
from memdir.store.contract import Store


def sample_memory(kind: Kind = Kind.FEEDBACK, *, title: str = "Terse replies", name: str | None = None) -> Draft:
    return Draft(
        kind,
        title,
        "No summary paragraph at the end of a reply",
        "Leave out the closing summary.\n\n**Why:** the diff is read anyway.\n\n**How to apply:** in every reply.\n",
        name,
    )


class ScriptedModel:
    """A model that returns the answers, one per request, or raises them if they are errors, and keeps the requests."""

    def __init__(self, answers: Iterable[str | Reply | MemdirError]) -> None:
        self._answers = list(answers)
        self.requests: list[Request] = []

    def __call__(self, request: Request) -> Reply:
        self.requests.append(request)
        assert self._answers, f"the script has no answer for request {len(self.requests)}"
        answer = self._answers.pop(0)
        if isinstance(answer, MemdirError):
            raise answer
        return answer if isinstance(answer, Reply) else Reply(answer)


def check_store(make_store: Callable[[], Store]) -> None:
    """Check the complete contract; each part gets its own empty store."""
    for part in (
        _a_saved_memory_is_read_back,
        _the_index_points_to_it,
        _an_existing_memory_is_not_overwritten_blindly,
        _a_stale_digest_is_a_conflict,
        _two_titles_never_share_a_file,
        _names_differing_in_case_are_one,
        _a_forgotten_memory_is_gone,
        _a_pin_stays_until_taken_off,
        _bad_drafts_are_refused_whole,
        _names_outside_the_grammar_are_refused,
        _a_scan_is_newest_first,
    ):
        part(make_store())


def _a_saved_memory_is_read_back(store: Store) -> None:
    draft = sample_memory()
    saved = store.write(draft)
    read = store.read(saved.header.name)
    assert read.digest == saved.digest, "read must return what write returned"
    assert read.header.title == draft.title and read.header.description == draft.description, "fields are kept"
    assert read.header.kind is draft.kind, "the type is kept"
    assert read.body.strip() == draft.body.strip(), "the body is kept"
    assert [header.name for header in store.scan()] == [saved.header.name], "a scan lists it once"


def _the_index_points_to_it(store: Store) -> None:
    saved = store.write(sample_memory())
    line = f"]({saved.header.name}.md)"
    assert store.index().count(line) == 1, "one index line points to a saved memory"
    store.write(Draft(Kind.FEEDBACK, "Terse replies", "Never close with a summary", "Stop."), expect=saved.digest)
    assert store.index().count(line) == 1, "replacing keeps one line"
    assert "Never close with a summary" in store.index(), "the line follows the description"


def _an_existing_memory_is_not_overwritten_blindly(store: Store) -> None:
    saved = store.write(sample_memory())
    _expect(ConflictError, lambda: store.write(sample_memory(kind=Kind.USER)), "writing over an unseen memory")
    assert store.read(saved.header.name).digest == saved.digest, "a refused write changes nothing"


def _a_stale_digest_is_a_conflict(store: Store) -> None:
    saved = store.write(sample_memory())
    changed = Draft(Kind.FEEDBACK, "Terse replies", "Summaries only when asked for", "Ask first.")
    store.write(changed, expect=saved.digest)
    _expect(ConflictError, lambda: store.write(sample_memory(), expect=saved.digest), "a stale expect on write")
    _expect(ConflictError, lambda: store.delete(saved.header.name, expect=saved.digest), "a stale expect on delete")
    _expect(
        ConflictError, lambda: store.write(sample_memory(title="Other"), expect="0" * 64), "expecting a missing one"
    )
    assert store.read(saved.header.name).header.description == changed.description, "the newer version stays"


def _two_titles_never_share_a_file(store: Store) -> None:
    first = store.write(sample_memory(title="Terse replies"))
    second = store.write(sample_memory(title="Terse, replies!"))
    assert first.header.name != second.header.name, "another title gets another file"
    assert store.read(first.header.name).header.title == "Terse replies", "the first is untouched"


def _names_differing_in_case_are_one(store: Store) -> None:
    store.write(sample_memory(name="deploys"))
    _expect(ConflictError, lambda: store.write(sample_memory(title="Else", name="Deploys")), "a name in other case")


def _a_forgotten_memory_is_gone(store: Store) -> None:
    saved = store.write(sample_memory())
    store.delete(saved.header.name)
    _expect(NotFoundError, lambda: store.read(saved.header.name), "reading a forgotten memory")
    _expect(NotFoundError, lambda: store.delete(saved.header.name), "forgetting twice")
    assert saved.header.name not in store.index() and store.scan() == (), "nothing lists it afterwards"


def _a_pin_stays_until_taken_off(store: Store) -> None:
    draft = sample_memory()
    pinned = Draft(draft.kind, draft.title, draft.description, draft.body, pinned=True)
    saved = store.write(pinned)
    assert saved.header.pinned, "a pinned draft is a pinned memory"
    again = store.write(Draft(draft.kind, draft.title, draft.description, "Another body."), expect=saved.digest)
    assert again.header.pinned, "a draft without a pin setting leaves the pin"


def _bad_drafts_are_refused_whole(store: Store) -> None:
    good = sample_memory()
    for bad in (
        Draft(good.kind, "", good.description, good.body),
        Draft(good.kind, "two\nlines", good.description, good.body),
        Draft(good.kind, good.title, "user preference", good.body),
        Draft(good.kind, good.title, good.description, "  \n"),
        Draft(good.kind, good.title, good.description, "an \x1b[31m escape"),
        Draft("opinion", good.title, good.description, good.body),  # type: ignore[arg-type]
    ):
        _expect(FormatError, lambda bad=bad: store.write(bad), f"the draft {bad!r}")  # type: ignore[misc]
    assert store.scan() == () and store.index() == "", "a refused draft leaves nothing behind"


def _names_outside_the_grammar_are_refused(store: Store) -> None:
    for name in ("", "a b", *r". .. ../x a/../b /etc/x a\b x.md MEMORY memory con %2e%2e".split(), "a\0b"):
        _expect(PathError, lambda name=name: store.write(sample_memory(name=name)), f"the name {name!r}")  # type: ignore[misc]
    assert store.scan() == (), "a refused name leaves nothing behind"


def _a_scan_is_newest_first(store: Store) -> None:
    for title in ("First thing", "Second thing", "Third thing"):
        store.write(sample_memory(title=title))
    times = [header.modified for header in store.scan()]
    assert len(times) == 3 and times == sorted(times, reverse=True), "newest first"


def _expect(error: type[MemdirError], call: Callable[[], object], what: str) -> None:
    try:
        call()
    except error:
        return
    raise AssertionError(f"{what} must raise {error.__name__}")
