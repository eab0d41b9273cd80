"""`POST /ai/respond` over a real socket: the objects of the contract, in order, under one correlation id."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from surfaces.http_server import SocketClient, connect_client
from toolyard import ToolError, Yard, tool
from toolyard.testing import Script, Scripted, call, fail, say, together


@tool
def add_to_groceries(item: str, qty: int = 1) -> dict[str, object]:
    """Add an item to the grocery list."""
    return {"ok": True, "id": "n-1", "item": item}


@tool
def broken() -> None:
    """Fails."""
    raise ToolError("the list is locked", "locked")


@tool(approval="ask")
def delete_list() -> str:
    """Asks first."""
    return "gone"


@asynccontextmanager
async def open_client(script: Script) -> AsyncGenerator[SocketClient, None]:
    async with (
        asyncio.timeout(30),
        Yard(tools=[add_to_groceries, broken, delete_list], model=Scripted(script)) as yard,
        connect_client(yard) as http,
    ):
        yield http


async def read_objects(http: SocketClient, **body: object) -> list[dict[str, object]]:
    return [event async for _, event in http.stream("POST", "/ai/respond", body)]


@pytest.mark.proves(
    "003.answer-is-sse",
    "003.event-done",
    "003.event-order",
    "003.event-text-delta",
    "003.event-tool-finished",
    "003.event-tool-started",
    "003.mode-tools-chat",
    "003.respond-endpoint",
)
async def test_a_prompt_is_answered_as_the_seed_shows_it() -> None:
    async with open_client([call("add_to_groceries", item="milk", qty=1), say("I've ", "added ", "milk.")]) as http:
        received = await read_objects(http, prompt="Add milk to groceries", mode="tools+chat")
        shapes = [(event["type"], event.get("state"), event.get("content")) for event in received]
        assert shapes == [
            ("tool.status", "started", None),
            ("tool.status", "finished", None),
            ("text.delta", None, "I've "),
            ("text.delta", None, "added "),
            ("text.delta", None, "milk."),
            ("done", None, None),
        ]
        started, finished, *_, done = received
        assert started["name"] == "add_to_groceries" and started["arguments"] == {"item": "milk", "qty": 1}
        assert finished["ok"] is True and finished["call_id"] == started["call_id"]
        assert done["ending"] == "done" and done["usage"] == {
            "input_tokens": 20,
            "output_tokens": 10,
            "cached_tokens": 0,
        }


async def test_every_call_shows_a_start_and_an_end_also_one_that_never_ran() -> None:
    async with open_client([together(call("add_to_groceries"), call("nowhere"), call("broken")), say("sorry")]) as http:
        received = await read_objects(http, prompt="go")
        status = [
            (event["name"], event["state"], event.get("error_type"))
            for event in received
            if event["type"] == "tool.status"
        ]
        assert status == [
            ("add_to_groceries", "started", None),
            ("add_to_groceries", "finished", "validation_error"),
            ("nowhere", "started", None),
            ("nowhere", "finished", "unknown_tool"),
            ("broken", "started", None),
            ("broken", "finished", "locked"),
        ]


async def test_a_run_that_waits_says_for_what_and_ends_the_stream() -> None:
    async with open_client([call("delete_list")]) as http:
        received = await read_objects(http, prompt="go")
        assert [event["type"] for event in received] == ["approval.required", "text.delta", "done"]
        assert received[0]["name"] == "delete_list" and received[2]["ending"] == "waiting"


async def test_a_model_failure_after_a_text_streams_one_error_and_a_failed_end() -> None:
    async with open_client([together(say("Well"), fail("overloaded", "unavailable"))]) as http:
        streamed = await read_objects(http, prompt="go")
        assert [event["type"] for event in streamed] == ["text.delta", "text.delta", "error", "done"]
        error = {name: streamed[2][name] for name in ("error", "error_type", "code", "retry_after_s")}
        assert error == {
            "error": "overloaded",
            "error_type": "unavailable",
            "code": "server_error",
            "retry_after_s": 2,
        }
        assert streamed[-1]["ending"] == "failed"


async def test_the_chat_and_the_events_of_a_conversation_show_one_error_for_a_failed_run() -> None:
    async with open_client([fail("overloaded", "unavailable")]) as http:
        _, created, _ = await http.ask("POST", "/conversations", {"title": "Test"})
        conversation = created["conversation"]
        assert isinstance(conversation, dict)
        path, at_once = f"/conversations/{conversation['id']}", {"prefer": "respond-async"}
        chat = [event["type"] async for _, event in http.stream("POST", f"{path}/chat", {"content": "go"}, **at_once)]
        replayed = list[object]()
        async for _, event in http.stream("GET", f"{path}/events", last_event_id="0"):
            replayed.append(event["type"])
            if event["type"] == "done":
                break
        assert chat == replayed == ["text.delta", "error", "done"]


@pytest.mark.proves("003.mode-tools-chat")
async def test_chat_only_offers_no_tool_and_history_is_given_to_the_model() -> None:
    model = Scripted([say("Ann")])
    async with Yard(tools=[add_to_groceries], model=model) as yard, connect_client(yard) as http:
        history = [
            {"role": "user", "content": "I am Ann"},
            {"role": "assistant", "content": None, "tool_calls": [_build_call("c1")]},
            {"role": "tool", "tool_call_id": "c1", "content": "ok"},
            {"role": "assistant", "content": "Hi Ann"},
        ]
        received = await read_objects(
            http, prompt="Who am I?", mode="chat-only", history=history, context={"shop": "open"}
        )
        assert [event["type"] for event in received] == ["text.delta", "done"]
    (request,) = model.requests
    assert request.offer.tools == () and request.system == "shop: open"
    kinds = [type(item).__name__ for item in request.history]
    assert kinds == ["UserMessage", "Call", "Result", "ModelText", "UserMessage"]


def _build_call(call_id: str) -> dict[str, object]:
    return {"id": call_id, "type": "function", "function": {"name": "add_to_groceries", "arguments": '{"item":"x"}'}}


@pytest.mark.parametrize(
    ("history", "why"),
    [
        ([{"role": "assistant", "tool_calls": [_build_call("c1")]}], "message 0: the calls c1 have no result"),
        ([{"role": "tool", "tool_call_id": "c9", "content": "x"}], "message 0: tool_call_id 'c9' answers no call"),
        (
            [{"role": "assistant", "tool_calls": [_build_call("c1")]}, {"role": "user", "content": "hm"}],
            "message 1: the calls c1 before it have no result",
        ),
        ([{"role": "wizard", "content": "x"}], "message 0: role 'wizard'"),
    ],
)
async def test_a_history_that_no_provider_would_take_is_refused_by_index(history: list[object], why: str) -> None:
    async with open_client([]) as http:
        status, body, _ = await http.ask("POST", "/ai/respond", {"prompt": "x", "history": history})
        assert status == 422 and why in str(body["error"])


async def test_a_conversation_goes_on_by_its_id_and_an_unknown_id_is_not_found() -> None:
    async with open_client([say("1"), say("2")]) as http:
        first = await read_objects(http, prompt="one")
        second = await read_objects(http, prompt="two", conversation_id=first[-1]["conversation_id"])
        assert second[-1]["conversation_id"] == first[-1]["conversation_id"]
        status, body, _ = await http.ask("POST", "/ai/respond", {"prompt": "x", "conversation_id": "nope"})
        assert (status, body["error_type"]) == (404, "not_found")


@pytest.mark.proves("003.health-endpoint", "003.health-healthy")
async def test_the_health_of_the_tools_compares_schemas_and_dispatchers() -> None:
    async with open_client([]) as http:
        status, body, _ = await http.ask("GET", "/ai/tools/health")
        assert status == 200 and body["status"] == "healthy"
        tools = body["tools"]
        assert isinstance(tools, dict)
        names = ["add_to_groceries", "broken", "delete_list"]
        assert tools["schema_names"] == names and tools["dispatcher_names"] == names
        assert tools["total_schemas"] == tools["total_dispatchers"] == 3
        assert tools["built_in_names"] == ["read_result", "find_tools"] and tools["total_built_in"] == 2
        assert tools["schema_only"] == tools["dispatcher_only"] == []
