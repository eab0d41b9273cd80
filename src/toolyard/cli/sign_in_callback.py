"""Listen on the loopback interface for the browser that an authorization server redirects after a sign-in."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from urllib.parse import parse_qs, urlsplit

from toolyard.cli.usage import UsageError
from toolyard.core.errors import ToolyardError
from toolyard.core.settings.network.addresses import is_loopback

MAX_WAIT_S = 600.0
READ_S = 5.0
MAX_HEAD_BYTES = 32 * 1024
PATH = "/callback"
ANSWER_PARAMETERS = ("state", "code", "iss", "error", "error_description")


class CallbackListener:
    """An HTTP endpoint that waits for the redirect. It refuses requests without the `state` of this sign-in."""

    def __init__(self, port: int) -> None:
        self.address = f"http://127.0.0.1:{port}{PATH}"
        self._answer: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()
        self._state = asyncio.get_running_loop().create_future()

    async def wait_for_answer(self, state: str) -> dict[str, str]:
        """Return the parameters of the redirect with this `state`. Raise ToolyardError if none comes in time."""
        self._state.set_result(state)
        try:
            async with asyncio.timeout(MAX_WAIT_S):
                return await self._answer
        except TimeoutError:
            raise ToolyardError(f"nobody signed in within {MAX_WAIT_S / 60:.0f} minutes") from None

    async def handle_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            async with asyncio.timeout(READ_S):
                head = await reader.readuntil(b"\r\n\r\n")
                status, text = await self._handle_request(head.split(b"\r\n", 1)[0].decode("latin-1"))
                body = f"<!doctype html><meta charset=utf-8><title>Toolyard</title><p>{text}</p>".encode()
                writer.write(
                    f"HTTP/1.1 {status}\r\ncontent-type: text/html\r\ncontent-length: {len(body)}\r\n"
                    "cache-control: no-store\r\nreferrer-policy: no-referrer\r\nconnection: close\r\n\r\n".encode()
                    + body
                )
                await writer.drain()
        writer.close()

    async def _handle_request(self, line: str) -> tuple[str, str]:
        method, _, target_and_version = line.partition(" ")
        target = urlsplit(target_and_version.partition(" ")[0])
        if method != "GET" or target.path != PATH:
            return "404 Not Found", "There is nothing here."
        answer = {name: values[0] for name, values in parse_qs(target.query).items() if name in ANSWER_PARAMETERS}
        # The browser may come before the state is known, so this waits for it. The future is shared by all
        # connections: without the shield, a connection that times out would cancel it for the others.
        if answer.get("state") != await asyncio.shield(self._state):
            return "400 Bad Request", "This is not the answer that is waited for."
        if not self._answer.done():
            self._answer.set_result(answer)
        return "200 OK", "Thank you. You can close this page, and go on in the terminal."


@asynccontextmanager
async def listen_for_callback(port: int) -> AsyncGenerator[CallbackListener]:
    """Listen on a port of the loopback interface, 0 for a free one. Raise UsageError if it is taken."""
    listener: CallbackListener

    async def handle_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await listener.handle_connection(reader, writer)

    try:
        server = await asyncio.start_server(handle_connection, "127.0.0.1", port, limit=MAX_HEAD_BYTES)
    except OSError as error:
        raise UsageError(f"cannot listen on port {port}: {error.strerror}") from None
    listener = CallbackListener(server.sockets[0].getsockname()[1])
    async with server:
        yield listener


def require_browser_url(address: str) -> str:
    """Return the address if a browser may open it: it comes from the server. Raise ToolyardError otherwise."""
    parts = urlsplit(address)
    if address.isprintable() and (
        parts.scheme == "https" or (parts.scheme, is_loopback(parts.hostname or "")) == ("http", True)
    ):
        return address
    raise ToolyardError(f"the page to sign in at is not a web page over https: {address[:100]!r}")
