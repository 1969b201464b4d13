"""By model."""

import re
from collections.abc import Mapping, Sequence

from memdir.errors import MemdirError, ReplyError
from memdir.format.index import render_manifest_line
from memdir.frozen import replace
from memdir.limits import MANIFEST_ENTRIES, MANIFEST_NEWEST, SELECT_TOKENS, SELECTED
from memdir.models.prompts import render_prompt
from memdir.records import Evidence, Header, Message, Model, Pick, Query, Request, Selector
from memdir.text import find_json, fold, one_line, shorten

# --- model_select ---
# The selector that asks a model: manifest, recent tools and query in, up to five file names out.
#
# The rules and the manifest come first and the query last, so that what changes from turn to turn stands after what
# does
# not, and a provider can cache the rest. For the same reason memories that may no longer be chosen stay in the
# manifest,
# and it begins with the oldest: a memory that is saved or changed moves to its end.
#
# A model is never trusted with more than a choice: names that are not in the list are dropped, an answer that cannot
# be
# read is sent back once, and after that, or when the model does not answer, the local selector does.

KEY = "selected_memories"
PURPOSE = "select"
SCHEMA: Mapping[str, object] = {
    "type": "object",
    "properties": {KEY: {"type": "array", "items": {"type": "string"}, "maxItems": SELECTED}},
    "required": [KEY],
    "additionalProperties": False,
}
_QUERY_CHARS = 4000  # of a pasted log, the edges say what it is about


def make_model_selector(model: Model, fallback: Selector) -> Selector:
    """A selector that asks `model`, and `fallback` for what to show it and when it fails."""
    return ModelSelector(model, fallback)


class ModelSelector:
    """See above; a class only so that it has a name."""

    name = "model"

    def __init__(self, model: Model, fallback: Selector) -> None:
        self._model = model
        self._fallback = fallback

    def __call__(self, query: Query, headers: Sequence[Header], limit: int) -> Sequence[Pick]:
        limit = min(limit, SELECTED)
        if not headers or limit < 1:
            return ()
        shown = choose_shown(query, headers, self._fallback)
        request = make_select_request(query, shown, limit)
        try:
            names = self._ask(request)
        except MemdirError:
            return self._fallback(query, headers, limit)
        return match_names(names, [header for header in shown if header not in query.seen], limit)

    def _ask(self, request: Request) -> list[str]:
        """The names in the model's answer, which it may put right once."""
        text = self._model(request).text
        try:
            return parse_selected(text)
        except ReplyError as error:
            said = Message("assistant", text or "(nothing)")
            repair = Message("user", render_prompt("select_repair", problem=str(error)))
            again = replace(request, messages=(*request.messages, said, repair))
            return parse_selected(self._model(again).text)


def choose_shown(query: Query, headers: Sequence[Header], fallback: Selector) -> list[Header]:
    """What the manifest shows, oldest first: all, or of too many the best by local score and the newest."""
    known = [*headers, *query.seen]
    if len(known) > MANIFEST_ENTRIES:
        newest = sorted(known, key=lambda header: (header.modified, header.file), reverse=True)[:MANIFEST_NEWEST]
        room = MANIFEST_ENTRIES - len(newest)
        best = [pick.header for pick in fallback(query, headers, room)][:room]
        known = [*newest, *(header for header in best if header not in newest)]
    return sorted(known, key=lambda header: (header.modified, header.file))


def make_select_request(query: Query, shown: Sequence[Header], limit: int) -> Request:
    """Two messages: the list, the same as long as the memories are, and what is asked of it now."""
    manifest = "\n".join(render_manifest_line(header) for header in shown)
    parts = []
    if query.seen:
        files = sorted(one_line(header.file) for header in query.seen if header in shown)
        parts += [render_prompt("select_seen", files=", ".join(files))] if files else []
    if query.recent_tools:
        parts.append(render_prompt("select_tools", tools=", ".join(one_line(tool) for tool in query.recent_tools)))
    parts.append(render_prompt("select_query", query=_clip(query.text)))
    return Request(
        system=render_prompt("select", limit=str(limit)),
        messages=(
            Message("user", render_prompt("select_list", manifest=manifest)),
            Message("user", "\n\n".join(parts)),
        ),
        max_tokens=SELECT_TOKENS,
        schema=SCHEMA,
        purpose=PURPOSE,
    )


def parse_selected(text: str) -> list[str]:
    """The names in an answer, whatever stands around the JSON; raises ReplyError saying what is wrong with it."""
    found = list(find_json(text))
    for value in found:
        chosen = value.get(KEY) if isinstance(value, dict) else value
        if isinstance(chosen, list):
            return [name for name in chosen if isinstance(name, str)]
    if not found:
        raise ReplyError(f"there is no JSON in {shorten(one_line(text), 60)!r}" if text.strip() else "it is empty")
    raise ReplyError(f'the JSON has no list "{KEY}"')


def match_names(names: Sequence[str], headers: Sequence[Header], limit: int) -> list[Pick]:
    """The headers the names mean, in their order, each once; what means none is dropped."""
    known: dict[str, Header] = {}
    for header in headers:
        known.setdefault(fold(one_line(header.name)), header)
    chosen: dict[str, Header] = {}
    for name in names:
        key = fold(_clean(name))
        if key in known:
            chosen.setdefault(key, known[key])
    picked = list(chosen.values())[:limit]
    return [Pick(header, 1 / (rank + 1), Evidence(), by=ModelSelector.name) for rank, header in enumerate(picked)]


def _clean(name: str) -> str:
    """A name as models write it: as a whole line of the list, as a path, with or without the ending."""
    name = re.sub(r"^(?:- )?(?:\[\w+\] )?", "", name.strip().strip("`\"'"))
    name = re.sub(r" \(\d{4}-\d\d-\d\dT.*", "", name)
    return name.removeprefix("./").removesuffix(".md")


def _clip(text: str) -> str:
    if len(text) <= _QUERY_CHARS:
        return text
    half = _QUERY_CHARS // 2
    return f"{text[:half]}\n…\n{text[-half:]}"
