"""A TCP proxy on loopback that can be cut and mended, as a network between two machines can."""

import asyncio
from contextlib import AsyncExitStack, suppress

from tcp_servers import serve_connections

CHUNK_BYTES = 65_536


class TcpProxy:
    """Forwards connections to a port of this machine.

    While it is cut, nothing is refused and nothing arrives: connections hang, as with a broken network. Bytes that were
    sent meanwhile arrive when it is mended, as TCP would send them again. That is the dangerous case: a commit may
    reach the database long after its sender was declared dead.
    """

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._connected = asyncio.Event()
        self._connected.set()
        self._serving = AsyncExitStack()
        self.port = 0

    async def open(self) -> None:
        self.port = await self._serving.enter_async_context(serve_connections(self._forward))

    @property
    def is_cut(self) -> bool:
        return not self._connected.is_set()

    def cut(self) -> None:
        self._connected.clear()

    def mend(self) -> None:
        self._connected.set()

    async def close(self) -> None:
        self.mend()
        await self._serving.aclose()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._connected.wait()
        # If the target does not listen, the client's connection is closed as well.
        target_reader, target_writer = await asyncio.open_connection("127.0.0.1", self._target_port)
        try:
            async with asyncio.TaskGroup() as pumps:
                pumps.create_task(self._pump(reader, target_writer))
                pumps.create_task(self._pump(target_reader, writer))
        finally:
            target_writer.close()  # a pump that is cancelled before its first step has closed nothing

    async def _pump(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        """Copy until the source ends. Neither bytes nor an end pass while the proxy is cut."""
        try:
            with suppress(OSError):
                while chunk := await source.read(CHUNK_BYTES):
                    await self._connected.wait()
                    target.write(chunk)
                    await target.drain()
            await self._connected.wait()
        finally:
            target.close()
