"""Where servers of this machine are: a file beside the database that one serves, for the other commands to find it."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path

import msgspec

from toolyard.core.errors import Misconfigured


class Address(msgspec.Struct, frozen=True):
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


def url_of(host: str, port: int) -> str:
    """The address for somebody on this machine: a server that listens everywhere is reached at its loopback."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def database_of(store: str) -> Path | None:
    """The file of a store's name, if it is kept in one."""
    scheme, _, rest = store.partition(":///")
    path = rest.partition("?")[0]
    return Path(path) if scheme == "sqlite" and path else None


@contextmanager
def published(store: str, url: str) -> Generator[None]:
    """Let the other commands find the server that has their store, for the time of the block."""
    file = _file(store)
    if file is None:
        yield
        return
    try:
        file.write_bytes(msgspec.json.encode(Address(url, os.getpid())))
    except OSError as error:
        raise Misconfigured(f"cannot write {file}: {error.strerror}") from None
    try:
        yield
    finally:
        file.unlink(missing_ok=True)


def published_address(store: str) -> Address | None:
    """Where the server of this store says it is. One that was killed could not take its word back."""
    file = _file(store)
    if file is None:
        return None
    try:
        return msgspec.json.decode(file.read_bytes(), type=Address)
    except (OSError, msgspec.DecodeError):
        return None


def _file(store: str) -> Path | None:
    database = database_of(store)
    return database and Path(f"{database}.url")
