"""A server that speaks the Messages API as the provider does, and plays a script behind it.

It is strict: what the provider would refuse is refused here with the same status and shape, and noted in `problems`. It
computes what a request reads from the prompt cache and puts in. `POST /v1/messages` (with or without `?beta=true`),
streamed or not, and `POST /v1/messages/count_tokens` are served; every other path is answered with 404, except that a
client may look at `/`. Batches, files and the provider's own tools are not here.
"""

from memdir.text import estimate_tokens
from servers.cache import PromptCache, list_blocks
from servers.loopback import Exchange, Received
from servers.messages_wire import (
    ERRORS,
    make_block,
    make_error,
    make_events,
    make_message,
    make_usage,
    render_event,
    sign_thinking,
)
from servers.playing import Problem, ScriptedServer, Written
from servers.rules import check_key, check_messages, check_types
from servers.scripts import Body, FaultKind, Said, Script

_DENIED = "x-api-key"


class AnthropicServer(ScriptedServer):
    """`url` is what `base_url` or ANTHROPIC_BASE_URL takes; with `key`, clients must show that one."""

    prefix = "toolu"

    def __init__(self, script: Script, *, key: str | None = None) -> None:
        super().__init__(script, estimate_tokens)
        self._key = key
        self._cache = PromptCache()
        # By the id of a call: the thoughts that came before it, which have to come back with it.
        self._issued: dict[str, list[Body]] = {}

    def look(self, exchange: Exchange) -> None:
        self.others.append(f"{exchange.command} {exchange.path}")
        if exchange.path == "/":
            exchange.send(200, b"{}")
        else:
            error = make_error("not_found_error", f"{exchange.path} is not served", self._request_id())
            exchange.send_json(404, error)

    def post(self, exchange: Exchange) -> None:
        received = exchange.receive()
        path = received.path.partition("?")[0]
        if path == "/v1/messages":
            self.answer(exchange, received)
        elif path == "/v1/messages/count_tokens":
            self.others.append(f"POST {path}")
            if not self.refuse(exchange, self.list_breaches(received, counting=True), "count_tokens"):
                tokens = sum(block.tokens for block in list_blocks(received.body, self._count))
                exchange.send_json(200, {"input_tokens": tokens})
        else:
            self.look(exchange)

    def list_breaches(self, received: Received, *, counting: bool = False) -> list[str]:
        problems = [*check_key(received.headers, self._key)]
        if "anthropic-version" not in received.headers:
            problems.append("anthropic-version: header is required")
        if "beta=true" not in received.path and "anthropic-beta" not in received.headers and not counting:
            allowed = ("temperature", "top_p", "top_k")
            problems += check_types("anthropic.types.MessageCreateParams", received.body, allowed)
        return problems or [*check_messages(received.body, sign_thinking, self._issued)]

    def write(self, body: Body, said: Said, *, refused: bool) -> Written:
        called = any(piece.kind == "call" for piece in said.pieces)
        stop = "refusal" if refused else "max_tokens" if said.cut else "tool_use" if called else "end_turn"
        with self.lock:
            usage = make_usage(self._cache.spend(list_blocks(body, self._count)), said.tokens)
            self.usages.append(usage)
            thoughts = [make_block(piece) for piece in said.pieces if piece.kind == "thinking"]
            self._issued.update({piece.id: thoughts for piece in said.pieces if piece.kind == "call"})
        message = make_message(f"msg_{self.number():04d}", body["model"], said.pieces, stop, usage)
        return Written(message, tuple(map(render_event, make_events(message, said.pieces))))

    def make_problem(self, kind: FaultKind | None, text: str = "") -> Problem:
        if kind is None and text.startswith(_DENIED):
            kind = "auth"
        status, name, said, code = ERRORS[kind] if kind else (400, "invalid_request_error", "", "")
        return Problem(status, make_error(name, text or said, self._request_id(), code))

    def render_bad_event(self) -> bytes:
        return b'event: content_block_delta\ndata: {"type": "content_block_delta", "ind\n\n'

    def render_error_event(self) -> bytes:
        return render_event(("error", self.make_problem("overloaded").body))

    def find_limit(self, body: Body) -> int | None:
        limit: int = body["max_tokens"]
        return limit

    def list_tools(self, body: Body) -> list[str]:
        return [tool["name"] for tool in body.get("tools") or () if "name" in tool]

    def _request_id(self) -> str:
        return f"req_{self.number():04d}"
