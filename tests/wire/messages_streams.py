"""Replies of the Messages API as raw bytes, orderly and odd, each with what it must be read as."""

import json

from wire.reply_bytes import ADD_1_2, ADD_3_4, NOW, Failing, Stream
from wire.strict_messages import begins, block, called, ends, event, said, thought

SEARCHED = [
    {"type": "web_search_result", "url": "https://a.org", "title": "A", "encrypted_content": "enc_1", "page_age": None}
]
CITED = {
    "type": "web_search_result_location",
    "cited_text": "It is so.",
    "encrypted_index": "idx_1",
    "title": "A",
    "url": "https://a.org",
}


def searched(index: int, id: str, content: object = SEARCHED) -> bytes:
    return block(index, {"type": "web_search_tool_result", "tool_use_id": id, "content": content})


def search(index: int, id: str = "srvtoolu_1") -> bytes:
    return called(index, id, "web_search", '{"query"', ': "so?"}', kind="server_tool_use")


def cited(index: int, text: str) -> bytes:
    begun: dict[str, object] = {"type": "text", "text": "", "citations": []}
    return block(index, begun, {"type": "citations_delta", "citation": CITED}, {"type": "text_delta", "text": text})


ORDERLY = [
    Stream(name="a text", body=begins() + event("ping") + said(0, "Hel", "lo ✓") + ends(), text="Hello ✓"),
    Stream(name="an empty answer", body=begins() + ends()),
    Stream(name="a stop sequence", body=begins() + said(0, "a") + ends("stop_sequence"), text="a"),
    Stream(
        name="a text cut at the token limit",
        body=begins() + said(0, "Hel") + ends("max_tokens"),
        text="Hel",
        finish="length",
    ),
    Stream(
        name="a full window",
        body=begins() + said(0, "a") + ends("model_context_window_exceeded"),
        text="a",
        finish="length",
    ),
    Stream(name="a refusal", body=begins() + said(0, "I") + ends("refusal"), text="I", finish="refused"),
    Stream(
        name="a refusal without a word",
        body=begins() + ends("refusal"),
        text="The provider refused to answer this request.",
        finish="refused",
        sdk=False,
    ),
    Stream(name="a pause", body=begins() + said(0, "a") + ends("pause_turn"), text="a", finish="paused"),
    Stream(
        name="thinking, then text",
        body=begins() + thought(0, "Hm", "m.") + said(1, "Yes") + ends(),
        reasoning="Hmm.",
        text="Yes",
    ),
    Stream(
        name="one call in fragments",
        body=begins() + called(0, "toolu_a", "add", "", '{"a": 1, ', '"b": 2}') + ends("tool_use"),
        calls=[ADD_1_2],
        ids=["toolu_a"],
        finish="calls",
    ),
    Stream(
        name="text and two calls",
        body=begins()
        + said(0, "I add.")
        + called(1, "toolu_a", "add", '{"a":1,"b":2}')
        + called(2, "toolu_b", "add", '{"a":3,', '"b":4}')
        + ends("tool_use"),
        text="I add.",
        calls=[ADD_1_2, ADD_3_4],
        ids=["toolu_a", "toolu_b"],
        finish="calls",
    ),
    Stream(
        name="a call without arguments",
        body=begins() + called(0, "toolu_a", "now") + ends("tool_use"),
        calls=[NOW],
        finish="calls",
    ),
    Stream(
        name="a search with its result, and a text that cites it",
        body=begins()
        + said(0, "I look. ")
        + search(1)
        + searched(2, "srvtoolu_1")
        + said(3, "They say: ")
        + cited(4, "it is so")
        + said(5, ".")
        + ends(),
        text="I look. They say: it is so.",
        calls=[("web_search", {"query": "so?"})],
        ids=["srvtoolu_1"],
    ),
]

ODD = [
    Stream(
        name="events and blocks that nobody knows",
        body=begins()
        + event("something_new", of="interest")
        + block(0, {"type": "hologram", "light": True}, {"type": "light_delta", "light": 1})
        + said(1, "a")
        + ends(),
        text="a",
        sdk=False,
    ),
    Stream(name="CRLF", body=(begins() + said(0, "a") + ends()).replace(b"\n", b"\r\n"), text="a"),
    Stream(
        name="no message_stop",
        body=begins() + said(0, "a") + ends().partition(b"event: message_stop")[0],
        text="a",
        sdk=False,
    ),
    Stream(
        name="cut through after the end",
        body=begins() + said(0, "a") + ends().partition(b"event: message_stop")[0] + b'event: message_stop\ndata: {"ty',
        text="a",
        sdk=False,
    ),
    Stream(
        name="blocks that are interleaved",
        body=begins()
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
        + ends("tool_use"),
        calls=[ADD_1_2, ADD_3_4],
        finish="calls",
        sdk=False,
    ),
    Stream(
        name="arguments whole as the block begins",
        body=begins()
        + block(0, {"type": "tool_use", "id": "x", "name": "add", "input": {"a": 1, "b": 2}})
        + ends("tool_use"),
        calls=[ADD_1_2],
        finish="calls",
    ),
    Stream(
        name="a delta of a block that never began",
        body=begins()
        + event("content_block_delta", index=7, delta={"type": "text_delta", "text": "lost"})
        + said(0, "a")
        + ends(),
        text="a",
        sdk=False,
    ),
    Stream(
        name="a call that ends with end_turn",
        body=begins() + called(0, "x", "add", '{"a":1,"b":2}') + ends(),
        calls=[ADD_1_2],
        finish="calls",
    ),
    Stream(
        name="arguments that were cut off",
        body=begins() + called(0, "x", "add", '{"a": 1, "b":') + ends("max_tokens"),
        calls=[("add", {})],
        unreadable={0: "cut off"},
        finish="calls",
        sdk=False,
    ),
    Stream(
        name="stopped between name and arguments",
        body=begins() + called(0, "x", "add") + ends("max_tokens"),
        calls=[("add", {})],
        unreadable={0: "cut off"},
        finish="calls",
        sdk=False,
    ),
    Stream(
        name="one whole call, the next one cut off",
        body=begins() + called(0, "x", "add", '{"a":1,"b":2}') + called(1, "y", "add", '{"a":3') + ends("max_tokens"),
        calls=[ADD_1_2, ("add", {})],
        unreadable={1: "cut off"},
        finish="calls",
        sdk=False,
    ),
    Stream(
        name="arguments that are no object",
        body=begins() + called(0, "x", "add", "[1, 2]") + ends("tool_use"),
        calls=[("add", {})],
        unreadable={0: "not a JSON object"},
        finish="calls",
        sdk=False,
    ),
    Stream(
        name="a byte that is not UTF-8 in the arguments",
        body=begins() + called(0, "x", "add", '{"a":"#"}').replace(b"#", b"\xff") + ends("tool_use"),
        calls=[("add", {})],
        unreadable={0: "Unicode"},
        finish="calls",
        sdk=False,
    ),
    Stream(name="half a character in the text", body=begins() + said(0, "a\ud83d") + ends(), text="a\ufffd", sdk=False),
    Stream(
        name="a search that failed",
        body=begins()
        + search(0)
        + searched(1, "srvtoolu_1", {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"})
        + said(2, "No.")
        + ends(),
        text="No.",
        calls=[("web_search", {"query": "so?"})],
    ),
    Stream(
        name="a result of a call that nobody made",
        body=begins() + searched(0, "srvtoolu_9") + said(1, "a") + ends(),
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


def broken(kind: str, message: str = "no more") -> bytes:
    return event("error", error={"type": kind, "message": message}, request_id="req_s")


FAILING = [
    Failing(name="broke off", body=begins() + said(0, "a"), error_type="unavailable", says="broke off"),
    Failing(
        name="message_stop without a stop reason",
        body=begins() + said(0, "a") + event("message_stop"),
        error_type="unavailable",
        says="broke off",
    ),
    Failing(name="broke off in an event", body=begins()[:-30], error_type="unavailable", says="no reply"),
    Failing(
        name="overloaded in the middle",
        body=begins() + said(0, "a") + broken("overloaded_error", "Overloaded"),
        error_type="unavailable",
        says="Overloaded",
    ),
    Failing(
        name="a rate limit",
        body=begins() + broken("rate_limit_error", "slow down"),
        error_type="rate_limited",
        says="slow",
    ),
    Failing(name="an error of theirs", body=broken("api_error"), error_type="unavailable", says="no more"),
    Failing(name="too late", body=broken("timeout_error"), error_type="timeout", says="no more"),
    Failing(name="a bad request", body=broken("invalid_request_error"), error_type="model_error", says="no more"),
    Failing(name="not JSON", body=begins() + b"data: {oops}\n\n", error_type="model_error", says="not JSON: {oops}"),
    Failing(
        name="not an event",
        body=begins() + b'data: {"type": "content_block_delta", "delta": 3}\n\n',
        error_type="model_error",
        says="cannot be read",
    ),
    Failing(name="nothing", body=b"", error_type="unavailable", says="empty"),
    Failing(name="plain text", body=b"upstream timed out\n", error_type="unavailable", says="upstream timed out"),
    Failing(
        name="a page", body=b"<html>Log in</html>", error_type="model_error", says="Log in", content_type="text/html"
    ),
    Failing(
        name="an error object with status 200",
        body=b'{"type": "error", "error": {"type": "authentication_error", "message": "bad key"}}',
        error_type="model_error",
        says="bad key",
        content_type="application/json",
    ),
    Failing(
        name="some other object",
        body=b'{"detail": "Not Found"}',
        error_type="model_error",
        says="no message: Not Found",
        content_type="application/json",
    ),
]
