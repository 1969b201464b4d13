"""The README's first picture: docs/img/three-days.txt played through the real `memdir chat`, as an SVG.

    python benchmarks/record.py

It needs nothing but memdir: colours are read from the terminal codes of the output, and the picture is drawn as text in
whatever monospaced font the reader has. What only sets the stage (the greeting, `/now`, `/clear`) is left out of it: a
day gets a heading instead, each message a little air. The person's own folders are not touched.
"""

import os
import re
import subprocess
import sys
import tempfile
import textwrap
from html import escape
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
SCRIPT, PICTURE = ROOT / "docs" / "img" / "three-days.txt", ROOT / "docs" / "img" / "three-days.svg"
COLUMNS, LINE, CHAR, MARGIN, BAR = 92, 18, 7.9, 22, 36
AIR, DAY_AIR = 8, 20  # before a message, and before a day
BACK, EDGE, TEXT, DIM, PROMPT, DAY = "#0d1117", "#30363d", "#c9d1d9", "#8b949e", "#79c0ff", "#e3b341"
FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
COLORS = {
    "1": "#ffffff",
    "2": DIM,
    "31": "#ff7b72",
    "32": "#7ee787",
    "33": "#e3b341",
    "35": "#d2a8ff",
    "36": "#79c0ff",
}
_CODE = re.compile(r"\x1b\[([0-9;]*)m")
_STAGE = re.compile(r"memdir chat in |No model is chosen|> /now |> /clear|A new conversation\.")
_AGE = re.compile(r"\([^()]*, noted [^()]*\)")


class Line(NamedTuple):
    """One line of the picture: its text, its colour, and the air above it."""

    text: str
    color: str = ""
    air: int = 0


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


def parse_lines(text: str) -> list[Line]:
    """Lines that fit, each with its colour; a colour holds until it is taken back."""
    lines: list[Line] = []
    color = ""
    for raw in text.splitlines():
        found = _CODE.search(raw)
        color = COLORS.get(found[1], "") if found and found[1] not in ("", "0") else color
        plain = _CODE.sub("", raw)
        if not _STAGE.match(plain):
            lines += _fit(plain, color)
        if raw.endswith("\x1b[0m"):
            color = ""
    return lines


def render_svg(lines: list[Line]) -> str:
    width = int(COLUMNS * CHAR + 2 * MARGIN)
    rows, y = [], BAR
    for number, line in enumerate(lines):
        y += LINE + (line.air if number else 0)
        rows.append(f'<text x="{MARGIN}" y="{y}"{_fill(line.color)}>{_mark(line.text)}</text>')
    height = y + MARGIN
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
    title = (
        "<title>Three days with memdir chat, no model: what is said, kept, changed, forgotten and found again</title>"
    )
    frame = f'width="{width - 1}" height="{height - 1}" rx="8" fill="{BACK}" stroke="{EDGE}"'
    back = f'<rect x="0.5" y="0.5" {frame}/>'
    dots = "".join(f'<circle cx="{MARGIN + 4 + 18 * at}" cy="18" r="5" fill="{EDGE}"/>' for at in range(3))
    group = f'<g xml:space="preserve" font-family="{FONT}" font-size="13" fill="{TEXT}">'
    name = f'<text x="{width / 2}" y="22" text-anchor="middle" fill="{DIM}">memdir chat</text>'
    return "\n".join([head, title, back, dots, group, name, *rows, "</g>", "</svg>", ""])


def _fit(plain: str, color: str) -> list[Line]:
    if plain.startswith("== "):
        return [Line(plain.removeprefix("== "), DAY, DAY_AIR)]
    # What a memory is called and how old it is stays together, on a line of its own where it does not fit.
    found = _AGE.search(plain)
    if found and len(plain) > COLUMNS:
        return [Line(plain[: found.start()].rstrip(), color), Line(f"  {found[0]}", DIM)]
    parts = textwrap.wrap(plain, COLUMNS, subsequent_indent="  ", break_on_hyphens=False) or [""]
    air = AIR if plain.startswith("> ") else 0
    return [Line(part.rstrip(), color, 0 if number else air) for number, part in enumerate(parts)]


def _mark(text: str) -> str:
    """The prompt's sign and the name and age of a memory in colours of their own."""
    if text.startswith("> "):
        return f'<tspan fill="{PROMPT}">&gt;</tspan> {escape(text[2:], quote=False)}'
    return _AGE.sub(lambda at: f'<tspan fill="{DIM}">{at[0]}</tspan>', escape(text, quote=False))


def _fill(color: str) -> str:
    return f' fill="{color}"' if color else ""


def main() -> None:
    lines = parse_lines(play())
    PICTURE.write_text(render_svg(lines), encoding="utf-8")
    print(f"{PICTURE.relative_to(ROOT)}: {len(lines)} lines, {PICTURE.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
