"""Every stream is read to the text and calls that it holds: by us always, by the official SDK where it can."""

import json
from collections import defaultdict

import pytest
from openai import AsyncOpenAI

from toolyard.core.items import Call, Usage
from toolyard.models.chat import from_wire
from wire.checks import calls_of, expect_ended
from wire.local import NOW, request, serving, streaming
from wire.reply_bytes import DONE, STOP, TOOLS, Stream, chunk, piece, usage
from wire.streams import STREAMS


@pytest.mark.parametrize("stream", [stream for stream in STREAMS if stream.sdk], ids=lambda stream: stream.name)
async def test_the_official_sdk_reads_the_same_text_and_calls(stream: Stream) -> None:
    text, calls = await read_by_sdk(stream)
    assert text == stream.text
    assert calls == list(stream.calls)


async def test_the_official_sdk_misreads_a_shared_index_so_the_comparison_can_fail() -> None:
    """A negative control."""
    stream = next(stream for stream in STREAMS if stream.name == "two calls with one index")
    with pytest.raises(json.JSONDecodeError):
        await read_by_sdk(stream)


async def read_by_sdk(stream: Stream) -> tuple[str, list[tuple[str, dict[str, object]]]]:
    """The stream as a careful user of the SDK would put it together: by index, names as given, arguments joined."""
    text: list[str] = []
    names: dict[int, str] = {}
    arguments: defaultdict[int, str] = defaultdict(str)
    async with serving(streaming([stream.body])) as base_url, AsyncOpenAI(base_url=base_url, api_key="none") as client:
        chunks = await client.chat.completions.create(model="m", messages=[], stream=True)
        async for received in chunks:
            for choice in received.choices:
                text.append(choice.delta.content or "")
                for call in choice.delta.tool_calls or ():
                    assert call.function is not None
                    names[call.index] = call.function.name or names.get(call.index, "")
                    arguments[call.index] += call.function.arguments or ""
    return "".join(text), [(name, json.loads(arguments[index] or "{}")) for index, name in names.items()]


def test_usage_model_and_ids_are_taken_from_the_reply() -> None:
    body = chunk(content="a") + piece("now", "{}", index=0, id="call_0") + TOOLS + usage(9, 5, 4) + DONE
    turn = expect_ended(list(from_wire([body], request())))
    assert turn.usage == Usage(input_tokens=9, output_tokens=5, cached_tokens=4)
    assert turn.model == "m-1"
    text, call = turn.items
    assert isinstance(call, Call)
    assert (call.id, call.provider_id, call.at, text.at) == ("call_1", "call_0", NOW, NOW)


def test_an_id_that_the_provider_uses_in_every_turn_is_never_ours() -> None:
    model_request = request()
    body = piece("now", "{}", index=0, id="call_0") + TOOLS + DONE
    ids = [calls_of(expect_ended(list(from_wire([body], model_request))))[0].id for _ in range(2)]
    assert len(set(ids)) == 2
    assert "call_0" not in ids


def test_what_comes_after_the_end_is_not_read() -> None:
    events = list(from_wire([chunk(content="a") + STOP + DONE + b"data: garbage\n\n"], request()))
    assert expect_ended(events).finish == "stop"
