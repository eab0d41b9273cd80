"""A TCP proxy on loopback that can be cut and mended, as a network between two machines can."""

import asyncio
from contextlib import suppress

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
        self._server: asyncio.Server | None = None
        self._pumps: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._forward, "127.0.0.1", 0)

    @property
    def port(self) -> int:
        assert self._server is not None
        return self._server.sockets[0].getsockname()[1]

    @property
    def is_cut(self) -> bool:
        return not self._connected.is_set()

    def cut(self) -> None:
        self._connected.clear()

    def mend(self) -> None:
        self._connected.set()

    async def close(self) -> None:
        self.mend()
        assert self._server is not None
        self._server.close()
        for pump in self._pumps:
            pump.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._pumps.add(task)
        try:
            await self._connected.wait()
            target_reader, target_writer = await asyncio.open_connection("127.0.0.1", self._target_port)
            try:
                async with asyncio.TaskGroup() as pumps:
                    pumps.create_task(self._pump(reader, target_writer))
                    pumps.create_task(self._pump(target_reader, writer))
            finally:
                target_writer.close()  # a pump that is cancelled before its first step has closed nothing
        except OSError:
            pass  # the target does not listen: the client's connection is closed as well
        except asyncio.CancelledError:
            pass  # by `close`: asyncio 3.11 logs a handler that ends as cancelled
        finally:
            self._pumps.discard(task)
            writer.close()

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
