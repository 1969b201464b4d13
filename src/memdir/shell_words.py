"""A shell command as steps: the programs it runs, their words, and where their output goes.

Enough of the shell's grammar to see what a command writes to: quotes, redirections, here-documents, `;`, `&&`, `|`,
assignments before a program, and programs that only run another. What it does not do: expand, substitute or run
anything. A command that does not parse gives the steps that could be told apart by a rougher look.
"""

import os
import re
import shlex
from collections.abc import Iterator
from itertools import pairwise

from memdir.frozen import dataclass

COMMAND_CHARS = 100_000  # a longer one is a script with a file in it; its start says what it runs
_HERE = re.compile(r"<<-?\s*(['\"]?)(\w+)\1([^\n]*)\n.*?^\s*\2\s*$", re.DOTALL | re.MULTILINE)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
_RUNNERS = frozenset(
    "sudo env command nohup time nice exec xargs stdbuf uvx pipx uv poetry run builtin then do else".split()
)
_VALUED = frozenset("-u -g -n -I -P -L -C -o -e".split())  # options of those that take the next word
_SHELLS = frozenset("sh bash zsh dash ksh fish".split())
_BREAKS = frozenset((";", "&&", "||", "|", "&", "|&", ";;", "(", ")", "{", "}"))
_ROUGH = re.compile(r"[;|&<>]+|[^\s;|&<>]+")
_GOES_TO = re.compile(r"&?\d*>{1,2}[|&]?")


@dataclass(frozen=True, slots=True)
class Step:
    """One program with its words; `targets` are the files its output goes to."""

    words: tuple[str, ...]
    targets: tuple[str, ...] = ()

    @property
    def program(self) -> str:
        return os.path.basename(self._bare[0]) if self._bare else ""

    @property
    def arguments(self) -> tuple[str, ...]:
        return self._bare[1:]

    @property
    def script(self) -> str:
        """The command given to a shell with -c, in whatever bundle of options."""
        if self.program in _SHELLS:
            for option, text in pairwise(self.arguments):
                if re.fullmatch(r"-[a-z]*c", option):
                    return text
        return ""

    def find_verb(self, program: str) -> str:
        """The first word that is no option, if this runs `program`, by its name or as a module of Python."""
        words = self._bare
        if len(words) > 2 and re.fullmatch(r"python[\d.]*", self.program) and words[1:3] == ("-m", program):
            words = words[2:]
        elif self.program != program:
            return ""
        if {"--help", "--dry-run"} & set(words):
            return ""
        return next((word for word in words[1:] if not word.startswith("-")), "")

    @property
    def _bare(self) -> tuple[str, ...]:
        """Without assignments, and without programs that only run the next."""
        words = self.words
        while words and (_ASSIGNMENT.fullmatch(words[0]) or os.path.basename(words[0]) in _RUNNERS):
            is_runner, words = not _ASSIGNMENT.fullmatch(words[0]), words[1:]
            while is_runner and len(words) > 1 and words[0].startswith("-"):
                words = words[2:] if words[0] in _VALUED else words[1:]
        return words


def parse_steps(command: str) -> list[Step]:
    """The steps of a command, in order."""
    text = _HERE.sub(r"\3\n", command[:COMMAND_CHARS]).replace("\\\n", " ")
    found: list[Step] = []
    for line in _split_lines(text):
        found += _group(line)
    return found


def _split_lines(text: str) -> Iterator[list[str]]:
    """The words of each line, or of several where a quote goes on over their ends."""
    pending = ""
    lines = text.split("\n")
    for number, line in enumerate(lines):
        pending = f"{pending}\n{line}" if pending else line
        words = _split(pending)
        if words is None and number < len(lines) - 1 and len(pending) < COMMAND_CHARS // 10:
            continue
        yield words if words is not None else _ROUGH.findall(pending.replace('"', "").replace("'", ""))
        pending = ""


def _split(text: str) -> list[str] | None:
    lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        return list(lexer)
    except ValueError:  # a quote that is not closed, so far
        return None


def _group(words: list[str]) -> Iterator[Step]:
    own: list[str] = []
    targets: list[str] = []
    is_target = False
    for word in words:
        if is_target:
            targets.append(word)
            is_target = False
        elif _GOES_TO.fullmatch(word):
            is_target = not word.endswith("&")
            if own and own[-1].isdigit():
                own.pop()
        elif word in _BREAKS:
            if own or targets:
                yield Step(tuple(own), tuple(targets))
            own, targets = [], []
        else:
            own.append(word)
    if own or targets:
        yield Step(tuple(own), tuple(targets))
