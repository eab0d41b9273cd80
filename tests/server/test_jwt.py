"""Tokens: whose they are, and everything that makes one unbelievable."""

import http.server
import json
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from toolyard import Caller
from toolyard.core.errors import Unauthenticated, Unavailable
from toolyard.server.config import JwtConfig
from toolyard.server.jwt import MAX_AGE_S, MIN_FETCH_INTERVAL_S, PublicKeys, verifier

SECRET = "a secret of at least thirty-two bytes"
SHARED_CONFIG = JwtConfig(algorithm="HS256", secret=SECRET, issuer="https://id.example", audience="toolyard")
PRIVATE_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
TIMEOUT_S = 60.0


def make_claims(**more: object) -> dict[str, object]:
    base: dict[str, object] = {
        "sub": "ann",
        "iss": "https://id.example",
        "aud": "toolyard",
        "exp": time.time() + 86_400,
    }
    return {name: value for name, value in {**base, **more}.items() if value is not None}


def make_shared_token(**more: object) -> str:
    return jwt.encode(make_claims(**more), SECRET, "HS256")


def make_signed_token(key: rsa.RSAPrivateKey = PRIVATE_KEY, kid: str = "one", **more: object) -> str:
    return jwt.encode(make_claims(**more), key, "RS256", headers={"kid": kid})


def make_jwks(**keys: rsa.RSAPrivateKey) -> bytes:
    public_keys: list[dict[str, object]] = []
    for kid, key in keys.items():
        public_keys.append(
            {**json.loads(RSAAlgorithm.to_jwk(key.public_key())), "kid": kid, "use": "sig", "alg": "RS256"}
        )
    return json.dumps({"keys": public_keys}).encode()


def test_a_good_token_names_its_caller() -> None:
    token = make_shared_token(roles=["staff", "approver", 7], tenant="acme", division="shoes")
    expected = Caller(user="ann", roles=frozenset({"staff", "approver"}), tenant="acme", division="shoes")
    assert verifier(SHARED_CONFIG)(token) == expected
    assert verifier(SHARED_CONFIG)(make_shared_token(roles="staff approver")).roles == {"staff", "approver"}


def test_claims_can_have_other_names() -> None:
    rules = JwtConfig(algorithm="HS256", secret=SECRET, user_claim="email", roles_claim="scope", tenant_claim="org")
    caller = verifier(rules)(make_shared_token(email="ann@example.org", scope="admin", org="acme"))
    assert caller == Caller(user="ann@example.org", roles=frozenset({"admin"}), tenant="acme")


def test_clocks_may_differ_by_half_a_minute() -> None:
    assert verifier(SHARED_CONFIG)(make_shared_token(exp=time.time() - 20, nbf=time.time() + 20)).user == "ann"


@pytest.mark.parametrize(
    ("token", "expected"),
    [
        (make_shared_token(exp=time.time() - 40), "has expired"),
        (make_shared_token(exp=None), "lacks the claim exp"),
        (make_shared_token(nbf=time.time() + 80_000), "not valid yet"),
        (make_shared_token(iss="https://elsewhere.example"), "by or for somebody else"),
        (make_shared_token(aud="another"), "by or for somebody else"),
        (make_shared_token(aud=None), "lacks the claim aud"),
        (make_shared_token(sub=None), "names no user"),
        (jwt.encode(make_claims(), "another secret of thirty-two bytes!", "HS256"), "signature or its form"),
        (jwt.encode(make_claims(), SECRET * 2, "HS512"), "not signed with HS256"),
        (jwt.encode(make_claims(), "", "none"), "not signed with HS256"),
        ("a.b.c", "signature or its form"),
    ],
)  # fmt: skip
def test_an_unbelievable_token_is_refused_with_the_reason(token: str, expected: str) -> None:
    with pytest.raises(Unauthenticated, match=expected):
        verifier(SHARED_CONFIG)(token)


def test_public_keys_come_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "jwks.json"
    file.write_bytes(make_jwks(one=PRIVATE_KEY))
    verify = verifier(JwtConfig(algorithm="RS256", jwks_file=str(file)))
    assert verify(make_signed_token()).user == "ann"
    for token, expected in (
        (make_signed_token(OTHER_KEY), "signature or its form"),
        (make_signed_token(kid="two"), "not known here"),
        (jwt.encode(make_claims(), SECRET, "HS256", headers={"kid": "one"}), "not signed with RS256"),
        ("x.y.z", "cannot be read"),
    ):
        with pytest.raises(Unauthenticated, match=expected):
            verify(token)


@contextmanager
def serve_jwks(body: bytes) -> Generator[str]:
    class JwksHandler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), JwksHandler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/jwks.json"
        finally:
            server.shutdown()
            thread.join(TIMEOUT_S)


def test_public_keys_come_from_an_address() -> None:
    with serve_jwks(make_jwks(one=PRIVATE_KEY)) as url:
        verify = verifier(JwtConfig(algorithm="RS256", jwks_url=url))
    assert verify(make_signed_token()).user == "ann"  # they are kept: nobody answers there any more


class KeySource:
    """Public keys that a test changes, and that are handed out when the test says so."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.fetch_count = 0
        self.now = 0.0
        self.free = threading.Event()
        self.free.set()

    def fetch(self) -> bytes:
        self.free.wait(TIMEOUT_S)
        self.fetch_count += 1
        if not self.body:
            raise OSError("nobody answers")
        return self.body


def wait_for_fetch() -> None:
    """Wait until nothing is being fetched."""
    for thread in threading.enumerate():
        if thread.name == "toolyard-jwks":
            thread.join(TIMEOUT_S)


def test_a_new_key_is_fetched_beside_the_work_and_a_wrong_one_does_not_make_us_ask_again() -> None:
    source = KeySource(make_jwks(one=PRIVATE_KEY))
    keys = PublicKeys(source.fetch, lambda: source.now)
    keys.find("one")
    source.body = make_jwks(one=PRIVATE_KEY, two=OTHER_KEY)
    with pytest.raises(Unauthenticated):
        keys.find("two")
    source.now += MIN_FETCH_INTERVAL_S + 1
    source.free.clear()
    with pytest.raises(Unavailable):
        keys.find("two")
    keys.find("one")
    source.free.set()
    wait_for_fetch()
    keys.find("two")
    for _ in range(5):
        with pytest.raises(Unauthenticated):
            keys.find("three")
    assert source.fetch_count == 2


def test_keys_that_cannot_be_fetched_again_are_used_on() -> None:
    source = KeySource(make_jwks(one=PRIVATE_KEY))
    keys = PublicKeys(source.fetch, lambda: source.now)
    source.now, source.body = MAX_AGE_S + 1, b""
    assert keys.find("one") is keys.find("one")


def test_without_any_keys_a_token_is_neither_believed_nor_refused() -> None:
    keys = PublicKeys(KeySource(b"").fetch)
    with pytest.raises(Unavailable):
        keys.find("one")


def test_keys_for_something_else_check_no_signature() -> None:
    body = json.loads(make_jwks(one=PRIVATE_KEY))
    body["keys"][0]["use"] = "enc"
    keys = PublicKeys(KeySource(json.dumps(body).encode()).fetch)
    with pytest.raises(Unavailable):
        keys.find("one")
