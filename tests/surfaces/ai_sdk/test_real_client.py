"""The AI SDK's own chat, unchanged, against `/ai-sdk/chat`."""

import asyncio
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager

import pytest

from surfaces.ai_sdk.chats import ChatClient, ChatProcess, Json
from surfaces.served import serve_yard
from surfaces.talk import build_yard
from toolyard import ToolLike, Yard, tool
from toolyard.testing import Script, call, fail, say, together

CAMERA: Json = {
    "tools": [
        {
            "name": "take_photo",
            "description": "Take a photo.",
            "parameters": {"type": "object", "properties": {"of": {"type": "string"}}},
        }
    ]
}


@tool
def add_to_groceries(item: str) -> dict[str, str]:
    """Add an item to the groceries."""
    return {"added": item}


@tool(approval="ask")
def order(item: str, count: int = 1) -> str:
    """Order an item."""
    return f"ordered {count} {item}"


@pytest.fixture(scope="module")
def process() -> Generator[ChatProcess, None, None]:
    process = ChatProcess()
    yield process
    process.close()


class Served:
    """A yard that is served to chats."""

    def __init__(self, yard: Yard, url: str, process: ChatProcess) -> None:
        self.yard = yard
        self.url = url
        self._process = process

    async def open_chat(self, id: str = "chat-1", **options: object) -> ChatClient:
        return await self._process.open(self.url, id, **options)


@asynccontextmanager
async def serve(process: ChatProcess, script: Script, tools: Sequence[ToolLike] = ()) -> AsyncGenerator[Served, None]:
    async with build_yard(script, tools=tools) as yard, serve_yard(yard) as url, asyncio.timeout(60):
        yield Served(yard, url, process)


@pytest.mark.parametrize("version", ["ai", "ai5", "ai6"])
async def test_a_text_is_streamed(process: ChatProcess, version: str) -> None:
    async with serve(process, [say("Hello ", "there.")]) as served:
        chat = await served.open_chat(version=version)
        state = await chat.send("Hi")
        assert (state.text, state.status, state.error) == ("Hello there.", "ready", "")
        assert state.frame_types.count("text-delta") == 2
        assert [message["role"] for message in state.messages] == ["user", "assistant"]


async def test_two_tools_run_on_the_server_in_parallel(process: ChatProcess) -> None:
    script = [
        together(say("I add both."), call("add_to_groceries", item="milk"), call("add_to_groceries", item="bread")),
        say("Done."),
    ]
    async with serve(process, script, [add_to_groceries]) as served:
        state = await (await served.open_chat(automatic=True)).send("Add milk and bread")
        assert [part["type"] for part in state.messages[-1]["parts"]] == [
            "step-start",
            "text",
            "tool-add_to_groceries",
            "tool-add_to_groceries",
            "step-start",
            "text",
            "data-usage",
        ]
        outputs = [part["output"] for part in state.last_parts if part["type"].startswith("tool-")]
        assert outputs == [{"added": "milk"}, {"added": "bread"}]
        assert (state.text, state.tool_calls, state.requests) == ("I add both.Done.", [], ["POST /ai-sdk/chat"])


async def test_an_approval_is_granted(process: ChatProcess) -> None:
    async with serve(process, [call("order", item="milk"), say("Ordered.")], [order]) as served:
        chat = await served.open_chat(automatic=True)
        asked = (await chat.send("Order milk")).get_tool("order")
        assert (asked["state"], asked["input"]) == ("approval-requested", {"item": "milk"})
        state = await chat.decide(asked["approval"]["id"], True)
        assert (state.get_tool("order")["state"], state.get_tool("order")["output"]) == (
            "output-available",
            "ordered 1 milk",
        )
        assert (len(state.messages), state.text, state.error) == (2, "Ordered.", "")


async def test_an_approval_is_denied(process: ChatProcess) -> None:
    async with serve(process, [call("order", item="milk"), say("As you like.")], [order]) as served:
        chat = await served.open_chat(automatic=True)
        asked = (await chat.send("Order milk")).get_tool("order")
        state = await chat.decide(asked["approval"]["id"], False, reason="too dear")
        assert state.get_tool("order")["state"] == "output-denied"
        assert (state.text, state.error) == ("As you like.", "")


async def test_an_approval_with_edited_input_runs_the_call_with_it(process: ChatProcess) -> None:
    async with serve(process, [call("order", item="milk", count=2**60 + 1), say("Ordered.")], [order]) as served:
        chat = await served.open_chat(automatic=True)
        asked = (await chat.send("Order milk")).get_tool("order")
        edited = {**asked["input"], "item": "oat milk"}
        state = await chat.decide(asked["approval"]["id"], True, input=edited)
        # The client cannot hold the number, but nobody has changed it.
        assert state.get_tool("order")["output"].endswith(f"ordered {2**60 + 1} oat milk")
        assert (state.get_tool("order")["input"]["item"], state.text) == ("oat milk", "Ordered.")


async def test_a_tool_of_the_client_runs_there(process: ChatProcess) -> None:
    async with serve(process, [call("take_photo", of="the sea"), say("Nice.")]) as served:
        chat = await served.open_chat(automatic=True, photos=True, body=CAMERA)
        state = await chat.send("Show the sea")
        assert (state.tool_calls, state.text, state.error) == (["take_photo"], "Nice.", "")
        assert state.get_tool("take_photo")["output"] == "a photo of the sea"
        assert len(state.messages) == 2


async def test_a_failure_of_the_model_is_an_error(process: ChatProcess) -> None:
    async with serve(process, [fail("the provider is down"), say("Back again.")]) as served:
        chat = await served.open_chat()
        state = await chat.send("Hi")
        assert (state.status, state.error) == ("error", "the provider is down")
        again = await chat.act("regenerate")
        assert (again.status, again.text) == ("ready", "Back again.")
