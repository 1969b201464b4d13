"""What is learned without a model of messages by an unseen author: `python benchmarks/heldout.py FILE.jsonl [-v]`.

Rows have `id`, `group` (plain, other, ironic, sincere, confidential), `language`, `text`, perhaps `before` (earlier
messages), and `keep`, the part to be kept, or "". A plain or sincere row is right if that part is saved, an other or
ironic one if nothing is. A confidential row is right if its request is found, and if nothing of it or of what was said
before is shown to a model; what is shown is printed, for a person to judge whether it is the secret.
"""

import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from memdir.conversation.confidential import leave_out
from memdir.extraction.find import SAVE, find_requests
from memdir.records import Message
from memdir.text import fold_words

NOW = datetime(2026, 11, 2, 9, tzinfo=UTC)


def make_talk(row: Mapping[str, Any]) -> list[Message]:
    said = (text["text"] if isinstance(text, dict) else text for text in (*(row.get("before") or ()), row["text"]))
    return [Message("user", text, f"m{number}", NOW) for number, text in enumerate(said)]


def list_saved(row: Mapping[str, Any]) -> list[str]:
    open_messages = leave_out(make_talk(row)).messages
    return [request.body for request in find_requests(open_messages, now=NOW) if request.action == SAVE]


def has_part(part: str, texts: Sequence[str]) -> bool:
    """Return whether four fifths of the words of a part stand in the texts, whose dates were made absolute."""
    words, saved = fold_words(part).split(), fold_words(" ".join(texts))
    return sum(word in saved for word in words) >= 0.8 * len(words)


def judge(row: Mapping[str, Any]) -> tuple[str, str]:
    """Return the outcome of a row, "right" among them, and what it rests on."""
    if row["group"] == "confidential":
        result = leave_out(make_talk(row))
        shown = [message.text for message in result.messages if message.text]
        return ("missed" if not result.hidden else "part shown" if shown else "right"), " | ".join(shown)
    saved = list_saved(row)
    if row["group"] in ("plain", "sincere"):
        return ("right" if saved and has_part(row["keep"], saved) else "lost"), " | ".join(saved)
    return ("saved" if saved else "right"), " | ".join(saved)


def main(arguments: Sequence[str]) -> None:
    counts = Counter[tuple[str, str, str]]()
    for path in (path for path in arguments if not path.startswith("-")):
        for row in map(json.loads, Path(path).read_text(encoding="utf-8").splitlines()):
            outcome, reason = judge(row)
            for language in ("", row["language"]):
                counts[row["group"], language, outcome] += 1
            is_hidden = row["group"] != "confidential" and bool(leave_out(make_talk(row)).hidden)
            counts["hidden by mistake", "", "of others"] += is_hidden
            if "-v" in arguments and (outcome != "right" or is_hidden):
                print(
                    row["id"],
                    row["language"],
                    row["group"],
                    outcome,
                    row.get("before", ""),
                    repr(row["text"]),
                    "->",
                    repr(reason),
                )
    for (group, language, outcome), count in sorted(counts.items()):
        whole = sum(other for key, other in counts.items() if key[:2] == (group, language))
        print(f"{group:20}{language:4}{outcome:12}{count:4} of {whole}")


if __name__ == "__main__":
    main(sys.argv[1:])
