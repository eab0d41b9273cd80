"""Where searches run: at three providers, on MCP servers, or nowhere, and what is seen of it."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from hosting import ALL, NativeScripted, add, list_offered_tools, local_web_search
from support import TEST_TIMEOUT_S, collect_events, find_history_faults, wait_until
from toolyard import Tool, ToolLike, Yard, tool
from toolyard.cli.waterfall import draw
from toolyard.core.conversation.events import CallEnded, CallStarted, TurnEnded, TurnStarted
from toolyard.core.conversation.settings import Settings
from toolyard.core.errors import Invalid, Misconfigured
from toolyard.core.items import Call, ModelText, Result, Usage
from toolyard.core.ports import Model
from toolyard.core.tools.definition import ProviderOptions
from toolyard.core.tools.web_search_rule import NO_SEARCH_NOTE, SearchMode, SearchRules
from toolyard.models.gemini import Gemini
from toolyard.models.messages import Anthropic
from toolyard.models.responses import OpenAIResponses
from toolyard.observability.trace import build_trace
from toolyard.testing import Scripted, ScriptedCall, Turn, call, say
from toolyard.venues.provider import build_provider_tool
from venues.mcp.plain import PlainServer
from wire import gemini_bytes, responses_bytes, strict_gemini
from wire.messages_streams import encode_cited_text, encode_search, encode_search_result
from wire.strict import Reply, StrictServer
from wire.strict_gemini import strict_gemini as gemini_server
from wire.strict_messages import StrictMessages, encode_end, encode_start, encode_tool_use, says
from wire.strict_responses import strict_responses

ALONE = replace(ALL, beside_functions=False)


@asynccontextmanager
async def open_yard(model: Scripted, *tools: ToolLike, **options: Any) -> AsyncGenerator[tuple[Yard, Scripted], None]:
    async with asyncio.timeout(TEST_TIMEOUT_S), Yard(tools=tools, model=model, **options) as yard:
        yield yard, model


OWN_SEARCH, NATIVE_SEARCH, ADD_FUNCTION = ("web_search", "function"), ("web_search", "provider"), ("add", "function")


@dataclass(frozen=True)
class SearchProvider:
    make_model: Callable[[str], Model]
    server: Callable[[], StrictServer | StrictMessages]
    name: str


def claude(*more: Reply) -> StrictMessages:
    packets = [
        encode_start(),
        encode_search(0, "srvtoolu_1"),
        encode_search_result(1, "srvtoolu_1"),
        encode_cited_text(2, "It is so."),
        encode_end(),
    ]
    return StrictMessages(Reply(packets=packets), *more)


def gpt() -> StrictServer:
    return strict_responses(responses_bytes.replies(responses_bytes.SEARCH, responses_bytes.CITED_TEXT))


def google() -> StrictServer:
    return gemini_server(
        gemini_bytes.replies(gemini_bytes.text(gemini_bytes.CITED_TEXT), groundingMetadata=gemini_bytes.GROUNDING)
    )


PROVIDERS = [
    SearchProvider(lambda url: Anthropic(base_url=url, model="claude", api_key="k"), claude, "anthropic"),
    SearchProvider(lambda url: OpenAIResponses(base_url=url, model=responses_bytes.MODEL), gpt, "openai"),
    SearchProvider(lambda url: Gemini(base_url=url, model=strict_gemini.MODEL), google, "gemini"),
]


@pytest.mark.proves("002.native-answer", "002.native-needs-no-mcp", "002.native-one-request", "002.auto-native")
@pytest.mark.parametrize("mode", ["auto", "native"])
@pytest.mark.parametrize("provider", PROVIDERS, ids=lambda provider: provider.name)
async def test_a_provider_searches_and_it_is_seen_like_any_other_call(
    provider: SearchProvider, mode: SearchMode
) -> None:
    server = provider.server()
    async with AsyncExitStack() as stack:
        base_url = await stack.enter_async_context(server.serving())
        yard = await stack.enter_async_context(Yard(model=provider.make_model(base_url)))
        done = await yard.execute(content="Search for the latest AI news", web_search=mode)
        assert (server.refusals, len(server.bodies), done.model_calls) == ([], 1, 1)
        (search,) = done.calls
        assert (search.tool, search.ran, search.at, search.outcome) == ("web_search", "provider", provider.name, "ok")
        assert done.citations[0].url.startswith("https://") and done.usage.total > 0
        call, result, answer = list(await yard.history(done.conversation))[1:]
        assert isinstance(call, Call) and isinstance(result, Result) and isinstance(answer, ModelText)
        assert answer.text == done.text and "https://" in result.content
        log = await yard.service.conversations.read_entries(done.conversation)
        assert not [entry for entry in log if isinstance(entry.event, CallStarted | CallEnded)]
        trace = build_trace(log, done.run_id)
        assert trace is not None
        assert [
            (traced_call.tool, traced_call.provider_ran_it, traced_call.outcome) for traced_call in trace.calls
        ] == [("web_search", True, "ok")]
        why = "the provider searches itself" if mode == "auto" else "it was asked for"
        assert [turn.search for turn in trace.turns] == [f"native: {why}"]


async def test_what_a_provider_sealed_goes_back_to_it_and_the_next_request_may_do_without_a_search() -> None:
    server = claude(says("Yes."), says("Still."))
    async with (
        server.serving() as url,
        Yard(model=Anthropic(base_url=url, model="claude"), tools=[add]) as yard,
    ):
        first = await yard.execute("Is it so?", web_search="native")
        for mode in ("native", "off"):
            await yard.execute("Sure?", web_search=mode, conversation=first.conversation)
        assert await find_history_faults(yard, first.conversation) == []
    assert server.refusals == []
    second, third = (json.loads(body) for body in server.bodies[1:])
    for body in (second, third):
        assert "enc_1" in json.dumps(body["messages"]) and "server_tool_use" in json.dumps(body["messages"])
    assert [tool["name"] for tool in second["tools"]] == ["web_search", "add"]
    assert [tool["name"] for tool in third["tools"]] == ["add"]
    assert NO_SEARCH_NOTE in json.dumps(third["system"]) and "system" not in second


@pytest.mark.proves("002.both-together")
async def test_native_and_own_tools_are_offered_and_called_in_one_request() -> None:
    both = [encode_start(), encode_search(0, "srvtoolu_1"), encode_search_result(1, "srvtoolu_1")]
    both += [encode_tool_use(2, "toolu_1", "add", '{"a":1,"b":2}'), encode_end("tool_use")]
    server = StrictMessages(Reply(packets=both), says("Three."))
    async with server.serving() as url, Yard(model=Anthropic(base_url=url, model="claude"), tools=[add]) as yard:
        done = await yard.execute("Search, then add.", web_search="auto")
    assert server.refusals == [] and done.model_calls == 2
    assert [(tool.tool, tool.ran) for tool in done.calls] == [("web_search", "provider"), ("add", "function")]
    for body in map(json.loads, server.bodies):
        assert [tool["name"] for tool in body["tools"]] == ["web_search", "add"]


@pytest.mark.proves("002.usage-summed", "002.prefer-mcp", "002.auto-unsupported", "002.search-configured")
@pytest.mark.parametrize(("mode", "configured"), [("auto", ""), ("mcp", ""), ("", "mcp")])
async def test_an_mcp_search_takes_two_model_calls_and_both_count(
    mode: SearchMode, configured: SearchMode, tmp_path: Path
) -> None:
    plain = PlainServer(tmp_path, names={"look": "web_search"}, trust=True)

    script = [call("web_search"), say("Found.")]
    async with open_yard(Scripted(script), servers={"plain": plain.spec}, web_search=configured) as (yard, model):
        await wait_until(lambda: "web_search" in yard.tool_names)
        done = await yard.execute(content="Search for the latest AI news", web_search=mode)
        assert (done.text, done.model_calls) == ("Found.", 2)
        assert done.usage == Usage(input_tokens=20, output_tokens=10)
        (ran,) = done.calls
        assert (ran.tool, ran.ran, ran.at, ran.outcome) == ("web_search", "mcp", "plain", "ok")
        assert ("web_search", "mcp") in list_offered_tools(model.requests[0])
        assert plain.read_notes("ended") == ["look"]


def two_search_servers(folder: Path) -> dict[str, Any]:
    """Return two servers whose tool `look` is to be named `web_search`; only the first can have the name."""
    servers: dict[str, Any] = {}
    for name in ("brave", "duckduckgo"):
        (folder / name).mkdir()
        servers[name] = PlainServer(folder / name, names={"look": "web_search"}, trust=True).spec
    return servers


def list_search_tools(model: Scripted) -> list[str]:
    """Return the names of the search tools that the model was shown in its first turn of the last request."""
    return sorted(
        name for name, _ in list_offered_tools(model.requests[-1]) if name.removeprefix("duckduckgo__") in SEARCHES
    )


SECOND_SEARCH, SEARCHES = "duckduckgo__web_search", ("web_search", "look")


async def start_second(yard: Yard, spec: Any) -> None:
    """Add the second server once the first has listed its tools: who lists first has the short name."""
    await wait_until(lambda: "web_search" in yard.tool_names)
    await yard.servers.add("duckduckgo", spec)
    await wait_until(lambda: [card.status for card in yard.servers.cards()] == ["running", "running"])


@pytest.mark.proves("002.prefer-duckduckgo")
async def test_with_two_search_servers_the_preference_decides_which_of_them_searches(tmp_path: Path) -> None:
    servers = two_search_servers(tmp_path)

    second = servers.pop("duckduckgo")
    async with open_yard(Scripted([call(SECOND_SEARCH), say("Found.")]), servers=servers) as (yard, model):
        await start_second(yard, second)
        metadata = {"useWebSearch": True, "webSearchPreference": "duckduckgo"}
        done = await yard.execute(content="news", metadata=metadata)
        assert [(ran.tool, ran.at, ran.outcome) for ran in done.calls] == [(SECOND_SEARCH, "duckduckgo", "ok")]
        assert list_search_tools(model) == [SECOND_SEARCH], "the other server's search is not offered"


@pytest.mark.parametrize(
    ("mode", "offered"),
    [
        ("off", []),
        ("native", ["web_search"]),
        ("mcp", [SECOND_SEARCH, "web_search"]),
        ("duckduckgo", [SECOND_SEARCH]),
        ("auto", ["web_search"]),
    ],
)
async def test_the_rule_of_web_search_holds_for_every_search_server(
    mode: SearchMode, offered: list[str], tmp_path: Path
) -> None:

    servers = two_search_servers(tmp_path)
    second = servers.pop("duckduckgo")
    async with open_yard(NativeScripted([say("ok")]), servers=servers) as (yard, model):
        await start_second(yard, second)
        await yard.execute(content="news", web_search=mode)
        assert list_search_tools(model) == offered
        if mode in ("native", "auto"):
            assert ("web_search", "provider") in list_offered_tools(model.requests[-1])


async def test_duckduckgo_means_the_server_of_that_name_and_no_other(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    duck = PlainServer(tmp_path / "d", names={"look": "web_search"}, trust=True)
    other = PlainServer(tmp_path, names={"look": "brave_web_search"}, trust=True)
    rules = SearchRules(tools=frozenset({"brave_web_search"}))

    servers = {"brave": other.spec, "duckduckgo": duck.spec}
    async with open_yard(Scripted([call("web_search"), say("Found.")]), servers=servers, web_search=rules) as (
        yard,
        model,
    ):
        await wait_until(lambda: {"web_search", "brave_web_search"} <= set(yard.tool_names))
        metadata = {"useWebSearch": True, "webSearchPreference": "duckduckgo", "other": 1}
        done = await yard.execute(content="news", metadata=metadata)
        assert done.calls[0].at == "duckduckgo"
        names = [name for name, _ in list_offered_tools(model.requests[0])]
        assert "web_search" in names and "brave_web_search" not in names
        await yard.servers.act("duckduckgo", "stop")
        with pytest.raises(Invalid, match="no MCP server named duckduckgo"):
            await yard.execute(content="news", web_search="duckduckgo")


@pytest.mark.proves("002.auto-custom-control", "002.auto-logging", "002.prefer-native")
@pytest.mark.parametrize(
    ("rules", "mode", "offered"),
    [
        (SearchRules(), "", [OWN_SEARCH, ADD_FUNCTION]),
        (SearchRules(), "auto", [NATIVE_SEARCH, ADD_FUNCTION]),
        (SearchRules(prefer="auto"), "", [NATIVE_SEARCH, ADD_FUNCTION]),
        (SearchRules(prefer="auto"), "off", [ADD_FUNCTION]),
        (SearchRules(prefer="auto", custom_control=True), "", [OWN_SEARCH, ADD_FUNCTION]),
        (SearchRules(prefer="auto", full_logging=True), "", [OWN_SEARCH, ADD_FUNCTION]),
        (SearchRules(full_logging=True), "native", [NATIVE_SEARCH, ADD_FUNCTION]),
        (SearchRules(prefer="native"), "mcp", [OWN_SEARCH, ADD_FUNCTION]),
        (SearchRules(prefer="off"), "", [ADD_FUNCTION]),
        (SearchRules(options=ProviderOptions(blocked_domains=("x.org",))), "auto", [OWN_SEARCH, ADD_FUNCTION]),
        (SearchRules(options=ProviderOptions(allowed_domains=("x.org",))), "auto", [NATIVE_SEARCH, ADD_FUNCTION]),
    ],
)
async def test_the_tools_of_a_request_are_those_that_the_rule_gives(
    rules: SearchRules, mode: SearchMode, offered: list[tuple[str, str]]
) -> None:
    async with open_yard(NativeScripted([say("ok")]), local_web_search, add, web_search=rules) as (yard, model):
        await yard.execute(content="news", web_search=mode)
        (request,) = model.requests
        assert sorted(list_offered_tools(request)) == sorted(offered)
        assert (NO_SEARCH_NOTE in request.system) is (OWN_SEARCH not in offered and NATIVE_SEARCH not in offered)
        (search,) = [tool for tool in request.offer.tools if tool.venue == "provider"] or [None]
        assert search is None or search.options == rules.options


async def test_the_request_goes_before_the_conversation_and_that_before_the_configuration() -> None:
    async with open_yard(NativeScripted([say("ok"), say("ok")]), local_web_search, web_search="native") as (
        yard,
        model,
    ):
        settings = Settings(web_search="off")
        first = await yard.execute(content="a", settings=settings)
        await yard.execute(content="b", conversation=first.conversation, web_search="mcp")
        assert [list_offered_tools(request) for request in model.requests] == [[], [OWN_SEARCH]]


async def test_where_functions_are_refused_beside_them_native_tools_go_alone_or_not_at_all() -> None:
    async with open_yard(
        NativeScripted([say("ok")] * 4, ALONE), add, provider_tools=[build_provider_tool("code_execution")]
    ) as (
        yard,
        model,
    ):
        for mode in ("auto", "native", ""):
            await yard.execute(content="news", web_search=mode)
        nothing_else = Settings(tools=frozenset({"web_search", "code_execution"}))
        await yard.execute(content="news", web_search="auto", settings=nothing_else)
        code = ("code_execution", "provider")
        assert [list_offered_tools(request) for request in model.requests] == [
            [ADD_FUNCTION],
            [NATIVE_SEARCH, code],
            [ADD_FUNCTION],
            [NATIVE_SEARCH, code],
        ]
        assert [NO_SEARCH_NOTE in request.system for request in model.requests] == [True, False, False, False]


async def test_code_and_files_are_offered_where_the_provider_has_them_and_policy_allows() -> None:
    tools = [
        build_provider_tool("code_execution"),
        build_provider_tool("file_search", ProviderOptions(stores=("vs_1",))),
    ]
    guarded = [replace(tools[0], approval="ask"), replace(tools[1], roles=frozenset({"clerk"}))]

    for offering, provider_tools, expected in (
        (NativeScripted([say("ok")]), tools, ["code_execution", "file_search"]),
        (NativeScripted([say("ok")]), guarded, []),
        (Scripted([say("ok")]), tools, []),
    ):
        async with open_yard(offering, provider_tools=provider_tools) as (yard, model):
            await yard.execute(content="news")
            assert [tool.name for tool in model.requests[0].offer.tools] == expected


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("native", "has no web_search; ask for auto or mcp"),
        ("mcp", "no MCP server that can search runs here"),
        ("duckduckgo", "no MCP server named duckduckgo"),
    ],
)
async def test_what_cannot_be_had_is_refused_in_words(mode: SearchMode, expected: str) -> None:
    async with open_yard(Scripted([]), add) as (yard, model):
        with pytest.raises(Invalid, match=expected) as refused:
            await yard.execute(content="news", web_search=mode)
        assert refused.value.details == {"field": "web_search"} and model.requests == []
        with pytest.raises(Invalid, match=expected):
            await yard.execute(content="news", settings=Settings(web_search=mode))


async def test_a_place_that_there_is_not_is_refused_where_it_is_said() -> None:
    async with open_yard(Scripted([])) as (yard, _):
        with pytest.raises(Invalid, match="web_search"):
            await yard.execute(content="news", web_search="google")  # pyright: ignore[reportArgumentType]
    with pytest.raises(Misconfigured, match="'google' is not a place to search"):
        async with open_yard(Scripted([]), web_search="google"):
            pass


async def test_what_was_only_configured_and_cannot_be_had_is_off_and_the_model_knows() -> None:
    async with open_yard(Scripted([say("I cannot search.")]), add, web_search="native") as (yard, model):
        await yard.execute(content="news")
        assert NO_SEARCH_NOTE in model.requests[0].system


async def test_a_search_that_was_not_offered_does_not_run_whatever_the_model_says() -> None:

    script = [call("web_search", query="milk"), say("no")] * 2
    async with open_yard(NativeScripted(script), local_web_search) as (yard, model):
        for mode in ("off", "native"):
            done = await yard.execute(content="news", web_search=mode)
            assert [(tool.tool, tool.outcome) for tool in done.calls] == [("web_search", "error")]
        tool_results = [item for request in model.requests for item in request.history if isinstance(item, Result)]
        assert {item.error.error_type for item in tool_results if item.error} == {"permission_denied"}
        direct = [event async for event in yard.call("web_search", {"query": "milk"})]
        assert [event.result.content for event in direct if isinstance(event, CallEnded)] == ["all about milk"]


async def test_a_native_tool_that_is_called_like_one_of_ours_is_not_run() -> None:
    async with open_yard(NativeScripted([call("web_search", query="milk"), say("no")])) as (yard, _):
        events = await collect_events(yard.run("news", web_search="native"))
        (ended,) = [event.result for event in events if isinstance(event, CallEnded)]
        assert ended.error is not None and "runs at the model's provider" in ended.error.error
        assert not [event for event in events if isinstance(event, CallStarted)]


async def test_an_application_s_own_search_is_control_and_never_doubles_a_name() -> None:
    apps = Tool(name="web_search", description="In the app.", venue="client")
    async with open_yard(NativeScripted([say("ok")] * 3)) as (yard, model):
        for mode in ("", "auto", "native"):
            await yard.execute(content="news", web_search=mode, app_tools=[apps])
        client = ("web_search", "client")
        assert [list_offered_tools(request) for request in model.requests] == [[client], [client], [NATIVE_SEARCH]]


async def test_a_name_stands_for_one_tool_and_ours_goes_before_the_provider_s() -> None:
    apps = Tool(name="code_execution", description="In the app.", venue="client")
    async with open_yard(NativeScripted([say("ok")]), provider_tools=[build_provider_tool("code_execution")]) as (
        yard,
        model,
    ):
        await yard.execute(content="news", web_search="native", app_tools=[apps])
        assert list_offered_tools(model.requests[0]) == [NATIVE_SEARCH, ("code_execution", "client")]


async def test_a_provider_that_claims_a_call_which_nobody_offered_makes_nothing_run_here() -> None:
    ran: list[str] = []

    @tool
    def delete_all(query: str) -> str:
        """Delete everything."""
        ran.append(query)
        return "gone"

    claims = [encode_start(), encode_tool_use(0, "srvtoolu_1", "delete_all", '{"query": "x"}', kind="server_tool_use")]
    claims += [encode_search_result(1, "srvtoolu_1"), encode_cited_text(2, "Done."), encode_end()]
    server = StrictMessages(Reply(packets=claims), says("No."))
    async with (
        server.serving() as url,
        Yard(model=Anthropic(base_url=url, model="claude"), tools=[delete_all]) as yard,
    ):
        done = await yard.execute("hello")
        assert [(tool_note.tool, tool_note.ran) for tool_note in done.calls] == [("delete_all", "provider")]
        assert await yard.ask("again", conversation=done.conversation) == "No."
    assert (ran, server.refusals) == ([], [])


async def test_a_search_that_comes_or_goes_is_told_in_the_log() -> None:
    async with open_yard(NativeScripted([say("a"), say("b")])) as (yard, _):
        first = await yard.execute(content="a", web_search="native")
        await yard.execute(content="b", conversation=first.conversation, web_search="off")
        log = await yard.service.conversations.read_entries(first.conversation)
        began = [entry.event for entry in log if isinstance(entry.event, TurnStarted)]
        assert [list(turn.added) for turn in began] == [["web_search"], []] and began[1].removed == ("web_search",)
        assert all(entry.event.usage.total for entry in log if isinstance(entry.event, TurnEnded))


async def test_an_offer_is_the_same_object_as_long_as_its_search_is() -> None:
    async with open_yard(
        NativeScripted([Turn(calls=[ScriptedCall(tool="add", arguments={"a": 1, "b": 1})]), say("2")]), add
    ) as (
        yard,
        model,
    ):
        await yard.execute(content="a", web_search="native")
        assert model.requests[0].offer is model.requests[1].offer


async def test_a_trace_tells_why_a_search_runs_where_it_does_and_nothing_where_nobody_spoke_of_one() -> None:
    async with Yard(model=Scripted([say("No."), say("No.")])) as yard:
        done = [await yard.execute("What is new?", web_search=mode, conversation="c") for mode in ("auto", "")]
        log = await yard.service.conversations.read_entries("c")
    first, second = (build_trace(log, run.run_id) for run in done)
    assert first is not None and second is not None and [turn.search for turn in second.turns] == [""]
    (turn,) = first.turns
    assert turn.search.startswith("off: the model given cannot search natively: its provider has no web_search, and no")
    assert turn.search in draw([first], 400).plain
