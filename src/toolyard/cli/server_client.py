"""A running server, as the commands talk to it: requests, answers and streams over HTTP. It shows nothing."""

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
"""A stream is alive while something comes now and then: the server sends a heartbeat every 15 s."""
_ERRORS_BY_STATUS: Mapping[int, type[ToolyardError]] = {
    401: Unauthenticated,
    404: NotFound,
    409: Refused,
    503: Unavailable,
}

T = TypeVar("T")


class _ServerErrorBody(msgspec.Struct):
    """What an error says."""

    error: str = ""


@dataclass(frozen=True, slots=True)
class ServerClient:
    url: str
    session: aiohttp.ClientSession

    async def request(self, method: str, path: str, kind: type[T], body: object = None) -> T:
        """The answer to a request. Raises ToolyardError with what the server says against it."""
        async with self._send(method, path, body) as response:
            return _decode_body(await response.read(), kind, self.url)

    async def start_run(self, path: str, body: object) -> None:
        """Start a stream and leave it to others: a run does not stop when nobody watches."""
        async with self._send("POST", path, body, accept="text/event-stream"):
            pass

    async def stream_events(self, path: str, after: str) -> AsyncGenerator[tuple[str, bytes], None]:
        """The id and the body of each event after a place, until the server ends the stream."""
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
        sent = {name.replace("_", "-"): value for name, value in headers.items() if value}
        data = None if body is None else msgspec.json.encode(body)
        timeout = aiohttp.ClientTimeout(
            sock_connect=5, sock_read=MAX_SILENCE_S if "accept" in headers else ANSWER_TIMEOUT_S
        )
        kind = {"content-type": "application/json"} if data is not None else {}
        try:
            async with self.session.request(
                method, f"{self.url}{path}", data=data, headers={**kind, **sent}, timeout=timeout
            ) as response:
                if response.status >= 400:
                    told = _read_error(await response.read()) or f"the server answered {response.status}"
                    if response.status == 401:
                        told = f"{told}; name a key with --key or TOOLYARD_KEY"
                    raise _ERRORS_BY_STATUS.get(response.status, ToolyardError)(told)
                yield response
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise Unavailable(f"no server answers at {self.url}: {str(error) or type(error).__name__}") from None


@asynccontextmanager
async def connect(url: str, key: str) -> AsyncGenerator[ServerClient, None]:
    url = url.rstrip("/")
    if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
        raise UsageError(f"{url!r} is not the address of a server: write http://127.0.0.1:8080")
    if not key.isascii() or not key.isprintable():
        raise UsageError("the key holds characters that no key has")
    headers = {"authorization": f"Bearer {key}"} if key else {}
    connector = aiohttp.TCPConnector(force_close=True)  # between two messages a person may think for an hour
    async with aiohttp.ClientSession(connector=connector, headers=headers) as session:
        yield ServerClient(url, session)


@asynccontextmanager
async def open_server_or_store(store: str, url: str, key: str) -> AsyncGenerator[ServerClient | Store, None]:
    """The server that was named, or the store itself, or the server that has the store. One process owns a store."""
    if url:
        async with connect(url, key) as server:
            yield server
        return
    try:
        opened = await open_store(store)
    except Misconfigured as error:
        async with connect(find_owner_url(store, error), key) as server:
            yield server
        return
    try:
        yield opened
    finally:
        await opened.close()


def find_owner_url(store: str, refusal: Misconfigured) -> str:
    """Where the server is that has the store which was refused to us. Raises the refusal if there is none."""
    address, database = read_published_address(store), parse_database_path(store)
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
