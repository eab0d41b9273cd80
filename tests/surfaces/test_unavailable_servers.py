"""A call of a tool whose server cannot be reached says so, and what to do, wherever the call comes from."""

from pathlib import Path

import pytest

from ports import reserve_port
from support import wait_until
from surfaces.api_client import ApiClient, Json, build_key, build_yard, connect_api_client, open_api_client
from surfaces.mcp_host import open_host
from toolyard.core.tools.mcp_servers import ServerSpec
from toolyard.testing import call, say
from venues.mcp.modern import SIGNED, over_http
from venues.mcp.plain import PlainServer

KEYS = [build_key("boss", "admin", tenant=""), build_key("ann")]


async def ask_in_chat(http: ApiClient) -> str:
    """Let the model call the tool, and return what it is told."""
    conversation = await http.create_conversation()
    await http.post(f"{conversation}/chat", {"content": "go"})
    (told,) = [message["content"] for message in await http.list_messages(conversation) if message["role"] == "tool"]
    return told


async def read_health(http: ApiClient) -> Json:
    return (await http.send_request("GET", "/ai/tools/health"))[1]


async def test_a_call_on_a_stopped_server_says_that_it_is_stopped_and_how_to_start_it(tmp_path: Path) -> None:
    servers = {"plain": PlainServer(tmp_path).spec}
    async with open_api_client([call("add"), say("ok")], servers=servers) as http:
        await http.post("/servers/plain/stop", None)
        advice = "the server 'plain' is stopped; an administrator can start it: `toolyard servers start plain`"
        told = await ask_in_chat(http)
        assert advice in told and '"error_type":"unavailable"' in told
        answer = await http.send_request("POST", "/servers/plain/tools/call", {"tool_name": "add"})
        assert (answer[1]["success"], answer[1]["message"]) == (False, advice)
        (server,) = (await read_health(http))["servers"]
        assert server["message"] == advice
        refused = await http.post("/ai/respond", {"prompt": "go", "tool_choice": "add"}, expect=422)
        assert advice in refused["error"]


async def test_a_call_on_a_server_that_never_started_says_why(tmp_path: Path) -> None:
    servers = {"broken": PlainServer(tmp_path, "crashes").spec}
    async with open_api_client([call("add"), say("ok")], servers=servers) as http:
        health = await read_health(http)
        (warning,) = health["warnings"]
        assert health["status"] == "warning" and warning.startswith("the server 'broken' does not run: ")
        told = await ask_in_chat(http)
        assert "no tool named 'add'" in told and "the server 'broken' does not run" in told
        assert '"error_type":"unknown_tool"' in told
        answer = await http.post("/servers/broken/tools/call", {"tool_name": "add"}, expect=503)
        assert "the server 'broken' does not run" in answer["error"]


async def test_a_call_on_a_server_that_wants_a_sign_in_says_how_to_sign_in() -> None:
    async with (
        over_http(SIGNED) as server,
        open_api_client([call("whoami"), say("ok")], servers={"mail": server.spec()}) as http,
    ):
        for text in (
            (await read_health(http))["warnings"],
            await ask_in_chat(http),
            (await http.post("/servers/mail/tools/call", {"tool_name": "whoami"}, expect=503))["error"],
        ):
            assert "the server 'mail' cannot be used" in str(text) and "`toolyard servers login mail`" in str(text)


async def test_a_connection_error_names_the_address_to_administrators_without_its_secrets() -> None:
    with reserve_port() as port:
        spec = ServerSpec(url=f"http://me:s3cret@127.0.0.1:{port}/mcp?token=s3cret")
        async with open_api_client([call("echo"), say("ok")] * 2, servers={"far": spec}, keys=KEYS) as http:
            texts: dict[str, list[str]] = {}
            for user in ("boss", "ann"):
                caller = http.with_key(user)
                server = (await caller.get("/servers/far"))["server"]
                health = await read_health(caller)
                texts[user] = [server["error_message"], str(health["warnings"]), await ask_in_chat(caller)]
        assert all("connection attempts failed" in text for text in (*texts["boss"], *texts["ann"]))
        assert all(f"http://***@127.0.0.1:{port}/mcp?token=*** " in f"{text} " for text in texts["boss"]), texts
        assert not any(str(port) in text for text in texts["ann"]), "how a server is reached is for administrators"


async def test_a_call_whose_server_went_away_names_the_address(tmp_path: Path) -> None:
    async with (
        over_http() as server,
        build_yard([], servers={"far": server.spec()}) as yard,
        connect_api_client(yard) as http,
    ):
        await wait_until(lambda: yard.servers.cards()[0].status == "running")
        server.stop()
        answer = (await http.send_request("POST", "/servers/far/tools/call", {"tool_name": "push"}))[1]
        assert answer["success"] is False and f"http://127.0.0.1:{server.port}/mcp" in answer["message"], answer


async def test_a_tool_that_waits_to_be_accepted_says_so_when_it_is_called(tmp_path: Path) -> None:
    plain = PlainServer(tmp_path, pin="review")
    async with open_api_client([call("add"), say("ok")], servers={"plain": plain.spec}) as http:
        assert "an administrator has to accept it first" in await ask_in_chat(http)


async def test_a_tool_with_a_bad_schema_says_so_when_it_is_called(tmp_path: Path) -> None:
    plain = PlainServer(tmp_path, "misshapen")
    async with open_api_client([call("misshapen"), say("ok")], servers={"plain": plain.spec}) as http:
        told = await ask_in_chat(http)
        assert "the tool 'misshapen' of the server 'plain' is not offered" in told and "not a valid JSON Schema" in told


async def test_an_mcp_client_is_told_why_a_tool_is_missing(tmp_path: Path) -> None:
    async with open_host(servers={"plain": PlainServer(tmp_path).spec}) as (host, yard):
        await yard.servers.act("plain", "stop")
        assert "the server 'plain' is stopped" in (await host.call_tool("add")).error["message"]


async def test_callers_of_other_tenants_are_told_nothing_of_a_server(tmp_path: Path) -> None:
    spec = PlainServer(tmp_path, tenants=("other",)).spec
    async with open_api_client([call("add"), say("ok")], servers={"plain": spec}, keys=KEYS) as http:
        await http.with_key("boss").post("/servers/plain/stop", None)
        assert "plain" not in await ask_in_chat(http.with_key("ann"))


@pytest.mark.parametrize("action", ["stop", "remove"])
async def test_a_tool_of_no_server_stays_unknown(tmp_path: Path, action: str) -> None:
    async with open_api_client([call("nothing"), say("ok")]) as http:
        plain = PlainServer(tmp_path).spec
        body = {"name": "plain", "config": {"command": plain.command, "args": list(plain.args)}}
        await http.post("/servers", body, expect=201)
        await (http.delete("/servers/plain") if action == "remove" else http.post("/servers/plain/stop", None))
        assert "plain" not in await ask_in_chat(http)
