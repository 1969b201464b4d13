"""How long `memdir chat` takes to show its prompt, and what a turn costs besides the model.

    python benchmarks/chat.py [memories]

Start: medians of 20 interleaved runs at a real terminal, up to the prompt, as a ratio to a bare Python that imports
json and sqlite3. Turn: a conversation with a model on loopback that answers at once, in a directory of 10,000 memories;
the time from entering the line to the end of the answer, less the time the vendor's SDK takes for the same request. The
message fits no memory, so that recall has the whole way to go and brings nothing. And the same without recall, to tell
what of it is the wait for it; and the processor time of that recall alone, which other processes do not blur.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests" / "support"), str(ROOT / "src")]

from memdir import Session  # noqa: E402
from memdir.store.open import open_project  # noqa: E402
from servers import AnthropicServer  # noqa: E402
from terminals import END, Terminal  # noqa: E402

RUNS, TURNS, GOAL_START, GOAL_TURN_MS = 20, 25, 8.0, 30.0
PAUSE = 0.3  # seconds between two lines; a person takes longer, and what follows a turn is no part of the next
READY = "\x1b[?2004h> "
BASE = [sys.executable, "-c", "import json, sqlite3"]
CHAT = [sys.executable, "-m", "memdir", "chat"]


def plant(memory: Path, count: int) -> None:
    memory.mkdir(parents=True)
    lines = []
    for number in range(count):
        head = f"---\nname: Thing {number}\ndescription: What part {number} of the machine does\ntype: project\n---\n\n"
        (memory / f"thing-{number}.md").write_text(f"{head}Part {number} turns wheel {number}.\n", encoding="utf-8")
        lines.append(f"- [Thing {number}](thing-{number}.md) — what part {number} does\n")
    (memory / "MEMORY.md").write_text("".join(lines), encoding="utf-8")


def make_message(number: int) -> str:
    """Words that no memory has; a number would be in one of them."""
    return f"zygote quark flamingo {chr(ord('a') + number % 26) * 5}"


def measure_start(env: dict[str, str], cwd: Path) -> tuple[float, float]:
    bare, chat = [], []
    for _ in range(RUNS):
        start = time.perf_counter()
        subprocess.run(BASE, env=env, cwd=cwd, check=True)
        bare.append(time.perf_counter() - start)
        start = time.perf_counter()
        with Terminal(CHAT, cwd=cwd, env=env) as terminal:
            terminal.expect(READY)
            chat.append(time.perf_counter() - start)
            terminal.type(END)
            terminal.end()
    return statistics.median(bare), statistics.median(chat)


def measure_turns(env: dict[str, str], cwd: Path, recall: str) -> tuple[float, float]:
    """Seconds of a turn as the person feels it, and of the request alone."""
    felt: list[float] = []
    with AnthropicServer(lambda body: "Yes.") as server:
        variables = {
            "MEMDIR_MODEL": "anthropic:claude-test",
            "MEMDIR_MODEL_URL": server.url,
            "ANTHROPIC_API_KEY": "sk-test-1234567890",
            "MEMDIR_EXTRACT": "off",
            "MEMDIR_NOTES": "off",
            "MEMDIR_RECALL": recall,
        }
        with Terminal(CHAT, cwd=cwd, env=env | variables) as terminal:
            terminal.expect(READY)
            for number in range(TURNS):
                start = time.perf_counter()
                terminal.enter(make_message(number))
                terminal.expect("Yes.")
                felt.append(time.perf_counter() - start)
                terminal.expect(READY)
                time.sleep(PAUSE)
            terminal.type(END)
            terminal.end()
        asked = [at.body for at in server.requests]
        bare = _measure_bare(server.url, asked[-1])
    return statistics.median(felt[5:]), bare


def _measure_bare(url: str, body: dict[str, Any]) -> float:
    """The same request by the vendor's own SDK, streamed to its end."""
    import anthropic

    client = anthropic.Anthropic(api_key="sk-test-1234567890", base_url=url, max_retries=0)
    times = []
    for _ in range(TURNS):
        start = time.perf_counter()
        with client.messages.stream(**{key: value for key, value in body.items() if key != "stream"}) as stream:
            "".join(stream.text_stream)
        times.append(time.perf_counter() - start)
        time.sleep(PAUSE)
    return statistics.median(times[5:])


def measure_recall(env: dict[str, str], cwd: Path) -> tuple[float, float]:
    """Processor seconds from a message to what recall brings for it: the first time, and in later turns."""
    opened = open_project(cwd, environ=env)
    times = []
    with Session(opened) as session:
        for number in range(TURNS):
            start = time.process_time()
            session.prompt_arrived(make_message(number))
            session.take_reminders(seconds=60)
            times.append(time.process_time() - start)
            session.turn_ended([{"role": "user", "content": "zygote"}, {"role": "assistant", "content": "Yes."}])
            session.wait()
    opened.close()
    return times[0], statistics.median(times[5:])


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder).resolve()
        project = home / "app"
        (project / ".git").mkdir(parents=True)
        env = {"HOME": str(home), "PATH": os.defpath, "PYTHONPATH": str(ROOT / "src")}
        bare, chat = measure_start(env, project)
        ratio = f"{chat / bare:.1f} x bare ({bare * 1000:.0f} ms), goal {GOAL_START:.0f}"
        print(f"start to prompt: {chat * 1000:.0f} ms, {ratio}")
        where = _run("where", "--json", env=env, cwd=project)
        plant(Path(json.loads(where)["private"]["path"]), count)
        _run("recall", "wheel seven", env=env, cwd=project)  # builds the index
        for recall in ("on", "off"):
            felt, alone = measure_turns(env, project, recall)
            parts = f"{felt * 1000:.0f} ms, the request alone {alone * 1000:.0f} ms"
            over = f"{(felt - alone) * 1000:.0f} ms over it, goal {GOAL_TURN_MS:.0f}"
            print(f"a turn at {count:,} memories, recall {recall}: {parts}: {over}")
        first, later = measure_recall(env, project)
        times = f"{first * 1000:.0f} ms in the first turn, {later * 1000:.0f} ms in a later one"
        print(f"processor time of the recall: {times}")


def _run(*argv: str, env: dict[str, str], cwd: Path) -> str:
    command = [sys.executable, "-m", "memdir", *argv]
    return subprocess.run(command, env=env, cwd=cwd, check=True, capture_output=True, encoding="utf-8").stdout


if __name__ == "__main__":
    main()
