"""What servers behind us have, as a client of `/mcp` sees it: all of it, as it came, of several servers as of one."""

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from support import TEST_TIMEOUT_S, read_entries, wait_until
from surfaces.api_client import build_key, build_yard
from surfaces.mcp_host import META_PREFIX, Host, HostAnswer, Json, LegacyHost, connect_host
from toolyard import Tool, Yard
from toolyard.core.conversation.events import RunEnded
from toolyard.core.tools.mcp_servers import ServerSpec
from venues.mcp.modern import SCRIPT as MODERN_SERVER
from venues.mcp.modern import over_http, wait_until_settled
from venues.mcp.plain import PlainServer

BRIDGE = Path(__file__).parents[1] / "bridge.py"
FIXTURES = Path(__file__).parents[2] / "conformance" / "fixtures.py"
MODEL_TEXT = {"type": "text", "text": "the model says"}
ODD = Path(__file__).parents[1] / "unusual_mcp_server.py"


def build_spec(script: Path, *args: str, **more: object) -> ServerSpec:
    options: Json = {"trust": True, "pin": "off", **more}
    return ServerSpec(command=sys.executable, args=(str(script), *args), **options)


@asynccontextmanager
async def open_host_with_servers(
    servers: dict[str, ServerSpec], transport: str = "stdio", **wiring: object
) -> AsyncGenerator[tuple[Host, Yard], None]:
    """Open a client of a yard with these servers; over `http` each is a process that the yard does not start."""
    async with asyncio.timeout(TEST_TIMEOUT_S * 2), AsyncExitStack() as stack:
        specs = (
            servers if transport == "stdio" else {name: await _start_bridge(servers[name], stack) for name in servers}
        )
        yard = await stack.enter_async_context(build_yard((), servers=specs, **wiring))
        await wait_until_settled(yard)
        yield await stack.enter_async_context(connect_host(yard)), yard


async def _start_bridge(spec: ServerSpec, stack: AsyncExitStack) -> ServerSpec:
    server = await stack.enter_async_context(over_http(BRIDGE, *spec.args))
    return replace(spec, command="", args=(), url=server.spec().url)


both_eras = pytest.mark.parametrize("era", ["modern", "legacy"])
both_transports = pytest.mark.parametrize("transport", ["stdio", "http"])


@both_transports
@both_eras
async def test_definitions_and_results_pass_with_fields_that_nobody_here_knows(era: str, transport: str) -> None:
    async with open_host_with_servers({"odd": build_spec(ODD)}, transport) as (host, _), host.open_session() as legacy:

        async def ask(method: str, params: Json = None) -> HostAnswer:
            return await (host.request_modern(method, params) if era == "modern" else legacy.ask(method, params))

        (listed,) = (await ask("tools/list")).result["tools"]
        assert listed["outputSchema"]["description"] == "kept" and listed["title"] == "An odd tool"
        assert listed["x-nobody-knows"] == [1, {"a": None}]
        assert listed["icons"] == [{"src": "https://example.org/i.png", "theme": "dark"}]
        assert listed["annotations"] == {"readOnlyHint": True, "x-hint": 1}
        assert listed["_meta"] == {"example.org/a": "b"}
        called = (await ask("tools/call", {"name": "odd", "arguments": {}})).result
        kinds = [part["type"] for part in called["content"]]
        assert kinds == ["text", "image", "audio", "resource_link", "resource", "x-new-kind"]
        assert called["content"][0]["annotations"] == {"audience": ["user"], "priority": 0.5}
        assert called["content"][3]["_meta"] == {"example.org/link": 1}
        assert called["content"][5] == {"type": "x-new-kind", "of": {"the": "future"}}
        assert called["structuredContent"] == {"big": 12345678901234567890, "half": 0.5, "none": None}
        assert called["_meta"]["example.org/result"] == "yes" and called["x-more"] == "passes"
        read = (await ask("resources/read", {"uri": "odd://one"})).result
        assert read["contents"] == [{"uri": "odd://one", "text": "1", "x-also": True}]
        prompted = (await ask("prompts/get", {"name": "odd"})).result
        assert prompted["messages"][0]["content"]["x-deep"] == {"er": 1}


@both_transports
@both_eras
async def test_two_servers_look_like_one_and_what_both_have_is_told_apart(era: str, transport: str) -> None:
    async with (
        open_host_with_servers({"one": build_spec(ODD, "one"), "two": build_spec(ODD, "two")}, transport) as (host, _),
        host.open_session() as legacy,
    ):

        async def ask(method: str, params: Json = None) -> HostAnswer:
            return await (host.request_modern(method, params) if era == "modern" else legacy.ask(method, params))

        discovery = await host.request_modern("server/discover")
        assert set(discovery.result["capabilities"]) == {"tools", "resources", "prompts", "completions"}
        prompts = [prompt["name"] for prompt in (await ask("prompts/list")).result["prompts"]]
        assert prompts == ["odd", "two__odd"]
        for name, words in (("odd", "from one"), ("two__odd", "from two")):
            prompt_text = (await ask("prompts/get", {"name": name})).result["messages"][0]["content"]["text"]
            assert prompt_text == words
        resources = [resource["uri"] for resource in (await ask("resources/list")).result["resources"]]
        assert resources == ["odd://one", "odd://two"]
        for uri in ("odd://one", "odd://two"):
            assert (await ask("resources/read", {"uri": uri})).result["contents"][0]["uri"] == uri
        unknown = await ask("resources/read", {"uri": "odd://three"})
        assert unknown.error["code"] == (-32602 if era == "modern" else -32002)
        assert (await ask("prompts/get", {"name": "three"})).error["code"] == -32602
        ref = {"type": "ref/prompt", "name": "two__odd"}
        completed = await ask("completion/complete", {"ref": ref, "argument": {"name": "a", "value": "b"}})
        assert completed.result["completion"]["values"] == ["from two: odd"]
        assert (await ask("resources/list", {"cursor": "x"})).error["code"] == -32602


async def test_a_server_that_does_not_answer_is_left_out_and_keeps_nobody() -> None:
    async with open_host_with_servers({"one": build_spec(ODD, "one"), "two": build_spec(ODD, "refuses")}) as (host, _):
        listed = (await host.request_modern("resources/list")).result["resources"]
        assert [resource["uri"] for resource in listed] == ["odd://one"]


async def test_a_resource_is_read_whatever_becomes_of_the_servers_that_do_not_have_it() -> None:
    async with open_host_with_servers(
        {"dies": build_spec(ODD, "dies"), "silent": build_spec(ODD, "silent"), "one": build_spec(ODD, "one")}
    ) as (host, _):
        read = await host.request_modern("resources/read", {"uri": "odd://one"})
        assert read.result["contents"][0]["uri"] == "odd://one"


async def test_a_server_that_sleeps_or_is_started_anew_still_has_its_resources() -> None:
    async with open_host_with_servers({"one": build_spec(ODD, "one", idle_s=0.1), "dies": build_spec(ODD, "dies")}) as (
        host,
        yard,
    ):
        uris: Json = [{"uri": "odd://one", "name": "one"}, {"uri": "odd://dies", "name": "dies"}]
        await wait_until(lambda: yard.servers.cards()[0].status == "idle")
        assert (await host.request_modern("resources/list")).result["resources"] == uris
        for _ in range(2):
            gone = await host.request_modern("resources/read", {"uri": "odd://dies"})
            assert "not available" in gone.error["message"], gone.error


async def test_what_no_server_has_is_not_found_though_one_of_them_is_away() -> None:
    async with open_host_with_servers({"dies": build_spec(ODD, "dies"), "one": build_spec(ODD, "one")}) as (host, _):
        await host.request_modern("resources/list")
        assert "not available" in (await host.request_modern("resources/read", {"uri": "odd://dies"})).error["message"]
        assert (await host.request_modern("resources/read", {"uri": "odd://three"})).error["code"] == -32602


async def test_a_client_listens_to_what_can_be_watched_though_a_server_is_away() -> None:
    async with open_host_with_servers({"dies": build_spec(ODD, "dies"), "one": build_spec(ODD, "one")}) as (host, _):
        wants: Json = {"notifications": {"resourceSubscriptions": ["odd://dies", "odd://one", "odd://none"]}}
        body, headers = host.build_modern_request("subscriptions/listen", wants)
        async with host.open_request("POST", body, **headers) as (_, _, stream), aclosing(stream):
            first = await anext(stream)
            assert first["params"]["notifications"] == {"resourceSubscriptions": ["odd://one"]}


async def test_a_server_that_lists_nothing_in_its_time_takes_none_of_the_others() -> None:
    async with open_host_with_servers({"mute": build_spec(ODD, "mute"), "one": build_spec(ODD, "one")}) as (host, _):
        body, headers = host.build_modern_request(
            "subscriptions/listen", {"notifications": {"resourceSubscriptions": ["odd://one"]}}
        )
        async with host.open_request("POST", body, **headers) as (_, _, stream), aclosing(stream):
            first = await anext(stream)
            assert first["params"]["notifications"] == {"resourceSubscriptions": ["odd://one"]}


async def test_resources_of_a_server_are_for_those_who_may_use_its_tools() -> None:
    def apply_rules(tool: Tool) -> Tool:
        return replace(tool, roles=frozenset({"manager"}))

    async with open_host_with_servers(
        {"one": build_spec(ODD, "one")},
        keys=[build_key("anna"), build_key("maria", "manager")],
        apply_rules=apply_rules,
    ) as (host, _):
        anna, maria = host.with_key("anna"), host.with_key("maria")
        assert (await anna.request_modern("resources/list")).result["resources"] == []
        assert (await anna.request_modern("resources/read", {"uri": "odd://one"})).error["code"] == -32602
        assert (await anna.request_modern("prompts/get", {"name": "odd"})).error["code"] == -32602
        assert len((await maria.request_modern("resources/list")).result["resources"]) == 1
        assert (await maria.request_modern("prompts/get", {"name": "odd"})).status == 200


async def test_what_a_name_stands_for_is_each_callers_own() -> None:
    """To one who sees a single server its prompt has the name that for others is another server's."""

    def apply_rules(tool: Tool) -> Tool:
        return replace(tool, roles=frozenset({"manager"})) if tool.server == "one" else tool

    servers = {"one": build_spec(ODD, "one"), "two": build_spec(ODD, "two")}
    async with open_host_with_servers(
        servers, keys=[build_key("anna"), build_key("maria", "manager")], apply_rules=apply_rules
    ) as (
        host,
        _,
    ):
        anna, maria = host.with_key("anna"), host.with_key("maria")

        async def list_prompts(caller: Host) -> list[str]:
            return [prompt["name"] for prompt in (await caller.request_modern("prompts/list")).result["prompts"]]

        async def read_prompt(caller: Host) -> str:
            return (await caller.request_modern("prompts/get", {"name": "odd"})).result["messages"][0]["content"][
                "text"
            ]

        assert (await list_prompts(maria), await list_prompts(anna)) == (["odd", "two__odd"], ["odd"])
        assert (await read_prompt(maria), await read_prompt(anna)) == ("from one", "from two")


@both_transports
async def test_a_servers_own_error_is_passed_on_with_its_code(transport: str) -> None:
    async with open_host_with_servers({"odd": build_spec(ODD)}, transport) as (host, _):
        answer = await host.call_tool("odd", {"fail": True})
        assert (answer.status, answer.error) == (200, {"code": -31999, "message": "odd", "data": {"why": "asked"}})


@both_transports
@both_eras
async def test_a_question_of_either_era_reaches_a_client_of_either_era(era: str, transport: str) -> None:
    async with open_host_with_servers({"fixtures": build_spec(FIXTURES, "--era", era)}, transport) as (host, _):
        asks: Json = {"name": "test_input_required_result_multi_round", "arguments": {}}
        answers = [{"name": "Anna"}, {"color": "blue"}]
        form: Json = {"elicitation": {}}
        params: Json = asks
        for content in answers:
            input_request = (await host.request_modern("tools/call", params, **form)).result
            assert input_request["resultType"] == "input_required", input_request
            replies = {name: {"action": "accept", "content": content} for name in input_request["inputRequests"]}
            params = {**asks, "inputResponses": replies, "requestState": input_request["requestState"]}
        assert (await host.request_modern("tools/call", params, **form)).text == "Anna likes blue"
        async with host.open_session(**form) as client:
            body, remaining, result_text = client.build_request("tools/call", asks), list(answers), ""
            async with client.open_request("POST", body) as (_, _, stream), aclosing(stream):
                async for message in stream:
                    if message.get("method") == "elicitation/create":
                        await client.send_message(
                            id=message["id"], result={"action": "accept", "content": remaining.pop(0)}
                        )
                    elif "result" in message:
                        result_text = message["result"]["content"][0]["text"]
            assert result_text == "Anna likes blue"


@both_eras
async def test_a_client_that_cannot_be_asked_is_told_so_and_the_call_is_over(era: str) -> None:
    async with open_host_with_servers({"fixtures": build_spec(FIXTURES, "--era", era)}) as (host, yard):
        answer = await host.call_tool("test_elicitation", {"message": "who?"})
        assert (answer.status, answer.error["code"]) == (400, -32021)
        assert answer.error["data"] == {"requiredCapabilities": {"elicitation": {"form": {}}}}
        (card,) = await yard.service.conversations.list_cards(yard.access.authenticate({}), unlisted=True)
        ended = (await read_entries(yard, card.id))[-1].event
        assert isinstance(ended, RunEnded) and ended.ending == "cancelled"


@both_transports
@both_eras
async def test_clients_that_listen_are_told_of_changes_and_of_nothing_else(era: str, transport: str) -> None:
    async with open_host_with_servers({"fixtures": build_spec(FIXTURES, "--era", era)}, transport) as (host, _):
        wants = {"notifications": {"toolsListChanged": True}}
        body, headers = host.build_modern_request("subscriptions/listen", wants)
        async with host.open_request("POST", body, **headers) as (status, _, stream), aclosing(stream):
            assert status == 200
            first = await anext(stream)
            assert first["method"] == "notifications/subscriptions/acknowledged"
            assert first["params"] == {
                "notifications": wants["notifications"],
                "_meta": {f"{META_PREFIX}subscriptionId": 1},
            }
            async with (
                host.open_session() as client,
                client.open_request("GET") as (_, _, stream_events),
                aclosing(stream_events),
            ):
                await host.call_tool("test_trigger_prompt_change")
                assert (await anext(stream_events))["method"] == "notifications/prompts/list_changed"
                await host.call_tool("test_trigger_tool_change")
                news = await anext(stream)
                assert news["method"] == "notifications/tools/list_changed", "prompts were not asked for"
                assert news["params"]["_meta"] == {f"{META_PREFIX}subscriptionId": 1}
                assert (await anext(stream_events))["method"] == "notifications/tools/list_changed"


@both_transports
async def test_a_resource_that_is_watched_is_told_of_to_whoever_watches_it(transport: str) -> None:
    async with open_host_with_servers({"fixtures": build_spec(FIXTURES, "--era", "legacy")}, transport) as (host, _):
        uri = "test://watched-resource"
        async with (
            host.open_session() as client,
            host.open_session() as other,
            client.open_request("GET") as (_, _, stream_events),
            other.open_request("GET") as (_, _, elsewhere),
        ):
            assert (await client.ask("resources/subscribe", {"uri": uri})).result == {}
            news = await anext(stream_events)
            assert (news["method"], news["params"]) == ("notifications/resources/updated", {"uri": uri})
            await host.call_tool("test_trigger_prompt_change")
            assert (await anext(elsewhere))["method"] == "notifications/prompts/list_changed", "and nothing before it"
            assert (await client.ask("resources/unsubscribe", {"uri": uri})).result == {}
            assert (await client.ask("resources/subscribe", {"uri": "test://none"})).error["code"] == -32602


ELICITS: Json = {"elicitation": {"form": {}}}


async def call_with_answers(client: LegacyHost, tool: str, answers: dict[str, Json]) -> Json:
    """Return the result of a call, with these answers to what the server asks, by method."""
    async with client.open_request("POST", client.build_request("tools/call", {"name": tool, "arguments": {}})) as (
        _,
        _,
        messages,
    ):
        async for message in messages:
            if message.get("method") in answers:
                await client.send_message(id=message["id"], result=answers[message["method"]])
            elif "method" not in message:
                return message["result"]
    raise AssertionError("no answer came")


async def test_a_legacy_client_is_served_in_its_own_era_by_a_server_that_speaks_both() -> None:
    """Its server's tools ask by requests of their own, which the new era does not have."""
    async with open_host_with_servers({"both": build_spec(MODERN_SERVER)}) as (host, yard):
        assert yard.servers.cards()[0].protocol == "2026-07-28"
        async with host.open_session(**ELICITS) as legacy:
            answer = {"action": "accept", "content": {"name": "Ann"}}
            result = await call_with_answers(legacy, "push", {"elicitation/create": answer})
            assert result["content"][0]["text"] == "hello Ann after 1 calls"


async def test_a_server_that_speaks_only_the_new_era_serves_legacy_clients_in_it() -> None:
    async with (
        open_host_with_servers({"modern": build_spec(FIXTURES, "--era", "modern")}) as (host, _),
        host.open_session() as legacy,
    ):
        for _ in range(2):
            answer = await legacy.ask("tools/call", {"name": "test_simple_text", "arguments": {}})
            assert "simple text" in answer.text


SAMPLED: dict[str, Json] = {"sampling/createMessage": {"role": "assistant", "model": "m", "content": MODEL_TEXT}}


async def test_towards_a_server_of_the_old_era_a_call_claims_what_its_own_client_has(tmp_path: Path) -> None:
    plain = PlainServer(tmp_path, "typed", trust=True)
    async with open_host_with_servers({"plain": plain.spec}) as (host, _):
        async with host.open_session(**ELICITS) as without:
            refused = await call_with_answers(without, "asks_model", {})
            assert "-3260" in refused["content"][0]["text"], "the server is told that there is no model"
        async with host.open_session(sampling={}) as able:
            result = await call_with_answers(able, "asks_model", SAMPLED)
            assert "the model says" in result["content"][0]["text"]
    first, second = plain.read_notes("client")
    assert "sampling" not in first and "sampling" in second and "roots" not in second


async def test_towards_a_server_of_the_new_era_a_request_claims_what_its_own_client_has() -> None:
    async with open_host_with_servers({"modern": build_spec(FIXTURES, "--era", "modern")}) as (host, _):
        tool = "test_input_required_result_capabilities"  # it asks for what it may
        assert (await host.call_tool(tool)).text == "done"
        able: dict[str, Json] = {"answer": ELICITS, "completion": {"sampling": {}}}
        for name, capabilities in able.items():
            assert list((await host.call_tool(tool, capabilities=capabilities)).result["inputRequests"]) == [name]


@pytest.mark.parametrize("more", [{"trust": False}, {"trust": True, "sampling": False}])
async def test_an_able_client_is_not_claimed_for_a_server_that_is_not_trusted_or_not_to_sample(
    tmp_path: Path, more: Json
) -> None:
    plain = PlainServer(tmp_path, "typed", **more)
    async with (
        open_host_with_servers({"plain": plain.spec}) as (host, _),
        host.open_session(sampling={}, roots={}, **ELICITS) as able,
    ):
        approved = {"elicitation/create": {"action": "accept", "content": {"approve": True}}}
        assert "-3260" in (await call_with_answers(able, "asks_model", approved))["content"][0]["text"]
    (capabilities,) = plain.read_notes("client")
    assert "sampling" not in capabilities and "roots" not in capabilities


async def test_a_server_of_the_new_era_that_is_not_to_sample_does_not_reach_an_able_client() -> None:
    spec = build_spec(FIXTURES, "--era", "modern", sampling=False)
    async with open_host_with_servers({"modern": spec}) as (host, _):
        able: Json = {"sampling": {}, "roots": {}}
        answer = await host.call_tool("test_input_required_result_sampling", capabilities=able)
        assert answer.result["isError"] and "does not get here" in answer.text


async def test_each_client_is_asked_for_its_own_calls_only(tmp_path: Path) -> None:
    plain = PlainServer(tmp_path, "typed", trust=True, call_s=300.0)
    async with (
        open_host_with_servers({"plain": plain.spec}) as (host, _),
        host.open_session(sampling={}) as anns,
        host.open_session(sampling={}) as bobs,
    ):

        async def sample(client: LegacyHost, words: str) -> str:
            reply = {"role": "assistant", "model": "m", "content": {"type": "text", "text": words}}
            result = await call_with_answers(client, "asks_model", {"sampling/createMessage": reply})
            return result["content"][0]["text"]

        first, second = await asyncio.gather(sample(anns, "for ann"), sample(bobs, "for bob"))
        assert "for ann" in first and "for bob" in second


async def test_what_a_server_asks_for_without_a_call_reaches_no_client(tmp_path: Path) -> None:
    plain = PlainServer(tmp_path, "unbidden", trust=True)
    async with (
        open_host_with_servers({"plain": plain.spec}) as (host, _),
        host.open_session(sampling={}, roots={}) as able,
    ):
        await call_with_answers(able, "look", {})
        await wait_until(lambda: len(plain.read_notes("unbidden")) == 2)
        assert all('"code"' in reply for reply in plain.read_notes("unbidden"))
    assert "sampling" in plain.read_notes("client")[1], "it was told that a client of a call can be asked"
