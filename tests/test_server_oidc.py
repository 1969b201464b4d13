"""OpenID Connect against a provider of our own on loopback: who gets in, and every token that must not."""

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from memdir.errors import SettingsError
from memdir.interfaces.server.access import OidcProvider
from postgres import Postgres
from serving import Client, Organisation, serve

AUDIENCE = "memdir-server"


class Provider:
    """A real OpenID provider as far as a resource server sees one: discovery, keys, signed tokens."""

    def __init__(self) -> None:
        self.keys: dict[str, Any] = {"k1": rsa.generate_private_key(65537, 2048)}
        self.more: list[dict[str, Any]] = []
        self.fetched = 0
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                provider.fetched += 1
                found = provider.discover() if "openid-configuration" in self.path else {"keys": provider.list_keys()}
                data = json.dumps(found).encode()
                self.send_response(200)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.issuer = f"http://127.0.0.1:{self.server.server_port}"
        self.claimed = self.issuer
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def discover(self) -> dict[str, str]:
        return {"issuer": self.claimed, "jwks_uri": f"{self.issuer}/keys"}

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
    import base64
    import hashlib
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
        with pytest.raises(Exception, match="no valid credential"):
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
    with pytest.raises(SettingsError, match="another"):
        OidcProvider(provider.issuer, "a").check()
    provider.claimed = provider.issuer
    provider.more = [{"kty": "oct", "k": "c2VjcmV0", "kid": "shared"}, {"kty": "nonsense"}, {}]
    made = OidcProvider(provider.issuer, AUDIENCE)
    made.check()
    with pytest.raises(Exception, match="no valid credential"):
        made.read_claims(
            jwt.encode(
                {"sub": "x", "exp": time.time() + 9, "aud": AUDIENCE, "iss": provider.issuer},
                "secret" * 8,
                "HS256",
                headers={"kid": "shared"},
            )
        )
