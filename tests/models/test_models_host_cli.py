"""The programs of coding agents as models: the real clients at servers on loopback, and programs that misbehave."""

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
from memdir.models.connection import can_use_tools
from memdir.models.host_cli import render_host_prompt
from memdir.models.open import OpenModel, find_model, open_model
from memdir.project.settings import read_environment, read_settings
from memdir.records import Message, Model, Request, StopReason
from other_clients import Api, Client, make_codex, make_gemini, serving
from scripted_models import NOW, READ, SCHEMA, ask, rows
from servers import AnthropicServer, Call, Fault, FaultKind
from tables import read_rows

ROWS = read_rows("models_host_cli")


def open_program(environ: Mapping[str, str], tmp_path: Path, spec: str = "claude-cli:claude-sonnet-5") -> Model:
    home = make_environment(tmp_path)
    environment = read_environment({**environ, "XDG_STATE_HOME": str(home.home / ".local" / "state")})
    settings = read_settings(environment, root=None)
    return open_model(spec, environment=environment, settings=settings, clock=lambda: NOW, tries=1)


def open_real(tmp_path: Path, url: str, **variables: str) -> Model:
    client = make_client(tmp_path, url, **variables)
    return open_program({**client.environment(), "MEMDIR_CLAUDE": client.program}, tmp_path)


def open_script(tmp_path: Path, code: str, spec: str = "claude-cli:claude-sonnet-5", **variables: str) -> Model:
    """A program in the place of the real one."""
    key = spec.partition("-")[0]
    program = tmp_path / key
    program.write_text(f"#!{sys.executable}\nimport json, os, sys, time\n{code}\n", encoding="utf-8")
    program.chmod(0o755)
    named = {f"MEMDIR_{key.upper()}": str(program)}
    return open_program({"HOME": str(tmp_path), "PATH": os.environ["PATH"], **named, **variables}, tmp_path, spec)


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
        model = open_program({**client.environment(), "MEMDIR_CLAUDE": client.program}, tmp_path)
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


@pytest.mark.parametrize(("kind", "reason", "passing"), ROWS["the_real_clients_errors_have_their_reasons"])
def test_the_real_clients_errors_have_their_reasons(
    tmp_path: Path, kind: FaultKind, reason: str, passing: bool
) -> None:
    with AnthropicServer(lambda body: Fault(kind)) as server:
        with pytest.raises(UnreachableError) as caught:
            open_real(tmp_path, server.url)(ask())
        assert len(server.requests) == 1
    assert (caught.value.reason, caught.value.is_transient) == (reason, passing), str(caught.value)


def test_a_cancelled_client_is_ended_at_once(tmp_path: Path) -> None:
    with AnthropicServer([Fault("stall")]) as server:
        model = open_real(tmp_path, server.url)
        with pytest.raises(StoppedError):
            model(ask(cancelled=server.stalled.is_set))
        server.close()
        assert server.dropped == 1


def test_a_path_in_a_conversation_is_not_read_and_sent(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("The kumquat is ripe.", encoding="utf-8")
    with AnthropicServer(["Yes."]) as server:
        open_real(tmp_path, server.url)(ask(f"look at @{secret} please"))
        assert str(secret) in json.dumps(server.requests[0].body)
        assert "kumquat" not in json.dumps(server.requests[0].body)


def open_other(client: Client, tmp_path: Path, spec: str) -> Model:
    """The model of a real Codex or Gemini CLI whose settings have hooks and MCP servers; none of them may run."""
    key = spec.partition("-")[0]
    return open_program({**client.variables, f"MEMDIR_{key.upper()}": client.shim}, tmp_path, spec)


def write_hooks(path: Path, ran: Path, table: dict[str, object]) -> None:
    hook = {"hooks": [{"type": "command", "command": f"touch {str(ran)!r}"}]}
    events = ("SessionStart", "UserPromptSubmit", "Stop", "SessionEnd", "BeforeAgent", "AfterAgent", "BeforeModel")
    path.write_text(json.dumps({**table, "hooks": {event: [hook] for event in events}}), encoding="utf-8")


def check_words(api: Api, secret: Path) -> str:
    (body,) = api.bodies
    sent = json.dumps(body)
    assert "You are terse." in sent and "What is remembered?" in sent and str(secret) in sent
    assert "kumquat" not in sent
    return sent


def test_the_real_codex_answers_without_tools_hooks_servers_and_session(tmp_path: Path) -> None:
    ran, secret = tmp_path / "ran", tmp_path / "secret.txt"
    secret.write_text("The kumquat is ripe.", encoding="utf-8")
    with serving() as api:
        client = make_codex(tmp_path, api)
        folder = client.home / ".codex"
        config = folder / "config.toml"
        server = f'[mcp_servers."the x"]\ncommand = "touch"\nargs = ["{ran}"]\n'
        config.write_text(
            f'notify = ["touch", "{ran}"]\n' + config.read_text(encoding="utf-8") + server, encoding="utf-8"
        )
        write_hooks(folder / "hooks.json", ran, {})
        model = open_other(client, tmp_path, "codex-cli:gpt-5.5")
        api.script = ['{"names": ["a.md"]}', 429, 400]
        question = ask(f"What is remembered? @{secret}", system="You are terse.", schema=SCHEMA)
        reply = model(question)
        assert reply.text == '{"names": ["a.md"]}' and (reply.usage.fresh, reply.usage.output) == (9, 1)
        check_words(api, secret)
        body = api.bodies[0]
        assert {tool["name"] for tool in body["tools"]} <= {
            "apply_patch",
            "request_user_input",
        }  # in a read-only sandbox
        assert body["text"]["format"]["type"] == "json_schema" and body["model"] == "gpt-5.5"
        assert not ran.exists() and not list(folder.glob("sessions/**/*.jsonl"))
        for reason in ("busy", "refused"):
            with pytest.raises(UnreachableError) as caught:
                model(question)
            assert caught.value.reason == reason
    assert rows(tmp_path)[0].model == "codex-cli:gpt-5.5"


def test_the_real_gemini_answers_without_tools_hooks_servers_and_session(tmp_path: Path) -> None:
    ran, secret = tmp_path / "ran", tmp_path / "secret.txt"
    secret.write_text("The kumquat is ripe.", encoding="utf-8")
    with serving() as api:
        client = make_gemini(tmp_path, api)
        path = client.home / ".gemini" / "settings.json"
        servers = {"mcpServers": {"x": {"command": "touch", "args": [str(ran)]}}}
        write_hooks(path, ran, json.loads(path.read_text(encoding="utf-8")) | servers)
        model = open_other(client, tmp_path, "gemini-cli")
        api.script = ['{"names": ["a.md"]}', 503]
        question = ask(f"What is remembered? @{secret}", system="You are terse.", schema=SCHEMA)
        reply = model(question)
        assert reply.text == '{"names": ["a.md"]}' and (reply.usage.fresh, reply.usage.output) == (9, 1)
        assert '\\"names\\"' in check_words(api, secret)  # the schema, in words
        assert api.bodies[0]["tools"] == [{"functionDeclarations": []}]
        with pytest.raises(UnreachableError) as caught:
            model(question)
        assert caught.value.reason == "down" and "Not today" in str(caught.value) and len(api.bodies) == 2
    assert not ran.exists() and not list(path.parent.glob("tmp/*/chats/*"))
    assert len(json.loads((path.parent / "projects.json").read_bytes())["projects"]) == 1
    assert not list(tmp_path.glob("gemini-client-error*"))


@pytest.mark.parametrize(
    ("code", "error", "words"),
    [
        ("print('not json')", ReplyError, "did not print a result"),
        ("print('[1, 2]')", ReplyError, "did not print a result"),
        ("sys.exit('error: unknown option')", UnreachableError, "unknown option"),
        ("sys.exit(3)", UnreachableError, "exit code 3"),
        ("os.kill(os.getpid(), 9)", UnreachableError, "exit code -9"),
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


FAILED = "print(json.dumps({'type': 'turn.failed', 'error': {'message': %r}}))"
STOPPED = "sys.stderr.write('at x {\\n}\\n' + json.dumps({'session_id': 's', 'error': %r}, indent=2)); sys.exit(41)"


@pytest.mark.parametrize(("spec", "code", "reason", "words"), ROWS["errors_of_the_other_programs_have_their_reasons"])
def test_errors_of_the_other_programs_have_their_reasons(
    tmp_path: Path, spec: str, code: str, reason: str, words: str
) -> None:
    with pytest.raises(ModelError) as caught:
        open_script(tmp_path, code, spec)(ask())
    assert getattr(caught.value, "reason", "") == reason and words in f"{caught.value}; {caught.value.hint}"


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


@pytest.mark.parametrize("spec", ["codex-cli", "gemini-cli:pro"])
def test_the_other_programs_are_marked_and_get_the_text_by_standard_input(tmp_path: Path, spec: str) -> None:
    seen = "text = json.dumps([dict(os.environ), os.getcwd(), sys.argv, sys.stdin.read()])\n"
    codex = "print(json.dumps({'item': {'type': 'agent_message', 'text': text}}))"
    code = seen + (codex if spec == "codex-cli" else "print(json.dumps({'session_id': 's', 'response': text}))")
    variables = {"CODEX_THREAD_ID": "t", "GEMINI_SESSION_ID": "s", "CODEX_HOME": "/c"}
    reply = open_script(tmp_path, code, spec, **variables)(ask("/private question", system="the private rules"))
    environ, cwd, argv, given = json.loads(reply.text)
    assert environ["MEMDIR_INSIDE"] == "1" and environ["CODEX_HOME"] == "/c"
    assert not {"CODEX_THREAD_ID", "GEMINI_SESSION_ID"} & set(environ)
    assert given == "[User]\n/private question" and "private" not in " ".join(argv)
    assert not Path(environ["TMPDIR"]).exists() and str(cwd) != str(Path.cwd())
    assert ("--ephemeral" in argv) == (spec == "codex-cli") and ("--model=pro" in argv) == (spec != "codex-cli")


def test_memdir_inside_a_claude_that_it_started_opens_no_model(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "MEMDIR_MODEL": "claude-cli", "MEMDIR_INSIDE": "1"}
    environment = read_environment(environ)
    settings = read_settings(environment, root=None)
    assert find_model(settings, environment) is None
    with pytest.raises(ModelError, match="inside a program"):
        open_model("claude-cli", environment=environment, settings=settings)


def test_a_missing_program_says_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(ModelError) as caught:
        open_program({"HOME": str(tmp_path), "PATH": str(tmp_path)}, tmp_path)
    assert "program not found: 'claude'" in str(caught.value) and "config set claude" in caught.value.hint


@pytest.mark.parametrize(
    "request_", [ask(tools=(READ,)), Request("", (Message("user", "x"),), 9, parent={"messages": []})]
)
def test_tools_and_parents_are_refused(tmp_path: Path, request_: Request) -> None:
    model = open_script(tmp_path, "sys.exit(1)")
    assert isinstance(model, OpenModel) and not can_use_tools(model)
    with pytest.raises(ModelError, match="cannot use tools or continue a host's request"):
        model(request_)


def test_a_conversation_is_one_text_and_says_who_spoke_where_more_than_one_did() -> None:
    assert render_host_prompt((Message("user", "the list"), Message("user", "the query"))) == "the list\n\nthe query"
    said = render_host_prompt((Message("user", "a"), Message("assistant", "b"), Message("user", "c")))
    assert said == "[User]\na\n\n[You, before]\nb\n\n[User]\nc"
