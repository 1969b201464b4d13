"""The README's first picture: docs/img/three-days.txt played through the real `memdir chat`, as an SVG.

    python benchmarks/record.py

It needs nothing but memdir: colours are read from the terminal codes of the output, and the picture is drawn as text in
whatever monospaced font the reader has. The person's own folders are not touched.
"""

import os
import re
import subprocess
import sys
import tempfile
import textwrap
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SCRIPT, PICTURE = ROOT / "docs" / "img" / "three-days.txt", ROOT / "docs" / "img" / "three-days.svg"
COLUMNS, LINE, CHAR, MARGIN = 104, 18, 8.0, 16
COLORS = {
    "1": "#ffffff",
    "2": "#8a8f98",
    "31": "#ff7b72",
    "32": "#7ee787",
    "33": "#e3b341",
    "35": "#d2a8ff",
    "36": "#79c0ff",
}
_CODE = re.compile(r"\x1b\[([0-9;]*)m")


def play() -> str:
    """What a person would see, in colour."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder).resolve()
        project = home / "ingest"
        (project / ".git").mkdir(parents=True)
        env = {"HOME": str(home), "PATH": os.defpath, "PYTHONPATH": str(ROOT / "src"), "PYTHONIOENCODING": "utf-8"}
        command = [sys.executable, "-m", "memdir", "--color", "always", "chat", "--script", str(SCRIPT)]
        played = subprocess.run(command, env=env, cwd=project, check=True, capture_output=True, encoding="utf-8")
        return played.stdout.replace(str(home), "~")


def parse_lines(text: str) -> list[tuple[str, str]]:
    """Lines that fit, each with its colour; a colour holds until it is taken back."""
    lines: list[tuple[str, str]] = []
    color = ""
    for raw in text.splitlines():
        found = _CODE.search(raw)
        color = COLORS.get(found[1], "") if found and found[1] not in ("", "0") else color
        plain = _CODE.sub("", raw)
        for part in textwrap.wrap(plain, COLUMNS, subsequent_indent="  ", break_on_hyphens=False) or [""]:
            lines.append((part.rstrip(), color))
        if raw.endswith("\x1b[0m"):
            color = ""
    return lines


def render_svg(lines: list[tuple[str, str]]) -> str:
    width, height = int(COLUMNS * CHAR + 2 * MARGIN), len(lines) * LINE + 2 * MARGIN
    rows = [
        f'<text x="{MARGIN}" y="{MARGIN + (number + 1) * LINE - 5}"{_fill(color)}>{escape(text)}</text>'
        for number, (text, color) in enumerate(lines)
        if text
    ]
    style = "font-family:ui-monospace,Menlo,Consolas,monospace;font-size:13px;white-space:pre"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
    title = (
        "<title>Three days with memdir chat, no model: what is said, kept, changed, forgotten and found again</title>"
    )
    back = f'<rect width="{width}" height="{height}" rx="8" fill="#0d1117"/>'
    group = f'<g xml:space="preserve" style="{style}" fill="#c9d1d9">'
    return "\n".join([head, title, back, group, *rows, "</g>", "</svg>", ""])


def _fill(color: str) -> str:
    return f' fill="{color}"' if color else ""


def main() -> None:
    lines = parse_lines(play())
    PICTURE.write_text(render_svg(lines), encoding="utf-8")
    print(f"{PICTURE.relative_to(ROOT)}: {len(lines)} lines, {PICTURE.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
