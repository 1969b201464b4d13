"""Small writers for proving the test tools on: a durable save, a SQLite insert, the same in a thread."""

import os
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

TEXT = b"0123456789" * 10


def save(folder: Path, text: bytes = TEXT) -> str:
    """The durable order, relative to a directory descriptor as the store does it."""
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    fd = os.open("note.tmp", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600, dir_fd=place)
    os.write(fd, text)
    os.fsync(fd)
    os.close(fd)
    os.rename("note.tmp", "note", src_dir_fd=place, dst_dir_fd=place)
    os.fsync(place)
    os.close(place)
    return "saved"


def insert(path: Path, word: str) -> None:
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("create table if not exists words (word text)")
        connection.execute("insert into words values (?)", (word,))
    connection.close()


def rows(path: Path) -> list[str]:
    connection = sqlite3.connect(path)
    found = [word for (word,) in connection.execute("select word from words")]
    connection.close()
    return found


def threaded(action: Callable[[], object]) -> None:
    thread = threading.Thread(target=action)
    thread.start()
    thread.join()
