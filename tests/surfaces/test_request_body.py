"""Bodies of the seeds' endpoints: null means absent and unknown fields are ignored. Our own endpoints stay strict."""

import logging
from collections.abc import Sequence

import pytest

from surfaces.api_client import ApiClient, Json, open_api_client
from toolyard import tool
from toolyard.testing import say

ODD = {"x-client": {"version": [1, None]}, "trace": None}
"""Fields that no endpoint knows."""


@tool
def lookup(city: str) -> str:
    """Look up the weather."""
    return f"sunny in {city}"


CALL = {"id": "c1", "type": "function", "index": 0, "function": {"name": "lookup", "arguments": "{}", "strict": None}}
HISTORY: list[Json] = [
    {"role": "user", "content": "hi", "id": None, "timestamp": None, "tool_calls": None, "refusal": None},
    {"role": "assistant", "content": None, "tool_calls": [CALL], "audio": {"id": "a"}},
    {"role": "tool", "content": "sunny", "tool_call_id": "c1", "name": None, "tool_calls": None},
    {"role": "assistant", "content": "sunny", "tool_calls": None},
]
APP_TOOL: Json = {
    "name": "pick",
    "description": None,
    "inputSchema": None,
    "function": None,
    "sources": None,
    "tags": [],
}


async def use_every_endpoint(http: ApiClient) -> None:
    reply = await http.post(
        "/conversations",
        {"title": "t", "description": None, "system_prompt": None, "max_tokens": None, "web_search": None, **ODD},
        expect=201,
    )
    path = f"/conversations/{reply['conversation']['id']}"
    await http.put(path, {"title": None, "description": "new", "max_messages": None, **ODD})
    await http.post(f"{path}/messages", {"role": "user", "content": "x", "tool_calls": None, "name": None, **ODD}, 201)
    await http.post(f"{path}/context", {"descriptive_name": "n", "content": "c", "related_keywords": None, **ODD}, 201)
    await http.post(f"{path}/tools", {"server_id": "function", "tool_name": "lookup", "note": None, **ODD})
    answer = await http.post(f"{path}/chat", {"content": "go", "model": None, "tool_choice": None, **ODD})
    assert answer["assistant_message"]["content"] == "ok"
    shown = (await http.get(path))["conversation"]
    assert (shown["title"], shown["description"]) == ("t", "new")


async def test_seed_004_takes_nulls_and_unknown_fields() -> None:
    async with open_api_client(lambda _: say("ok"), tools=[lookup]) as http:
        await use_every_endpoint(http)


async def test_seed_003_takes_nulls_and_unknown_fields() -> None:
    async with open_api_client(lambda _: say("ok"), tools=[lookup]) as http:
        body = {"prompt": "go", "history": HISTORY, "mode": None, "conversation_id": None, "context": None, **ODD}
        events = [event async for _, event in http.stream_post("/ai/respond", body)]
        assert events[-1]["ending"] == "done"
        status, _, _ = await http.send_request("GET", "/ai/tools/health?verbose=1&unknown=")
        assert status == 200


async def test_seed_000_takes_nulls_and_unknown_fields() -> None:
    async with open_api_client(lambda _: say("ok"), tools=[lookup]) as http:
        body = {
            "messages": [*HISTORY, {"role": "user", "content": "go", "toolCalls": None, "name": None}],
            "tools": [APP_TOOL],
            "systemPrompt": None,
            "context": None,
            "conversationId": None,
            "toolResults": None,
            "model": None,
            "interrupt": None,
            **ODD,
        }
        status, answer, _ = await http.send_request("POST", "/chat/v1/conversation", body)
        assert (status, answer["message"]["content"]) == (200, "ok"), answer


async def test_a_required_field_that_is_null_is_missing() -> None:
    async with open_api_client() as http:
        path = await http.create_conversation()
        refused = await http.post(f"{path}/chat", {"content": None}, expect=422)
        assert "content" in str(refused["details"])


async def test_null_inside_of_data_is_data() -> None:
    """An app's context and a tool's arguments are values, not fields."""
    values: list[object] = []

    @tool
    def note(value: str | None) -> str:
        """Note a value."""
        values.append(value)
        return "noted"

    async with open_api_client(lambda _: say("ok"), tools=[note]) as http:
        call = {"id": "c1", "function": {"name": "note", "arguments": '{"value": null}'}}
        history = [{"role": "assistant", "content": "", "tool_calls": [call], "id": None}]
        history.append({"role": "tool", "content": "x", "tool_call_id": "c1"})
        body = {"prompt": "go", "history": history, "keep": True}
        events = [event async for _, event in http.stream_post("/ai/respond", body)]
        messages = await http.list_messages(f"/conversations/{events[-1]['conversation_id']}")
        assert messages[0]["tool_calls"][0]["function"]["arguments"] == '{"value":null}'


STRICT: Sequence[tuple[str, str, Json]] = [
    ("POST", "/keys", {"name": "k", "user": "u", "rolls": ["admin"]}),
    ("POST", "{path}/calls", {"tool": "lookup", "argumnets": {}}),
    ("POST", "{path}/cancel", {"call": "x"}),
    ("POST", "{path}/calls/x/approve", {"argument": {}}),
    ("POST", "{path}/calls/x/deny", {"because": "no"}),
    ("POST", "{path}/calls/x/answer", {"contents": {}}),
    ("POST", "{path}/calls/x/result", {"results": 1}),
    ("POST", "/servers/x/accept", {"tool": ["a"]}),
    ("POST", "{path}/calls", {"tool": "lookup", "arguments": None}),
]


@pytest.mark.parametrize(("method", "path", "body"), STRICT)
async def test_our_own_endpoints_stay_strict(method: str, path: str, body: Json) -> None:
    async with open_api_client(tools=[lookup]) as http:
        status, answer, _ = await http.send_request(method, path.format(path=await http.create_conversation()), body)
        assert (status, answer["error_type"]) == (422, "validation_error"), answer


async def test_ignored_fields_are_named_in_the_debug_log_without_their_values(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, logger="toolyard"):
        async with open_api_client(lambda _: say("ok")) as http:
            path = await http.create_conversation()
            body = {"content": "go", "sessionToken": "s3cret"}
            _, _, headers = await http.send_request("POST", f"{path}/chat", body)
            history = [{"role": "user", "content": "x", "refusal": "n0ne"}]
            async for _ in http.stream_post("/ai/respond", {"prompt": "go", "history": history}):
                pass
            lines = [
                record for record in caplog.records if record.name == "toolyard.http" and "ignored" in record.message
            ]
            assert [record.levelno for record in lines] == [logging.DEBUG, logging.DEBUG]
            assert "sessionToken" in lines[0].message
            assert "/chat" in lines[0].message
            assert lines[0].__dict__["correlation_id"] == headers["x-correlation-id"]
            assert "history[].refusal" in lines[1].message
            assert "s3cret" not in caplog.text
            assert "n0ne" not in lines[1].message


async def test_ignored_names_are_bounded_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, logger="toolyard.http"):
        async with open_api_client(lambda _: say("ok")) as http:
            path = await http.create_conversation()
            await http.post(f"{path}/chat", {"content": "go", **{f"field{number}\n" * 100: 1 for number in range(500)}})
            (line,) = [record.message for record in caplog.records if "ignored" in record.message]
            assert len(line) < 3000
            assert "\n" not in line
