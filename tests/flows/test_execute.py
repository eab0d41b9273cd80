"""The service of seed 002 in code: a provider with its key, and `execute` with a text and metadata."""

import asyncio
import json
from pathlib import Path

import pytest

from support import TEST_TIMEOUT_S, wait_until
from toolyard import Yard
from toolyard.core.errors import Misconfigured
from venues.mcp.plain import PlainServer
from wire.messages_streams import encode_cited_text, encode_search, encode_search_result
from wire.strict import Reply
from wire.strict_messages import StrictMessages, asks, encode_end, encode_start, says

KEY = "sk-ant-written-in-code"
CONTENT = "Search for latest AI news"
NATIVE = Reply(
    packets=[
        encode_start(),
        encode_search(0, "srvtoolu_1"),
        encode_search_result(1, "srvtoolu_1"),
        encode_cited_text(2, "It is so."),
        encode_end(),
    ]
)
CALL = asks(("web_search", {}))


@pytest.fixture(autouse=True)
def no_key_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)


@pytest.mark.proves("002.key-in-code", "002.execute")
async def test_a_provider_with_its_key_in_code_executes_a_native_search(monkeypatch: pytest.MonkeyPatch) -> None:
    claude = StrictMessages(NATIVE)
    async with asyncio.timeout(TEST_TIMEOUT_S), claude.serving() as base_url:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", base_url)
        async with Yard(model="anthropic:claude-sonnet-4-5", api_keys={"anthropic": KEY}) as yard:
            metadata = {"useWebSearch": True, "webSearchPreference": "ai-web-search"}
            done = await yard.execute(content=CONTENT, metadata=metadata)
    assert (done.text, done.model_calls) == ("It is so.", 1)
    assert [(ran.tool, ran.ran, ran.at) for ran in done.calls] == [("web_search", "provider", "anthropic")]
    assert claude.refusals == []
    assert [headers["x-api-key"] for headers in claude.headers] == [KEY]
    (body,) = map(json.loads, claude.bodies)
    assert [tool["type"] for tool in body["tools"]] == ["web_search_20250305"]


@pytest.mark.proves("002.execute", "002.mcp-tools-listed", "002.mcp-two-requests")
async def test_the_same_call_with_the_preference_mcp_runs_the_search_on_an_mcp_server(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    claude = StrictMessages(CALL, says("Found."))
    server = PlainServer(tmp_path, names={"look": "web_search"}, trust=True)
    async with asyncio.timeout(TEST_TIMEOUT_S), claude.serving() as base_url:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", base_url)
        servers = {"plain": server.spec}
        async with Yard(model="anthropic:claude-sonnet-4-5", api_keys={"anthropic": KEY}, servers=servers) as yard:
            await wait_until(lambda: "web_search" in yard.tool_names)
            metadata = {"useWebSearch": True, "webSearchPreference": "mcp"}
            done = await yard.execute(content=CONTENT, metadata=metadata)
    assert (done.text, done.model_calls) == ("Found.", 2)
    assert [(ran.tool, ran.ran, ran.at) for ran in done.calls] == [("web_search", "mcp", "plain")]
    assert claude.refusals == [] and server.read_notes("ended") == ["look"]
    first, _ = map(json.loads, claude.bodies)
    offered = {tool["name"]: tool for tool in first["tools"]}
    assert {"web_search", "add", "fails"} <= set(offered)
    assert offered["web_search"]["description"] == "Looks."
    assert offered["web_search"]["input_schema"]["type"] == "object"


@pytest.mark.parametrize("api_keys", [{}, {"openai": KEY}], ids=["none", "of another provider"])
async def test_a_key_goes_to_its_own_provider_only(api_keys: dict[str, str]) -> None:
    async def test() -> None:
        async with Yard(model="anthropic:claude-sonnet-4-5", api_keys=api_keys):
            pass

    with pytest.raises(Misconfigured, match="ANTHROPIC_API_KEY") as refused:
        await test()
    assert KEY not in str(refused.value)


def test_a_key_for_something_that_is_no_provider_is_refused_without_showing_it() -> None:
    with pytest.raises(Misconfigured, match="'antropic' is not a provider") as refused:
        Yard(api_keys={"antropic": KEY})
    assert KEY not in str(refused.value)
