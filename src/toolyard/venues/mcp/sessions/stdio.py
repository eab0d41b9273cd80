"""A server as a child process: spoken to over its pipes, ended with all that it started. It does not know the protocol.

The SDK's own stdio transport takes lines of any length, copies a long one again for every piece of it, and leaves
stderr alone; and it cannot tell whether a request that was lost with the child had been read by it. This one can.
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
"""What may wait to be written to a child that does not read; then a request waits, and anything else is dropped."""
GRACE_S = 2.0
"""How long a child that is asked to go may take before it is told to, and again before it is made to."""
POLL_S = 0.01
CHUNK_BYTES = 65_536
STDERR_END_S = 0.2
_ID = re.compile(rb'"id"\s*:\s*(\d+)')


class ChildProcess:
    """A running server: what it reads, what it writes, and how it ends."""

    def __init__(self, process: "subprocess.Popen[bytes]", stderr_log: StderrLog, reaper: ChildReaper) -> None:
        self._process = process
        self._reaper = reaper
        self.stderr_log = stderr_log
        self.pid = process.pid
        self.is_hung = False
        """It hangs: no grace for it."""
        assert process.stdin is not None
        self.incoming = MessageReader(stderr_log)
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
        reading = asyncio.StreamReaderProtocol(self.incoming.reader)
        self.incoming.pipe = (await loop.connect_read_pipe(lambda: reading, process.stdout))[0]
        self._pipes.append((await loop.connect_read_pipe(lambda: self.stderr_log, process.stderr))[0])

    def _on_exit(self) -> None:
        asyncio.get_running_loop().remove_reader(self._pidfd)
        self._exit_event.set()
        asyncio.get_running_loop().call_later(POLL_S * 5, self.incoming.end)  # what it wrote last is still on its way

    async def end(self, grace_s: float) -> None:
        """End it with its whole process group; a child that has gone, or is hopeless, is given no grace."""
        assert self._process.stdin is not None
        self.outgoing.stop_writing()
        if grace_s:
            self._process.stdin.close()
        for number, wait_s in ((None, grace_s), (signal.SIGTERM, grace_s), (signal.SIGKILL, GRACE_S)):
            if number is not None:
                self._signal(number)
            if await self._wait_for_exit(wait_s):
                break
        self._signal(signal.SIGKILL)  # whatever it left behind; the group's number is not free before it is reaped
        if not grace_s:
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
        """Without reaping it where that can be had: as long as it is a zombie nobody else gets its number."""
        if hasattr(os, "waitid"):
            look = os.WEXITED | os.WNOHANG | os.WNOWAIT
            with contextlib.suppress(ChildProcessError):
                return os.waitid(os.P_PID, self.pid, look) is not None
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
    """Start a server, and end it when this is left. Raises OSError if it cannot be started."""
    process = _start_process([command, *args], get_default_environment() | dict(env), cwd)
    made = ChildProcess(process, stderr_log, reaper)
    grace_s = GRACE_S
    try:
        await made.open()
        yield made
        grace_s = 0.0 if made.incoming.ended or made.is_hung else GRACE_S
    except BaseException:
        grace_s = 0.0
        raise
    finally:
        with anyio.CancelScope(shield=True):
            await made.end(grace_s)


def _start_process(command: Sequence[str], env: Mapping[str, str], cwd: str) -> "subprocess.Popen[bytes]":
    """Start a process. Raises OSError that says what is missing. Not awaited: being cancelled would leak a child."""
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


class MessageReader:
    """The messages that a child writes, one a line. Lines that are none go to the log."""

    def __init__(self, stderr_log: StderrLog) -> None:
        self.reader = asyncio.StreamReader(limit=MAX_MESSAGE_BYTES)
        self.pipe: asyncio.BaseTransport | None = None
        self.ended = False
        self._stderr_log = stderr_log

    def end(self) -> None:
        """Nothing more is read: whoever waits for a message is told, once what was read is used up."""
        if self.pipe is None:
            self.reader.feed_eof()
        else:
            self.pipe.close()

    def __aiter__(self) -> "MessageReader":
        return self

    async def __anext__(self) -> SessionMessage:
        while (line := await self._read_line()) is not None:
            if isinstance(line, SessionMessage):
                return line
            if (message := parse_message(line)) is not None:
                return message
            self._stderr_log.add_line(line, "writes to stdout what is no message")
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
        """Leave out a line that is too long; whoever waits for it, if it says so at its head, is told."""
        head = (await self.reader.readexactly(consumed))[:200]
        while True:
            try:
                await self.reader.readuntil(b"\n")
                break
            except asyncio.LimitOverrunError as error:
                await self.reader.readexactly(error.consumed)
            except asyncio.IncompleteReadError:
                return None
        if (found := _ID.search(head)) is None or b'"method"' in head:
            return head
        said = ErrorData(code=INTERNAL_ERROR, message=f"the answer is longer than {MAX_MESSAGE_BYTES:,} bytes")
        return SessionMessage(JSONRPCError(jsonrpc="2.0", id=int(found[1]), error=said))

    async def aclose(self) -> None:
        self.end()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        await self.aclose()


class MessageWriter:
    """What is written to a child, and how far it had read when it ended."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self._fd = fd
        self._backlog = bytearray()
        self._writable = asyncio.Event()
        self._writable.set()
        self._closed = False
        self._written_bytes = 0
        """How many bytes the kernel has taken."""
        self._request_ends: dict[int | str, int] = {}
        """By request: where in all that was written it ends. Of those that may still be asked about."""
        self._read_bytes: int | None = None

    @property
    def waiting_bytes(self) -> int:
        return len(self._backlog)

    def was_read(self, request: int | str) -> bool:
        """Whether a request may have been read, and so acted upon. What is not known may have been."""
        end = self._request_ends.pop(request, None)
        return end is not None and (self._read_bytes is None or end <= self._read_bytes)

    def forget_request(self, request: int | str) -> None:
        self._request_ends.pop(request, None)

    def record_read_bytes(self) -> None:
        """Of a child that reads no more: note how far it came. The kernel still has what it did not read."""
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
            return  # it asks, or is told, more than it reads
        self._backlog += message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
        if isinstance(message, JSONRPCRequest):
            self._request_ends[message.id] = self._written_bytes + len(self._backlog)
        self._flush()

    def _flush(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._backlog:
                taken = os.write(self._fd, memoryview(self._backlog)[:CHUNK_BYTES].tobytes())
                self._written_bytes += taken
                del self._backlog[:taken]
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
        """The child is told by its end, not by this."""

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
        """The bytes that wait in a pipe."""
        count = array.array("i", [0])
        fcntl.ioctl(fd, termios.FIONREAD, count)
        return count[0]

else:

    def _count_unread_bytes(fd: int) -> int:
        return 0


def parse_message(line: bytes) -> SessionMessage | None:
    """The message of a line, if it is one. An answer is taken as it is: it is checked by whoever asked."""
    try:
        raw = msgspec.json.decode(line, type=dict[str, object])
        if "method" not in raw and isinstance(raw.get("result"), dict) and isinstance(raw.get("id"), int | str):
            return SessionMessage(JSONRPCResponse.model_construct(jsonrpc="2.0", id=raw["id"], result=raw["result"]))
        return SessionMessage(jsonrpc_message_adapter.validate_python(raw, by_name=False))
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
