"""The modern server as a test wants it: over stdio, or over HTTP in a process of its own."""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from ports import reserve_port
from support import wait_until
from toolyard import Yard
from toolyard.core.tools.mcp_servers import ServerSpec
from venues.mcp.forking import ForkedScript

SCRIPT = Path(__file__).parent / "servers" / "modern.py"
GUARDED = SCRIPT.with_name("guarded.py")
SIGNED = SCRIPT.with_name("signed.py")
PERSONAL = SCRIPT.with_name("personal.py")
FORGETFUL = SCRIPT.with_name("forgetful.py")


def over_stdio(**more: object) -> ServerSpec:
    return ServerSpec(command=sys.executable, args=(str(SCRIPT),), **{"trust": True, **more})  # pyright: ignore[reportArgumentType]


class HttpServerProcess:
    """A server that can be stopped and started again at the same port, which its environment names too."""

    def __init__(self, command: Sequence[str] | Path, port: int, *args: str) -> None:
        """Run a command, or a script of these tests with the port and other arguments."""
        self._command = command
        self._args = (str(port), *args)
        self.port = port
        self._process: subprocess.Popen[bytes] | ForkedScript | None = None

    def spec(self, **more: object) -> ServerSpec:
        return ServerSpec(url=f"http://127.0.0.1:{self.port}/mcp", **{"trust": True, **more})  # pyright: ignore[reportArgumentType]

    async def start(self) -> None:
        environment = {**os.environ, "PORT": str(self.port)}
        if isinstance(self._command, Path):
            self._process = ForkedScript(self._command, self._args, environment)
        else:
            self._process = subprocess.Popen(self._command, env=environment)
        await wait_until(self._listens)

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
        if isinstance(process, subprocess.Popen):
            process.wait()

    def _listens(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port)).close()
        except OSError:
            return False
        return True


async def wait_until_settled(yard: Yard) -> None:
    """Until each server runs or has failed once: on a busy machine that may be after the yard is open."""
    await wait_until(lambda: all(card.status != "starting" for card in yard.servers.cards()))


@contextmanager
def serve_blocking(script: Path) -> Generator[HttpServerProcess]:
    """For a test without a loop of its own."""
    with reserve_port() as port:
        server = HttpServerProcess(script, port)
        try:
            asyncio.run(server.start())
            yield server
        finally:
            server.stop()


@asynccontextmanager
async def over_http(script: Path = SCRIPT, *args: str) -> AsyncGenerator[HttpServerProcess]:
    with reserve_port() as port:
        async with run_http_server(script, port, *args) as server:
            yield server


@asynccontextmanager
async def run_http_server(command: Sequence[str] | Path, port: int, *args: str) -> AsyncGenerator[HttpServerProcess]:
    server = HttpServerProcess(command, port, *args)
    try:
        await server.start()
        yield server
    finally:
        server.stop()
