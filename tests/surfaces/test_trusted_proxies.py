"""A server behind a reverse proxy: whom it counts failed sign-ins for, whom it logs, and where its links lead."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from aiohttp import ClientSession

from surfaces.api_client import build_key
from surfaces.http_server import SocketClient, serve_app
from toolyard import Yard, tool
from toolyard.app import Wiring
from toolyard.engine.access.sessions import MAX_FAILED_PER_ADDRESS
from toolyard.server.serving import build_uvicorn_config
from toolyard.testing import Scripted, call

PROXY = {"trusted_proxies": ["127.0.0.0/8"]}
"""The tests' own connections are those of the proxy."""


@tool(approval="ask")
def order(item: str) -> str:
    """Order something."""
    return item


@asynccontextmanager
async def open_client(**options: object) -> AsyncGenerator[SocketClient]:
    """Serve as `toolyard serve` does: uvicorn itself must not read the headers of proxies either."""
    keys = [build_key("ann")]
    wiring = Wiring(model=Scripted(lambda request: call("order", item="x")), tools=[order], keys=keys, **options)  # pyright: ignore[reportArgumentType]
    async with (
        asyncio.timeout(30),
        Yard.from_wiring(wiring) as yard,
        serve_app(yard.asgi(), build_uvicorn_config(yard.asgi())) as url,
        ClientSession() as session,
    ):
        yield SocketClient(session, url, {})


async def sign_in(http: SocketClient, key: str, **headers: str) -> int:
    status, _, _ = await http.ask("POST", "/session", {"key": key}, origin=http.url, **headers)
    return status


async def guess_keys(http: SocketClient, forwarded_for: str) -> set[int]:
    """Guess more often than one address may, and return the statuses of the answers."""
    # The allowance of a minute grows back all the time, so that more than its number is needed to use it up.
    numbers = range(MAX_FAILED_PER_ADDRESS + 20)
    return {await sign_in(http, f"{number} x", x_forwarded_for=forwarded_for.format(number)) for number in numbers}


async def test_failed_sign_ins_are_counted_for_the_client_that_the_proxy_names() -> None:
    async with open_client(**PROXY) as http:
        # What the attacker sends stands to the left of what the proxy appends.
        assert await guess_keys(http, "198.51.100.{}, 203.0.113.5") == {401, 429}
        assert await sign_in(http, "ann", x_forwarded_for="203.0.113.6") == 200
        assert await guess_keys(http, "198.51.100.{}") == {401}


async def test_forged_headers_of_a_peer_that_is_no_proxy_change_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async with open_client(trusted_proxies=["10.0.0.0/8"]) as http:
        with caplog.at_level(logging.INFO, "toolyard.http"):
            assert await guess_keys(http, "203.0.113.{}") == {401, 429}
        assert "client=127.0.0.1" in caplog.text and "203.0.113" not in caplog.text
        link = await find_link(http, host="tools.example", x_forwarded_proto="https")
        assert "http://tools.example/#/chat/" in link


@pytest.mark.parametrize(("trusted", "client"), [(["127.0.0.1"], "203.0.113.5"), ([], "127.0.0.1")])
async def test_the_log_names_the_client(trusted: list[str], client: str, caplog: pytest.LogCaptureFixture) -> None:
    async with open_client(trusted_proxies=trusted) as http:
        with caplog.at_level(logging.INFO, "toolyard.http"):
            await http.ask("GET", "/me", x_api_key="ann", x_forwarded_for="203.0.113.5")
    assert f"client={client} " in caplog.text


async def find_link(http: SocketClient, **headers: str) -> str:
    """Return the text about a call that waits, with the link to its conversation."""
    body = {"messages": [{"role": "user", "content": "order"}]}
    _, answer, _ = await http.ask("POST", "/v1/chat/completions", body, x_api_key="ann", **headers)
    return str(answer)


async def test_links_lead_to_where_the_proxy_is_reached() -> None:
    async with open_client(**PROXY) as http:
        assert "https://tools.example/#/chat/" in await find_link(http, host="tools.example", x_forwarded_proto="https")
        assert "http://tools.example/#/chat/" in await find_link(http, host="tools.example", x_forwarded_proto="gopher")
