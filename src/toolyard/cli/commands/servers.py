"""`toolyard servers`: manage the MCP servers of a running server, and accept or reject the tools that they list."""

import argparse
import asyncio
import sys
import webbrowser
from collections.abc import Awaitable, Callable
from typing import TypeVar
from urllib.parse import quote

import msgspec

from toolyard.cli.commands import COMMANDS
from toolyard.cli.common import Commands, add_command, add_config_flags, add_server_flags, load_setup
from toolyard.cli.server_client import describe_replicas, open_server_or_store
from toolyard.cli.sign_in_callback import listen_for_callback, require_browser_url
from toolyard.cli.terminal import format_table
from toolyard.cli.usage import UsageError
from toolyard.client.http import ServerClient
from toolyard.core.errors import Misconfigured
from toolyard.core.store import Store

EXAMPLES = """  toolyard servers list
  toolyard servers add time -- uvx mcp-server-time@2026.10.19
  toolyard servers add time --trust -- uvx mcp-server-time@2026.10.19
  toolyard servers add search --url https://mcp.example.com/mcp --header "Authorization: Bearer …"
  toolyard servers tools time                     list its tools, and which of them wait to be accepted
  toolyard servers accept time                    show how its tools changed, and accept them
  toolyard servers reject time look               do not offer the tool `look` in its current form
  toolyard servers call time get_current_time '{"timezone": "Asia/Tokyo"}'
  toolyard servers stop time · start time · remove time
  toolyard servers free-names time                let tools of other servers have the names of a removed server's tools
  toolyard servers login search                   open the page on which a person signs in to a server

These commands need a running server, and the key of an administrator (--key or TOOLYARD_KEY) as soon as there is any
key. MCP servers can also be configured in toolyard.toml, under [servers.NAME], or in an mcp.json that it names.
"""
T = TypeVar("T")


class _ServerRow(msgspec.Struct, kw_only=True):
    id: str
    status: str
    error_message: str | None
    process_id: int | None
    protocol: str
    tools: int
    quarantined: int
    restarts: int


class _ServerList(msgspec.Struct):
    servers: list[_ServerRow]


class _ServerAnswer(msgspec.Struct):
    server: _ServerRow
    message: str
    bound_names: list[str] = []


class _ListedTool(msgspec.Struct):
    name: str
    description: str
    offered_as: str
    state: str
    difference: str
    hash: str = ""


class _ListedTools(msgspec.Struct):
    tools: list[_ListedTool]


class _FreedNames(msgspec.Struct):
    message: str


class _SignInPage(msgspec.Struct):
    authorization_url: str
    state: str


class _ToolCallAnswer(msgspec.Struct):
    result: str | None
    message: str
    success: bool
    status: str
    conversation_id: str


def add_to(commands: Commands) -> None:
    parser = add_command(commands, "servers", run_list, COMMANDS["servers"], EXAMPLES)
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    list_servers = add_command(actions, "list", run_list, "list the servers and their state", EXAMPLES)
    add = _add_add_command(actions)
    call = add_command(actions, "call", run_call, "call a tool and print its result", EXAMPLES)
    tools = add_command(actions, "tools", run_tools, "list the tools of a server and their state", EXAMPLES)
    accept = add_command(actions, "accept", run_accept, "show how a server's tools changed, and accept them", EXAMPLES)
    reject = add_command(actions, "reject", run_reject, "do not offer tools in their current form", EXAMPLES)
    lifecycle = [
        add_command(actions, action, _build_action(action), f"{action} a server", EXAMPLES)
        for action in ("start", "stop", "remove")
    ]
    free_names = add_command(
        actions, "free-names", run_free_names, "let others have the tool names of a removed server", EXAMPLES
    )
    login = add_command(actions, "login", run_login, "sign in to a server that a person has to sign in to", EXAMPLES)
    logout = add_command(actions, "logout", run_logout, "delete the token of a server", EXAMPLES)
    for action in (call, tools, accept, reject, free_names, login, logout, *lifecycle):
        action.add_argument("name", help="the server's name")
    login.add_argument("--no-browser", action="store_true", help="print the address of the page, but do not open it")
    login.add_argument(
        "--port",
        type=int,
        default=0,
        help="the port on this machine to which the page redirects the browser; default: a free one",
    )
    call.add_argument("tool", help="the tool's name")
    call.add_argument("arguments", nargs="?", default="{}", help="the arguments as a JSON object; default: {}")
    accept.add_argument("tools", nargs="*", help="the tools to accept; default: all that wait for it")
    reject.add_argument("tools", nargs="+", help="the tools to reject")
    for action in (list_servers, add, call, tools, accept, reject, free_names, login, logout, *lifecycle):
        add_config_flags(action, "store")
        add_server_flags(action, url_is_free=action is not add)


def _add_add_command(actions: Commands) -> argparse.ArgumentParser:
    add = add_command(actions, "add", run_add, "add a server and start it", EXAMPLES)
    add.add_argument("name", help="a name for the server")
    add.add_argument("command", nargs="*", help="the command that starts it, and its arguments, after --")
    add.add_argument("--url", dest="server_url", default="", help="the address of a server that is reached over HTTP")
    add.add_argument(
        "--header",
        action="append",
        default=[],
        dest="headers",
        metavar="NAME: VALUE",
        help="a header to send to the address; may be repeated",
    )
    add.add_argument(
        "--env",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an environment variable for the command; may be repeated",
    )
    add.add_argument("--cwd", default="", help="the working directory of the command")
    add.add_argument("--trust", action="store_true", help="believe its hints: only its destructive tools need approval")
    add.add_argument("--per-caller", action="store_true", help="use a session of its own for each user")
    add.add_argument(
        "--each-replica",
        action="store_true",
        help="let every replica on a PostgreSQL store run a copy of the command, with a state of its own",
    )
    pins = add.add_mutually_exclusive_group()
    pins.add_argument("--no-pin", action="store_true", help="accept the tools that it lists, now and after each change")
    pins.add_argument("--review", action="store_true", help="offer none of its tools before you have accepted them")
    return add


def run_list(options: argparse.Namespace) -> None:
    servers = _with_server(options, lambda server: server.request("GET", "/servers", _ServerList)).servers
    if not servers:
        print("There are no servers. `toolyard servers add --help` explains how to add one.")
        return
    rows = [
        (server.id, server.status, str(server.tools), str(server.quarantined or "-"), str(server.restarts),
         server.protocol or "-", (server.error_message or "")[:80])
        for server in servers
    ]  # fmt: skip
    print(format_table(("name", "status", "tools", "waiting", "restarts", "protocol", "error"), rows))


def run_add(options: argparse.Namespace) -> int:
    if bool(options.command) == bool(options.server_url):
        raise UsageError("name a command after --, or an address with --url")
    config: dict[str, object] = {
        "command": options.command[0] if options.command else "",
        "args": options.command[1:],
        "env": dict(_parse_pair(variable, "=") for variable in options.env),
        "cwd": options.cwd,
        "url": options.server_url,
        "headers": dict(_parse_pair(header, ":") for header in options.headers),
        "auth": "caller" if options.per_caller else "server",
        "pin": "off" if options.no_pin else "review" if options.review else "on",
        "replicas": "each" if options.each_replica else "one",
    }
    if options.trust:  # otherwise the server's settings decide
        config["trust"] = True
    body = {"name": options.name, "config": config}
    return _report_start(_with_server(options, lambda server: server.request("POST", "/servers", _ServerAnswer, body)))


def run_tools(options: argparse.Namespace) -> None:
    tools = _with_server(
        options, lambda server: server.request("GET", f"{_build_path(options)}/tools", _ListedTools)
    ).tools
    rows = [(tool.name, tool.offered_as, tool.state, _describe_tool(tool)) for tool in tools]
    print(format_table(("name", "offered as", "state", "what it does"), rows) if rows else "It lists no tools.")


def _describe_tool(tool: _ListedTool) -> str:
    """Return what a tool does, or why it cannot be offered."""
    return tool.difference if tool.state == "unusable" else tool.description.partition("\n")[0][:80]


def run_accept(options: argparse.Namespace) -> None:
    path = _build_path(options)

    async def accept(server: ServerClient) -> list[_ListedTool]:
        listed = (await server.request("GET", f"{path}/tools", _ListedTools)).tools
        # A tool that was rejected is accepted only if it is named.
        chosen = [
            tool
            for tool in listed
            if tool.state in (_SELECTABLE_STATES if tool.name in options.tools else _WAITING_STATES)
        ]
        chosen = [tool for tool in chosen if not options.tools or tool.name in options.tools]
        if chosen:
            body = {"tools": [tool.name for tool in chosen], "hashes": [tool.hash for tool in chosen if tool.hash]}
            await server.request("POST", f"{path}/accept", _ListedTools, body)
        return chosen

    for tool in (accepted := _with_server(options, accept)):
        print(f"{tool.name} ({tool.state})\n{tool.difference or tool.description}\n")
    print(f"Accepted: {', '.join(tool.name for tool in accepted)}" if accepted else "There is nothing to accept.")


def run_reject(options: argparse.Namespace) -> None:
    body = {"tools": options.tools}
    _with_server(options, lambda server: server.request("POST", f"{_build_path(options)}/reject", _ListedTools, body))
    print(f"Kept out: {', '.join(options.tools)}")


def run_call(options: argparse.Namespace) -> int:
    try:
        arguments = msgspec.json.decode(options.arguments, type=dict[str, object])
    except (msgspec.DecodeError, UnicodeError) as error:
        raise UsageError(f"the arguments must be a JSON object: {error}") from None
    body = {"tool_name": options.tool, "arguments": arguments}
    path = f"{_build_path(options)}/tools/call"
    answer = _with_server(options, lambda server: server.request("POST", path, _ToolCallAnswer, body))
    print(answer.result if answer.result is not None else f"{answer.message} ({answer.conversation_id})")
    return 0 if answer.success else 1


def run_login(options: argparse.Namespace) -> None:
    path = f"{_build_path(options)}/login"

    async def login(server: ServerClient) -> _ServerAnswer:
        async with listen_for_callback(options.port) as listener:
            page = await server.request("POST", path, _SignInPage, {"redirect_uri": listener.address})
            print(f"Sign in at this address:\n{require_browser_url(page.authorization_url)}", flush=True)
            if not options.no_browser:
                await asyncio.to_thread(webbrowser.open, page.authorization_url)
            answer = await listener.wait_for_answer(page.state)
            return await server.request("POST", f"{path}/answer", _ServerAnswer, answer)

    print(_with_server(options, login).message)


def run_logout(options: argparse.Namespace) -> None:
    path = f"{_build_path(options)}/login"
    print(_with_server(options, lambda server: server.request("DELETE", path, _ServerAnswer)).message)


def run_free_names(options: argparse.Namespace) -> None:
    path = f"{_build_path(options)}/names"
    print(_with_server(options, lambda server: server.request("DELETE", path, _FreedNames)).message)


_WAITING_STATES = ("new", "changed")
_SELECTABLE_STATES = (*_WAITING_STATES, "rejected", "accepted")
"""The first listing is accepted by nobody: naming such a tool records that a person has reviewed it."""


def _build_action(action: str) -> Callable[[argparse.Namespace], int]:
    def run(options: argparse.Namespace) -> int:
        method, path = (
            ("DELETE", _build_path(options)) if action == "remove" else ("POST", f"{_build_path(options)}/{action}")
        )
        answer = _with_server(options, lambda server: server.request(method, path, _ServerAnswer))
        if action == "start":
            return _report_start(answer)
        print(answer.message)
        if answer.bound_names:
            print(
                f"The names of its tools stay bound to it: {', '.join(answer.bound_names)}. "
                f"`toolyard servers free-names {options.name}` frees them for tools of other servers."
            )
        return 0

    return run


def _report_start(answer: _ServerAnswer) -> int:
    """Print how a server has started, and return the exit code: 1 if it could not start."""
    server = answer.server
    # A server that only waits for a sign-in is no failure: its message names the command for it.
    failed = server.status in ("restarting", "failed") and f"`toolyard servers login {server.id}`" not in answer.message
    if failed:
        print(
            f"toolyard: {answer.message}\nIt is started again later; `toolyard servers remove {server.id}` removes it.",
            file=sys.stderr,
        )
        return 1
    print(answer.message)
    return 0


def _with_server(options: argparse.Namespace, ask: Callable[[ServerClient], Awaitable[T]]) -> T:
    """Run a request with a client for the running server. Raise Misconfigured if no server runs."""

    async def run_request() -> T:
        config = load_setup(options).config
        async with open_server_or_store(config, options.url, options.key, if_missing="empty") as target:
            if not isinstance(target, ServerClient):
                raise Misconfigured(await _explain_missing_server(target))
            return await ask(target)

    return asyncio.run(run_request())


async def _explain_missing_server(store: Store) -> str:
    if replicas := await store.count_other_replicas():
        return f"{describe_replicas(replicas)} this store: name one with --server or TOOLYARD_URL"
    return "no server is running: start one with `toolyard serve`, or name one with --server"


def _build_path(options: argparse.Namespace) -> str:
    return f"/servers/{quote(options.name, safe='')}"


def _parse_pair(text: str, sign: str) -> tuple[str, str]:
    name, separator, value = text.partition(sign)
    if not separator or not name.strip():
        raise UsageError(f"{text!r} must be NAME{sign}VALUE")
    return name.strip(), value.strip()
