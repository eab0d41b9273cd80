"""The loop of a checkout of Toolyard, for `bench/compare.py`: it uses the public API only, because modules move.

The first line on standard input has the address of the mock model and a file for the SQLite store; each line after it
names a scenario, and one line of JSON on standard output has the costs of a few runs of it, each in µs of CPU.
"""

import asyncio
import gc
import json
import os
import sys
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from importlib import import_module
from itertools import pairwise
from time import process_time

from toolyard import UserMessage, Yard

try:
    from toolyard.events import Item, ModelText, TextAppended, TextPart
except ImportError:  # commits before 2026-11-16 have no public module for these
    from toolyard.core.items import Item, ModelText, TextPart

    TextAppended = import_module("toolyard.core.events").TextAppended

TURNS, CHUNKS, PRIOR = 10, 2000, 1000
STREAMS, PACED_CHUNKS = 50, 12
ANSWER = " word0"
STORED = "conversation_bench"
Message = str | Sequence[Item]
Scenario = Callable[[], Awaitable[list[float]]]


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def build_history() -> Sequence[Item]:
    """Return prior messages of the user and the model, and a question."""
    items: list[Item] = []
    for number in range(PRIOR // 2):
        question = TextPart(text=f"And what about number {number}?")
        items.append(UserMessage(id=f"asked_{number}", at=0.0, parts=(question,)))
        items.append(ModelText(id=f"said_{number}", at=0.0, text=f"Number {number} is fine, as it was."))
    return [*items, UserMessage(id="question", at=0.0, parts=(TextPart(text="Please add."),))]


async def ask(yard: Yard, message: Message, conversation: str = "", ticks: list[float] | None = None) -> str:
    """Follow a run to its end, and return the text; note in `ticks` the CPU time at each chunk."""
    text: list[str] = []
    async for event in yard.run(message, conversation=conversation):
        if isinstance(event, TextAppended):
            text.append(event.text)
            if ticks is not None:
                ticks.append(process_time())
    return "".join(text)


async def measure_runs(
    yard: Yard, message: Message, answer: str, runs: int, parts: int, conversation: str
) -> list[float]:
    """Return the cost of some runs, each divided by the number of its parts, such as turns."""
    costs: list[float] = []
    for _ in range(runs):
        started = process_time()
        text = await ask(yard, message, conversation)
        costs.append((process_time() - started) / parts * 1e6)
        if not text.endswith(answer):
            raise AssertionError(f"the answer ends with {text[-20:]!r} instead of {answer!r}")
    return costs


async def measure_paced_chunks(yard: Yard) -> list[float]:
    """Return the costs of a chunk at each tick of the model, at which every stream gets one."""
    ticks: list[float] = []
    await asyncio.gather(*(ask(yard, "Please add.", ticks=ticks) for _ in range(STREAMS)))
    if len(ticks) != STREAMS * PACED_CHUNKS:
        raise AssertionError(f"{len(ticks)} chunks arrived instead of {STREAMS * PACED_CHUNKS}")
    ends = [ticks[number * STREAMS - 1] for number in range(1, PACED_CHUNKS)]  # the last tick also ends the runs
    return [(end - start) / STREAMS * 1e6 for start, end in pairwise(ends)]


@asynccontextmanager
async def open_scenarios(url: str, sqlite_file: str) -> AsyncIterator[dict[str, Scenario]]:
    async with AsyncExitStack() as stack:

        async def open_yard(answer: str, store: str = "memory:") -> Yard:
            model = f"{url}/{answer}/v1#bench"
            return await stack.enter_async_context(Yard(tools=[add], model=model, store=store))

        turns, turns_on_sqlite = await open_yard(f"turns-{TURNS}"), await open_yard(f"turns-{TURNS}", sqlite_file)
        batched, paced = await open_yard(f"batched-{CHUNKS}"), await open_yard(f"own-{PACED_CHUNKS}")
        text, history = await open_yard("batched-1"), build_history()
        await ask(text, history, STORED)
        yield {
            "turn-memory": partial(measure_runs, turns, "Please add.", ANSWER, 2, TURNS, ""),
            "turn-sqlite": partial(measure_runs, turns_on_sqlite, "Please add.", ANSWER, 2, TURNS, ""),
            "chunk-paced": partial(measure_paced_chunks, paced),
            "chunk-batched": partial(measure_runs, batched, "Please add.", f" word{CHUNKS - 1}", 1, CHUNKS, ""),
            "stored-1000": partial(measure_runs, text, "Please add.", ANSWER, 5, 1, STORED),
            "sent-1000": partial(measure_runs, text, history, ANSWER, 2, 1, ""),
        }


async def main() -> None:
    warnings.simplefilter("ignore")
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints must not mix with the answers
    first = json.loads(sys.stdin.readline())
    async with open_scenarios(first["url"], f"sqlite:///{first['sqlite_file']}") as scenarios:
        print(json.dumps({}), file=answers, flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            gc.collect()
            try:
                answer: object = {"costs": await scenarios[json.loads(line)["scenario"]]()}
            except Exception as error:
                answer = {"error": f"{type(error).__name__}: {error}"}
            print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    asyncio.run(main())
