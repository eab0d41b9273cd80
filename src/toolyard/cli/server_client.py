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
from toolyard.cli.common import Misused
from toolyard.core.errors import Misconfigured, NotFound, Refused, ToolyardError, Unauthenticated, Unavailable
from toolyard.core.store import Store
from toolyard.server.address import database_of, published_address

ANSWER_S = 30.0
SILENCE_S = 60.0
"""A stream is alive while something comes now and then: the server sends a heartbeat every 15 s."""
_KINDS: Mapping[int, type[ToolyardError]] = {401: Unauthenticated, 404: NotFound, 409: Refused, 503: Unavailable}

T = TypeVar("T")


class _Told(msgspec.Struct):
    """What an error says."""

    error: str = ""


@dataclass(frozen=True, slots=True)
class Server:
    url: str
    session: aiohttp.ClientSession

    async def ask(self, method: str, path: str, kind: type[T], body: object = None) -> T:
        """The answer to a request. Raises ToolyardError with what the server says against it."""
        async with self._request(method, path, body) as response:
            return _decoded(await response.read(), kind, self.url)

    async def begin(self, path: str, body: object) -> None:
        """Start a stream and leave it to others: a run does not stop when nobody watches."""
        async with self._request("POST", path, body, accept="text/event-stream"):
            pass

    async def events(self, path: str, after: str) -> AsyncGenerator[tuple[str, bytes], None]:
        """The id and the body of each event after a place, until the server ends the stream."""
        last = after
        async with self._request("GET", path, accept="text/event-stream", last_event_id=after) as response:
            async for line in response.content:
                if line.startswith(b"id: "):
                    last = line[4:].decode().strip()
                elif line.startswith(b"data: "):
                    yield last, line[6:].strip()

    @asynccontextmanager
    async def _request(
        self, method: str, path: str, body: object = None, **headers: str
    ) -> AsyncGenerator[aiohttp.ClientResponse, None]:
        sent = {name.replace("_", "-"): value for name, value in headers.items() if value}
        data = None if body is None else msgspec.json.encode(body)
        timeout = aiohttp.ClientTimeout(sock_connect=5, sock_read=SILENCE_S if "accept" in headers else ANSWER_S)
        kind = {"content-type": "application/json"} if data is not None else {}
        try:
            async with self.session.request(
                method, f"{self.url}{path}", data=data, headers={**kind, **sent}, timeout=timeout
            ) as response:
                if response.status >= 400:
                    told = _said(await response.read()) or f"the server answered {response.status}"
                    if response.status == 401:
                        told = f"{told}; name a key with --key or TOOLYARD_KEY"
                    raise _KINDS.get(response.status, ToolyardError)(told)
                yield response
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise Unavailable(f"no server answers at {self.url}: {str(error) or type(error).__name__}") from None


@asynccontextmanager
async def connected(url: str, key: str) -> AsyncGenerator[Server, None]:
    url = url.rstrip("/")
    if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
        raise Misused(f"{url!r} is not the address of a server: write http://127.0.0.1:8080")
    if not key.isascii() or not key.isprintable():
        raise Misused("the key holds characters that no key has")
    headers = {"authorization": f"Bearer {key}"} if key else {}
    connector = aiohttp.TCPConnector(force_close=True)  # between two messages a person may think for an hour
    async with aiohttp.ClientSession(connector=connector, headers=headers) as session:
        yield Server(url, session)


@asynccontextmanager
async def server_or_store(store: str, url: str, key: str) -> AsyncGenerator[Server | Store, None]:
    """The server that was named, or the store itself, or the server that has the store. One process owns a store."""
    if url:
        async with connected(url, key) as server:
            yield server
        return
    try:
        opened = await open_store(store)
    except Misconfigured as error:
        async with connected(owner_url(store, error), key) as server:
            yield server
        return
    try:
        yield opened
    finally:
        await opened.close()


def owner_url(store: str, refused: Misconfigured) -> str:
    """Where the server is that has the store which was refused to us. Raises the refusal if there is none."""
    address, database = published_address(store), database_of(store)
    if address is None or database is None or _owner(database) != str(address.pid):
        raise refused
    return address.url


def _owner(database: Path) -> str:
    try:
        return Path(f"{database}.lock").read_text("ascii").strip()
    except (OSError, ValueError):
        return ""


def _said(body: bytes) -> str:
    try:
        return msgspec.json.decode(body, type=_Told).error
    except msgspec.DecodeError:
        return ""


def _decoded(body: bytes, kind: type[T], url: str) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError:
        raise Unavailable(f"what answers at {url} is not a Toolyard server, or one of another version") from None
