"""The web interface for members of an organisation: their stores, memories, search, history and inbox.

A member enters a token once or logs in at the OIDC provider, and gets a cookie; the database has a hash of it, and the token or
member is checked at every request, so that revoked access ends at once. `/s/STORE` shows the pages of `memdir ui` for that store,
with the permissions of the API. Stores a member cannot see are reported as not found.
"""

import base64
import hashlib
import hmac
import json
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import UUID

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from memdir.errors import MemdirError, NotFoundError
from memdir.frozen import replace
from memdir.interfaces.server.access import PREFIX, Caller, DeniedError, OidcProvider, find_person, renew_caller
from memdir.interfaces.server.api import Call, OpenStore, decide_item, list_stores
from memdir.interfaces.server.app import ApiServer, find_address, render_error, show_absent, show_unexpected
from memdir.interfaces.web.access import ACTIONS, CSRF, MEMORY, add_headers
from memdir.interfaces.web.actions import MEMORY_ACTIONS, SITE_ACTIONS, ActionResult, Form, MergeNeeded, change_many
from memdir.interfaces.web.app import HERE, make_app, make_templates
from memdir.interfaces.web.listen import AsgiScope, Receive, Send
from memdir.interfaces.web.pages import WHO
from memdir.interfaces.web.site import ORIGIN, Site
from memdir.postgres.database import clean_text, execute
from memdir.postgres.search import PostgresSearch

COOKIE, LOGIN_COOKIE = "memdir_session", "memdir_login"
_SECONDS, _LOGIN_SECONDS = 12 * 3600.0, 600.0  # lifetime of a session, and of a login at the provider
_LOGINS_A_MINUTE = 60  # logins started per address
_OIDC = "/login/oidc"  # starts a login, and receives the provider's redirect
_SITES = 200  # kept in memory
_FORM_BYTES = 4096
_SITE = "memdir.site"


_ADD_SESSION = (
    "INSERT INTO memdir.sessions (tenant, key, token, subject, groups, until) VALUES"
    " (%(tenant)s, %(key)s, %(token)s, %(subject)s, %(groups)s, now() + %(seconds)s * interval '1 second')"
    " ON CONFLICT DO NOTHING"
)
_FIND_SESSION = (
    "SELECT token, subject, groups FROM memdir.sessions WHERE tenant = %(tenant)s AND key = %(key)s AND until > now()"
)
_ADD_LOGIN = (
    "INSERT INTO memdir.logins (key, data, until) VALUES (%(key)s, %(data)s, now() + %(seconds)s * interval '1 second')"
    " ON CONFLICT DO NOTHING"
)
_TAKE_LOGIN = "DELETE FROM memdir.logins WHERE key = %(key)s AND until > now() RETURNING data"


class MemberPage:
    """The application that `build_app` mounts for all URLs outside the API."""

    def __init__(self, server: ApiServer) -> None:
        self._server, self._templates = server, make_templates()
        self._sites: OrderedDict[tuple[UUID, str, UUID], Site] = OrderedDict()
        self._lock = threading.Lock()
        self._inner = make_app(lambda request: request.scope[_SITE])
        routes = [
            Route("/", self._show_stores),
            Route("/docs", self._show_api),
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

    def _find_session(self, request: Request) -> tuple[Caller, str]:
        """Return the current caller of the cookie and its CSRF word. Raises DeniedError with status 401 if there is none."""
        tenant, key, word = _read_session(request)
        context, oidc = self._server.context, self._server.context.oidc
        for token, subject, groups in context.database.read(tenant, _FIND_SESSION, key=key)[0]:
            if token is not None:
                caller = renew_caller(context.database, tenant, token)
            elif oidc is not None:
                claims = {"sub": subject, oidc.groups_claim: list(groups)}
                caller = find_person(context.database, oidc, claims, str(tenant))
            else:
                break
            self._server.count(caller)
            return caller, word
        raise DeniedError("log in first", status=401, hint="use a token of your organisation")

    def _show_api(self, _: Request) -> Response:
        return self._render("api.html")

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
        return await self._open_session(request, RedirectResponse("/", 303), caller, token=number)

    async def _start_login(self, request: Request) -> Response:
        """Send the browser to the provider, with a cookie that its response must match."""
        self._check_origin(request)
        organisation, oidc = (await _read_form(request))["organisation"].strip(), self._find_oidc()
        await run_in_threadpool(self._server.count_address, "login", find_address(request), _LOGINS_A_MINUTE)
        cookie, state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(4))
        back = (self._server.public_url or str(request.base_url).rstrip("/")) + _OIDC
        try:
            to = await run_in_threadpool(oidc.start_login, back, state, nonce, verifier)
        except MemdirError as error:
            return self._refuse(error)
        values = {"key": _hash(cookie), "seconds": _LOGIN_SECONDS}
        values["data"] = json.dumps([state, nonce, verifier, clean_text(organisation), back])
        await run_in_threadpool(self._write_shared, _ADD_LOGIN, **values)
        # A page instead of a redirect, because our policy does not allow forms to lead to other sites.
        return self._set_cookie(request, self._render("login.html", to=to), LOGIN_COOKIE, cookie)

    def _write_shared(self, statement: str, **values: object) -> list[Any]:
        """Run a statement on logins that have begun, which belong to no tenant."""
        return self._server.context.database.run(lambda db, _: execute(db, statement, **values))[0]

    async def _end_login(self, request: Request) -> Response:
        cookie = request.cookies.get(LOGIN_COOKIE, "")
        logins = await run_in_threadpool(self._write_shared, _TAKE_LOGIN, key=_hash(cookie)) if cookie else []
        database, oidc, params, claims = self._server.context.database, self._find_oidc(), request.query_params, []
        state, nonce, verifier, organisation, back = json.loads(logins[0][0]) if logins else ("", "", "", "", "")

        def find() -> Caller:
            code, returned = params.get("code", ""), params.get("state", "").encode("utf-8", "replace")
            if not (state and code and hmac.compare_digest(state.encode(), returned)):
                raise DeniedError("the login was not started in this browser", status=401)
            claims.append(oidc.end_login(code, back, nonce, verifier))
            return find_person(database, oidc, claims[0], organisation)

        try:
            caller = await run_in_threadpool(self._server.admit, find, find_address(request))
        except MemdirError as error:
            return self._refuse(error, "the login failed, or you are not a member of this organisation")
        values = {"subject": clean_text(claims[0]["sub"]), "groups": oidc.read_groups(claims[0])}
        # Also a page, because browsers do not send strict cookies after a redirect from another site.
        answer = await self._open_session(request, self._render("login.html", to="/"), caller, **values)
        answer.delete_cookie(LOGIN_COOKIE, path="/login", httponly=True, samesite="lax")
        return answer

    def _find_oidc(self) -> OidcProvider:
        oidc = self._server.context.oidc
        if oidc is None or not oidc.client:
            raise NotFoundError("OIDC login is not configured; use a token")
        return oidc

    async def _open_session(self, request: Request, answer: Response, caller: Caller, **values: object) -> Response:
        cookie = base64.urlsafe_b64encode(caller.tenant.bytes + secrets.token_bytes(32)).decode()
        values = {"token": None, "subject": "", "groups": [], "key": _hash(cookie), "seconds": _SECONDS} | values
        await run_in_threadpool(partial(self._server.context.database.write, caller.tenant, _ADD_SESSION, **values))
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
        with suppress(MemdirError):
            tenant, key, _ = _read_session(request)
            delete = "DELETE FROM memdir.sessions WHERE tenant = %(tenant)s AND key = %(key)s"
            await run_in_threadpool(partial(self._server.context.database.write, tenant, delete, key=key))
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
        caller, word, site = await run_in_threadpool(self._open, request)
        # A member's name must not look like one of the authors with a fixed meaning.
        who = caller.name if caller.name and caller.name.lower() not in WHO else caller.actor
        call = Call(self._server.context, caller, {"store": str(request.path_params["store"])}, who=who)
        may = {name: partial(self._act, call, name, action) for name, action in _ACTIONS.items()}
        known = {**scope, CSRF: word, _SITE: site, ACTIONS: may, "path_params": {}}
        if request.url.path.endswith("/events"):  # waits for changes, in no thread
            return await self._inner(known, receive, send)
        scope["memdir.route"], scope["memdir.caller"] = "/s/{store}", caller
        async with self._server.turns.hold(caller.tenant):
            await self._inner(known, receive, send)

    def _open(self, request: Request) -> tuple[Caller, str, Site]:
        caller, word = self._find_session(request)
        store = Call(self._server.context, caller, {"store": str(request.path_params["store"])}).find_store()
        key = caller.tenant, caller.actor, store.id
        with self._lock:
            site = self._sites.get(key) or _make_site(store)
            self._sites[key] = site
            self._sites.move_to_end(key)
            while len(self._sites) > _SITES:
                self._sites.popitem(last=False)
        site.can_edit = caller.may_write
        site.can_review = caller.may_write and (caller.is_admin or not store.review)
        return caller, word, site

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


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "replace")).digest()


def _read_session(request: Request) -> tuple[UUID, bytes, str]:
    """Return the organisation of the session cookie, its key and its CSRF word, which other sites cannot know."""
    cookie = request.cookies.get(COOKIE, "")
    try:
        tenant = UUID(bytes=base64.urlsafe_b64decode(cookie)[:16])
    except ValueError:
        raise DeniedError("log in first", status=401, hint="use a token of your organisation") from None
    return tenant, _hash(cookie), _hash(f"csrf {cookie}").hex()[:32]


async def _read_form(request: Request) -> Form:
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _FORM_BYTES:
            raise DeniedError("the form is too large", status=413)
    return Form(parse_qs(body.decode("utf-8", "replace"), max_num_fields=10))
