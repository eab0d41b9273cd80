"""A definition with a defect costs at most its own tool: what is plainly meant is mended, the rest is left out."""

from pathlib import Path

import pytest

from support import collect_events, get_problem, get_result, open_yard
from surfaces.api_client import open_api_client
from surfaces.mcp_host import open_host
from toolyard import Caller, Yard
from toolyard.core.tools.mcp_servers import ServerTool
from venues.mcp.plain import PlainServer

NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


def find_tool(yard: Yard, name: str) -> ServerTool:
    (listed,) = [listed for listed in yard.servers.cards()[0].tools if listed.name == name]
    return listed


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"name": {"type": "string"}}, "required": ["name"]},
        {"type": None, "properties": {"name": {"type": "string"}}, "required": ["name"]},
        {"type": ["object", "null"], "properties": {"name": {"type": "string"}}, "required": ["name"]},
        {"type": "object", "properties": {"name": "string"}, "required": ["name"]},
    ],
)
async def test_a_schema_that_is_plainly_meant_is_mended(tmp_path: Path, schema: dict[str, object]) -> None:
    plain = PlainServer(tmp_path, trust=True)
    plain.add_tools({"name": "greet", "inputSchema": schema})
    async with open_yard([], servers={"plain": plain.spec}) as yard:
        (greet,) = [tool for tool in yard.service.tools.list_usable(Caller()) if tool.name == "greet"]
        assert greet.parameters == NAME
        assert find_tool(yard, "greet").definition["inputSchema"] == schema, "the definition is kept as it was listed"
        assert get_result(await collect_events(yard.call("greet", {"name": "Ann"}))).outcome == "ok"
        assert get_problem(get_result(await collect_events(yard.call("greet", {"name": 1})))) == (
            "error",
            "validation_error",
        )


@pytest.mark.parametrize("empty", [{}, {"properties": {}}, {"properties": []}, {"properties": None, "required": None}])
async def test_a_schema_without_content_takes_any_object(tmp_path: Path, empty: dict[str, object]) -> None:
    plain = PlainServer(tmp_path, trust=True)
    plain.add_tools({"name": "ping", "inputSchema": empty})
    async with open_yard([], servers={"plain": plain.spec}) as yard:
        assert get_result(await collect_events(yard.call("ping", {}))).outcome == "ok"


async def test_strings_deeper_in_a_schema_are_mended_too(tmp_path: Path) -> None:
    plain = PlainServer(tmp_path, trust=True)
    owner = {"properties": {"names": {"type": "array", "items": "string"}}}
    plain.add_tools({"name": "greet", "inputSchema": {"type": "object", "properties": {"owner": owner}}})
    async with open_yard([], servers={"plain": plain.spec}) as yard:
        assert get_result(await collect_events(yard.call("greet", {"owner": {"names": ["Ann"]}}))).outcome == "ok"
        wrong = get_result(await collect_events(yard.call("greet", {"owner": {"names": [1]}})))
        assert get_problem(wrong) == ("error", "validation_error")


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"type": "object", "properties": {"name": "the name of somebody"}}, "not a valid JSON Schema"),
        ({"type": "object", "properties": {"name": None}}, "not a valid JSON Schema"),
        ({"type": "object", "properties": {"name": {"type": "strng"}}}, "not a valid JSON Schema"),
        ({"type": "object", "properties": ["name"]}, "not a valid JSON Schema"),
        ({"type": "object", "required": "name"}, "not a valid JSON Schema"),
        ({"type": "array"}, "not one of an object"),
        ("string", "not one of an object"),
        (None, "not one of an object"),
    ],
)
async def test_a_tool_whose_schema_says_nothing_clear_is_left_out_and_the_others_are_kept(
    tmp_path: Path, schema: object, reason: str
) -> None:
    plain = PlainServer(tmp_path, trust=True)
    plain.add_tools({"name": "odd", "inputSchema": schema})
    async with open_api_client(servers={"plain": plain.spec}) as http:
        server = (await http.get("/servers/plain"))["server"]
        assert (server["status"], server["tools"], server["unusable"]) == ("running", 9, 1)
        (odd,) = [tool for tool in (await http.get("/servers/plain/tools"))["tools"] if tool["name"] == "odd"]
        assert odd["state"] == "unusable" and reason in odd["difference"], odd
        refused = await http.post("/servers/plain/tools/call", {"tool_name": "odd"}, expect=404)
        assert "'odd'" in refused["error"] and reason in refused["error"], refused
        assert (await http.post("/servers/plain/tools/call", {"tool_name": "add"}))["success"]
        _, health, _ = await http.send_request("GET", "/ai/tools/health")
        (warning,) = health["warnings"]
        assert "'odd'" in warning and "'plain'" in warning and reason in warning


async def test_an_mcp_client_is_given_the_mended_schema(tmp_path: Path) -> None:
    plain = PlainServer(tmp_path, trust=True)
    plain.add_tools({"name": "greet", "inputSchema": {"properties": {"name": "string"}, "required": ["name"]}})
    async with open_host(servers={"plain": plain.spec}) as (host, _):
        listed = (await host.request_modern("tools/list")).result["tools"]
        (greet,) = [tool for tool in listed if tool["name"] == "greet"]
        assert greet["inputSchema"] == NAME
