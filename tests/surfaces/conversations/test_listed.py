"""Which conversations people are shown, and under which title."""

from pathlib import Path

import pytest

from surfaces.api_client import connect_api_client, open_api_client
from surfaces.mcp_host import open_host
from toolyard import tool
from toolyard.testing import say
from venues.mcp.plain import PlainServer


@tool
def weigh(what: str) -> str:
    """Weigh something."""
    return f"{what}: 2 kg"


async def test_a_conversation_begun_by_respond_has_its_first_words_as_title() -> None:
    async with open_api_client(lambda _: say("ok")) as http:
        prompt = "  Add milk\nto the groceries, " + "and then some more " * 20
        async for _ in http.stream_post("/ai/respond", {"prompt": prompt}):
            pass
        async for _ in http.stream_post("/ai/respond", {"prompt": "Short one"}):
            pass
        titles = [conversation["title"] for conversation in (await http.get("/conversations"))["conversations"]]
        assert titles[0] == "Short one"
        assert titles[1].startswith("Add milk to the groceries, and then")
        assert titles[1].endswith("…")
        assert len(titles[1]) <= 60


async def test_a_conversation_that_goes_on_keeps_its_title() -> None:
    async with open_api_client(lambda _: say("ok")) as http:
        path = await http.create_conversation("Mine")
        body = {"prompt": "Another thing", "conversation_id": path.rpartition("/")[2]}
        async for _ in http.stream_post("/ai/respond", body):
            pass
        assert (await http.get(path))["conversation"]["title"] == "Mine"


@pytest.mark.parametrize("store", ["memory:", "sqlite"])
async def test_direct_calls_are_not_among_peoples_conversations_but_traces_find_them(
    tmp_path: Path, store: str
) -> None:

    plain = PlainServer(tmp_path, trust=True)
    name = "memory:" if store == "memory:" else f"sqlite:///{tmp_path}/x.db"
    async with (
        open_host(servers={"plain": plain.spec}, tools=[weigh], store=name) as (host, yard),
        connect_api_client(yard) as http,
    ):
        await http.create_conversation("A person's")
        call = {"tool_name": "add"}
        status, call_reply, _ = await http.send_request(
            "POST", "/servers/plain/tools/call", call, x_correlation_id="t-1"
        )
        assert (status, call_reply["outcome"]) == (200, "ok")
        weighed = await host.call_tool("weigh", {"what": "flour"})
        assert "2 kg" in weighed.text
        for path in ("/conversations", "/conversations/search?q=e", "/conversations?limit=1"):
            listed = await http.get(path)
            assert [conversation["title"] for conversation in listed["conversations"]] == ["A person's"]
            assert listed["next"] is None
        direct = f"/conversations/{call_reply['conversation_id']}"
        assert (await http.get(direct))["conversation"]["id"] == call_reply["conversation_id"]
        for trace in ("t-1", weighed.headers["x-correlation-id"]):
            _, trace_reply, _ = await http.send_request("GET", f"/traces/{trace}")
            assert len(trace_reply["runs"]) == 1
        _, runs, _ = await http.send_request("GET", "/traces")
        assert {call["tool"] for run in runs["runs"] for call in run["calls"]} >= {"add", "weigh"}
