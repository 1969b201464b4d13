"""One bad file never stops the others: every command still works, `doctor` names the file, and its remedy works.

Two tables: what may lie in a memory directory beside good memories, and what may lie where each file of memdir's own is
expected. In each row every command is run; the failing rows are listed together.
"""

import os
import shutil
import signal
import socket
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from clihelp import Cli, Result, memory_text
from loads import IS_FULL
from memdir.limits import FILE_BYTES, INDEX_FILE_BYTES
from memdir.store.state import STATE_FILES
from pressure import Unavailable, keep_to_permissions, run_in_child

SECONDS = 120  # of one command, which none comes near: more is a hang
GOOD = memory_text("Ferry", "When the ferry to the island leaves", "At six, from the old harbour.\n")


def put_link(path: Path) -> None:
    target = path.parent.parent / "elsewhere.md"
    target.write_text(GOOD, encoding="utf-8")
    path.symlink_to(target)


def put_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            made.bind(f"/proc/self/fd/{folder}/{path.name}")  # the path itself may be too long
        finally:
            os.close(folder)


def put_unreadable(path: Path) -> None:
    path.write_text(GOOD, encoding="utf-8")
    path.chmod(0)


def put_closed_folder(path: Path) -> None:
    path.mkdir()
    path.chmod(0)


def put_sparse(size: int) -> Callable[[Path], None]:
    def put(path: Path) -> None:
        with path.open("wb") as file:
            file.truncate(size)

    return put


def put_bytes(data: bytes) -> Callable[[Path], None]:
    def put(path: Path) -> None:
        path.write_bytes(data)

    return put


KINDS: dict[str, Callable[[Path], object]] = {
    "link": put_link,
    "dangling link": lambda path: path.symlink_to(path.parent / "nowhere.md"),
    "link to itself": lambda path: path.symlink_to(path),
    "FIFO": os.mkfifo,
    "socket": put_socket,
    "unreadable": put_unreadable,
    "folder": Path.mkdir,
    "closed folder": put_closed_folder,
    "oversize": put_sparse(FILE_BYTES + 1),
    "10 GB": put_sparse(10**10),
    "zeros": put_sparse(4096),
    "empty": put_bytes(b""),
    "bytes": put_bytes(bytes(range(256)) * 8),
    "deep JSON": put_bytes(b"[" * 200_000),
    "odd JSON": put_bytes(b'{"session": 7, "index": [], "pending": 3, "dreams": "x", "at": {}, "files": 1e999}'),
}
NAMES = {
    "plain": "z-bad.md",
    "first": "aa-bad.md",
    "conflict copy": "ferry (1).md",
    "copy of the index": "MEMORY (1).md",
    "syncthing copy": "ferry.sync-conflict-20260301-101010-ABCDEFG.md",
    "spaces": "odd name .md",
    "colon": "a:b.md",
    "dash": "-rf.md",
    "not UTF-8": os.fsdecode(b"\xff\xfe.md"),
    "in a folder": "sub/z.md",
    "in team": "team/z.md",
}
LISTING: tuple[tuple[str, ...], ...] = (
    ("list", "--json"),
    ("show",),
    ("read", "ferry"),
    ("search", "harbour"),
    ("recall", "when does the ferry leave for the island?"),
    ("prompt",),
    ("status",),
    ("history",),
    ("verify",),
    ("inbox",),
    ("context",),
)
WRITING: tuple[tuple[str, ...], ...] = (
    (
        "save",
        "--type",
        "project",
        "--name",
        "tram",
        "--description",
        "Where the tram line into town ends every evening",
        "--body",
        "At the mill.",
    ),
    ("remember", "the bakery opens at seven"),
    ("pin", "ferry"),
    ("undo",),
    ("forget", "tram", "--yes"),
    ("dream", "--model", "none"),
)


def make_project(folder: Path) -> Cli:
    cli = Cli(folder)
    for name, description, body in (
        ("ferry", "When the ferry to the island leaves the harbour", "At six, from the old harbour."),
        ("ledger", "Where the accounts ledger of the merchant guild lies", "In the great hall."),
    ):
        saved = cli("save", "--type", "reference", "--name", name, "--description", description, "--body", body)
        assert saved.code == 0, saved.err
    return cli


@contextmanager
def limited(what: str) -> Iterator[None]:
    def stop(*_: object) -> None:
        raise TimeoutError(f"{what} hangs")

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)


def call(cli: Cli, *argv: str) -> Result:
    with limited(" ".join(argv)):
        try:
            return cli(*argv)
        except (
            OSError,
            ValueError,
            RecursionError,
            TypeError,
            AttributeError,
            KeyError,
            UnicodeError,
            sqlite3.Error,
        ) as error:
            return Result(99, b"", f"{type(error).__name__}: {error}")


def short(argv: tuple[str, ...], done: Result) -> str:
    return f"{argv[0]}: {done.code} {done.err.strip()[-200:]}"


def check_row(cli: Cli, where: str) -> list[str]:
    """What fails beside a bad neighbour."""
    failed = []
    for argv in (*LISTING, *WRITING, ("doctor", "--fix"), ("doctor", "--fix")):
        done = call(cli, *argv)
        allowed = (0, 1) if argv[0] == "doctor" else (0,)
        if done.code not in allowed or "Traceback" in done.err:
            failed.append(short(argv, done))
        if argv[0] in ("list", "show", "read", "search", "recall") and b"erry" not in done.data:
            failed.append(f"{argv[0]} does not have the good one")
    lines = call(cli, "show").data
    first, second = (call(cli, "doctor", "--json") for _ in range(2))
    if not first.data:
        return [*failed, short(("doctor",), first)]
    shown = where.encode("utf-8", "replace").decode()
    found = [at for at in first.json["findings"] if Path(at["where"]).name == Path(shown).name]
    if call(cli, "doctor", "--fix").code != 99 and call(cli, "show").data != lines:
        failed.append("doctor --fix changes the index at each run")
    if first.json["findings"] != second.json["findings"]:
        failed.append("doctor says something else the second time")
    if not [at for at in found if at["fix"]]:
        failed.append(f"doctor does not name it: {[(at['kind'], at['where']) for at in first.json['findings']]}")
    return failed


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        path.chmod(0o700)
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def in_child(action: Callable[[], list[str]]) -> list[str]:
    def begin() -> list[str]:
        keep_to_permissions()
        return action()

    try:
        done = run_in_child(begin, deadline=150)
    except TimeoutError:
        return ["it hangs"]
    except Unavailable as reason:
        pytest.skip(str(reason))
    return done.value if isinstance(done.value, list) else [done.error]


ROWS = [
    *(
        (kind, "plain")
        for kind in ("link", "dangling link", "link to itself", "FIFO", "socket", "folder", "oversize", "10 GB")
    ),
    *(("unreadable", name) for name in ("plain", "first", "in a folder", "in team", "conflict copy")),
    *(("bytes", name) for name in NAMES),
    *((kind, "first") for kind in ("FIFO", "link", "folder", "oversize")),
    *((kind, "in team") for kind in ("FIFO", "link", "folder", "oversize", "zeros", "empty")),
    ("closed folder", "plain"),
]


def some(rows: Sequence[tuple[str, str]], step: int) -> Sequence[tuple[str, str]]:
    """All rows at full load, else every so many; `step` shares no factor with the length of a column."""
    return rows if IS_FULL else rows[::step]


def run_rows(tmp_path: Path, rows: Sequence[tuple[str, str]], act: Callable[[Cli, str, str], list[str]]) -> list[str]:
    """Every failing row with what failed in it."""
    found = []
    for number, (kind, name) in enumerate(rows):
        cli = make_project(tmp_path / str(number))
        failed = in_child(partial(act, cli, kind, name))
        found += [f"{kind}, {name}: {text}" for text in failed]
    return found


def test_a_bad_neighbour_stops_no_command(tmp_path: Path) -> None:
    def act(cli: Cli, kind: str, name: str) -> list[str]:
        path = cli.memory / NAMES[name]
        path.parent.mkdir(exist_ok=True)
        KINDS[kind](path)
        return check_row(cli, NAMES[name])

    assert run_rows(tmp_path, some(ROWS, 3), act) == []


def find_state(cli: Cli) -> Path:
    return cli.memory / ".memdir"


def check_own(cli: Cli, where: Path) -> list[str]:
    """Beside a bad file of memdir's own: what is listed is listed, and what cannot be saved is doctor's to explain."""
    failed = []
    for argv in LISTING:
        done = call(cli, *argv)
        if (
            (done.code != 0 and argv[0] not in ("history", "inbox"))
            or done.code not in (0, 1)
            or "Traceback" in done.err
        ):  # those are what cannot be read
            failed.append(short(argv, done))
        if argv[0] in ("list", "read", "search", "recall") and b"erry" not in done.data:
            failed.append(f"{argv[0]} does not have the good one")
    wrote = [(words, call(cli, *words)) for words in WRITING]
    for argv, done in wrote:
        if done.code not in (0, 1) or "Traceback" in done.err or done.err.count("\n") > 4:
            failed.append(short(argv, done))
    looked = call(cli, "doctor", "--json")
    if not looked.data:
        return [*failed, short(("doctor",), looked)]
    is_named = any(where.name in Path(at["where"]).parts and at["fix"] for at in looked.json["findings"])
    if wrote[0][1].code != 0 and not (is_named and looked.code == 1):
        failed.append(
            f"{short(*wrote[0])}, and doctor says {[(at['kind'], at['where']) for at in looked.json['findings']]}"
        )
    if is_named:
        remove(where)
        again = call(cli, *WRITING[1])
        if again.code != 0:
            failed.append(f"the remedy does not work: {short(WRITING[1], again)}")
    return failed


OWN_KINDS = [
    "link",
    "dangling link",
    "FIFO",
    "socket",
    "unreadable",
    "folder",
    "closed folder",
    "10 GB",
    "zeros",
    "empty",
]
OWN_KINDS += ["bytes", "deep JSON", "odd JSON"]


OWN_NAMES = [*(at.name for at in STATE_FILES if "*" not in at.name), "lock", "extract.lock"]
OWN_ROWS = [(kind, name) for name in OWN_NAMES for kind in OWN_KINDS]


@pytest.mark.load
def test_a_bad_file_of_its_own_stops_nothing_or_is_named_with_a_remedy(tmp_path: Path) -> None:
    def act(cli: Cli, kind: str, name: str) -> list[str]:
        path = find_state(cli) / name
        for old in path.parent.glob(f"{name}*"):
            remove(old)
        KINDS[kind](path)
        return check_own(cli, path)

    assert run_rows(tmp_path, some(OWN_ROWS, 14), act) == []


def test_a_bad_state_folder_stops_no_reading(tmp_path: Path) -> None:
    def act(cli: Cli, kind: str, name: str) -> list[str]:
        path = find_state(cli)
        if kind == "unreadable":  # as after a first run under sudo
            path.chmod(0)
        else:
            shutil.rmtree(path)
            KINDS[kind](path)
        return check_own(cli, path)

    rows = [
        (kind, ".memdir")
        for kind in ("unreadable", "link", "dangling link", "FIFO", "socket", "bytes", "closed folder")
    ]
    assert run_rows(tmp_path, rows, act) == []


def test_a_bad_index_stops_nothing(tmp_path: Path) -> None:
    def act(cli: Cli, kind: str, name: str) -> list[str]:
        path = cli.memory / name
        path.unlink(missing_ok=True)
        path.parent.mkdir(exist_ok=True)
        put_sparse(INDEX_FILE_BYTES + 1)(path) if kind == "oversize" else KINDS[kind](path)
        failed = check_own(cli, path)
        return failed if call(cli, "list").code == 0 else [*failed, "list"]

    kinds = (
        "link",
        "dangling link",
        "FIFO",
        "socket",
        "unreadable",
        "folder",
        "closed folder",
        "oversize",
        "zeros",
        "bytes",
    )
    assert run_rows(tmp_path, [(kind, "MEMORY.md") for kind in kinds], act) == []
