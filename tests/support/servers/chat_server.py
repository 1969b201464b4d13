"""A server that speaks OpenAI's chat completions as the provider does, and plays a script behind it.

Served are `POST /v1/chat/completions`, streamed or not, and `GET /v1/models`. It is strict, and notes in `problems`
what it refused; with `ollama` it is as lenient as ollama's endpoint of the same shape. The longest beginning that an
earlier prompt had is read from the cache, in steps. `POST /v1/responses` is out of scope, and so are batches and
several choices.
"""

from collections.abc import Collection

from memdir.text import estimate_tokens
from servers.cache import PrefixCache
from servers.chat_wire import (
    CREATED,
    ERRORS,
    REFUSAL,
    list_prompt,
    make_completion,
    make_error,
    make_usage,
    render_chunks,
    render_error_chunk,
)
from servers.loopback import Exchange, Received
from servers.playing import Problem, ScriptedServer, Written
from servers.rules import check_completion, check_key, check_types
from servers.scripts import Body, FaultKind, Said, Script


class OpenAIServer(ScriptedServer):
    """`url` is what `base_url` or OPENAI_BASE_URL takes, with its `/v1`.

    With `key`, clients must show that one; `models` are listed.
    """

    def __init__(
        self,
        script: Script,
        *,
        ollama: bool = False,
        key: str | None = None,
        models: Collection[str] = ("scripted",),
    ) -> None:
        super().__init__(script, estimate_tokens)
        self._ollama, self._key, self._models = ollama, key, tuple(models)
        self._cache = PrefixCache()

    @property
    def url(self) -> str:
        return f"{super().url}/v1"

    def look(self, exchange: Exchange) -> None:
        self.others.append(f"{exchange.command} {exchange.path}")
        listed = [{"id": name, "object": "model", "created": CREATED, "owned_by": "memdir"} for name in self._models]
        if exchange.path == "/v1/models":
            exchange.send_json(200, {"object": "list", "data": listed})
        elif found := [model for model in listed if exchange.path == f"/v1/models/{model['id']}"]:
            exchange.send_json(200, found[0])
        else:
            exchange.send_json(404, make_error("invalid_request_error", None, f"{exchange.path} is not served"))

    def post(self, exchange: Exchange) -> None:
        received = exchange.receive()
        if received.path.partition("?")[0] == "/v1/chat/completions":
            self.answer(exchange, received)
        else:
            self.look(exchange)

    def list_breaches(self, received: Received) -> list[str]:
        problems = [*check_key(received.headers, self._key, required=not self._ollama)]
        if not self._ollama:
            problems += check_types("openai.types.chat.CompletionCreateParams", received.body)
            problems = problems or [*check_completion(received.body)]
        return problems

    def write(self, body: Body, said: Said, *, refused: bool) -> Written:
        called = any(piece.kind == "call" for piece in said.pieces)
        stop = "length" if said.cut else "tool_calls" if called else "stop"
        thoughts = sum(self._count(piece.text) for piece in said.pieces if piece.kind == "thinking")
        with self.lock:
            usage = make_usage(self._cache.spend(list_prompt(body), self._count), said.tokens, thoughts)
            self.usages.append(usage)
        id = f"chatcmpl-{self.number():04d}"
        completion = make_completion(id, body["model"], said.pieces, stop, usage, reasoning=self._ollama)
        if refused:
            completion["choices"][0]["message"]["refusal"] = REFUSAL
        asked = bool((body.get("stream_options") or {}).get("include_usage"))
        return Written(completion, tuple(render_chunks(completion, said.pieces, usage=asked)))

    def make_problem(self, kind: FaultKind | None, text: str = "") -> Problem:
        if kind is None and "API key" in text:
            kind = "auth"
        status, name, code, said = ERRORS[kind] if kind else (400, "invalid_request_error", None, "")
        return Problem(status, make_error(name, code, text or said))

    def render_bad_event(self) -> bytes:
        return b'data: {"id": "chatcmpl-0001", "choi\n\n'

    def render_error_event(self) -> bytes:
        return render_error_chunk(self.make_problem("overloaded").body)

    def find_limit(self, body: Body) -> int | None:
        limit: int | None = body.get("max_completion_tokens") or body.get("max_tokens")
        return limit

    def list_tools(self, body: Body) -> list[str]:
        return [tool["function"]["name"] for tool in body.get("tools") or ()]
