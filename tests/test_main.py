"""The end of a turn is kept before anything else is imported or opened, and is learned from whatever happens next."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import IO, Any

import pytest

from clihelp import NOW, Cli
from hook_calls import SECONDS, Hooks, wait_for_worker, wait_until
from memdir.project.settings import read_environment
from memdir.store.sessions import SessionFile, read_ended, read_queue
from memdir.store.state import note_event

WISH = "remember that the ferry leaves at six"


@pytest.fixture
def hooks(tmp_path: Path) -> Hooks:
    return Hooks(tmp_path)


def ended(hooks: Hooks) -> Path:
    return hooks.cli.home / ".local" / "state" / "memdir"


def end_turn(hooks: Hooks, event: str = "stop", code: str = "", **more: Any) -> subprocess.Popen[bytes]:
    """A hook as its host starts it; with `code` that runs before memdir does."""
    table = {
        "session_id": "s-1",
        "cwd": str(hooks.cli.project),
        "transcript_path": str(hooks.transcript(WISH, "Done.")),
        "last_assistant_message": "zebra",
        **more,
    }
    start = ["-c", f"{code}; sys.argv = ['memdir', 'hook', {event!r}]; import memdir.__main__ as at; at.main()"]
    command = [sys.executable, "-P", *(start if code else ["-m", "memdir", "hook", event])]
    process = subprocess.Popen(
        command, cwd=hooks.cli.project, env=hooks.cli.environ(), stdin=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdin is not None
    process.stdin.write(json.dumps(table).encode())
    process.stdin.close()
    process.stdin = None
    return process


def learned(hooks: Hooks) -> bool:
    return any("ferry leaves at six" in path.read_text("utf-8") for path in hooks.cli.memory.glob("*.md"))


def test_the_turn_is_kept_when_not_even_the_hooks_of_memdir_can_be_imported(hooks: Hooks) -> None:
    for event in ("stop", "session-end", "Stop", "SessionEnd", "before-compact", "AfterAgent"):
        process = end_turn(hooks, event, "import sys; sys.modules['memdir.interfaces.hooks'] = None")
        process.communicate(timeout=SECONDS)
        (turn,) = read_ended(ended(hooks))
        assert (turn.session, Path(turn.transcript).name, turn.cwd[-1]) == ("s-1", "s-1.jsonl", str(hooks.cli.project))
        assert b"zebra" not in turn.path.read_bytes() and turn.path.stat().st_mode & 0o777 == 0o600
        assert json.loads(turn.path.read_bytes())["position"] == Path(turn.transcript).stat().st_size
        turn.path.unlink()


def test_nothing_of_memdir_is_loaded_before_the_turn_is_kept(hooks: Hooks) -> None:
    code = (
        "import sys; import memdir.__main__ as at; print(at.keep_ended_turn(['stop'], at.read_input(60)), *sys.modules)"
    )
    given = json.dumps({"session_id": "s", "transcript_path": "/t.jsonl", "cwd": "/"}).encode()
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], env=hooks.cli.environ(), input=given, capture_output=True, check=True
    )
    path, *modules = done.stdout.decode().split()
    assert Path(path).is_file() and [at for at in modules if at.startswith("memdir")] == ["memdir", "memdir.__main__"]


def test_a_hook_killed_as_soon_as_the_turn_is_kept_loses_nothing(hooks: Hooks) -> None:
    process = end_turn(hooks)
    wait_until(lambda: bool(read_ended(ended(hooks))) or bool(read_queue(hooks.state)), "the turn is somewhere")
    process.kill()
    process.communicate(timeout=SECONDS)
    assert hooks.cli("extract").code == 0
    wait_until(lambda: learned(hooks), "it is learned")
    assert read_ended(ended(hooks)) == ()


def test_a_hook_that_does_its_work_leaves_nothing_behind(hooks: Hooks) -> None:
    assert end_turn(hooks).communicate(timeout=SECONDS)[1] == b""
    wait_for_worker(hooks.state)
    wait_until(lambda: learned(hooks), "it is learned")
    assert read_ended(ended(hooks)) == ()
    for more in ({"agent_id": "a"}, {"session_id": ""}, {"transcript_path": 7}, {"session_id": "s\0"}):
        end_turn(hooks, code="import sys; sys.modules['memdir.interfaces.hooks'] = None", **more).communicate()
        assert read_ended(ended(hooks)) == (), more


def make_prompt(size: int, text: str = "when does the ferry leave? ") -> bytes:
    return json.dumps({"session_id": "s", "prompt": (text * (size // len(text) + 1))[:size]}).encode()


INPUTS: dict[str, Callable[[], bytes]] = {
    **{at: at.encode for at in ("null", "true", "7", '"x"', "[]", "[{}]", "{}", "{} {}", "{", "", "\0", "\ufeff{}")},
    "64 MB": lambda: make_prompt(64_000_000),
    "more than 64 MB": lambda: make_prompt(70_000_000),
    "8 MB of words": lambda: make_prompt(8_000_000),
    "8 MB without a space": lambda: make_prompt(8_000_000, "我们什么时候可以部署服务"),
    "8 MB of ends": lambda: make_prompt(8_000_000, "}"),
    "8 MB of lists": lambda: b"[" * 8_000_000,
}


@pytest.mark.parametrize("event", ["user-prompt", "stop", "session-end", "before-compact"])
@pytest.mark.parametrize("end", ["closed", "open", "a byte at a time"])
def test_a_hook_returns_for_any_input(hooks: Hooks, event: str, end: str) -> None:
    """Within its deadline on a machine that has time for it: a few seconds of the processor, and no wait for an end."""
    hooks.cli("remember", "the ferry leaves at six")
    command = [sys.executable, "-P", "-m", "memdir", "hook", event]
    env = {**hooks.cli.environ(), "MEMDIR_HOOK_PATIENCE": "1"}
    slow = []
    for name, make in INPUTS.items() if end == "closed" else [("", INPUTS["{}"]), ("null", INPUTS["null"])]:
        process = subprocess.Popen(command, cwd=hooks.cli.project, env=env, stdin=subprocess.PIPE)
        assert process.stdin is not None
        over, data = threading.Event(), make()

        def feed(pipe: IO[bytes] = process.stdin, data: bytes = data, over: threading.Event = over) -> None:
            with suppress(OSError), pipe:
                pipe.write(data if end != "a byte at a time" else b"{")
                pipe.flush()
                while end != "closed" and not over.wait(0.01):
                    if end == "a byte at a time":
                        pipe.write(b" ")
                        pipe.flush()

        writer = threading.Thread(target=feed)
        writer.start()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        over.set()
        writer.join()
        slow += [(name, usage.ru_utime + usage.ru_stime)] if usage.ru_utime + usage.ru_stime > 4 else []
        assert process.returncode == 0 and read_ended(ended(hooks)) == (), name
    assert slow == []


def test_a_prompt_in_a_pipe_that_stays_open_and_one_of_eight_megabytes_are_answered(hooks: Hooks) -> None:
    hooks.cli(
        "remember",
        "the ferry to Lindholm leaves at six, from pier nine; on Sundays it is the small one, which takes no cars",
    )
    for session, ask in (("a", "when does the ferry leave?"), ("b", "when does the ferry leave? " * 300_000)):
        command = [sys.executable, "-P", "-m", "memdir", "hook", "user-prompt"]
        env = {**hooks.cli.environ(), "MEMDIR_HOOK_PATIENCE": "2"}
        with subprocess.Popen(command, cwd=hooks.cli.project, env=env, stdin=-1, stdout=-1) as process:
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write(json.dumps({"session_id": session, "prompt": ask}).encode())
            process.stdin.flush()
            assert b"leaves at six" in process.stdout.read(), session


def test_a_turn_that_settings_kept_from_the_queue_is_learned_when_they_are_mended(hooks: Hooks) -> None:
    config = hooks.cli.home / ".config" / "memdir" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text("= broken", encoding="utf-8")
    end_turn(hooks).communicate(timeout=SECONDS)
    assert len(read_ended(ended(hooks))) == 1
    config.unlink()
    found = [at for at in hooks.cli("doctor", "--json").json["findings"] if at["kind"] == "queue"]
    assert ["memdir extract" in at["fix"] for at in found] == [True]
    hooks("session-start", session="s-2")  # starts a worker
    wait_until(lambda: learned(hooks) and not read_ended(ended(hooks)), "it is learned")


def test_turns_of_another_project_go_to_that_project_and_one_without_a_project_stays(hooks: Hooks) -> None:
    other = hooks.cli.home / "work" / "other"
    (other / ".git").mkdir(parents=True)
    blind = "import sys; sys.modules['memdir.interfaces.hooks'] = None"
    end_turn(hooks, code=blind, cwd=str(other)).communicate(timeout=SECONDS)
    (path,) = (at.path for at in read_ended(ended(hooks)))
    (path.parent / "1-half.json").write_text('{"session": "s"', encoding="utf-8")
    gone = {"session": "s", "transcript": "/t.jsonl", "cwd": [str(other / "gone")], "host": "claude-code"}
    (path.parent / "2-gone.json").write_text(json.dumps(gone), encoding="utf-8")
    assert hooks.cli("extract").code == 0 and not learned(hooks)
    memory = Path(hooks.cli("where", "--json", cwd=other).json["private"]["path"])
    wait_until(lambda: any("ferry" in at.read_text("utf-8") for at in memory.glob("*.md")), "it is learned there")
    assert [at.path.name for at in read_ended(ended(hooks))] == ["2-gone.json"]
    os.utime(path.parent / "2-gone.json", (0, 0))
    assert hooks.cli("extract").code == 0 and read_ended(ended(hooks)) == ()


def test_a_session_start_finds_conversations_whose_end_no_hook_has_seen(hooks: Hooks) -> None:
    now = read_environment({"HOME": "/home", "MEMDIR_NOW": NOW}).now
    assert now is not None
    hooks("session-start", session="s-1")
    hooks("session-start", session="s-off")
    times = {"s-1": 60, "s-off": 60, "s-never": 60, "s-old": 3_000, "s-live": 1}
    for session, minutes in times.items():
        path = hooks.transcript(f"remember that the ferry {session} leaves at six", "Done.", session=session)
        at = (now - timedelta(minutes=minutes)).timestamp()
        os.utime(path, (at, at))
        if session in ("s-old", "s-live"):
            SessionFile(hooks.state, session).change(lambda at: SessionFile(hooks.state, "s-1").read())
    os.environ.pop("CLAUDE_CODE_DISABLE_AUTO_MEMORY", None)
    off = Hooks(hooks.cli.home.parent, CLAUDE_CODE_DISABLE_AUTO_MEMORY="1")
    off("stop", session="s-off", transcript_path="/t.jsonl")
    note_event(hooks.state, "claude-code", "session-start", now - timedelta(minutes=30))
    hooks("session-start", session="s-2", source="startup")
    wait_for_worker(hooks.state)
    hooks.cli("extract")
    texts = [path.read_text("utf-8") for path in hooks.cli.memory.glob("*.md") if path.name != "MEMORY.md"]
    assert ["s-1 leaves" in text for text in texts] == [True]
    hooks("session-start", session="s-3", source="startup")
    assert read_queue(hooks.state) == ()


def test_a_worker_leaves_the_processor_to_the_person() -> None:
    code = "import os, memdir.__main__ as m; before = os.nice(0); m._lower_priority(); print(os.nice(0) == min(before + 10, 19))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True)
    assert done.stdout == "True\n"


def call(cli: Cli, *argv: str, before: str = "", **variables: str) -> "subprocess.CompletedProcess[bytes]":
    """memdir as a process of its own, after a line of shell."""
    command = ["sh", "-c", f'{before} exec "$@"', "sh", *map(os.fsdecode, cli.command(*argv))]
    return subprocess.run(
        command, cwd=cli.project, env=cli.environ(**variables), capture_output=True, check=False, timeout=60
    )


@pytest.mark.parametrize("mask", ["000", "0777"])
def test_what_is_written_is_private_and_readable_under_any_umask(cli: Cli, mask: str) -> None:
    """S10, F5."""
    words = (
        "--type",
        "feedback",
        "--name",
        "ferry",
        "--description",
        "The ferry to Lindholm leaves at six",
        "--body",
        "Six.",
    )
    assert call(cli, "save", *words, before=f"umask {mask};").returncode == 0
    assert call(cli, "install", "codex", "--yes", before=f"umask {mask};").returncode == 0
    modes = {path: path.stat().st_mode & 0o777 for path in cli.home.rglob("*") if cli.project not in path.parents}
    assert {path for path, mode in modes.items() if mode & 0o022 or not mode & 0o400} <= {
        cli.project,
        cli.project.parent,
    }
    assert b"ferry" in call(cli, "list").stdout


def test_names_are_utf8_whatever_the_encoding_of_file_names(cli: Cli) -> None:
    """F5: in ASCII, memories with other names were not listed."""
    cli.save("ferry")
    path = cli.memory / "ferry.md"
    (path.parent / "fähre.md").write_bytes(path.read_bytes())
    done = call(cli, "list", LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    assert "fähre" in done.stdout.decode()


def test_import_refuses_a_fifo_and_a_device(cli: Cli) -> None:
    """S10: it hung, or read until memory was full."""
    os.mkfifo(cli.project / "pipe")
    (cli.project / "pipe.zip").symlink_to(cli.project / "pipe")
    for name in ("pipe", "pipe.zip", "/dev/zero"):
        done = call(cli, "import", name)
        assert done.returncode == 1 and b"not a regular file" in done.stderr
