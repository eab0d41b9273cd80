"""Who may open a WebSocket, what it takes, and how it ends."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from surfaces.api_client import build_key, build_yard
from surfaces.http_server import serve_yard
from surfaces.openai.clients import serve_script
from surfaces.openai.sockets import open_talk, post, refuse_handshake
from toolyard.core.items import UserMessage
from toolyard.testing import say


@asynccontextmanager
async def serve_with_keys() -> AsyncGenerator[str, None]:
    async with (
        asyncio.timeout(60),
        build_yard(lambda _: say("ok"), keys=[build_key("ann")]) as yard,
        serve_yard(yard) as url,
    ):
        yield url


async def test_a_websocket_needs_a_key_and_any_other_path_has_none() -> None:
    async with serve_with_keys() as url:
        assert await refuse_handshake(url, "/v1/responses") == 401
        assert await refuse_handshake(url, "/v1/responses", authorization="Bearer wrong") == 401
        for path in ("/", "/healthz", "/v1/models", "/mcp", "/v1/responses/compact"):
            assert await refuse_handshake(url, path, authorization="Bearer ann") == 404, path
            assert await refuse_handshake(url, path) == 401, path
        async with open_talk(url, authorization="Bearer ann") as talk:
            assert (await talk.create())[-1]["type"] == "response.completed"


async def test_without_keys_a_foreign_page_or_name_cannot_connect() -> None:
    async with serve_script(lambda _: say("ok")) as served:
        assert await refuse_handshake(served.url, "/v1/responses", origin="https://elsewhere.example") == 403
        assert await refuse_handshake(served.url, "/v1/responses", host="elsewhere.example") == 403


async def test_a_bad_message_is_an_error_event_and_the_connection_goes_on() -> None:
    async with serve_script(lambda _: say("ok")) as served, open_talk(served.url) as talk:
        for message in ("{", "[]", '{"type": "response.steer"}', '{"type": "response.create", "input": 5}'):
            await talk.socket.send_str(message)
            (error,) = await talk.read_events()
            assert (error["type"], error["status"]) == ("error", 400), message
        (error,) = await talk.create(background=True)
        assert error["error"]["param"] == "background"
        assert (await talk.create())[-1]["type"] == "response.completed"


async def test_messages_that_are_sent_at_once_are_answered_one_after_the_other() -> None:
    async with serve_script([say("one"), say("two")]) as served, open_talk(served.url) as talk:
        for text in ("1", "2"):
            await talk.socket.send_json({"type": "response.create", "model": "default", "input": text})
        texts = [(await talk.read_events())[-1]["response"]["output"][0]["content"][0]["text"] for _ in range(2)]
    assert texts == ["one", "two"]


async def test_a_stored_response_is_gone_on_from_on_another_connection() -> None:
    async with serve_script([say("one"), say("two")]) as served:
        async with open_talk(served.url) as talk:
            first = (await talk.create("1"))[-1]["response"]
        async with open_talk(served.url) as talk:
            second = (await talk.create("2", previous_response_id=first["id"]))[-1]["response"]
        retrieved = await served.client.responses.retrieve(second["id"])
    assert (retrieved.output_text, retrieved.previous_response_id) == ("two", first["id"])


@pytest.mark.parametrize("store", [True, False])
async def test_a_request_that_generates_nothing_is_gone_on_from(store: bool) -> None:
    async with serve_script([say("Hi.")]) as served, open_talk(served.url) as talk:
        events = await talk.create("Be brief.", generate=False, store=store)
        assert [event["type"] for event in events] == ["response.created", "response.completed"]
        prepared = events[-1]["response"]
        assert (prepared["output"], prepared["status"], prepared["usage"]["total_tokens"]) == ([], "completed", 0)
        assert served.model.requests == []
        final = (await talk.create("Hello", previous_response_id=prepared["id"], store=store))[-1]["response"]
        assert final["output"][0]["content"][0]["text"] == "Hi."
    texts = [item.text for item in served.model.requests[0].history if isinstance(item, UserMessage)]
    assert texts == ["Be brief.", "Hello"]


async def test_only_what_the_connection_keeps_can_be_prepared() -> None:
    async with serve_script([say("Hi.")]) as served, open_talk(served.url) as talk:
        first = (await talk.create())[-1]["response"]
        (error,) = await talk.create(previous_response_id=first["id"], generate=False)
        assert error["error"]["param"] == "generate"
        status, body = await post(served.url, "/responses", {"model": "default", "input": "x", "generate": False})
        assert (status, body["error"]["param"]) == (400, "generate")


async def test_openais_own_client_connects() -> None:
    async with serve_script([say("Hi.")]) as served, served.client.responses.connect() as connection:
        await connection.response.create(model="default", input="Hello")
        async for event in connection:
            if event.type == "response.completed":
                assert event.response.output[0].content[0].text == "Hi."
                break
