"""The knowledge graph of the MCP reference memory server: JSON lines of entities with observations, and relations.

Each entity with something said about it becomes one memory, its relations lines with links. An entity of which nothing
is known but its name is left out, and so are lines that are neither.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import datetime

from memdir.drafts import make_slug
from memdir.importing.made import guess_kind, make_list, refuse
from memdir.importing.records import Candidate, File, Format, Found, Pile
from memdir.limits import IMPORT_ITEMS
from memdir.records import Kind
from memdir.text import one_line

_BRACKETS = str.maketrans("", "", "[]")
_PEOPLE = frozenset({"user", "default_user", "me"})


def is_graph(file: File) -> bool:
    """Whether the first line with anything in it is an entity or a relation."""
    first = next((line for line in file.text.split("\n") if line.strip()), "")
    row = _parse(first)
    return row is not None and row.get("type") in ("entity", "relation")


def read_graph(pile: Pile) -> Found:
    return Found(Format.MCP_MEMORY, tuple(at for file in pile.files if is_graph(file) for at in _read(file)))


def _read(file: File) -> Iterator[Candidate]:
    entities: dict[str, tuple[int, str, list[str]]] = {}
    relations: defaultdict[str, list[str]] = defaultdict(list)
    for number, line in enumerate(file.text.split("\n")[:IMPORT_ITEMS], 1):
        row = _parse(line) if line.strip() else {}
        source = f"{file.path}:{number}"
        if row is None:
            yield refuse(source, line, "this line is no JSON object")
        elif row.get("type") == "entity" and isinstance(row.get("name"), str):
            name = str(row["name"])
            said = entities.setdefault(name, (number, str(row.get("entityType") or ""), []))[2]
            said += [text for at in _list(row.get("observations")) if (text := _say(at)) and text not in said]
        elif row.get("type") == "relation":
            ends = [row.get(key) for key in ("from", "relationType", "to")]
            if all(isinstance(at, str) and at for at in ends):
                relations[str(ends[0])].append(f"{str(ends[1]).replace('_', ' ')} [[{make_slug(str(ends[2]))}]]")
    for name, (number, sort, said) in entities.items():
        yield _make(name, sort, said, relations[name], f"{file.path}:{number}", file.modified)


def _make(name: str, sort: str, said: list[str], relations: list[str], source: str, at: datetime | None) -> Candidate:
    if not said and not relations:
        return refuse(source, name, "nothing is said about it")
    is_person = name.lower() in _PEOPLE or sort.lower() == "user"
    kind = Kind.USER if is_person else guess_kind(f"{sort} {' '.join(said)}", Kind.REFERENCE)
    label = f"{name} ({sort})" if sort else name
    title = name.replace("_", " ")
    told = f"{label}: {'; '.join(one_line(at).rstrip('.') for at in said or relations)}".translate(_BRACKETS)
    return make_list(kind, title, [*said, *relations], source, at=at, description=told, name=make_slug(name))


def _say(observation: object) -> str:
    """What an observation says; forks of the server keep it in an object."""
    if isinstance(observation, Mapping):
        observation = observation.get("content")
    return one_line(observation) if isinstance(observation, str) else ""


def _parse(line: str) -> Mapping[str, object] | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
