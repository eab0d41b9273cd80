"""Every Responses stream is read to what it holds: by us always, by the official SDK where it can."""

import json

import pytest
from msgspec.structs import replace
from openai import AsyncOpenAI
from openai.types.responses import (
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseIncompleteEvent,
    ResponseRefusalDeltaEvent,
    ResponseTextDeltaEvent,
)

from toolyard.core.conversation.events import TurnFailed
from toolyard.core.items import Call, Citation, ModelText, Reasoning, Result, Seal, Usage
from toolyard.core.model_failures import HOSTED_CALL
from toolyard.models.responses import from_wire
from wire.checks import calls_of, expect_ended
from wire.local import request, serving, streaming
from wire.reply_bytes import CallSpec, Stream
from wire.responses_bytes import (
    CITED_TEXT,
    CODE,
    FILES,
    SEARCH,
    ScriptedOutput,
    build_hosted_call,
    build_reasoning,
    call,
    events,
    text,
)
from wire.responses_streams import STREAMS
from wire.strict_responses import PATH


@pytest.mark.parametrize("stream", [stream for stream in STREAMS if stream.sdk], ids=lambda stream: stream.name)
async def test_the_official_sdk_reads_the_same_text_calls_and_usage(stream: Stream) -> None:
    text, calls, usage = await read_by_sdk(stream)
    turn = expect_ended(from_wire([stream.body], request()))
    tokens = replace(turn.usage, tool_uses={})  # the SDK does not count searches
    assert (text, calls, usage) == (stream.text, list(stream.calls), tokens)
    assert usage == Usage(input_tokens=10, output_tokens=5, cached_tokens=4, reasoning_tokens=1)


async def test_the_sdk_reads_what_was_cut_off_as_if_it_were_whole_so_the_comparison_can_fail() -> None:
    """A negative control."""
    stream = next(stream for stream in STREAMS if stream.name == "cut off after what looks like a whole call")
    assert (await read_by_sdk(stream))[1] != list(stream.calls)


async def read_by_sdk(stream: Stream) -> tuple[str, list[CallSpec], Usage]:
    """The text as it was streamed; calls and usage as the SDK has them in the end."""
    texts: list[str] = []
    calls: list[CallSpec] = []
    usage = Usage()
    async with (
        serving(streaming([stream.body]), PATH) as base_url,
        AsyncOpenAI(base_url=base_url, api_key="none") as client,
    ):
        async for event in await client.responses.create(model="m", input="hi", stream=True):
            if isinstance(event, ResponseTextDeltaEvent | ResponseRefusalDeltaEvent):
                texts.append(event.delta)
            if isinstance(event, ResponseCompletedEvent | ResponseIncompleteEvent):
                response = event.response
                call_items = [item for item in response.output if isinstance(item, ResponseFunctionToolCall)]
                calls = [(call_item.name, json.loads(call_item.arguments)) for call_item in call_items]
                assert response.usage is not None
                usage = Usage(
                    input_tokens=response.usage.input_tokens,
                    output_tokens=response.usage.output_tokens,
                    cached_tokens=response.usage.input_tokens_details.cached_tokens,
                    reasoning_tokens=response.usage.output_tokens_details.reasoning_tokens,
                )
    return "".join(texts), calls, usage


def test_the_model_that_answered_is_named() -> None:
    assert expect_ended(from_wire(events(text("a")), request())).model == "gpt-5-mini-2025"


def test_a_call_that_the_provider_ran_comes_with_its_result_and_never_opens() -> None:
    turn = expect_ended(from_wire(events(SEARCH, CODE, FILES, CITED_TEXT), request()))
    assert (turn.finish, calls_of(turn)) == ("stop", [])
    ran = [item for item in turn.items if isinstance(item, Call)]
    results = [item for item in turn.items if isinstance(item, Result)]
    assert [call.tool for call in ran] == ["web_search", "code_execution", "file_search"]
    assert [call.arguments for call in ran] == [
        {"type": "search", "query": "milk"},
        {"code": "print(6*7)"},
        {"queries": ["milk"]},
    ]
    assert [result.call_id for result in results] == [call.id for call in ran]
    assert {item.ran_at for item in (*ran, *results)} == {"openai"}
    assert "https://example.org/milk" in results[0].content and "42" in results[1].content
    assert {result.outcome for result in results} == {"ok"}


def test_a_search_that_failed_is_an_error_in_the_history() -> None:
    broken = build_hosted_call("web_search_call", "ws_1", status="failed", action={"type": "search", "query": "milk"})
    _, result, _ = expect_ended(from_wire(events(broken, text("Sorry.")), request())).items
    assert isinstance(result, Result) and result.outcome == "error" and result.error is not None


def test_citations_count_characters() -> None:
    model_text = expect_ended(from_wire(events(CITED_TEXT), request())).items[-1]
    assert isinstance(model_text, ModelText)
    assert model_text.citations == (Citation(start=0, end=4, url="https://example.org/milk", title="Milk"),)


def test_a_citation_never_points_outside_its_text() -> None:
    far: dict[str, object] = {"type": "url_citation", "start_index": 3, "end_index": 99, "url": "u", "title": "t"}
    model_text = expect_ended(from_wire(events(text("abc d", annotations=[far])), request())).items[-1]
    assert isinstance(model_text, ModelText) and (model_text.citations[0].start, model_text.citations[0].end) == (3, 5)


def test_reasoning_is_sealed_and_a_message_keeps_its_phase() -> None:
    reasoning, model_text = expect_ended(
        from_wire(events(build_reasoning("Hm."), text("a", phase="commentary")), request())
    ).items
    assert isinstance(reasoning, Reasoning) and '"rs_1"' in reasoning.signature and reasoning.provider == "openai"
    assert isinstance(model_text, ModelText) and model_text.seal == Seal(provider="openai", data="commentary")


def test_an_id_that_the_provider_uses_in_every_turn_is_never_ours() -> None:
    model_request = request()
    ids = [calls_of(expect_ended(from_wire(events(call("now", "{}")), model_request)))[0].id for _ in range(2)]
    assert len({*ids, "call_0"}) == 3


@pytest.mark.parametrize(("output", "began"), [(SEARCH, True), (text("Milk"), False)], ids=["search", "text"])
def test_a_stream_that_breaks_off_says_whether_the_provider_had_begun_a_call(
    output: ScriptedOutput, began: bool
) -> None:
    failed = from_wire(events(output)[:-1], request())[-1]
    assert isinstance(failed, TurnFailed) and failed.problem.error_type == "unavailable"
    assert failed.problem.details.get(HOSTED_CALL, False) is began
