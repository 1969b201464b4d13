"""The page for members of an organisation: stores, memories, search, history and the inbox of what they may read.

A member shows a token once, in a form, or logs in at the OIDC provider, and gets a cookie; the server keeps a hash of it and
looks the token or the member up at every request: who was revoked or removed is out. Below `/s/STORE` lies the page of
`memdir ui` on that store, with what can be done there under the rules of the API. What others may not see does not exist here
either.
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
from memdir.interfaces.server.app import ApiServer, RateError, render_error, show_absent
from memdir.interfaces.web.access import ACTIONS, CSRF, MEMORY, add_headers
from memdir.interfaces.web.actions import MEMORY_ACTIONS, SITE_ACTIONS, ActionResult, Form, MergeNeeded, change_many
from memdir.interfaces.web.app import HERE, make_app, make_templates
from memdir.interfaces.web.listen import AsgiScope, Receive, Send
from memdir.interfaces.web.pages import WHO
from memdir.interfaces.web.site import ORIGIN, Site
from memdir.postgres.search import PostgresSearch

COOKIE, LOGIN_COOKIE = "memdir_session", "memdir_login"
_SECONDS, _LOGIN_SECONDS = 12 * 3600.0, 600.0  # that a session lasts, and a login at the provider
_LOGINS_A_MINUTE = 60  # begun by one address
_OIDC = "/login/oidc"  # where a login begins, and where the provider leads back to
_SESSIONS, _SITES = 10_000, 200  # that a process remembers
_FORM_BYTES = 4096
_SITE = "memdir.site"
K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class MemberSession:
    """`renew` finds who it is, as the database knows them now; DeniedError once they may not log in any more."""

    renew: Callable[[], Caller]
    csrf: str
    until: float


@dataclass(frozen=True, slots=True)
class BegunLogin:
    """A login at the provider: what only this browser, by its cookie, and the provider's answer can bring together."""

    state: str
    nonce: str
    verifier: str
    organisation: str
    back: str
    until: float


class MemberPage:
    """The application that `build_app` mounts behind the API."""

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
        handlers: Any = {MemdirError: self._fail, 404: show_absent, 405: show_absent}
        self._app = Starlette(routes=routes, exception_handlers=handlers)

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._app(scope, receive, add_headers(send))

    # Who is asking

    def _check_origin(self, request: Request) -> None:
        """DeniedError unless our own page sends this; a cookie alone proves nothing about that."""
        host = request.headers.get("host", "")
        own = {self._server.public_url} if self._server.public_url else {f"http://{host}", f"https://{host}"}
        sites = set(request.headers.getlist("sec-fetch-site")) - {"same-origin"}
        if request.headers.getlist("origin") not in [[at] for at in own] or sites:
            raise DeniedError("requests from other sites are refused")

    def _find_session(self, request: Request) -> tuple[Caller, MemberSession]:
        """Who has this cookie, as the database knows them now; DeniedError with status 401 for nobody."""
        key = _read_cookie(request)
        with self._lock:
            session = self._sessions.get(key)
        if session is None or session.until < time.monotonic():
            raise DeniedError("log in first", status=401, hint="with a token of your organisation")
        caller = session.renew()
        if wait := self._server.rates.take(caller.tenant, caller.max_requests):
            raise RateError(wait)
        return caller, session

    def _show_login(self, request: Request) -> Response:
        return self._render("login.html", organisation=request.query_params.get("organisation", ""))

    async def _log_in(self, request: Request) -> Response:
        self._check_origin(request)
        token = (await _read_form(request))["token"].strip()
        given = {"authorization": f"Bearer {token if token.startswith(PREFIX) else ''}"}
        try:
            caller = await run_in_threadpool(self._server.authenticate, given, _find_address(request))
        except MemdirError as error:
            return self._refuse(error, "this is no valid token")
        number = UUID(caller.actor.removeprefix("token:"))
        renew = partial(renew_caller, self._server.context.database, caller.tenant, number)
        return self._open_session(request, RedirectResponse("/", 303), renew)

    async def _start_login(self, request: Request) -> Response:
        """Send the browser to the provider, with a cookie that the answer is bound to."""
        self._check_origin(request)
        organisation, oidc = (await _read_form(request))["organisation"].strip(), self._find_oidc()
        if wait := self._server.rates.take(("login", _find_address(request)), _LOGINS_A_MINUTE):
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
        # By a page, not by a redirect: our forms may lead nowhere else.
        return self._set_cookie(request, self._render("login.html", to=to), LOGIN_COOKIE, cookie)

    async def _end_login(self, request: Request) -> Response:
        with self._lock:
            login = self._logins.pop(_read_cookie(request, LOGIN_COOKIE), None)
        database, oidc, given, claims = self._server.context.database, self._find_oidc(), request.query_params, []

        def find() -> Caller:
            code, shown = given.get("code", ""), given.get("state", "").encode("utf-8", "replace")
            is_begun = login is not None and login.until >= time.monotonic()
            if login is None or not (is_begun and code and hmac.compare_digest(login.state.encode(), shown)):
                raise DeniedError("this login was not begun in this browser", status=401)
            claims.append(oidc.end_login(code, login.back, login.nonce, login.verifier))
            return find_person(database, oidc, claims[0], login.organisation)

        try:
            caller = await run_in_threadpool(self._server.admit, find, _find_address(request))
        except MemdirError as error:
            return self._refuse(error, "the login did not work, or your organisation does not have you as a member")
        renew = partial(find_person, database, oidc, {"sub": claims[0]["sub"]}, str(caller.tenant))
        # By a page too: a strict cookie does not come along where another site led here.
        answer = self._open_session(request, self._render("login.html", to="/"), renew)
        answer.delete_cookie(LOGIN_COOKIE, path="/login", httponly=True, samesite="lax")
        return answer

    def _find_oidc(self) -> OidcProvider:
        oidc = self._server.context.oidc
        if oidc is None or not oidc.client:
            raise NotFoundError("members log in with a token here")
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
        else:  # lax: the provider leads the browser back here
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

    # What is shown and done

    def _show_stores(self, request: Request) -> Response:
        caller, _ = self._find_session(request)
        _, found = list_stores(Call(self._server.context, caller))
        return self._render("stores.html", organisation=caller.organisation, stores=found["stores"])

    async def _show_store(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        if request.method == "POST":
            self._check_origin(request)
        caller, session, site = await run_in_threadpool(self._open, request)
        # A name that means something else in a history is not taken for a person's.
        who = caller.name if caller.name and caller.name.lower() not in WHO else caller.actor
        call = Call(self._server.context, caller, {"store": str(request.path_params["store"])}, who=who)
        may = {name: partial(self._act, call, name, action) for name, action in _ACTIONS.items()}
        known = {**scope, CSRF: session.csrf, _SITE: site, ACTIONS: may, "path_params": {}}
        await self._inner(known, receive, send)

    def _open(self, request: Request) -> tuple[Caller, MemberSession, Site]:
        caller, session = self._find_session(request)
        found = Call(self._server.context, caller, {"store": str(request.path_params["store"])}).find_store()
        key = caller.tenant, caller.actor, found.id
        with self._lock:
            site = self._sites.get(key) or _make_site(found)
            _keep(self._sites, key, site, _SITES)
        site.can_edit = caller.may_write
        site.can_review = caller.may_write and (caller.is_admin or not found.review)
        return caller, session, site

    def _act(self, call: Call, name: str, action: Callable[..., ActionResult], _: Site, *given: Any) -> ActionResult:
        """Do what a form asks for, on a store opened with the rights that the member has now; note what is refused."""
        try:
            if action is _decide:
                return _decide(call, *given)
            return action(_make_site(call.find_store(write=True)), *given)
        except (MemdirError, MergeNeeded) as error:
            status = render_error(error)[0] if isinstance(error, MemdirError) else 409
            target = " ".join((call.params["store"], *(at for at in given if isinstance(at, str))))
            self._server.note(call.caller, f"page {name}", target, status)
            raise

    def _render(self, template: str, status: int = 200, **values: object) -> Response:
        oidc = self._server.context.oidc
        provider = urlsplit(oidc.issuer).hostname if oidc is not None and oidc.client else ""
        known = {"base": "", "problem": "", "to": "", "organisation": "", "provider": provider, **values}
        return HTMLResponse(self._templates.get_template(template).render(known), status)

    def _fail(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, MemdirError)
        status, found = render_error(error)
        if status == 401:
            return RedirectResponse("/login", 303)
        row = found["error"]
        return self._render("login.html", status, problem=f"{row['message']} {row['hint']}".strip())


def _make_site(found: OpenStore) -> Site:
    def search(stores: Any) -> PostgresSearch:
        return PostgresSearch(stores)

    store, place, origin = found.store, found.call.caller.organisation, found.call.origin(ORIGIN.why)
    return Site([store], title=found.name, place=place, clock=store.clock, make_search=search, origin=origin)


def _decide(call: Call, form: Form) -> ActionResult:
    """Approve or reject as the API does it."""
    what, keys = "approve" if form["do"] == "approve" else "reject", form.every("item")
    for key in keys:
        number = key.partition(":")[2]
        if not number.isdecimal():
            raise NotFoundError("there is no such item", name=key)
        decide_item(replace(call, params={**call.params, "id": number, "decision": what}))
    to = f"/inbox?item={form['next']}" if form["next"] else "/inbox"
    return ActionResult(f"{'Approved' if what == 'approve' else 'Rejected'} {len(keys)}.", to)


def _forget_many(site: Site, form: Form) -> ActionResult:
    if form["do"] != "forget" or not form.every("key"):
        raise NotFoundError("there is nothing to forget", hint="select memories first")
    return change_many(site, form)


# What a member may do: with one memory, and with a store. What the page does with files of a machine is not here.
_ACTIONS: Mapping[str, Callable[..., ActionResult]] = {
    **{f"{MEMORY}{name}": MEMORY_ACTIONS[name] for name in ("save", "pin", "forget", "restore")},
    **{name: SITE_ACTIONS[name] for name in ("remember", "undo")},
    "decide": _decide,
    "many": _forget_many,
}


def _keep(kept: "OrderedDict[K, V]", key: K, value: V, most: int) -> None:
    kept[key] = value
    kept.move_to_end(key)
    while len(kept) > most:
        kept.popitem(last=False)


def _hash(cookie: str) -> bytes:
    return hashlib.sha256(cookie.encode("utf-8", "replace")).digest()


def _find_address(request: Request) -> str:
    return request.client.host if request.client else ""


def _read_cookie(request: Request, name: str = COOKIE) -> bytes:
    try:
        found = SimpleCookie(request.headers.get("cookie", "")).get(name)
    except CookieError:
        found = None
    return _hash(found.value) if found else b""


async def _read_form(request: Request) -> Form:
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _FORM_BYTES:
            raise DeniedError("the form is too large", status=413)
    return Form(parse_qs(body.decode("utf-8", "replace"), max_num_fields=10))
