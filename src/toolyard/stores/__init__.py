"""Stores of logs, claims, blobs, the catalog and keys: in memory, and in SQLite."""
