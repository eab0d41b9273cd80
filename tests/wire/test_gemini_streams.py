"""Every generateContent stream is read to what it holds: by us always, by the official SDK where it can."""

import asyncio

import pytest
from google import genai
from google.genai import types
from msgspec.structs import replace

from toolyard.core.items import Call, Citation, Item, ModelText, Reasoning, Result, Seal, Usage
from toolyard.core.tools.definition import Tool
from toolyard.models.gemini import from_wire
from toolyard.models.shared.tool_names import GEMINI_ALPHABET, to_provider_name
from wire.checks import calls_of, expect_ended
from wire.gemini_bytes import (
    CITED_TEXT,
    GROUNDING,
    SIGNED,
    TOOL_CALL,
    TOOL_RESPONSE,
    build_thought,
    call,
    chunks,
    code,
    output,
    text,
)
from wire.gemini_streams import STREAMS
from wire.local import offer, request, serving, streaming
from wire.reply_bytes import CallSpec, Stream
from wire.strict_gemini import MODEL, make_signature, path_of

REQUEST = request(model=MODEL)
SEAL = Seal(provider=f"gemini:{MODEL}", data=make_signature())


def items_of(*sent_parts: dict[str, object], grounding: object = None) -> tuple[Item, ...]:
    extra_fields = {"groundingMetadata": grounding} if grounding else {}
    return expect_ended(from_wire(chunks(*sent_parts, finish="STOP", **extra_fields), request(model=MODEL))).items


@pytest.mark.parametrize("stream", [stream for stream in STREAMS if stream.sdk], ids=lambda stream: stream.name)
async def test_the_official_sdk_reads_the_same_text_calls_and_usage(stream: Stream) -> None:
    text, thoughts, calls, usage = await read_by_sdk(stream)
    turn = expect_ended(from_wire([stream.body], request()))
    assert (text, thoughts, calls) == (stream.text, stream.reasoning, list(stream.calls))
    tokens = replace(turn.usage, tool_uses={})  # the SDK does not count searches
    assert usage == tokens == Usage(input_tokens=10, output_tokens=5, cached_tokens=4, reasoning_tokens=1)


async def test_the_sdk_reads_a_call_that_is_to_be_continued_as_if_it_were_whole_so_the_comparison_can_fail() -> None:
    """A negative control."""
    stream = next(stream for stream in STREAMS if stream.name == "a call that is to be continued")
    assert (await read_by_sdk(stream))[2] != list(stream.calls)


async def read_by_sdk(stream: Stream) -> tuple[str, str, list[CallSpec], Usage]:
    async with serving(streaming([stream.body]), path_of("m")) as base_url:
        return await asyncio.to_thread(read_by_sdk_at, base_url)


def read_by_sdk_at(base_url: str) -> tuple[str, str, list[CallSpec], Usage]:
    texts, thoughts = list[str](), list[str]()
    calls: list[CallSpec] = []
    usage = Usage()
    options = types.HttpOptions(base_url=base_url.removesuffix("/v1"), api_version="v1")
    with genai.Client(api_key="none", http_options=options) as client:
        stream = client.models.generate_content_stream  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        for received in stream(model="m", contents="hi"):
            for part in received.parts or ():
                if part.text:
                    (thoughts if part.thought else texts).append(part.text)
                if part.function_call:
                    calls.append((part.function_call.name or "", dict(part.function_call.args or {})))
            if counts := received.usage_metadata:
                usage = Usage(
                    input_tokens=(counts.prompt_token_count or 0) + (counts.tool_use_prompt_token_count or 0),
                    output_tokens=(counts.candidates_token_count or 0) + (counts.thoughts_token_count or 0),
                    cached_tokens=counts.cached_content_token_count or 0,
                    reasoning_tokens=counts.thoughts_token_count or 0,
                )
    return "".join(texts), "".join(thoughts), calls, usage


def test_signatures_stay_with_the_text_and_the_call_that_they_came_with() -> None:
    reasoning, model_text, first, second = items_of(
        build_thought("Hm."), text("Yes"), text("", **SIGNED), call("add", {}, **SIGNED), call("add", {})
    )
    assert isinstance(reasoning, Reasoning) and isinstance(model_text, ModelText)
    assert isinstance(first, Call) and isinstance(second, Call)
    assert (model_text.seal, first.seal, second.seal) == (SEAL, SEAL, None)


def test_a_search_is_a_call_with_its_sources_and_never_opens() -> None:
    search_call, result, model_text = items_of(text(CITED_TEXT[:6]), text(CITED_TEXT[6:]), grounding=GROUNDING)
    assert isinstance(search_call, Call) and isinstance(result, Result) and isinstance(model_text, ModelText)
    assert (search_call.tool, search_call.arguments, search_call.ran_at) == (
        "web_search",
        {"queries": ["milk"]},
        "gemini",
    )
    assert "https://example.org/milk" in result.content and (result.call_id, result.ran_at) == (
        search_call.id,
        "gemini",
    )
    assert model_text.citations == (Citation(start=2, end=6, url="https://example.org/milk", title="Milk"),)
    assert model_text.text[2:6] == "Milk"


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
    model_text = items_of(text(CITED_TEXT), grounding=grounding)[-1]
    assert isinstance(model_text, ModelText)
    assert [model_text.text[citation.start : citation.end] for citation in model_text.citations] == (
        [] if cited is None else [cited]
    )


def test_code_that_ran_is_a_call_with_its_output() -> None:
    before, code_call, result, after = items_of(
        text("I count."), code("print(6*7)", **SIGNED), output("42\n"), text("42.")
    )
    assert isinstance(before, ModelText) and isinstance(after, ModelText)
    assert isinstance(code_call, Call) and isinstance(result, Result)
    assert (code_call.tool, code_call.arguments["code"], code_call.ran_at) == ("code_execution", "print(6*7)", "gemini")
    assert (result.outcome, result.content) == ("ok", "42\n")


def test_code_that_failed_is_an_error_in_the_history() -> None:
    _, result, _ = items_of(code("1/0"), output("ZeroDivisionError", "OUTCOME_FAILED"), text("Oh."))
    assert isinstance(result, Result) and result.outcome == "error" and "ZeroDivisionError" in result.content


def test_a_search_that_is_shown_is_not_told_twice() -> None:
    items = items_of(TOOL_CALL, TOOL_RESPONSE, text(CITED_TEXT), grounding=GROUNDING)
    assert [type(item) for item in items] == [Call, Result, ModelText]
    assert isinstance(items[0], Call) and items[0].tool == "web_search"


def test_a_name_that_was_changed_for_the_provider_is_changed_back() -> None:
    tool = Tool(name="3d-print")
    sent_name = to_provider_name(tool.name, GEMINI_ALPHABET)
    assert sent_name != tool.name
    (read_call,) = calls_of(expect_ended(from_wire(chunks(call(sent_name)), request(tools=offer(tool)))))
    assert read_call.tool == "3d-print"
