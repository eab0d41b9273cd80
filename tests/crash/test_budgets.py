"""A budget is the sum of its turns, also after processes were killed in the middle of them."""

import asyncio
import os
import random
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from crash.budget_child import BUDGET, LIMIT, build_yard
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


async def run_and_kill(store: str, first: int) -> int:
    """Run a child until it has begun some conversations, kill it, and return the number of the next conversation."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(CHILD), store, str(first), stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    number = first
    for _ in range(random.randint(10, 60)):
        line = await process.stdout.readline()
        if not line:  # the budget is used up
            break
        number = int(line.decode().removeprefix("c")) + 1
    if process.returncode is None:
        process.kill()
    rest, _ = await process.communicate()
    return max([number, *(int(line.removeprefix("c")) + 1 for line in rest.decode().split("\n")[:-1])])


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
            number = await run_and_kill(store, number)
        async with build_yard(store) as yard:
            total = await sum_turns(yard, [f"c{n}" for n in range(number)])
        balance, used = await read_balance(store)
        assert number >= KILLS * 10
        assert balance.spent == total == used > 0
        assert balance.reserved == 0
        # Only what was lost with a killed process may go beyond the limit: its input, one token, is charged again.
        assert balance.spent <= BUDGET.micros + KILLS * 8 * LIMIT
