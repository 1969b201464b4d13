"""A connection to one endpoint through its vendor's SDK: sends a body, returns JSON, as a whole or by events.

The SDKs of Anthropic and OpenAI come from one generator and are used in the same way: they know the addresses, the
headers, the stream format and the errors. They are imported at the first request, since an import takes a second; their
own retries are off. Each request has an HTTP connection of its own, so that it can be closed without affecting another.

Errors of providers become `UnreachableError` with one of a closed list of reasons. A provider's own message is shown
where it helps, shortened, with anything that looks like a key masked. Whether to retry is decided elsewhere; an error
only says whether a retry may help. The small functions that read values of unknown type serve both providers.
"""

import importlib.util
import re
import socket
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from http import HTTPStatus
from importlib import import_module
from typing import Any

from memdir.errors import ModelError, ReplyError, StoppedError, UnreachableError, hint_extra
from memdir.limits import MODEL_CONNECT_SECONDS, MODEL_WHOLE_SECONDS
from memdir.records import Message, Model, Request, Usage
from memdir.text import one_line, shorten

# Keywords that structured output refuses at one vendor or another; the caller checks them in the reply.
_LEFT_OUT = frozenset(
    "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength minItems maxItems uniqueItems"
    " minProperties maxProperties $schema default examples".split()
)
_COUNT_MOST = 1 << 40
# Every reason, in words; `{who}` is the model.
REASONS: Mapping[str, str] = {
    "key": "{who} does not accept the key",
    "forbidden": "{who} does not allow this",
    "missing": "{who} is not there: no such model or address",
    "too_long": "{who} cannot read that much at once",
    "spent": "the spending limit at the provider of {who} is reached",
    "refused": "{who} refused the request",
    "busy": "{who} has too many requests just now",
    "down": "{who} is out of order just now",
    "offline": "{who} cannot be reached",
    "timeout": "{who} did not answer in time",
    "broken": "the answer of {who} broke off",
}
PASSING = frozenset({"busy", "down", "offline", "timeout", "broken"})
_HINTS = {
    "key": "check the key and the address; `docs/models.md` says where they come from",
    "forbidden": "check what the key may do at the provider",
    "missing": "check the name with the provider: `memdir config get model`, and model_url",
    "too_long": "shorten what is asked, or choose a model with a larger window",
    "spent": "raise it or wait until it is renewed; until then memdir uses its built-in patterns",
    "refused": "the provider's own words say why",
    **dict.fromkeys(("busy", "down"), "wait a little; memdir tries again by itself the next time"),
    "offline": "check the network and the address: `memdir config get model_url`",
    "timeout": "`memdir config set model_seconds 120` waits longer",
    "broken": "memdir tries again by itself the next time",
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
_WORDS_CHARS = 300
_LOOK_SECONDS = 0.03
_CONNECTED = (".connect_tcp.complete", ".connect_unix_socket.complete", ".start_tls.complete")

# (SDK, its HTTP client, how long silence may last) -> the SDK's client
MakeClient = Callable[[Any, Any, Any], Any]


def can_use_tools(model: Model) -> bool:
    """Whether a model accepts tools and a parent's prefix; true if it does not say, as a scripted model."""
    return bool(getattr(model, "has_tools", True))


def narrow_schema(schema: Mapping[str, object]) -> dict[str, object]:
    """Return the part of a schema that every endpoint accepts: shapes without sizes; objects are closed."""
    narrow: dict[str, object] = {}
    for key, value in schema.items():
        if key == "properties" and isinstance(value, Mapping):  # below it, keys are names
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
        raise ModelError("a request needs room for an answer: max_tokens is below 1")
    if not any(message.text.strip() or message.calls or message.raw for message in request.messages):
        raise ModelError("a request needs a message")
    if request.parent is not None and (request.system or request.tools):
        raise ModelError("a request with a parent has no system prompt or tools of its own: they are the parent's")


def wrong_parent(provider: str, why: str) -> ModelError:
    hint = "give the body exactly as the host sent it, to a model of the same provider"
    return ModelError(f"the parent is not a request of {provider}: {why}", hint=hint)


def sum_usage(*usages: Usage) -> Usage:
    """Return the sum; only known dollars are added, and they are unknown if none are known."""
    dollars = [usage.dollars for usage in usages if usage.dollars is not None]
    counts = {name: sum(getattr(usage, name) for usage in usages) for name in ("fresh", "cached", "output", "stored")}
    return Usage(**counts, dollars=sum(dollars) if dollars else None)


def role_of(message: Message) -> str:
    """The role for providers: everything that is not the model's, tool results included, is the user's."""
    return "assistant" if message.role == "assistant" else "user"


def as_table(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def as_list(value: object) -> Sequence[object]:
    return value if isinstance(value, list | tuple) else ()


def as_text(value: object) -> str:
    return value if isinstance(value, str) else ""


def as_count(value: object) -> int:
    """A number of tokens: 0 if it is not a number, and limited to what a database can store."""
    return min(max(0, value), _COUNT_MOST) if isinstance(value, int) and not isinstance(value, bool) else 0


def make_fault(who: str, reason: str, *, words: str = "", after: float | None = None) -> UnreachableError:
    """Return an error with the reason, and the provider's own message if there is one."""
    provider_message = shorten(_KEYS.sub("…", one_line(words)).strip(" ."), _WORDS_CHARS)
    message = REASONS[reason].format(who=who) + (f": {provider_message}" if provider_message else "")
    return UnreachableError(message, reason=reason, passing=reason in PASSING, after=after, hint=_HINTS[reason])


def make_status_fault(
    who: str, status: int, body: object, *, headers: Mapping[str, str] | None = None, now: float | None = None
) -> UnreachableError:
    """Return the error for a response that contains one; for an error inside a stream the status is 200."""
    kinds, words = read_error(body)
    reason = _find_reason(status, kinds, words)
    if not words and status >= 300:
        phrases = {status_code.value: status_code.phrase for status_code in HTTPStatus} | {529: "overloaded"}
        words = f"{status} {phrases.get(status, '')}".strip()
    return make_fault(who, reason, words=words, after=read_after(headers or {}, now))


def read_error(body: object) -> tuple[frozenset[str], str]:
    """Return type and code of an error, and its message; from `{"error": {…}}` or from the table inside."""
    table = as_table(body)
    inner = table.get("error")
    table = as_table(inner) or table
    names = (table.get("code"), as_table(table.get("details")).get("error_code"), table.get("type"))
    kinds = frozenset(name for name in names if isinstance(name, str) and name)
    words = table.get("message") or (inner if isinstance(inner, str) else "")
    return kinds, words if isinstance(words, str) else ""


def read_after(headers: Mapping[str, str], now: float | None) -> float | None:
    """The seconds that a provider asks to wait; a date is compared with `now`, in seconds since the epoch."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            return max(0.0, float(headers.get(name, "")) * unit)
        except ValueError:
            continue
    if now is None or "retry-after" not in headers:
        return None
    # Imported here: a date is rare, and its parser would take a third of the time of every `status`.
    from email.utils import parsedate_to_datetime

    try:
        return max(0.0, parsedate_to_datetime(headers["retry-after"]).timestamp() - now)
    except (ValueError, TypeError, OverflowError):
        return None


def _find_reason(status: int, kinds: frozenset[str], words: str) -> str:
    spent = any(_SPENT_KINDS.search(kind) for kind in kinds)
    if spent or status == 402 or (status in (400, 403, 429) and _SPENT.search(words)):
        return "spent"
    if kinds & _LONG_KINDS or (status in (400, 422, 500) and _LONG.search(words)):
        return "too_long"
    if status in _BY_STATUS or status >= 500:
        return _BY_STATUS.get(status, "down")
    if status < 300 and kinds & _BUSY_KINDS:
        return "busy"
    return "down" if status < 300 and (kinds & _DOWN_KINDS or not kinds) else "refused"


class CancelWatch:
    """Checks during a request whether it was cancelled or takes too long; `check` raises then.

    A thread that waits for bytes notices neither. A second thread looks every few milliseconds and shuts the connection
    down, so that the provider stops working too; `cancelled` is therefore called from another thread.
    """

    def __init__(self, who: str, cancelled: Callable[[], bool] | None, seconds: float) -> None:
        self._who, self._cancelled, self._deadline, self._found = who, cancelled, time.monotonic() + seconds, ""
        self._socket: socket.socket | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="memdir-watch", daemon=True)

    def __enter__(self) -> "CancelWatch":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    def trace(self, name: str, info: Mapping[str, object]) -> None:
        """Called by the HTTP library with its connections; the newest one is the one to shut down."""
        if name.endswith(_CONNECTED):
            find = getattr(info.get("return_value"), "get_extra_info", None)
            connection_socket = find("socket") if find is not None else None
            self._socket = connection_socket if isinstance(connection_socket, socket.socket) else None

    def check(self) -> None:
        """Raises if the request was cancelled or the time is up."""
        self._found = self._found or self._find()
        if self._found == "cancelled":
            raise StoppedError(f"the request to {self._who} was cancelled")
        if self._found == "late":
            raise make_fault(self._who, "timeout")

    def _find(self) -> str:
        if self._cancelled is not None and self._cancelled():
            return "cancelled"
        return "late" if time.monotonic() >= self._deadline else ""

    def _look(self) -> None:
        while not self._over.wait(_LOOK_SECONDS):
            self._found = self._found or self._find()
            # Repeated each time: there may be no connection yet, or it is being wrapped for TLS at this moment.
            if self._found and self._socket is not None:
                with suppress(OSError):
                    # Not the method of a TLS socket, which would unwrap it while the other thread waits.
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)


def check_installed(package: str) -> None:
    """Raises, with what to install, if there is no such SDK; does not import it."""
    if importlib.util.find_spec(package) is None:
        raise ModelError(f"the package {package} is not installed", hint=hint_extra(package))


class Connection:
    """One endpoint. `who` is the model's name in errors; `path` is where bodies are sent, below the address."""

    def __init__(self, package: str, make_client: MakeClient, path: str, *, who: str, silence: float) -> None:
        check_installed(package)
        self.who, self._silence = who, silence
        self._package, self._make_client, self._path = package, make_client, path
        self._tls: Any = None

    def ask(self, body: Mapping[str, object], request: Request, headers: Mapping[str, str]) -> Mapping[str, object]:
        with self._open(request) as (client, _, http):
            response = client.post(self._path, cast_to=http.Response, body=dict(body), options={"headers": headers})
            data = response.json()
        if not isinstance(data, Mapping):
            raise ReplyError(f"{self.who} did not answer in its own shape: {shorten(one_line(str(data)), 80)!r}")
        return data

    def stream(
        self, body: Mapping[str, object], request: Request, headers: Mapping[str, str]
    ) -> Generator[Mapping[str, object]]:
        """Sends a body and yields the answer's events; a request can be cancelled between any two."""
        with self._open(request) as (client, watch, _):
            kind = import_module(self._package).Stream[object]
            form = {"cast_to": object, "stream": True, "stream_cls": kind}
            with client.post(self._path, body=dict(body), options={"headers": headers}, **form) as events:
                for event in events:
                    watch.check()
                    yield as_table(event)
                    watch.check()
                watch.check()  # an answer without a length seems complete when its connection is shut down

    @contextmanager
    def _open(self, request: Request) -> Iterator[tuple[Any, CancelWatch, Any]]:
        sdk, http = import_module(self._package), import_module("httpx2")
        timeout = http.Timeout(self._silence, connect=min(self._silence, MODEL_CONNECT_SECONDS))
        if self._tls is None:
            self._tls = http.create_ssl_context()
        with CancelWatch(self.who, request.cancelled, MODEL_WHOLE_SECONDS) as watch:

            def show(outgoing: Any) -> None:
                outgoing.extensions["trace"] = watch.trace

            # A redirect would carry the key to another address.
            options = {"timeout": timeout, "follow_redirects": False, "event_hooks": {"request": [show]}}
            with self._faults(sdk, http, watch), http.Client(verify=self._tls, **options) as plain:
                watch.check()
                yield self._make_client(sdk, plain, timeout), watch, http

    @contextmanager
    def _faults(self, sdk: Any, http: Any, watch: CancelWatch) -> Iterator[None]:
        """Converts errors of the SDK and the network; what the watch found comes first, because it was the cause."""
        try:
            yield
        except sdk.APIStatusError as error:
            about = {"headers": error.response.headers, "now": time.time()}
            raise make_status_fault(self.who, error.status_code, error.body, **about) from error
        except (sdk.APITimeoutError, http.TimeoutException) as error:
            watch.check()
            raise make_fault(self.who, "timeout") from error
        except (sdk.APIConnectionError, http.TransportError, http.StreamError) as error:
            watch.check()
            cause = error.__cause__ or error  # the SDK itself says only "Connection error."
            is_offline = isinstance(cause, http.ConnectError | http.UnsupportedProtocol | http.ProxyError)
            raise make_fault(self.who, "offline" if is_offline else "broken", words=str(cause)) from error
        except sdk.APIError as error:
            watch.check()
            raise make_status_fault(self.who, 200, error.body or {"message": error.message}) from error
        except UnicodeEncodeError as error:
            hint = "half a character (a lone surrogate) cannot be sent; take it out"
            raise ModelError(f"the request to {self.who} contains invalid Unicode", hint=hint) from error
        except (ValueError, RecursionError) as error:  # not JSON, not UTF-8, or nested without end
            watch.check()
            raise ReplyError(f"{self.who} answered with what is not JSON", hint="is the address right?") from error
