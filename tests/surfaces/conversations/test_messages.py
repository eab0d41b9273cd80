"""Messages and context: added, listed, deleted; a call never stays without its result."""

import asyncio
import json
import re

import pytest

from surfaces.api_client import Json, both_ways, open_api_client
from toolyard import tool
from toolyard.core.conversation.history import find_faults
from toolyard.core.items import Call, Item, ModelText, Reasoning, Result, UserMessage
from toolyard.core.ports import ModelRequest
from toolyard.surfaces.shared.chat_messages import find_removable_items, to_messages
from toolyard.testing import Scripted, Turn, call, say, together


@tool
def list_directory(path: str) -> dict[str, object]:
    """List the files of a directory."""
    return {"files": ["README.md", f"{path}.md"]}


async def test_a_client_may_give_its_messages_ids_of_its_own_once() -> None:
    async with open_api_client([say("one"), say("two")]) as http:
        path = await http.create_conversation()
        answer = await http.post(f"{path}/chat", {"content": "hello", "message_id": "msg-1"})
        assert answer["user_message"]["id"] == "msg-1"
        body = {"role": "assistant", "content": "hi", "message_id": "msg-2"}
        added = await http.post(f"{path}/messages", body, expect=201)
        assert added["message"]["id"] == "msg-2"
        body = {"prompt": "more", "conversation_id": path.rpartition("/")[2], "message_id": "msg-3"}
        assert [event async for _, event in http.stream_post("/ai/respond", body)][-1]["ending"] == "done"
        ids = [message["id"] for message in await http.list_messages(path)]
        assert (ids[0], ids[2], ids[3]) == ("msg-1", "msg-2", "msg-3")
        refused = await http.post(f"{path}/chat", {"content": "hello", "message_id": "msg-1"}, expect=409)
        assert "msg-1 is in this conversation already" in refused["error"]
        for wrong in ("x" * 65, "a b", "ä", "msg-4\n", ".", ".."):
            await http.post(f"{path}/chat", {"content": "hello", "message_id": wrong}, expect=422)


TWO_CALLS = together(
    say("I look. "), call("list_directory", path="/docs"), call("list_directory", path="/src")
)  # fmt: skip


@pytest.mark.proves(
    "004.message-content",
    "004.message-id",
    "004.message-list",
    "004.message-role",
    "004.message-timestamp",
    "004.message-tool-call-id",
    "004.message-tool-calls",
    "004.message-tool-name",
    "004.shape-answer",
    "004.shape-calls",
    "004.shape-tool",
    "004.shape-user",
)
@both_ways
async def test_every_message_has_the_shape_that_the_seed_shows(way: str) -> None:

    script = [call("list_directory", path="/docs"), say("README.md ", "and /docs.md")]
    async with open_api_client(script, way=way, tools=[list_directory]) as http:
        path = await http.create_conversation()
        await http.post(f"{path}/chat", {"content": "What files are in /docs?"})
        listed = await http.get(f"{path}/messages")
        assert (listed["count"], listed["total"], listed["next"]) == (4, 4, None)
        user, calls, result, answer = listed["messages"]
        for message in listed["messages"]:
            assert set(message) == {"id", "role", "content", "timestamp", "tool_calls", "tool_call_id", "name"}
            assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", message["timestamp"])
        assert [entry["role"] for entry in listed["messages"]] == ["user", "assistant", "tool", "assistant"]
        assert len({entry["id"] for entry in listed["messages"]}) == 4
        assert (user["content"], user["tool_calls"]) == ("What files are in /docs?", None)
        (tool_call,) = calls["tool_calls"]
        assert (calls["content"], tool_call["type"], tool_call["function"]["name"]) == (
            None,
            "function",
            "list_directory",
        )
        assert json.loads(tool_call["function"]["arguments"]) == {"path": "/docs"}
        assert (result["tool_call_id"], result["name"]) == (tool_call["id"], "list_directory")
        assert json.loads(result["content"]) == {"files": ["README.md", "/docs.md"]}
        assert (answer["content"], answer["tool_calls"]) == ("README.md and /docs.md", None)


@pytest.mark.proves("004.message-add")
async def test_messages_of_three_roles_are_added_and_given_to_the_model() -> None:
    model = Scripted([say("ok")])
    async with open_api_client(model) as http:
        path = await http.create_conversation()
        for role in ("system", "user", "assistant"):
            added = await http.post(f"{path}/messages", {"role": role, "content": f"from {role}"}, expect=201)
            assert set(added) == {"success", "message", "result_message"}
            assert (added["message"]["role"], added["message"]["content"]) == (role, f"from {role}")
            assert (await http.list_messages(path))[-1] == added["message"]
        for role in ("tool", "wizard"):
            await http.post(f"{path}/messages", {"role": role, "content": "x"}, expect=422)
        await http.post(f"{path}/chat", {"content": "go"})
        assert len(model.requests[0].history) == 4


async def test_messages_are_paged_from_the_oldest_on() -> None:
    async with open_api_client() as http:
        path = await http.create_conversation()
        for number in range(5):
            await http.post(f"{path}/messages", {"role": "user", "content": str(number)}, expect=201)
        first = await http.get(f"{path}/messages?limit=3")
        second = await http.get(f"{path}/messages?limit=3&after={first['next']}")
        assert [message["content"] for message in (*first["messages"], *second["messages"])] == list("01234")
        assert (first["count"], first["total"], second["next"]) == (3, 5, None)
        await http.get(f"{path}/messages?after=nowhere", expect=422)


def answer_once(request: ModelRequest) -> Turn:
    """A strict provider: the scripted model refuses a history with an orphan."""
    is_first_turn = not any(isinstance(item, Call | Result) for item in request.history)
    return TWO_CALLS if is_first_turn else say("done")


@pytest.mark.proves("004.message-delete")
@pytest.mark.parametrize(
    ("index", "left"),
    [
        (0, ["assistant", "tool", "tool", "assistant"]),
        (1, ["user", "assistant"]),  # the text, both calls, both results
        (2, ["user", "assistant", "tool", "assistant"]),  # one result with its call
        (3, ["user", "assistant", "tool", "assistant"]),
        (4, ["user", "assistant", "tool", "tool"]),
    ],
)
async def test_a_message_that_is_deleted_takes_along_what_cannot_stay_alone(index: int, left: list[str]) -> None:
    async with open_api_client(answer_once, tools=[list_directory]) as http:
        path = await http.create_conversation()
        await http.post(f"{path}/chat", {"content": "look"})
        before = await http.list_messages(path)
        deletion = await http.delete(f"{path}/messages/{before[index]['id']}")
        after = await http.list_messages(path)
        assert [message["role"] for message in after] == left
        assert deletion["deleted"] == [
            message["id"] for message in before if message["id"] not in {remaining["id"] for remaining in after}
        ]
        answered = {message["tool_call_id"] for message in after if message["role"] == "tool"}
        assert {tool_call["id"] for message in after for tool_call in message["tool_calls"] or ()} == answered
        await http.delete(f"{path}/messages/{before[index]['id']}", expect=404)
        await http.post(f"{path}/chat", {"content": "and now?"})  # a strict provider takes what is left


def build_items(*kinds: type[Item]) -> list[Item]:
    built_items: list[Item] = []
    for number, kind in enumerate(kinds):
        last = next((item.id for item in reversed(built_items) if isinstance(item, Call)), "")
        fields: dict[type[Item], dict[str, object]] = {
            UserMessage: {"parts": ()},
            Call: {"tool": "t", "arguments": {}},
            Result: {"call_id": last, "tool": "t", "outcome": "ok", "content": ""},
        }
        built_items.append(kind(id=f"{number}", at=0.0, **fields.get(kind, {"text": "x"})))  # pyright: ignore[reportArgumentType]
    return built_items


def test_what_the_model_thought_goes_with_what_it_said_or_called() -> None:
    history = build_items(UserMessage, Reasoning, Call, Result, Reasoning, ModelText, UserMessage, Reasoning)
    assert [message.id for message in to_messages(history)] == ["0", "2", "3", "5", "6"]
    assert find_removable_items(history, "2") == {"1", "2"}
    assert find_removable_items(history, "3") == {"1", "2"}  # its only call goes, and so the thought before it
    assert find_removable_items(history, "5") == {"4", "5"}
    assert find_removable_items(history, "1") == find_removable_items(history, "nowhere") == frozenset()
    assert not find_faults([item for item in history if item.id not in {"1", "2", "3"}])


async def test_messages_are_not_changed_while_a_run_is_open() -> None:
    @tool(approval="ask")
    def dangerous() -> None:
        """Asks."""

    async with open_api_client([call("dangerous")], tools=[dangerous]) as http:
        path = await http.create_conversation()
        waiting = await http.post(f"{path}/chat", {"content": "go"}, expect=202)
        refused = await http.post(f"{path}/messages", {"role": "user", "content": "x"}, expect=409)
        assert refused["error_type"] == "conflict" and "stop it" in refused["error"]
        await http.delete(f"{path}/messages/{waiting['user_message']['id']}", expect=409)


@both_ways
async def test_named_context_is_kept_by_id_and_given_to_the_model(way: str) -> None:
    model = Scripted([say("ok"), say("ok")])
    async with open_api_client(model, way=way) as http:
        path = await http.create_conversation(system_prompt="Be brief.")
        note: dict[str, object] = {
            "descriptive_name": "Pantry",
            "content": "two eggs",
            "related_keywords": [],
            "related_files": [],
        }
        added = await http.post(f"{path}/context", note, expect=201)
        assert set(added) == {"success", "context_id", "context", "message"} and added["context"] == note
        context_id = added["context_id"]
        listed = await http.get(f"{path}/context")
        assert (listed["context"], listed["contexts"]) == ([{"id": context_id, **note}], {context_id: note})
        assert (await http.get(f"{path}/context/{context_id}"))["context"] == note
        assert (await http.get(path))["conversation"]["context"] == {context_id: note}
        await http.post(f"{path}/chat", {"content": "go"})
        assert model.requests[0].system == "Be brief.\n\nPantry: two eggs"
        assert (await http.delete(f"{path}/context/{context_id}"))["context"] == note
        await http.delete(f"{path}/context/{context_id}", expect=404)
        await http.get(f"{path}/context/{context_id}", expect=404)
        await http.post(f"{path}/chat", {"content": "go"})
        assert model.requests[1].system == "Be brief."


@both_ways
async def test_of_many_who_add_context_at_once_every_one_counts_up_to_the_bound(way: str) -> None:
    async with open_api_client(way=way) as http:
        path = await http.create_conversation()

        async def add(number: int) -> tuple[int, Json]:
            body = {"descriptive_name": f"note {number}", "content": "x"}
            status, reply, _ = await http.send_request("POST", f"{path}/context", body)
            return status, reply

        answers = await asyncio.gather(*map(add, range(105)))
        assert sorted(status for status, _ in answers) == [201] * 100 + [422] * 5
        stored_context = (await http.get(f"{path}/context"))["context"]
        assert {item["id"] for item in stored_context} == {
            answer["context_id"] for status, answer in answers if status == 201
        }


@both_ways
async def test_ids_and_times_of_messages_survive_an_import(way: str) -> None:
    messages: list[dict[str, object]] = [
        {"id": "msg-1", "role": "system", "content": "Be brief.", "timestamp": "2025-01-11T18:59:59.500Z"},
        {"id": "msg-2", "role": "user", "content": "What is in /docs?", "timestamp": "2025-01-11T19:00:00.000Z"},
        {
            "id": "call_123",
            "role": "assistant",
            "content": None,
            "timestamp": "2025-01-11T19:00:01.000Z",
            "tool_calls": [
                {"id": "call_123", "type": "function", "function": {"name": "list_directory", "arguments": "{}"}}
            ],
        },
        {"role": "tool", "content": "[]", "timestamp": "2025-01-11T19:00:02.000Z", "tool_call_id": "call_123"},
        {"id": "msg-3", "role": "assistant", "content": "Nothing.", "timestamp": "2025-01-11T19:00:03.000Z"},
    ]
    async with open_api_client(way=way) as http:
        path = await http.create_conversation()
        for message in messages:
            await http.post(f"{path}/messages", message, expect=201)
        first = await http.list_messages(path)
        assert [message["timestamp"] for message in first] == [message["timestamp"] for message in messages]
        ids = [message["id"] for message in first]
        assert [*ids[:3], ids[4]] == ["msg-1", "msg-2", "call_123", "msg-3"]
        copy = await http.create_conversation()
        for message in first:
            await http.post(f"{copy}/messages", message, expect=201)
        assert await http.list_messages(copy) == first, "what was listed can be imported as it is"


@pytest.mark.parametrize("odd", ["yesterday", "", None, 7, "2999-01-01T00:00:00Z", "0001-01-01T00:00:00"])
async def test_a_time_that_cannot_be_is_replaced_by_the_current_one(odd: object) -> None:
    async with open_api_client() as http:
        path = await http.create_conversation()
        body = {"role": "user", "content": "hi", "timestamp": odd, "id": "../x"}
        await http.post(f"{path}/messages", body, expect=201)
        (message,) = await http.list_messages(path)
        assert message["timestamp"][:2] == "20" and message["timestamp"] < "2999", message
        assert "/" not in message["id"]


async def test_a_history_that_is_sent_keeps_its_times() -> None:
    async with open_api_client([say("ok")]) as http:
        history = [
            {"id": "a1", "role": "user", "content": "hi", "timestamp": "2025-01-11T19:00:00.000Z"},
            {"id": "a2", "role": "assistant", "content": "hello", "timestamp": "2025-01-11T19:00:01.000Z"},
        ]
        body = {"prompt": "go", "history": history, "keep": True}
        events = [event async for _, event in http.stream_post("/ai/respond", body)]
        messages = await http.list_messages(f"/conversations/{events[-1]['conversation_id']}")
        shown = [(message["id"], message["timestamp"]) for message in messages[:2]]
        assert shown == [(message["id"], message["timestamp"]) for message in history]
