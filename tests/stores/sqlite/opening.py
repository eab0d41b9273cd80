"""Opens a SQLite store for a test, and closes it."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from toolyard.stores.sqlite import SqliteStore


@asynccontextmanager
async def open_store(path: Path) -> AsyncGenerator[SqliteStore, None]:
    store = await SqliteStore.open(path)
    try:
        yield store
    finally:
        await store.close()
