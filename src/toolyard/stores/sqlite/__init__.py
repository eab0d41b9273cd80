"""Conversations and keys in one SQLite file, which one process owns."""

from toolyard.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
