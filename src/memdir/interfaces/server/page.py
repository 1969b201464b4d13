"""The web interface for members of an organisation: their stores, memories, search, history and inbox.

A member enters a token once or logs in at the OIDC provider, and gets a cookie; the server stores a hash of it and checks the
token or member at every request, so that revoked access ends at once. `/s/STORE` shows the pages of `memdir ui` for that store,
with the permissions of the API. Stores a member cannot see are reported as not found.
"""

import hashlib
import hmac
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import partial
from http.cookies import CookieError, SimpleCookie
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit
from uuid import UUID

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from memdir.errors import MemdirError, NotFoundError
from memdir.frozen import dataclass, replace
from memdir.interfaces.server.access import PREFIX, Caller, DeniedError, OidcProvider, find_person, renew_caller
from memdir.interfaces.server.api import Call, OpenStore, decide_item, list_stores
from memdir.interfaces.server.app import ApiServer, RateError, find_address, render_error, show_absent, show_unexpected
from memdir.interfaces.web.access import ACTIONS, CSRF, MEMORY, add_headers
from memdir.interfaces.web.actions import MEMORY_ACTIONS, SITE_ACTIONS, ActionResult, Form, MergeNeeded, change_many
from memdir.interfaces.web.app import HERE, make_app, make_templates
from memdir.interfaces.web.listen import AsgiScope, Receive, Send
from memdir.interfaces.web.pages import WHO
from memdir.interfaces.web.site import ORIGIN, Site
from memdir.postgres.search import PostgresSearch

COOKIE, LOGIN_COOKIE = "memdir_session", "memdir_login"
_SECONDS, _LOGIN_SECONDS = 12 * 3600.0, 600.0  # lifetime of a session, and of a login at the provider
_LOGINS_A_MINUTE = 60  # logins started per address
_OIDC = "/login/oidc"  # starts a login, and receives the provider's redirect
_SESSIONS, _SITES = 10_000, 200  # kept in memory
_FORM_BYTES = 4096
_SITE = "memdir.site"
K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class MemberSession:
    """A logged-in session. `renew` reads its caller from the database, and raises DeniedError once access has ended."""

    renew: Callable[[], Caller]
    csrf: str
    until: float


@dataclass(frozen=True, slots=True)
class BegunLogin:
    """A login in progress at the provider; the browser's cookie and the provider's response must match it."""

    state: str
    nonce: str
    verifier: str
    organisation: str
    back: str
    until: float


class MemberPage:
    """The application that `build_app` mounts for all URLs outside the API."""

    def __init__(self, server: ApiServer) -> None:
        self._server, self._templates = server, make_templates()
        self._sessions: OrderedDict[bytes, MemberSession] = OrderedDict()  # by the hash of the cookie
        self._logins: OrderedDict[bytes, BegunLogin] = OrderedDict()  # by the hash of the cookie, each used once
        self._sites: OrderedDict[tuple[UUID, str, UUID], Site] = OrderedDict()
        self._lock = threading.Lock()
        self._inner = make_app(lambda request: request.scope[_SITE])
        routes = [
            Route("/", self._show_stores),
            Route("/login", self._show_login),
            Route("/login", self._log_in, methods=["POST"]),
            Route(_OIDC, self._end_login),
            Route(_OIDC, self._start_login, methods=["POST"]),
            Route("/logout", self._log_out, methods=["POST"]),
            Mount("/static", StaticFiles(directory=HERE / "static")),
            Mount("/s/{store:uuid}", self._show_store),
        ]
        handlers: Any = {MemdirError: self._fail, 404: show_absent, 405: show_absent, Exception: show_unexpected}
        self._app = Starlette(routes=routes, exception_handlers=handlers)

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._app(scope, receive, add_headers(send))

    # Login

    def _check_origin(self, request: Request) -> None:
        """Raise DeniedError unless the request came from our own page; a cookie alone does not prove that."""
        host = request.headers.get("host", "")
        own = {self._server.public_url} if self._server.public_url else {f"http://{host}", f"https://{host}"}
        sites = set(request.headers.getlist("sec-fetch-site")) - {"same-origin"}
        if request.headers.getlist("origin") not in [[origin] for origin in own] or sites:
            raise DeniedError("requests from other sites are refused")

    def _find_session(self, request: Request) -> tuple[Caller, MemberSession]:
        """Return the current caller and session of the cookie. Raises DeniedError with status 401 if there is none."""
        key = _read_cookie(request)
        with self._lock:
            session = self._sessions.get(key)
        if session is None or session.until < time.monotonic():
            raise DeniedError("log in first", status=401, hint="use a token of your organisation")
        caller = session.renew()
        self._server.count(caller)
        return caller, session

    def _show_login(self, request: Request) -> Response:
        return self._render("login.html", organisation=request.query_params.get("organisation", ""))

    async def _log_in(self, request: Request) -> Response:
        self._check_origin(request)
        token = (await _read_form(request))["token"].strip()
        headers = {"authorization": f"Bearer {token if token.startswith(PREFIX) else ''}"}
        try:
            caller = await run_in_threadpool(self._server.authenticate, headers, find_address(request))
        except MemdirError as error:
            return self._refuse(error, "invalid token")
        number = UUID(caller.actor.removeprefix("token:"))
        renew = partial(renew_caller, self._server.context.database, caller.tenant, number)
        return self._open_session(request, RedirectResponse("/", 303), renew)

    async def _start_login(self, request: Request) -> Response:
        """Send the browser to the provider, with a cookie that its response must match."""
        self._check_origin(request)
        organisation, oidc = (await _read_form(request))["organisation"].strip(), self._find_oidc()
        if wait := self._server.rates.take(("login", find_address(request)), _LOGINS_A_MINUTE):
            raise RateError(wait)
        cookie, state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(4))
        back = (self._server.public_url or str(request.base_url).rstrip("/")) + _OIDC
        try:
            to = await run_in_threadpool(oidc.start_login, back, state, nonce, verifier)
        except MemdirError as error:
            return self._refuse(error)
        login = BegunLogin(state, nonce, verifier, organisation, back, time.monotonic() + _LOGIN_SECONDS)
        with self._lock:
            _keep(self._logins, _hash(cookie), login, _SESSIONS)
        # A page instead of a redirect, because our policy does not allow forms to lead to other sites.
        return self._set_cookie(request, self._render("login.html", to=to), LOGIN_COOKIE, cookie)

    async def _end_login(self, request: Request) -> Response:
        with self._lock:
            login = self._logins.pop(_read_cookie(request, LOGIN_COOKIE), None)
        database, oidc, params, claims = self._server.context.database, self._find_oidc(), request.query_params, []

        def find() -> Caller:
            code, state = params.get("code", ""), params.get("state", "").encode("utf-8", "replace")
            is_begun = login is not None and login.until >= time.monotonic()
            if login is None or not (is_begun and code and hmac.compare_digest(login.state.encode(), state)):
                raise DeniedError("the login was not started in this browser", status=401)
            claims.append(oidc.end_login(code, login.back, login.nonce, login.verifier))
            return find_person(database, oidc, claims[0], login.organisation)

        try:
            caller = await run_in_threadpool(self._server.admit, find, find_address(request))
        except MemdirError as error:
            return self._refuse(error, "the login failed, or you are not a member of this organisation")
        renew = partial(find_person, database, oidc, {"sub": claims[0]["sub"]}, str(caller.tenant))
        # Also a page, because browsers do not send strict cookies after a redirect from another site.
        answer = self._open_session(request, self._render("login.html", to="/"), renew)
        answer.delete_cookie(LOGIN_COOKIE, path="/login", httponly=True, samesite="lax")
        return answer

    def _find_oidc(self) -> OidcProvider:
        oidc = self._server.context.oidc
        if oidc is None or not oidc.client:
            raise NotFoundError("OIDC login is not configured; use a token")
        return oidc

    def _open_session(self, request: Request, answer: Response, renew: Callable[[], Caller]) -> Response:
        cookie = secrets.token_urlsafe(32)
        session = MemberSession(renew, secrets.token_urlsafe(24), time.monotonic() + _SECONDS)
        with self._lock:
            _keep(self._sessions, _hash(cookie), session, _SESSIONS)
        return self._set_cookie(request, answer, COOKIE, cookie)

    def _set_cookie(self, request: Request, answer: Response, name: str, value: str) -> Response:
        is_secure = (self._server.public_url or str(request.url)).startswith("https:")
        if name == COOKIE:
            answer.set_cookie(name, value, int(_SECONDS), path="/", secure=is_secure, httponly=True, samesite="strict")
        else:  # lax, because the provider redirects here
            until = int(_LOGIN_SECONDS)
            answer.set_cookie(name, value, until, path="/login", secure=is_secure, httponly=True, samesite="lax")
        return answer

    def _refuse(self, error: MemdirError, denied: str = "") -> Response:
        status = render_error(error)[0]
        return self._render("login.html", status, problem=denied if status == 401 else f"{error}. {error.hint}".strip())

    async def _log_out(self, request: Request) -> Response:
        self._check_origin(request)
        with self._lock:
            self._sessions.pop(_read_cookie(request), None)
        answer = RedirectResponse("/login", 303)
        answer.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")
        return answer

    # Pages and actions

    def _show_stores(self, request: Request) -> Response:
        caller, _ = self._find_session(request)
        _, listing = list_stores(Call(self._server.context, caller))
        return self._render("stores.html", organisation=caller.organisation, stores=listing["stores"])

    async def _show_store(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        if request.method == "POST":
            self._check_origin(request)
        caller, session, site = await run_in_threadpool(self._open, request)
        # A member's name must not look like one of the authors with a fixed meaning.
        who = caller.name if caller.name and caller.name.lower() not in WHO else caller.actor
        call = Call(self._server.context, caller, {"store": str(request.path_params["store"])}, who=who)
        may = {name: partial(self._act, call, name, action) for name, action in _ACTIONS.items()}
        known = {**scope, CSRF: session.csrf, _SITE: site, ACTIONS: may, "path_params": {}}
        if request.url.path.endswith("/events"):  # waits for changes, in no thread
            return await self._inner(known, receive, send)
        scope["memdir.route"], scope["memdir.caller"] = "/s/{store}", caller
        async with self._server.turns.hold(caller.tenant):
            await self._inner(known, receive, send)

    def _open(self, request: Request) -> tuple[Caller, MemberSession, Site]:
        caller, session = self._find_session(request)
        store = Call(self._server.context, caller, {"store": str(request.path_params["store"])}).find_store()
        key = caller.tenant, caller.actor, store.id
        with self._lock:
            site = self._sites.get(key) or _make_site(store)
            _keep(self._sites, key, site, _SITES)
        site.can_edit = caller.may_write
        site.can_review = caller.may_write and (caller.is_admin or not store.review)
        return caller, session, site

    def _act(
        self, call: Call, name: str, action: Callable[..., ActionResult], _: Site, *arguments: Any
    ) -> ActionResult:
        """Run an action on a store with the member's current permissions; refusals are added to the audit log."""
        try:
            if action is _decide:
                return _decide(call, *arguments)
            return action(_make_site(call.find_store(write=True)), *arguments)
        except (MemdirError, MergeNeeded) as error:
            status = render_error(error)[0] if isinstance(error, MemdirError) else 409
            target = " ".join(
                (call.params["store"], *(argument for argument in arguments if isinstance(argument, str)))
            )
            self._server.note(call.caller, f"page {name}", target, status)
            raise

    def _render(self, template: str, status: int = 200, **values: object) -> Response:
        oidc = self._server.context.oidc
        provider = urlsplit(oidc.issuer).hostname if oidc is not None and oidc.client else ""
        known = {"base": "", "problem": "", "to": "", "organisation": "", "provider": provider, **values}
        return HTMLResponse(self._templates.get_template(template).render(known), status)

    def _fail(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, MemdirError)
        status, data = render_error(error)
        if status == 401:
            return RedirectResponse("/login", 303)
        row = data["error"]
        return self._render("login.html", status, problem=f"{row['message']} {row['hint']}".strip())


def _make_site(opened: OpenStore) -> Site:
    def search(stores: Any) -> PostgresSearch:
        return PostgresSearch(stores)

    store, place, origin = opened.store, opened.call.caller.organisation, opened.call.origin(ORIGIN.why)
    return Site([store], title=opened.name, place=place, clock=store.clock, make_search=search, origin=origin)


def _decide(call: Call, form: Form) -> ActionResult:
    """Approve or reject items with the rules of the API."""
    what, keys = "approve" if form["do"] == "approve" else "reject", form.every("item")
    for key in keys:
        number = key.partition(":")[2]
        if not number.isdecimal():
            raise NotFoundError("inbox item not found", name=key)
        decide_item(replace(call, params={**call.params, "id": number, "decision": what}))
    to = f"/inbox?item={form['next']}" if form["next"] else "/inbox"
    return ActionResult(f"{'Approved' if what == 'approve' else 'Rejected'} {len(keys)}.", to)


def _forget_many(site: Site, form: Form) -> ActionResult:
    if form["do"] != "forget" or not form.every("key"):
        raise NotFoundError("nothing was selected", hint="select memories first")
    return change_many(site, form)


# The actions for members, on one memory and on a store; those that need local files are left out.
_ACTIONS: Mapping[str, Callable[..., ActionResult]] = {
    **{f"{MEMORY}{name}": MEMORY_ACTIONS[name] for name in ("save", "pin", "forget", "restore")},
    **{name: SITE_ACTIONS[name] for name in ("remember", "undo")},
    "decide": _decide,
    "many": _forget_many,
}


def _keep(cache: "OrderedDict[K, V]", key: K, value: V, limit: int) -> None:
    cache[key] = value
    cache.move_to_end(key)
    while len(cache) > limit:
        cache.popitem(last=False)


def _hash(cookie: str) -> bytes:
    return hashlib.sha256(cookie.encode("utf-8", "replace")).digest()


def _read_cookie(request: Request, name: str = COOKIE) -> bytes:
    try:
        morsel = SimpleCookie(request.headers.get("cookie", "")).get(name)
    except CookieError:
        morsel = None
    return _hash(morsel.value) if morsel else b""


async def _read_form(request: Request) -> Form:
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _FORM_BYTES:
            raise DeniedError("the form is too large", status=413)
    return Form(parse_qs(body.decode("utf-8", "replace"), max_num_fields=10))
