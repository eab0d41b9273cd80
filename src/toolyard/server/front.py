"""The application that uvicorn serves: the port is open before the yard is, and connections end when the server leaves.

Before the yard is open it answers the probes. Other requests wait for a while, as a load balancer that does not probe
sends them too early; then they are refused with what the server waits for.
"""

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from toolyard.core.errors import StoreDown, Unavailable
from toolyard.hosting import AsgiApp, Message
from toolyard.surfaces.http.errors import build_error_response
from toolyard.surfaces.server_info.routes import build_health

FIRST_DELAY_S = 0.2
MAX_DELAY_S = 2.0
MAX_HOLD_S = 10.0
MAX_HELD = 256
"""How long, and how many, requests wait for a server that is starting. What is more is refused at once."""
STARTING = "the server is starting"
_CLOSE = (b"connection", b"close")
_log = logging.getLogger("toolyard.server")
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
T = TypeVar("T")


class FrontApp:
    """Passes requests on to the application that `open` gets; until then it says why it cannot."""

    def __init__(self) -> None:
        self._app: AsgiApp | None = None
        self._opened = asyncio.Event()
        self._held = 0
        self._problem = STARTING
        self.is_leaving = False
        """Set when the server is about to stop: each connection ends with its next response, so that its client, which
        may be a load balancer, opens the next one at another replica."""

    async def open(self, app: AsgiApp) -> None:
        """Pass requests on from now on."""
        # The first call builds the surfaces, which takes long. CorrelationMiddleware ignores what is not HTTP.
        await app({"type": "warm up"}, _receive_nothing, _send_nothing)
        self._app = app
        self._opened.set()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if self._app is None and scope.get("path") not in ("/healthz", "/readyz") and self._held < MAX_HELD:
            await self._hold()
        if self._app is None:
            await self._refuse(scope, send)
        elif self.is_leaving and scope["type"] == "http":
            await self._app(scope, receive, _build_closing_send(send))
        else:
            await self._app(scope, receive, send)

    async def _hold(self) -> None:
        self._held += 1
        try:
            async with asyncio.timeout(MAX_HOLD_S):
                await self._opened.wait()
        except TimeoutError:
            pass
        finally:
            self._held -= 1

    async def _refuse(self, scope: Message, send: Send) -> None:
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1013, "reason": self._problem})
        elif scope["path"] == "/healthz":
            await _respond(send, 200, msgspec.json.encode(build_health()), {})
        else:
            correlation_id = f"trace_{secrets.token_hex(10)}"
            status, body, headers = build_error_response(Unavailable(self._problem), correlation_id)
            await _respond(send, status, msgspec.json.encode(body), {**headers, "x-correlation-id": correlation_id})

    async def wait_for_store(self, work: Callable[[], Awaitable[T]], max_s: float) -> T:
        """Do the work that opens the store, again and again while the store cannot be reached, for `max_s` at most."""
        loop = asyncio.get_running_loop()
        began, delay_s = loop.time(), FIRST_DELAY_S
        while True:
            try:
                opened = await work()
                break
            except StoreDown as error:
                if not error.may_pass or loop.time() - began + delay_s > max_s:
                    raise
                if self._problem == STARTING:
                    _log.warning("%s; the server waits for it, not ready, for up to %g s", error, max_s)
                self._problem = f"{STARTING} and waits for its store: {error.reason}"
            await asyncio.sleep(delay_s)
            delay_s = min(2 * delay_s, MAX_DELAY_S)
        if self._problem != STARTING:
            _log.warning("the store can be reached after %.1f s", loop.time() - began)
            self._problem = STARTING
        return opened


def _build_closing_send(send: Send) -> Send:
    async def send_and_close(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = message.get("headers", ())
            assert isinstance(headers, list | tuple)
            message = {**message, "headers": [*headers, _CLOSE]}
        await send(message)

    return send_and_close


async def _respond(send: Send, status: int, body: bytes, headers: dict[str, str]) -> None:
    encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
    length = (b"content-length", str(len(body)).encode())
    head = [(b"content-type", b"application/json"), length, _CLOSE, *encoded]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": body})


async def _receive_nothing() -> Message:
    return {}


async def _send_nothing(message: Message) -> None:
    pass
