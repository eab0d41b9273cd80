"""The address of a PostgreSQL store, and its other settings. Knows nothing of the driver."""

import re
from typing import Annotated
from urllib.parse import urlsplit

from msgspec import Meta, Struct

from toolyard.core.errors import Misconfigured
from toolyard.core.settings.types import FilePath, Seconds, Secret

_SCHEMES = ("postgresql", "postgres")
_HOST = re.compile(r"(\[[^\[\]@]*\]|[^:@\[\]]*)(:\d+)?")
_FORM = "write postgresql://user@host:5432/database, with %23, %2F, %3A, %3F and %40 for # / : ? and @ in a password"
PoolSize = Annotated[int, Meta(extra={"ge": 1, "le": 1000})]
LeaseSeconds = Annotated[float, Meta(extra={"ge": 0.3, "le": 3600})]


class PostgresSettings(Struct, frozen=True, kw_only=True):
    lease_s: LeaseSeconds = 10.0
    """After so long without a sign of life the other replicas take over what this one owned."""
    pool_size: PoolSize = 8
    """Connections for reads and claims of one replica, besides four of its own for other purposes."""
    statement_timeout_s: Seconds = 10.0
    connect_timeout_s: Seconds = 5.0
    start_timeout_s: Seconds = 60.0
    """How long a server that starts waits for a database that cannot be reached."""
    listen_url: Secret = ""
    """An address for notifications; needed where the store's address is that of a pooler such as pgbouncer."""
    password_file: FilePath = ""
    """A file with the password; otherwise it comes from the address or from PGPASSWORD."""
    pgbouncer: bool = False
    """Whether connections go through a pooler in transaction mode: no prepared statements are kept."""


def is_postgres(store: str) -> bool:
    """Return whether the address of a store is that of a PostgreSQL database, be it right or wrong."""
    return store.partition(":")[0].lower() in _SCHEMES


def describe_address(url: str, name: str = "the address of the PostgreSQL store") -> str:
    """Return an address for people, with the hosts and the database, and without user, password and parameters.

    Raises Misconfigured with `name` and without any part of the address if it is wrong: wherever it is cut in a wrong
    place, a password may be.
    """
    try:
        parts = urlsplit(url)
    except ValueError:  # its text may quote a part of the address
        raise Misconfigured(f"{name} is wrong: {_FORM}") from None
    hosts = parts.netloc.rpartition("@")[2]
    is_cut = "#" in url or "@" in parts.path + parts.query or not url.partition(":")[2].startswith("//")
    if not is_postgres(url) or is_cut or any(not _HOST.fullmatch(host) for host in hosts.split(",")):
        raise Misconfigured(f"{name} is wrong: {_FORM}")
    return f"postgresql://{hosts or 'localhost'}{parts.path}"


def describe_store(store: str) -> str:
    """Return the address of any store for people, without a password."""
    return describe_address(store) if is_postgres(store) else store
