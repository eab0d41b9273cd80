"""Processes of real clients: each reads requests as lines of JSON and writes its answers the same way."""

import asyncio
import subprocess
import sys
from pathlib import Path
from threading import Timer

import msgspec
from msgspec import Struct

from real_servers import find_node, install_npm_package

DRIVERS = Path(__file__).parent / "drivers"
ROOT = Path(__file__).parents[4]
PYTHON = ROOT / ".venv-clients" / "bin" / "python"
START_S, ANSWER_S = 240.0, 50.0
"""A busy machine may take a minute to load the packages of a client."""


class Order(Struct, frozen=True):
    item: str
    count: int


class Answer(Struct, frozen=True, kw_only=True):
    """What a client's user sees. An empty `finish` means that the client does not show why an answer ended."""

    text: str | None = ""
    pieces: int = 0
    finish: str = ""
    photos: list[str] = []
    order: Order | None = None
    error: str = ""
    """The type of the client's exception."""
    message: str = ""


class ClientProcess:
    """A process that drives one client."""

    def __init__(self, package: str) -> None:
        command = (
            [find_node()[0], str(DRIVERS / "drive_openai.mjs"), str(install_npm_package("openai"))]
            if package == "openai-js"
            else [str(PYTHON), str(DRIVERS / f"drive_{package.replace('-', '_')}.py")]
        )
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=sys.stderr)
        self._read_line(START_S)

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    async def open(self, url: str, api: str, model: str = "default") -> None:
        """Begin a conversation with a server."""
        await self._request({"url": f"{url}/v1", "api": api, "model": model})

    async def ask(
        self, text: str = "Hello", *, streamed: bool = False, has_tool: bool = False, wants_order: bool = False
    ) -> Answer:
        """Say something in the conversation, with the tool `take_photo` if asked for."""
        return await self._request(
            {"text": text, "streamed": streamed, "has_tool": has_tool, "wants_order": wants_order}
        )

    async def _request(self, request: dict[str, object]) -> Answer:
        return msgspec.json.decode(await asyncio.to_thread(self._exchange, request), type=Answer)

    def _exchange(self, request: dict[str, object]) -> bytes:
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(request) + b"\n")
        self._process.stdin.flush()
        return self._read_line(ANSWER_S)

    def _read_line(self, timeout_s: float) -> bytes:
        """Return the next line of output. A process that takes too long is killed, which ends its output."""
        assert self._process.stdout is not None
        timer = Timer(timeout_s, self._process.kill)
        timer.start()
        try:
            line = self._process.stdout.readline()
        finally:
            timer.cancel()
        assert line, f"the client wrote nothing within {timeout_s:.0f} s"
        return line

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()
