"""What a model is told to say: to one behind a server, in parts and faults; to one in this process, in replies.

A script is a list of answers, one for each request that the rules let through, or a function from a request's body to
its answer. An answer is a text, a part, a list of parts (text, thoughts and tool calls in their order; none at all is
an empty answer), or a fault. How an answer is put on the wire is not decided here.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, get_args

from memdir.frozen import dataclass, field, replace

Body = dict[str, Any]
Count = Callable[[str], int]

FaultKind = Literal[
    "auth",  # 401, the key is wrong
    "billing",  # 402, or the provider's own way to say that nobody pays
    "permission",  # 403, the key may not do this
    "rate",  # 429 with retry-after
    "spending",  # 429 without: the provider's limit for this account is reached, and trying again does not help
    "usage_limit",  # the limit that the account's owner has set
    "server",  # 500
    "overloaded",  # 529, or 503
    "stall",  # not a byte, until the client leaves or `release()`
    "stall_midway",  # the same in the middle of a stream
    "reset",  # the connection breaks in the middle
    "truncated",  # the answer ends, in good order but too early
    "bad_json",  # something that is no JSON in the middle
    "error_event",  # a stream that turns into an error; where nothing is streamed, the same as overloaded
    "cut_call",  # the token limit ends a tool call before its input is whole
    "unknown_tool",  # a call of a tool that nobody has offered
    "empty",  # no content at all
    "refusal",  # the model declines
]
FAULTS: tuple[FaultKind, ...] = get_args(FaultKind)


@dataclass(frozen=True, slots=True)
class Say:
    text: str


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call; without an id the server gives it one."""

    name: str
    input: Mapping[str, object] = field(default_factory=dict)
    id: str = ""


@dataclass(frozen=True, slots=True)
class Think:
    text: str


Part = Say | Call | Think


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that goes wrong.

    `answer` is what was being said: what a broken stream had begun, what a stalled one goes on with when it is
    released, the call that is cut. `at` is how much of a stream arrives before it breaks; at 1.0 all but its last
    event.
    """

    kind: FaultKind
    answer: str | Part | Sequence[Part] = "All of this would have been said if nothing had come in between."
    at: float = 0.5
    retry_after: int = 1


Answer = str | Part | Sequence[Part] | Fault
Script = Iterable[Answer] | Callable[[Body], Answer]


class Playback:
    """A script being played: gives one answer after the other, None when it has no more.

    A list may be asked by several threads at once; a function is called by each of them.
    """

    def __init__(self, script: Script) -> None:
        self._ask = script if callable(script) else None
        self._answers = [] if callable(script) else list(script)
        for answer in self._answers:
            check_answer(answer)

    def next(self, body: Body) -> Answer | None:
        if self._ask is not None:
            answer = self._ask(body)
            check_answer(answer)
            return answer
        try:
            return self._answers.pop(0)
        except IndexError:
            return None


def check_answer(answer: object) -> None:
    """Raises TypeError or ValueError on what is no answer: a slip in a script must not look like a model's."""
    if isinstance(answer, Fault) and answer.kind not in FAULTS:
        raise ValueError(f"no fault is called {answer.kind!r}; there are {', '.join(FAULTS)}")
    if isinstance(answer, Fault):
        answer = answer.answer
    parts = answer if isinstance(answer, list | tuple) else [answer]
    for part in parts:
        if not isinstance(part, str | Say | Call | Think):
            raise TypeError(f"an answer is a text, Say, Call, Think, a list of them, or a Fault, not {part!r}")


def read_blocks(blocks: Iterable[Mapping[str, Any]], **places: object) -> list[Part]:
    """An answer from the content blocks of a recorded one; `{name}` in them is a place that a test chose."""
    text = json.dumps(list(blocks))
    for name, place in places.items():
        text = text.replace(f"{{{name}}}", json.dumps(str(place))[1:-1])
    parts = json.loads(text)
    return [Say(at["text"]) if at["type"] == "text" else Call(at["name"], at["input"]) for at in parts]


@dataclass(frozen=True, slots=True)
class Piece:
    """A part as text: of a call, the JSON of its input, which need not be whole."""

    kind: Literal["text", "thinking", "call"]
    text: str
    name: str = ""
    id: str = ""


@dataclass(frozen=True, slots=True)
class Said:
    """What is going to be sent, and how many tokens that is; `cut` if the token limit ended it."""

    pieces: tuple[Piece, ...]
    tokens: int
    cut: bool = False


def make_pieces(answer: str | Part | Sequence[Part], make_id: Callable[[], str]) -> tuple[Piece, ...]:
    parts: Sequence[str | Part] = [answer] if isinstance(answer, str | Say | Call | Think) else answer
    return tuple(_make_piece(part, make_id) for part in parts)


def _make_piece(part: str | Part, make_id: Callable[[], str]) -> Piece:
    match part:
        case Call():
            return Piece("call", json.dumps(part.input, ensure_ascii=False), part.name, part.id or make_id())
        case Think():
            return Piece("thinking", part.text)
        case Say():
            return Piece("text", part.text)
    return Piece("text", part)


def cut_to_limit(pieces: Sequence[Piece], limit: int | None, count: Count) -> Said:
    """As many pieces as the token limit has room for; the last of them may be a beginning."""
    kept: list[Piece] = []
    spent = 0
    for piece in pieces:
        tokens = count(piece.text) + count(piece.name)
        if limit is not None and spent + tokens > limit:
            kept.append(replace(piece, text=_cut_text(piece.text, limit - spent - count(piece.name), count)))
            return Said(tuple(kept), limit, cut=True)
        kept.append(piece)
        spent += tokens
    return Said(tuple(kept), max(1, spent))


def cut_call(pieces: Sequence[Piece], tool: str, make_id: Callable[[], str], count: Count) -> Said:
    """The pieces up to the first call, and half of that one's input."""
    call = next((piece for piece in pieces if piece.kind == "call"), None)
    before = pieces[: pieces.index(call)] if call else ()
    call = call or Piece("call", json.dumps({"text": "".join(at.text for at in pieces)}), tool, make_id())
    kept = (*before, replace(call, text=call.text[: max(1, len(call.text) // 2)]))
    return Said(kept, sum(count(piece.text) for piece in kept) or 1, cut=True)


def _cut_text(text: str, room: int, count: Count) -> str:
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if count(text[:middle]) <= room else (low, middle - 1)
    return text[:low]


def split_text(text: str, size: int = 24) -> list[str]:
    """The text as a stream has it, in small portions."""
    return [text[at : at + size] for at in range(0, len(text), size)]
