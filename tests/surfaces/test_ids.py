"""Ids that clients receive have at most 64 characters on every surface, and still lead back to what they name."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import cast

import pytest

from surfaces.api_client import Json, build_yard, connect_api_client, open_api_client
from surfaces.app_client import SEARCH, AppClient, user_message
from surfaces.mcp_host import open_host
from toolyard import Tool, tool
from toolyard.core.conversation.events import ArgumentsAppended, CallParked
from toolyard.core.items import MAX_ID_CHARS
from toolyard.surfaces.shared.call_ids import parse_call_id
from toolyard.testing import Scripted, call, say

FORM: Json = {"elicitation": {}}


@tool(approval="ask")
def delete_order(number: int) -> str:
    """Delete an order for good."""
    return f"order {number} is gone"


def find_ids(value: Json, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield the field and the value of every id in an answer, at any depth."""
    if isinstance(value, dict):
        for field, content in cast("dict[str, Json]", value).items():
            yield from find_ids(content, field)
    elif isinstance(value, list):
        for content in cast("list[Json]", value):
            yield from find_ids(content, name)
    elif isinstance(value, str) and (name in ("id", "ids", "run", "conversation") or name.endswith(("_id", "Id"))):
        yield name, value


def test_the_limit_is_that_of_the_strictest_clients() -> None:
    assert MAX_ID_CHARS == 64


def check_ids(*answers: Json) -> None:
    ids = dict(pair for answer in answers for pair in find_ids(answer))
    assert ids and {name: id for name, id in ids.items() if len(id) > MAX_ID_CHARS} == {}


async def collect(events: AsyncGenerator[tuple[str, Json], None]) -> list[Json]:
    async with aclosing(events):
        return [event async for _, event in events]


async def test_ids_of_conversations_runs_calls_and_messages_are_short() -> None:
    async with open_api_client([call("delete_order", number=1), say("done")], tools=[delete_order]) as http:
        created = await http.post("/conversations", {"title": "t"}, expect=201)
        path = f"/conversations/{created['conversation']['id']}"
        first = await collect(http.stream_chat(path, "delete it"))
        call_id = next(event["call_id"] for event in first if "call_id" in event)
        approved = await http.post(f"{path}/calls/{call_id}/approve")
        later = await http.read_until_done(path)
        listed = await http.get("/conversations")
        check_ids(created, *first, approved, *(event for _, event in later), listed, await http.get(path))
        check_ids(*await http.list_messages(path))
        check_ids(await http.get(f"/traces/{later[-1][1]['correlation_id']}"))


async def test_ids_of_calls_that_a_client_adds_leave_room_for_the_ids_of_their_results() -> None:
    async with open_api_client() as http:
        path = await http.create_conversation()
        for call_id in ("a" * 64, "b" * 57):
            function = {"name": "look", "arguments": "{}"}
            calls = [{"id": call_id, "type": "function", "function": function}]
            await http.post(f"{path}/messages", {"role": "assistant", "tool_calls": calls}, expect=201)
            result = {"role": "tool", "content": "x", "tool_call_id": call_id}
            await http.post(f"{path}/messages", result, expect=201)
        messages = await http.list_messages(path)
        check_ids(*messages)
        assert [message["tool_calls"][0]["id"] == "b" * 57 for message in messages[::2]] == [False, True]


async def test_ids_of_a_plain_response_are_short() -> None:
    async with open_api_client([say("hi")]) as http:
        check_ids(*await collect(http.stream_post("/ai/respond", {"prompt": "hi"})))


async def test_ids_of_calls_for_an_application_are_short_and_lead_back_after_a_restart(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/yard.db"
    async with open_api_client([call("search_products", query="milk")], store=store) as http:
        answer = await AppClient(http).ask("go")
        check_ids(answer)
    async with open_api_client([say("found")], store=store) as http:
        results = [{"toolCallId": answer["toolCalls"][0]["id"], "result": "milk"}]
        check_ids(final := await AppClient(http).post({"toolResults": results}))
        assert final["message"]["content"] == "found"


@pytest.mark.parametrize("joined", ["ids", "digits"])
async def test_a_call_that_was_handed_out_before_ids_were_short_still_takes_its_result(joined: str) -> None:
    async with open_api_client([call("search_products", query="milk"), say("found")]) as http:
        answer = await AppClient(http).ask("go")
        conversation, call_id = parse_call_id(answer["toolCalls"][0]["id"])
        assert conversation == answer["conversationId"] and len(answer["toolCalls"][0]["id"]) <= 40
        earlier_id = {
            "ids": f"{conversation}.{call_id}",
            "digits": f"{call_id.replace('call_', conversation.replace('conversation', 'call') + '-')}",
        }[joined]
        results = [{"toolCallId": earlier_id, "result": "milk"}]
        assert (await AppClient(http).post({"toolResults": results}))["message"]["content"] == "found"


async def test_calls_of_a_conversation_with_a_long_name_of_its_own_are_short_and_take_results_with_that_name() -> None:
    name = "orders of " + "x" * 150
    model = Scripted([say("hi"), call("search_products", query="milk"), say("found")])
    async with build_yard(model) as yard, connect_api_client(yard) as http:
        await yard.ask("hello", conversation=name)
        app = AppClient(http)
        answer = await app.post({"conversationId": name, "messages": [user_message("go")], "tools": [SEARCH]})
        (handed_out,) = answer["toolCalls"]
        check_ids(handed_out)
        results = [{"toolCallId": handed_out["id"], "result": "milk"}]
        final = await app.post({"conversationId": name, "toolResults": results})
        assert final["message"]["content"] == "found"


async def test_ids_in_entries_of_the_log_are_short() -> None:
    search = Tool(name="search_products", venue="client")
    async with build_yard([call("search_products"), say("found")]) as yard:
        run = yard.run("go", app_tools=[search])
        async for event in run:
            if isinstance(event, ArgumentsAppended | CallParked):
                assert len(event.call_id) <= MAX_ID_CHARS
            if isinstance(event, CallParked):
                await yard.deliver(run.conversation, event.call_id, "milk")
        items = await yard.history(run.conversation)
        assert max(len(item.id) for item in items) <= MAX_ID_CHARS
        assert max(map(len, (run.id, run.conversation, run.correlation_id))) <= MAX_ID_CHARS


async def test_an_mcp_client_receives_short_ids_and_an_opaque_state() -> None:
    async with open_host(tools=[delete_order]) as (host, _):
        answer = await host.call_tool("delete_order", {"number": 1}, capabilities=FORM)
        assert answer.result["resultType"] == "input_required"
        state = answer.result.pop("requestState")
        assert len(state) <= 128
        assert all(len(id) <= MAX_ID_CHARS for id in answer.result["inputRequests"])
