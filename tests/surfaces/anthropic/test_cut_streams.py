"""A stream that is cut after any of its events is the same message when the client sends its request again."""

from typing import Any

import aiohttp
import msgspec
from anthropic.lib.streaming._messages import accumulate_event

from surfaces.anthropic.anthropic_clients import define_tool
from surfaces.anthropic.test_anthropic_models import THINKS, serve_provider
from surfaces.api_client import Json
from surfaces.openai.clients import add_to_groceries, added
from wire.strict import Reply
from wire.strict_messages import (
    StrictMessages,
    encode_end,
    encode_start,
    encode_text,
    encode_thinking,
    encode_tool_use,
)

PHOTO = define_tool("take_photo", of={"type": "string"})
RETRY = {"x-stainless-retry-count": "1"}


def build_replies() -> list[Reply]:
    """Return a turn with a call of the server's tool, and one with a call of the client's."""
    first = [encode_thinking(0, "Hm", "m"), encode_text(1, "One ", "moment.")]
    first += [encode_tool_use(2, "toolu_1", "add_to_groceries", '{"item":', '"milk"}')]
    second = [encode_thinking(0, "Now"), encode_text(1, "Smile.")]
    second += [encode_tool_use(2, "toolu_2", "take_photo", '{"of":', '"me"}')]
    return [Reply(packets=[encode_start(), *turn, encode_end("tool_use")]) for turn in (first, second)]


def build_body(number: int) -> Json:
    return {
        "model": "default",
        "max_tokens": 4_000,
        "stream": True,
        "thinking": THINKS,
        "tools": [PHOTO],
        "toolyard": {"server_tools": "all"},
        "messages": [{"role": "user", "content": f"Question {number}"}],
    }


async def read_events(url: str, body: Json, most: int, **headers: str) -> list[Json]:
    """Return the events of a stream, and cut it off after so many of them."""
    events: list[Json] = []
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{url}/v1/messages", json=body, headers=headers) as response,
    ):
        assert response.status == 200, await response.text()
        async for line in response.content:
            if line.startswith(b"data: "):
                events.append(msgspec.json.decode(line[6:]))
                if len(events) == most:
                    break
    return events


def check_order(events: list[Json]) -> None:
    """Check what a strict client expects: one block after the other, each begun, filled and ended."""
    assert events[0]["type"] == "message_start" and events[-1]["type"] == "message_stop"
    assert events[-2]["type"] == "message_delta" and events[-2]["delta"]["stop_reason"]
    is_open, count = False, 0
    for event in events[1:-2]:
        match event["type"]:
            case "content_block_start":
                assert not is_open and event["index"] == count
                is_open = True
            case "content_block_delta":
                assert is_open and event["index"] == count
            case "content_block_stop":
                assert is_open and event["index"] == count
                is_open, count = False, count + 1
            case kind:
                assert kind == "ping"
    assert not is_open


def build_content(events: list[Json]) -> list[Json]:
    """Return the content that Anthropic's client puts together, without the ids of calls."""
    message: Any = None
    buffers: dict[int, bytes] = {}
    for event in events:
        if event["type"] != "ping":
            message = accumulate_event(event=event, current_snapshot=message, json_bufs=buffers)
    blocks: list[Json] = [block.to_dict() for block in message.content]
    return [{name: value for name, value in block.items() if name not in ("id", "tool_use_id")} for block in blocks]


async def test_a_stream_that_is_cut_after_any_event_is_the_same_when_it_is_sent_again() -> None:
    added.clear()
    provider = StrictMessages(*build_replies())
    async with serve_provider(provider, tools=[add_to_groceries]) as served:
        whole = await read_events(served.url, build_body(0), 10_000)
        check_order(whole)
        kinds = [block["type"] for block in build_content(whole)]
        assert kinds == ["thinking", "text", "mcp_tool_use", "mcp_tool_result", "thinking", "text", "tool_use"]
        for count in range(1, len(whole)):
            provider.replies += build_replies()
            cut = await read_events(served.url, build_body(count), count)
            again = await read_events(served.url, build_body(count), 10_000, **RETRY)
            check_order(again)
            assert build_content(again) == build_content(whole)
            assert cut[0]["message"]["id"] == again[0]["message"]["id"]
    assert len(whole) > 20
    assert added == ["milk"] * len(whole), "no call ran twice"
    assert len(provider.bodies) == 2 * len(whole), "no turn was asked for twice"
