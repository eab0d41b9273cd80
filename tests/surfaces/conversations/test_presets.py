"""Presets of settings: everybody's own ones, those that a tenant shares, and what a conversation takes from one."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from stores.memory_replicas import MemoryDatabase, SharedMemoryStore
from surfaces.api_client import ApiClient, Json, build_key, build_yard, connect_api_client
from toolyard import tool
from toolyard.core.ports import ModelRequest
from toolyard.engine.access.authentication import KEY_USES
from toolyard.engine.access.presets import MAX_OWN_PRESETS, MAX_PRESET_BYTES, MAX_SHARED_PRESETS
from toolyard.testing import Turn, say

KEYS = [
    build_key("ann"),
    build_key("bob"),
    build_key("ada", "admin"),
    build_key("eve", "admin", tenant="other"),
    build_key("root", "admin", tenant=""),
]
NOTHING: Json = {}
VERSE: Json = {"system_prompt": "Answer in verse.", "options": {"temperature": 0.5}, "max_turns": 3, "tools": ["stock"]}


@tool(read_only=True)
def stock() -> str:
    """Tell what there is."""
    return "milk"


@tool(read_only=True)
def weigh() -> str:
    """Weigh it."""
    return "1 kg"


class PresetClients:
    """Clients of several callers, and the requests that the model got."""

    def __init__(self, http: ApiClient, requests: list[ModelRequest], database: MemoryDatabase) -> None:
        self.ann, self.bob, self.ada, self.eve, self.root = map(http.with_key, ("ann", "bob", "ada", "eve", "root"))
        self.requests = requests
        self.database = database


@asynccontextmanager
async def open_clients() -> AsyncGenerator[PresetClients]:
    requests: list[ModelRequest] = []

    def answer(request: ModelRequest) -> Turn:
        requests.append(request)
        return say("ok")

    database = MemoryDatabase()
    wiring = {"tools": [stock, weigh], "keys": KEYS, "opened_store": SharedMemoryStore(database)}
    async with build_yard(answer, **wiring) as yard, connect_api_client(yard) as http:
        yield PresetClients(http, requests, database)


async def save(
    client: ApiClient, name: str, settings: Json = NOTHING, *, shared: bool = False, expect: int = 200
) -> Json:
    return await client.put(f"/presets/{name}", {"settings": settings, "shared": shared}, expect=expect)


async def list_names(client: ApiClient) -> list[tuple[str, bool, bool]]:
    listed = await client.get("/presets")
    assert listed["count"] == len(listed["presets"])
    return [(preset["name"], preset["shared"], preset["editable"]) for preset in listed["presets"]]


async def test_an_own_preset_is_saved_replaced_and_deleted_and_nobody_else_sees_it() -> None:
    async with open_clients() as clients:
        saved = await save(clients.ann, "in%20verse", VERSE)
        assert saved["preset"]["name"] == "in verse" and saved["preset"]["user"] == "ann"
        await save(clients.ann, "in%20verse", VERSE | {"max_messages": 7})
        (preset,) = (await clients.ann.get("/presets"))["presets"]
        settings = preset["settings"]
        assert (settings["system_prompt"], settings["max_messages"], settings["tools"]) == (
            "Answer in verse.", 7, ["stock"]
        )  # fmt: skip
        assert settings["options"] == {"temperature": 0.5}
        for other in (clients.bob, clients.ada, clients.eve, clients.root):
            assert await list_names(other) == []
            await other.delete("/presets/in%20verse", expect=404)
            await other.delete("/presets/in%20verse?shared=true", expect=404)
        await clients.ann.delete("/presets/in%20verse")
        await clients.ann.delete("/presets/in%20verse", expect=404)
        assert await list_names(clients.ann) == []
        assert {kind for kind, _ in clients.database.records} <= {KEY_USES}


async def test_a_shared_preset_is_used_by_the_tenant_and_changed_by_its_author_or_an_administrator() -> None:
    async with open_clients() as clients:
        await save(clients.ann, "verse", VERSE, shared=True)
        assert await list_names(clients.bob) == [("verse", True, False)]
        assert await list_names(clients.ada) == [("verse", True, True)]
        for stranger in (clients.eve, clients.root):
            assert await list_names(stranger) == []
            await stranger.delete("/presets/verse?shared=true", expect=404)
        refused = await save(clients.bob, "verse", shared=True, expect=403)
        assert "another name" in refused["error"]
        await clients.bob.delete("/presets/verse?shared=true", expect=403)
        await save(clients.bob, "verse", {"system_prompt": "bob's"})
        assert await list_names(clients.bob) == [("verse", False, True), ("verse", True, False)]
        changed = await save(clients.ada, "verse", {"system_prompt": "In prose."}, shared=True)
        assert changed["preset"]["user"] == "ann"
        assert await list_names(clients.ann) == [("verse", True, True)]
        await save(clients.eve, "verse", {"system_prompt": "elsewhere"}, shared=True)
        await clients.ada.delete("/presets/verse?shared=true")
        assert await list_names(clients.ann) == [] and len(await list_names(clients.eve)) == 1


async def test_an_author_shares_an_own_preset_and_takes_it_back() -> None:
    async with open_clients() as clients:
        await save(clients.ann, "verse")
        await save(clients.ann, "verse", shared=True)
        assert await list_names(clients.ann) == [("verse", True, True)]
        await save(clients.ada, "verse")
        assert ("verse", True, False) in await list_names(clients.bob), "only its author takes it back"
        await save(clients.ann, "verse")
        assert await list_names(clients.ann) == [("verse", False, True)] and await list_names(clients.bob) == []


async def test_count_name_size_and_values_are_bounded() -> None:
    async with open_clients() as clients:
        for name in ("x" * 81, "%20x", "a%0Ab", "%2E%2E", "%E2%80%AEx"):
            status, _, _ = await clients.ann.send_request("PUT", f"/presets/{name}", {"settings": {}})
            assert status in (404, 405, 422), name
        for wrong in (
            {"options": {"temperature": 9}}, {"max_turns": 10**6}, {"unknown": 1},
            {"options": {"output_schema": NOTHING}}, {"tools": ["x" * 201]}, {"model": "m" * 501},
        ):  # fmt: skip
            await save(clients.ann, "x", wrong, expect=422)
        await save(clients.ann, "x", {"system_prompt": "x" * MAX_PRESET_BYTES}, expect=409)
        assert await list_names(clients.ann) == []
        for shared, limit in ((False, MAX_OWN_PRESETS), (True, MAX_SHARED_PRESETS)):
            for number in range(limit):
                await save(clients.ann, f"{shared}-{number}", shared=shared)
            await save(clients.ann, "more", shared=shared, expect=409)
            await save(clients.ann, f"{shared}-0", {"system_prompt": "replaced"}, shared=shared)
        await save(clients.bob, "more", shared=True, expect=409)
        await save(clients.bob, "more")


@pytest.mark.parametrize("is_new", [True, False])
async def test_a_conversation_takes_the_settings_of_a_preset(is_new: bool) -> None:
    async with open_clients() as clients:
        await save(clients.ann, "verse", VERSE, shared=True)
        (preset,) = (await clients.bob.get("/presets"))["presets"]
        settings: dict[str, object] = preset["settings"]
        path = await clients.bob.create_conversation("Test", **(settings if is_new else NOTHING))
        if not is_new:
            assert (await clients.bob.get(path))["conversation"]["tools"] == ["*"]
            await clients.bob.put(path, settings)
        conversation = (await clients.bob.get(path))["conversation"]
        assert conversation["tools"] == ["stock"] and conversation["max_turns"] == 3
        assert [enabled["tool_name"] for enabled in conversation["enabled_tools"]] == ["stock"]
        await clients.bob.post(f"{path}/chat", {"content": "hi"})
        request = clients.requests[-1]
        assert "Answer in verse." in request.system and request.options.temperature == 0.5
        assert [offered.name for offered in request.offer.tools] == ["stock"]
        await clients.bob.put(path, {"tools": ["*"]})
        assert len((await clients.bob.get(path))["conversation"]["enabled_tools"]) == 2
