"""The figures of the PostgreSQL store. Each replica has rows of its own, so that none waits for another one."""

from collections.abc import Sequence

from toolyard.core.store import FigureRow
from toolyard.core.store.figures import merge_steps
from toolyard.stores.postgres.lease import LeasedPorts

MAX_ROWS = 500
"""Rows that are written in one transaction."""
_KEYS = "unnest($1::bytea[], $2::bytea[], $3::float8[], $4::float8[])"
_GET = f"""SELECT body FROM {_KEYS} WITH ORDINALITY AS row (tenant, owner, step_s, at, position)
LEFT JOIN figures f ON f.tenant = row.tenant AND f.owner = row.owner AND f.step_s = row.step_s AND f.at = row.at
AND f.replica = $5 ORDER BY position"""
_PUT = """INSERT INTO figures (tenant, owner, step_s, at, replica, body)
SELECT tenant, owner, step_s, at, $5, body
FROM unnest($1::bytea[], $2::bytea[], $3::float8[], $4::float8[], $6::bytea[]) AS row (tenant, owner, step_s, at, body)
ON CONFLICT (tenant, owner, step_s, at, replica) DO UPDATE SET body = excluded.body"""
_READ = "SELECT at, body FROM figures WHERE tenant = $1 AND owner = $2 AND step_s = $3 AND at >= $4"
_DROP = "DELETE FROM figures WHERE step_s = $1 AND at < $2"


class PostgresFigures(LeasedPorts):
    async def add_figures(self, rows: Sequence[FigureRow]) -> None:
        for start in range(0, len(rows), MAX_ROWS):
            await self._add_some(rows[start : start + MAX_ROWS])

    async def _add_some(self, rows: Sequence[FigureRow]) -> None:
        keys = [
            [row.tenant.encode() for row in rows],
            [row.user.encode() for row in rows],
            [row.step_s for row in rows],
            [row.at for row in rows],
        ]
        replica = self._lease.id
        async with self._database.transaction() as connection:
            stored = await connection.fetch(_GET, *keys, replica)
            bodies = [merge_steps(body, row.body) for (body,), row in zip(stored, rows, strict=True)]
            await connection.execute(_PUT, *keys, replica, bodies)

    async def read_figures(self, tenant: str, user: str, step_s: float, since: float) -> Sequence[tuple[float, bytes]]:
        rows = await self._database.fetch(_READ, tenant.encode(), user.encode(), step_s, since)
        return [(at, body) for at, body in rows]

    async def drop_figures(self, step_s: float, before: float) -> None:
        await self._database.fetch(_DROP, step_s, before)
