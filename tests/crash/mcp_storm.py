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
from toolyard import Caller, Scripted, Yard
from toolyard.core.events import CallEnded, CallProgressed, CallStarted
from toolyard.core.mcp_servers import ServerSpec
from toolyard.venues.mcp.outcomes import ConnectionInfo, OpenTimings

SOON_S = 2.0
MOST_GROWTH_KB = 6_000
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

    whole: float
    opened: OpenTimings = OpenTimings()
    starved: float = 0.0
    """Of the server's beginning: how long it was ready to run, and the machine had no core for it."""

    @property
    def parts(self) -> dict[str, float]:
        """`handshake` is, most of it, the server's own beginning; `ours` is to see the end, to begin anew, to ask."""
        start, handshake, listing = self.opened.start_s, self.opened.handshake_s, self.opened.list_s
        ours = self.whole - start - handshake - listing
        names = ("whole", "ours", "start", "handshake", "list", "starved")
        return dict(zip(names, (self.whole, ours, start, handshake, listing, self.starved), strict=True))


def starved_s(pid: int) -> float:
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9


class Storm:
    """One yard, one real server, many kills."""

    def __init__(self, yard: Yard, seed: int) -> None:
        self._yard = yard
        self._luck = random.Random(seed)
        self.pids: set[int] = set()
        self.waits: list[Wait] = []
        self.wrong: list[str] = []
        self.lost = 0

    def told(self) -> ConnectionInfo:
        return self._yard.servers.get_connection("everything", Caller()).describe()

    def pid(self) -> int:
        pid = self.told().process_id
        assert pid is not None
        self.pids.add(pid)
        return pid

    @property
    def longest(self) -> Wait:
        return max(self.waits, key=lambda wait: wait.whole)

    async def between(self) -> None:
        pid = self.pid()
        os.kill(pid, signal.SIGKILL)
        while state(pid) not in ("", "Z"):
            pass

    async def during(self) -> None:
        """Right after it was begun, when it may not have been read, or when it has told that it is under way."""
        run = self._yard.call("trigger-long-running-operation", {"duration": 1, "steps": 20})
        await wait_for_event(run, CallProgressed if self._luck.random() < 0.5 else CallStarted)
        os.kill(self.pid(), signal.SIGKILL)
        ended, _ = await wait_for_event(run, CallEnded)
        self.lost += ended.result.outcome == "unknown"
        if ended.result.outcome not in HONEST:
            self.wrong.append(f"a lost call was told as {ended.result.outcome}: {ended.result.content[:200]}")

    async def once(self) -> None:
        await (self.during() if self._luck.random() < 0.5 else self.between())
        began, sessions = time.perf_counter(), self.told().sessions
        ended, _ = await wait_for_event(self._yard.call("echo", {"message": "again"}), CallEnded)
        whole, told = time.perf_counter() - began, self.told()
        anew = told.sessions > sessions
        self.waits.append(Wait(whole, told.timings, starved_s(self.pid())) if anew else Wait(whole))
        if ended.result.content != "Echo: again":
            self.wrong.append(f"the next call failed: {ended.result.content[:200]}")


def spread(values: list[float]) -> dict[str, int]:
    ordered = sorted(values)
    return {"median": round(ordered[len(ordered) // 2] * 1000), "most": round(ordered[-1] * 1000)}


async def storm(kills: int, seed: int, spec: ServerSpec) -> dict[str, object]:
    async with Yard(model=Scripted([]), servers={"everything": spec}) as yard:
        made, before = Storm(yard, seed), 0
        for number in range(kills):
            await made.once()
            if number == min(kills // 2, 30):
                gc.collect()
                before = memory_kb()
        made.pid()
        gc.collect()
        grown = memory_kb() - before
        descriptors = len(os.listdir("/proc/self/fd"))
    left = [pid for pid in made.pids if state(pid)]
    return {
        "kills": kills,
        "lost_calls": made.lost,
        "processes": len(made.pids),
        "left_over": left,
        "wait_ms": {name: spread([wait.parts[name] for wait in made.waits]) for name in made.waits[0].parts},
        "longest_wait_ms": {name: round(part * 1000) for name, part in made.longest.parts.items()},
        "load": round(os.getloadavg()[0], 1),
        "grown_kb": grown,
        "descriptors": descriptors,
        "wrong": made.wrong[:5],
        "well": not left
        and not made.wrong
        and max(wait.whole for wait in made.waits) <= SOON_S
        and grown <= MOST_GROWTH_KB,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    told = asyncio.run(storm(options.kills, options.seed, build_npm_server("everything", trust=True)))
    print(json.dumps(told))
    sys.exit(0 if told["well"] else 1)


if __name__ == "__main__":
    main()
