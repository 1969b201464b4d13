"""A second pair of eyes on a request: whoever asked may not want the answer any more, or it may take too long.

A thread that waits for bytes sees neither. The watch looks every few milliseconds and shuts the connection under it,
so that the provider stops working too. `cancelled` is therefore called from another thread than the asking one.
"""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Mapping
from types import TracebackType

from memdir.errors import StoppedError
from memdir.models.faults import make_fault

_LOOK_SECONDS = 0.03
_CONNECTED = (".connect_tcp.complete", ".connect_unix_socket.complete", ".start_tls.complete")


class Watch:
    """Watches while it is entered; `check` raises what it saw."""

    def __init__(
        self,
        who: str,
        cancelled: Callable[[], bool] | None,
        seconds: float,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._who = who
        self._cancelled = cancelled
        self._clock = clock
        self._deadline = clock() + seconds
        self._saw = ""
        self._socket: socket.socket | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="memdir-watch", daemon=True)

    def __enter__(self) -> "Watch":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def trace(self, name: str, info: Mapping[str, object]) -> None:
        """What the HTTP library tells of its connections: the newest one is the one to shut."""
        if name.endswith(_CONNECTED):
            find = getattr(info.get("return_value"), "get_extra_info", None)
            found = find("socket") if find is not None else None
            self._socket = found if isinstance(found, socket.socket) else None

    def check(self) -> None:
        """Raise if the asking one has gone or the time is up."""
        self._saw = self._saw or self._see()
        if self._saw == "cancelled":
            raise StoppedError(f"the request to {self._who} was cancelled")
        if self._saw == "late":
            raise make_fault(self._who, "timeout")

    def _see(self) -> str:
        if self._cancelled is not None and self._cancelled():
            return "cancelled"
        return "late" if self._clock() >= self._deadline else ""

    def _look(self) -> None:
        while not self._over.wait(_LOOK_SECONDS):
            self._saw = self._saw or self._see()
            # Again each time: there may be no connection yet, or it is being wrapped for TLS at this moment.
            if self._saw and self._socket is not None:
                with contextlib.suppress(OSError):
                    # The plain method: that of a TLS socket would first take it apart under the waiting thread.
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
