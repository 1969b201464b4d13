"""The README's picture: memdir in the real Claude Code client, on one day and on the next, as an SVG.

    python benchmarks/record_claude.py

Client, hooks, learning, recall and files are the real ones; scripts/test fetches the client. It talks to a server on loopback
that plays the model: its two answers are in the script below. What memdir put beside a prompt is read from the request that the
client sent. The person's own folders are not touched.
"""

import re
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests" / "support"), str(ROOT / "benchmarks")]

from claude_client import Project, bodies, said_to_model  # noqa: E402
from hook_calls import wait_until  # noqa: E402
from record import COLORS, DAY, DIM, Line, render_svg  # noqa: E402
from servers import AnthropicServer  # noqa: E402

PICTURE = ROOT / "docs" / "img" / "claude-code.svg"
TITLE = "Two conversations in Claude Code with memdir: told on one day, known on the next"
FIRST = "Remember that we deploy on Tuesdays only, because support is staffed then"
SECOND = "Fix the typo in the footer and deploy it on Friday"
ANSWERS = (
    "Noted.",
    "The typo is fixed. I did not deploy: you deploy on Tuesdays only, because support is staffed then.",
)
GREEN = COLORS["32"]


def find_put(body: Any) -> list[str]:
    """What memdir put beside the prompt."""
    found = re.search(r"Memory \(saved [^)]*\):[^\n]*\n+[^\n]+\n+[^\n]+", said_to_model(body))
    assert found, "nothing was recalled"
    return [line for line in re.sub(r": /\S+/([\w-]+\.md):", r": \1", found[0]).splitlines() if line.strip()]


def play() -> list[Line]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, AnthropicServer(list(ANSWERS)) as server:
        project = Project(Path(folder).resolve(), server.url)
        project.memdir("install", "claude-code", "--model", "none")
        first = project.client(FIRST).out
        wait_until(lambda: bool(list(project.memory.glob("deploy*.md"))), "it is kept")
        (kept,) = project.memory.glob("deploy*.md")
        second = project.client(SECOND).out
        put = find_put(bodies(server)[-1])
    return [
        Line("In Claude Code", DAY),
        Line(f"> {FIRST}", "", 8),
        Line(first),
        Line(f"memdir, after the turn: kept as {kept.name}; `memdir undo` takes it back", GREEN),
        Line("Later, in another conversation", DAY, 20),
        Line(f"> {SECOND}", "", 8),
        *(
            Line(f"  {line}" if number else f"memdir, beside the prompt: {line}", DIM)
            for number, line in enumerate(put)
        ),
        Line(second),
    ]


def main() -> None:
    svg = render_svg(play()).replace(">memdir chat<", ">Claude Code with memdir<")
    PICTURE.write_text(re.sub(r"<title>.*?</title>", f"<title>{TITLE}</title>", svg), encoding="utf-8")
    print(f"{PICTURE.relative_to(ROOT)}: {PICTURE.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
