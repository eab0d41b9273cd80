"""Replies of the Responses API, orderly and odd, with what each must be read as; and those that must fail."""

import json

from wire.reply_bytes import ADD_1_2, ADD_3_4, NOW, Failing, Stream
from wire.responses_bytes import (
    CITED,
    CODE,
    FILES,
    SEARCH,
    Json,
    Output,
    Script,
    call,
    events,
    refusal,
    response,
    text,
    thought,
)

ADD = call("add", '{"a":1,', '"b":2}')


def body(*outputs: Output, ends: str = "completed", reason: str = "") -> bytes:
    return b"".join(events(*outputs, ends=ends, reason=reason))


def without(kind: str, *outputs: Output) -> bytes:
    """A reply that leaves out all events of a kind."""
    return b"".join(event for event in events(*outputs) if not event.startswith(b"event: " + kind.encode() + b"\n"))


def cut(*outputs: Output) -> bytes:
    """A reply that was stopped at the token limit."""
    return body(*outputs, ends="incomplete", reason="max_output_tokens")


def mid(*strange: Json) -> bytes:
    """A text with other events in the middle of it."""
    first, *others = events(text("a", "b"))
    odd = b"".join(b"data: " + json.dumps(one).encode() + b"\n\n" for one in strange)
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
        body=body(thought("Hm.", "Yes, I see."), text("Yes")),
        reasoning="Hm.\n\nYes, I see.",
        text="Yes",
    ),
    Stream(name="reasoning without a summary, then a call", body=body(thought(), ADD), calls=[ADD_1_2], finish="calls"),
    Stream(name="a refusal", body=body(refusal("I ", "won't")), text="I won't", finish="refused"),
    Stream(name="a search with a citation", body=body(thought(), SEARCH, CITED), text="Milk is 🥛 white."),
    Stream(
        name="all of OpenAI's own tools, and one of ours",
        body=body(SEARCH, CODE, FILES, CITED, ADD),
        text="Milk is 🥛 white.",
        calls=[ADD_1_2],
        finish="calls",
    ),
    Stream(name="two messages", body=body(text("One. "), text("Two.")), text="One. Two."),
    Stream(name="stopped at the token limit", body=cut(text("On and")), text="On and", finish="length"),
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
        body=cut(call("add", '{"a":1,', status="incomplete")),
        calls=[("add", {})],
        unreadable={0: "cut off"},
        finish="calls",
        sdk=False,
    ),
    Stream(
        name="cut off after what looks like a whole call",
        body=cut(call("add", '{"a":1}', status="incomplete")),
        calls=[("add", {})],
        unreadable={0: "cut off"},
        finish="calls",
        sdk=False,
    ),
    Stream(
        name="one whole call, the next one cut off before its arguments",
        body=cut(ADD, call("add", number=1, status="incomplete")),
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
        body=without("response.output_item.done", ADD).replace(b"function_call_arguments.done", b"nothing"),
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
        body=b"".join(event for event in events(thought("Hm."), text("Yes"), ADD) if b".delta" not in event),
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
        body=mid(
            {"type": "response.dreamt", "delta": {"of": "sheep"}},
            {"type": "response.queued", "sequence_number": 9, "response": 7},
            {"type": "keepalive"},
        ),
        text="ab",
        sdk=False,
    ),
    Stream(
        name="an item that is unknown",
        body=body(Output({"type": "dream_call", "id": "d_1"}, {"type": "dream_call", "id": "d_1"}), text("a")),
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


def failing(kind: str, **known: object) -> bytes:
    """A reply that ends in this event after its first word."""
    script = Script(events(text("a"))[:5])
    script.add(kind, **known)
    return b"".join(script.events)


def failed(code: str, message: str) -> bytes:
    told = response("failed", error={"code": code, "message": message})
    return failing("response.failed", response=told)


FAILING = [
    Failing(name="broke off", body=b"".join(events(text("a"))[:5]), error_type="unavailable", says="broke off"),
    Failing(name="no final event", body=b"".join(events(ADD)[:-1]), error_type="unavailable", says="broke off"),
    Failing(
        name="[DONE] without a final event",
        body=b"".join(events(ADD)[:-1]) + b"data: [DONE]\n\n",
        error_type="unavailable",
        says="broke off",
    ),
    Failing(
        name="broke off inside the final event",
        body=body(text("a"))[:-40],
        error_type="unavailable",
        says="broke off",
    ),
    Failing(name="an empty body", body=b"", error_type="unavailable", says="empty"),
    Failing(
        name="failed at the server",
        body=failed("server_error", "The model failed to generate a response."),
        error_type="unavailable",
        says="The model failed to generate",
    ),
    Failing(
        name="failed for the rate",
        body=failed("rate_limit_exceeded", "Rate limit reached for gpt-5"),
        error_type="rate_limited",
        says="Rate limit reached",
    ),
    Failing(
        name="failed for the prompt",
        body=failed("invalid_prompt", "Invalid prompt"),
        error_type="model_error",
        says="Invalid prompt",
    ),
    Failing(
        name="failed without a reason",
        body=failing("response.failed", response=response("failed")),
        error_type="model_error",
        says="the reply is failed",
    ),
    Failing(
        name="cancelled",
        body=failing("response.incomplete", response=response("cancelled")),
        error_type="model_error",
        says="the reply is cancelled",
    ),
    Failing(
        name="an error event",
        body=failing("error", code="server_error", message="out of memory", param=None),
        error_type="unavailable",
        says="out of memory",
    ),
    Failing(
        name="an error event that is wrapped",
        body=failing("error", error={"type": "overloaded_error", "message": "busy"}),
        error_type="unavailable",
        says="busy",
    ),
    Failing(
        name="an error written bare between events",
        body=b"".join(events(text("a"))[:5]) + b'{"error": "upstream died"}\n\n',
        error_type="model_error",
        says="upstream died",
    ),
    Failing(name="garbage", body=b"data: what?\n\n", error_type="model_error", says="not JSON: what?"),
    Failing(
        name="an event of another shape that matters",
        body=b'data: {"type": "response.completed", "response": "yes"}\n\n',
        error_type="model_error",
        says="cannot be read",
    ),
    Failing(
        name="an error object with status 200",
        body=b'{"error": {"message": "bad key", "code": "invalid_api_key"}}',
        error_type="model_error",
        says="bad key",
        content_type="application/json",
    ),
    Failing(
        name="a page",
        body=b"<!doctype html><title>Log in</title>",
        error_type="model_error",
        says="<title>Log in",
        content_type="text/html",
    ),
]
