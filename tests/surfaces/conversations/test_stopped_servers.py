"""Tools of a server that is stopped are not offered to a chat, and are again once it runs."""

from pathlib import Path

import pytest

from surfaces.api_client import NOTHING_ENABLED, open_api_client
from toolyard.testing import Scripted, say
from venues.mcp.plain import PlainServer

ADD = {"server_id": "plain", "tool_name": "add"}


@pytest.mark.proves("004.chat-tools-of-running-servers", "004.server-running-checked")
async def test_a_chat_is_offered_an_enabled_tool_only_while_its_server_runs(tmp_path: Path) -> None:
    model = Scripted([say("ok")] * 3)

    servers = {"plain": PlainServer(tmp_path, trust=True).spec}
    async with open_api_client(model, servers=servers, default_settings=NOTHING_ENABLED) as http:
        conversation = await http.create_conversation()
        await http.post(f"{conversation}/tools", ADD)
        for action in ("", "stop", "start"):
            if action:
                await http.post(f"/servers/plain/{action}", None)
            await http.post(f"{conversation}/chat", {"content": "go"})
        assert [[tool.name for tool in request.offer.tools] for request in model.requests] == [["add"], [], ["add"]]
