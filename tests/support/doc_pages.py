"""The pages of docs/ and their fenced blocks."""

import re
import sys
from pathlib import Path

from loads import ROOT

DOCS = ROOT / "docs"
BIN = Path(sys.executable).parent


def list_blocks(path: Path) -> list[tuple[str, str]]:
    """The fenced blocks of a page with their language."""
    return re.findall(r"^```(\w+)\n(.*?)^```", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
