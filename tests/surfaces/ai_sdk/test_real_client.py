"""The AI SDK's own chat, unchanged, against `/ai-sdk/chat`."""

import asyncio
import re
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

import aiohttp
import msgspec
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from core.test_properties import Script as Happenings
from core.test_properties import play, scripts
from stores.memory_replicas import MemoryDatabase, SharedMemoryStore
from surfaces.ai_sdk.chats import VERSIONS, ChatClient, ChatProcess, ChatState, Json
from surfaces.ai_sdk.generated_runs import encode_log
from surfaces.api_client import build_yard
from surfaces.http_server import serve_yard
from toolyard import ToolLike, Yard, tool
from toolyard.core.conversation.events import ModelDelta, TurnEnded, TurnFailed
from toolyard.core.items import ModelText, Result, UserMessage
from toolyard.core.ports import Model, ModelRequest
from toolyard.testing import Script, Scripted, Turn, call, fail, say, together
from toolyard.yard import LOCAL_CALLER

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


every_version = pytest.mark.parametrize("version", VERSIONS)


@pytest.fixture(scope="module")
def process() -> Generator[ChatProcess, None, None]:
    process = ChatProcess()
    yield process
    process.close()


class PausingModel(Scripted):
    """A scripted model that does not end a turn until the test lets it."""

    def __init__(self, script: Script, pauses_in: int = 1) -> None:
        super().__init__(script)
        self._pauses_in = pauses_in
        self.resumed = asyncio.Event()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | TurnEnded | TurnFailed, None]:
        async for event in super().stream(request):
            if isinstance(event, TurnEnded) and request.turn == self._pauses_in:
                await self.resumed.wait()
            yield event


class ServedChats:
    """A yard that is served to chats."""

    def __init__(self, yard: Yard, url: str, process: ChatProcess) -> None:
        self.yard = yard
        self.url = url
        self._process = process

    async def open_chat(self, id: str = "chat-1", **options: object) -> ChatClient:
        return await self._process.open(self.url, id, **options)

    async def post(self, path: str) -> int:
        async with aiohttp.ClientSession() as session, session.post(self.url + path) as response:
            return response.status


@asynccontextmanager
async def serve(
    process: ChatProcess, script: Script | Model, tools: Sequence[ToolLike] = (), **wiring: object
) -> AsyncGenerator[ServedChats, None]:
    async with build_yard(script, tools=tools, **wiring) as yard, serve_yard(yard) as url, asyncio.timeout(60):
        yield ServedChats(yard, url, process)


def rename_ids(state: ChatState) -> Json:
    """Return the messages of a chat with the ids of runs and calls by their order."""
    text = msgspec.json.encode(state.messages[1:]).decode()
    names = dict.fromkeys(re.findall(r"(?:run|call)_[0-9a-f]{24}", text))
    for number, name in enumerate(names):
        text = text.replace(name, f"id-{number}")
    return msgspec.json.decode(text)


@every_version
async def test_a_text_is_streamed(process: ChatProcess, version: str) -> None:
    async with serve(process, [say("Hello ", "there.")]) as served:
        chat = await served.open_chat(version=version)
        state = await chat.send("Hi")
        assert (state.text, state.status, state.error) == ("Hello there.", "ready", "")
        assert state.frame_types.count("text-delta") == 2
        assert [message["role"] for message in state.messages] == ["user", "assistant"]


@every_version
async def test_two_tools_run_on_the_server_in_parallel(process: ChatProcess, version: str) -> None:
    script = [
        together(say("I add both."), call("add_to_groceries", item="milk"), call("add_to_groceries", item="bread")),
        say("Done."),
    ]
    async with serve(process, script, [add_to_groceries]) as served:
        state = await (await served.open_chat(automatic=True, version=version)).send("Add milk and bread")
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


@pytest.mark.parametrize("version", ["ai", "ai6"])
async def test_an_approval_is_granted(process: ChatProcess, version: str) -> None:
    async with serve(process, [call("order", item="milk"), say("Ordered.")], [order]) as served:
        chat = await served.open_chat(automatic=True, version=version)
        asked = (await chat.send("Order milk")).get_tool("order")
        assert (asked["state"], asked["input"]) == ("approval-requested", {"item": "milk"})
        state = await chat.decide(asked["approval"]["id"], True)
        assert (state.get_tool("order")["state"], state.get_tool("order")["output"]) == (
            "output-available",
            "ordered 1 milk",
        )
        assert (len(state.messages), state.text, state.error) == (2, "Ordered.", "")


async def test_calls_inside_a_program_are_approved_one_after_the_other(process: ChatProcess) -> None:
    code = "a = await order(item='milk')\nb = await order(item='tea', count=2)\n[a, b]"
    async with serve(process, [call("run_code", code=code), say("Done.")], [order], code=True) as served:
        chat = await served.open_chat(automatic=True)
        first = (await chat.send("Go")).get_tool("order")
        assert (first["state"], first["input"]) == ("approval-requested", {"item": "milk"})
        second = (await chat.decide(first["approval"]["id"], True)).get_tool("order")
        assert (second["state"], second["input"]) == ("approval-requested", {"item": "tea", "count": 2})
        state = await chat.decide(second["approval"]["id"], True)
        assert state.get_tool("run_code")["output"] == {"value": ["ordered 1 milk", "ordered 2 tea"]}
        assert (state.text, state.status, state.error) == ("Done.", "ready", "")


async def test_calls_that_a_program_makes_at_once_are_sent_together_when_all_are_decided(process: ChatProcess) -> None:
    code = "import asyncio\nawait asyncio.gather(order(item='milk'), order(item='tea'))"
    async with serve(process, [call("run_code", code=code), say("Done.")], [order], code=True) as served:
        chat = await served.open_chat(automatic=True)
        asked = [part for part in (await chat.send("Go")).last_parts if part["type"] == "tool-order"]
        assert [part["input"] for part in asked] == [{"item": "milk"}, {"item": "tea"}]
        waiting = await chat.decide(asked[0]["approval"]["id"], True)
        assert waiting.requests == []
        state = await chat.decide(asked[1]["approval"]["id"], True)
        assert state.get_tool("run_code")["output"] == {"value": ["ordered 1 milk", "ordered 1 tea"]}
        assert (state.text, state.error) == ("Done.", "")


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


@every_version
async def test_a_tool_of_the_client_runs_there(process: ChatProcess, version: str) -> None:
    async with serve(process, [call("take_photo", of="the sea"), say("Nice.")]) as served:
        chat = await served.open_chat(automatic=True, photos=True, body=CAMERA, version=version)
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


async def test_what_only_stops_reading_does_not_stop_the_run_and_can_be_resumed(process: ChatProcess) -> None:
    model = PausingModel([say("Hello ", "there.")])
    async with serve(process, model) as served:
        chat = await served.open_chat()
        await chat.send("Hi", frames=5)
        stopped = await chat.act("stop")
        assert (stopped.status, stopped.finishes[0]["isAbort"]) == ("ready", True)
        asyncio.get_running_loop().call_later(0.2, model.resumed.set)
        state = await chat.act("resume")
        assert (state.text, len(state.messages), state.requests) == (
            "Hello there.",
            2,
            ["GET /ai-sdk/chat/chat-1/stream"],
        )


async def test_a_run_is_aborted_for_all_its_readers(process: ChatProcess) -> None:
    async with serve(process, PausingModel([say("Hello ", "there.")])) as served:
        chat, other_tab = await served.open_chat(automatic=True), await served.open_chat()
        await chat.send("Hi", frames=5)
        await other_tab.act("resume", frames=5)
        assert await served.post("/ai-sdk/chat/chat-1/stop") == 200
        for tab in (chat, other_tab):
            state = await tab.act("wait")
            assert (state.frame_types[-1], state.status) == ("abort", "ready")
            assert state.text == "Hello there."
        assert (await other_tab.act("resume")).frames == []


async def test_nothing_is_resumed_where_no_run_is_open(process: ChatProcess) -> None:
    async with serve(process, [say("Hello.")]) as served:
        chat = await served.open_chat()
        assert (await chat.act("resume")).status == "ready"
        await chat.send("Hi")
        state = await chat.act("resume")
        assert (state.status, state.frames, state.text) == ("ready", [], "Hello.")


async def test_a_turn_that_starts_again_after_a_restart_drops_its_half_text(
    process: ChatProcess, tmp_path: Path
) -> None:
    store = f"sqlite:///{tmp_path}/yard.db"
    dying = PausingModel([call("add_to_groceries", item="milk"), say("It is ", "on the ")], pauses_in=2)
    async with serve(process, dying, [add_to_groceries], store=store, grace_s=0) as served:
        chat = await served.open_chat()
        half = await chat.send("Add milk", frames=11)
        assert half.text == "It is on the "
    model = PausingModel([say("It is ", "on the list.")], pauses_in=2)
    async with serve(process, model, [add_to_groceries], store=store) as served:
        reloaded = await served.open_chat(messages=half.messages)
        resumed = await reloaded.act("resume", frames=8)
        assert resumed.frame_types.count("reset-step") == 1
        model.resumed.set()
        state = await reloaded.act("wait")
        assert (len(state.messages), state.text) == (2, "It is on the list.")
        assert state.get_tool("add_to_groceries")["output"] == {"added": "milk"}


async def test_another_replica_resumes_the_run_and_takes_the_approval(process: ChatProcess) -> None:
    database = MemoryDatabase()
    model = PausingModel([call("order", item="milk"), say("It is ", "ordered.")], pauses_in=2)
    async with (
        serve(process, model, [order], opened_store=SharedMemoryStore(database)) as first,
        serve(process, model, [order], opened_store=SharedMemoryStore(database)) as second,
    ):
        chat, other = await first.open_chat(), await second.open_chat()
        asked = await chat.send("Order milk")
        assert (await other.act("resume")).get_tool("order") == asked.get_tool("order")
        await other.decide(asked.get_tool("order")["toolCallId"], True)
        await other.act("again", frames=5)
        await chat.act("resume", frames=10)
        model.resumed.set()
        resumed, continued = await chat.act("wait"), await other.act("wait")
        assert resumed.messages[-1] == continued.messages[-1]
        assert resumed.text == "It is ordered."


async def test_a_message_is_edited_and_answered_again(process: ChatProcess) -> None:
    async with serve(process, [say("One."), say("Two."), say("Three."), say("Four.")]) as served:
        chat = await served.open_chat()
        first = (await chat.send("First")).messages[0]
        await chat.send("Second")
        edited = await chat.send("First, edited", messageId=first["id"])
        assert (len(edited.messages), edited.text) == (2, "Three.")
        again = await chat.act("regenerate")
        assert (len(again.messages), again.text) == (2, "Four.")
        (conversation,) = await served.yard.service.conversations.list_cards(LOCAL_CALLER)
        history = await served.yard.history(conversation.id)
        assert [item.text for item in history if isinstance(item, UserMessage | ModelText)] == [
            "First, edited",
            "Four.",
        ]


async def test_two_tabs_see_one_run_and_a_message_of_the_other_waits_in_line(process: ChatProcess) -> None:
    model = PausingModel([say("Hello ", "there."), say("And you.")])
    async with serve(process, model) as served:
        tab = await served.open_chat()
        asked = await tab.send("Hi", frames=5)
        other = await served.open_chat(messages=asked.messages[:1])
        await other.act("resume", frames=4)
        third = await served.open_chat(messages=asked.messages[:1])
        await third.send("I am here too", frames=1)
        model.resumed.set()
        assert (await tab.act("wait")).text == (await other.act("wait")).text == "Hello there."
        assert (await third.act("wait")).text == "And you."
        assert len(model.requests) == 2


async def test_a_message_that_is_sent_again_is_answered_once(process: ChatProcess) -> None:
    async with serve(process, [say("Hello.")]) as served:
        chat = await served.open_chat()
        sent = await chat.send("Hi")
        again = await served.open_chat(messages=sent.messages[:1])
        assert (await again.act("again")).messages == sent.messages


async def test_a_client_that_is_cut_off_after_any_frame_and_resumes_shows_the_same_message(
    process: ChatProcess,
) -> None:
    """The run waits in the end, so that there is always one to resume."""

    def answer(request: ModelRequest) -> Turn:
        results = sum(isinstance(item, Result) for item in request.history)
        if not results:
            return together(say("Let ", "me see."), call("add_to_groceries", item="milk"), call("order", item="bread"))
        return together(say("And ", "a photo."), call("take_photo", of="bread"))

    async with serve(process, answer, [add_to_groceries, order]) as served:

        async def talk(id: str, cut_first: int = -1, cut_second: int = -1) -> tuple[ChatState, ChatState]:
            """Have a chat up to the approval, and then up to the photo, with each stream cut off and resumed."""
            chat = await served.open_chat(id, body=CAMERA)
            asked = await chat.send("Go", cutAfter=cut_first)
            if cut_first >= 0:
                assert asked.finishes[0]["isDisconnect"], asked
                asked = await chat.act("resume")
            await chat.decide(asked.get_tool("order")["approval"]["id"], True)
            state = await chat.act("again", cutAfter=cut_second)
            return asked, state if cut_second < 0 else await chat.act("resume")

        first, second = await talk("undisturbed")
        assert second.get_tool("take_photo")["state"] == "input-available"
        for index in range(len(first.frames) - 1):
            asked, state = await talk(f"first-{index}", cut_first=index)
            assert rename_ids(asked) == rename_ids(first), index
            assert rename_ids(state) == rename_ids(second), index
        for index in range(len(second.frames) - 1):
            _, state = await talk(f"second-{index}", cut_second=index)
            assert rename_ids(state) == rename_ids(second), index


async def test_a_mistake_is_an_error_with_words_and_nothing_is_lost(process: ChatProcess) -> None:
    async with serve(process, [call("order", item="milk"), say("Ordered.")], [order]) as served:
        chat = await served.open_chat()
        foreign = await chat.act("send", parts=[{"type": "step-start"}])
        assert (foreign.status, "a user's message has parts of text and file" in foreign.error) == ("error", True)
        waiting = await chat.send("Order milk")
        part = waiting.get_tool("order")
        unknown = await served.open_chat(messages=replace_call(waiting.messages, part["toolCallId"], "call_unknown"))
        await unknown.decide("call_unknown", True)
        error = (await unknown.act("again")).error
        assert error == "call 'call_unknown' does not wait for an approval here: there is no such call"
        await chat.decide(part["toolCallId"], True)
        assert (await chat.act("again")).text == "Ordered."
        late = await served.open_chat(messages=waiting.messages)
        await late.decide(part["toolCallId"], False)
        assert (await late.act("again")).error == f"call {part['toolCallId']!r} was approved before, by 'local'"


def replace_call(messages: list[Json], call_id: str, other_id: str) -> list[Json]:
    return msgspec.json.decode(msgspec.json.encode(messages).decode().replace(call_id, other_id))


async def test_the_schema_accepts_every_frame_of_any_run_and_resuming_anywhere_builds_the_same_message(
    process: ChatProcess,
) -> None:
    runs: list[list[Json]] = []

    @settings(max_examples=400, deadline=None, database=None, phases=[Phase.generate])
    @given(scripts, st.sampled_from(["stop", "patience"]), st.floats(0.0, 1.0))
    def encode(happenings: Happenings, how: Literal["stop", "patience"], share: float) -> None:
        runs.extend(frames for pair in encode_log(play(happenings, how), share) for frames in pair)

    await asyncio.to_thread(encode)
    messages = await process.validate(runs)
    assert len(messages) >= 1_000
    for index in range(0, len(messages), 2):
        assert messages[index] == messages[index + 1], msgspec.json.encode((runs[index], runs[index + 1]))
