"""A headless `claude` as a model: the real client at a strict server, and programs that misbehave in its place."""

import json
import os
import select
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from claude_client import make_client
from homes import make_environment
from memdir.errors import ModelError, ReplyError, StoppedError, UnreachableError
from memdir.models import OpenModel, find_model, open_model
from memdir.models.claude_cli import make_claude_environ, render_claude_prompt
from memdir.models.connection import can_use_tools
from memdir.project.settings import read_environment, read_settings
from memdir.records import Message, Model, Request, StopReason
from modelling import NOW, READ, SCHEMA, ask, rows
from servers import AnthropicServer, Call, Fault, FaultKind


def open_claude(environ: Mapping[str, str], tmp_path: Path, spec: str = "claude-cli:claude-sonnet-5") -> Model:
    home = make_environment(tmp_path)
    environment = read_environment({**environ, "XDG_STATE_HOME": str(home.home / ".local" / "state")})
    settings = read_settings(environment, root=None)
    return open_model(spec, environment=environment, settings=settings, clock=lambda: NOW, tries=1)


def open_real(tmp_path: Path, url: str, **variables: str) -> Model:
    client = make_client(tmp_path, url, **variables)
    return open_claude({**client.environment(), "MEMDIR_CLAUDE": client.program}, tmp_path)


def open_script(tmp_path: Path, code: str, **variables: str) -> Model:
    """A program in the place of `claude`."""
    program = tmp_path / "claude"
    program.write_text(f"#!{sys.executable}\nimport json, os, sys, time\n{code}\n", encoding="utf-8")
    program.chmod(0o755)
    environ = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "MEMDIR_CLAUDE": str(program), **variables}
    return open_claude(environ, tmp_path)


# --- the real client ------------------------------------------------------------------------------------------------


def test_the_real_client_answers_with_usage_and_cost(tmp_path: Path) -> None:
    heard: list[str] = []
    with AnthropicServer(["Nothing is remembered."]) as server:
        model = open_real(tmp_path, server.url)
        reply = model(ask("What is remembered?", system="You are terse.", on_text=heard.append))
        assert server.problems == []
        (sent,) = server.requests
    assert reply.text == "Nothing is remembered." and heard == [reply.text] and reply.stop is StopReason.DONE
    assert reply.usage.input > 0 and reply.usage.output > 0 and reply.usage.dollars is not None
    assert sent.body["model"] == "claude-sonnet-5" and sent.body["tools"] == []
    assert "You are terse." in json.dumps(sent.body["system"]) and sent.body["max_tokens"] == 4096
    assert "What is remembered?" in json.dumps(sent.body["messages"])
    assert rows(tmp_path)[0].model == "claude-cli:claude-sonnet-5"


def test_the_real_client_gets_no_hooks_no_instructions_and_no_memory(tmp_path: Path) -> None:
    with AnthropicServer(["Yes.", "By hand."]) as server:
        client = make_client(tmp_path, server.url)
        model = open_claude({**client.environment(), "MEMDIR_CLAUDE": client.program}, tmp_path)
        ran = tmp_path / "a hook ran"
        home = tmp_path / "claude-home"
        hook = {"hooks": [{"type": "command", "command": f"touch {str(ran)!r}"}]}
        events = ("SessionStart", "UserPromptSubmit", "Stop", "SessionEnd")
        settings = {"hooks": {event: [hook] for event in events}}
        (home / ".claude").mkdir()
        (home / ".claude" / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
        (home / ".claude" / "CLAUDE.md").write_text("Always mention tangerines.", encoding="utf-8")
        servers = {"mcpServers": {"x": {"command": "touch", "args": [str(ran)]}}}
        (home / ".claude.json").write_text(json.dumps(servers), encoding="utf-8")
        assert model(ask()).text == "Yes."
        assert not ran.exists() and "tangerines" not in json.dumps(server.requests[0].body)
        assert client.list_transcripts() == []
        assert client("hello").out == "By hand."
        assert ran.exists() and "tangerines" in json.dumps(server.requests[1].body) and client.list_transcripts()


def test_the_real_client_gives_structured_output(tmp_path: Path) -> None:
    with AnthropicServer(lambda body: Call("StructuredOutput", {"names": ["a.md"]})) as server:
        reply = open_real(tmp_path, server.url)(ask(schema=SCHEMA))
    assert json.loads(reply.text) == {"names": ["a.md"]}


@pytest.mark.parametrize(
    ("kind", "reason", "passing"),
    [
        ("auth", "key", False),
        ("rate", "busy", True),
        ("overloaded", "down", True),
        ("usage_limit", "spent", False),
    ],
)
def test_the_real_clients_errors_have_their_reasons(
    tmp_path: Path, kind: FaultKind, reason: str, passing: bool
) -> None:
    with AnthropicServer(lambda body: Fault(kind)) as server:
        with pytest.raises(UnreachableError) as caught:
            open_real(tmp_path, server.url)(ask())
        assert len(server.requests) == 1
    assert (caught.value.reason, caught.value.passing) == (reason, passing), str(caught.value)


def test_a_cancelled_client_is_ended_at_once(tmp_path: Path) -> None:
    with AnthropicServer([Fault("stall")]) as server:
        model = open_real(tmp_path, server.url)
        with pytest.raises(StoppedError):
            model(ask(cancelled=server.stalled.is_set))
        server.close()
        assert server.dropped == 1


# --- programs that misbehave ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "error", "words"),
    [
        ("print('not json')", ReplyError, "did not print a result"),
        ("print('[1, 2]')", ReplyError, "did not print a result"),
        ("sys.exit('error: unknown option')", UnreachableError, "unknown option"),
        ("sys.exit(3)", UnreachableError, "ended with 3"),
        ("os.kill(os.getpid(), 9)", UnreachableError, "ended with -9"),
        (
            "print(json.dumps({'type': 'result', 'is_error': True, 'result': 'Not logged in'}))",
            UnreachableError,
            "Not logged in",
        ),
        ("print('x' * 10_000_000)", ReplyError, "did not print"),
    ],
)
def test_a_program_that_gives_no_result_is_one_clear_line(
    tmp_path: Path, code: str, error: type[ModelError], words: str
) -> None:
    with pytest.raises(error, match=words) as caught:
        open_script(tmp_path, code)(ask("long " * 100_000))
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 500


def test_a_program_that_hangs_is_ended_with_all_it_started(tmp_path: Path) -> None:
    code = (
        "import subprocess\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(1000)'])\n"
        f"open({str(tmp_path / 'pids')!r}, 'w', encoding='utf-8').write(f'{{os.getpid()}} {{child.pid}}')\n"
        "time.sleep(1000)"
    )
    model = open_script(tmp_path, code, MEMDIR_MODEL_SECONDS="1")
    with pytest.raises(UnreachableError) as caught:
        model(ask())
    assert caught.value.reason == "timeout"
    main, child = map(int, (tmp_path / "pids").read_text(encoding="utf-8").split())
    with pytest.raises(ProcessLookupError):
        os.kill(main, 0)
    assert has_ended(child)


def has_ended(pid: int) -> bool:
    """Whether a killed orphan ends: the signal is on its way when the caller goes on."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], 60)[0])
    finally:
        os.close(handle)


def test_the_child_is_marked_has_no_memory_and_belongs_to_no_session(tmp_path: Path) -> None:
    code = (
        "seen = dict(os.environ), os.getcwd(), sys.argv, sys.stdin.read()\n"
        "print(json.dumps({'type': 'result', 'result': json.dumps(seen)}))"
    )
    variables = {"CLAUDECODE": "1", "CLAUDE_CODE_SESSION_ID": "s", "MEMDIR_SESSION": "s", "CLAUDE_CONFIG_DIR": "/c"}
    reply = open_script(tmp_path, code, **variables)(ask("the private question", system="the private rules"))
    environ, cwd, argv, given = json.loads(reply.text)
    assert environ["MEMDIR_INSIDE"] == "1" and environ["CLAUDE_CODE_DISABLE_AUTO_MEMORY"] == "1"
    assert environ["CLAUDE_CONFIG_DIR"] == "/c"
    assert not {"CLAUDECODE", "CLAUDE_CODE_SESSION_ID", "MEMDIR_SESSION"} & set(environ)
    assert given == "the private question" and "private" not in " ".join(argv)
    assert "memdir-" in cwd and not Path(cwd).exists()
    for flag in ("--tools=", "--strict-mcp-config", "--no-session-persistence", "--disable-slash-commands"):
        assert flag in argv


def test_memdir_inside_a_claude_that_it_started_opens_no_model(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "MEMDIR_MODEL": "claude-cli", "MEMDIR_INSIDE": "1"}
    environment = read_environment(environ)
    settings = read_settings(environment, root=None)
    assert find_model(settings, environment) is None
    with pytest.raises(ModelError, match="inside a claude"):
        open_model("claude-cli", environment=environment, settings=settings)


def test_a_missing_program_says_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(ModelError) as caught:
        open_claude({"HOME": str(tmp_path), "PATH": str(tmp_path)}, tmp_path)
    assert "there is no program 'claude'" in str(caught.value) and "config set claude" in caught.value.hint


@pytest.mark.parametrize(
    "request_", [ask(tools=(READ,)), Request("", (Message("user", "x"),), 9, parent={"messages": []})]
)
def test_tools_and_parents_are_refused(tmp_path: Path, request_: Request) -> None:
    model = open_script(tmp_path, "sys.exit(1)")
    assert isinstance(model, OpenModel) and not can_use_tools(model)
    with pytest.raises(ModelError, match="neither tools nor a parent"):
        model(request_)


def test_a_conversation_is_one_text_and_says_who_spoke_where_more_than_one_did() -> None:
    assert render_claude_prompt((Message("user", "the list"), Message("user", "the query"))) == "the list\n\nthe query"
    said = render_claude_prompt((Message("user", "a"), Message("assistant", "b"), Message("user", "c")))
    assert said == "[User]\na\n\n[You, before]\nb\n\n[User]\nc"


def test_the_childs_room_is_the_requests(tmp_path: Path) -> None:
    environ = make_claude_environ(make_environment(tmp_path), 9000)
    assert environ["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] == "9000"
