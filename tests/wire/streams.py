"""Replies of Chat Completions providers as raw bytes, orderly and odd, each with what it must be read as."""

import json

from wire.call_streams import LABELLED, WRITTEN
from wire.failing_streams import FAILING
from wire.reply_bytes import ADD_1_2, ADD_3_4, DONE, NOW, STOP, TOOLS, Stream, chunk, event, piece, usage

__all__ = ["FAILING", "STREAMS"]

ORDERLY = [
    Stream(
        name="a text",
        body=chunk(role="assistant", content="") + chunk(content="Hel") + chunk(content="lo ✓") + STOP + DONE,
        text="Hello ✓",
    ),
    Stream(name="an empty answer", body=chunk(role="assistant", content="") + STOP + DONE),
    Stream(
        name="a text cut at the token limit",
        body=chunk(content="Hel") + chunk("length") + DONE,
        text="Hel",
        finish="length",
    ),
    Stream(
        name="a text that the filter stopped",
        body=chunk(content="Hel") + chunk("content_filter") + DONE,
        text="Hel",
        finish="refused",
    ),
    Stream(
        name="one call in fragments",
        body=piece("add", "", index=0, id="call_a")
        + piece(None, '{"a": 1, ', index=0)
        + piece(None, '"b": 2}', index=0)
        + TOOLS
        + usage(9, 5, 4)
        + DONE,
        calls=[ADD_1_2],
        ids=["call_a"],
        finish="calls",
    ),
    Stream(
        name="text and two interleaved calls",
        body=chunk(content="I add.")
        + piece("add", '{"a":1', index=0, id="call_a")
        + piece("add", '{"a":3', index=1, id="call_b")
        + piece(None, ',"b":2}', index=0)
        + piece(None, ',"b":4}', index=1)
        + TOOLS
        + DONE,
        text="I add.",
        calls=[ADD_1_2, ADD_3_4],
        ids=["call_a", "call_b"],
        finish="calls",
    ),
    Stream(
        name="two calls in one chunk",
        body=chunk(
            tool_calls=[
                {"index": 0, "id": "x", "type": "function", "function": {"name": "add", "arguments": '{"a":1,"b":2}'}},
                {"index": 1, "id": "y", "type": "function", "function": {"name": "now", "arguments": "{}"}},
            ]
        )
        + TOOLS
        + DONE,
        calls=[ADD_1_2, NOW],
        finish="calls",
    ),
]

FRAMING = [
    Stream(
        name="comments between events, as keep-alive",
        body=b": OPENROUTER PROCESSING\n\n" + chunk(content="a") + b":\n\n: ping\n" + chunk(content="b") + STOP + DONE,
        text="ab",
    ),
    Stream(name="CRLF", body=(chunk(content="a") + STOP + DONE).replace(b"\n", b"\r\n"), text="a"),
    Stream(name="no space after data:", body=(chunk(content="a") + STOP + DONE).replace(b": {", b":{"), text="a"),
    Stream(
        name="one event over several data lines",
        body=b'event: chunk\nid: 1\ndata: {"choices": [{"index": 0,\ndata:   "delta": {"content": "a"}}]}\n\n'
        + STOP
        + DONE,
        text="a",
    ),
    Stream(
        name="one event over several data lines, with CRLF",
        body=b'data: {"choices": [{"index": 0,\r\ndata: "delta": {"content": "a"}}]}\r\n\r\n' + STOP + DONE,
        text="a",
    ),
    Stream(name="nothing after the last line", body=chunk(content="a") + STOP + b"data: [DONE]", text="a"),
    Stream(name="finished, and no [DONE]", body=chunk(content="a") + STOP, text="a"),
    Stream(name="[DONE], and no finish", body=chunk(content="a") + DONE, text="a"),
    Stream(
        name="a chunk that was cut through after the finish",
        body=chunk(content="a") + STOP + b'data: {"choices": [], "usa',
        text="a",
        sdk=False,
    ),
]

SPOKEN = [
    Stream(
        name="reasoning_content, then text",
        body=chunk(reasoning_content="Hm") + chunk(reasoning_content="m.") + chunk(content="Yes") + STOP + DONE,
        reasoning="Hmm.",
        text="Yes",
    ),
    Stream(
        name="reasoning under both names at once",
        body=chunk(reasoning="Hmm.", reasoning_content="Hmm.", content="Yes") + STOP + DONE,
        reasoning="Hmm.",
        text="Yes",
    ),
    Stream(
        name="a refusal",
        body=chunk(refusal="I ") + chunk(refusal="won't") + STOP + DONE,
        text="I won't",
        finish="refused",
        sdk=False,
    ),
    Stream(
        name="half a character in the text",
        body=event({"choices": [{"delta": {"content": "a\ud83d"}}]}) + STOP + DONE,
        text="a\ufffd",
        sdk=False,
    ),
    Stream(
        name="a byte that is not UTF-8",
        body=b'data: {"choices":[{"delta":{"content":"a\xff"}}]}\n\n' + STOP + DONE,
        text="a\ufffd",
        sdk=False,
    ),
    Stream(
        name="a byte that is not UTF-8 in the arguments",
        body=piece("add", '{"a":"#"}', index=0, id="x").replace(b"#", b"\xff") + TOOLS + DONE,
        calls=[("add", {})],
        unreadable={0: "Unicode"},
        finish="calls",
        sdk=False,
    ),
    Stream(
        name="other choices, which nobody asked for",
        body=event({"choices": [{"index": 1, "delta": {"content": "no"}}, {"index": 0, "delta": {"content": "yes"}}]})
        + STOP
        + DONE,
        text="yes",
        sdk=False,
    ),
    Stream(
        name="a whole completion instead of a stream",
        body=json.dumps(
            {
                "object": "chat.completion",
                "model": "m-1",
                "choices": [
                    {
                        "index": 0,
                        "finish_reason": "tool_calls",
                        "message": {
                            "role": "assistant",
                            "content": "I add.",
                            "tool_calls": [
                                {
                                    "id": "x",
                                    "type": "function",
                                    "function": {"name": "add", "arguments": '{"a":1,"b":2}'},
                                },
                                {
                                    "id": "y",
                                    "type": "function",
                                    "function": {"name": "add", "arguments": '{"a":3,"b":4}'},
                                },
                            ],
                        },
                    }
                ],
            },
            indent=1,
        ).encode(),
        content_type="application/json",
        text="I add.",
        calls=[ADD_1_2, ADD_3_4],
        ids=["x", "y"],
        finish="calls",
        sdk=False,
    ),
]

STREAMS = [*ORDERLY, *FRAMING, *LABELLED, *WRITTEN, *SPOKEN]
