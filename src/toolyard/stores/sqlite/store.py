"""Keeps conversations, keys and records in one SQLite file, which one process owns."""

import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path

from toolyard.core.store import Claim
from toolyard.stores.sqlite.access import SqliteAccess
from toolyard.stores.sqlite.audit import SqliteAudit
from toolyard.stores.sqlite.catalog import SqliteCatalog
from toolyard.stores.sqlite.connections import SqliteDatabase, SqlitePorts, Synchronous, open_file
from toolyard.stores.sqlite.ledger import SqliteLedger, add_usage
from toolyard.stores.sqlite.log import SqliteLog
from toolyard.stores.sqlite.records import SqliteRecords
from toolyard.stores.sqlite.search import SearchIndexer, SqliteSearch

_CLAIM = """INSERT INTO conversations (id, epoch) VALUES (?, ?)
ON CONFLICT (id) DO UPDATE SET epoch = abs(epoch) + 1 RETURNING epoch, last_seq"""
_DUE = """SELECT * FROM (SELECT id, wake_at FROM conversations WHERE wake_at <= ?1 ORDER BY wake_at LIMIT ?2)
UNION ALL SELECT NULL, min(wake_at) FROM conversations WHERE wake_at > ?1"""


class SqliteClaims(SqlitePorts):
    """The owner of every conversation is this process. A claim raises the epoch, which fences earlier appends."""

    async def claim(self, conversation: str) -> Claim:
        (claim,) = await self.claim_many((conversation,))
        return claim

    async def claim_new(self, conversation: str) -> Claim:
        self._require_open()
        return Claim(conversation=conversation, epoch=_build_first_epoch(), is_unwritten=True)

    async def claim_many(self, conversations: Sequence[str]) -> Sequence[Claim]:
        def work(connection: sqlite3.Connection) -> list[Claim]:
            epoch = _build_first_epoch()
            rows = [(id, *connection.execute(_CLAIM, (id, epoch)).fetchone()) for id in conversations]
            return [Claim(conversation=id, epoch=epoch, last_seq=last_seq) for id, epoch, last_seq in rows]

        return await self._database.write(work)

    async def find_due(self, now: float, limit: int) -> tuple[Sequence[str], float | None]:
        *due, (_, later) = await self._database.fetch(_DUE, now, limit)
        return [conversation for conversation, _ in due], later


def _build_first_epoch() -> int:
    # The time in milliseconds: a conversation that was copied from another store never has an epoch that an owner had
    # there.
    return time.time_ns() // 1_000_000


class SqliteStore(
    SqliteLog, SqliteClaims, SqliteCatalog, SqliteSearch, SqliteAccess, SqliteRecords, SqliteAudit, SqliteLedger
):
    """The embedded store: one writer thread with group commit, and one reader thread. Use `open` to create one."""

    @classmethod
    async def open(cls, path: str | Path, synchronous: Synchronous = "NORMAL") -> "SqliteStore":
        """Open the file at `path` as its owner, creating it if needed. Raises StoreDown or Misconfigured."""
        indexer = SearchIndexer()
        return cls(SqliteDatabase(open_file(Path(path), synchronous), indexer.step, add_usage), indexer)

    async def close(self) -> None:
        await self._database.writer.close()
