"""Runs the child process that reads a document, with bounds for its time, its memory and what it writes."""

import asyncio
import importlib.util
import sys
from pathlib import Path

import msgspec

from toolyard.core.errors import Invalid, Refused, Unavailable

MAX_SECONDS = 30
MAX_MEMORY_BYTES = 2 * 1024**3
MAX_EXPANDED_BYTES = 200 * 1024**2
MAX_ENTRIES = 10_000
MAX_PAGES = 500
"""Slides of a presentation, or sheets of a workbook."""
MAX_TEXT_BYTES = 2_000_000
MAX_AT_ONCE = 2
"""Documents that are read at once; the next ones wait."""
PIECE_BYTES = 64 * 1024
REFUSED = 3
"""The status with which the child says why it does not read a document."""
_CHILD = Path(__file__).with_name("child.py")


class DocumentReader:
    """Turns documents into text. They come from strangers: nothing of them is read in this process."""

    def __init__(self, max_seconds: int = MAX_SECONDS, max_expanded_bytes: int = MAX_EXPANDED_BYTES) -> None:
        self._bounds = {
            "seconds": max_seconds,
            "memory_bytes": MAX_MEMORY_BYTES,
            "expanded_bytes": max_expanded_bytes,
            "entries": MAX_ENTRIES,
            "pages": MAX_PAGES,
        }
        self._slots = asyncio.Semaphore(MAX_AT_ONCE)

    @property
    def is_installed(self) -> bool:
        """Return whether the package that reads documents is there, which is the extra `files`."""
        return importlib.util.find_spec("markitdown") is not None

    async def read(self, body: bytes) -> str:
        """Return the text of a document as Markdown. Raises Invalid with what to do, or Refused without the extra."""
        if not self.is_installed:
            raise Refused("this server reads no documents: whoever runs it can install toolyard[files]")
        request = msgspec.json.encode({"path": sys.path, "bounds": self._bounds})
        async with self._slots:
            code, text = await self._run_child(request + b"\n" + body)
        if code == REFUSED:
            reason, _, words = text.decode().partition("\n")
            raise _build_refusal(reason, f"the document cannot be read: {words}")
        if code:
            raise _build_cost_error()
        return text.decode()

    async def _run_child(self, request: bytes) -> tuple[int, bytes]:
        # Without the environment, which holds keys of providers; isolated, so that no folder of a user adds modules.
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            str(_CHILD),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={},
        )
        assert child.stdin is not None and child.stdout is not None
        try:
            async with asyncio.timeout(self._bounds["seconds"] * 2):
                _, text = await asyncio.gather(_send(child.stdin, request), _read(child.stdout, MAX_TEXT_BYTES))
                code = await child.wait()
        except TimeoutError:
            raise _build_cost_error() from None
        finally:
            if child.returncode is None:
                child.kill()
                # A pipe that is full would keep the end of the process from being seen.
                await _drain(child.stdout)
                await child.wait()
        return code, text


def _build_cost_error() -> Invalid:
    return _build_refusal("cost", "the document cannot be read: it takes too much time or memory: split it")


def _build_refusal(reason: str, message: str) -> Invalid:
    """Return an error with a reason that clients can put into their own words."""
    return Invalid(message, {"field": "body", "reason": reason})


async def _read(pipe: asyncio.StreamReader, most: int) -> bytes:
    """Return what comes through a pipe. Raises Invalid as soon as it is more than `most` bytes."""
    body = bytearray()
    while chunk := await pipe.read(PIECE_BYTES):
        body += chunk
        if len(body) > most:
            raise _build_refusal("text", f"the document has more than {most:,} bytes of text: split it")
    return bytes(body)


async def _drain(pipe: asyncio.StreamReader) -> None:
    while await pipe.read(PIECE_BYTES):
        pass


async def _send(stdin: asyncio.StreamWriter, request: bytes) -> None:
    try:
        stdin.write(request)
        await stdin.drain()
        stdin.close()
    except (BrokenPipeError, ConnectionResetError):  # the child has refused it, or has died
        raise Unavailable("the document could not be read") from None
