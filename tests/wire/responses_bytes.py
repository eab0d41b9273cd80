"""Replies of the Responses API as bytes, written as OpenAI writes them: each event in full, numbered, with its name."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from wire.strict import Reply
from wire.strict_responses import SEAL

MODEL = "gpt-5-mini"
Json = dict[str, object]
Event = tuple[str, Json]


@dataclass(frozen=True)
class ScriptedOutput:
    """One item of a reply's output: what is streamed of it, and what it is in the end."""

    start: Json
    done: Json
    deltas: Sequence[Event] = ()


def text(*pieces: str, annotations: Sequence[Json] = (), **more: object) -> ScriptedOutput:
    part: Json = {"type": "output_text", "text": "".join(pieces), "annotations": list(annotations), "logprobs": []}
    empty: Json = {**part, "text": "", "annotations": []}
    item: Json = {"id": "msg_1", "type": "message", "role": "assistant", "content": [part], **more}
    position: Json = {"item_id": "msg_1", "content_index": 0}
    deltas: list[Event] = [("response.content_part.added", {**position, "part": empty})]
    deltas += [("response.output_text.delta", {**position, "delta": piece, "logprobs": []}) for piece in pieces]
    deltas += [
        ("response.output_text.annotation.added", {**position, "annotation": note, "annotation_index": number})
        for number, note in enumerate(annotations)
    ]
    deltas.append(("response.output_text.done", {**position, "text": part["text"], "logprobs": []}))
    deltas.append(("response.content_part.done", {**position, "part": part}))
    return ScriptedOutput({**item, "content": [], "status": "in_progress"}, {**item, "status": "completed"}, deltas)


def refusal(*pieces: str) -> ScriptedOutput:
    part: Json = {"type": "refusal", "refusal": "".join(pieces)}
    item: Json = {"id": "msg_1", "type": "message", "role": "assistant", "content": [part]}
    position: Json = {"item_id": "msg_1", "content_index": 0}
    deltas: list[Event] = [("response.refusal.delta", {**position, "delta": piece}) for piece in pieces]
    deltas.append(("response.refusal.done", {**position, "refusal": part["refusal"]}))
    return ScriptedOutput({**item, "content": [], "status": "in_progress"}, {**item, "status": "completed"}, deltas)


def build_reasoning(*summaries: str, id: str = "rs_1", model: str = MODEL) -> ScriptedOutput:
    """Reasoning, sealed for its model, with a summary in these parts."""
    item: Json = {"id": id, "type": "reasoning", "summary": []}
    deltas: list[Event] = []
    for number, text in enumerate(summaries):
        position: Json = {"item_id": id, "summary_index": number}
        part: Json = {"type": "summary_text", "text": text}
        deltas.append(("response.reasoning_summary_part.added", {**position, "part": {**part, "text": ""}}))
        middle = len(text) // 2
        for delta in (text[:middle], text[middle:]):
            deltas.append(("response.reasoning_summary_text.delta", {**position, "delta": delta}))
        deltas.append(("response.reasoning_summary_text.done", {**position, "text": text}))
        deltas.append(("response.reasoning_summary_part.done", {**position, "part": part}))
    summary = [{"type": "summary_text", "text": text} for text in summaries]
    return ScriptedOutput(item, {**item, "summary": summary, "encrypted_content": f"{SEAL}{model}:{id}"}, deltas)


def call(tool: str, *pieces: str, number: int = 0, status: str = "completed") -> ScriptedOutput:
    """A call whose arguments come in these pieces."""
    item: Json = {"id": f"fc_{number}", "type": "function_call", "name": tool, "call_id": f"call_{number}"}
    position: Json = {"item_id": item["id"]}
    arguments = "".join(pieces)
    deltas: list[Event] = [("response.function_call_arguments.delta", {**position, "delta": piece}) for piece in pieces]
    if status == "completed":
        deltas.append(("response.function_call_arguments.done", {**position, "arguments": arguments, "name": tool}))
    start: Json = {**item, "arguments": "", "status": "in_progress"}
    return ScriptedOutput(start, {**item, "arguments": arguments, "status": status}, deltas)


def build_hosted_call(kind: str, id: str, *, status: str = "completed", **fields: object) -> ScriptedOutput:
    """A call that the provider runs itself."""
    item: Json = {"id": id, "type": kind, **fields}
    names = {"web_search_call": "searching", "file_search_call": "searching", "code_interpreter_call": "interpreting"}
    deltas: list[Event] = [
        (f"response.{kind}.{step}", {"item_id": id}) for step in ("in_progress", names[kind], "completed")
    ]
    return ScriptedOutput({**item, "status": "in_progress"}, {**item, "status": status}, deltas)


SEARCH = build_hosted_call(
    "web_search_call",
    "ws_1",
    action={"type": "search", "query": "milk", "sources": [{"type": "url", "url": "https://example.org/milk"}]},
)
CITED_TEXT = text(
    "Milk is 🥛 white.",
    annotations=[
        {
            "type": "url_citation",
            "start_index": 0,
            "end_index": 4,
            "url": "https://example.org/milk",
            "title": "Milk",
        }
    ],
)
CODE = build_hosted_call(
    "code_interpreter_call",
    "ci_1",
    code="print(6*7)",
    container_id="cntr_1",
    outputs=[{"type": "logs", "logs": "42\n"}],
)
FILES = build_hosted_call(
    "file_search_call", "fs_1", queries=["milk"], results=[{"file_id": "file_1", "text": "white"}]
)


@dataclass
class EventScript:
    """Numbers the events of one reply."""

    events: list[bytes] = field(default_factory=list[bytes])

    def add(self, kind: str, **fields: object) -> None:
        event = {"type": kind, "sequence_number": len(self.events), **fields}
        self.events.append(b"event: " + kind.encode() + b"\ndata: " + json.dumps(event).encode() + b"\n\n")


def response(status: str, outputs: Iterable[Json] = (), **fields: object) -> Json:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": f"{MODEL}-2025",
        "status": status,
        "output": list(outputs),
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        **fields,
    }


USAGE: Json = {
    "input_tokens": 10,
    "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0},
    "output_tokens": 5,
    "output_tokens_details": {"reasoning_tokens": 1},
    "total_tokens": 15,
}


def events(*outputs: ScriptedOutput, ends: str = "completed", reason: str = "", **fields: object) -> list[bytes]:
    """A whole reply, one event each."""
    script = EventScript()
    script.add("response.created", response=response("in_progress"))
    script.add("response.in_progress", response=response("in_progress"))
    for index, output in enumerate(outputs):
        script.add("response.output_item.added", output_index=index, item=output.start)
        for kind, delta in output.deltas:
            script.add(kind, output_index=index, **delta)
        script.add("response.output_item.done", output_index=index, item=output.done)
    why = {"incomplete_details": {"reason": reason}} if reason else {}
    final_response = response(ends, [output.done for output in outputs], usage=USAGE, **why, **fields)
    script.add(f"response.{ends}", response=final_response)
    return script.events


def replies(*outputs: ScriptedOutput, ends: str = "completed", reason: str = "", **fields: object) -> Reply:
    """The same as an answer of the strict server."""
    return Reply(packets=events(*outputs, ends=ends, reason=reason, **fields))


def says(*pieces: str) -> Reply:
    return replies(text(*pieces))


def asks(*calls: tuple[str, object], words: str = "") -> Reply:
    """Calls by tool and arguments; arguments that are a text are sent as they are."""
    call_texts = [
        (tool, arguments if isinstance(arguments, str) else json.dumps(arguments)) for tool, arguments in calls
    ]
    call_items = [call(tool, arguments, number=number) for number, (tool, arguments) in enumerate(call_texts)]
    return replies(*([text(words)] if words else []), *call_items)
