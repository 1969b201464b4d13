"""What a person found of no use, or other conversations were shown, needs more to be shown again."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from hook_calls import Hooks
from memdir.limits import NOT_USEFUL_TIMES
from memdir.recall.pipeline import CERTAIN, NOT_USEFUL, RecallRequest, find_recalled, note_useless, record_recall
from memdir.records import Draft, Evidence, Header, Kind, Moment, Pick, Query
from memdir.store.files import FileStore
from memdir.store.sessions import SessionFile
from recall_stores import NOW, put


def test_after_three_times_a_memory_must_fit_better_until_it_changes(tmp_path: Path) -> None:
    now = [NOW]
    with FileStore(tmp_path / "memory", clock=lambda: now[0]) as store:
        put(store, "deploy-steps")

        def ask(sure: float, *, is_message: bool = True) -> list[str]:
            def choose(query: Query, headers: Sequence[Header], limit: int) -> list[Pick]:
                return [Pick(header, 1.0, Evidence(sure=sure)) for header in headers]

            request = RecallRequest([store], "how do we deploy", choose, now[0], is_message=is_message)
            return [pick.dropped for pick in find_recalled(request).picks]

        for _ in range(NOT_USEFUL_TIMES):
            assert ask(0.5) == [""]
            now[0] += timedelta(hours=1)
            note_useless(store, "deploy-steps")
        assert ask(0.5) == [NOT_USEFUL] and ask(CERTAIN + 0.1) == [""] and ask(0.5, is_message=False) == [""]
        assert store.count_recalls().by_name == {}, "these are not recalls"
        now[0] += timedelta(hours=1)
        draft = Draft(Kind.FEEDBACK, "Deploy Steps", "what is known of deploy steps by now", "New.", "deploy-steps")
        store.write(draft, expect=store.read("deploy-steps").digest)
        assert ask(0.5) == [""]


def test_a_memory_must_be_the_surer_the_more_conversations_were_shown_it(tmp_path: Path) -> None:
    with FileStore(tmp_path / "memory", clock=lambda: NOW) as store:
        put(store, "deploy-steps")

        def ask(sure: float, session: str) -> list[str]:
            def choose(query: Query, headers: Sequence[Header], limit: int) -> list[Pick]:
                return [Pick(header, 1.0, Evidence(sure=sure)) for header in headers]

            file, later = SessionFile(store.state, session), NOW + timedelta(hours=1)
            request = RecallRequest([store], "how do we deploy", choose, later, session=file, is_message=True)
            return [excerpt.header.name for excerpt in record_recall(find_recalled(request), request)]

        for session, sure, is_shown in (("a", 0.1, True), ("b", 0.4, False), ("b", 0.6, True), ("c", 0.9, False)):
            assert ask(sure, session) == ["deploy-steps"] * is_shown, session
        assert ask(CERTAIN + 0.1, "c") and ask(CERTAIN + 0.1, "d"), "a memory that certainly fits is always shown"


def test_the_command_line_records_it(tmp_path: Path) -> None:
    hooks = Hooks(tmp_path)
    hooks.cli.save("deploy-steps", "Deploys go through staging.", "--type", "project")
    assert hooks.cli("why", "deploy-steps", "--not-useful", "--json").json["surfaced"][0]["moment"] == Moment.NOT_USEFUL
