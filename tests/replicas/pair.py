"""Two yards on one store, as two replicas of a server are: in memory, or on a real PostgreSQL."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from stores.memory_replicas import MemoryDatabase, SharedMemoryStore
from support import TEST_TIMEOUT_S
from surfaces.api_client import ApiClient, build_yard, connect_api_client
from toolyard import Yard
from toolyard.core.ports import Model
from toolyard.stores.postgres import PostgresStore
from toolyard.testing import Script


@dataclass(frozen=True, slots=True)
class Replica:
    yard: Yard
    http: ApiClient


@asynccontextmanager
async def open_replicas(
    count: int = 2, database: MemoryDatabase | str | None = None, *, script: Script | Model | str = (), **wiring: Any
) -> AsyncGenerator[list[Replica]]:
    """Open replicas of one server, each with a client of its own. The block fails after TEST_TIMEOUT_S.

    `database` may be the address of a PostgreSQL.
    """
    shared = database or MemoryDatabase()
    async with asyncio.timeout(TEST_TIMEOUT_S), AsyncExitStack() as stack:
        replicas: list[Replica] = []
        for _ in range(count):
            store = await PostgresStore.open(shared) if isinstance(shared, str) else SharedMemoryStore(shared)
            yard = await stack.enter_async_context(build_yard(script, opened_store=store, **wiring))
            replicas.append(Replica(yard, await stack.enter_async_context(connect_api_client(yard, "socket"))))
        yield replicas


async def wait_for_status(http: ApiClient, path: str, status: int) -> None:
    """Wait until a GET is answered with this status."""
    async with asyncio.timeout(TEST_TIMEOUT_S):
        while (await http.send_request("GET", path))[0] != status:  # noqa: ASYNC110 - there is nothing to wait on
            await asyncio.sleep(0.02)
