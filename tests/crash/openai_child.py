"""Serves `/v1` on a socket of its parent; its tool kills the process in the middle of its first call.

`openai_child.py DATABASE EFFECTS SOCKET`: each effect is a line in a file that only grows.
"""

import asyncio
import os
import signal
import socket
import sys
from pathlib import Path

import uvicorn

from toolyard import ModelRequest, Yard, tool
from toolyard.events import Result
from toolyard.testing import Scripted, Turn, call, say


def build_tool(effects: Path):
    @tool
    def charge(amount: int) -> str:
        """Charge an amount, which cannot be taken back."""
        with effects.open("a") as ledger:
            ledger.write(f"charged {amount}\n")
            ledger.flush()
            os.fsync(ledger.fileno())
        if len(effects.read_text().splitlines()) == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return "charged"

    return charge


def script(request: ModelRequest) -> Turn:
    last = request.history[-1]
    return say(f"The outcome is {last.outcome}.") if isinstance(last, Result) else call("charge", amount=5)


async def main(database: str, effects: str, descriptor: str) -> None:
    listening = socket.socket(fileno=int(descriptor))
    async with Yard(tools=[build_tool(Path(effects))], model=Scripted(script), store=f"sqlite:///{database}") as yard:
        config = uvicorn.Config(yard.asgi(), lifespan="off", log_level="error")
        await uvicorn.Server(config).serve(sockets=[listening])


asyncio.run(main(*sys.argv[1:]))
