"""Use the program of a coding agent as a model, with the user's own login.

Each request is one process without tools, hooks, MCP servers, skills and sessions. A variable marks it as started by memdir,
so that memdir does nothing inside it; otherwise the end of its turn would start another process. The text is passed in
standard input and a private file, because other users of the machine can read the command line. These models cannot use
tools, continue a parent's conversation, or stream. `PROGRAMS` contains the differences between the programs.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import tomllib
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from memdir.errors import ModelError, ReplyError, StoppedError
from memdir.files import read_small, write_private
from memdir.frozen import dataclass, field, replace
from memdir.limits import FILE_BYTES
from memdir.models import connection
from memdir.models.anthropic import read_anthropic_usage
from memdir.models.connection import as_count, make_error, narrow_schema, role_of, sum_usage
from memdir.models.openai import is_strict
from memdir.project.settings import Environment
from memdir.records import SELECT, Message, Reply, Request, StopReason, Usage
from memdir.text import as_table, as_text, find_json, one_line, parse_json, shorten

MIN_TOKENS = 4_096  # with fewer tokens, the thinking of `claude` leaves none for a reply
_CHECK_SECONDS = 0.1
_PATIENCE = 3  # multiplies the timeout of other models, because these programs print nothing until the end
_IN_WORDS = "\n\nReply with one JSON value of this schema and nothing else: "
# Variables that a coding agent sets for the programs it starts; the process started here is not part of its session.
_OF_A_SESSION = frozenset(
    "CLAUDECODE CLAUDE_CODE_ENTRYPOINT CLAUDE_CODE_SSE_PORT CLAUDE_CODE_SESSION_ID CLAUDE_SESSION_ID CLAUDE_PROJECT_DIR"
    " CLAUDE_ENV_FILE CLAUDE_EFFORT CLAUDE_PLUGIN_ROOT CLAUDE_PLUGIN_DATA CODEX_THREAD_ID CODEX_SANDBOX"
    " CODEX_SANDBOX_NETWORK_DISABLED GEMINI_CLI GEMINI_CLI_SESSION_ID GEMINI_SESSION_ID GEMINI_PROJECT_DIR GEMINI_CWD"
    " GEMINI_PLANS_DIR MEMDIR_SESSION".split()
)
_STATUS = re.compile(r"status:? ([45]\d\d)\b")


@dataclass(frozen=True, slots=True)
class _Launch:
    """The parameters of a process. `leftover` is a pattern of files to delete afterwards."""

    arguments: Sequence[str]
    cwd: Path
    variables: Mapping[str, str] = field(default_factory=dict)
    leftover: str = ""


@dataclass(frozen=True, slots=True)
class _Outcome:
    """The output of a process: a text, or an error with the API status or 0."""

    text: str = ""
    usage: Usage = Usage()
    stop: StopReason = StopReason.DONE
    error: str = ""
    status: int = 0


@dataclass(frozen=True, slots=True)
class HostProgram:
    """How to start a host's program and read its output. `setting` contains the path of the program."""

    title: str
    setting: str
    start: Callable[[Request, str, Path, Environment], _Launch]
    read: Callable[[str, str], _Outcome | None]


class HostModel:
    has_tools = False

    def __init__(self, provider: str, name: str, *, command: str, environment: Environment, silence: float) -> None:
        if environment.inside:
            hint = "a model that memdir started cannot start another; unset MEMDIR_INSIDE if that is a mistake"
            raise ModelError("memdir is running inside a program that it started itself", hint=hint)
        self._name, self._environment, self._seconds = name, environment, silence * _PATIENCE
        self._program = PROGRAMS[provider]
        if (program_path := shutil.which(command, path=environment.inherited.get("PATH"))) is None:
            key = self._program.setting
            hint = f"install {self._program.title} and log in, or `memdir config set {key} /full/path/to/{key}`"
            raise ModelError(f"program not found: {shorten(one_line(command), 80)!r}", hint=hint)
        self._command = str(Path(program_path).absolute())
        self._label = f"{provider}:{name}" if name else provider

    def __call__(self, request: Request) -> Reply:
        connection.check_request(request)
        if request.tools or request.parent is not None:
            hint = "check can_use_tools(model) first"
            raise ModelError(f"{self._label} cannot use tools or continue a host's request", hint=hint)
        with tempfile.TemporaryDirectory(prefix="memdir-", ignore_cleanup_errors=True) as folder:
            (Path(folder) / "empty").mkdir()
            launch = self._program.start(request, self._name, Path(folder), self._environment)
            try:
                process = self._run(request, launch, folder)
            finally:
                for path in self._environment.gemini_home.glob(launch.leftover) if launch.leftover else ():
                    path.unlink(missing_ok=True)
        reply = self._read(process)
        if request.on_text is not None and reply.text:
            request.on_text(reply.text)
        return reply

    def _run(self, request: Request, launch: _Launch, folder: str) -> subprocess.CompletedProcess[bytes]:
        inherited = {name: text for name, text in self._environment.inherited.items() if name not in _OF_A_SESSION}
        variables = {**inherited, "MEMDIR_INSIDE": "1", "TMPDIR": folder, **launch.variables}
        command, pipe = [self._command, *launch.arguments], subprocess.PIPE
        try:
            process = subprocess.Popen(
                command, cwd=launch.cwd, env=variables, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
            )
        except OSError as error:
            raise make_error(self._label, "offline", detail=f"{self._command}: {error.strerror}") from error
        try:
            return self._wait(process, command, request)
        finally:
            if process.poll() is None:  # also kill the processes that it started
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            for stream in filter(None, (process.stdin, process.stdout, process.stderr)):
                with suppress(BrokenPipeError):
                    stream.close()

    def _wait(
        self, process: subprocess.Popen[bytes], command: list[str], request: Request
    ) -> subprocess.CompletedProcess[bytes]:
        deadline = time.monotonic() + self._seconds
        stdin: bytes | None = render_host_prompt(request.messages).encode("utf-8", "replace")
        while True:
            if request.cancelled is not None and request.cancelled():
                raise StoppedError(f"the request to {self._label} was cancelled")
            if time.monotonic() >= deadline:
                raise make_error(self._label, "timeout")
            try:
                out, err = process.communicate(stdin, timeout=_CHECK_SECONDS)
            except subprocess.TimeoutExpired:
                stdin = None  # communicate() still has the input that is not written yet
                continue
            return subprocess.CompletedProcess(command, process.returncode, out, err)

    def _read(self, process: subprocess.CompletedProcess[bytes]) -> Reply:
        out, err = (data.decode("utf-8", "replace") for data in (process.stdout, process.stderr))
        outcome = self._program.read(out, err)
        if outcome is None:
            words = shorten(one_line(err), 200)
            if process.returncode:
                raise make_error(self._label, "refused", detail=words or f"exit code {process.returncode}")
            hint = words or f"run `{self._program.setting}` by hand to see why"
            raise ReplyError(f"{self._label} did not print a result", hint=hint)
        if not outcome.error:
            return Reply(outcome.text, outcome.usage, stop=outcome.stop)
        status = outcome.status or (429 if "usage limit" in outcome.error else 0)
        if status:
            failure = connection.make_status_error(self._label, status, {"message": outcome.error})
        else:
            reason = "offline" if "connect" in outcome.error else "refused"
            failure = make_error(self._label, reason, detail=outcome.error)
        if failure.reason == "key":
            failure.hint = f"start `{self._program.setting}` and log in"
        failure.usage = outcome.usage
        raise failure


def render_host_prompt(messages: Sequence[Message]) -> str:
    """Render messages as one text. The speakers are named if there are several or the text could be a command."""
    spoken = [message for message in messages if message.text.strip()]
    text = "\n\n".join(message.text for message in spoken)
    if all(role_of(message) == "user" for message in spoken) and not text.lstrip().startswith("/"):
        return text
    names = {"user": "User", "assistant": "You, before"}
    return "\n\n".join(f"[{names[role_of(message)]}]\n{message.text}" for message in spoken)


def _write_system(request: Request, folder: Path, more: str = "") -> Path:
    path = folder / "system.md"
    path.write_text((request.system or "Answer what is asked, and nothing else.") + more, encoding="utf-8")
    return path


# --- Claude Code ----------------------------------------------------------------------------------------------------

# The login may be in the user's settings; hooks in them are disabled.
_CLAUDE_FLAGS = (
    "--print --output-format=json --tools= --strict-mcp-config --setting-sources=user"
    ' --settings={"disableAllHooks":true} --disable-slash-commands --no-session-persistence --effort=low'
).split()
_CLAUDE_FAST = "haiku"  # default for the selection of memories, which runs at every prompt while the user waits
_CUT = "output token maximum"


def _start_claude(request: Request, name: str, folder: Path, environment: Environment) -> _Launch:
    arguments = [*_CLAUDE_FLAGS, f"--system-prompt-file={_write_system(request, folder)}"]
    name = name or (_CLAUDE_FAST if request.purpose == SELECT else "")
    arguments += [f"--model={name}"] if name else []
    arguments += [f"--json-schema={json.dumps(narrow_schema(request.schema))}"] if request.schema else []
    variables = {
        "CLAUDE_CODE_DISABLE_ATTACHMENTS": "1",  # otherwise a path after an @ in a conversation would be read and sent
        "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
        "CLAUDE_CODE_DISABLE_CLAUDE_MDS": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_MAX_OUTPUT_TOKENS": str(max(MIN_TOKENS, request.max_tokens)),
        "CLAUDE_CODE_MAX_RETRIES": "0",  # memdir does its own retries
    }
    return _Launch(arguments, folder / "empty", variables)


def _read_claude(out: str, err: str) -> _Outcome | None:
    result = as_table(parse_json(out))
    if result.get("type") != "result":
        return None
    cost = result.get("total_cost_usd")
    usage = read_anthropic_usage(as_table(result.get("usage")))
    usage = replace(usage, dollars=cost if isinstance(cost, int | float) else None)
    text, structured = as_text(result.get("result")), result.get("structured_output")
    if result.get("is_error"):
        if _CUT in text:
            return _Outcome("", usage, StopReason.LENGTH)
        status = as_count(result.get("api_error_status"))
        return _Outcome(usage=usage, error=text.removeprefix("API Error: ") or "no reason given", status=status)
    if structured is not None:
        text = json.dumps(structured, ensure_ascii=False)
    return _Outcome(text, usage, StopReason.REFUSED if result.get("stop_reason") == "refusal" else StopReason.DONE)


# --- Codex ----------------------------------------------------------------------------------------------------------

_CODEX_FLAGS = "exec --json --ephemeral --skip-git-repo-check --sandbox=read-only --ignore-rules --color=never".split()
# Use settings instead of --disable, because Codex ignores unknown settings but refuses unknown features.
_CODEX_OFF = (
    "hooks shell_tool unified_exec shell_snapshot view_image apps plugins multi_agent image_generation goals sleep_tool"
    " memories tool_suggest skill_search"
).split()
_CODEX_SETTINGS = (
    *(f"features.{name}=false" for name in _CODEX_OFF),
    *(f"include_{name}_instructions=false" for name in ("apps", "collaboration_mode", "permissions")),
    *("include_environment_context=false", "skills.bundled.enabled=false", "skills.include_instructions=false"),
    *('model_reasoning_effort="low"', "notify=[]", "project_doc_max_bytes=0", 'web_search="disabled"'),
)


def _start_codex(request: Request, name: str, folder: Path, environment: Environment) -> _Launch:
    schema = narrow_schema(request.schema) if request.schema else None
    is_bound = schema is not None and is_strict(schema)  # Codex always requests strict output
    system = _write_system(request, folder, _IN_WORDS + json.dumps(schema) if schema and not is_bound else "")
    settings = [*_CODEX_SETTINGS, f"model_instructions_file={json.dumps(str(system))}"]
    # Codex merges these tables with the user's settings, so each server must be disabled by name.
    servers = ",".join(f"{json.dumps(name)}={{enabled=false}}" for name in _list_codex_servers(environment))
    settings += [f"mcp_servers={{{servers}}}"] if servers else []
    arguments = [*_CODEX_FLAGS, *(word for setting in settings for word in ("-c", setting))]
    arguments += [f"--model={name}"] if name else []
    if is_bound:
        path = folder / "schema.json"
        path.write_text(json.dumps(schema), encoding="utf-8")
        arguments.append(f"--output-schema={path}")
    return _Launch([*arguments, "-"], folder / "empty")


def _list_codex_servers(environment: Environment) -> list[str]:
    data = read_small(environment.codex_home / "config.toml", FILE_BYTES).data or b""
    try:
        return list(as_table(tomllib.loads(data.decode("utf-8")).get("mcp_servers")))
    except (ValueError, RecursionError):
        return []  # Codex reports it


def _read_codex(out: str, err: str) -> _Outcome | None:
    outcome = None
    for event in (as_table(parse_json(line)) for line in out.splitlines()):
        item, error = as_table(event.get("item")), as_table(event.get("error"))
        if item.get("type") == "agent_message":
            outcome = _Outcome(as_text(item.get("text")))
        elif event.get("type") == "turn.completed" and outcome is not None:
            names = ("input_tokens", "cached_input_tokens", "cache_write_input_tokens", "output_tokens")
            whole, cached, stored, output = (as_count(as_table(event.get("usage")).get(name)) for name in names)
            outcome = replace(outcome, usage=Usage(max(0, whole - cached - stored), cached, output, stored))
        elif event.get("type") == "turn.failed":
            words = as_text(error.get("message")) or "no reason given"
            status = _STATUS.search(words)
            return _Outcome(error=words.partition(", url:")[0], status=int(status[1]) if status else 0)
    return outcome


# --- Gemini CLI -----------------------------------------------------------------------------------------------------

_GEMINI_FLAGS = ("--output-format=json", "--skip-trust", "--extensions=none", "--allowed-mcp-server-names=none")
_GEMINI_MODEL = "flash"  # by default Gemini first asks another model which model to use
_GEMINI_FOLDER = "gemini-model"  # the same for all requests, because Gemini keeps a list of its working directories
_GEMINI_SETTINGS = {
    "context": {"includeDirectoryTree": False},
    "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False, "maxAttempts": 1},
    "hooksConfig": {"enabled": False},
    "privacy": {"usageStatisticsEnabled": False},
    "skills": {"enabled": False},
    "telemetry": {"enabled": False},
    "tools": {"core": ["none"], "sandbox": False},
}
_GEMINI_LOGIN = 41  # Gemini's exit code if the user is not logged in


def _start_gemini(request: Request, name: str, folder: Path, environment: Environment) -> _Launch:
    more = _IN_WORDS + json.dumps(narrow_schema(request.schema)) if request.schema else ""
    cwd, settings = environment.state_home / _GEMINI_FOLDER, json.dumps(_GEMINI_SETTINGS).encode("ascii")
    if read_small(path := cwd / ".gemini" / "settings.json", FILE_BYTES).data != settings:
        write_private(path, settings)
    session = str(uuid.uuid4())
    variables = {
        "GEMINI_SYSTEM_MD": str(_write_system(request, folder, more)),
        "GEMINI_CLI_TRUST_WORKSPACE": "true",  # for the settings above
        "GEMINI_CLI_NO_RELAUNCH": "true",
        "GEMINI_SANDBOX": "false",
    }
    arguments = (*_GEMINI_FLAGS, f"--model={name or _GEMINI_MODEL}", f"--session-id={session}")
    return _Launch(arguments, cwd, variables, leftover=f"tmp/*/chats/session-*-{session[:8]}.*")


def _read_gemini(out: str, err: str) -> _Outcome | None:
    tables = [as_table(value) for text in (err, out) for value in find_json(text)]
    report = next((table for table in reversed(tables) if "response" in table or "session_id" in table), None)
    if report is None:
        return None
    models = [as_table(model) for model in as_table(as_table(report.get("stats")).get("models")).values()]
    usage = Usage()
    for tokens in (as_table(model.get("tokens")) for model in models):
        names = ("prompt", "cached", "candidates", "thoughts")
        prompt, cached, visible, thoughts = (as_count(tokens.get(name)) for name in names)
        usage = sum_usage(usage, Usage(fresh=max(0, prompt - cached), cached=cached, output=visible + thoughts))
    if error := as_table(report.get("error")):
        words, code = as_text(error.get("message")) or "no reason given", as_count(error.get("code"))
        inner = next((as_table(as_table(value).get("error")) for value in find_json(words)), {})
        status = 401 if code == _GEMINI_LOGIN else code if code >= 400 else 0
        return _Outcome(usage=usage, error=as_text(inner.get("message")) or words, status=status)
    return _Outcome(as_text(report.get("response")), usage)


PROGRAMS: Mapping[str, HostProgram] = {
    "claude-cli": HostProgram("Claude Code", "claude", _start_claude, _read_claude),
    "codex-cli": HostProgram("Codex CLI", "codex", _start_codex, _read_codex),
    "gemini-cli": HostProgram("Gemini CLI", "gemini", _start_gemini, _read_gemini),
}
