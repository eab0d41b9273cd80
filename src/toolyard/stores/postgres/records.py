"""Small records with version numbers, locks by name, and figures."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from hashlib import sha256

from toolyard.core.store import FigureRow
from toolyard.core.store.figures import merge_steps
from toolyard.named_locks import NamedLocks
from toolyard.stores.postgres.connections import DATABASE_ERRORS, Database
from toolyard.stores.postgres.lease import Lease, LeasedPorts

MAX_LOCK_WAIT_S = 60
# The number of a kind changes in the transaction that changes its records.
BUMP_VERSION = """INSERT INTO versions (kind, number) VALUES ({kind}, 1)
ON CONFLICT (kind) DO UPDATE SET number = versions.number + 1"""
_BUMP_RECORDS = BUMP_VERSION.format(kind="$1")
_READ_RECORD = "SELECT body FROM records WHERE kind = $1 AND name = $2"
_LIST_RECORDS = "SELECT name, body FROM records WHERE kind = $1 ORDER BY position"
SET_RECORD = f"""WITH bump AS ({_BUMP_RECORDS})
INSERT INTO records (kind, name, body) VALUES ($1, $2, $3)
ON CONFLICT (kind, name) DO UPDATE SET body = excluded.body"""
# An update that changes nothing returns the row that is there already, also one that another replica has just added.
# The names are sorted, so that two replicas that add several of them never wait for each other.
_ADD_RECORDS = f"""WITH bump AS ({_BUMP_RECORDS})
INSERT INTO records (kind, name, body) SELECT $1, name, body FROM unnest($2::text[], $3::bytea[]) AS added (name, body)
ORDER BY name COLLATE "C" ON CONFLICT (kind, name) DO UPDATE SET body = records.body RETURNING name, body"""
DELETE_RECORD = f"WITH bump AS ({_BUMP_RECORDS}) DELETE FROM records WHERE kind = $1 AND name = $2"
_LIST_KINDS = "SELECT DISTINCT kind FROM records ORDER BY kind"
# Each replica has figures of its own, so that none waits for another one.
MAX_FIGURE_ROWS = 500
"""Rows that are written in one transaction."""
_FIGURE_KEYS = "unnest($1::bytea[], $2::bytea[], $3::float8[], $4::float8[])"
_GET_FIGURES = f"""SELECT body FROM {_FIGURE_KEYS} WITH ORDINALITY AS row (tenant, owner, step_s, at, position)
LEFT JOIN figures f ON f.tenant = row.tenant AND f.owner = row.owner AND f.step_s = row.step_s AND f.at = row.at
AND f.replica = $5 ORDER BY position"""
_PUT_FIGURES = """INSERT INTO figures (tenant, owner, step_s, at, replica, body)
SELECT tenant, owner, step_s, at, $5, body
FROM unnest($1::bytea[], $2::bytea[], $3::float8[], $4::float8[], $6::bytea[]) AS row (tenant, owner, step_s, at, body)
ON CONFLICT (tenant, owner, step_s, at, replica) DO UPDATE SET body = excluded.body"""
_READ_FIGURES = "SELECT at, body FROM figures WHERE tenant = $1 AND owner = $2 AND step_s = $3 AND at >= $4"
_DROP_FIGURES = "DELETE FROM figures WHERE step_s = $1 AND at < $2"
_LIST_FIGURES = """SELECT tenant, owner, step_s, at, body FROM figures ORDER BY tenant, owner, step_s, at, replica
LIMIT $1 OFFSET $2"""


class PostgresRecords(LeasedPorts):
    def __init__(self, database: Database, lease: Lease) -> None:
        super().__init__(database, lease)
        self._named_locks = NamedLocks()

    async def read_record(self, kind: str, name: str) -> bytes | None:
        row = await self._database.fetch_row(_READ_RECORD, kind, name)
        return row[0] if row else None

    async def list_records(self, kind: str) -> Sequence[tuple[str, bytes]]:
        return [(name, body) for name, body in await self._database.fetch(_LIST_RECORDS, kind)]

    async def set_record(self, kind: str, name: str, body: bytes) -> None:
        await self._database.fetch(SET_RECORD, kind, name, body)

    async def add_records(self, kind: str, records: Mapping[str, bytes]) -> Mapping[str, bytes]:
        rows = await self._database.fetch(_ADD_RECORDS, kind, list(records), list(records.values()))
        return {name: body for name, body in rows}

    async def delete_record(self, kind: str, name: str) -> None:
        await self._database.fetch(DELETE_RECORD, kind, name)

    async def read_versions(self) -> Mapping[str, int]:
        return {kind: number for kind, number in await self._database.fetch("SELECT kind, number FROM versions")}

    async def list_record_kinds(self) -> Sequence[str]:
        return [kind for (kind,) in await self._database.fetch(_LIST_KINDS)]

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

    async def add_figures(self, rows: Sequence[FigureRow]) -> None:
        for start in range(0, len(rows), MAX_FIGURE_ROWS):
            await self._add_some_figures(rows[start : start + MAX_FIGURE_ROWS])

    async def _add_some_figures(self, rows: Sequence[FigureRow]) -> None:
        keys = [
            [row.tenant.encode() for row in rows],
            [row.user.encode() for row in rows],
            [row.step_s for row in rows],
            [row.at for row in rows],
        ]
        replica = self._lease.id
        async with self._database.transaction() as connection:
            stored = await connection.fetch(_GET_FIGURES, *keys, replica)
            bodies = [merge_steps(body, row.body) for (body,), row in zip(stored, rows, strict=True)]
            await connection.execute(_PUT_FIGURES, *keys, replica, bodies)

    async def read_figures(self, tenant: str, user: str, step_s: float, since: float) -> Sequence[tuple[float, bytes]]:
        rows = await self._database.fetch(_READ_FIGURES, tenant.encode(), user.encode(), step_s, since)
        return [(at, body) for at, body in rows]

    async def drop_figures(self, step_s: float, before: float) -> None:
        await self._database.fetch(_DROP_FIGURES, step_s, before)

    async def list_figures(self, offset: int, limit: int) -> Sequence[FigureRow]:
        return [
            FigureRow(tenant=tenant.decode(), user=user.decode(), step_s=step_s, at=at, body=body)
            for tenant, user, step_s, at, body in await self._database.fetch(_LIST_FIGURES, limit, offset)
        ]
