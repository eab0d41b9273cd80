"""Measure what operators compare: relayed completions, MCP calls, and the memory of runs that wait.

`python bench/operators_run.py [--only CASE] [--rounds 3] [--write]`
"""

import argparse
import os
import sqlite3
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import peers
import report
from cases import Figure
from contest import Contestant, ContestError, Order, Worker
from server_cases import compute_quantile
from server_contest import (
    BARE,
    CHAT,
    FASTMCP,
    FASTMCP_PEER,
    LITELLM,
    MODEL,
    PEERS,
    PROXY,
    PROXY_WARM_UP,
    PYTHONS,
    SCRIPTS,
    YARD,
    Answer,
    PacedModel,
    Servers,
)

DOCUMENT = Path(__file__).parent.parent / "docs" / "reference" / "bench.md"
TITLE = "# What operators compare"
METHOD = f"""\
Each server has one core, which the load generator and the mock model do not use. Cells are medians of interleaved
rounds, with the lowest and the highest in brackets. Toolyard keeps its journal in SQLite; the others store nothing. A
core's second is one of CPU time, so that other load on the machine counts little; added times are wall time, and such
load shows in them. A completion is a streamed `POST {CHAT}` without tools, whose prompt is a document
of that size and a short question, and whose answer is one chunk; 16 are under way at a time. The bare Starlette decodes
the request, encodes it for the model and passes the text on: that is what the bytes need. At half load, requests come
at random moments, half as many as the server could answer before; what it adds is its time less the median of the model
itself. An MCP call is a `tools/call` of `add` by a client of the protocol's version 2026-07-28, 16 at a time. fastmcp
has the same function as a tool, or its proxy is in front of the same MCP server (of fastmcp) that is behind Toolyard.
Runs that wait have been started and their connections closed. `python bench/operators_run.py` repeats the
measurement."""
COLUMNS = (YARD, BARE, LITELLM, FASTMCP)
LOAD = Contestant("the load", sys.executable, "../throughput_load.py")
SMALL, LARGE = 1_000, 200_000
SECONDS = 4
TOGETHER = 16
MAX_P99_MS = 5.0
MAX_BYTES_RATIO = 1.5
MIN_MCP_CALLS = 1_000
WAITING = 10_000
Answers = dict[str, list[Answer]]


@dataclass(frozen=True)
class Bench:
    """What a case needs to start servers on one core, with the load and the model on another."""

    model_url: str
    directory: str
    rounds: int
    show_progress: Callable[[str], None]

    @contextmanager
    def serve(
        self, names: Sequence[str], store: str, warm_ups: Mapping[str, Order], **environment: str
    ) -> Iterator[Servers]:
        """Start servers when they are needed, on the first core; a peer that fails is an error at the end."""
        environment["TOOLYARD_STORE"] = f"sqlite:///{self.directory}/{store}.db"
        servers = Servers(
            [*names, MODEL], self.model_url, environment, self.show_progress, load=LOAD, warm_ups=warm_ups
        )
        with servers, use_core(0):
            yield servers
        if servers.absent:
            raise ContestError("; ".join(f"{name}: {reason}" for name, reason in servers.absent.items()))


@contextmanager
def use_core(number: int) -> Iterator[None]:
    """Let this process, and those that it starts in the block, use one core only."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(os.getppid()))[number]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def build_figure(what: str, values: Mapping[str, Sequence[float]], **more: object) -> Figure:
    """Return a figure of the median of each server's rounds, with their spread."""
    cells = {name: median(of_server) for name, of_server in values.items()}
    spread = {name: (min(of_server), max(of_server)) for name, of_server in values.items()}
    return Figure(what, cells, spread=spread, **more)  # pyright: ignore[reportArgumentType]


def collect(answers: Answers, key: str) -> dict[str, list[float]]:
    return {name: [answer[key] for answer in of_server] for name, of_server in answers.items()}


def measure_relays(bench: Bench) -> list[Figure]:
    warm_ups = {LITELLM: PROXY_WARM_UP}
    relays: dict[int, Answers] = {SMALL: {}, LARGE: {}}
    added: dict[int, dict[str, dict[float, list[float]]]] = {SMALL: {}, LARGE: {}}
    with bench.serve([YARD, BARE, LITELLM], "relays", warm_ups) as servers:
        for number in range(bench.rounds):
            for size in (SMALL, LARGE):
                for name in (YARD, BARE, LITELLM):
                    bench.show_progress(f"completions of {size:,} bytes: round {number + 1}, {name}")
                    model = "default@plain" if name == YARD else "default"
                    order = {"chunks": 1, "prompt_bytes": size, "seconds": SECONDS, "together": TOGETHER}
                    answer = servers.ask(name, "relays", path=CHAT, model=model, **order)
                    if answer is None:
                        continue
                    relays[size].setdefault(name, []).append(answer)
                    rate = answer["per_s"] / 2
                    steady = servers.ask(name, "steady", path=CHAT, model=model, per_s=rate, **order)
                    itself = servers.ask(MODEL, "steady", per_s=rate, **order)
                    assert steady and itself
                    usual = median(itself["ms"])
                    for part in (0.5, 0.99):
                        times = added[size].setdefault(name, {}).setdefault(part, [])
                        times.append(compute_quantile(steady["ms"], part) - usual)
    return [
        *_build_relay_figures("1 KB", relays[SMALL], added[SMALL]),
        *_build_relay_figures("200 KB", relays[LARGE], added[LARGE]),
        _build_bytes_figure(collect(relays[SMALL], "us"), collect(relays[LARGE], "us")),
    ]


def _build_relay_figures(
    prompt: str, answers: Answers, added: Mapping[str, Mapping[float, Sequence[float]]]
) -> list[Figure]:
    halves = {name: parts[0.5] for name, parts in added.items()}
    tails = {name: parts[0.99] for name, parts in added.items()}
    p99_ms = median(tails[YARD])
    return [
        build_figure(f"Completions in a core's second, prompt of {prompt}", collect(answers, "per_core_s")),
        build_figure("— CPU of each, µs", collect(answers, "us")),
        build_figure("— added time at half load, p50 ms", halves, digits=1),
        build_figure(
            "— p99 ms",
            tails,
            digits=1,
            must=f"≤ {MAX_P99_MS:g} ms",
            reached=f"{p99_ms:.1f} ms",
            passed=p99_ms <= MAX_P99_MS,
        ),
    ]


def _build_bytes_figure(small: Mapping[str, Sequence[float]], large: Mapping[str, Sequence[float]]) -> Figure:
    """Return what the bytes of a long prompt cost each server: what it costs more than a short one."""
    bytes_us = {name: [us - median(small[name]) for us in large[name]] for name in large}
    ratio = median(bytes_us[YARD]) / median(bytes_us[BARE])
    return build_figure(
        "— CPU of its 199 KB more, µs",
        bytes_us,
        must=f"≤ {MAX_BYTES_RATIO:g}× the {BARE}",
        reached=f"{ratio:.2f}×",
        passed=ratio <= MAX_BYTES_RATIO,
    )


def measure_mcp_calls(bench: Bench) -> list[Figure]:
    order: Order = {"scenario": "mcp calls", "together": TOGETHER, "seconds": 1, "tool": "add"}
    own, behind = _call_in_rounds(bench, order, "add"), dict[str, list[Answer]]()
    backend = Contestant("the MCP server behind", PYTHONS[FASTMCP], f"../servers/{SCRIPTS[FASTMCP]}")
    with Worker(backend) as worker:
        port = int(worker.ask({"model": bench.model_url})["port"])
        behind = _call_in_rounds(bench, order, "add_behind", BENCH_MCP_URL=f"http://127.0.0.1:{port}/mcp")
    calls = collect(own, "per_core_s")
    reached = median(calls[YARD])
    return [
        build_figure(
            "/mcp: calls of a function in a core's second",
            calls,
            must=f"≥ {MIN_MCP_CALLS:,}",
            reached=f"{reached:,.0f}",
            passed=reached >= MIN_MCP_CALLS,
        ),
        build_figure("— CPU of each, µs", collect(own, "us")),
        build_figure("/mcp: calls of a tool of an MCP server behind it", collect(behind, "per_core_s")),
        build_figure("— CPU of each, µs", collect(behind, "us")),
    ]


def _call_in_rounds(bench: Bench, warm_up: Order, our_tool: str, **environment: str) -> Answers:
    answers: Answers = {}
    with bench.serve([YARD, FASTMCP], "mcp", {FASTMCP: warm_up}, **environment) as servers:
        for number in range(bench.rounds):
            for name, tool in ((YARD, our_tool), (FASTMCP, "add")):
                bench.show_progress(f"calls of {our_tool}: round {number + 1}, {name}")
                answer = servers.ask(name, "mcp calls", together=TOGETHER, seconds=SECONDS, tool=tool)
                answers.setdefault(name, []).extend([answer] if answer else [])
    return answers


def measure_waiting_runs(bench: Bench) -> list[Figure]:
    for_client = {"path": CHAT, "model": "default@plain", "mark": '"finish_reason":"tool_calls"'}
    for_person = {"path": "/ai/respond", "mark": '"waiting"'}
    figures: list[Figure] = []
    for whom, order in (("their client", for_client), ("an approval", for_person)):
        waits = [_start_waiting_runs(bench, f"{whom[:4]} {number}", order) for number in range(bench.rounds)]
        figures += [
            build_figure(f"{WAITING:,} runs that wait for {whom}, KiB each", _pick(waits, "kib"), digits=1),
            build_figure("— after a restart", _pick(waits, "kib_again"), digits=1),
        ]
    return figures


def _pick(waits: Sequence[Mapping[str, float]], key: str) -> dict[str, list[float]]:
    return {YARD: [wait[key] for wait in waits]}


def _start_waiting_runs(bench: Bench, store: str, order: Order) -> dict[str, float]:
    """Return the memory of each run that waits, before and after a restart."""
    with bench.serve([YARD], store, {YARD: PROXY_WARM_UP}, BENCH_APPROVAL="ask") as servers:
        empty = servers.ask(YARD, "rest")
        bench.show_progress(f"{WAITING:,} runs that wait: {store}")
        grown = servers.ask(YARD, "wait", runs=WAITING, together=TOGETHER, turns=1, chunks=1, **order)  # pyright: ignore[reportArgumentType]
        servers.restart(YARD)
        again = servers.ask(YARD, "rest")
        assert empty and grown and again
    with closing(sqlite3.connect(f"{bench.directory}/{store}.db")) as connection:
        (waiting,) = connection.execute("SELECT count(*) FROM conversations WHERE wake_at IS NOT NULL").fetchone()
    if waiting != WAITING:
        raise ContestError(f"only {waiting:,} runs wait")
    return {"kib": grown["kib"], "kib_again": (again["kib"] - empty["kib"]) / WAITING}


CASES = {"relays": measure_relays, "mcp": measure_mcp_calls, "waiting": measure_waiting_runs}
PEERS_OF_CASES = {
    "relays": [*(peer for peer in PEERS if peer.name == BARE), PROXY],
    "mcp": [FASTMCP_PEER],
    "waiting": [],
}


def measure(only: Sequence[str], rounds: int, show_progress: Callable[[str], None]) -> list[Figure]:
    for name in only or CASES:
        peers.install_peers(PEERS_OF_CASES[name], show_progress)
    with use_core(-1), TemporaryDirectory() as directory, PacedModel() as url:
        bench = Bench(url, directory, rounds, show_progress)
        return [figure for name in only or CASES for figure in CASES[name](bench)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", choices=list(CASES), help="one case; may be repeated")
    parser.add_argument("--rounds", type=int, default=3, help="how often each server is measured (3)")
    parser.add_argument("--write", action="store_true", help=f"write its section of {DOCUMENT.name} as well")
    options = parser.parse_args()
    figures = measure(options.only or (), options.rounds, lambda text: print(f"… {text}", file=sys.stderr))
    table = report.build_rows(figures, COLUMNS)
    print(report.format_plain(table))
    if options.write:
        report.write_section(DOCUMENT, TITLE, METHOD, table)
    misses = report.find_misses(figures, {}, with_peers=True)
    print(*misses, sep="\n")
    return 1 if misses else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (ContestError, peers.PeerError) as error:
        sys.exit(f"the bench could not be finished: {error}")
