"""A budget is the sum of its turns, also after processes were killed in the middle of them."""

import asyncio
import os
import random
import subprocess
import time
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from crash.budget_child import BUDGET, LIMIT, build_yard
from crash.budget_storm import STORMS, Outcome, Storm, list_problems, run_storm
from forked_python import ForkedPython
from postgres import create_database
from toolyard import Yard
from toolyard.app import open_store
from toolyard.core.conversation.events import TurnEnded, TurnFailed
from toolyard.core.store import BudgetBalance, UsageQuery
from toolyard.core.store.ledger import ORPHAN_S

CHILD = Path(__file__).with_name("budget_child.py")
KILLS = int(os.environ.get("BUDGET_KILLS", "6"))
TIMEOUT_S = 60.0 + 10 * KILLS
ALL_DAYS = UsageQuery(first_day=0, last_day=10**6)


@asynccontextmanager
async def create_store(kind: str, folder: Path) -> AsyncGenerator[str]:
    if kind == "sqlite":
        yield f"sqlite:///{folder}/yard.db"
        return
    async with create_database() as url:
        yield url


def run_and_kill(store: str, first: int) -> int:
    """Run a child until it has begun some conversations, kill it, and return the number of the next conversation."""
    number = first
    with ForkedPython([str(CHILD), store, str(first)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in range(random.randint(10, 60)):
            line = process.stdout.readline()
            if not line:  # the budget is used up
                break
            number = int(line.removeprefix("c")) + 1
        process.kill()
        rest, _ = process.communicate()
    return max([number, *(int(line.removeprefix("c")) + 1 for line in rest.split("\n")[:-1])])


async def sum_turns(yard: Yard, conversations: Sequence[str]) -> int:
    """Return what the turns of the conversations cost, once all runs have ended."""
    total = 0
    for conversation in conversations:
        while (await yard.service.conversations.view(conversation)).run is not None:  # noqa: ASYNC110 - recovered runs
            await asyncio.sleep(0.02)
        for entry in await yard.service.conversations.read_entries(conversation):
            if isinstance(entry.event, TurnEnded | TurnFailed) and entry.event.cost is not None:
                total += entry.event.cost.micros
    return total


async def read_balance(store: str) -> tuple[BudgetBalance, int]:
    """Return the balance of the budget, and the cost of all usage."""
    opened = await open_store(store)
    try:
        # A process that is killed before its run is stored leaves a reservation without one, which is kept for a while.
        await opened.settle_reservations(time.time() + 2 * ORPHAN_S, 1_000)
        (balance,) = await opened.read_balances(["total"])
        return balance, sum(row.cost_micros for row in await opened.read_usage(ALL_DAYS))
    finally:
        await opened.close()


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_the_ledger_is_the_sum_of_the_turns_after_kills(kind: str, tmp_path: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S), create_store(kind, tmp_path) as store:
        number = 0
        for _ in range(KILLS):
            number = await asyncio.to_thread(run_and_kill, store, number)
        async with build_yard(store) as yard:
            total = await sum_turns(yard, [f"c{n}" for n in range(number)])
        balance, used = await read_balance(store)
        assert number >= KILLS * 10
        assert balance.spent == total == used > 0
        assert balance.reserved == 0
        # Only what was lost with a killed process may go beyond the limit: its input, one token, is charged again.
        assert balance.spent <= BUDGET.micros + KILLS * 8 * LIMIT


@pytest.mark.parametrize("storm", STORMS, ids=lambda storm: storm.name)
async def test_three_replicas_at_once_keep_to_a_budget(storm: Storm) -> None:
    short = replace(storm, runs=60, turns=24)
    async with asyncio.timeout(TIMEOUT_S):
        assert list_problems(short, await run_storm(short)) == []


async def test_a_ledger_that_is_not_the_sum_of_the_turns_is_found_out() -> None:
    storm = Storm("small", runs=3, turns=2, surplus=1)
    right = Outcome(Counter(done=2, limit=1), 2, 202, 0, 2, 202, 202, "limit", 0.0)
    assert list_problems(storm, right) == []
    assert list_problems(storm, replace(right, spent=200)) == ["the ledger is not the sum of the turns"]
    assert list_problems(storm, replace(right, reserved=100)) == ["something is still reserved"]
    assert list_problems(storm, replace(right, next_ending="done")) == ["a further run was admitted"]
