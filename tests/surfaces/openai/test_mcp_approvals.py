"""Approvals as `mcp_approval_request` items, for a client that declares an `mcp` tool."""

import pytest
from openai import APIStatusError

from surfaces.openai.clients import Served, add_to_groceries, added, list_exchange, order, serve_script
from surfaces.talk import Json
from toolyard.testing import call, say, together

MCP: Json = {"type": "mcp", "server_label": "shop"}
SCRIPT = [together(say("One moment."), call("order", item="milk")), say("Done.")]


async def respond(served: Served, input: object = "Hello", tool: Json = MCP, **fields: object) -> Json:
    return await served.client.responses.create(model="default", input=input, tools=[tool], **fields)


def find_request(response: Json) -> Json:
    (request,) = [item for item in response.output if item.type == "mcp_approval_request"]
    return request


def decide(request: Json, *, approve: bool = True, reason: str = "") -> list[Json]:
    answer = {"type": "mcp_approval_response", "approval_request_id": request.id, "approve": approve}
    return [{**answer, "reason": reason} if reason else answer]


async def test_an_approval_is_requested_and_decided_by_items() -> None:
    async with serve_script(SCRIPT, [order]) as served:
        first = await respond(served)
        request = find_request(first)
        assert (first.status, first.output_text) == ("completed", "One moment.")
        assert (request.name, request.arguments, request.server_label) == ("order", '{"item":"milk"}', "shop")
        assert added == []
        second = await respond(served, decide(request), previous_response_id=first.id)
        assert second.output_text.endswith("Done.")
        again = await respond(served, decide(request, approve=False), previous_response_id=first.id)
        assert again.output_text == second.output_text
    assert added == ["ordered milk"]


async def test_a_stateless_client_sends_the_items_back() -> None:
    async with serve_script([*SCRIPT, say("Welcome.")], [order]) as served:
        first = await respond(served, store=False)
        echoed = [item.model_dump(exclude_none=True) for item in first.output]
        items: list[Json] = [{"role": "user", "content": "Hello"}, *echoed, *decide(find_request(first))]
        second = await respond(served, items, store=False)
        items += [
            *(item.model_dump(exclude_none=True) for item in second.output),
            {"role": "user", "content": "Thanks"},
        ]
        last = await respond(served, items, store=False)
        assert last.output_text == "Welcome."
    assert added == ["ordered milk"]
    assert list_exchange(served.model.requests[-1].history) == ["order['milk']", "order=ordered milk"]


async def test_a_denied_call_does_not_run_and_the_model_is_told_why() -> None:
    async with serve_script(SCRIPT, [order]) as served:
        first = await respond(served)
        stream = await respond(
            served,
            decide(find_request(first), approve=False, reason="no milk"),
            previous_response_id=first.id,
            stream=True,
        )
        events = [event async for event in stream]
    assert added == [] and events[-1].type == "response.completed"
    assert "no milk" in list_exchange(served.model.requests[-1].history)[-1]


async def test_a_streamed_request_for_an_approval_is_an_item_of_its_own() -> None:
    async with serve_script(SCRIPT[:1], [order]) as served:
        events = [event async for event in await respond(served, stream=True)]
    done = [event.item for event in events if event.type == "response.output_item.done"]
    assert done[-1].type == "mcp_approval_request"
    assert events[-1].response.output[-1].id == done[-1].id


async def test_an_unknown_decision_is_refused_alone_and_plain_history_beside_messages() -> None:
    async with serve_script([say("Hi.")], [order]) as served:
        unknown: Json = {
            "type": "mcp_approval_response",
            "approval_request_id": f"mcpr_{'0' * 24}-{'0' * 24}",
            "approve": True,
        }
        with pytest.raises(APIStatusError, match="decides nothing") as refused:
            await respond(served, [unknown])
        assert refused.value.status_code == 400
        answer = await respond(served, [{"role": "user", "content": "Hello"}, unknown])
        assert answer.output_text == "Hi."


async def test_a_declaration_narrows_and_tightens_and_never_loosens() -> None:
    script = [call("add_to_groceries", item="milk"), say("Done."), call("order", item="milk")]
    async with serve_script(script, [add_to_groceries, order]) as served:
        tight = {**MCP, "allowed_tools": ["add_to_groceries"], "require_approval": "always"}
        first = await respond(served, tool=tight)
        assert [tool.name for tool in served.model.requests[0].offer.tools] == ["add_to_groceries"]
        assert (find_request(first).name, added) == ("add_to_groceries", [])
        await respond(served, decide(find_request(first)), tool=tight, previous_response_id=first.id)
        assert added == ["milk"]
        with pytest.raises(APIStatusError, match="only where a conversation begins"):
            await respond(served, tool={**MCP, "allowed_tools": ["order"]}, previous_response_id=first.id)
        loose = await respond(served, tool={**MCP, "require_approval": "never"})
        assert find_request(loose).name == "order"
    assert added == ["milk"]


async def test_an_address_of_another_server_is_refused() -> None:
    async with serve_script([say("Hi.")]) as served:
        for fields in ({"server_url": "https://evil.example/mcp"}, {"server_url": f"{served.url}.evil.example"}):
            with pytest.raises(APIStatusError, match="is another server"):
                await respond(served, tool={**MCP, **fields})
        assert (await respond(served, tool={**MCP, "server_url": f"{served.url}/mcp"})).output_text == "Hi."
