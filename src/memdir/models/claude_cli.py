"""A headless `claude` as a model, with the person's own login.

Each request is one process in an empty folder of its own. It has no tools, hooks, MCP servers, skills, CLAUDE.md or
memory, keeps no session, and is marked as started by memdir, so that memdir does nothing inside it: otherwise the end of
its turn would start the next one. The text is passed by standard input and a private file, because other users of the
machine can read the command line. It cannot use tools, continue a parent's conversation, or stream.
"""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from memdir.errors import ModelError, ReplyError, StoppedError
from memdir.frozen import replace
from memdir.models.anthropic import read_anthropic_usage
from memdir.models.connection import (
    as_table,
    as_text,
    check_request,
    make_fault,
    make_status_fault,
    narrow_schema,
    role_of,
)
from memdir.project.settings import Environment
from memdir.records import Message, Reply, Request, StopReason
from memdir.text import one_line, shorten

LEAST_TOKENS = 4_096  # below this its own thinking leaves no tokens for a reply
_LOOK_SECONDS = 0.1
_PATIENCE = 3  # times the silence allowed to other models, because there is no output until the end
# Variables that a coding agent sets for the programs it starts; the process started here is not part of its session.
_OF_A_SESSION = frozenset(
    "CLAUDECODE CLAUDE_CODE_ENTRYPOINT CLAUDE_CODE_SSE_PORT CLAUDE_CODE_SESSION_ID CLAUDE_SESSION_ID CLAUDE_PROJECT_DIR"
    " CLAUDE_ENV_FILE CLAUDE_EFFORT CLAUDE_PLUGIN_ROOT CLAUDE_PLUGIN_DATA MEMDIR_SESSION".split()
)
_FLAGS = (
    "--print",
    "--output-format=json",
    "--tools=",
    "--strict-mcp-config",
    "--setting-sources=user",  # the login may be there; the next flag disables hooks
    '--settings={"disableAllHooks":true}',
    "--disable-slash-commands",
    "--no-session-persistence",
    "--effort=low",
)
_CUT = "output token maximum"


class ClaudeModel:
    has_tools = False

    def __init__(self, name: str, *, program: str, environment: Environment, silence: float) -> None:
        if environment.inside:
            hint = "a model that memdir started may not start another; unset MEMDIR_INSIDE if that is a mistake"
            raise ModelError("memdir is running inside a claude that it started itself", hint=hint)
        self._name, self._environment, self._seconds = name, environment, silence * _PATIENCE
        self._program = _find_program(program, environment)
        self._who = f"claude-cli:{name}" if name else "claude-cli"

    def __call__(self, request: Request) -> Reply:
        check_request(request)
        if request.tools or request.parent is not None:
            hint = "use the one-request form: can_use_tools(model) says which"
            raise ModelError("claude-cli takes neither tools nor a parent", hint=hint)
        with tempfile.TemporaryDirectory(prefix="memdir-") as folder:
            ended = self._run(request, Path(folder))
        reply = self._read(ended, request)
        if request.on_text is not None and reply.text:
            request.on_text(reply.text)
        return reply

    def _run(self, request: Request, folder: Path) -> subprocess.CompletedProcess[bytes]:
        system, empty = folder / "system.md", folder / "empty"
        system.write_text(request.system or "Answer what is asked, and nothing else.", encoding="utf-8")
        empty.mkdir()
        command = [self._program, *_FLAGS, f"--system-prompt-file={system}"]
        command += [f"--model={self._name}"] if self._name else []
        command += [f"--json-schema={json.dumps(narrow_schema(request.schema))}"] if request.schema else []
        try:
            process = subprocess.Popen(
                command,
                cwd=empty,
                env=make_claude_environ(self._environment, max(LEAST_TOKENS, request.max_tokens)),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise make_fault(self._who, "offline", words=f"{self._program}: {error.strerror}") from error
        try:
            return self._wait(process, command, request)
        finally:
            _end(process)

    def _wait(
        self, process: subprocess.Popen[bytes], command: list[str], request: Request
    ) -> subprocess.CompletedProcess[bytes]:
        deadline = time.monotonic() + self._seconds
        given: bytes | None = render_claude_prompt(request.messages).encode("utf-8", "replace")
        while True:
            if request.cancelled is not None and request.cancelled():
                raise StoppedError(f"the request to {self._who} was cancelled")
            if time.monotonic() >= deadline:
                raise make_fault(self._who, "timeout")
            try:
                out, err = process.communicate(given, timeout=_LOOK_SECONDS)
            except subprocess.TimeoutExpired:
                given = None  # communicate keeps what it has not written yet
                continue
            return subprocess.CompletedProcess(command, process.returncode, out, err)

    def _read(self, ended: subprocess.CompletedProcess[bytes], request: Request) -> Reply:
        try:
            result = as_table(json.loads(ended.stdout))
        except (ValueError, RecursionError):
            result = {}
        if result.get("type") != "result":
            words = shorten(one_line(ended.stderr.decode("utf-8", "replace")), 200)
            if ended.returncode:
                raise make_fault(self._who, "refused", words=words or f"it ended with {ended.returncode}")
            raise ReplyError(f"{self._who} did not print a result", hint=words or "run `claude -p hello` to see why")
        cost = result.get("total_cost_usd")
        usage = read_anthropic_usage(as_table(result.get("usage")))
        usage = replace(usage, dollars=cost if isinstance(cost, int | float) else None)
        text = as_text(result.get("result"))
        if result.get("is_error"):
            if _CUT in text:
                return Reply("", usage, stop=StopReason.LENGTH)
            status = result.get("api_error_status")
            body = {"message": text.removeprefix("API Error: ")}
            if isinstance(status, int):
                fault = make_status_fault(self._who, status, body)
            else:
                fault = make_fault(self._who, "offline" if "connect" in text else "refused", words=text)
            fault.usage = usage
            raise fault
        structured = result.get("structured_output")
        if request.schema is not None and structured is not None:
            text = json.dumps(structured, ensure_ascii=False)
        stop = StopReason.REFUSED if result.get("stop_reason") == "refusal" else StopReason.DONE
        return Reply(text, usage, stop=stop)


def make_claude_environ(environment: Environment, max_tokens: int) -> dict[str, str]:
    """The child's environment: with the person's login, without memory, marked as started by memdir."""
    kept = {name: value for name, value in environment.inherited.items() if name not in _OF_A_SESSION}
    return kept | {
        "MEMDIR_INSIDE": "1",
        "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
        "CLAUDE_CODE_DISABLE_CLAUDE_MDS": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_MAX_OUTPUT_TOKENS": str(max_tokens),
        "CLAUDE_CODE_MAX_RETRIES": "0",  # memdir retries itself
    }


def render_claude_prompt(messages: Sequence[Message]) -> str:
    """Messages as one text, with the speaker before each if there is more than one."""
    said = [message for message in messages if message.text.strip()]
    if all(role_of(message) == "user" for message in said):
        return "\n\n".join(message.text for message in said)
    names = {"user": "User", "assistant": "You, before"}
    return "\n\n".join(f"[{names[role_of(message)]}]\n{message.text}" for message in said)


def _find_program(program: str, environment: Environment) -> str:
    if (found := shutil.which(program, path=environment.inherited.get("PATH"))) is None:
        hint = "install Claude Code and log in, or `memdir config set claude /whole/path/to/claude`"
        raise ModelError(f"there is no program {shorten(one_line(program), 80)!r}", hint=hint)
    return str(Path(found).absolute())


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process with all it started, and close its streams."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    for stream in filter(None, (process.stdin, process.stdout, process.stderr)):
        with suppress(BrokenPipeError):
            stream.close()
