"""Every command that the documentation shows is run: the examples of docs/cli.md and what the other pages name.

Each runs by itself in the same prepared home: a project with memories, a team, an inbox, a conversation and an import.
What needs a terminal, a server or a model of somebody else is named in ELSEWHERE with the test that runs it.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime

import pytest

from chat_exports import make_files, write_zip
from clihelp import NOW, Cli, memory_text
from doc_pages import BIN, DOCS, list_blocks
from homes import git, write
from loads import ROOT
from memdir.records import InboxItem, InboxKind, Save
from memdir.store.inbox import render_edits
from memdir.store.open import open_project
from memdir.testing import sample_memory
from note_taker import serve_note_taker
from tables import read_rows

ROWS = read_rows("docs_commands")

SESSION = "1f2e"

# What a page writes for "one of yours", and what that is here.
STANDS_FOR = ROWS["STANDS_FOR"]

# Verbs that run until somebody ends them, or that talk to what is not here: the test that runs them.
ELSEWHERE = ROWS["ELSEWHERE"]


# What has to be done before an example: the start of the command, and the commands. The first that fits counts.
BEFORE = ROWS["BEFORE"]


def is_elsewhere(command: str) -> bool:
    return any(command.startswith(f"memdir {start}") for start in ELSEWHERE)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Cli:
    """A home in which every example has what it speaks of."""
    cli = Cli(tmp_path_factory.mktemp("scene"), EDITOR="true")
    home, project = cli.home, cli.project
    shutil.rmtree(project)
    person = "[user]\n\tname = Ada\n\temail = ada@example.org\n"
    remotes = f'[url "{home}/remotes/"]\n\tinsteadOf = git@example.org:\n[protocol "file"]\n\tallow = always\n'
    write(home / ".gitconfig", person + remotes)
    places = (
        "remotes/team/memory.git",
        "remotes/team/app.git",
        "remotes/me/memory.git",
        "nas/memory.git",
        "work/team.git",
    )
    for place in places:
        (home / place).mkdir(parents=True)
        git(home / place, "init", "-q", "--bare")
    git(home, "init", "-q", str(project))
    write(project / "src/app.ts", "export const port = 8080\n")
    for name in ("lines.txt", "tracker.txt", "report.txt"):
        write(project / name, "The tracker is the board BILLING.\n")
    write(project / "event.json", json.dumps({"session_id": "s1", "cwd": str(project), "prompt": "how do we deploy?"}))
    write(project / "corpus.jsonl", '{"id": "a", "group": "g", "text": "We deploy on Tuesdays"}\n')
    write(project / "queries.jsonl", '{"id": "q", "group": "g", "query": "deploy day", "gold": ["a"]}\n')
    write(home / "Notes/Deploys.md", "We deploy on Tuesdays only.\n")
    (home / "Downloads").mkdir()
    write_zip(home / "Downloads/chatgpt-export.zip", make_files("chatgpt", 3))
    git(project, "add", ".")
    git(project, "commit", "-q", "-m", "first")
    git(project, "remote", "add", "origin", "git@example.org:team/app.git")
    said = [{"type": "user", "sessionId": SESSION, "cwd": str(project), "uuid": "u1", "timestamp": "2026-10-02T12:00:00Z",
             "message": {"role": "user", "content": "Remember that the tracker is the board BILLING"}}]  # fmt: skip
    for slug in ("-app", "-home-me-app", cli.memory.parent.name):
        write(home / f".claude/projects/{slug}/{SESSION}.jsonl", "".join(json.dumps(at) + "\n" for at in said))
    write(home / ".claude/projects/-old-place/memory/old.md", memory_text("Old place"))

    def do(*argv: str) -> None:
        done = cli(*argv)
        assert done.code == 0, (argv, done.err)

    for name in ("terse-replies", "deploy-freeze", "deploy-days"):
        do("save", "--type", "feedback", "--name", name, "--description", f"No summary in a {name} reply",
           "--body", f"Leave out the {name}.", "--why", "It is read anyway.", "--how", "In every reply.")  # fmt: skip
    do("edit", "terse-replies", "--description", "No summary at the end of a reply")
    for at in range(8):
        do("edit", "deploy-freeze", "--description", f"No deploys in December, said {at} times")
    do("promote", "terse-replies", "--to", "user")
    do("undo")
    do("log", "add", "the release is out")
    do("export", "-o", "memories.tar")
    with closing(open_project(project, environ=cli.variables)) as opened:
        assert opened.user is not None
        opened.private.inbox_add(
            [waiting("a"), waiting("b"), waiting("c"), clashing(opened.private.read("deploy-days").text)]
        )
        opened.user.inbox_add([waiting("d"), waiting("e"), waiting("f")])
    shutil.copytree(home, home.parent / "kept", symlinks=True)
    return cli


def waiting(title: str) -> InboxItem:
    payload = {"edits": render_edits([Save(sample_memory(title=title))]), "evidence": []}
    at = datetime.fromisoformat(NOW)
    return InboxItem(InboxKind.MEMORY, title, "it came from a web page", at, name=title, payload=payload)


def clashing(merged: str) -> InboxItem:
    texts = {"merged": merged, "ours": merged, "theirs": merged.replace("Leave out", "Keep")}
    payload = {"edits": [], "evidence": [], **texts}
    return InboxItem(
        InboxKind.CONFLICT,
        "deploy-days",
        "two machines",
        datetime.fromisoformat(NOW),
        name="deploy-days",
        payload=payload,
    )


def play(scene: Cli, command: str) -> str:
    """What is wrong with a command; empty when it ends as it should. Session notes need a model."""
    if not command.startswith("memdir notes"):
        return run_one(scene, command)
    before = dict(scene.variables)
    with serve_note_taker() as variables:
        scene.variables.update(variables)
        told = run_one(scene, command)
    scene.variables = before
    return told


def run_one(scene: Cli, command: str) -> str:
    shutil.rmtree(scene.home)
    shutil.copytree(scene.home.parent / "kept", scene.home, symlinks=True)
    before = next((done for start, done in BEFORE.items() if command.startswith(start)), ())
    for one in (*before, command):
        if re.search(r"[<>|]|&&|/\*|^eval |chat|^(?!memdir)", one):
            words = ["bash", "-euc", one]
            env = scene.environ(PATH=f"{BIN}{os.pathsep}{os.environ['PATH']}")
            done = subprocess.run(words, cwd=scene.project, env=env, capture_output=True, encoding="utf-8", input="")
            code, err, out = done.returncode, done.stderr, done.stdout
        else:
            expanded = [re.sub("^~", str(scene.home), word) for word in shlex.split(one)[1:]]
            result = scene(*expanded)
            code, err, out = result.code, result.err, result.out
        # A verb by its name alone, as text speaks of it.
        if code == 2 and re.search(
            "Missing (argument|option)|requires an argument|which one|name an agent|pass an agent|no terminal to ask|no terminal is available",
            err,
        ):
            continue
        if code != 0 or "Traceback" in err:
            return f"{one}: {code} {err.strip()} {out[-300:]}"
    return ""


def list_examples() -> Iterator[str]:
    for text in (text for language, text in list_blocks(DOCS / "cli.md") if language == "sh"):
        yield from text.replace("\\\n", " ").splitlines()


def list_named() -> Iterator[tuple[str, str]]:
    """The commands that the other pages name in their text, tables and blocks, with what they leave open filled in."""
    pages = [ROOT / "README.md", *(at for at in sorted(DOCS.rglob("*.md")) if at.parent.name != "decisions")]
    for page in pages:
        if page.name in ("cli.md", "log.md", "tutorial.md"):
            continue
        text = page.read_text(encoding="utf-8")
        blocks = "\n".join(text for language, text in list_blocks(page) if language == "sh")
        indented = re.findall(r"^ {4}(memdir .+)$", text, re.MULTILINE)
        for found in (
            *re.findall(r"`(memdir [^`\n]+)`", text),
            *indented,
            *re.findall(r"^memdir .+$", blocks, re.MULTILINE),
        ):
            # A block may explain a command after two spaces, and text may list verbs or options.
            command = re.sub(r" {2,}.*| \\?\|.*| \[.*?\]|\s#.*", "", found)
            for pattern, stands_for in STANDS_FOR.items():
                command = re.sub(pattern, stands_for, command)
            yield page.name, command


def test_every_example_of_the_command_line_does_what_it_says(scene: Cli) -> None:
    wrong = [told for one in list_examples() if not is_elsewhere(one) for told in [play(scene, one)] if told]
    assert wrong == [], "\n".join(wrong)


def test_every_command_that_another_page_names_runs(scene: Cli) -> None:
    pages: dict[str, str] = {}
    for page, command in list_named():
        pages.setdefault(command, page)
    known = set(list_examples())
    wrong = [f"{page}: {told}" for one, page in pages.items()
             if one not in known and not is_elsewhere(one) for told in [play(scene, one)] if told]  # fmt: skip
    assert wrong == [], "\n".join(wrong)
