"""Replies that ask for tools, in every odd way that providers were seen to."""

from wire.reply_bytes import ADD_1_2, ADD_3_4, DONE, NOW, STOP, TOOLS, Stream, chunk, piece

Arguments = dict[str, object]
ADD: Arguments = ADD_1_2[1]

LABELLED = [
    Stream(
        name="calls that end with finish stop",
        body=piece("add", '{"a":1,"b":2}', index=0, id="call_a") + STOP + DONE,
        calls=[ADD_1_2],
        finish="calls",
    ),
    Stream(
        name="DashScope: the id restated as empty",
        body=piece("add", "", index=0, id="call_a")
        + piece(None, '{"a":1,', index=0, id="")
        + piece(None, '"b":2}', index=0, id="")
        + TOOLS
        + DONE,
        calls=[ADD_1_2],
        ids=["call_a"],
        finish="calls",
    ),
    Stream(
        name="DashScope: the name restated too, twice with an opening brace",
        body=piece("put", "", index=0, id="call_a")
        + piece("put", '{"at":', index=0, id="")
        + piece("put", '{"x":', index=0, id="")
        + piece("put", "1}", index=0, id="")
        + piece("put", "}", index=0, id="")
        + piece("put", "", index=0, id="")
        + TOOLS
        + DONE,
        calls=[("put", {"at": {"x": 1}})],
        ids=["call_a"],
        finish="calls",
    ),
    Stream(
        name="two calls with one index",
        body=piece("add", '{"a":1,', index=0, id="call_a")
        + piece(None, '"b":2}', index=0)
        + piece("add", '{"a":3,', index=0, id="call_b")
        + piece(None, '"b":4}', index=0)
        + TOOLS
        + DONE,
        calls=[ADD_1_2, ADD_3_4],
        ids=["call_a", "call_b"],
        finish="calls",
        sdk=False,
    ),
    Stream(
        name="two calls with one index and no ids",
        body=piece("add", '{"a":1,', index=0)
        + piece(None, '"b":2}', index=0)
        + piece("add", '{"a":3,', index=0)
        + piece(None, '"b":4}', index=0)
        + TOOLS
        + DONE,
        calls=[ADD_1_2, ADD_3_4],
        ids=["", ""],
        finish="calls",
        sdk=False,
    ),
    Stream(
        name="two calls with one index and no ids, each name before its arguments",
        body=piece("add", "", index=0)
        + piece(None, '{"a":1,"b":2}', index=0)
        + piece("add", "", index=0)
        + piece(None, '{"a":3,', index=0)
        + piece(None, '"b":4}', index=0)
        + piece("now", "", index=0)
        + TOOLS
        + DONE,
        calls=[ADD_1_2, ADD_3_4, NOW],
        finish="calls",
        sdk=False,
    ),
    Stream(
        name="two whole calls with one index and one id",
        body=piece("add", '{"a":1,"b":2}', index=0, id="call_0")
        + piece("add", '{"a":3,"b":4}', index=0, id="call_0")
        + TOOLS
        + DONE,
        calls=[ADD_1_2, ADD_3_4],
        ids=["call_0", "call_0"],
        finish="calls",
        sdk=False,
    ),
    Stream(
        name="no index, ids restated, interleaved",
        body=piece("add", '{"a":1,', id="call_a")
        + piece("add", '{"a":3,', id="call_b")
        + piece(None, '"b":2}', id="call_a")
        + piece(None, '"b":4}', id="call_b")
        + TOOLS
        + DONE,
        calls=[ADD_1_2, ADD_3_4],
        finish="calls",
        sdk=False,
    ),
    Stream(
        name="index null and no ids",
        body=piece("add", '{"a":1,', index=None)
        + piece(None, '"b":2}', index=None)
        + piece("now", "{}", index=None)
        + TOOLS
        + DONE,
        calls=[ADD_1_2, NOW],
        finish="calls",
        sdk=False,
    ),
    Stream(
        name="an empty piece of a call that never begins",
        body=chunk(content="a", tool_calls=[{"index": 3, "function": None}]) + STOP + DONE,
        text="a",
        sdk=False,
    ),
]


def one_call(name: str, *arguments: object, reads: Arguments | None = ADD, why: str = "", sdk: bool = False) -> Stream:
    """A stream with one call whose arguments come in these pieces, and what they read as or `why` they do not."""
    body = piece("add", arguments[0], index=0, id="call_a")
    body += b"".join(piece(None, more, index=0) for more in arguments[1:])
    return Stream(
        name=name,
        body=body + TOOLS + DONE,
        calls=[("add", {} if why or reads is None else reads)],
        unreadable={0: why} if why else {},
        finish="calls",
        sdk=sdk,
    )


WRITTEN = [
    one_call("arguments as an object", {"a": 1, "b": 2}),
    one_call("cumulative arguments", "", '{"a', '{"a": 1, ', '{"a": 1, "b": 2}'),
    one_call("cumulative arguments, the last one twice", '{"a": 1', '{"a": 1, "b": 2}', '{"a": 1, "b": 2}'),
    one_call("trailing commas", '{"a":1,"b":2,}'),
    one_call("trailing commas inside", '{"l":[1,[2,],],\n}', reads={"l": [1, [2]]}),
    one_call("a comma and a brace inside a string", '{"s":",} ,]\\",}"}', reads={"s": ',} ,]",}'}),
    one_call("empty arguments", "", reads=None),
    one_call("no arguments at all", None, reads=None),
    one_call("blank arguments", " \n", reads=None),
    one_call("whitespace around", ' {"a":1,', '"b":2}\n ', sdk=True),
    one_call("a number over 64 bits", '{"n":123456789012345678901234567890}', reads={"n": int("1234567890" * 3)}),
    one_call("cut off", '{"a": 1, "b":', why="cut off"),
    one_call("cut off after an inner object", '{"a": ', '{"a": 1}', why="cut off"),
    one_call("an array", "[1, 2]", why="not a JSON object"),
    one_call("prose", "add one and two", why="not valid JSON"),
    one_call("two objects without a second name", '{"a":1}', '{"a":2}', why="JSON"),
    one_call("half a character", '{"a":"\\ud83d"}', why="Unicode"),
    one_call("nested too deeply", '{"a":' + "[" * 9_999, why="levels deep"),
    one_call("deep but whole", '{"a":' + "[" * 200 + "]" * 200 + "}", why="levels"),
    Stream(
        name="stopped at the token limit between name and arguments",
        body=piece("add", "", index=0, id="call_a") + chunk("length") + DONE,
        calls=[("add", {})],
        unreadable={0: "cut off"},
        finish="calls",
        sdk=False,
    ),
    Stream(
        name="one whole call, the next one cut off",
        body=piece("add", '{"a":1,"b":2}', index=0, id="call_a")
        + piece("add", '{"a":3', index=1, id="call_b")
        + chunk("length")
        + DONE,
        calls=[ADD_1_2, ("add", {})],
        unreadable={1: "cut off"},
        finish="calls",
        sdk=False,
    ),
    Stream(
        name="a name that no tool can have",
        body=piece("", "{}", index=0, id="x") + piece("a.b/c d", "{}", index=1, id="y") + TOOLS + DONE,
        calls=[("", {}), ("a.b/c d", {})],
        finish="calls",
    ),
]
