"""One episode: the `./agent` command, through which a fresh agent works, and the hooks that memdir hears meanwhile.

Every call is a process of its own. The state folder, outside the agent's folder, has what the episode is (`episode.json`)
and what happened (`log.jsonl`: for each call its arguments, output, hooks with their text and time, and a digest of the
source after it). As root on Linux, commands run where the rest of /tmp, the work folder and the network are not there.
"""

import hashlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from proof.arms import ARMS

_NAMES = {
    "session-start": "SessionStart",
    "user-prompt": "UserPromptSubmit",
    "before-tool": "PreToolUse",
    "after-tool": "PostToolUse",
    "tool-failure": "PostToolUseFailure",
}
_CHARS = 30_000  # of a command's output
_LINES = 2_000
_SECONDS = 180
_EDIT = re.compile(r"\A<<<<<<< OLD\n(.*?)\n?=======\n(.*?)\n?>>>>>>> NEW\s*\Z", re.DOTALL)
_INDEX = """Contents of {path} (your memory of this project, kept from earlier conversations; each line names a file in the same folder, which you can read):

{text}"""
_FRESH = """This task is for somebody who has not worked in another folder of this kind: what was seen there would spoil it.
If that is you, run `./agent start --fresh`. If you have already worked on another such task, stop here, change nothing,
and tell whoever sent you that each folder needs a helper of its own."""
_SANDBOX = """
mount --bind "$1" /mnt && for hidden in /tmp $3; do mount -t tmpfs none "$hidden"; done &&
mkdir -p "$1" && mount --bind /mnt "$1" && umount /mnt && cd "$1/repo" && exec timeout {seconds} bash -c "$2"
"""


class Episode:
    def __init__(self, state: Path) -> None:
        self.state = state
        self.facts: dict[str, Any] = json.loads((state / "episode.json").read_text(encoding="utf-8"))
        self.arm = ARMS[self.facts["arm"]]
        self.folder = Path(self.facts["folder"])
        self.repo, self.home = self.folder / "repo", self.folder / "home"
        self.heard: list[dict[str, Any]] = []
        self.shown: list[str] = []

    @property
    def environment(self) -> dict[str, str]:
        path = f"{Path(self.facts['python']).parent}:{os.environ['PATH']}"
        return {"HOME": str(self.home), "PATH": path, "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}

    def hear(self, event: str, **values: object) -> Mapping[str, Any]:
        """Play an event to memdir as Claude Code does. What it adds is shown in front of the result."""
        if event not in self.arm.hooks:
            return {}
        body = {
            "session_id": self.facts["session"],
            "transcript_path": "",
            "cwd": str(self.repo),
            "hook_event_name": _NAMES[event],
            "permission_mode": "default",
            **values,
        }
        keys = {name: value for name, value in os.environ.items() if self.arm.selects and name.endswith("_API_KEY")}
        began = time.perf_counter()
        done = subprocess.run(
            [*self.facts["memdir"], "hook", event],
            cwd=self.repo,
            env={**self.environment, **keys, **self.facts["environment"]},
            input=json.dumps(body),
            capture_output=True,
            text=True,
            check=False,
        )
        seconds = time.perf_counter() - began
        table = json.loads(done.stdout or "{}")
        specific: dict[str, Any] = table.get("hookSpecificOutput", {})
        text = specific.get("additionalContext", "")
        self.heard.append({
            "event": event,
            "ms": round(seconds * 1000, 1),
            "bytes": len(text.encode()),
            "text": text,
            "message": table.get("systemMessage", ""),
            "decision": specific.get("permissionDecision", ""),
            "reason": specific.get("permissionDecisionReason", ""),
        })  # fmt: skip
        if text:
            self.add(f"{_NAMES[event]} hook additional context: {text}")
        return specific

    def add(self, text: str) -> None:
        self.shown.append(f"<system-reminder>\n{text}\n</system-reminder>")

    def start(self) -> str:
        self.hear("session-start", source="startup")
        index = next(iter(self.home.rglob("MEMORY.md")), None) if self.arm.index else None
        if index is not None:
            self.add(_INDEX.format(path=index, text=index.read_text(encoding="utf-8")))
            self.heard.append(
                {"event": "index", "ms": 0, "bytes": len(self.shown[-1].encode()), "text": self.shown[-1]}
            )
        report = (self.state / "report.md").read_text(encoding="utf-8").strip()
        self.hear("user-prompt", prompt=report)
        if added := (self.state / "added.md").read_text(encoding="utf-8"):
            self.add(f"UserPromptSubmit hook additional context: {added}")
            self.heard.append({"event": "added", "ms": 0, "bytes": len(added.encode()), "text": added})
        return f"The developer's message:\n\n{report}"

    def act(self, tool: str, given: dict[str, Any], carry_out: Callable[[], tuple[int, str]]) -> tuple[int, str]:
        """Carry out a tool call between its hooks."""
        call = {"tool_name": tool, "tool_input": given, "tool_use_id": f"toolu_{time.time_ns()}"}
        reply = self.hear("before-tool", **call)
        if reply.get("permissionDecision") in ("deny", "ask"):
            asked = "" if reply["permissionDecision"] == "deny" else " (the developer is not there to allow it)"
            return 1, f"This call was not carried out{asked}: {reply.get('permissionDecisionReason', '')}"
        code, text = carry_out()
        if tool == "Bash" and code:
            self.hear("tool-failure", **call, error=f"Exit code {code}\n{text}", is_interrupt=False)
        else:
            self.hear("after-tool", **call, tool_response={"stdout": text} if tool == "Bash" else {"content": text})
        return code, text

    def run(self, command: str) -> tuple[int, str]:
        return self.act("Bash", {"command": command}, lambda: self._run(command))

    def _run(self, command: str) -> tuple[int, str]:
        argv = ["timeout", str(_SECONDS), "bash", "-c", command]
        if can_hide():
            script = _SANDBOX.format(seconds=_SECONDS)
            hidden = " ".join(self.facts["hidden"])
            argv = ["unshare", "-m", "-n", "bash", "-c", script, "-", str(self.folder), command, hidden]
        done = subprocess.run(
            argv,
            cwd=self.repo,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        text = done.stdout.decode("utf-8", "replace")
        if len(text) > _CHARS:
            text = f"{text[: _CHARS // 2]}\n[{len(text) - _CHARS} characters left out]\n{text[-_CHARS // 2 :]}"
        return done.returncode, text

    def find_path(self, name: str) -> Path:
        path = (self.repo / name.replace("~", str(self.home), 1)).resolve()
        if not path.is_relative_to(self.folder.resolve()):
            raise ValueError(f"{name} is not in this folder")
        return path

    def read(self, name: str, first: int = 1, lines: int = _LINES) -> tuple[int, str]:
        path = self.find_path(name)

        def carry_out() -> tuple[int, str]:
            if not path.is_file():
                return 1, f"{name} is not a file"
            rows = path.read_text(encoding="utf-8", errors="replace").splitlines()
            chosen = rows[first - 1 : first - 1 + lines]
            return 0, "\n".join(f"{number:6}\t{row}" for number, row in enumerate(chosen, first))

        return self.act("Read", {"file_path": str(path)}, carry_out)

    def write(self, name: str, text: str) -> tuple[int, str]:
        path = self.find_path(name)

        def carry_out() -> tuple[int, str]:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            return 0, f"{name} has been written"

        return self.act("Write", {"file_path": str(path), "content": text}, carry_out)

    def edit(self, name: str, text: str) -> tuple[int, str]:
        path, parts = self.find_path(name), _EDIT.match(text)
        if parts is None:
            return 1, "the edit has no OLD and NEW part as TASK.md shows them"
        old, new = parts.groups()

        def carry_out() -> tuple[int, str]:
            whole = path.read_text(encoding="utf-8") if path.is_file() else ""
            if not old or whole.count(old) != 1:
                return 1, f"the old text stands {whole.count(old) if old else 0} times in {name}, not once"
            path.write_text(whole.replace(old, new), encoding="utf-8")
            return 0, f"{name} has been changed"

        return self.act("Edit", {"file_path": str(path), "old_string": old, "new_string": new}, carry_out)

    def find_diff(self) -> str:
        """Return how the source differs from the beginning, without the tests."""
        # An index of its own: the agent's stays as it is, and what it committed is in the difference, too.
        env = {**os.environ, "GIT_INDEX_FILE": str(self.state / "index")}
        git = ["git", "-C", str(self.repo)]
        for command in (["read-tree", self.facts["base"]], ["add", "-A", "."]):
            subprocess.run([*git, *command], env=env, check=True, capture_output=True)
        done = subprocess.run(
            [*git, "diff", "--cached", "--binary", self.facts["base"], "--", ".", ":!tests"],
            env=env,
            check=True,
            capture_output=True,
        )
        return done.stdout.decode("utf-8", "surrogateescape")


def can_hide() -> bool:
    return sys.platform == "linux" and os.geteuid() == 0


def run_agent(state: Path, arguments: list[str]) -> int:
    """The `./agent` command."""
    episode, began = Episode(state), time.time()
    log = state / "log.jsonl"
    rows = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()] if log.exists() else []
    verb, rest = (arguments[0], arguments[1:]) if arguments else ("", [])
    verbs = [row["verb"] for row in rows]
    given = sys.stdin.read() if verb in ("write", "edit") else ""
    code, text = 2, "usage: see TASK.md"
    try:
        if "done" in verbs:
            text = "the session has ended"
        elif verb == "start" and "start" not in verbs and rest != ["--fresh"] and not episode.facts.get("series"):
            code, text = 3, _FRESH
        elif verb == "start" and "start" not in verbs:
            code, text = 0, episode.start()
        elif "start" not in verbs:
            text = "run `./agent start` first"
        elif verb == "run" and rest:
            code, text = episode.run(" ".join(rest))
        elif verb == "read" and rest:
            code, text = episode.read(rest[0], *map(int, rest[1:3]))
        elif verb in ("write", "edit") and len(rest) == 1:
            code, text = (episode.write if verb == "write" else episode.edit)(rest[0], given)
        elif verb == "done":
            code, text = 0, "The session has ended."
    except (OSError, ValueError) as error:
        code, text = 1, str(error)
    if text is _FRESH:
        print(text)
        return code
    difference = episode.find_diff()
    (state / "source.diff").write_text(difference, encoding="utf-8", errors="surrogateescape")
    row = {
        "at": round(began, 3),
        "seconds": round(time.time() - began, 3),
        "verb": verb,
        "arguments": rest,
        "input": given,
        "code": code,
        "output": text,
        "hooks": episode.heard,
        "source": hashlib.sha256(difference.encode("utf-8", "surrogateescape")).hexdigest()[:12] if difference else "",
    }
    with log.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row, ensure_ascii=False) + "\n")
    sys.stdout.write("\n\n".join(filter(None, (*episode.shown, text))) + "\n")
    if verb == "run" and code:
        sys.stdout.write(f"(exit code {code})\n")
    return code
