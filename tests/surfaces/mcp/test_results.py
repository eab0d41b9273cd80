"""An application that hands back what its MCP server answered, as it is: the model reads what the server meant."""

import json

import pytest

from surfaces.api_client import Json, open_api_client
from surfaces.app_client import AppClient, build_tool_results, user_message
from toolyard.core.items import ImagePart, Result
from toolyard.surfaces.shared.call_ids import parse_call_id
from toolyard.testing import Scripted, call, say

SEARCH_CALL = call("search_products", query="milk")
TEXT = {"type": "text", "text": "3 in stock"}
IMAGE = {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}
ERROR_RESULT = {"content": [{"type": "text", "text": "sold out"}], "isError": True}
OTHER_SHAPES: list[object] = [
    {"content": "a page", "isError": False},
    {"content": [TEXT], "title": "an article"},
    {"content": []},
    {"content": ["3 in stock"]},
    {"content": [{"type": "paragraph", "text": "3 in stock"}]},
    {"content": [{"type": "text", "value": "3 in stock"}]},
    {"content": [{"type": "image", "url": "https://example.org/milk.png"}]},
    {"content": [TEXT], "isError": "no"},
    {"isError": True},
    [TEXT],
]


async def deliver_to_model(result: object) -> Result:
    """Return the result as the model reads it, delivered by `toolResults`."""
    model = Scripted([SEARCH_CALL, say("ok")])
    async with open_api_client(model) as http:
        app = AppClient(http)
        assert (await app.post(build_tool_results(await app.ask("go"), result)))["stopReason"] == "done"
    return read_result(model)


def read_result(model: Scripted) -> Result:
    (result,) = [item for item in model.requests[1].history if isinstance(item, Result)]
    return result


async def test_the_text_the_structured_content_and_the_images_are_what_the_model_reads() -> None:
    result = await deliver_to_model({"content": [TEXT, IMAGE], "structuredContent": {"count": 3}, "isError": False})
    assert result.outcome == "ok" and result.parts == (ImagePart(url="data:image/png;base64,iVBORw0KGgo="),)
    first, _, last = result.content.splitlines()
    assert (first, last) == ("3 in stock", '{"count":3}')


async def test_a_result_that_says_it_is_an_error_is_one() -> None:
    result = await deliver_to_model(
        {**ERROR_RESULT, "_meta": {"trace": "1"}, "structuredContent": {"error_type": "sold_out"}}
    )
    assert result.outcome == "error" and result.error is not None
    assert (result.error.error, result.error.error_type) == ("sold out", "sold_out")


@pytest.mark.parametrize(
    "written", [json.dumps(ERROR_RESULT), {"meta": None, "structured_content": None, **ERROR_RESULT}]
)
async def test_a_result_written_as_text_or_with_python_names_is_the_same(written: object) -> None:
    result = await deliver_to_model(written)
    assert result.error is not None and result.error.error == "sold out"


@pytest.mark.parametrize("value", OTHER_SHAPES, ids=json.dumps)
async def test_what_only_resembles_a_result_stays_as_it_is(value: object) -> None:
    result = await deliver_to_model(value)
    assert (result.outcome, json.loads(result.content)) == ("ok", value)


async def test_the_other_ways_to_deliver_a_result_unwrap_it_too() -> None:
    stateless, direct = (Scripted([SEARCH_CALL, say("ok")]) for _ in range(2))
    async with open_api_client(stateless) as http:
        first = await AppClient(http).ask("go")
        answered: Json = {
            "role": "tool",
            "toolCallId": first["toolCalls"][0]["id"],
            "content": json.dumps(ERROR_RESULT),
        }
        history = [user_message("go"), {"role": "assistant", "toolCalls": first["toolCalls"]}, answered]
        assert (await AppClient(http).post({"messages": history}))["stopReason"] == "done"
    async with open_api_client(direct) as http:
        first = await AppClient(http).ask("go")
        conversation, call_id = parse_call_id(first["toolCalls"][0]["id"])
        await http.post(f"/conversations/{conversation}/calls/{call_id}/result", {"result": ERROR_RESULT})
        await http.read_until_done(f"/conversations/{conversation}")
    for model in (stateless, direct):
        error = read_result(model).error
        assert error is not None and error.error == "sold out"
