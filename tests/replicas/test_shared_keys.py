"""API keys count in all replicas: added ones work and revoked ones fail everywhere, within about a second."""

import asyncio
import logging
from collections.abc import Mapping, Sequence

import pytest

from replicas.pair import open_replicas, wait_for_status
from stores.memory_replicas import MemoryDatabase, SharedMemoryStore
from support import wait_until
from surfaces.api_client import build_key
from toolyard.core.errors import StoreDown
from toolyard.core.store import Key
from toolyard.engine.replicas.record_watcher import RecordWatcher
from toolyard.stores.memory import MemoryStore


async def test_a_key_that_one_replica_adds_works_at_the_other_and_fails_there_once_it_is_revoked() -> None:
    async with open_replicas() as (first, second):
        added = await first.http.post("/keys", {"name": "root", "user": "root", "roles": ["admin"]}, expect=201)
        root = added["secret"]
        await wait_for_status(second.http, "/tools", 401)
        await wait_for_status(second.http.with_key(root), "/tools", 200)
        more = await second.http.with_key(root).post("/keys", {"name": "app", "user": "app"}, expect=201)
        await wait_for_status(first.http.with_key(more["secret"]), "/tools", 200)
        await first.http.with_key(root).delete("/keys/app")
        await first.http.with_key(more["secret"]).get("/tools", expect=401)  # at once where it was revoked
        await wait_for_status(second.http.with_key(more["secret"]), "/tools", 401)


async def test_a_rotation_counts_at_every_replica() -> None:
    async with open_replicas() as (first, second):
        root = (await first.http.post("/keys", {"name": "root", "user": "root", "roles": ["admin"]}, expect=201))[
            "secret"
        ]
        old = (await first.http.with_key(root).post("/keys", {"name": "app", "user": "app"}, expect=201))["secret"]
        await wait_for_status(second.http.with_key(old), "/tools", 200)
        middle = (await second.http.with_key(root).post("/keys/app/rotate", {"overlap_s": 3600}))["secret"]
        await wait_for_status(first.http.with_key(middle), "/tools", 200)
        await first.http.with_key(old).get("/tools")
        new = (await second.http.with_key(root).post("/keys/app/rotate"))["secret"]
        await wait_for_status(first.http.with_key(new), "/tools", 200)
        for secret in (old, middle):
            status, _, _ = await first.http.with_key(secret).send_request("GET", "/tools")
            assert status in (401, 429)  # 429 if the new key was tried too often before it was known here


async def test_of_two_replicas_that_revoke_the_last_two_keys_at_once_one_is_refused() -> None:
    async with open_replicas() as (first, second):
        admin = {"user": "root", "roles": ["admin"]}
        first_secret = (await first.http.post("/keys", {"name": "one", **admin}, expect=201))["secret"]
        second_secret = (await first.http.with_key(first_secret).post("/keys", {"name": "two", **admin}, expect=201))[
            "secret"
        ]
        await wait_for_status(second.http.with_key(second_secret), "/tools", 200)
        answers = await asyncio.gather(
            first.http.with_key(first_secret).send_request("DELETE", "/keys/two"),
            second.http.with_key(second_secret).send_request("DELETE", "/keys/one"),
        )
        assert sorted(status for status, _, _ in answers) == [200, 409]


async def test_a_replica_whose_last_key_was_revoked_elsewhere_lets_nobody_in() -> None:
    database = MemoryDatabase()
    tool = SharedMemoryStore(database)  # such as `toolyard keys revoke`
    await tool.save_key(build_key("root", "admin", tenant=""))
    async with open_replicas(1, database) as (only,):
        await only.http.with_key("root").get("/tools")
        await tool.revoke_key("root@")
        await wait_for_status(only.http.with_key("root"), "/tools", 401)
        await only.http.get("/tools", expect=401)


class FlakyStore(SharedMemoryStore):
    """A store whose keys cannot be read while it is `down`."""

    down = False
    version_queries = 0

    async def keys(self) -> Sequence[Key]:
        if self.down:
            raise StoreDown("the store is down")
        return await super().keys()

    async def read_versions(self) -> Mapping[str, int]:
        self.version_queries += 1
        return await super().read_versions()


async def test_keys_that_cannot_be_read_again_stay_in_force_and_the_log_says_so_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolyard.engine.replicas.record_watcher.POLL_S", 0.01)
    database = MemoryDatabase()
    store, other = FlakyStore(database), SharedMemoryStore(database)
    await other.save_key(build_key("root", "admin", tenant=""))
    calls: list[str] = []

    async def read_again() -> None:
        calls.extend(key.name for key in await store.keys())

    async with asyncio.TaskGroup() as tasks:
        watcher = RecordWatcher(store)
        watcher.subscribe(read_again, "key")
        watcher.start(tasks)
        await wait_until(lambda: calls == ["root@"])
        store.down = True
        await other.save_key(build_key("ann", tenant=""))
        queries = store.version_queries
        await wait_until(lambda: store.version_queries > queries + 5)
        store.down = False
        await wait_until(lambda: len(calls) == 3)
        watcher.stop()
    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 1 and "cannot be read for now" in warnings[0].getMessage()


async def test_revoked_keys_do_not_wait_for_other_records_that_take_long_to_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("toolyard.engine.replicas.record_watcher.POLL_S", 0.01)
    database = MemoryDatabase()
    other, never, calls = SharedMemoryStore(database), asyncio.Event(), list[str]()

    async def read_keys() -> None:
        calls.extend(key.name for key in await other.keys())

    async def read_servers() -> None:
        await never.wait()

    async with asyncio.TaskGroup() as tasks:
        watcher = RecordWatcher(SharedMemoryStore(database))
        watcher.subscribe(read_servers, "mcp.servers")
        watcher.subscribe(read_keys, "key")
        watcher.start(tasks)
        await other.save_key(build_key("root", "admin", tenant=""))
        await wait_until(lambda: "root@" in calls)
        watcher.stop()


class VersionCountingStore(MemoryStore):
    """A store of one process that counts how often it is asked for versions."""

    version_queries = 0

    async def read_versions(self) -> Mapping[str, int]:
        self.version_queries += 1
        return await super().read_versions()


async def test_a_store_of_one_process_is_never_asked_for_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolyard.engine.replicas.record_watcher.POLL_S", 0.001)
    store = VersionCountingStore()
    async with asyncio.TaskGroup() as tasks:
        watcher = RecordWatcher(store)
        watcher.subscribe(store.close, "key")
        watcher.start(tasks)
    assert store.version_queries == 0
