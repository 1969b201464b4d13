"""Who is asking the server, and what he may do: tokens, JWTs of an OIDC provider, members, teams.

A token's text contains its tenant and its number, so that no statement looks across tenants; of its secret the server keeps a
hash. A JWT proves a subject of an issuer; which organisation is meant is said beside it, and counts only if that
organisation has this subject as a member. Whatever is wrong with a credential, the answer is the same.
"""

import base64
import hashlib
import hmac
import json
import secrets
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, build_opener
from uuid import UUID, uuid4

import jwt
from psycopg import errors

from memdir.errors import ConflictError, FormatError, MemdirError, NotFoundError, SettingsError
from memdir.frozen import dataclass
from memdir.store.postgres import PostgresDatabase
from memdir.store.postgres_history import Row, clean_text

PREFIX = "mdt_"
ROLES = ("admin", "member", "reader")
ACCESS = ("read_only", "read_write", "admin")
TOKEN_DAYS, TOKEN_DAYS_MOST = 90, 400
# No algorithm with a shared secret, and never none: the keys are public.
_ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "ES256", "ES384", "EdDSA"]
_FETCH_SECONDS, _FETCH_BYTES = 10.0, 1_048_576
_KEYS_SECONDS = 3600.0  # how long keys of a provider are used without asking again
_UNKNOWN_SECONDS = 30.0  # how often an unknown key makes us ask
_SKEW_SECONDS = 30  # between the provider's clock and ours


class DeniedError(MemdirError):
    """The caller is not known (401), or may not do this (403)."""

    def __init__(self, message: str, *, status: int = 403, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.status = status


@dataclass(frozen=True, slots=True)
class Caller:
    """Who is asking. `stores` are the only ones he may use, if any are named; `member` is empty for a token of the
    organisation itself, which no team and no private store limits."""

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
    def may_write(self) -> bool:
        return self.access != "read_only" and self.role != "reader"

    def may_see(self, store: UUID, scope: str, team: UUID | None, owner: str) -> bool:
        """Whether a store exists for the caller."""
        if self.stores and store not in self.stores:
            return False
        if scope == "private":
            return bool(owner) and owner == str(self.member or "")
        return self.is_admin or self.member is None or team is None or team in self.teams


def find_caller(database: PostgresDatabase, oidc: "OidcProvider | None", header: str, organisation: str) -> Caller:
    """The caller of a request by its Authorization header; DeniedError with status 401 for any that is not good."""
    kind, _, text = header.partition(" ")
    text = text.strip()
    if kind.lower() != "bearer" or not text or len(text) > 8192:
        raise _unknown()
    if text.startswith(PREFIX):
        return _find_token(database, text)
    if oidc is None:
        raise _unknown()
    claims = oidc.read_claims(text)
    given = organisation or str(claims.get("memdir_organisation", ""))
    try:
        tenant = UUID(given)
    except ValueError:
        raise _unknown() from None
    return _find_member(database, tenant, oidc.issuer, str(claims["sub"]))


def _unknown() -> DeniedError:
    return DeniedError("this request shows no valid credential", status=401, hint="send Authorization: Bearer TOKEN")


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
    # Compared also where there is no such token: the time says nothing.
    if not hmac.compare_digest(hashlib.sha256(secret).digest(), known) or caller is None:
        raise _unknown()
    return caller


def renew_caller(database: PostgresDatabase, tenant: UUID, token: UUID) -> Caller:
    """The caller of a token that was shown before; DeniedError once it was revoked or has expired."""
    _, caller = _read_token(database, tenant, token)
    if caller is None:
        raise _unknown()
    return caller


def _read_token(database: PostgresDatabase, tenant: UUID, token: UUID) -> tuple[bytes, Caller | None]:
    """The hash of a token's secret and whom it speaks for; nobody if it is not good now."""
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


def _find_member(database: PostgresDatabase, tenant: UUID, issuer: str, subject: str) -> Caller:
    wanted = "FROM memdir.members WHERE tenant = %(tenant)s AND issuer = %(issuer)s AND subject = %(subject)s"
    rows, tenants, teams = database.read(
        tenant,
        f"SELECT member, role, name {wanted}",
        _TENANT_ROW,
        _TEAM_ROWS.format(member=f"(SELECT member {wanted})"),
        issuer=issuer,
        subject=clean_text(subject),
    )
    if not rows or not tenants:
        raise _unknown()
    member, role, called = rows[0]
    access = "admin" if role == "admin" else "read_write" if role == "member" else "read_only"
    own, (name, most) = frozenset(row[0] for row in teams), tenants[0]
    return Caller(tenant, f"member:{member}", access, role, member, own, frozenset(), name, None, most, called)


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
    """Make a token; returns its number, its text, which is nowhere afterwards, and when it expires."""
    if access not in ACCESS or not 1 <= days <= TOKEN_DAYS_MOST:
        raise FormatError("a token needs an access and an end", field="access", hint=f"one of {', '.join(ACCESS)}")
    token, secret, expires = uuid4(), secrets.token_bytes(32), now + timedelta(days=days)
    insert = "INSERT INTO memdir.tokens (tenant, token, hash, name, access, stores, member, expires) VALUES"
    values = "(%(tenant)s, %(token)s, %(hash)s, %(name)s, %(access)s, %(stores)s::uuid[], %(member)s, %(expires)s)"
    try:
        database.write(
            tenant,
            f"{insert} {values}",
            token=token,
            hash=hashlib.sha256(secret).digest(),
            name=clean_text(name),
            access=access,
            stores=list(stores),
            member=member,
            expires=expires,
        )
    except errors.ForeignKeyViolation:
        raise NotFoundError("there is no such member", name=str(member)) from None
    return token, make_token_text(tenant.bytes + token.bytes + secret), expires


def insert_row(database: PostgresDatabase, tenant: UUID, table: str, **values: object) -> None:
    """Add a row of a tenant; ConflictError if there is one of this name, NotFoundError for what it refers to."""
    clean = {key: clean_text(value) if isinstance(value, str) else value for key, value in values.items()}
    names, slots = ", ".join(clean), ", ".join(f"%({key})s" for key in clean)
    try:
        database.write(tenant, f"INSERT INTO memdir.{table} (tenant, {names}) VALUES (%(tenant)s, {slots})", **clean)
    except errors.UniqueViolation:
        raise ConflictError("there is one already", hint="choose another name, or change the one there is") from None
    except errors.ForeignKeyViolation:
        raise NotFoundError("what it refers to does not exist") from None


def delete_row(database: PostgresDatabase, tenant: UUID, table: str, **key: object) -> Row:
    where = " AND ".join(f"{name} = %({name})s" for name in key)
    try:
        (rows,) = database.write(
            tenant,
            f"DELETE FROM memdir.{table} WHERE tenant = %(tenant)s AND {where} RETURNING {', '.join(key)}",
            **key,
        )
    except errors.ForeignKeyViolation:
        raise ConflictError("something still belongs to it", hint="delete or move its stores first") from None
    if not rows:
        raise NotFoundError("there is no such thing", name=str(next(iter(key.values()), "")))
    return rows[0]


class OidcProvider:
    """One OpenID provider: its address, found keys, and the audience that a token must be meant for."""

    def __init__(self, issuer: str, audience: str) -> None:
        parts = urlsplit(issuer)
        if parts.scheme != "https" and parts.hostname not in ("127.0.0.1", "localhost", "::1"):
            raise SettingsError("an OIDC issuer has an https address", key="oidc_issuer", hint="http is for loopback")
        if not audience:
            raise SettingsError("OIDC needs an audience", key="oidc_audience", hint="the client id of this server")
        self.issuer, self.audience = issuer, audience
        self._keys: Mapping[str, Any] = {}
        self._read_at = self._tried_at = float("-inf")
        self._lock = threading.Lock()

    def read_claims(self, text: str) -> Mapping[str, Any]:
        """The claims of a valid token; DeniedError for any other."""
        try:
            head = jwt.get_unverified_header(text)
            key = self._find_key(str(head.get("kid", "")))
            claims = jwt.decode(
                text,
                key,
                _ALGORITHMS,
                options={"require": ["exp", "iss", "aud", "sub"]},
                audience=self.audience,
                issuer=self.issuer,
                leeway=_SKEW_SECONDS,
            )
        except (jwt.PyJWTError, ValueError, TypeError, KeyError):
            raise _unknown() from None
        if not isinstance(claims.get("sub"), str) or not claims["sub"]:
            raise _unknown()
        return claims

    def check(self) -> None:
        """Raise SettingsError now if the provider cannot be used."""
        self._fetch_keys()

    def _find_key(self, kid: str) -> Any:
        now = time.monotonic()
        with self._lock:
            wait = _KEYS_SECONDS if kid in self._keys else _UNKNOWN_SECONDS
            if now - self._read_at > wait and now - self._tried_at > _UNKNOWN_SECONDS:
                self._tried_at = now
                with suppress(SettingsError):  # keys that are known go on being good
                    self._keys, self._read_at = self._fetch_keys(), now
            return self._keys[kid]

    def _fetch_keys(self) -> Mapping[str, Any]:
        found = self._fetch(f"{self.issuer.rstrip('/')}/.well-known/openid-configuration")
        if found.get("issuer") != self.issuer:
            raise SettingsError(
                "the OIDC provider says it is another", key="oidc_issuer", hint=f"it is {found.get('issuer')}"
            )
        address = str(found.get("jwks_uri", ""))
        if urlsplit(address).scheme != urlsplit(self.issuer).scheme:
            raise SettingsError("the OIDC provider names no address of its keys", key="oidc_issuer")
        rows = self._fetch(address).get("keys")
        keys = {}
        for row in rows if isinstance(rows, list) else []:
            with suppress(jwt.PyJWTError, ValueError, TypeError, KeyError, AttributeError):
                if row.get("kty") != "oct" and row.get("use", "sig") == "sig":
                    keys[str(row.get("kid", ""))] = jwt.PyJWK(row)
        return keys

    def _fetch(self, address: str) -> Mapping[str, Any]:
        try:
            with build_opener(_NoRedirect).open(address, timeout=_FETCH_SECONDS) as answer:
                found = json.loads(answer.read(_FETCH_BYTES))
        except (URLError, OSError, ValueError) as error:
            raise SettingsError(f"the OIDC provider does not answer: {error}", key="oidc_issuer") from None
        return found if isinstance(found, dict) else {}


class _NoRedirect(HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None
