"""Python processes as forks of one that has imported the package: to start Python and import it takes a second.

A fork is a child of the process that asked for it, with a pid, pipes and an exit code: it is waited for, stopped and
killed as any other. Run as a program, this is the process that is forked.
"""

import atexit
import ctypes
import gc
import json
import os
import runpy
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from fcntl import F_DUPFD, fcntl
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

MAX_ORDER_BYTES = 200_000
MAX_DESCRIPTORS = 16
FIRST_FREE_DESCRIPTOR = 100
"""Above those that an order names, so that none of them is overwritten while they are put into their places."""
PR_SET_CHILD_SUBREAPER = 36
PRELOADED = (
    "litestar.plugins.attrs",
    "litestar.plugins.pydantic",
    "toolyard.models.offline",
    "toolyard.server.serving",
    "toolyard.stores.postgres",
    "toolyard.stores.sqlite",
    "toolyard.surfaces.app",
    "toolyard.testing",
    "toolyard.venues.mcp.connector",
)
"""What servers import besides what commands do, also when they start."""


class Order(NamedTuple):
    """A process to fork."""

    words: Sequence[str]
    """`-m MODULE ARGUMENT...` or `SCRIPT ARGUMENT...`."""
    folder: str
    environment: Mapping[str, str]
    descriptors: Sequence[int]
    """The numbers that the descriptors that come with the order have in the process."""


class Forker:
    """The process that is forked."""

    def __init__(self) -> None:
        self._connection, other_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with other_end:
            command = [sys.executable, __file__, str(other_end.fileno())]
            # In a session of its own, so that Ctrl+C reaches the tests alone.
            self._process = subprocess.Popen(command, pass_fds=[other_end.fileno()], start_new_session=True)
        self._libc = ctypes.CDLL(None)
        atexit.register(self.close)

    def close(self) -> None:
        self._connection.close()
        self._process.wait()

    def fork(self, order: Order, descriptors: Sequence[int]) -> int:
        """Return the pid of a new child of this process."""
        # The fork is an orphan, which the kernel gives to us; no other orphan may come, we would not wait for it.
        self._libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        try:
            socket.send_fds(self._connection, [json.dumps(order).encode()], descriptors)
            pid = int(self._connection.recv(100))
        finally:
            self._libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)  # raises ChildProcessError if it is not ours
        return pid


@cache
def get_forker() -> Forker:
    return Forker()


_one_at_a_time = threading.Lock()
"""Threads share the forker, and whether this process takes orphans is a property of all of it."""


class ForkedPython(subprocess.Popen[Any]):
    """`subprocess.Popen` for `python -m MODULE ARGUMENT...` and `python SCRIPT ARGUMENT...`, with this Python."""

    def __init__(
        self,
        words: Sequence[str],
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        stdin: Any = None,
        stdout: Any = None,
        stderr: Any = None,
        text: bool = False,
        pass_fds: Sequence[int] = (),
    ) -> None:
        super().__init__(
            [sys.executable, *words],
            cwd=cwd,
            env=env,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            text=text,
            pass_fds=pass_fds,
        )

    if sys.platform == "linux":

        def _execute_child(self, *details: Any) -> None:
            """Fork where `Popen` would start a program, and leave all that comes after it to `Popen`."""
            (words, _, _, _, pass_fds, cwd, env, _, _, _), ends = details[:10], details[10:16]
            child_input, _, _, child_output, _, child_errors = ends
            standard = [own if end == -1 else end for own, end in enumerate((child_input, child_output, child_errors))]
            environment = os.environ if env is None else env
            order = Order(words[1:], str(cwd or Path.cwd()), dict(environment), [0, 1, 2, *pass_fds])
            try:
                with _one_at_a_time:
                    self.pid = get_forker().fork(order, [*standard, *pass_fds])
                self._child_created = True
            finally:
                self._close_pipe_fds(*ends)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]


def run_forked(words: Sequence[str], *, timeout_s: float) -> int:
    """Run a process to its end, and return its exit code."""
    with ForkedPython(words) as process:
        try:
            return process.wait(timeout_s)
        finally:
            process.kill()


def wait_for_order(connection: socket.socket) -> Order | None:
    """Return the order in the process that is forked for it, or None in this one when nobody can order any more."""
    while True:
        message, received, _, _ = socket.recv_fds(connection, MAX_ORDER_BYTES, MAX_DESCRIPTORS)
        if not message:
            return None
        order = Order(*json.loads(message))
        (pid_reader, pid_writer), (start_reader, start_writer) = os.pipe(), os.pipe()
        ends = (pid_reader, pid_writer, start_reader, start_writer)
        if parent := os.fork():
            os.waitpid(parent, 0)
            connection.send(os.read(pid_reader, 100))
            for descriptor in (*ends, *received):
                os.close(descriptor)
            continue
        if child := os.fork():
            os.write(pid_writer, str(child).encode())
            os._exit(0)
        os.close(start_writer)
        os.read(start_reader, 1)  # ends once the process that asked is our parent
        for descriptor in ends[:3]:
            os.close(descriptor)
        connection.close()
        put_descriptors(received, order.descriptors)
        return order


def put_descriptors(received: Sequence[int], numbers: Sequence[int]) -> None:
    """Give descriptors the numbers that they are to have."""
    moved = [fcntl(descriptor, F_DUPFD, FIRST_FREE_DESCRIPTOR) for descriptor in received]
    for descriptor in received:
        os.close(descriptor)
    for descriptor, number in zip(moved, numbers, strict=True):
        os.dup2(descriptor, number)
        os.close(descriptor)


def run(order: Order) -> None:
    """Do in this process what a new one would do."""
    os.chdir(order.folder)
    os.environ.clear()
    os.environ.update(order.environment)
    sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    first, *rest = order.words
    if first == "-m":
        module, *arguments = rest
        sys.argv, sys.path[0] = ["-m", *arguments], order.folder
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    else:
        sys.argv, sys.path[0] = [first, *rest], str(Path(first).parent)
        runpy.run_path(first, run_name="__main__")


def main() -> None:
    connection = socket.socket(fileno=int(sys.argv[1]))
    commands = import_module("toolyard.cli.commands").COMMANDS
    for name in (*PRELOADED, *(f"toolyard.cli.commands.{name.replace('-', '_')}" for name in commands)):
        import_module(name)
    app = import_module("toolyard.surfaces.app")
    app.build_router(app.SURFACES)  # it is built once in a process
    gc.collect()
    gc.freeze()
    order = wait_for_order(connection)
    if order is not None:
        run(order)


if __name__ == "__main__":
    main()
