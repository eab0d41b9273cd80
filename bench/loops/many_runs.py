"""Measure many runs at once in one process on SQLite, with a scripted model and a tool that waits for all runs.

`python bench/loops/many_runs.py RUNS TURNS` prints one line of JSON.
"""

import asyncio
import gc
import json
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time

from toolyard import Yard
from toolyard.core.conversation.events import RunEnded
from toolyard.core.items import Result
from toolyard.core.ports import ModelRequest
from toolyard.testing import Scripted, Turn, call, say

sys.path.insert(0, str(Path(__file__).parent))
from _measure import read_resident_mb


class Meeting:
    """The tool. In the middle of its run, each run waits for the last one, so that all are active at one moment."""

    def __init__(self, runs: int, middle: int, measure: Callable[[], float]) -> None:
        self._missing = runs
        self._middle = middle
        self._measure = measure
        self._all_here = asyncio.Event()
        self.active_mb = 0.0

    async def add(self, a: int, b: int) -> int:
        """Add two numbers."""
        if a == self._middle:
            self._missing -= 1
            if not self._missing:
                self.active_mb = self._measure()
                self._all_here.set()
            await self._all_here.wait()
        return a + b


def build_model(turns: int) -> Scripted:
    """Return a model that makes a call in each turn, then a text. It drops its requests: they would count as memory."""

    def turn(request: ModelRequest) -> Turn:
        model.requests.clear()
        done = sum(isinstance(item, Result) for item in request.history)
        return call("add", a=done, b=1) if done < turns else say("done")

    model = Scripted(turn)
    return model


async def follow(yard: Yard) -> str:
    ending = "no end"
    async for event in yard.run("add"):
        if isinstance(event, RunEnded):
            ending = event.ending
    return ending


def collect_and_read_mb() -> float:
    gc.collect()
    return read_resident_mb()


async def measure(runs: int, turns: int, directory: str) -> dict[str, float]:
    meeting = Meeting(runs, turns // 2, collect_and_read_mb)
    store = f"sqlite:///{directory}/bench.db"
    async with Yard(tools=[meeting.add], model=build_model(turns), store=store) as yard:
        before_mb = collect_and_read_mb()
        wall, cpu = perf_counter(), process_time()
        endings = await asyncio.gather(*(follow(yard) for _ in range(runs)))
        wall, cpu = perf_counter() - wall, process_time() - cpu
        commits = yard._opened_app._store.commits  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]
    return {
        "errors": sum(ending != "done" for ending in endings),
        "kb_per_run": (meeting.active_mb - before_mb) * 1024 / runs,
        "turns_per_s": runs * turns / wall,
        "cpu_us_per_turn": cpu / runs / turns * 1e6,
        "commits_per_turn": commits / runs / turns,
    }


def main() -> None:
    runs, turns = map(int, sys.argv[1:3])
    with TemporaryDirectory() as directory:
        print(json.dumps(asyncio.run(measure(runs, turns, directory))))


if __name__ == "__main__":
    main()
