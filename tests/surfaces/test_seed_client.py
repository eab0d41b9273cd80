"""An existing front end of seed 004 works unchanged: every request that it sends, and every field that it reads."""

import asyncio
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import pytest

from support import wait_until
from surfaces.api_client import NOTHING_ENABLED, Json, build_key, connect_api_client, open_api_client
from toolyard import Yard, tool
from toolyard.server.config import load
from toolyard.server.wiring import build_wiring
from toolyard.testing import Scripted, call, say, together
from venues.mcp.plain import PlainServer

STATUSES = {"configured", "starting", "running", "stopping", "stopped", "error"}


@tool
def list_directory(path: str) -> dict[str, object]:
    """List the files of a directory."""
    if path == "/secret":
        raise PermissionError("not yours")
    return {"files": [f"{path}/README.md"]}


def build_server_form(plain: PlainServer, name: str) -> Json:
    """What the form for a new server sends: empty inputs are null, and a slug that was left out is absent."""
    config = {"name": name, "transport": "stdio", "command": plain.spec.command, "args": list(plain.spec.args)}
    return {"server": {**config, "env": None, "cwd": None}}


def read_environment(plain: PlainServer, name: str) -> str:
    """Return a variable of the server's newest process."""
    entries = Path(f"/proc/{plain.processes[-1]}/environ").read_bytes().split(b"\0")
    return dict(entry.decode().split("=", 1) for entry in entries if entry).get(name, "")


async def test_it_opens_with_nothing_there_yet() -> None:
    async with open_api_client() as http:
        assert (await http.get("/conversations"))["conversations"] == []
        assert (await http.get("/servers/"))["servers"] == []
        providers = await http.get("/providers")
        assert [provider["id"] for provider in providers["providers"]] == [providers["default_provider"]]


PROVIDERS = """
model = ["openai:gpt-4o-mini", "openai:gpt-4o", "http://u:pa55@llm.example:9/v1#qwen", "mine:m"]
[providers.openai]
api_key = "sk-s3cret"
[providers.mine]
base_url = "https://mine.example/v1?code=s3cret"
headers = { X-Key = "s3cret" }
"""


def build_silent_model(name: str) -> Scripted:
    return Scripted(())


async def test_providers_are_told_of_without_their_keys(tmp_path: Path) -> None:
    path = tmp_path / "toolyard.toml"
    path.write_text(PROVIDERS)
    wiring = build_wiring(load(path, {}, {"store": "memory:"}), tmp_path)
    keys = [build_key("boss", "admin", tenant=""), build_key("ann")]
    yard = Yard.from_wiring(replace(wiring, keys=keys, named_model=build_silent_model))
    async with asyncio.timeout(30), yard, connect_api_client(yard) as http:
        boss, ann = http.with_key("boss"), http.with_key("ann")
        listed = await boss.get("/providers/")
        assert (listed["count"], listed["default_provider"]) == (3, "openai")
        openai, custom, mine = listed["providers"]
        assert openai["config"]["name"] == "openai"
        assert openai["config"]["models"]["main"]["model_name"] == "gpt-4o-mini"
        assert openai["config"]["models"]["all"] == ["gpt-4o-mini", "gpt-4o"]
        assert (openai["config"]["api_key"], openai["has_key"]) == ("", True)
        assert (custom["id"], custom["config"]["base_url"]) == ("llm.example", "http://***@llm.example:9/v1")
        assert mine["config"]["base_url"] == "https://mine.example/v1?code=***"
        assert (await boss.get("/providers/openai"))["provider"] == openai
        assert (await boss.get("/providers/openai/models"))["count"] == 2
        providers = await ann.get("/providers")
        assert [provider["config"]["base_url"] for provider in providers["providers"]] == ["", "", ""]
        for answer in (listed, providers):
            assert "s3cret" not in str(answer)
            assert "pa55" not in str(answer)
        await ann.get("/providers/nowhere", expect=404)
        assert "with POST" in (await boss.put("/providers/openai/test", {"provider": {}}, expect=409))["error"]
        for method, end in (("POST", ""), ("PUT", "/openai"), ("DELETE", "/openai")):
            status, reply, _ = await boss.send_request(method, f"/providers{end}", {"provider": {}})
            assert (status, reply["error_type"]) == (409, "conflict")
            assert "configuration" in reply["error"]


async def test_it_makes_a_conversation_and_changes_its_settings() -> None:
    async with open_api_client() as http:
        new = {"title": "New Conversation 1", "description": "", "system_prompt": "You are a helpful AI assistant."}
        created = (await http.post("/conversations", new, expect=201))["conversation"]
        assert created["system_prompt"] == new["system_prompt"]
        path = f"/conversations/{created['id']}"
        form = {name: created[name] for name in ("title", "description", "system_prompt", "max_tokens", "max_messages")}
        form |= {"title": "Docs", "max_tokens": None, "max_messages": 20}
        changed = (await http.put(path, form))["conversation"]
        assert (changed["title"], changed["max_messages"]) == ("Docs", 20)
        assert changed["max_tokens"] is None, "no limit is null: the page would draw a zero"
        assert [conversation["title"] for conversation in (await http.get("/conversations"))["conversations"]] == [
            "Docs"
        ]
        assert (await http.get("/conversations/search?q=doc"))["count"] == 1
        assert (await http.delete(path))["success"]


async def test_it_edits_context() -> None:
    model = Scripted([say("ok"), say("ok")])
    async with open_api_client(model) as http:
        path = await http.create_conversation()
        note = {"descriptive_name": "House rules", "content": "No shoes.", "related_keywords": ["floor", "home"]}
        created = await http.post(f"{path}/context", {**note, "related_files": ["rules.md"]}, expect=201)
        assert created["context"] == {**note, "related_files": ["rules.md"]}
        await http.post(f"{path}/chat", {"content": "go"})
        assert "House rules" in model.requests[0].system
        assert "floor, home" in model.requests[0].system
        assert "rules.md" in model.requests[0].system
        entry_path = f"{path}/context/{created['context_id']}"
        changed = await http.put(entry_path, {"content": "Slippers only.", "related_keywords": None})
        assert changed["context"] == {**note, "content": "Slippers only.", "related_files": ["rules.md"]}
        assert changed["context_id"] == created["context_id"]
        await http.put(entry_path, {"related_keywords": [], "related_files": [], "descriptive_name": "Rules"})
        await http.post(f"{path}/chat", {"content": "go"})
        assert "Rules: Slippers only." in model.requests[1].system
        assert "floor" not in model.requests[1].system
        listed = await http.get(f"{path}/context")
        assert listed["count"] == 1
        assert [item["content"] for item in listed["context"]] == ["Slippers only."], "the page reads a list"
        await http.put(f"{path}/context/nowhere", {"content": "x"}, expect=404)
        await http.put(entry_path, {"descriptive_name": ""}, expect=422)
        await http.delete(entry_path)


async def test_it_adds_a_server_whose_name_has_spaces(tmp_path: Path) -> None:
    plain = PlainServer(tmp_path)
    async with open_api_client() as http:
        added = await http.post("/servers", build_server_form(plain, "My Custom Server"), expect=201)
        server = added["server"]
        assert (server["id"], server["slug"]) == ("my-custom-server", "my-custom-server")
        assert server["config"]["name"] == "My Custom Server"
        assert (server["config"]["slug"], server["config"]["transport"]) == ("my-custom-server", "stdio")
        (listed,) = (await http.get("/servers/"))["servers"]
        assert listed["config"]["name"] == "My Custom Server"
        assert listed["status"] in STATUSES
        path = f"/servers/{server['id']}"
        assert (await http.post(f"{path}/start"))["server"]["status"] == "running"
        tools = await http.get(f"{path}/tools")
        assert (tools["server_name"], tools["tools"][0]["name"]) == ("My Custom Server", "add")
        assert (await http.post(f"{path}/stop"))["server"]["status"] == "stopped"
        assert (await http.delete(path))["success"]
        await wait_until(lambda: plain.alive == [])


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        ({"name": "Función y más"}, "funci-n-y-m-s"),
        ({"name": "Any name", "slug": "files"}, "files"),
        ({"name": "plain"}, "plain"),
    ],
)
async def test_a_servers_id_is_its_slug_or_is_made_of_its_name(tmp_path: Path, server: Json, expected: str) -> None:
    plain = PlainServer(tmp_path)
    async with open_api_client() as http:
        body = build_server_form(plain, "")["server"] | server
        assert (await http.post("/servers", {"server": body}, expect=201))["server"]["id"] == expected


@pytest.mark.parametrize(
    "server",
    [
        {"name": "日本"},
        {"name": "function?"},
        {"name": "x", "slug": "a b"},
        {"name": "../x"},
        {"name": ""},
        {"name": "a\nb"},
        {"slug": "x"},
    ],
)
async def test_a_name_that_cannot_be_is_refused(server: Json) -> None:
    async with open_api_client() as http:
        refused = await http.post("/servers", {"server": {"command": "a", **server}}, expect=422)
        assert refused["details"]["fields"]
        await http.post("/servers", {}, expect=422)


async def test_it_changes_a_server_and_secrets_that_come_back_hidden_stay(tmp_path: Path) -> None:
    plain = PlainServer(tmp_path)
    async with open_api_client() as http:
        new = build_server_form(plain, "files")
        new["server"]["env"] = {"TOKEN": "s3cret", "OLD": "1"}
        server = (await http.post("/servers", new, expect=201))["server"]
        config = server["config"]
        assert "s3cret" not in str(config)
        first = plain.processes[-1]
        env = {"TOKEN": config["env"]["TOKEN"], "NEW": "2"}
        body = {"server": {**config, "name": "My files", "env": env}}
        changed = (await http.put("/servers/files", body))["server"]
        assert (changed["id"], changed["config"]["name"], changed["status"]) == ("files", "My files", "running")
        await wait_until(lambda: first not in plain.alive)
        assert read_environment(plain, "TOKEN") == "s3cret"
        assert read_environment(plain, "NEW") == "2"
        assert read_environment(plain, "OLD") == ""
        await http.put("/servers/files", {"server": {"name": "Still files"}})
        assert read_environment(plain, "TOKEN") == "s3cret", "what is left out stays as it is"
        assert (await http.post("/servers/files/tools/call", {"tool_name": "add"}, expect=202))["status"] == "waiting"


async def test_what_of_a_server_cannot_be_changed_is_refused(tmp_path: Path) -> None:
    plain = PlainServer(tmp_path)
    async with open_api_client(
        servers={"plain": plain.spec},
        keys=[build_key("boss", "admin", tenant=""), build_key("ann")],
        add_servers="all",
    ) as http:
        ann, boss = http.with_key("ann"), http.with_key("boss")
        await ann.put("/servers/plain", {"server": {"name": "x"}}, expect=403)
        assert "configuration" in (await boss.put("/servers/plain", {"server": {"name": "x"}}, expect=409))["error"]
        await boss.put("/servers/nowhere", {"server": {"name": "x"}}, expect=404)
        await boss.post("/servers", build_server_form(plain, "own"), expect=201)
        await boss.put("/servers/own", {"server": {"slug": "other"}}, expect=422)
        await boss.put("/servers/own", {"server": {"args": "no list"}}, expect=422)
        await boss.put("/servers/own", {"server": {"url": "ftp://x"}}, expect=422)
        await boss.put("/servers/own", {}, expect=422)
        assert (await boss.get("/servers/own"))["server"]["status"] == "running"


async def test_it_enables_a_tool_and_chats() -> None:

    script = [call("list_directory", path="/docs"), say("A README.")]
    async with open_api_client(script, tools=[list_directory], default_settings=NOTHING_ENABLED) as http:
        path = await http.create_conversation()
        (available,) = (await http.get(f"{path}/tools/available"))["available_tools"]
        chosen = {name: available[name] for name in ("server_id", "tool_name")}
        assert (await http.post(f"{path}/tools", chosen))["enabled_tools"][0]["tool_name"] == "list_directory"
        answer = await http.post(f"{path}/chat", {"content": "What is in /docs?"})
        assert answer["success"]
        assert {"token_count", "tokens_sent", "messages_in_context"} <= set(answer)
        messages = await http.list_messages(path)
        assert [message["role"] for message in messages] == ["user", "assistant", "tool", "assistant"]
        query = f"server_id={available['server_id']}&tool_name={available['tool_name']}"
        assert (await http.delete(f"{path}/tools?{query}"))["enabled_tools"] == []


async def test_it_watches_calls_as_they_run() -> None:

    script = [
        together(say("I look."), call("list_directory", path="/docs")),
        call("list_directory", path="/secret"),
        say("A README."),
    ]
    async with open_api_client(script, tools=[list_directory]) as http:
        path = await http.create_conversation()
        conversation = path.rpartition("/")[2]
        listening = asyncio.Event()
        events: list[Json] = []

        async def watch() -> None:
            async with aclosing(http.stream_events(f"/sse{path}")) as stream:
                async for _, event in stream:
                    events.append(event)
                    listening.set()
                    if len(events) == 5:
                        break

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(watch())
            await listening.wait()
            await http.post(f"{path}/chat", {"content": "What is in /docs?"})
        assert [event["type"] for event in events] == [
            "connected", "tool_call", "tool_response", "tool_call", "tool_error"
        ]  # fmt: skip
        assert {event["conversation_id"] for event in events} == {conversation}
        called, answered, _, failed = (event["data"] for event in events[1:])
        messages = await http.list_messages(path)
        tool_call = messages[1]["tool_calls"][0]
        assert (called["tool_call_id"], called["tool_name"]) == (tool_call["id"], "list_directory")
        assert (called["arguments"], called["assistant_content"]) == ({"path": "/docs"}, "I look.")
        assert (answered["tool_call_id"], answered["result"]) == (tool_call["id"], messages[2]["content"])
        assert "not yours" in failed["error"]
        assert called["timestamp"].endswith("Z")
        await http.get("/sse/conversations/nowhere", expect=404)
