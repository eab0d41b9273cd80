"""The secrets of stored MCP servers are encrypted, are shown to nobody, and get to no other address or command."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import msgspec
import pytest

from stores.memory_replicas import MemoryDatabase, SharedMemoryStore
from surfaces.api_client import ApiClient, Json, open_api_client
from toolyard.app import SystemClock
from toolyard.core.tools.mcp_servers import OAuth, ServerSpec
from toolyard.observability.auditor import RecordAuditor
from toolyard.venues.mcp.auth.sealed_records import SealedRecords
from toolyard.venues.mcp.server import ServerRecord
from toolyard.venues.mcp.server_records import SERVERS, ServerRecords

SECRET = "a secret of at least thirty-two characters"
URL = "http://127.0.0.1:9/mcp"
REMOTE: Json = {
    "url": f"{URL}?token=hidden-parameter",
    "headers": {"Authorization": "Bearer hidden-header"},
    "oauth": {"issuer": "http://127.0.0.1:9", "client_id": "toolyard", "client_secret": "hidden-client-secret"},
    "connect_s": 1.0,
}
LOCAL: Json = {
    "command": "false",
    "args": ["--token=hidden-argument"],
    "env": {"TOKEN": "hidden-variable"},
    "replicas": "each",
}


@asynccontextmanager
async def serve(database: MemoryDatabase, secret: str = SECRET) -> AsyncGenerator[ApiClient]:
    options: Json = {"opened_store": SharedMemoryStore(database), "secret": secret, "add_servers": "all"}
    async with open_api_client("toolyard:offline", **options) as http:
        yield http


async def read_records(database: MemoryDatabase, secret: str = SECRET) -> dict[str, ServerRecord]:
    store = SharedMemoryStore(database)
    return await ServerRecords(store, RecordAuditor(store, SystemClock()), SealedRecords(store, secret)).read()


def list_stored(database: MemoryDatabase) -> str:
    return repr(database.records)


async def add_both(http: ApiClient) -> None:
    for name, config in (("remote", REMOTE), ("local", LOCAL)):
        await http.post("/servers", {"name": name, "config": config}, expect=201)


async def test_a_store_holds_no_secret_of_a_server_in_the_clear_and_the_server_has_them_after_a_restart() -> None:
    database = MemoryDatabase()
    async with serve(database) as http:
        await add_both(http)
        await http.put("/servers/remote", {"trust": True})
        await http.post("/servers/local/stop")
    assert "127.0.0.1:9" in list_stored(database) and "hidden" not in list_stored(database)
    records = await read_records(database)
    assert records["remote"].spec == msgspec.convert({**REMOTE, "trust": True, "display_name": ""}, ServerSpec)
    assert records["remote"].spec.oauth == OAuth(**REMOTE["oauth"])
    assert records["local"].spec == msgspec.convert(LOCAL, ServerSpec) and not records["local"].should_run
    async with serve(database) as http:
        assert "hidden" not in str(await http.get("/servers"))
        assert (await http.get("/servers/remote"))["server"]["config"]["headers"] == {"Authorization": "***"}


@pytest.mark.parametrize("action", ["stop", "change"])
async def test_a_server_that_was_stored_in_the_clear_is_used_and_encrypted_with_its_next_change(action: str) -> None:
    database = MemoryDatabase()
    spec = msgspec.convert(LOCAL, ServerSpec)
    body = msgspec.json.encode(ServerRecord(spec=spec, created_at=1.0))
    await SharedMemoryStore(database).set_record(SERVERS, "local", body)
    async with serve(database) as http:
        assert (await read_records(database))["local"].spec == spec
        if action == "stop":
            await http.post("/servers/local/stop")
        else:
            await http.put("/servers/local", {"trust": True})
    assert "hidden" not in list_stored(database)
    assert (await read_records(database))["local"].spec.env == LOCAL["env"]


async def test_without_its_secret_a_server_is_not_used_and_says_so_and_with_it_again_it_is() -> None:
    database = MemoryDatabase()
    async with serve(database) as http:
        await add_both(http)
    async with serve(database, "another secret with which nobody has encrypted") as http:
        for name in ("remote", "local"):
            shown = (await http.get(f"/servers/{name}"))["server"]
            assert shown["status"] == "failed" and "TOOLYARD_SECRET is not the one" in shown["error_message"], shown
            await http.send_request("POST", f"/servers/{name}/stop")
        refused = await http.put("/servers/remote", {"trust": True}, expect=422)
        assert "headers.Authorization is not stored: send its value" in refused["error"]
        refused = await http.put("/servers/local", {"env": {"TOKEN": "***"}}, expect=422)
        assert [field["key"] for field in refused["details"]["fields"]] == ["env.TOKEN"]
    records = await read_records(database, f"a new secret that comes before the old one,{SECRET}")
    assert records["local"].spec == msgspec.convert(LOCAL, ServerSpec)
    assert records["remote"].spec.headers == REMOTE["headers"] and not records["remote"].problem


@pytest.mark.parametrize(
    ("name", "change", "field"),
    [
        ("remote", {"url": "http://127.0.0.1:10/mcp"}, "headers"),
        ("remote", {"url": "http://127.0.0.1:10/mcp", "headers": {"Authorization": "***"}}, "headers"),
        ("local", {"command": "env"}, "env"),
        ("local", {"args": ["-c", "env"]}, "env"),
        ("local", {"cwd": "/tmp", "env": {"TOKEN": "***"}}, "env"),
        ("local", {"env": {"OTHER": "***"}}, "env.OTHER"),
    ],
)
async def test_another_address_or_command_needs_the_secrets_again(name: str, change: Json, field: str) -> None:
    async with serve(MemoryDatabase()) as http:
        await add_both(http)
        refused = await http.put(f"/servers/{name}", change, expect=422)
        assert field in str(refused["details"]), refused
        again = {"env": {"TOKEN": "given-again"}} if name == "local" else {"headers": {"X-Key": "given-again"}}
        await http.put(f"/servers/{name}", {**change, **again})
        await http.put(f"/servers/{name}", {"call_s": 5.0})


async def test_a_record_whose_address_was_changed_in_the_database_sends_nothing_there() -> None:
    database = MemoryDatabase()
    async with serve(database) as http:
        await add_both(http)
    store = SharedMemoryStore(database)
    body = await store.read_record(SERVERS, "remote")
    assert body is not None
    await store.set_record(SERVERS, "remote", body.replace(b"127.0.0.1:9", b"thief.example"))
    assert (await read_records(database))["remote"].spec.url == REMOTE["url"]
    await store.set_record(SERVERS, "other", body)  # under another id it cannot be decrypted
    assert (await read_records(database))["other"].problem


async def test_a_shared_store_takes_no_secrets_of_servers_without_encryption() -> None:
    async with serve(MemoryDatabase(), secret="") as http:
        for config in (REMOTE, LOCAL):
            refused = await http.post("/servers", {"name": "x", "config": config}, expect=409)
            assert "TOOLYARD_SECRET" in refused["error"]
        await http.post("/servers", {"name": "plain", "config": {"url": URL, "connect_s": 1.0}}, expect=201)
