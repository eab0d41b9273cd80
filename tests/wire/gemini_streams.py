"""Replies of generateContent, orderly and odd, with what each must be read as; and those that must fail."""

import json

from wire.gemini_bytes import (
    CITED_TEXT,
    GROUNDING,
    SIGNED,
    TOOL_CALL,
    TOOL_RESPONSE,
    Json,
    build_thought,
    call,
    chunk,
    chunks,
    code,
    event,
    output,
    text,
)
from wire.reply_bytes import ADD_1_2, ADD_3_4, NOW, FailingStream, Stream

ADD = call("add", {"a": 1, "b": 2}, **SIGNED)


def body(*parts: Json, finish: str = "STOP", **more: object) -> bytes:
    return b"".join(chunks(*parts, finish=finish, **more))


STREAMS = [
    Stream(name="text", body=body(text("I've "), text("added "), text("面粉 🥛.")), text="I've added 面粉 🥛."),
    Stream(name="a signed call", body=body(ADD), calls=[ADD_1_2], ids=[""], finish="calls"),
    Stream(
        name="a call with an id",
        body=body({"functionCall": {"id": "f1", "name": "add", "args": {"a": 1, "b": 2}}}),
        calls=[ADD_1_2],
        ids=["f1"],
        finish="calls",
    ),
    Stream(
        name="text and two calls in one chunk",
        body=chunk(text("I add."), ADD, call("add", {"a": 3, "b": 4}), finish="STOP"),
        text="I add.",
        calls=[ADD_1_2, ADD_3_4],
        finish="calls",
    ),
    Stream(
        name="two calls in chunks of their own, then the end alone",
        body=chunk(ADD) + chunk(call("add", {"a": 3, "b": 4})) + chunk(finish="STOP"),
        calls=[ADD_1_2, ADD_3_4],
        finish="calls",
    ),
    Stream(name="a call without arguments", body=body(call("now")), calls=[NOW], finish="calls"),
    Stream(
        name="thoughts, then text",
        body=body(build_thought("Hm"), build_thought("m."), text("Ye"), text("s"), text("", **SIGNED)),
        reasoning="Hmm.",
        text="Yes",
    ),
    Stream(name="a search", body=body(text(CITED_TEXT), groundingMetadata=GROUNDING), text=CITED_TEXT),
    Stream(
        name="code, text around it",
        body=body(text("I count. "), code("print(6*7)", **SIGNED), output("42\n"), text("42.")),
        text="I count. 42.",
    ),
    Stream(
        name="a search of theirs beside a call of ours",
        body=body(TOOL_CALL, TOOL_RESPONSE, text("White."), ADD),
        text="White.",
        calls=[ADD_1_2],
        finish="calls",
    ),
    Stream(
        name="stopped at the token limit",
        body=body(text("On and"), finish="MAX_TOKENS"),
        text="On and",
        finish="length",
    ),
    *(
        Stream(name=f"stopped for {why}", body=body(text("On"), finish=why), text="On", finish="refused")
        for why in ("SAFETY", "RECITATION", "PROHIBITED_CONTENT", "SPII", "BLOCKLIST")
    ),
    Stream(
        name="a prompt that is blocked",
        body=event({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": {"promptTokenCount": 3}}),
        text="The provider refused to answer this request. (PROHIBITED_CONTENT)",
        finish="refused",
        sdk=False,
    ),
    Stream(
        name="an answer that is blocked whole",
        body=chunk(finish="RECITATION", finishMessage="too much like a book"),
        text="The provider refused to answer this request. (RECITATION: too much like a book)",
        finish="refused",
        sdk=False,
    ),
    Stream(name="stopped for another reason", body=body(text("On"), finish="OTHER"), text="On"),
    Stream(
        name="a call that could not be read",
        body=chunk(finish="MALFORMED_FUNCTION_CALL", finishMessage="Malformed function call: print(add(a=1"),
        calls=[("", {})],
        unreadable={0: "print(add(a=1"},
        finish="calls",
        sdk=False,
    ),
    Stream(
        name="a call that is to be continued",
        body=body({"functionCall": {"name": "add", "args": {"a": 1}, "willContinue": True}}),
        calls=[("add", {})],
        unreadable={0: "cut off"},
        finish="calls",
        sdk=False,
    ),
    Stream(
        name="arguments that are nested too deeply",
        body=body(call("add", {"a": json.loads("[" * 150 + "]" * 150)})),
        calls=[("add", {})],
        unreadable={0: "levels deep"},
        finish="calls",
        sdk=False,
    ),
    Stream(
        name="half a character in the arguments",
        body=body(call("add", {"a": "#"})).replace(b"#", b"\\ud83d"),
        calls=[("add", {})],
        unreadable={0: "Unicode"},
        finish="calls",
        sdk=False,
    ),
    Stream(
        name="half a character in the text", body=body(text("a#")).replace(b"#", b"\\ud83d"), text="a\ufffd", sdk=False
    ),
    Stream(
        name="unknown parts and fields",
        body=chunk({"dream": {"of": "sheep"}}) + event({"moon": "full"}) + body(text("a", mood="good")),
        text="a",
        sdk=False,
    ),
    Stream(
        name="other candidates, which nobody asked for",
        body=chunk(text("no"), index=1) + body(text("yes")),
        text="yes",
        sdk=False,
    ),
    Stream(
        name="usage after the end",
        body=body(text("a")) + event({"usageMetadata": {"promptTokenCount": 10}}),
        text="a",
        sdk=False,
    ),
    Stream(name="LF instead of CRLF", body=body(text("a")).replace(b"\r\n", b"\n"), text="a"),
    Stream(name="[DONE], as proxies write it", body=body(text("a")) + b"data: [DONE]\n\n", text="a", sdk=False),
    Stream(
        name="a chunk that was cut through after the end",
        body=body(text("a")) + b'data: {"usageMeta',
        text="a",
        sdk=False,
    ),
    Stream(
        name="a whole response instead of a stream",
        body=chunk(text("I add."), ADD, finish="STOP").removeprefix(b"data: "),
        content_type="application/json",
        text="I add.",
        calls=[ADD_1_2],
        finish="calls",
        sdk=False,
    ),
    Stream(
        name="a name that no tool can have",
        body=body(call(""), call("a/c d")),
        calls=[("", {}), ("a/c d", {})],
        finish="calls",
    ),
]


def error(code: int, message: str, status: str) -> bytes:
    return event({"error": {"code": code, "message": message, "status": status}})


FAILING = [
    FailingStream(name="broke off", body=chunk(text("a")), error_type="unavailable", says="broke off"),
    FailingStream(name="broke off after a call", body=chunk(ADD), error_type="unavailable", says="broke off"),
    FailingStream(
        name="broke off inside a chunk",
        body=chunk(text("a")) + b'data: {"candidates": [{"fin',
        error_type="unavailable",
        says="broke off",
    ),
    FailingStream(name="an empty body", body=b"", error_type="unavailable", says="empty"),
    FailingStream(
        name="overloaded in the middle",
        body=chunk(text("a")) + error(503, "The model is overloaded.", "UNAVAILABLE"),
        error_type="unavailable",
        says="The model is overloaded.",
    ),
    FailingStream(
        name="over the rate in the middle",
        body=chunk(text("a")) + error(429, "Quota exceeded", "RESOURCE_EXHAUSTED"),
        error_type="rate_limited",
        says="Quota exceeded",
    ),
    FailingStream(
        name="an error written bare between events",
        body=chunk(text("a")) + b'{"error": {"code": 500, "message": "Internal error"}}\n\n',
        error_type="unavailable",
        says="Internal error",
    ),
    *(
        FailingStream(name=f"broken off for {why}", body=body(ADD, finish=why), error_type="model_error", says=why)
        for why in ("UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MALFORMED_RESPONSE")
    ),
    FailingStream(name="garbage", body=b"data: what?\n\n", error_type="model_error", says="not JSON: what?"),
    FailingStream(
        name="a chunk of another shape",
        body=b'data: {"candidates": "none"}\n\n',
        error_type="model_error",
        says="cannot be read",
    ),
    FailingStream(
        name="an error object with status 200",
        body=b'{"error": {"code": 400, "message": "API key not valid.", "status": "INVALID_ARGUMENT"}}',
        error_type="model_error",
        says="API key not valid",
        content_type="application/json",
    ),
    FailingStream(
        name="some other object",
        body=b'{"detail": "Not Found"}',
        error_type="model_error",
        says="not generated content: Not Found",
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
