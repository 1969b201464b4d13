"""What doctor says of what nobody watches: hooks, their problems, the queue, the team's sync, settings."""

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from clihelp import NOW as CLI_NOW
from clihelp import Cli
from homes import write
from memdir.conversation.transcripts import TranscriptInfo
from memdir.interfaces.doctor import DoctorFinding, examine_background
from memdir.project.hosts import InstalledHost
from memdir.store.sessions import QueuedTurn, enqueue
from memdir.store.state import RECORD, note_event, note_problem
from memdir.sync.state import Membership, write_membership
from transcript_writer import Claude

NOW = datetime(2026, 11, 16, 9, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
EVENTS = ("session-start", "user-prompt", "stop")
HOOKS = [InstalledHost("claude-code", EVENTS, NOW - 72 * HOUR, Path("settings.json"))]


def find(
    state: Path, kind: str, hooks: list[InstalledHost] | None = None, ran: list[TranscriptInfo] | None = None
) -> list[DoctorFinding]:
    found = examine_background(state, now=NOW, installed=HOOKS if hooks is None else hooks, ran=ran or [])
    return [at for at in found if at.kind == kind]


def talk(hours: float, host: str = "claude-code", length: float = 0.5) -> TranscriptInfo:
    """A conversation that began so long ago and took so long, in hours."""
    return TranscriptInfo(Path("s.jsonl"), host, "s", "", NOW - hours * HOUR, NOW - (hours - length) * HOUR, NOW, 1)


def test_nothing_is_wrong_where_nothing_happened(tmp_path: Path) -> None:
    assert examine_background(tmp_path, now=NOW, installed=HOOKS) == ()
    assert examine_background(tmp_path / "none", now=NOW) == () and not (tmp_path / "none").exists()


def test_hooks_that_stayed_silent_through_two_sessions_are_told(tmp_path: Path) -> None:
    (found,) = find(tmp_path, "hooks_silent", ran=[talk(20), talk(10)])
    assert found.where == "claude-code" and found.message.startswith("no hook from claude-code")
    assert "memdir install claude-code" in found.fix


def test_one_event_that_does_not_arrive_is_named(tmp_path: Path) -> None:
    for event in EVENTS[:2]:
        note_event(tmp_path, "claude-code", event, NOW - 10 * HOUR)
    (found,) = find(tmp_path, "hooks_silent", ran=[talk(20), talk(10)])
    assert found.message.startswith("no stop hook from claude-code")


def test_hooks_that_fire_are_not_told(tmp_path: Path) -> None:
    for event in EVENTS:
        note_event(tmp_path, "claude-code", event, NOW - 9.9 * HOUR)
    assert find(tmp_path, "hooks_silent", ran=[talk(20), talk(10)]) == []


@pytest.mark.parametrize(
    "ran",
    [
        [],
        [talk(10)],  # one says little
        [talk(100), talk(90), talk(10)],  # before they were installed
        [talk(20, "codex"), talk(10, "codex")],  # another host
        [talk(20), talk(1, length=59 / 60)],  # still going on
    ],
)
def test_sessions_that_say_nothing_of_the_hooks_raise_no_alarm(tmp_path: Path, ran: list[TranscriptInfo]) -> None:
    assert find(tmp_path, "hooks_silent", ran=ran) == []


def wait_since(state: Path, moment: datetime) -> None:
    path = enqueue(state, QueuedTurn("s", "/nowhere/t.jsonl"))
    path.rename(path.with_name(f"{int(moment.timestamp() * 1e9):020d}-{path.name.partition('-')[2]}"))


def test_turns_that_wait_for_more_than_a_day_are_told(tmp_path: Path) -> None:
    wait_since(tmp_path, NOW - 40 * HOUR)
    wait_since(tmp_path, NOW - 30 * HOUR)
    wait_since(tmp_path, NOW - HOUR)
    (found,) = find(tmp_path, "queue")
    assert found.message.startswith("2 turns are still queued") and "memdir extract" in found.fix


def sync(state: Path, **facts: object) -> None:
    write_membership(state, Membership(remote="file:///nowhere.git"))
    write(state / RECORD, json.dumps({"at": NOW.isoformat(), "outcome": "synced", **facts}))


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"outcome": "failed", "error": "broken pipe"}, "failed: broken pipe"),
        ({"outcome": "denied", "error": "no rights"}, "refuses changes from this machine: no rights"),
        ({"outcome": "offline", "last_good": (NOW - 200 * HOUR).isoformat()}, "has not answered since"),
        ({"outcome": "offline"}, "has not answered"),
        ({"refused": {"team/x.md": "it holds a secret"}}, "not imported: it holds a secret"),
        ({"withheld": {"team/y.md": "it is too large"}}, "not sent: it is too large"),
    ],
)
def test_trouble_with_the_sync_is_told(tmp_path: Path, facts: dict[str, object], words: str) -> None:
    sync(tmp_path, **facts)
    (found,) = find(tmp_path, "team_sync")
    assert words in found.message and found.level == "warning"


def test_a_sync_that_works_or_was_offline_for_a_day_is_nothing_wrong(tmp_path: Path) -> None:
    sync(tmp_path)
    assert find(tmp_path, "team_sync") == []
    sync(tmp_path, outcome="offline", last_good=(NOW - 24 * HOUR).isoformat())
    assert find(tmp_path, "team_sync") == []


def config(cli: Cli, text: str) -> None:
    write(cli.home / ".config" / "memdir" / "config.toml", text)


@pytest.mark.parametrize("text", ["a = [", "dream_hours = 'soon'\n"])
def test_settings_that_cannot_be_read_are_a_finding_like_any_other(cli: Cli, text: str) -> None:
    config(cli, text)
    told = cli("doctor", "--json")
    (found,) = told.json["findings"]
    assert (found["kind"], found["level"], told.code) == ("unreadable_settings", "error", 1)
    assert "config.toml" in found["message"] and found["fix"] and told.json["counts"]["unreadable_settings"] == 1


def test_a_project_file_that_cannot_be_read_and_own_rules_that_are_broken_are_told(cli: Cli) -> None:
    write(cli.project / ".memdir.toml", "= broken")
    write(cli.home / ".config" / "memdir" / "secrets.toml", "[[rule]]\nid = 'x'\n")
    found = cli("doctor", "--json").json["findings"]
    assert [at["kind"] for at in found] == ["setting", "setting"]
    assert any(".memdir.toml" in at["message"] for at in found) and any("secrets.toml" in at["where"] for at in found)


def test_doctor_tells_of_hooks_problems_and_queue_and_fix_takes_problems_as_read(cli: Cli) -> None:
    cli.save()
    state = cli.memory / ".memdir"
    now = datetime.fromisoformat(CLI_NOW).astimezone()
    note_problem(state, "claude-code", "no room", now - HOUR)
    wait_since(state, now - 50 * HOUR)
    told = cli("doctor", "--json")
    assert told.code == 1 and {(at["scope"], at["kind"]) for at in told.json["findings"]} == {
        ("background", "hook_problem"),
        ("background", "queue"),
    }
    fixed = cli("doctor", "--fix", "--json").json
    assert fixed["fixed"] == 1 and [at["kind"] for at in fixed["findings"]] == ["queue"]
    assert cli("doctor", "--scope", "private", "--json").json["findings"] == []


def test_what_went_wrong_before_a_hook_knew_its_project_is_told_in_any(cli: Cli) -> None:
    cli.save()
    now = datetime.fromisoformat(CLI_NOW).astimezone()
    note_problem(cli.home / ".local" / "state" / "memdir", "codex", "no JSON object", now - HOUR)
    found = cli("doctor", "--json").json["findings"]
    assert [(at["kind"], "no JSON object" in at["message"]) for at in found] == [("hook_problem", True)]
    assert cli("doctor", "--fix", "--json").json["fixed"] == 1
    assert cli("doctor", "--json").json["findings"] == []


def test_installed_hooks_that_never_fired_are_seen_by_the_transcripts(cli: Cli) -> None:
    cli.save()
    hook = "memdir hook {} --host claude-code"
    groups = {
        name: [{"hooks": [{"type": "command", "command": hook.format(name)}]}] for name in ("SessionStart", "Stop")
    }
    settings = write(cli.home / ".claude" / "settings.json", json.dumps({"hooks": groups}))
    old = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
    os.utime(settings, (old, old))
    folder = cli.memory.parent
    for number in range(2):
        talk = Claude()
        talk.user("hello there", cwd=str(cli.project), sessionId=f"s-{number}")
        talk.assistant("hello", cwd=str(cli.project), sessionId=f"s-{number}")
        write(folder / f"s-{number}.jsonl", "\n".join(talk.lines()) + "\n")
    found = cli("doctor", "--json").json["findings"]
    assert [at["kind"] for at in found] == ["hooks_silent"] and "claude-code" in found[0]["message"]
    for event in ("session-start", "stop"):
        note_event(cli.memory / ".memdir", "claude-code", event, datetime(2026, 3, 5, 10, 1, tzinfo=UTC))
    assert cli("doctor", "--json").json["findings"] == []
