"""Send requests to an endpoint with its vendor's SDK and return the JSON response or its events.

The SDKs of Anthropic and OpenAI come from one generator and are used in the same way: they handle URLs, headers, the stream
format and errors. They are imported at the first request, since an import takes a second; their own retries are off. Each
request has its own HTTP connection, so that it can be closed without affecting others.

Provider errors become `UnreachableError` with one of a fixed list of reasons, and the provider's message, shortened and with
anything that looks like a key masked. An error only says whether a retry may help; callers decide. The small functions that
read values of unknown type serve both providers.
"""

import importlib.util
import re
import socket
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from http import HTTPStatus
from importlib import import_module
from typing import Any, ClassVar, Protocol

from memdir.errors import ModelError, ReplyError, StoppedError, UnreachableError, hint_extra
from memdir.frozen import replace
from memdir.limits import MODEL_CONNECT_SECONDS, MODEL_WHOLE_SECONDS, STREAM_TOKENS
from memdir.records import Message, Model, Reply, Request, Usage
from memdir.text import as_table, one_line, shorten

# Keywords that structured output refuses at one vendor or another; the caller checks them in the reply.
_LEFT_OUT = frozenset(
    "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength minItems maxItems uniqueItems"
    " minProperties maxProperties $schema default examples".split()
)
_COUNT_MOST = 1 << 40
# The message for each reason; `{label}` is the name of the model.
REASONS: Mapping[str, str] = {
    "key": "{label} does not accept the key",
    "forbidden": "{label} does not allow this",
    "missing": "{label} was not found: no such model or URL",
    "too_long": "the request is too long for {label}",
    "spent": "the spending limit at the provider of {label} is reached",
    "refused": "{label} refused the request",
    "busy": "{label} has too many requests at the moment",
    "down": "{label} is not working at the moment",
    "offline": "{label} cannot be reached",
    "timeout": "{label} did not answer in time",
    "broken": "the answer of {label} was interrupted",
}
TRANSIENT = frozenset({"busy", "down", "offline", "timeout", "broken"})
_HINTS = {
    "key": "check the key and the URL; see `docs/models.md`",
    "forbidden": "check the permissions of the key at the provider",
    "missing": "check the name with the provider: `memdir config get model`, and model_url",
    "too_long": "shorten the request, or choose a model with a larger context window",
    "spent": "raise the limit or wait until it is reset; until then memdir uses built-in patterns",
    "refused": "see the provider's message",
    **dict.fromkeys(("busy", "down"), "memdir will retry automatically"),
    "offline": "check the network and the URL: `memdir config get model_url`",
    "timeout": "`memdir config set model_seconds 120` waits longer",
    "broken": "memdir will retry automatically",
}
_SPENT_KINDS = re.compile(r"insufficient_|billing|spend_limit|credit_balance|budget_exceeded")
_SPENT = re.compile(
    r"credit balance|spend(?:ing)? (?:limit|cap)|usage limit|insufficient (?:quota|credit|fund|balance)"
    r"|current quota|billing|payment",
    re.IGNORECASE,
)
_LONG_KINDS = frozenset({"context_length_exceeded", "request_too_large", "string_above_max_length"})
_LONG = re.compile(
    r"(?:prompt|input|request|message)s? (?:is|are) too (?:long|large)|context (?:length|window|size)|maximum context",
    re.IGNORECASE,
)
_BUSY_KINDS = frozenset({"rate_limit_error", "rate_limit_exceeded", "too_many_requests"})
_DOWN_KINDS = frozenset({"overloaded_error", "api_error", "server_error", "internal_error", "timeout_error"})
_KEYS = re.compile(r"\b(?:sk|pk|key)[-_][\w.*-]{6,}|\bBearer \S+")
_BY_STATUS = {401: "key", 403: "forbidden", 404: "missing", 408: "timeout", 409: "busy", 413: "too_long", 429: "busy"}
_DETAIL_CHARS = 300
_CHECK_SECONDS = 0.03
_CONNECTED = (".connect_tcp.complete", ".connect_unix_socket.complete", ".start_tls.complete")

# Arguments: the SDK module, an HTTP client and a timeout. Returns the SDK's client.
MakeClient = Callable[[Any, Any, Any], Any]


def can_use_tools(model: Model) -> bool:
    """Return whether a model supports tools and parents. Models that do not specify this are assumed to."""
    return bool(getattr(model, "has_tools", True))


def narrow_schema(schema: Mapping[str, object]) -> dict[str, object]:
    """Reduce a schema to the features that every endpoint accepts: no size limits, and closed objects."""
    narrow: dict[str, object] = {}
    for key, value in schema.items():
        if key == "properties" and isinstance(value, Mapping):  # its keys are property names, not keywords
            narrow[key] = {name: _narrow(property) for name, property in value.items()}
        elif key not in _LEFT_OUT:
            narrow[key] = value if key in ("enum", "const", "required") else _narrow(value)
    if narrow.get("type") == "object":
        narrow["additionalProperties"] = False
    return narrow


def _narrow(value: object) -> object:
    if isinstance(value, Mapping):
        return narrow_schema(value)
    return [_narrow(item) for item in value] if isinstance(value, list | tuple) else value


def check_request(request: Request) -> None:
    if request.max_tokens < 1:
        raise ModelError("invalid request: max_tokens is below 1")
    if not any(message.text.strip() or message.calls or message.raw for message in request.messages):
        raise ModelError("invalid request: it has no messages")
    if request.parent is not None and (request.system or request.tools):
        raise ModelError("a request that continues a parent request cannot set a system prompt or tools")


def wrong_parent(provider: str) -> ModelError:
    hint = "pass the body exactly as the host sent it, to a model of the same provider"
    return ModelError(f"the parent request is not valid for {provider}", hint=hint)


def sum_usage(*usages: Usage) -> Usage:
    """Add up usages. The cost includes only requests with a known price, and is unknown if there are none."""
    dollars = [usage.dollars for usage in usages if usage.dollars is not None]
    counts = {name: sum(getattr(usage, name) for usage in usages) for name in ("fresh", "cached", "output", "stored")}
    return Usage(**counts, dollars=sum(dollars) if dollars else None)


def role_of(message: Message) -> str:
    """Return the provider's role for a message: "assistant" for the model and "user" for all others."""
    return "assistant" if message.role == "assistant" else "user"


def as_count(value: object) -> int:
    """Convert a value to a token count. Returns 0 if it is not a number."""
    return min(max(0, value), _COUNT_MOST) if isinstance(value, int) and not isinstance(value, bool) else 0


def make_error(label: str, reason: str, *, detail: str = "", retry_after: float | None = None) -> UnreachableError:
    """Return the error for a reason in `REASONS`, with the provider's message in `detail`, if any."""
    provider_message = shorten(_KEYS.sub("…", one_line(detail)).strip(" ."), _DETAIL_CHARS)
    message = REASONS[reason].format(label=label) + (f": {provider_message}" if provider_message else "")
    return UnreachableError(
        message, reason=reason, is_transient=reason in TRANSIENT, retry_after=retry_after, hint=_HINTS[reason]
    )


def make_status_error(
    label: str, status: int, body: object, headers: Mapping[str, str] | None = None
) -> UnreachableError:
    """Return the error for a response with an error. Use the status 200 for an error within a stream."""
    kinds, detail = read_error(body)
    reason = _find_reason(status, kinds, detail)
    if not detail and status >= 300:
        phrases = {status_code.value: status_code.phrase for status_code in HTTPStatus} | {529: "overloaded"}
        detail = f"{status} {phrases.get(status, '')}".strip()
    return make_error(label, reason, detail=detail, retry_after=read_after(headers or {}))


def read_error(body: object) -> tuple[frozenset[str], str]:
    """Return the type and code of an error, and its message."""
    table = as_table(body)
    inner = table.get("error")
    table = as_table(inner) or table
    names = (table.get("code"), as_table(table.get("details")).get("error_code"), table.get("type"))
    kinds = frozenset(name for name in names if isinstance(name, str) and name)
    message = table.get("message") or (inner if isinstance(inner, str) else "")
    return kinds, message if isinstance(message, str) else ""


def read_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds to wait that the provider specified, or None. Dates, which no provider sends, are ignored."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        with suppress(ValueError):
            return max(0.0, float(headers.get(name, "")) * unit)
    return None


def _find_reason(status: int, kinds: frozenset[str], detail: str) -> str:
    spent = any(_SPENT_KINDS.search(kind) for kind in kinds)
    if spent or status == 402 or (status in (400, 403, 429) and _SPENT.search(detail)):
        return "spent"
    if kinds & _LONG_KINDS or (status in (400, 422, 500) and _LONG.search(detail)):
        return "too_long"
    if status in _BY_STATUS or status >= 500:
        return _BY_STATUS.get(status, "down")
    if status < 300 and kinds & _BUSY_KINDS:
        return "busy"
    return "down" if status < 300 and (kinds & _DOWN_KINDS or not kinds) else "refused"


class CancelWatch:
    """Abort a request when it is cancelled or its time is up.

    A thread that waits for data notices neither, so a second thread calls `cancelled` every few milliseconds and shuts the
    connection down.
    """

    def __init__(self, label: str, cancelled: Callable[[], bool] | None, seconds: float) -> None:
        self._label, self._cancelled, self._deadline, self._outcome = label, cancelled, time.monotonic() + seconds, ""
        self._socket: socket.socket | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="memdir-watch", daemon=True)

    def __enter__(self) -> "CancelWatch":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    def trace(self, name: str, info: Mapping[str, object]) -> None:
        """Store the newest connection so that it can be shut down. The HTTP library calls this."""
        if name.endswith(_CONNECTED):
            find = getattr(info.get("return_value"), "get_extra_info", None)
            connection_socket = find("socket") if find is not None else None
            self._socket = connection_socket if isinstance(connection_socket, socket.socket) else None

    def check(self) -> None:
        """Raise StoppedError if the request was cancelled, or UnreachableError if its time is up."""
        self._outcome = self._outcome or self._find()
        if self._outcome == "cancelled":
            raise StoppedError(f"the request to {self._label} was cancelled")
        if self._outcome == "late":
            raise make_error(self._label, "timeout")

    def _find(self) -> str:
        if self._cancelled is not None and self._cancelled():
            return "cancelled"
        return "late" if time.monotonic() >= self._deadline else ""

    def _watch(self) -> None:
        while not self._over.wait(_CHECK_SECONDS):
            self._outcome = self._outcome or self._find()
            # Repeat the shutdown, because there may be no connection yet, or it may be changing to TLS.
            if self._outcome and self._socket is not None:
                with suppress(OSError):
                    # The method of a TLS socket would unwrap it while the other thread waits.
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)


class Connection:
    """A connection to one endpoint. `label` names the model in errors, and `path` is appended to the URL.

    Raises ModelError with an install hint if the SDK is missing. It is imported at the first request.
    """

    def __init__(self, package: str, make_client: MakeClient, path: str, *, label: str, silence: float) -> None:
        if importlib.util.find_spec(package) is None:
            raise ModelError(f"the package {package} is not installed", hint=hint_extra(package))
        self.label, self._silence = label, silence
        self._package, self._make_client, self._path = package, make_client, path
        self._tls: Any = None

    def ask(self, body: Mapping[str, object], request: Request, headers: Mapping[str, str]) -> Mapping[str, object]:
        with self._open(request) as (client, _, http):
            response = client.post(self._path, cast_to=http.Response, body=dict(body), options={"headers": headers})
            data = response.json()
        if not isinstance(data, Mapping):
            raise ReplyError(f"{self.label} did not return a JSON object: {shorten(one_line(str(data)), 80)!r}")
        return data

    def stream(
        self, body: Mapping[str, object], request: Request, headers: Mapping[str, str]
    ) -> Generator[Mapping[str, object]]:
        """Send a body and yield the events of the response. The request can be cancelled between events."""
        with self._open(request) as (client, watch, _):
            kind = import_module(self._package).Stream[object]
            form = {"cast_to": object, "stream": True, "stream_cls": kind}
            with client.post(self._path, body=dict(body), options={"headers": headers}, **form) as events:
                for event in events:
                    watch.check()
                    yield as_table(event)
                    watch.check()
                watch.check()  # a response without a length looks complete after the connection was shut down

    @contextmanager
    def _open(self, request: Request) -> Iterator[tuple[Any, CancelWatch, Any]]:
        sdk, http = import_module(self._package), import_module("httpx2")
        timeout = http.Timeout(self._silence, connect=min(self._silence, MODEL_CONNECT_SECONDS))
        if self._tls is None:
            self._tls = http.create_ssl_context()
        with CancelWatch(self.label, request.cancelled, MODEL_WHOLE_SECONDS) as watch:

            def show(outgoing: Any) -> None:
                outgoing.extensions["trace"] = watch.trace

            # A redirect would send the key to another URL.
            options = {"timeout": timeout, "follow_redirects": False, "event_hooks": {"request": [show]}}
            with self._convert_errors(sdk, http, watch), http.Client(verify=self._tls, **options) as plain:
                watch.check()
                yield self._make_client(sdk, plain, timeout), watch, http

    @contextmanager
    def _convert_errors(self, sdk: Any, http: Any, watch: CancelWatch) -> Iterator[None]:
        """Convert SDK and network errors to memdir's. A cancelled or late request raises its own error."""
        try:
            yield
        except sdk.APIStatusError as error:
            raise make_status_error(self.label, error.status_code, error.body, error.response.headers) from error
        except (sdk.APITimeoutError, http.TimeoutException) as error:
            watch.check()
            raise make_error(self.label, "timeout") from error
        except (sdk.APIConnectionError, http.TransportError, http.StreamError) as error:
            watch.check()
            cause = error.__cause__ or error  # the SDK reports only "Connection error."
            is_offline = isinstance(cause, http.ConnectError | http.UnsupportedProtocol | http.ProxyError)
            raise make_error(self.label, "offline" if is_offline else "broken", detail=str(cause)) from error
        except sdk.APIError as error:
            watch.check()
            raise make_status_error(self.label, 200, error.body or {"message": error.message}) from error
        except UnicodeEncodeError as error:
            hint = "remove the lone surrogate character"
            raise ModelError(f"the request to {self.label} contains invalid Unicode", hint=hint) from error
        except (ValueError, RecursionError) as error:  # not JSON, not UTF-8, or nested too deeply
            watch.check()
            raise ReplyError(f"{self.label} did not return JSON", hint="check the URL") from error


THINKS = "thinks"  # the quirk of a model that needs more tokens for thinking
AdaptedReply = tuple[Reply, bool]  # True if thinking used up all tokens


class ReplyStream(Protocol):
    """Collects the events of a response. `add` returns the text of an event, `answer` the complete response."""

    usage: Mapping[str, object]

    @property
    def is_whole(self) -> bool: ...
    def add(self, event: Mapping[str, object]) -> str: ...
    def answer(self) -> Mapping[str, object]: ...


class ApiModel:
    """A model with an HTTP API; subclasses render its requests and read its responses.

    Many servers implement only part of a vendor's API. If an error matches a pattern in `cures`, the request is sent again
    without that optional feature, and the quirk is remembered.
    """

    has_tools = True
    cures: ClassVar[Mapping[str, re.Pattern[str]]]
    make_stream: Callable[[], ReplyStream]

    def __init__(self, name: str, connection: Connection) -> None:
        self._name, self._connection, self._quirks = name, connection, set[str]()

    def __call__(self, request: Request) -> Reply:
        check_request(request)
        spent = Usage()
        while True:
            try:
                reply, is_starved = self._send(request)
            except UnreachableError as error:
                unknown = (
                    name for name, words in self.cures.items() if name not in self._quirks and words.search(str(error))
                )
                quirk = next(unknown, None) if error.reason == "refused" else None
                if quirk is None:
                    raise
                self._quirks.add(quirk)
                continue
            spent = sum_usage(spent, reply.usage)
            if not is_starved or THINKS in self._quirks:
                return replace(reply, usage=spent)
            self._quirks.add(THINKS)

    def _send(self, request: Request) -> AdaptedReply:
        body, headers = self.render(request), self.make_headers(request)
        if request.on_text is None and request.max_tokens <= STREAM_TOKENS:
            return self.read(self._connection.ask(body, request, headers))
        stream = self.make_stream()
        try:
            with closing(self._connection.stream(body | self.ask_stream(), request, headers)) as events:
                for event in events:
                    text = stream.add(event)
                    if text and request.on_text is not None:
                        request.on_text(text)
            if not stream.is_whole:
                raise make_error(self._connection.label, "broken")
        except ModelError as error:
            error.usage = self.read_usage(stream.usage) if stream.usage else None
            raise
        return self.read(stream.answer())

    def make_headers(self, request: Request) -> dict[str, str]:
        return {}

    def ask_stream(self) -> dict[str, object]:
        return {"stream": True}

    def render(self, request: Request) -> dict[str, object]:
        """Return the body of a request."""
        raise NotImplementedError

    def read(self, answer: Mapping[str, object]) -> AdaptedReply:
        raise NotImplementedError

    def read_usage(self, usage: Mapping[str, object]) -> Usage:
        raise NotImplementedError
