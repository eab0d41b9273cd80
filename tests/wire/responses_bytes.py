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
class Output:
    """One item of a reply's output: what is streamed of it, and what it is in the end."""

    begun: Json
    done: Json
    deltas: Sequence[Event] = ()


def text(*pieces: str, annotations: Sequence[Json] = (), **more: object) -> Output:
    part: Json = {"type": "output_text", "text": "".join(pieces), "annotations": list(annotations), "logprobs": []}
    empty: Json = {**part, "text": "", "annotations": []}
    item: Json = {"id": "msg_1", "type": "message", "role": "assistant", "content": [part], **more}
    place: Json = {"item_id": "msg_1", "content_index": 0}
    deltas: list[Event] = [("response.content_part.added", {**place, "part": empty})]
    deltas += [("response.output_text.delta", {**place, "delta": piece, "logprobs": []}) for piece in pieces]
    deltas += [
        ("response.output_text.annotation.added", {**place, "annotation": note, "annotation_index": number})
        for number, note in enumerate(annotations)
    ]
    deltas.append(("response.output_text.done", {**place, "text": part["text"], "logprobs": []}))
    deltas.append(("response.content_part.done", {**place, "part": part}))
    return Output({**item, "content": [], "status": "in_progress"}, {**item, "status": "completed"}, deltas)


def refusal(*pieces: str) -> Output:
    part: Json = {"type": "refusal", "refusal": "".join(pieces)}
    item: Json = {"id": "msg_1", "type": "message", "role": "assistant", "content": [part]}
    place: Json = {"item_id": "msg_1", "content_index": 0}
    deltas: list[Event] = [("response.refusal.delta", {**place, "delta": piece}) for piece in pieces]
    deltas.append(("response.refusal.done", {**place, "refusal": part["refusal"]}))
    return Output({**item, "content": [], "status": "in_progress"}, {**item, "status": "completed"}, deltas)


def thought(*summaries: str, id: str = "rs_1", model: str = MODEL) -> Output:
    """Reasoning, sealed for its model, with a summary in these parts."""
    item: Json = {"id": id, "type": "reasoning", "summary": []}
    deltas: list[Event] = []
    for number, told in enumerate(summaries):
        place: Json = {"item_id": id, "summary_index": number}
        part: Json = {"type": "summary_text", "text": told}
        deltas.append(("response.reasoning_summary_part.added", {**place, "part": {**part, "text": ""}}))
        middle = len(told) // 2
        for delta in (told[:middle], told[middle:]):
            deltas.append(("response.reasoning_summary_text.delta", {**place, "delta": delta}))
        deltas.append(("response.reasoning_summary_text.done", {**place, "text": told}))
        deltas.append(("response.reasoning_summary_part.done", {**place, "part": part}))
    summary = [{"type": "summary_text", "text": told} for told in summaries]
    return Output(item, {**item, "summary": summary, "encrypted_content": f"{SEAL}{model}:{id}"}, deltas)


def call(tool: str, *pieces: str, number: int = 0, status: str = "completed") -> Output:
    """A call whose arguments come in these pieces."""
    item: Json = {"id": f"fc_{number}", "type": "function_call", "name": tool, "call_id": f"call_{number}"}
    place: Json = {"item_id": item["id"]}
    whole = "".join(pieces)
    deltas: list[Event] = [("response.function_call_arguments.delta", {**place, "delta": piece}) for piece in pieces]
    if status == "completed":
        deltas.append(("response.function_call_arguments.done", {**place, "arguments": whole, "name": tool}))
    begun: Json = {**item, "arguments": "", "status": "in_progress"}
    return Output(begun, {**item, "arguments": whole, "status": status}, deltas)


def hosted(kind: str, id: str, *, status: str = "completed", **known: object) -> Output:
    """A call that the provider runs itself."""
    item: Json = {"id": id, "type": kind, **known}
    names = {"web_search_call": "searching", "file_search_call": "searching", "code_interpreter_call": "interpreting"}
    deltas: list[Event] = [
        (f"response.{kind}.{step}", {"item_id": id}) for step in ("in_progress", names[kind], "completed")
    ]
    return Output({**item, "status": "in_progress"}, {**item, "status": status}, deltas)


SEARCH = hosted(
    "web_search_call",
    "ws_1",
    action={"type": "search", "query": "milk", "sources": [{"type": "url", "url": "https://example.org/milk"}]},
)
CITED = text(
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
CODE = hosted(
    "code_interpreter_call",
    "ci_1",
    code="print(6*7)",
    container_id="cntr_1",
    outputs=[{"type": "logs", "logs": "42\n"}],
)
FILES = hosted("file_search_call", "fs_1", queries=["milk"], results=[{"file_id": "file_1", "text": "white"}])


@dataclass
class Script:
    """Numbers the events of one reply."""

    events: list[bytes] = field(default_factory=list[bytes])

    def add(self, kind: str, **known: object) -> None:
        told = {"type": kind, "sequence_number": len(self.events), **known}
        self.events.append(b"event: " + kind.encode() + b"\ndata: " + json.dumps(told).encode() + b"\n\n")


def response(status: str, outputs: Iterable[Json] = (), **known: object) -> Json:
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
        **known,
    }


USAGE: Json = {
    "input_tokens": 10,
    "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0},
    "output_tokens": 5,
    "output_tokens_details": {"reasoning_tokens": 1},
    "total_tokens": 15,
}


def events(*outputs: Output, ends: str = "completed", reason: str = "", **known: object) -> list[bytes]:
    """A whole reply, one event each."""
    script = Script()
    script.add("response.created", response=response("in_progress"))
    script.add("response.in_progress", response=response("in_progress"))
    for index, output in enumerate(outputs):
        script.add("response.output_item.added", output_index=index, item=output.begun)
        for kind, delta in output.deltas:
            script.add(kind, output_index=index, **delta)
        script.add("response.output_item.done", output_index=index, item=output.done)
    why = {"incomplete_details": {"reason": reason}} if reason else {}
    whole = response(ends, [output.done for output in outputs], usage=USAGE, **why, **known)
    script.add(f"response.{ends}", response=whole)
    return script.events


def replies(*outputs: Output, ends: str = "completed", reason: str = "", **known: object) -> Reply:
    """The same as an answer of the strict server."""
    return Reply(packets=events(*outputs, ends=ends, reason=reason, **known))


def says(*pieces: str) -> Reply:
    return replies(text(*pieces))


def asks(*calls: tuple[str, object], said: str = "") -> Reply:
    """Calls by tool and arguments; arguments that are a text are sent as they are."""
    written = [(tool, given if isinstance(given, str) else json.dumps(given)) for tool, given in calls]
    asked = [call(tool, given, number=number) for number, (tool, given) in enumerate(written)]
    return replies(*([text(said)] if said else []), *asked)
