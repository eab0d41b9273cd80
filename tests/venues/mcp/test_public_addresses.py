"""Servers that were added from outside are reached at public addresses only: at those that were checked."""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import cast

import httpcore2
import httpx2
import pytest

from support import TEST_TIMEOUT_S
from surfaces.api_client import build_key, open_api_client
from tcp_servers import serve_connections
from toolyard.core.settings.network.addresses import is_public
from toolyard.core.store import Key
from toolyard.core.tools.mcp_servers import ServerSpec
from toolyard.venues.mcp.bounded_http import BoundedTransport, PublicBackend

KEYS = [build_key("root", "admin", tenant="")]


@pytest.mark.parametrize(
    "address", ["8.8.8.8", "1.1.1.1", "2606:4700:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]
)
def test_an_address_of_the_internet_is_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1", "100.64.0.1", "169.254.169.254", "224.0.0.1",
        "255.255.255.255", "::1", "::", "fe80::1", "fe80::1%eth0", "fd00:ec2::254", "ff02::1", "::ffff:127.0.0.1",
        "::ffff:169.254.169.254", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::", "2002:a00:1::", "localhost",
        "64:ff9b:1::7f00:1", "::127.0.0.1", "::ffff:0:127.0.0.1", "fec0::1", "5f00::1", "192.0.0.192", "168.63.129.16",
    ],
)  # fmt: skip
def test_an_address_that_leads_behind_the_public_network_is_not_public(address: str) -> None:
    assert not is_public(address)


class RecordingBackend(httpcore2.AsyncNetworkBackend):
    """Remembers where it would have connected to. The addresses in `down` do not answer."""

    def __init__(self, *down: str) -> None:
        self.connected: list[str] = []
        self._down = down

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        self.connected.append(host)
        if host in self._down:
            raise httpcore2.ConnectError("nobody answers")
        return httpcore2.AsyncNetworkStream()


class ChangingNames:
    """Answers each lookup of a name with the next list of addresses."""

    def __init__(self, *answers: list[str]) -> None:
        self._answers = iter(answers)
        self.lookups = 0

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.lookups += 1
        return next(self._answers)


async def test_the_connection_goes_to_the_address_that_was_checked() -> None:
    backend, names = RecordingBackend(), ChangingNames(["8.8.8.8"], ["127.0.0.1"])
    await PublicBackend(backend, names).connect_tcp("rebinding.example", 443)
    assert (backend.connected, names.lookups) == (["8.8.8.8"], 1)
    with pytest.raises(httpcore2.ConnectError, match="not on the public network"):
        await PublicBackend(backend, names).connect_tcp("rebinding.example", 443)
    assert backend.connected == ["8.8.8.8"]


async def test_private_addresses_of_a_name_are_passed_over_and_the_next_public_one_is_tried() -> None:
    backend = RecordingBackend("8.8.8.8")
    names = ChangingNames(["10.0.0.1", "8.8.8.8", "1.1.1.1"], ["8.8.8.8"])
    await PublicBackend(backend, names).connect_tcp("two.example", 443)
    assert backend.connected == ["8.8.8.8", "1.1.1.1"]
    with pytest.raises(httpcore2.ConnectError, match="nobody answers"):
        await PublicBackend(backend, names).connect_tcp("two.example", 443)


@asynccontextmanager
async def count_connections(answer: bytes = b"") -> AsyncGenerator[tuple[int, list[bytes]]]:
    """Listen on a port of this machine. Yield it, and the first bytes of each connection."""
    received: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.append(await reader.read(1000))
        writer.write(answer)

    async with serve_connections(serve) as port:
        yield port, received


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_server_that_is_added_over_http_is_not_looked_for_on_this_machine(host: str) -> None:
    async with count_connections() as (port, received), open_api_client(keys=KEYS) as http:
        config = {"url": f"http://{host}:{port}/mcp", "connect_s": 5}
        added = await http.with_key("root").post("/servers", {"name": "inside", "config": config}, expect=201)
        assert "not on the public network" in added["server"]["error_message"]
        assert received == []


@pytest.mark.parametrize(("keys", "allowed"), [(KEYS, True), ([], None)], ids=["when it is allowed", "without keys"])
async def test_a_server_that_is_added_over_http_may_be_private_by_a_setting_or_without_keys(
    keys: list[Key], allowed: bool | None
) -> None:
    async with (
        count_connections() as (port, received),
        open_api_client(keys=keys, private_addresses=allowed) as http,
    ):
        body = {"name": "inside", "config": {"url": f"http://127.0.0.1:{port}/mcp"}}
        await http.with_key("root").post("/servers", body, expect=201)
        assert received


async def test_a_server_of_the_configuration_may_be_anywhere() -> None:
    async with count_connections() as (port, received):
        servers = {"inside": ServerSpec(url=f"http://127.0.0.1:{port}/mcp")}
        async with open_api_client(keys=KEYS, servers=servers):
            assert received


class LocalBackend(httpcore2.AsyncNetworkBackend):
    """Connects to a port of this machine whatever the address is."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        backend = cast(httpcore2.AsyncNetworkBackend, httpcore2.AnyIOBackend())
        return await backend.connect_tcp("127.0.0.1", self._port, timeout)


class RedirectedTransport(BoundedTransport):
    """Reaches a port of this machine in place of every public address."""

    def __init__(self, port: int, *, public_only: bool) -> None:
        super().__init__(public_only=public_only)
        self._pool = httpcore2.AsyncConnectionPool(network_backend=LocalBackend(port))


async def test_a_redirect_is_not_followed() -> None:
    redirect = b"HTTP/1.1 307 Temporary Redirect\r\nlocation: /elsewhere\r\ncontent-length: 0\r\n\r\n"
    async with asyncio.timeout(TEST_TIMEOUT_S), count_connections(redirect) as (port, received):
        for public_only, requests in ((True, 1), (False, 3)):
            received.clear()
            transport = RedirectedTransport(port, public_only=public_only)
            async with httpx2.AsyncClient(transport=transport, follow_redirects=True, max_redirects=2) as client:
                if public_only:
                    assert (await client.post("http://mcp.example/mcp")).status_code == 307
                else:
                    with pytest.raises(httpx2.TooManyRedirects):
                        await client.post("http://mcp.example/mcp")
            assert len(received) == requests
