"""Every surface says that a run waits until the amount of a budget is raised, and which budget that is."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager

import pytest

from surfaces.api_client import ApiClient, Json, build_key, build_yard, connect_api_client, join_deltas
from toolyard import Yard
from toolyard.core.settings.budgets import BudgetRule
from toolyard.core.settings.prices import Price
from toolyard.testing import Turn, say

SENTENCE = "The budget “team” is used up. This goes on by itself when an administrator raises it."
ASKED = [{"role": "user", "content": "hi"}]
UI_MESSAGE = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "hi"}]}


@asynccontextmanager
async def open_client(*turns: Turn) -> AsyncGenerator[tuple[Yard, ApiClient]]:
    """Open a server whose only budget has no room, and asks for a higher amount."""
    yard = build_yard(
        turns,
        keys=[build_key("ann")],
        prices={"given": Price(input=0.0, output=1.0)},
        budgets={"team": BudgetRule(amount=0.000001, window="total", on_reach="ask")},
        reserve_output_tokens=10,
    )
    async with asyncio.timeout(30), yard, connect_api_client(yard, "inside") as http:
        yield yard, http.with_key("ann")


async def read_stream(client: ApiClient, path: str, body: Json) -> list[Json]:
    """Return the events of a stream up to its last object: some streams end with a mark that is no JSON."""
    events: list[Json] = []
    async with aclosing(client.stream_post(path, body)) as stream:
        async for _, event in stream:
            events.append(event)
            if event.get("type") == "finish" or any(choice.get("finish_reason") for choice in event.get("choices", ())):
                break
    return events


async def post(client: ApiClient, path: str, body: Json) -> Json:
    """Return an answer in the format of a provider, which has no `success`."""
    status, answer, _ = await client.send_request("POST", path, body)
    assert status == 200
    return answer


async def test_a_stream_of_objects_ends_with_the_sentence_and_the_name_of_the_budget() -> None:
    async with open_client() as (_, client):
        events = [event async for event in client.stream_post("/ai/respond", {"prompt": "hi"})]
        assert join_deltas(events).startswith(SENTENCE)
        *_, notice, done = [event for _, event in events]
        assert (notice["type"], notice["notice"]) == ("text.delta", "waiting")
        assert (done["type"], done["ending"], done["budget"]) == ("done", "waiting", "team")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", {"model": "default", "messages": ASKED}),
        ("/v1/responses", {"model": "default", "input": "hi"}),
        ("/v1/messages", {"model": "default", "max_tokens": 10, "messages": ASKED}),
    ],
)
async def test_the_answers_of_providers_formats_are_the_sentence(path: str, body: Json) -> None:
    async with open_client() as (_, client):
        assert SENTENCE in str(await post(client, path, body))
        streamed = await read_stream(client, path, {**body, "stream": True})
        assert SENTENCE in "".join(str(event) for event in streamed)


async def test_the_same_request_gets_the_answer_once_the_amount_was_raised() -> None:
    body: Json = {"model": "default", "messages": ASKED}
    async with open_client(say("hello")) as (yard, client):
        waiting = await post(client, "/v1/chat/completions", body)
        assert waiting["toolyard"]["budget"] == "team"
        assert waiting["choices"][0]["finish_reason"] == "stop"
        conversation = waiting["toolyard"]["conversation_id"]
        again = await post(client, "/v1/chat/completions", body)
        assert again["toolyard"]["conversation_id"] == conversation, "no second run waits"
        yard.service.spending.replace_budgets({})
        while (await yard.service.conversations.view(conversation)).run is not None:  # noqa: ASYNC110 - another task ends it
            await asyncio.sleep(0.01)
        stored = await client.get(f"/conversations/{conversation}")
        assert "hello" in str(stored["conversation"]["messages"])


async def test_the_ai_sdks_stream_ends_with_the_sentence_as_a_text_of_its_own() -> None:
    async with open_client() as (_, client):
        events = await read_stream(client, "/ai-sdk/chat", {"id": "t1", "messages": [UI_MESSAGE]})
        assert "".join(event.get("delta", "") for event in events if event["type"] == "text-delta") == SENTENCE
        assert [event["finishReason"] for event in events if event["type"] == "finish"] == ["other"]


async def test_the_ag_uis_stream_ends_with_the_sentence_as_a_message() -> None:
    message = {"id": "m1", "role": "user", "content": "hi"}
    body: Json = {"threadId": "t1", "runId": "r1", "messages": [message], "tools": [], "context": []}
    async with open_client() as (_, client):
        events = await read_stream(client, "/ag-ui", {**body, "state": {}, "forwardedProps": {}})
        assert (
            "".join(event.get("delta", "") for event in events if event["type"] == "TEXT_MESSAGE_CONTENT") == SENTENCE
        )
        assert events[-1]["type"] == "RUN_FINISHED"


async def test_an_application_is_told_the_sentence_and_the_name_of_the_budget() -> None:
    async with open_client() as (_, client):
        answer = await post(client, "/chat/v1/conversation", {"messages": ASKED})
        assert (answer["type"], answer["budget"], answer["waiting"]) == ("waiting", "team", [])
        assert answer["message"]["content"].startswith(SENTENCE)


async def test_a_message_behind_the_wait_is_told_what_it_is_queued_for() -> None:
    async with open_client() as (_, client):
        conversation = await client.create_conversation()
        await client.post(f"{conversation}/chat", {"content": "hi"}, expect=202)
        answer = await client.post(f"{conversation}/chat", {"content": "well?"}, expect=202)
        assert answer["status"] == "queued"
        assert answer["assistant_message"]["content"].startswith(SENTENCE)
