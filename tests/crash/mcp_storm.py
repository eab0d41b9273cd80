"""Kill a real MCP server again and again, between its calls and in the middle of them.

    python crash/mcp_storm.py --kills 200

After each kill the next call must succeed, soon; at the end no process is left over and no memory is lost. One line
of JSON tells how it went, and what the waits were made of: a busy machine is told from waits of ours. The exit code is
1 if a bound was missed.
"""

import argparse
import asyncio
import gc
import json
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent))

from real_servers import build_npm_server
from support import wait_for_event
from toolyard import Caller, Yard
from toolyard.core.conversation.events import CallEnded, CallProgressed, CallStarted
from toolyard.core.tools.mcp_servers import ServerSpec
from toolyard.testing import Scripted
from toolyard.venues.mcp.outcomes import ConnectionInfo, OpenTimings

SOON_S = 2.0
MAX_GROWTH_KB = 6_000
HONEST = {"ok", "unknown"}


def memory_kb(pid: str = "self") -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


def state(pid: int) -> str:
    """R, S, Z, …; empty if there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


class Wait(NamedTuple):
    """What the call after a kill waited for, in seconds; only the whole, if its session was there already."""

    total_s: float
    timings: OpenTimings = OpenTimings()
    starved_s: float = 0.0
    """Of the server's beginning: how long it was ready to run, and the machine had no core for it."""

    @property
    def parts(self) -> dict[str, float]:
        """`handshake` is, most of it, the server's own beginning; `ours` is to see the end, to begin anew, to ask."""
        start, handshake, listing = self.timings.start_s, self.timings.handshake_s, self.timings.list_s
        ours = self.total_s - start - handshake - listing
        names = ("whole", "ours", "start", "handshake", "list", "starved")
        return dict(zip(names, (self.total_s, ours, start, handshake, listing, self.starved_s), strict=True))


def starved_s(pid: int) -> float:
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9


class McpStorm:
    """One yard, one real server, many kills."""

    def __init__(self, yard: Yard, seed: int) -> None:
        self._yard = yard
        self._rng = random.Random(seed)
        self.pids: set[int] = set()
        self.waits: list[Wait] = []
        self.wrong: list[str] = []
        self.lost = 0

    def describe_connection(self) -> ConnectionInfo:
        return self._yard.servers.get_connection("everything", Caller()).describe()

    def pid(self) -> int:
        pid = self.describe_connection().process_id
        assert pid is not None
        self.pids.add(pid)
        return pid

    @property
    def longest(self) -> Wait:
        return max(self.waits, key=lambda wait: wait.total_s)

    async def kill_between_calls(self) -> None:
        pid = self.pid()
        os.kill(pid, signal.SIGKILL)
        while state(pid) not in ("", "Z"):
            pass

    async def kill_during_call(self) -> None:
        """Kill the server right after a call has started, or after its first progress report."""
        run = self._yard.call("trigger-long-running-operation", {"duration": 1, "steps": 20})
        await wait_for_event(run, CallProgressed if self._rng.random() < 0.5 else CallStarted)
        os.kill(self.pid(), signal.SIGKILL)
        ended, _ = await wait_for_event(run, CallEnded)
        self.lost += ended.result.outcome == "unknown"
        if ended.result.outcome not in HONEST:
            self.wrong.append(f"a lost call was told as {ended.result.outcome}: {ended.result.content[:200]}")

    async def kill_and_call(self) -> None:
        await (self.kill_during_call() if self._rng.random() < 0.5 else self.kill_between_calls())
        began, sessions = time.perf_counter(), self.describe_connection().sessions
        ended, _ = await wait_for_event(self._yard.call("echo", {"message": "again"}), CallEnded)
        total_s, connection = time.perf_counter() - began, self.describe_connection()
        anew = connection.sessions > sessions
        self.waits.append(Wait(total_s, connection.timings, starved_s(self.pid())) if anew else Wait(total_s))
        if ended.result.content != "Echo: again":
            self.wrong.append(f"the next call failed: {ended.result.content[:200]}")


def spread(values: list[float]) -> dict[str, int]:
    ordered = sorted(values)
    return {"median": round(ordered[len(ordered) // 2] * 1000), "most": round(ordered[-1] * 1000)}


async def storm(kills: int, seed: int, spec: ServerSpec) -> dict[str, object]:
    async with Yard(model=Scripted([]), servers={"everything": spec}) as yard:
        kill_storm, before = McpStorm(yard, seed), 0
        for number in range(kills):
            await kill_storm.kill_and_call()
            if number == min(kills // 2, 30):
                gc.collect()
                before = memory_kb()
        kill_storm.pid()
        gc.collect()
        grown = memory_kb() - before
        descriptors = len(os.listdir("/proc/self/fd"))
    left = [pid for pid in kill_storm.pids if state(pid)]
    return {
        "kills": kills,
        "lost_calls": kill_storm.lost,
        "processes": len(kill_storm.pids),
        "left_over": left,
        "wait_ms": {
            name: spread([wait.parts[name] for wait in kill_storm.waits]) for name in kill_storm.waits[0].parts
        },
        "longest_wait_ms": {name: round(part * 1000) for name, part in kill_storm.longest.parts.items()},
        "load": round(os.getloadavg()[0], 1),
        "grown_kb": grown,
        "descriptors": descriptors,
        "wrong": kill_storm.wrong[:5],
        "well": not left
        and not kill_storm.wrong
        and max(wait.total_s for wait in kill_storm.waits) <= SOON_S
        and grown <= MAX_GROWTH_KB,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    report = asyncio.run(storm(options.kills, options.seed, build_npm_server("everything", trust=True)))
    print(json.dumps(report))
    sys.exit(0 if report["well"] else 1)


if __name__ == "__main__":
    main()
