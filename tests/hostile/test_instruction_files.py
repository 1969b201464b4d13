"""A hostile repository: whatever its instruction files name, nothing outside is opened or written, and nothing hangs.

Reads are proved by the system calls of the whole program: a file that is never opened cannot have been read.
"""

import json
import os
import socket
import sys
import time
from pathlib import Path

import pytest

import syscalls
from clihelp import Cli
from homes import git, make_environment, make_repository, write
from memdir.conversation.project_files import LoadedFiles, NotLoadedReason, load_project_files, read_bytes
from memdir.project.paths import read_paths
from swapper import Swapper
from syscalls import is_mutating, trace_command

SECRET = "do not tell"
KEY = f"-----BEGIN OPENSSH PRIVATE KEY-----\n{SECRET}\n"
OPENS = ("open", "openat", "openat2")


class Trap:
    """A clone full of traps beside the files it is after."""

    def __init__(self, tmp_path: Path) -> None:
        self.cli = Cli(tmp_path)
        self.home, self.clone = self.cli.home, self.cli.project
        (self.clone / ".git").rmdir()
        git(self.clone, "init", "-q")
        self.secrets = [
            write(self.home / ".ssh" / "id_rsa", KEY),
            write(self.home / ".ssh" / "x", SECRET),
            write(self.home / ".netrc", SECRET),
            write(self.home / ".aws" / "credentials", SECRET),
            write(self.home / "private" / "diary.md", SECRET),
            write(self.home / "private" / "rules" / "r.md", SECRET),
            write(self.home / "private" / "CLAUDE.md", SECRET),
            write(self.clone / ".env", SECRET),
            write(self.clone / "deploy.pem", SECRET),
        ]

    def put(self, path: str, text: str) -> Path:
        return write(self.clone / path, text)

    def link(self, path: str, target: Path | str) -> None:
        (self.clone / path).parent.mkdir(parents=True, exist_ok=True)
        os.symlink(target, self.clone / path)

    def run(self, *argv: str, **variables: str) -> tuple[str, syscalls.Trace]:
        """`memdir context`, traced: what it printed and every call it made."""
        if reason := syscalls.is_supported():
            pytest.skip(f"tracing unavailable: {reason}")
        command = [sys.executable, "-B", "-m", "memdir", "context", *argv]
        seen = trace_command(command, env=self.cli.environ(**variables), cwd=self.clone, deadline=60)
        assert seen.status == 0, seen.output.decode()
        return seen.output.decode(), seen

    def check(self, printed: str, seen: syscalls.Trace) -> None:
        """No secret was opened or printed, and nothing was written but memdir's own state."""
        opened = {os.path.realpath(call.path) for call in seen.named(*OPENS) if call.result is None or call.result >= 0}
        assert [path for path in self.secrets if str(path) in opened] == []
        assert not {path for path in opened if path.startswith(("/proc", "/dev/zero")) and path.endswith("environ")}
        assert SECRET not in printed
        own = (str(self.home / ".claude"), str(self.home / ".local"), str(self.home / ".cache"), "/dev/null", "/memfd:")
        changed = {call.target for call in seen.calls if is_mutating(call) and call.name not in syscalls.WRITES}
        assert [path for path in changed if not path.startswith(own)] == []


@pytest.fixture
def trap(tmp_path: Path) -> Trap:
    return Trap(tmp_path)


def reasons(printed: str) -> dict[str, str]:
    return {row["path"]: row["reason"] for row in json.loads(printed)["refused"]}


def test_no_spelling_of_an_include_opens_a_secret(trap: Trap) -> None:
    trap.link("innocent.md", trap.home / ".ssh" / "id_rsa")
    trap.link("folder", trap.home / ".ssh")
    trap.link("hop1.md", "hop2.md")
    trap.link("hop2.md", "folder/x")
    trap.link("environ.md", "/proc/self/environ")
    mentions = [
        "~/.ssh/id_rsa", "../../.ssh/id_rsa", "../../../home/.ssh/id_rsa", str(trap.home / ".ssh" / "id_rsa"),
        "./folder/../../../.ssh/id_rsa", "~/work/../.ssh/id_rsa", "~//.ssh//id_rsa", "~/.SSH/ID_RSA", "~/.ssh/id_rsa.",
        "~/.ssh/id_rsa#L1", "%2e%2e/%2e%2e/.ssh/id_rsa", "..%2f..%2f.ssh/id_rsa", "．．/．．/.ssh/id_rsa", "~/.ssh",
        "innocent.md", "folder/id_rsa", "folder/x", "hop1.md", "environ.md", "~/.netrc", "~/.aws/credentials",
        "/proc/self/environ", "/proc/self/root" + str(trap.home / ".ssh" / "id_rsa"), "/dev/zero", "/dev/tty",
        "~/private/diary.md", "../../private/diary.md", ".env", "deploy.pem", "././/.env",
        "/proc/self/cwd/../../.ssh/id_rsa", "file://" + str(trap.home / ".netrc"),
    ]  # fmt: skip
    trap.put("CLAUDE.md", "".join(f"- @{mention}\n" for mention in mentions))
    printed, seen = trap.run("--json")
    trap.check(printed, seen)
    assert len(json.loads(printed)["files"]) == 1
    found = reasons(printed)
    assert found[str(trap.home / ".ssh" / "id_rsa")] == found[str(trap.clone / "innocent.md")] == "secret"
    assert found[str(trap.clone / "hop1.md")] == found[str(trap.clone / ".env")] == "secret"
    assert found["/proc/self/environ"] == found[str(trap.clone / "environ.md")] == found["/dev/zero"] == "special"
    assert found[str(trap.home / "private" / "diary.md")] == "outside"


def test_the_trace_would_show_a_secret_that_was_opened(trap: Trap) -> None:
    """The proof is seen to fail: an include that is allowed is found in the trace."""
    trap.put("CLAUDE.md", "@fine.md")
    trap.secrets = [trap.put("fine.md", "fine")]
    printed, seen = trap.run("--json")
    with pytest.raises(AssertionError):
        trap.check(printed, seen)


def test_approval_does_not_open_a_secret(trap: Trap) -> None:
    trap.link("CLAUDE.local.md", trap.home / ".ssh" / "x")
    trap.put("CLAUDE.md", "@~/.ssh/id_rsa @.env @key.md")
    trap.put("key.md", KEY)
    environment = make_environment(trap.home.parent, HOME=str(trap.home))
    _, places = read_paths(environment, trap.clone)
    loaded = load_project_files(environment, places, trap.clone, approved=lambda _: True)
    assert [Path(file.path).name for file in loaded.files] == ["CLAUDE.md"]
    assert {refusal.reason for refusal in loaded.refusals} == {NotLoadedReason.SECRET} and len(loaded.refusals) == 4


def test_instruction_files_that_are_links_lead_nowhere(trap: Trap) -> None:
    trap.link("CLAUDE.md", trap.home / ".ssh" / "x")
    trap.link("CLAUDE.local.md", trap.home / "private" / "diary.md")
    trap.link(".claude", trap.home / "private")
    printed, seen = trap.run("--json")
    trap.check(printed, seen)
    assert json.loads(printed)["files"] == []
    assert sorted(reasons(printed).values()) == ["outside", "outside", "outside", "secret"]
    listed = [call.path for call in seen.named(*OPENS) if call.path.startswith(str(trap.home / "private"))]
    assert listed == []  # not even the folder is looked into


def test_settings_that_are_links_open_nothing_but_settings(trap: Trap) -> None:
    trap.link(".claude/settings.json", trap.home / ".ssh" / "x")
    trap.link(".claude/settings.local.json", trap.home / "private" / "diary.md")
    trap.link(".memdir.toml", trap.home / ".netrc")
    trap.check(*trap.run("--json"))
    shared = trap.home / "shared"
    write(shared / "settings.json", '{"autoMemoryEnabled": false}')
    (trap.clone / ".claude" / "settings.json").unlink()
    trap.link(".claude/settings.json", shared / "settings.json")
    assert trap.cli("where", "--json").json["on"] is False


def test_a_chain_of_links_without_end_is_refused(trap: Trap) -> None:
    for number in range(3_000):
        trap.link(f"l{number}.md", f"l{number + 1}.md")
    trap.put("CLAUDE.md", "@l0.md @l2990.md")
    trap.link("CLAUDE.local.md", "l0.md")
    trap.link(".claude/rules", "../l0.md")
    trap.link(".claude/settings.json", "../l0.md")
    told = trap.cli("context", "--json")
    assert told.code == 0 and len(told.json["files"]) == 1
    reasons = {row["reason"] for row in told.json["refused"]}
    assert "missing" in reasons and reasons <= {"unreadable", "missing"}  # from 3.13 on Python follows every chain


@pytest.mark.parametrize("name", ["CLAUDE.md", "CLAUDE.local.md", ".claude/CLAUDE.md", ".claude/rules/r.md", ".claude"])
@pytest.mark.parametrize("kind", ["fifo", "socket", "folder", "loop", "zero"])
def test_a_thing_that_is_no_file_neither_hangs_nor_loads(trap: Trap, name: str, kind: str) -> None:
    path = trap.clone / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "socket":
        here = os.getcwd()
        os.chdir(path.parent)  # a socket's path may have 107 bytes only
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path.name)
        os.chdir(here)
    elif kind == "folder":
        path.mkdir()
    else:
        os.symlink("/dev/zero" if kind == "zero" else path.name, path)
    told = trap.cli("context", "--json")
    assert told.code == 0 and told.json["files"] == []


def test_ten_megabytes_are_not_read(trap: Trap) -> None:
    trap.put("CLAUDE.md", "x" * 10_000_000)
    trap.put("CLAUDE.local.md", "@big.md")
    trap.put("big.md", "x" * 10_000_000)
    printed, seen = trap.run("--json")
    assert list(reasons(printed).values()) == ["too_large", "too_large"]
    read = sum(call.size for call in seen.named(*syscalls.READS) if call.fd_path.startswith(str(trap.clone)))
    assert read < 1_000_000 and len(json.loads(printed)["files"]) == 1


def test_a_file_that_grows_while_it_is_read_is_cut_off(trap: Trap) -> None:
    """The bound holds on the bytes read, not only on the size that was seen before."""
    big = trap.put("CLAUDE.md", "x" * 2_000_000)
    assert read_bytes(str(big)) is NotLoadedReason.TOO_LARGE


def test_committed_settings_move_nothing_and_may_still_switch_off(trap: Trap) -> None:
    trap.put("CLAUDE.md", "x")
    for name in (".claude/settings.json", ".claude/settings.local.json"):
        trap.put(name, json.dumps({"autoMemoryDirectory": str(trap.home / ".ssh"), "claudeMdExcludes": ["**"] * 50}))
    trap.put(".memdir.toml", f'model = "evil:x"\nmemory_dir = "{trap.home}/.ssh"\n')
    git(trap.clone, "add", "-A")
    before = sorted(path.name for path in (trap.home / ".ssh").iterdir())
    printed, seen = trap.run("--json")
    trap.check(printed, seen)
    assert str(trap.home / ".ssh") not in json.dumps(json.loads(printed)["memory"])
    assert sorted(path.name for path in (trap.home / ".ssh").iterdir()) == before
    assert trap.cli("where", "--json").json["private"]["rule"] == "default"
    trap.put(".claude/settings.json", '{"autoMemoryEnabled": false}')
    trap.put("CLAUDE.md", "@~/private/diary.md")
    printed, seen = trap.run("--json")
    assert json.loads(printed)["memory"] == [] and reasons(printed) and not (trap.home / ".claude").exists()


@pytest.mark.parametrize("pointer", ["gitdir: {home}/other/.git", "gitdir: {home}/other/.git/worktrees/w", "gitdir: /"])
def test_a_git_file_that_points_elsewhere_opens_nothing_there(tmp_path: Path, pointer: str) -> None:
    trap = Trap(tmp_path)
    other = make_repository(trap.home / "other")
    git(other, "worktree", "add", "-q", str(trap.home / "w"))
    notes = write(other / "notes.md", SECRET)
    clone = trap.home / "clone"
    write(clone / ".git", pointer.format(home=trap.home) + "\n")
    write(clone / "CLAUDE.md", f"@{notes} @../other/notes.md")
    told = trap.cli("context", "--json", cwd=clone)
    assert len(told.json["files"]) == 1 and SECRET not in told.out
    assert {row["reason"] for row in told.json["refused"]} == {"outside"}


def test_the_inbox_is_asked_and_nothing_else_is_written(trap: Trap) -> None:
    trap.put("CLAUDE.md", "@~/private/diary.md")
    printed, seen = trap.run("--json")
    trap.check(printed, seen)
    assert json.loads(printed)["refused"][0]["inbox"] is not None
    assert not list((trap.home / ".claude").rglob("*.md"))


def test_a_swapped_folder_never_leads_out(trap: Trap) -> None:
    """Between the look and the read somebody exchanges the folder for a link: the read fails, or finds the old file."""
    trap.put("CLAUDE.md", "@docs/diary.md")
    trap.put("docs/diary.md", "harmless")
    environment = make_environment(trap.home.parent, HOME=str(trap.home))
    _, places = read_paths(environment, trap.clone)
    texts: set[str] = set()
    ends = time.monotonic() + 2
    with Swapper(trap.clone / "docs", trap.home / "private") as swapper:
        while time.monotonic() < ends or not swapper.swaps:
            loaded: LoadedFiles = load_project_files(environment, places, trap.clone)
            texts |= {file.text for file in loaded.files}
    assert texts == {"@docs/diary.md", "harmless"} and swapper.swaps > 0


def test_rules_without_number_and_folders_in_circles_end(trap: Trap) -> None:
    rules = trap.clone / ".claude" / "rules"
    for number in range(3_000):
        write(rules / f"{number}.md", "x")
    os.symlink(rules, rules / "again")
    os.symlink(trap.clone, rules / "up")
    told = trap.cli("context", "--json").json
    assert len(told["files"]) <= 500 and "too_many" in {row["reason"] for row in told["refused"]}


def test_text_made_to_be_slow_is_read_in_time(trap: Trap) -> None:
    for number, unit in enumerate(
        ["`` ` ``` ", "<!-- -->x", "<!--", "@a ", "@a.md/", "- - ", "```\n", "    x\n\n", "eyJ", "{a,b}"]
    ):
        trap.put(f"f{number}.md", (unit * 200_000)[:200_000])
    trap.put("CLAUDE.md", " ".join(f"@f{number}.md" for number in range(10)))
    trap.put(".claude/rules/slow.md", f"---\npaths: '{'{a,b}' * 150}'\n---\n")
    started = time.monotonic()
    assert trap.cli("context", "--json", "--file", "a" * 200).code == 0
    assert time.monotonic() - started < 60  # two seconds; a pattern that backtracks takes hours
