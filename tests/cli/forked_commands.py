"""`toolyard` commands in forks of one process that has imported everything: starting Python takes half a second each.

Run as a program it reads lines of JSON, forks a process for each, and writes its exit code when it has ended.
"""

import atexit
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from queue import Empty, SimpleQueue
from typing import NamedTuple

from toolyard.cli import main
from toolyard.cli.commands import COMMANDS


class Command(NamedTuple):
    folder: str
    arguments: Sequence[str]
    environment: Mapping[str, str]
    files: Sequence[str]
    """The files for its input, its output and its errors."""


class CommandForker:
    """The process that forks the commands. It runs one at a time."""

    idle: SimpleQueue["CommandForker"] = SimpleQueue()
    """Those that wait for a command; each thread that runs commands takes one of its own."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        atexit.register(self.kill)

    def kill(self) -> None:
        """End the process and a command that it runs."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def run(self, command: Command, limit_s: float) -> int:
        """Run a command, and return its exit code."""
        reader, writer = self._process.stdout, self._process.stdin
        assert reader is not None and writer is not None
        writer.write(json.dumps(command) + "\n")
        writer.flush()
        if not select.select([reader], [], [], limit_s)[0]:
            self.kill()
            raise TimeoutError(f"toolyard {' '.join(command.arguments)} has not ended after {limit_s:.0f} s")
        return int(reader.readline())


def run_forked(command: Command, limit_s: float) -> int:
    try:
        forker = CommandForker.idle.get_nowait()
    except Empty:
        forker = CommandForker()
    code = forker.run(command, limit_s)
    CommandForker.idle.put(forker)
    return code


def run_command(command: Command) -> None:
    """Run the command in this process as a new one would, and end it."""
    os.chdir(command.folder)
    os.environ.clear()
    os.environ.update(command.environment)
    sys.path[0] = command.folder
    sys.argv = ["toolyard", *command.arguments]
    for number, file in enumerate(command.files):
        os.dup2(os.open(file, os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT), number)
    sys.stdin, sys.stdout, sys.stderr = (open(number, mode) for number, mode in enumerate("rww"))  # noqa: SIM115
    code = 1
    try:
        main()
    except SystemExit as ended:
        code = int(ended.code or 0)
    finally:
        for stream in (sys.stdout, sys.stderr):
            if not stream.closed:
                stream.flush()
        os._exit(code)


def serve() -> None:
    for name in COMMANDS:
        import_module(f"toolyard.cli.commands.{name.replace('-', '_')}")
    for line in sys.stdin:
        child = os.fork()
        if not child:
            run_command(Command(*json.loads(line)))
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve()
