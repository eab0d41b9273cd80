"""The cases of the server bench: what each measures, and the value that each figure must have."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median

from cases import Figure, at_most
from server_contest import BARE, MODEL, PEER, YARD, Answer, Servers

MAX_KIB = 60
TURNS, CHUNKS = 10, 20
MAX_ENTRY_RATIO = 1.5
"""How many times more an entry of the longest conversation may cost than one of the shortest."""


@dataclass(frozen=True)
class ServerEffort:
    """How often, and with how much load, each case is measured."""

    rounds: int
    peer_rounds: int
    loops: int
    crowd_rounds: int
    chunks: int
    """In each stream, one every 200 ms."""
    firsts: int
    conversations: tuple[int, ...]
    """The number of tool turns in each conversation that is replayed; a turn has five entries."""
    crowd: tuple[str, ...] = (YARD, BARE)
    """The servers that are measured with 500 loops and 1,000 streams at a time."""


FULL = ServerEffort(3, 2, 300, 2, 30, 5, (198, 998, 1998))
QUICK = ServerEffort(1, 1, 100, 1, 20, 2, (198, 998), (YARD,))


def compute_medians(answers_by_server: dict[str, list[Answer]], key: str) -> dict[str, float]:
    return {name: median(answer[key] for answer in answers) for name, answers in answers_by_server.items()}


def measure_loops(servers: Servers, effort: ServerEffort) -> list[Figure]:
    order = {"turns": TURNS, "chunks": CHUNKS, "pace_ms": 20}
    few: dict[str, list[Answer]] = {}
    many: dict[str, list[Answer]] = {}
    for number in range(effort.rounds):
        for name, loops in ((YARD, effort.loops), (BARE, effort.loops), (PEER, 50)):
            if name != PEER or number < effort.peer_rounds:
                _add(few, name, servers.run_rounds("loops, 50", {name: 1}, "loops", together=50, loops=loops, **order))
        for name in effort.crowd if number < effort.crowd_rounds else ():
            _add(many, name, servers.run_rounds("loops, 500", {name: 1}, "loops", together=500, loops=500, **order))
    at_50, at_500 = compute_medians(few, "us"), compute_medians(many, "us")
    growth = {name: at_500[name] / at_50[name] for name in at_500}
    return [
        at_most("Whole loop through the server, 50 at a time, CPU µs", at_50, 1 / 25, PEER),
        replace(at_most("— beside the bare server", at_50, 3, BARE), cells={}),
        Figure("— loops per second", compute_medians(few, "loops_per_s")),
        Figure(
            "— 500 at a time",
            at_500,
            must="≤ 1.5× that at 50",
            reached=f"{growth[YARD]:.2f}×",
            passed=growth[YARD] <= 1.5,
            growth=growth,
        ),
    ]


def _add(collected: dict[str, list[Answer]], name: str, answers: dict[str, list[Answer]]) -> None:
    if name in answers:
        collected.setdefault(name, []).extend(answers[name])


def measure_streams(servers: Servers, effort: ServerEffort) -> list[Figure]:
    each = {YARD: effort.rounds, BARE: effort.rounds, PEER: effort.peer_rounds}
    paced = {"pace_ms": 200, "ramp_ms": 500}
    few = servers.run_rounds("100 streams", each, "streams", streams=100, chunks=effort.chunks, **paced)
    paced = {"pace_ms": 200, "ramp_ms": 4000, "chunks": 50}
    many: dict[str, list[Answer]] = {}
    for number in range(effort.crowd_rounds):
        title = f"1,000 streams, {number + 1}"
        for name in effort.crowd if number else (*effort.crowd, PEER):
            # In a new process: an older one would use memory again that it has freed, and the growth would be too low.
            servers.restart(name)
            # The warm-up has more conversations than the server keeps in memory.
            servers.ask(name, "loops", together=50, loops=100, chunks=1)
            _add(many, name, servers.run_rounds(title, {name: 1}, "streams", streams=1000, **paced))
    lost = sum(round(answer["lost"]) for answer in (*many[YARD], *few[YARD]))
    missed = compute_medians(many, "lost") | {YARD: lost}
    kib = compute_medians(many, "kib")
    return [
        at_most("CPU per chunk, 1,000 streams at 200 ms a chunk, µs", compute_medians(many, "us"), 1 / 8, PEER),
        Figure("— 100 streams", compute_medians(few, "us")),
        Figure("— streams without every chunk in time", missed, must="0", reached=str(lost), passed=not lost),
        Figure(
            "— memory a stream of 1,000, KiB",
            kib,
            digits=1,
            must=f"≤ {MAX_KIB} KiB",
            reached=f"{kib[YARD]:.1f} KiB",
            passed=kib[YARD] <= MAX_KIB,
        ),
    ]


def measure_first_token(servers: Servers, effort: ServerEffort) -> list[Figure]:
    each = dict.fromkeys((MODEL, YARD, BARE), effort.crowd_rounds)
    order = {"together": 50, "chunks": CHUNKS, "pace_ms": 50, "each": effort.firsts}
    answers_by_server = servers.run_rounds("first tokens", each, "first", **order)
    took = {name: [ms for answer in answers for ms in answer["ms"]] for name, answers in answers_by_server.items()}
    return [
        _build_added_time("Added time to first token, 50 streams, p50 ms", took, 0.5),
        _build_added_time("— p99 ms", took, 0.99),
    ]


def _build_added_time(what: str, took: dict[str, list[float]], part: float) -> Figure:
    """Return a figure of a quantile less the model's median, so that the model's own outliers stay in it."""
    usual = compute_quantile(took[MODEL], 0.5)
    added = {name: compute_quantile(ms, part) - (usual if name != MODEL else 0) for name, ms in took.items()}
    return Figure(what, added, digits=1)


def compute_quantile(values: Sequence[float], part: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]


def measure_replays(servers: Servers, effort: ServerEffort) -> list[Figure]:
    figures: list[Figure] = []
    costs: list[tuple[float, float]] = []
    for turns in effort.conversations:
        conversation = servers.ask(YARD, "converse", turns=turns, chunks=1)
        assert conversation
        servers.show_progress(f"replay of {conversation['entries']} entries")
        answer = servers.ask(YARD, "replay", **conversation, after=1, times=20)
        assert answer
        costs.append((conversation["entries"], median(answer["cpu_ms"])))
        what = f"Replay of {conversation['entries']:,} entries to a reader that comes back, p95 ms"
        figures.append(Figure(what, {YARD: compute_quantile(answer["ms"], 0.95)}, digits=1))
    (few, few_ms), (many, many_ms) = costs[0], costs[-1]
    ratio = many_ms / few_ms / (many / few)
    longest = {"conversation": conversation["conversation"], "entries": conversation["entries"]}
    near = servers.ask(YARD, "replay", **longest, after=int(longest["entries"]) - 5, times=20)
    servers.restart(YARD)
    cold = servers.ask(YARD, "replay", **longest, after=1, times=1)
    assert near and cold
    return [
        *figures,
        Figure(
            "— CPU per entry of the longest, µs",
            {YARD: many_ms / many * 1000},
            digits=1,
            must=f"≤ {MAX_ENTRY_RATIO:g}× the shortest's",
            reached=f"{ratio:.2f}×",
            passed=ratio <= MAX_ENTRY_RATIO,
        ),
        Figure("— of its last five entries, p95 ms", {YARD: compute_quantile(near["ms"], 0.95)}, digits=1),
        Figure("— of all, right after a restart, ms", {YARD: cold["ms"][0]}, digits=1),
    ]


SERVER_CASES: dict[str, Callable[[Servers, ServerEffort], list[Figure]]] = {
    "loops": measure_loops,
    "streams": measure_streams,
    "first": measure_first_token,
    "replay": measure_replays,
}
