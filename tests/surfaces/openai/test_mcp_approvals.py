"""Approvals as `mcp_approval_request` items, for a client that declares an `mcp` tool."""

import asyncio

import pytest
from openai import APIStatusError

from surfaces.api_client import Json, build_key, build_yard
from surfaces.http_server import connect_client
from surfaces.openai.clients import Served, add_to_groceries, added, list_exchange, order, serve_script
from toolyard import tool
from toolyard.core.items import ModelText, UserMessage
from toolyard.testing import call, say, together
from toolyard.venues.function import as_tool

MCP: Json = {"type": "mcp", "server_label": "shop"}
THANKS: Json = {"role": "user", "content": "Thanks"}
RETRY = {"x-stainless-retry-count": "1"}
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
    history = served.model.requests[-1].history
    assert list_exchange(history) == ["order['milk']", "order=ordered milk"]
    texts = [item.text for item in history if isinstance(item, ModelText | UserMessage)]
    assert texts == ["Hello", "One moment.", "Done.", "Thanks"]


async def test_a_stateless_client_that_goes_on_without_a_decision_lets_the_call_go() -> None:
    async with serve_script([*SCRIPT[:1], say("Never mind.")], [order]) as served:
        first = await respond(served, store=False)
        echoed = [item.model_dump(exclude_none=True) for item in first.output]
        history: list[Json] = [{"role": "user", "content": "Hello"}, *echoed]
        again = await respond(served, history, store=False)
        assert find_request(again).id == find_request(first).id, "nothing new was said"
        answer = await respond(served, [*history, THANKS], store=False)
        assert answer.output_text == "Never mind."
    assert added == []
    assert "the user went on" in list_exchange(served.model.requests[-1].history)[-1]


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


async def test_the_reason_of_an_approval_counts_where_one_is_required() -> None:
    @tool(approval="ask", approval_reason=True)
    def pay(item: str) -> str:
        """Pay for an item."""
        return f"paid {item}"

    async with serve_script([call("pay", item="milk"), say("Done.")], [pay]) as served:
        first = await respond(served)
        silent = await respond(served, decide(find_request(first)), previous_response_id=first.id)
        assert find_request(silent).id == find_request(first).id
        done = await respond(served, decide(find_request(first), reason="invoice 7"), previous_response_id=first.id)
        assert done.output_text == "Done."


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
        for field, value in (
            ("server_url", "https://evil.example/mcp"),
            ("server_url", f"{served.url}.evil.example"),
            ("connector_id", "connector_gmail"),
        ):
            with pytest.raises(APIStatusError, match="is another server") as refused:
                await respond(served, tool={**MCP, field: value})
            assert (refused.value.status_code, refused.value.param) == (400, f"tools.0.{field}")
        assert (await respond(served, tool={**MCP, "server_url": f"{served.url}/mcp"})).output_text == "Hi."


async def test_a_waiting_response_that_is_read_again_has_the_request_for_the_approval() -> None:
    async with serve_script(SCRIPT, [order]) as served:
        first = await respond(served)
        again = await served.client.responses.retrieve(first.id)
        assert find_request(again).id == find_request(first).id
        await respond(served, decide(find_request(first)), previous_response_id=first.id)
        last = await served.client.responses.retrieve(first.id)
    assert last.output_text.endswith("Done.")
    assert not any(item.type == "mcp_approval_request" for item in last.output)


async def test_a_response_in_a_conversation_keeps_its_request_for_an_approval() -> None:
    async with serve_script([say("Hello."), *SCRIPT[:1]], [order]) as served:
        first = await respond(served)
        second = await respond(served, "Order milk", previous_response_id=first.id)
        again = await served.client.responses.retrieve(second.id)
    assert find_request(again).id == find_request(second).id


@pytest.mark.parametrize("streamed", [False, True])
async def test_decisions_that_are_sent_at_the_same_time_have_one_effect(streamed: bool) -> None:
    async with serve_script(SCRIPT, [order]) as served:
        first = await respond(served)
        asked: Json = {"previous_response_id": first.id, "stream": streamed}
        answers = await asyncio.gather(*(respond(served, decide(find_request(first)), **asked) for _ in range(4)))
        if streamed:
            answers = [[event async for event in answer][-1].response for answer in answers]
    assert {answer.output_text for answer in answers} == {"One moment.Done."}
    assert added == ["ordered milk"]


async def test_a_message_after_a_decision_is_answered_after_the_decided_run() -> None:
    async with serve_script([*SCRIPT, say("You are welcome.")], [order]) as served:
        first = await respond(served)
        items = [*decide(find_request(first)), THANKS]
        answer = await respond(served, items, previous_response_id=first.id)
        again = await respond(served, items, previous_response_id=first.id, extra_headers=RETRY)
    assert (answer.output_text, again.id, added) == ("You are welcome.", answer.id, ["ordered milk"])
    history = served.model.requests[-1].history
    assert list_exchange(history) == ["order['milk']", "order=ordered milk"]
    texts = [item.text for item in history if isinstance(item, ModelText | UserMessage)]
    assert texts == ["Hello", "One moment.", "Done.", "Thanks"]


async def test_what_cannot_be_sent_beside_a_decision_is_refused_and_decides_nothing() -> None:
    async with serve_script([*SCRIPT[:1], *SCRIPT[:1]], [order]) as served:
        first, other = await respond(served), await respond(served, "Another")
        decision = decide(find_request(first))
        result: Json = {"type": "function_call_output", "call_id": "call_1", "output": "x"}
        echoed = [item.model_dump(exclude_none=True) for item in first.output]
        after: Json = {"previous_response_id": first.id}
        cases: list[tuple[list[Json], Json, str]] = [
            ([THANKS, *decision], after, "send the decisions first"),
            ([*decision, result], after, "send the decisions by themselves"),
            ([*decision, THANKS], {"previous_response_id": other.id}, "of another response"),
            ([*decision, {"role": "robot", "content": "x"}], after, "is none of user"),
            ([THANKS, *echoed, *decision, THANKS], {}, "end the input with the decision"),
        ]
        for items, fields, words in cases:
            with pytest.raises(APIStatusError, match=words) as refused:
                await respond(served, items, **fields)
            assert refused.value.status_code == 400
        assert find_request(await served.client.responses.retrieve(first.id))
    assert added == []


async def test_a_decision_about_another_users_call_has_no_effect() -> None:
    keys = (build_key("ann"), build_key("bob"), build_key("op", "operator"), build_key("boss", "approver"))
    added.clear()
    script = [*SCRIPT[:1], say("Hi."), *SCRIPT[1:]]
    async with build_yard(script, tools=[as_tool(order)], keys=keys) as yard, connect_client(yard) as client:

        async def ask(user: str, items: object, **fields: object) -> tuple[int, Json]:
            body = {"input": items, "tools": [MCP], **fields}
            status, content, _ = await client.ask("POST", "/v1/responses", body, x_api_key=user)
            return status, content

        _, first = await ask("ann", "Hello")
        (request,) = [item for item in first["output"] if item["type"] == "mcp_approval_request"]
        decision = {"type": "mcp_approval_response", "approval_request_id": request["id"], "approve": True}
        status, refused = await ask("bob", [decision])
        assert (status, "decides nothing" in refused["error"]["message"]) == (400, True)
        status, refused = await ask("bob", [decision], previous_response_id=first["id"])
        assert (status, added) == (400, [])
        status, answer = await ask("bob", [THANKS, decision])
        assert (status, answer["output"][0]["content"][0]["text"]) == (200, "Hi.")
        for user in ("op", "boss"):
            status, refused = await ask(user, [decision])
            assert (status, refused["error"]["code"]) == (403, "permission_denied")
            assert "/approve" in refused["error"]["message"]
        assert added == []
        status, _ = await ask("ann", [decision], previous_response_id=first["id"])
    assert (status, added) == (200, ["ordered milk"])
