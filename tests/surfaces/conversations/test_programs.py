"""The text of a program and its calls: shown, exported, audited and deleted as arguments are."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from engine.replica_yards import read_until
from surfaces.api_client import ApiClient, Json, build_key, build_yard, connect_api_client
from toolyard import Yard, tool
from toolyard.core.conversation.events import CallEnded, RunEnded
from toolyard.core.store.audit_chain import hash_content
from toolyard.stores.memory import MemoryStore
from toolyard.testing import call, say

KEYS = [build_key("ann"), build_key("bob"), build_key("oda", "operator"), build_key("ada", "admin", tenant="")]
KEY = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789"
CODE = f"""api_key = '{KEY}'
stock = await look(item='secret milk')
print('private print')
[len(stock), await order(item='secret bread')]"""
HIDDEN = ("secret", "private print", "ordered", "looked")


@tool(read_only=True)
def look(item: str) -> str:
    """Tell what there is, at length."""
    return f"looked {item} " * 2000


@tool(approval="ask")
def order(item: str) -> str:
    """Order something."""
    return f"ordered {item}"


class Scene:
    """A conversation of ann's whose program has ended."""

    def __init__(self, yard: Yard, http: ApiClient, store: MemoryStore) -> None:
        self.yard = yard
        self.http = http
        self.ann = http.with_key("ann")
        self.store = store
        self.path = ""
        self.asked: Json = None
        """The call that ann has approved."""

    @property
    def id(self) -> str:
        return self.path.rpartition("/")[2]

    async def find_whole_result(self) -> str:
        """Return the handle of the only result that is too large for its entry."""
        results = [entry.event.result for entry in await self.store.read(self.id) if isinstance(entry.event, CallEnded)]
        (handle,) = [result.handle for result in results if result.handle]
        return handle


@asynccontextmanager
async def open_scene() -> AsyncGenerator[Scene]:
    store = MemoryStore()
    script = [call("run_code", code=CODE), say("All is done.")]
    wiring = {"tools": [look, order], "keys": KEYS, "opened_store": store, "code": True}
    async with build_yard(script, **wiring) as yard, connect_api_client(yard) as http:
        scene = Scene(yard, http, store)
        scene.path = await scene.ann.create_conversation("About milk")
        status, waiting, _ = await scene.ann.send_request("POST", f"{scene.path}/chat", {"content": "Go"})
        assert status == 202
        (scene.asked,) = waiting["waiting"]
        assert (scene.asked["line"], scene.asked["arguments"]) == (4, {"item": "secret bread"})
        await scene.ann.post(f"{scene.path}/calls/{scene.asked['call_id']}/approve", {})
        await read_until(await yard.follow(scene.id), RunEnded)
        yield scene


async def test_a_link_shows_neither_the_program_nor_its_calls_unless_arguments_are_asked_for() -> None:
    async with open_scene() as scene:
        bob = scene.http.with_key("bob")
        token = (await scene.ann.post(f"{scene.path}/shares", {}, expect=201))["token"]
        plain = await bob.get(f"/shares/{token}")
        for hidden in HIDDEN:
            assert hidden not in json.dumps(plain)
        (shown,) = plain["transcript"]["messages"][1]["calls"]
        assert (shown["tool"], shown["outcome"], shown["arguments"]) == ("run_code", "ok", None)
        token = (await scene.ann.post(f"{scene.path}/shares", {"include_arguments": True}, expect=201))["token"]
        (shown,) = (await bob.get(f"/shares/{token}"))["transcript"]["messages"][1]["calls"]
        assert shown["arguments"] == {"code": CODE}


async def test_an_export_has_the_program_and_its_calls() -> None:
    async with open_scene() as scene:
        _, exported, _ = await scene.ann.send_request("GET", f"{scene.path}/export?format=json")
        (program,) = [item for item in exported["items"] if item["type"] == "call"]
        assert program["arguments"] == {"code": CODE}
        assert list(exported["program_calls"]) == [program["id"]]
        items = exported["program_calls"][program["id"]]
        calls = [(item["tool"], item["arguments"]["item"]) for item in items if item["type"] == "call"]
        assert calls == [("look", "secret milk"), ("order", "secret bread")]
        (approved,) = [item for item in items if item["type"] == "result" and item["tool"] == "order"]
        assert approved["content"] == "ordered secret bread" and approved["decisions"][0]["by"] == "ann"
        await scene.http.with_key("bob").get(f"{scene.path}/export", expect=404)


async def test_nobody_else_sees_the_program_and_a_trace_masks_what_looks_like_a_secret_in_it() -> None:
    async with open_scene() as scene:
        run = (await scene.store.read(scene.id))[-1].run
        for path in ("", "/messages", f"/runs/{run}", "/export"):
            status, _, _ = await scene.http.with_key("bob").send_request("GET", f"{scene.path}{path}")
            assert status == 404, path
        for reader in ("ann", "oda"):
            trace = (await scene.http.with_key(reader).get(f"{scene.path}/runs/{run}"))["run"]
            program, looked, ordered = trace["calls"]
            assert "await look" in program["arguments"]["code"]
            assert KEY not in json.dumps(trace)
            assert (looked["parent"], looked["line"], ordered["line"]) == (program["id"], 2, 4)


async def test_a_second_decision_on_a_call_whose_program_has_ended_is_a_conflict() -> None:
    async with open_scene() as scene:
        call_id = scene.asked["call_id"]
        for verb in ("approve", "deny"):
            again = await scene.ann.post(f"{scene.path}/calls/{call_id}/{verb}", {}, expect=409)
            assert again["error_type"] == "conflict"
        await scene.ann.post(f"{scene.path}/calls/call_{'0' * 24}.1/approve", {}, expect=404)


async def test_the_decision_on_a_call_inside_is_audited_with_the_hash_of_what_was_approved() -> None:
    async with open_scene() as scene:
        entries = (await scene.http.with_key("ada").get("/audit"))["entries"]
        (decided,) = [entry for entry in entries if entry["action"] == "call.approve"]
        assert decided["target"] == f"{scene.id}/{scene.asked['call_id']}"
        assert decided["content_hash"] == hash_content(("order", {"item": "secret bread"}))
        assert "secret" not in json.dumps(entries)


async def test_deleting_the_conversation_deletes_the_program_its_calls_and_their_whole_results() -> None:
    async with open_scene() as scene:
        handle = await scene.find_whole_result()
        assert await scene.store.get_blob(scene.id, handle)
        await scene.ann.delete(scene.path)
        assert not await scene.store.read(scene.id)
        assert await scene.store.get_blob(scene.id, handle) is None
