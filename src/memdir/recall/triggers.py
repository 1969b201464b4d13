"""Find the memories that an agent's action calls for, by the triggers of each memory.

A trigger is written or derived. Written triggers are the entries of `when:`. If a memory has none, paths, commands and
names that its text mentions in code spans are its triggers, and in prose only those that cannot be ordinary words.

    kind      key                                 pattern
    paths     literals, one of which must occur   a glob below the project's root
    commands  the same                            a regular expression
    content   the same                            a regular expression
    file      the last part of a path             a file or folder
    program   the longest word of a command       a command; its words occur in this order
    name      the longest part of a name          an identifier, as `sync_all` or `Repo.delete_all`

The table is part of the derived index, so it is renewed, purged and rebuilt with it. A hook reads the few rows that can
match without loading the modules of recall: derived triggers are looked up by key, and literals are tested before an
expression is compiled. Expressions are matched by RE2 with little memory, so that none can slow an action. The table only
proposes memories: what is shown comes from the file, and a row whose file has changed is not used.
"""

import json
import math
import os
import re
import sqlite3
import time
import warnings
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from enum import StrEnum
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from memdir.errors import FormatError
from memdir.format.when import compile_expression
from memdir.frozen import compile_late, dataclass, field
from memdir.limits import ACTION_CHARS, ACTION_SECONDS, TRIGGERS
from memdir.project.hosts import EDITORS, PATCHED, PATH_KEYS, READERS, SHELLS, WRITERS
from memdir.records import Kind, Scope
from memdir.store.sessions import RANKING, SessionFile
from memdir.store.state import FREQUENT, read_table, write_table
from memdir.text import find_code_spans

if TYPE_CHECKING:
    from memdir.records import When

# Without a stub; Python 3.11 to 3.14 have it.
_parser: Any = import_module("re._parser")
TRIGGER_COLUMNS = "doc INTEGER, kind TEXT, key TEXT, pattern TEXT, PRIMARY KEY (kind, key, doc, pattern)"
COMMON = 3  # a name or file that more memories mention is too common to be a trigger
_LISTED = "(SELECT value FROM json_each(?))"
_ALTERNATIVES = 12
_BUSY_SECONDS = 0.05
_SPAN_CHARS = 80
_CALL_CHARS = 5
_PLAIN = compile_late(
    r"(?<![\w/.@-])(?:\w+/)+[\w-]+\.[a-z]{1,5}\b|\b[A-Za-z]\w*_\w+(?:\(\))?|(?<![\w-])--[a-z]+(?:-[a-z]+)+"
)
_ARITY = compile_late(r"(?<=\w)[!?]?/\d\Z")
_GLOB = compile_late(r"\*+|\?|(?P<choice>\{[^{}/]*\})|(?P<letters>\[[^\]/]+\])|[^*?{\[]+|.", re.DOTALL)
_LETTERS = re.compile(r"[A-Za-z][a-z]+|[A-Z]{2,}|[^\W_]+")
_GLOB_SIGNS, _ENDING = compile_late(r"\{[^}]*\}|\[[^\]]*\]|\*"), compile_late(r"\.\w{1,5}\Z")
_STEM_CHARS = 4  # min letters of a file name in a glob; fewer match too much
_ENDING_CHARS = 4  # max letters of an inflected word after its stem
_NAME = re.compile(r"[A-Za-z_]\w+")
# A definition in most languages: a keyword or, for C and its relatives, a modifier or type before a name with a bracket.
_DEFINITION = compile_late(
    r"\b(?:def|defp|class|fn|func|function|sub|struct|enum|trait|interface|protocol|type|const|let|var|val|module"
    r"|defmodule|record|macro)[ \t]+(?:\([^()\n]{0,60}\)[ \t]*)?([A-Za-z_][\w.]*)\b\(?"
    r"|^[ \t]*(?:(?:public|private|protected|internal|static|final|virtual|override|async|export|inline|extern|unsigned"
    r"|void|int|bool|string|double|float|char|long|auto)[ \t*&]+)+(?:[\w<>\[\],]+[ \t*&]+)?([A-Za-z_]\w*)\(",
    re.MULTILINE,
)
_READ_CHARS, _DEFINITIONS = 262_144, 500  # of a text that the agent has read
_WORDS = re.compile(r"[^\s;|&()<>\"'`]+")


class TriggerKind(StrEnum):
    PATHS = "paths"
    COMMANDS = "commands"
    CONTENT = "content"
    FILE = "file"
    PROGRAM = "program"
    NAME = "name"


ENFORCING = frozenset((TriggerKind.COMMANDS, TriggerKind.CONTENT))
WRITTEN = (TriggerKind.PATHS, TriggerKind.COMMANDS, TriggerKind.CONTENT)


class Trigger(NamedTuple):
    kind: str
    key: str
    pattern: str


@dataclass(frozen=True, slots=True)
class Action:
    """The effect of a tool call. `paths` are below the project's root, `text` is what is written. `replaced` is text
    that is replaced or searched for, in which only names count. `is_write`: it writes a file or runs a command.
    `defined` are lines of a text that the agent has read, by the names that they define; then all else is empty."""

    paths: tuple[str, ...] = ()
    command: str = ""
    text: str = ""
    replaced: str = ""
    is_write: bool = False
    defined: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TriggerMatch:
    """A memory with the triggers that match."""

    name: str
    triggers: tuple[Trigger, ...]
    kind: str = ""  # of the memory

    @property
    def kinds(self) -> frozenset[str]:
        return frozenset(trigger.kind for trigger in self.triggers)


@dataclass(frozen=True, slots=True)
class LeadingMemory:
    """One of the best memories for a prompt, with its rarest words and their weights."""

    scope: Scope
    name: str
    words: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class PromptRanking:
    """The best memories for the last prompt of a conversation. `doubt`, from 0 to 2, is how unlikely the prompt
    needs memories. `off`: it asks to leave memory out."""

    turn: str = ""
    leaders: tuple[LeadingMemory, ...] = ()
    doubt: float = 0.0
    off: bool = False


@dataclass(frozen=True, slots=True)
class ActionCandidate:
    """A memory that an action calls for. `evidence` is what exceeds the evidence that its rank requires."""

    scope: Scope
    name: str
    evidence: float
    triggers: tuple[Trigger, ...] = ()


# --- what a tool call is about to do ---------------------------------------------------------------------------------

COMMAND_KEYS = ("command", "cmd", "script", "input")
_NEW_KEYS = ("content", "file_text", "new_source", "new_string", "newString", "new_str", "code")
_OLD_KEYS = ("old_string", "oldString", "old_str", "pattern", "query")  # searched for names only
_PATCH = "*** Begin Patch"


def find_action(tool: str, values: Mapping[str, Any], cwd: str, tops: Sequence[Path]) -> Action | None:
    """Return the action of a tool call, or None if the tool neither writes, reads nor runs anything.

    Paths are relative to one of `tops`, the roots of the work tree and of the project; others are left out.
    """
    if tool not in WRITERS | EDITORS | SHELLS | READERS:
        return None
    edits = values.get("edits") or values.get("replacements")
    tables = [values, *(row for row in edits if isinstance(row, dict))] if isinstance(edits, list) else [values]
    command = "\n".join(list_texts(values, COMMAND_KEYS)) if tool in SHELLS | WRITERS else ""
    text, replaced = (
        "\n".join(part for table in tables for part in list_texts(table, keys)) for keys in (_NEW_KEYS, _OLD_KEYS)
    )
    paths = list_texts(values, PATH_KEYS)
    if _PATCH in (patch := command or text):
        paths += PATCHED.findall(patch)
        lines = patch.split("\n")
        text, replaced = ("\n".join(line[1:] for line in lines if line.startswith(sign)) for sign in "+-")
        command = ""
    below = [path for path in (_find_below(path, cwd, tops) for path in paths) if path]
    return Action(tuple(below), command if tool in SHELLS else "", text, replaced, is_write=tool not in READERS)


def find_defined(text: str) -> Action:
    """Return what a text defines, such as functions and classes, as an action: the agent has read it and may change it."""
    matches = islice(_DEFINITION.finditer(text[:_READ_CHARS]), _DEFINITIONS)
    pairs = {(match[1] or match[2]).rpartition(".")[2]: match[0].strip() for match in matches}
    return Action(text="\n".join(pairs.values()), defined=pairs)


def _find_below(path: str, cwd: str, tops: Sequence[Path]) -> str:
    plain = os.path.normpath(os.path.join(cwd, path)) if "\0" not in path else ""
    for whole in (plain, os.path.realpath(plain)) if plain else ():
        for top in tops:
            if whole.startswith(os.path.join(top, "")):
                return os.path.relpath(whole, top)
    return ""


def list_texts(values: Mapping[str, Any], keys: Sequence[str]) -> list[str]:
    """Return the texts of these fields; lists of words are joined."""
    texts = (values.get(key) for key in keys)
    joined = (
        " ".join(word for word in value if isinstance(word, str)) if isinstance(value, list) else value
        for value in texts
    )
    return [value for value in joined if isinstance(value, str) and value]


# --- agreement ---------------------------------------------------------------------------------------------------------
# A trigger alone is weak evidence: half of all edits match one. So the evidence of trigger and words must be the stronger
# the worse the memory ranks for the last prompt. Numbers from the prompts of nine projects; docs/log.md has the curves.

_WEIGHTS = {
    TriggerKind.NAME: 4.0,  # alone enough at any rank
    TriggerKind.PROGRAM: 2.0,
    TriggerKind.COMMANDS: 1.8,
    TriggerKind.CONTENT: 1.8,
    TriggerKind.PATHS: 1.2,
    TriggerKind.FILE: 1.2,
}
_BROAD = 0.3  # a path that names a folder or an ending, not a file
_READ_LESS = 0.5  # subtracted at an action that only reads
_COMMAND_WORDS = 0.7  # share of the words' weight in a command, which also names what is only looked at
_MORE = 1.0  # for each further kind that matches, as the path and the new text of an edit
_CROWD = 0.3  # subtracted, times the logarithm of the number of memories with a match
_NEED, _NEED_RANK = 0.7, 0.6  # evidence required at rank 1, and its increase with the logarithm of the rank
_NEED_DOUBT = 1.0  # required in addition, times the doubt that the prompt needs a memory
_LITTLE_DOUBT = 1.0  # below it, a rule at its command or file, and what names a definition, need no agreement
_SUFFICIENT = 0.1
_LAST_RANK = 40  # of memories that are not in the ranking
_ONE_IN, _FEW_TURNS = 20, 2  # a trigger is too wide if it fires in more than one of 20 turns, and more than twice


def read_ranking(file: SessionFile) -> PromptRanking:
    """Return the ranking that the prompt hook has saved, or an empty one if there was no prompt yet."""
    match file.read_prompt(RANKING):
        case {"turn": str(turn), "leaders": list(rows), "doubt": float(doubt), "off": bool(off)}:
            return PromptRanking(turn, tuple(leader for row in rows if (leader := _read_leader(row))), doubt, off)
    return PromptRanking()


def read_frequent(state: Path) -> frozenset[tuple[str, str]]:
    """Return the names and patterns of triggers that fired too often in past conversations (`note_frequent`)."""
    rows = read_table(state, FREQUENT).get("triggers")
    pairs = [row[:2] for row in rows if isinstance(row, list) and len(row) == 3] if isinstance(rows, list) else []
    return frozenset((str(name), str(pattern)) for name, pattern in pairs)


def note_frequent(state: Path, index: Path, turns: Sequence[Sequence[Action]], now: datetime) -> None:
    """Record the triggers that would have fired in more than one of twenty past turns."""
    counts: Counter[tuple[str, str]] = Counter()
    for actions in turns:
        matches = [match for action in actions for match in find_matches(index, action)]
        counts.update({(match.name, trigger.pattern) for match in matches for trigger in match.triggers})
    often = [
        [name, pattern, count]
        for (name, pattern), count in counts.items()
        if count > max(_FEW_TURNS, len(turns) / _ONE_IN)
    ]
    write_table(state, FREQUENT, {"at": now.isoformat(), "turns": len(turns), "triggers": sorted(often)})


def _read_leader(row: object) -> LeadingMemory | None:
    match row:
        case [str(scope), str(name), dict(words)] if scope in list(Scope):
            weights = {str(word): float(value) for word, value in words.items() if isinstance(value, int | float)}
            return LeadingMemory(Scope(scope), name, weights)
    return None


def find_candidates(
    matches: Sequence[tuple[Scope, TriggerMatch]],
    ranking: PromptRanking,
    action: Action,
    frequent: Collection[tuple[str, str]] = (),
) -> list[ActionCandidate]:
    """Return the memories with enough evidence, best first. `frequent` triggers do not count as evidence."""
    triggers = {(scope, match.name): match.triggers for scope, match in matches}
    rules = {(scope, match.name) for scope, match in matches if match.kind in (Kind.FEEDBACK, Kind.USER)}
    leaders = {(leader.scope, leader.name): (rank, leader) for rank, leader in enumerate(ranking.leaders, 1)}
    text = f"{' '.join(action.paths)} {action.text} {action.command}"[:ACTION_CHARS]
    words = sorted({word.lower() for word in _LETTERS.findall(text)})
    candidates = []
    for key in dict.fromkeys((*triggers, *leaders)):
        rank, leader = leaders.get(key, (_LAST_RANK, None))
        matched = tuple(one for one in triggers.get(key, ()) if (key[1], one.pattern) not in frequent)
        need = _NEED + _NEED_RANK * math.log(rank) + _NEED_DOUBT * ranking.doubt
        evidence = _score_triggers(matched, len(triggers)) - need
        is_named = bool(action.defined and matched) or (key in rules and any(map(_names_exactly, matched)))
        if is_named and ranking.doubt < _LITTLE_DOUBT:
            evidence = max(evidence, _SUFFICIENT / rank)
        elif not action.is_write:
            evidence -= _READ_LESS
        elif leader is not None:
            share = _COMMAND_WORDS if action.command and not matched else 1.0
            evidence += share * _measure_overlap(leader.words, words)
        if evidence > 0:
            candidates.append(ActionCandidate(*key, evidence, matched))
    return sorted(candidates, key=lambda candidate: -candidate.evidence)


def _names_exactly(trigger: Trigger) -> bool:
    """Return whether a rule's trigger is a command, or a path below the root that names a file: it needs no agreement."""
    if trigger.kind != TriggerKind.PATHS:
        return trigger.kind == TriggerKind.COMMANDS
    return trigger.pattern[0].isalnum() and "**" not in trigger.pattern and bool(_find_stem(trigger.pattern))


def _find_stem(pattern: str) -> str:
    """Return the letters of a file's name in a glob, without its ending."""
    return _ENDING.sub("", _GLOB_SIGNS.sub("", pattern.rpartition("/")[2]))


def _score_triggers(matched: Sequence[Trigger], memories: int) -> float:
    """Return the evidence of the triggers of one memory, if this number of memories have a match."""
    scores: dict[str, float] = {}
    for trigger in matched:
        kind = TriggerKind(trigger.kind)
        is_broad = kind in (TriggerKind.PATHS, TriggerKind.FILE) and not _names_file(trigger)
        scores[kind] = max(scores.get(kind, 0.0), _BROAD if is_broad else _WEIGHTS[kind])
    return max(scores.values()) + _MORE * (len(scores) - 1) - _CROWD * math.log(memories) if scores else 0.0


def _names_file(trigger: Trigger) -> bool:
    """Return whether a path names a file, and not only a folder or an ending."""
    path = trigger.pattern.rstrip("/")
    if trigger.kind == TriggerKind.FILE:
        return bool({".", "_"} & set(path.rpartition("/")[2]))
    return len(_find_stem(path)) >= _STEM_CHARS


def _measure_overlap(weights: Mapping[str, float], words: Sequence[str]) -> float:
    """Return the total weight of the stems with which a word of this sorted list begins, if there are several."""
    hits = [weight for stem, weight in weights.items() if _has_stem(stem, words)]
    return sum(hits) if len(hits) > 1 else 0.0


def _has_stem(stem: str, words: Sequence[str]) -> bool:
    index = bisect_left(words, stem)
    return index < len(words) and words[index].startswith(stem) and len(words[index]) <= len(stem) + _ENDING_CHARS


# --- which memories match an action ----------------------------------------------------------------------------------


def find_matches(index: Path, action: Action) -> list[TriggerMatch]:
    """Return the memories of an index whose triggers match. Returns none if the index is missing or cannot be read."""
    try:
        with closing(sqlite3.connect(f"{index.absolute().as_uri()}?mode=ro", uri=True, timeout=_BUSY_SECONDS)) as db:
            matches: dict[int, list[Trigger]] = {}
            for doc, trigger in _match_rows(db, action):
                matches.setdefault(doc, []).append(trigger)
            select = f"SELECT doc, path, kind FROM bodies WHERE doc IN {_LISTED}"
            rows = db.execute(select, [json.dumps(list(matches))])
            return [TriggerMatch(path.removesuffix(".md"), tuple(matches[doc]), kind) for doc, path, kind in rows]
    except (sqlite3.Error, ValueError, TypeError):
        return []


def match_triggers(triggers: Iterable[Trigger], action: Action) -> tuple[Trigger, ...]:
    """Return the triggers that match an action, such as those just read from a file."""
    facts = _ActionFacts(action)
    return tuple(trigger for trigger in triggers if _matches(trigger, facts))


class _ActionFacts:
    """The texts of an action in the forms in which triggers are compared with them."""

    def __init__(self, action: Action) -> None:
        text, replaced = action.text[:ACTION_CHARS], action.replaced[:ACTION_CHARS]
        command = action.command[:ACTION_CHARS]
        if "<<" in command and not text:
            text = command  # a here-document is written somewhere
        self.paths = action.paths
        self.texts = {TriggerKind.COMMANDS: command, TriggerKind.CONTENT: text}
        self.lowered = {kind: value.lower() for kind, value in self.texts.items()}
        self.lowered[TriggerKind.PATHS] = "\n".join(self.paths).lower()
        self.words = _WORDS.findall(command)
        self.names = "\n".join(action.defined or (text, replaced, command))
        self.defined = action.defined
        mentioned = [word.lstrip("./") for word in self.words if "/" in word or "." in word]
        self.files = [*self.paths, *mentioned]
        self._until = 0.0

    def has_time(self) -> bool:
        """Return whether time is left to search another expression. The first call starts the clock."""
        self._until = self._until or time.perf_counter() + ACTION_SECONDS
        return time.perf_counter() < self._until

    def list_keys(self) -> dict[TriggerKind, list[str]]:
        """Return the keys of the derived triggers that may match."""
        parts = (part for path in self.files for part in path.split("/") if part)
        words = (word.partition("=")[0] for word in self.words)
        return {
            TriggerKind.FILE: list(dict.fromkeys(parts)),
            TriggerKind.PROGRAM: list(dict.fromkeys(words)),
            TriggerKind.NAME: list(dict.fromkeys(_NAME.findall(self.names))),
        }


def _match_rows(db: sqlite3.Connection, action: Action) -> Iterator[tuple[int, Trigger]]:
    facts = _ActionFacts(action)
    for kind in WRITTEN:
        if facts.lowered[kind]:
            # Triggers without a literal come last.
            rows = db.execute("SELECT doc, kind, key, pattern FROM triggers WHERE kind = ? ORDER BY key DESC", (kind,))
            for doc, *trigger in rows:
                if _matches(row := Trigger(*trigger), facts):
                    yield doc, row
    for kind, keys in facts.list_keys().items():
        by_pattern: dict[Trigger, list[int]] = {}
        select = f"SELECT doc, kind, key, pattern FROM triggers WHERE kind = ? AND key IN {_LISTED}"
        for doc, *trigger in db.execute(select, (kind, json.dumps(keys))):
            by_pattern.setdefault(Trigger(*trigger), []).append(doc)
        for row, docs in by_pattern.items():
            if len(docs) <= COMMON and _matches(row, facts):
                yield from ((doc, row) for doc in docs)


def _matches(trigger: Trigger, facts: _ActionFacts) -> bool:
    kind, key, pattern = trigger
    if kind in WRITTEN:
        lowered = facts.lowered[TriggerKind(kind)]
        has_literal = not key or any(literal in lowered for literal in key.split("\n"))
        if not lowered or not has_literal or not facts.has_time():
            return False
        if kind == TriggerKind.PATHS:
            glob = _compile(render_glob(pattern), ignores_case=True)
            return glob is not None and any(glob.fullmatch(path) for path in facts.paths)
        expression = _compile(pattern, ignores_case=kind == TriggerKind.COMMANDS)
        if expression is None or not expression.search(facts.texts[TriggerKind(kind)]):
            return False
        return not facts.defined or any(_covers(expression, name, line) for name, line in facts.defined.items())
    if kind == TriggerKind.FILE:
        return any(f"/{pattern}/" in f"/{path}/" for path in facts.files)
    if kind == TriggerKind.PROGRAM:
        words = iter(facts.words)
        return all(any(word in (other, other.partition("=")[0]) for other in words) for word in pattern.split(" "))
    return re.split(r"\W", pattern)[-1] in facts.defined if facts.defined else pattern in facts.names


def _covers(expression: Any, name: str, line: str) -> bool:
    """Return whether an expression matches the whole name that a line defines."""
    match, start = expression.search(line), line.rindex(name)
    return bool(match) and match.start() <= start and match.end() >= start + len(name)


def _compile(pattern: str, *, ignores_case: bool) -> Any:
    """Return a compiled expression, or None if it is invalid or matches every text, which memdir never writes."""
    try:
        expression = compile_expression(pattern, ignores_case=ignores_case)
    except FormatError:
        return None
    return None if expression.search("") else expression


# --- the triggers of a memory ----------------------------------------------------------------------------------------


def list_triggers(when: "When", text: str) -> list[Trigger]:
    """Return the triggers of a memory: those of `when`, or else those derived from its text."""
    if not when.has_patterns:
        return list(dict.fromkeys(_derive_triggers(text)))[:TRIGGERS]
    patterns = [(kind, pattern) for kind in WRITTEN for pattern in getattr(when, kind)]
    return [
        Trigger(kind, "\n".join(find_literals(pattern, is_glob=kind == TriggerKind.PATHS)), pattern)
        for kind, pattern in patterns
    ]


def _derive_triggers(text: str) -> Iterator[Trigger]:
    spans = find_code_spans(text) if "`" in text else ()
    plain = [match for match in _PLAIN.finditer(text) if not any(start <= match.start() < end for start, end in spans)]
    if not spans and not plain:
        return
    # Imported here, as below: a hook only reads derived triggers, and most memories have none.
    from memdir.verify import claims

    for start, end in spans:
        token = " ".join(text[start:end].split())
        if not token or len(token) > _SPAN_CHARS or claims.find_path_problem(token):
            continue
        if " " in token:
            if claims.is_command(token):
                words = [word for word in token.removeprefix("$ ").split(" ") if not word.startswith("$")]
                yield Trigger(TriggerKind.PROGRAM, max(words, key=len), " ".join(words))
            continue
        yield from _derive_token(token, is_code=True)
    for match in plain:
        yield from _derive_token(match[0], is_code=False)


def _derive_token(token: str, *, is_code: bool) -> Iterator[Trigger]:
    from memdir.verify import claims

    token = _ARITY.sub("", token)
    path = claims.find_place(token)[0].removeprefix("./").rstrip("/")
    if flag := claims.FLAG.match(token):
        yield Trigger(TriggerKind.PROGRAM, flag[1], flag[1])
    elif claims.is_path(token, is_code=is_code) and ("/" in path or "." in path) and not path.startswith("/"):
        yield Trigger(TriggerKind.FILE, path.rpartition("/")[2], path)
    elif match := claims.SYMBOL.fullmatch(token):
        name = match[1].rstrip("!?")
        parts = claims.PARTS.split(name)
        if len(parts) > 1 or claims.is_identifier(name) or (match[2] and len(name) > _CALL_CHARS):
            yield Trigger(TriggerKind.NAME, max(parts, key=len), name)


# --- the texts that every match of an expression contains ------------------------------------------------------------


def render_glob(glob: str) -> str:
    """Return a glob as a regular expression: `*` and `?` stay within a folder, `**` stands for any folders.

    Who writes a glob may not know the exact tree: one that begins with a folder's name matches below any folder, and
    `Ingest/` also matches `Scada.Ingest/` and `data-ingest/`. Case is ignored.
    """
    *folders, last = glob.removeprefix("./").split("/")
    start = "(?:.*/)?" if folders and folders[0][:1].isalnum() else ""
    names = ["(?:.*/)?" if name == "**" else f"(?:[^/]*[._-])?{_render_name(name)}/" for name in folders]
    return "".join((start, *names, _render_name(last) or ".*"))


def _render_name(glob: str) -> str:
    parts = []
    for match in _GLOB.finditer(glob):
        sign = match[0]
        if match.lastgroup == "choice":
            parts.append("(?:" + "|".join(re.escape(one) for one in sign[1:-1].split(",")) + ")")
        elif match.lastgroup == "letters":
            letters = sign[1:-1].lstrip("!^").replace("\\", "\\\\").replace("[", "\\[")
            parts.append(f"[{'^' if sign[1] in '!^' else ''}{letters}]")
        else:
            parts.append({"**": ".*", "*": "[^/]*", "?": "[^/]"}.get(sign) or re.escape(sign))
    return "".join(parts)


def find_literals(pattern: str, *, is_glob: bool = False) -> tuple[str, ...]:
    """Return texts in lower case, one of which is in every match of an expression, or none if that is not known.

    They only save time: an expression that Python cannot parse without a warning has none.
    """
    if is_glob:
        pieces = [match[0] for name in pattern.removeprefix("./").split("/") for match in _GLOB.finditer(name)]
        longest = max((piece for piece in pieces if piece[0] not in "*?{["), key=len, default="")
        return (longest.lower(),) if longest else ()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            literals = _choose_literals(_parser.parse(pattern))
    except (re.error, RecursionError, OverflowError, Warning):
        return ()
    return literals if len(literals) <= _ALTERNATIVES and all(len(literal) > 1 for literal in literals) else ()


def _choose_literals(pieces: Iterable[tuple[object, Any]]) -> tuple[str, ...]:
    """Return the alternative texts, one of which is in every match: the set whose shortest text is longest."""
    choices: list[tuple[str, ...]] = [()]
    run = ""
    for kind, value in (*pieces, (None, None)):
        if kind is _parser.LITERAL:
            run += chr(value).lower()
        elif kind is not _parser.AT:
            choices += [(run,)] if run else []
            run = ""
        if kind is _parser.SUBPATTERN:
            choices.append(_choose_literals(value[-1]))
        elif kind in (_parser.MAX_REPEAT, _parser.MIN_REPEAT) and value[0]:
            choices.append(_choose_literals(value[2]))
        elif kind is _parser.BRANCH and all(branches := [_choose_literals(one) for one in value[1]]):
            choices.append(tuple(literal for branch in branches for literal in branch))
    return max(choices, key=lambda choice: (min(map(len, choice), default=0), -len(choice)))
