"""Keeps conversations, keys and records in a PostgreSQL database that any number of replicas share."""

import asyncio
from contextlib import suppress

from toolyard.core.errors import ToolyardError
from toolyard.stores.postgres.access import PostgresAccess
from toolyard.stores.postgres.audit import PostgresAudit
from toolyard.stores.postgres.bus import PostgresBus
from toolyard.stores.postgres.catalog import PostgresCatalog
from toolyard.stores.postgres.claims import PostgresClaims
from toolyard.stores.postgres.connections import DATABASE_ERRORS, Database
from toolyard.stores.postgres.forwarded_commands import PostgresForwardedCommands
from toolyard.stores.postgres.lease import Lease
from toolyard.stores.postgres.ledger import PostgresLedger
from toolyard.stores.postgres.log import PostgresLog
from toolyard.stores.postgres.maintenance import Maintenance
from toolyard.stores.postgres.records import PostgresRecords
from toolyard.stores.postgres.schema import prepare_schema
from toolyard.stores.postgres.search import PostgresIndexer, PostgresSearch
from toolyard.stores.postgres_settings import PostgresSettings


class PostgresStore(
    PostgresLog,
    PostgresClaims,
    PostgresForwardedCommands,
    PostgresBus,
    PostgresCatalog,
    PostgresSearch,
    PostgresAccess,
    PostgresRecords,
    PostgresAudit,
    PostgresLedger,
):
    """The shared store. Use `open` to create one; it belongs to the event loop that opened it."""

    def __init__(self, database: Database, lease: Lease) -> None:
        super().__init__(database, lease)
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
    def problem(self) -> str:
        """Return why the database cannot be used now, or an empty string."""
        return self._database.health.problem

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
