"""`memdir demo`: three days in a temporary folder, for whoever has never seen it."""

from pathlib import Path

from chat_talk import Chats


def test_the_demo_shows_all_of_it_and_leaves_nothing_behind(tmp_path: Path) -> None:
    chats = Chats(tmp_path, TMPDIR=str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    before = sorted(tmp_path.rglob("*"))
    shown = chats.real("demo")
    assert shown.code == 0 and shown.err == ""
    assert sorted(tmp_path.rglob("*")) == before
    for told in (
        "Day one.",
        "Noted: We freeze all merges from 2026-03-05",
        "Changed: we freeze all merges from 2026-03-06",
        "[Memory forgotten: staging-database-reset-sunday-night.md]",
        "noted 6 days ago",
        "My memories disagree; the newest says: Pipeline bugs are tracked in Jira.",
        "I know nothing about that.",
        "background-of-the-user says the same text as data-scientist",
        "nothing lost:",
        "undone: change",
    ):
        assert told in shown.out, told
    assert "error" not in shown.out and "\x1b" not in shown.out
    assert len(shown.out.splitlines()) < 90
