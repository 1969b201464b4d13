"""The server as an ASGI application: API routes, health, metrics, OpenAPI description and MCP.

Each request is authenticated, counted against its organisation's rate limit, checked against its endpoint's schemas and run in
a thread. One table maps errors to statuses. The audit log records administration and refusals; stores record their own writes.
"""

import json
import random
import re
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio.to_thread
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from memdir.errors import (
    BudgetError,
    ConflictError,
    DiskError,
    FormatError,
    LockedError,
    MemdirError,
    NotFoundError,
    PathError,
    SecretError,
)
from memdir.interfaces.server.access import Caller, DeniedError, find_caller
from memdir.interfaces.server.api import ENDPOINTS, Call, Endpoint, PushConflict, ServerContext
from memdir.interfaces.server.mcp import make_mcp
from memdir.interfaces.server.schemas import Json, check_value, read_query, render_openapi
from memdir.interfaces.web.listen import App, AsgiScope, Receive, Send
from memdir.postgres.database import clean_text, list_migrations
from memdir.postgres.search import Indexer

BODY_BYTES = 8_388_608  # a push of several files; a memory has at most 1 MiB
_FAILED_A_MINUTE = 60  # failed logins per address
_BUCKETS = 10_000
_METADATA = "/.well-known/oauth-protected-resource"
_KEY = re.compile(r"[!-~]{1,200}")
# Error class to status and type; the first match wins.
_STATUS: tuple[tuple[type[MemdirError], int, str], ...] = (
    (NotFoundError, 404, "not_found"),
    (ConflictError, 409, "conflict"),
    (SecretError, 422, "secret"),
    (PathError, 400, "path"),
    (FormatError, 400, "format"),
    (BudgetError, 429, "quota"),
    (LockedError, 503, "unavailable"),
    (DiskError, 503, "unavailable"),
    (MemdirError, 400, "refused"),
)


_DENIED = {401: "unauthenticated", 403: "forbidden", 413: "too_large", 415: "format"}


class RateLimit:
    """Requests per minute by key, as token buckets in this process."""

    def __init__(self) -> None:
        self._buckets: OrderedDict[object, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, key: object, most: int, *, now: float | None = None) -> float:
        """Take one token; return 0, or the seconds until there is one."""
        now = time.monotonic() if now is None else now
        with self._lock:
            left, refilled_at = self._buckets.pop(key, (float(most), now))
            left = min(float(most), left + (now - refilled_at) * most / 60)
            self._buckets[key] = (left - 1 if left >= 1 else left), now
            if len(self._buckets) > _BUCKETS:
                self._buckets.popitem(last=False)
        return 0.0 if left >= 1 else (1 - left) * 60 / max(most, 1)


class RateError(MemdirError):
    def __init__(self, seconds: float) -> None:
        super().__init__("too many requests", hint=f"try again in {seconds:.0f} seconds")
        self.seconds = seconds


class Metrics:
    """Counters for Prometheus, without tenants, names or content."""

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._seconds: Counter[str] = Counter()
        self._lock = threading.Lock()

    def note(self, method: str, route: str, status: int, seconds: float) -> None:
        with self._lock:
            self._requests[method, route, status] += 1
            self._seconds[route] += seconds  # type: ignore[assignment]

    def render(self, database: Mapping[str, int]) -> str:
        with self._lock:
            requests, seconds = sorted(self._requests.items()), sorted(self._seconds.items())
        lines = ["# TYPE memdir_requests_total counter"]
        for (method, route, status), count in requests:
            lines.append(f'memdir_requests_total{{method="{method}",route="{route}",status="{status}"}} {count}')
        lines.append("# TYPE memdir_request_seconds_total counter")
        lines += [f'memdir_request_seconds_total{{route="{route}"}} {total:.6f}' for route, total in seconds]
        lines.append("# TYPE memdir_database gauge")
        lines += [f'memdir_database{{name="{name}"}} {database[name]}' for name in sorted(database)]
        return "\n".join(lines) + "\n"


class ApiServer:
    """The state that requests share. `public_url` is the address that clients use, for the OAuth metadata."""

    def __init__(self, context: ServerContext, *, public_url: str = "") -> None:
        self.context, self.public_url = context, public_url.rstrip("/")
        self.rates, self.metrics = RateLimit(), Metrics()

    def authenticate(self, headers: Mapping[str, str], address: str) -> Caller:
        """Return the caller. Raises DeniedError or RateError."""
        credential, organisation = headers.get("authorization", ""), headers.get("memdir-organisation", "")
        database, oidc = self.context.database, self.context.oidc
        return self.admit(lambda: find_caller(database, oidc, credential, organisation), address)

    def admit(self, find: Callable[[], Caller], address: str) -> Caller:
        """Return the caller from `find`; counts failures by address and requests by organisation."""
        try:
            caller = find()
        except DeniedError:
            if wait := self.rates.take(("failed", address), _FAILED_A_MINUTE):
                raise RateError(wait) from None
            raise
        if wait := self.rates.take(caller.tenant, caller.max_requests):
            raise RateError(wait)
        return caller

    def run(self, endpoint: Endpoint, request: Request, body: bytes) -> tuple[int, Json]:
        address = request.client.host if request.client else ""
        caller = self.authenticate(request.headers, address)
        status = 500
        try:
            if endpoint.right == "admin" and not caller.rules_organisation:
                raise DeniedError("only admins of the whole organisation can do this", hint="use an admin's token")
            if endpoint.right == "write" and not caller.may_write:
                raise DeniedError("this credential is read-only", hint="ask an admin for write access")
            status, answer = endpoint.work(self._make_call(endpoint, request, caller, body))
            return status, answer
        except MemdirError as error:
            status = render_error(error)[0]
            raise
        finally:
            is_recorded = "{store}/" in endpoint.path and status < 300 and "redact" not in endpoint.path
            if endpoint.right != "read" and not is_recorded:
                target = " ".join(f"{key}={value}" for key, value in request.path_params.items())
                self.note(caller, f"{endpoint.method} {endpoint.path}", target, status)

    def _make_call(self, endpoint: Endpoint, request: Request, caller: Caller, body: bytes) -> Call:
        params = {key: str(value) for key, value in request.path_params.items()}
        if params.get("decision", "approve") not in ("approve", "reject"):
            raise NotFoundError("invalid decision", name=params["decision"], hint="use approve or reject")
        query, body_values = read_query(request.query_params.multi_items(), endpoint), {}
        if endpoint.body is not None:
            body_values = _parse_body(body)
            check_value(body_values, endpoint.body, "the body")
        key = request.headers.get("idempotency-key", "")
        if key and not _KEY.fullmatch(key):
            hint = "use 1 to 200 visible ASCII characters"
            raise FormatError("invalid Idempotency-Key", field="Idempotency-Key", hint=hint)
        return Call(self.context, caller, params, query, body_values, key)

    def note(self, caller: Caller, action: str, target: str, status: int) -> None:
        id = f"{time.time_ns():016x}{random.getrandbits(32):08x}"
        insert = "INSERT INTO memdir.audit (tenant, id, actor, action, target, status)"
        values = {"actor": caller.actor, "action": clean_text(action), "target": clean_text(target)[:500]}
        slots = "(%(tenant)s, %(id)s, %(actor)s, %(action)s, %(target)s, %(status)s)"
        try:
            self.context.database.write(caller.tenant, f"{insert} VALUES {slots}", id=id, status=status, **values)
        except MemdirError:  # the response already reports that the database is unavailable
            pass

    def challenge(self, request_url: str) -> str:
        return f'Bearer resource_metadata="{self.public_url or request_url}{_METADATA}"'

    def render_metadata(self, base: str) -> Json:
        """Return the metadata of RFC 9728, with the provider that issues tokens."""
        oidc = self.context.oidc
        metadata: Json = {"resource": f"{self.public_url or base}/mcp", "bearer_methods_supported": ["header"]}
        return metadata if oidc is None else metadata | {"authorization_servers": [oidc.issuer]}

    def check_ready(self) -> str:
        try:
            number = self.context.database.count_migrations()
        except MemdirError as error:
            return str(error)
        known = len(list_migrations())
        return "" if number >= known else f"the schema is at migration {number} of {known}: run `memdir serve migrate`"


def render_error(error: MemdirError) -> tuple[int, Json]:
    if isinstance(error, DeniedError):
        status, kind = error.status, _DENIED[error.status]
    elif isinstance(error, RateError):
        status, kind = 429, "rate"
    else:
        status, kind = next((status, kind) for cls, status, kind in _STATUS if isinstance(error, cls))
    row: Json = {"type": kind, "message": str(error), "hint": error.hint}
    if isinstance(error, PushConflict):
        row["conflicts"] = error.conflicts
    elif isinstance(error, ConflictError):
        row |= {"expected": error.expected, "found": error.found}
    if isinstance(error, FormatError) and error.field:
        row["field"] = error.field
    return status, {"error": row}


def build_app(
    context: ServerContext, *, public_url: str = "", page: Callable[[ApiServer], App] | None = None
) -> Starlette:
    """Return the application. `page` creates the app for all URLs outside the API."""
    server = ApiServer(context, public_url=public_url)
    mcp_app = make_mcp(context)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        indexer = Indexer(context.database)
        try:
            async with mcp_app.router.lifespan_context(mcp_app):
                yield
        finally:
            await anyio.to_thread.run_sync(indexer.close)

    description = render_openapi(ENDPOINTS)

    async def show_metadata(request: Request) -> Response:
        return _answer(200, server.render_metadata(_base(request)))

    async def show_health(_: Request) -> Response:
        return _answer(200, {"status": "ok"})

    async def show_ready(_: Request) -> Response:
        why = await anyio.to_thread.run_sync(server.check_ready)
        return _answer(503 if why else 200, {"status": why or "ok"})

    async def show_metrics(_: Request) -> Response:
        return PlainTextResponse(server.metrics.render(context.database.measure()), headers=_HEADERS)

    async def show_description(_: Request) -> Response:
        return _answer(200, description)

    routes: list[BaseRoute] = [
        Route("/health", show_health),
        Route("/ready", show_ready),
        Route("/metrics", show_metrics),
        Route("/openapi.json", show_description),
        Route(_METADATA, show_metadata),
        Route(f"{_METADATA}/mcp", show_metadata),
        Route("/mcp", _McpGate(server, mcp_app), methods=["GET", "POST", "DELETE"]),
    ]
    by_path: dict[str, dict[str, Endpoint]] = {}
    for endpoint in ENDPOINTS:
        by_path.setdefault(endpoint.path, {})[endpoint.method] = endpoint
    for path, methods in by_path.items():
        routes.append(Route(path, _make_endpoint(server, methods), methods=list(methods)))
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers={404: show_absent, 405: show_absent})
    if page is not None:
        app.mount("/", page(server))
    return app


def _make_endpoint(server: ApiServer, methods: Mapping[str, Endpoint]) -> Callable[[Request], Any]:
    async def answer(request: Request) -> Response:
        start = time.perf_counter()
        endpoint = methods["GET" if request.method == "HEAD" else request.method]
        headers = {}
        try:
            body = await _read_body(request, endpoint)
            status, data = await anyio.to_thread.run_sync(server.run, endpoint, request, body)
        except MemdirError as error:
            status, data = render_error(error)
            if status == 401:
                headers["www-authenticate"] = server.challenge(_base(request))
            if isinstance(error, RateError):
                headers["retry-after"] = str(int(error.seconds) + 1)
            if status == 503:
                headers["retry-after"] = "1"
        if status == 200 and "content_sha256" in data and data["content_sha256"]:
            headers["etag"] = f'"{data["content_sha256"]}"'
        server.metrics.note(request.method, endpoint.path, status, time.perf_counter() - start)
        return _answer(status, data, headers)

    return answer


async def _read_body(request: Request, endpoint: Endpoint) -> bytes:
    if endpoint.body is None:
        return b""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise DeniedError("the request body is not JSON", status=415, hint="send Content-Type: application/json")
    body = b""
    try:
        async for part in request.stream():
            body += part
            if len(body) > BODY_BYTES:
                raise DeniedError(
                    f"the request body exceeds {BODY_BYTES:,} bytes", status=413, hint="send less data per request"
                )
    except ClientDisconnect:
        raise FormatError("the client disconnected", hint="send the request again") from None
    return body


def _parse_body(body: bytes) -> Any:
    try:
        return json.loads(body, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise FormatError("the request body is not JSON", hint="GET /openapi.json describes every request") from None


def _refuse_constant(name: str) -> None:
    raise ValueError(name)


class _McpGate:
    """Authenticates MCP requests, puts the caller in their state, and names the token provider in a 401."""

    def __init__(self, server: ApiServer, app: App) -> None:
        self._server, self._app = server, app

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        try:
            address = request.client.host if request.client else ""
            caller = await anyio.to_thread.run_sync(self._server.authenticate, request.headers, address)
        except MemdirError as error:
            status, data = render_error(error)
            headers = {"www-authenticate": self._server.challenge(_base(request))} if status == 401 else {}
            return await _answer(status, data, headers)(scope, receive, send)
        scope.setdefault("state", {})["caller"] = caller
        await self._app(scope, receive, send)


_HEADERS = {"cache-control": "no-store", "x-content-type-options": "nosniff", "referrer-policy": "no-referrer"}


def _answer(status: int, data: Json, headers: Mapping[str, str] | None = None) -> JSONResponse:
    return JSONResponse(data, status, {**_HEADERS, **(headers or {})})


def _base(request: Request) -> str:
    return f"{request.url.scheme}://{request.url.netloc}"


async def show_absent(_: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 404)
    kind, message = ("not_found", "page not found") if status == 404 else ("method", "method not allowed")
    data = {"error": {"type": kind, "message": message, "hint": "GET /openapi.json lists every request"}}
    return _answer(status, data, getattr(error, "headers", None))
