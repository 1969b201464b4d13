"""JSON as models write it: inside prose, inside a fence, or alone. Pure."""

import json
import re
from collections.abc import Iterator

_OPENING = re.compile(r"[{\[]")


def find_json(text: str) -> Iterator[object]:
    """Every JSON object or list in a text, outermost ones only."""
    decoder = json.JSONDecoder()
    at = 0
    while match := _OPENING.search(text, at):
        try:
            value, at = decoder.raw_decode(text, match.start())
            yield value
        except ValueError:
            at = match.end()
        except RecursionError:
            return  # nobody means that, and to begin again at every bracket would take minutes
