"""Searching over HTTP: how a request and a conversation say where, and what an application is shown of it."""

from contextlib import aclosing
from pathlib import Path

import pytest
from msgspec.structs import replace

from hosting import NativeScripted, SearchingModel, add, list_offered_tools, local_web_search
from support import wait_until
from surfaces.api_client import NOTHING_ENABLED, ApiClient, Json, build_key, drop_deltas, open_api_client
from toolyard import Tool
from toolyard.core.ports import Model
from toolyard.core.tools.web_search_rule import NO_SEARCH_NOTE, SearchRules
from toolyard.testing import Scripted, say
from toolyard.venues.function import as_tool
from venues.mcp.plain import PlainServer

ADD_ONLY = [as_tool(add)]
ADD_AND_SEARCH = [as_tool(add), as_tool(local_web_search)]
USER: Json = {"role": "user", "content": "news"}
UI_MESSAGE: Json = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "news"}]}
REQUESTS: dict[str, Json] = {
    "/ai/respond": {"prompt": "news"},
    "/chat/v1/conversation": {"messages": [USER]},
    "/v1/chat/completions": {"messages": [USER], "model": "default"},
    "/v1/responses": {"input": "news", "model": "default"},
    "/ai-sdk/chat": {"id": "chat-1", "messages": [UI_MESSAGE]},
}
"""A request of each API that takes the fields at its top."""
STREAMED = ("/ai/respond", "/ai-sdk/chat", "/ag-ui")
RUN_INPUT: Json = {"threadId": "t1", "runId": "r1", "messages": [{"id": "m1", **USER}]}


async def send(http: ApiClient, path: str, body: Json) -> None:
    """Send a request, and wait for its answer or for the beginning of its stream."""
    if path in STREAMED:
        async with aclosing(http.stream_post(path, body)) as events:
            await anext(events)
    else:
        assert (await http.send_request("POST", path, body))[0] == 200, path


@pytest.mark.proves("002.search-switch", "002.prefer-native", "002.prefer-mcp")
@pytest.mark.parametrize(
    ("expected", "venue"),
    [
        ({}, "function"),
        ({"web_search": "native"}, "provider"),
        ({"web_search": "auto"}, "provider"),
        ({"web_search": "mcp"}, "function"),
        ({"useWebSearch": True}, "provider"),
        ({"useWebSearch": True, "webSearchPreference": "ai-web-search"}, "provider"),
        ({"useWebSearch": True, "webSearchPreference": "mcp"}, "function"),
        ({"use_web_search": True, "web_search_preference": "mcp"}, "function"),
        ({"useWebSearch": False}, ""),
        ({"web_search": "off"}, ""),
        ({"webSearch": "native"}, "provider"),
        ({"web_search": True}, "provider"),
        ({"webSearch": False}, ""),
        ({"metadata": {"useWebSearch": "true"}}, "provider"),
        ({"metadata": {"web_search": "off"}}, ""),
    ],
)
async def test_each_way_to_ask_says_where_a_search_runs(expected: dict[str, object], venue: str) -> None:
    model = NativeScripted([say("ok")] * 8)
    async with open_api_client(model, tools=ADD_AND_SEARCH) as http:
        conversation = await http.create_conversation()
        await http.post(f"{conversation}/chat", {"content": "news", **expected})
        set_up = await http.create_conversation("Test", **expected)
        await http.post(f"{set_up}/chat", {"content": "news"})
        for path, body in REQUESTS.items():
            await send(http, path, {**body, **expected})
        await send(http, "/ag-ui", {**RUN_INPUT, "forwardedProps": expected})
        await wait_until(lambda: len(model.requests) == 3 + len(REQUESTS))
        for request in model.requests:
            searches = [where for name, where in list_offered_tools(request) if name == "web_search"]
            assert searches == ([venue] if venue else []) and (NO_SEARCH_NOTE in request.system) is (not venue)


@pytest.mark.parametrize(
    ("expected", "venue"),
    [
        ({"web_search_options": {"search_context_size": "low"}}, "provider"),
        ({"toolyard": {"web_search": "mcp"}}, "function"),
    ],
)
async def test_a_chat_completion_takes_the_options_of_openai_and_ours(expected: Json, venue: str) -> None:
    model = NativeScripted([say("ok")])
    async with open_api_client(model, tools=ADD_AND_SEARCH) as http:
        body = {**REQUESTS["/v1/chat/completions"], **expected}
        assert (await http.send_request("POST", "/v1/chat/completions", body))[0] == 200
    (request,) = model.requests
    assert ("web_search", venue) in list_offered_tools(request)


@pytest.mark.parametrize("wrong", [{"webSearch": "google"}, {"metadata": {"useWebSearch": "perhaps"}}])
async def test_a_value_that_cannot_be_read_is_refused_everywhere(wrong: Json) -> None:
    async with open_api_client([]) as http:
        conversation = await http.create_conversation()
        requests = {**REQUESTS, f"{conversation}/chat": {"content": "news"}}
        requests.pop("/ai-sdk/chat")  # its clients read errors from the stream
        for path, body in requests.items():
            status, _, _ = await http.send_request("POST", path, {**body, **wrong})
            assert status == (400 if path.startswith("/v1/") else 422), path
        events = [event async for _, event in http.stream_post("/ag-ui", {**RUN_INPUT, "forwardedProps": wrong})]
        assert events[-1]["type"] == "RUN_ERROR", "as the protocol says it"


async def test_what_a_conversation_is_set_to_is_shown_and_can_be_changed() -> None:
    async with open_api_client([]) as http:
        conversation = await http.create_conversation(web_search="off")
        assert (await http.get(conversation))["conversation"]["web_search"] == "off"
        await http.put(conversation, {"title": "Other"})
        assert (await http.get(conversation))["conversation"]["web_search"] == "off"
        await http.put(conversation, {"useWebSearch": True, "webSearchPreference": "duckduckgo"})
        assert (await http.get(conversation))["conversation"]["web_search"] == "duckduckgo"


@pytest.mark.parametrize(
    ("expected", "words"),
    [
        ({"web_search": "native"}, "cannot search natively: its provider has no web_search"),
        ({"web_search": "mcp"}, "no MCP server that can search runs here"),
        ({"useWebSearch": True, "webSearchPreference": "duckduckgo"}, "no MCP server named duckduckgo"),
        ({"web_search": "auto", "useWebSearch": True}, "not both"),
        ({"web_search": "google"}, ""),
        ({"webSearchPreference": "google"}, ""),
        ({"useWebSearch": "yes"}, ""),
    ],
)
async def test_what_cannot_be_had_is_422_with_the_reason(expected: dict[str, object], words: str) -> None:
    async with open_api_client([], tools=ADD_ONLY) as http:
        conversation = await http.create_conversation()
        for path, body in (("/ai/respond", {"prompt": "news"}), (f"{conversation}/chat", {"content": "news"})):
            status, reply, _ = await http.send_request("POST", path, {**body, **expected})
            assert (status, reply["error_type"]) == (422, "validation_error"), reply
            assert words in reply["error"]


async def test_a_native_search_is_in_the_stream_the_messages_and_the_trace() -> None:
    async with open_api_client(SearchingModel()) as http:
        conversation = await http.create_conversation()
        body = {"content": "news", "web_search": "native"}
        events = [event async for event in http.stream_post(f"{conversation}/chat", body)]
        started, finished, cited, done = drop_deltas(events)
        assert (started["type"], started["state"], started["name"]) == ("tool.status", "started", "web_search")
        assert started["arguments"] == {"query": "news"}
        assert (finished["state"], finished["ok"], finished["ran"]) == ("finished", True, "provider")
        assert cited["type"] == "text.cited"
        assert cited["citations"] == [{"start": 0, "end": 4, "url": "https://example.org/news", "title": "News"}]
        user, call_message, answer, text_message = await http.list_messages(conversation)
        assert call_message["tool_calls"][0]["function"]["name"] == "web_search" and answer["role"] == "tool"
        assert text_message["content"] == "Much is new."
        assert text_message["citations"] == cited["citations"] and "citations" not in user
        trace = await http.get(f"{conversation}/runs/{done['run_id']}")
        (traced_call,) = trace["run"]["calls"]
        assert (traced_call["tool"], traced_call["provider_ran_it"], traced_call["outcome"]) == (
            "web_search",
            True,
            "ok",
        )


@pytest.mark.proves("002.central-management")
async def test_the_tools_of_all_servers_and_of_the_provider_are_managed_in_one_place(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    servers = {"one": PlainServer(tmp_path, trust=True).spec, "two": PlainServer(tmp_path / "b", trust=True).spec}
    model = NativeScripted([say("ok"), say("ok")])
    expected_ids = {("function", "web_search"), ("one", "add"), ("two", "add"), ("provider", "web_search")}

    def collect_ids(tools: list[Json]) -> set[tuple[str, str]]:
        return {(tool["server_id"], tool.get("tool_name") or tool["name"]) for tool in tools}

    async with open_api_client(
        model, tools=[as_tool(local_web_search)], servers=servers, default_settings=NOTHING_ENABLED
    ) as http:
        listed = await http.get("/tools")
        venues = {(tool["name"], tool["venue"]) for tool in listed["tools"]}
        assert {("web_search", "provider"), ("web_search", "function"), ("add", "mcp")} <= venues
        assert venues & {("one__add", "mcp"), ("two__add", "mcp")}, "who lists first has the short name"
        of_two = next(tool["name"] for tool in listed["tools"] if tool["server_id"] == "two" and "add" in tool["name"])
        health = (await http.send_request("GET", "/ai/tools/health"))[1]
        assert health["status"] == "healthy" and health["tools"]["schema_names"].count("web_search") == 1
        assert health["tools"]["built_in_names"].count("web_search") == 1
        conversation = await http.create_conversation()
        assert expected_ids <= collect_ids((await http.get(f"{conversation}/tools/available"))["available_tools"])
        await http.post(f"{conversation}/chat", {"content": "news", "web_search": "auto"})
        for server, name in (("two", "add"), ("provider", "web_search")):
            await http.post(f"{conversation}/tools", {"server_id": server, "tool_name": name})
        await http.post(f"{conversation}/chat", {"content": "news", "web_search": "auto"})
        assert [list_offered_tools(request) for request in model.requests] == [
            [],
            [("web_search", "provider"), (of_two, "mcp")],
        ]


async def test_rules_of_a_tool_hold_for_the_provider_s_too() -> None:
    model = NativeScripted([say("ok")])

    def apply_rules(tool: Tool) -> Tool:
        return replace(tool, roles=frozenset({"searcher"}))

    async with open_api_client(
        model, keys=[build_key("mia"), build_key("ada", "searcher")], apply_rules=apply_rules
    ) as http:
        staff, admin = http.with_key("mia"), http.with_key("ada")
        body = {"prompt": "news", "web_search": "native"}
        status, reply, _ = await staff.send_request("POST", "/ai/respond", body)
        assert (status, "not enabled here" in reply["error"]) == (422, True)
        assert "web_search" not in {entry["name"] for entry in (await staff.get("/tools"))["tools"]}
        async for _ in admin.stream_post("/ai/respond", body):
            pass
        assert list_offered_tools(model.requests[0]) == [("web_search", "provider")]


async def test_a_direct_call_of_a_provider_s_tool_is_told_that_it_runs_elsewhere() -> None:
    async with open_api_client(NativeScripted([])) as http:
        conversation = await http.create_conversation()
        body = {"tool": "web_search", "arguments": {"query": "x"}}
        assert (await http.send_request("POST", f"{conversation}/calls", body))[0] == 202
        received = drop_deltas(await http.read_until_done(conversation))
        assert [event["error_type"] for event in received if event.get("state") == "finished"] == ["unavailable"]


@pytest.mark.parametrize(
    ("model", "rules", "settings"),
    [
        (Scripted([]), SearchRules(), {}),
        (NativeScripted([]), SearchRules(prefer="off"), {}),
        (NativeScripted([]), SearchRules(prefer="auto", full_logging=True), {}),
        (NativeScripted([]), SearchRules(), {"web_search": "off"}),
    ],
    ids=["no provider", "off", "full logging", "off in the conversation"],
)
async def test_a_search_that_cannot_run_is_neither_listed_nor_enabled_nor_called(
    model: Model, rules: SearchRules, settings: dict[str, str]
) -> None:
    async with open_api_client(model, tools=ADD_ONLY, web_search=rules) as http:
        path = await http.create_conversation(**settings)
        if not settings:
            assert [tool["name"] for tool in (await http.get("/tools"))["tools"]] == ["add"]
        available = (await http.get(f"{path}/tools/available"))["available_tools"]
        enabled = (await http.get(f"{path}/tools"))["enabled_tools"]
        shown = (await http.get(path))["conversation"]["enabled_tools"]
        assert [[tool["tool_name"] for tool in tools] for tools in (available, enabled, shown)] == [["add"]] * 3
        await http.send_request("POST", f"{path}/calls", {"tool": "web_search"})
        received = drop_deltas(await http.read_until_done(path))
        assert [event["error_type"] for event in received if event.get("state") == "finished"] == ["unknown_tool"]


async def test_a_search_of_the_provider_is_enabled_before_the_conversation_asks_for_searches() -> None:
    settings = {"web_search": "off"}
    async with open_api_client(NativeScripted([]), default_settings=NOTHING_ENABLED) as http:
        path = await http.create_conversation(**settings)
        answer = await http.post(f"{path}/tools", {"server_id": "provider", "tool_name": "web_search"})
        assert answer["enabled_tools"] == []
        await http.put(path, {"web_search": "auto"})
        (enabled,) = (await http.get(f"{path}/tools"))["enabled_tools"]
        assert enabled["tool_name"] == "web_search"
