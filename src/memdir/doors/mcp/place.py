"""Where a server works: the project it was started in, opened anew for every call.

Opening takes a millisecond or two, and so a memory that is switched off, paused or moved meanwhile is seen at once.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from memdir.errors import PathError
from memdir.frozen import dataclass
from memdir.opening import Opened, open_places
from memdir.small_files import disk_error

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Place:
    """`directory` puts another memory directory in the project's place, as `--dir` does.

    `variables` are the environment's own unless somebody gives others.
    """

    cwd: Path
    directory: Path | None = None
    variables: Mapping[str, str] | None = None

    def check(self) -> None:
        """Raise now for what would fail at every call; memory that is off is no failure, tools say so."""
        if not self.cwd.is_dir():
            raise PathError(str(self.cwd), "there is no such folder", hint="give the project's folder with --project")
        with self._open():
            pass

    def do(self, work: Callable[[Opened], Answer]) -> Answer:
        """One piece of work on open stores; whatever is wrong is a MemdirError."""
        try:
            with self._open() as opened:
                return work(opened)
        except OSError as error:
            raise disk_error(error, error.filename or self.cwd) from error

    @contextmanager
    def _open(self) -> Iterator[Opened]:
        opened = open_places(self.cwd, environ=self.variables, directory=self.directory)
        try:
            yield opened
        finally:
            opened.close()
