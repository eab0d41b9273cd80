"""The addresses of servers on this machine: each server writes its address to a file beside its database.

The commands of the command line read this file to find the server that has a database open.
"""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from toolyard.core.errors import Misconfigured


class ServerAddress(msgspec.Struct, frozen=True):
    """The address at which a server can be reached from this machine, and its process id."""

    url: str
    pid: int


def build_url(host: str, port: int) -> str:
    """Return the address to use on this machine: loopback for a server that listens on every interface."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def parse_database_path(store: str) -> Path | None:
    """Return the database file that a store's URL names, or None for a store without a file."""
    scheme, _, location = store.partition(":///")
    path = location.partition("?")[0]
    return Path(path) if scheme == "sqlite" and path else None


@contextmanager
def publish_address(store: str, url: str) -> Generator[None]:
    """Publish the address of the store's server for other commands, and withdraw it at the end of the block."""
    file = _get_address_file(store)
    if file is None:
        yield
        return
    try:
        file.write_bytes(msgspec.json.encode(ServerAddress(url, os.getpid())))
    except OSError as error:
        raise Misconfigured(f"cannot write {file}: {error.strerror}") from None
    try:
        yield
    finally:
        file.unlink(missing_ok=True)


def read_published_address(store: str) -> ServerAddress | None:
    """Return the published address of the store's server, or None.

    The address may be out of date: a server that was killed could not withdraw it.
    """
    file = _get_address_file(store)
    if file is None:
        return None
    try:
        return msgspec.json.decode(file.read_bytes(), type=ServerAddress)
    except (OSError, msgspec.DecodeError):
        return None


def _get_address_file(store: str) -> Path | None:
    database = parse_database_path(store)
    return database and Path(f"{database}.url")
