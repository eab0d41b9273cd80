"""The writer thread: which jobs share a commit, what happens to those that fail, and how much may wait."""

import asyncio
import gc
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from threading import Event

import pytest

from toolyard.core.errors import Fenced, StoreDown
from toolyard.core.store import UsageRow
from toolyard.stores.sqlite.writer import MAX_GROUP_JOBS, MAX_QUEUED_BYTES, MAX_QUEUED_JOBS, SqliteWriter, Work


def insert(number: int, filling: int = 0) -> Work[int]:
    def work(connection: sqlite3.Connection) -> int:
        connection.execute("INSERT INTO numbers VALUES (?, zeroblob(?))", (number, filling))
        return number

    return work


def fail_after(work: Work[int], error: Exception) -> Work[int]:
    def failing(connection: sqlite3.Connection) -> int:
        work(connection)
        raise error

    return failing


def run_sql(statement: str) -> Work[int]:
    def work(connection: sqlite3.Connection) -> int:
        return len(connection.execute(statement).fetchall())

    return work


class HeldWriter:
    """Keeps the writer busy with one job, so that the next ones come together."""

    def __init__(self, writer: SqliteWriter) -> None:
        self.writer = writer
        self.started = Event()
        self.let_go = Event()

    async def __aenter__(self) -> None:
        self.task = asyncio.ensure_future(self.writer.run(self.wait))
        await asyncio.to_thread(self.started.wait)

    async def __aexit__(self, *_: object) -> None:
        self.let_go.set()
        await self.task

    def wait(self, connection: sqlite3.Connection) -> int:
        self.started.set()
        self.let_go.wait()
        return 0


async def submit_works(*works: Work[int], writer: SqliteWriter) -> list[asyncio.Task[int]]:
    tasks = [asyncio.ensure_future(writer.run(work)) for work in works]
    await asyncio.sleep(0)
    return tasks


def insert_turns(connection: sqlite3.Connection, rows: Sequence[UsageRow]) -> None:
    insert(sum(row.turns for row in rows))(connection)


def read_numbers_after(path: Path, use: Callable[[SqliteWriter], Awaitable[None]]) -> list[int]:
    """What is in the file after the writer was used and closed."""
    complaints: list[dict[str, object]] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, complaint: complaints.append(complaint))
        with ExitStack() as resources:
            connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            resources.enter_context(closing(connection))
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("CREATE TABLE numbers (number, filling)")
            writer = SqliteWriter(connection, path, resources.pop_all(), add_usage=insert_turns)
        try:
            await use(writer)
        finally:
            await writer.close()
            gc.collect()  # an error that nobody asked for complains when it is collected

    asyncio.run(main())
    assert complaints == []
    with closing(sqlite3.connect(path)) as connection:
        return [number for (number,) in connection.execute("SELECT number FROM numbers ORDER BY rowid")]


def test_jobs_that_come_while_one_runs_share_the_next_commit_up_to_a_bound(tmp_path: Path) -> None:
    async def use(writer: SqliteWriter) -> None:
        async with HeldWriter(writer):
            tasks = await submit_works(*map(insert, range(2 * MAX_GROUP_JOBS + 1)), writer=writer)
        assert await asyncio.gather(*tasks) == list(range(2 * MAX_GROUP_JOBS + 1))
        assert writer.commits == 1 + 3

    assert read_numbers_after(tmp_path / "file", use) == list(range(2 * MAX_GROUP_JOBS + 1))


def test_usage_is_added_once_for_a_group_and_not_for_a_job_that_fails(tmp_path: Path) -> None:
    async def use(writer: SqliteWriter) -> None:
        ten, hundred = [UsageRow(turns=10)], [UsageRow(turns=100), UsageRow(turns=100)]
        async with HeldWriter(writer):
            added = [asyncio.ensure_future(writer.run(insert(n), usage=rows)) for n, rows in ((1, ten), (2, hundred))]
            await asyncio.sleep(0)
        await asyncio.gather(*added)
        async with HeldWriter(writer):
            failing = asyncio.ensure_future(writer.run(fail_after(insert(3), Fenced("no")), usage=hundred))
            added = asyncio.ensure_future(writer.run(insert(4), usage=ten))
            await asyncio.sleep(0)
        await asyncio.gather(failing, added, return_exceptions=True)
        assert isinstance(failing.exception(), Fenced)

    assert read_numbers_after(tmp_path / "file", use) == [1, 2, 210, 4, 10]


def test_a_job_that_fails_is_undone_alone(tmp_path: Path) -> None:
    async def use(writer: SqliteWriter) -> None:
        fenced = fail_after(insert(2), Fenced("another owner"))
        broken = fail_after(insert(3), ZeroDivisionError())
        async with HeldWriter(writer):
            tasks = await submit_works(insert(1), fenced, broken, run_sql("SELECT nonsense"), insert(4), writer=writer)
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [int, Fenced, ZeroDivisionError, StoreDown, int]
        assert writer.commits == 2
        with pytest.raises(Fenced, match="another owner"):
            await writer.run(fenced)

    assert read_numbers_after(tmp_path / "file", use) == [1, 4]


def test_a_full_disk_is_down_for_all_that_did_not_fit_and_work_goes_on_when_there_is_space(tmp_path: Path) -> None:
    path = tmp_path / "file"

    async def use(writer: SqliteWriter) -> None:
        await writer.run(insert(1))
        await writer.run(run_sql("PRAGMA max_page_count = 20"))
        async with HeldWriter(writer):
            tasks = await submit_works(insert(2), insert(3, filling=1_000_000), writer=writer)
        small, large = await asyncio.gather(*tasks, return_exceptions=True)
        assert isinstance(large, StoreDown)
        assert str(large).startswith(f"{path}: database or disk is full. Free some space")
        assert isinstance(small, int | StoreDown)
        with pytest.raises(StoreDown):
            await writer.run(insert(4, filling=1_000_000))
        await writer.run(run_sql("PRAGMA max_page_count = 1000000"))
        await writer.run(insert(5, filling=1_000_000))

    assert [number for number in read_numbers_after(path, use) if number != 2] == [1, 5]


def test_a_transaction_that_sqlite_gives_up_is_down_for_its_whole_group(tmp_path: Path) -> None:
    async def use(writer: SqliteWriter) -> None:
        async with HeldWriter(writer):
            tasks = await submit_works(
                insert(1), run_sql("INSERT OR ROLLBACK INTO once VALUES (1)"), insert(2), writer=writer
            )
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [StoreDown] * 3
        assert await writer.run(insert(3)) == 3

    path = tmp_path / "file"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE once (number UNIQUE)")
        connection.execute("INSERT INTO once VALUES (1)")
    assert read_numbers_after(path, use) == [3]


@pytest.mark.parametrize(("jobs", "size_bytes"), [(MAX_QUEUED_JOBS - 1, 0), (1, MAX_QUEUED_BYTES)])
def test_who_comes_when_too_much_waits_must_wait_outside(jobs: int, size_bytes: int, tmp_path: Path) -> None:
    async def use(writer: SqliteWriter) -> None:
        async with HeldWriter(writer):
            tasks = [asyncio.ensure_future(writer.run(insert(n), size_bytes)) for n in range(jobs)]
            late = [asyncio.ensure_future(writer.run(insert(jobs + n))) for n in range(3)]
            await asyncio.sleep(0)
            assert writer.queued_jobs == 1 + jobs
        await asyncio.gather(*tasks, *late)
        assert writer.queued_jobs == 0

    assert read_numbers_after(tmp_path / "file", use) == list(range(jobs + 3))


def test_who_waits_outside_is_not_overtaken(tmp_path: Path) -> None:
    async def use(writer: SqliteWriter) -> None:
        async def twice() -> int:
            await writer.run(insert(1), MAX_QUEUED_BYTES)
            return await writer.run(insert(3))

        async with HeldWriter(writer):
            tasks = [asyncio.ensure_future(twice()), asyncio.ensure_future(writer.run(insert(2)))]
            await asyncio.sleep(0)
        await asyncio.gather(*tasks)

    assert read_numbers_after(tmp_path / "file", use) == [1, 2, 3]


def test_who_is_cancelled_in_the_queue_or_outside_it_has_still_asked(tmp_path: Path) -> None:
    async def use(writer: SqliteWriter) -> None:
        async with HeldWriter(writer):
            inside = asyncio.ensure_future(writer.run(insert(1), MAX_QUEUED_BYTES))
            outside = asyncio.ensure_future(writer.run(insert(2)))
            failing = asyncio.ensure_future(writer.run(fail_after(insert(3), Fenced("no"))))
            await asyncio.sleep(0)
            for task in (inside, outside, failing):
                task.cancel()
            await asyncio.wait([inside, outside, failing])
            assert inside.cancelled() and outside.cancelled() and failing.cancelled()
        await writer.run(insert(4))

    assert read_numbers_after(tmp_path / "file", use) == [1, 2, 4]


def test_a_close_commits_what_is_queued_and_turns_away_who_is_outside(tmp_path: Path) -> None:
    async def use(writer: SqliteWriter) -> None:
        async with HeldWriter(writer):
            inside = asyncio.ensure_future(writer.run(insert(1), MAX_QUEUED_BYTES))
            outside = asyncio.ensure_future(writer.run(insert(2)))
            leaving = asyncio.ensure_future(writer.run(insert(3)))
            await asyncio.sleep(0)
            closings = [asyncio.ensure_future(writer.close()) for _ in range(2)]
            await asyncio.sleep(0)
            closings[0].cancel()
            leaving.cancel()
        assert await inside == 1
        with pytest.raises(StoreDown, match="is closed: open it again"):
            await outside
        await closings[1]
        assert closings[0].cancelled() and leaving.cancelled()

    assert read_numbers_after(tmp_path / "file", use) == [1]
