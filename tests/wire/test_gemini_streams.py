"""Every generateContent stream is read to what it holds: by us always, by the official SDK where it can."""

import asyncio
from itertools import pairwise

import pytest
from google import genai
from google.genai import types
from hypothesis import given, settings
from hypothesis import strategies as st

from toolyard.core.items import Call, Citation, Item, ModelText, Reasoning, Result, Seal, Usage
from toolyard.core.tools import Tool
from toolyard.models._names import GEMINI, to_provider  # pyright: ignore[reportPrivateUsage]
from toolyard.models.gemini import Gemini, from_wire
from wire.checks import calls_of, check, check_offsets, ended, failed
from wire.gemini_bytes import (
    CITED,
    GROUNDING,
    SIGNED,
    TOOL_CALL,
    TOOL_RESPONSE,
    call,
    chunks,
    code,
    output,
    text,
    thought,
)
from wire.gemini_streams import FAILING, STREAMS
from wire.local import events_of, offer, request, serving, streaming
from wire.reply_bytes import Asked, Failing, Stream
from wire.strict_gemini import MODEL, path_of, sign

each_stream = pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: stream.name)
each_failing = pytest.mark.parametrize("stream", FAILING, ids=lambda stream: stream.name)
ASKED = request(model=MODEL)
SEAL = Seal(provider=f"gemini:{MODEL}", data=sign())


def items_of(*sent: dict[str, object], grounding: object = None) -> tuple[Item, ...]:
    grounded = {"groundingMetadata": grounding} if grounding else {}
    return ended(from_wire(chunks(*sent, finish="STOP", **grounded), request(model=MODEL))).items


@each_stream
def test_a_stream_is_read_to_what_it_holds(stream: Stream) -> None:
    events = from_wire([stream.body], request())
    check(stream, events)
    check_offsets(events)


@each_stream
def test_a_stream_that_arrives_byte_by_byte_gives_the_same_events(stream: Stream) -> None:
    assert from_wire([bytes([byte]) for byte in stream.body], request()) == from_wire([stream.body], request())


@each_failing
def test_a_reply_that_fails_says_why(stream: Failing) -> None:
    problem = failed(from_wire([stream.body], request())).problem
    assert (problem.error_type, stream.says in problem.error) == (stream.error_type, True), problem


@each_stream
def test_a_stream_from_a_real_server_is_read_the_same(stream: Stream) -> None:
    async def run() -> None:
        async with serving(streaming([stream.body], stream.content_type), path_of()) as base_url:
            model = Gemini(base_url=base_url, model=MODEL)
            events = await events_of(model, request(model=MODEL))
            await model.close()
        assert events == from_wire([stream.body], request(model=MODEL))

    asyncio.run(run())


@each_failing
def test_a_failure_from_a_real_server_is_told(stream: Failing) -> None:
    async def run() -> None:
        async with serving(streaming([stream.body], stream.content_type), path_of()) as base_url:
            model = Gemini(base_url=base_url, model=MODEL, provider="acme")
            problem = failed(await events_of(model, request())).problem
            await model.close()
        assert (problem.error_type, stream.says in problem.error) == (stream.error_type, True)
        assert (problem.details["request_id"], problem.details["provider"]) == ("req_7", "acme")

    asyncio.run(run())


@pytest.mark.parametrize("stream", [stream for stream in STREAMS if stream.sdk], ids=lambda stream: stream.name)
def test_the_official_sdk_reads_the_same_text_calls_and_usage(stream: Stream) -> None:
    text, thoughts, calls, usage = asyncio.run(read_by_sdk(stream))
    turn = ended(from_wire([stream.body], request()))
    assert (text, thoughts, calls) == (stream.text, stream.reasoning, list(stream.calls))
    assert usage == turn.usage == Usage(input_tokens=10, output_tokens=5, cached_tokens=4)


def test_the_sdk_reads_a_call_that_is_to_be_continued_as_if_it_were_whole_so_the_comparison_can_fail() -> None:
    """A negative control."""
    stream = next(stream for stream in STREAMS if stream.name == "a call that is to be continued")
    assert asyncio.run(read_by_sdk(stream))[2] != list(stream.calls)


async def read_by_sdk(stream: Stream) -> tuple[str, str, list[Asked], Usage]:
    async with serving(streaming([stream.body]), path_of("m")) as base_url:
        return await asyncio.to_thread(read_by_sdk_at, base_url)


def read_by_sdk_at(base_url: str) -> tuple[str, str, list[Asked], Usage]:
    said, thoughts = list[str](), list[str]()
    calls: list[Asked] = []
    usage = Usage()
    options = types.HttpOptions(base_url=base_url.removesuffix("/v1"), api_version="v1")
    with genai.Client(api_key="none", http_options=options) as client:
        stream = client.models.generate_content_stream  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        for received in stream(model="m", contents="hi"):
            for part in received.parts or ():
                if part.text:
                    (thoughts if part.thought else said).append(part.text)
                if part.function_call:
                    calls.append((part.function_call.name or "", dict(part.function_call.args or {})))
            if counts := received.usage_metadata:
                usage = Usage(
                    input_tokens=(counts.prompt_token_count or 0) + (counts.tool_use_prompt_token_count or 0),
                    output_tokens=(counts.candidates_token_count or 0) + (counts.thoughts_token_count or 0),
                    cached_tokens=counts.cached_content_token_count or 0,
                )
    return "".join(said), "".join(thoughts), calls, usage


def test_signatures_stay_with_the_text_and_the_call_that_they_came_with() -> None:
    reasoning, said, first, second = items_of(
        thought("Hm."), text("Yes"), text("", **SIGNED), call("add", {}, **SIGNED), call("add", {})
    )
    assert isinstance(reasoning, Reasoning) and isinstance(said, ModelText)
    assert isinstance(first, Call) and isinstance(second, Call)
    assert (said.seal, first.seal, second.seal) == (SEAL, SEAL, None)


def test_a_search_is_a_call_with_its_sources_and_never_opens() -> None:
    asked, result, said = items_of(text(CITED[:6]), text(CITED[6:]), grounding=GROUNDING)
    assert isinstance(asked, Call) and isinstance(result, Result) and isinstance(said, ModelText)
    assert (asked.tool, asked.arguments, asked.ran_at) == ("web_search", {"queries": ["milk"]}, "gemini")
    assert "https://example.org/milk" in result.content and (result.call_id, result.ran_at) == (asked.id, "gemini")
    assert said.citations == (Citation(start=2, end=6, url="https://example.org/milk", title="Milk"),)
    assert said.text[2:6] == "Milk"


@pytest.mark.parametrize(
    ("segment", "cited"),
    [
        ({"endIndex": 4, "text": "🥛"}, "🥛"),
        ({"startIndex": 90, "endIndex": 99, "text": "white"}, "white"),
        ({"startIndex": 5, "endIndex": 9}, "Milk"),
        ({"startIndex": 90, "endIndex": 99}, None),
        ({"startIndex": 0, "endIndex": 3, "text": "black"}, None),
    ],
)
def test_what_a_segment_points_to_is_found_or_left_out(segment: dict[str, object], cited: str | None) -> None:
    grounding = {**GROUNDING, "groundingSupports": [{"segment": segment, "groundingChunkIndices": [0]}]}
    said = items_of(text(CITED), grounding=grounding)[-1]
    assert isinstance(said, ModelText)
    assert [said.text[one.start : one.end] for one in said.citations] == ([] if cited is None else [cited])


def test_code_that_ran_is_a_call_with_its_output() -> None:
    before, asked, result, after = items_of(text("I count."), code("print(6*7)", **SIGNED), output("42\n"), text("42."))
    assert isinstance(before, ModelText) and isinstance(after, ModelText)
    assert isinstance(asked, Call) and isinstance(result, Result)
    assert (asked.tool, asked.arguments["code"], asked.ran_at) == ("code_execution", "print(6*7)", "gemini")
    assert (result.outcome, result.content) == ("ok", "42\n")


def test_code_that_failed_is_an_error_in_the_history() -> None:
    _, result, _ = items_of(code("1/0"), output("ZeroDivisionError", "OUTCOME_FAILED"), text("Oh."))
    assert isinstance(result, Result) and result.outcome == "error" and "ZeroDivisionError" in result.content


def test_a_search_that_is_shown_is_not_told_twice() -> None:
    items = items_of(TOOL_CALL, TOOL_RESPONSE, text(CITED), grounding=GROUNDING)
    assert [type(item) for item in items] == [Call, Result, ModelText]
    assert isinstance(items[0], Call) and items[0].tool == "web_search"


def test_a_name_that_was_changed_for_the_provider_is_changed_back() -> None:
    tool = Tool(name="3d-print")
    sent = to_provider(tool.name, GEMINI)
    assert sent != tool.name
    (asked,) = calls_of(ended(from_wire(chunks(call(sent)), request(tools=offer(tool)))))
    assert asked.tool == "3d-print"


cuts = st.lists(st.integers(min_value=0, max_value=20_000), max_size=12)


@settings(deadline=None)
@given(stream=st.sampled_from([*STREAMS, *FAILING]), cuts=cuts)
def test_any_split_into_packets_gives_the_same_events(stream: Stream | Failing, cuts: list[int]) -> None:
    places = sorted({0, len(stream.body), *(cut % (len(stream.body) + 1) for cut in cuts)})
    packets = [stream.body[start:stop] for start, stop in pairwise(places)]
    assert from_wire(packets, request()) == from_wire([stream.body], request())
