"""MCP tools as a provider sees them: a strict server of the Chat Completions kind, and a real MCP server."""

import asyncio
import json
import logging
from pathlib import Path

import pytest

from support import TEST_TIMEOUT_S
from toolyard import Yard
from venues.mcp.plain import PlainServer
from wire.strict_chat import StrictChat, asks, says


@pytest.mark.proves(
    "002.mcp-tools-converted",
    "002.mcp-choice-auto",
    "002.mcp-continued",
    "002.mcp-result-linked",
    "002.mcp-observed",
    "002.one-user-request",
    "002.tools-known-upfront",
    "002.custom-tools",
    "004.schema-converted",
    "004.arguments-parsed",
)
async def test_one_round_of_an_mcp_tool_over_the_wire(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    plain = PlainServer(tmp_path, "odd", trust=True)
    tree: dict[str, object] = {"root": {"children": []}}
    provider = StrictChat(asks(("cyclic", tree)), says("planted"))

    async def test() -> str:
        async with (
            asyncio.timeout(TEST_TIMEOUT_S),
            provider.serving() as base_url,
            Yard(model=f"{base_url}#m", servers={"plain": plain.spec}) as yard,
        ):
            return await yard.ask("plant a tree")

    with caplog.at_level(logging.DEBUG, "toolyard"):
        assert (await test()) == "planted"
    first, second = (json.loads(body) for body in provider.bodies)
    assert provider.refusals == [] and plain.read_notes("ended") == ["cyclic"]
    offered = {tool["function"]["name"]: tool for tool in first["tools"]}
    assert first["tool_choice"] == "auto" and offered["cyclic"]["type"] == "function"
    assert offered["cyclic"]["function"]["description"] == "Trees."
    assert offered["cyclic"]["function"]["parameters"]["$defs"]["node"]["properties"]["children"]["type"] == "array"
    user, call_message, result_message = second["messages"]
    assert user == first["messages"][0] and json.loads(call_message["tool_calls"][0]["function"]["arguments"]) == tree
    assert (result_message["role"], result_message["tool_call_id"]) == ("tool", call_message["tool_calls"][0]["id"])
    assert result_message["content"].startswith("cyclic of process")
    told_of = {line.rpartition(" | ")[2]: line for line in (record.getMessage() for record in caplog.records)}
    assert "cyclic" in told_of["Tool start"] and "duration_ms" in told_of["Tool finished"]
