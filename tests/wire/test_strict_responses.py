"""The strict Responses server does refuse what it says it refuses, and takes what is in order."""

import json

import pytest
from openai import AsyncOpenAI, BadRequestError
from openai.types.responses import ResponseCompletedEvent

from wire.responses_bytes import says
from wire.strict_responses import SEAL, faults_of, strict_responses

Json = dict[str, object]
MODEL = "gpt-5-mini"


def body(*items: Json, **more: object) -> bytes:
    return json.dumps({"model": MODEL, "stream": True, "store": False, "input": items, **more}).encode()


def build_call(id: str = "a", name: str = "add", arguments: str = "{}") -> Json:
    return {"type": "function_call", "call_id": id, "name": name, "arguments": arguments}


def result(id: str = "a") -> Json:
    return {"type": "function_call_output", "call_id": id, "output": "3"}


def build_reasoning(id: str = "rs_1", model: str = MODEL, **more: object) -> Json:
    return {"type": "reasoning", "id": id, "summary": [], "encrypted_content": f"{SEAL}{model}:{id}", **more}


def tool(name: str = "add", strict: bool = False, **schema: object) -> Json:
    return {
        "type": "function",
        "name": name,
        "strict": strict,
        "parameters": {"type": "object", "properties": {}, **schema},
    }


def build_strict_tool(**properties: object) -> Json:
    return tool(strict=True, properties=properties, required=[*properties], additionalProperties=False)


def drop_key(value: Json, key: str) -> Json:
    return {name: item for name, item in value.items() if name != key}


NOTHING: Json = {}
NONE: list[str] = []
HI: Json = {"role": "user", "content": "hi"}
OK: Json = {"role": "assistant", "content": "ok"}
NAMED_CHOICE = {"type": "function", "name": "add"}
SEARCH: Json = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search"}}
A = {"a": {"type": "string"}}
ENCRYPTED = ["reasoning.encrypted_content"]


@pytest.mark.parametrize(
    "good",
    [
        body(HI),
        body(HI, OK, HI, instructions="s", include=ENCRYPTED),
        body({"role": "system", "content": "s"}, HI, build_call("a"), build_call("b"), result("b"), result("a"), HI),
        body(HI, build_reasoning(), build_call("a"), result("a"), build_reasoning("rs_2"), OK),
        body(HI, build_reasoning(), SEARCH, build_reasoning("rs_2"), {**OK, "phase": "final_answer"}),
        body(HI, tools=[tool()], tool_choice=NAMED_CHOICE),
        body(HI, tools=[tool(), {"type": "web_search"}], tool_choice="auto", max_tool_calls=3),
        body(HI, tools=[build_strict_tool(a={"type": ["integer", "null"]}), tool("sub", minProperties=1)]),
        body({"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64,AA=="}]}),
        body({"role": "user", "content": [{"type": "input_file", "file_url": "https://example.org/a.pdf"}]}),
    ],
)
def test_what_is_in_order_is_taken(good: bytes) -> None:
    assert faults_of(good) == []


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (b"{", "truncated"),
        (body(), "length >= 1"),
        (body(HI, temperature_=1), "unknown field `temperature_`"),
        (body(HI, messages=[]), "unknown field `messages`"),
        (body(HI, store=True), "`$.store`"),
        (body({**HI, "id": "u1"}), "unknown field `id`"),
        (body({"role": "tool", "content": "hi"}), "tool"),
        (body({"type": "tool_use"}), "'tool_use' is no type"),
        (body({**HI, "phase": "commentary"}), "only an assistant message"),
        (body({"role": "user", "content": []}), "length >= 1"),
        (body({"role": "user", "content": [{"type": "text", "text": "hi"}]}), "text"),
        (body({"role": "user", "content": [{"type": "input_image", "image_url": "file:///a"}]}), "matching"),
        (body({"role": "user", "content": [{"type": "input_file", "filename": "a"}]}), "needs file_data"),
        (body({"role": "user", "content": [{"type": "input_file", "file_data": "data:,"}]}), "filename"),
        (body({"role": "assistant", "content": [{"type": "input_text", "text": "a"}]}), "holds no input"),
        (body(HI, build_call("a")), "No tool output found for function call a"),
        (body(HI, build_call("a"), HI, result("a")), "No tool output found for function call a"),
        (body(HI, build_call("a"), build_call("b"), result("a"), HI), "No tool output found for function call b"),
        (body(HI, result("a")), "No tool call found"),
        (body(HI, result("a"), build_call("a")), "No tool call found"),
        (body(HI, build_call("a"), result("a"), result("a")), "No tool call found"),
        (body(HI, build_call("a"), build_call("a"), result("a"), result("a")), "used twice"),
        (body(HI, build_call("a"), result("a"), build_call("a"), result("a")), "used twice"),
        (body(HI, build_call("x" * 65), result("x" * 65)), "length <= 64"),
        (body(HI, build_call(arguments='{"x":'), result()), "not JSON"),
        (body(HI, build_call(arguments="[]"), result()), "not an object"),
        (body(HI, build_call(name="a.b"), result()), "bad tool name 'a.b'"),
        (body(HI, build_call(name=""), result()), "bad tool name ''"),
        (body(HI, {**build_call(), "id": "fc_1"}, result()), "unknown field `id`"),
        (body(HI, {**build_call(), "arguments": {}}, result()), "`str`, got `object`"),
        (body(HI, {**result(), "output": {"a": 1}}), "got `object` - at `$.output`"),
        (body(HI, build_reasoning()), "required following item"),
        (body(HI, build_reasoning(), HI), "required following item"),
        (body(HI, build_call(), build_reasoning(), result()), "required following item"),
        (body(HI, build_reasoning(model="o3"), OK), "could not be verified"),
        (body(HI, build_reasoning(encrypted_content="forged"), OK), "could not be verified"),
        (body(HI, drop_key(build_reasoning(), "encrypted_content"), OK), "encrypted_content"),
        (body(HI, drop_key(build_reasoning(), "summary"), OK), "summary"),
        (body(HI, build_reasoning(id="r1"), OK), "matching"),
        (body(HI, build_reasoning(), OK, build_reasoning(), OK), "Duplicate item"),
        (body(HI, SEARCH, SEARCH), "Duplicate item"),
        (body(HI, {**SEARCH, "action": {}}), "needs an action"),
        (body(HI, {**SEARCH, "id": "call_1"}), "matching"),
        (body(HI, model="gpt-4.1", include=ENCRYPTED), "not supported with this model"),
        (body(HI, include=["reasoning"]), "reasoning"),
        (body(HI, tools=[]), "length >= 1"),
        (body(HI, tools=[tool("x" * 65)]), "bad tool name"),
        (body(HI, tools=[tool(), tool()]), "used twice"),
        (body(HI, tools=[drop_key(tool(), "strict")]), "strict"),
        (body(HI, tools=[{"type": "function", "function": tool()}]), "function"),
        (body(HI, tools=[{**tool(), "parameters": NOTHING}]), "of type object"),
        (body(HI, tools=[tool(anyOf=[{"type": "object"}])]), "anyOf is not allowed at the top level"),
        (body(HI, tools=[tool(properties={"a": {"type": "array"}})]), "missing items"),
        (body(HI, tools=[tool(properties={"a": {"$ref": "#/$defs/A"}})]), "leads nowhere"),
        (
            body(HI, tools=[tool(strict=True, properties=A, required=["a"])]),
            "additionalProperties",
        ),
        (
            body(HI, tools=[tool(strict=True, properties=A, additionalProperties=False)]),
            "required must name",
        ),
        (body(HI, tools=[build_strict_tool(a={"oneOf": [{"type": "string"}]})]), "'oneOf' is not supported"),
        (body(HI, tools=[build_strict_tool(a={"description": "anything"})]), "needs a type"),
        (body(HI, tools=[build_strict_tool(a={"type": "object", "properties": {}})]), "additionalProperties"),
        (body(HI, tools=[{"type": "web_search", "max_uses": 2}]), "max_uses"),
        (body(HI, tools=[{"type": "web_search", "filters": {"blocked_domains": ["a"]}}]), "blocked_domains"),
        (body(HI, tools=[{"type": "code_interpreter"}]), "container"),
        (body(HI, tools=[{"type": "file_search", "vector_store_ids": NONE}]), "length >= 1"),
        (body(HI, tool_choice="auto"), "needs tools"),
        (body(HI, tools=[tool("sub")], tool_choice=NAMED_CHOICE), "not offered"),
        (body(HI, tools=[tool()], tool_choice={"type": "function", "function": {"name": "add"}}), "function"),
    ],
)
def test_what_is_not_in_order_is_refused(bad: bytes, says: str) -> None:
    assert says in "; ".join(faults_of(bad))


async def test_the_server_answers_400_with_the_reason_and_keeps_its_script() -> None:
    strict = strict_responses(says("Done."))
    async with (
        strict.serving() as base_url,
        AsyncOpenAI(base_url=base_url, api_key="none", max_retries=0) as client,
    ):
        with pytest.raises(BadRequestError, match="No tool call found"):
            await client.responses.create(
                model=MODEL,
                input=[{"type": "function_call_output", "call_id": "a", "output": "3"}],
                stream=True,
                store=False,
            )
        last = None
        async for event in await client.responses.create(
            model=MODEL, input=[{"role": "user", "content": "hi"}], stream=True, store=False
        ):
            last = event
    assert isinstance(last, ResponseCompletedEvent) and last.response.output_text == "Done."
    assert (len(strict.refusals), strict.replies) == (1, [])
