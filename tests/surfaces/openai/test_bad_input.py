"""What cannot be answered gets an error in OpenAI's shape that says what to change."""

import io
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from openai import BadRequestError

from surfaces.api_client import Json, build_key, build_yard
from surfaces.http_server import SocketClient, connect_client
from surfaces.openai.clients import HELLO, answer_calls, define_tool, list_calls, serve_model, serve_script
from toolyard import Caller
from toolyard.testing import call, say

PATH = "/v1/chat/completions"
ASKED = {"role": "user", "content": "x"}
QUESTION = {"messages": [ASKED]}
PHOTO = define_tool("take_photo", of={"type": "string"})
KEYS = (build_key("ann"), build_key("bob"))
LOCAL = Caller(user="local", roles=frozenset({"admin"}))


@asynccontextmanager
async def open_socket() -> AsyncGenerator[SocketClient, None]:
    async with build_yard([], allowed_models=frozenset({"default"})) as yard, connect_client(yard) as client:
        yield client


def with_messages(*messages: object) -> dict[str, object]:
    return {"model": "default", "messages": list(messages)}


CALL = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
OTHER_CALL = {**CALL, "id": "call_2"}
ASKS = {"role": "assistant", "content": None, "tool_calls": [CALL, OTHER_CALL]}
RESULT = {"role": "tool", "tool_call_id": "call_1", "content": "1"}
SCHEMA_FORMAT = {"type": "json_schema", "name": "list", "schema": {"type": "object"}}
LIST_FORMAT = {"type": "json_schema", "json_schema": {"name": "list", "schema": {"type": "array"}}}


@pytest.mark.parametrize(
    ("body", "status", "param", "words"),
    [
        ({**QUESTION, "model": "gpt-99"}, 404, "model", "'gpt-99' is not one of"),
        ({**QUESTION, "n": 2}, 400, "n", "must be 1"),
        ({**QUESTION, "modalities": ["text", "audio"]}, 400, "modalities", "answers are text"),
        ({**QUESTION, "functions": [{"name": "f"}]}, 400, "functions", "send tools"),
        ({"model": "default"}, 400, None, "missing required field `messages`"),
        (with_messages(), 400, "messages", "length"),
        (with_messages({"role": "user", "content": 7}), 400, "messages.0.content", "a text or a list of parts"),
        (with_messages({"role": "robot", "content": "x"}), 400, "messages.0", "is none of user"),
        (with_messages(ASKED, RESULT), 400, "messages.1", "answers no call before it"),
        (with_messages(ASKED, ASKS, RESULT), 400, "messages.2", "call_2 have no result"),
        (
            with_messages({"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "x"}}]}),
            400,
            "messages.0.content.0",
            "audio cannot be sent here",
        ),
        (
            with_messages({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "file:///x"}}]}),
            400,
            "messages.0.content.0",
            "an image needs an address",
        ),
        ({**QUESTION, "tools": [{"type": "web_search"}]}, 400, "tools.0", "send functions"),
        (
            {**QUESTION, "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": 7}}}]},
            400,
            None,
            "f",
        ),
        ({**QUESTION, "tool_choice": {"type": "x"}}, 400, "tool_choice", "the name of a function"),
        ({**QUESTION, "tool_choice": "no_such_tool"}, 400, "tool_choice", "no_such_tool"),
        ({**QUESTION, "temperature": 9}, 400, "temperature", "from 0 to 2"),
        ({**QUESTION, "top_p": 2}, 400, "top_p", "from 0 to 1"),
        ({**QUESTION, "max_tokens": -1}, 400, "max_tokens", "max_tokens: must be from 0"),
        ({**QUESTION, "max_completion_tokens": -1}, 400, "max_completion_tokens", "max_completion_tokens: must be"),
        ({**QUESTION, "max_tokens": 5, "max_completion_tokens": -1}, 400, "max_completion_tokens", "must be"),
        ({**QUESTION, "stop": ["x"] * 17}, 400, "stop", "stop: may hold at most"),
        ({**QUESTION, "stop": ""}, 400, "stop", "stop: must hold texts"),
        ({**QUESTION, "seed": 2**63}, 400, "seed", "seed: must be a whole number"),
        ({**QUESTION, "reasoning_effort": "huge"}, 400, "reasoning_effort", "none of none"),
        ({**QUESTION, "response_format": {"type": "yaml"}}, 400, "response_format", "none of text"),
        ({**QUESTION, "response_format": {"type": "json_schema"}}, 400, "response_format", "has no schema"),
        (
            {**QUESTION, "response_format": LIST_FORMAT},
            400,
            "response_format",
            "response_format: must be a JSON Schema",
        ),
        ({**QUESTION, "toolyard": {"server_tools": "some"}}, 400, "toolyard.server_tools", '"none"'),
        (b'{"messages": [', 400, None, ""),
        (b"\xff", 400, None, ""),
    ],
)
async def test_a_bad_request_says_what_to_change(body: object, status: int, param: str | None, words: str) -> None:
    async with open_socket() as client:
        answered, content, _ = await client.ask("POST", PATH, body)
    error: Json = content["error"]
    assert (answered, error["param"]) == (status, param), content
    assert error["type"] == "invalid_request_error" and words in str(error["message"])
    assert set(content) == {"error"} and set(error) == {"message", "type", "param", "code"}


async def test_a_call_of_another_user_is_plain_history_and_their_run_still_waits() -> None:
    script = [call("take_photo", of="me"), say("for bob"), say("for ann")]
    async with build_yard(script, keys=KEYS) as yard, connect_client(yard) as client:
        body: Json = {"messages": HELLO, "tools": [PHOTO]}
        waiting: Json = (await client.ask("POST", PATH, body, x_api_key="ann"))[1]
        message = waiting["choices"][0]["message"]
        result = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "a photo"}
        body = {"messages": [*HELLO, message, result], "tools": [PHOTO]}
        answers: list[Json] = [(await client.ask("POST", PATH, body, x_api_key=user))[1] for user in ("bob", "ann")]
    texts = [answer["choices"][0]["message"]["content"] for answer in answers]
    assert texts == ["for bob", "for ann"]


async def test_a_request_without_a_key_is_refused_in_the_same_shape() -> None:
    async with build_yard([], keys=KEYS) as yard, connect_client(yard) as client:
        status, content, headers = await client.ask("POST", PATH, QUESTION)
    error: Json = content["error"]
    assert (status, error["code"], error["type"]) == (401, "invalid_api_key", "invalid_request_error")
    assert headers["x-request-id"]


@pytest.mark.parametrize("model", ["http://127.0.0.1:1/v1#m", "https://evil.example/v1#m", "local:/etc/passwd"])
async def test_a_request_cannot_choose_where_the_key_of_the_model_goes(model: str) -> None:
    async with build_yard([]) as yard, connect_client(yard) as client:
        status, content, _ = await client.ask("POST", PATH, {**QUESTION, "model": model})
        other, refused, _ = await client.ask("POST", "/ai/respond", {"prompt": "x", "model": model})
    error: Json = content["error"]
    assert (status, error["code"], error["param"]) == (404, "model_not_found", "model")
    assert (other, refused["error_type"]) == (422, "validation_error")
    assert "is an address or a file" in str(refused["error"])


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("gpt-99", "'gpt-99' is not a model"),
        ("nobody:gpt-99", "'nobody:gpt-99' is not a model"),
        ("openai:gpt-99", "needs OPENAI_API_KEY"),
    ],
)
async def test_a_model_that_cannot_be_used_is_refused_before_a_run_starts(
    model: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    async with build_yard([]) as yard, connect_client(yard) as client:
        for path, body in ((PATH, QUESTION), ("/v1/responses", {"input": "x"})):
            status, content, _ = await client.ask("POST", path, {**body, "model": model, "stream": True})
            error: Json = content["error"]
            assert (status, error["code"], error["param"]) == (404, "model_not_found", "model")
            assert words in error["message"]
        other, refused, _ = await client.ask("POST", "/ai/respond", {"prompt": "x", "model": model})
        assert (other, refused["error_type"]) == (422, "validation_error")
        assert await yard.service.conversations.list_cards(LOCAL, unlisted=True) == []


async def test_a_large_body_is_refused() -> None:
    async with open_socket() as client, aiohttp.ClientSession() as session:
        body = b'{"messages": [{"role": "user", "content": "' + b"x" * 10_000_000 + b'"}]}'
        headers = {"content-type": "application/json"}
        async with session.post(client.url + PATH, data=io.BytesIO(body), headers=headers) as response:
            content = await response.json()
        assert (response.status, content["error"]["type"]) == (413, "invalid_request_error")
        status, content, _ = await client.ask("GET", "/v1/nothing")
        assert (status, set(content)) == (404, {"error"})


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (PATH, with_messages(ASKED, {**RESULT, "tool_call_id": "x" * 100_000})),
        (PATH, with_messages(ASKED, {**ASKS, "tool_calls": [{**CALL, "id": "x" * 100_000}]})),
        (PATH, {**QUESTION, "tool_choice": "x" * 100_000}),
        ("/v1/responses", {"input": [{"type": "function_call_output", "call_id": "x" * 100_000, "output": ""}]}),
        ("/v1/responses", {"input": "x", "conversation": "x" * 100_000}),
    ],
)
async def test_a_long_id_is_not_echoed_whole(path: str, body: object) -> None:
    async with open_socket() as client:
        status, content, _ = await client.ask("POST", path, body)
    assert status in (400, 404) and len(str(content)) < 2_000


async def test_fields_of_other_servers_and_nulls_are_ignored() -> None:
    async with serve_script([say("fine")]) as served:
        answer = await served.complete(
            extra_body={"top_k": 5, "tools": None, "stop": None, "logit_bias": {}, "user": "u", "metadata": None}
        )
    assert answer.choices[0].message.content == "fine"


async def test_two_results_of_which_one_is_missing_are_refused_by_name() -> None:
    script = [call("take_photo", of="me")]
    async with serve_script(script) as served:
        first = await served.complete(tools=[PHOTO])
        (only,) = list_calls(first)
        messages = answer_calls(HELLO, first, "a photo")[:-1]
        with pytest.raises(Exception, match=only.id):
            await served.complete(messages, tools=[PHOTO])


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/chat/completions", {**QUESTION, "stop": "END"}, "stop"),
        ("/responses", {"input": "x", "text": {"format": SCHEMA_FORMAT}}, "text.format"),
    ],
)
async def test_an_option_that_the_model_does_not_have_is_named_and_not_tried_again(
    path: str, body: Json, param: str
) -> None:
    async with serve_model("toolyard:offline", max_retries=2) as served:
        with pytest.raises(BadRequestError) as raised:
            await served.client.post(path, body={"model": "default", **body}, cast_to=object)
    error: Json = raised.value.body
    assert (error["param"], error["type"]) == (param, "invalid_request_error")
    assert f"{param}: cannot be used here" in error["message"]
