"""`/servers`: seen by all, changed by administrators, kept in the store; tools called as any other call."""

import urllib.parse
import urllib.request
from pathlib import Path

import pytest

from support import wait_until
from surfaces.api_client import build_key, open_api_client
from toolyard import Settings, tool
from toolyard.core.tools.mcp_servers import ServerSpec
from toolyard.testing import call, say
from venues.mcp.modern import PERSONAL, SIGNED, over_http
from venues.mcp.plain import PlainServer

KEYS = [build_key("boss", "admin", tenant=""), build_key("ann")]


def build_body(plain: PlainServer, name: str = "plain", **more: object) -> dict[str, object]:
    return {"name": name, "config": {"command": plain.spec.command, "args": list(plain.spec.args), **more}}


@tool
def add() -> str:
    """Not the server's."""
    return "ours"


async def test_a_server_is_added_used_stopped_started_and_removed(tmp_path: Path) -> None:
    plain = PlainServer(tmp_path)
    async with open_api_client() as http:
        created = (await http.post("/servers", build_body(plain, trust=True, env={"SECRET": "s3cret"}), expect=201))[
            "server"
        ]
        assert (created["id"], created["status"], created["tools"]) == ("plain", "running", 9)
        assert created["process_id"] == plain.processes[-1] and "s3cret" not in str(created)
        assert [server["id"] for server in (await http.get("/servers"))["servers"]] == ["plain"]
        listed = await http.get("/servers/plain/tools")
        assert {"name", "description", "input_schema"} <= set(listed["tools"][0]) and listed["status"] == "running"
        done = await http.post("/servers/plain/tools/call", {"tool_name": "add"})
        assert done["result"].startswith("add of process") and done["tool_name"] == "add"
        failed = (await http.send_request("POST", "/servers/plain/tools/call", {"tool_name": "fails"}))[1]
        assert (failed["success"], failed["message"]) == (False, "out of flour")
        assert (await http.post("/servers/plain/stop", None))["server"]["status"] == "stopped"
        await wait_until(lambda: plain.alive == [])
        await http.post("/servers/plain/tools/call", {"tool_name": "nothing"}, expect=404)
        assert (await http.post("/servers/plain/start", None))["server"]["status"] == "running"
        assert (await http.delete("/servers/plain"))["message"] == "Server 'plain' removed"
        await http.get("/servers/plain", expect=404)
        await wait_until(lambda: plain.alive == [])


async def test_a_call_that_asks_waits_in_its_conversation(tmp_path: Path) -> None:
    plain = PlainServer(tmp_path, trust=False)
    async with open_api_client(servers={"plain": plain.spec}) as http:
        waiting = await http.post("/servers/plain/tools/call", {"tool_name": "add"}, expect=202)
        path = f"/conversations/{waiting['conversation_id']}/calls/{waiting['call_id']}"
        assert waiting["status"] == "waiting"
        await http.post(f"{path}/approve", {})
        await wait_until(lambda: plain.read_notes("ended") == ["add"])


async def test_only_administrators_change_servers_and_see_how_they_are_reached(tmp_path: Path) -> None:
    plain = PlainServer(tmp_path)
    async with open_api_client(servers={"plain": plain.spec}, keys=KEYS) as http:
        ann, boss = http.with_key("ann"), http.with_key("boss")
        await ann.post("/servers", build_body(plain), expect=403)
        for act in ("start", "stop", "accept", "reject"):
            await ann.post(f"/servers/plain/{act}", None, expect=403)
        await ann.send_request("DELETE", "/servers/plain")
        assert "command" not in (await ann.get("/servers/plain"))["server"]["config"]
        assert (await boss.get("/servers/plain"))["server"]["config"]["command"] == plain.spec.command
        assert (await boss.get("/servers/plain"))["server"]["status"] == "running"


@pytest.mark.parametrize(
    ("wrong", "status"),
    [
        ({"name": "x", "config": {}}, 422),
        ({"name": "x", "config": {"command": "a", "url": "http://b"}}, 422),
        ({"name": "x", "config": {"url": "ftp://b"}}, 422),
        ({"name": "../x", "config": {"command": "a"}}, 422),
        ({"name": "function", "config": {"command": "a"}}, 422),
        ({"name": "plain", "config": {"command": "a"}}, 409),
    ],
)
async def test_what_is_wrong_with_a_new_server_is_said(tmp_path: Path, wrong: dict[str, object], status: int) -> None:
    async with open_api_client(servers={"plain": PlainServer(tmp_path).spec}) as http:
        await http.post("/servers", wrong, expect=status)


@pytest.mark.parametrize(
    ("config", "problems"),
    [
        ({}, {"config.command": "or url must be given"}),
        ({"command": "a", "headers": {"x": "y"}}, {"config.headers": "this one has a command"}),
        (
            {"url": "http://h/", "args": ["a"], "env": {"A": "1"}},
            {"config.args": "this one has a url", "config.env": "this one has a url"},
        ),
        ({"url": "http://h/", "headers": {"bad name\r\nX: y": "v"}}, {"config.headers": "that of an HTTP header"}),
        ({"url": "http://h/", "headers": {"x": "v\r\nZ: 1"}}, {"config.headers.x": "must be one line"}),
        ({"command": "a", "env": {"A B": "1"}}, {"config.env": "that of a variable"}),
        ({"command": "a", "names": {"add": "not a name"}}, {"config.names.add": "1 to 64 letters"}),
        ({"command": "a", "display_name": "two\nlines"}, {"config.display_name": "one line"}),
        (
            {"url": "ftp://h/", "oauth": {"issuer": "not a url", "client_id": "", "client_secret": "s"}},
            {
                "config.url": "begins with http:// or https://",
                "config.oauth.issuer": "begins with http:// or https://",
                "config.oauth.client_id": "not empty",
            },
        ),
        (
            {"url": "http://h/", "oauth": {"issuer": "http://i", "client_id": "c"}},
            {"config.oauth.client_secret": 'grant = "authorization_code"'},
        ),
    ],
)
async def test_a_new_server_follows_the_rules_of_the_file(config: dict[str, object], problems: dict[str, str]) -> None:
    async with open_api_client() as http:
        reply = await http.post("/servers", {"name": "x", "config": config}, expect=422)
        fields = reply["details"]["fields"]
        assert len(fields) == len(problems), fields
        for field, (key, message) in zip(fields, problems.items(), strict=True):
            assert field["key"].startswith(key) and message in field["message"], fields
        assert "Z: 1" not in str(reply), "a value may be a secret"
        assert (await http.get("/servers"))["servers"] == []


async def test_a_changed_server_follows_the_rules_of_the_file(tmp_path: Path) -> None:
    async with open_api_client() as http:
        await http.post("/servers", build_body(PlainServer(tmp_path), "one"), expect=201)
        status, reply, _ = await http.send_request("PUT", "/servers/one", {"config": {"headers": {"x": "y"}}})
        assert status == 422 and "this one has a command" in reply["error"], reply


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"url": "http://127.0.0.1:10/mcp"}, "send the values of the headers again"),
        (
            {"url": "http://127.0.0.1:10/mcp", "headers": {"Authorization": "***"}},
            "send the values of the headers again",
        ),
        (
            {"oauth": {"issuer": "http://127.0.0.1:10", "client_id": "a", "client_secret": "***"}},
            "send the client_secret",
        ),
        ({"url": "http://127.0.0.1:10/mcp", "headers": {"Authorization": "known"}}, ""),
        ({"url": "http://127.0.0.1:10/mcp", "headers": {}}, ""),
        ({"url": "http://127.0.0.1:9/other"}, ""),
        ({"oauth": {"issuer": "http://127.0.0.1:10", "client_id": "a", "client_secret": "known"}}, ""),
        ({"connect_s": 2.0}, ""),
    ],
)
async def test_a_change_sends_no_hidden_secret_to_another_address(change: dict[str, object], problem: str) -> None:
    config = {
        "url": "http://127.0.0.1:9/mcp",
        "headers": {"Authorization": "hidden"},
        "oauth": {"issuer": "http://127.0.0.1:9", "client_id": "a", "client_secret": "hidden"},
        "connect_s": 1.0,
    }
    async with open_api_client() as http:
        await http.post("/servers", {"name": "one", "config": config}, expect=201)
        status, reply, _ = await http.send_request("PUT", "/servers/one", {"config": change})
        assert (status, problem in str(reply)) == (422 if problem else 200, True), reply


async def test_a_servers_last_words_are_for_administrators(tmp_path: Path) -> None:
    async with open_api_client(servers={"broken": PlainServer(tmp_path, "crashes").spec}, keys=KEYS) as http:
        ann, boss = http.with_key("ann"), http.with_key("boss")
        assert "cannot find its configuration" in (await boss.get("/servers/broken"))["server"]["error_message"]
        assert "cannot find" not in str(await ann.get("/servers/broken"))
        assert "cannot find" not in str((await ann.send_request("GET", "/ai/tools/health"))[1])


async def test_everybody_signs_in_for_themselves_and_an_administrator_for_all() -> None:
    back = {"redirect_uri": "http://127.0.0.1:8765/callback"}
    async with (
        over_http(SIGNED) as server,
        open_api_client(servers={"shared": server.spec(), "own": server.spec(auth="caller")}, keys=KEYS) as http,
    ):
        ann, boss = http.with_key("ann"), http.with_key("boss")
        await ann.post("/servers/shared/login", back, expect=403)
        await ann.post("/servers/shared/login/answer", {"state": "x", "code": "y"}, expect=403)
        await ann.send_request("DELETE", "/servers/shared/login")
        page = await ann.post("/servers/own/login", back)
        answer = {"state": page["state"], "error": "access_denied"}
        await boss.post("/servers/own/login/answer", answer, expect=409)
        denied = await ann.post("/servers/own/login/answer", answer, expect=409)
        assert "not granted: access_denied" in denied["error"]
        await ann.post("/servers/own/login", {"redirect_uri": "https://evil.example"}, expect=422)
        page = await boss.post("/servers/shared/login", back)
        assert page["authorization_url"].startswith("http://127.0.0.1:") and page["expires_at"]
        assert "login shared" in (await boss.delete("/servers/shared/login"))["server"]["error_message"]
        await boss.post("/servers/nowhere/login", back, expect=404)


async def test_what_only_some_callers_get_is_shown_to_administrators_alone() -> None:
    async with over_http(PERSONAL) as server:
        words = urllib.parse.urlencode({"user": "ann", "look": "Looks into ann's papers."})
        urllib.request.urlopen(f"http://127.0.0.1:{server.port}/control?{words}").close()
        spec = server.spec(auth="caller", headers={"x-user-name": "{user}"})
        async with open_api_client(servers={"own": spec}, keys=[*KEYS, build_key("eve")]) as http:
            ann, eve, boss = http.with_key("ann"), http.with_key("eve"), http.with_key("boss")
            call_body: dict[str, object] = {"tool_name": "look", "arguments": {}}
            while (await boss.get("/servers/own"))["server"]["status"] != "running":
                pass
            _, reply, _ = await ann.send_request("POST", "/servers/own/tools/call", call_body)
            assert reply["outcome"] == "error", reply
            shown = [tool for tool in (await boss.get("/servers/own/tools"))["tools"] if "ann's" in tool["difference"]]
            assert [(tool["name"], tool["state"]) for tool in shown] == [("look", "changed")]
            for who in (ann, eve):
                tools = (await who.get("/servers/own/tools"))["tools"]
                assert [(tool["name"], tool["state"]) for tool in tools] == [("add", "accepted"), ("look", "accepted")]
                assert "ann's" not in str(tools)


async def test_the_names_of_a_removed_server_are_freed_by_a_person(tmp_path: Path) -> None:
    async with open_api_client() as http:
        await http.post("/servers", build_body(PlainServer(tmp_path), "one"), expect=201)
        assert "until it is removed" in (await http.delete("/servers/one/names", expect=409))["error"]
        removed = await http.delete("/servers/one")
        assert removed["message"] == "Server 'one' removed" and "look" in removed["bound_names"]
        assert (await http.delete("/servers/one/names"))["names"] == removed["bound_names"]
        await http.delete("/servers/one/names", expect=404)
        entries = (await http.get("/audit"))["entries"]
        assert [entry["action"] for entry in entries][:2] == ["server.free_names", "server.remove"]
        await http.post("/servers", build_body(PlainServer(tmp_path), "two"), expect=201)
        assert "look" in {tool["offered_as"] for tool in (await http.get("/servers/two/tools"))["tools"]}


async def test_a_server_of_the_file_is_removed_only_there(tmp_path: Path) -> None:
    async with open_api_client(servers={"plain": PlainServer(tmp_path).spec}) as http:
        status, reply, _ = await http.send_request("DELETE", "/servers/plain")
        assert status == 409 and "configuration" in reply["error"]


async def test_added_servers_their_state_and_their_names_outlive_the_process(tmp_path: Path) -> None:
    (tmp_path / "two").mkdir()
    first, second, store = PlainServer(tmp_path), PlainServer(tmp_path / "two"), f"sqlite:///{tmp_path}/toolyard.db"
    async with open_api_client(store=store) as http:
        for plain, name in ((first, "one"), (second, "two")):
            await http.post("/servers", build_body(plain, name, trust=True), expect=201)
        await http.post("/servers/one/stop", None)
    async with open_api_client(store=store) as http:
        statuses = {server["id"]: server["status"] for server in (await http.get("/servers"))["servers"]}
        assert statuses["one"] == "stopped" and statuses["two"] in ("starting", "running")
        offered = {tool["name"]: tool["offered_as"] for tool in (await http.get("/servers/two/tools"))["tools"]}
        assert (offered["add"], offered["look"]) == ("two__add", "two__look"), "the other one had the names first"


@pytest.mark.proves("004.server-mapping", "004.chat-tools-of-running-servers", "004.server-running-checked")
async def test_a_conversation_enables_tools_by_server_and_name_there(tmp_path: Path) -> None:
    plain = PlainServer(tmp_path)
    script = [call("plain__add"), say("done")]

    servers = {"plain": PlainServer(tmp_path, trust=True).spec}
    async with open_api_client(
        script, servers=servers, tools=[add], default_settings=Settings(tools=frozenset())
    ) as http:
        conversation = await http.create_conversation()
        available = (await http.get(f"{conversation}/tools/available"))["available_tools"]
        assert {(tool["server_id"], tool["tool_name"]) for tool in available} >= {("function", "add"), ("plain", "add")}
        named = {"server_id": "plain", "tool_name": "add"}
        assert (await http.post(f"{conversation}/tools", named))["enabled_tools"] == [named]
        reply = await http.post(f"{conversation}/chat", {"content": "go"})
        assert reply["assistant_message"]["content"] == "done" and plain.read_notes("ended") == ["add"]
        await http.post("/servers/plain/stop", None)
        gone = (await http.get(f"{conversation}/tools/available"))["available_tools"]
        assert [tool["server_id"] for tool in gone] == ["function"]


async def test_enabled_tools_of_a_stopped_server_stay_and_are_marked_unavailable(tmp_path: Path) -> None:
    named = {"server_id": "plain", "tool_name": "add"}
    absent = {**named, "available": False}

    spec = PlainServer(tmp_path, trust=True).spec
    async with open_api_client(servers={"plain": spec}, default_settings=Settings(tools=frozenset())) as http:
        chosen, path = await http.create_conversation(), await http.create_conversation()
        await http.post(f"{chosen}/tools", named)
        await http.post("/servers/plain/stop", None)
        assert (await http.get(f"{chosen}/tools"))["enabled_tools"] == [absent]
        assert (await http.get(chosen))["conversation"]["enabled_tools"] == [absent]
        assert (await http.post(f"{path}/tools", named))["enabled_tools"] == [absent], "it can be enabled meanwhile"
        assert (await http.delete(f"{path}/tools", named))["enabled_tools"] == []
        await http.post("/servers/plain/start", None)
        assert (await http.get(f"{chosen}/tools"))["enabled_tools"] == [named]


async def test_disabling_one_tool_keeps_those_of_a_stopped_server_enabled(tmp_path: Path) -> None:
    async with open_api_client(servers={"plain": PlainServer(tmp_path, trust=True).spec}, tools=[add]) as http:
        path = await http.create_conversation()
        await http.post("/servers/plain/stop", None)
        await http.delete(f"{path}/tools", {"server_id": "function", "tool_name": "add"})
        await http.post("/servers/plain/start", None)
        enabled = (await http.get(f"{path}/tools"))["enabled_tools"]
        assert {"server_id": "plain", "tool_name": "look"} in enabled


async def test_the_health_of_the_tools_tells_how_each_server_is(tmp_path: Path) -> None:
    (tmp_path / "bad").mkdir()
    good, bad = PlainServer(tmp_path), PlainServer(tmp_path / "bad", "crashes")
    async with open_api_client(servers={"good": good.spec, "bad": bad.spec}) as http:
        _, reply, _ = await http.send_request("GET", "/ai/tools/health")
        states = {server["id"]: server["status"] for server in reply["servers"]}
        assert states["good"] == "running" and states["bad"] in ("restarting", "failed")
        assert "cannot find its configuration" in next(
            server["error"] for server in reply["servers"] if server["id"] == "bad"
        )
        assert reply["status"] == "warning" and reply["tools"]["schema_only"] == []


ADMIN = [build_key("root", "admin", tenant="")]


@pytest.mark.parametrize(
    ("add_servers", "command_status", "url_status"),
    [("all", 201, 201), ("url", 403, 201), (None, 403, 201), ("off", 403, 403)],
)
async def test_which_servers_may_be_added_over_http_is_a_setting(
    add_servers: str | None, command_status: int, url_status: int, tmp_path: Path
) -> None:
    async with open_api_client(keys=ADMIN, add_servers=add_servers) as http:
        root = http.with_key("root")
        await root.post("/servers", build_body(PlainServer(tmp_path), "child"), expect=command_status)
        far = {"name": "far", "config": {"url": "http://127.0.0.1:9/mcp"}}
        await root.post("/servers", far, expect=url_status)
        assert (await root.get("/servers"))["count"] == [command_status, url_status].count(201)


async def test_a_server_with_a_url_does_not_become_a_command_by_a_change(tmp_path: Path) -> None:
    async with open_api_client(keys=ADMIN) as http:
        root = http.with_key("root")
        await root.post("/servers", {"name": "far", "config": {"url": "http://127.0.0.1:9/mcp"}}, expect=201)
        refused = await root.put("/servers/far", {"config": build_body(PlainServer(tmp_path))["config"]}, expect=403)
        assert 'add_servers = "all"' in refused["error"]
        await root.put("/servers/far", {"name": "Far away"})
        assert (await root.get("/servers/far"))["server"]["config"]["url"] == "http://127.0.0.1:9/mcp"


async def test_with_the_first_key_commands_are_no_longer_added(tmp_path: Path) -> None:
    async with open_api_client() as http:
        await http.post("/servers", build_body(PlainServer(tmp_path), "one"), expect=201)
        secret = (await http.post("/keys", {"name": "me", "user": "me", "roles": ["admin"]}, expect=201))["secret"]
        await http.with_key(secret).post("/servers", build_body(PlainServer(tmp_path), "two"), expect=403)


async def test_the_first_listing_can_wait_for_a_review(tmp_path: Path) -> None:
    async with open_api_client() as http:
        await http.post("/servers", build_body(PlainServer(tmp_path), "plain", pin="review"), expect=201)
        listed = (await http.get("/servers/plain/tools"))["tools"]
        assert listed and {tool["state"] for tool in listed} == {"new"}
        assert not any(tool["server"] == "plain" for tool in (await http.get("/tools"))["tools"])
        await http.post("/servers/plain/accept", {"tools": [listed[0]["name"]], "hashes": ["0" * 64]}, expect=409)
        await http.post("/servers/plain/accept", {"tools": [listed[0]["name"]], "hashes": [listed[0]["hash"]]})
        states = [tool["state"] for tool in (await http.get("/servers/plain/tools"))["tools"]]
        assert states.count("accepted") == 1 and states.count("new") == len(listed) - 1
        accepted = [entry for entry in (await http.get("/audit"))["entries"] if entry["action"] == "pin.accept"]
        assert [entry["target"] for entry in accepted] == [f"plain: {listed[0]['name']}"]


async def test_what_is_done_to_a_server_is_audited_without_its_secrets(tmp_path: Path) -> None:
    async with open_api_client() as http:
        body = build_body(PlainServer(tmp_path), "plain", env={"API_TOKEN": "hunter2-planted"})
        await http.post("/servers", body, expect=201)
        await http.put("/servers/plain", {"config": {"trust": True}})
        await http.post("/servers/plain/stop")
        await http.post("/servers/plain/start")
        name = (await http.get("/servers/plain/tools"))["tools"][0]["name"]
        await http.post("/servers/plain/reject", {"tools": [name]})
        await http.delete("/servers/plain")
        entries = (await http.get("/audit?order=oldest"))["entries"]
        assert [f"{entry['action']} {entry['target']}" for entry in entries] == [
            "server.add plain",
            "server.change plain",
            "server.stop plain",
            "server.start plain",
            f"pin.reject plain: {name}",
            "server.remove plain",
        ]
        assert len({entry["content_hash"] for entry in entries[:2]}) == 2
        assert "hunter2-planted" not in str(entries)


@pytest.mark.parametrize(
    ("command", "args", "package"),
    [
        ("npx", ["-y", "@modelcontextprotocol/server-filesystem", "./docs"], "@modelcontextprotocol/server-filesystem"),
        ("npx", ["-y", "@modelcontextprotocol/server-filesystem@2026.1.2"], ""),
        ("npx", ["server@latest"], "server@latest"),
        ("npx", ["--package=server", "run"], "server"),
        ("npx", ["-p", "server@1.0.0", "run"], ""),
        ("/usr/local/bin/npx", ["server"], "server"),
        ("npx.cmd", ["server"], "server"),
        ("uvx", ["mcp-server-time"], "mcp-server-time"),
        ("uvx", ["mcp-server-time==2026.1.1"], ""),
        ("uvx", ["mcp-server-time@0.6"], ""),
        ("uvx", ["--from", "mcp-server-time==1.0", "server"], ""),
        ("uvx", ["--from", "./local", "server"], ""),
        ("python", ["-m", "server"], ""),
    ],
)
def test_a_package_without_a_version_is_noticed(command: str, args: list[str], package: str) -> None:
    assert ServerSpec(command=command, args=tuple(args)).unpinned_package == package


async def test_administrators_are_warned_of_a_package_without_a_version(caplog: pytest.LogCaptureFixture) -> None:
    servers = {"time": ServerSpec(command="uvx", args=("mcp-server-that-does-not-exist",), connect_s=5.0)}
    warning = "runs 'mcp-server-that-does-not-exist' in whatever version is the latest: name a version"
    async with open_api_client(servers=servers, keys=KEYS) as http:
        assert (await http.with_key("boss").get("/servers/time"))["server"]["warning"] == warning
        assert (await http.with_key("ann").get("/servers/time"))["server"]["warning"] == ""
    assert f"the server 'time' {warning}" in caplog.messages


async def test_a_server_that_is_added_is_not_trusted_and_the_answer_says_so(tmp_path: Path) -> None:
    plain = PlainServer(tmp_path)
    async with open_api_client() as http:
        added = await http.post("/servers", build_body(plain), expect=201)
        assert added["server"]["config"]["trust"] is False
        assert "every call of its tools asks a person first" in added["message"]
        assert 'PUT /servers/plain {"trust": true}' in added["message"]
        await http.post("/servers/plain/tools/call", {"tool_name": "add"}, expect=202)
        changed = await http.put("/servers/plain", {"trust": True})
        assert changed["server"]["config"]["trust"] is True and "asks a person" not in changed["message"]
        assert (await http.post("/servers/plain/tools/call", {"tool_name": "add"}))["success"]
        assert "asks a person" in (await http.put("/servers/plain", {"trust": False}))["message"]


@pytest.mark.parametrize("change", [{}, {"nothing": 1}, {"config": 3}, {"trust": "yes please"}, {"name": ""}])
async def test_a_change_that_says_nothing_clear_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    async with open_api_client() as http:
        await http.post("/servers", build_body(PlainServer(tmp_path)), expect=201)
        await http.put("/servers/plain", change, expect=422)


async def test_an_administrator_may_vouch_for_the_servers_that_are_added(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    plain, other = PlainServer(tmp_path), PlainServer(tmp_path / "other")
    async with open_api_client(trust_added_servers=True) as http:
        added = await http.post("/servers", build_body(plain), expect=201)
        assert added["server"]["config"]["trust"] is True and "asks a person" not in added["message"]
        assert (await http.post("/servers/plain/tools/call", {"tool_name": "add"}))["success"]
        added = await http.post("/servers", build_body(other, "other", trust=False), expect=201)
        assert added["server"]["config"]["trust"] is False, "the client asked for no trust"
