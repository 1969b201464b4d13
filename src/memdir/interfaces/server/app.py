"""The server as an ASGI application: API routes, health, metrics, OpenAPI description and MCP.

Each request gets an ID, is authenticated, counted against the rate limits of its credential and organisation, and
checked against its route's schemas. It then waits for its organisation's turn before it occupies a thread: one
organisation uses at most half of the connections. Every error is JSON. The log has a JSON line per request and
unexpected error, without content. The audit log records administration and refusals; stores record their own writes.
"""

import json
import logging
import random
import re
import threading
import time
import traceback
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar, cast
from uuid import UUID, uuid4

import anyio
from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

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
from memdir.format.frontmatter import digest_of
from memdir.frozen import replace
from memdir.interfaces.server.access import Caller, DeniedError, delete_row, find_caller, insert_row
from memdir.interfaces.server.api import Answer, Call, PushConflict, ServerContext
from memdir.interfaces.server.mcp import make_mcp
from memdir.interfaces.server.routes import ENDPOINTS, Endpoint, read_query, render_openapi
from memdir.interfaces.server.schemas import WORDS, Json, check_value
from memdir.interfaces.web.listen import App, AsgiScope, Receive, Send
from memdir.postgres.database import PostgresDatabase, clean_text, list_migrations
from memdir.postgres.search import Indexer

T = TypeVar("T")
BODY_BYTES = 8_388_608  # a push of several files; a memory has at most 1 MiB
_FAILED_A_MINUTE = 60  # failed logins per address
_BUCKETS = 10_000
_BLOCKS = 20  # a process reserves this part of a rate limit at once
_NOBODY = UUID(int=0)  # the tenant of rates of addresses
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


_DENIED = {
    401: "unauthenticated", 403: "forbidden", 405: "method", 412: "precondition", 422: "idempotency", 413: "too_large", 415: "format",
}  # fmt: skip
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_SCANNED_A_MINUTE = 16_777_216  # bytes sent by one credential; each may be searched for secrets and instructions
_ORGANISATION = 10  # an organisation's rate limits are this many times those of one credential
_WAITING = 64  # requests of an organisation that wait for their turn; more are refused at once
_READY_SECONDS = 0.9
_BUCKETS_MS = (1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000)
REQUEST: ContextVar[str] = ContextVar("request", default="")  # the ID of the request that is being answered
_LOG = logging.getLogger("memdir.server")


class JsonLog(logging.Formatter):
    """Formats log records as JSON. Errors have only a type and a traceback: a message may quote a memory."""

    def format(self, record: logging.LogRecord) -> str:
        row: Json = {"time": datetime.fromtimestamp(record.created, UTC).isoformat(), "level": record.levelname}
        row |= {"logger": record.name, "message": record.getMessage(), "request_id": REQUEST.get()}
        row |= getattr(record, "fields", {})
        if record.exc_info and record.exc_info[0] is not None:
            frames = traceback.extract_tb(record.exc_info[2])
            row |= {
                "error": record.exc_info[0].__name__,
                "at": [f"{at.filename}:{at.lineno} {at.name}" for at in frames],
            }
        return json.dumps(row, ensure_ascii=False)


_RESERVE = (
    "SELECT set_config('synchronous_commit', 'off', true)",
    "INSERT INTO memdir.rates (tenant, key, until) VALUES (%(tenant)s, %(key)s, now() + %(seconds)s * interval '1 second')"
    " ON CONFLICT (tenant, key) DO UPDATE SET until = greatest(memdir.rates.until, now()) + %(seconds)s * interval '1 second'"
    " WHERE memdir.rates.until <= now() + (60 - %(unit)s) * interval '1 second' RETURNING 1",
    "SELECT extract(epoch FROM until - now()) - 60 + %(unit)s FROM memdir.rates WHERE tenant = %(tenant)s AND key = %(key)s",
)


class RateLimit:
    """Limits requests or bytes per minute for each key of an organisation, in all processes together.

    A row has the time until which the key's requests are paid for, at most a minute ahead. A process reserves several at
    once, so that few requests wait for the database.
    """

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        self._reserved: OrderedDict[tuple[UUID, str, int], tuple[float, float]] = (
            OrderedDict()
        )  # what is left, and until when
        self._lock = threading.Lock()

    def take(self, tenant: UUID, key: str, limit: int, *, cost: int = 1) -> float:
        """Take `cost` and return 0, or the seconds to wait if nothing is left. The cost may exceed what is left."""
        with self._lock:
            left, until = self._reserved.get((tenant, key, limit), (0.0, 0.0))
            if left >= cost and time.monotonic() < until:
                self._reserved[tenant, key, limit] = left - cost, until
                return 0.0
        block = max(cost, limit // _BLOCKS)
        unit = 60 / max(limit, 1)
        values = {"key": key, "seconds": block * unit, "unit": unit}
        _, taken, ((wait,),) = self._database.write(tenant, *_RESERVE, **values)
        if not taken:
            return max(float(wait), 0.1)
        with self._lock:
            self._reserved[tenant, key, limit] = block - cost, time.monotonic() + 60
            self._reserved.move_to_end((tenant, key, limit))
            if len(self._reserved) > _BUCKETS:
                self._reserved.popitem(last=False)
        return 0.0


class RateError(MemdirError):
    def __init__(self, seconds: float) -> None:
        super().__init__("too many requests", hint=f"try again in {seconds:.0f} seconds")
        self.seconds = seconds


class Metrics:
    """Counters and histograms for Prometheus, without tenants, names or content."""

    def __init__(self) -> None:
        self._values: Counter[str] = Counter()
        self._lock = threading.Lock()

    def note(self, method: str, route: str, status: int, seconds: float) -> None:
        limits = (*(f"{limit / 1000:g}" for limit in _BUCKETS_MS if seconds * 1000 <= limit), "+Inf")
        with self._lock:
            self._values[f'memdir_requests_total{{method="{method}",route="{route}",status="{status}"}}'] += 1
            self._values.update(f'memdir_request_seconds_bucket{{route="{route}",le="{limit}"}}' for limit in limits)
            self._values[f'memdir_request_seconds_count{{route="{route}"}}'] += 1
            self._values[f'memdir_request_seconds_sum{{route="{route}"}}'] += seconds  # type: ignore[assignment]

    def render(self, database: Mapping[str, int]) -> str:
        with self._lock:
            rows = sorted(self._values.items())
        rows += [(f'memdir_database{{name="{name}"}}', count) for name, count in sorted(database.items())]
        return "# TYPE memdir_request_seconds histogram\n" + "".join(f"{name} {value:.12g}\n" for name, value in rows)


class TenantTurns:
    """Limits each organisation to half of the connections. Waiting requests occupy no thread and no connection."""

    def __init__(self, connections: int) -> None:
        self.logins, work = CapacityLimiter(_WAITING), max(1, connections * 3 // 4 - 1)
        self.work, self._share = CapacityLimiter(work), max(1, work // 2)  # one connection is left for the indexer
        self._turns: dict[UUID, CapacityLimiter] = {}

    def hold(self, tenant: UUID) -> CapacityLimiter:
        """Return the organisation's limiter. Raises RateError if too many of its requests are waiting."""
        turn = self._turns.setdefault(tenant, CapacityLimiter(self._share))
        if turn.statistics().tasks_waiting >= _WAITING:
            raise RateError(1.0)
        return turn


class ApiServer:
    """The state that requests share. `public_url` is the address that clients use, for the OAuth metadata."""

    def __init__(self, context: ServerContext, *, public_url: str = "") -> None:
        self.context, self.public_url = context, public_url.rstrip("/")
        self.rates, self.metrics = RateLimit(context.database), Metrics()
        self.turns = TenantTurns(context.database.size)

    def authenticate(self, headers: Mapping[str, str], address: str) -> Caller:
        """Return the caller. Raises DeniedError or RateError."""
        credential = headers.get("authorization", "") or f"Bearer {headers.get('x-api-key', '')}"
        organisation = headers.get("memdir-organisation", "")
        database, oidc = self.context.database, self.context.oidc
        return self.admit(lambda: find_caller(database, oidc, credential, organisation), address)

    async def find_caller(self, request: Request) -> Caller:
        arguments = request.headers, find_address(request)
        caller = await run_sync(self.authenticate, *arguments, limiter=self.turns.logins)
        request.scope[_CALLER] = caller
        return caller

    async def show_refused(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, MemdirError)
        (status, data), headers = render_error(error), {}
        if status == 401:
            headers["www-authenticate"] = self.challenge(_base(request))
        if isinstance(error, RateError) or status == 503:
            headers["retry-after"] = str(int(getattr(error, "seconds", 0)) + 1)
        return _answer(status, data, headers)

    def admit(self, find: Callable[[], Caller], address: str) -> Caller:
        """Return the caller from `find`; counts failures by address and requests by organisation."""
        try:
            caller = find()
        except DeniedError:
            self.count_address("failed", address, _FAILED_A_MINUTE)
            raise
        self.count(caller)
        return caller

    def count(self, caller: Caller, *, size: int = 0) -> None:
        """Count a request or the bytes of its body. Raises RateError above the credential's or organisation's limit."""
        limit, cost = (_SCANNED_A_MINUTE, size) if size else (caller.max_requests, 1)
        for actor, factor in ((caller.actor, 1), ("", _ORGANISATION)):
            if wait := self.rates.take(caller.tenant, f"{actor} {bool(size):d}", limit * factor, cost=cost):
                raise RateError(wait)

    def count_address(self, what: str, address: str, limit: int) -> None:
        """Count something that an address did before it logged in. Raises RateError above the limit a minute."""
        if wait := self.rates.take(_NOBODY, f"{what} {address}", limit):
            raise RateError(wait)

    def run(self, endpoint: Endpoint, request: Request, caller: Caller, body: bytes) -> tuple[int, Json]:
        status = 500
        if body:
            self.count(caller, size=len(body))
        try:
            if endpoint.right == "admin" and not caller.rules_organisation:
                raise DeniedError("only admins of the whole organisation can do this", hint="use an admin's token")
            if endpoint.right == "write" and not caller.may_write:
                raise DeniedError("this credential is read-only", hint="ask an admin for write access")
            call = self._make_call(endpoint, request, caller, body)
            is_keyed = bool(call.key) and endpoint.right != "read"
            is_kept = is_keyed and not endpoint.is_marked
            asked = [request.method, request.url.path, dict(call.query)]
            if is_keyed and (earlier := _find_answer(call, asked, is_kept=is_kept)) is not None:
                status = earlier[0]
                return earlier
            try:
                status, answer = endpoint.work(call)
            except MemdirError as error:
                if is_kept and render_error(error)[0] != 503:  # then it may have been done
                    _forget_key(call)
                if isinstance(error, ConflictError) and call.is_conditional:
                    raise DeniedError(str(error), status=412, hint=error.hint) from None
                raise
            if is_kept:
                _keep_answer(call, status, answer)
            return status, answer
        except MemdirError as error:
            status = render_error(error)[0]
            raise
        finally:
            is_purge = "purge" in request.query_params
            is_recorded = "{store}/" in endpoint.path and not endpoint.path.endswith(("/redact", "/archive"))
            if endpoint.right != "read" and (is_purge or status >= 300 or not is_recorded):
                shown = [item for item in request.path_params.items() if not is_purge or item[0] == "store"]
                target = " ".join(f"{key}={value}" for key, value in shown)
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
        call = Call(self.context, caller, params, query, body_values, key)
        return call if endpoint.precondition is None else _read_precondition(call, endpoint, request.headers)

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
            number, known = self.context.database.count_migrations(), len(list_migrations())
            if number < known:
                return f"the schema is at migration {number} of {known}: run `memdir serve migrate`"
            return self.context.database.find_write_problem()
        except MemdirError as error:
            return str(error)


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
    if request := REQUEST.get():
        row["request_id"] = request
    return status, {"error": row}


def build_app(
    context: ServerContext,
    *,
    public_url: str = "",
    page: Callable[[ApiServer], App] | None = None,
    proxies: Sequence[str] = (),
) -> App:
    """Return the application. `page` creates the app for all URLs outside the API.

    `proxies` are addresses or networks whose `X-Forwarded-For` and `X-Forwarded-Proto` are believed.
    """
    server = ApiServer(context, public_url=public_url)
    mcp_app = make_mcp(context)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        indexer = Indexer(context.database)
        try:
            async with mcp_app.router.lifespan_context(mcp_app):
                yield
        finally:
            await run_sync(indexer.close)

    description, probes = render_openapi(ENDPOINTS), CapacityLimiter(2)

    async def show_metadata(request: Request) -> Response:
        return _answer(200, server.render_metadata(_base(request)))

    async def show_health(_: Request) -> Response:
        return _answer(200, {"status": "ok"})

    async def show_ready(_: Request) -> Response:
        why = f"the database did not answer within {_READY_SECONDS} seconds"
        if probes.available_tokens:
            with anyio.move_on_after(_READY_SECONDS):
                why = await run_sync(server.check_ready, limiter=probes, abandon_on_cancel=True)
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
        routes.append(Route(path, _make_endpoint(server, methods), methods=_METHODS))
    handlers: Any = {404: show_absent, 405: show_absent, MemdirError: server.show_refused, Exception: show_unexpected}
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers=handlers)
    if page is not None:
        app.mount("/", page(server))
    logged = _LoggedApp(server, app)
    return cast(App, ProxyHeadersMiddleware(cast(Any, logged), trusted_hosts=list(proxies))) if proxies else logged


def _make_endpoint(server: ApiServer, methods: Mapping[str, Endpoint]) -> Callable[[Request], Any]:
    async def answer(request: Request) -> Response:
        endpoint = methods.get("GET" if request.method == "HEAD" else request.method)
        request.scope[_ROUTE] = next(iter(methods.values())).path
        if endpoint is None:
            return await show_absent(request, HTTPException(405, headers={"allow": ", ".join(methods)}))
        caller = await server.find_caller(request)
        body = await _read_body(request, endpoint)
        async with server.turns.hold(caller.tenant):
            status, data = await run_sync(server.run, endpoint, request, caller, body, limiter=server.turns.work)
        digest = data.get("content_sha256") if status == 200 else None
        headers = {"etag": f'"{digest}"'} if digest else {}
        if digest and endpoint.method == "GET" and headers["etag"] in _list_etags(request, "if-none-match"):
            return Response(status_code=304, headers={**_HEADERS, **headers})
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
        caller, size = await self._server.find_caller(request), request.headers.get("content-length", "")
        if size.isdecimal() and int(size):
            await run_sync(partial(self._server.count, caller, size=int(size)))
        scope[_ROUTE] = "/mcp"
        scope.setdefault("state", {})["caller"] = caller
        async with self._server.turns.hold(caller.tenant):
            await self._app(scope, receive, send)


_HEADERS = {"cache-control": "no-store", "x-content-type-options": "nosniff", "referrer-policy": "no-referrer"}


def _answer(status: int, data: Json, headers: Mapping[str, str] | None = None) -> JSONResponse:
    return JSONResponse(data, status, {**_HEADERS, **(headers or {})})


def find_address(request: Request) -> str:
    return request.client.host if request.client else ""


def _base(request: Request) -> str:
    return f"{request.url.scheme}://{request.url.netloc}"


_ROUTE, _CALLER = "memdir.route", "memdir.caller"


class _LoggedApp:
    """Gives each request an ID, and logs and counts the request once it was answered."""

    def __init__(self, server: ApiServer, app: Starlette) -> None:
        self._server, self._app = server, app

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        request_id, start, statuses = uuid4().hex, time.perf_counter(), [0]
        token = REQUEST.set(request_id)

        async def send_with_id(message: Any) -> None:
            if message["type"] == "http.response.start":
                statuses[0] = message["status"]
                message["headers"] = [*message.get("headers", ()), (b"x-request-id", request_id.encode())]
            await send(message)

        try:
            await self._app(scope, receive, send_with_id)
        finally:
            seconds, route = time.perf_counter() - start, str(scope.get(_ROUTE, "other"))
            self._server.metrics.note(scope["method"], route, statuses[0], seconds)
            fields: Json = {
                "method": scope["method"],
                "route": route,
                "status": statuses[0],
                "ms": round(seconds * 1000, 1),
            }
            if (caller := scope.get(_CALLER)) is not None:
                fields |= {"organisation": str(caller.tenant), "actor": caller.actor}
            _LOG.info("request", extra={"fields": fields})
            REQUEST.reset(token)


async def show_unexpected(_: Request, error: Exception) -> Response:
    _LOG.error("unexpected error", exc_info=error)
    hint = "the administrator finds it in the log by its request ID"
    row: Json = {"type": "internal", "message": "unexpected error", "hint": hint, "request_id": REQUEST.get()}
    return _answer(500, {"error": row})


def _find_answer(call: Call, asked: Sequence[object], *, is_kept: bool) -> Answer | None:
    """Return what was answered to this request, or None at its first time. Raises DeniedError if its idempotency key was
    used for another request; `why` and `session` may differ. Raises ConflictError if an answer is kept, but not yet."""
    values = {key: value for key, value in call.body.items() if key not in WORDS}
    digest = digest_of(json.dumps([*asked, values], sort_keys=True).encode())
    key = f"{call.caller.actor}:{call.key}"
    try:
        insert_row(call.database, call.caller.tenant, "idempotency", key=key, digest=digest)
    except ConflictError:
        select = "SELECT digest, status, answer FROM memdir.idempotency WHERE tenant = %(tenant)s AND key = %(key)s"
        for known, status, answer in call.ask(select, key=key)[0]:
            if known != digest:
                message, hint = "this Idempotency-Key was used for another request", "use a new key for a new request"
                raise DeniedError(message, status=422, hint=hint) from None
            if status is not None:
                return status, json.loads(answer)
            if is_kept:
                message, hint = (
                    "this request is being answered, or its answer was lost",
                    "look before you send it again",
                )
                raise DeniedError(message, status=422, hint=hint) from None
    return None


def _keep_answer(call: Call, status: int, answer: Json) -> None:
    values = {"key": f"{call.caller.actor}:{call.key}", "status": status}
    # A token is shown once, and the text of a memory stays where a purge finds it.
    short = answer | ({"token": ""} if "token" in answer else {})
    short |= {
        key: {**short[key], "edits": [], "evidence": []}
        for key in ("item", "review")
        if isinstance(short.get(key), dict)
    }
    values["answer"] = json.dumps(short)
    update = "UPDATE memdir.idempotency SET status = %(status)s, answer = %(answer)s WHERE tenant = %(tenant)s AND key = %(key)s"
    call.database.write(call.caller.tenant, update, **values)


def _forget_key(call: Call) -> None:
    with suppress(MemdirError):
        delete_row(call.database, call.caller.tenant, "idempotency", key=f"{call.caller.actor}:{call.key}")


def _list_etags(request: Request, name: str) -> list[str]:
    return [part.strip() for part in request.headers.get(name, "").split(",") if part.strip()]


def _read_precondition(call: Call, endpoint: Endpoint, headers: Mapping[str, str]) -> Call:
    """Return the call with the digest from If-Match or If-None-Match as its `content_sha256`."""
    match, none = headers.get("if-match", "").strip(), headers.get("if-none-match", "").strip()
    if none not in ("", "*") or (match and none):
        raise FormatError("only If-None-Match: * can be used here", field="If-None-Match", hint="use one precondition")
    if not (match or none):
        return call
    digest = match.strip('"') if re.fullmatch(r'"[0-9a-f]{64}"', match) else None
    if match and digest is None:
        raise DeniedError("this ETag is not one of this server", status=412, hint="use the ETag of the memory")
    values = dict(call.query if endpoint.precondition == "query" else call.body)
    if values.get("content_sha256", digest) != digest:
        raise FormatError("two preconditions differ", field="content_sha256", hint="use one precondition")
    values = {**values, "content_sha256": digest}
    changed = replace(call, query=values) if endpoint.precondition == "query" else replace(call, body=values)
    return replace(changed, is_conditional=True)


async def show_absent(_: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 404)
    kind, message = ("not_found", "page not found") if status == 404 else ("method", "method not allowed")
    row = {"type": kind, "message": message, "hint": "GET /openapi.json lists every request"}
    data = {"error": {**row, "request_id": REQUEST.get()}}
    return _answer(status, data, getattr(error, "headers", None))
