"""OpenID Connect against a provider of our own on loopback: who gets in, and every token that must not."""

import base64
import hashlib
import html
import http.client
import json
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from http.cookies import SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from browser import browsing, find_violations, need_browser
from http_servers import Client, Organisation, Visitor, serve
from memdir.errors import SettingsError
from memdir.interfaces.server.access import OidcProvider
from memdir.interfaces.server.page import COOKIE, LOGIN_COOKIE, MemberPage
from postgres import Postgres

AUDIENCE, CLIENT = "memdir-server", "memdir-page"


class Provider:
    """A real OpenID provider as far as a server sees one: discovery, keys, signed tokens, and logins of browsers."""

    def __init__(self) -> None:
        self.keys: dict[str, Any] = {"k1": rsa.generate_private_key(65537, 2048)}
        self.more: list[dict[str, Any]] = []
        self.fetched = 0
        self.codes: dict[str, dict[str, str]] = {}  # code -> what the browser was sent with
        self.secret = ""
        self.next: Callable[[str], str] = lambda nonce: self.token(aud=CLIENT, nonce=nonce)  # the id token it gives
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                provider.fetched += 1
                at = urlsplit(self.path)
                if at.path == "/authorize":
                    code, asked = secrets.token_hex(8), dict(parse_qsl(at.query))
                    provider.codes[code] = asked
                    self.send_response(302)
                    self.send_header(
                        "location", f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked['state']})}"
                    )
                    self.send_header("content-length", "0")
                    self.end_headers()
                    return
                found = provider.discover() if "openid-configuration" in self.path else {"keys": provider.list_keys()}
                self.answer(200, found)

            def do_POST(self) -> None:
                form = dict(parse_qsl(self.rfile.read(int(self.headers["content-length"])).decode()))
                asked = provider.codes.pop(form["code"], {})
                digest = hashlib.sha256(form["code_verifier"].encode()).digest()
                pair = base64.b64encode(f"{CLIENT}:{quote(provider.secret, safe='')}".encode()).decode()
                is_right = (
                    asked.get("code_challenge") == base64.urlsafe_b64encode(digest).decode().rstrip("=")
                    and asked["code_challenge_method"] == "S256"
                    and all(form[key] == asked[key] for key in ("client_id", "redirect_uri"))
                    and (not provider.secret or self.headers["authorization"] == f"Basic {pair}")
                )
                if is_right and form["grant_type"] == "authorization_code":
                    self.answer(200, {"id_token": provider.next(asked["nonce"])})
                else:
                    self.answer(400, {"error": "invalid_grant"})

            def answer(self, status: int, found: object) -> None:
                data = json.dumps(found).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.issuer = f"http://127.0.0.1:{self.server.server_port}"
        self.claimed = self.issuer
        self.ends = {"authorization_endpoint": f"{self.issuer}/authorize", "token_endpoint": f"{self.issuer}/token"}
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def discover(self) -> dict[str, str]:
        return {"issuer": self.claimed, "jwks_uri": f"{self.issuer}/keys", **self.ends}

    def list_keys(self) -> list[dict[str, Any]]:
        return [{**_jwk(key), "kid": kid} for kid, key in self.keys.items()] + self.more

    def token(self, key: Any = None, kid: str = "k1", algorithm: str = "RS256", **claims: Any) -> str:
        given = {"iss": self.issuer, "aud": AUDIENCE, "sub": "ada", "exp": time.time() + 600, **claims}
        given = {name: value for name, value in given.items() if value is not None}
        return jwt.encode(given, self.keys["k1"] if key is None else key, algorithm, headers={"kid": kid})


def _jwk(key: Any) -> dict[str, Any]:
    make = jwt.algorithms.RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else jwt.algorithms.ECAlgorithm
    found: dict[str, Any] = json.loads(make.to_jwk(key.public_key()))
    return found


@pytest.fixture
def provider() -> Iterator[Provider]:
    made = Provider()
    yield made
    made.server.shutdown()
    made.server.server_close()


def test_members_get_in_by_tokens_of_the_provider_and_nobody_else(postgres: Postgres, provider: Provider) -> None:
    with serve(postgres.database, OidcProvider(provider.issuer, AUDIENCE), public_url="https://memory.example") as port:
        org, other = Organisation(postgres, port), Organisation(postgres, port)
        org.admin("POST", "/v1/members", {"issuer": provider.issuer, "subject": "ada", "role": "member"})
        org.admin("POST", "/v1/members", {"issuer": "https://else.example", "subject": "eve", "role": "admin"})
        org.admin("POST", "/v1/stores", {"name": "main"})

        def ask(token: str, tenant: object = org.tenant) -> int:
            return Client(port, token, **{"Memdir-Organisation": str(tenant)}).raw("GET", "/v1/stores/main")[0]

        assert ask(provider.token()) == 200
        assert Client(port, provider.token(memdir_organisation=str(org.tenant)))("GET", "/v1/me")[1]["role"] == "member"
        strange = rsa.generate_private_key(65537, 2048)
        curve = ec.generate_private_key(ec.SECP256R1())
        public = provider.keys["k1"].public_key()
        pem = public.public_bytes(*_pem())
        forged = {
            "another key": provider.token(strange),
            "a key of another kind": provider.token(curve, algorithm="ES256"),
            "unknown kid": provider.token(strange, kid="k9"),
            "no kid": provider.token(strange, kid=""),
            "none": jwt.encode(
                {"iss": provider.issuer, "aud": AUDIENCE, "sub": "ada", "exp": time.time() + 600}, "", "none"
            ),
            "the public key as a secret": _hs256(provider, pem),
            "expired": provider.token(exp=time.time() - 3600),
            "no end": provider.token(exp=None),
            "not yet": provider.token(nbf=time.time() + 3600),
            "another audience": provider.token(aud="someone-else"),
            "no audience": provider.token(aud=None),
            "another issuer": provider.token(iss="https://else.example"),
            "nobody's subject": provider.token(sub="mallory"),
            "another issuer's subject": provider.token(sub="eve"),
            "no subject": provider.token(sub=None),
            "changed claims": _swap_claims(provider),
            "cut": provider.token()[:-5],
        }
        passed = [what for what, token in forged.items() if ask(token) not in (401, 429)]
        assert passed == []
    # Without a limit on failures in the way: each of them is a 401 by itself.
    with serve(postgres.database, OidcProvider(provider.issuer, AUDIENCE)) as port:
        for tenant in (other.tenant, "no-id", "", "00000000-0000-0000-0000-000000000000"):
            client = Client(port, provider.token(), **({"Memdir-Organisation": str(tenant)} if tenant else {}))
            assert client.raw("GET", "/v1/me")[0] == 401, tenant
        metadata = Client(port)("GET", "/.well-known/oauth-protected-resource")[1]
        assert metadata["authorization_servers"] == [provider.issuer]


def _pem() -> tuple[Any, Any]:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return Encoding.PEM, PublicFormat.SubjectPublicKeyInfo


def _hs256(provider: Provider, secret: bytes) -> str:
    """Signed by hand: the library refuses to sign with a public key."""
    import hmac

    def part(value: object) -> bytes:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=")

    claims = {"iss": provider.issuer, "aud": AUDIENCE, "sub": "ada", "exp": time.time() + 600}
    text = part({"alg": "HS256", "typ": "JWT", "kid": "k1"}) + b"." + part(claims)
    return (
        text + b"." + base64.urlsafe_b64encode(hmac.new(secret, text, hashlib.sha256).digest()).rstrip(b"=")
    ).decode()


def _swap_claims(provider: Provider) -> str:
    head, _, sign = provider.token(sub="mallory").split(".")
    return ".".join((head, provider.token().split(".")[1], sign))


def test_keys_are_renewed_and_not_at_every_stranger(provider: Provider) -> None:
    found = OidcProvider(provider.issuer, AUDIENCE)
    assert found.read_claims(provider.token())["sub"] == "ada"
    count = provider.fetched
    strange = rsa.generate_private_key(65537, 2048)
    for number in range(20):
        with pytest.raises(Exception, match="invalid or missing credential"):
            found.read_claims(provider.token(strange, kid=f"x{number}"))
    assert provider.fetched == count, "an unknown key is asked for now and then only"
    provider.keys["k2"] = strange
    found._read_at = found._tried_at = float("-inf")
    assert found.read_claims(provider.token(strange, kid="k2"))["sub"] == "ada"
    provider.server.shutdown()
    assert found.read_claims(provider.token())["sub"] == "ada", "a provider that is away stops nobody who is known"


def test_a_provider_that_cannot_be_used_is_refused(provider: Provider) -> None:
    for issuer, audience in (("http://public.example", "a"), (provider.issuer, "")):
        with pytest.raises(SettingsError):
            OidcProvider(issuer, audience)
    provider.claimed = "https://else.example"
    with pytest.raises(SettingsError, match="different issuer"):
        OidcProvider(provider.issuer, "a").check()
    provider.claimed = provider.issuer
    OidcProvider(provider.issuer, AUDIENCE, CLIENT).check()
    provider.ends = {}
    OidcProvider(provider.issuer, AUDIENCE).check()
    with pytest.raises(SettingsError, match="authorization_endpoint"):
        OidcProvider(provider.issuer, AUDIENCE, CLIENT).check()
    provider.more = [{"kty": "oct", "k": "c2VjcmV0", "kid": "shared"}, {"kty": "nonsense"}, {}]
    made = OidcProvider(provider.issuer, AUDIENCE)
    made.check()
    with pytest.raises(Exception, match="invalid or missing credential"):
        made.read_claims(
            jwt.encode(
                {"sub": "x", "exp": time.time() + 9, "aud": AUDIENCE, "iss": provider.issuer},
                "secret" * 8,
                "HS256",
                headers={"kid": "shared"},
            )
        )


class Browser(Visitor):
    """A visitor who follows the way over the provider by hand."""

    def begin(self, organisation: object = "") -> str:
        """Begin a login; returns the path with which the provider leads back."""
        status, text, headers = self.send("POST", "/login/oidc", {"organisation": str(organisation)})
        found = re.search(r'http-equiv="refresh" content="0;url=([^"]+)"', text)
        assert status == 200 and found, text
        kept = SimpleCookie(headers["set-cookie"])[LOGIN_COOKIE]
        assert kept["httponly"] and kept["samesite"] == "lax" and kept["path"] == "/login"
        self.cookie = f"{LOGIN_COOKIE}={kept.value}"
        to = urlsplit(html.unescape(found[1]))
        link = http.client.HTTPConnection(to.netloc, timeout=60)
        try:
            link.request("GET", f"{to.path}?{to.query}")
            back = urlsplit(link.getresponse().headers["location"])
        finally:
            link.close()
        assert f"{back.scheme}://{back.netloc}" == self.own
        return f"{back.path}?{back.query}"

    def end(self, path: str, **headers: str) -> int:
        """Come back from the provider; returns the status, 0 if there is no session after all."""
        status, text, answer = self.send("GET", path, **headers)
        cookie = SimpleCookie(answer.get("set-cookie", "")).get(COOKIE)
        if status != 200:
            assert cookie is None and "http-equiv" not in text, "a refused login leaves no session"
            return status
        assert cookie is not None and cookie["samesite"] == "strict" and cookie["httponly"]
        assert re.findall(r'content="0;url=([^"]+)"', text) == ["/"], "it leads nowhere else"
        self.cookie = f"{COOKIE}={cookie.value}"
        return 200 if self.get("/")[0] == 200 else 0


def test_a_member_logs_in_at_the_provider(postgres: Postgres, provider: Provider) -> None:
    provider.secret = "s3cret/with:signs"
    oidc = OidcProvider(provider.issuer, AUDIENCE, CLIENT, provider.secret)
    with serve(postgres.database, oidc, page=MemberPage) as port:
        org = Organisation(postgres, port)
        given = {"issuer": provider.issuer, "subject": "ada", "name": "Ada", "role": "member"}
        member = org.admin("POST", "/v1/members", given)[1]["id"]
        store = org.admin("POST", "/v1/stores", {"name": "main"})[1]["id"]
        visitor = Browser(port)
        assert "Log in with 127.0.0.1" in visitor.get("/login")[1]
        assert f'value="{org.tenant}"' in visitor.get(f"/login?organisation={org.tenant}")[1]
        assert visitor.end(visitor.begin(org.tenant) + "&next=https://evil.example&to=//evil.example") == 200
        assert visitor.act(f"/s/{store}", "/do/remember", {"words": "The staging server is called heron"})[0] == 303
        (version,) = org.admin("GET", "/v1/stores/main/versions")[1]["versions"]
        assert (version["who"], version["actor"]) == ("Ada", f"member:{member}")
        # The provider may name the organisation; the member's role counts as it is now, and without the member all ends.
        provider.next = lambda nonce: provider.token(aud=CLIENT, nonce=nonce, memdir_organisation=str(org.tenant))
        other = Browser(port)
        assert other.end(other.begin()) == 200
        assert org.admin("PATCH", f"/v1/members/{member}", {"role": "reader"})[0] == 200
        assert visitor.act(f"/s/{store}", "/do/undo", {"change": "team:1"})[0] == 403
        assert org.admin("DELETE", f"/v1/members/{member}")[0] == 200
        assert [at.get("/")[0] for at in (visitor, other)] == [303, 303]
        assert visitor.end(visitor.begin(org.tenant)) == 401


def test_a_group_of_the_provider_gives_its_people_a_role(postgres: Postgres, provider: Provider) -> None:
    oidc = OidcProvider(provider.issuer, AUDIENCE, CLIENT, groups_claim="roles")
    with serve(postgres.database, oidc, page=MemberPage) as port:
        org = Organisation(postgres, port)
        for name, role in (("/team/writers", "member"), ("readers", "reader"), ("chiefs", "admin")):
            assert org.admin("POST", "/v1/groups", {"name": name, "role": role})[0] == 201
        store = org.admin("POST", "/v1/stores", {"name": "main"})[1]["id"]

        def ask(*groups: object, sub: str = "eve", **claims: Any) -> tuple[int, str]:
            token = provider.token(sub=sub, roles=list(groups), memdir_organisation=str(org.tenant), **claims)
            status, row = Client(port, token)("GET", "/v1/me")
            return status, row.get("role", "")

        rows = {
            "none": ask(), "another group": ask("strangers"), "no text": ask(["readers"], 1, None), "reader": ask("readers"),
            "the strongest": ask("readers", "/team/writers"), "left the group": ask("strangers"), "admin": ask("chiefs"),
            "another's claim": ask(groups=["chiefs"]),
        }  # fmt: skip
        assert rows == {
            "none": (401, ""), "another group": (401, ""), "no text": (401, ""), "reader": (200, "reader"),
            "the strongest": (200, "member"), "left the group": (401, ""), "admin": (200, "admin"), "another's claim": (401, ""),
        }  # fmt: skip
        (member,) = org.admin("GET", "/v1/members")[1]["members"]
        assert (member["subject"], member["role"]) == ("eve", ""), "without a role of their own"
        groups: dict[str, Any] = {"roles": ["/team/writers"], "memdir_organisation": str(org.tenant)}
        provider.next = lambda nonce: provider.token(aud=CLIENT, nonce=nonce, sub="eve", **groups)
        visitor = Browser(port)
        assert visitor.end(visitor.begin()) == 200
        assert visitor.act(f"/s/{store}", "/do/remember", {"words": "The staging server is called heron"})[0] == 303
        assert org.admin("DELETE", "/v1/groups?name=/team/writers")[0] == 200 and visitor.get("/")[0] == 303
        assert (
            org.admin("DELETE", "/v1/groups?name=none")[0] == 404
            and org.admin("POST", "/v1/groups", {"name": "x"})[0] == 400
        )


def test_a_login_that_is_not_whole_gives_no_session(postgres: Postgres, provider: Provider) -> None:
    oidc = OidcProvider(provider.issuer, AUDIENCE, CLIENT)
    with serve(postgres.database, oidc, page=MemberPage) as port:
        org, other = Organisation(postgres, port), Organisation(postgres, port)
        org.admin("POST", "/v1/members", {"issuer": provider.issuer, "subject": "ada", "role": "member"})
        plain, strange = provider.next, rsa.generate_private_key(65537, 2048)

        def attempt(token: Callable[[str], str] = plain, organisation: object = org.tenant) -> int:
            provider.next, visitor = token, Browser(port)
            return visitor.end(visitor.begin(organisation))

        def give(key: Any = None, kid: str = "k1", **claims: Any) -> Callable[[str], str]:
            return lambda nonce: provider.token(key, kid, **{"aud": CLIENT, "nonce": nonce, **claims})

        assert attempt() == 200
        visitor, foreign = Browser(port), Browser(port)
        tries: dict[str, int] = {}
        path = visitor.begin(org.tenant)
        tries["another state"] = visitor.end(re.sub("state=[^&]+", "state=x", path))
        tries["a state that was refused once"] = visitor.end(path)
        tries["no state"] = visitor.end(re.sub("&state=[^&]+", "", visitor.begin(org.tenant)))
        tries["no cookie"] = visitor.end(visitor.begin(org.tenant), cookie="")
        path, stolen = visitor.begin(org.tenant), foreign.begin(org.tenant)
        tries["another browser's cookie"] = visitor.end(path, cookie=foreign.cookie)
        code = re.search("code=([^&]+)", stolen)
        path = visitor.begin(org.tenant)
        tries["another login's code"] = visitor.end(re.sub("code=[^&]+", code[0] if code else "", path))
        tries["no code"] = visitor.end(re.sub("code=[^&]+", "error=access_denied", visitor.begin(org.tenant)))
        path = visitor.begin(org.tenant)
        kept = visitor.cookie
        assert visitor.end(path) == 200
        tries["the same again"] = visitor.end(path, cookie=kept)
        again = visitor.begin(org.tenant)
        tries["the code again in another login"] = visitor.end(
            re.sub("code=[^&]+", path[path.index("code=") : path.index("&")], again)
        )
        tries["nothing"] = Browser(port).end("/login/oidc")
        tokens = {
            "another key": give(strange),
            "unknown kid": give(strange, "k9"),
            "expired": give(exp=time.time() - 3600),
            "no end": give(exp=None),
            "the API's audience": give(aud=AUDIENCE),
            "another audience": give(aud="someone-else"),
            "for another party": give(aud=[CLIENT, "other"], azp="other"),
            "another issuer": give(iss="https://else.example"),
            "another nonce": give(nonce="x"),
            "no nonce": give(nonce=None),
            "a nonce that is no text": give(nonce=["x"]),
            "nobody's subject": give(sub="mallory"),
            "no subject": give(sub=None),
            "no token": lambda nonce: "",
            "none": lambda nonce: jwt.encode({"iss": provider.issuer, "aud": CLIENT, "sub": "ada", "exp": time.time() + 600, "nonce": nonce}, "", "none"),
        }  # fmt: skip
        tries |= {what: attempt(token) for what, token in tokens.items()}
        tries |= {f"organisation {at}": attempt(plain, at) for at in (other.tenant, "no-id", "")}
        assert {what: status for what, status in tries.items() if status != 401} == {}
        started = visitor.send("POST", "/login/oidc", {}, origin="https://evil.example")[0]
        assert started == 403 and attempt() == 200
    with serve(postgres.database, OidcProvider(provider.issuer, AUDIENCE), page=MemberPage) as port:
        visitor = Browser(port)
        assert "login/oidc" not in visitor.get("/login")[1] and visitor.end("/login/oidc") == 404
        assert visitor.send("POST", "/login/oidc", {})[0] == 404
    provider.server.shutdown()
    with serve(postgres.database, OidcProvider("http://127.0.0.1:9", AUDIENCE, CLIENT), page=MemberPage) as port:
        # A place is free again every second, so a slow machine gets a few more through.
        begun = [Browser(port).send("POST", "/login/oidc", {})[0] for _ in range(120)]
        assert set(begun[:60]) == {400} and set(begun) == {400, 429}, (
            "a provider that is away is said to be, and not asked for ever"
        )


def test_a_browser_goes_over_the_provider_and_back(postgres: Postgres, provider: Provider) -> None:
    need_browser()
    with serve(postgres.database, OidcProvider(provider.issuer, AUDIENCE, CLIENT), page=MemberPage) as port:
        org = Organisation(postgres, port)
        org.admin("POST", "/v1/members", {"issuer": provider.issuer, "subject": "ada", "role": "member"})
        org.admin("POST", "/v1/stores", {"name": "main"})
        with browsing() as browser:
            page = browser.new_page()
            # Another site than the provider's: strict cookies do not come along from there.
            page.goto(f"http://localhost:{port}/login?organisation={org.tenant}")
            assert find_violations(page) == []
            page.get_by_role("button", name="Log in with 127.0.0.1").click()
            page.get_by_role("link", name="main").click()
            page.get_by_text("No memories yet").wait_for()
            assert [at["name"] for at in page.context.cookies()] == [COOKIE]
