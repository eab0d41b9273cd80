"""Open what a command works with: a running server, or a store that no server has open."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

from toolyard.app import open_store
from toolyard.cli.usage import UsageError
from toolyard.client.http import ServerClient
from toolyard.core.errors import Misconfigured
from toolyard.core.store import Store
from toolyard.server.address import parse_database_path, read_published_address
from toolyard.server.config import Config

MissingStore = Literal["create", "refuse", "empty"]


@asynccontextmanager
async def connect(url: str, key: str) -> AsyncGenerator[ServerClient, None]:
    """Open a client for the server at this address. Nothing is sent before its first request."""
    try:
        client = ServerClient(url, key, keep_alive=False, key_hint="; name a key with --key or TOOLYARD_KEY")
    except Misconfigured as error:
        raise UsageError(str(error)) from None
    try:
        yield client
    finally:
        await client.close()


@asynccontextmanager
async def open_server_or_store(
    config: Config, url: str, key: str, *, if_missing: MissingStore
) -> AsyncGenerator[ServerClient | Store, None]:
    """Open the server at `url`; without a url, the store, or else the server that has the store open.

    Only one process can have a SQLite store open. Tables in PostgreSQL are left to `toolyard migrate` and to servers.
    `if_missing` says what happens if the file of a SQLite store does not exist: only a command that writes creates it;
    the others raise Misconfigured, or go on with an empty store in memory.
    """
    if url:
        async with connect(url, key) as server:
            yield server
        return
    store = config.store
    if if_missing != "create" and (file := parse_database_path(store)) is not None and not file.exists():
        if if_missing == "refuse":
            raise Misconfigured(f"there is no store at {file}")
        store = "memory:"
    try:
        opened_store = await open_store(store, config.postgres, may_migrate=False)
    except Misconfigured as error:
        async with connect(find_owner_url(config.store, error), key) as server:
            yield server
        return
    try:
        yield opened_store
    finally:
        await opened_store.close()


def describe_replicas(count: int) -> str:
    """Return how many replicas serve, as the beginning of a sentence about what they serve."""
    return {0: "no replica serves", 1: "1 replica serves"}.get(count, f"{count} replicas serve")


def find_owner_url(store: str, refusal: Misconfigured) -> str:
    """Return the address of the server that has the store open. Raise `refusal` if there is no such server."""
    address, database = read_published_address(store), parse_database_path(store)
    # A server that was killed leaves its address behind. The lock file names the process that has the store open now:
    # only if both name the same process is the address up to date.
    if address is None or database is None or _read_owner_pid(database) != str(address.pid):
        raise refusal
    return address.url


def _read_owner_pid(database: Path) -> str:
    try:
        return Path(f"{database}.lock").read_text("ascii").strip()
    except (OSError, ValueError):
        return ""
