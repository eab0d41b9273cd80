"""Keeps conversations, keys and records in one SQLite file, which one process owns."""

from pathlib import Path

from toolyard.stores.sqlite.access import SqliteAccess
from toolyard.stores.sqlite.audit import SqliteAudit
from toolyard.stores.sqlite.catalog import SqliteCatalog
from toolyard.stores.sqlite.claims import SqliteClaims
from toolyard.stores.sqlite.connections import SqliteDatabase, Synchronous, open_file
from toolyard.stores.sqlite.log import SqliteLog
from toolyard.stores.sqlite.records import SqliteRecords
from toolyard.stores.sqlite.search import SearchIndexer, SqliteSearch


class SqliteStore(SqliteLog, SqliteClaims, SqliteCatalog, SqliteSearch, SqliteAccess, SqliteRecords, SqliteAudit):
    """The embedded store: one writer thread with group commit, and one reader thread. Use `open` to create one."""

    @classmethod
    async def open(cls, path: str | Path, synchronous: Synchronous = "NORMAL") -> "SqliteStore":
        """Open the file at `path` as its owner, creating it if needed. Raises StoreDown or Misconfigured."""
        indexer = SearchIndexer()
        return cls(SqliteDatabase(open_file(Path(path), synchronous), indexer.step), indexer)

    async def close(self) -> None:
        await self._database.writer.close()
