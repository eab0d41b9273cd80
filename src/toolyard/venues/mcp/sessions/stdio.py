"""A server as a child process: messages over its pipes, and an end that includes everything the child started.

The SDK's own stdio transport accepts lines of any length, copies a long line again for every piece of it, and does not
read stderr. It also cannot tell whether a child had read a request before it died; this transport can.
"""

import array
import asyncio
import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Self

import anyio
import msgspec
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage
from mcp_types import (
    INTERNAL_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)

from toolyard.venues.mcp.sessions.child_reaper import ChildReaper
from toolyard.venues.mcp.sessions.stderr_log import StderrLog

MAX_MESSAGE_BYTES = 64 * 1024 * 1024
MAX_WAITING_BYTES = 1024 * 1024
"""Backlog for a child that does not read. Beyond it a request waits, and any other message is dropped."""
GRACE_S = 2.0
"""How long a child may take after its stdin is closed before SIGTERM is sent, and again before SIGKILL."""
POLL_S = 0.01
CHUNK_BYTES = 65_536
STDERR_END_S = 0.2
_ID = re.compile(rb'"id"\s*:\s*(\d+)')


class ChildProcess:
    """A running child process: its messages in both directions, and its end."""

    def __init__(self, process: "subprocess.Popen[bytes]", stderr_log: StderrLog, reaper: ChildReaper) -> None:
        self._process = process
        self._reaper = reaper
        self.stderr_log = stderr_log
        self.pid = process.pid
        self.is_hung = False
        """Whether the child hangs; then it is ended without a grace period."""
        assert process.stdin is not None
        self.incoming = StdioReader(stderr_log)
        self.outgoing = MessageWriter(process.stdin.fileno())
        self._pidfd = -1
        self._pipes: list[asyncio.BaseTransport] = []
        self._exit_event = asyncio.Event()

    async def open(self) -> None:
        loop, process = asyncio.get_running_loop(), self._process
        assert process.stdout and process.stderr
        self._reaper.add(self.pid)
        if sys.platform == "linux":
            self._pidfd = os.pidfd_open(self.pid)
            loop.add_reader(self._pidfd, self._on_exit)
        protocol = asyncio.StreamReaderProtocol(self.incoming.reader)
        self.incoming.pipe = (await loop.connect_read_pipe(lambda: protocol, process.stdout))[0]
        self._pipes.append((await loop.connect_read_pipe(lambda: self.stderr_log, process.stderr))[0])

    def _on_exit(self) -> None:
        asyncio.get_running_loop().remove_reader(self._pidfd)
        self._exit_event.set()
        # A grandchild may hold stdout open, so the end of the stream may never come by itself. The delay leaves time
        # to read what the child wrote last.
        asyncio.get_running_loop().call_later(POLL_S * 5, self.incoming.end)

    async def end(self, grace_s: float) -> None:
        """End the child with its whole process group. With `grace_s` zero (it has exited or hangs) SIGTERM is first."""
        assert self._process.stdin is not None
        self.outgoing.stop_writing()
        if grace_s:
            self._process.stdin.close()
        for number, wait_s in ((None, grace_s), (signal.SIGTERM, grace_s), (signal.SIGKILL, GRACE_S)):
            if number is not None:
                self._signal(number)
            if await self._wait_for_exit(wait_s):
                break
        # Kill what the child left behind in its group. This is safe only before the child is reaped below: until then
        # the kernel cannot give the group's number to another process.
        self._signal(signal.SIGKILL)
        if not grace_s:  # the unread bytes can be counted only while the pipe is open, and only once nobody reads it
            self.outgoing.record_read_bytes()
            self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(0)
        self._reaper.drop(self.pid)
        self.incoming.end()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STDERR_END_S):
                await self.stderr_log.ended.wait()
        for pipe in self._pipes:
            pipe.close()
        if self._pidfd >= 0:
            asyncio.get_running_loop().remove_reader(self._pidfd)
            os.close(self._pidfd)

    async def _wait_for_exit(self, within_s: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while not self._has_exited():
                    if self._pidfd >= 0:
                        await self._exit_event.wait()
                    else:
                        await asyncio.sleep(POLL_S)
        return self._has_exited()

    def _has_exited(self) -> bool:
        """Return whether the child has exited, without reaping it where possible: a zombie keeps its process id."""
        if hasattr(os, "waitid"):
            options = os.WEXITED | os.WNOHANG | os.WNOWAIT
            with contextlib.suppress(ChildProcessError):
                return os.waitid(os.P_PID, self.pid, options) is not None
            return True
        return self._process.poll() is not None

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if hasattr(os, "killpg"):
                os.killpg(self.pid, number)
            else:
                self._process.kill()


@asynccontextmanager
async def run_child(
    command: str, args: Sequence[str], env: Mapping[str, str], cwd: str, stderr_log: StderrLog, reaper: ChildReaper
) -> AsyncGenerator[ChildProcess]:
    """Start a server, and end it on exit from the context. Raise OSError if it cannot be started."""
    process = _start_process([command, *args], get_default_environment() | dict(env), cwd)
    child = ChildProcess(process, stderr_log, reaper)
    grace_s = GRACE_S
    try:
        await child.open()
        yield child
        grace_s = 0.0 if child.incoming.ended or child.is_hung else GRACE_S
    except BaseException:
        grace_s = 0.0
        raise
    finally:
        # Shielded: a cancellation during the end would leave the process running.
        with anyio.CancelScope(shield=True):
            await child.end(grace_s)


def _start_process(command: Sequence[str], env: Mapping[str, str], cwd: str) -> "subprocess.Popen[bytes]":
    """Start a process. Raise OSError that says what is missing.

    Synchronous on purpose: a cancellation while a start is awaited would leak the child.
    """
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
            cwd=cwd or None,
            bufsize=0,
            start_new_session=True,
        )
    except FileNotFoundError:
        if cwd and not os.path.isdir(cwd):
            raise FileNotFoundError(f"there is no folder {cwd}") from None
        is_path = os.path.dirname(command[0]) != ""
        raise FileNotFoundError(
            f"there is no file {command[0]}" if is_path else f"{command[0]} is not on the PATH"
        ) from None
    except PermissionError:
        raise PermissionError(f"{command[0]} may not be executed") from None


class StdioReader:
    """Iterates over the messages that a child writes, one per line. Other lines go to the log."""

    def __init__(self, stderr_log: StderrLog) -> None:
        self.reader = asyncio.StreamReader(limit=MAX_MESSAGE_BYTES)
        self.pipe: asyncio.BaseTransport | None = None
        self.ended = False
        self._stderr_log = stderr_log

    def end(self) -> None:
        """Stop reading. Iteration ends after the messages that were read before."""
        if self.pipe is None:
            self.reader.feed_eof()
        else:
            self.pipe.close()

    def __aiter__(self) -> "StdioReader":
        return self

    async def __anext__(self) -> SessionMessage:
        while (line := await self._read_line()) is not None:
            if isinstance(line, SessionMessage):
                return line
            if (message := parse_message(line)) is not None:
                return message
            self._stderr_log.add_line(line, "writes something other than messages to stdout")
        self.ended = True
        raise StopAsyncIteration

    async def receive(self) -> SessionMessage:
        try:
            return await anext(self)
        except StopAsyncIteration:
            raise anyio.EndOfStream from None

    async def _read_line(self) -> bytes | SessionMessage | None:
        try:
            return await self.reader.readuntil(b"\n")
        except asyncio.IncompleteReadError:
            return None
        except asyncio.LimitOverrunError as error:
            return await self._skip_long_line(error.consumed)

    async def _skip_long_line(self, consumed: int) -> bytes | SessionMessage | None:
        """Skip a line that is too long. If it is an answer whose id is at its head, return an error in its place."""
        head = (await self.reader.readexactly(consumed))[:200]
        while True:
            try:
                await self.reader.readuntil(b"\n")
                break
            except asyncio.LimitOverrunError as error:
                await self.reader.readexactly(error.consumed)
            except asyncio.IncompleteReadError:
                return None
        if (match := _ID.search(head)) is None or b'"method"' in head:
            return head
        error_data = ErrorData(code=INTERNAL_ERROR, message=f"the answer is longer than {MAX_MESSAGE_BYTES:,} bytes")
        return SessionMessage(JSONRPCError(jsonrpc="2.0", id=int(match[1]), error=error_data))

    async def aclose(self) -> None:
        self.end()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        await self.aclose()


class MessageWriter:
    """Writes messages to a child without blocking, and knows how much of them the child had read when it ended."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self._fd = fd
        self._backlog = bytearray()
        self._writable = asyncio.Event()
        self._writable.set()
        self._closed = False
        self._written_bytes = 0
        """How many bytes the kernel has accepted."""
        self._request_ends: dict[int | str, int] = {}
        """For each unanswered request: its last byte, counted from the first byte ever written."""
        self._read_bytes: int | None = None

    @property
    def waiting_bytes(self) -> int:
        return len(self._backlog)

    def was_read(self, request: int | str) -> bool:
        """Return whether the child may have read a request that was written, and so acted on it; True if unknown."""
        end = self._request_ends.pop(request, None)
        return end is not None and (self._read_bytes is None or end <= self._read_bytes)

    def forget_request(self, request: int | str) -> None:
        self._request_ends.pop(request, None)

    def record_read_bytes(self) -> None:
        """Record how much a child has read that reads no more: the rest is still in the kernel's pipe buffer."""
        if sys.platform == "linux":
            self._read_bytes = self._written_bytes - _count_unread_bytes(self._fd)

    def stop_writing(self) -> None:
        if not self._closed:
            self._closed = True
            asyncio.get_running_loop().remove_writer(self._fd)
        self._writable.set()

    async def send(self, item: SessionMessage, /) -> None:
        message = item.message
        if isinstance(message, JSONRPCRequest):
            await self._writable.wait()
        if self._closed:
            raise anyio.BrokenResourceError
        if not isinstance(message, JSONRPCRequest) and not self._writable.is_set():
            return  # an answer or a notification for a child that does not read: drop it rather than grow the backlog
        self._backlog += message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
        if isinstance(message, JSONRPCRequest):
            self._request_ends[message.id] = self._written_bytes + len(self._backlog)
        self._flush()

    def _flush(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._backlog:
                count = os.write(self._fd, memoryview(self._backlog)[:CHUNK_BYTES].tobytes())
                self._written_bytes += count
                del self._backlog[:count]
            loop.remove_writer(self._fd)
        except BlockingIOError:
            loop.add_writer(self._fd, self._flush)
        except OSError:
            self.stop_writing()
            return
        if len(self._backlog) > MAX_WAITING_BYTES:
            self._writable.clear()
        else:
            self._writable.set()

    async def aclose(self) -> None:
        """Do nothing: `ChildProcess.end` closes the pipe, after it has counted what the child read."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        await self.aclose()


if sys.platform == "linux":
    import fcntl
    import termios

    def _count_unread_bytes(fd: int) -> int:
        """Return how many bytes a pipe holds that nobody has read."""
        count = array.array("i", [0])
        fcntl.ioctl(fd, termios.FIONREAD, count)
        return count[0]

else:

    def _count_unread_bytes(fd: int) -> int:
        return 0


def parse_message(line: bytes) -> SessionMessage | None:
    """Return the message of a line, or None if it is none."""
    try:
        raw = msgspec.json.decode(line, type=dict[str, object])
        # Results can be large, so pydantic does not copy them here; the sender of the request validates its result.
        if "method" not in raw and isinstance(raw.get("result"), dict) and isinstance(raw.get("id"), int | str):
            return SessionMessage(JSONRPCResponse.model_construct(jsonrpc="2.0", id=raw["id"], result=raw["result"]))
        return SessionMessage(jsonrpc_message_adapter.validate_python(raw, by_name=False))
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
