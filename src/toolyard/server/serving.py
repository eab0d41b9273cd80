"""A yard behind a socket, until the process is told to stop. Needs the extra `toolyard[server]`.

It knows uvicorn and signals; what is served, it is given. Stopping: new runs are refused and streams are told to come
back, while what runs may end; then the socket is closed and the rest is left to the next start.
"""

import asyncio
import gc
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import FrameType

import uvicorn

from toolyard.app import Message, Wiring, open_store
from toolyard.core.errors import Misconfigured
from toolyard.server.address import build_url, is_loopback, publish_address
from toolyard.server.bounded_http import BoundedHttp
from toolyard.yard import Yard

if sys.platform == "win32":  # uvloop is not made for it
    new_event_loop = asyncio.new_event_loop
else:
    import uvloop

    new_event_loop = uvloop.new_event_loop

SHUTDOWN_GRACE_S = 2
"""How long answers may take to be sent once everything else has stopped."""

Announce = Callable[[str, Yard], None]


def serve(wiring: Wiring, host: str, port: int, announce: Announce) -> None:
    """Serve until SIGTERM or SIGINT; `announce` is told the address and the open yard. Raises ToolyardError."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(_serve(wiring, host, port, announce))


async def _serve(wiring: Wiring, host: str, port: int, announce: Announce) -> None:
    if not is_loopback(host):
        await _require_key(wiring, host)
    with open_socket(host, port) as listening:
        async with Yard.from_wiring(wiring) as yard:
            app = yard.asgi()
            await app(
                {"type": "warm up"}, _receive_nothing, _send_nothing
            )  # builds the surfaces; their door answers only HTTP
            _tune_garbage_collection()
            url = build_url(*listening.getsockname()[:2])
            with catch_stop_signals() as told, publish_address(wiring.store, url):
                server = _UvicornServer(_build_uvicorn_config(app))
                announce(url, yard)
                await asyncio.gather(server.serve([listening]), _stop(server, yard, told, wiring.grace_s))


def _tune_garbage_collection() -> None:
    """What is here now stays: it is not looked at again. What runs make is mostly gone before it is looked at."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 10, 50)


async def _stop(server: uvicorn.Server, yard: Yard, stop_requested: asyncio.Event, grace_s: float) -> None:
    await stop_requested.wait()
    await yard.service.close(grace_s)
    server.should_exit = True


async def _require_key(wiring: Wiring, host: str) -> None:
    """Whoever can reach a server that asks for no key is its administrator: so it stays on this machine."""
    if wiring.keys or wiring.verify:
        return
    store = await open_store(wiring.store)
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
    """A socket that listens. Raises Misconfigured with what to do if the address cannot be had."""
    try:
        made = socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=2048
        )
    except OSError as error:
        said = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
        hint = "choose another port with --port, or --port 0 for a free one"
        raise Misconfigured(f"cannot listen on {host} port {port}: {said}; {hint}") from None
    with made:
        yield made


@contextmanager
def catch_stop_signals() -> Generator[asyncio.Event]:
    """Set by the first SIGTERM or SIGINT; a second SIGINT ends the process at once, which the journal can take."""
    told, loop = asyncio.Event(), asyncio.get_running_loop()

    def stop(number: int, frame: FrameType | None) -> None:
        if told.is_set() and number == signal.SIGINT:
            os._exit(130)
        loop.call_soon_threadsafe(told.set)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield told
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _build_uvicorn_config(app: Callable[..., Awaitable[None]]) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=BoundedHttp,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        log_level="warning",
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=SHUTDOWN_GRACE_S,
    )


class _UvicornServer(uvicorn.Server):
    """Leaves signals to us: uvicorn would close the socket before anybody could be told to come back."""

    def capture_signals(self) -> AbstractContextManager[None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return nullcontext()


async def _receive_nothing() -> Message:
    return {}


async def _send_nothing(message: Message) -> None:
    pass
