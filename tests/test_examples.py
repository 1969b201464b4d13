"""The examples, run as a person runs them: as programs, against strict servers, on one day and on the next."""

import importlib.util
import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from homes import write
from loads import ROOT, scaled
from memdir.models.prompts import render_prompt
from memdir.session import Session
from memdir.store.files import FileStore
from memdir.store.state import read_runs
from opinions import find_opinion
from servers import Answer, AnthropicServer, Call, OpenAIServer
from tables import table

EXAMPLES = ROOT / "examples"
SECONDS = 120
TASK = render_prompt("extract_rules")[:60]
LOG = "Step 17 of the parser reads a token, looks at the stack of open blocks, and goes on to the next line.\n" * 1000
LOOK = "what does parser.log say?"
REMEMBER = "Remember that we deploy on Tuesdays only, because support is fully staffed then"
ASK = "on which day do we deploy?"
FILE = (
    "---\nname: Deploys\ndescription: We deploy on Tuesdays only\ntype: project\n---\n\nWe deploy on Tuesdays only.\n"
)
USERS = 100


def make_env(tmp_path: Path, **variables: str) -> dict[str, str]:
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    return {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": str(ROOT / "src"), **variables}


def run(name: str, *arguments: str, lines: list[str], env: Mapping[str, str]) -> str:
    """Run an example with these lines on its standard input; answers what it printed."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{name}.py"), *arguments],
        input="\n".join(lines),
        env=env,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def run_agent(name: str, folder: Path, lines: list[str], env: Mapping[str, str]) -> str:
    """The same for an example with an SDK; at a tenth of the load in this process, since its import takes seconds."""
    if scaled(10) == 10:
        return run(name, str(folder), lines=lines, env=env)
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(io.StringIO()) as out:
        for variable, value in env.items():
            patch.setenv(variable, value)
        example.chat(folder, lines)
    return out.getvalue()


def flatten(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def play(body: Mapping[str, Any]) -> Answer:
    """A model that answers people shortly, and as a fork keeps the deploy day once it was told of it."""
    if (opinion := find_opinion(body)) is not None:
        return opinion
    said = [flatten(at) for at in body["messages"]]
    task = next((at for at in range(len(said) - 1, -1, -1) if flatten(TASK)[1:-1] in said[at]), None)
    if task is None:
        return [Call("read_file", {"path": "parser.log"})] if LOOK in said[-1] else "Noted."
    is_told = any("Tuesdays only" in at and "Remember" in at for at in said[:task])
    if task == len(said) - 1 and is_told:
        return [Call("write_file", {"path": "memory/deploys.md", "content": FILE})]
    return "There is nothing else to keep."


def check_two_days(server: Any, name: str, folder: Path, env: Mapping[str, str]) -> None:
    write(folder / "parser.log", LOG)
    first = run_agent(name, folder, [LOOK, REMEMBER], env)
    assert first.count("Noted.") == 2 and "[Memory saved: deploys.md]" in first
    store = FileStore(folder / "memory")
    assert [header.name for header in store.scan()] == ["deploys"]
    shares = [row["cached_share"] for row in read_runs(store.state) if row["requests"]]
    assert shares and all(isinstance(share, float) and share >= 0.95 for share in shares), shares
    before = len(server.requests)
    run_agent(name, folder, [ASK, f"Thank you. {ASK}"], env)
    mine = [at.body["messages"] for at in server.requests[before:] if flatten(TASK)[1:-1] not in flatten(at.body)]
    mine = [at for at in mine if "The message:" not in flatten(at)]  # those of the selecting model
    assert [flatten(at).count("Memory (saved today)") for at in mine] == [1, 1], "told once, and kept in its place"
    assert mine[1][: len(mine[0])] == mine[0], "the beginning stays what it was"
    assert "deploys.md" in flatten(mine[0][:2]), "the index is there from the start"
    # A client learns which name of the limit the endpoint takes by one refusal.
    assert [at for at in server.problems if "max_completion_tokens" not in at] == []


def test_the_agent_on_the_anthropic_sdk_knows_tomorrow_what_it_was_told_today(tmp_path: Path) -> None:
    with AnthropicServer(play) as server:
        env = make_env(tmp_path, ANTHROPIC_BASE_URL=server.url, ANTHROPIC_API_KEY="sk-test-1234567890")
        check_two_days(server, "anthropic_agent", tmp_path / "agent", env)


def test_the_agent_on_the_openai_sdk_knows_tomorrow_what_it_was_told_today(tmp_path: Path) -> None:
    with OpenAIServer(play) as server:
        env = make_env(tmp_path, OPENAI_BASE_URL=server.url, OPENAI_API_KEY="sk-test-1234567890")
        check_two_days(server, "openai_agent", tmp_path / "agent", env)


def test_a_conversation_without_an_sdk_and_without_a_model_for_memory_knows_it_too(tmp_path: Path) -> None:
    memory = tmp_path / "agent" / "memory"
    with OpenAIServer(["Noted.", "On Tuesdays."]) as server:
        url, env = server.url, make_env(tmp_path)
        assert "[Memory saved: " in run("no_sdk", str(memory), url, lines=[REMEMBER], env=env)
        assert "On Tuesdays." in run("no_sdk", str(memory), url, lines=[ASK], env=env)
        assert server.problems == []
        assert flatten(server.requests[1].body).count("Memory (saved today)") == 1
    assert list((tmp_path / "home").rglob("*")) == [], "nothing is kept outside the memory's own directory"


@table("name", ["anthropic_agent", "openai_agent", "no_sdk", "web_server"])
def test_ten_lines_are_enough(name: str) -> None:
    source = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")
    marked = [line for line in source.splitlines() if line.endswith("# memory")]
    used = [line for line in source.splitlines() if re.search(r"(?<!memdir\.)\bsession\b|memdir\.\w+\(", line)]
    assert 0 < len(marked) <= 11
    assert [line for line in used if line not in marked] == []


def test_the_page_names_everything_a_session_has() -> None:
    page = (ROOT / "docs" / "library.md").read_text(encoding="utf-8")
    for name in (name for name in vars(Session) if not name.startswith("_")):
        assert f"`{name}" in page or f".{name}" in page or name in ("id", "file", "is_private"), name


@contextmanager
def serving(root: Path, env: Mapping[str, str]) -> Iterator[str]:
    """The web server; when it is left, it has been told to end and has ended by itself."""
    command = [sys.executable, str(EXAMPLES / "web_server.py"), str(root), "0"]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True, encoding="utf-8") as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
            process.send_signal(signal.SIGTERM)
            assert process.wait(SECONDS) == 0
        finally:
            process.kill()


def post(url: str, user: str, *texts: str) -> dict[str, Any]:
    body = json.dumps({"messages": [{"role": "user", "content": text} for text in texts]}).encode("utf-8")
    with urlopen(f"{url}/users/{user}", data=body, timeout=SECONDS) as answer:
        return dict(json.load(answer))


def at_once(count: int, change: Callable[[int], Any]) -> list[Any]:
    """What each of so many users got, all of them at the same moment."""
    ready, got = threading.Barrier(count), [None] * count

    def live(number: int) -> None:
        ready.wait(SECONDS)
        got[number] = change(number)

    threads = [threading.Thread(target=live, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    return got


def test_a_hundred_users_at_once_each_have_their_own_memory_and_nothing_is_lost(tmp_path: Path) -> None:
    root, env = tmp_path / "users", make_env(tmp_path)
    codes = [f"{number * 7919 + 104729}" for number in range(USERS)]
    with serving(root, env) as url:
        told = at_once(USERS, lambda n: post(url, f"user-{n}", f"Remember that my locker has the number {codes[n]}"))
        assert all(at is not None and at["recalled"] == [] for at in told)
    with serving(root, env) as url:
        got = at_once(USERS, lambda n: post(url, f"user-{n}", "which number does my locker have?"))
        for at, code in zip(got, codes, strict=True):
            assert at is not None and re.findall(r"\d{6}", at["text"]) == [code]
        assert all(at["recalled"] == [] for at in at_once(scaled(USERS), lambda n: post(url, f"new-{n}", ASK)))
    for number, code in enumerate(codes):
        found = {
            other
            for path in (root / f"user-{number}").rglob("*")
            if path.is_file()
            for other in re.findall(rb"(?<!\d)\d{6}(?!\d)", path.read_bytes())
            if other.decode() in codes
        }
        assert found == {code.encode()}, number
    assert list((tmp_path / "home").rglob("*")) == []


def test_an_address_that_is_no_users_is_refused(tmp_path: Path) -> None:
    with serving(tmp_path / "users", make_env(tmp_path)) as url:
        for user in ("..%2fadmin", "../admin", "A", "", "x" * 41, "a/b"):
            with pytest.raises(HTTPError) as error:
                post(url, user, ASK)
            error.value.close()
            assert error.value.code == 404
    assert not (tmp_path / "users").exists()
