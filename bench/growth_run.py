"""Measure what must not grow with the number of conversations, or with the length of one. No peers.

`--store sqlite` and `--store postgres` choose a store, `--sizes 20000,250000` the numbers of conversations.
"""

import argparse
import asyncio
import random
import sys
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from time import perf_counter, time

import asyncpg
import msgspec

import report
from cases import Figure
from toolyard.core.caller import Caller
from toolyard.core.conversation.events import (
    CallEnded,
    CallStarted,
    ConversationOpened,
    Durable,
    Entry,
    RunEnded,
    RunQueued,
    RunStarted,
    TurnEnded,
    TurnStarted,
)
from toolyard.core.conversation.settings import Settings
from toolyard.core.items import Call, ModelText, Result, TextPart, UserMessage, result_id
from toolyard.core.settings.limits import Limits
from toolyard.core.store import Append, CatalogQuery, Claim, FigureRow, Store
from toolyard.core.store.figures import STEPS_S, ModelCounts, StepCounts, ToolCounts, add_time, select_step
from toolyard.engine.log.log_loader import LogLoader
from toolyard.observability.figures import FigureRecorder
from toolyard.observability.overview import STEPS, build_overview
from toolyard.stores.entries import encode_batch, fold_case, list_texts
from toolyard.stores.postgres import PostgresStore
from toolyard.stores.search_terms import build_terms
from toolyard.stores.sqlite import SqliteStore

sys.path.append(str(Path(__file__).parent.parent / "tests"))

DOCUMENT = Path(__file__).parent.parent / "docs" / "reference" / "bench.md"
TITLE = "# What does not grow"
METHOD = """\
All conversations belong to one tenant and to 500 users. Each has a title, a question and an answer of 8 to 24 words
from a vocabulary of 3,000; every fifth is in Chinese. Rows give the 95th percentile of wall times in milliseconds,
through the store's ports, from 60 rounds in a random order after 5 to warm up. A search "with hits" finds five
conversations; one "of common words" has only terms that many texts have, and finds nothing. `/overview` reads figures
of 20 tools and 3 models in each step. A conversation is opened by a process that has not seen it; the longest stall
is that of a task that wakes every half millisecond meanwhile. `python bench/growth_run.py` repeats the measurement."""
MAX_P95_MS, MAX_STALL_MS = 50.0, 10.0
ROUNDS, WARM_UP = 60, 5
TENANT = "acme"
USERS = 500
RARE, RARE_CHINESE, RARE_CHARACTER = "heliotrope", "麒麟", "龘"

Run = Callable[[], Awaitable[object]]


Fill = Callable[[int], Awaitable[None]]
"""Fills a store with that many conversations."""


class Texts:
    """Texts of made-up words; frequent ones are more likely, as in a language."""

    def __init__(self) -> None:
        self._random = random.Random(1)
        letters, vowels = "bcdfghklmnprstvw", "aeiou"
        syllables = [letter + vowel for letter in letters for vowel in vowels]
        self._words = ["".join(self._random.choices(syllables, k=self._random.randint(1, 4))) for _ in range(3_000)]
        self._characters = [chr(0x4E00 + number) for number in range(2_500)]
        self._weights = [1 / (number + 10) for number in range(3_000)]

    def write(self, number: int) -> str:
        length = self._random.randint(8, 24)
        if number % 5 == 0:
            return "".join(self._random.choices(self._characters, self._weights[:2_500], k=length))
        return " ".join(self._random.choices(self._words, self._weights, k=length))

    def pick_common(self) -> str:
        return f"{self._words[1]} {self._words[4]} {self._words[7]} {self._words[2]} {self._words[1]}"


def build_conversation(number: int, total: int, texts: Texts, now: float) -> list[Entry]:
    caller = Caller(user=f"user{number % USERS}", tenant=TENANT)
    question, answer = texts.write(number), texts.write(number)
    if number % (total // 5) == total // 10:
        answer += f" {RARE} {RARE_CHINESE}{RARE_CHARACTER}"
    user = UserMessage(id="u", at=now, parts=(TextPart(text=question),))
    events: list[Durable] = [
        ConversationOpened(owner=caller, settings=Settings(title=question[:40])),
        RunQueued(caller=caller, input=(user,)),
        RunStarted(model="m", limits=Limits()),
        TurnStarted(number=1, epoch=1),
        TurnEnded(items=(ModelText(id="t", at=now, text=answer),), finish="stop"),
        RunEnded(ending="done"),
    ]
    conversation = f"conv_{number:08}"
    return [
        Entry(conversation=conversation, seq=seq, at=now - total + number, event=event, run="r", epoch=1)
        for seq, event in enumerate(events, 1)
    ]


async def fill(store: SqliteStore, total: int) -> None:
    texts, now = Texts(), time()

    async def write(number: int) -> None:
        claim = await store.claim(f"conv_{number:08}")
        assert isinstance(claim, Claim)
        entries = build_conversation(number, total, texts, now)
        append = Append(
            conversation=f"conv_{number:08}", epoch=claim.epoch, entries=entries, release_at=claim.last_forwarded
        )
        await store.append(append)

    for start in range(0, total, 500):
        await asyncio.gather(*(write(number) for number in range(start, min(total, start + 500))))
    await store.index_texts()
    await fill_figures(store, now)


async def fill_tables(store: Store, url: str, total: int) -> None:
    """Fill the tables of PostgreSQL directly: appends of hundreds of thousands of conversations would take too long."""
    texts, now = Texts(), time()
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(
            "DROP INDEX search_terms; SET maintenance_work_mem = '512MB'; SET synchronous_commit = off"
        )
        await connection.execute("CREATE UNLOGGED TABLE loaded (conversation text, item bytea, text bytea, terms text)")
        for start in range(0, total, 10_000):
            tables: dict[str, list[tuple[object, ...]]] = {}
            for number in range(start, min(total, start + 10_000)):
                add_rows(tables, build_conversation(number, total, texts, now))
            for table, rows in tables.items():
                await connection.copy_records_to_table(  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
                    table, records=rows, columns=COLUMNS[table]
                )
        await connection.execute("""INSERT INTO search_texts (conversation, item, text, terms)
            SELECT conversation, item, text, array_to_tsvector(string_to_array(terms, ' ')) FROM loaded""")
        await connection.execute("CREATE INDEX search_terms ON search_texts USING gin (terms)")
        await connection.execute("DROP TABLE loaded")
        await connection.execute("VACUUM ANALYZE")
    finally:
        await connection.close()
    await fill_figures(store, now)


COLUMNS = {
    "conversations": ["id", "epoch", "last_seq"],
    "batches": ["conversation", "last_seq", "epoch", "entries"],
    "cards": [
        "conversation", "tenant", "owner", "title", "description", "created_at", "updated_at", "unlisted", "has_run",
        "unindexed", "indexed_seq",
    ],
    "loaded": ["conversation", "item", "text", "terms"],
}  # fmt: skip


def add_rows(tables: dict[str, list[tuple[object, ...]]], entries: Sequence[Entry]) -> None:
    opened, id, at, last = entries[0].event, entries[0].conversation, entries[0].at, entries[-1].seq
    assert isinstance(opened, ConversationOpened)
    title, owner = opened.settings.title, opened.owner
    card = (id, owner.tenant.encode(), owner.user.encode(), title.encode(), b"", at, at, False, False, False, last)
    tables.setdefault("conversations", []).append((id, 1, last))
    tables.setdefault("batches", []).append((id, last, 1, encode_batch(entries)))
    tables.setdefault("cards", []).append(card)
    for item, text in [("", title), *(pair for entry in entries for pair in list_texts(entry.event))]:
        folded = fold_case(text)
        row = id, item.encode(), folded.encode(), " ".join(build_terms(folded))
        tables.setdefault("loaded", []).append(row)


async def fill_figures(store: Store, now: float) -> None:
    """Add figures of 20 tools and 3 models to every step that is kept."""
    step = StepCounts(runs=50, failed=2, input_tokens=50_000, output_tokens=5_000)
    for number in range(20):
        tool = step.tools[f"tool_{number}"] = ToolCounts(calls=40, errors=2, last_at=now, last_error="it broke")
        for _ in range(40):
            add_time(tool.times, random.lognormvariate(4, 1))
    for number in range(3):
        model = step.models[f"model_{number}"] = ModelCounts(turns=40, input_tokens=9_000)
        for _ in range(40):
            add_time(model.times, random.lognormvariate(7, 0.5))
    body = msgspec.json.encode(step)
    for step_s, kept_s in STEPS_S.items():
        last = now // step_s
        times = [(last - number) * step_s for number in range(int(kept_s / step_s))]
        await store.add_figures([FigureRow(tenant=TENANT, user="", step_s=step_s, at=at, body=body) for at in times])


async def search(store: Store, text: str, expected: int | None, user: str = "") -> None:
    cards = await store.cards(CatalogQuery(tenant=TENANT, user=user, text=text))
    assert expected is None or len(cards) == expected, (text, len(cards))


async def show_overview(store: Store, hours: float) -> None:
    recorder = FigureRecorder(store, time, lambda work: work.close(), lambda _: None)
    until = time()
    since = until - hours * 3600
    steps = await recorder.read(TENANT, "", select_step(until - since, STEPS), since)
    overview = await asyncio.to_thread(build_overview, steps, since, until)
    assert len(overview.tools) == 20


def list_cases(store: Store, total: int) -> dict[str, Run]:
    middle = (time() - total / 2, "")
    return {
        "list, a user's": lambda: store.cards(CatalogQuery(tenant=TENANT, user="user7")),
        "list, the tenant's": lambda: store.cards(CatalogQuery(tenant=TENANT)),
        "list, from the middle on": lambda: store.cards(CatalogQuery(tenant=TENANT, after=middle, unlisted=True)),
        "search with hits": partial(search, store, RARE, 5),
        "search with hits, Chinese": partial(search, store, RARE_CHINESE, 5),
        "search with hits, one character": partial(search, store, RARE_CHARACTER, 5),
        "search, part of a common word": partial(search, store, "a", 50),
        "search, a common Chinese character": partial(search, store, "一", 50),
        "search among a user's": partial(search, store, "ba", None, "user7"),
        "search without a hit": partial(search, store, "xyzzy quux", 0),
        "search without a hit, Chinese": partial(search, store, "魑魅", 0),
        "search without a hit, one character": partial(search, store, "q", 0),
        "search without a hit, of common words": partial(search, store, Texts().pick_common(), None),
        "/overview, an hour": partial(show_overview, store, 1),
        "/overview, a day": partial(show_overview, store, 24),
        "/overview, 30 days": partial(show_overview, store, 720),
    }


async def measure_cases(store: Store, total: int) -> dict[str, float]:
    cases = list_cases(store, total)
    times: dict[str, list[float]] = {name: [] for name in cases}
    for number in range(ROUNDS + WARM_UP):
        for name in random.sample(list(cases), len(cases)):
            started = perf_counter()
            await cases[name]()
            if number >= WARM_UP:
                times[name].append((perf_counter() - started) * 1e3)
    return {name: sorted(values)[int(len(values) * 0.95)] for name, values in times.items()}


def build_long_log(conversation: str, length: int) -> list[Entry]:
    caller, entries = Caller(user="ana", tenant=TENANT), list[Entry]()

    def add(run: str, *events: Durable) -> None:
        for event in events:
            entries.append(
                Entry(conversation=conversation, seq=len(entries) + 1, at=1.0, event=event, run=run, epoch=1)
            )

    add("", ConversationOpened(owner=caller, settings=Settings()))
    number = 0
    while len(entries) < length:
        number += 1
        run, call_id = f"r{number}", f"c{number}"
        call = Call(id=call_id, at=1.0, tool="look_up", arguments={"query": "the weather of tomorrow"})
        result = Result(
            id=result_id(call_id), at=1.0, call_id=call_id, tool="look_up", outcome="ok", content="sunny. " * 40
        )
        text = ModelText(id=f"t{number}", at=1.0, text="It will be sunny all day. " * 8)
        user = UserMessage(id=f"u{number}", at=1.0, parts=(TextPart(text="How will the weather be? " * 4),))
        add(
            run,
            RunQueued(caller=caller, input=(user,)),
            RunStarted(model="m", limits=Limits()),
            TurnStarted(number=2 * number - 1, epoch=1),
            TurnEnded(items=(call,), finish="calls"),
            CallStarted(call_id=call_id, epoch=1, rule="r"),
            CallEnded(result=result),
            TurnStarted(number=2 * number, epoch=1),
            TurnEnded(items=(text,), finish="stop"),
            RunEnded(ending="done"),
        )
    return entries


async def measure_opening(store: Store, length: int) -> dict[str, tuple[float, float]]:
    """Return the time and the longest stall of opening a conversation without and with a snapshot, and of saving it."""
    conversation = f"long_{length}"
    claim = await store.claim(conversation)
    assert isinstance(claim, Claim)
    log = build_long_log(conversation, length)
    for start in range(0, len(log), 10):
        entries = log[start : start + 10]
        await store.append(Append(conversation=conversation, epoch=claim.epoch, entries=entries))
    del log
    await asyncio.sleep(3.0)  # the texts are indexed meanwhile
    figures: dict[str, list[tuple[float, float]]] = {}
    work = list[Coroutine[None, None, None]]()
    for number in range(8):
        loader = LogLoader(store, work.append, 500)
        kind = "open with a snapshot" if number else "open without a snapshot"
        figures.setdefault(kind, []).append(await measure_stall(partial(loader.load, conversation, None)))
        while work:
            figures.setdefault("save a snapshot", []).append(await measure_stall(partial(_await, work.pop())))
    # The lowest of several: other processes of the machine stall this one, too.
    return {kind: (min(took for took, _ in pairs), min(stall for _, stall in pairs)) for kind, pairs in figures.items()}


async def _await(work: Awaitable[None]) -> None:
    await work


async def measure_stall(work: Run) -> tuple[float, float]:
    pauses = [0.0]

    async def watch() -> None:
        while True:
            started = perf_counter()
            await asyncio.sleep(0.0005)
            pauses.append((perf_counter() - started - 0.0005) * 1e3)

    watching = asyncio.create_task(watch())
    await asyncio.sleep(0.02)
    pauses.clear()
    started = perf_counter()
    await work()
    took = (perf_counter() - started) * 1e3
    await asyncio.sleep(0.005)
    watching.cancel()
    return took, max(pauses)


@asynccontextmanager
async def open_sqlite() -> AsyncGenerator[tuple[Store, Fill], None]:
    with tempfile.TemporaryDirectory() as directory:
        store = await SqliteStore.open(Path(directory) / "toolyard.db")
        try:
            yield store, partial(fill, store)
        finally:
            await store.close()


@asynccontextmanager
async def open_postgres() -> AsyncGenerator[tuple[Store, Fill], None]:
    from postgres import create_database, start_own_server

    async with start_own_server({"shared_buffers": "512MB"}) as server, create_database(server.url) as url:
        store = await PostgresStore.open(url)
        try:
            yield store, partial(fill_tables, store, url)
        finally:
            await store.close()


STORES = {"sqlite": open_sqlite, "postgres": open_postgres}


async def measure(names: Sequence[str], sizes: Sequence[int], lengths: Sequence[int]) -> list[Figure]:
    cells: dict[str, dict[str, float]] = {}
    for name in names:
        for total in sizes:
            async with STORES[name]() as (store, fill_store):
                started = perf_counter()
                await fill_store(total)
                print(f"{name}: {total:,} conversations in {perf_counter() - started:.0f} s", file=sys.stderr)
                for case, p95 in (await measure_cases(store, total)).items():
                    cells.setdefault(case, {})[f"{name}, {total:,}"] = p95
                    print(f"{name} {total:,} {case}: {p95:.1f} ms", file=sys.stderr, flush=True)
    figures = [_build_figure(f"{case}, p95 ms", values, MAX_P95_MS) for case, values in cells.items()]
    return [*figures, *await measure_openings(names, lengths)]


async def measure_openings(names: Sequence[str], lengths: Sequence[int]) -> list[Figure]:
    times: dict[str, dict[str, float]] = {}
    stalls: dict[str, dict[str, float]] = {}
    for name in names:
        async with STORES[name]() as (store, _):
            for length in lengths:
                for kind, (took, stall) in (await measure_opening(store, length)).items():
                    times.setdefault(f"{kind}, {length:,} entries, ms", {})[name] = took
                    stalls.setdefault(f"{kind}, {length:,} entries, longest stall, ms", {})[name] = stall
                    print(f"{name} {kind} {length:,}: {took:.1f} ms, stall {stall:.1f} ms", file=sys.stderr)
    return [
        *(_build_figure(kind, values, 0.0) for kind, values in times.items()),
        *(_build_figure(kind, values, MAX_STALL_MS) for kind, values in stalls.items()),
    ]


def _build_figure(what: str, values: dict[str, float], limit: float) -> Figure:
    worst = max(values.values())
    must = f"≤ {limit:g}" if limit else ""
    passed = worst <= limit if limit else None
    return Figure(what, must=must, reached=f"{worst:.1f}", passed=passed, cells=values, digits=1)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", choices=[*STORES, "both"], default="both")
    parser.add_argument("--sizes", default="20000,250000")
    parser.add_argument("--lengths", default="5000,20000")
    parser.add_argument("--write", action="store_true", help="write the table into the documentation")
    options = parser.parse_args(arguments)
    names = list(STORES) if options.store == "both" else [options.store]
    sizes = [int(size) for size in options.sizes.split(",") if size]
    lengths = [int(length) for length in options.lengths.split(",") if length]
    figures = asyncio.run(measure(names, sizes, lengths))
    columns = list(dict.fromkeys(name for figure in figures for name in figure.cells))
    table = report.build_rows(figures, columns)
    print(report.format_plain(table))
    if options.write:
        report.write_section(DOCUMENT, TITLE, METHOD, table)


if __name__ == "__main__":
    main()
