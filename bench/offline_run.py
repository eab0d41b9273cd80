"""Measure a turn of the offline model: with the tools of its own requests, and with 5,000 tools. No peers."""

import argparse
import asyncio
import logging
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from time import thread_time

import report
from cases import Figure
from find_run import Executor
from finding.catalogue import build_catalogue, read_queries

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))


from offline.corpus import DOMAINS, load_requests
from offline.worlds import world
from toolyard import Yard
from toolyard.core.conversation.events import RunSuspended
from toolyard.core.ports import ModelRequest
from toolyard.models.offline import Offline
from toolyard.models.offline.planner import OfflineStep

DOCUMENT = Path(__file__).parent.parent / "docs" / "reference" / "bench.md"
TITLE = "# The offline model"
METHOD = """\
Figures are the CPU time of one turn of `toolyard:offline`, from the request to its end, over all turns of its own
requests (`tests/offline`, both halves) and of 100 of the requests for 5,000 tools. With 5,000 tools it is shown at
most 40, as any model is. A tool is parsed when it is first seen; turns that do so have rows of their own. All requests
are sent twice, each in a conversation of its own, and the second time counts. `python bench/offline_run.py` repeats
the measurement."""
MAX_MS = 5.0
REQUEST_COUNT = 100


class TimedOffline(Offline):
    """The offline model, which records the time of each turn."""

    def __init__(self) -> None:
        super().__init__()
        self.took_ms: list[float] = []

    def next_step(self, request: ModelRequest) -> OfflineStep:
        started = thread_time()
        try:
            return super().next_step(request)
        finally:
            self.took_ms.append((thread_time() - started) * 1e3)


async def ask(yard: Yard, messages: Sequence[str]) -> None:
    for message in messages:
        async for event in yard.run(message):
            if isinstance(event, RunSuspended):
                break


Times = tuple[list[float], list[float]]
"""The times of the turns that see tools for the first time, and of the others."""


async def measure_turns(messages: Sequence[str], tools: Sequence[object]) -> Times:
    model = TimedOffline()
    async with Yard(tools=tools, model=model) as yard:
        await ask(yard, messages)
        first, model.took_ms = model.took_ms, []
        await ask(yard, messages)
    return first, model.took_ms


def build_figures(what: str, took: Times) -> list[Figure]:
    first, times = sorted(took[0]), sorted(took[1])
    p95, p95_first = times[int(len(times) * 0.95)], first[int(len(first) * 0.95)]
    return [
        Figure(f"a turn, {what}, median, ms", must="", reached=f"{times[len(times) // 2]:.2f}"),
        Figure(f"a turn, {what}, p95, ms", must=f"< {MAX_MS:g}", reached=f"{p95:.2f}", passed=p95 < MAX_MS),
        Figure(f"a turn, {what}, slowest of {len(times)}, ms", must="", reached=f"{times[-1]:.2f}"),
        Figure(f"a turn, {what}, tools not seen before, p95, ms", must="", reached=f"{p95_first:.2f}"),
    ]


def measure_own_requests() -> Times:
    first: list[float] = []
    later: list[float] = []
    for domain in DOMAINS:
        requests = [*load_requests(domain, "open"), *load_requests(domain, "held")]
        messages = [request.exchanges[0].message for request in requests]
        with world(domain, "usual") as tools:
            domain_first, domain_later = asyncio.run(measure_turns(messages, tools))
        first, later = first + domain_first, later + domain_later
    return first, later


def run_section(to_write: bool, show_progress: Callable[[str], None]) -> list[Figure]:
    show_progress("the offline model")
    tools = [Executor(tool) for tool in build_catalogue()]
    messages = [text for text, _ in read_queries("queries.tsv")][:REQUEST_COUNT]
    figures = build_figures("its own requests", measure_own_requests())
    figures += build_figures("5,000 tools", asyncio.run(measure_turns(messages, tools)))
    table = report.build_rows(figures, [])
    show_progress("done\n")
    print(report.format_plain(table))
    if to_write:
        report.write_section(DOCUMENT, TITLE, METHOD, table)
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"write its section of {DOCUMENT.name} as well")
    figures = run_section(parser.parse_args().write, lambda text: print(f"… {text}", file=sys.stderr))
    return 1 if any(figure.passed is False for figure in figures) else 0


if __name__ == "__main__":
    logging.disable()  # log lines of the measured runs would bury the table
    sys.exit(main())
