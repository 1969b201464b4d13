"""Authentication and permissions of the server: tokens, JWTs of an OIDC provider, members, teams.

A token's text contains its tenant and ID, so that no query crosses tenants; the server stores only a hash of its secret. A JWT
proves a subject of an issuer; the request names the organisation, which must have this subject as a member. Every invalid
credential gets the same response.
"""

import base64
import hashlib
import hmac
import json
import secrets
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener
from uuid import UUID, uuid4

import jwt
from psycopg import errors

from memdir.errors import ConflictError, FormatError, MemdirError, NotFoundError, SettingsError
from memdir.frozen import dataclass
from memdir.postgres.database import PostgresDatabase, Row, clean_text

PREFIX = "mdt_"
ROLES = ("admin", "member", "reader")
ACCESS = ("read_only", "read_write", "admin")
TOKEN_DAYS, TOKEN_DAYS_MOST = 90, 400
# The keys are public, so algorithms with a shared secret and "none" are excluded.
_ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "ES256", "ES384", "EdDSA"]
_FETCH_SECONDS, _FETCH_BYTES = 10.0, 1_048_576
_KEYS_SECONDS = 3600.0  # a provider's keys are fetched again after this time
_UNKNOWN_SECONDS = 30.0  # between fetches caused by unknown keys
_GROUPS = 500  # read of a token
_SKEW_SECONDS = 30  # between the provider's clock and ours
_LOGIN = ("authorization_endpoint", "token_endpoint")
_NO: Mapping[str, str] = {}


class DeniedError(MemdirError):
    """The caller is not authenticated (401) or lacks permission (403)."""

    def __init__(self, message: str, *, status: int = 403, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.status = status


@dataclass(frozen=True, slots=True)
class Caller:
    """The authenticated caller. A non-empty `stores` limits them to these stores; `member` is None for a token of the
    organisation itself, which is not limited by teams or private stores."""

    tenant: UUID
    actor: str
    access: str
    role: str = "admin"
    member: UUID | None = None
    teams: frozenset[UUID] = frozenset()
    stores: frozenset[UUID] = frozenset()
    organisation: str = ""
    expires: datetime | None = None
    max_requests: int = 6000
    name: str = ""  # of the member, or of the token

    @property
    def is_admin(self) -> bool:
        return self.access == "admin" and self.role == "admin"

    @property
    def rules_organisation(self) -> bool:
        """Return whether the caller may administer the organisation. A token limited to some stores may not, because it
        could create a token with more rights."""
        return self.is_admin and not self.stores

    @property
    def may_write(self) -> bool:
        return self.access != "read_only" and self.role != "reader"

    def may_see(self, store: UUID, scope: str, team: UUID | None, owner: str) -> bool:
        if self.stores and store not in self.stores:
            return False
        if scope == "private":
            return bool(owner) and owner == str(self.member or "")
        return self.is_admin or self.member is None or team is None or team in self.teams


def find_caller(database: PostgresDatabase, oidc: "OidcProvider | None", header: str, organisation: str) -> Caller:
    """Return the caller named by an Authorization header. Raises DeniedError with status 401 if it is invalid."""
    kind, _, text = header.partition(" ")
    text = text.strip()
    if kind.lower() != "bearer" or not text or len(text) > 8192:
        raise _unknown()
    if text.startswith(PREFIX):
        return _find_token(database, text)
    if oidc is None:
        raise _unknown()
    return find_person(database, oidc, oidc.read_claims(text), organisation)


def find_person(
    database: PostgresDatabase, oidc: "OidcProvider", claims: Mapping[str, Any], organisation: str
) -> Caller:
    """Return the member for verified claims. Raises DeniedError with status 401 if the organisation has no such member."""
    organisation_id = organisation or str(claims.get("memdir_organisation", ""))
    try:
        tenant = UUID(organisation_id)
    except ValueError:
        raise _unknown() from None
    name = clean_text(str(claims.get("name") or ""))[:200]
    return _find_member(database, tenant, oidc.issuer, str(claims["sub"]), oidc.read_groups(claims), name)


def _unknown() -> DeniedError:
    return DeniedError("invalid or missing credential", status=401, hint="send Authorization: Bearer TOKEN")


_TENANT_ROW = "SELECT name, max_requests FROM memdir.tenants WHERE tenant = %(tenant)s"
_TEAM_ROWS = "SELECT team FROM memdir.team_members WHERE tenant = %(tenant)s AND member = {member}"


def _find_token(database: PostgresDatabase, text: str) -> Caller:
    try:
        data = base64.urlsafe_b64decode(text.removeprefix(PREFIX) + "==")
    except ValueError:
        raise _unknown() from None
    if len(data) != 64 or make_token_text(data) != text:
        raise _unknown()
    tenant, token, secret = UUID(bytes=data[:16]), UUID(bytes=data[16:32]), data[32:]
    known, caller = _read_token(database, tenant, token)
    # Compare even if there is no such token, so that the response time does not reveal it.
    if not hmac.compare_digest(hashlib.sha256(secret).digest(), known) or caller is None:
        raise _unknown()
    return caller


def renew_caller(database: PostgresDatabase, tenant: UUID, token: UUID) -> Caller:
    """Return the caller of a token used before. Raises DeniedError if it was revoked or has expired."""
    _, caller = _read_token(database, tenant, token)
    if caller is None:
        raise _unknown()
    return caller


def _read_token(database: PostgresDatabase, tenant: UUID, token: UUID) -> tuple[bytes, Caller | None]:
    """Return the hash of a token's secret and its caller, which is None if the token is not currently valid."""
    mine = "(SELECT member FROM memdir.tokens WHERE tenant = %(tenant)s AND token = %(token)s)"
    rows, tenants, teams = database.read(
        tenant,
        "SELECT t.hash, t.access, t.stores, t.member, t.expires, m.role, coalesce(nullif(m.name, ''), t.name)"
        " FROM memdir.tokens t"
        " LEFT JOIN memdir.members m ON m.tenant = t.tenant AND m.member = t.member"
        " WHERE t.tenant = %(tenant)s AND t.token = %(token)s AND t.revoked IS NULL AND t.expires > now()",
        _TENANT_ROW,
        _TEAM_ROWS.format(member=mine),
        token=token,
    )
    if not rows or not tenants:
        return b"", None
    known, access, stores, member, expires, role, called = rows[0]
    own, scope, (name, most) = frozenset(row[0] for row in teams), frozenset(stores), tenants[0]
    return bytes(known), Caller(
        tenant, f"token:{token}", access, role or "admin", member, own, scope, name, expires, most, called
    )


def _find_member(
    database: PostgresDatabase, tenant: UUID, issuer: str, subject: str, groups: Sequence[str], name: str
) -> Caller:
    """Return the member with the strongest of their own role and their groups' roles. Who has a role only by a group
    becomes a member without one, so that they keep their private stores."""
    from_member = "FROM memdir.members WHERE tenant = %(tenant)s AND issuer = %(issuer)s AND subject = %(subject)s"
    rows, group_rows, tenants, teams = database.read(
        tenant,
        f"SELECT member, role, name {from_member}",
        "SELECT role FROM memdir.groups WHERE tenant = %(tenant)s AND name = ANY(%(groups)s)",
        _TENANT_ROW,
        _TEAM_ROWS.format(member=f"(SELECT member {from_member})"),
        issuer=issuer,
        subject=clean_text(subject),
        groups=list(groups),
    )
    roles = {row[0] for row in group_rows} | {row[1] for row in rows}
    role = next((role for role in ROLES if role in roles), None)
    if role is None or not tenants:
        raise _unknown()
    if not rows:
        row = {"issuer": issuer, "subject": subject, "name": name, "role": ""}
        with suppress(ConflictError):  # another request of theirs was faster
            insert_row(database, tenant, "members", member=uuid4(), **row)
        return _find_member(database, tenant, issuer, subject, groups, name)
    member, _, called = rows[0]
    access = {"admin": "admin", "member": "read_write"}.get(role, "read_only")
    own, (organisation, most) = frozenset(row[0] for row in teams), tenants[0]
    return Caller(tenant, f"member:{member}", access, role, member, own, frozenset(), organisation, None, most, called)


def make_token_text(data: bytes) -> str:
    return PREFIX + base64.urlsafe_b64encode(data).decode("ascii").rstrip("=")


def create_token(
    database: PostgresDatabase,
    tenant: UUID,
    *,
    name: str,
    access: str,
    now: datetime,
    days: int = TOKEN_DAYS,
    stores: Iterable[UUID] = (),
    member: UUID | None = None,
) -> tuple[UUID, str, datetime]:
    """Create a token; return its ID, its text, which is not stored, and when it expires."""
    if access not in ACCESS or not 1 <= days <= TOKEN_DAYS_MOST:
        raise FormatError("invalid access level or lifetime", field="access", hint=f"use one of {', '.join(ACCESS)}")
    token, secret, expires = uuid4(), secrets.token_bytes(32), now + timedelta(days=days)
    row = {"token": token, "hash": hashlib.sha256(secret).digest(), "name": name, "access": access}
    insert_row(database, tenant, "tokens", **row, stores=list(stores), member=member, expires=expires)
    return token, make_token_text(tenant.bytes + token.bytes + secret), expires


def insert_row(database: PostgresDatabase, tenant: UUID, table: str, /, **values: object) -> None:
    """Insert a tenant's row. Raises ConflictError if it exists, NotFoundError if it refers to a missing row."""
    clean = {key: clean_text(value) if isinstance(value, str) else value for key, value in values.items()}
    names, slots = ", ".join(clean), ", ".join(f"%({key})s" for key in clean)
    try:
        database.write(tenant, f"INSERT INTO memdir.{table} (tenant, {names}) VALUES (%(tenant)s, {slots})", **clean)
    except errors.UniqueViolation:
        raise ConflictError("the name is already in use", hint="choose another name") from None
    except errors.ForeignKeyViolation:
        raise NotFoundError("a referenced object was not found") from None


def delete_row(database: PostgresDatabase, tenant: UUID, from_table: str, /, **key: object) -> Row:
    where = " AND ".join(f"{name} = %({name})s" for name in key)
    try:
        (rows,) = database.write(
            tenant,
            f"DELETE FROM memdir.{from_table} WHERE tenant = %(tenant)s AND {where} RETURNING {', '.join(key)}",
            **key,
        )
    except errors.ForeignKeyViolation:
        raise ConflictError("the team still has stores", hint="delete or move its stores first") from None
    if not rows:
        raise NotFoundError("not found", name=str(next(iter(key.values()), "")))
    return rows[0]


class OidcProvider:
    """One OpenID provider with its keys and the audience that tokens must have. With a `client` ID, users can log in
    there with a browser."""

    def __init__(
        self, issuer: str, audience: str, client: str = "", secret: str = "", groups_claim: str = "groups"
    ) -> None:
        parts = urlsplit(issuer)
        if parts.scheme != "https" and parts.hostname not in ("127.0.0.1", "localhost", "::1"):
            raise SettingsError(
                "the OIDC issuer must use https", key="oidc_issuer", hint="http is only allowed on loopback"
            )
        if not audience:
            raise SettingsError("OIDC needs an audience", key="oidc_audience", hint="use this server's client ID")
        self.issuer, self.audience, self.client, self._secret = issuer, audience, client, secret
        self.groups_claim = groups_claim
        self._keys: Mapping[str, Any] = {}
        self._described: tuple[float, Mapping[str, Any]] = float("-inf"), {}
        self._read_at = self._tried_at = float("-inf")
        self._lock = threading.Lock()

    def read_claims(self, text: str, audience: str = "") -> Mapping[str, Any]:
        """Return the claims of a valid token. Raises DeniedError if it is invalid."""
        try:
            head = jwt.get_unverified_header(text)
            key = self._find_key(str(head.get("kid", "")))
            claims = jwt.decode(
                text,
                key,
                _ALGORITHMS,
                options={"require": ["exp", "iss", "aud", "sub"]},
                audience=audience or self.audience,
                issuer=self.issuer,
                leeway=_SKEW_SECONDS,
            )
        except (jwt.PyJWTError, ValueError, TypeError, KeyError):
            raise _unknown() from None
        if not isinstance(claims.get("sub"), str) or not claims["sub"]:
            raise _unknown()
        return claims

    def read_groups(self, claims: Mapping[str, Any]) -> list[str]:
        groups = claims.get(self.groups_claim)
        return (
            [clean_text(name) for name in groups[:_GROUPS] if isinstance(name, str)] if isinstance(groups, list) else []
        )

    def check(self) -> str:
        """Return the issuer. Raises SettingsError if it cannot be used."""
        self._fetch_keys()
        for field in _LOGIN if self.client else ():
            self._find_address(field)
        return self.issuer

    def start_login(self, back: str, state: str, nonce: str, verifier: str) -> str:
        """Return the login URL; the provider redirects to `back` with a code and the state."""
        digest = hashlib.sha256(verifier.encode()).digest()
        query = {
            "response_type": "code", "client_id": self.client, "redirect_uri": back, "scope": "openid", "state": state,
            "nonce": nonce, "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"="), "code_challenge_method": "S256",
        }  # fmt: skip
        address = self._find_address(_LOGIN[0])
        return f"{address}{'&' if '?' in address else '?'}{urlencode(query)}"

    def end_login(self, code: str, back: str, nonce: str, verifier: str) -> Mapping[str, Any]:
        """Exchange a code for the claims of its ID token. Raises DeniedError if they belong to a different login."""
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": back, "code_verifier": verifier}
        headers = {}
        if self._secret:
            pair = f"{quote(self.client, safe='')}:{quote(self._secret, safe='')}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        data = urlencode({**form, "client_id": self.client}).encode()
        response = self._fetch(self._find_address(_LOGIN[1]), data, headers)
        claims = self.read_claims(str(response.get("id_token", "")), self.client)
        is_mine = hmac.compare_digest(str(claims.get("nonce", "")).encode("utf-8", "replace"), nonce.encode())
        if not is_mine or claims.get("azp", self.client) != self.client:
            raise _unknown()
        return claims

    def _find_key(self, kid: str) -> Any:
        now = time.monotonic()
        with self._lock:
            wait = _KEYS_SECONDS if kid in self._keys else _UNKNOWN_SECONDS
            if now - self._read_at > wait and now - self._tried_at > _UNKNOWN_SECONDS:
                self._tried_at = now
                with suppress(SettingsError):  # known keys stay valid
                    self._keys, self._read_at = self._fetch_keys(), now
            return self._keys[kid]

    def _fetch_keys(self) -> Mapping[str, Any]:
        self._described = float("-inf"), {}
        rows = self._fetch(self._find_address("jwks_uri")).get("keys")
        keys = {}
        for row in rows if isinstance(rows, list) else []:
            with suppress(jwt.PyJWTError, ValueError, TypeError, KeyError, AttributeError):
                if row.get("kty") != "oct" and row.get("use", "sig") == "sig":
                    keys[str(row.get("kid", ""))] = jwt.PyJWK(row)
        return keys

    def _find_address(self, field: str) -> str:
        """Return a URL from the provider's discovery document, which is fetched once an hour."""
        read_at, description = self._described
        if time.monotonic() - read_at > _KEYS_SECONDS:
            description = self._fetch(f"{self.issuer.rstrip('/')}/.well-known/openid-configuration")
            if description.get("issuer") != self.issuer:
                hint = f"use {description.get('issuer')}"
                raise SettingsError("the OIDC provider has a different issuer", key="oidc_issuer", hint=hint)
            self._described = time.monotonic(), description
        address = str(description.get(field, ""))
        if urlsplit(address).scheme != urlsplit(self.issuer).scheme:
            raise SettingsError(f"the OIDC provider did not return a valid {field}", key="oidc_issuer")
        return address

    def _fetch(self, address: str, data: bytes | None = None, headers: Mapping[str, str] = _NO) -> Mapping[str, Any]:
        try:
            request = Request(address, data, dict(headers))
            with build_opener(_NoRedirect).open(request, timeout=_FETCH_SECONDS) as answer:
                content = json.loads(answer.read(_FETCH_BYTES))
        except (URLError, OSError, ValueError) as error:
            if isinstance(error, HTTPError):
                error.close()
                if data is not None and 400 <= error.code < 500:  # the code, verifier or client is invalid
                    raise _unknown() from None
            raise SettingsError(f"the OIDC provider failed: {error}", key="oidc_issuer") from None
        return content if isinstance(content, dict) else {}


class _NoRedirect(HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None
