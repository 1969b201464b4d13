"""A newcomer's first ten minutes, from nothing: README's two commands, the tutorial, and the first recall in Claude Code.

    python benchmarks/first_minutes.py

Only python3 with venv and git are on the path, the home is empty, and the repository is cloned. The client is the one that
scripts/test fetched; it talks to a server on loopback that plays the model. Prints the seconds of each step.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))

from servers import AnthropicServer  # noqa: E402

CLIENT = ROOT / ".venv" / "claude" / "node_modules" / ".bin" / "claude"
ASKED = "may I deploy on Friday?"
ANSWERS = ["Noted.", "No: on Tuesdays only."]


@contextmanager
def step(what: str) -> Iterator[None]:
    start = time.monotonic()
    yield
    print(f"{time.monotonic() - start:7.1f} s  {what}", flush=True)


def make_path(folder: Path) -> str:
    """A folder with python3, git and the usual programs, and nothing else of this machine."""
    folder.mkdir()
    for name in ("python3", "git"):
        (folder / name).symlink_to(os.path.realpath(shutil.which(name) or name))
    return f"{folder}:/usr/bin:/bin"


def run(script: str, env: dict[str, str], cwd: Path) -> str:
    done = subprocess.run(["sh", "-euc", script], env=env, cwd=cwd, capture_output=True, encoding="utf-8", check=False)
    if done.returncode:
        sys.exit(f"{script[:200]}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return done.stdout


def main() -> None:
    pip = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_"))}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        home = Path(folder).resolve() / "home"
        home.mkdir()
        env = {"HOME": str(home), "PATH": make_path(home.parent / "bin"), "LANG": "C.UTF-8", **pip}
        with step("git clone"):
            run(f"git clone -q {ROOT} memdir", env, home)
        with step("scripts/run demo (makes the virtual environment, installs, plays)"):
            assert "undo" in run("cd memdir && scripts/run demo", env, home)
        env["PATH"] = f"{home}/memdir/.venv/bin:{env['PATH']}"
        page = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
        commands = "".join(re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL))
        with step(f"the tutorial, {commands.count('memdir ')} commands"):
            run(commands, env, home)
        with AnthropicServer(list(ANSWERS)) as server:
            project = home / "app"
            run(f"git init -q {project}", env, home)
            with step("memdir install claude-code"):
                run("memdir install claude-code --model none", env, project)
            variables = {
                "ANTHROPIC_BASE_URL": server.url,
                "ANTHROPIC_API_KEY": "dummy-key-for-loopback",
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                "MEMDIR_HOOK_PATIENCE": "60",
                "PATH": f"{env['PATH']}:{Path(shutil.which('node') or '/usr/bin/node').parent}",
            }
            client = {**env, **variables}
            with step("told in Claude Code, and kept"):
                told = "Remember that we deploy on Tuesdays only, because support is staffed then"
                run(f"{CLIENT} -p '{told}' </dev/null", client, project)
                end = time.monotonic() + 60
                while "deploy" not in run("memdir list", env, project):
                    assert time.monotonic() < end, "it was not kept"
            with step("asked in another conversation, and recalled"):
                run(f"{CLIENT} -p '{ASKED}' </dev/null", client, project)
            assert "support is staffed then" in str(server.requests[-1].body), "it was not recalled"
        print("all of it was done")


if __name__ == "__main__":
    main()
