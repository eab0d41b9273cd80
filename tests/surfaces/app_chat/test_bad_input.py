"""What an application may get wrong is told with what and where, and never reaches the model."""

import pytest
from msgspec.json import encode

from surfaces.api_client import open_api_client
from surfaces.app_client import PATH, SEARCH, TOOLS, AppClient, build_tool_results, user_message
from toolyard import Settings, tool
from toolyard.core.items import Result
from toolyard.testing import Scripted, call, say

TOOL_CALL = {"id": "c1", "name": "search_products", "arguments": {"query": "x"}}
CALLS_MESSAGE = {"role": "assistant", "toolCalls": [TOOL_CALL]}
RESULT_MESSAGE = {"role": "tool", "toolCallId": "c1", "content": "ok"}


@pytest.mark.parametrize(
    ("messages", "where"),
    [
        ([user_message("a"), CALLS_MESSAGE, user_message("b")], "messages.2"),
        ([user_message("a"), RESULT_MESSAGE, user_message("b")], "messages.1"),
        ([user_message("a"), CALLS_MESSAGE, RESULT_MESSAGE, RESULT_MESSAGE, user_message("b")], "messages.3"),
        ([user_message("a"), {"role": "assistant", "toolCalls": [TOOL_CALL, TOOL_CALL]}, RESULT_MESSAGE, RESULT_MESSAGE,
          user_message("b")], "messages.1"),
        ([user_message("a"), {"role": "assistant", "content": "b"}], "messages.1"),
        ([{"role": "wizard", "content": "a"}], "messages.0"),
        ([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}], "messages.0.content"),
        ([{"role": "user", "content": [{"type": "image", "url": "javascript:alert(1)"}]}], "messages.0.content"),
        ([{"role": "user", "content": [{"type": "image", "data": "AA==", "mimeType": "text/html"}]}],
         "messages.0.content"),
        ([{"role": "user", "content": [{"type": "image"}]}], "messages.0.content"),
        ([{"role": "user", "content": [{"type": "video", "url": "https://a.example/x"}]}], "messages.0.content"),
        ([{"role": "system", "content": [{"type": "image", "url": "https://a.example/x"}]}, user_message("b")],
         "messages.0.content"),
        ([{"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{"}}]},
          user_message("b")], "messages.0"),
    ],
)  # fmt: skip
async def test_a_history_that_no_provider_would_take_is_422_with_the_index(messages: list[object], where: str) -> None:
    async with open_api_client() as http:
        reply = await AppClient(http).post({"messages": messages, "tools": TOOLS}, expect=422)
        assert [field["key"] for field in reply["details"]["fields"]] == [where]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({}, "send messages, or a conversationId"),
        ({"messages": [user_message("a")], "toolResults": [{"toolCallId": "c1", "result": 1}]}, "not both"),
        ({"toolResults": [{"toolCallId": "c1", "result": 1}]}, "conversationId: is missing"),
        ({"toolResults": [{"toolCallId": "c1"}]}, "toolResults.0: give either a result or an error"),
        ({"messages": [user_message("a")], "tools": [{"description": "nameless"}]}, "tools.0: has no name"),
        ({"messages": [user_message("a")], "tools": [{"name": "a.b/c"}]}, "cannot be a tool's name"),
        ({"messages": [user_message("a")], "tools": [SEARCH, SEARCH]}, "two tools are named 'search_products'"),
        ({"messages": [user_message("a")], "tools": [{"name": "x", "parameters": {"type": "objekt"}}]}, "type object"),
        ({"messages": [user_message("a")], "tools": [{"name": "x", "sources": {"a": 7}}]}, "some fields are wrong"),
        ({"messages": [user_message("a")], "tools": [{"name": "x", "examples": ["e" * 501]}]}, "some fields are wrong"),
        ({"messages": [user_message("a")], "tools": [{"name": "x", "propose": ["is {gone}"]}]}, "have a slot 'gone'"),
        (
            {"messages": [user_message("a")], "tools": [{"name": "x", "inputSchema": {"properties": 7}}]},
            "valid JSON Schema",
        ),
        ({"messages": [user_message("a")], "tools": [{"name": f"t{n}"} for n in range(300)]}, "some fields are wrong"),
        ({"messages": [user_message("a")], "context": {"division": 7}}, "context.division: must be a text"),
        ({"messages": [user_message("a")], "context": {"n" * 501: 1}}, "a name has 1 to 500 characters"),
        ({"messages": [user_message("a")], "context": {f"n{n}": 1 for n in range(101)}}, "at most 100"),
        ({"messages": [user_message("a")], "toolChoice": "nothing_like_it"}, "there is no tool named"),
        (
            {"conversationId": "c", "messages": [user_message("a"), RESULT_MESSAGE, user_message("b")]},
            "hand in the results first",
        ),
    ],
)
async def test_what_is_wrong_is_said(body: dict[str, object], why: str) -> None:
    async with open_api_client() as http:
        assert why in (await AppClient(http).post(body, expect=422))["error"]


async def test_300_tools_are_too_many_and_the_number_is_told() -> None:
    async with open_api_client() as http:
        body = {"messages": [user_message("a")], "tools": [{"name": f"t{n}"} for n in range(300)]}
        (field,) = (await AppClient(http).post(body, expect=422))["details"]["fields"]
        assert "128" in field["message"] and field["key"] == "tools"


async def test_a_result_of_20_mb_is_413_and_the_call_goes_on_waiting() -> None:

    model = Scripted([call("search_products", query="milk"), say("ok")])
    async with open_api_client(model, way="socket") as http:
        app = AppClient(http)
        first = await app.ask("go")
        answers = [
            await http.send_request("POST", PATH, encode(build_tool_results(first, "x" * size)))
            for size in (20_000_000, 2_000_000)
        ]
        assert [(status, answer.get("error_type")) for status, answer, _ in answers] == [
            (413, "too_large"),
            (200, None),
        ]
    (result,) = [item for item in model.requests[1].history if isinstance(item, Result)]
    assert result.whole_bytes == 2_000_000 and len(result.content) <= 16_384


async def test_a_result_that_is_not_json_is_a_text_and_a_body_that_is_none_is_400() -> None:
    model = Scripted([call("search_products", query="milk"), say("ok")])
    async with open_api_client(model) as http:
        app = AppClient(http)
        first = await app.ask("go")
        status, reply, _ = await http.send_request("POST", PATH, b'{"toolResults": [}')
        assert (status, reply["error_type"]) == (400, "invalid_json")
        await app.post(build_tool_results(first, "{not json"))
    assert [item.content for item in model.requests[1].history if isinstance(item, Result)] == ["{not json"]


async def test_the_servers_tool_wins_over_one_of_the_same_name_and_the_answer_says_so() -> None:
    @tool
    async def search_products(query: str) -> str:
        """The server's own."""
        return f"server {query}"

    model = Scripted([call("search_products", query="milk"), say("ok")])
    async with open_api_client(model, tools=[search_products]) as http:
        answer = await AppClient(http).ask("go")
        assert answer["overriddenTools"] == ["search_products"] and answer["stopReason"] == "done"
    assert [item.content for item in model.requests[1].history if isinstance(item, Result)] == ["server milk"]


async def test_where_no_tool_is_enabled_the_apps_own_still_are() -> None:
    async with open_api_client(
        [call("search_products", query="milk")], default_settings=Settings(tools=frozenset())
    ) as http:
        assert (await AppClient(http).ask("go"))["toolCalls"][0]["name"] == "search_products"
