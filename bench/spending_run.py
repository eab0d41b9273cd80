"""Measure what budgets cost in each turn, and how long the usage of many conversations takes to read. No peers.

`python bench/spending_run.py [--store sqlite|postgres] [--turns 400] [--rounds 5] [--conversations 250000] [--write]`
"""

import argparse
import asyncio
import random
import sys
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

from msgspec.structs import replace

import report
from cases import Figure
from toolyard import Yard
from toolyard.app import Wiring, open_store
from toolyard.core.items import Usage
from toolyard.core.settings.budgets import BudgetRule
from toolyard.core.settings.prices import Price
from toolyard.core.store import Store, UsageQuery, UsageRow
from toolyard.stores.postgres import PostgresStore
from toolyard.stores.sqlite import SqliteStore
from toolyard.testing import Scripted, say

sys.path.append(str(Path(__file__).parent.parent / "tests"))

DOCUMENT = Path(__file__).parent.parent / "docs" / "reference" / "bench.md"
TITLE = "# What budgets and usage cost"
METHOD = """\
A turn is a run of one request with a model that answers at once, through the library. CPU is that of the process with
the store's client, without the database's own. Cells are medians of interleaved rounds. Usage is that of conversations
of 500 users with 3 models on 90 days, of one turn each; times are the 95th percentile of 40 reads through the store's
port. `python bench/spending_run.py` repeats the measurement."""
STORES = ("sqlite", "postgres")
BUDGETS = (0, 1, 3)
DAYS, USERS, MODELS = 90, 500, 3
READS = 40
MAX_READ_MS = 500.0
BATCH = 5_000
ANSWER = replace(say("hello"), usage=Usage(input_tokens=100, output_tokens=20))


@asynccontextmanager
async def create_store(name: str) -> AsyncGenerator[str]:
    """Yield the address of a new store."""
    if name == "postgres":
        from postgres import create_database  # of the tests

        async with create_database() as url:
            yield url
        return
    with tempfile.TemporaryDirectory() as folder:
        yield f"sqlite:///{folder}/toolyard.db"


def build_yard(url: str, budgets: int, requests: int) -> Yard:
    rule = BudgetRule(amount=1_000_000.0, window="total")
    wiring = Wiring(
        model=Scripted([ANSWER] * requests),
        store=url,
        prices={"given": Price(input=3.0, output=15.0)},
        budgets={f"b{number}": rule for number in range(budgets)},
    )
    return Yard.from_wiring(wiring)


async def measure_turns(name: str, turns: int, rounds: int) -> dict[int, float]:
    """Return the CPU time of a turn in milliseconds, by the number of budgets."""
    samples: dict[int, list[float]] = {number: [] for number in BUDGETS}
    async with AsyncExitStack() as stack:
        yards: dict[int, Yard] = {}
        for number in BUDGETS:
            url = await stack.enter_async_context(create_store(name))
            yards[number] = await stack.enter_async_context(build_yard(url, number, turns * (rounds + 1)))
        for step in range(rounds + 1):
            for number in random.sample(BUDGETS, len(BUDGETS)):
                began = process_time()
                for _ in range(turns):
                    await yards[number].ask("hi")
                await yards[number].service.spending.settle()
                if step:  # the first round warms up
                    samples[number].append((process_time() - began) / turns * 1000)
    return {number: median(values) for number, values in samples.items()}


async def fill(store: Store, conversations: int) -> None:
    """Add the usage of that many conversations."""
    assert isinstance(store, SqliteStore | PostgresStore)
    chance = random.Random(7)
    for start in range(0, conversations, BATCH):
        rows = [
            UsageRow(
                day=20_000 + chance.randrange(DAYS),
                tenant="acme",
                user=f"user{chance.randrange(USERS)}",
                key="k",
                model=f"model{chance.randrange(MODELS)}",
                currency="USD",
                turns=1,
                input_tokens=1_000,
                output_tokens=100,
                cost_micros=4_500,
            )
            for _ in range(min(BATCH, conversations - start))
        ]
        await store.copy_ledger((), rows)


async def measure_usage(name: str, conversations: int) -> dict[str, float]:
    """Return the times of reads of the usage in milliseconds, by what is read."""
    last = 20_000 + DAYS
    whole, month = UsageQuery(first_day=0, last_day=last), UsageQuery(first_day=last - 30, last_day=last)
    queries = {
        "30 days by user and model": replace(month, group_by=("user", "model")),
        "30 days of one user by day": replace(month, tenant="acme", user="user7", group_by=("day",)),
        "90 days by day": replace(whole, group_by=("day",)),
        "90 days by user, model and day": replace(whole, group_by=("user", "model", "day"), limit=10_001),
    }
    async with create_store(name) as url:
        store = await open_store(url)
        try:
            await fill(store, conversations)
            (total,) = await store.read_usage(whole)
            assert (total.turns, total.cost_micros) == (conversations, conversations * 4_500)
            return {what: await _time(store, query) for what, query in queries.items()}
        finally:
            await store.close()


async def _time(store: Store, query: UsageQuery) -> float:
    times: list[float] = []
    for _ in range(READS):
        began = perf_counter()
        await store.read_usage(query)
        times.append((perf_counter() - began) * 1000)
    return sorted(times)[int(READS * 0.95) - 1]


async def measure(names: Sequence[str], turns: int, rounds: int, conversations: int) -> list[Figure]:
    figures: list[Figure] = []
    if turns:
        costs = {name: await measure_turns(name, turns, rounds) for name in names}
        for number in BUDGETS:
            what = f"CPU of a turn with {number or 'no'} budget{'s' if number != 1 else ''}, ms"
            figures.append(Figure(what, {name: cost[number] for name, cost in costs.items()}, digits=3))
    if conversations:
        times = {name: await measure_usage(name, conversations) for name in names}
        for what in next(iter(times.values())):
            cells = {name: read[what] for name, read in times.items()}
            slowest = max(cells.values())
            title = f"usage of {conversations:,} conversations, {what}, ms"
            limit = f"≤ {MAX_READ_MS:g}"
            figures.append(Figure(title, cells, must=limit, reached=f"{slowest:.0f}", passed=slowest <= MAX_READ_MS))
    return figures


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", choices=[*STORES, "both"], default="both")
    parser.add_argument("--turns", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--conversations", type=int, default=250_000)
    parser.add_argument("--write", action="store_true", help="write the table into the documentation")
    options = parser.parse_args(arguments)
    names = list(STORES) if options.store == "both" else [options.store]
    figures = asyncio.run(measure(names, options.turns, options.rounds, options.conversations))
    table = report.build_rows(figures, names)
    print(report.format_plain(table))
    if options.write:
        report.write_section(DOCUMENT, TITLE, METHOD, table)


if __name__ == "__main__":
    main()
