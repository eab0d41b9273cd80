"""Two credentials in one request: those of another service are ignored, and those of this server must be valid."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import jwt
import pytest

from surfaces.api_client import build_key
from surfaces.http_server import SocketClient, connect_client
from surfaces.openai.sockets import open_talk, refuse_handshake
from toolyard import Yard
from toolyard.app import Wiring
from toolyard.engine.access.refusals import MAX_WRONG_KEYS
from toolyard.server.config import JwtConfig
from toolyard.server.jwt import verifier
from toolyard.testing import Scripted, say

SECRET = "s" * 32
ISSUER = "https://id.example"
LATER = 9_999_999_999


def make_token(user: str, *, secret: str = SECRET, expires_at: int = LATER, **claims: str) -> str:
    return jwt.encode({"sub": user, "exp": expires_at, **claims}, secret, "HS256")


OWN = make_token("jo", iss=ISSUER)
EXPIRED = make_token("jo", iss=ISSUER, expires_at=1)
FORGED = make_token("jo", iss=ISSUER, secret="x" * 32)
FOREIGN = make_token("jo", iss="https://other.example", secret="o" * 32)


@asynccontextmanager
async def open_client(issuer: str = ISSUER) -> AsyncGenerator[SocketClient]:
    keys = [build_key("ann"), build_key("bob"), build_key("old", expires_at=1.0), build_key("a.dotted.secret")]
    rules = JwtConfig(algorithm="HS256", secret=SECRET, issuer=issuer)
    model = Scripted(lambda request: say("ok"))
    wiring = Wiring(model=model, keys=keys, verify=verifier(rules), token_issuer=issuer)
    async with asyncio.timeout(60), Yard.from_wiring(wiring) as yard, connect_client(yard) as http:
        yield http


async def find_user(http: SocketClient, bearer: str, key: str) -> object:
    """Return the user that a request with both credentials is made by, or the status of its refusal."""
    status, body, _ = await http.ask("GET", "/me", authorization=f"Bearer {bearer}", x_api_key=key)
    return body["user"] if status == 200 else status


@pytest.mark.parametrize(
    ("bearer", "key", "user"),
    [
        ("a-session-of-another-service", "ann", "ann"),
        (FOREIGN, "ann", "ann"),
        ("x.y.z", "ann", "ann"),
        ("ann", "a-session-of-another-service", "ann"),
        ("ann", FOREIGN, "ann"),
        (OWN, "wrong", "jo"),
        (FOREIGN, OWN, "jo"),
        ("ann", "bob", "ann"),
        (OWN, "ann", "jo"),
        ("wrong", "a.dotted.secret", "a.dotted.secret"),
        (EXPIRED, "ann", 401),
        (FORGED, "ann", 401),
        ("ann", EXPIRED, 401),
        ("ann", FORGED, 401),
        ("old", "ann", 401),
        ("ann", "old", 401),
        ("wrong", "wrong too", 401),
        (FOREIGN, "wrong", 401),
    ],
)
async def test_a_foreign_credential_is_ignored_and_one_of_this_server_has_to_be_valid(
    bearer: str, key: str, user: object
) -> None:
    async with open_client() as http:
        assert await find_user(http, bearer, key) == user


async def test_without_a_configured_issuer_every_token_is_one_of_this_server() -> None:
    async with open_client(issuer="") as http:
        assert await find_user(http, FOREIGN, "ann") == 401
        assert await find_user(http, "a-session-of-another-service", "ann") == "ann"


async def test_a_wrong_value_beside_a_valid_one_counts_towards_the_limit() -> None:
    async with open_client() as http:
        for number in range(MAX_WRONG_KEYS):
            assert await find_user(http, f"guess-{number}", "ann") == "ann"
        assert (await http.ask("GET", "/tools", x_api_key="wrong"))[0] == 429
        assert await find_user(http, "wrong", "ann") == "ann"
        assert (await http.ask("GET", "/tools", x_api_key="ann"))[0] == 200


async def test_each_of_two_wrong_values_counts() -> None:
    async with open_client() as http:
        for number in range(MAX_WRONG_KEYS // 2):
            assert await find_user(http, f"guess-{number}", f"other-{number}") == 401
        assert (await http.ask("GET", "/tools", x_api_key="wrong"))[0] == 429


async def test_valid_credentials_are_never_counted() -> None:
    async with open_client() as http:
        for _ in range(MAX_WRONG_KEYS + 1):
            assert await find_user(http, OWN, "ann") == "jo"
        assert (await http.ask("GET", "/tools", x_api_key="wrong"))[0] == 401


async def test_a_websocket_has_the_same_rules() -> None:
    async with open_client() as http:
        assert await refuse_handshake(http.url, authorization=f"Bearer {EXPIRED}", **{"x-api-key": "ann"}) == 401
        async with open_talk(http.url, authorization="Bearer another-service", x_api_key="ann") as talk:
            assert (await talk.create())[-1]["type"] == "response.completed"
