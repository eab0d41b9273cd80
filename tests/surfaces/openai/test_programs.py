"""OpenAI's own client and programs: what waits inside one is asked as any other call, and the answer goes on."""

from surfaces.api_client import Json
from surfaces.openai.clients import (
    HELLO,
    Served,
    add_to_groceries,
    added,
    join_content,
    list_exchange,
    order,
    serve_script,
    to_param,
)
from toolyard.testing import call, say

CODE = "a = await add_to_groceries(item='eggs')\nb = await order(item='milk')\nc = await order(item='tea')\n[a, b, c]"
SCRIPT = [call("run_code", code=CODE), say("Done."), say("Welcome.")]
MCP: Json = {"type": "mcp", "server_label": "shop"}
THANKS: Json = {"role": "user", "content": "Thanks"}
EFFECTS = ["eggs", "ordered milk", "ordered tea"]
EXCHANGE = [f"run_code[{CODE!r}]", 'run_code={"value":["added eggs","ordered milk","ordered tea"]}']


async def test_a_chat_names_each_call_that_waits_and_goes_on_after_the_last() -> None:
    async with serve_script(SCRIPT, [add_to_groceries, order], code=True) as served:
        decided: list[str] = []
        messages = HELLO
        while len(decided) < 2:
            answer = await served.complete(messages)
            about: Json = answer.model_extra["toolyard"]
            (waiting,) = about["waiting"]
            assert waiting["line"] == len(decided) + 2 and waiting["call_id"].startswith(f"{waiting['parent']}.")
            assert "`order` waits for an approval" in (answer.choices[0].message.content or "")
            assert waiting["call_id"] not in decided
            decided.append(waiting["call_id"])
            messages = [*HELLO, to_param(answer)]
            await served.yard.approve(about["conversation_id"], waiting["call_id"])
        streamed = await served.stream([*messages, THANKS])
        assert join_content(streamed) == "Welcome."
    assert added == EFFECTS
    assert list_exchange(served.model.requests[-1].history) == EXCHANGE


async def _respond(served: Served, input: object = "Hello", **fields: object) -> Json:
    return await served.client.responses.create(model="default", input=input, tools=[MCP], **fields)


def _decide(response: Json, approve: bool = True) -> Json:
    (request,) = [item for item in response.output if item.type == "mcp_approval_request"]
    return {"type": "mcp_approval_response", "approval_request_id": request.id, "approve": approve}


async def test_responses_ask_by_items_and_go_on_by_them() -> None:
    async with serve_script(SCRIPT[:2], [add_to_groceries, order], code=True) as served:
        first = await _respond(served)
        second = await _respond(served, [_decide(first)], previous_response_id=first.id)
        last = await _respond(served, [_decide(second)], previous_response_id=second.id)
        assert last.output_text == "Done."
    assert added == EFFECTS
    assert list_exchange(served.model.requests[-1].history) == EXCHANGE


async def test_a_stateless_client_of_responses_sends_all_items_back() -> None:
    items: list[Json] = [{"role": "user", "content": "Hello"}]
    async with serve_script(SCRIPT, [add_to_groceries, order], code=True) as served:
        answer = await _respond(served, items, store=False)
        for _ in range(2):
            items += [*(item.model_dump(exclude_none=True) for item in answer.output), _decide(answer)]
            answer = await _respond(served, items, store=False)
        assert answer.output_text == "Done."
        items += [*(item.model_dump(exclude_none=True) for item in answer.output), THANKS]
        assert (await _respond(served, items, store=False)).output_text == "Welcome."
    assert added == EFFECTS
    assert list_exchange(served.model.requests[-1].history) == EXCHANGE


async def test_a_denial_over_responses_raises_in_the_program() -> None:
    code = "try:\n    x = await order(item='milk')\nexcept PermissionError:\n    x = 'kept'\nx"
    async with serve_script([call("run_code", code=code), say("Done.")], [order], code=True) as served:
        first = await _respond(served)
        stream = await _respond(served, [_decide(first, False)], previous_response_id=first.id, stream=True)
        events = [event async for event in stream]
        assert events[-1].response.output_text == "Done."
    assert added == []
    assert list_exchange(served.model.requests[-1].history)[-1] == 'run_code={"value":"kept"}'
