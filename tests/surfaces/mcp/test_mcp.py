"""`/mcp`: what a client sees, byte for byte, in both eras."""

import asyncio
import json
from contextlib import aclosing

import pytest

from hosting import NativeScripted
from surfaces.api_client import build_key
from surfaces.mcp_host import META_PREFIX, MODERN, Host, HostAnswer, Json, LegacyHost, open_host
from toolyard import Context, ToolError, tool
from toolyard.core.conversation.events import CallEnded, RunEnded
from toolyard.engine.access.authentication import LOCAL_ADMIN
from toolyard.surfaces.http.errors import MAX_BODY_BYTES
from toolyard.surfaces.mcp import sessions

FORM: Json = {"elicitation": {}}


@tool(title="Opening hours", read_only=True)
def opening_hours(day: str) -> dict[str, str]:
    """When the shop is open."""
    return {"day": day, "open": "9 to 18"}


@tool
def fails(how: str = "") -> str:
    """Always."""
    raise ToolError("the till is locked", error_type="locked")


@tool(approval="ask")
def delete_order(number: int) -> str:
    """Delete an order for good."""
    return f"order {number} is gone"


@tool(roles=["manager"])
def raise_prices(percent: int) -> str:
    """For managers."""
    return "done"


@tool
async def counts(context: Context) -> str:
    """Tells how far it is."""
    for step in range(3):
        context.progress(step, total=2, message=f"step {step}")
    return "counted"


@tool(max_result_bytes=1000)
def long_list() -> str:
    """More than a model takes at once."""
    return "milk " * 5000


@tool(approval="other", approvers=["role:finance"])
def refund(number: int) -> str:
    """Refund an order."""
    return f"order {number} is refunded"


TOOLS = (opening_hours, fails, delete_order, raise_prices, counts, long_list)


def tool_names(answer: HostAnswer) -> list[str]:
    return [tool["name"] for tool in answer.result["tools"]]


def parse_error(answer: HostAnswer) -> Json:
    """The structured error of a call that failed."""
    assert answer.result["isError"] is True
    return json.loads(answer.text)


async def test_a_modern_client_discovers_lists_and_calls_without_any_session() -> None:
    async with open_host(tools=TOOLS) as (host, _):
        discovery = await host.request_modern("server/discover")
        assert discovery.result["supportedVersions"] == [MODERN]
        assert discovery.result["capabilities"]["tools"] is not None
        assert discovery.result["_meta"][f"{META_PREFIX}serverInfo"]["name"] == "toolyard"
        listed = await host.request_modern("tools/list")
        assert (listed.result["cacheScope"], listed.result["resultType"]) == ("private", "complete")
        (hours,) = [tool for tool in listed.result["tools"] if tool["name"] == "opening_hours"]
        assert hours["inputSchema"]["required"] == ["day"] and hours["inputSchema"]["type"] == "object"
        assert (hours["title"], hours["annotations"]) == ("Opening hours", {"readOnlyHint": True})
        called = await host.call_tool("opening_hours", {"day": "Sunday"})
        assert (called.status, called.headers["content-type"]) == (200, "application/json")
        assert "mcp-session-id" not in called.headers
        assert called.result["structuredContent"] == {"day": "Sunday", "open": "9 to 18"}
        assert json.loads(called.text) == called.result["structuredContent"]
        assert called.result["resultType"] == "complete" and called.result["isError"] is False


@pytest.mark.parametrize("version", ["2025-11-25", "2025-06-18", "2025-03-26"])
async def test_a_legacy_client_opens_a_session_lists_calls_and_ends_it(version: str) -> None:
    async with open_host(tools=TOOLS) as (host, _), host.open_session(version) as client:
        assert client.initialize_result["protocolVersion"] == version
        assert "opening_hours" in tool_names(await client.ask("tools/list"))
        called = await client.ask("tools/call", {"name": "opening_hours", "arguments": {"day": "Monday"}})
        assert json.loads(called.text) == {"day": "Monday", "open": "9 to 18"}
        assert "resultType" not in called.result
        assert (await client.ask("ping")).result == {}
        assert (await client.ask("no/such")).error["code"] == -32601
        assert (await client.send("DELETE")).status == 200
        assert (await client.ask("ping")).status == 404


async def test_a_version_that_we_do_not_speak_is_answered_with_one_that_we_do() -> None:
    async with open_host(tools=TOOLS) as (host, _):
        async with host.open_session("1999-01-01") as client:
            assert client.initialize_result["protocolVersion"] == "2025-11-25"
        body, headers = host.build_modern_request(
            "tools/list", {"_meta": {f"{META_PREFIX}protocolVersion": "2030-01-01"}}
        )
        answer = await host.send("POST", body, **(headers | {"mcp-protocol-version": "2030-01-01"}))
        assert (answer.status, answer.error["code"]) == (400, -32022)
        assert answer.error["data"] == {"supported": [MODERN], "requested": "2030-01-01"}


async def test_failures_of_tools_are_results_that_a_model_can_read() -> None:
    async with open_host(tools=TOOLS) as (host, _):
        assert parse_error(await host.call_tool("fails"))["error_type"] == "locked"
        wrong = parse_error(await host.call_tool("opening_hours", {"dya": 1}))
        assert wrong["error_type"] == "validation_error" and wrong["details"]["fields"]
        unknown = await host.call_tool("no_such_tool")
        assert (unknown.status, unknown.error["code"]) == (400, -32602)
        assert unknown.messages[-1]["id"] == 3


async def test_a_result_that_is_cut_for_models_is_passed_on_whole() -> None:
    async with open_host(tools=TOOLS) as (host, _):
        assert (await host.call_tool("long_list")).text == "milk " * 5000


async def test_keys_and_roles_hold_here_as_everywhere() -> None:
    async with open_host(tools=TOOLS, keys=[build_key("anna"), build_key("maria", "manager")]) as (host, _):
        refused = await host.request_modern("tools/list")
        assert (refused.status, refused.messages[0]["error_type"]) == (401, "unauthenticated")
        assert (await host.with_key("nobody").request_modern("tools/list")).status == 401
        anna, maria = host.with_key("anna"), host.with_key("maria")
        assert "raise_prices" not in tool_names(await anna.request_modern("tools/list"))
        hidden = await anna.call_tool("raise_prices", {"percent": 5})
        assert hidden.error["code"] == -32602
        assert "raise_prices" in tool_names(await maria.request_modern("tools/list"))
        assert (await maria.call_tool("raise_prices", {"percent": 5})).text == "done"


async def test_a_session_belongs_to_the_caller_who_opened_it() -> None:
    async with (
        open_host(tools=TOOLS, keys=[build_key("anna"), build_key("maria", "manager")]) as (host, _),
        host.with_key("anna").open_session() as client,
    ):
        stolen = LegacyHost(host._session, host._url, **(client.headers | {"x-api-key": "maria"}))  # pyright: ignore[reportPrivateUsage]
        assert (await stolen.ask("tools/list")).status == 404
        assert (await stolen.send("DELETE")).status == 404
        assert (await client.ask("tools/list")).status == 200


async def test_a_web_page_of_another_origin_cannot_drive_it() -> None:
    async with open_host(tools=TOOLS) as (host, _):
        body, headers = host.build_modern_request("tools/list")
        assert (await host.send("POST", body, **headers, origin="https://evil.example")).status == 403
        assert (await host.send("POST", body, **headers, host="evil.example")).status == 403


@pytest.mark.parametrize(
    ("meta", "headers", "code"),
    [
        ({f"{META_PREFIX}clientCapabilities": None}, {}, -32602),
        ({f"{META_PREFIX}protocolVersion": None}, {}, -32602),
        ({}, {"mcp-protocol-version": "2025-11-25"}, -32020),
        ({}, {"mcp-method": "tools/call"}, -32020),
        ({f"{META_PREFIX}protocolVersion": "v9"}, {}, -32020),
    ],
)
async def test_a_modern_request_must_say_what_it_is_twice_and_the_same(meta: Json, headers: Json, code: int) -> None:
    async with open_host(tools=TOOLS) as (host, _):
        body, sent = host.build_modern_request("tools/list", {"_meta": meta})
        answer = await host.send("POST", body, **(sent | headers))
        assert (answer.status, answer.error["code"], answer.messages[-1]["id"]) == (400, code, 1)


@pytest.mark.parametrize("left_out", ["mcp-protocol-version", "mcp-method", "mcp-name"])
async def test_a_modern_call_needs_its_headers(left_out: str) -> None:
    async with open_host(tools=TOOLS) as (host, _):
        body, sent = host.build_modern_request("tools/call", {"name": "opening_hours", "arguments": {"day": "Sunday"}})
        answer = await host.send("POST", body, **{name: value for name, value in sent.items() if name != left_out})
        assert (answer.status, answer.error["code"]) == (400, -32020)
        encoded = await host.send("POST", body, **(sent | {"mcp-name": "=?base64?b3BlbmluZ19ob3Vycw==?="}))
        assert encoded.status == 200


@pytest.mark.parametrize("method", ["initialize", "ping", "logging/setLevel", "no/such"])
async def test_methods_that_the_newest_revision_does_not_have_are_not_found(method: str) -> None:
    async with open_host(tools=TOOLS) as (host, _):
        answer = await host.request_modern(method)
        assert (answer.status, answer.error["code"]) == (404, -32601)


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"{", 400, -32700),
        (b"[]", 400, -32600),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', 400, -32600),
        (b'{"id":1,"method":"ping"}', 400, -32600),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', 400, -32600),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', 400, -32600),
        (b'{"jsonrpc":"2.0","id":1}', 400, -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}', 400, -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}', 400, -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"x","params":' + b'{"a":' * 5000 + b"1" + b"}" * 5001, 400, -32700),
        (b"\xff", 400, -32700),
        (b"", 400, -32700),
    ],
)  # fmt: skip
async def test_what_is_no_message_is_refused_in_words(body: bytes, status: int, code: int) -> None:
    async with open_host(tools=TOOLS) as (host, _):
        answer = await host.send("POST", body, content_type="application/json")
        assert (answer.status, answer.error["code"]) == (status, code)
        assert answer.error["message"]


async def test_a_body_that_is_too_large_is_refused() -> None:
    async with open_host(tools=TOOLS) as (host, _):
        assert (await host.send("POST", b" " * (MAX_BODY_BYTES + 1))).status == 413


async def test_other_methods_of_http_are_not_allowed() -> None:
    async with open_host(tools=TOOLS) as (host, _):
        assert (await host.send("PUT", b"{}")).status == 405


async def test_progress_comes_before_the_result_for_whoever_gave_a_token() -> None:
    async with open_host(tools=TOOLS) as (host, _):
        answer = await host.call_tool("counts", _meta={"progressToken": "p1"})
        assert [message["params"] for message in answer.messages[:-1]] == [
            {"progressToken": "p1", "progress": step, "total": 2, "message": f"step {step}"} for step in range(3)
        ]
        assert answer.text == "counted"
        assert len((await host.call_tool("counts")).messages) == 1
        async with host.open_session() as client:
            answer = await client.ask("tools/call", {"name": "counts", "_meta": {"progressToken": 7}})
            assert [message["params"]["progress"] for message in answer.messages[:-1]] == [0, 1, 2]


async def test_a_client_that_takes_no_stream_gets_the_result_alone() -> None:
    async with open_host(tools=TOOLS) as (host, _):
        body, headers = host.build_modern_request("tools/call", {"name": "counts", "_meta": {"progressToken": 1}})
        answer = await host.send("POST", body, **headers, accept="application/json")
        assert (answer.headers["content-type"], answer.text) == ("application/json", "counted")


async def test_a_call_over_mcp_is_a_run_in_the_journal_under_its_correlation_id() -> None:
    async with open_host(tools=TOOLS) as (host, yard):
        body, headers = host.build_modern_request(
            "tools/call", {"name": "opening_hours", "arguments": {"day": "Sunday"}}
        )
        await host.send("POST", body, **headers, x_correlation_id="my-trace")
        ((conversation, _),) = await yard.service.runs.find("my-trace")
        events = [entry.event for entry in await yard.service.conversations.read_entries(conversation)]
        assert isinstance(events[-1], RunEnded) and events[-1].ending == "done"
        assert [event.result.outcome for event in events if isinstance(event, CallEnded)] == ["ok"]
        card = await yard.service.conversations.require(conversation, yard.access.authenticate({}))
        assert card.title == "MCP: opening_hours"


async def test_too_many_calls_in_a_minute_are_told_to_the_model() -> None:
    async with open_host(tools=TOOLS, requests_per_minute=2) as (host, _):
        for _ in range(2):
            assert (await host.call_tool("opening_hours", {"day": "Sunday"})).result["isError"] is False
        limited = parse_error(await host.call_tool("opening_hours", {"day": "Sunday"}))
        assert limited["error_type"] == "rate_limited" and "try again in" in limited["error"]
        assert (await host.request_modern("tools/list")).status == 200


def make_slow_tool(started: asyncio.Event, stopped: asyncio.Event) -> object:
    @tool(timeout_s=20)
    async def slow() -> str:
        """Takes long."""
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return "done"

    return slow


async def test_a_modern_client_that_leaves_stops_its_call() -> None:
    started, stopped = asyncio.Event(), asyncio.Event()
    async with open_host(tools=[make_slow_tool(started, stopped)]) as (host, _):
        body, headers = host.build_modern_request("tools/call", {"name": "slow"})
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await host.send("POST", body, **headers)
        assert started.is_set()
        await asyncio.wait_for(stopped.wait(), 10)


async def test_a_legacy_client_cancels_by_a_notification_and_the_tool_is_stopped() -> None:
    started, stopped = asyncio.Event(), asyncio.Event()
    async with open_host(tools=[make_slow_tool(started, stopped)]) as (host, _), host.open_session() as client:
        body = client.build_request("tools/call", {"name": "slow"})

        async def cancel() -> None:
            await started.wait()
            params = {"requestId": body["id"], "reason": "changed my mind"}
            assert (await client.send_message(method="notifications/cancelled", params=params)).status == 202

        answer, _ = await asyncio.gather(client.send("POST", body), cancel())
        assert parse_error(answer)["error_type"] == "cancelled"
        assert stopped.is_set()
        assert (await client.send_message(method="notifications/cancelled", params={"requestId": 99})).status == 202


async def test_sessions_are_bounded_and_the_idlest_of_a_caller_makes_room() -> None:
    async with (
        open_host(tools=TOOLS, keys=[build_key("anna"), build_key("maria", "manager")]) as (host, _),
        host.with_key("maria").open_session() as other,
        host.with_key("anna").open_session() as first,
    ):
        for _ in range(sessions.MAX_SESSIONS_PER_CALLER - 1):
            async with host.with_key("anna").open_session():
                pass
        assert (await first.ask("ping")).status == 200
        async with host.with_key("anna").open_session(), host.with_key("anna").open_session():
            assert (await first.ask("ping")).status == 200
            assert (await other.ask("ping")).status == 200


# What a call waits for


async def call_and_answer(client: LegacyHost, tool: str, arguments: Json, **reply: Json) -> tuple[HostAnswer, Json]:
    """Call, answer the one question that comes, and hear the end."""
    messages: list[Json] = []
    question: Json = None
    body = client.build_request("tools/call", {"name": tool, "arguments": arguments})
    async with client.open_request("POST", body) as (status, headers, stream), aclosing(stream):
        async for message in stream:
            messages.append(message)
            if "method" in message and "id" in message:
                question = message
                assert (await client.send_message(id=message["id"], **reply)).status == 202
        return HostAnswer(status, headers, messages), question


@pytest.mark.parametrize(
    ("reply", "error_type"),
    [
        ({"result": {"action": "accept", "content": {"approve": True}}}, ""),
        ({"result": {"action": "accept", "content": {"approve": False}}}, "denied_by_user"),
        ({"result": {"action": "accept", "content": {"approve": "yes"}}}, "denied_by_user"),
        ({"result": {"action": "accept"}}, "denied_by_user"),
        ({"result": {"action": "decline"}}, "denied_by_user"),
        ({"result": {"action": "cancel"}}, "denied_by_user"),
        ({"error": {"code": -32603, "message": "no window"}}, "denied_by_user"),
    ],
)
async def test_a_legacy_client_is_asked_for_an_approval_on_the_stream(reply: Json, error_type: str) -> None:
    async with open_host(tools=TOOLS) as (host, _), host.open_session(elicitation={}) as client:
        answer, question = await call_and_answer(client, "delete_order", {"number": 7}, **reply)
        assert question["method"] == "elicitation/create"
        assert '"number": 7' in question["params"]["message"]
        assert question["params"]["requestedSchema"]["required"] == ["approve"]
        if error_type:
            assert parse_error(answer)["error_type"] == error_type
        else:
            assert answer.text == "order 7 is gone"


@pytest.mark.parametrize(("approve", "text"), [(True, "order 7 is gone"), (False, "denied_by_user")])
async def test_a_modern_client_comes_again_with_the_decision(approve: bool, text: str) -> None:
    async with open_host(tools=TOOLS) as (host, _):
        order = {"number": 7}
        first = (await host.call_tool("delete_order", order, capabilities=FORM)).result
        assert first["resultType"] == "input_required" and "content" not in first
        (name,) = first["inputRequests"]
        assert first["inputRequests"][name]["method"] == "elicitation/create"
        again = {"requestState": first["requestState"], "capabilities": FORM}
        unanswered = (await host.call_tool("delete_order", order, **again, inputResponses={"other": {}})).result
        assert unanswered == first
        decided = {name: {"action": "accept", "content": {"approve": approve}}, "more": {"is": "ignored"}}
        last = await host.call_tool("delete_order", order, **again, inputResponses=decided)
        assert text in last.text
        repeated = await host.call_tool("delete_order", order, **again, inputResponses=decided)
        assert repeated.text == last.text, "an answer that got lost can be asked for again; nothing runs twice"


async def test_a_place_leads_only_to_the_callers_own_call_and_only_to_that_one() -> None:
    async with open_host(tools=TOOLS, keys=[build_key("anna"), build_key("maria", "manager")]) as (host, _):
        anna, maria = host.with_key("anna"), host.with_key("maria")
        first = (await anna.call_tool("delete_order", {"number": 7}, capabilities=FORM)).result
        other = (await anna.call_tool("delete_order", {"number": 8}, capabilities=FORM)).result
        yes = {name: {"action": "accept", "content": {"approve": True}} for name in first["inputRequests"]}
        state = first["requestState"]

        async def is_refused(caller: Host, number: int, state: str) -> bool:
            again = {"requestState": state, "inputResponses": yes, "capabilities": FORM}
            answer = await caller.call_tool("delete_order", {"number": number}, **again)
            return answer.status == 400 and answer.error["code"] == -32602

        assert await is_refused(maria, 7, state), "another caller"
        assert await is_refused(anna, 8, state), "other arguments"
        assert await is_refused(anna, 7, f"{state}0"), "another entry"
        assert await is_refused(anna, 7, "nonsense")
        assert await is_refused(anna, 7, other["requestState"]), "another call"
        assert await is_refused(anna, 7, "/".join(["conversation_x", *state.split("/")[1:]]))


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_client_that_cannot_be_asked_is_told_where_and_finds_the_result_once_it_is_decided(era: str) -> None:
    async with open_host(tools=TOOLS) as (host, yard), host.open_session() as client:

        async def call() -> HostAnswer:
            if era == "modern":
                return await host.call_tool("delete_order", {"number": 7})
            return await client.ask("tools/call", {"name": "delete_order", "arguments": {"number": 7}})

        error = parse_error(await call())
        assert error["error_type"] == "approval_required"
        assert parse_error(await call()) == error, "still undecided: the same call, not a second one"
        conversation, call_id = error["details"]["conversation_id"], error["details"]["call_id"]
        assert f"/conversations/{conversation}/calls/{call_id}/approve" in error["error"]
        await yard.approve(conversation, call_id, caller=yard.access.authenticate({}))
        assert (await call()).text == "order 7 is gone"
        assert parse_error(await call())["details"]["call_id"] != call_id, "the next one is a call of its own"


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_client_is_not_asked_for_an_approval_that_others_have_to_give(era: str) -> None:
    keys = [build_key("anna", "finance"), build_key("maria", "finance")]
    async with open_host(tools=[refund], keys=keys) as (host, yard):
        anna = host.with_key("anna")
        async with anna.open_session(elicitation={}) as client:

            async def call() -> HostAnswer:
                if era == "modern":
                    return await anna.call_tool("refund", {"number": 7}, capabilities=FORM)
                return await client.ask("tools/call", {"name": "refund", "arguments": {"number": 7}})

            error = parse_error(await call())
            assert error["error_type"] == "approval_required"
            assert "waits for the approval of the role finance" in error["error"]
            place = error["details"]["conversation_id"], error["details"]["call_id"]
            await yard.approve(*place, caller=yard.access.authenticate({"x-api-key": "maria"}))
            assert (await call()).text == "order 7 is refunded"


async def test_an_approval_that_is_given_elsewhere_is_not_waited_for() -> None:
    async with open_host(tools=TOOLS) as (host, yard), host.open_session(elicitation={}) as client:
        body = client.build_request("tools/call", {"name": "delete_order", "arguments": {"number": 7}})
        async with client.open_request("POST", body) as (_, _, stream), aclosing(stream):
            question = await anext(stream)
            (card,) = await yard.service.conversations.list_cards(yard.access.authenticate({}), unlisted=True)
            (call_id,) = (await yard.service.conversations.view(card.id)).calls
            await yard.approve(card.id, call_id, caller=yard.access.authenticate({}))
            remaining = [message async for message in stream]
        assert remaining[0]["method"] == "notifications/cancelled"
        assert remaining[0]["params"]["requestId"] == question["id"]
        assert remaining[1]["result"]["content"][0]["text"] == "order 7 is gone"
        assert (await client.send_message(id=question["id"], result={"action": "decline"})).status == 202


async def test_a_host_is_not_offered_what_only_a_provider_can_call() -> None:
    async with open_host(NativeScripted([]), tools=TOOLS) as (host, yard):
        assert "web_search" in [tool.name for tool in yard.service.tools.list_usable(LOCAL_ADMIN)]
        assert "web_search" not in tool_names(await host.request_modern("tools/list"))
        assert (await host.call_tool("web_search", {"query": "x"})).error["code"] == -32602
