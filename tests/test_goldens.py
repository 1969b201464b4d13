"""What every verb, hook event and tool answers, recorded: a change of the code that should change no answer changes none.

Each file in tests/data/goldens is a conversation. A line that begins with `$ ` is a call; what follows up to the next one
is its answer: standard output, then `! ` before each line of standard error, then `= N` for an exit code other than 0.
`@ ` sets the clock and `# ` is a remark. `RECORD_GOLDENS=1` makes every call again and writes down its answer: the
difference that git shows is the review. Ids, paths, ports and times that are not the clock's are masked.
"""

import json
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from cli_reference import list_commands
from clihelp import NOW, Cli, Result
from homes import git
from hook_calls import PATIENT, Told, call_hook
from mcp_client import running

FOLDER = Path(__file__).parent / "data" / "goldens"
IS_RECORDING = bool(os.environ.get("RECORD_GOLDENS"))
MOMENT = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?"
MASKS = (
    (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "<uuid>"),
    (
        r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])(?:[0-9a-f]{64}|[0-9a-f]{40}|[0-9a-f]{32}|[0-9a-f]{16}|[0-9a-f]{12})\b",
        "<hash>",
    ),
    (r"(?<=-)[0-9a-f]{6,8}(?=[\"/` ,])", "<hash>"),
    (r'"elapsed_ms": [\d.]+', '"elapsed_ms": <number>'),
    (r'("changes": \d+,\s+"bytes": )\d+', r"\1<number>"),
    # The tokens of a prompt are counted with the paths in it.
    (r'"((guidance_|index_|sent_|loaded_)?tokens|guidance|index|chars|bytes)": \d+', r'"\1": <number>'),
    (r"about [\d,]+ tokens", "about <number> tokens"),
    (re.escape(sys.executable), "<python>"),
    (r"\b(python|memdir) \d+\.\d+\.\d+\S*", r"\1 <version>"),
)
# These talk, serve, measure or print what depends on the machine; tests of their own have them.
WITHOUT = frozenset("chat completion demo hook mcp serve ui".split())
AGENTS = "- We froze the ledger until 2026-06-30.\n- Use tabs.\n"
NOTES = "---\nname: {0}\ndescription: Where the {0} bugs are tracked\ntype: reference\n---\n\nIn the {0} board.\n"
TALK = [
    {"role": "user", "content": "remember that the mobile team cuts its release on Thursdays"},
    {"role": "assistant", "content": "Noted."},
]
Answer = Callable[[str, str], str]


def split_calls(text: str) -> Iterator[tuple[str, str]]:
    """Yield each call, clock or remark with the answer recorded for it."""
    for step in re.split(r"^(?=[$@#] )", text, flags=re.M):
        head, _, answer = step.partition("\n")
        if head:
            yield head, answer


def mask(text: str, *folders: Path) -> str:
    for number, folder in enumerate(folders):
        for spelled in (str(folder), str(folder.resolve()), re.sub(r"[/_.]", "-", str(folder))):
            text = text.replace(spelled, f"<{'home' if number == 0 else 'folder'}>")
    text = re.sub(MOMENT, lambda found: found[0] if found[0].startswith(("2026-03", "2026-04")) else "<time>", text)
    for pattern, replacement in MASKS:
        text = re.sub(pattern, replacement, text)
    return text


def render(result: Result | Told) -> str:
    """Return what a process answered, a line of JSON spread over several."""
    out = (result.data if isinstance(result, Result) else result.out).decode()
    err = result.err if isinstance(result, Result) else result.err.decode()
    lines = [*spread(out).splitlines(), *(f"! {line}" for line in err.splitlines())]
    # A line of an answer that begins as a call does is told apart by a space.
    lines = [f" {line}" if line[:2] in ("$ ", "@ ", "# ") else line for line in lines]
    return "".join(f"{line}\n" for line in (*lines, *([f"= {result.code}"] if result.code else [])))


def spread(text: str) -> str:
    try:
        found = json.loads(text)
    except ValueError:
        return text
    return json.dumps(found, indent=1, ensure_ascii=False) if isinstance(found, (dict, list)) else text


def make_project(tmp_path: Path) -> Cli:
    """A project with git, two remotes, notes to import and a conversation to learn from."""
    cli = Cli(tmp_path, **PATIENT, GIT_CONFIG_NOSYSTEM="1", GIT_CONFIG_GLOBAL=os.devnull, SHELL="/bin/sh")
    (cli.project / ".git").rmdir()
    dates = {"GIT_AUTHOR_DATE": "2026-03-01T12:00:00Z", "GIT_COMMITTER_DATE": "2026-03-01T12:00:00Z"}
    os.environ.update(dates)
    git(cli.project, "init", "-q", "-b", "main")
    (cli.project / "AGENTS.md").write_text(AGENTS, encoding="utf-8")
    (cli.project / "deploy.sh").write_text("exit 0\n", encoding="utf-8")
    git(cli.project, "add", "AGENTS.md", "deploy.sh")
    git(cli.project, "-c", "user.name=Ada", "-c", "user.email=ada@example.org", "commit", "-q", "-m", "Begin")
    for remote in ("team", "own"):
        git(cli.home / "work", "init", "-q", "--bare", f"{remote}.git")
    (cli.project / "talk.json").write_text(json.dumps(TALK), encoding="utf-8")
    (cli.project / "notes").mkdir()
    for name in ("billing", "search"):
        (cli.project / "notes" / f"{name}.md").write_text(NOTES.format(name), encoding="utf-8")
    return cli


def answer_verbs(cli: Cli, _: ExitStack) -> Answer:
    return lambda call, now: render(cli(*shlex.split(call), MEMDIR_NOW=now))


def answer_hooks(cli: Cli, _: ExitStack) -> Answer:
    """Answer `EVENT HOST {…}` as a hook, anything else as a verb."""

    def answer(call: str, now: str) -> str:
        event, host, given = [*call.split(" ", 2), "", ""][:3]
        if not given.startswith("{"):
            return render(cli(*shlex.split(call), MEMDIR_NOW=now))
        fields = {"session_id": "s-1", "cwd": str(cli.project), **json.loads(given)}
        return render(call_hook(event, fields, cwd=cli.project, env=cli.environ(MEMDIR_NOW=now), host=host))

    return answer


def answer_tools(cli: Cli, stack: ExitStack) -> Answer:
    """Answer `memory_… {…}` as a tool of the MCP server on pipes, anything else as a verb."""
    wire = stack.enter_context(running(cli))
    wire.shake_hands()

    def answer(call: str, now: str) -> str:
        tool, _, given = call.partition(" ")
        if not tool.startswith("memory_"):
            return render(cli(*shlex.split(call), MEMDIR_NOW=now))
        result = wire.call(tool, **json.loads(given or "{}"))
        text = "\n".join(part["text"] for part in result["content"])
        return render(Result(int(result["isError"]), f"{spread(text)}\n".encode(), ""))

    return answer


@pytest.mark.parametrize(
    ("name", "open_answer"), [("verbs", answer_verbs), ("hooks", answer_hooks), ("tools", answer_tools)]
)
def test_answers_are_those_recorded(name: str, open_answer: Callable[[Cli, ExitStack], Answer], tmp_path: Path) -> None:
    file, now, steps = FOLDER / f"{name}.txt", NOW, []
    recorded = file.read_text(encoding="utf-8")
    with ExitStack() as stack:
        cli = make_project(tmp_path)
        answer = open_answer(cli, stack)
        for head, _ in split_calls(recorded):
            now = head[2:] if head.startswith("@") else now
            told = mask(answer(head[2:], now), cli.home, tmp_path) if head.startswith("$") else ""
            steps.append(f"{head}\n{told}")
    if IS_RECORDING:
        file.write_text("".join(steps), encoding="utf-8")
    for step, (head, told) in zip(steps, split_calls(recorded), strict=True):
        assert IS_RECORDING or step == f"{head}\n{told}"


def test_every_verb_is_recorded_and_with_json_where_it_has_it() -> None:
    calls = [head[2:] for head, _ in split_calls((FOLDER / "verbs.txt").read_text(encoding="utf-8"))]
    commands = [(path, any("--json" in option.opts for option in command.params)) for path, command in list_commands()]
    missing = [
        path
        for path, has_json in commands
        if path.split()[0] not in WITHOUT
        and not any(f"{call} ".startswith(f"{path} ") and ("--json" in call) >= has_json for call in calls)
    ]
    assert missing == []


def test_the_records_stay_small() -> None:
    assert sum(file.stat().st_size for file in FOLDER.iterdir()) < 150_000
