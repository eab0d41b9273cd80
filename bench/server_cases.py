"""What is measured of servers, and what each figure must be."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median

from cases import Figure, at_most
from server_contest import BARE, MODEL, PEER, YARD, Servers, Told

MOST_KIB = 60
TURNS, CHUNKS = 10, 20
LINEAR = 1.5
"""Ten times the entries may cost so many times ten times as much."""


@dataclass(frozen=True)
class ServerEffort:
    rounds: int
    peer_rounds: int
    loops: int
    crowd_rounds: int
    chunks: int
    """Of a paced stream, 200 ms each."""
    firsts: int
    conversations: tuple[int, ...]
    """Tool turns of the conversations that are replayed: five entries each."""
    crowd: tuple[str, ...] = (YARD, BARE)
    """Who is put through 500 loops and 1,000 streams at a time."""


FULL = ServerEffort(3, 2, 300, 2, 30, 5, (198, 998, 1998))
QUICK = ServerEffort(1, 1, 100, 1, 20, 2, (198, 998), (YARD,))


def cells(found: dict[str, list[Told]], key: str) -> dict[str, float]:
    return {name: median(one[key] for one in told) for name, told in found.items()}


def whole_loop(servers: Servers, effort: ServerEffort) -> list[Figure]:
    order = {"turns": TURNS, "chunks": CHUNKS, "pace_ms": 20}
    few: dict[str, list[Told]] = {}
    many: dict[str, list[Told]] = {}
    for number in range(effort.rounds):
        for name, loops in ((YARD, effort.loops), (BARE, effort.loops), (PEER, 50)):
            if name != PEER or number < effort.peer_rounds:
                _add(few, name, servers.rounds("loops, 50", {name: 1}, "loops", together=50, loops=loops, **order))
        for name in effort.crowd if number < effort.crowd_rounds else ():
            _add(many, name, servers.rounds("loops, 500", {name: 1}, "loops", together=500, loops=500, **order))
    at_50, at_500 = cells(few, "us"), cells(many, "us")
    growth = {name: at_500[name] / at_50[name] for name in at_500}
    return [
        at_most("Whole loop through the server, 50 at a time, CPU µs", at_50, 1 / 25, PEER),
        replace(at_most("— beside the bare server", at_50, 3, BARE), cells={}),
        Figure("— loops per second", cells(few, "loops_per_s")),
        Figure(
            "— 500 at a time",
            at_500,
            must="≤ 1.5× that at 50",
            reached=f"{growth[YARD]:.2f}×",
            passed=growth[YARD] <= 1.5,
            growth=growth,
        ),
    ]


def _add(to: dict[str, list[Told]], name: str, found: dict[str, list[Told]]) -> None:
    if name in found:
        to.setdefault(name, []).extend(found[name])


def open_streams(servers: Servers, effort: ServerEffort) -> list[Figure]:
    each = {YARD: effort.rounds, BARE: effort.rounds, PEER: effort.peer_rounds}
    paced = {"pace_ms": 200, "ramp_ms": 500}
    few = servers.rounds("100 streams", each, "streams", streams=100, chunks=effort.chunks, **paced)
    paced = {"pace_ms": 200, "ramp_ms": 4000, "chunks": 50}
    many: dict[str, list[Told]] = {}
    for number in range(effort.crowd_rounds):
        for name in effort.crowd if number else (*effort.crowd, PEER):
            servers.restart(name)  # in a process that did little before: memory that was freed is used again
            servers.ask(name, "loops", together=50, loops=100, chunks=1)  # more conversations than are kept in memory
            _add(
                many, name, servers.rounds(f"1,000 streams, {number + 1}", {name: 1}, "streams", streams=1000, **paced)
            )
    lost = sum(round(told["lost"]) for told in (*many[YARD], *few[YARD]))
    missed = cells(many, "lost") | {YARD: lost}
    kib = cells(many, "kib")
    return [
        at_most("CPU per chunk, 1,000 streams at 200 ms a chunk, µs", cells(many, "us"), 1 / 8, PEER),
        Figure("— 100 streams", cells(few, "us")),
        Figure("— streams without every chunk in time", missed, must="0", reached=str(lost), passed=not lost),
        Figure(
            "— memory a stream of 1,000, KiB",
            kib,
            digits=1,
            must=f"≤ {MOST_KIB} KiB",
            reached=f"{kib[YARD]:.1f} KiB",
            passed=kib[YARD] <= MOST_KIB,
        ),
    ]


def first_token(servers: Servers, effort: ServerEffort) -> list[Figure]:
    each = dict.fromkeys((MODEL, YARD, BARE), effort.crowd_rounds)
    order = {"together": 50, "chunks": CHUNKS, "pace_ms": 50, "each": effort.firsts}
    found = servers.rounds("first tokens", each, "first", **order)
    took = {name: [ms for one in told for ms in one["ms"]] for name, told in found.items()}
    return [
        _added("Added time to first token, 50 streams, p50 ms", took, 0.5),
        _added("— p99 ms", took, 0.99),
    ]


def _added(what: str, took: dict[str, list[float]], part: float) -> Figure:
    """Beyond what the model takes as a rule: its own hiccups are not taken off."""
    usual = quantile(took[MODEL], 0.5)
    added = {name: quantile(ms, part) - (usual if name != MODEL else 0) for name, ms in took.items()}
    return Figure(what, added, digits=1)


def quantile(values: Sequence[float], part: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]


def replays(servers: Servers, effort: ServerEffort) -> list[Figure]:
    figures: list[Figure] = []
    costs: list[tuple[float, float]] = []
    for turns in effort.conversations:
        made = servers.ask(YARD, "converse", turns=turns, chunks=1)
        assert made
        servers.tell(f"replay of {made['entries']} entries")
        told = servers.ask(YARD, "replay", **made, after=1, times=20)
        assert told
        costs.append((made["entries"], median(told["cpu_ms"])))
        what = f"Replay of {made['entries']:,} entries to a reader that comes back, p95 ms"
        figures.append(Figure(what, {YARD: quantile(told["ms"], 0.95)}, digits=1))
    (few, cheap), (many, dear) = costs[0], costs[-1]
    times = dear / cheap / (many / few)
    made = {"conversation": made["conversation"], "entries": made["entries"]}
    near = servers.ask(YARD, "replay", **made, after=int(made["entries"]) - 5, times=20)
    servers.restart(YARD)
    cold = servers.ask(YARD, "replay", **made, after=1, times=1)
    assert near and cold
    return [
        *figures,
        Figure(
            "— CPU per entry of the longest, µs",
            {YARD: dear / many * 1000},
            digits=1,
            must=f"≤ {LINEAR:g}× the shortest's",
            reached=f"{times:.2f}×",
            passed=times <= LINEAR,
        ),
        Figure("— of its last five entries, p95 ms", {YARD: quantile(near["ms"], 0.95)}, digits=1),
        Figure("— of all, right after a restart, ms", {YARD: cold["ms"][0]}, digits=1),
    ]


SERVER_CASES: dict[str, Callable[[Servers, ServerEffort], list[Figure]]] = {
    "loops": whole_loop,
    "streams": open_streams,
    "first": first_token,
    "replay": replays,
}
