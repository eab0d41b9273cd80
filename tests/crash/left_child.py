"""Serves `/v1` on a socket of its parent with a model that says a word and then never ends its answer.

`left_child.py DATABASE REQUESTS SOCKET`: each request to the model, and each that was cut off, is a line in a file.
"""

import asyncio
import socket
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import uvicorn

from toolyard import ModelRequest, Yard
from toolyard.app import Wiring
from toolyard.core.conversation.events import ModelDelta, TextAppended, TurnEnded, TurnFailed

LEAVE_S = 1.0


class EndlessModel:
    """Says a word and goes on until it is cut off."""

    def __init__(self, requests: Path) -> None:
        self._requests = requests

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | TurnEnded | TurnFailed, None]:
        self._write("asked")
        try:
            yield TextAppended(turn=request.turn, offset=0, text="Well")
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self._write("cut off")
            raise

    async def close(self) -> None:
        return

    def _write(self, line: str) -> None:
        with self._requests.open("a") as requests:
            requests.write(f"{line}\n")


async def main(database: str, requests: str, descriptor: str) -> None:
    listening = socket.socket(fileno=int(descriptor))
    wiring = Wiring(model=EndlessModel(Path(requests)), store=f"sqlite:///{database}", leave_s=LEAVE_S)
    async with Yard.from_wiring(wiring) as yard:
        config = uvicorn.Config(yard.asgi(), lifespan="off", log_level="error")
        await uvicorn.Server(config).serve(sockets=[listening])


asyncio.run(main(*sys.argv[1:]))
