"""A `tools/call` on /mcp that is sent again with its Idempotency-Key: it depends on its key alone."""

import json

import pytest

from surfaces.api_client import Json, build_yard
from surfaces.mcp_host import Host, HostAnswer, open_host
from toolyard import tool
from toolyard.surfaces.http.idempotency import build_request_key
from toolyard.surfaces.mcp.calls import ToolCallHandler, UndecidedCalls
from toolyard.surfaces.mcp.client import ClientState, Peer
from toolyard.surfaces.mcp.jsonrpc import RpcRequest

effects: list[str] = []


@tool(approval="ask")
async def order(item: str) -> str:
    """Order an item."""
    effects.append(f"ordered {item}")
    return "ordered"


@tool
async def charge(amount: int) -> str:
    """Charge an amount."""
    effects.append(f"charged {amount}")
    return "charged"


@pytest.fixture(autouse=True)
def start_without_effects() -> None:
    effects.clear()


async def call_tool(host: Host, key: str, name: str, **arguments: Json) -> HostAnswer:
    body, headers = host.build_modern_request("tools/call", {"name": name, "arguments": arguments})
    return await host.send("POST", body, idempotency_key=key, **headers)


async def test_a_call_that_waits_is_found_again_by_its_own_key_only_and_runs_once() -> None:
    async with open_host(tools=[order]) as (host, yard):
        problem = json.loads((await call_tool(host, "first", "order", item="milk")).text)["details"]
        caller = yard.access.authenticate({})
        await yard.approve(problem["conversation_id"], problem["call_id"], caller=caller)
        other = json.loads((await call_tool(host, "other", "order", item="milk")).text)["details"]
        assert other["call_id"] != problem["call_id"]
        assert (await call_tool(host, "first", "order", item="milk")).text == "ordered"
        assert effects == ["ordered milk"]


async def test_a_repeated_call_says_so() -> None:
    async with open_host(tools=[charge]) as (host, _):
        answers = [await call_tool(host, "k", "charge", amount=1) for _ in range(2)]
        assert [answer.headers.get("idempotency-replayed") for answer in answers] == [None, "true"]
        assert answers[0].text == answers[1].text and effects == ["charged 1"]


async def test_a_legacy_client_has_no_open_call_left_after_a_repeated_one() -> None:
    async with build_yard([], tools=[charge]) as yard:
        caller, client_state = yard.access.authenticate({}), ClientState()
        key = build_request_key("k", caller, "POST", "/mcp", b"")
        peer = Peer(caller=caller, correlation_id="trace", client_state=client_state, request_key=key)
        request = RpcRequest(id=1, method="tools/call", params={"name": "charge", "arguments": {"amount": 1}})
        for _ in range(2):
            handler = ToolCallHandler(yard.service, UndecidedCalls(), request, peer)
            async for _message in handler.stream_messages():
                assert len(client_state.open_calls) == 1
            assert not client_state.open_calls
        assert effects == ["charged 1"]
