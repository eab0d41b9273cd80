"""The settings of a PostgreSQL store besides its address."""

from typing import Annotated

from msgspec import Meta, Struct

from toolyard.core.setting_types import FilePath, Seconds, Secret

POSTGRES_SCHEMES = ("postgresql:", "postgres:")
PoolSize = Annotated[int, Meta(extra={"ge": 1, "le": 1000})]
LeaseSeconds = Annotated[float, Meta(extra={"ge": 0.3, "le": 3600})]


class PostgresSettings(Struct, frozen=True, kw_only=True):
    lease_s: LeaseSeconds = 10.0
    """After so long without a sign of life the other replicas take over what this one owned."""
    pool_size: PoolSize = 8
    """Connections for reads and claims of one replica, besides four of its own for other purposes."""
    statement_timeout_s: Seconds = 10.0
    connect_timeout_s: Seconds = 5.0
    listen_url: Secret = ""
    """An address for notifications; needed where the store's address is that of a pooler such as pgbouncer."""
    password_file: FilePath = ""
    """A file with the password; otherwise it comes from the address or from PGPASSWORD."""
    pgbouncer: bool = False
    """Whether connections go through a pooler in transaction mode: no prepared statements are kept."""
