"""One endpoint spoken to through its vendor's SDK: a body goes out as it is, JSON comes back, whole or by events.

The SDKs of Anthropic and OpenAI come from one generator and are used alike here: they know the addresses, the headers,
the stream format and the errors. They are loaded at the first request, since importing one takes a second; their own
retries are off. Each request has a connection of its own, so that it can be shut without hurting another one.
"""

import importlib.util
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from memdir.errors import ModelError, ReplyError
from memdir.limits import MODEL_CONNECT_SECONDS, MODEL_WHOLE_SECONDS
from memdir.models.faults import make_fault, make_status_fault
from memdir.models.watch import Watch
from memdir.models.wire import as_table
from memdir.records import Request
from memdir.text import one_line, shorten

# (SDK, its HTTP client, how long silence may last) -> the SDK's client
MakeClient = Callable[[Any, Any, Any], Any]


def check_installed(package: str) -> None:
    """Raise, with what to install, if there is no such SDK; does not load it."""
    if importlib.util.find_spec(package) is None:
        raise ModelError(f"the package {package} is not installed", hint=f"pip install 'memdir[{package}]'")


class Line:
    """`who` is how errors call the model; `path` is where bodies go, below the address."""

    def __init__(
        self,
        package: str,
        make_client: MakeClient,
        path: str,
        *,
        who: str,
        silence: float,
        whole: float = MODEL_WHOLE_SECONDS,
    ) -> None:
        check_installed(package)
        self.who = who
        self._package, self._make_client, self._path = package, make_client, path
        self._silence, self._whole = silence, whole
        self._tls: Any = None

    def ask(self, body: Mapping[str, object], request: Request, headers: Mapping[str, str]) -> Mapping[str, object]:
        """The whole answer."""
        with self._talk(request) as (client, _, http):
            response = client.post(self._path, cast_to=http.Response, body=dict(body), options={"headers": headers})
            data = response.json()
        if not isinstance(data, Mapping):
            raise ReplyError(f"{self.who} did not answer in its own shape: {shorten(one_line(str(data)), 80)!r}")
        return data

    def stream(
        self, body: Mapping[str, object], request: Request, headers: Mapping[str, str]
    ) -> Generator[Mapping[str, object]]:
        """The answer's events as they come; the caller's wish to stop is heard between any two."""
        with self._talk(request) as (client, watch, _):
            kind = import_module(self._package).Stream[object]
            options = {"headers": headers}
            sent = dict(body)
            with client.post(
                self._path, cast_to=object, body=sent, options=options, stream=True, stream_cls=kind
            ) as events:
                for event in events:
                    watch.check()
                    yield as_table(event)
                    watch.check()
                watch.check()  # an answer without a length seems to end well when its connection is shut

    @contextmanager
    def _talk(self, request: Request) -> Iterator[tuple[Any, Watch, Any]]:
        sdk, http = import_module(self._package), import_module("httpx2")
        timeout = http.Timeout(self._silence, connect=min(self._silence, MODEL_CONNECT_SECONDS))
        if self._tls is None:
            self._tls = http.create_ssl_context()
        with Watch(self.who, request.cancelled, self._whole) as watch:

            def show(sent: Any) -> None:
                sent.extensions["trace"] = watch.trace

            with (
                self._faults(sdk, http, watch),
                # A redirect would carry the key to another address.
                http.Client(
                    verify=self._tls, timeout=timeout, follow_redirects=False, event_hooks={"request": [show]}
                ) as plain,
            ):
                watch.check()
                yield self._make_client(sdk, plain, timeout), watch, http

    @contextmanager
    def _faults(self, sdk: Any, http: Any, watch: Watch) -> Iterator[None]:
        """What the SDK or the network raises, as one of ours; what the watch saw comes first: it was the cause."""
        try:
            yield
        except sdk.APIStatusError as error:
            raise make_status_fault(
                self.who, error.status_code, error.body, headers=error.response.headers, now=time.time()
            ) from error
        except (sdk.APITimeoutError, http.TimeoutException) as error:
            watch.check()
            raise make_fault(self.who, "timeout") from error
        except (sdk.APIConnectionError, http.TransportError, http.StreamError) as error:
            watch.check()
            raise make_fault(self.who, _find_break(error, http), words=_say(error)) from error
        except sdk.APIError as error:
            watch.check()
            raise make_status_fault(self.who, 200, error.body or {"message": error.message}) from error
        except UnicodeEncodeError as error:
            hint = "half a character (a lone surrogate) cannot be sent; take it out"
            raise ModelError(f"the request to {self.who} holds what is no text", hint=hint) from error
        except (ValueError, RecursionError) as error:  # what is no JSON, no UTF-8, or nested without end
            watch.check()
            raise ReplyError(f"{self.who} answered with what is not JSON", hint="is the address right?") from error


def _find_break(error: Exception, http: Any) -> str:
    """Whether there was no connection, or one that ended too early."""
    cause = error.__cause__ or error
    early = isinstance(cause, http.ConnectError | http.UnsupportedProtocol | http.ProxyError)
    return "offline" if early else "broken"


def _say(error: Exception) -> str:
    """The network's own words, which are below the SDK's "Connection error."."""
    return str(error.__cause__ or error)
