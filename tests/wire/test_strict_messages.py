"""The strict Messages server does refuse what it says it refuses, and takes what is in order."""

import json
from typing import Any

import pytest
from anthropic import AsyncAnthropic, BadRequestError
from anthropic.types import MessageParam

from wire.strict_messages import StrictMessages, asks, faults_of, refuses, says, signature_of

Json = dict[str, Any]


def text(content: str = "hi", **more: object) -> Json:
    return {"type": "text", "text": content, **more}


def user(*blocks: Json) -> Json:
    return {"role": "user", "content": [*blocks]}


def model(*blocks: Json) -> Json:
    return {"role": "assistant", "content": [*blocks]}


def use(id: str = "a", name: str = "add", **more: object) -> Json:
    return {"type": "tool_use", "id": id, "name": name, "input": {}, **more}


def result(id: str = "a", **more: object) -> Json:
    return {"type": "tool_result", "tool_use_id": id, "content": "3", **more}


def thinking(content: str = "Hm", signature: str = "") -> Json:
    return {"type": "thinking", "thinking": content, "signature": signature or signature_of(content)}


def search(id: str = "srvtoolu_1", name: str = "web_search") -> Json:
    return {"type": "server_tool_use", "id": id, "name": name, "input": {"query": "q"}}


def build_search_result(id: str = "srvtoolu_1", encrypted_content: str = "enc_1") -> Json:
    hit = {"type": "web_search_result", "url": "https://a.org", "title": "A", "encrypted_content": encrypted_content}
    return {"type": "web_search_tool_result", "tool_use_id": id, "content": [hit]}


def image(kind: str = "image/png", data: str = "AAAA") -> Json:
    return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}


def tool(name: str = "add", **more: object) -> Json:
    return {"name": name, "input_schema": {"type": "object", "properties": {}}, **more}


def tool_with_schema(**input_schema: object) -> Json:
    return {"name": "add", "input_schema": input_schema}


HI = user(text())
MARK: Json = {"cache_control": {"type": "ephemeral"}}
THINKS: Json = {"type": "enabled", "budget_tokens": 2_000}
WEB: Json = {"type": "web_search_20250305", "name": "web_search"}
TOOLS = [tool()]


def body(*messages: Json, **more: object) -> bytes:
    return json.dumps({"model": "m", "max_tokens": 4_000, "stream": True, "messages": messages, **more}).encode()


def build_tool_loop(*first: Json) -> list[Json]:
    return [HI, model(*first, use()), user(result())]


@pytest.mark.parametrize(
    "good",
    [
        body(HI),
        body(user(text(**MARK)), system=[text("s", **MARK)], tools=[tool(**MARK)], tool_choice={"type": "auto"}),
        body(
            HI, model(text("a"), use("a"), use("b")), user(result("b"), result("a", is_error=True), text()), tools=TOOLS
        ),
        body(*build_tool_loop(thinking()), tools=TOOLS, thinking=THINKS),
        body(*build_tool_loop({"type": "redacted_thinking", "data": "hidden_1"}), tools=TOOLS, thinking=THINKS),
        body(HI, model(search(), build_search_result(), text("so")), user(text()), tools=[WEB]),
        body(HI, model(text("I look"), search()), tools=[{**WEB, "max_uses": 2, "allowed_domains": ["a.org"]}]),
        body(user(image(), text())),
        body(HI, tools=TOOLS, tool_choice={"type": "tool", "name": "add"}),
    ],
)
def test_what_is_in_order_is_taken(good: bytes) -> None:
    assert faults_of(good) == []


BAD: list[tuple[bytes, str]] = [
    (b"{", "truncated"),
    (body(), "length >= 1"),
    (json.dumps({"model": "m", "messages": [HI]}).encode(), "max_tokens"),
    (body(HI, max_tokens=0), "max_tokens"),
    (body(HI, temperature_=1), "unknown field `temperature_`"),
    (body({"role": "system", "content": []}), "system"),
    (body({**HI, "id": "u1"}), "unknown field `id`"),
    (body(user()), "length >= 1"),
    (body(user({"type": "hologram"})), "hologram"),
    (body(user(text(""))), "length >= 1"),
    (body(user(text(" \n"))), "non-whitespace"),
    (body(HI, system=[text(" ")]), "non-whitespace"),
    (body(HI, system=[]), "length >= 1"),
    (body(model(text()), HI), "first message"),
    (body(HI, HI), "alternate"),
    (body(HI, model(text("a")), model(text("b")), HI), "alternate"),
    (body(HI, model(text("a"))), "prefill"),
    (body(HI, model(text("a "))), "trailing whitespace"),
    (body(HI, model(use()), tools=TOOLS), "without a tool_result"),
    (body(HI, model(use()), HI, tools=TOOLS), "without a tool_result right after"),
    (body(HI, model(use("a"), use("b")), user(result("a")), tools=TOOLS), "'b' without"),
    (body(user(result()), tools=TOOLS), "unexpected tool_use_id"),
    (body(*build_tool_loop(), model(text()), user(result()), tools=TOOLS), "unexpected tool_use_id"),
    (body(HI, model(use()), user(text(), result()), tools=TOOLS), "must come first"),
    (body(HI, model(use()), user(result(), result()), tools=TOOLS), "more than one"),
    (body(HI, model(use(), use()), user(result()), tools=TOOLS), "unique"),
    (body(*build_tool_loop(), model(use()), user(result()), tools=TOOLS), "unique"),
    (body(HI, model(use("a.b")), user(result("a.b")), tools=TOOLS), "bad tool_use id"),
    (body(HI, model(use(name="a.b")), user(result()), tools=TOOLS), "bad tool name"),
    (body(HI, model(use(input=[])), user(result()), tools=TOOLS), "input"),
    (body(*build_tool_loop()), "must define tools"),
    (body(HI, model(use()), user(result(content="")), tools=TOOLS), "length >= 1"),
    (body(*build_tool_loop(thinking(signature="forged")), tools=TOOLS), "invalid signature"),
    (body(*build_tool_loop({"type": "thinking", "thinking": "Hm"}), tools=TOOLS), "signature"),
    (body(*build_tool_loop({"type": "redacted_thinking", "data": "made up"}), tools=TOOLS), "invalid data"),
    (body(HI, model(text("a"), thinking()), HI), "cannot be thinking"),
    (body(HI, model({**thinking(), **MARK}, text("a")), HI), "cache_control"),
    (body(*build_tool_loop(), tools=TOOLS, thinking=THINKS), "must start with a thinking block"),
    (body(HI, thinking={**THINKS, "budget_tokens": 5_000}), "greater than the budget"),
    (body(HI, thinking={**THINKS, "budget_tokens": 10}), "budget_tokens"),
    (body(HI, thinking={"type": "enabled"}), "goes with type enabled"),
    (body(HI, tools=TOOLS, tool_choice={"type": "any"}, thinking=THINKS), "forces tool use"),
    (body(HI, model(search(), text("a")), HI, tools=[WEB]), "without a corresponding result"),
    (body(HI, model(build_search_result(), text("a")), HI, tools=[WEB]), "does not follow its server_tool_use"),
    (body(HI, model(search(name="bash_code_execution"), build_search_result(), text("a")), HI), "does not follow"),
    (body(HI, model(search(id="toolu_1"), build_search_result("toolu_1"), text("a")), HI), "bad server_tool_use id"),
    (body(HI, model(search(), build_search_result(encrypted_content="mine"), text("a")), HI), "encrypted_content"),
    (body(user(image("image/bmp"))), "not supported"),
    (body(user(image(data="%%%"))), "invalid base64"),
    (body(user({"type": "image", "source": {"type": "url", "url": "http://a.org/a.png"}})), "HTTPS"),
    (body(user(*[text(**MARK)] * 5)), "maximum of 4"),
    (body(HI, tools=[]), "length >= 1"),
    (body(HI, tools=[tool("x" * 65)]), "bad tool name"),
    (body(HI, tools=[tool(), tool()]), "unique"),
    (body(HI, tools=[{"name": "add"}]), "input_schema"),
    (body(HI, tools=[tool(description="")]), "length >= 1"),
    (body(HI, tools=[tool_with_schema(type="array")]), "type object"),
    (body(HI, tools=[tool_with_schema(type="object", oneOf=[])]), "oneOf"),
    (body(HI, tools=[tool_with_schema(type="object", properties={"a b": {}})]), "property key"),
    (body(HI, tools=[tool_with_schema(type="object", properties={"a": {"$ref": "#/nowhere"}})]), "leads nowhere"),
    (body(HI, tools=[tool_with_schema(type="object", properties={"a": {"x-mine": 1}})]), "x-mine"),
    (body(HI, tools=[{**WEB, "allowed_domains": ["a"], "blocked_domains": ["b"]}]), "together"),
    (body(HI, tools=[{**WEB, "max_uses": 0}]), "max_uses"),
    (body(HI, tools=[{**WEB, "description": "Search."}]), "not permitted"),
    (body(HI, tool_choice={"type": "auto"}), "while providing tools"),
    (body(HI, tools=TOOLS, tool_choice={"type": "tool", "name": "sub"}), "not offered"),
]


@pytest.mark.parametrize(("bad", "says"), BAD)
def test_what_is_not_in_order_is_refused(bad: bytes, says: str) -> None:
    assert says in "; ".join(faults_of(bad))


async def test_it_answers_by_script_and_refuses_with_400_so_that_the_official_sdk_agrees() -> None:
    strict = StrictMessages(says("Hel", "lo"), asks(("add", {"a": 1})), refuses(403, "no"))
    async with (
        strict.serving() as base_url,
        AsyncAnthropic(base_url=base_url.removesuffix("/v1"), api_key="k", max_retries=0) as client,
    ):
        hi: MessageParam = {"role": "user", "content": [{"type": "text", "text": "hi"}]}
        async with client.messages.stream(model="m", max_tokens=9, messages=[hi]) as stream:
            assert await stream.get_final_text() == "Hello"
        orphan: MessageParam = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "x"}]}
        with pytest.raises(BadRequestError, match="unexpected tool_use_id"):
            async with client.messages.stream(model="m", max_tokens=9, messages=[orphan]):
                pass
    assert len(strict.bodies) == 2
    assert len(strict.refusals) == 1
    assert len(strict.replies) == 2
