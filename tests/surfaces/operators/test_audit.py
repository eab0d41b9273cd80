"""The audit log over HTTP: who did what is there before it takes effect, each tenant sees its own, and no secret is."""

import asyncio
import json
import logging
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest
from msgspec.structs import replace

from support import TEST_TIMEOUT_S, SettableClock, find_break
from surfaces.api_client import ApiClient, Json, build_key, build_yard, connect_api_client, open_api_client
from surfaces.http_server import SocketClient, connect_client
from surfaces.operators.test_metrics import scrape_metrics
from toolyard import Yard, tool
from toolyard.app import Wiring
from toolyard.core.errors import StoreDown
from toolyard.core.store import RecordChange
from toolyard.core.store.audit_chain import Actor, AuditEntry, AuditQuery, AuditRecord
from toolyard.engine.access.refusals import (
    MAX_ADDRESSES,
    MAX_CALLERS,
    OTHER_ADDRESSES,
    OTHER_CALLERS,
    FailedSignIns,
    RefusedAttempts,
)
from toolyard.observability.auditor import DAY_S, Auditor, current_actor
from toolyard.stores.memory import MemoryStore
from toolyard.testing import Scripted, call, say

KEYS = [
    build_key("root", "admin", tenant=""),
    build_key("ada", "admin", "approver"),
    build_key("ann"),
    build_key("eve", "admin", tenant="elsewhere"),
    build_key("shop", "admin", tenant="", trusted=True),
]


@tool(approval="ask")
def order(item: str) -> str:
    """Order something."""
    return f"ordered {item}"


async def list_entries(http: ApiClient, key: str = "root", query: str = "") -> list[Json]:
    return (await http.with_key(key).get(f"/audit{query}"))["entries"]


async def list_actions(http: ApiClient, key: str = "root") -> list[str]:
    """Return the actions and targets, oldest first."""
    return [f"{entry['action']} {entry['target']}" for entry in await list_entries(http, key, "?order=oldest")]


async def test_an_entry_names_who_did_what_with_which_key_and_from_where() -> None:
    async with open_api_client(way="socket", keys=KEYS) as http:
        await http.with_key("root").post("/keys", {"name": "new", "user": "bob", "tenant": "t"}, expect=201)
        _, _, headers = await http.with_key("root").send_request("DELETE", "/keys/new", x_correlation_id="trace-7")
        assert headers["x-correlation-id"] == "trace-7"
        revoked, added = await list_entries(http)
        assert (added["action"], added["target"], added["outcome"]) == ("key.add", "new", "allowed")
        assert (added["actor"], added["actor_tenant"], added["tenant"]) == ("root", "", "t")
        assert (added["key"], added["address"]) == ("root@", "127.0.0.1")
        assert len(added["content_hash"]) == 64 and added["at"] > 1_700_000_000
        assert (revoked["action"], revoked["correlation_id"]) == ("key.revoke", "trace-7")
        assert (revoked["number"], revoked["previous"]) == (2, added["hash"])


async def test_what_is_done_with_a_session_names_the_key_that_opened_it() -> None:
    store = MemoryStore()
    async with open_socket_client(store) as http:
        _, _, headers = await http.ask("POST", "/session", {"key": "root"}, origin=http.url)
        cookie = {"cookie": headers["set-cookie"].partition(";")[0], "origin": http.url}
        assert (await http.ask("POST", "/keys", {"name": "new", "user": "bob"}, **cookie))[0] == 201
    (entry,) = store._data.audit  # pyright: ignore[reportPrivateUsage]
    assert (entry.action, entry.actor, entry.key) == ("key.add", "root", "root@")


async def test_a_new_secret_of_a_key_has_an_entry_without_it() -> None:
    async with open_api_client(keys=KEYS) as http:
        await http.with_key("root").post("/keys", {"name": "new", "user": "bob", "tenant": "t"}, expect=201)
        rotated = await http.with_key("root").post("/keys/new/rotate", {"overlap_s": 60})
        assert await list_actions(http) == ["key.add new", "key.rotate new"]
        (entry, added) = await list_entries(http)
        assert (entry["actor"], entry["tenant"]) == ("root", "t") and rotated["secret"] not in str(entry)
        first, second = json.loads(added["change"]), json.loads(entry["change"])
        assert first["before"] is None and first["after"] == second["before"]
        assert {**second["after"], "previous_until": 0} == {**second["before"], "previous_until": 0}
        assert "hash" not in added["change"] + entry["change"]


async def test_each_kind_of_change_has_its_entry() -> None:
    script = [call("order", item="milk"), say("done"), call("order", item="gold"), say("no")]
    async with open_api_client(script, keys=KEYS, tools=[order]) as http:
        ann = http.with_key("ann")
        conversation = await ann.create_conversation()
        path = conversation.removeprefix("/conversations/")
        first = await start_waiting(ann, conversation)
        await http.with_key("ada").post(f"{conversation}/calls/{first}/approve", {"arguments": {"item": "bread"}})
        await ann.read_until_done(conversation)
        second = await start_waiting(ann, conversation)
        await ann.post(f"{conversation}/calls/{second}/deny", {"reason": "too much"})
        await ann.put(conversation, {"system_prompt": "Be brief."})
        await ann.put(conversation, {"title": "Shopping"})
        share = (await ann.post(f"{conversation}/shares", {}, expect=201))["share"]["id"]
        await ann.delete(f"{conversation}/shares/{share}")
        await ann.send_request("GET", f"{conversation}/export?format=json")
        await ann.put("/presets/mine", {"settings": {"system_prompt": "x"}})
        await ann.delete("/presets/mine")
        message = (await ann.get(f"{conversation}/messages"))["messages"][0]["id"]
        await ann.delete(f"{conversation}/messages/{message}")
        await ann.delete(conversation)
        assert await list_actions(http) == [
            f"call.approve {path}/{first}",
            f"call.deny {path}/{second}",
            f"prompt.change {path}",
            f"share.create {path}/{share}",
            f"share.revoke {path}/{share}",
            f"conversation.export {path}",
            "preset.save ann/mine",
            "preset.delete ann/mine",
            f"message.delete {path}/{message}",
            f"conversation.delete {path}",
        ]
        actors = [entry["actor"] for entry in await list_entries(http, query="?order=oldest")]
        assert actors == ["ada", *["ann"] * 9]


async def start_waiting(http: ApiClient, conversation: str) -> str:
    """Start a run, and return the call for which it waits."""
    answer = await http.post(f"{conversation}/chat", {"content": "go"}, expect=202)
    return answer["waiting"][0]["call_id"]


async def test_what_is_refused_after_its_entry_has_a_second_one_that_says_so() -> None:
    async with open_api_client([call("order", item="milk"), say("done")], keys=KEYS, tools=[order]) as http:
        ann = http.with_key("ann")
        conversation = await ann.create_conversation()
        call_id = await start_waiting(ann, conversation)
        await ann.post(f"{conversation}/calls/{call_id}/deny", {})
        await ann.read_until_done(conversation)
        await ann.post(f"{conversation}/calls/{call_id}/approve", {}, expect=409)
        refused, attempted, denied = await list_entries(http)
        assert (denied["action"], denied["outcome"]) == ("call.deny", "allowed")
        assert (attempted["action"], attempted["outcome"], attempted["cause"]) == ("call.approve", "allowed", 0)
        assert (refused["outcome"], refused["cause"]) == ("refused", attempted["number"])


@pytest.mark.parametrize(
    ("method", "path", "body", "action", "target"),
    [
        ("POST", "/keys", {"name": "new", "user": "bob"}, "key.add", ""),
        ("POST", "/keys/old/rotate", {}, "key.rotate", "old"),
        ("DELETE", "/keys/old", None, "key.revoke", "old"),
        ("POST", "/servers", {"name": "files", "config": {"url": "https://a.example"}}, "server.add", ""),
        ("PUT", "/servers/files", {"trust": True}, "server.change", "files"),
        ("DELETE", "/servers/files", None, "server.remove", "files"),
        ("POST", "/servers/files/start", None, "server.start", "files"),
        ("POST", "/servers/files/stop", None, "server.stop", "files"),
        ("POST", "/servers/files/accept", {}, "pin.accept", "files"),
        ("POST", "/servers/files/reject", {}, "pin.reject", "files"),
    ],
)
async def test_an_attempt_without_the_right_to_it_leaves_an_entry(
    method: str, path: str, body: object, action: str, target: str
) -> None:
    async with open_api_client(keys=KEYS) as http:
        assert (await http.with_key("ann").send_request(method, path, body))[0] == 403
        (entry,) = await list_entries(http)
        assert (entry["action"], entry["target"], entry["outcome"]) == (action, target, "refused")
        assert (entry["actor"], entry["key"], entry["tenant"], entry["count"]) == ("ann", "ann@t", "t", 1)


async def test_a_refused_command_of_an_administrator_leaves_an_entry() -> None:
    async with open_api_client(keys=KEYS, add_servers="url") as http:
        await http.with_key("root").post("/servers", {"name": "files", "config": {"command": "rm"}}, expect=403)
        (entry,) = await list_entries(http)
        assert (entry["action"], entry["outcome"], entry["actor"]) == ("server.add", "refused", "root")


async def test_many_refused_attempts_of_a_caller_are_counted_in_one_entry_for_each_action() -> None:
    store = MemoryStore()
    async with open_api_client(keys=KEYS, opened_store=store) as http:
        for user in ("ann", "shop"):
            headers = {"x_user": "guest"} if user == "shop" else {}
            for _ in range(5):
                body = {"name": "new", "user": "bob", "tenant": "elsewhere"}
                assert (await http.with_key(user).send_request("POST", "/keys", body, **headers))[0] == 403
        await http.with_key("ann").send_request("DELETE", "/keys/old")
        assert len(await list_entries(http)) == 3
    entries = store._data.audit  # pyright: ignore[reportPrivateUsage]
    counts = [(entry.actor, entry.action, entry.count) for entry in entries]
    assert counts == [
        ("ann", "key.add", 1),
        ("guest", "key.add", 1),
        ("ann", "key.revoke", 1),
        ("ann", "key.add", 4),
        ("guest", "key.add", 4),
    ], "the rest of a minute is written when it is over, or when the server stops"
    assert all(entry.outcome == "refused" for entry in entries) and find_break(entries) == ""


async def test_refused_attempts_of_very_many_callers_share_an_entry() -> None:
    store = MemoryStore()
    refusals = RefusedAttempts(Auditor(store, SettableClock()), asyncio.ensure_future)
    for number in range(2 * MAX_CALLERS):
        token = current_actor.set(Actor(user=f"user {number}", tenant="t", key="shop"))
        await refusals.count("key.add", "")
        current_actor.reset(token)
    await refusals.close()
    entries = await store.read_audit(AuditQuery(oldest_first=True, limit=1000))
    assert len(entries) == MAX_CALLERS + 2 and sum(entry.count for entry in entries) == 2 * MAX_CALLERS
    assert {entry.actor for entry in entries if entry.count > 1} == {OTHER_CALLERS}


async def test_attempts_of_nobody_are_counted_in_the_metrics_only() -> None:
    async with build_yard([], keys=KEYS) as yard, connect_api_client(yard, "socket") as http:
        assert (await http.send_request("POST", "/keys", {"name": "new", "user": "bob"}))[0] == 401
        assert await list_entries(http) == []
        _, _, text = await scrape_metrics(yard, {"x-api-key": "root"})
        assert "toolyard_unauthenticated_requests_total 1" in text


@tool(approval="other")
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


async def test_a_refused_approval_of_ones_own_call_is_one_entry_that_says_refused() -> None:
    async with open_api_client([call("pay", amount=5)], keys=KEYS, tools=[pay]) as http:
        ann = http.with_key("ann")
        conversation = await ann.create_conversation()
        call_id = await start_waiting(ann, conversation)
        await ann.post(f"{conversation}/calls/{call_id}/approve", {}, expect=409)
        (entry,) = await list_entries(http)
        assert (entry["action"], entry["outcome"], entry["cause"]) == ("call.approve", "refused", 0)
        assert entry["target"] == f"{conversation.rpartition('/')[2]}/{call_id}" and entry["actor"] == "ann"


async def test_an_end_user_is_named_with_the_key_of_the_backend_that_speaks_for_them() -> None:
    async with open_api_client(keys=KEYS) as http:
        shop = http.with_key("shop")
        body = {"settings": {"system_prompt": "x"}}
        assert (await shop.send_request("PUT", "/presets/mine", body, x_user="guest"))[0] == 200
        (entry,) = await list_entries(http)
        assert (entry["actor"], entry["key"]) == ("guest", "shop@")


async def test_administrators_of_a_tenant_see_the_entries_of_their_tenant_only() -> None:
    async with open_api_client(keys=KEYS) as http:
        for tenant in ("t", "elsewhere", ""):
            body = {"name": f"of-{tenant}", "user": "bob", "tenant": tenant}
            await http.with_key("root").post("/keys", body, expect=201)
        assert await list_actions(http, "ada") == ["key.add of-t"]
        assert [entry["target"] for entry in await list_entries(http, "ada", "?tenant=elsewhere")] == ["of-t"]
        assert await list_actions(http, "eve") == ["key.add of-elsewhere"]
        assert len(await list_entries(http)) == 3
        assert [entry["target"] for entry in await list_entries(http, query="?tenant=elsewhere")] == ["of-elsewhere"]
        await http.with_key("ann").get("/audit", expect=403)


async def test_pages_follow_a_cursor_and_filters_select() -> None:
    async with open_api_client(keys=KEYS) as http:
        root = http.with_key("root")
        for number in range(5):
            await root.post("/keys", {"name": f"k{number}", "user": "bob"}, expect=201)
        await root.delete("/keys/k0")
        first = await root.get("/audit?limit=4")
        assert [entry["number"] for entry in first["entries"]] == [6, 5, 4, 3] and first["count"] == 4
        last = await root.get(f"/audit?limit=4&after={first['next']}")
        assert [entry["number"] for entry in last["entries"]] == [2, 1] and last["next"] is None
        assert [entry["target"] for entry in await list_entries(http, query="?action=key.revoke")] == ["k0"]
        assert await list_entries(http, query="?actor=nobody") == []
        assert await list_entries(http, query=f"?since={first['entries'][0]['at'] + 1}") == []
        assert await list_entries(http, query="?outcome=refused") == []
        assert len(await list_entries(http, query="?outcome=allowed")) == 6
        for query in ("after=x", "action=key.guess", "outcome=fine", "limit=0"):
            assert (await root.send_request("GET", f"/audit?{query}"))[0] in (400, 422)


async def test_the_chain_is_verified_over_http_by_administrators_without_a_tenant() -> None:
    async with open_api_client(keys=KEYS) as http:
        root = http.with_key("root")
        for number in range(3):
            await root.post("/keys", {"name": f"k{number}", "user": "bob", "tenant": "t"}, expect=201)
        verification = await root.get("/audit/verification")
        assert (verification["intact"], verification["problem"]) == (True, "")
        assert (verification["count"], verification["last"]["number"]) == (3, 3)
        await http.with_key("ada").get("/audit/verification", expect=403)


async def test_a_broken_chain_is_told_with_its_first_wrong_entry() -> None:
    store = MemoryStore()
    async with open_api_client(opened_store=store) as http:
        for number in range(3):
            await store.append_audit(AuditRecord(at=float(number), action="key.add", target=f"key-{number}"))
        entries = store._data.audit  # pyright: ignore[reportPrivateUsage]
        entries[1] = replace(entries[1], actor="mallory")
        verification = await http.get("/audit/verification")
        assert not verification["intact"] and verification["problem"].startswith("entry 2 was changed")


class UnauditedStore(MemoryStore):
    """Takes no audit entry."""

    async def append_audit(self, record: AuditRecord) -> AuditEntry:
        raise StoreDown("the audit log is full")


async def test_nothing_is_changed_that_cannot_be_audited() -> None:
    store = UnauditedStore()
    async with open_api_client([call("order", item="milk")], keys=KEYS, tools=[order], opened_store=store) as http:
        ann, root = http.with_key("ann"), http.with_key("root")
        conversation = await ann.create_conversation()
        call_id = await start_waiting(ann, conversation)
        await root.post("/keys", {"name": "new", "user": "bob"}, expect=503)
        await ann.post(f"{conversation}/calls/{call_id}/approve", {}, expect=503)
        await ann.put(conversation, {"system_prompt": "Be brief."}, expect=503)
        await ann.post(f"{conversation}/shares", {}, expect=503)
        await ann.get(f"{conversation}/export", expect=503)
        message = (await ann.get(f"{conversation}/messages"))["messages"][0]["id"]
        await ann.delete(f"{conversation}/messages/{message}", expect=503)
        await ann.put("/presets/mine", {"settings": {"system_prompt": "x"}}, expect=503)
        await root.post("/servers", {"name": "far", "config": {"url": "http://127.0.0.1:9/mcp"}}, expect=503)
        await ann.delete(conversation, expect=503)
        assert (await root.get("/keys"))["count"] == len(KEYS)
        assert (await ann.get(f"{conversation}/shares"))["count"] == 0
        assert (await ann.get("/presets"))["presets"] == []
        assert (await root.get("/servers"))["servers"] == []
        shown = (await ann.get(conversation))["conversation"]
        assert not shown["system_prompt"]
        assert (await ann.get("/live"))["runs"][0]["calls"][0]["waits_for"] == "approval"


class FailingStore(MemoryStore):
    """Takes audit entries, but no records of servers."""

    async def change_records(self, changes: Sequence[RecordChange]) -> Sequence[AuditEntry]:
        raise StoreDown("the disk is full")


async def test_a_change_of_a_server_that_cannot_be_stored_has_an_entry_that_says_so() -> None:
    async with open_api_client(keys=KEYS, opened_store=FailingStore()) as http:
        spec = {"name": "far", "config": {"url": "http://127.0.0.1:9/mcp"}}
        await http.with_key("root").post("/servers", spec, expect=503)
        (failed,) = await list_entries(http)
        assert (failed["action"], failed["target"], failed["outcome"]) == ("server.add", "far", "failed")
        assert (await http.with_key("root").get("/servers"))["servers"] == []


async def test_a_change_of_a_key_that_cannot_be_stored_changes_nothing_and_has_an_entry_that_says_so() -> None:
    key, other = (replace(build_key(name, tenant=""), name=name) for name in ("old", "other"))
    store = FailingStore()
    await store.save_key(key)
    await store.save_key(other)
    async with open_api_client(keys=KEYS, opened_store=store) as http:
        root = http.with_key("root")
        await root.post("/keys", {"name": "new", "user": "new"}, expect=503)
        await root.post("/keys/old/rotate", expect=503)
        await root.delete("/keys/old", expect=503)
        entries = [(entry["action"], entry["target"], entry["outcome"]) for entry in await list_entries(http)]
        assert sorted(entries) == [
            ("key.add", "new", "failed"),
            ("key.revoke", "old", "failed"),
            ("key.rotate", "old", "failed"),
        ]
        assert await store.keys() == [key, other]
        await http.with_key("old").get("/tools")
        names = {row["name"] for row in (await root.get("/keys"))["keys"]}
        assert names == {"old", "other", *(key.name for key in KEYS)}


@asynccontextmanager
async def open_socket_client(store: MemoryStore) -> AsyncGenerator[SocketClient]:
    wiring = Wiring(model=Scripted([]), keys=KEYS, opened_store=store)
    async with asyncio.timeout(TEST_TIMEOUT_S), Yard.from_wiring(wiring) as yard, connect_client(yard) as http:
        yield http


async def test_a_wrong_key_is_a_failed_sign_in_and_a_missing_one_is_not() -> None:
    async with open_api_client(way="socket", keys=KEYS) as http:
        assert (await http.send_request("GET", "/tools"))[0] == 401
        assert (await http.with_key("wrong-secret-1").send_request("GET", "/tools"))[0] == 401
        (entry,) = await list_entries(http)
        assert (entry["action"], entry["outcome"], entry["count"]) == ("sign_in.refuse", "refused", 1)
        assert (entry["address"], entry["actor"], entry["key"]) == ("127.0.0.1", "", "")


async def test_a_flood_of_failed_sign_ins_is_counted_in_one_entry() -> None:
    store = MemoryStore()
    async with open_socket_client(store) as http:
        for number in range(30):
            assert (await http.ask("GET", "/tools", x_api_key=f"wrong-{number}"))[0] == 401
        for _ in range(5):
            assert (await http.ask("POST", "/session", {"key": "wrong-key"}, origin=http.url))[0] == 401
        assert len(store._data.audit) == 1  # pyright: ignore[reportPrivateUsage]
    # The rest of the minute is written when the server stops.
    counts = [entry.count for entry in store._data.audit]  # pyright: ignore[reportPrivateUsage]
    assert counts == [1, 34]


async def test_failures_of_many_addresses_share_an_entry() -> None:
    store = MemoryStore()
    failures = FailedSignIns(Auditor(store, SettableClock()), asyncio.ensure_future)
    for number in range(500):
        for _ in range(2):
            await failures.count(f"10.0.{number // 250}.{number % 250}")
    await failures.close()
    entries = await store.read_audit(AuditQuery(oldest_first=True, limit=1000))
    assert len(entries) == 2 * MAX_ADDRESSES + 2
    assert sum(entry.count for entry in entries) == 1000
    assert [entry.address for entry in entries if entry.count > 2] == [OTHER_ADDRESSES]
    assert find_break(entries) == ""


async def test_the_counts_of_a_minute_are_written_when_it_is_over() -> None:
    store, written = MemoryStore(), asyncio.Event()
    spawned: list[asyncio.Future[None]] = []

    def spawn(work: object) -> None:
        spawned.append(asyncio.ensure_future(cast("asyncio.Future[None]", work)))
        written.set()

    failures = FailedSignIns(Auditor(store, SettableClock()), spawn, window_s=0.01)
    for _ in range(4):
        await failures.count("10.0.0.1")
    await asyncio.wait_for(written.wait(), TEST_TIMEOUT_S)
    await asyncio.gather(*spawned)
    await failures.count("10.0.0.1")
    assert [entry.count for entry in await store.read_audit(AuditQuery(oldest_first=True))] == [1, 3, 1]
    await failures.close()


async def test_each_entry_is_a_log_line_with_its_hash(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "toolyard.audit"):
        async with open_api_client(keys=KEYS) as http:
            await http.with_key("root").post("/keys", {"name": "new", "user": "bob"}, expect=201)
            (entry,) = await list_entries(http)
    (line,) = [record.getMessage() for record in caplog.records if record.name == "toolyard.audit"]
    assert f"hash={entry['hash']}" in line and "action=key.add" in line and "target=new" in line


async def test_the_entry_about_the_configuration_is_logged_once_the_server_has_said_that_it_has_started(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def list_lines() -> list[str]:
        return [record.getMessage() for record in caplog.records if "config.load" in record.getMessage()]

    with caplog.at_level(logging.INFO, "toolyard.audit"):
        async with build_yard([], config_hashes={"rules": "one"}) as yard, connect_api_client(yard) as http:
            assert list_lines() == []
            (entry,) = (await http.get("/audit"))["entries"]
            for _ in range(2):
                yard.service.auditor.log_configuration()
    (line,) = list_lines()
    assert f"hash={entry['hash']}" in line


async def test_a_configuration_that_has_changed_since_the_last_start_is_recorded_once(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    for rules in ("one", "one", "two", "two", "one"):
        async with open_api_client(store=url, config_hashes={"rules": rules, "prompt": "same"}) as http:
            entries = (await http.get("/audit?order=oldest"))["entries"]
    assert [(entry["action"], entry["target"]) for entry in entries] == [
        ("config.load", "rules:one prompt:same"),
        ("config.load", "rules:two prompt:same"),
        ("config.load", "rules:one prompt:same"),
    ]
    assert entries[0]["content_hash"] == entries[2]["content_hash"] != entries[1]["content_hash"]
    assert {entry["actor"] for entry in entries} == {""}


class TrimmedStore(MemoryStore):
    """Says when everything old was deleted."""

    def __init__(self) -> None:
        super().__init__()
        self.trimmed = asyncio.Event()

    async def trim_audit(self, record: AuditRecord, before: float, limit: int) -> AuditEntry | None:
        entry = await super().trim_audit(record, before, min(limit, 2))
        if entry is None:
            self.trimmed.set()
        return entry


async def test_a_server_deletes_entries_that_are_older_than_the_days_of_its_configuration(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store, now = TrimmedStore(), time.time()
    for days in (40, 35, 32, 29, 0):
        await store.append_audit(AuditRecord(at=now - days * DAY_S, action="key.add", target=f"{days} days"))
    with caplog.at_level(logging.INFO, "toolyard.audit"):
        async with open_api_client(opened_store=store, keep_audit_days=30) as http:
            await asyncio.wait_for(store.trimmed.wait(), TEST_TIMEOUT_S)
            entries = (await http.get("/audit?order=oldest"))["entries"]
            assert (await http.get("/audit/verification"))["intact"]
    rows = [(entry["action"], entry["target"], entry["count"]) for entry in entries]
    assert rows == [("key.add", "29 days", 1), ("key.add", "0 days", 1), ("audit.trim", "2", 2), ("audit.trim", "3", 1)]
    assert sum("action=audit.trim" in record.getMessage() for record in caplog.records) == 2


async def test_entries_are_trimmed_once_a_day_and_never_by_default() -> None:
    store = MemoryStore()
    for hour in range(72):
        await store.append_audit(AuditRecord(at=hour * 3600.0, action="key.add"))
    clock = SettableClock(75 * 3600.0)
    auditor = Auditor(store, clock)
    await auditor.trim(1)
    last = (await store.read_audit(AuditQuery(limit=1)))[0]
    assert (last.action, last.target, last.count) == ("audit.trim", "48", 48)
    clock.time = 95 * 3600.0
    await auditor.trim(1)
    assert await store.read_audit(AuditQuery(limit=1)) == [last]
    untouched = TrimmedStore()
    await untouched.append_audit(AuditRecord(at=1.0, action="key.add"))
    async with open_api_client(opened_store=untouched) as http:
        await http.get("/audit")
    assert not untouched.trimmed.is_set()


@tool(approval="ask")
def sign(document: str) -> str:
    """Sign a document."""
    return "signed"


CONTENT = "planted-content-73"
"""What people write: it belongs into conversations, and not into the audit log."""
CREDENTIAL = "planted-credential-91"
"""What opens something: it belongs nowhere."""


async def test_what_is_planted_in_every_input_is_in_no_entry_and_credentials_are_nowhere(
    caplog: pytest.LogCaptureFixture,
) -> None:
    shown: list[object] = []
    script = [call("sign", document=CONTENT), say(CONTENT), call("sign", document=CONTENT), say(CONTENT)]
    with caplog.at_level(logging.DEBUG, "toolyard"):
        async with open_api_client(script, way="socket", keys=KEYS, tools=[sign], add_servers="all") as http:
            ann, root, wrong = http.with_key("ann"), http.with_key("root"), http.with_key(CREDENTIAL)
            conversation = await ann.create_conversation(CONTENT, system_prompt=CONTENT)
            for verb, body in (("approve", {"arguments": {"document": CONTENT}}), ("deny", {"reason": CONTENT})):
                call_id = await start_waiting(ann, conversation)
                shown.append(await ann.post(f"{conversation}/calls/{call_id}/{verb}", body))
                await ann.read_until_done(conversation)
                await ann.post(f"{conversation}/calls/{call_id}/approve", {"arguments": {"x": CONTENT}}, expect=409)
            await ann.put(conversation, {"system_prompt": f"{CONTENT}!", "title": CONTENT})
            share = await ann.post(f"{conversation}/shares", {"include_arguments": True}, expect=201)
            await ann.put("/presets/mine", {"settings": {"system_prompt": CONTENT}})
            shown.append(await wrong.send_request("GET", "/tools"))
            shown.append(await http.send_request("GET", "/tools", authorization=f"Bearer a.{CREDENTIAL}.c"))
            shown.append(await http.send_request("POST", "/session", {"key": CREDENTIAL}))
            servers = {
                "child": {"command": "no-such-command", "env": {"API_TOKEN": CREDENTIAL}},
                "far": {
                    "url": f"http://u:{CREDENTIAL}@127.0.0.1:9/mcp?key={CREDENTIAL}",
                    "headers": {"X-K": CREDENTIAL},
                },
            }
            for name, config in servers.items():
                shown.append(await root.send_request("POST", "/servers", {"name": name, "config": config}))
                shown.append(await root.get(f"/servers/{name}"))
            secret = (await root.post("/keys", {"name": "new", "user": "bob"}, expect=201))["secret"]
            shown += [await root.get("/servers"), await root.get("/keys"), await ann.get("/traces")]
            entries = await list_entries(http, query="?limit=1000")
    lines = [record.getMessage() for record in caplog.records]
    assert CREDENTIAL not in str(shown), "in an answer"
    assert not [line for line in lines if CREDENTIAL in line or secret in line or share["token"] in line], "in the log"
    assert {"call.approve", "call.deny", "server.add", "sign_in.refuse"} <= {entry["action"] for entry in entries}
    for planted in (CONTENT, CREDENTIAL, secret, share["token"]):
        assert planted not in str(entries)
    audit_lines = [record.getMessage() for record in caplog.records if record.name == "toolyard.audit"]
    assert len(audit_lines) >= len(entries) and not [line for line in audit_lines if CONTENT in line]
