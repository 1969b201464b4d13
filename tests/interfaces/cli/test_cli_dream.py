"""`memdir dream` as a person and as a script calls it."""

import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from cli_terminal import Terminal
from clihelp import Cli
from dream_stores import DEAD, HOTFIX, MERGED, image, make_store
from memdir.dream.lock import hold_dream, read_last
from memdir.store.files import FileStore
from servers import AnthropicServer, Call, Fault, Say


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    cli = Cli(tmp_path)
    make_store(cli.memory).close()
    return cli


def by_model(server: AnthropicServer) -> dict[str, Any]:
    return {"MEMDIR_MODEL": "anthropic:claude-sonnet-5", "MEMDIR_MODEL_URL": server.url, "MEMDIR_MODEL_KEY": "k"}


def make_script() -> list[Any]:
    path = {"path": "memory/deploys.md"}
    why = {"reason": "hotfixes are deploys too", "evidence": "deploys, hotfixes"}
    return [
        [Call("read", path), Call("read", {"path": "memory/hotfixes.md"})],
        [Call("write", {**path, "content": MERGED, **why}), Call("delete", {"path": "memory/hotfixes.md", **why})],
        [Say('{"summary": "merged two memories"}')],
    ]


def test_a_dream_tells_what_it_did_and_how_to_undo_it(cli: Cli) -> None:
    before = image(cli.memory)
    told = cli("dream")
    assert told.code == 0 and told.err == ""
    assert "dead pointer long-gone" in told.out and "which does not exist" in told.out
    change = cli("dream", "--status", "--json").json["status"]
    assert change["last"] == "2026-03-05T12:00:00.000+00:00" and change["reason"] == "too_soon"
    assert "`memdir undo " in told.lines[-1]
    number = told.lines[-1].split("`")[1].split()[-1]
    assert cli("undo", number).code == 0 and image(cli.memory) == before


def test_a_kept_set_that_was_undone_says_how_to_bring_it_back(cli: Cli) -> None:
    id = cli("dream", "--preview", "--json").json["dream"]["id"]
    assert cli("dream", "--apply", id).code == 0
    assert "already applied, as change" in cli("dream", "--apply", id).out
    number = cli("undo").lines[-1].split("`")[1]
    assert f"and undone since; `{number}` restores it" in cli("dream", "--apply", id).out


def test_a_preview_shows_the_difference_with_reasons_and_keeps_it(cli: Cli) -> None:
    before = image(cli.memory)
    told = cli("dream", "--preview")
    assert told.code == 0 and f"-{DEAD.strip()}" in told.lines and "--- MEMORY.md" in told.lines
    assert image(cli.memory) == before and cli("inbox", "list", "--json").json == []
    id = told.lines[-1].split("--apply ")[1].split("`")[0]
    status = cli("dream", "--status")
    assert "last dream  never" in status.out and f"--apply {id}" in status.out
    row = cli("dream", "--apply", id, "--json").json["dream"]
    assert row["id"] == id and row["change"] is not None and DEAD not in (cli.memory / "MEMORY.md").read_text("utf-8")
    again = cli("dream", "--apply", id)
    assert "already applied" in again.out and f"undo {row['change']}" in again.out
    assert f"{id}, by rules" in cli("dream", "--status").out


def test_who_holds_the_lock_is_told(cli: Cli) -> None:
    with FileStore(cli.memory) as store:
        now = store.clock()
        with hold_dream(store.root, store.state, now=now):
            assert "another dream is in progress" in cli("dream", MEMDIR_NOW=now.isoformat()).refusal
            told = cli("dream", "--status", MEMDIR_NOW=now.isoformat())
            assert f"process {os.getpid()}" in told.out


def test_a_project_without_memory_gets_none(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    assert cli("dream").out == "no dream: there is nothing to tidy\n" and not cli.memory.exists()
    assert cli("dream", "--status").code == 0 and not cli.memory.exists()


def test_a_model_dreams_and_its_reasons_and_cost_are_told(cli: Cli) -> None:
    before = image(cli.memory)
    with AnthropicServer(make_script()) as server:
        told = cli("dream", **by_model(server))
    assert told.code == 0, told.err
    assert "merge deploys, hotfixes: hotfixes are deploys too" in told.out
    assert "3 requests, 4 calls" in told.out and "the model says: merged two memories" in told.out
    assert "nothing lost: of 2 sentences removed 2 in history, 2 also in another memory" in told.out
    assert HOTFIX in (cli.memory / "deploys.md").read_text("utf-8") and not (cli.memory / "hotfixes.md").exists()
    assert cli("undo").code == 0 and image(cli.memory) == before


def test_a_model_that_fails_is_told_and_what_patterns_repair_is_done(cli: Cli) -> None:
    with AnthropicServer([Fault("refusal")] * 3) as server:
        told = cli("dream", **by_model(server))
        row = cli("dream", "--json", **by_model(server)).json["dream"]
    assert told.code == 0 and told.lines[0].startswith("the model failed, so only built-in patterns were used: ")
    assert "dead pointer long-gone" in told.out and read_last(cli.memory) is None
    assert row["skipped"] == "failed" and "declined" in row["error"]


def test_a_model_that_cannot_be_opened_does_not_stop_the_patterns(cli: Cli) -> None:
    for _ in range(3):
        assert "unknown model" in cli("dream", MEMDIR_MODEL="nonsense").out
    assert "unknown model" in cli("dream", "--model", "nonsense").refusal
    told = cli("dream", MEMDIR_MODEL="nonsense")
    assert told.code == 0 and told.lines[0].startswith("without the model, ")


@pytest.mark.slow
def test_progress_is_shown_on_a_terminal_and_ctrl_c_puts_everything_back(cli: Cli) -> None:
    before = image(cli.memory)
    script, asked = iter(make_script()[:2]), threading.Event()

    def answer(_: object) -> Any:
        if (reply := next(script, None)) is not None:
            return reply
        asked.set()
        return Fault("stall")

    with AnthropicServer(answer) as server:
        terminal = Terminal(cli, "dream", TERM="xterm-256color", LC_ALL="C.UTF-8", **by_model(server))
        terminal.read_until("prune, 2 files")
        assert asked.wait(60)  # before that the vendor's SDK is at work, and leaves a socket open if interrupted
        os.kill(terminal.process.pid, signal.SIGINT)
        code, text = terminal.end()
        server.release()
    assert (code, "Traceback" in text) == (130, False), text
    assert "cancelled; nothing was changed" in text
    assert "[#" in text and "tokens" in text and "orient" in text
    assert image(cli.memory) == before and read_last(cli.memory) is None
    assert not (cli.memory / ".consolidate-lock").exists()
    assert cli("dream").code == 0, "and the next one is let in"


@pytest.mark.slow
def test_in_a_pipe_nothing_but_the_result_is_printed(cli: Cli) -> None:
    with AnthropicServer(make_script()) as server:
        told = cli.real("dream", **by_model(server))
    assert told.code == 0 and told.err == "" and "\x1b" not in told.out and "\r" not in told.out
