"""Idempotency-Key: the same request twice takes effect once and gets the same answer, for each caller by themselves."""

import asyncio
from contextlib import aclosing
from pathlib import Path

import pytest

from support import wait_until
from surfaces.api_client import Json, build_key, build_yard, connect_api_client, open_api_client
from toolyard import tool
from toolyard.core.conversation.events import REQUEST_KEY_S
from toolyard.testing import call, say
from venues.mcp.plain import PlainServer

effects: list[str] = []
release = asyncio.Event()


@tool
async def charge(amount: int) -> str:
    """Have an effect."""
    effects.append(f"charged {amount}")
    return f"charged {amount}"


@tool
async def wait_for_release() -> str:
    """Wait until the test goes on."""
    effects.append("entered")
    await release.wait()
    return "released"


@tool(approval="ask")
async def order(item: str) -> str:
    """Order an item."""
    effects.append(f"ordered {item}")
    return "ordered"


TOOLS = [charge, wait_for_release, order]
HISTORY = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]


@pytest.fixture(autouse=True)
def start_without_effects() -> None:
    effects.clear()
    release.clear()


async def post_twice(http: Json, path: str, body: object, expect: int = 200) -> Json:
    """Post a request twice with one key, check that the second answer is the first one, and return it."""
    status, first, headers = await http.send_request("POST", path, body, idempotency_key="k")
    assert status == expect and "idempotency-replayed" not in headers, first
    status, second, headers = await http.send_request("POST", path, body, idempotency_key="k")
    assert (status, headers.get("idempotency-replayed")) == (expect, "true"), second
    return first, second


async def test_a_chat_that_is_sent_again_gets_the_same_answer_without_a_second_run() -> None:
    async with open_api_client([call("charge", amount=1), say("done")], tools=TOOLS) as http:
        path = await http.create_conversation()
        first, second = await post_twice(http, f"{path}/chat", {"content": "pay"})
        assert first == second and first["assistant_message"]["content"] == "done"
        assert effects == ["charged 1"]
        assert len(await http.list_messages(path)) == 4


async def test_a_stream_that_is_sent_again_is_the_same_and_one_that_still_runs_is_joined() -> None:
    async with open_api_client([call("wait_for_release"), say("do", "ne")], tools=TOOLS) as http:
        path = await http.create_conversation()

        async def read_stream() -> list[tuple[str, Json]]:
            stream = http.stream_post(
                f"{path}/chat", {"content": "go"}, idempotency_key="k", accept="text/event-stream"
            )
            return [event async for event in stream]

        reading = [asyncio.create_task(read_stream()) for _ in range(3)]
        await wait_until(lambda: bool(effects))
        reading.append(asyncio.create_task(read_stream()))
        release.set()
        streams = [*await asyncio.gather(*reading), await read_stream()]
        texts = [
            "".join(event["content"] for _, event in events if event["type"] == "text.delta") for events in streams
        ]
        assert texts == ["done"] * 5
        without_text = [[event for event in events if event[1]["type"] != "text.delta"] for events in streams]
        assert without_text == [without_text[0]] * 5
        assert effects == ["entered"]


async def test_a_prompt_with_its_history_is_kept_for_its_key_and_goes_with_it() -> None:
    async with build_yard([say("done")]) as yard, connect_api_client(yard) as http:
        body = {"prompt": "go", "history": HISTORY}

        async def respond() -> list[Json]:
            return [event async for _, event in http.stream_post("/ai/respond", body, idempotency_key="k")]

        assert await respond() == await respond()
        conversation = (await respond())[-1]["conversation_id"]
        assert (await yard.service.conversations.view(conversation)).settings.ephemeral
        await http.get(f"/conversations/{conversation}")
    assert REQUEST_KEY_S == 24 * 3600


async def test_another_body_with_the_same_key_is_refused_and_another_caller_or_path_has_keys_of_its_own() -> None:
    script = [say("one"), say("two"), say("three")]
    async with open_api_client(script, keys=[build_key("ann"), build_key("bob")]) as everyone:
        ann, bob = everyone.with_key("ann"), everyone.with_key("bob")
        paths = [await ann.create_conversation(), await ann.create_conversation(), await bob.create_conversation()]
        for http, path in ((ann, paths[0]), (ann, paths[1]), (bob, paths[2])):
            await post_twice(http, f"{path}/chat", {"content": "go"})
        status, answer, _ = await ann.send_request("POST", f"{paths[0]}/chat", {"content": "no"}, idempotency_key="k")
        assert (status, answer["error_type"]) == (422, "validation_error")
        assert "another body" in answer["error"]
        status, answer, _ = await bob.send_request("POST", f"{paths[0]}/chat", {"content": "go"}, idempotency_key="k")
        assert status == 404


@pytest.mark.parametrize("key", ["", "x" * 256, "a b", "ä"])
async def test_a_malformed_key_is_refused_in_words(key: str) -> None:
    async with open_api_client([]) as http:
        status, answer, _ = await http.send_request("POST", "/conversations", {"title": "t"}, idempotency_key=key)
        assert (status, answer["error_type"]) == (422, "validation_error")
        assert "visible ASCII" in answer["error"]


async def test_a_request_that_failed_before_it_took_effect_is_not_remembered() -> None:
    async with open_api_client([say("done")]) as http:
        path = await http.create_conversation()
        body = {"content": "go", "tool_choice": "nobody"}
        for _ in range(2):
            status, _, _ = await http.send_request("POST", f"{path}/chat", body, idempotency_key="k")
            assert status == 422
        status, _, headers = await http.send_request("POST", f"{path}/chat", {"content": "go"}, idempotency_key="k")
        assert status == 200 and "idempotency-replayed" not in headers


async def test_what_a_request_creates_is_created_once() -> None:
    async with open_api_client([say("one")], tools=TOOLS) as http:
        created, again = await post_twice(http, "/conversations", {"title": "t"}, expect=201)
        assert created == again
        path = f"/conversations/{created['conversation']['id']}"
        added, again = await post_twice(http, f"{path}/messages", {"role": "user", "content": "a note"}, expect=201)
        assert added == again and len(await http.list_messages(path)) == 1
        called, again = await post_twice(
            http, f"{path}/calls", {"tool": "charge", "arguments": {"amount": 2}}, expect=202
        )
        assert called == again
        await http.read_until_done(path)
        assert effects == ["charged 2"]
        note = {"descriptive_name": "shop", "content": "open"}
        await http.post(f"{path}/context", note, expect=201)
        first, again = await post_twice(http, f"{path}/context", note, expect=201)
        assert first == again and (await http.get(f"{path}/context"))["count"] == 2
        forked, again = await post_twice(http, f"{path}/fork", {}, expect=201)
        assert forked["conversation"]["id"] == again["conversation"]["id"]
        await post_twice(http, f"{path}/rewind", {"to": added["message"]["id"]})
        await http.send_request("POST", f"{path}/chat", {"content": ""}, idempotency_key="answer")
        _, answer, _ = await http.send_request("POST", f"{path}/chat", {"content": ""}, idempotency_key="answer")
        assert answer["assistant_message"]["content"] == "one"


async def test_a_request_that_waits_is_joined_until_it_is_decided() -> None:
    async with open_api_client([call("order", item="milk"), say("done")], tools=TOOLS) as http:
        path = await http.create_conversation()
        first, second = await post_twice(http, f"{path}/chat", {"content": "milk"}, expect=202)
        assert first["waiting"] == second["waiting"]
        await http.post(f"{path}/calls/{first['waiting'][0]['call_id']}/approve", {})
        await http.read_until_done(path)
        status, answer, _ = await http.send_request("POST", f"{path}/chat", {"content": "milk"}, idempotency_key="k")
        assert (status, answer["assistant_message"]["content"]) == (200, "done")
        assert effects == ["ordered milk"]


async def test_a_request_whose_conversation_was_deleted_starts_nothing_again() -> None:
    async with open_api_client([call("charge", amount=1), say("done")], tools=TOOLS) as http:
        body = {"prompt": "go"}
        events = [event async for _, event in http.stream_post("/ai/respond", body, idempotency_key="k")]
        await http.delete(f"/conversations/{events[-1]['conversation_id']}")
        status, answer, _ = await http.send_request("POST", "/ai/respond", body, idempotency_key="k")
        assert (status, answer["error_type"]) == (404, "not_found")
        assert effects == ["charged 1"]


async def test_a_repeated_request_does_not_count_against_the_rate_limit() -> None:
    async with open_api_client([say("one")], requests_per_minute=1) as http:
        path = await http.create_conversation()
        for _ in range(3):
            status, _, _ = await http.send_request("POST", f"{path}/chat", {"content": "go"}, idempotency_key="k")
            assert status == 200
        status, _, _ = await http.send_request("POST", f"{path}/chat", {"content": "go"}, idempotency_key="other")
        assert status == 429


async def test_repetitions_at_the_same_time_do_not_count_against_the_rate_limit() -> None:
    async with open_api_client([say("one")], tools=TOOLS, requests_per_minute=2) as http:
        path = await http.create_conversation()
        for suffix, body in (("chat", {"content": "go"}), ("calls", {"tool": "charge", "arguments": {"amount": 1}})):
            sending = (http.send_request("POST", f"{path}/{suffix}", body, idempotency_key="k") for _ in range(5))
            assert all(status < 300 for status, _, _ in await asyncio.gather(*sending))
        assert effects == ["charged 1"]


async def test_what_a_request_has_created_is_found_again_after_a_rewind_and_after_its_source_is_deleted() -> None:
    async with open_api_client([]) as http:
        path = await http.create_conversation()
        body = {"role": "user", "content": "a note"}
        _, added, _ = await http.send_request("POST", f"{path}/messages", body, idempotency_key="k")
        _, forked, _ = await http.send_request("POST", f"{path}/fork", {}, idempotency_key="k")
        await http.post(f"{path}/rewind", {"to": ""})
        status, again, _ = await http.send_request("POST", f"{path}/messages", body, idempotency_key="k")
        assert (status, again) == (201, added)
        await http.delete(path)
        status, again, _ = await http.send_request("POST", f"{path}/fork", {}, idempotency_key="k")
        assert (status, again["conversation"]["id"]) == (201, forked["conversation"]["id"])


APP_TOOL: Json = {"name": "tap", "description": "Tap.", "parameters": {"type": "object", "properties": {}}}


async def test_an_application_gets_the_same_calls_for_the_same_request() -> None:
    async with open_api_client([call("tap"), say("done")]) as http:
        body = {"messages": [{"role": "user", "content": "tap"}], "tools": [APP_TOOL]}
        first, second = await post_app(http, body), await post_app(http, body)
        assert first["type"] == "tool_calls"
        assert first["toolCalls"] == second["toolCalls"] and first["conversationId"] == second["conversationId"]
        results = [{"toolCallId": first["toolCalls"][0]["id"], "result": "tapped"}]
        body = {"conversationId": first["conversationId"], "toolResults": results}
        answers = [await post_app(http, body, key="results") for _ in range(2)]
        assert [answer["message"]["content"] for answer in answers] == ["done", "done"]


async def post_app(http: Json, body: object, key: str = "k") -> Json:
    status, answer, _ = await http.send_request("POST", "/chat/v1/conversation", body, idempotency_key=key)
    assert status == 200, answer
    return answer


async def test_a_tool_that_is_called_on_a_server_is_called_once(tmp_path: Path) -> None:
    async with open_api_client([], servers={"plain": PlainServer(tmp_path).spec}) as http:
        first, second = await post_twice(http, "/servers/plain/tools/call", {"tool_name": "add"})
        assert first == second and first["result"].startswith("add of process")
        conversations = await http.get("/conversations")
        assert conversations["count"] == 0, "calls by hand are unlisted"


async def test_closing_a_stream_early_and_sending_the_request_again_joins_its_run() -> None:
    async with open_api_client([call("wait_for_release"), say("done")], tools=TOOLS) as http:
        body = {"prompt": "go"}
        async with aclosing(http.stream_post("/ai/respond", body, idempotency_key="k")) as events:
            async for _, event in events:
                if event["type"] == "tool.status":
                    break
        release.set()
        events_again = [event async for _, event in http.stream_post("/ai/respond", body, idempotency_key="k")]
        assert events_again[-1]["ending"] == "done" and effects == ["entered"]
