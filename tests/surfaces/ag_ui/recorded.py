"""Streams of runs that were recorded in logs, and the messages that a client makes of them."""

from collections.abc import Iterable, Sequence

import msgspec

from surfaces.api_client import Json
from toolyard.core.conversation.cursor import Cursor
from toolyard.core.conversation.events import Published
from toolyard.core.conversation.run_view import RunView
from toolyard.surfaces.ag_ui.encoder import AgUiEncoder, StreamRequest

Stream = list[Json]


def parse_frames(body: bytes) -> Stream:
    """Return the events of a stream."""
    frames = body.split(b"\n\n")
    assert frames.pop() == b""
    return [msgspec.json.decode(frame.removeprefix(b"data: ")) for frame in frames]


def encode_exchanges(
    items: Sequence[tuple[Published, Cursor]], run_id: str, *, is_current: bool = True
) -> list[Stream]:
    """Return the streams of a run: each ends when the run waits, and the next one begins there."""
    view, streams = RunView(run_id=run_id), list[Stream]()
    encoder, body = None, b""
    exchange = StreamRequest(thread_id="t", run_id="r", is_current=is_current, state={"cart": []})
    for item, cursor in items:
        if encoder is None:
            encoder = AgUiEncoder(view, exchange, cursor.seq - 1, cursor.seq)
            body = encoder.opening()
        body += encoder.item(item, cursor)
        if encoder.over:
            streams.append(parse_frames(body + encoder.closing()))
            encoder = None
            if view.end is not None:
                break
    return streams


def reduce_messages(streams: Iterable[Stream]) -> dict[str, Json]:
    """Return the messages of the assistant and of tools that a client makes of streams, by their ids."""
    messages: dict[str, Json] = {}
    calls: dict[str, Json] = {}
    for event in (event for stream in streams for event in stream):
        match event:
            case {"type": "TEXT_MESSAGE_START", "messageId": message_id}:
                messages.setdefault(message_id, {"id": message_id, "role": "assistant"}).setdefault("content", "")
            case {"type": "TEXT_MESSAGE_CONTENT", "messageId": message_id, "delta": delta}:
                messages[message_id]["content"] += delta
            case {"type": "TOOL_CALL_START", "toolCallId": call_id, "toolCallName": name, "parentMessageId": parent}:
                assert call_id not in calls
                call = calls[call_id] = {"id": call_id, "type": "function", "function": {"name": name, "arguments": ""}}
                message = messages.setdefault(parent, {"id": parent, "role": "assistant"})
                message.setdefault("toolCalls", []).append(call)
            case {"type": "TOOL_CALL_ARGS", "toolCallId": call_id, "delta": delta}:
                calls[call_id]["function"]["arguments"] += delta
            case {"type": "TOOL_CALL_RESULT", "messageId": message_id, "toolCallId": call_id, "content": content}:
                assert message_id not in messages
                messages[message_id] = {"id": message_id, "role": "tool", "content": content, "toolCallId": call_id}
            case _:
                pass
    return messages
