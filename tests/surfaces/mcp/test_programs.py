"""`run_code` at `/mcp`: a host sends a program, and is asked about the calls in it as about any other call."""

import json
from contextlib import aclosing

import pytest

from surfaces.mcp_host import HostAnswer, Json, open_host
from toolyard import tool
from toolyard.surfaces.mcp.calls import MAX_ROUNDS

FORM: Json = {"elicitation": {}}
CODE = """
import asyncio
asked = [delete_order(number=7), delete_order(number=8)]
sorted(await asyncio.gather(*asked)) + [await delete_order(number=9)]
"""
GONE = {"value": ["order 7 is gone", "order 8 is gone", "order 9 is gone"]}


@tool(approval="ask")
def delete_order(number: int) -> str:
    """Delete an order for good."""
    return f"order {number} is gone"


async def test_a_host_is_offered_programs_only_where_they_are_enabled() -> None:
    for enabled in (True, False):
        async with open_host(tools=[delete_order], code=enabled) as (host, _):
            listed = [tool["name"] for tool in (await host.request_modern("tools/list")).result["tools"]]
            assert ("run_code" in listed) is enabled


async def test_a_modern_host_comes_again_with_each_decision() -> None:
    async with open_host(tools=[delete_order], code=True) as (host, _):
        answer = (await host.call_tool("run_code", {"code": CODE}, capabilities=FORM)).result
        asked: list[str] = []
        while answer["resultType"] == "input_required":
            ((name, request),) = answer["inputRequests"].items()
            asked.append(request["params"]["message"])
            responses = {name: {"action": "accept", "content": {"approve": True}}}
            again = {"requestState": answer["requestState"], "inputResponses": responses, "capabilities": FORM}
            answer = (await host.call_tool("run_code", {"code": CODE}, **again)).result
        assert answer["structuredContent"] == GONE
        assert [message.splitlines()[0] for message in asked] == [
            f"Line {line} of the program: may the tool delete_order run with these arguments?" for line in (3, 3, 4)
        ]
        numbers = zip((7, 8, 9), asked, strict=True)
        assert all(f'"number": {number}' in message for number, message in numbers)


async def test_a_denied_call_raises_in_the_program_of_a_host() -> None:
    code = "try:\n    x = await delete_order(number=7)\nexcept PermissionError:\n    x = 'kept'\nx"
    async with open_host(tools=[delete_order], code=True) as (host, _):
        answer = (await host.call_tool("run_code", {"code": code}, capabilities=FORM)).result
        (name,) = answer["inputRequests"]
        again = {"requestState": answer["requestState"], "inputResponses": {name: {"action": "decline"}}}
        answer = (await host.call_tool("run_code", {"code": code}, capabilities=FORM, **again)).result
        assert answer["structuredContent"] == {"value": "kept"}


async def test_a_state_of_a_call_inside_leads_to_no_other_program() -> None:
    async with open_host(tools=[delete_order], code=True) as (host, _):
        answer = (await host.call_tool("run_code", {"code": CODE}, capabilities=FORM)).result
        yes = {name: {"action": "accept", "content": {"approve": True}} for name in answer["inputRequests"]}
        again = {"requestState": answer["requestState"], "inputResponses": yes, "capabilities": FORM}
        for name, arguments in (("run_code", {"code": f"{CODE} "}), ("delete_order", {"number": 7})):
            refused = await host.call_tool(name, arguments, **again)
            assert (refused.status, refused.error["code"]) == (400, -32602)


async def test_a_legacy_host_is_asked_on_the_stream_about_each_call_however_many_there_are() -> None:
    numbers = range(MAX_ROUNDS + 2)
    code = f"[await delete_order(number=number) for number in range({len(numbers)})]"
    yes = {"action": "accept", "content": {"approve": True}}
    async with open_host(tools=[delete_order], code=True) as (host, _), host.open_session(elicitation={}) as client:
        body = client.build_request("tools/call", {"name": "run_code", "arguments": {"code": code}})
        questions, messages = list[str](), list[Json]()
        async with client.open_request("POST", body) as (_, _, stream), aclosing(stream):
            async for message in stream:
                messages.append(message)
                if message.get("method") == "elicitation/create":
                    questions.append(message["params"]["message"])
                    assert (await client.send_message(id=message["id"], result=yes)).status == 202
        assert messages[-1]["result"]["structuredContent"] == {"value": [f"order {n} is gone" for n in numbers]}
        assert len(questions) == len(numbers)


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_host_that_cannot_be_asked_is_told_where_and_repeats_the_program_for_its_result(era: str) -> None:
    async with open_host(tools=[delete_order], code=True) as (host, yard), host.open_session() as client:

        async def run() -> HostAnswer:
            if era == "modern":
                return await host.call_tool("run_code", {"code": CODE})
            return await client.ask("tools/call", {"name": "run_code", "arguments": {"code": CODE}})

        decided: list[str] = []
        while (answer := await run()).result["isError"]:
            error = json.loads(answer.text)
            assert error["error_type"] == "approval_required", error
            assert "then call run_code again" in error["error"]
            conversation, call_id = error["details"]["conversation_id"], error["details"]["call_id"]
            assert f"/conversations/{conversation}/calls/{call_id}/approve" in error["error"]
            decided.append(call_id)
            await yard.approve(conversation, call_id, caller=yard.access.authenticate({}))
        assert answer.result["structuredContent"] == GONE
        assert len(set(decided)) == 3
