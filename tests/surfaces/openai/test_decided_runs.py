"""A history that holds the sentence of an approval leads back to its run, which may still go on."""

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import cast

import aiohttp
import pytest
from msgspec import Struct

from surfaces.api_client import Json
from surfaces.openai.clients import HELLO, Served, answer_calls, define_tool, list_exchange, serve_script, to_param
from toolyard import Caller, tool
from toolyard.core.conversation.events import Entry
from toolyard.core.errors import NotFound
from toolyard.core.items import ModelText
from toolyard.engine.service import Service
from toolyard.surfaces.shared.call_ids import parse_call_id
from toolyard.surfaces.shared.waiting_sentences import MAX_LINKS, replace_sentences
from toolyard.testing import Script, call, say, together

SCRIPT = [together(say("One moment."), call("slow_order", item="milk")), say("Ordered.")]
PHOTO = define_tool("take_photo", of={"type": "string"})
THANKS: Json = {"role": "user", "content": "Thanks"}


class Waiting(Struct, frozen=True):
    """A run that waits for an approval, and the call whose end a test decides."""

    served: Served
    release: asyncio.Event
    entered: asyncio.Event

    async def approve(self, sentence: str) -> None:
        """Approve the call that a sentence links to, and wait until it runs."""
        conversation, call_id = parse_call_id(sentence.partition("?call=")[2])
        await self.served.yard.approve(conversation, call_id)
        await self.entered.wait()


@asynccontextmanager
async def serve_slow_order(script: Script) -> AsyncGenerator[Waiting, None]:
    release, entered = asyncio.Event(), asyncio.Event()

    @tool(approval="ask")
    async def slow_order(item: str) -> str:
        """Order slowly."""
        entered.set()
        await release.wait()
        return f"ordered {item}"

    async with serve_script(script, [slow_order]) as served:
        yield Waiting(served, release, entered)


@asynccontextmanager
async def open_stream(served: Served, path: str, body: Json) -> AsyncGenerator[aiohttp.StreamReader, None]:
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{served.url}/v1/{path}", json={**body, "stream": True}) as response,
    ):
        assert response.status == 200, await response.text()
        yield response.content


def list_data(body: bytes) -> list[Json]:
    lines = [line.removeprefix(b"data: ") for line in body.split(b"\n") if line.startswith(b"data: ")]
    return [json.loads(line) for line in lines if line != b"[DONE]"]


def join_chunks(body: bytes) -> str:
    choices = [chunk["choices"][0] for chunk in list_data(body)]
    return "".join(choice["delta"].get("content") or "" for choice in choices)


def join_texts(body: bytes) -> str:
    return "".join(event["delta"] for event in list_data(body) if event["type"] == "response.output_text.delta")


async def test_a_stream_after_a_call_that_still_runs_begins_at_once_with_comments() -> None:
    async with serve_slow_order([*SCRIPT, say("You are welcome.")]) as waiting:
        first = await waiting.served.complete()
        message = to_param(first)
        await waiting.approve(message["content"])
        async with open_stream(waiting.served, "chat/completions", {"messages": [*HELLO, message, THANKS]}) as body:
            begun = await body.readany()
            assert begun.startswith(b": ") and not list_data(begun)
            waiting.release.set()
            assert join_chunks(await body.read()) == "You are welcome."
    assert list_exchange(waiting.served.model.requests[-1].history) == ["slow_order['milk']", "slow_order=ordered milk"]


async def test_a_stream_of_results_for_a_run_whose_other_call_still_runs_begins_at_once_with_comments() -> None:
    script = [together(call("slow_order", item="milk"), call("take_photo", of="me")), say("Ordered.")]
    async with serve_slow_order(script) as waiting:
        first = await waiting.served.complete(tools=[PHOTO])
        about: Json = first.model_extra["toolyard"]
        await waiting.served.yard.approve(about["conversation_id"], about["waiting"][0]["call_id"])
        await waiting.entered.wait()
        body: Json = {"messages": answer_calls(HELLO, first, "a photo"), "tools": [PHOTO]}
        async with open_stream(waiting.served, "chat/completions", body) as stream:
            begun = await stream.readany()
            assert begun.startswith(b": ") and not list_data(begun)
            waiting.release.set()
            assert join_chunks(await stream.read()) == "Ordered."


async def test_a_history_that_ends_with_the_sentence_streams_the_run_from_its_start_as_it_goes_on() -> None:
    async with serve_slow_order(SCRIPT) as waiting:
        message = to_param(await waiting.served.complete())
        await waiting.approve(message["content"])
        async with open_stream(waiting.served, "chat/completions", {"messages": [*HELLO, message]}) as body:
            received = b""
            while "One moment." not in join_chunks(received):
                received += await body.readany()
            waiting.release.set()
            assert join_chunks(received + await body.read()) == "One moment.\n\nOrdered."


async def test_a_streamed_response_after_a_call_that_still_runs_begins_at_once_with_comments() -> None:
    async with serve_slow_order([*SCRIPT, say("You are welcome.")]) as waiting:
        first = await waiting.served.client.responses.create(model="default", input="Hello", store=False)
        items = [*HELLO, *(item.model_dump(exclude_none=True) for item in first.output), THANKS]
        await waiting.approve(first.output_text)
        async with open_stream(waiting.served, "responses", {"input": items, "store": False}) as body:
            begun = await body.readany()
            assert begun.startswith(b": ") and not list_data(begun)
            waiting.release.set()
            assert join_texts(await body.read()) == "You are welcome."


async def test_a_delayed_stream_that_cannot_start_ends_with_an_error() -> None:
    async with serve_slow_order(SCRIPT) as waiting:
        message = to_param(await waiting.served.complete())
        await waiting.approve(message["content"])
        body: Json = {"messages": [*HELLO, message, THANKS], "max_completion_tokens": -1}
        async with open_stream(waiting.served, "chat/completions", body) as stream:
            await stream.readany()
            waiting.release.set()
            (event,) = list_data(await stream.read())
    assert event["error"]["param"] == "max_completion_tokens"


@pytest.mark.parametrize("store", [False, True])
async def test_a_streamed_response_of_a_waiting_run_has_all_of_its_items(store: bool) -> None:
    async with serve_slow_order(SCRIPT[:1]) as waiting:
        client = waiting.served.client
        first = await client.responses.create(model="default", input="Hello", store=store)
        echoed = [item.model_dump(exclude_none=True) for item in first.output]
        if store:
            stream = await client.responses.retrieve(first.id, stream=True)
        else:
            stream = await client.responses.create(model="default", input=[*HELLO, *echoed], store=store, stream=True)
        events = [event async for event in stream]
    texts = [event.text for event in events if event.type == "response.output_text.done"]
    assert [texts[0], "waits for an approval" in texts[1], len(texts)] == ["One moment.", True, 2]
    added = [event.item.id for event in events if event.type == "response.output_item.added"]
    assert added == [item.id for item in events[-1].response.output] == [item["id"] for item in echoed]
    assert len(waiting.served.model.requests) == 1


class CountedLogs:
    """Stands for a service that has every conversation, with an empty log, and counts how often one is read."""

    def __init__(self) -> None:
        self.reads: list[str] = []
        self.conversations = self

    async def require(self, conversation: str, caller: Caller) -> None:
        if not caller.user:
            raise NotFound(conversation)

    async def read_entries(self, conversation: str) -> Sequence[Entry]:
        self.reads.append(conversation)
        return ()


async def test_a_history_with_many_links_costs_a_bounded_number_of_log_reads() -> None:
    links = [f"?call=call_{number:024x}-{0:024x}" for number in range(MAX_LINKS + 8)]
    items = [ModelText(id=f"item_{number}", at=0.0, text=f"Go on: {link}") for number, link in enumerate(links)]
    logs = CountedLogs()
    history, sources = await replace_sentences(cast(Service, logs), [*items, *items], Caller(user="ann"))
    assert (history, sources) == ([*items, *items], [])
    assert logs.reads == [f"conversation_{number:024x}" for number in range(8, MAX_LINKS + 8)]


@pytest.mark.parametrize(("others", "is_replaced"), [(MAX_LINKS - 1, True), (MAX_LINKS, False)])
async def test_only_the_last_links_of_a_history_are_followed(others: int, is_replaced: bool) -> None:
    async with serve_slow_order([*SCRIPT, say("Bye.")]) as waiting:
        waiting.release.set()
        message = to_param(await waiting.served.complete())
        await waiting.approve(message["content"])
        links = " ".join(f"?call=call_{number:024x}-{0:024x}" for number in range(others))
        await waiting.served.complete([*HELLO, message, THANKS, {"role": "assistant", "content": links}, THANKS])
    exchange = list_exchange(waiting.served.model.requests[-1].history)
    assert bool(exchange) == is_replaced
