"""Who takes over what, and when: deaths, conversations that kill their owners, and processes on the same machine."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator

import asyncpg
import pytest

from toolyard.core.conversation.events import Entry, RunEnded, StopRequested
from toolyard.core.errors import Unavailable
from toolyard.core.store import Append, Claim, OwnedElsewhere
from toolyard.stores.postgres import PostgresStore
from toolyard.stores.postgres.claims import FIND_DUE, FIND_NEXT
from toolyard.stores.postgres_settings import PostgresSettings

LONG_LEASE = PostgresSettings(lease_s=60.0)
OWNER = """
import asyncio, sys
from toolyard.core.store import Append
from toolyard.stores.postgres import PostgresStore
from toolyard.stores.postgres_settings import PostgresSettings

async def main():
    store = await PostgresStore.open(sys.argv[1], PostgresSettings(lease_s=60.0))
    for name in sys.argv[2:]:
        claim = await store.claim(name)
        await store.append(Append(conversation=name, epoch=claim.epoch, wake_at=0.0))
    print(store.replica, flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


@pytest.fixture
async def store(postgres_url: str) -> AsyncIterator[PostgresStore]:
    store = await PostgresStore.open(postgres_url, LONG_LEASE)
    yield store
    await store.close()


@pytest.fixture
async def database(postgres_url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(postgres_url)
    yield connection
    await connection.close()


async def claim(store: PostgresStore, conversation: str) -> Claim:
    answer = await store.claim(conversation)
    assert isinstance(answer, Claim), answer
    return answer


async def append(store: PostgresStore, answer: Claim, *events: StopRequested | RunEnded, wake_at: float | None) -> None:
    entries = [
        Entry(conversation=answer.conversation, seq=seq, at=0.0, event=event)
        for seq, event in enumerate(events, answer.last_seq + 1)
    ]
    await store.append(Append(conversation=answer.conversation, epoch=answer.epoch, entries=entries, wake_at=wake_at))


async def let_owner_die(database: asyncpg.Connection, conversation: str, deaths_ago_s: float = 3600.0) -> None:
    """Make the conversation one of a replica that has died, so long after it was last taken over."""
    await database.execute(
        "INSERT INTO replicas VALUES ('dead.1', 'dead', '-infinity') ON CONFLICT DO NOTHING",
    )
    await database.execute(
        "UPDATE conversations SET replica = 'dead.1', taken_at = now() - make_interval(secs => $2) WHERE id = $1",
        conversation,
        deaths_ago_s,
    )


async def test_a_killed_process_of_this_machine_is_replaced_at_once(postgres_url: str, store: PostgresStore) -> None:
    command = [sys.executable, "-c", OWNER, postgres_url, "a", "b"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": "src"})
    assert child.stdout is not None
    replica = (await asyncio.to_thread(child.stdout.readline)).strip()
    try:
        assert await store.claim("a") == OwnedElsewhere(replica)
        assert (await store.find_due(9.0, 10))[0] == []
    finally:
        child.kill()
        await asyncio.to_thread(child.communicate)
    due, _ = await store.find_due(9.0, 10)
    assert sorted(due) == ["a", "b"]
    assert [(answer.conversation, answer.deaths) for answer in await store.claim_many(due)] == [("a", 1), ("b", 1)]


async def test_a_conversation_that_kills_its_owners_is_taken_up_alone_and_later_each_time(
    store: PostgresStore, database: asyncpg.Connection
) -> None:
    for name in ("killer", "victim", "healthy"):
        await append(store, await claim(store, name), StopRequested(by="ana"), wake_at=0.0)
    for deaths in (1, 2, 3):
        for name in ("killer", "victim"):
            await let_owner_die(database, name)
        if deaths < 3:
            claims = await store.claim_many(["killer", "victim"])
            assert [answer.deaths for answer in claims] == [deaths, deaths]
    await let_owner_die(database, "healthy")
    claims = await store.claim_many(["healthy", "killer", "victim"])
    assert sorted((answer.conversation, answer.deaths) for answer in claims) == [("healthy", 1), ("killer", 3)]
    with pytest.raises(Unavailable, match="2 processes died"):
        await store.claim("victim")
    await append(store, await claim(store, "killer"), RunEnded(ending="done"), wake_at=None)
    assert (await claim(store, "victim")).deaths == 3
    await let_owner_die(database, "victim", 1.0)
    assert (await store.find_due(9.0, 10))[0] == [], "its pause is not over"
    with pytest.raises(Unavailable, match="after a pause"):
        await store.claim("victim")
    await let_owner_die(database, "victim", 3.0)
    assert (await store.find_due(9.0, 10))[0] == ["victim"]


async def test_after_the_eighth_death_nobody_takes_it_up_by_itself(
    store: PostgresStore, database: asyncpg.Connection
) -> None:
    await append(store, await claim(store, "c"), StopRequested(by="ana"), wake_at=0.0)
    for deaths in range(1, 9):
        await let_owner_die(database, "c")
        assert (await store.find_due(9.0, 10))[0] == ["c"]
        assert (await claim(store, "c")).deaths == deaths
    await let_owner_die(database, "c")
    assert (await store.find_due(9.0, 10))[0] == []
    with pytest.raises(Unavailable, match="every process"):
        await store.claim("c")
    await store.forward_command("c", "k", b"x")
    assert (await store.find_due(9.0, 10))[0] == []
    assert list(await store.claim_many(["c"])) == []
    assert list(await store.delete_conversation("c")) == ["dead.1"]


async def test_what_is_due_is_found_by_indexes_however_much_rests(
    database: asyncpg.Connection, store: PostgresStore
) -> None:
    await database.execute(
        """INSERT INTO conversations (id, epoch, replica, wake_at) SELECT 'live' || n, 1, $1, 0
        FROM generate_series(1, 1000) n""",
        store.replica,
    )
    await database.execute(
        """INSERT INTO conversations (id, epoch, wake_at)
        SELECT 'c' || n, 1, CASE WHEN n < 5000 THEN 1e9 + n END FROM generate_series(1, 25000) n"""
    )
    await database.execute("ANALYZE conversations")
    assert await store.find_due(9.0, 10) == ([], 1e9 + 1)
    for query, values in ((FIND_DUE, (50, 10.0, False, 9.0)), (FIND_NEXT, (9.0,))):
        plan = "\n".join(line for (line,) in await database.fetch(f"EXPLAIN {query}", *values))
        assert "Seq Scan on conversations" not in plan and "conversations_due" in plan, plan
