"""MCP servers are tried before they are added, added from an mcp.json, and changed only as they were last seen."""

import json
from pathlib import Path

from stores.memory_replicas import MemoryDatabase, SharedMemoryStore
from surfaces.api_client import Json, build_key, open_api_client
from venues.mcp.modern import over_http
from venues.mcp.plain import PlainServer


async def test_a_server_is_tried_without_being_added() -> None:
    async with over_http() as server, open_api_client() as http:
        body = {"name": "numbers", "config": {"url": server.spec().url}}
        tried = await http.post("/servers/test", body)
        names = {tool["name"] for tool in tried["test"]["tools"]}
        assert tried["test"]["ok"] and names and f"{len(names)} tools" in tried["message"]
        assert (await http.get("/servers"))["count"] == 0
        added = await http.post("/servers", body, expect=201)
        listed = await http.get(f"/servers/{added['server']['id']}/tools")
        assert {tool["name"] for tool in listed["tools"]} == names
        audited = (await http.get("/audit?action=server.test"))["entries"]
        assert [entry["target"] for entry in audited] == [server.spec().url]


async def test_a_server_that_cannot_be_used_says_why_when_it_is_tried(tmp_path: Path) -> None:
    plain = PlainServer(tmp_path)
    async with open_api_client() as http:
        for config, says in (
            ({"url": "http://127.0.0.1:9/mcp", "connect_s": 1}, "cannot be used"),
            ({"command": "no-such-program-at-all"}, "no-such-program-at-all"),
        ):
            status, tried, _ = await http.send_request("POST", "/servers/test", {"name": "x", "config": config})
            assert status == 200 and not tried["success"] and says in tried["message"], tried
        config = {"command": plain.spec.command, "args": plain.spec.args}
        assert (await http.post("/servers/test", {"name": "x", "config": config}))["test"]["tools"]
        await http.post("/servers/test", {"name": "x", "config": {}}, expect=422)
        assert (await http.get("/servers"))["count"] == 0


async def test_a_command_is_tried_only_where_it_may_be_added(tmp_path: Path) -> None:
    plain = PlainServer(tmp_path)
    keys = [build_key("root", "admin", tenant="")]
    async with open_api_client(keys=keys) as http:
        config = {"command": plain.spec.command, "args": plain.spec.args}
        await http.with_key("root").post("/servers/test", {"name": "x", "config": config}, expect=403)
        pasted = {"mcpServers": {"x": config}}
        await http.with_key("root").post("/servers/import", pasted, expect=403)
        assert not plain.processes


async def test_the_servers_of_an_mcp_json_are_added_or_none_of_them() -> None:
    async with over_http() as one, over_http() as two, open_api_client() as http:
        servers: dict[str, Json] = {
            "one": {"url": one.spec().url},
            "two": {"url": two.spec().url, "headers": {"X-Key": "secret-value"}},
        }
        wrong: dict[str, Json] = {
            "three": {},
            "bad id!": {"url": one.spec().url},
            "v": {"url": "${HOME}"},
            "function": {"url": "http://x"},
        }
        for name, entry in wrong.items():
            refused = await http.post("/servers/import", {"mcpServers": {**servers, name: entry}}, expect=422)
            assert name in refused["error"]
        await http.post("/servers/import", {"other": {}}, expect=422)
        assert (await http.get("/servers"))["count"] == 0
        added = await http.post("/servers/import", {"mcpServers": servers})
        assert [(server["id"], server["status"]) for server in added["servers"]] == [
            ("one", "running"),
            ("two", "running"),
        ]
        assert added["servers"][1]["config"]["headers"] == {"X-Key": "***"}
        three = {"three": servers["one"], **servers}
        assert "'one' already" in (await http.post("/servers/import", {"mcpServers": three}, expect=409))["error"]
        assert (await http.get("/servers"))["count"] == 2


async def test_a_server_is_changed_and_removed_only_as_it_was_last_seen() -> None:
    async with over_http() as server, open_api_client() as http:
        await http.post("/servers", {"name": "numbers", "config": {"url": server.spec().url}}, expect=201)
        _, seen, headers = await http.send_request("GET", "/servers/numbers")
        assert headers["etag"] == f'"{seen["server"]["version"]}"'
        await http.post("/servers/numbers/stop")  # whether it runs is no part of its configuration
        status, changed, _ = await http.send_request(
            "PUT", "/servers/numbers", {"trust": True}, if_match=headers["etag"]
        )
        assert status == 200 and changed["server"]["version"] != seen["server"]["version"]
        for method, body in (("PUT", {"trust": False}), ("DELETE", None)):
            status, refused, _ = await http.send_request(method, "/servers/numbers", body, if_match=headers["etag"])
            assert (status, refused["details"]["current"]["config"]["trust"]) == (412, True)
        status, _, _ = await http.send_request(
            "DELETE", "/servers/numbers", if_match=f'"{changed["server"]["version"]}"'
        )
        assert status == 200
        entries = (await http.get("/audit?action=server.change"))["entries"]
        (change,) = [json.loads(entry["change"]) for entry in entries if entry["outcome"] == "allowed"]
        assert not change["before"].get("trust") and change["after"]["trust"]


async def test_a_server_of_the_file_hides_a_stored_one_of_its_id_until_that_is_removed() -> None:
    database = MemoryDatabase()
    async with over_http() as stored, over_http() as configured:
        async with open_api_client(opened_store=SharedMemoryStore(database)) as http:
            await http.post("/servers", {"name": "numbers", "config": {"url": stored.spec().url}}, expect=201)
        servers = {"numbers": configured.spec()}
        async with open_api_client(opened_store=SharedMemoryStore(database), servers=servers) as http:
            shown = (await http.get("/servers/numbers"))["server"]
            assert shown["config"]["url"] == configured.spec().url and "is not used" in shown["conflict"]
            await http.put("/servers/numbers", {"trust": True}, expect=409)
            await http.delete("/servers/numbers")
            shown = (await http.get("/servers/numbers"))["server"]
            assert not shown["conflict"] and shown["status"] in ("starting", "running")
            await http.delete("/servers/numbers", expect=409)
