"""List what a PostgreSQL store holds, for a copy of all of it."""

from collections.abc import Sequence

from toolyard.core.store import FigureRow
from toolyard.stores.postgres.lease import LeasedPorts

_CONVERSATIONS = """SELECT id, wake_at FROM conversations WHERE id > $1 AND epoch > 0 AND last_seq > 0
ORDER BY id LIMIT $2"""
_HANDLES = "SELECT handle FROM blobs WHERE conversation = $1 ORDER BY handle"
_FIGURES = """SELECT tenant, owner, step_s, at, body FROM figures ORDER BY tenant, owner, step_s, at, replica
LIMIT $1 OFFSET $2"""
_KINDS = "SELECT DISTINCT kind FROM records ORDER BY kind"


class PostgresExport(LeasedPorts):
    """The lists that a copy of the store needs."""

    async def list_stored_conversations(self, after: str, limit: int) -> Sequence[tuple[str, float | None]]:
        return [(id, wake_at) for id, wake_at in await self._database.fetch(_CONVERSATIONS, after, limit)]

    async def list_blob_handles(self, conversation: str) -> Sequence[str]:
        return [handle for (handle,) in await self._database.fetch(_HANDLES, conversation)]

    async def list_figures(self, offset: int, limit: int) -> Sequence[FigureRow]:
        return [
            FigureRow(tenant=tenant.decode(), user=user.decode(), step_s=step_s, at=at, body=body)
            for tenant, user, step_s, at, body in await self._database.fetch(_FIGURES, limit, offset)
        ]

    async def list_record_kinds(self) -> Sequence[str]:
        return [kind for (kind,) in await self._database.fetch(_KINDS)]
