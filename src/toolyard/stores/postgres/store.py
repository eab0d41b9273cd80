"""Keeps conversations, keys and records in a PostgreSQL database that any number of replicas share."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from itertools import chain, islice

import msgspec

from toolyard.core.conversation.events import Entry
from toolyard.core.errors import StoreDown, ToolyardError
from toolyard.core.store import Append
from toolyard.stores.batches import decode_batch
from toolyard.stores.postgres.access_tokens import PostgresAccessTokens
from toolyard.stores.postgres.audit import PostgresAudit
from toolyard.stores.postgres.bus import PostgresBus
from toolyard.stores.postgres.catalog import PostgresCatalog
from toolyard.stores.postgres.claims import PostgresClaims
from toolyard.stores.postgres.connections import DATABASE_ERRORS, Database
from toolyard.stores.postgres.export import PostgresExport
from toolyard.stores.postgres.figures import PostgresFigures
from toolyard.stores.postgres.forwarded_commands import PostgresForwardedCommands
from toolyard.stores.postgres.lease import MAX_BACKOFF_S, Lease
from toolyard.stores.postgres.maintenance import Maintenance
from toolyard.stores.postgres.records import PostgresRecords
from toolyard.stores.postgres.schema import prepare_schema
from toolyard.stores.postgres.search import PostgresIndexer
from toolyard.stores.postgres.snapshots import PostgresSnapshots
from toolyard.stores.postgres.writer import PostgresWriter
from toolyard.stores.postgres_settings import PostgresSettings

_READ = "SELECT entries FROM batches WHERE conversation = $1 AND last_seq > $2 ORDER BY last_seq"
_READ_SOME = f"{_READ} LIMIT $3"
_PUT = """INSERT INTO blobs (conversation, handle, body) SELECT $1, $2, $3
WHERE NOT EXISTS (SELECT 1 FROM conversations WHERE id = $1 AND epoch < 0)
ON CONFLICT (conversation, handle) DO UPDATE SET body = excluded.body"""
_GET = "SELECT body FROM blobs WHERE conversation = $1 AND handle = $2"


class PostgresStore(
    PostgresClaims,
    PostgresForwardedCommands,
    PostgresBus,
    PostgresCatalog,
    PostgresRecords,
    PostgresAccessTokens,
    PostgresAudit,
    PostgresExport,
    PostgresSnapshots,
    PostgresFigures,
):
    """The shared store. Use `open` to create one; it belongs to the event loop that opened it."""

    def __init__(self, database: Database, lease: Lease) -> None:
        super().__init__(database, lease)
        self._writer = PostgresWriter(database, lease.owned)
        maintenance = Maintenance(database, lease)
        self._maintenance = asyncio.create_task(maintenance.run(), name="toolyard maintenance")
        indexer = PostgresIndexer(database, lease)
        self._indexing = asyncio.create_task(indexer.run(), name="toolyard search index")
        self._closing: asyncio.Task[None] | None = None

    @classmethod
    async def open(
        cls, url: str, settings: PostgresSettings | None = None, *, may_migrate: bool = True
    ) -> "PostgresStore":
        """Connect, migrate if needed, and become a replica. Raises StoreDown or Misconfigured."""
        database = Database(url, settings or PostgresSettings())
        try:
            lease = Lease(database, await prepare_schema(database, may_migrate=may_migrate))
            await database.check_listen_url()
            await lease.start()
        except DATABASE_ERRORS as error:
            database.close()
            raise database.build_error(error, opening=True) from error
        return cls(database, lease)

    @property
    def commits(self) -> int:
        """How many groups of appends were committed since the store was opened."""
        return self._writer.commits

    @property
    def problem(self) -> str:
        """Return why the database cannot be used now, or an empty string."""
        return self._database.health.problem

    def begin_append(self, append: Append) -> asyncio.Future[bool] | None:
        return self._writer.begin(append)

    async def append(self, append: Append) -> bool:
        return await self._writer.append(append)

    async def read(self, conversation: str, after: int = 0, limit: int = 0) -> Sequence[Entry]:
        if limit:  # each batch has an entry at least
            rows = await self._database.fetch(_READ_SOME, conversation, after, limit)
        else:
            rows = await self._database.fetch(_READ, conversation, after)
        try:
            entries = chain.from_iterable(decode_batch(lines) for (lines,) in rows)
            return list(islice((entry for entry in entries if entry.seq > after), limit or None))
        except msgspec.DecodeError as error:
            reason = f"it holds an entry that cannot be read: {error}. A newer version may read it"
            raise StoreDown(reason, address=self._database.address) from error

    async def put_blob(self, conversation: str, handle: str, body: bytes) -> None:
        """Store a blob. While the database is down, wait for the time of a lease: a call in flight needs it."""
        deadline = asyncio.get_running_loop().time() + self._database.settings.lease_s
        while True:
            try:
                await self._database.fetch(_PUT, conversation, handle, body)
                return
            except StoreDown:
                if self._database.closed or asyncio.get_running_loop().time() > deadline:
                    raise
            await asyncio.sleep(MAX_BACKOFF_S / 5)

    async def get_blob(self, conversation: str, handle: str) -> bytes | None:
        row = await self._database.fetch_row(_GET, conversation, handle)
        return row[0] if row else None

    async def close(self) -> None:
        """Commit what was submitted, release all conversations and close the connections. May be called again."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        for task in (self._maintenance, self._indexing):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        await self._writer.close()
        await self.close_bus()
        with suppress(ToolyardError):
            await self._lease.close()
        self._database.close()
