"""Replies of the Responses API, orderly and odd, with what each must be read as; and those that must fail."""

import json

from wire.reply_bytes import ADD_1_2, ADD_3_4, NOW, FailingStream, Stream
from wire.responses_bytes import (
    CITED_TEXT,
    CODE,
    FILES,
    SEARCH,
    EventScript,
    Json,
    ScriptedOutput,
    build_reasoning,
    call,
    events,
    refusal,
    response,
    text,
)

ADD = call("add", '{"a":1,', '"b":2}')


def body(*outputs: ScriptedOutput, ends: str = "completed", reason: str = "") -> bytes:
    return b"".join(events(*outputs, ends=ends, reason=reason))


def build_without(kind: str, *outputs: ScriptedOutput) -> bytes:
    """A reply that leaves out all events of a kind."""
    return b"".join(event for event in events(*outputs) if not event.startswith(b"event: " + kind.encode() + b"\n"))


def build_cut_off(*outputs: ScriptedOutput) -> bytes:
    """A reply that was stopped at the token limit."""
    return body(*outputs, ends="incomplete", reason="max_output_tokens")


def insert_events(*extra_events: Json) -> bytes:
    """A text with other events in the middle of it."""
    first, *others = events(text("a", "b"))
    odd = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in extra_events)
    return first + odd + b"".join(others)


STREAMS = [
    Stream(name="text", body=body(text("I've ", "added ", "面粉 🥛.")), text="I've added 面粉 🥛."),
    Stream(name="a call in pieces", body=body(ADD), calls=[ADD_1_2], ids=["call_0"], finish="calls"),
    Stream(
        name="text and two calls",
        body=body(text("I add."), ADD, call("add", '{"a":3,"b":4}', number=1)),
        text="I add.",
        calls=[ADD_1_2, ADD_3_4],
        ids=["call_0", "call_1"],
        finish="calls",
    ),
    Stream(name="a call without arguments", body=body(call("now", "{}")), calls=[NOW], finish="calls"),
    Stream(
        name="reasoning, then text",
        body=body(build_reasoning("Hm.", "Yes, I see."), text("Yes")),
        reasoning="Hm.\n\nYes, I see.",
        text="Yes",
    ),
    Stream(
        name="reasoning without a summary, then a call",
        body=body(build_reasoning(), ADD),
        calls=[ADD_1_2],
        finish="calls",
    ),
    Stream(name="a refusal", body=body(refusal("I ", "won't")), text="I won't", finish="refused"),
    Stream(name="a search with a citation", body=body(build_reasoning(), SEARCH, CITED_TEXT), text="Milk is 🥛 white."),
    Stream(
        name="all of OpenAI's own tools, and one of ours",
        body=body(SEARCH, CODE, FILES, CITED_TEXT, ADD),
        text="Milk is 🥛 white.",
        calls=[ADD_1_2],
        finish="calls",
    ),
    Stream(name="two messages", body=body(text("One. "), text("Two.")), text="One. Two."),
    Stream(name="stopped at the token limit", body=build_cut_off(text("On and")), text="On and", finish="length"),
    Stream(
        name="stopped by the content filter",
        body=body(text("On"), ends="incomplete", reason="content_filter"),
        text="On",
        finish="refused",
    ),
    Stream(
        name="stopped by the content filter before the first word",
        body=body(ends="incomplete", reason="content_filter"),
        text="The provider refused to answer this request.",
        finish="refused",
        sdk=False,
    ),
    Stream(
        name="cut off inside a call",
        body=build_cut_off(call("add", '{"a":1,', status="incomplete")),
        calls=[("add", {})],
        unreadable={0: "cut off"},
        finish="calls",
        sdk=False,
    ),
    Stream(
        name="cut off after what looks like a whole call",
        body=build_cut_off(call("add", '{"a":1}', status="incomplete")),
        calls=[("add", {})],
        unreadable={0: "cut off"},
        finish="calls",
        sdk=False,
    ),
    Stream(
        name="one whole call, the next one cut off before its arguments",
        body=build_cut_off(ADD, call("add", number=1, status="incomplete")),
        calls=[ADD_1_2, ("add", {})],
        unreadable={1: "cut off"},
        finish="calls",
        sdk=False,
    ),
    Stream(
        name="arguments that are an array",
        body=body(call("add", "[1]")),
        calls=[("add", {})],
        unreadable={0: "not a JSON object"},
        finish="calls",
        sdk=False,
    ),
    Stream(
        name="a call that is never done",
        body=build_without("response.output_item.done", ADD).replace(b"function_call_arguments.done", b"nothing"),
        calls=[ADD_1_2],
        finish="calls",
    ),
    Stream(
        name="a call that is never done, and nothing of it at the end",
        body=b"".join([*events(ADD)[:-3], *events()[-1:]]),
        calls=[("add", {})],
        unreadable={0: "cut off"},
        finish="calls",
        sdk=False,
    ),
    Stream(
        name="no deltas at all",
        body=b"".join(event for event in events(build_reasoning("Hm."), text("Yes"), ADD) if b".delta" not in event),
        reasoning="Hm.",
        text="Yes",
        calls=[ADD_1_2],
        finish="calls",
        sdk=False,
    ),
    Stream(
        name="only the end", body=events(text("Yes"), ADD)[-1], text="Yes", calls=[ADD_1_2], finish="calls", sdk=False
    ),
    Stream(
        name="unknown events, also of another shape",
        body=insert_events(
            {"type": "response.dreamt", "delta": {"of": "sheep"}},
            {"type": "response.queued", "sequence_number": 9, "response": 7},
            {"type": "keepalive"},
        ),
        text="ab",
        sdk=False,
    ),
    Stream(
        name="an item that is unknown",
        body=body(ScriptedOutput({"type": "dream_call", "id": "d_1"}, {"type": "dream_call", "id": "d_1"}), text("a")),
        text="a",
    ),
    Stream(name="[DONE] after the end, as proxies write it", body=body(text("a")) + b"data: [DONE]\n\n", text="a"),
    Stream(name="CRLF", body=body(text("a")).replace(b"\n", b"\r\n"), text="a"),
    Stream(
        name="half a character in the text",
        body=body(text("a#")).replace(b"#", b"\\ud83d"),
        text="a\ufffd",
        sdk=False,
    ),
    Stream(
        name="a byte that is not UTF-8 in the arguments",
        body=body(call("add", '{"a":"#"}')).replace(b"#", b"\xff"),
        calls=[("add", {})],
        unreadable={0: "Unicode"},
        finish="calls",
        sdk=False,
    ),
    Stream(
        name="a whole response instead of a stream",
        body=json.dumps(response("completed", [text("I add.").done, ADD.done])).encode(),
        content_type="application/json",
        text="I add.",
        calls=[ADD_1_2],
        finish="calls",
        sdk=False,
    ),
    Stream(
        name="a name that no tool can have",
        body=body(call("", "{}"), call("a.b/c d", "{}", number=1)),
        calls=[("", {}), ("a.b/c d", {})],
        finish="calls",
    ),
]


def build_failing(kind: str, **fields: object) -> bytes:
    """A reply that ends in this event after its first word."""
    script = EventScript(events(text("a"))[:5])
    script.add(kind, **fields)
    return b"".join(script.events)


def build_failed(code: str, message: str) -> bytes:
    failed_response = response("failed", error={"code": code, "message": message})
    return build_failing("response.failed", response=failed_response)


FAILING = [
    FailingStream(name="broke off", body=b"".join(events(text("a"))[:5]), error_type="unavailable", says="broke off"),
    FailingStream(name="no final event", body=b"".join(events(ADD)[:-1]), error_type="unavailable", says="broke off"),
    FailingStream(
        name="[DONE] without a final event",
        body=b"".join(events(ADD)[:-1]) + b"data: [DONE]\n\n",
        error_type="unavailable",
        says="broke off",
    ),
    FailingStream(
        name="broke off inside the final event",
        body=body(text("a"))[:-40],
        error_type="unavailable",
        says="broke off",
    ),
    FailingStream(name="an empty body", body=b"", error_type="unavailable", says="empty"),
    FailingStream(
        name="failed at the server",
        body=build_failed("server_error", "The model failed to generate a response."),
        error_type="unavailable",
        says="The model failed to generate",
    ),
    FailingStream(
        name="failed for the rate",
        body=build_failed("rate_limit_exceeded", "Rate limit reached for gpt-5"),
        error_type="rate_limited",
        says="Rate limit reached",
    ),
    FailingStream(
        name="failed for the prompt",
        body=build_failed("invalid_prompt", "Invalid prompt"),
        error_type="model_error",
        says="Invalid prompt",
    ),
    FailingStream(
        name="failed without a reason",
        body=build_failing("response.failed", response=response("failed")),
        error_type="model_error",
        says="the reply is failed",
    ),
    FailingStream(
        name="cancelled",
        body=build_failing("response.incomplete", response=response("cancelled")),
        error_type="model_error",
        says="the reply is cancelled",
    ),
    FailingStream(
        name="an error event",
        body=build_failing("error", code="server_error", message="out of memory", param=None),
        error_type="unavailable",
        says="out of memory",
    ),
    FailingStream(
        name="an error event that is wrapped",
        body=build_failing("error", error={"type": "overloaded_error", "message": "busy"}),
        error_type="unavailable",
        says="busy",
    ),
    FailingStream(
        name="an error written bare between events",
        body=b"".join(events(text("a"))[:5]) + b'{"error": "upstream died"}\n\n',
        error_type="model_error",
        says="upstream died",
    ),
    FailingStream(name="garbage", body=b"data: what?\n\n", error_type="model_error", says="not JSON: what?"),
    FailingStream(
        name="an event of another shape that matters",
        body=b'data: {"type": "response.completed", "response": "yes"}\n\n',
        error_type="model_error",
        says="cannot be read",
    ),
    FailingStream(
        name="an error object with status 200",
        body=b'{"error": {"message": "bad key", "code": "invalid_api_key"}}',
        error_type="model_error",
        says="bad key",
        content_type="application/json",
    ),
    FailingStream(
        name="a page",
        body=b"<!doctype html><title>Log in</title>",
        error_type="model_error",
        says="<title>Log in",
        content_type="text/html",
    ),
]
