"""Guessing keys: wrong ones are answered more and more seldom, and right ones always."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import jwt
import pytest

from surfaces.api_client import build_key
from surfaces.http_server import SocketClient, connect_client
from surfaces.openai.sockets import open_talk, refuse_handshake
from toolyard import Yard
from toolyard.app import Wiring
from toolyard.engine.access.refusals import MAX_WRONG_KEYS, find_network
from toolyard.server.config import JwtConfig
from toolyard.server.jwt import verifier
from toolyard.stores.memory import MemoryStore
from toolyard.testing import Scripted, say

SECRET = "s" * 32
PROXY = {"trusted_proxies": ["127.0.0.0/8"]}
"""The tests' own connections are those of the proxy."""


@asynccontextmanager
async def open_client(**options: object) -> AsyncGenerator[SocketClient]:
    model = Scripted(lambda request: say("ok"))
    wiring = Wiring(model=model, keys=[build_key("ann")], **options)  # pyright: ignore[reportArgumentType]
    async with asyncio.timeout(30), Yard.from_wiring(wiring) as yard, connect_client(yard) as http:
        yield http


async def guess_keys(http: SocketClient, times: int, **headers: str) -> Counter[int]:
    """Return the statuses of requests with different wrong keys."""
    answers = [await http.ask("GET", "/tools", x_api_key=f"ty_{number}", **headers) for number in range(times)]
    return Counter(status for status, _, _ in answers)


async def test_wrong_keys_are_limited_for_each_address_and_right_ones_never_wait() -> None:
    store = MemoryStore()
    async with open_client(opened_store=store, **PROXY) as http:
        guesser, neighbour = {"x_forwarded_for": "203.0.113.5"}, {"x_forwarded_for": "203.0.113.6"}
        assert await guess_keys(http, MAX_WRONG_KEYS + 40, **guesser) == {401: MAX_WRONG_KEYS, 429: 40}
        status, body, headers = await http.ask("GET", "/tools", authorization="Bearer ty_wrong", **guesser)
        assert (status, body["error_type"]) == (429, "rate_limited") and 1 <= int(headers["retry-after"]) <= 60
        assert (await http.ask("POST", "/v1/responses", {}, x_api_key="wrong", **guesser))[0] == 429
        assert (await http.ask("GET", "/tools", x_api_key="ann", **guesser))[0] == 200
        assert (await http.ask("POST", "/session", {"key": "ann"}, origin=http.url, **guesser))[0] == 200
        assert (await http.ask("GET", "/tools", **guesser))[0] == 401, "no key is no guess"
        assert await guess_keys(http, 1, **neighbour) == {401: 1}
    entries = store._data.audit  # pyright: ignore[reportPrivateUsage]
    assert [(entry.address, entry.count) for entry in entries] == [
        ("203.0.113.5", 1),
        ("203.0.113.6", 1),
        ("203.0.113.5", MAX_WRONG_KEYS + 41),
    ]


async def test_wrong_keys_of_websockets_count_too() -> None:
    async with open_client() as http:
        assert await guess_keys(http, MAX_WRONG_KEYS) == {401: MAX_WRONG_KEYS}
        assert await refuse_handshake(http.url, **{"x-api-key": "wrong"}) == 429
        assert await refuse_handshake(http.url) == 401
        async with open_talk(http.url, x_api_key="ann") as talk:
            assert (await talk.create())[-1]["type"] == "response.completed"


async def test_a_token_that_has_expired_is_told_so_however_many_wrong_keys_came() -> None:
    async with open_client(verify=verifier(JwtConfig(algorithm="HS256", secret=SECRET))) as http:
        assert (await guess_keys(http, MAX_WRONG_KEYS + 1))[429] == 1
        expired = jwt.encode({"sub": "jo", "exp": 1}, SECRET, "HS256")
        status, body, _ = await http.ask("GET", "/tools", authorization=f"Bearer {expired}")
        assert status == 401 and "expired" in str(body["error"])


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("203.0.113.5", "203.0.113.5"),
        ("::ffff:203.0.113.5", "203.0.113.5"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::1%eth0", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::1"),
        ("::1", "::1"),
        ("", ""),
        ("unix:/run/x", "unix:/run/x"),
    ],
)
def test_addresses_of_one_network_are_counted_together(address: str, network: str) -> None:
    assert find_network(address) == network


async def test_somebody_with_a_whole_ipv6_network_has_no_more_attempts_than_with_one_address() -> None:
    async with open_client(**PROXY) as http:
        for number in range(MAX_WRONG_KEYS):
            await guess_keys(http, 1, x_forwarded_for=f"2001:db8:1:2::{number:x}")
        assert await guess_keys(http, 1, x_forwarded_for="2001:db8:1:2:ffff::1") == {429: 1}
        assert await guess_keys(http, 1, x_forwarded_for="2001:db8:1:3::1") == {401: 1}
