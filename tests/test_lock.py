import os
import signal
from pathlib import Path

import pytest

from memdir.errors import LockedError
from memdir.files import hold
from outcome import fork
from pressure import run_in_child


def test_a_second_holder_is_told_who_holds_it(tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    with hold(folder, "lock", seconds=1):
        with pytest.raises(LockedError) as caught, hold(folder, "lock", seconds=0):
            pass
        assert caught.value.pid == os.getpid() and caught.value.since and str(os.getpid()) in str(caught.value)
    with hold(folder, "lock", seconds=0):
        pass
    os.close(folder)


def test_a_killed_holder_gives_way_at_once(tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    reader, writer = os.pipe()
    pid = fork()
    if pid == 0:
        with hold(folder, "lock", seconds=1):
            os.write(writer, b"x")
            signal.pause()
    os.read(reader, 1)
    with pytest.raises(LockedError), hold(folder, "lock", seconds=0):
        pass
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    with hold(folder, "lock", seconds=0):
        pass
    for handle in (folder, reader, writer):
        os.close(handle)


def test_a_link_in_place_of_the_lock_is_refused(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")

    def take() -> None:
        folder = os.open(tmp_path, os.O_RDONLY)
        with hold(folder, "lock", seconds=0):
            pass

    assert run_in_child(take).kind == "OSError"
    assert not (tmp_path / "elsewhere").exists()
