"""The mock model's answers in the other dialects that our wires speak, each event as its provider writes it.

Every dialect has the same two answers: it asks for `add`, or it says a text in so many chunks.
"""

import json
from dataclasses import dataclass
from itertools import count

HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n"
    b"Transfer-Encoding: chunked\r\nConnection: keep-alive\r\n\r\n"
)
LAST = b"0\r\n\r\n"


def framed(line: str) -> bytes:
    """One chunk of the HTTP body."""
    body = line.encode()
    return b"%x\r\n%s\r\n" % (len(body), body)


def thirds(text: str) -> list[str]:
    third = len(text) // 3 + 1
    return [text[at : at + third] for at in range(0, len(text), third)]


@dataclass(frozen=True)
class Dialect:
    path: str
    """What a request's path holds."""
    result: bytes
    """What its body holds once for each result."""

    def asks_to_add(self, turn: int) -> bytes:
        arguments = {"a": turn, "b": turn + 1}
        return HEAD + b"".join(_ANSWERS[self.path](None, arguments)) + LAST

    def says(self, chunks: int) -> list[bytes]:
        first, *middle, last = _ANSWERS[self.path](chunks, None)
        return [HEAD + first, *middle, last + LAST]


def messages(chunks: int | None, arguments: dict[str, int] | None) -> list[bytes]:
    def event(kind: str, **more: object) -> bytes:
        return framed(f"event: {kind}\ndata: {json.dumps({'type': kind, **more})}\n\n")

    message = {"id": "msg_bench", "type": "message", "role": "assistant", "model": "bench", "content": []}
    usage = {"input_tokens": 20, "cache_read_input_tokens": 100, "output_tokens": 1, "service_tier": "standard"}
    begun = event("message_start", message={**message, "stop_reason": None, "usage": usage})
    block = {"type": "text", "text": ""}
    deltas = [{"type": "text_delta", "text": f" word{number}"} for number in range(chunks or 0)]
    if arguments is not None:
        block = {"type": "tool_use", "id": f"toolu_{arguments['a']}", "name": "add", "input": {}}
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in thirds(json.dumps(arguments))]
    stop = {"stop_reason": "end_turn" if arguments is None else "tool_use", "stop_sequence": None}
    closed = event("content_block_stop", index=0) + event("message_delta", delta=stop, usage={"output_tokens": 24})
    return [
        begun + event("content_block_start", index=0, content_block=block),
        *(event("content_block_delta", index=0, delta=delta) for delta in deltas),
        closed + event("message_stop"),
    ]


def responses(chunks: int | None, arguments: dict[str, int] | None) -> list[bytes]:
    numbers = count()

    def event(kind: str, **more: object) -> bytes:
        body = {"type": kind, "sequence_number": next(numbers), **more}
        return framed(f"event: {kind}\ndata: {json.dumps(body)}\n\n")

    response = {"id": "resp_bench", "object": "response", "model": "bench", "status": "in_progress", "output": []}
    usage = {"input_tokens": 120, "input_tokens_details": {"cached_tokens": 100}, "output_tokens": 24}
    place = {"item_id": "item_bench", "output_index": 0}
    if arguments is None:
        item = {"id": "item_bench", "type": "message", "role": "assistant", "status": "in_progress", "content": []}
        words = [f" word{number}" for number in range(chunks or 0)]
        part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
        begun = event("response.content_part.added", **place, content_index=0, part=part)
        where = {**place, "content_index": 0, "logprobs": [], "obfuscation": "Zx81"}
        deltas = [event("response.output_text.delta", **where, delta=word) for word in words]
        done = {**item, "status": "completed", "content": [{**part, "text": "".join(words)}]}
    else:
        written = json.dumps(arguments)
        called = {"id": "item_bench", "type": "function_call", "call_id": f"call_{arguments['a']}", "name": "add"}
        item = {**called, "arguments": "", "status": "in_progress"}
        begun = b""
        deltas = [event("response.function_call_arguments.delta", **place, delta=one) for one in thirds(written)]
        done = {**item, "arguments": written, "status": "completed"}
    ended = {**response, "status": "completed", "output": [done], "usage": {**usage, "total_tokens": 144}}
    return [
        event("response.created", response=response)
        + event("response.output_item.added", output_index=0, item=item)
        + begun,
        *deltas,
        event("response.output_item.done", output_index=0, item=done) + event("response.completed", response=ended),
    ]


def gemini(chunks: int | None, arguments: dict[str, int] | None) -> list[bytes]:
    usage = {"promptTokenCount": 120, "candidatesTokenCount": 24, "totalTokenCount": 144}

    def event(part: dict[str, object], **more: object) -> bytes:
        candidate = {"content": {"parts": [part], "role": "model"}, "index": 0, **more}
        body = {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "bench", "responseId": "bench"}
        return framed(f"data: {json.dumps(body)}\r\n\r\n")

    if arguments is not None:
        return [event({"functionCall": {"name": "add", "args": arguments}}), event({"text": ""}, finishReason="STOP")]
    words = [event({"text": f" word{number}"}) for number in range(chunks or 0)]
    return [event({"text": ""}), *words, event({"text": ""}, finishReason="STOP")]


_ANSWERS = {"/messages": messages, "/responses": responses, ":streamGenerateContent": gemini}
DIALECTS = (
    Dialect("/messages", b'"type":"tool_result"'),
    Dialect("/responses", b'"type":"function_call_output"'),
    Dialect(":streamGenerateContent", b'"functionResponse":'),
)


def dialect_of(path: str) -> Dialect | None:
    """None for Chat Completions, which is the mock's own."""
    return next((one for one in DIALECTS if one.path in path), None)
