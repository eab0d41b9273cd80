"""A server in a process of its own, which a test kills in the middle of an answer and starts again.

python -m page.mortal PORT FOLDER
"""

import asyncio
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing, contextmanager
from pathlib import Path

import uvicorn

from forked_python import ForkedPython
from page.site import HOLD, choose_turn
from ports import reserve_port
from support import wait_until
from toolyard import Yard, tool
from toolyard.app import Wiring
from toolyard.core.conversation.events import ModelDelta, TextAppended, TurnEnded, TurnFailed
from toolyard.core.ports import ModelRequest
from toolyard.testing import Scripted, call, say

TESTS = Path(__file__).parents[1]
SCENES = {"write it down": [call("write", text="milk"), say("It is written: ", HOLD, "milk.")]}


class KillableServer:
    """The address of the server; its model goes on when it is told so, whichever process it is in."""

    def __init__(self, folder: Path, port: int) -> None:
        self._folder = folder
        self._port = port
        self.url = f"http://127.0.0.1:{port}"
        self._process: ForkedPython | None = None

    def start(self) -> None:
        """Start it, and wait until it listens."""
        words = ["-m", "page.mortal", str(self._port), str(self._folder)]
        self._process = ForkedPython(words, cwd=TESTS, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "listening\n"

    def kill(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.communicate()

    def resume(self) -> None:
        (self._folder / "go_on").touch()

    @property
    def written_text(self) -> str:
        return (self._folder / "written").read_text()


@contextmanager
def open_killable_server(folder: Path) -> Generator[KillableServer]:
    with reserve_port() as port:
        server = KillableServer(folder, port)
        try:
            server.start()
            yield server
        finally:
            server.kill()


async def serve(port: int, folder: Path) -> None:
    @tool
    def write(text: str) -> str:
        """Write something down."""
        with (folder / "written").open("a") as file:
            file.write(f"{text}\n")
        return "written"

    class Holding:
        async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | TurnEnded | TurnFailed, None]:
            model = Scripted(lambda request: choose_turn(SCENES, request))
            async with aclosing(model.stream(request)) as events:
                async for event in events:
                    if isinstance(event, TextAppended) and event.text == HOLD:
                        await wait_until((folder / "go_on").exists)
                    yield event

        async def close(self) -> None:
            pass

    wiring = Wiring(model=Holding(), tools=[write], store=f"sqlite:///{folder}/yard.db")
    async with Yard.from_wiring(wiring) as yard:
        server = uvicorn.Server(uvicorn.Config(yard.asgi(), lifespan="off", log_level="error"))
        listening = socket.create_server(("127.0.0.1", port))
        print("listening", flush=True)  # noqa: T201
        await server.serve(sockets=[listening])


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), Path(sys.argv[2])))
