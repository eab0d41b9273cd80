"""`toolyard serve` of a checkout with its default settings, in its own process, for `bench/compare.py`."""

import http.client
import os
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path
from time import clock_gettime, monotonic, sleep
from typing import Self

from contest import ContestError

START_S = 30.0
TOOLS = '''from toolyard import tool


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b
'''
# The limits stop a load of one caller, and the long conversation, which is one run.
SETTINGS = """model = "{model}/v1#bench"
tools = ["./tools.py"]
store = "sqlite:///{folder}/bench.db"

[limits]
turns_per_request = 1000000
turns_per_conversation = 1000000
requests_per_minute = 1000000
"""


class TreeServer:
    """A server that is ready when the context is entered, and has ended when it is left."""

    def __init__(self, python: str, environment: Mapping[str, str], folder: Path, model_url: str) -> None:
        self._folder = folder
        self._environment = {**os.environ, **environment}
        self._port = find_free_port()
        self._command = [python, "-m", "toolyard", "serve", "--config", "toolyard.toml", "--port", str(self._port)]
        self._settings = SETTINGS.format(model=model_url, folder=folder)
        self.start_cpu_ms = 0.0
        """The CPU time of the process until it was ready."""

    @property
    def address(self) -> dict[str, int]:
        return {"port": self._port, "pid": self._process.pid}

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / "tools.py").write_text(TOOLS)
        (self._folder / "toolyard.toml").write_text(self._settings)
        with open(self._folder / "server.log", "wb") as log:
            self._process = subprocess.Popen(
                self._command, cwd=self._folder, env=self._environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        deadline = monotonic() + START_S
        while not self._is_ready():
            if self._process.poll() is not None or monotonic() > deadline:
                self.__exit__()
                raise ContestError(f"a server did not start: {(self._folder / 'server.log').read_text()[-2000:]}")
            sleep(0.01)
        # Linux: the id of a process's CPU clock, as clock_getcpuclockid(3) computes it.
        self.start_cpu_ms = clock_gettime((~self._process.pid << 3) | 2) * 1000
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(START_S)

    def _is_ready(self) -> bool:
        return self._get("/readyz") == 200 or (self._get("/readyz") == 404 and self._get("/healthz") == 200)

    def _get(self, path: str) -> int:
        """Return the status of an answer, or 0 where nobody listens yet."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=START_S)
        try:
            connection.request("GET", path)
            return connection.getresponse().status
        except OSError:
            return 0
        finally:
            connection.close()


def find_free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]
