"""The commands' HTTP client for a running server: requests, responses and event streams."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

import aiohttp
import msgspec

from toolyard.app import open_store
from toolyard.cli.common import UsageError
from toolyard.core.errors import Misconfigured, NotFound, Refused, ToolyardError, Unauthenticated, Unavailable
from toolyard.core.store import Store
from toolyard.server.address import parse_database_path, read_published_address

ANSWER_TIMEOUT_S = 30.0
MAX_SILENCE_S = 60.0
"""A stream without a byte for this long is taken for dead: the server sends a heartbeat every 15 s."""
_ERRORS_BY_STATUS: Mapping[int, type[ToolyardError]] = {
    401: Unauthenticated,
    404: NotFound,
    409: Refused,
    503: Unavailable,
}

T = TypeVar("T")


class _ServerErrorBody(msgspec.Struct):
    error: str = ""


@dataclass(frozen=True, slots=True)
class ServerClient:
    """A server's address, and the HTTP session to use for it. `connect` makes one."""

    url: str
    session: aiohttp.ClientSession

    async def request(self, method: str, path: str, kind: type[T], body: object = None) -> T:
        """Send a request and return the decoded response. Raise ToolyardError with the server's error text."""
        async with self._send(method, path, body) as response:
            return _decode_body(await response.read(), kind, self.url)

    async def start_run(self, path: str, body: object) -> None:
        """Start a run, and close its stream at once: a run continues when no client reads it."""
        async with self._send("POST", path, body, accept="text/event-stream"):
            pass

    async def stream_events(self, path: str, after: str) -> AsyncGenerator[tuple[str, bytes], None]:
        """Yield the id and the body of each event after the event `after`, until the server ends the stream."""
        last = after
        async with self._send("GET", path, accept="text/event-stream", last_event_id=after) as response:
            async for line in response.content:
                if line.startswith(b"id: "):
                    last = line[4:].decode().strip()
                elif line.startswith(b"data: "):
                    yield last, line[6:].strip()

    @asynccontextmanager
    async def _send(
        self, method: str, path: str, body: object = None, **headers: str
    ) -> AsyncGenerator[aiohttp.ClientResponse, None]:
        sent_headers = {name.replace("_", "-"): value for name, value in headers.items() if value}
        data = None if body is None else msgspec.json.encode(body)
        timeout = aiohttp.ClientTimeout(
            sock_connect=5, sock_read=MAX_SILENCE_S if "accept" in headers else ANSWER_TIMEOUT_S
        )
        content_type = {"content-type": "application/json"} if data is not None else {}
        try:
            async with self.session.request(
                method, f"{self.url}{path}", data=data, headers={**content_type, **sent_headers}, timeout=timeout
            ) as response:
                if response.status >= 400:
                    error_text = _read_error(await response.read()) or f"the server answered {response.status}"
                    if response.status == 401:
                        error_text = f"{error_text}; name a key with --key or TOOLYARD_KEY"
                    raise _ERRORS_BY_STATUS.get(response.status, ToolyardError)(error_text)
                yield response
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise Unavailable(f"no server answers at {self.url}: {str(error) or type(error).__name__}") from None


@asynccontextmanager
async def connect(url: str, key: str) -> AsyncGenerator[ServerClient, None]:
    """Open a client for the server at this address. Nothing is sent before its first request."""
    url = url.rstrip("/")
    if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
        raise UsageError(f"{url!r} is not the address of a server: write http://127.0.0.1:8080")
    if not key.isascii() or not key.isprintable():
        raise UsageError("the key contains characters that no key has")
    headers = {"authorization": f"Bearer {key}"} if key else {}
    # No kept-alive connections: between two messages an hour may pass, and the server has closed its end by then.
    connector = aiohttp.TCPConnector(force_close=True)
    async with aiohttp.ClientSession(connector=connector, headers=headers) as session:
        yield ServerClient(url, session)


@asynccontextmanager
async def open_server_or_store(store: str, url: str, key: str) -> AsyncGenerator[ServerClient | Store, None]:
    """Open the server at `url`; without a url, the store, or else the server that has the store open.

    Only one process can have a store open.
    """
    if url:
        async with connect(url, key) as server:
            yield server
        return
    try:
        opened_store = await open_store(store)
    except Misconfigured as error:
        async with connect(find_owner_url(store, error), key) as server:
            yield server
        return
    try:
        yield opened_store
    finally:
        await opened_store.close()


def find_owner_url(store: str, refusal: Misconfigured) -> str:
    """Return the address of the server that has the store open. Raise `refusal` if there is no such server."""
    address, database = read_published_address(store), parse_database_path(store)
    # A server that was killed leaves its address behind. The lock file names the process that has the store open now:
    # only if both name the same process is the address up to date.
    if address is None or database is None or _read_owner_pid(database) != str(address.pid):
        raise refusal
    return address.url


def _read_owner_pid(database: Path) -> str:
    try:
        return Path(f"{database}.lock").read_text("ascii").strip()
    except (OSError, ValueError):
        return ""


def _read_error(body: bytes) -> str:
    try:
        return msgspec.json.decode(body, type=_ServerErrorBody).error
    except msgspec.DecodeError:
        return ""


def _decode_body(body: bytes, kind: type[T], url: str) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError:
        raise Unavailable(f"what answers at {url} is not a Toolyard server, or one of another version") from None
