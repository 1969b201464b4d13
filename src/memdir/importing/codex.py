"""Codex's memories: `memory_summary.md` and the handbook `MEMORY.md` of `~/.codex/memories/`.

From the summary the profile and the preferences of the person; from each task group of the handbook its preferences and
its reusable knowledge, one candidate a section. Groups that Codex says belong to another working directory are left
out, and so are failures with their fixes, which the code has by now. Both layouts of the handbook are read: blocks that
begin with `# Task Group:`, and the older ones that begin with a head between two `---` lines.
"""

import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import PurePosixPath

from memdir.frozen import dataclass
from memdir.importing.made import guess_kind, make_list, make_sentence, refuse
from memdir.importing.markdown import Item, parse_items
from memdir.importing.records import Candidate, File, Format, Found, Pile
from memdir.records import Kind
from memdir.text import one_line, shorten

SUMMARY = "memory_summary.md"
HANDBOOK = "MEMORY.md"
_GROUP = re.compile(r"^# Task Group:[ \t]*(.*)$", re.MULTILINE)
_OLD_HEAD = re.compile(r"^---\n(rollout_summary_files:.*?)\n---\n", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(r"^(scope|applies_to|description):[ \t]*(.*)$", re.MULTILINE)
_CWD = re.compile(r"\bcwd=([^;,)\s]+)")
_UPDATED = re.compile(r"\bupdated_at=([0-9T:.+Z-]+)")
_KINDS = {"user preferences": Kind.FEEDBACK, "reusable knowledge": Kind.PROJECT, "": Kind.PROJECT}


@dataclass(frozen=True, slots=True)
class _Group:
    """One block of the handbook."""

    title: str
    fields: str
    body: str
    line: int


def is_codex(pile: Pile) -> bool:
    files = {file.path.rpartition("/")[2]: file for file in pile.files}
    handbook = files.get(HANDBOOK) if pile.is_folder else pile.files[0]
    text = handbook.text if handbook else ""
    return (SUMMARY in files and HANDBOOK in files) or bool(_GROUP.search(text) or _OLD_HEAD.search(text))


def read_codex(pile: Pile, *, project: str, now: datetime) -> Found:
    """What Codex remembers; `project` is the root of the project that would remember it."""
    found: list[Candidate] = []
    for file in pile.files:
        leaf = file.path.rpartition("/")[2]
        if leaf == SUMMARY:
            found += _read_summary(file, now)
        elif leaf == HANDBOOK or not pile.is_folder:
            found += [at for group in _split_groups(file.text) for at in _read_group(group, file, project)]
    return Found(Format.CODEX, tuple(found))


def _read_summary(file: File, now: datetime) -> Iterator[Candidate]:
    profile: list[str] = []
    for item in parse_items(file.text):
        section, source = item.section.lower(), f"{file.path}:{item.line}"
        if section == "user profile":
            profile.append(item.text)
        elif section in ("user preferences", "general tips"):
            kind = Kind.FEEDBACK if section == "user preferences" else guess_kind(item.text, Kind.FEEDBACK)
            yield make_sentence(item.text, source, now=now, at=file.modified, kind=kind)
    if profile:
        yield make_list(Kind.USER, "User profile from Codex", profile, file.path, at=file.modified)


def _split_groups(text: str) -> Iterator[_Group]:
    starts = sorted([*_GROUP.finditer(text), *_OLD_HEAD.finditer(text)], key=lambda found: found.start())
    for found, end in zip(starts, [*(at.start() for at in starts[1:]), len(text)], strict=False):
        body, line = text[found.end() : end], text.count("\n", 0, found.start()) + 1
        if found.re is _GROUP:
            yield _Group(one_line(found[1]), body.partition("\n##")[0], body, line)
        else:
            fields = dict(_FIELD.findall(found[1]))
            yield _Group(one_line(fields.get("description", "")), found[1], body, line)


def _read_group(group: _Group, file: File, project: str) -> Iterator[Candidate]:
    fields = dict(_FIELD.findall(group.fields))
    times = [at for at in map(_read_time, _UPDATED.findall(group.fields + group.body)) if at is not None]
    when = max(times, default=file.modified)
    places = _CWD.findall(group.fields)
    if places and not any(_is_here(place, project) for place in places):
        source = f"{file.path}:{group.line}"
        yield refuse(source, group.title, f"it belongs to another project ({shorten(places[0], 80)})", when)
        return
    sections: dict[str, list[Item]] = {}
    for item in parse_items(group.body):
        if item.is_entry:
            sections.setdefault(item.section.lower(), []).append(item)
    for section, items in sections.items():
        source = f"{file.path}:{group.line + items[0].line - 1}"
        if section.startswith("failures"):
            yield refuse(source, group.title, "failures and their fixes: the code has them by now", when)
        elif section in _KINDS:
            title = f"{group.title}: {section}" if section else group.title
            scope = fields.get("scope", "")
            said = [item.text for item in items]
            told = f"{title}; {scope}" if scope else ""
            yield make_list(_KINDS[section], shorten(title, 100), said, source, at=when, description=told)


def _is_here(place: str, project: str) -> bool:
    """Whether a working directory is this project, here or on another machine: the same path, or the same last part."""
    if not place.startswith(("/", "~")):
        return True
    return PurePosixPath(place) == PurePosixPath(project) or PurePosixPath(place).name == PurePosixPath(project).name


def _read_time(text: str) -> datetime | None:
    try:
        when = datetime.fromisoformat(text.rstrip("."))
        return when if when.tzinfo else when.astimezone()
    except (ValueError, OverflowError):
        return None
