"""What the pages for those who come from another system show works: each command, each program, each configuration."""

import asyncio
import json
import os
import re
import shlex
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest
import yaml
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters

from surfaces.http_server import SocketClient, connect_client, serve_yard
from test_docs import python_blocks, run_python
from toolyard import Caller, ToolLike, Yard, tool
from toolyard.server.config import load
from toolyard.server.config.tool_modules import load_tools
from toolyard.testing import Scripted, call, say
from wire.messages_streams import encode_cited_text, encode_search, encode_search_result
from wire.strict import Reply
from wire.strict_messages import StrictMessages, encode_end, encode_start

PAGES = Path(__file__).parent.parent / "docs" / "coming-from"
URL = "http://127.0.0.1:8080"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
Json = dict[str, object]


def blocks(page: str, language: str) -> list[str]:
    """Return the blocks of a page that are written in a language; commands have none."""
    return [code for name, code in BLOCK.findall((PAGES / page).read_text("utf-8")) if name == language]


async def send(http: SocketClient, command: str, **places: str) -> list[Json]:
    """Send what a curl command sends, and return the objects of the answer. `places` are the values of placeholders."""
    for name, value in places.items():
        assert name in command
        command = command.replace(name, value)
    words = iter(shlex.split(command.replace("\\\n", " ")))
    assert next(words) == "curl"
    path, body, streams = "", None, False
    for word in words:
        match word:
            case "-N":
                streams = True
            case "-H":
                assert next(words) == "Content-Type: application/json"
            case "-d":
                body = json.loads(next(words))
            case _:
                assert word.startswith(URL)
                path = word.removeprefix(URL)
    if streams:
        return [event async for _, event in http.stream("POST", path, body)]
    status, answer, _ = await http.ask("GET" if body is None else "POST", path, body)
    assert status in (200, 201), answer
    return [answer]


def read_text(events: Sequence[Json]) -> str:
    return "".join(str(event["content"]) for event in events if event["type"] == "text.delta")


def test_every_page_is_here() -> None:
    names = {page.name for page in PAGES.glob("*.md")} - {"index.md"}
    assert names == {
        "app-tools.md", "conversations.md", "dispatcher.md", "frameworks.md", "tool-manager.md", "web-search.md",
    }  # fmt: skip
    index = (PAGES / "index.md").read_text("utf-8")
    assert all(f"({name})" in index for name in names)


async def test_an_app_runs_its_own_tools() -> None:
    ask, deliver = blocks("app-tools.md", "")
    script = [call("search_products", query="milk"), say("I've added Full Cream Milk to your cart!")]
    async with Yard(model=Scripted(script)) as yard, connect_client(yard) as http:
        (asked,) = await send(http, ask)
        assert asked["type"] == "tool_calls"
        (pending,) = cast(list[dict[str, str]], asked["toolCalls"])
        conversation = str(asked["conversationId"])
        (answer,) = await send(http, deliver, CONVERSATION_ID=conversation, CALL_ID=pending["id"])
        assert answer["type"] == "message"
        assert answer["message"] == {"role": "assistant", "content": "I've added Full Cream Milk to your cart!"}


def load_module(tmp_path: Path, name: str, code: str) -> list[ToolLike]:
    """Return the tools of a module as a server loads them."""
    (tmp_path / name).write_text(code)
    return cast(list[ToolLike], load_tools([f"./{name}"], tmp_path))


async def test_executors_of_a_tool_manager_keep_their_permissions(tmp_path: Path) -> None:
    (code,) = python_blocks("docs/coming-from/tool-manager.md")
    (settings,) = blocks("tool-manager.md", "toml")
    (tmp_path / "toolyard.toml").write_text(settings)
    config = load(tmp_path / "toolyard.toml", {"DASHSCOPE_API_KEY": "k", "HOME": str(tmp_path)}, {})
    assert (config.limits.turns_per_request, config.model) == (5, "dashscope:qwen-plus")
    (name,) = tomllib.loads(settings)["tools"]
    assert f"`{name.removeprefix('./')}`" in (PAGES / "tool-manager.md").read_text("utf-8")
    tools = load_module(tmp_path, name, code)
    script = [
        call("search_materials", keyword="面粉"), call("create_new_intent", title="x"), say("我找到了2种面粉"),
        call("create_new_intent", title="x"), say("好"),
    ]  # fmt: skip
    async with Yard(model=Scripted(script), tools=tools) as yard:
        staff = await yard.run(
            "帮我查找面粉原料", caller=Caller(user="li", roles=frozenset({"warehouse_staff"}))
        ).result()
        admin = await yard.run("新建意图", caller=Caller(user="wang", roles=frozenset({"admin"}))).result()
    assert [step.outcome for step in staff.calls] == ["ok", "denied"] and staff.text == "我找到了2种面粉"
    assert [step.outcome for step in admin.calls] == ["ok"]


async def test_a_tool_manager_that_keeps_its_tools_changes_the_address_only() -> None:
    (ask,) = blocks("tool-manager.md", "")
    async with Yard(model=Scripted([call("search_materials", keyword="面粉")])) as yard, connect_client(yard) as http:
        (answer,) = await send(http, ask)
        (choice,) = cast(list[dict[str, Json]], answer["choices"])
        assert cast(object, choice["finish_reason"]) == "tool_calls"
        (asked,) = cast(list[dict[str, Json]], choice["message"]["tool_calls"])
        assert asked["function"] == {"name": "search_materials", "arguments": '{"keyword":"面粉"}'}


def searching_provider() -> StrictMessages:
    packets = [
        encode_start(),
        encode_search(0, "srvtoolu_1"),
        encode_search_result(1, "srvtoolu_1"),
        encode_cited_text(2, "It is so."),
        encode_end(),
    ]
    return StrictMessages(Reply(packets=packets))


async def test_the_metadata_of_a_search_service_asks_for_a_native_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (code,), (ask,) = python_blocks("docs/coming-from/web-search.md"), blocks("web-search.md", "")
    provider = searching_provider()
    async with provider.serving() as base_url:
        output = await run_python(code, tmp_path, ANTHROPIC_API_KEY="test", ANTHROPIC_BASE_URL=base_url)
    assert output == "It is so.\n[('web_search', 'provider', 'anthropic')]\n"
    provider = searching_provider()
    async with provider.serving() as base_url:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "test")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", base_url)
        async with Yard(model="anthropic:claude-sonnet-4-5") as yard, connect_client(yard) as http:
            events = await send(http, ask)
    assert read_text(events) == "It is so."
    assert [event["ran"] for event in events if "ran" in event] == ["provider"]


async def test_schemas_a_dispatcher_and_a_model_as_the_parameter_are_served(tmp_path: Path) -> None:
    (code,) = python_blocks("docs/coming-from/dispatcher.md")
    serve, ask, health = blocks("dispatcher.md", "")
    assert serve.startswith("toolyard serve --tools ./my_tools.py ")
    tools = load_module(tmp_path, "my_tools.py", code)
    script = [
        call("add_to_groceries", item="milk"), call("add_to_groceries", item="gold"),
        call("remove_from_groceries", item="tea"), say("Milk is on the list."),
    ]  # fmt: skip
    async with Yard(model=Scripted(script), tools=tools) as yard, connect_client(yard) as http:
        events = await send(http, ask)
        ended = [event for event in events if event.get("state") == "finished"]
        assert [(event["ok"], event.get("error_type")) for event in ended] == [
            (True, None), (False, "not_found"), (False, "not_found"),
        ]  # fmt: skip
        assert read_text(events) == "Milk is on the list."
        (report,) = await send(http, health)
        assert (report["status"], cast(Json, report["tools"])["total_dispatchers"]) == ("healthy", 2)


async def test_the_script_of_a_conversation_server_runs_unchanged(tmp_path: Path) -> None:
    (code,) = python_blocks("docs/coming-from/conversations.md")
    serve, create, available, enable, chat, messages = blocks("conversations.md", "")
    assert serve.startswith("toolyard serve --tools ./files.py ")
    tools = load_module(tmp_path, "files.py", code)
    script = [call("list_directory", path="/docs"), say("The /docs directory contains: README.md and API.md")]
    async with Yard(model=Scripted(script), tools=tools) as yard, connect_client(yard) as http:
        (created,) = await send(http, create)
        place = {"CONVERSATION_ID": str(cast(Json, created["conversation"])["id"])}
        (offered,) = await send(http, available, **place)
        assert "list_directory" in str(offered["available_tools"])
        await send(http, enable, **place)
        (answer,) = await send(http, chat, **place)
        assert answer["success"] is True
        assert "README.md and API.md" in str(cast(Json, answer["assistant_message"])["content"])
        (stored,) = await send(http, messages, **place)
        roles = [message["role"] for message in cast(list[Json], stored["messages"])]
        assert roles == ["user", "assistant", "tool", "assistant"]


# MCP hosts and front ends

OPENING_TOOL = """
from toolyard import tool

@tool(read_only=True)
def opening_hours(day: str) -> str:
    "Return the opening hours of a day of the week."
    return "closed" if day.lower() == "sunday" else "9 to 18"
"""


async def test_claude_desktop_starts_a_server_with_the_configuration(tmp_path: Path) -> None:
    (shown,) = blocks("frameworks.md", "json")
    server = json.loads(shown)["mcpServers"]["yard"]
    assert server["command"] == "toolyard"
    (tmp_path / "shop_tools.py").write_text(OPENING_TOOL)
    (tmp_path / "toolyard.toml").write_text('tools = ["./shop_tools.py"]\nstore = "memory:"\n')
    config = str(tmp_path / "toolyard.toml")
    arguments = [config if word == "/home/me/toolyard.toml" else word for word in server["args"]]
    assert config in arguments
    started = StdioServerParameters(command=sys.executable, args=["-m", "toolyard", *arguments], env=dict(os.environ))
    async with asyncio.timeout(60), Client(started) as client:
        answer = await client.call_tool("opening_hours", {"day": "Sunday"})
        assert getattr(answer.content[0], "text", "") == "closed"


@tool(read_only=True)
def list_directory(path: str) -> list[str]:
    """List the files of a directory."""
    return ["README.md", "API.md"]


def list_mcp_addresses() -> dict[str, str]:
    """Return the addresses that the page gives to MCP hosts, by host."""
    (claude,), (codex,) = blocks("frameworks.md", "sh"), blocks("frameworks.md", "toml")
    words = shlex.split(claude)
    assert words[:5] == ["claude", "mcp", "add", "--transport", "http"]
    assert words[-2:] == ["--header", "Authorization: Bearer $TOOLYARD_KEY"]
    server = tomllib.loads(codex)["mcp_servers"]["yard"]
    assert server.keys() == {"url", "bearer_token_env_var"} and server["bearer_token_env_var"] == "TOOLYARD_KEY"
    return {"Claude Code": words[6], "Codex": server["url"]}


@pytest.mark.parametrize("host", ["Claude Code", "Codex"])
async def test_a_host_reaches_the_tools_at_the_address_of_the_page(host: str) -> None:
    address = list_mcp_addresses()[host]
    assert address.startswith(URL)
    async with (
        asyncio.timeout(60),
        Yard(model=Scripted([]), tools=[list_directory]) as yard,
        serve_yard(yard) as url,
        Client(address.replace(URL, url)) as client,
    ):
        assert "list_directory" in [item.name for item in (await client.list_tools()).tools]


def test_open_webui_and_the_proxy_of_litellm_are_given_the_address_and_a_key() -> None:
    """Their form only: the programs are not run."""
    (variables,), (proxy,) = blocks("frameworks.md", "ini"), blocks("frameworks.md", "yaml")
    settings = dict(line.split("=", 1) for line in variables.split())
    assert (settings["OPENAI_API_BASE_URL"], settings["TASK_MODEL_EXTERNAL"]) == (f"{URL}/v1", "default@plain")
    (model,) = yaml.safe_load(proxy)["model_list"]
    assert model["litellm_params"] == {"model": "openai/default", "api_base": f"{URL}/v1", "api_key": "none"}
