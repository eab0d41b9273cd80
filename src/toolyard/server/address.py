"""Where servers of this machine are: a file beside the database that one serves, for the other commands to find it."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path

import msgspec

from toolyard.core.errors import Misconfigured


class ServerAddress(msgspec.Struct, frozen=True):
    """Where a server can be reached from this machine, and which process it is."""

    url: str
    pid: int


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def build_url(host: str, port: int) -> str:
    """The address for somebody on this machine: a server that listens everywhere is reached at its loopback."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def parse_database_path(store: str) -> Path | None:
    """The file of a store's name, if it is kept in one."""
    scheme, _, rest = store.partition(":///")
    path = rest.partition("?")[0]
    return Path(path) if scheme == "sqlite" and path else None


@contextmanager
def publish_address(store: str, url: str) -> Generator[None]:
    """Let the other commands find the server that has their store, for the time of the block."""
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
    """Where the server of this store says it is. One that was killed could not take its word back."""
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
