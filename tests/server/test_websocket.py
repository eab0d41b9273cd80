"""WebSockets on the server that `toolyard serve` runs: who may connect, and what ends a connection."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import aiohttp
import pytest

from server.test_bounded_http import ShortTimeoutHttp
from surfaces.api_client import build_key, build_yard
from surfaces.http_server import serve_app
from surfaces.openai.sockets import open_talk, refuse_handshake
from toolyard.core.store import Key
from toolyard.server.bounded_http import BoundedHttp
from toolyard.server.serving import build_uvicorn_config
from toolyard.testing import say

HANDSHAKE = (
    b"GET /v1/responses HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)
OTHER_PATHS = ("/", "/mcp", "/healthz", "/conversations/x/events", "/v1/responses/", "/v1/responses/x", "/v1/models")


@asynccontextmanager
async def serve_bounded(*keys: Key, protocol: type[BoundedHttp] = BoundedHttp) -> AsyncGenerator[str, None]:
    async with asyncio.timeout(60), build_yard(lambda _: say("ok"), keys=keys) as yard:
        app = yard.asgi()
        async with serve_app(app, build_uvicorn_config(app, protocol)) as url:
            yield url


async def send_raw(url: str, data: bytes) -> bytes:
    """Return everything that comes back for these bytes, until the server hangs up."""
    reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(url).port)
    writer.write(data)
    answer = b""
    try:
        while piece := await reader.read(65536):
            answer += piece
    except ConnectionResetError:
        pass
    finally:
        writer.close()
    return answer


async def test_a_connection_outlives_the_time_that_a_request_may_take_to_arrive() -> None:
    async with serve_bounded(protocol=ShortTimeoutHttp) as url, open_talk(url) as talk:
        # The timer of a connection that was opened later has run out: so would have one of the WebSocket.
        assert (await send_raw(url, b"")).startswith(b"HTTP/1.1 408")
        assert (await talk.create())[-1]["type"] == "response.completed"


async def test_a_connection_that_has_served_a_request_can_become_a_websocket() -> None:
    async with serve_bounded(protocol=ShortTimeoutHttp) as url, aiohttp.ClientSession() as session:
        async with session.get(f"{url}/healthz") as response:
            await response.read()
        async with session.ws_connect(f"{url}/v1/responses") as connection:
            assert (await send_raw(url, b"")).startswith(b"HTTP/1.1 408")
            await connection.send_json({"type": "response.create", "model": "default", "input": "Hello"})
            assert (await connection.receive_json())["type"] == "response.created"


async def test_a_handshake_behind_a_request_that_is_still_answered_is_cut_off() -> None:
    async with serve_bounded() as url:
        answer = await send_raw(url, b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" + HANDSHAKE)
        assert b" 101 " not in answer
        async with open_talk(url) as talk:
            assert (await talk.create())[-1]["type"] == "response.completed"


async def test_a_key_is_needed_and_other_paths_have_no_websocket() -> None:
    async with serve_bounded(build_key("ann")) as url:
        assert await refuse_handshake(url) == 401
        assert await refuse_handshake(url, authorization="Bearer wrong") == 401
        for path in OTHER_PATHS:
            assert await refuse_handshake(url, path) == 401, path
            assert await refuse_handshake(url, path, authorization="Bearer ann") == 404, path
        # With keys a page of another origin needs one as well, which a browser does not send by itself.
        assert await refuse_handshake(url, origin="https://elsewhere.example") == 401
        async with open_talk(url, authorization="Bearer ann") as talk:
            assert (await talk.create())[-1]["type"] == "response.completed"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "https://elsewhere.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://["}, 403),
        ({"host": "elsewhere.example"}, 403),
        ({"x-user": "guest"}, 403),
    ],
)
async def test_without_keys_foreign_pages_names_and_users_are_refused(headers: dict[str, str], status: int) -> None:
    async with serve_bounded() as url:
        assert await refuse_handshake(url, **headers) == status
        for path in OTHER_PATHS:
            assert await refuse_handshake(url, path) == 404, path


async def test_a_page_of_the_server_itself_may_connect_without_keys() -> None:
    async with serve_bounded() as url, open_talk(url, origin=url) as talk:
        assert (await talk.create())[-1]["type"] == "response.completed"
