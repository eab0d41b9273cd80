"""Every Responses stream is read to what it holds: by us always, by the official SDK where it can."""

import json

import pytest
from openai import AsyncOpenAI
from openai.types.responses import (
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseIncompleteEvent,
    ResponseRefusalDeltaEvent,
    ResponseTextDeltaEvent,
)

from toolyard.core.items import Call, Citation, ModelText, Reasoning, Result, Seal, Usage
from toolyard.models.responses import from_wire
from wire.checks import calls_of, ended
from wire.local import request, serving, streaming
from wire.reply_bytes import Asked, Stream
from wire.responses_bytes import CITED, CODE, FILES, SEARCH, call, events, hosted, text, thought
from wire.responses_streams import STREAMS
from wire.strict_responses import PATH


@pytest.mark.parametrize("stream", [stream for stream in STREAMS if stream.sdk], ids=lambda stream: stream.name)
async def test_the_official_sdk_reads_the_same_text_calls_and_usage(stream: Stream) -> None:
    text, calls, usage = await read_by_sdk(stream)
    turn = ended(from_wire([stream.body], request()))
    assert (text, calls, usage) == (stream.text, list(stream.calls), turn.usage)
    assert usage == Usage(input_tokens=10, output_tokens=5, cached_tokens=4)


async def test_the_sdk_reads_what_was_cut_off_as_if_it_were_whole_so_the_comparison_can_fail() -> None:
    """A negative control."""
    stream = next(stream for stream in STREAMS if stream.name == "cut off after what looks like a whole call")
    assert (await read_by_sdk(stream))[1] != list(stream.calls)


async def read_by_sdk(stream: Stream) -> tuple[str, list[Asked], Usage]:
    """The text as it was streamed; calls and usage as the SDK has them in the end."""
    said: list[str] = []
    calls: list[Asked] = []
    usage = Usage()
    async with (
        serving(streaming([stream.body]), PATH) as base_url,
        AsyncOpenAI(base_url=base_url, api_key="none") as client,
    ):
        async for event in await client.responses.create(model="m", input="hi", stream=True):
            if isinstance(event, ResponseTextDeltaEvent | ResponseRefusalDeltaEvent):
                said.append(event.delta)
            if isinstance(event, ResponseCompletedEvent | ResponseIncompleteEvent):
                whole = event.response
                asked = [item for item in whole.output if isinstance(item, ResponseFunctionToolCall)]
                calls = [(one.name, json.loads(one.arguments)) for one in asked]
                assert whole.usage is not None
                usage = Usage(
                    input_tokens=whole.usage.input_tokens,
                    output_tokens=whole.usage.output_tokens,
                    cached_tokens=whole.usage.input_tokens_details.cached_tokens,
                )
    return "".join(said), calls, usage


def test_the_model_that_answered_is_named() -> None:
    assert ended(from_wire(events(text("a")), request())).model == "gpt-5-mini-2025"


def test_a_call_that_the_provider_ran_comes_with_its_result_and_never_opens() -> None:
    turn = ended(from_wire(events(SEARCH, CODE, FILES, CITED), request()))
    assert (turn.finish, calls_of(turn)) == ("stop", [])
    ran = [item for item in turn.items if isinstance(item, Call)]
    results = [item for item in turn.items if isinstance(item, Result)]
    assert [one.tool for one in ran] == ["web_search", "code_execution", "file_search"]
    assert [one.arguments for one in ran] == [
        {"type": "search", "query": "milk"},
        {"code": "print(6*7)"},
        {"queries": ["milk"]},
    ]
    assert [result.call_id for result in results] == [one.id for one in ran]
    assert {one.ran_at for one in (*ran, *results)} == {"openai"}
    assert "https://example.org/milk" in results[0].content and "42" in results[1].content
    assert {result.outcome for result in results} == {"ok"}


def test_a_search_that_failed_is_an_error_in_the_history() -> None:
    broken = hosted("web_search_call", "ws_1", status="failed", action={"type": "search", "query": "milk"})
    _, result, _ = ended(from_wire(events(broken, text("Sorry.")), request())).items
    assert isinstance(result, Result) and result.outcome == "error" and result.error is not None


def test_citations_count_characters() -> None:
    said = ended(from_wire(events(CITED), request())).items[-1]
    assert isinstance(said, ModelText)
    assert said.citations == (Citation(start=0, end=4, url="https://example.org/milk", title="Milk"),)


def test_a_citation_never_points_outside_its_text() -> None:
    far: dict[str, object] = {"type": "url_citation", "start_index": 3, "end_index": 99, "url": "u", "title": "t"}
    said = ended(from_wire(events(text("abc d", annotations=[far])), request())).items[-1]
    assert isinstance(said, ModelText) and (said.citations[0].start, said.citations[0].end) == (3, 5)


def test_reasoning_is_sealed_and_a_message_keeps_its_phase() -> None:
    reasoning, said = ended(from_wire(events(thought("Hm."), text("a", phase="commentary")), request())).items
    assert isinstance(reasoning, Reasoning) and '"rs_1"' in reasoning.signature and reasoning.provider == "openai"
    assert isinstance(said, ModelText) and said.seal == Seal(provider="openai", data="commentary")


def test_an_id_that_the_provider_uses_in_every_turn_is_never_ours() -> None:
    asked = request()
    ids = [calls_of(ended(from_wire(events(call("now", "{}")), asked)))[0].id for _ in range(2)]
    assert len({*ids, "call_0"}) == 3
