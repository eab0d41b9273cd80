"""Results, decisions and retries that a client of OpenAI sends to two replicas at once take effect once."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from postgres import create_database
from replicas.pair import Replica, open_replicas
from surfaces.api_client import Json
from surfaces.openai.clients import HELLO, define_tool
from toolyard import ModelRequest, tool
from toolyard.core.items import Result, UserMessage
from toolyard.testing import Script, Turn, call, fail, say

PHOTO = define_tool("take_photo", of={"type": "string"})
charges: list[int] = []


@tool
def charge(amount: int) -> str:
    """Charge an amount."""
    charges.append(amount)
    return "charged"


def choose_turn(request: ModelRequest) -> Turn:
    """Ask for a photo, then charge, then end."""
    results = sum(isinstance(item, Result) for item in request.history)
    return (call("take_photo", of="me"), call("charge", amount=1), say("done"))[results]


@tool(approval="always")
def wire(amount: int) -> str:
    """Wire an amount."""
    charges.append(amount)
    return "wired"


def choose_wire_turn(request: ModelRequest) -> Turn:
    """Wire an amount for the first message, and charge one for the second."""
    results = sum(isinstance(item, Result) for item in request.history)
    messages = sum(isinstance(item, UserMessage) for item in request.history)
    if messages == 1:
        return (call("wire", amount=1), say("wired"))[results]
    return (call("charge", amount=2), say("done"))[results - 1]


def choose_charge_turn(request: ModelRequest) -> Turn:
    """Charge, then end."""
    return say("done") if isinstance(request.history[-1], Result) else call("charge", amount=1)


async def post(replica: Replica, path: str, body: object, **headers: str) -> Json:
    status, answer, _ = await replica.http.send_request("POST", path, body, **headers)
    assert status == 200, answer
    return answer


@asynccontextmanager
async def open_pair(kind: str, script: Script = choose_turn) -> AsyncGenerator[list[Replica]]:
    charges.clear()
    if kind == "memory":
        async with open_replicas(script=script, tools=[charge, wire]) as replicas:
            yield replicas
        return
    async with create_database() as url, open_replicas(2, url, script=script, tools=[charge, wire]) as replicas:
        yield replicas


@pytest.mark.parametrize("kind", ["memory", "postgres"])
async def test_a_delivery_in_messages_starts_one_run(kind: str) -> None:
    async with open_pair(kind) as replicas:
        body: Json = {"messages": HELLO, "tools": [PHOTO]}
        waiting: Json = await post(replicas[0], "/v1/chat/completions", body)
        message = waiting["choices"][0]["message"]
        result = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "a photo"}
        body = {"messages": [*HELLO, message, result], "tools": [PHOTO]}
        answers = await asyncio.gather(
            *(post(replica, "/v1/chat/completions", body) for _ in range(3) for replica in replicas)
        )
    assert {answer["choices"][0]["message"]["content"] for answer in answers} == {"done"}
    assert (len({answer["id"] for answer in answers}), charges) == (1, [1])


@pytest.mark.parametrize("kind", ["memory", "postgres"])
async def test_a_delivery_to_a_response_starts_one_run(kind: str) -> None:
    tools = [{"type": "function", **PHOTO["function"]}]
    async with open_pair(kind) as replicas:
        waiting: Json = await post(replicas[0], "/v1/responses", {"input": "Hello", "tools": tools})
        (item,) = waiting["output"]
        output = {"type": "function_call_output", "call_id": item["call_id"], "output": "a photo"}
        body: Json = {"input": [output], "tools": tools, "previous_response_id": waiting["id"]}
        answers = await asyncio.gather(
            *(post(replica, "/v1/responses", body) for _ in range(3) for replica in replicas)
        )
    assert {answer["status"] for answer in answers} == {"completed"}
    assert (len({answer["id"] for answer in answers}), charges) == (1, [1])


@pytest.mark.parametrize("kind", ["memory", "postgres"])
async def test_a_message_after_a_decision_starts_one_run(kind: str) -> None:
    tools = [{"type": "mcp", "server_label": "shop"}]
    async with open_pair(kind, choose_wire_turn) as replicas:
        waiting: Json = await post(replicas[0], "/v1/responses", {"input": "Hello", "tools": tools})
        request_id = waiting["output"][-1]["id"]
        decision = {"type": "mcp_approval_response", "approval_request_id": request_id, "approve": True}
        message = {"role": "user", "content": "Thanks"}
        body: Json = {"input": [decision, message], "tools": tools, "previous_response_id": waiting["id"]}
        answers = await asyncio.gather(
            *(post(replica, "/v1/responses", body) for _ in range(3) for replica in replicas)
        )
    assert {answer["status"] for answer in answers} == {"completed"}
    assert (len({answer["id"] for answer in answers}), charges) == (1, [1, 2])


@pytest.mark.parametrize("kind", ["memory", "postgres"])
async def test_retries_of_a_request_that_was_lost_start_one_run(kind: str) -> None:
    retry = {"x-stainless-retry-count": "1"}
    async with open_pair(kind, choose_charge_turn) as replicas:
        answers = await asyncio.gather(
            *(post(replica, "/v1/responses", {"input": "Hello"}, **retry) for _ in range(3) for replica in replicas)
        )
    assert (len({answer["id"] for answer in answers}), charges) == (1, [1])


@pytest.mark.parametrize("kind", ["memory", "postgres"])
async def test_retries_of_a_request_whose_run_failed_start_one_run(kind: str) -> None:
    failures = [fail("busy", "rate_limited")]

    def choose(request: ModelRequest) -> Turn:
        return failures.pop() if failures else choose_charge_turn(request)

    async with open_pair(kind, choose) as replicas:
        body = {"input": "Hello"}
        status, _, _ = await replicas[0].http.send_request("POST", "/v1/responses", body)
        retry = {"x-stainless-retry-count": "1"}
        answers = await asyncio.gather(
            *(post(replica, "/v1/responses", body, **retry) for _ in range(3) for replica in replicas)
        )
    assert (status, len({answer["id"] for answer in answers}), charges) == (429, 1, [1])


@pytest.mark.parametrize("kind", ["memory", "postgres"])
async def test_a_retry_joins_the_run_that_another_replica_has_started_meanwhile(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = [fail("busy", "rate_limited")]

    def choose(request: ModelRequest) -> Turn:
        return failures.pop() if failures else choose_charge_turn(request)

    async with open_pair(kind, choose) as replicas:
        body, retry = {"input": "Hello"}, {"x-stainless-retry-count": "1"}
        status, _, _ = await replicas[0].http.send_request("POST", "/v1/responses", body)
        runs = replicas[1].yard.service.runs
        repeat, earlier = runs.repeat, list[Json]()

        async def repeat_late(*arguments: Any) -> Any:
            earlier.append(await post(replicas[0], "/v1/responses", body, **retry))
            return await repeat(*arguments)

        monkeypatch.setattr(runs, "repeat", repeat_late)
        joined = await post(replicas[1], "/v1/responses", body, **retry)
    assert (status, [joined["id"]], charges) == (429, [answer["id"] for answer in earlier], [1])


async def test_a_delivery_is_joined_that_comes_between_the_look_and_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    tools = [{"type": "function", **PHOTO["function"]}]
    async with open_pair("memory") as replicas:
        waiting: Json = await post(replicas[0], "/v1/responses", {"input": "Hello", "tools": tools})
        (item,) = waiting["output"]
        output = {"type": "function_call_output", "call_id": item["call_id"], "output": "a photo"}
        body: Json = {"input": [output], "tools": tools, "previous_response_id": waiting["id"]}
        late, encode = replicas[1].yard.service, replicas[1].yard.service.runs.encode_results
        earlier: list[Json] = []

        async def encode_late(*arguments: Any) -> Any:
            earlier.append(await post(replicas[0], "/v1/responses", body))
            return await encode(*arguments)

        monkeypatch.setattr(late.runs, "encode_results", encode_late)
        joined = await post(replicas[1], "/v1/responses", body)
    assert ([joined["id"]], joined["status"]) == ([answer["id"] for answer in earlier], "completed")
    assert charges == [1]
