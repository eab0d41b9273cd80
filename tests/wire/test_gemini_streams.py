"""Every generateContent stream is read to what it holds: by us always, by the official SDK where it can."""

import asyncio

import pytest
from google import genai
from google.genai import types

from toolyard.core.items import Call, Citation, Item, ModelText, Reasoning, Result, Seal, Usage
from toolyard.core.tools import Tool
from toolyard.models.gemini import from_wire
from toolyard.models.tool_names import GEMINI_ALPHABET, to_provider_name  # pyright: ignore[reportPrivateUsage]
from wire.checks import calls_of, ended
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
from wire.gemini_streams import STREAMS
from wire.local import offer, request, serving, streaming
from wire.reply_bytes import Asked, Stream
from wire.strict_gemini import MODEL, path_of, sign

ASKED = request(model=MODEL)
SEAL = Seal(provider=f"gemini:{MODEL}", data=sign())


def items_of(*sent: dict[str, object], grounding: object = None) -> tuple[Item, ...]:
    grounded = {"groundingMetadata": grounding} if grounding else {}
    return ended(from_wire(chunks(*sent, finish="STOP", **grounded), request(model=MODEL))).items


@pytest.mark.parametrize("stream", [stream for stream in STREAMS if stream.sdk], ids=lambda stream: stream.name)
async def test_the_official_sdk_reads_the_same_text_calls_and_usage(stream: Stream) -> None:
    text, thoughts, calls, usage = await read_by_sdk(stream)
    turn = ended(from_wire([stream.body], request()))
    assert (text, thoughts, calls) == (stream.text, stream.reasoning, list(stream.calls))
    assert usage == turn.usage == Usage(input_tokens=10, output_tokens=5, cached_tokens=4)


async def test_the_sdk_reads_a_call_that_is_to_be_continued_as_if_it_were_whole_so_the_comparison_can_fail() -> None:
    """A negative control."""
    stream = next(stream for stream in STREAMS if stream.name == "a call that is to be continued")
    assert (await read_by_sdk(stream))[2] != list(stream.calls)


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
    sent = to_provider_name(tool.name, GEMINI_ALPHABET)
    assert sent != tool.name
    (asked,) = calls_of(ended(from_wire(chunks(call(sent)), request(tools=offer(tool)))))
    assert asked.tool == "3d-print"
