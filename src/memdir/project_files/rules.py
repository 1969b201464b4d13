"""The head of a rule file: the `paths:` it is for, and the text below it. Pure.

`paths:` may be a list or one line with commas. Most people write patterns without quotes, and `**/*.ts` is no YAML then
(a star begins an alias); so what YAML refuses is read line by line.
"""

import re

from memdir import yaml_subset
from memdir.frozen import dataclass
from memdir.limits import HEADER_BYTES, RULE_HEAD_LINES
from memdir.project_files.globs import expand_braces, matches_all

_FENCE = re.compile(r"---[ \t]*\r?\n?\Z")
_KEY = re.compile(r"paths[ \t]*:(.*)")
_ITEM = re.compile(r"[ \t]*-[ \t]+(.*)")


@dataclass(frozen=True, slots=True)
class Rule:
    """`paths` as written, `globs` ready to be matched; without any the rule is for every file."""

    body: str
    paths: tuple[str, ...] = ()
    globs: tuple[str, ...] = ()


def parse_rule(text: str) -> Rule:
    """A rule file's text in its parts. Never raises: a head that cannot be read is a head without `paths:`."""
    head, body = _split_head(text)
    paths = tuple(path for path in (path.strip() for path in _find_paths(head)) if path)
    if not paths or matches_all(paths):
        return Rule(body)
    return Rule(body, paths, expand_braces(paths))


def _split_head(text: str) -> tuple[str, str]:
    lines = text.split("\n", RULE_HEAD_LINES + 1)
    if not _FENCE.match(lines[0]):
        return "", text
    for number, line in enumerate(lines[1 : RULE_HEAD_LINES + 1], 1):
        if _FENCE.match(line):
            return "\n".join(lines[1:number]), "\n".join(lines[number + 1 :])
    return "", text


def _find_paths(head: str) -> list[str]:
    if not re.search(r"^paths[ \t]*:", head, re.MULTILINE):
        return []
    try:
        value = yaml_subset.parse(head).get("paths", "")
    except yaml_subset.YamlError:
        return _read_lines(head[:HEADER_BYTES])
    if isinstance(value, list):
        return [item for item in value if isinstance(item, str)]
    return _split_commas(value) if isinstance(value, str) else []


def _read_lines(head: str) -> list[str]:
    """`paths:` from lines that are no YAML: what follows it on its line, or the `- item` lines below it."""
    found: list[str] = []
    inside = False
    for line in head.split("\n"):
        key, item = _KEY.match(line), _ITEM.match(line)
        if key:
            inside = not key.group(1).strip()
            found += [_unquote(part) for part in _split_commas(key.group(1).strip().strip("[]"))]
        elif inside and item:
            found.append(_unquote(item.group(1)))
        elif line.strip() and not line.lstrip().startswith("#"):
            inside = False
    return found


def _split_commas(text: str) -> list[str]:
    """Cut at commas that are not inside braces."""
    parts, depth, start = [], 0, 0
    for at, char in enumerate(text):
        depth += (char == "{") - (char == "}" and depth > 0)
        if char == "," and not depth:
            parts.append(text[start:at])
            start = at + 1
    return [*parts, text[start:]]


def _unquote(text: str) -> str:
    bare = re.sub(r"\s#.*", "", text).strip()
    return bare[1:-1] if len(bare) > 1 and bare[0] == bare[-1] and bare[0] in "\"'" else bare
