"""Conversations are made, listed, found, shown, changed and deleted; nobody sees another's."""

import asyncio
from contextlib import aclosing
from pathlib import Path

import pytest

from surfaces.api_client import (
    NOTHING_ENABLED,
    Json,
    both_ways,
    build_key,
    build_yard,
    connect_api_client,
    open_api_client,
)
from toolyard import Limits, tool
from toolyard.core.conversation.settings import Settings
from toolyard.core.ports import ModelRequest
from toolyard.testing import Turn, call, say


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@both_ways
async def test_a_conversation_has_the_fields_of_the_contract_with_and_without_a_closing_slash(way: str) -> None:
    async with open_api_client(way=way) as http:
        body = {"title": "Kitchen", "description": "food", "system_prompt": "Be brief.", "max_messages": 7}
        reply = await http.post("/conversations/", body, expect=201)
        assert set(reply) == {"success", "conversation", "message"} and isinstance(reply["message"], str)
        conversation = reply["conversation"]
        assert conversation.items() >= body.items()
        fields = {"id", "created_at", "updated_at", "max_tokens", "enabled_tools", "context", "messages"}
        assert fields <= set(conversation)
        assert conversation["created_at"].endswith("Z") and conversation["created_at"] == conversation["updated_at"]
        assert (conversation["messages"], conversation["context"], conversation["max_turns"]) == ([], {}, 10)
        for path in (f"/conversations/{conversation['id']}", f"/conversations/{conversation['id']}/"):
            assert (await http.get(path))["conversation"] == conversation


async def test_a_change_changes_what_it_names_and_leaves_the_rest() -> None:
    async with open_api_client() as http:
        path = await http.create_conversation("Before", description="d", system_prompt="p", max_turns=3)
        changed = await http.put(path, {"title": "After", "description": None, "max_turns": 4})
        shown = changed["conversation"]
        assert (shown["title"], shown["description"], shown["system_prompt"]) == ("After", "d", "p")
        assert shown["max_turns"] == 4
        assert (await http.get(path))["conversation"]["title"] == "After"
        assert (await http.get("/conversations"))["conversations"][0]["title"] == "After"
        assert (await http.put(path, {}))["conversation"]["title"] == "After"


async def test_options_are_kept_for_all_answers_and_a_request_may_set_its_own() -> None:
    used: list[tuple[float | None, float | None]] = []

    def answer(request: ModelRequest) -> Turn:
        used.append((request.options.temperature, request.options.top_p))
        return say("noted")

    async with open_api_client(answer) as http:
        path = await http.create_conversation()
        changed = await http.put(path, {"options": {"temperature": 0.5, "top_p": 0.9}})
        assert changed["conversation"]["options"] == {"temperature": 0.5, "top_p": 0.9}
        await http.post(f"{path}/chat", {"content": "a"})
        await http.post(f"{path}/chat", {"content": "b", "options": {"temperature": 1.0}})
        assert (await http.put(path, {"title": "Other"}))["conversation"]["options"] == {
            "temperature": 0.5,
            "top_p": 0.9,
        }
        assert (await http.put(path, {"options": {}}))["conversation"]["options"] == {}
        await http.post(f"{path}/chat", {"content": "c"})
        assert used == [(0.5, 0.9), (1.0, 0.9), (None, None)]


@pytest.mark.parametrize("options", [{"temperature": 3}, {"output_schema": {"type": "object"}}])
async def test_options_that_cannot_be_kept_are_refused(options: Json) -> None:
    async with open_api_client() as http:
        path = await http.create_conversation()
        await http.put(path, {"options": options}, expect=422)
        assert (await http.get(path))["conversation"]["options"] == {}


async def test_a_window_bounds_what_the_model_is_shown_and_people_see_all() -> None:
    history_lengths: list[int] = []

    def echo(request: ModelRequest) -> Turn:
        history_lengths.append(request.history.messages)
        return say("fine")

    async with open_api_client(echo) as http:
        path = await http.create_conversation(max_messages=4)
        for _ in range(6):
            await http.post(f"{path}/chat", {"content": "go on"})
        async with aclosing(http.stream_chat(path, "once more")) as stream:
            objects = [event async for _, event in stream]
        assert max(history_lengths) <= 4 and len(history_lengths) == 7
        assert any(
            object["type"] == "history.compacted" and object["tokens_after"] < object["tokens_before"]
            for object in objects
        )
        conversation = (await http.get(path))["conversation"]
        assert len(conversation["messages"]) == len(await http.list_messages(path)) == 14
        assert conversation["messages_in_context"] <= 5
        assert 0 < conversation["tokens_in_context"] < 100
        first = conversation["messages"][0]["id"]
        await http.delete(f"{path}/messages/{first}")
        assert (await http.get(path))["conversation"]["messages_in_context"] == 13


@pytest.mark.parametrize("allowed", [5, 50])
async def test_max_turns_is_ten_unless_said_otherwise_and_never_more_than_the_server_allows(allowed: int) -> None:
    async with open_api_client(limits=Limits(turns_per_request=allowed)) as http:
        path = await http.create_conversation()
        assert (await http.get(path))["conversation"]["max_turns"] == min(10, allowed)
        refused = await http.put(path, {"max_turns": allowed + 1}, expect=422)
        assert refused["details"]["fields"][0]["key"] == "max_turns" and str(allowed) in refused["error"]
        await http.post("/conversations", {"title": "x", "max_turns": allowed + 1}, expect=422)


async def test_the_list_is_paged_and_the_one_that_changed_last_comes_first() -> None:
    async with open_api_client() as http:
        paths = [await http.create_conversation(f"number {number}") for number in range(7)]
        await http.put(paths[2], {"title": "changed"})
        listed_ids: list[str] = []
        after = ""
        for count in (3, 3, 1):
            page = await http.get(f"/conversations?limit=3&after={after}")
            assert page["count"] == len(page["conversations"]) == count
            listed_ids += [conversation["title"] for conversation in page["conversations"]]
            after = page["next"]
        assert after is None
        assert listed_ids == ["changed", "number 6", "number 5", "number 4", "number 3", "number 1", "number 0"]


async def test_search_finds_titles_descriptions_and_what_was_said() -> None:
    async with open_api_client() as http:
        title = await http.create_conversation("Große Küche")
        described = await http.create_conversation("b", description="everything about the küche")
        with_message = await http.create_conversation("c")
        await http.post(f"{with_message}/messages", {"role": "user", "content": "Die KÜCHE ist kalt"}, expect=201)
        await http.create_conversation("d")
        search_reply = await http.get("/conversations/search?q=k%C3%BCche")
        assert [f"/conversations/{conversation['id']}" for conversation in search_reply["conversations"]] == [
            with_message,
            described,
            title,
        ]
        assert (search_reply["count"], search_reply["next"]) == (3, None)
        assert (await http.get("/conversations/search?q=cellar"))["conversations"] == []
        await http.get("/conversations/search", expect=422)


@both_ways
async def test_what_is_deleted_is_gone_and_its_readers_are_told(way: str) -> None:
    async with open_api_client([say("hi")], way=way) as http:
        path = await http.create_conversation()
        reading = asyncio.ensure_future(http.read_until_error(path))
        await http.post(f"{path}/chat", {"content": "hello"})
        assert set(await http.delete(path)) == {"success", "message"}
        assert (await reading)["error_type"] == "not_found"
        for again in (http.get(path, expect=404), http.delete(path, expect=404), http.put(path, {}, expect=404)):
            assert (await again)["error_type"] == "not_found"
        await http.post(f"{path}/chat", {"content": "x"}, expect=404)
        assert (await http.get("/conversations"))["count"] == 0


async def test_deleting_stops_what_runs() -> None:
    started, stopped = asyncio.Event(), asyncio.Event()

    @tool
    async def forever() -> None:
        """Never ends by itself."""
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async with open_api_client([call("forever")], tools=[forever]) as http:
        path = await http.create_conversation()
        chat = asyncio.ensure_future(http.send_request("POST", f"{path}/chat", {"content": "go"}))
        await started.wait()
        await http.delete(path)
        await stopped.wait()
        assert (await chat)[0] == 404


KEYS = [
    build_key("ann"),
    build_key("bob"),
    build_key("op", "operator"),
    build_key("boss", "approver"),
    build_key("eve", "operator", "approver", "admin", tenant="elsewhere"),
]


def list_requests(path: str) -> list[tuple[str, str, object]]:
    """Every route of a conversation, with a body that is good."""
    tool_name = {"server_id": "function", "tool_name": "add"}
    return [
        ("GET", path, None),
        ("PUT", path, {"title": "x"}),
        ("DELETE", path, None),
        ("GET", f"{path}/messages", None),
        ("POST", f"{path}/messages", {"role": "user", "content": "x"}),
        ("DELETE", f"{path}/messages/x", None),
        ("GET", f"{path}/context", None),
        ("POST", f"{path}/context", {"descriptive_name": "x", "content": "y"}),
        ("GET", f"{path}/context/x", None),
        ("DELETE", f"{path}/context/x", None),
        ("GET", f"{path}/tools", None),
        ("GET", f"{path}/tools/available", None),
        ("POST", f"{path}/tools", tool_name),
        ("DELETE", f"{path}/tools", tool_name),
        ("POST", f"{path}/chat", {"content": "x"}),
        ("GET", f"{path}/events", None),
        ("POST", f"{path}/cancel", None),
        *(("POST", f"{path}/calls/x/{verb}", {}) for verb in ("approve", "deny", "answer")),
        ("POST", f"{path}/calls/x/result", {"result": 1}),
        ("GET", f"{path}/runs/x", None),
    ]


@pytest.mark.parametrize("who", ["bob", "eve"])
async def test_what_is_anothers_is_not_found_whatever_is_asked_of_it(who: str) -> None:
    async with open_api_client(keys=KEYS, tools=[add]) as http:
        path = await http.with_key("ann").create_conversation("secret plans")
        for method, where, body in list_requests(path):
            status, reply, _ = await http.with_key(who).send_request(method, where, body)
            assert (status, reply["error_type"]) == (404, "not_found"), (method, where, reply)
        assert (await http.with_key(who).get("/conversations"))["count"] == 0
        assert (await http.with_key(who).get("/conversations/search?q=secret"))["count"] == 0
        assert (await http.with_key("ann").get(path))["conversation"]["messages"] == []


async def test_an_operator_sees_the_tenants_conversations_and_changes_none() -> None:
    async with open_api_client(keys=KEYS) as http:
        path = await http.with_key("ann").create_conversation("hers")
        for who, count in (("op", 1), ("boss", 1), ("eve", 0)):
            assert (await http.with_key(who).get("/conversations"))["count"] == 0
            assert (await http.with_key(who).get("/conversations?whose=tenant"))["count"] == count
            assert (await http.with_key(who).get("/conversations/search?q=HERS&whose=tenant"))["count"] == count
        refused = await http.with_key("bob").get("/conversations?whose=tenant", expect=403)
        assert refused["error_type"] == "permission_denied"
        assert (await http.with_key("op").get(path))["conversation"]["title"] == "hers"
        await http.with_key("op").put(path, {"title": "mine"}, expect=404)
        await http.with_key("op").delete(path, expect=404)
        await http.with_key("op").post(f"{path}/cancel", expect=404)
        await http.with_key("boss").post(f"{path}/cancel", expect=409)  # may decide, but nothing runs


async def test_a_model_that_is_not_allowed_cannot_be_set() -> None:
    async with open_api_client(allowed_models=frozenset({"given"})) as http:
        path = await http.create_conversation(model="given")
        assert (await http.get(path))["conversation"]["model"] == "given"
        for wrong in (
            await http.post("/conversations", {"title": "x", "model": "http://evil/v1#m"}, expect=422),
            await http.put(path, {"model": "http://evil/v1#m"}, expect=422),
            await http.post(f"{path}/chat", {"content": "x", "model": "http://evil/v1#m"}, expect=422),
        ):
            assert "is not one of: given" in wrong["error"]


async def test_what_a_new_conversation_may_use_is_the_servers_default() -> None:
    async with open_api_client(tools=[add], default_settings=NOTHING_ENABLED) as http:
        assert (await http.get(await http.create_conversation()))["conversation"]["enabled_tools"] == []
    async with open_api_client(tools=[add], default_settings=Settings(system_prompt="p")) as http:
        enabled = (await http.get(await http.create_conversation()))["conversation"]["enabled_tools"]
        assert enabled == [{"server_id": "function", "tool_name": "add"}]


async def test_conversations_are_there_after_a_restart(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/yard.db"
    async with build_yard([say("hi")], store=store) as yard, connect_api_client(yard) as http:
        path = await http.create_conversation("kept", system_prompt="p")
        await http.post(f"{path}/chat", {"content": "hello"})
        before = (await http.get(path))["conversation"]
    async with build_yard([], store=store) as yard, connect_api_client(yard) as http:
        assert (await http.get(path))["conversation"] == before
        assert (await http.get("/conversations/search?q=HELLO"))["count"] == 1
        await http.delete(path)
    async with build_yard([], store=store) as yard, connect_api_client(yard) as http:
        await http.get(path, expect=404)
