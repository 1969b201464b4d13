"""Run a real coding agent once and see which of memdir's texts reach its model: `memdir doctor --probe`.

The agent runs without a terminal, in a temporary home and project, against a fake model on loopback that calls one shell
command and ends. Each moment (start, prompt, action) has a memory with a unique word, and the probe searches the requests
for these words. This shows whether an updated agent still passes on what hooks add. It uses no login or setting of the user.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from memdir.files import write_private
from memdir.frozen import dataclass
from memdir.project.hosts import CLAUDE_CODE, CODEX, COPILOT, GEMINI, OPENCODE, PI, QWEN, HookEvent, Host
from memdir.store.state import read_events
from memdir.text import as_list, as_table, parse_json

FILE = "probes.json"
_PROMPT = "When does the ferry to Lindholm leave?"
_COMMAND = "echo memdir-probe"
_VERSION = re.compile(r"\d+\.\d+[\w.-]*\w")
_MEMORIES = (
    ("start", "user", "Ends every answer with the word amberfinch", "The user wants every answer to end with amberfinch.",
     ("--always",)),
    ("prompt", "project", "When the ferry to Lindholm leaves", "It leaves at six from the pier called copperwren.", ()),
    ("action", "feedback", "Quiet commands before noon", "Run no `memdir-probe` before noon: slatemartin sleeps.",
     ("--when-command", "memdir-probe", "--enforce", "remind")),
)  # fmt: skip
_WORDS = {"start": "amberfinch", "prompt": "copperwren", "action": "slatemartin"}


@dataclass(frozen=True, slots=True)
class ProbeSetup:
    """How to run an agent without a terminal. `{url}` and `{prompt}` are filled in; `files` are relative to its home."""

    program: str
    arguments: tuple[str, ...]
    variables: Mapping[str, str]
    files: Mapping[str, str]
    shell: str = "bash"


_CHAT = {
    "autoupdate": False, "model": "probe/m", "small_model": "probe/m",
    "provider": {"probe": {"npm": "@ai-sdk/openai-compatible", "options": {"baseURL": "{url}/v1", "apiKey": "none"},
                           "models": {"m": {"tool_call": True}}}},
}  # fmt: skip
_FREE = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}
_PI = {
    "providers": {"probe": {"baseUrl": "{url}/v1", "api": "openai-completions", "apiKey": "none", "models": [
        {"id": "m", "reasoning": False, "input": ["text"], "cost": _FREE, "contextWindow": 128_000, "maxTokens": 4096}]}}
}  # fmt: skip
_CODEX = """model = "probe"
model_provider = "probe"
[model_providers.probe]
name = "probe"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "PROBE_KEY"
"""
SETUPS: Mapping[str, ProbeSetup] = {
    CLAUDE_CODE.key: ProbeSetup(
        "claude", ("-p", "{prompt}", "--allowedTools", "Bash"),
        {"ANTHROPIC_BASE_URL": "{url}", "ANTHROPIC_API_KEY": "none", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
         "DISABLE_AUTOUPDATER": "1", "IS_SANDBOX": "1"}, {}, "Bash"),
    CODEX.key: ProbeSetup(
        "codex", ("exec", "--dangerously-bypass-hook-trust", "-s", "workspace-write", "--skip-git-repo-check", "{prompt}"),
        {"PROBE_KEY": "none"}, {".codex/config.toml": _CODEX}, "exec_command"),
    GEMINI.key: ProbeSetup(
        "gemini", ("--approval-mode", "yolo", "-m", "gemini-2.5-flash", "-p", "{prompt}"),
        {"GEMINI_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": "{url}", "GEMINI_CLI_TRUST_WORKSPACE": "true",
         "GEMINI_CLI_NO_RELAUNCH": "true"},
        {".gemini/settings.json": '{"security": {"auth": {"selectedType": "gemini-api-key"}}}'}, "run_shell_command"),
    QWEN.key: ProbeSetup(
        "qwen", ("--yolo", "-p", "{prompt}"),
        {"OPENAI_BASE_URL": "{url}/v1", "OPENAI_API_KEY": "none", "OPENAI_MODEL": "m"},
        {".qwen/settings.json": '{"security": {"auth": {"selectedType": "openai"}}}'}, "run_shell_command"),
    COPILOT.key: ProbeSetup(
        "copilot", ("--allow-all-tools", "-p", "{prompt}"),
        {"COPILOT_PROVIDER_BASE_URL": "{url}/v1", "COPILOT_PROVIDER_API_KEY": "none", "COPILOT_MODEL": "gpt-5",
         "COPILOT_OFFLINE": "true"}, {}),
    OPENCODE.key: ProbeSetup(
        "opencode", ("run", "{prompt}"), {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"},
        {".config/opencode/opencode.json": json.dumps(_CHAT)}),
    PI.key: ProbeSetup(
        "pi", ("--provider", "probe", "--model", "m", "-p", "{prompt}"), {"PI_OFFLINE": "1"},
        {".pi/agent/models.json": json.dumps(_PI)}),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """Whether the memory of each moment reached the model, and the turn's end its hook; unknown if there is a `problem`."""

    host: str
    version: str = ""
    reached: Mapping[str, bool] | None = None
    problem: str = ""


def run_probe(host: Host, variables: Mapping[str, str], *, seconds: float) -> ProbeResult:
    """Run one agent and return what reached its model; it gets few of the environment `variables`, such as PATH."""
    setup = SETUPS.get(host.key)
    program = shutil.which(setup.program, path=variables.get("PATH")) if setup else None
    if setup is None or program is None:
        return ProbeResult(host.key, problem=f"{setup.program} is not in PATH" if setup else "it has no hooks")
    with (
        tempfile.TemporaryDirectory(prefix="memdir-probe-", ignore_cleanup_errors=True) as name,
        _serve(setup) as (url, sent),
    ):
        home, project = Path(name) / "home", Path(name) / "project"
        (project / ".git").mkdir(parents=True)
        for path, text in setup.files.items():
            write_private(home / path, text.replace("{url}", url).encode())
        (home / host.folder).mkdir(parents=True, exist_ok=True)
        own = {key: value for key, value in variables.items() if key in ("PATH", "PYTHONPATH", "LANG", "TMPDIR")}
        fill = {key: value.replace("{url}", url) for key, value in setup.variables.items()}
        own |= {"HOME": str(home), "MEMDIR_MODEL": "none", "MEMDIR_HOOK_PATIENCE": "30", **fill}

        def run(*command: str) -> str:
            done = subprocess.run(
                command, cwd=project, env=own, stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds, check=False
            )  # fmt: skip
            return (done.stdout or done.stderr).decode("utf-8", "replace")

        memdir = (sys.executable, "-P", "-m", "memdir")
        try:
            for memory, kind, description, body, more in _MEMORIES:
                run(
                    *memdir,
                    "save",
                    "--type",
                    kind,
                    "--name",
                    memory,
                    "--description",
                    description,
                    "--body",
                    body,
                    *more,
                )
            run(*memdir, "install", host.key, "--yes")
            version = next(iter(_VERSION.findall(run(program, "--version"))), "")
            run(program, *(part.replace("{prompt}", _PROMPT) for part in setup.arguments))
        except subprocess.TimeoutExpired:
            return ProbeResult(host.key, problem=f"it did not end within {seconds:g} seconds")
        if not sent:
            return ProbeResult(host.key, version, problem="it sent no request to the endpoint of the probe")
        said = "\n".join(sent)
        state = Path(json.loads(run(*memdir, "where", "--json"))["private"]["path"]) / ".memdir"
        ended = any(row.event == HookEvent.STOP.value and row.host == host.key for row in read_events(state))
        return ProbeResult(host.key, version, {**{key: word in said for key, word in _WORDS.items()}, "end": ended})


@contextmanager
def _serve(setup: ProbeSetup) -> Iterator[tuple[str, list[str]]]:
    """Serve a fake model; yield its URL and a list that collects the requests with tools. The path selects the API."""
    sent: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *arguments: Any) -> None:
            pass

        def do_GET(self) -> None:
            self.send_error(404)

        def do_POST(self) -> None:
            text = self.rfile.read(int(self.headers.get("content-length", 0))).decode("utf-8", "replace")
            has_tools = bool(as_list(as_table(parse_json(text)).get("tools")))
            if has_tools:  # requests without tools ask for the title of a conversation
                sent.append(text)
            call = setup.shell if has_tools and len(sent) == 1 else ""
            data = "".join(f"{event}\n\n" for event in render_reply(self.path.partition("?")[0], call)).encode()
            self.send_response(200 if data else 404)
            self.send_header("content-type", "text/event-stream")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", sent
        finally:
            server.shutdown()
            thread.join()


def render_reply(path: str, shell: str) -> Sequence[str]:
    """Return the events of a reply in the API of `path`: a call of the tool `shell` or, if it is empty, "Done."."""
    value: dict[str, str] = {"cmd" if shell == "exec_command" else "command": _COMMAND}
    if shell not in ("exec_command", ""):
        value["description"] = "say something"
    text, usage = json.dumps(value), {"input_tokens": 9, "output_tokens": 1}
    if path.endswith("/chat/completions"):
        call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": shell, "arguments": text}}
        delta = {"role": "assistant", "content": None, "tool_calls": [call]} if shell else {"content": "Done."}
        row = {"id": "r", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        ended = {"index": 0, "delta": {}, "finish_reason": "tool_calls" if shell else "stop"}
        tokens = {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10}
        rows = ({**row, "choices": [{"index": 0, "delta": delta}]}, {**row, "choices": [ended], "usage": tokens})
        return [*(f"data: {json.dumps(one)}" for one in rows), "data: [DONE]"]
    if path.endswith("/responses"):
        item = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Done."}]}
        if shell:
            item = {"type": "function_call", "call_id": "call_1", "name": shell, "arguments": text}
        completed = {"id": "r", "usage": {**usage, "total_tokens": 10}}
        events: list[dict[str, Any]] = [
            {"type": "response.created", "response": {"id": "r"}},
            {"type": "response.output_item.done", "item": {"id": "i", **item}},
            {"type": "response.completed", "response": completed},
        ]
        return [f"data: {json.dumps(event)}" for event in events]
    if path.endswith(":streamGenerateContent"):
        part = {"functionCall": {"name": shell, "args": value}} if shell else {"text": "Done."}
        candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
        return [f"data: {json.dumps({'candidates': [candidate], 'usageMetadata': {'totalTokenCount': 10}})}"]
    if path.endswith("/v1/messages"):
        block = (
            {"type": "tool_use", "id": "toolu_1", "name": shell, "input": {}} if shell else {"type": "text", "text": ""}
        )
        delta = {"type": "input_json_delta", "partial_json": text} if shell else {"type": "text_delta", "text": "Done."}
        message = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage}
        stop = {"stop_reason": "tool_use" if shell else "end_turn", "stop_sequence": None}
        events = [
            {"type": "message_start", "message": {**message, "stop_reason": None, "stop_sequence": None}},
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": stop, "usage": usage},
            {"type": "message_stop"},
        ]
        return [f"event: {event['type']}\ndata: {json.dumps(event)}" for event in events]
    return []


# --- the last probe ---------------------------------------------------------------------------------------------------


def _sign_program(host: Host, path: str | None) -> str:
    """Return the path and modification time of an agent's program, so that an update is noticed, or ""."""
    setup = SETUPS.get(host.key)
    program = shutil.which(setup.program, path=path) if setup else None
    return f"{os.path.realpath(program)} {os.stat(program).st_mtime_ns}" if program else ""


def record_probe(state_home: Path, host: Host, result: ProbeResult, path: str | None) -> None:
    table = as_table(parse_json((state_home / FILE).read_bytes())) if (state_home / FILE).is_file() else {}
    row = {"version": result.version, "program": _sign_program(host, path), "reached": dict(result.reached or {})}
    write_private(state_home / FILE, json.dumps({**table, host.key: row}, indent=1).encode("ascii") + b"\n")


def has_changed_since_probe(state_home: Path, host: Host, path: str | None) -> bool:
    """Return whether an agent's program changed after its last probe; False if it was never probed."""
    table = as_table(parse_json((state_home / FILE).read_bytes())) if (state_home / FILE).is_file() else {}
    program = as_table(table.get(host.key)).get("program")
    return bool(program) and program != _sign_program(host, path)
