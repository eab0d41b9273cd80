"""Start many runs at once at three replicas against a budget for some of them, and compare the ledger with the logs.

`python -m crash.budget_storm` in the folder of the tests is the long version (`make budget-storm`); the tests run a
short one. In two of the storms the database is restarted, or a replica killed, while the model works.
"""

import argparse
import asyncio
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from crash.budget_replica import LIMIT, HeldModel, build_yard
from forked_python import ForkedPython
from postgres import PostgresServer, create_database, start_own_server
from toolyard import Yard
from toolyard.core.conversation.events import Entry, RunEnded, TurnEnded, TurnFailed, TurnStarted
from toolyard.core.store import UsageQuery
from toolyard.stores.postgres import PostgresStore

CHILD = Path(__file__).with_name("budget_replica.py")
REPLICAS = 3
ALL_DAYS = UsageQuery(first_day=0, last_day=10**6)


@dataclass(frozen=True, slots=True)
class Storm:
    """How many runs are started at once, for how many of them the budget is, and what happens meanwhile."""

    name: str
    runs: int = 1_000
    turns: int = 400
    surplus: int = 0
    """By how many tokens the provider counts more for an answer than was reserved."""
    restarts: bool = False
    """Whether the database is restarted while the model works."""
    kills: bool = False
    """Whether a replica is killed while the model works, with all of the budget reserved: its turns are asked again."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a storm did, in millionths."""

    endings: Counter[str]
    asked: int
    spent: int
    reserved: int
    overdraft: int
    turns: int
    """The sum of the costs of the turns in the logs."""
    used: int
    """The sum of the costs in the usage."""
    next_ending: str
    """How a further run ends."""
    seconds: float


STORMS = (
    Storm("a provider that counts as we do"),
    Storm("a provider that counts 30 % more", surplus=30),
    Storm("a restart of the database", restarts=True),
    Storm("a replica that is killed", kills=True),
)


class Replica:
    """A process with a share of the runs, and what it has printed."""

    def __init__(self, words: list[str]) -> None:
        self._words = words
        self._process: ForkedPython | None = None
        self._is_killed = False
        self.lines: Counter[str] = Counter()

    async def run(self, changed: asyncio.Event) -> None:
        """Start the process, and count its lines until it ends."""
        pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
        with await asyncio.to_thread(
            ForkedPython, self._words, stdin=pipe, stdout=pipe, stderr=nothing, text=True
        ) as self._process:
            assert self._process.stdout is not None
            while line := await asyncio.to_thread(self._process.stdout.readline):
                self.lines[line.strip()] += 1
                changed.set()
        assert self._process.returncode == 0 or self._is_killed

    def release(self) -> None:
        """Let the model of the process answer."""
        assert self._process is not None and self._process.stdin is not None
        print("go", file=self._process.stdin, flush=True)

    def kill(self) -> None:
        assert self._process is not None
        self._is_killed = True
        self._process.kill()


async def run_storm(storm: Storm) -> Outcome:
    """Run a storm on a database of its own."""
    async with start_own_server() as server, create_database(server.url) as url:
        return await _run(storm, server, url)


async def _run(storm: Storm, server: PostgresServer, url: str) -> Outcome:
    began, changed = time.monotonic(), asyncio.Event()
    shares = [storm.runs // REPLICAS + (number < storm.runs % REPLICAS) for number in range(REPLICAS)]
    replicas: list[Replica] = []
    for number, share in enumerate(shares):
        arguments = map(str, (sum(shares[:number]), share, storm.turns, storm.surplus))
        replicas.append(Replica([str(CHILD), url, *arguments]))
    async with asyncio.TaskGroup() as tasks:
        for replica in replicas:
            tasks.create_task(replica.run(changed))
        while _count(replicas, "asked") + _count(replicas, "ended limit") < storm.runs:
            await changed.wait()
            changed.clear()
        if storm.restarts:
            await asyncio.to_thread(server.restart, "immediate")
        if storm.kills:
            await _wait_stored(url, shares[0])
        alive = replicas[1:] if storm.kills else replicas
        for replica in replicas:
            replica.release() if replica in alive else replica.kill()
    model = HeldModel(LIMIT)
    model.released.set()
    async with build_yard(url, storm.turns, model) as yard:
        turns, endings = await _read_logs(yard, storm.runs)
        view = await yard.run("one more", conversation="next").wait_for_rest()
        service = yard.service
        await service.spending.settle()
        (balance,) = await service.read_balances(["total"])
        used = sum(row.cost_micros for row in await service.read_usage(ALL_DAYS))
    return Outcome(
        endings=endings,
        asked=_count(replicas, "asked"),
        spent=balance.spent,
        reserved=balance.reserved,
        overdraft=balance.overdraft,
        turns=turns,
        used=used,
        next_ending=view.ending or "",
        seconds=time.monotonic() - began,
    )


async def _wait_stored(url: str, runs: int) -> None:
    """Wait until the logs have the turns of the first replica: others do not take over what is not stored."""
    store = await PostgresStore.open(url)
    try:
        for number in range(runs):
            while not any(isinstance(entry.event, TurnStarted) for entry in await store.read(f"c{number}")):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
    finally:
        await store.close()


def _count(replicas: list[Replica], line: str) -> int:
    return sum(replica.lines[line] for replica in replicas)


async def _read_logs(yard: Yard, runs: int) -> tuple[int, Counter[str]]:
    """Return what the turns cost, and how many runs ended how, once all have."""
    total, endings = 0, Counter[str]()
    for number in range(runs):
        # By the stored entries: the state of a run that this process has taken over is ahead of them.
        while not isinstance((entries := await _read_entries(yard, number))[-1].event, RunEnded):  # noqa: ASYNC110 - taken over
            await asyncio.sleep(0.05)
        for entry in entries:
            match entry.event:
                case TurnEnded(cost=cost) | TurnFailed(cost=cost):
                    total += cost.micros if cost else 0
                case RunEnded(ending=ending):
                    endings[ending] += 1
                case _:
                    pass
    return total, endings


async def _read_entries(yard: Yard, number: int) -> Sequence[Entry]:
    return await yard.service.conversations.read_entries(f"c{number}")


def list_problems(storm: Storm, outcome: Outcome) -> list[str]:
    """Return what is wrong with the outcome of a storm."""
    budget = storm.turns * LIMIT
    checks = {
        "a run has not ended": sum(outcome.endings.values()) == storm.runs,
        "the budget admitted another number of runs": outcome.endings["done"] == storm.turns,
        "the ledger is not the sum of the turns": outcome.spent == outcome.turns,
        "the usage is not the sum of the turns": outcome.used == outcome.turns,
        "something is still reserved": outcome.reserved == 0,
        "the overdraft is not what the provider counted more": outcome.overdraft == storm.turns * storm.surplus,
        "more was spent than the budget and the overdraft": outcome.spent <= budget + outcome.overdraft,
        "a further run was admitted": outcome.next_ending == "limit",
    }
    return [problem for problem, holds in checks.items() if not holds]


async def main(runs: int, turns: int) -> int:
    failed = 0
    for storm in STORMS:
        outcome = await run_storm(storm := replace(storm, runs=runs, turns=turns))
        problems = list_problems(storm, outcome)
        failed += bool(problems)
        print(f"{storm.name}: {outcome}; {', '.join(problems) or 'nothing is wrong'}", flush=True)
    return failed


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1_000)
    parser.add_argument("--turns", type=int, default=400)
    options = parser.parse_args()
    sys.exit(asyncio.run(main(options.runs, options.turns)))
