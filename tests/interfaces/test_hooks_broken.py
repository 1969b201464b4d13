"""Whatever is broken: a hook exits with 0, and its answer is one line of valid JSON or nothing."""

import fcntl
import json
import os
import random
import resource
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from hook_calls import SECONDS, Hooks, Told, wait_until
from loads import scaled
from memdir.project.hosts import HOSTS, HookEvent
from memdir.store.state import read_problems

GARBAGE = b"\x00\xff{[garbage" * 50


class Scene:
    """A project that is about to be broken, and the call that will be made in it."""

    def __init__(self, hooks: Hooks, chance: random.Random) -> None:
        self.hooks, self.chance = hooks, chance
        self.memory, self.state, self.home = hooks.cli.memory, hooks.state, hooks.cli.home
        self.variables: dict[str, str] = {}
        self.dropped: set[str] = set()
        self.given: bytes | None = None
        self.limits: dict[int, int] = {}
        self.stack = ExitStack()
        self.is_deaf = False

    def put(self, path: Path, data: bytes = GARBAGE) -> None:
        """Something else where a file or a folder should be."""
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.write_bytes(data)

    def put_folder(self, path: Path) -> None:
        self.put(path)
        path.unlink()
        path.mkdir()

    def hold(self, name: str) -> None:
        """Somebody holds a lock and does not let go."""
        handle = os.open(self.state / name, os.O_RDWR | os.O_CREAT, 0o600)
        self.stack.callback(os.close, handle)
        fcntl.flock(handle, fcntl.LOCK_EX)


def lose_memory(scene: Scene) -> None:
    shutil.rmtree(scene.memory, ignore_errors=True)


def loop_memory(scene: Scene) -> None:
    lose_memory(scene)
    os.symlink(scene.memory, scene.memory)


def put_pipe(scene: Scene) -> None:
    os.mkfifo(scene.memory / f"pipe-{scene.chance.random()}.md")


BREAKAGES: list[Callable[[Scene], object]] = [
    lambda at: at.put(at.home / ".config" / "memdir" / "config.toml"),
    lambda at: at.put_folder(at.home / ".config" / "memdir" / "config.toml"),
    lambda at: at.put(at.home / ".claude" / "settings.json"),
    lambda at: at.put(at.hooks.cli.project / ".memdir.toml"),
    lambda at: at.put(at.home / ".config" / "memdir" / "secrets.toml"),
    lambda at: at.put(at.state / "history.db"),
    lambda at: at.put(at.state / "index.db"),
    lambda at: at.put(at.state / "index.db", b"SQLite format 3\x00" + GARBAGE),
    lambda at: at.put_folder(at.state / "index.db"),
    lambda at: at.put_folder(at.state / "history.db"),
    lambda at: at.put(at.state / "sessions" / "s-1.json"),
    lambda at: at.put(at.state / "sessions"),
    lambda at: at.put(at.state / "queue"),
    lambda at: at.put(at.state / "events"),
    lambda at: at.put_folder(at.state / "problems.jsonl"),
    lambda at: at.put(at.state / "project.json"),
    lambda at: at.put(at.state),
    lambda at: at.put(at.memory),
    lambda at: at.put(at.memory / "deploy-steps.md"),
    lambda at: at.put(at.memory / "MEMORY.md"),
    lambda at: at.put_folder(at.memory / "MEMORY.md"),
    lose_memory,
    loop_memory,
    put_pipe,
    lambda at: at.hold("lock"),
    lambda at: at.hold("worker.lock"),
    lambda at: at.limits.update({resource.RLIMIT_FSIZE: 0}),
    lambda at: at.limits.update({resource.RLIMIT_NOFILE: 24}),
    lambda at: at.variables.update(MEMDIR_NOW="yesterday"),
    lambda at: at.variables.update(CLAUDE_CONFIG_DIR="relative"),
    lambda at: at.variables.update(HOME="/nowhere/at/all"),
    lambda at: at.variables.update(CLAUDE_PROJECT_DIR="/nowhere/at/all"),
    lambda at: at.variables.update(MEMDIR_LOCK_SECONDS="soon"),
    lambda at: setattr(at, "given", GARBAGE),
    lambda at: setattr(at, "given", b""),
    lambda at: setattr(at, "given", b"[" * 100_000),
    lambda at: setattr(at, "given", b'{"session_id": 7, "prompt": null, "tool_input": [], "cwd": {}, "source": 1}'),
    lambda at: setattr(at, "given", json.dumps({"prompt": "steps " * 200_000, "session_id": "x" * 90_000}).encode()),
    lambda at: setattr(at, "is_deaf", True),
]


def make_call(scene: Scene, event: HookEvent) -> bytes:
    team = str(scene.memory / "team" / "x.md")
    table: dict[str, Any] = {
        "session_id": "s-1",
        "cwd": str(scene.hooks.cli.project),
        "prompt": "How do the deploy steps go, with a summary at the end?",
        "transcript_path": str(scene.home / "nowhere.jsonl"),
        "source": scene.chance.choice(["startup", "compact", "clear"]),
        "tool_name": scene.chance.choice(["Write", "Read", "Bash"]),
        "tool_input": {"file_path": team, "content": "password = hunter2hunter2", "command": f"echo x > {team}"},
        "agent_type": "reviewer",
    }
    return json.dumps(table).encode()


def run(scene: Scene, event: HookEvent, host: str) -> Told:
    def limit() -> None:
        for what, most in scene.limits.items():
            resource.setrlimit(what, (most, most))

    env = {**scene.hooks.cli.environ(), **scene.variables}
    command = [sys.executable, "-P", "-m", "memdir", "hook", event.value, "--host", host]
    given = scene.given if scene.given is not None else make_call(scene, event)
    with subprocess.Popen(
        command,
        cwd=scene.hooks.cli.project,
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=limit if scene.limits else None,
    ) as process:
        if scene.is_deaf and process.stdout:
            process.stdout.close()
            process.stdout = None
        out, err = process.communicate(given, timeout=SECONDS)
    return Told(process.returncode, out or b"", err)


@pytest.mark.load
def test_hooks_with_random_breakage_all_exit_zero_and_answer_json_or_nothing(tmp_path: Path) -> None:
    chance = random.Random(11)
    template = Hooks(tmp_path / "template")
    template.cli.save("deploy-steps", "Deploys go through the staging cluster on Fridays.", "--type", "project")
    template("user-prompt", prompt="The deploy-steps summary at the end of a reply?")
    order = chance.sample(BREAKAGES, len(BREAKAGES))
    for number in range(1_000 if scaled(1_000) == 1_000 else 20):
        shutil.copytree(tmp_path / "template", tmp_path / "run", symlinks=True)
        # As fast as in earnest: what is broken may make it wait, and then the deadline counts.
        scene = Scene(Hooks(tmp_path / "run", MEMDIR_HOOK_PATIENCE="1"), chance)
        first = order[number % len(order)]
        chosen = [first, *chance.sample(BREAKAGES, chance.randrange(3))]
        with scene.stack:
            for breakage in chosen:
                try:
                    breakage(scene)
                except OSError:
                    continue  # one breakage may have taken away what another wanted to break
            event = chance.choice(list(HookEvent))
            told = run(scene, event, chance.choice(list(HOSTS)))
        assert isinstance(told.table, dict), (number, told)
        assert b"Traceback" not in told.err, (number, told.err)
        wait_until(lambda: _remove(tmp_path / "run"), "what a worker still wrote is gone")


def _remove(folder: Path) -> bool:
    shutil.rmtree(folder, ignore_errors=True)
    return not folder.exists()


def test_a_hook_whose_host_never_ends_its_input_ends_by_itself_and_says_why(tmp_path: Path) -> None:
    hooks = Hooks(tmp_path, MEMDIR_HOOK_PATIENCE="1")
    hooks.cli.save("deploy-steps", "Deploys go through the staging cluster on Fridays.", "--type", "project")
    command = [sys.executable, "-P", "-m", "memdir", "hook", "user-prompt"]
    with subprocess.Popen(
        command, cwd=hooks.cli.project, env=hooks.cli.environ(), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin and process.stdout
        process.stdin.write(b'{"prompt": "half a')
        process.stdin.flush()
        assert process.wait(SECONDS) == 0 and process.stdout.read() == b""
    problems = read_problems(hooks.cli.home / ".local" / "state" / "memdir")
    assert ["hook input is not a JSON object" in at.text for at in problems] == [True]


def test_after_a_prompt_that_came_too_late_a_worker_sees_to_the_index(tmp_path: Path) -> None:
    """A large directory would else be read anew at every prompt, and never to its end."""
    hooks = Hooks(tmp_path)
    hooks.cli.file("ferry", "---\nname: Ferry\ndescription: When it leaves\ntype: project\n---\n\nAt six.\n")
    lines = (
        "from pathlib import Path",
        "from memdir.interfaces import hooks",
        "from memdir.project.hosts import GEMINI, HookEvent",
        "output = hooks.HookOutput(GEMINI)",
        "output.cwd = Path.cwd()",
        "hooks.record_late(HookEvent.PROMPT, output, 1.0, print)",
    )
    command = [sys.executable, "-P", "-c", "; ".join(lines)]
    subprocess.run(command, cwd=hooks.cli.project, env=hooks.cli.environ(), check=True, timeout=SECONDS)
    wait_until(lambda: (hooks.state / "index.db").exists(), "the index is there")


def test_without_standard_input_or_output_nothing_is_written_elsewhere(tmp_path: Path) -> None:
    hooks = Hooks(tmp_path)
    hooks.cli.save("deploy-steps", "Deploys go through the staging cluster on Fridays.", "--type", "project")
    before = {path: path.read_bytes() for path in hooks.cli.memory.glob("*.md")}
    words = shlex.join([sys.executable, "-P", "-m", "memdir", "hook", "session-start", "--host", "codex"])
    for closed in ("<&-", ">&-", "<&- >&- 2>&-"):
        command = ["sh", "-c", f"exec {words} {closed}"]
        done = subprocess.run(command, cwd=hooks.cli.project, env=hooks.cli.environ(), check=False, timeout=SECONDS)
        assert done.returncode == 0
    assert {path: path.read_bytes() for path in hooks.cli.memory.glob("*.md")} == before


def test_wrong_words_do_nothing_and_exit_zero(tmp_path: Path) -> None:
    hooks = Hooks(tmp_path)
    for words in ([], ["nothing"], ["stop", "--host", "emacs"], ["stop", "more"], ["--host"], ["--host="]):
        done = hooks.cli.real("hook", *words)
        assert (done.code, done.data) == (0, b"") and "unknown hook" in done.err
    done = hooks.cli.real("--color", "never", "hook", "stop")
    assert (done.code, done.data) == (0, b"") and "no option is allowed before" in done.err
