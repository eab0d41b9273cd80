"""Measures a turn of the offline model: with the tools of its own requests, and with 5,000. No peers."""

import argparse
import asyncio
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from time import thread_time

import report
from cases import Figure
from find_run import Executor
from finding.catalogue import catalogue, queries

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))


from offline.corpus import DOMAINS, load
from offline.worlds import world
from toolyard import Yard
from toolyard.core.events import RunSuspended
from toolyard.core.ports import ModelRequest
from toolyard.models.offline import Offline
from toolyard.models.offline.planner import Step

DOCUMENT = Path(__file__).parent.parent / "docs" / "reference" / "bench.md"
TITLE = "# The offline model"
METHOD = """\
Figures are the CPU time of one turn of `toolyard:offline`, from the request to its end, over all turns of its own
requests (`tests/offline`, both halves) and of 100 of the requests for 5,000 tools. With 5,000 tools it is shown at
most 40, as any model is. A tool is parsed when it is first seen; turns that do so have rows of their own. All requests
are sent twice, each in a conversation of its own, and the second time counts. `python bench/offline_run.py` repeats
the measurement."""
MOST_MS = 5.0
ASKED = 100


class Timed(Offline):
    """The model, with the time that each turn took."""

    def __init__(self) -> None:
        super().__init__()
        self.took_ms: list[float] = []

    def next_step(self, request: ModelRequest) -> Step:
        began = thread_time()
        try:
            return super().next_step(request)
        finally:
            self.took_ms.append((thread_time() - began) * 1e3)


async def ask(yard: Yard, messages: Sequence[str]) -> None:
    for message in messages:
        async for event in yard.run(message):
            if isinstance(event, RunSuspended):
                break


Times = tuple[list[float], list[float]]
"""Of the turns that see tools for the first time, and of those that know them."""


async def turns_of(messages: Sequence[str], tools: Sequence[object]) -> Times:
    model = Timed()
    async with Yard(tools=tools, model=model) as yard:
        await ask(yard, messages)
        first, model.took_ms = model.took_ms, []
        await ask(yard, messages)
    return first, model.took_ms


def figures_of(what: str, took: Times) -> list[Figure]:
    first, times = sorted(took[0]), sorted(took[1])
    p95, p95_first = times[int(len(times) * 0.95)], first[int(len(first) * 0.95)]
    return [
        Figure(f"a turn, {what}, median, ms", must="", reached=f"{times[len(times) // 2]:.2f}"),
        Figure(f"a turn, {what}, p95, ms", must=f"< {MOST_MS:g}", reached=f"{p95:.2f}", passed=p95 < MOST_MS),
        Figure(f"a turn, {what}, slowest of {len(times)}, ms", must="", reached=f"{times[-1]:.2f}"),
        Figure(f"a turn, {what}, tools not seen before, p95, ms", must="", reached=f"{p95_first:.2f}"),
    ]


def own_requests() -> Times:
    first: list[float] = []
    then: list[float] = []
    for domain in DOMAINS:
        messages = [one.exchanges[0].message for half in ("open", "held") for one in load(domain, half)]
        with world(domain, "usual") as tools:
            seen, known = asyncio.run(turns_of(messages, tools))
        first, then = first + seen, then + known
    return first, then


def section(to_write: bool, tell: Callable[[str], None]) -> list[Figure]:
    tell("the offline model")
    many = [Executor(tool) for tool in catalogue()]
    messages = [text for text, _ in queries("queries.tsv")][:ASKED]
    figures = figures_of("its own requests", own_requests())
    figures += figures_of("5,000 tools", asyncio.run(turns_of(messages, many)))
    table = report.rows(figures, [])
    tell("done\n")
    print(report.plain(table))
    if to_write:
        report.put_section(DOCUMENT, TITLE, METHOD, table)
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"write its section of {DOCUMENT.name} as well")
    figures = section(parser.parse_args().write, lambda said: print(f"… {said}", file=sys.stderr))
    return 1 if any(figure.passed is False for figure in figures) else 0


if __name__ == "__main__":
    sys.exit(main())
