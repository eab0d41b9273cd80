"""Servers in processes of their own, the mock model behind them and the load before them. It knows no figures."""

import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import peers
from contest import Contestant, ContestError, MockServer, Worker
from peers import Peer

YARD, BARE, PEER, MODEL = "Toolyard", "bare Starlette", "FastAPI + pydantic-ai", "the model itself"
SERVED_BY = ("uvicorn==0.54.0", "uvloop==0.23.0", "httptools==0.9.0")
FASTAPI_PINS = ("pydantic-ai-slim[openai]==2.66.0", "fastapi==0.162.4", "httpx2==2.16.0", *SERVED_BY)
STARLETTE_PINS = ("starlette==1.10.0", "aiohttp==3.14.5", "msgspec==0.22.0", *SERVED_BY)
SERVER = "import httptools, uvicorn, uvloop"
PEERS = (
    Peer(PEER, "fastapi", FASTAPI_PINS, f"{SERVER}, fastapi, httpx2, pydantic_ai.models.openai", ""),
    Peer(BARE, "aiohttp", STARLETTE_PINS, f"{SERVER}, aiohttp, msgspec, starlette", ""),
)
SCRIPTS = {YARD: "toolyard_server.py", BARE: "bare_server.py", PEER: "fastapi_pydantic_ai_server.py"}
LOAD = Contestant("the load", sys.executable, "../server_load.py")
Told = dict[str, Any]


class PacedModel(MockServer):
    """The mock model that a prompt tells how to answer."""

    def __enter__(self) -> str:
        command = [sys.executable, str(Path(__file__).parent / "server_model.py")]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout
        return f"http://127.0.0.1:{int(self._process.stdout.readline())}"


@dataclass
class Servers:
    """Each server is started when it is first needed, warmed up, and stays for the next rounds."""

    names: list[str]
    model_url: str
    environment: Mapping[str, str]
    """Of our server: where its store is."""
    tell: Callable[[str], None]
    absent: dict[str, str] = field(default_factory=dict[str, str])
    """Peers that failed, and why: the bench goes on without them."""
    _running: dict[str, tuple[Worker, Told]] = field(default_factory=dict[str, tuple[Worker, Told]])
    _stack: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Self:
        self._load = self._stack.enter_context(Worker(LOAD))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def ask(self, name: str, scenario: str, **order: str | int) -> Told | None:
        """What the load tells of one server; None if that peer has left."""
        if name not in self.names or name in self.absent:
            return None
        try:
            return self._load.ask({"scenario": scenario, **self._where(name), **order})
        except ContestError as error:
            if name in (YARD, MODEL):
                raise ContestError(f"{name} in {scenario}: {error}") from None
            self.absent[name] = str(error)
            return None

    def rounds(self, what: str, rounds: Mapping[str, int], scenario: str, **order: str | int) -> dict[str, list[Told]]:
        """By server, what was told in each of its rounds; the servers take turns."""
        found: dict[str, list[Told]] = {}
        for number in range(max(rounds.values())):
            for name, most in rounds.items():
                if number < most:
                    self.tell(f"{what}: round {number + 1}, {name}")
                    told = self.ask(name, scenario, **order)
                    found.setdefault(name, []).extend([told] if told else [])
        return {name: told for name, told in found.items() if told}

    def restart(self, name: str) -> None:
        """End it; it starts anew when it is next asked for. Ours finds its store as it was."""
        if name in self._running:
            worker, _ = self._running.pop(name)
            worker.__exit__()

    def _where(self, name: str) -> Told:
        if name == MODEL:
            return {"port": int(self.model_url.rpartition(":")[2]), "direct": 1, "pid": 0}
        if name not in self._running:
            python = sys.executable if name == YARD else str(peers.PYTHON)
            worker = Worker(Contestant(name, python, f"../servers/{SCRIPTS[name]}", self.environment))
            self._stack.push(lambda *_: self._end(worker))
            self._running[name] = worker, (where := worker.ask({"model": self.model_url}))
            self._load.ask({"scenario": "loops", **where, "together": 10, "loops": 20, "turns": 2, "chunks": 5})
        return self._running[name][1]

    def _end(self, worker: Worker) -> None:
        if any(worker is running for running, _ in self._running.values()):
            worker.__exit__()
