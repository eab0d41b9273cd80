"""`toolyard servers`: the MCP servers of a running server: their state, their tools, what changed of them."""

import argparse
import asyncio
import sys
import webbrowser
from collections.abc import Awaitable, Callable
from typing import TypeVar
from urllib.parse import quote

import msgspec

from toolyard.cli.common import Commands, UsageError, add_command, add_config_flags, add_server_flags, load_setup
from toolyard.cli.server_client import ServerClient, open_server_or_store
from toolyard.cli.sign_in_callback import listen_for_callback, require_browser_url
from toolyard.cli.terminal import format_table
from toolyard.core.errors import Misconfigured

EXAMPLES = """  toolyard servers list
  toolyard servers add time -- uvx mcp-server-time
  toolyard servers add time --trust -- uvx mcp-server-time
  toolyard servers add search --url https://mcp.example.com/mcp --header "Authorization: Bearer …"
  toolyard servers tools time                     what it lists, and what waits to be accepted
  toolyard servers accept time                    shows what changed, and accepts it
  toolyard servers reject time look               keeps a tool out, as it is listed now
  toolyard servers call time get_current_time '{"timezone": "Asia/Tokyo"}'
  toolyard servers stop time · start time · remove time
  toolyard servers login search                   opens the page where a server wants a person to sign in

They go through the running server, which needs the key of an administrator (--key or TOOLYARD_KEY) as soon as there is
any key. Servers can also stand in toolyard.toml, under [servers.NAME], or in an mcp.json that it names.
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


class _ListedTool(msgspec.Struct):
    name: str
    description: str
    offered_as: str
    state: str
    difference: str


class _ListedTools(msgspec.Struct):
    tools: list[_ListedTool]


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
    made = add_command(commands, "servers", run_list, "look after the MCP servers of a running server", EXAMPLES)
    actions = made.add_subparsers(metavar="ACTION", required=True)
    listed = add_command(actions, "list", run_list, "show the servers and their state", EXAMPLES)
    add = add_command(actions, "add", run_add, "add a server and start it", EXAMPLES)
    add.add_argument("name")
    add.add_argument("command", nargs="*", help="the command and its arguments, after --")
    add.add_argument("--url", dest="server_url", default="", help="of a server that is reached over HTTP")
    add.add_argument("--header", action="append", default=[], dest="headers", metavar="NAME: VALUE")
    add.add_argument("--env", action="append", default=[], metavar="NAME=VALUE")
    add.add_argument("--cwd", default="")
    add.add_argument("--trust", action="store_true", help="tools without hints run without asking")
    add.add_argument("--per-caller", action="store_true", help="a session for each user, never shared")
    add.add_argument("--no-pin", action="store_true", help="accept whatever it lists, now and later")
    call = add_command(actions, "call", run_call, "call a tool and print its result", EXAMPLES)
    shown = add_command(actions, "tools", run_tools, "show what a server lists", EXAMPLES)
    accept = add_command(
        actions, "accept", run_accept, "show what changed of a server's tools, and accept it", EXAMPLES
    )
    reject = add_command(actions, "reject", run_reject, "keep tools of a server out, as they are listed now", EXAMPLES)
    acts = [
        add_command(actions, act, _build_action(act), f"{act} a server", EXAMPLES)
        for act in ("start", "stop", "remove")
    ]
    login = add_command(actions, "login", run_login, "sign in to a server that wants a person for it", EXAMPLES)
    logout = add_command(actions, "logout", run_logout, "throw away the token of a server", EXAMPLES)
    for one in (call, shown, accept, reject, login, logout, *acts):
        one.add_argument("name")
    login.add_argument("--no-browser", action="store_true", help="only print the page's address")
    login.add_argument("--port", type=int, default=0, help="of the loopback, where the page sends you back to")
    call.add_argument("tool")
    call.add_argument("arguments", nargs="?", default="{}", help="a JSON object; default: {}")
    accept.add_argument("tools", nargs="*", help="only these; default: all that wait")
    reject.add_argument("tools", nargs="+", help="their names")
    for one in (listed, add, call, shown, accept, reject, login, logout, *acts):
        add_config_flags(one, "store")
        add_server_flags(one, url_is_free=one is not add)


def run_list(options: argparse.Namespace) -> None:
    servers = _with_server(options, lambda server: server.request("GET", "/servers", _ServerList)).servers
    if not servers:
        print("There are no servers. `toolyard servers add --help` tells how to add one.")
        return
    rows = [
        (one.id, one.status, str(one.tools), str(one.quarantined or "-"), str(one.restarts), one.protocol or "-",
         (one.error_message or "")[:80])
        for one in servers
    ]  # fmt: skip
    print(format_table(("name", "status", "tools", "waiting", "restarts", "protocol", "error"), rows))


def run_add(options: argparse.Namespace) -> int:
    if bool(options.command) == bool(options.server_url):
        raise UsageError("name a command after --, or an address with --url")
    config: dict[str, object] = {
        "command": options.command[0] if options.command else "",
        "args": options.command[1:],
        "env": dict(_parse_pair(one, "=") for one in options.env),
        "cwd": options.cwd,
        "url": options.server_url,
        "headers": dict(_parse_pair(one, ":") for one in options.headers),
        "trust": options.trust,
        "auth": "caller" if options.per_caller else "server",
        "pin": "off" if options.no_pin else "on",
    }
    body = {"name": options.name, "config": config}
    return _report_start(_with_server(options, lambda server: server.request("POST", "/servers", _ServerAnswer, body)))


def run_tools(options: argparse.Namespace) -> None:
    tools = _with_server(
        options, lambda server: server.request("GET", f"{_build_path(options)}/tools", _ListedTools)
    ).tools
    rows = [(one.name, one.offered_as, one.state, one.description.partition("\n")[0][:80]) for one in tools]
    print(format_table(("name", "offered as", "state", "what it does"), rows) if rows else "It lists no tools.")


def run_accept(options: argparse.Namespace) -> None:
    path = _build_path(options)

    async def accept(server: ServerClient) -> list[_ListedTool]:
        listed = (await server.request("GET", f"{path}/tools", _ListedTools)).tools
        chosen = [
            one for one in listed if one.state in (_SELECTABLE_STATES if one.name in options.tools else _WAITING_STATES)
        ]
        chosen = [one for one in chosen if not options.tools or one.name in options.tools]
        if chosen:
            await server.request("POST", f"{path}/accept", _ListedTools, {"tools": [one.name for one in chosen]})
        return chosen

    for one in (accepted := _with_server(options, accept)):
        print(f"{one.name} ({one.state})\n{one.difference}\n")
    print(f"Accepted: {', '.join(one.name for one in accepted)}" if accepted else "There is nothing to accept.")


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
    told = _with_server(options, lambda server: server.request("POST", path, _ToolCallAnswer, body))
    print(told.result if told.result is not None else f"{told.message} ({told.conversation_id})")
    return 0 if told.success else 1


def run_login(options: argparse.Namespace) -> None:
    path = f"{_build_path(options)}/login"

    async def login(server: ServerClient) -> _ServerAnswer:
        async with listen_for_callback(options.port) as page:
            begun = await server.request("POST", path, _SignInPage, {"redirect_uri": page.address})
            print(f"Sign in at this address:\n{require_browser_url(begun.authorization_url)}", flush=True)
            if not options.no_browser:
                await asyncio.to_thread(webbrowser.open, begun.authorization_url)
            answer = await page.wait_for_answer(begun.state)
            return await server.request("POST", f"{path}/answer", _ServerAnswer, answer)

    print(_with_server(options, login).message)


def run_logout(options: argparse.Namespace) -> None:
    path = f"{_build_path(options)}/login"
    print(_with_server(options, lambda server: server.request("DELETE", path, _ServerAnswer)).message)


_WAITING_STATES = ("new", "changed")
_SELECTABLE_STATES = (*_WAITING_STATES, "rejected")


def _build_action(act: str) -> Callable[[argparse.Namespace], int]:
    def run(options: argparse.Namespace) -> int:
        method, path = (
            ("DELETE", _build_path(options)) if act == "remove" else ("POST", f"{_build_path(options)}/{act}")
        )
        answer = _with_server(options, lambda server: server.request(method, path, _ServerAnswer))
        if act == "start":
            return _report_start(answer)
        print(answer.message)
        return 0

    return run


def _report_start(answer: _ServerAnswer) -> int:
    """Print how a server has started, and return the exit code: 1 if it could not. One may still need a sign-in."""
    server = answer.server
    failed = server.status in ("restarting", "failed") and f"`toolyard servers login {server.id}`" not in answer.message
    if failed:
        print(
            f"toolyard: {answer.message}\nIt is tried again; `toolyard servers remove {server.id}` forgets it.",
            file=sys.stderr,
        )
        return 1
    print(answer.message)
    return 0


def _with_server(options: argparse.Namespace, ask: Callable[[ServerClient], Awaitable[T]]) -> T:
    async def run_request() -> T:
        async with open_server_or_store(load_setup(options).config.store, options.url, options.key) as place:
            if not isinstance(place, ServerClient):
                raise Misconfigured("no server is running: start one with `toolyard serve`, or name one with --server")
            return await ask(place)

    return asyncio.run(run_request())


def _build_path(options: argparse.Namespace) -> str:
    return f"/servers/{quote(options.name, safe='')}"


def _parse_pair(text: str, sign: str) -> tuple[str, str]:
    name, found, value = text.partition(sign)
    if not found or not name.strip():
        raise UsageError(f"{text!r} must be NAME{sign}VALUE")
    return name.strip(), value.strip()
