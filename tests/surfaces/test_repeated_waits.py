"""A request that is sent again with its key, once its run has waited: only a wait that is still on ends the answer."""

import asyncio
from contextlib import aclosing

import pytest

from surfaces.api_client import Json, build_yard, open_api_client
from toolyard import RunWaiting, tool
from toolyard.testing import call, say


@tool(approval="ask")
async def order(item: str) -> str:
    """Order an item."""
    return f"ordered {item}"


@tool
async def charge(amount: int) -> str:
    """Charge an amount."""
    return f"charged {amount}"


TOOLS = [order, charge]
STREAM = "text/event-stream"


async def read_stream(http: Json, path: str, body: object) -> list[Json]:
    return [event async for _, event in http.stream_post(path, body, idempotency_key="k", accept=STREAM)]


async def approve_open_call(http: Json, path: str) -> None:
    calls = [message["tool_calls"] for message in await http.list_messages(path) if message["tool_calls"]]
    await http.post(f"{path}/calls/{calls[-1][0]['id']}/approve", {})


@pytest.mark.parametrize("surface", ["chat", "respond"])
async def test_a_repeated_stream_goes_through_a_wait_that_is_over_to_the_end_of_the_run(surface: str) -> None:
    async with open_api_client([call("order", item="milk"), say("done")], tools=TOOLS) as http:
        path = await http.create_conversation()
        url, body = f"{path}/chat", {"content": "milk"}
        if surface == "respond":
            url, body = "/ai/respond", {"prompt": "milk", "conversation_id": path.rsplit("/", 1)[1]}
        assert (await read_stream(http, url, body))[-1]["ending"] == "waiting"
        await approve_open_call(http, path)
        await http.read_until_done(path)
        endings = [event["ending"] for event in await read_stream(http, url, body) if event["type"] == "done"]
        assert endings == ["done"]


async def test_a_repeated_request_names_the_call_that_waits_now() -> None:
    script = [call("order", item="milk"), call("order", item="bread")]
    async with open_api_client(script, tools=TOOLS) as http:
        path = await http.create_conversation()
        url, body = f"{path}/chat", {"content": "milk and bread"}
        await http.send_request("POST", url, body, idempotency_key="k")
        await approve_open_call(http, path)
        await read_until_second_wait(http, path)
        _, answer, _ = await http.send_request("POST", url, body, idempotency_key="k")
        assert [waiting["arguments"] for waiting in answer["waiting"]] == [{"item": "bread"}]
        events = await read_stream(http, url, body)
        assert [event["type"] for event in events].count("done") == 1 and events[-1]["ending"] == "waiting"


async def read_until_second_wait(http: Json, path: str) -> None:
    waits = 0
    async with aclosing(http.stream_events(f"{path}/events", "0")) as events:
        async for _, event in events:
            waits += event["type"] == "done"
            if waits == 2:
                return


async def test_a_repeated_request_that_waits_says_so_also_if_other_messages_are_queued_behind_it() -> None:
    async with open_api_client([call("order", item="milk")], tools=TOOLS) as http:
        path = await http.create_conversation()
        url, body = f"{path}/chat", {"content": "milk"}
        await http.send_request("POST", url, body, idempotency_key="k")
        await http.post(url, {"content": "and?"}, expect=202)
        assert (await read_stream(http, url, body))[-1]["ending"] == "waiting"
        status, answer, _ = await http.send_request("POST", url, body, idempotency_key="k")
        assert (status, answer["status"]) == (202, "waiting")


async def test_a_chat_that_has_ended_keeps_its_answer_while_another_run_waits() -> None:
    async with open_api_client([say("one"), call("order", item="milk")], tools=TOOLS) as http:
        path = await http.create_conversation()
        _, first, _ = await http.send_request("POST", f"{path}/chat", {"content": "a"}, idempotency_key="k")
        await http.post(f"{path}/chat", {"content": "milk"}, expect=202)
        status, second, _ = await http.send_request("POST", f"{path}/chat", {"content": "a"}, idempotency_key="k")
        assert (status, second) == (200, first)


async def test_several_may_read_a_run_at_the_same_time() -> None:
    async with build_yard([call("charge", amount=1), say("done")], tools=TOOLS) as yard:
        run = yard.run("pay")

        async def read_events() -> int:
            return len([event async for event in run])

        first, second, *counts = await asyncio.gather(run.result(), run.result(), read_events(), read_events())
        assert (first.text, second.text) == ("done", "done") and counts[0] == counts[1]


async def test_the_result_of_a_run_names_the_call_that_waits_now() -> None:
    script = [call("order", item="milk"), call("order", item="bread"), say("done")]
    async with build_yard(script, tools=TOOLS) as yard:
        run = yard.run("milk and bread")
        seen: list[str] = []
        for _ in range(2):
            with pytest.raises(RunWaiting) as waiting:
                await run.result()
            seen += waiting.value.waiting_for
            await yard.approve(run.conversation, waiting.value.waiting_for[0])
        assert len(set(seen)) == 2 and (await run.result()).text == "done"


async def test_a_chat_without_content_answers_the_result_of_a_call_by_hand() -> None:
    async with open_api_client([say("hello")], tools=TOOLS) as http:
        path = await http.create_conversation()
        await http.post(f"{path}/calls", {"tool": "charge", "arguments": {"amount": 1}}, expect=202)
        await http.read_until_done(path)
        answer = await http.post(f"{path}/chat", {"content": ""})
        assert answer["user_message"]["role"] == "tool" and answer["assistant_message"]["content"] == "hello"


async def test_a_repeated_chat_whose_branch_was_left_says_how_many_messages_it_had() -> None:
    async with open_api_client([say("one"), say("two")], tools=TOOLS) as http:
        path = await http.create_conversation()
        await http.post(f"{path}/chat", {"content": "a"})
        _, first, _ = await http.send_request("POST", f"{path}/chat", {"content": "b"}, idempotency_key="k")
        await http.post(f"{path}/rewind", {"to": ""})
        _, second, _ = await http.send_request("POST", f"{path}/chat", {"content": "b"}, idempotency_key="k")
        assert first == second and first["messages_in_context"] == 3
