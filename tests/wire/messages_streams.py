"""Replies of the Messages API as raw bytes, orderly and odd, each with what it must be read as."""

import json

from wire.reply_bytes import ADD_1_2, ADD_3_4, NOW, FailingStream, Stream
from wire.strict_messages import (
    encode_block,
    encode_end,
    encode_start,
    encode_text,
    encode_thinking,
    encode_tool_use,
    event,
)

SEARCH_RESULTS = [
    {"type": "web_search_result", "url": "https://a.org", "title": "A", "encrypted_content": "enc_1", "page_age": None}
]
CITATION = {
    "type": "web_search_result_location",
    "cited_text": "It is so.",
    "encrypted_index": "idx_1",
    "title": "A",
    "url": "https://a.org",
}


def encode_search_result(index: int, id: str, content: object = SEARCH_RESULTS) -> bytes:
    return encode_block(index, {"type": "web_search_tool_result", "tool_use_id": id, "content": content})


def encode_search(index: int, id: str = "srvtoolu_1") -> bytes:
    return encode_tool_use(index, id, "web_search", '{"query"', ': "so?"}', kind="server_tool_use")


def encode_cited_text(index: int, text: str) -> bytes:
    start: dict[str, object] = {"type": "text", "text": "", "citations": []}
    return encode_block(
        index, start, {"type": "citations_delta", "citation": CITATION}, {"type": "text_delta", "text": text}
    )


ORDERLY = [
    Stream(
        name="a text",
        body=encode_start() + event("ping") + encode_text(0, "Hel", "lo ✓") + encode_end(),
        text="Hello ✓",
    ),
    Stream(name="an empty answer", body=encode_start() + encode_end()),
    Stream(name="a stop sequence", body=encode_start() + encode_text(0, "a") + encode_end("stop_sequence"), text="a"),
    Stream(
        name="a text cut at the token limit",
        body=encode_start() + encode_text(0, "Hel") + encode_end("max_tokens"),
        text="Hel",
        finish="length",
    ),
    Stream(
        name="a full window",
        body=encode_start() + encode_text(0, "a") + encode_end("model_context_window_exceeded"),
        text="a",
        finish="length",
    ),
    Stream(
        name="a refusal", body=encode_start() + encode_text(0, "I") + encode_end("refusal"), text="I", finish="refused"
    ),
    Stream(
        name="a refusal without a word",
        body=encode_start() + encode_end("refusal"),
        text="The provider refused to answer this request.",
        finish="refused",
        sdk=False,
    ),
    Stream(
        name="a pause", body=encode_start() + encode_text(0, "a") + encode_end("pause_turn"), text="a", finish="paused"
    ),
    Stream(
        name="thinking, then text",
        body=encode_start() + encode_thinking(0, "Hm", "m.") + encode_text(1, "Yes") + encode_end(),
        reasoning="Hmm.",
        text="Yes",
    ),
    Stream(
        name="one call in fragments",
        body=encode_start() + encode_tool_use(0, "toolu_a", "add", "", '{"a": 1, ', '"b": 2}') + encode_end("tool_use"),
        calls=[ADD_1_2],
        ids=["toolu_a"],
        finish="calls",
    ),
    Stream(
        name="text and two calls",
        body=encode_start()
        + encode_text(0, "I add.")
        + encode_tool_use(1, "toolu_a", "add", '{"a":1,"b":2}')
        + encode_tool_use(2, "toolu_b", "add", '{"a":3,', '"b":4}')
        + encode_end("tool_use"),
        text="I add.",
        calls=[ADD_1_2, ADD_3_4],
        ids=["toolu_a", "toolu_b"],
        finish="calls",
    ),
    Stream(
        name="a call without arguments",
        body=encode_start() + encode_tool_use(0, "toolu_a", "now") + encode_end("tool_use"),
        calls=[NOW],
        finish="calls",
    ),
    Stream(
        name="a search with its result, and a text that cites it",
        body=encode_start()
        + encode_text(0, "I look. ")
        + encode_search(1)
        + encode_search_result(2, "srvtoolu_1")
        + encode_text(3, "They say: ")
        + encode_cited_text(4, "it is so")
        + encode_text(5, ".")
        + encode_end(),
        text="I look. They say: it is so.",
        calls=[("web_search", {"query": "so?"})],
        ids=["srvtoolu_1"],
    ),
]

ODD = [
    Stream(
        name="events and blocks that nobody knows",
        body=encode_start()
        + event("something_new", of="interest")
        + encode_block(0, {"type": "hologram", "light": True}, {"type": "light_delta", "light": 1})
        + encode_text(1, "a")
        + encode_end(),
        text="a",
        sdk=False,
    ),
    Stream(name="CRLF", body=(encode_start() + encode_text(0, "a") + encode_end()).replace(b"\n", b"\r\n"), text="a"),
    Stream(
        name="no message_stop",
        body=encode_start() + encode_text(0, "a") + encode_end().partition(b"event: message_stop")[0],
        text="a",
        sdk=False,
    ),
    Stream(
        name="cut through after the end",
        body=encode_start()
        + encode_text(0, "a")
        + encode_end().partition(b"event: message_stop")[0]
        + b'event: message_stop\ndata: {"ty',
        text="a",
        sdk=False,
    ),
    Stream(
        name="blocks that are interleaved",
        body=encode_start()
        + event(
            "content_block_start", index=0, content_block={"type": "tool_use", "id": "x", "name": "add", "input": {}}
        )
        + event(
            "content_block_start", index=1, content_block={"type": "tool_use", "id": "y", "name": "add", "input": {}}
        )
        + event("content_block_delta", index=0, delta={"type": "input_json_delta", "partial_json": '{"a":1,'})
        + event("content_block_delta", index=1, delta={"type": "input_json_delta", "partial_json": '{"a":3,'})
        + event("content_block_delta", index=0, delta={"type": "input_json_delta", "partial_json": '"b":2}'})
        + event("content_block_delta", index=1, delta={"type": "input_json_delta", "partial_json": '"b":4}'})
        + encode_end("tool_use"),
        calls=[ADD_1_2, ADD_3_4],
        finish="calls",
        sdk=False,
    ),
    Stream(
        name="arguments whole as the block begins",
        body=encode_start()
        + encode_block(0, {"type": "tool_use", "id": "x", "name": "add", "input": {"a": 1, "b": 2}})
        + encode_end("tool_use"),
        calls=[ADD_1_2],
        finish="calls",
    ),
    Stream(
        name="a delta of a block that never began",
        body=encode_start()
        + event("content_block_delta", index=7, delta={"type": "text_delta", "text": "lost"})
        + encode_text(0, "a")
        + encode_end(),
        text="a",
        sdk=False,
    ),
    Stream(
        name="a call that ends with end_turn",
        body=encode_start() + encode_tool_use(0, "x", "add", '{"a":1,"b":2}') + encode_end(),
        calls=[ADD_1_2],
        finish="calls",
    ),
    Stream(
        name="arguments that were cut off",
        body=encode_start() + encode_tool_use(0, "x", "add", '{"a": 1, "b":') + encode_end("max_tokens"),
        calls=[("add", {})],
        unreadable={0: "cut off"},
        finish="calls",
        sdk=False,
    ),
    Stream(
        name="stopped between name and arguments",
        body=encode_start() + encode_tool_use(0, "x", "add") + encode_end("max_tokens"),
        calls=[("add", {})],
        unreadable={0: "cut off"},
        finish="calls",
        sdk=False,
    ),
    Stream(
        name="one whole call, the next one cut off",
        body=encode_start()
        + encode_tool_use(0, "x", "add", '{"a":1,"b":2}')
        + encode_tool_use(1, "y", "add", '{"a":3')
        + encode_end("max_tokens"),
        calls=[ADD_1_2, ("add", {})],
        unreadable={1: "cut off"},
        finish="calls",
        sdk=False,
    ),
    Stream(
        name="arguments that are no object",
        body=encode_start() + encode_tool_use(0, "x", "add", "[1, 2]") + encode_end("tool_use"),
        calls=[("add", {})],
        unreadable={0: "not a JSON object"},
        finish="calls",
        sdk=False,
    ),
    Stream(
        name="a byte that is not UTF-8 in the arguments",
        body=encode_start()
        + encode_tool_use(0, "x", "add", '{"a":"#"}').replace(b"#", b"\xff")
        + encode_end("tool_use"),
        calls=[("add", {})],
        unreadable={0: "Unicode"},
        finish="calls",
        sdk=False,
    ),
    Stream(
        name="half a character in the text",
        body=encode_start() + encode_text(0, "a\ud83d") + encode_end(),
        text="a\ufffd",
        sdk=False,
    ),
    Stream(
        name="a search that failed",
        body=encode_start()
        + encode_search(0)
        + encode_search_result(
            1, "srvtoolu_1", {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}
        )
        + encode_text(2, "No.")
        + encode_end(),
        text="No.",
        calls=[("web_search", {"query": "so?"})],
    ),
    Stream(
        name="a result of a call that nobody made",
        body=encode_start() + encode_search_result(0, "srvtoolu_9") + encode_text(1, "a") + encode_end(),
        text="a",
    ),
    Stream(
        name="a whole message instead of a stream",
        body=json.dumps(
            {
                "type": "message",
                "role": "assistant",
                "model": "m-1",
                "content": [
                    {"type": "thinking", "thinking": "Hm.", "signature": "s"},
                    {"type": "text", "text": "I add."},
                    {"type": "tool_use", "id": "x", "name": "add", "input": {"a": 1, "b": 2}},
                ],
                "stop_reason": "tool_use",
                "usage": {"input_tokens": 1, "output_tokens": 2},
            },
            indent=1,
        ).encode(),
        content_type="application/json",
        reasoning="Hm.",
        text="I add.",
        calls=[ADD_1_2],
        finish="calls",
        sdk=False,
    ),
]

STREAMS = [*ORDERLY, *ODD]


def encode_error(kind: str, message: str = "no more") -> bytes:
    return event("error", error={"type": kind, "message": message}, request_id="req_s")


FAILING = [
    FailingStream(
        name="broke off", body=encode_start() + encode_text(0, "a"), error_type="unavailable", says="broke off"
    ),
    FailingStream(
        name="message_stop without a stop reason",
        body=encode_start() + encode_text(0, "a") + event("message_stop"),
        error_type="unavailable",
        says="broke off",
    ),
    FailingStream(name="broke off in an event", body=encode_start()[:-30], error_type="unavailable", says="no reply"),
    FailingStream(
        name="overloaded in the middle",
        body=encode_start() + encode_text(0, "a") + encode_error("overloaded_error", "Overloaded"),
        error_type="unavailable",
        says="Overloaded",
    ),
    FailingStream(
        name="a rate limit",
        body=encode_start() + encode_error("rate_limit_error", "slow down"),
        error_type="rate_limited",
        says="slow",
    ),
    FailingStream(name="an error of theirs", body=encode_error("api_error"), error_type="unavailable", says="no more"),
    FailingStream(name="too late", body=encode_error("timeout_error"), error_type="timeout", says="no more"),
    FailingStream(
        name="a bad request", body=encode_error("invalid_request_error"), error_type="model_error", says="no more"
    ),
    FailingStream(
        name="not JSON", body=encode_start() + b"data: {oops}\n\n", error_type="model_error", says="not JSON: {oops}"
    ),
    FailingStream(
        name="not an event",
        body=encode_start() + b'data: {"type": "content_block_delta", "delta": 3}\n\n',
        error_type="model_error",
        says="cannot be read",
    ),
    FailingStream(name="nothing", body=b"", error_type="unavailable", says="empty"),
    FailingStream(name="plain text", body=b"upstream timed out\n", error_type="unavailable", says="upstream timed out"),
    FailingStream(
        name="a page", body=b"<html>Log in</html>", error_type="model_error", says="Log in", content_type="text/html"
    ),
    FailingStream(
        name="an error object with status 200",
        body=b'{"type": "error", "error": {"type": "authentication_error", "message": "bad key"}}',
        error_type="model_error",
        says="bad key",
        content_type="application/json",
    ),
    FailingStream(
        name="some other object",
        body=b'{"detail": "Not Found"}',
        error_type="model_error",
        says="not a message: Not Found",
        content_type="application/json",
    ),
]
