"""The cases of the library bench: what each measures, and the value that each figure must have."""

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

import peers
from contest import LOOPS, OURS, Contest, Contestant, ContestError, Order, measure_cpu_ms

YARD, SQLITE, HAND = OURS
PYDANTIC_AI = "pydantic-ai"
MAX_MB = 52
MAX_TOGETHER_MS = 60
CHAT = "chat wire"
WIRES = {
    "Messages": "messages",
    "Responses": "responses",
    "Gemini": "gemini",
}
"""The wires besides Chat Completions."""
OWN_IMPORTS = {YARD: "import toolyard", HAND: "import aiohttp, msgspec"}
OWN_READY = {
    YARD: f"""
import asyncio
from toolyard import Yard
{peers.ADD}
async def main():
    async with Yard(tools=[add], model="http://127.0.0.1:9/v1#x"): pass
asyncio.run(main())
""",
    HAND: "import aiohttp, msgspec",
}

Cells = Mapping[str, float]


NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class Figure:
    """One row: the value of each contestant, and if a value is required, whether it is reached."""

    what: str
    cells: Cells = field(default_factory=dict[str, float])
    digits: int = 0
    must: str = ""
    reached: str = ""
    passed: bool | None = None
    required: bool = True
    growth: Cells = field(default_factory=dict[str, float])
    """By contestant, the cost divided by that of the row before."""
    spread: Mapping[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]])
    """By contestant, the lowest and the highest of the values whose median the cell is."""


@dataclass(frozen=True)
class Effort:
    """How often each case is measured."""

    rounds: int
    growth_peer_rounds: int
    """Fewer, because the peers take long, and no value is required of their growth."""
    together: int = 20
    runs: int = 1000


Case = Callable[[Contest, Effort], list[Figure]]


def compute_medians(answers: Mapping[str, Sequence[float]]) -> dict[str, float]:
    return {name: median(values) for name, values in answers.items() if values}


def at_most(what: str, cells: Cells, most: float, beside: str, who: str = YARD) -> Figure:
    """Return a figure that requires `who` to cost at most `most` times what `beside` costs."""
    must = f"≤ 1/{1 / most:.0f} of {beside}" if most < 1 else f"≤ {most:g}× the {beside}"
    if who not in cells or beside not in cells:
        return Figure(what, cells, must=must, reached=NOT_MEASURED)
    ratio = cells[who] / cells[beside]
    reached = f"1/{1 / ratio:.1f}" if most < 1 else f"{ratio:.2f}×"
    return Figure(what, cells, must=must, reached=reached, passed=ratio <= most)


def measure_turns(contest: Contest, effort: Effort) -> list[Figure]:
    [answers] = contest.run_rounds("tool turns", [{"scenario": "turns"}], effort.rounds, effort.rounds)
    cells = compute_medians(answers)
    return [
        at_most("CPU per tool turn, µs", cells, 1 / 20, PYDANTIC_AI),
        replace(at_most("— beside the hand loop", cells, 2.5, HAND), cells={}),
        replace(at_most("— on SQLite", cells, 4, HAND, who=SQLITE), cells={}),
    ]


def measure_chunks(contest: Contest, effort: Effort) -> list[Figure]:
    orders = [
        {"scenario": "own", "streams": 20},
        {"scenario": "own", "streams": 1},
        {"scenario": "batched", "streams": 1},
    ]
    own_packet, alone, batched = map(
        compute_medians, contest.run_rounds("chunks", orders, effort.rounds, effort.rounds)
    )
    return [
        at_most("CPU per chunk in its own packet (20 streams at once), µs", own_packet, 1 / 8, PYDANTIC_AI),
        replace(at_most("— one stream, asleep before each chunk", alone, 1 / 8, PYDANTIC_AI), required=False),
        replace(at_most("CPU per chunk, batched, µs", batched, 1 / 30, PYDANTIC_AI), digits=1),
    ]


def measure_history(contest: Contest, effort: Effort) -> list[Figure]:
    return _measure_growth(contest, effort, "prior messages", "prior", {"tools": 1})


def measure_tools(contest: Contest, effort: Effort) -> list[Figure]:
    return _measure_growth(contest, effort, "registered tools", "tools", {"prior": 0})


def _measure_growth(contest: Contest, effort: Effort, what: str, key: str, fixed: Mapping[str, int]) -> list[Figure]:
    """Compare the cost of a request with 10 and with 1,000 of something."""
    orders = [{"scenario": "steady", key: count, **fixed} for count in (10, 1000)]
    few, many = map(compute_medians, contest.run_rounds(what, orders, effort.rounds, effort.growth_peer_rounds))
    growth = {name: many[name] / few[name] for name in many}
    worst = max(growth[YARD], growth[SQLITE])
    must, reached = "≤ 2× that with 10", f"{growth[YARD]:.2f}×, SQLite {growth[SQLITE]:.2f}×"
    return [
        Figure(f"CPU per model request with 10 {what}, µs", few),
        Figure(f"— with 1,000 {what}", many, must=must, reached=reached, passed=worst <= 2, growth=growth),
    ]


def measure_wires(contest: Contest, effort: Effort) -> list[Figure]:
    """Compare our other wires with Chat Completions, each in its own process."""
    contestants = [Contestant(CHAT, sys.executable, "toolyard_loop.py")]
    contestants += [
        Contestant(name, sys.executable, "toolyard_loop.py", {"TOOLYARD_WIRE": wire}) for name, wire in WIRES.items()
    ]
    orders: list[Order] = [{"scenario": "own", "streams": 20}, {"scenario": "batched", "streams": 1}]
    orders += [{"scenario": "steady", "prior": prior, "tools": 1} for prior in (10, 1000)]
    with Contest(contestants, contest.url, contest.least_s, contest.show_progress) as wire_contest:
        own_packet, batched, with_few, with_many = map(
            compute_medians, wire_contest.run_rounds("wires", orders, effort.rounds, effort.rounds)
        )
        if wire_contest.absent:
            raise ContestError(str(wire_contest.absent))
    figures = list[Figure]()
    for name in WIRES:
        growth = with_many[name] / with_few[name]
        figures += [
            replace(
                at_most(f"{name} wire: CPU per chunk, {own_packet[name]:.0f} µs", own_packet, 1.5, CHAT, who=name),
                cells={},
            ),
            replace(at_most(f"— batched, {batched[name]:.1f} µs", batched, 1.5, CHAT, who=name), cells={}),
            Figure(
                f"— per request with 1,000 prior messages, {with_many[name]:,.0f} µs",
                must="≤ 2× that with 10",
                reached=f"{growth:.2f}×",
                passed=growth <= 2,
            ),
        ]
    return figures


def measure_together(contest: Contest, effort: Effort) -> list[Figure]:
    order = {"scenario": "together", "times": effort.together}
    [answers] = contest.run_rounds("eight tools at once", [order], effort.rounds, effort.rounds)
    cells = compute_medians(answers)
    wall = cells[YARD]
    return [
        Figure(
            "8 tools of 50 ms in one turn, whole run, wall ms",
            cells,
            digits=1,
            must=f"≤ {MAX_TOGETHER_MS} ms",
            reached=f"{wall:.1f} ms",
            passed=wall <= MAX_TOGETHER_MS,
        )
    ]


def measure_imports(contest: Contest, effort: Effort) -> list[Figure]:
    of_peers = {peer.name: peer for peer in peers.PEERS}
    plain = {**OWN_IMPORTS, **{name: peer.imports for name, peer in of_peers.items()}}
    ready = {**OWN_READY, **{name: peer.ready for name, peer in of_peers.items()}}
    imported = _measure_import_cpu(contest, "import", plain, effort.rounds)
    prepared = _measure_import_cpu(contest, "ready", ready, effort.rounds)
    return [
        at_most("CPU of the import, ms", imported, 1 / 4, PYDANTIC_AI),
        replace(at_most("— until ready for a first request, ms", prepared, 1 / 4, PYDANTIC_AI), required=False),
    ]


def _measure_import_cpu(contest: Contest, what: str, code: Mapping[str, str], rounds: int) -> dict[str, float]:
    answers: dict[str, list[float]] = {}
    for number in range(rounds + 1):  # round 0 only fills the file cache
        for contestant in contest.contestants:
            if contestant.name in code and contestant.name not in contest.absent:
                contest.show_progress(f"{what}: round {number} of {rounds}, {contestant.name}")
                _add_cpu(contest, contestant, code[contestant.name], answers if number else {})
    return compute_medians(answers)


def _add_cpu(contest: Contest, contestant: Contestant, code: str, answers: dict[str, list[float]]) -> None:
    try:
        answers.setdefault(contestant.name, []).append(measure_cpu_ms(contestant.python, code))
    except ContestError as error:
        if not contestant.is_peer:
            raise
        contest.absent[contestant.name] = str(error)


def measure_memory(contest: Contest, effort: Effort) -> list[Figure]:
    cells = compute_medians(contest.run_fresh("memory", {"scenario": "memory"}, min(3, effort.rounds)))
    used = cells[YARD]
    return [
        Figure(
            "Resident memory after a run, MB",
            cells,
            digits=1,
            must=f"≤ {MAX_MB} MB",
            reached=f"{used:.1f} MB",
            passed=used <= MAX_MB,
        )
    ]


def measure_many_runs(contest: Contest, effort: Effort) -> list[Figure]:
    contest.show_progress(f"{effort.runs} runs at once")
    crowd, alone = _run_many(effort.runs, 5), _run_many(1, 40)
    errors = round(crowd["errors"])
    return [
        Figure(
            f"{effort.runs:,} runs × 5 turns at once on SQLite, errors",
            {SQLITE: errors},
            must="0",
            reached=str(errors),
            passed=errors == 0,
        ),
        Figure("— memory per active run, KB", {SQLITE: crowd["kb_per_run"]}),
        Figure("— tool turns per second", {SQLITE: crowd["turns_per_s"]}),
        Figure("— commits per tool turn, all at once", {SQLITE: crowd["commits_per_turn"]}, digits=3),
        Figure("— commits per tool turn, one run alone", {SQLITE: alone["commits_per_turn"]}, digits=2),
    ]


def _run_many(runs: int, turns_each: int) -> dict[str, float]:
    command = [sys.executable, str(LOOPS / "many_runs.py"), str(runs), str(turns_each)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ContestError(f"{runs} runs at once failed: {done.stderr[-2000:]}")
    return json.loads(done.stdout)


CASES: dict[str, Case] = {
    "turns": measure_turns,
    "chunks": measure_chunks,
    "history": measure_history,
    "tools": measure_tools,
    "wires": measure_wires,
    "together": measure_together,
    "import": measure_imports,
    "memory": measure_memory,
    "many": measure_many_runs,
}
