"""A database that goes away: nothing that was submitted is lost, nothing is doubled, and all goes on by itself."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence

import asyncpg
import pytest
import pytest_asyncio

from postgres import PostgresServer, create_database, start_own_server
from support import wait_until
from toolyard.core.conversation.events import Entry, StopRequested
from toolyard.core.errors import StoreDown
from toolyard.core.store import Append, Claim, OwnedElsewhere, RecordChange
from toolyard.core.store.audit_chain import AuditRecord
from toolyard.stores.postgres import PostgresStore
from toolyard.stores.postgres.connections import LOCK_TIMEOUT_S
from toolyard.stores.postgres_settings import PostgresSettings

CHAIN_LOCK = 0x546F6F6C41756474
WAITING_FOR = """SELECT extract(epoch FROM clock_timestamp() - min(a.query_start))::float8
FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE l.locktype = 'advisory' AND NOT l.granted"""
"""How many seconds a connection has waited for an advisory lock."""
SETTINGS = PostgresSettings(lease_s=2.0, connect_timeout_s=1.0)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server() -> AsyncIterator[PostgresServer]:
    async with start_own_server() as server:
        yield server


@pytest.fixture
async def url(server: PostgresServer) -> AsyncIterator[str]:
    async with create_database(server.url) as url:
        yield url


@pytest.fixture
async def stores(url: str) -> AsyncIterator[tuple[PostgresStore, PostgresStore]]:
    first, second = [await PostgresStore.open(url, SETTINGS) for _ in range(2)]
    yield first, second
    await first.close()
    await second.close()


def make_entries(conversation: str, first: int, count: int = 1) -> list[Entry]:
    return [
        Entry(conversation=conversation, seq=seq, at=float(seq), event=StopRequested(by="ana"))
        for seq in range(first, first + count)
    ]


async def claim(store: PostgresStore, conversation: str) -> int:
    answer = await store.claim(conversation)
    assert isinstance(answer, Claim), answer
    return answer.epoch


async def execute(url: str, *statements: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()


async def append_many(store: PostgresStore, conversation: str, epoch: int, numbers: Sequence[int]) -> None:
    for number in numbers:
        await store.append(
            Append(conversation=conversation, epoch=epoch, entries=make_entries(conversation, number), wake_at=0.0)
        )


async def read_seqs(store: PostgresStore, conversation: str) -> list[int]:
    return [entry.seq for entry in await store.read(conversation)]


async def test_restarts_fail_no_append_and_double_none(
    server: PostgresServer, stores: tuple[PostgresStore, PostgresStore]
) -> None:
    names = [f"c{number}" for number in range(20)]
    epochs = {name: await claim(stores[0], name) for name in names}
    work = asyncio.gather(*(append_many(stores[0], name, epochs[name], range(1, 201)) for name in names))
    for _ in range(2):
        await asyncio.sleep(0.2)
        await asyncio.to_thread(server.restart)
    async with asyncio.timeout(60):
        await work
    await wait_until(lambda: not stores[1].problem)  # its heartbeat notices that the database is back
    for name in names:
        assert await read_seqs(stores[1], name) == list(range(1, 201))


async def test_a_cut_in_the_middle_of_a_commit_is_settled_by_reading(
    url: str, stores: tuple[PostgresStore, PostgresStore]
) -> None:
    epoch = await claim(stores[0], "c")
    work = asyncio.create_task(append_many(stores[0], "c", epoch, range(1, 61)))
    connection = await asyncpg.connect(url)
    while not work.done():
        await connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'toolyard w%'"
        )
        await asyncio.sleep(0.1)
    await connection.close()
    await work
    assert await read_seqs(stores[1], "c") == list(range(1, 61))


async def test_a_release_whose_answer_was_lost_is_known_afterwards(
    url: str, stores: tuple[PostgresStore, PostgresStore]
) -> None:
    connection = await asyncpg.connect(url)
    for number in range(1, 30):
        epoch = await claim(stores[0], "c")
        append = Append(conversation="c", epoch=epoch, entries=make_entries("c", number), wake_at=None, release_at=0)
        done = stores[0].begin_append(append)
        assert done is not None
        await asyncio.sleep(0.0005 * number)
        await connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'toolyard w%'"
        )
        assert await done is True
    await connection.close()
    assert await read_seqs(stores[1], "c") == list(range(1, 30))


async def test_while_it_is_down_requests_fail_at_once_and_submitted_work_waits(
    server: PostgresServer, stores: tuple[PostgresStore, PostgresStore], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "toolyard.postgres")
    store = stores[0]
    epoch = await claim(store, "c")
    await asyncio.to_thread(server.stop)
    done = store.begin_append(Append(conversation="c", epoch=epoch, entries=make_entries("c", 1), wake_at=0.0))
    assert done is not None
    await wait_until(lambda: bool(store.problem))
    loop = asyncio.get_running_loop()
    started_at = loop.time()
    for _ in range(100):
        for awaitable in (
            store.read("c"),
            store.claim("d"),
            store.forward_command("c", "k", b""),
            store.find_due(0.0, 1),
        ):
            with pytest.raises(StoreDown) as raised:
                await awaitable
            assert "127.0.0.1" not in raised.value.reason
    with pytest.raises(StoreDown):
        async with asyncio.timeout(10):
            while True:
                await store.ensure_lease()
                await asyncio.sleep(0.05)
    assert not done.done() and loop.time() - started_at < 8
    await asyncio.to_thread(server.start)
    async with asyncio.timeout(20):
        assert await done is False
    await wait_until(lambda: not stores[0].problem and not stores[1].problem)
    assert await read_seqs(store, "c") == [1]
    lines = [record.getMessage() for record in caplog.records if record.name == "toolyard.postgres"]
    assert len(lines) == 4, lines  # one when it goes and one when it is back, for each store


async def test_after_an_outage_longer_than_the_lease_owners_keep_what_they_own(
    server: PostgresServer, stores: tuple[PostgresStore, PostgresStore]
) -> None:
    first, second = stores
    lost: list[tuple[str, int]] = []
    first.on_lost(lost.extend)
    epoch, old_id = await claim(first, "c"), first.replica
    await append_many(first, "c", epoch, [1])
    await asyncio.to_thread(server.stop)
    await asyncio.sleep(SETTINGS.lease_s * 1.3)
    await asyncio.to_thread(server.start)
    await wait_until(lambda: not second.problem)
    assert (await second.find_due(9.0, 10))[0] == []
    assert isinstance(await second.claim("c"), OwnedElsewhere)
    await append_many(first, "c", epoch, [2])
    await wait_until(lambda: first.replica != old_id and not first.problem)
    await first.ensure_lease()
    assert await second.claim("c") == OwnedElsewhere(first.replica)
    await append_many(first, "c", epoch, [3])
    assert (lost, await read_seqs(second, "c")) == ([], [1, 2, 3])


async def test_a_lease_that_others_saw_end_keeps_what_nobody_took(
    url: str, stores: tuple[PostgresStore, PostgresStore]
) -> None:
    first, second = stores
    lost: list[tuple[str, int]] = []
    first.on_lost(lost.extend)
    epochs = {name: await claim(first, name) for name in ("kept", "taken")}
    await second.follow("kept")
    await first.follow("followed")
    old_id = first.replica
    await execute(url, f"UPDATE replicas SET alive_until = '-infinity' WHERE id = '{old_id}'")
    answer = await second.claim("taken")
    assert isinstance(answer, Claim) and answer.deaths == 1
    await wait_until(lambda: first.replica != old_id)
    await wait_until(lambda: lost == [("taken", epochs["taken"])])
    await append_many(first, "kept", epochs["kept"], [1])
    assert await second.claim("kept") == OwnedElsewhere(first.replica)


@pytest.mark.parametrize("state", ["53100", "25006"])
async def test_a_full_disk_or_a_read_only_database_is_an_outage(
    url: str, stores: tuple[PostgresStore, PostgresStore], state: str
) -> None:
    store = stores[0]
    epoch = await claim(store, "c")
    await execute(
        url,
        f"CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE SQLSTATE '{state}'; END $$",
        "CREATE TRIGGER fail BEFORE INSERT ON batches EXECUTE FUNCTION fail()",
    )
    done = store.begin_append(Append(conversation="c", epoch=epoch, entries=make_entries("c", 1), wake_at=0.0))
    assert done is not None
    await wait_until(lambda: bool(store.problem))
    with pytest.raises(StoreDown):
        await store.claim("d")
    assert await store.read("c") == []
    await execute(url, "DROP TRIGGER fail ON batches")
    assert await done is False
    assert (store.problem, await read_seqs(store, "c")) == ("", [1])
    await claim(store, "d")


async def test_a_replica_that_hangs_in_a_transaction_holds_up_its_rows_only_for_a_part_of_the_lease(
    stores: tuple[PostgresStore, PostgresStore],
) -> None:
    hung, store = stores
    epoch = await claim(store, "c")
    with pytest.raises(StoreDown):  # the database has ended the transaction
        async with hung._database.transaction() as connection:  # pyright: ignore[reportPrivateUsage]
            await connection.execute("SELECT 1 FROM conversations WHERE id = 'c' FOR UPDATE")
            await append_many(store, "c", epoch, [1])
    assert await read_seqs(store, "c") == [1]


async def test_a_locked_row_holds_up_only_its_own_append(url: str, stores: tuple[PostgresStore, PostgresStore]) -> None:
    store = stores[0]
    epochs = {name: await claim(store, name) for name in ("free", "locked")}
    connection = await asyncpg.connect(url)
    async with connection.transaction():
        await connection.execute("SELECT 1 FROM conversations WHERE id = 'locked' FOR UPDATE")
        held = asyncio.gather(append_many(store, "locked", epochs["locked"], [1]))
        await append_many(store, "free", epochs["free"], [1, 2])
        assert not held.done()
    await held
    await connection.close()
    assert await read_seqs(store, "locked") == [1]


async def test_followers_are_recorded_again_after_a_crash_and_the_handler_is_told(
    server: PostgresServer, stores: tuple[PostgresStore, PostgresStore]
) -> None:
    first, second = stores
    epoch = await claim(first, "c")
    await second.follow("c")
    messages: list[bytes] = []
    second.listen(messages.append)
    await asyncio.to_thread(server.restart)
    await wait_until(lambda: b"" in messages)
    await wait_until(lambda: not first.problem)
    answer = await first.claim("c")
    assert isinstance(answer, Claim) and answer.epoch == epoch + 1
    assert answer.followers == (second.replica,)


async def test_a_change_waits_for_another_replica_that_holds_the_audit_log_for_longer_than_a_row_may_be_locked(
    url: str, stores: tuple[PostgresStore, PostgresStore]
) -> None:
    audit = AuditRecord(at=1.0, action="setting.set", target="x")
    holder, observer = await asyncpg.connect(url), await asyncpg.connect(url)
    try:
        async with holder.transaction():
            await holder.execute("SELECT pg_advisory_xact_lock($1)", CHAIN_LOCK)
            change = RecordChange(kind="test", name="x", body=b"1", audit=audit)
            waiting = asyncio.create_task(stores[0].change_records([change]))
            seconds = 0.0
            while seconds < 1.5 * LOCK_TIMEOUT_S and not waiting.done():
                seconds = await observer.fetchval(WAITING_FOR) or 0.0
                await asyncio.sleep(0.02)
        await waiting
    finally:
        await holder.close()
        await observer.close()
    assert await stores[1].read_record("test", "x") == b"1"
