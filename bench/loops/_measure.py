"""What every contestant is put through, the same for all: a line on standard input names a scenario and how to run
it, and one line of JSON on standard output tells what it cost. It knows no contestant and imports nothing of weight.
"""

import asyncio
import gc
import json
import os
import statistics
import sys
import warnings
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from time import perf_counter, process_time

TURNS = 10
STEADY_FROM = 3
NAP_S = 0.05
QUESTION = "Please add these numbers."
ANSWER = " word0"


@dataclass
class Setting:
    """How a contestant is to set itself up for one scenario."""

    base_url: str
    tools: int = 1
    """How many tools are registered: `add`, and others that are never asked for."""
    prior: int = 0
    """How many messages, user and model by turns, came before the question."""
    ticks: list[float] = field(default_factory=list[float])
    """Process CPU at each call of `add`."""

    async def add(self, a: int, b: int) -> int:
        """Add two numbers."""
        self.ticks.append(process_time())
        return a + b

    async def nap(self, ms: int) -> str:
        """Rest for some milliseconds."""
        await asyncio.sleep(ms / 1000)
        return "rested"

    def texts(self) -> list[tuple[str, str]]:
        """The prior messages as (user's, model's) pairs."""
        return [(f"And what about number {i}?", f"Number {i} is fine, as it was.") for i in range(self.prior // 2)]


Run = Callable[[], Awaitable[str]]
"""Asks the question once, in a conversation of its own, and follows the events to the final text."""
Contestant = Callable[[Setting], AbstractAsyncContextManager[Run]]
Measured = dict[str, float]


def resident_mb(field_name: str = "VmRSS") -> float:
    """The resident memory of this process, now or (`VmHWM`) at its highest."""
    with open("/proc/self/status") as status:
        line = next(line for line in status if line.startswith(field_name))
    return int(line.split()[1]) / 1024


async def cpu_of(run: Run, least_s: float) -> float:
    """CPU seconds of one run: warm-up, then as many as it takes to spend `least_s`, at least two."""
    await run()
    gc.collect()
    runs, begun = 0, process_time()
    while runs < 2 or process_time() - begun < least_s:
        await run()
        runs += 1
    return (process_time() - begun) / runs


async def turns(contestant: Contestant, url: str, least_s: float) -> Measured:
    setting = Setting(f"{url}/turns-{TURNS}/v1")
    async with contestant(setting) as run:
        await check(run, setting)
        return {"us": await cpu_of(run, least_s) / TURNS * 1e6}


async def check(run: Run, setting: Setting) -> None:
    """A loop that skips the work would win: it must call the tool each turn and come to the answer."""
    setting.ticks.clear()
    said = await run()
    if said != ANSWER or len(setting.ticks) != TURNS:
        raise AssertionError(f"{len(setting.ticks)} calls and the answer {said!r} instead of {TURNS} and {ANSWER!r}")


async def chunks(contestant: Contestant, url: str, least_s: float, kind: str, streams: int) -> Measured:
    """CPU of one chunk more: long texts less texts of one chunk, in so many streams at once."""
    count = {"own": 40, "batched": 400}[kind]

    async def each(size: int) -> float:
        async with contestant(Setting(f"{url}/{kind}-{size}/v1")) as run:

            async def several() -> str:
                said = await asyncio.gather(*(run() for _ in range(streams)))
                if any(text.count(" word") != size for text in said):
                    raise AssertionError(f"not all of {size} chunks arrived")
                return said[0]

            return await cpu_of(several, 0 if kind == "own" else least_s)

    one = await each(1)
    return {"us": (await each(count) - one) / (count - 1) / streams * 1e6}


async def steady(contestant: Contestant, url: str, least_s: float, prior: int, tools: int) -> Measured:
    """CPU from one call of the tool to the next, once the first turns have set everything up."""
    setting = Setting(f"{url}/turns-{STEADY_FROM + TURNS}/v1", tools=tools, prior=prior)
    each: list[float] = []
    async with contestant(setting) as run:
        begun = process_time()
        while not each or process_time() - begun < least_s:
            setting.ticks.clear()
            await run()
            each.append((setting.ticks[-1] - setting.ticks[STEADY_FROM - 1]) / TURNS)
    return {"us": statistics.median(each) * 1e6}


async def together(contestant: Contestant, url: str, times: int) -> Measured:
    """Wall time of a whole run in which one turn asks for eight naps: two model requests included."""
    took: list[float] = []
    async with contestant(Setting(f"{url}/calls-8/v1")) as run:
        for _ in range(times + 2):
            begun = perf_counter()
            await run()
            took.append((perf_counter() - begun) * 1000)
    return {"ms": statistics.median(took[2:])}


async def memory(contestant: Contestant, url: str) -> Measured:
    setting = Setting(f"{url}/turns-{TURNS}/v1")
    async with contestant(setting) as run:
        await run()
        return {"mb": resident_mb()}


def scenario(contestant: Contestant, order: dict[str, str], url: str, least_s: float) -> Awaitable[Measured]:
    match order["scenario"]:
        case "turns":
            return turns(contestant, url, least_s)
        case "own" | "batched" as kind:
            return chunks(contestant, url, least_s, kind, int(order["streams"]))
        case "steady":
            return steady(contestant, url, least_s, int(order["prior"]), int(order["tools"]))
        case "together":
            return together(contestant, url, int(order["times"]))
        case "memory":
            return memory(contestant, url)
        case other:
            raise ValueError(f"there is no scenario {other!r}")


def main(contestant: Contestant) -> None:
    """Serve scenarios until standard input ends. All in one event loop, since some clients are kept for good."""
    warnings.simplefilter("ignore")
    os.environ.setdefault("OPENAI_API_KEY", "bench")
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints does not mix with the answers
    with asyncio.Runner() as runner:
        for line in sys.stdin:
            order = json.loads(line)
            work = scenario(contestant, order, order["url"], float(order["least_s"]))
            try:
                told: dict[str, object] = dict(runner.run(_awaited(work)))
            except Exception as error:
                told = {"error": f"{type(error).__name__}: {error}"}
            print(json.dumps(told), file=answers, flush=True)


async def _awaited(work: Awaitable[Measured]) -> Measured:
    return await work
