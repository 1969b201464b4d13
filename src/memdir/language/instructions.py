"""Recognise text that addresses the agent as an instruction would.

The patterns are data, `data/signs.toml`. They are a second line of defence only, because an author who knows them can avoid
them: text from others is always shown with its author and never as an instruction.
"""

import re
from functools import cache

from memdir.language import read_file
from memdir.text import fold_text


def find_instruction(text: str) -> str:
    """Return how a text addresses the agent, or "" if it does not."""
    folded = fold_text(text).text
    # Search the original lines and also the text on one line, because a sentence may span lines.
    readings = {text, folded, " ".join(folded.split())}
    small = folded.lower()
    likely = ((why, pattern) for why, hints, pattern in _read_signs() if any(hint in small for hint in hints))
    return next((why for why, pattern in likely if any(map(pattern.search, readings))), "")


@cache
def _read_signs() -> list[tuple[str, list[str], re.Pattern[str]]]:
    rows = read_file("signs")["sign"]
    compiled = [re.compile("|".join(row["patterns"]), re.IGNORECASE | re.MULTILINE) for row in rows]
    return [(row["why"], row["hints"].split("|"), pattern) for row, pattern in zip(rows, compiled, strict=True)]
