"""Kill, stop, cut off and restart the parts of a cluster while it pays, and compare its ledger with its logs.

`python -m crash.cluster_storm` in the folder of the tests is the long version (`make cluster-storm`); the tests run a
short one. A fault counts only if it hits a replica with a call in flight.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

import aiohttp

from crash.cluster import Cluster, start_cluster
from crash.cluster_check import FaultKind, Problem, Verdict, Violation, check_cluster
from crash.cluster_payers import Payers
from toolyard.app import open_store
from toolyard.core.conversation.events import Entry

PAYERS_AT_ONCE = 12
PROGRESS_S = 5.0
REVIVE_S = 1.0
PROBLEMS: tuple[Problem, ...] = ("doubled", "lost", "unfinished", "unexplained", "unusable")
MIX: tuple[FaultKind, ...] = ("kill", "stop", "long cut", "short cut", "database", "term")


@dataclass(frozen=True, slots=True)
class Phase:
    """How many faults of which kinds, in what many conversations at least."""

    name: str
    kinds: tuple[FaultKind, ...]
    faults: int
    conversations: int
    at_once: int = 2
    """How many faults may be on at the same time, at different replicas."""


PROGRAMS = Phase("programs, kill -9", ("kill",), 100, 100)
"""For a cluster whose replicas run programs."""
FULL = (
    Phase("kill -9", ("kill",), 200, 200),
    Phase("SIGSTOP longer than the lease", ("stop",), 100, 200),
    Phase("cut longer than the lease", ("long cut",), 50, 200),
    Phase("cut shorter than the lease", ("short cut",), 50, 200),
    Phase("database restart", ("database",), 20, 200, at_once=1),
    Phase("SIGTERM", ("term",), 20, 200),
    Phase("a mix", MIX, 60, 200),
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a phase did, and what was wrong afterwards."""

    phase: Phase
    conversations: int
    faults: int
    misses: int
    verdict: Verdict
    violations: Sequence[Violation]
    seconds: float

    def count(self, problem: Problem) -> int:
        return sum(violation.problem == problem for violation in self.violations)


class ClusterStorm:
    """Runs one phase after the other on a cluster."""

    def __init__(self, cluster: Cluster, *, show_progress: bool = False, max_payer_s: float = 120.0) -> None:
        self._cluster = cluster
        self._show_progress = show_progress
        self._max_payer_s = max_payer_s
        self._next_number = 0
        self._hits = 0
        self._misses = 0

    async def run(self, phase: Phase) -> Outcome:
        started, first_line, first_fault = time.monotonic(), len(self._cluster.ledger.lines), len(self._cluster.faults)
        self._hits = self._misses = 0
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as session:
            payers = Payers(self._cluster.urls, session, self._max_payer_s)
            async with asyncio.TaskGroup() as tasks:
                helpers = [tasks.create_task(helper(phase, payers)) for helper in (self._print_progress, self._revive)]
                async with asyncio.TaskGroup() as work:
                    kinds = cycle(phase.kinds)
                    for _ in range(phase.at_once):
                        work.create_task(self._strike(phase, kinds))
                    for _ in range(PAYERS_AT_ONCE):
                        work.create_task(self._send_payers(phase, payers, self._next_number))
                await self._check_usable(payers)
                for helper in helpers:
                    helper.cancel()
        logs = await read_logs(self._cluster.database_url, [payer.conversation for payer in payers.expected])
        self._cluster.ledger.update()
        verdict = check_cluster(
            payers.expected, logs, self._cluster.ledger.lines[first_line:], self._cluster.faults[first_fault:]
        )
        violations = [*payers.violations, *verdict.violations]
        seconds = time.monotonic() - started
        return Outcome(phase, len(payers.expected), self._hits, self._misses, verdict, violations, seconds)

    async def _strike(self, phase: Phase, kinds: Iterator[FaultKind]) -> None:
        while self._hits < phase.faults:
            has_call = await self._cluster.strike(next(kinds))
            self._hits += has_call
            self._misses += not has_call

    async def _send_payers(self, phase: Phase, payers: Payers, first_number: int) -> None:
        """Send one payer after the other, until there were enough of them and of the faults."""
        while self._hits < phase.faults or self._next_number - first_number < phase.conversations:
            number, self._next_number = self._next_number, self._next_number + 1
            await payers.pay(number)

    async def _check_usable(self, payers: Payers) -> None:
        async def check(conversations: list[str]) -> None:
            while conversations:
                await payers.check_usable(conversations.pop())

        remaining = [payer.conversation for payer in payers.expected]
        async with asyncio.TaskGroup() as checks:
            for _ in range(PAYERS_AT_ONCE):
                checks.create_task(check(remaining))

    async def _revive(self, phase: Phase, payers: Payers) -> None:
        def report(problem: str) -> None:
            payers.violations.append(Violation("unusable", problem))  # no fault excuses it

        while True:
            await asyncio.sleep(REVIVE_S)
            await self._cluster.revive(report)

    async def _print_progress(self, phase: Phase, payers: Payers) -> None:
        while self._show_progress:
            await asyncio.sleep(PROGRESS_S)
            print(
                f"{phase.name}: {self._hits}/{phase.faults} faults ({self._misses} without a call), "
                f"{len(payers.expected)} conversations, {payers.open_count} open, {len(payers.violations)} violations",
                flush=True,
            )


async def read_logs(database_url: str, conversations: Sequence[str]) -> dict[str, Sequence[Entry]]:
    store = await open_store(database_url)
    try:
        return {conversation: await store.read(conversation) for conversation in conversations}
    finally:
        await store.close()


def render_table(outcomes: Sequence[Outcome]) -> str:
    names = ("phase", "faults", "conversations", "ok", "unknown", *PROBLEMS, "given up", "s")
    rows = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    for outcome in outcomes:
        ended = outcome.verdict.outcomes
        counts = [outcome.count(name) for name in PROBLEMS]
        cells = [outcome.phase.name, outcome.faults, outcome.conversations, ended["ok"], ended["unknown"], *counts]
        rows.append("| " + " | ".join(map(str, [*cells, outcome.verdict.given_up, round(outcome.seconds)])) + " |")
    return "\n".join(rows)


async def run_storm(folder: Path, phases: Sequence[Phase], *controls: str) -> list[Outcome]:
    outcomes: list[Outcome] = []
    async with start_cluster(folder, *controls) as cluster:
        storm = ClusterStorm(cluster, show_progress=True)
        for phase in phases:
            outcomes.append(await storm.run(phase))
            for violation in outcomes[-1].violations[:20]:
                print(f"  {violation.problem}: {violation.text}", flush=True)
    return outcomes


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--scale", type=float, default=1.0, help="a share of the full numbers, such as 0.1")
    options.add_argument("--only", default="", help="run only the phases whose name contains this text")
    options.add_argument("--folder", type=Path, help="where the ledger and the logs of the replicas are left")
    options.add_argument("--programs", action="store_true", help="let every other conversation pay by a program")
    chosen = options.parse_args()
    phases = [
        Phase(
            phase.name,
            phase.kinds,
            max(1, round(phase.faults * chosen.scale)),
            max(PAYERS_AT_ONCE, round(phase.conversations * chosen.scale)),
            phase.at_once,
        )
        for phase in ((PROGRAMS,) if chosen.programs else FULL)
        if chosen.only in phase.name
    ]
    with tempfile.TemporaryDirectory() as temporary:
        folder = chosen.folder or Path(temporary)
        folder.mkdir(exist_ok=True, parents=True)
        outcomes = asyncio.run(run_storm(folder, phases, *(["programs"] if chosen.programs else [])))
    print(render_table(outcomes))
    sys.exit(any(outcome.violations for outcome in outcomes))


if __name__ == "__main__":
    main()
