"""What an application says of itself reaches the server's own tools, whichever way it comes."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from support import TEST_TIMEOUT_S, collect_events, get_result, open_yard, wait_for_event
from surfaces.api_client import open_api_client
from surfaces.app_client import AppClient
from toolyard import Context, Yard, tool
from toolyard.core.conversation.context.notes import MAX_CONTEXT_CHARS, MAX_NOTE_CHARS
from toolyard.core.conversation.events import RunSuspended
from toolyard.core.errors import Invalid
from toolyard.testing import Scripted, call, say
from toolyard.venues.function import FunctionTool

FACTORY: dict[str, object] = {"factoryId": "F001", "cart": {"items": 2}}
TWICE = [call("where"), say("there"), call("where"), say("there")]


class FieldsRecorder:
    """A tool, and the fields that it was given with each call."""

    def __init__(self) -> None:
        self.fields = list[Mapping[str, object]]()

    @property
    def tool(self) -> FunctionTool[..., object]:
        @tool
        def where(context: Context) -> str:
            """Which factory."""
            self.fields.append(context.fields)
            return "here"

        return where


async def test_respond_gives_its_context_to_the_tools_of_a_new_and_of_an_old_conversation() -> None:
    recorder = FieldsRecorder()
    async with open_api_client(TWICE, tools=[recorder.tool]) as http:
        first = [event async for _, event in http.stream_post("/ai/respond", {"prompt": "where?", "context": FACTORY})]
        again = {
            "prompt": "and now?",
            "context": {"factoryId": "F002"},
            "conversation_id": first[-1]["conversation_id"],
        }
        assert [event["type"] async for _, event in http.stream_post("/ai/respond", again)][-1] == "done"
    assert recorder.fields == [FACTORY, {**FACTORY, "factoryId": "F002"}]


async def test_an_app_s_context_reaches_the_server_s_tools_as_the_values_that_it_sent() -> None:
    recorder, model = FieldsRecorder(), Scripted(TWICE)
    async with open_api_client(model, tools=[recorder.tool]) as http:
        first = await AppClient(http).ask("where?", context={**FACTORY, "division": ""})
        await AppClient(http).ask("and now?", context={"factoryId": "F002"}, conversationId=first["conversationId"])
    assert recorder.fields == [{**FACTORY, "division": ""}, {"factoryId": "F002"}]
    assert 'cart: {"items":2}' in model.requests[0].system


async def test_named_context_of_a_conversation_reaches_its_tools() -> None:
    recorder = FieldsRecorder()
    async with open_api_client(TWICE[:2], tools=[recorder.tool]) as http:
        path = await http.create_conversation()
        note = {"descriptive_name": "factoryId", "content": "F001"}
        await http.post(f"{path}/context", note, expect=201)
        assert [name async for name, _ in http.stream_chat(path, "where?")]
    assert recorder.fields == [{"factoryId": "F001"}]


async def test_a_run_that_is_taken_up_by_another_process_still_has_its_context(tmp_path: Path) -> None:
    received, store = list[Mapping[str, object]](), f"sqlite:///{tmp_path}/toolyard.db"

    @tool(approval="ask")
    def careful(context: Context) -> str:
        """Asks first."""
        received.append(context.fields)
        return "here"

    async with Yard(tools=[careful], model=Scripted([call("careful")]), store=store) as yard:
        await wait_for_event(yard.run("where?", conversation="c", context=FACTORY), RunSuspended)
    async with asyncio.timeout(TEST_TIMEOUT_S), Yard(tools=[careful], model=Scripted([say("ok")]), store=store) as yard:
        (waiting,) = (await yard.service.conversations.view("c")).calls
        await yard.approve("c", waiting)
        async for entry in await yard.follow("c"):
            if type(getattr(entry, "event", None)).__name__ == "RunEnded":
                break
        assert not (await yard.service.conversations.view("c")).settings.context, (
            "a request's own context is only its own"
        )
    assert received == [FACTORY]


async def test_a_call_made_directly_has_its_context_and_a_tool_cannot_change_it() -> None:
    @tool
    def change(context: Context) -> None:
        """Tries to change what it was given."""
        context.fields["factoryId"] = "F002"  # pyright: ignore[reportIndexIssue]

    async with open_yard([], [change]) as yard:
        call_result = get_result(await collect_events(yard.call("change", {}, context=FACTORY)))
        assert call_result.outcome == "error" and "does not support item assignment" in call_result.content


@pytest.mark.parametrize(
    "context",
    [
        {f"field {number}": number for number in range(101)},
        {"text": "x" * (MAX_NOTE_CHARS + 1)},
        {str(number): "x" * MAX_NOTE_CHARS for number in range(MAX_CONTEXT_CHARS // MAX_NOTE_CHARS + 1)},
        {"": "no name"},
        {"lock": object()},
    ],
    ids=["fields", "text", "whole", "name", "type"],
)
async def test_a_context_is_bounded(context: dict[str, object]) -> None:
    async with open_yard([]) as yard:
        with pytest.raises(Invalid, match="context"):
            await yard.ask("where?", context=context)


async def test_a_context_that_is_too_large_is_refused_on_every_surface() -> None:
    context = {str(number): "x" * MAX_NOTE_CHARS for number in range(MAX_CONTEXT_CHARS // MAX_NOTE_CHARS + 1)}
    async with open_api_client() as http:
        for path, body in (
            ("/ai/respond", {"prompt": "where?"}),
            ("/chat/v1/conversation", {"messages": [{"role": "user", "content": "where?"}]}),
        ):
            refused = await http.post(path, {**body, "context": context}, expect=422)
            assert "context" in refused["error"]
