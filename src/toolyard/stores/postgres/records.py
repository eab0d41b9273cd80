"""Keys, small records with version numbers, locks by name, and rate limits."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from hashlib import sha256
from math import floor

import msgspec

from toolyard.core.store import Allowance, Key
from toolyard.stores.postgres.connections import DATABASE_ERRORS, Database
from toolyard.stores.postgres.lease import Lease, LeasedPorts
from toolyard.stores.rate_limit import MINUTE_TICKS, TICKS_PER_S, build_allowance
from toolyard.stores.single_process import NamedLocks

MAX_LOCK_WAIT_S = 60
# The number of a kind changes in the transaction that changes its records.
_BUMP = """INSERT INTO versions (kind, number) VALUES ({kind}, 1)
ON CONFLICT (kind) DO UPDATE SET number = versions.number + 1"""
_KEYS = "SELECT body FROM keys ORDER BY name"
_BUMP_KEYS = _BUMP.format(kind="'key'")
_BUMP_RECORDS = _BUMP.format(kind="$1")
_SAVE_KEY = f"""WITH bump AS ({_BUMP_KEYS})
INSERT INTO keys (name, body) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET body = excluded.body"""
_REVOKE_KEY = f"WITH bump AS ({_BUMP_KEYS}) DELETE FROM keys WHERE name = $1 RETURNING 1"
_READ_RECORD = "SELECT body FROM records WHERE kind = $1 AND name = $2"
_LIST_RECORDS = "SELECT name, body FROM records WHERE kind = $1 ORDER BY position"
_SET_RECORD = f"""WITH bump AS ({_BUMP_RECORDS})
INSERT INTO records (kind, name, body) VALUES ($1, $2, $3)
ON CONFLICT (kind, name) DO UPDATE SET body = excluded.body"""
# An update that changes nothing returns the row that is there already, also one that another replica has just added.
# The names are sorted, so that two replicas that add several of them never wait for each other.
_ADD_RECORDS = f"""WITH bump AS ({_BUMP_RECORDS})
INSERT INTO records (kind, name, body) SELECT $1, name, body FROM unnest($2::text[], $3::bytea[]) AS added (name, body)
ORDER BY name COLLATE "C" ON CONFLICT (kind, name) DO UPDATE SET body = records.body RETURNING name, body"""
_DELETE_RECORD = f"WITH bump AS ({_BUMP_RECORDS}) DELETE FROM records WHERE kind = $1 AND name = $2"
# GCRA: `free_at` is when the allowance is full again, in ticks times `per_minute`. In this unit a request costs a
# minute of ticks, always an integer. `used` never exceeds the allowance, also after a clock was set back.
_USED = "least(greatest(r.free_at - ($3::bigint)::numeric * $2, 0), ($2 * $4)::numeric)"
_TAKE = f"""INSERT INTO rates AS r (key, per_minute, free_at)
VALUES ($1, $2::bigint, ($3::bigint)::numeric * $2 + $4::bigint)
ON CONFLICT (key, per_minute) DO UPDATE SET free_at = ($3::bigint)::numeric * $2 + {_USED} + $4
WHERE {_USED} + $4 <= ($2 * $4)::numeric
RETURNING r.free_at - ($3::bigint)::numeric * $2"""
_RETURN = "UPDATE rates SET free_at = free_at - $3::bigint WHERE key = $1 AND per_minute = $2::bigint"
_READ_RATE = f"SELECT {_USED} + $4::bigint FROM rates r WHERE key = $1 AND per_minute = $2::bigint"
_key_decoder = msgspec.json.Decoder(Key)


class PostgresRecords(LeasedPorts):
    def __init__(self, database: Database, lease: Lease) -> None:
        super().__init__(database, lease)
        self._named_locks = NamedLocks()

    async def keys(self) -> Sequence[Key]:
        return [_key_decoder.decode(body) for (body,) in await self._database.fetch(_KEYS)]

    async def save_key(self, key: Key) -> None:
        await self._database.fetch(_SAVE_KEY, key.name, msgspec.json.encode(key))

    async def revoke_key(self, name: str) -> bool:
        return bool(await self._database.fetch(_REVOKE_KEY, name))

    async def read_record(self, kind: str, name: str) -> bytes | None:
        row = await self._database.fetch_row(_READ_RECORD, kind, name)
        return row[0] if row else None

    async def list_records(self, kind: str) -> Sequence[tuple[str, bytes]]:
        return [(name, body) for name, body in await self._database.fetch(_LIST_RECORDS, kind)]

    async def set_record(self, kind: str, name: str, body: bytes) -> None:
        await self._database.fetch(_SET_RECORD, kind, name, body)

    async def add_records(self, kind: str, records: Mapping[str, bytes]) -> Mapping[str, bytes]:
        rows = await self._database.fetch(_ADD_RECORDS, kind, list(records), list(records.values()))
        return {name: body for name, body in rows}

    async def delete_record(self, kind: str, name: str) -> None:
        await self._database.fetch(_DELETE_RECORD, kind, name)

    async def read_versions(self) -> Mapping[str, int]:
        return {kind: number for kind, number in await self._database.fetch("SELECT kind, number FROM versions")}

    @asynccontextmanager
    async def lock(self, kind: str, name: str) -> AsyncGenerator[None]:
        """Hold a lock of the database for as long as the block runs. Raises StoreDown if others hold it too long.

        The tasks of this process wait for each other without a connection.
        """
        number = int.from_bytes(sha256(f"{kind}\0{name}".encode()).digest()[:8], signed=True)
        async with self._named_locks.lock(kind, name):
            held = AsyncExitStack()
            try:
                await self._acquire_lock(held, number)
            except DATABASE_ERRORS as error:
                raise self._database.build_error(error) from error
            try:
                yield
            finally:
                with suppress(*DATABASE_ERRORS):  # with its connection the lock is gone, too
                    await held.aclose()

    async def _acquire_lock(self, held: AsyncExitStack, number: int) -> None:
        self._database.require_up()
        async with AsyncExitStack() as stack:
            connection = await stack.enter_async_context(self._database.locks.acquire())
            # Of the transaction, not of the session: that also works behind a pooler.
            await stack.enter_async_context(connection.transaction())
            await connection.execute(f"SET LOCAL lock_timeout = '{MAX_LOCK_WAIT_S}s'")
            await connection.execute(f"SET LOCAL statement_timeout = '{MAX_LOCK_WAIT_S + 1}s'")
            await connection.execute("SELECT pg_advisory_xact_lock($1)", number, timeout=MAX_LOCK_WAIT_S + 2)
            held.push_async_exit(stack.pop_all())

    async def take_allowance(self, key: str, per_minute: int, now: float) -> Allowance:
        if per_minute < 1:
            raise ValueError(f"per_minute must be at least 1, not {per_minute}")
        values = key.encode(), per_minute, floor(now * TICKS_PER_S), MINUTE_TICKS
        while True:
            # A refusal is explained by a second statement: the first one is refused by the row as it is now, but reads
            # it as it was at its start, before other replicas changed it. Only a row that was tidied away in between
            # explains none, and the next attempt is granted.
            if row := await self._database.fetch_row(_TAKE, *values):
                return build_allowance(int(row[0]) - per_minute * MINUTE_TICKS, per_minute)
            row = await self._database.fetch_row(_READ_RATE, *values)
            if row and (excess := int(row[0]) - per_minute * MINUTE_TICKS) > 0:
                return build_allowance(excess, per_minute)

    async def return_allowance(self, key: str, per_minute: int) -> None:
        await self._database.fetch(_RETURN, key.encode(), per_minute, MINUTE_TICKS)
