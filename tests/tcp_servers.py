"""Servers on free ports that leave no connection open, whenever they are stopped."""

import asyncio
import socket
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager

from aiohttp import web

from ports import listen

STEPS_OF_ACCEPTING = 3
"""The steps of the event loop from accepting a connection until its protocol knows it."""
ConnectionHandler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def stop_accepting(listeners: Iterable[socket.socket]) -> None:
    """Accept no more connections, and return once those that are accepted are open, so that they can be closed.

    asyncio accepts a connection in one step of its loop and opens it in the next ones. If its server is closed in
    between, the connection stays open, and a later test gets the warning: whichever one collects the garbage.
    """
    for listener in listeners:
        asyncio.get_running_loop().remove_reader(listener)
    for _ in range(STEPS_OF_ACCEPTING):
        await asyncio.sleep(0)


@asynccontextmanager
async def serve_connections(
    handle: ConnectionHandler, *, port: int = 0, tls: ssl.SSLContext | None = None
) -> AsyncGenerator[int, None]:
    """Serve TCP connections, each until its handler returns or the block ends, and yield the port.

    The block raises what a handler has raised, unless its client has left.
    """
    connections: list[tuple[asyncio.Task[None], asyncio.StreamWriter]] = []

    async def handle_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await handle(reader, writer)

    def open_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(handle_connection(reader, writer))
        # The task cannot do it: one that is cancelled before its first step runs nothing.
        task.add_done_callback(lambda _: writer.close())
        connections.append((task, writer))

    server = await asyncio.start_server(open_connection, "127.0.0.1", port, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        await stop_accepting(server.sockets)
        server.close()
        for task, _ in connections:
            task.cancel()
        results = await asyncio.gather(*(task for task, _ in connections), return_exceptions=True)
        for _, writer in connections:
            writer.transport.abort()  # it would wait for a client that does not read
    for result in results:
        if isinstance(result, Exception) and not isinstance(result, OSError | EOFError):
            raise result


@asynccontextmanager
async def serve_web_app(app: web.Application, *, shutdown_timeout_s: float = 0.1) -> AsyncGenerator[str, None]:
    """Serve an application of aiohttp, and yield its address."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=shutdown_timeout_s)
    await runner.setup()
    listener = listen()
    try:
        await web.SockSite(runner, listener).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        await stop_accepting([listener])
        await runner.cleanup()  # which closes the listener, too
