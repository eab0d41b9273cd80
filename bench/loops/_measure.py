"""The scenarios of the library bench, the same for every contestant.

A line on standard input names a scenario and its parameters, and one line of JSON on standard output is the cost. The
module imports only the standard library, so that it adds little to the memory that is measured.
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
    """How a contestant has to be set up for one scenario."""

    base_url: str
    tools: int = 1
    """How many tools are registered: `add`, and others that are never called."""
    prior: int = 0
    """How many messages, of the user and the model in turn, came before the question."""
    ticks: list[float] = field(default_factory=list[float])
    """The CPU time of the process at each call of `add`."""

    async def add(self, a: int, b: int) -> int:
        """Add two numbers."""
        self.ticks.append(process_time())
        return a + b

    async def nap(self, ms: int) -> str:
        """Rest for some milliseconds."""
        await asyncio.sleep(ms / 1000)
        return "rested"

    def build_prior_texts(self) -> list[tuple[str, str]]:
        """Return the prior messages as pairs of the user's and the model's text."""
        return [(f"And what about number {i}?", f"Number {i} is fine, as it was.") for i in range(self.prior // 2)]


Run = Callable[[], Awaitable[str]]
"""Asks the question once, in a new conversation, and follows the events to the final text."""
Contestant = Callable[[Setting], AbstractAsyncContextManager[Run]]
Costs = dict[str, float]


def read_resident_mb(field_name: str = "VmRSS") -> float:
    """Return the resident memory of this process: now, or with `VmHWM` its maximum so far."""
    with open("/proc/self/status") as status:
        line = next(line for line in status if line.startswith(field_name))
    return int(line.split()[1]) / 1024


async def measure_cpu(run: Run, least_s: float) -> float:
    """Return the CPU seconds of one run: after a warm-up, at least two runs and at least `least_s` of CPU time."""
    await run()
    gc.collect()
    runs, started = 0, process_time()
    while runs < 2 or process_time() - started < least_s:
        await run()
        runs += 1
    return (process_time() - started) / runs


async def measure_turns(contestant: Contestant, url: str, least_s: float) -> Costs:
    setting = Setting(f"{url}/turns-{TURNS}/v1")
    async with contestant(setting) as run:
        await check(run, setting)
        return {"us": await measure_cpu(run, least_s) / TURNS * 1e6}


async def check(run: Run, setting: Setting) -> None:
    """Raise AssertionError for a loop that skips work: it must call the tool in each turn and return the answer."""
    setting.ticks.clear()
    answer = await run()
    if answer != ANSWER or len(setting.ticks) != TURNS:
        raise AssertionError(f"{len(setting.ticks)} calls and the answer {answer!r} instead of {TURNS} and {ANSWER!r}")


async def measure_chunks(contestant: Contestant, url: str, least_s: float, kind: str, streams: int) -> Costs:
    """Measure the CPU of one more chunk: of long texts less that of texts with one chunk, in several streams."""
    count = {"own": 40, "batched": 400}[kind]

    async def measure_text(size: int) -> float:
        async with contestant(Setting(f"{url}/{kind}-{size}/v1")) as run:

            async def run_streams() -> str:
                texts = await asyncio.gather(*(run() for _ in range(streams)))
                if any(text.count(" word") != size for text in texts):
                    raise AssertionError(f"not all of {size} chunks arrived")
                return texts[0]

            return await measure_cpu(run_streams, 0 if kind == "own" else least_s)

    one_chunk = await measure_text(1)
    return {"us": (await measure_text(count) - one_chunk) / (count - 1) / streams * 1e6}


async def measure_steady(contestant: Contestant, url: str, least_s: float, prior: int, tools: int) -> Costs:
    """Measure the CPU from one call of the tool to the next, after the first turns, which set everything up."""
    setting = Setting(f"{url}/turns-{STEADY_FROM + TURNS}/v1", tools=tools, prior=prior)
    costs: list[float] = []
    async with contestant(setting) as run:
        started = process_time()
        while not costs or process_time() - started < least_s:
            setting.ticks.clear()
            await run()
            costs.append((setting.ticks[-1] - setting.ticks[STEADY_FROM - 1]) / TURNS)
    return {"us": statistics.median(costs) * 1e6}


async def measure_together(contestant: Contestant, url: str, times: int) -> Costs:
    """Measure the wall time of a run in which one turn calls eight naps, with its two model requests."""
    took: list[float] = []
    async with contestant(Setting(f"{url}/calls-8/v1")) as run:
        for _ in range(times + 2):
            started = perf_counter()
            await run()
            took.append((perf_counter() - started) * 1000)
    return {"ms": statistics.median(took[2:])}


async def measure_memory(contestant: Contestant, url: str) -> Costs:
    setting = Setting(f"{url}/turns-{TURNS}/v1")
    async with contestant(setting) as run:
        await run()
        return {"mb": read_resident_mb()}


async def run_scenario(contestant: Contestant, order: dict[str, str], url: str, least_s: float) -> Costs:
    match order["scenario"]:
        case "turns":
            return await measure_turns(contestant, url, least_s)
        case "own" | "batched" as kind:
            return await measure_chunks(contestant, url, least_s, kind, int(order["streams"]))
        case "steady":
            return await measure_steady(contestant, url, least_s, int(order["prior"]), int(order["tools"]))
        case "together":
            return await measure_together(contestant, url, int(order["times"]))
        case "memory":
            return await measure_memory(contestant, url)
        case other:
            raise ValueError(f"there is no scenario {other!r}")


def main(contestant: Contestant) -> None:
    """Run scenarios until standard input ends, all in one event loop: some libraries keep a client for good."""
    warnings.simplefilter("ignore")
    os.environ.setdefault("OPENAI_API_KEY", "bench")
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints must not mix with the answers
    with asyncio.Runner() as runner:
        for line in sys.stdin:
            order = json.loads(line)
            try:
                answer: dict[str, object] = dict(
                    runner.run(run_scenario(contestant, order, order["url"], float(order["least_s"])))
                )
            except Exception as error:
                answer = {"error": f"{type(error).__name__}: {error}"}
            print(json.dumps(answer), file=answers, flush=True)
