"""The store that replicas share: one PostgreSQL database."""

from toolyard.stores.postgres.schema import find_missing_steps, migrate
from toolyard.stores.postgres.store import PostgresStore

__all__ = ["PostgresStore", "find_missing_steps", "migrate"]
