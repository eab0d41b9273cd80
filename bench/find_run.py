"""Measures finding tools among five thousand: how quickly, how well, and how many bytes a request takes. No peers."""

import argparse
import asyncio
import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from time import perf_counter

import report
from cases import Figure
from finding.catalogue import catalogue, queries
from toolyard import Context, Scripted, Yard, call, say
from toolyard.core.items import Call
from toolyard.core.limits import Budget
from toolyard.core.ports import ModelRequest
from toolyard.core.tools import Tool
from toolyard.engine.tool_selection.offers import MOST_GUESSED
from toolyard.models.chat import to_wire
from toolyard.models.scripted import Turn
from toolyard.tool_index import Index
from toolyard.tool_index.find_tools_result import MOST_FOUND

DOCUMENT = Path(__file__).parent.parent / "docs" / "reference" / "bench.md"
TITLE = "# Finding tools"
METHOD = """\
Five thousand tools of 76 services (four of them in Chinese) and of MCP's reference servers, made by `bench/finding/`.
`find_tools` is measured with queries as models write them. `fresh.tsv`: three tools were drawn from each service, and a
query for each was written from its schema, before the index was tuned a second time, by the one who then tuned it.
`asked.tsv`: a language model was given 282 requests in people's own words and the schema of `find_tools`, no other
tool, and wrote what it would ask for first; another one, that knew neither its queries nor our labels, said which of
the first ten that were found would serve the request, and those were added to the labels (0.887 before, 0.947 after).
Neither was used to tune the index; totals were looked at meanwhile, what was not found never. The requests themselves
(`queries.tsv`, `spoken.tsv`: "nudge me at 6pm so I don't forget the laundry") come to the model before it asks for
tools, and the first request already offers the ten that fit their words best: the rows for them say how often one that
would serve is among those. What the index was tuned with is in `tuning*.tsv`. Times are wall time, each the best of
three, so that others on the machine count less. Bytes are those of the `tools` of a Chat Completions request: the
largest first one of 210 requests, each in a conversation of its own, and the largest after ten finds, with a budget of
40 tools and 8,192 bytes.
`python bench/find_run.py` measures anew, `--misses` says what was not found of what it is tuned with."""
MOST_MS, LEAST_RECALL, MOST_FIRST, MOST_LATER = 5.0, 0.95, 8 * 1024, 32 * 1024
TIGHT = Budget(tools=40, schema_bytes=MOST_FIRST)
UNTOUCHED = {"fresh.tsv": "queries drawn by service", "asked.tsv": "queries that a language model wrote"}
OFFERED = {"queries.tsv": "requests in people's words", "spoken.tsv": "later requests in people's words"}
TUNED = {
    "tuning_short.tsv": "queries drawn by service",
    "tuning_asked.tsv": "queries that a language model wrote",
    "tuning.tsv": "requests in people's words",
}
ASKED = "queries.tsv"
FINDS, CONVERSATIONS, TRIES = 10, 20, 3


class Executor:
    """One of the tools, as a yard takes it."""

    def __init__(self, tool: Tool) -> None:
        self.name, self.description, self.parameters = tool.name, tool.description, tool.parameters

    def is_enabled(self) -> bool:
        return True

    def requires_permission(self) -> bool:
        return False

    def has_permission(self, role: str) -> bool:
        return True

    def execute(self, call: Call, context: Context) -> str:
        return "done"


def took_s(work: Callable[[], object]) -> float:
    began = perf_counter()
    work()
    return perf_counter() - began


def index_of(tools: Sequence[Tool]) -> Index:
    index = Index()
    for tool in tools:
        index.put(tool)
    return index


def misses(index: Index, file: str, most: int = MOST_FOUND) -> list[tuple[str, list[str]]]:
    found = [(asked, wanted, [one.tool.name for one in index.search(asked, most)]) for asked, wanted in queries(file)]
    return [(asked, names) for asked, wanted, names in found if not wanted & set(names)]


def speed(tools: Sequence[Tool], index: Index) -> list[Figure]:
    times = sorted(min(took_s(partial(index.search, asked)) for _ in range(TRIES)) for asked, _ in queries(ASKED))
    p95 = times[int(len(times) * 0.95)] * 1e3
    whole, last = took_s(lambda: index_of(tools)) * 1e3, tools[2500]
    again: list[float] = []
    for _ in range(50):
        index.drop(last.name)
        again.append(took_s(lambda: index.put(last)) * 1e3)
    one = sorted(again)[25]
    return [
        Figure("a search, median, ms", must="", reached=f"{times[len(times) // 2] * 1e3:.2f}"),
        Figure("a search, p95, ms", must=f"< {MOST_MS:g}", reached=f"{p95:.2f}", passed=p95 < MOST_MS),
        Figure("one more tool, ms", must="< 1/100 of all", reached=f"{one:.3f}", passed=one < whole / 100),
        Figure("all 5,000 tools, ms", must="", reached=f"{whole:,.0f}"),
    ]


def quality(index: Index) -> list[Figure]:
    missed = sum(len(misses(index, file)) for file in UNTOUCHED)
    asked = sum(len(queries(file)) for file in UNTOUCHED)
    return [
        _recall(f"recall@5 of {asked}, all untouched queries", missed, asked, LEAST_RECALL),
        *(_found(index, file, MOST_FOUND, f"untouched {said}") for file, said in UNTOUCHED.items()),
        *(_found(index, file, MOST_GUESSED, f"untouched {said}") for file, said in OFFERED.items()),
        *(_found(index, file, MOST_FOUND, f"tuned with {said}") for file, said in TUNED.items()),
    ]


def _found(index: Index, file: str, most: int, said: str) -> Figure:
    asked = len(queries(file))
    return _recall(f"recall@{most} of {asked}, {said}", len(misses(index, file, most)), asked)


def _recall(said: str, missed: int, asked: int, least: float | None = None) -> Figure:
    found = 1 - missed / asked
    return Figure(
        said,
        must=f"≥ {least}" if least else "",
        reached=f"{found:.3f}",
        passed=found >= least if least else None,
    )


async def sent(tools: Sequence[Tool]) -> tuple[int, int]:
    """The most bytes of tools in a first request, and in one after ten finds."""
    asked = [text for text, _ in queries(ASKED)]
    first: list[int] = []
    later: list[int] = []

    def script(request: ModelRequest) -> Turn:
        body = json.loads(to_wire(request))
        size = len(json.dumps(body["tools"], ensure_ascii=False, separators=(",", ":")).encode())
        if request.turn == 1:
            first.append(size)
        if len(first) > CONVERSATIONS:
            return say("ok")
        if request.turn > FINDS:
            later.append(size)
            return say("ok")
        return call("find_tools", query=asked[(len(first) * FINDS + request.turn) % len(asked)])

    async with Yard(tools=[Executor(tool) for tool in tools], model=Scripted(script), budget=TIGHT) as yard:
        for text in asked:
            await yard.ask(text)
    return max(first), max(later)


def size(tools: Sequence[Tool]) -> list[Figure]:
    first, later = asyncio.run(sent(tools))
    return [
        Figure(
            "schema bytes, first request", must=f"≤ {MOST_FIRST:,}", reached=f"{first:,}", passed=first <= MOST_FIRST
        ),
        Figure(
            "schema bytes after ten finds", must=f"≤ {MOST_LATER:,}", reached=f"{later:,}", passed=later <= MOST_LATER
        ),
    ]


def section(to_write: bool, tell: Callable[[str], None]) -> list[Figure]:
    tell("finding tools among 5,000")
    tools = catalogue()
    index = index_of(tools)
    figures = [*speed(tools, index), *quality(index), *size(tools)]
    table = report.rows(figures, [])
    tell("done\n")
    print(report.plain(table))
    if to_write:
        report.put_section(DOCUMENT, TITLE, METHOD, table)
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"write its section of {DOCUMENT.name} as well")
    parser.add_argument("--misses", action="store_true", help="print what was not found of what it is tuned with")
    given = parser.parse_args()
    if given.misses:
        for file in TUNED:
            for asked, names in misses(index_of(catalogue()), file):
                print(f"{file}: {asked} → {', '.join(names)}")
        return 0
    figures = section(given.write, lambda said: print(f"… {said}", file=sys.stderr))
    return 1 if any(figure.passed is False for figure in figures) else 0


if __name__ == "__main__":
    sys.exit(main())
