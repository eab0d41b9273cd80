"""Serve a yard on a socket with uvicorn until the process gets a signal. Needs the extra `toolyard[server]`.

The port is open first: probes are answered while the store is opened. MCP servers start afterwards, each in its time.

On SIGTERM the server drains first: it says that it is not ready and takes up no work of others, but still serves
requests, since load balancers notice late. Then, and on SIGINT at once, the socket is closed, so that new connections
are refused and go elsewhere; new runs are refused and clients of event streams are told to reconnect, while current
runs may end within a grace period. Runs that have not ended are left to the other replicas, or to the next start.
"""

import asyncio
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Generator
from contextlib import AbstractContextManager, AsyncExitStack, contextmanager, nullcontext
from dataclasses import replace
from types import FrameType

import uvicorn

from toolyard.app import Wiring, open_store
from toolyard.core.errors import Misconfigured
from toolyard.core.settings.network.addresses import is_loopback
from toolyard.server.address import build_url, publish_address
from toolyard.server.bounded_http import BoundedHttp, BoundedWebSocket
from toolyard.server.front import FrontApp
from toolyard.server.memory import watch_memory
from toolyard.surfaces.http.errors import MAX_BODY_BYTES
from toolyard.yard import Yard

if sys.platform == "win32":  # uvloop does not support Windows
    new_event_loop = asyncio.new_event_loop
else:
    import uvloop

    new_event_loop = uvloop.new_event_loop

SHUTDOWN_GRACE_S = 2
"""How long the last bytes of responses may take to be sent after the yard has closed."""

LAST_REQUEST_S = 0.5
"""How long requests are served that came over connections from before the socket was closed."""

DRAIN_S = 5.0
"""How long a replica still takes requests after SIGTERM: load balancers probe every few seconds."""

_log = logging.getLogger("toolyard.server")
Announce = Callable[[str, Yard], None]


def serve(wiring: Wiring, host: str, port: int, announce: Announce) -> None:
    """Serve until SIGTERM or SIGINT; call `announce` with the address and the open yard. Raise ToolyardError."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(_serve(wiring, host, port, announce))


async def _serve(wiring: Wiring, host: str, port: int, announce: Announce) -> None:
    front = FrontApp()
    with open_socket(host, port) as listening:
        server = _UvicornServer(front)
        url = build_url(*listening.getsockname()[:2])
        work = _serve_yard(replace(wiring, awaits_servers=False), host, url, server, announce)
        await asyncio.gather(server.serve([listening]), work)


async def _serve_yard(wiring: Wiring, host: str, url: str, server: "_UvicornServer", announce: Announce) -> None:
    """Open the yard behind the open port, and serve it until a signal."""
    front, max_s = server.front, wiring.postgres.start_timeout_s
    try:
        if not is_loopback(host):
            await front.wait_for_store(lambda: _require_key(wiring, host), max_s)
        async with AsyncExitStack() as stack:
            yard = await front.wait_for_store(lambda: stack.enter_async_context(Yard.from_wiring(wiring)), max_s)
            await front.open(yard.asgi())
            _tune_garbage_collection()
            with catch_stop_signals() as stop_signal, publish_address(wiring.store, url), watch_memory():
                announce(url, yard)
                yard.service.auditor.log_configuration()
                await _stop(server, yard, stop_signal, wiring)
                await server.end()
    finally:
        await server.end()


def _tune_garbage_collection() -> None:
    """Exempt the objects of startup, which stay, and collect less often: most objects of runs are freed without it."""
    # Not collected first: that found 2 % of them, and kept the first requests waiting for 50 ms.
    gc.freeze()
    gc.set_threshold(20_000, 10, 50)
    gc.enable()


async def _stop(server: "_UvicornServer", yard: Yard, stop_signal: asyncio.Future[int], wiring: Wiring) -> None:
    number = await stop_signal
    yard.service.stop_claiming()
    drain_s = _find_drain_s(wiring, yard)
    if number == signal.SIGTERM and drain_s:  # a person who presses Ctrl-C does not want to wait for load balancers
        _log.info("draining for %g s: not ready, but requests are still served", drain_s)
        server.front.is_leaving = True
        await asyncio.sleep(drain_s)
        server.stop_listening()
        await asyncio.sleep(LAST_REQUEST_S)
    server.stop_listening()
    await yard.service.close(wiring.grace_s)


def _find_drain_s(wiring: Wiring, yard: Yard) -> float:
    if wiring.drain_s is not None:
        return wiring.drain_s
    return DRAIN_S if yard.service.replica else 0.0


async def _require_key(wiring: Wiring, host: str) -> None:
    """Raise Misconfigured if no key is set: without keys, everybody who can reach the server is an administrator."""
    if wiring.keys or wiring.verify or wiring.identity_provider:
        return
    store = await open_store(wiring.store, wiring.postgres)
    try:
        if not await store.keys():
            raise Misconfigured(
                f"without a key the server does not listen on {host}, where others could use it: "
                "add one with `toolyard keys add NAME --user USER --role admin`, or listen on 127.0.0.1"
            )
    finally:
        await store.close()


@contextmanager
def open_socket(host: str, port: int) -> Generator[socket.socket]:
    """Open a listening socket. Raise Misconfigured with advice if the address cannot be used."""
    try:
        listener = socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=2048
        )
    except OSError as error:
        # An error of name resolution has a negative errno on Linux, for which strerror has no text.
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
        hint = "choose another port with --port, or --port 0 for a free one"
        raise Misconfigured(f"cannot listen on {host} port {port}: {reason}; {hint}") from None
    # Connections inherit it. uvloop would set it for each of them; asyncio does not for sockets that it did not create.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with listener:
        yield listener


@contextmanager
def catch_stop_signals() -> Generator[asyncio.Future[int]]:
    """Yield a future of the first SIGTERM or SIGINT. A SIGINT after it ends the process at once."""
    loop = asyncio.get_running_loop()
    stop_signal: asyncio.Future[int] = loop.create_future()

    def set_signal(number: int) -> None:
        if not stop_signal.done():
            stop_signal.set_result(number)

    def stop(number: int, frame: FrameType | None) -> None:
        if stop_signal.done() and number == signal.SIGINT:
            for handler in logging.getLogger().handlers:
                handler.flush()
            os._exit(130)  # safe without clean-up: every effect is in the journal before it happens
        loop.call_soon_threadsafe(set_signal, number)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop_signal
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def build_uvicorn_config(
    app: Callable[..., Awaitable[None]], protocol: type[BoundedHttp] = BoundedHttp
) -> uvicorn.Config:
    """Return how uvicorn serves an application."""
    return uvicorn.Config(
        app,
        http=protocol,
        ws=BoundedWebSocket,
        # A client learns why a message of up to this size is refused. A longer one is not read, and can reset the
        # connection before the reason arrives.
        ws_max_size=2 * MAX_BODY_BYTES,
        ws_per_message_deflate=False,
        lifespan="off",
        log_config=None,
        access_log=False,
        log_level="warning",
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=SHUTDOWN_GRACE_S,
    )


class _UvicornServer(uvicorn.Server):
    """uvicorn without its signal handlers, which would close the socket before clients could be told to reconnect."""

    def __init__(self, front: FrontApp) -> None:
        super().__init__(build_uvicorn_config(front))
        self.front = front
        self._ended = asyncio.Event()

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            await super().serve(sockets)
        finally:
            self._ended.set()

    def stop_listening(self) -> None:
        """Refuse new connections, which a load balancer then opens elsewhere. Those that are open go on."""
        for listener in self.servers:
            listener.close()

    async def end(self) -> None:
        """End all connections, and return once their last bytes are sent."""
        self.should_exit = True
        await self._ended.wait()

    def capture_signals(self) -> AbstractContextManager[None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return nullcontext()
