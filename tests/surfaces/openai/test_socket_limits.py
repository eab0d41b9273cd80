"""What a WebSocket is bounded by, who may use it message by message, and what a message leaves in the log."""

import asyncio
import logging
import socket
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import aiohttp
import pytest

from surfaces.api_client import Json, build_key, build_yard
from surfaces.http_server import RECEIVED_BYTES, serve_app
from surfaces.openai.sockets import open_talk, refuse_handshake
from toolyard.core.conversation.events import ModelDelta, TurnEnded, TurnFailed
from toolyard.core.ports import ModelRequest
from toolyard.core.settings.limits import SocketLimits
from toolyard.server.serving import build_uvicorn_config
from toolyard.surfaces.http.errors import MAX_BODY_BYTES
from toolyard.testing import Script, Scripted, Turn, say

LONG_TEXT = ["x" * 64 * 1024] * 200


def echo(request: ModelRequest) -> Turn:
    """Answer with the last text of the request."""
    return say(str(getattr(request.history[-1], "parts", [""])[0].text))


class GatedModel(Scripted):
    """A scripted model that answers once it is released."""

    def __init__(self, script: Script) -> None:
        super().__init__(script)
        self.entered, self.released = asyncio.Event(), asyncio.Event()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | TurnEnded | TurnFailed, None]:
        self.entered.set()
        await self.released.wait()
        async for delta in super().stream(request):
            yield delta


@asynccontextmanager
async def serve_limited(script: Json = echo, **wiring: object) -> AsyncGenerator[str, None]:
    """Serve a yard as `toolyard serve` does, and yield its address. The block fails after 60 s."""
    async with asyncio.timeout(60), build_yard(script, **wiring) as yard:
        app = yard.asgi()
        async with serve_app(app, build_uvicorn_config(app)) as url:
            yield url


async def read_close(connection: aiohttp.ClientWebSocketResponse) -> tuple[int | None, str]:
    """Return the code and the reason that the server closes a connection with."""
    message = await connection.receive()
    while message.type is aiohttp.WSMsgType.TEXT:
        message = await connection.receive()
    assert message.type is aiohttp.WSMsgType.CLOSE, message
    return message.data, str(message.extra or "")


def get_text(events: list[Json]) -> str:
    return events[-1]["response"]["output"][0]["content"][0]["text"]


async def test_a_message_that_is_too_long_closes_the_connection_with_a_reason() -> None:
    async with serve_limited() as url, open_talk(url) as talk:
        await talk.socket.send_json({"type": "response.create", "input": "x" * 10_000_000})
        assert await read_close(talk.socket) == (1009, f"a message may have {MAX_BODY_BYTES} bytes at most")


async def test_a_message_of_any_length_does_no_harm() -> None:
    async with serve_limited() as url:
        async with open_talk(url) as talk:
            with suppress(ConnectionError):  # it may be reset in the middle of the message
                await talk.socket.send_json({"type": "response.create", "input": "x" * 40_000_000})
            message = await talk.socket.receive()
            assert message.type in (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED, aiohttp.WSMsgType.ERROR)
        async with open_talk(url) as talk:
            assert get_text(await talk.create("still here")) == "still here"


async def test_an_idle_connection_is_closed() -> None:
    async with serve_limited(socket_limits=SocketLimits(max_idle_s=0.1)) as url, open_talk(url) as talk:
        assert await read_close(talk.socket) == (1001, "no message came within 0.1 s")


async def test_a_connection_is_closed_at_its_age_but_not_in_a_response() -> None:
    model = GatedModel(lambda _: say("late"))
    async with serve_limited(model, socket_limits=SocketLimits(max_age_s=0.5)) as url, open_talk(url) as talk:
        await talk.socket.send_json({"type": "response.create", "model": "default", "input": "Hello"})
        await model.entered.wait()
        # Another connection is opened later and reaches its age: so has the first, which still answers.
        async with open_talk(url) as younger:
            assert await read_close(younger.socket) == (1001, "a connection may last 0.5 s: open another one")
        model.released.set()
        assert get_text(await talk.read_events()) == "late"
        assert (await read_close(talk.socket))[0] == 1001


async def test_a_client_that_reads_nothing_is_disconnected() -> None:
    def open_small_socket(address: Json) -> socket.socket:
        small = socket.socket(*address[:3])
        small.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVED_BYTES)
        return small

    limits = SocketLimits(max_send_s=0.1, max_user_connections=1)
    async with (
        serve_limited(Scripted([say(*LONG_TEXT)]), socket_limits=limits) as url,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(socket_factory=open_small_socket)) as session,
        session.ws_connect(f"{url}/v1/responses", max_msg_size=0) as stalled,
    ):
        await stalled.send_json({"type": "response.create", "model": "default", "input": "Hello"})
        # A user may have one connection here: another one is let in as soon as the first is over.
        while True:
            try:
                async with open_talk(url):
                    break
            except aiohttp.WSServerHandshakeError as error:
                assert error.status == 503
                await asyncio.sleep(0.02)


async def test_too_many_connections_are_refused_until_one_is_closed() -> None:
    limits = SocketLimits(max_user_connections=2, max_connections=3)
    keys = [build_key("ann"), build_key("bob")]
    async with serve_limited(socket_limits=limits, keys=keys) as url, AsyncExitStack() as opened:
        for user in ("ann", "ann", "bob"):
            await opened.enter_async_context(open_talk(url, x_api_key=user))
        assert await refuse_handshake(url, **{"x-api-key": "ann"}) == 503
        assert await refuse_handshake(url, **{"x-api-key": "bob"}) == 503
        await opened.aclose()
        async with open_talk(url, x_api_key="ann") as talk:
            assert get_text(await talk.create("again")) == "again"


async def test_messages_that_are_sent_at_once_are_answered_in_order_up_to_a_number() -> None:
    async with serve_limited() as url, open_talk(url) as talk:
        for number in range(5):
            await talk.socket.send_json({"type": "response.create", "model": "default", "input": str(number)})
        assert [get_text(await talk.read_events()) for _ in range(5)] == ["0", "1", "2", "3", "4"]


async def test_more_waiting_messages_than_that_close_the_connection() -> None:
    model, limits = GatedModel(lambda _: say("ok")), SocketLimits(max_waiting_messages=3)
    async with serve_limited(model, socket_limits=limits) as url, open_talk(url) as talk:
        for _ in range(5):
            await talk.socket.send_json({"type": "response.create", "model": "default", "input": "Hello"})
        assert await read_close(talk.socket) == (1008, "3 messages may wait at most")
        model.released.set()


@pytest.mark.parametrize(
    ("message", "param"),
    [
        ("{", None),
        ('{"type": "response.create", "input": "half', None),
        ("5", None),
        ('{"type": 5}', None),
        ('{"type": "session.update"}', "type"),
        ('{"type": "response.create", "background": true, "input": "Hello"}', "background"),
        (b"\xff\xfe", None),
        (b"", None),
        ("[" * 100_000, None),
    ],
)
async def test_garbage_is_an_error_event_and_the_connection_goes_on(message: str | bytes, param: str | None) -> None:
    async with serve_limited() as url, open_talk(url) as talk:
        await (talk.socket.send_bytes(message) if isinstance(message, bytes) else talk.socket.send_str(message))
        (error,) = await talk.read_events()
        assert (error["type"], error["status"], error["param"]) == ("error", 400, param)
        assert get_text(await talk.create("still here")) == "still here"


async def test_a_key_that_is_revoked_answers_no_further_message() -> None:
    async with (
        serve_limited(keys=[build_key("root", "admin", tenant="")]) as url,
        aiohttp.ClientSession(headers={"x-api-key": "root"}) as admin,
    ):
        async with admin.post(f"{url}/keys", json={"name": "guest", "user": "guest"}) as response:
            secret: str = (await response.json())["secret"]
        async with open_talk(url, x_api_key=secret) as talk:
            assert get_text(await talk.create("before")) == "before"
            async with admin.delete(f"{url}/keys/guest") as response:
                assert response.status == 200
            (error,) = await talk.create("after")
            assert (error["status"], error["code"]) == (401, "invalid_api_key")
        assert await refuse_handshake(url, **{"x-api-key": secret}) == 401


async def test_messages_count_as_requests_and_one_too_many_says_when_to_come_again() -> None:
    async with serve_limited(keys=[build_key("ann")], requests_per_minute=2) as url:
        async with open_talk(url, x_api_key="ann") as talk:
            for _ in range(2):
                assert (await talk.create())[-1]["type"] == "response.completed"
            (error,) = await talk.create()
        assert (error["status"], error["code"]) == (429, "rate_limit_exceeded")
        assert int(error["headers"]["retry-after"]) > 0
        async with (
            aiohttp.ClientSession(headers={"x-api-key": "ann"}) as session,
            session.post(f"{url}/v1/responses", json={"input": "Hello"}) as response,
        ):
            assert response.status == 429


async def test_a_trusted_key_speaks_for_a_user_and_no_other_key_does() -> None:
    keys = [build_key("shop", tenant="", trusted=True), build_key("ann", tenant="")]
    async with serve_limited(keys=keys) as url:
        assert await refuse_handshake(url, **{"x-api-key": "ann", "x-user": "guest"}) == 403
        async with open_talk(url, x_api_key="shop", x_user="guest") as talk:
            response_id = (await talk.create())[-1]["response"]["id"]
        for user, status in (("guest", 200), ("other", 404)):
            headers = {"x-api-key": "shop", "x-user": user}
            async with (
                aiohttp.ClientSession(headers=headers) as session,
                session.get(f"{url}/v1/responses/{response_id}") as response,
            ):
                assert response.status == status, user


async def test_each_message_has_a_log_line_and_a_correlation_id_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "toolyard.http")
    async with serve_limited(keys=[build_key("ann")]) as url:
        async with open_talk(url, x_api_key="ann", x_correlation_id="handshake") as talk:
            response_id = (await talk.create())[-1]["response"]["id"]
            await talk.create("again")
            (error,) = await talk.create(background=True)
        async with (
            aiohttp.ClientSession(headers={"x-api-key": "ann"}) as session,
            session.get(f"{url}/traces") as response,
        ):
            traces = {run["correlation_id"]: run["run_id"] for run in (await response.json())["runs"]}
    lines: list[Json] = [record.msg for record in caplog.records if record.name == "toolyard.http"]
    messages = [line for line in lines if line.fields["path"] == "/v1/responses" and line.fields["method"] == "POST"]
    assert [(line.fields["status"], line.fields["user"]) for line in messages] == [(200, "ann")] * 2 + [(400, "ann")]
    first, second, third = (line.correlation_id for line in messages)
    assert len({first, second, third, "handshake"}) == 4
    assert traces.keys() == {first, second} and traces[first].endswith(response_id[-24:])
    assert (error["headers"]["x-request-id"], messages[2].fields["error_type"]) == (third, "validation_error")
    (connection,) = [line for line in lines if line.fields["method"] == "WEBSOCKET"]
    assert (connection.correlation_id, connection.fields["status"]) == ("handshake", 101)
