"""Run servers in their own processes, with the mock model behind them and the load generator in front of them."""

import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import peers
from contest import Contestant, ContestError, MockServer, Order, Worker
from peers import Peer

YARD, BARE, PEER, MODEL = "Toolyard", "bare Starlette", "FastAPI + pydantic-ai", "the model itself"
SERVED_BY = ("uvicorn==0.54.0", "uvloop==0.23.0", "httptools==0.9.0")
FASTAPI_PINS = ("pydantic-ai-slim[openai]==2.66.0", "fastapi==0.162.4", "httpx2==2.16.0", *SERVED_BY)
STARLETTE_PINS = ("starlette==1.10.0", "aiohttp==3.14.5", "msgspec==0.22.0", *SERVED_BY)
SERVER = "import httptools, uvicorn, uvloop"
LITELLM = "LiteLLM's proxy"
LITELLM_PINS = ("litellm[proxy]==1.105.0", "httptools==0.9.0")
PEERS = (
    Peer(PEER, "fastapi", FASTAPI_PINS, f"{SERVER}, fastapi, httpx2, pydantic_ai.models.openai", ""),
    Peer(BARE, "aiohttp", STARLETTE_PINS, f"{SERVER}, aiohttp, msgspec, starlette", ""),
)
# While it is imported, it downloads the prices of models in a thread, unless it is told to use those that it has.
LITELLM_IMPORTS = f'import os; os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"; {SERVER}, litellm, fastapi'
PROXY = Peer(LITELLM, "litellm", LITELLM_PINS, LITELLM_IMPORTS, "", peers.ROOT / ".venv-litellm")
FASTMCP = "fastmcp"
FASTMCP_PINS = ("fastmcp==4.1.2", *SERVED_BY)
FASTMCP_PEER = Peer(FASTMCP, "fastmcp", FASTMCP_PINS, f"{SERVER}, fastmcp", "", peers.ROOT / ".venv-fastmcp")
SCRIPTS = {
    YARD: "toolyard_server.py",
    BARE: "bare_server.py",
    PEER: "fastapi_pydantic_ai_server.py",
    LITELLM: "litellm_server.py",
    FASTMCP: "fastmcp_server.py",
}
PYTHONS = {YARD: sys.executable, **{peer.name: str(peer.python) for peer in (*PEERS, PROXY, FASTMCP_PEER)}}
CHAT, RESPONSES, AI_SDK, AG_UI = "/v1/chat/completions", "/v1/responses", "/ai-sdk/chat", "/ag-ui"
LOAD = Contestant("the load", sys.executable, "../server_load.py")
WARM_UP = {"scenario": "loops", "together": 10, "loops": 20, "chunks": 5, "turns": 2}
PROXY_WARM_UP = {**WARM_UP, "turns": 0, "path": CHAT}
"""For a server that runs no tools."""
Answer = dict[str, Any]


class PacedModel(MockServer):
    """The mock model of `server_model.py`, whose answers the prompt selects."""

    def __enter__(self) -> str:
        command = [sys.executable, str(Path(__file__).parent / "server_model.py")]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout
        return f"http://127.0.0.1:{int(self._process.stdout.readline())}"


@dataclass
class Servers:
    """The servers of a bench. Each is started and warmed up when it is first needed, and stays for the next rounds."""

    names: list[str]
    model_url: str
    environment: Mapping[str, str]
    """Variables for the processes, such as the store of our server."""
    show_progress: Callable[[str], None]
    absent: dict[str, str] = field(default_factory=dict[str, str])
    """The peers that failed, with the reason: the bench continues without them."""
    load: Contestant = LOAD
    warm_ups: Mapping[str, Order] = field(default_factory=lambda: {LITELLM: PROXY_WARM_UP})
    """What the load generator does when a server has started, where it differs from `WARM_UP`."""
    _running: dict[str, tuple[Worker, Answer]] = field(default_factory=dict[str, tuple[Worker, Answer]])
    _stack: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Self:
        self._load = self._stack.enter_context(Worker(self.load))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def ask(self, name: str, scenario: str, **order: str | int) -> Answer | None:
        """Run a scenario against a server, and return the answer of the load generator; None if the peer failed."""
        if name not in self.names or name in self.absent:
            return None
        try:
            return self._load.ask({"scenario": scenario, **self._get_address(name), **order})
        except ContestError as error:
            if name in (YARD, MODEL):
                raise ContestError(f"{name} in {scenario}: {error}") from None
            self.absent[name] = str(error)
            return None

    def run_rounds(
        self, what: str, rounds: Mapping[str, int], scenario: str, **order: str | int
    ) -> dict[str, list[Answer]]:
        """Return the answers of each server in its rounds; the servers take turns."""
        answers: dict[str, list[Answer]] = {}
        for number in range(max(rounds.values())):
            for name, server_rounds in rounds.items():
                if number < server_rounds:
                    self.show_progress(f"{what}: round {number + 1}, {name}")
                    answer = self.ask(name, scenario, **order)
                    answers.setdefault(name, []).extend([answer] if answer else [])
        return {name: of_server for name, of_server in answers.items() if of_server}

    def restart(self, name: str) -> None:
        """End a server; it starts again when it is next needed. Our server finds its store as it was."""
        if name in self._running:
            worker, _ = self._running.pop(name)
            worker.__exit__()

    def _get_address(self, name: str) -> Answer:
        """Return the port and the process id of a server, which is started if it is not running."""
        if name == MODEL:
            return {"port": int(self.model_url.rpartition(":")[2]), "path": CHAT, "pid": 0}
        if name not in self._running:
            worker = Worker(Contestant(name, PYTHONS[name], f"../servers/{SCRIPTS[name]}", self.environment))
            self._stack.push(lambda *_: self._end(worker))
            self._running[name] = worker, (address := worker.ask({"model": self.model_url}))
            self._load.ask({**self.warm_ups.get(name, WARM_UP), **address})
        return self._running[name][1]

    def _end(self, worker: Worker) -> None:
        if any(worker is running for running, _ in self._running.values()):
            worker.__exit__()
