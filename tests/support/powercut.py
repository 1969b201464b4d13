"""Power cuts on a real ext4: what was not synced is gone, as after pulling the plug.

    with open_disk(folder) as disk:
        found = cut_power(disk, prepare, action, look)

A file is made an ext4, mounted through a loop device, and after the action the shutdown call stops the file system
without flushing its journal; then it is mounted again, which replays the journal, and `look` sees what a restarted
machine would. Needs root and a loop device. It models the loss of unflushed cache, not a disk that lies about flushing
and not torn sectors. `commit=300,noauto_da_alloc` take away the habits of ext4 that hide a missing fsync.
"""

import contextlib
import fcntl
import functools
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pressure import leave_mounts, run_in_child

OPTIONS = "commit=300,noauto_da_alloc"
_SHUTDOWN, _NO_LOG_FLUSH = 0x8004587D, 2
_SIZE = 32 * 1024 * 1024
_SYSTEM_PATH = "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Disk:
    """An ext4 in the file `image`, with the directory it is mounted on."""

    image: Path
    mount_point: Path
    options: str = OPTIONS

    @contextlib.contextmanager
    def mounted(self) -> Iterator[Path]:
        _run("mount", "-t", "ext4", "-o", f"loop,{self.options}", os.fspath(self.image), os.fspath(self.mount_point))
        try:
            yield self.mount_point
        finally:
            _run("umount", os.fspath(self.mount_point))

    def cut(self) -> None:
        """Stop the mounted file system here and now, in whichever process calls it; until umount it answers EIO."""
        fd = os.open(self.mount_point, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.ioctl(fd, _SHUTDOWN, struct.pack("=I", _NO_LOG_FLUSH))
        finally:
            os.close(fd)


@contextlib.contextmanager
def open_disk(folder: Path, *, options: str = OPTIONS) -> Iterator[Disk]:
    """A fresh disk whose image and mount point lie in `folder`."""
    _hide_mounts()
    disk = Disk(folder / "disk.img", folder / "disk", options)
    disk.mount_point.mkdir()
    with disk.image.open("wb") as image:
        image.truncate(_SIZE)
    _run("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", os.fspath(disk.image))
    try:
        yield disk
    finally:
        disk.image.unlink()
        disk.mount_point.rmdir()


def cut_power(
    disk: Disk,
    prepare: Callable[[Path], object],
    action: Callable[[Path], object],
    look: Callable[[Path], T],
    *,
    deadline: float = 60.0,
) -> T:
    """Bring `prepare` safely to disk, run `action` in a child, cut the power as it returns, `look` after the restart.

    An action that raises is an error here: only what was acknowledged may be asked for afterwards.
    """
    with disk.mounted() as place:
        prepare(place)
    with disk.mounted() as place:

        def change_and_cut() -> None:
            action(place)
            disk.cut()

        done = run_in_child(change_and_cut, deadline=deadline)
    if done.kind:
        raise AssertionError(f"the action failed before the power did:\n{done.detail or done.error}")
    with disk.mounted() as place:
        return look(place)


@functools.cache
def _hide_mounts() -> None:
    """This process and its children mount for themselves from here on: a test beside it that makes its own set of mounts
    would hold a copy, and a disk that was stopped would stay the one that is mounted next."""
    leave_mounts()


@functools.cache
def is_supported() -> str:
    """Empty if power can be cut here (tried for real, once), else the reason why not."""
    if not sys.platform.startswith("linux"):
        return "power cuts need Linux"
    if os.geteuid() != 0:
        return "power cuts need root"
    missing = [tool for tool in ("mkfs.ext4", "mount", "umount") if shutil.which(tool, path=_SYSTEM_PATH) is None]
    if missing:
        return f"power cuts need {', '.join(missing)}"
    try:
        with tempfile.TemporaryDirectory() as folder, open_disk(Path(folder)) as disk, disk.mounted():
            disk.cut()
    except (OSError, subprocess.CalledProcessError) as error:
        words = error.stderr.strip() if isinstance(error, subprocess.CalledProcessError) else str(error)
        return f"power cuts do not work here: {words}"
    return ""


def _run(*argv: str) -> None:
    env = {"PATH": _SYSTEM_PATH, "LC_ALL": "C"}
    subprocess.run(argv, check=True, capture_output=True, encoding="utf-8", env=env, timeout=60)
