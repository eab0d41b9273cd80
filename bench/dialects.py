"""The mock model's answers in the dialects besides Chat Completions, each event as its provider writes it.

Every dialect has the same two answers: a call of `add`, or a text in a number of chunks.
"""

import json
from dataclasses import dataclass
from itertools import count

HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n"
    b"Transfer-Encoding: chunked\r\nConnection: keep-alive\r\n\r\n"
)
LAST = b"0\r\n\r\n"


def frame_chunk(line: str) -> bytes:
    """Return a line as one chunk of the HTTP body."""
    body = line.encode()
    return b"%x\r\n%s\r\n" % (len(body), body)


def split_in_thirds(text: str) -> list[str]:
    third = len(text) // 3 + 1
    return [text[at : at + third] for at in range(0, len(text), third)]


@dataclass(frozen=True)
class Dialect:
    """A provider's format of requests and events."""

    path: str
    """A text that the path of a request contains."""
    result: bytes
    """A text that the body of a request contains once for each result of a call."""

    def build_add_call(self, turn: int) -> bytes:
        arguments = {"a": turn, "b": turn + 1}
        return HEAD + b"".join(_ANSWERS[self.path](None, arguments)) + LAST

    def build_text(self, chunks: int) -> list[bytes]:
        first, *middle, last = _ANSWERS[self.path](chunks, None)
        return [HEAD + first, *middle, last + LAST]


def build_messages_events(chunks: int | None, arguments: dict[str, int] | None) -> list[bytes]:
    def build_event(kind: str, **more: object) -> bytes:
        return frame_chunk(f"event: {kind}\ndata: {json.dumps({'type': kind, **more})}\n\n")

    message = {"id": "msg_bench", "type": "message", "role": "assistant", "model": "bench", "content": []}
    usage = {"input_tokens": 20, "cache_read_input_tokens": 100, "output_tokens": 1, "service_tier": "standard"}
    start = build_event("message_start", message={**message, "stop_reason": None, "usage": usage})
    block = {"type": "text", "text": ""}
    deltas = [{"type": "text_delta", "text": f" word{number}"} for number in range(chunks or 0)]
    if arguments is not None:
        block = {"type": "tool_use", "id": f"toolu_{arguments['a']}", "name": "add", "input": {}}
        deltas = [
            {"type": "input_json_delta", "partial_json": piece} for piece in split_in_thirds(json.dumps(arguments))
        ]
    stop = {"stop_reason": "end_turn" if arguments is None else "tool_use", "stop_sequence": None}
    end = build_event("content_block_stop", index=0) + build_event(
        "message_delta", delta=stop, usage={"output_tokens": 24}
    )
    return [
        start + build_event("content_block_start", index=0, content_block=block),
        *(build_event("content_block_delta", index=0, delta=delta) for delta in deltas),
        end + build_event("message_stop"),
    ]


def build_responses_events(chunks: int | None, arguments: dict[str, int] | None) -> list[bytes]:
    numbers = count()

    def build_event(kind: str, **more: object) -> bytes:
        body = {"type": kind, "sequence_number": next(numbers), **more}
        return frame_chunk(f"event: {kind}\ndata: {json.dumps(body)}\n\n")

    response = {"id": "resp_bench", "object": "response", "model": "bench", "status": "in_progress", "output": []}
    usage = {"input_tokens": 120, "input_tokens_details": {"cached_tokens": 100}, "output_tokens": 24}
    item_fields = {"item_id": "item_bench", "output_index": 0}
    if arguments is None:
        item = {"id": "item_bench", "type": "message", "role": "assistant", "status": "in_progress", "content": []}
        words = [f" word{number}" for number in range(chunks or 0)]
        part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
        start = build_event("response.content_part.added", **item_fields, content_index=0, part=part)
        text_fields = {**item_fields, "content_index": 0, "logprobs": [], "obfuscation": "Zx81"}
        deltas = [build_event("response.output_text.delta", **text_fields, delta=word) for word in words]
        completed_item = {**item, "status": "completed", "content": [{**part, "text": "".join(words)}]}
    else:
        arguments_text = json.dumps(arguments)
        call_fields = {"id": "item_bench", "type": "function_call", "call_id": f"call_{arguments['a']}", "name": "add"}
        item = {**call_fields, "arguments": "", "status": "in_progress"}
        start = b""
        deltas = [
            build_event("response.function_call_arguments.delta", **item_fields, delta=piece)
            for piece in split_in_thirds(arguments_text)
        ]
        completed_item = {**item, "arguments": arguments_text, "status": "completed"}
    completed = {
        **response,
        "status": "completed",
        "output": [completed_item],
        "usage": {**usage, "total_tokens": 144},
    }
    return [
        build_event("response.created", response=response)
        + build_event("response.output_item.added", output_index=0, item=item)
        + start,
        *deltas,
        build_event("response.output_item.done", output_index=0, item=completed_item)
        + build_event("response.completed", response=completed),
    ]


def build_gemini_events(chunks: int | None, arguments: dict[str, int] | None) -> list[bytes]:
    usage = {"promptTokenCount": 120, "candidatesTokenCount": 24, "totalTokenCount": 144}

    def build_event(part: dict[str, object], **more: object) -> bytes:
        candidate = {"content": {"parts": [part], "role": "model"}, "index": 0, **more}
        body = {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "bench", "responseId": "bench"}
        return frame_chunk(f"data: {json.dumps(body)}\r\n\r\n")

    if arguments is not None:
        return [
            build_event({"functionCall": {"name": "add", "args": arguments}}),
            build_event({"text": ""}, finishReason="STOP"),
        ]
    words = [build_event({"text": f" word{number}"}) for number in range(chunks or 0)]
    return [build_event({"text": ""}), *words, build_event({"text": ""}, finishReason="STOP")]


_ANSWERS = {
    "/messages": build_messages_events,
    "/responses": build_responses_events,
    ":streamGenerateContent": build_gemini_events,
}
DIALECTS = (
    Dialect("/messages", b'"type":"tool_result"'),
    Dialect("/responses", b'"type":"function_call_output"'),
    Dialect(":streamGenerateContent", b'"functionResponse":'),
)


def find_dialect(path: str) -> Dialect | None:
    """Return the dialect of a request, or None for Chat Completions, which `mock_server.py` writes itself."""
    return next((dialect for dialect in DIALECTS if dialect.path in path), None)
