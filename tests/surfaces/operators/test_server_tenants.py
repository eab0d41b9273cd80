"""A server that is limited to tenants does not exist for callers of any other."""

import asyncio
import sys
from pathlib import Path

from support import TEST_TIMEOUT_S
from surfaces.api_client import ApiClient, build_key, build_yard, connect_api_client
from surfaces.mcp_host import Host, connect_host
from toolyard.core.tools.mcp_servers import ServerSpec
from toolyard.testing import call, say
from venues.mcp.modern import wait_until_settled

ODD = Path(__file__).parents[1] / "unusual_mcp_server.py"
THEIRS = ServerSpec(command=sys.executable, args=(str(ODD), "theirs"), trust=True, tenants=("acme", "initech"))
ALL = ServerSpec(command=sys.executable, args=(str(ODD), "all"), trust=True)
KEYS = [
    build_key("ann", tenant="acme"),
    build_key("eve", "admin", "operator", "approver", tenant="elsewhere"),
    build_key("una", tenant=""),
    build_key("root", "admin", tenant=""),
]
OUTSIDERS = ("eve", "una")


async def check_http(http: ApiClient) -> None:
    ann = http.with_key("ann")
    tools = (await ann.get("/tools"))["tools"]
    assert {(tool["name"], tool["server_id"]) for tool in tools} == {("odd", "theirs"), ("all__odd", "all")}
    called = await ann.post("/servers/theirs/tools/call", {"tool_name": "odd"})
    assert called["success"] and called["outcome"] == "ok"
    assert [server["id"] for server in (await ann.get("/servers"))["servers"]] == ["theirs", "all"]
    assert "command" not in (await ann.get("/servers/theirs"))["server"]["config"]
    for outsider in map(http.with_key, OUTSIDERS):
        conversation = await outsider.create_conversation()
        _, health, _ = await outsider.send_request("GET", "/ai/tools/health")
        assert health["status"] == "healthy" and health["tools"]["total_schemas"] == 1
        for shown in (
            health,
            await outsider.get("/tools"),
            await outsider.get("/servers"),
            await outsider.get(f"{conversation}/tools/available"),
        ):
            assert "theirs" not in str(shown)
        for path in ("/servers/theirs", "/servers/theirs/tools"):
            await outsider.get(path, expect=404)
        await outsider.post("/servers/theirs/tools/call", {"tool_name": "odd"}, expect=404)
        await outsider.post("/servers/theirs/login", {"redirect_uri": "http://127.0.0.1:1/"}, expect=404)
        await outsider.post(f"{conversation}/tools", {"server_id": "theirs", "tool_name": "odd"}, expect=404)
        await outsider.post(f"{conversation}/chat", {"content": "go"})
        results = [message for message in await outsider.list_messages(conversation) if message["role"] == "tool"]
        assert "unknown_tool" in str(results)
    root = http.with_key("root")
    await root.post("/servers/theirs/stop")
    for user, status in (("ann", 200), ("eve", 404), ("una", 404)):
        conversation = await http.with_key(user).create_conversation()
        named = {"server_id": "theirs", "tool_name": "odd"}
        await http.with_key(user).post(f"{conversation}/tools", named, expect=status)
    await root.post("/servers/theirs/start")
    assert {server["id"] for server in (await root.get("/servers"))["servers"]} == {"theirs", "all"}
    assert (await root.get("/servers/theirs"))["server"]["config"]["tenants"] == ["acme", "initech"]
    assert (await root.get("/tools"))["count"] == 1, "who administers a server is still no caller of its tenants"


async def test_its_tools_are_neither_listed_offered_nor_callable_elsewhere() -> None:
    asks_for_it = [call("odd"), say("done")] * len(OUTSIDERS)
    async with (
        asyncio.timeout(2 * TEST_TIMEOUT_S),
        build_yard(asks_for_it, servers={"theirs": THEIRS}, keys=KEYS, add_servers="all") as yard,
        connect_api_client(yard) as http,
    ):
        await wait_until_settled(yard)
        added = {"name": "all", "config": {"command": ALL.command, "args": list(ALL.args), "trust": True}}
        await http.with_key("root").post("/servers", added, expect=201)
        await check_http(http)


async def check_mcp(host: Host) -> None:
    async def list_names(user: str, kind: str, field: str) -> list[str]:
        result = (await host.with_key(user).request_modern(f"{kind}/list")).result
        return [item[field] for item in result[kind]]

    for kind, field in (("tools", "name"), ("resources", "uri"), ("prompts", "name")):
        names = await list_names("ann", kind, field)
        assert len(names) == 1, (kind, names)
        for outsider in OUTSIDERS:
            assert await list_names(outsider, kind, field) == []
    assert (await host.with_key("ann").request_modern("resources/read", {"uri": "odd://theirs"})).result["contents"]
    for outsider in map(host.with_key, OUTSIDERS):
        assert (
            "not found" in (await outsider.request_modern("resources/read", {"uri": "odd://theirs"})).error["message"]
        )
        refused = await outsider.request_modern("tools/call", {"name": "odd", "arguments": {}})
        assert "odd" in str(refused.messages[-1]) and "there is no tool" in str(refused.messages[-1]).lower()
        async with outsider.open_session() as session:
            assert "resources" not in session.initialize_result["capabilities"]


async def test_its_tools_resources_and_prompts_are_not_passed_on_to_others() -> None:
    async with (
        asyncio.timeout(2 * TEST_TIMEOUT_S),
        build_yard((), servers={"theirs": THEIRS}, keys=KEYS) as yard,
        connect_host(yard) as host,
    ):
        await wait_until_settled(yard)
        await check_mcp(host)
