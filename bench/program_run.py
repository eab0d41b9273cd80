"""Measure what a call costs in a program beside the same call in a turn, one after the other and at once.

Figures are the CPU time of this process and of the sandbox, without what a run costs that makes no call, per call: the
median of several rounds with the lowest and the highest. The exit code is 1 if a program adds more than it may.
`python bench/program_run.py [--store sqlite] [--calls 60] [--rounds 7]`
"""

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import process_time

from toolyard import Limits, ModelRequest, Yard, tool
from toolyard.core.items import UserMessage
from toolyard.testing import Scripted, Turn, call, say, together

MAX_ADDED_US = 1000.0
LIMITS = Limits(turns_per_request=1000, turns_per_conversation=1_000_000)
AT_ONCE = "import asyncio\nawait asyncio.gather(*[add(a=n, b=1) for n in range({calls})])\n1"
IN_TURN = "for n in range({calls}):\n    await add(a=n, b=1)\n1"
TICKS = os.sysconf("SC_CLK_TCK")


@tool(read_only=True)
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def script(request: ModelRequest) -> Turn:
    """Make the calls that the message asks for: in one turn, in as many turns, or in a program."""
    message = next(item for item in reversed(request.history) if isinstance(item, UserMessage))
    kind, _, number = message.text.partition(" ")
    calls, made = int(number), request.turn - 1
    match kind:
        case "turns" if made < calls:
            return call("add", a=made, b=1)
        case "turn" if not made and calls:
            return together(*(call("add", a=n, b=1) for n in range(calls)))
        case "program" | "gather" if not made:
            return call("run_code", code=(IN_TURN if kind == "program" else AT_ONCE).format(calls=calls))
        case _:
            return say("done")


def read_sandbox_s() -> float:
    """Return the CPU time of the processes that this one has started."""
    total = 0
    for folder in Path("/proc").iterdir():
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split() if folder.name.isdigit() else ()
        except OSError:  # it has ended
            continue
        if fields and int(fields[1]) == os.getpid():
            total += int(fields[11]) + int(fields[12])
    return total / TICKS


async def measure_s(yard: Yard, kind: str, calls: int, runs: int) -> float:
    """Return the CPU time of one run with so many calls."""
    started, sandbox = process_time(), read_sandbox_s()
    for _ in range(runs):
        result = await yard.run(f"{kind} {calls}").result()
        assert result.text == "done" and len(result.calls) >= calls, result
        assert all(each.outcome == "ok" for each in result.calls), result
    return (process_time() - started + read_sandbox_s() - sandbox) / runs


async def measure_rounds(store: str, calls: int, rounds: int) -> dict[str, list[float]]:
    """Return the CPU time of a call in µs, by the way it is made, for each round."""
    costs: dict[str, list[float]] = {kind: [] for kind in ("turns", "program", "turn", "gather")}
    async with Yard(tools=[add], model=Scripted(script), store=store, code=True, limits=LIMITS) as yard:
        for number in range(rounds + 1):
            for kind, values in costs.items():
                cost_s = await measure_s(yard, kind, calls, 10) - await measure_s(yard, kind, 0, 10)
                if number:  # the first round warms up
                    values.append(cost_s / calls * 1e6)
    return costs


def describe(values: Sequence[float]) -> str:
    return f"{median(values):.0f} µs ({min(values):.0f}-{max(values):.0f})"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", choices=("memory", "sqlite"), default="memory")
    parser.add_argument("--calls", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        store = "memory:" if options.store == "memory" else f"sqlite:///{folder}/toolyard.db"
        costs = asyncio.run(measure_rounds(store, options.calls, options.rounds))
    missed = False
    for title, plain, nested in (("one after the other", "turns", "program"), ("at once", "turn", "gather")):
        added = [cost - plain_cost for cost, plain_cost in zip(costs[nested], costs[plain], strict=True)]
        missed |= median(added) > MAX_ADDED_US
        both = f"{describe(costs[plain])} in a turn, {describe(costs[nested])} in a program"
        print(f"{title}: {both}, {describe(added)} added")
    print(f"a program may add {MAX_ADDED_US:g} µs a call: {'missed' if missed else 'reached'}")
    return int(missed)


if __name__ == "__main__":
    logging.disable()
    sys.exit(main())
