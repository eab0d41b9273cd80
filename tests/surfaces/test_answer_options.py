"""How the model is to answer, over HTTP: the options and the output schema of a request."""

import pytest

from surfaces.api_client import open_api_client
from toolyard.core.settings.models.options import Options
from toolyard.testing import Scripted, say

SCHEMA: dict[str, object] = {
    "type": "object",
    "properties": {"total": {"type": ["integer", "null"], "default": None}},
    "required": ["total"],
}
SAMPLING: dict[str, object] = {"temperature": 0.1, "top_p": 0.9, "max_tokens": 50, "stop": ["END"], "seed": 7}
MESSAGES = {"messages": [{"role": "user", "content": "add"}]}


async def test_each_way_to_ask_takes_options_and_an_output_schema() -> None:
    model = Scripted([say('{"total": 3}')] * 3)
    async with open_api_client(model) as http:
        body: dict[str, object] = {"options": SAMPLING, "output_schema": SCHEMA}
        async for _ in http.stream_post("/ai/respond", {"prompt": "add", **body}):
            pass
        conversation = await http.create_conversation()
        reply = await http.post(f"{conversation}/chat", {"content": "add", **body})
        assert reply["assistant_message"]["content"] == '{"total": 3}'
        camel = {**MESSAGES, "options": SAMPLING, "outputSchema": SCHEMA}
        _, reply, _ = await http.send_request("POST", "/chat/v1/conversation", camel)
        assert reply["message"]["content"] == '{"total": 3}'
    expected = Options(temperature=0.1, top_p=0.9, max_tokens=50, stop=("END",), seed=7, output_schema=SCHEMA)
    assert [request.options for request in model.requests] == [expected] * 3


async def test_an_answer_that_does_not_fit_is_not_the_answer() -> None:
    async with open_api_client([say("three"), say('{"total": 3}'), say("three"), say("four")]) as http:
        conversation = await http.create_conversation()
        reply = await http.post(f"{conversation}/chat", {"content": "add", "output_schema": SCHEMA})
        assert reply["assistant_message"]["content"] == '{"total": 3}'
        status, reply, _ = await http.send_request(
            "POST", f"{conversation}/chat", {"content": "add", "output_schema": SCHEMA}
        )
        assert (status, reply["details"]["cause"]) == (502, "output_invalid"), reply


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"options": {"temperature": 3}}, "the option temperature must be from 0 to 2"),
        ({"options": {"temperature": "hot"}}, ""),
        ({"output_schema": {"type": "array"}}, "must be a JSON Schema of type object"),
        ({"output_schema": {"type": "object", "properties": 5}}, "the output schema is not a valid JSON Schema"),
        ({"output_schema": "total"}, ""),
    ],
)
async def test_what_no_provider_takes_is_422_with_the_reason(fields: dict[str, object], words: str) -> None:
    async with open_api_client([]) as http:
        conversation = await http.create_conversation()
        for path, body in (("/ai/respond", {"prompt": "add"}), (f"{conversation}/chat", {"content": "add"})):
            status, reply, _ = await http.send_request("POST", path, {**body, **fields})
            assert (status, reply["error_type"]) == (422, "validation_error"), reply
            assert words in reply["error"]
