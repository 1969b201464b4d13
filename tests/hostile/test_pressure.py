"""The pressure is proved to be real, to end, and to say why where it cannot be made."""

import errno
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from outcome import Outcome
from pressure import Unavailable, descriptor_limit, file_size_limit, nobody_folder, run_in_child, small_disk
from swapper import Swapper, find_exchange
from tables import table


def in_child(action: Callable[[], object], *, as_nobody: bool = False) -> Outcome:
    try:
        return run_in_child(action, as_nobody=as_nobody)
    except Unavailable as reason:
        pytest.skip(f"pressure unavailable: {reason}")


def test_what_is_unavailable_in_the_child_is_unavailable_in_the_parent() -> None:
    def action() -> None:
        raise Unavailable("no such luck")

    with pytest.raises(Unavailable, match="no such luck"):
        run_in_child(action)


@table("as_nobody", [False, True])
def test_a_small_disk_is_full_soon_and_works_again_when_room_is_made(as_nobody: bool) -> None:
    with nobody_folder() as folder:

        def action() -> list[int]:
            codes = []
            with small_disk(folder, 64 * 1024):
                (folder / "filler").write_bytes(b"x" * 40_000)
                try:
                    (folder / "more").write_bytes(b"x" * 40_000)
                except OSError as error:
                    codes.append(error.errno or 0)
                (folder / "filler").unlink()
                (folder / "more").write_bytes(b"x" * 40_000)
            return [*codes, len(os.listdir(folder))]

        assert in_child(action, as_nobody=as_nobody).value == [errno.ENOSPC, 0]
        assert list(folder.iterdir()) == []


def test_a_program_started_on_the_small_disk_meets_it_too(tmp_path: Path) -> None:
    def action() -> str:
        with small_disk(tmp_path, 16 * 1024):
            code = "open('f', 'wb').write(b'x' * 100_000)"
            return subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True).stderr.decode()

    assert "No space left on device" in str(in_child(action).value)


def test_a_disk_can_run_out_of_files_before_it_runs_out_of_bytes(tmp_path: Path) -> None:
    def action() -> int:
        with small_disk(tmp_path, 1 << 20, inodes=4):
            for number in range(10):
                (tmp_path / str(number)).touch()
        return 0

    assert in_child(action).errno == errno.ENOSPC


def test_a_size_limit_refuses_growth_and_is_lifted_again(tmp_path: Path) -> None:
    def action() -> list[int]:
        found = []
        with file_size_limit(500):
            try:
                (tmp_path / "f").write_bytes(b"x" * 1000)
            except OSError as error:
                found.append(error.errno or 0)
        return [*found, (tmp_path / "f").write_bytes(b"x" * 1000)]

    assert run_in_child(action).value == [errno.EFBIG, 1000]


@table("free", [0, 1, 3])
def test_a_descriptor_limit_leaves_exactly_the_free_ones(free: int) -> None:
    def action() -> tuple[int, int]:
        opened: list[int] = []
        with descriptor_limit(free):
            try:
                while True:
                    opened.append(os.open(os.devnull, os.O_RDONLY))
            except OSError as error:
                code = error.errno or 0
        os.close(os.open(os.devnull, os.O_RDONLY))
        return len(opened), code

    assert run_in_child(action).value == (free, errno.EMFILE)


def test_nobody_may_not_write_where_only_others_may(tmp_path: Path) -> None:
    with nobody_folder() as folder:
        (folder / "closed").mkdir(mode=0o500)
        (folder / "closed").chmod(0o500)
        done = run_in_child(lambda: (folder / "closed" / "f").touch(), as_nobody=True)
        assert done.errno == errno.EACCES
        assert run_in_child(lambda: (folder / "f").touch(), as_nobody=True).error == ""


@pytest.mark.parametrize("atomic", [True, False])
def test_a_swapper_shows_both_faces_and_puts_the_directory_back(tmp_path: Path, atomic: bool) -> None:
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "mine").touch()
    (tmp_path / "outside").mkdir()
    faces: set[bool] = set()
    with Swapper(tmp_path / "inside", tmp_path / "outside", atomic=atomic) as swapper:
        assert swapper.is_atomic == (atomic and find_exchange() is not None)
        while swapper.swaps < 2000 or len(faces) < 2:
            try:
                faces.add(stat.S_ISLNK(os.lstat(tmp_path / "inside").st_mode))
            except FileNotFoundError:  # between two plain renames
                continue
    assert faces == {True, False}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["inside", "outside"]
    assert (tmp_path / "inside" / "mine").exists() and not (tmp_path / "inside").is_symlink()


def test_a_check_before_an_open_escapes_under_the_swapper(tmp_path: Path) -> None:
    """The reason this tool exists: looking first and opening then is not containment."""
    (tmp_path / "inside").mkdir()
    (tmp_path / "outside").mkdir()
    escaped = tries = 0
    with Swapper(tmp_path / "inside", tmp_path / "outside"):
        while not escaped and tries < 1_000_000:
            tries += 1
            target = tmp_path / "inside" / "f"
            try:
                if os.path.islink(target.parent):
                    continue
                with open(target, "wb"):
                    escaped += os.path.exists(tmp_path / "outside" / "f")
            except FileNotFoundError:
                continue
    assert escaped
