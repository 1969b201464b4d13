"""What a dream does about memories that may no longer hold: repairs and reviews that wait for a person."""

import os
from datetime import timedelta
from pathlib import Path

import pytest

from decisions import approve, reject
from dream_stores import NOW
from homes import git, make_repository, write
from memdir.dream import dream
from memdir.dream.by_model import DreamContext, gather
from memdir.dream.stale import find_drifted, repair_text
from memdir.format.age import HALF_LIVES
from memdir.limits import DREAM_REVIEWS
from memdir.records import InboxItem
from memdir.store.files import FileStore
from memdir.testing import ScriptedModel
from memdir.verify.check import verify
from memdir.verify.records import CheckedClaim, Claim, ClaimKind, ClaimStatus, Verdict, VerifyState


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository in which `src/login.py` moved and `src/old.py` was removed."""
    root = make_repository(tmp_path / "app")
    write(root / "src" / "login.py", "def render_login():\n    return 'a form with two fields'\n" * 5)
    write(root / "src" / "old.py", "def handle_auth():\n    return 'nobody'\n" * 9)
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "one")
    git(root, "mv", "src/login.py", "src/entry.py")
    git(root, "rm", "-q", "src/old.py")
    git(root, "commit", "-q", "-m", "two")
    return root


def put(memory: Path, name: str, body: str, kind: str = "reference", days: float = 1, more: str = "") -> None:
    head = f"---\nname: About {name}\ndescription: what {name} is about, in short\ntype: {kind}\n{more}---\n\n"
    moment = (NOW - timedelta(days=days)).timestamp()
    os.utime(write(memory / f"{name}.md", f"{head}{body}\n"), (moment, moment))


def open_store(memory: Path) -> FileStore:
    return FileStore(memory, clock=lambda: NOW)


def items(store: FileStore, prefix: str) -> list[InboxItem]:
    return [item for item in store.inbox() if item.key.startswith(f"dream:{prefix}")]


def test_what_the_project_does_not_bear_out_is_proposed_for_repair_with_the_evidence(
    memory: Path, project: Path
) -> None:
    put(memory, "page", "The page is rendered by `src/login.py`.")
    put(memory, "auth", "Everybody passes `src/old.py`.")
    put(memory, "sound", "Forms are drawn in `src/entry.py`.")
    with open_store(memory) as store:
        before = {at.name: at.read_bytes() for at in memory.glob("*.md") if at.name != "MEMORY.md"}
        done = dream(store, now=NOW, context=DreamContext(project))
        found = {item.name: item for item in items(store, "repair")}
        assert set(found) == {"page", "auth"} and done.applied is not None and len(done.applied.waiting) == 2
        assert "src/entry.py" in found["page"].why and "src/old.py" in found["auth"].why
        assert "src/login.py" in str(found["page"].payload["evidence"])
        assert {at.name: at.read_bytes() for at in memory.glob("*.md") if at.name != "MEMORY.md"} == before
        approve(store, found["page"])
        assert store.read("page").body == "The page is rendered by `src/entry.py`.\n"
        approve(store, found["auth"])
        assert store.read("auth").body.startswith("Everybody passes `src/old.py`.\n\n**Checked 2026-03-05:** ")
        assert not verify(store, project, now=NOW, seconds=300).has_stale  # it says so itself now
        store.undo()
        assert "Checked" not in store.read("auth").body


def test_a_repair_is_asked_for_once(memory: Path, project: Path) -> None:
    put(memory, "auth", "Everybody passes `src/old.py`.")
    with open_store(memory) as store:
        for _ in range(2):
            dream(store, now=NOW, context=DreamContext(project))
        (item,) = items(store, "repair")
        reject(store, item)
        dream(store, now=NOW, context=DreamContext(project))
        assert items(store, "repair") == []


def test_pinned_memories_and_those_without_a_project_are_left_alone(memory: Path, project: Path) -> None:
    put(memory, "auth", "Everybody passes `src/old.py`.", more="pinned: true\n")
    put(memory, "page", "The page is rendered by `src/login.py`.")
    with open_store(memory) as store:
        dream(store, now=NOW)
        assert store.inbox() == ()
        put(memory, "page", "The page is rendered by the server.")
        dream(store, now=NOW, context=DreamContext(project))
        assert store.inbox() == ()


def claim(text: str, where: str, status: ClaimStatus, to: str = "", line: int = 7) -> CheckedClaim:
    start = text.index(where)
    made = Claim(ClaimKind.PATH, where, line, 1, start, start + len(where))
    return CheckedClaim(made, status, to=to)


def test_a_repair_keeps_every_word_and_every_line_end() -> None:
    text = "---\r\nname: A b.py\r\n---\r\n\r\nSee b.py and c.py.\r\n"
    moved = claim(text, "b.py and", ClaimStatus.MOVED)
    stale = [
        CheckedClaim(
            Claim(ClaimKind.PATH, "b.py", 5, 5, moved.claim.start, moved.claim.start + 4),
            ClaimStatus.MOVED,
            to="d/b.py",
        ),
        claim(text, "c.py", ClaimStatus.GONE),
    ]
    repaired = repair_text(text, stale, NOW)
    assert repaired.startswith("---\r\nname: A b.py\r\n---\r\n\r\nSee d/b.py and c.py.\r\n\r\n**Checked ")
    assert repaired.endswith(".\r\n") and "`c.py` is gone" in repaired


def test_a_name_in_the_head_is_told_and_not_replaced() -> None:
    text = "---\nname: A b.py\n---\n\nNothing else.\n"
    repaired = repair_text(text, [claim(text, "b.py", ClaimStatus.MOVED, "d.py", 2)], NOW)
    assert repaired.startswith("---\nname: A b.py\n---\n") and "`b.py` is now `d.py`" in repaired


def test_half_lives_decide_what_is_proposed_for_review(memory: Path) -> None:
    for kind, young, old in (("project", 80, 95), ("reference", 260, 280), ("user", 1000, 1100)):
        put(memory, f"young-{kind}", f"Something about the young {kind}.", kind, young)
        put(memory, f"old-{kind}", f"Another thing about the old {kind}.", kind, old)
    put(memory, "ancient-feedback", "How it shall be done.", "feedback", 9000)
    put(memory, "pinned", "Held for good.", "project", 900, "pinned: true\n")
    with open_store(memory) as store:
        dream(store, now=NOW)
        assert {item.name for item in items(store, "review")} == {"old-project", "old-reference", "old-user"}
        assert all(item.title.startswith("Still so?") for item in items(store, "review"))
        assert len(store.scan()) == 8  # nothing goes by age


def test_to_approve_a_review_makes_it_young_again(memory: Path) -> None:
    put(memory, "plan", "The plan is to move house.", "project", 200)
    with open_store(memory) as store:
        dream(store, now=NOW)
        (item,) = items(store, "review")
        approve(store, item)
        found = store.read("plan")
        assert "verified: " in found.text and found.body == "The plan is to move house.\n"
        os.utime(memory / "plan.md", (NOW.timestamp(), NOW.timestamp()))  # the test's clock, not the machine's
        dream(store, now=NOW + timedelta(days=30))
        assert items(store, "review") == []
        dream(store, now=NOW + timedelta(days=120))
        assert [item.name for item in items(store, "review")] == ["plan"]


def test_only_a_few_reviews_wait_at_a_time_and_none_is_asked_twice(memory: Path) -> None:
    for number in range(9):
        put(
            memory,
            f"plan-{number}",
            f"Plan number {number} is about {'abcdefghi'[number] * 7}.",
            "project",
            200 + number,
        )
    with open_store(memory) as store:
        dream(store, now=NOW)
        first = items(store, "review")
        assert [item.name for item in first] == ["plan-8", "plan-7", "plan-6"] and len(first) == DREAM_REVIEWS
        dream(store, now=NOW)
        assert items(store, "review") == first
        for item in first:
            reject(store, item)
        dream(store, now=NOW)
        assert [item.name for item in items(store, "review")] == ["plan-5", "plan-4", "plan-3"]


def test_a_model_is_shown_what_drifted_with_what_is_known_of_it(memory: Path, project: Path) -> None:
    put(memory, "auth", "Everybody passes `src/old.py`.")
    put(memory, "plan", "The plan is to move house.", "project", 40)
    put(memory, "fresh", "The plan is to paint the house.", "project", 3)
    put(memory, "over", "The fair is on 2026-02-20.", "project", 3)
    put(memory, "sound", "It is in `src/entry.py`.", "project", 400)
    model = ScriptedModel(['{"summary": "all in order"}'])
    with open_store(memory) as store:
        dream(store, model=model, now=NOW, context=DreamContext(project))
    (request,) = model.requests
    shown = request.messages[0].text.partition("May be out of date:")[2].partition("Without cues")[0]
    lines = [line for line in shown.splitlines() if line.startswith("- ")]
    assert lines[0] == "- over.md, of 2026-03-02: its last date, 2026-02-20, has passed"
    assert lines[1].startswith("- auth.md, of 2026-03-04: ") and "src/old.py" in lines[1]
    assert lines[2:] == ["- plan.md, of 2026-01-24"]


def test_what_is_known_to_be_stale_comes_before_what_is_only_old(memory: Path) -> None:
    put(memory, "old", "The plan is to move house.", "project", 400)
    put(memory, "stale", "It is in `src/x.py`.", "feedback", 1)
    with open_store(memory) as store:
        found = store.read("stale")
        gone = claim(found.text, "src/x.py", ClaimStatus.GONE)
        verdicts = {"stale": Verdict("stale", found.digest, VerifyState.STALE, NOW, (gone,))}
        assert [at.name for at in find_drifted(store.scan(), verdicts, HALF_LIVES, NOW)] == ["stale", "old"]
        assert "is gone" in gather(store, store, verdicts, now=NOW).render_drifted()


def test_a_verdict_of_an_older_text_proposes_nothing(memory: Path, project: Path) -> None:
    put(memory, "auth", "Everybody passes `src/old.py`.")
    with open_store(memory) as store:
        verify(store, project, now=NOW)
        put(memory, "auth", "Everybody passes the gate.")
        dream(store, now=NOW)
        assert store.inbox() == ()
