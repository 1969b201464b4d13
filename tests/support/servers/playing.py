"""A script played to a client: what both servers do alike, from the rules to the faults.

A server of one provider fills in five things: what a request breaks, how an answer and an error look, and two events of
its streams. This room decides which of them is sent, and how a fault breaks it off.
"""

from collections.abc import Mapping

from memdir.frozen import dataclass, replace
from servers.loopback import Ending, Exchange, Loopback, Received
from servers.scripts import (
    Body,
    Count,
    Fault,
    FaultKind,
    Piece,
    Playback,
    Said,
    Script,
    cut_call,
    cut_to_limit,
    make_pieces,
)

_STATUSES: tuple[FaultKind, ...] = (
    "auth", "billing", "permission", "rate", "spending", "usage_limit", "server", "overloaded",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Problem:
    """An answer that is an error."""

    status: int
    body: Body


@dataclass(frozen=True, slots=True)
class Written:
    """An answer in both of its forms: as one body, and as the events of a stream."""

    body: Body
    events: tuple[bytes, ...]


class ScriptedServer(Loopback):
    """`usages` are the usage blocks of the answers that were given, in order."""

    prefix = "call"

    def __init__(self, script: Script, count: Count) -> None:
        self._playback = Playback(script)  # a slip in the script is seen before a port is taken
        super().__init__()
        self.usages: list[Body] = []
        self._count = count

    # --- what a provider fills in -----------------------------------------------------------------------------------

    def list_breaches(self, received: Received) -> list[str]:
        """What is wrong with a request that asks for an answer."""
        raise NotImplementedError

    def write(self, body: Body, said: Said, *, refused: bool) -> Written:
        raise NotImplementedError

    def make_problem(self, kind: FaultKind | None, text: str = "") -> Problem:
        """The error for a fault, or for a broken rule."""
        raise NotImplementedError

    def render_bad_event(self) -> bytes:
        raise NotImplementedError

    def render_error_event(self) -> bytes:
        raise NotImplementedError

    def find_limit(self, body: Body) -> int | None:
        raise NotImplementedError

    def list_tools(self, body: Body) -> list[str]:
        raise NotImplementedError

    # --- what both do -----------------------------------------------------------------------------------------------

    def answer(self, exchange: Exchange, received: Received) -> None:
        with self.lock:
            self.requests.append(received)
            number = len(self.requests)
        if self.refuse(exchange, self.list_breaches(received), f"request {number}"):
            return
        # Without the lock: a script's function may wait for another request.
        answer = self._playback.next(received.body)
        if answer is None:
            self.refuse(exchange, ["the script has no answer for it"], f"request {number}")
        elif isinstance(answer, Fault):
            self._fail(exchange, received.body, answer)
        else:
            self._say(exchange, received.body, make_pieces(answer, self._make_id))

    def refuse(self, exchange: Exchange, problems: list[str], where: str) -> bool:
        """Whether the request was refused: answered with its first problem, and all of them noted."""
        with self.lock:
            self.problems.extend(f"{where}: {problem}" for problem in problems)
        if problems:
            self._send_problem(exchange, self.make_problem(None, problems[0]))
        return bool(problems)

    def _say(self, exchange: Exchange, body: Body, pieces: tuple[Piece, ...]) -> None:
        self._send(exchange, body, cut_to_limit(pieces, self.find_limit(body), self._count))

    def _send(self, exchange: Exchange, body: Body, said: Said, *, refused: bool = False) -> None:
        written = self.write(body, said, refused=refused)
        if body.get("stream"):
            exchange.send_stream(written.events)
        else:
            exchange.send_json(200, written.body)

    def _make_id(self) -> str:
        return f"{self.prefix}_{self.number():04d}"

    def _send_problem(self, exchange: Exchange, problem: Problem, headers: Mapping[str, str] | None = None) -> None:
        exchange.send_json(problem.status, problem.body, headers)

    # --- faults -----------------------------------------------------------------------------------------------------

    def _fail(self, exchange: Exchange, body: Body, fault: Fault) -> None:
        pieces = make_pieces(fault.answer, self._make_id)
        streaming = bool(body.get("stream"))
        if fault.kind in _STATUSES or (fault.kind == "error_event" and not streaming):
            self._send_status(exchange, fault if fault.kind in _STATUSES else replace(fault, kind="overloaded"))
        elif fault.kind in ("cut_call", "unknown_tool", "empty", "refusal"):
            said = self._say_wrongly(fault.kind, body, pieces)
            self._send(exchange, body, said, refused=fault.kind == "refusal")
        elif fault.kind == "stall" or (fault.kind == "stall_midway" and not streaming):
            if self.stall(exchange):
                self._say(exchange, body, pieces)
        else:
            written = self.write(body, cut_to_limit(pieces, self.find_limit(body), self._count), refused=False)
            if streaming:
                self._break_stream(exchange, written, fault)
            else:
                self._break_plain(exchange, written, fault)

    def _say_wrongly(self, kind: FaultKind, body: Body, pieces: tuple[Piece, ...]) -> Said:
        if kind == "cut_call":
            return cut_call(pieces, next(iter(self.list_tools(body)), "write"), self._make_id, self._count)
        if kind == "unknown_tool":
            return Said((Piece("call", "{}", "no_such_tool", self._make_id()),), 1)
        return Said((), 1)

    def _send_status(self, exchange: Exchange, fault: Fault) -> None:
        after = {"retry-after": str(fault.retry_after)} if fault.kind == "rate" else None
        self._send_problem(exchange, self.make_problem(fault.kind), after)

    def _break_plain(self, exchange: Exchange, written: Written, fault: Fault) -> None:
        if fault.kind == "bad_json":
            exchange.send(200, b'{"id": "not all of it')
        else:
            exchange.send_half(written.body, Ending("reset" if fault.kind == "reset" else "end"))

    def _break_stream(self, exchange: Exchange, written: Written, fault: Fault) -> None:
        sent = min(len(written.events) - 1, max(1, int(len(written.events) * fault.at)))
        events = written.events[:sent]
        if fault.kind == "stall_midway":
            exchange.send_stream(events, Ending("open"))
            if self.stall(exchange):
                exchange.go_on(written.events[sent:])
        elif fault.kind == "bad_json":
            exchange.send_stream(events, Ending("end", self.render_bad_event()))
        elif fault.kind == "error_event":
            exchange.send_stream(events, Ending("end", self.render_error_event()))
        else:
            exchange.send_stream(events, Ending("reset" if fault.kind == "reset" else "end"))
