"""Run contestants in their own processes, with interleaved rounds: A B C, A B C, …"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Self

import peers

LOOPS = Path(__file__).parent / "loops"
SERVER = Path(__file__).parent / "mock_server.py"
OURS = ("Toolyard", "Toolyard, SQLite", "hand loop")
Order = Mapping[str, str | int | float]


class ContestError(RuntimeError):
    """A contestant failed, or its process died."""


@dataclass(frozen=True)
class Contestant:
    """A library or loop that is measured: the script that runs it, and the interpreter for it."""

    name: str
    python: str
    script: str
    environment: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def is_peer(self) -> bool:
        return self.name not in OURS


def list_contestants(directory: str, peer_names: Sequence[str]) -> list[Contestant]:
    sqlite = {"TOOLYARD_STORE": f"sqlite:///{directory}/bench.db"}
    ours = [
        Contestant(OURS[0], sys.executable, "toolyard_loop.py"),
        Contestant(OURS[1], sys.executable, "toolyard_loop.py", sqlite),
        Contestant(OURS[2], sys.executable, "hand_loop.py"),
    ]
    scripts = {name: name.lower().replace(" ", "_").replace("-", "_") + "_loop.py" for name in peer_names}
    return ours + [Contestant(name, str(peers.HOME / "bin" / "python"), script) for name, script in scripts.items()]


class Worker:
    """The process of a contestant: it reads an order as a line of JSON, and answers with a line of JSON."""

    def __init__(self, contestant: Contestant) -> None:
        self.contestant = contestant
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(
            [contestant.python, str(LOOPS / contestant.script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            env={**os.environ, "PYTHONHASHSEED": "0", **contestant.environment},
            text=True,
        )

    def ask(self, order: Order) -> dict[str, float]:
        assert self._process.stdin and self._process.stdout
        with suppress(BrokenPipeError):  # a process that died shows by its empty answer
            print(json.dumps(order), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            raise ContestError(f"{self.contestant.name} died: {self._read_stderr()}")
        answer = json.loads(line)
        if "error" in answer:
            raise ContestError(f"{self.contestant.name} failed: {answer['error']}")
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._process:
            if self._process.stdin:
                self._process.stdin.close()
        self._stderr.close()

    def _read_stderr(self) -> str:
        self._stderr.seek(0)
        return self._stderr.read().decode(errors="replace")[-2000:].strip()


class MockServer:
    """The mock model in its own process; the context manager returns its address."""

    def __enter__(self) -> str:
        command = [sys.executable, str(SERVER)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout
        return f"http://127.0.0.1:{int(self._process.stdout.readline())}"

    def __exit__(self, *_: object) -> None:
        with self._process:
            if self._process.stdin:
                self._process.stdin.close()


@dataclass
class Contest:
    """The contestants of a bench. Each is started when it is first needed, and stays for the next rounds."""

    contestants: Sequence[Contestant]
    url: str
    least_s: float
    show_progress: Callable[[str], None]
    absent: dict[str, str] = field(default_factory=dict[str, str])
    """The peers that failed, with the reason: the bench continues without them."""
    _workers: dict[str, Worker] = field(default_factory=dict[str, Worker])
    _stack: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def run_rounds(
        self, what: str, orders: Sequence[Order], rounds: int, peer_rounds: int
    ) -> list[dict[str, list[float]]]:
        """Return for each order the answers of each contestant, round by round."""
        answers_by_order: list[dict[str, list[float]]] = [{} for _ in orders]
        for number in range(rounds):
            for contestant in self.contestants:
                if contestant.is_peer and number >= peer_rounds:
                    continue
                for order, answers in zip(orders, answers_by_order, strict=True):
                    self.show_progress(f"{what}: round {number + 1} of {rounds}, {contestant.name}")
                    self._ask(contestant, order, answers)
        return answers_by_order

    def run_fresh(self, what: str, order: Order, rounds: int) -> dict[str, list[float]]:
        """Return the answers of each contestant, each from a new process."""
        answers: dict[str, list[float]] = {}
        for number in range(rounds):
            for contestant in self.contestants:
                self.show_progress(f"{what}: round {number + 1} of {rounds}, {contestant.name}")
                with Worker(contestant) as worker:
                    self._ask(contestant, order, answers, worker)
        return answers

    def _ask(
        self, contestant: Contestant, order: Order, answers: dict[str, list[float]], worker: Worker | None = None
    ) -> None:
        if contestant.name in self.absent:
            return
        try:
            answer = (worker or self._get_worker(contestant)).ask({**order, "url": self.url, "least_s": self.least_s})
        except ContestError as error:
            if not contestant.is_peer:
                raise
            self.absent[contestant.name] = str(error)
            return
        answers.setdefault(contestant.name, []).append(*answer.values())

    def _get_worker(self, contestant: Contestant) -> Worker:
        if contestant.name not in self._workers:
            self._workers[contestant.name] = self._stack.enter_context(Worker(contestant))
        return self._workers[contestant.name]


def measure_cpu_ms(python: str, code: str) -> float:
    """Return the CPU time of some code in a new interpreter, without the start of the interpreter."""
    timed_code = f"import time as _t; _b = _t.process_time()\n{code}\nprint('\\n', (_t.process_time() - _b) * 1000)"
    process = subprocess.run([python, "-W", "ignore", "-c", timed_code], capture_output=True, text=True, check=False)
    if process.returncode:
        raise ContestError(process.stderr[-500:])
    return float(process.stdout.split()[-1])
