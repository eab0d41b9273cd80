"""`toolyard servers`: the MCP servers of a running server: their state, their tools, what changed of them."""

import argparse
import asyncio
import sys
import webbrowser
from collections.abc import Awaitable, Callable
from typing import TypeVar
from urllib.parse import quote

import msgspec

from toolyard.cli.common import Commands, Misused, add_config_flags, add_server_flags, command, set_up
from toolyard.cli.server_client import Server, server_or_store
from toolyard.cli.sign_in_callback import openable, waiting_for_page
from toolyard.cli.terminal import table
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


class _Shown(msgspec.Struct, kw_only=True):
    id: str
    status: str
    error_message: str | None
    process_id: int | None
    protocol: str
    tools: int
    quarantined: int
    restarts: int


class _List(msgspec.Struct):
    servers: list[_Shown]


class _Said(msgspec.Struct):
    server: _Shown
    message: str


class _Tool(msgspec.Struct):
    name: str
    description: str
    offered_as: str
    state: str
    difference: str


class _Tools(msgspec.Struct):
    tools: list[_Tool]


class _Page(msgspec.Struct):
    authorization_url: str
    state: str


class _Called(msgspec.Struct):
    result: str | None
    message: str
    success: bool
    status: str
    conversation_id: str


def add_to(commands: Commands) -> None:
    made = command(commands, "servers", run_list, "look after the MCP servers of a running server", EXAMPLES)
    actions = made.add_subparsers(metavar="ACTION", required=True)
    listed = command(actions, "list", run_list, "show the servers and their state", EXAMPLES)
    add = command(actions, "add", run_add, "add a server and start it", EXAMPLES)
    add.add_argument("name")
    add.add_argument("command", nargs="*", help="the command and its arguments, after --")
    add.add_argument("--url", dest="server_url", default="", help="of a server that is reached over HTTP")
    add.add_argument("--header", action="append", default=[], dest="headers", metavar="NAME: VALUE")
    add.add_argument("--env", action="append", default=[], metavar="NAME=VALUE")
    add.add_argument("--cwd", default="")
    add.add_argument("--trust", action="store_true", help="tools without hints run without asking")
    add.add_argument("--per-caller", action="store_true", help="a session for each user, never shared")
    add.add_argument("--no-pin", action="store_true", help="accept whatever it lists, now and later")
    call = command(actions, "call", run_call, "call a tool and print its result", EXAMPLES)
    shown = command(actions, "tools", run_tools, "show what a server lists", EXAMPLES)
    accept = command(actions, "accept", run_accept, "show what changed of a server's tools, and accept it", EXAMPLES)
    reject = command(actions, "reject", run_reject, "keep tools of a server out, as they are listed now", EXAMPLES)
    acts = [command(actions, act, _run_act(act), f"{act} a server", EXAMPLES) for act in ("start", "stop", "remove")]
    login = command(actions, "login", run_login, "sign in to a server that wants a person for it", EXAMPLES)
    logout = command(actions, "logout", run_logout, "throw away the token of a server", EXAMPLES)
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
    servers = _with_server(options, lambda server: server.ask("GET", "/servers", _List)).servers
    if not servers:
        print("There are no servers. `toolyard servers add --help` tells how to add one.")
        return
    rows = [
        (one.id, one.status, str(one.tools), str(one.quarantined or "-"), str(one.restarts), one.protocol or "-",
         (one.error_message or "")[:80])
        for one in servers
    ]  # fmt: skip
    print(table(("name", "status", "tools", "waiting", "restarts", "protocol", "error"), rows))


def run_add(options: argparse.Namespace) -> int:
    if bool(options.command) == bool(options.server_url):
        raise Misused("name a command after --, or an address with --url")
    config: dict[str, object] = {
        "command": options.command[0] if options.command else "",
        "args": options.command[1:],
        "env": dict(_pair(one, "=") for one in options.env),
        "cwd": options.cwd,
        "url": options.server_url,
        "headers": dict(_pair(one, ":") for one in options.headers),
        "trust": options.trust,
        "auth": "caller" if options.per_caller else "server",
        "pin": "off" if options.no_pin else "on",
    }
    body = {"name": options.name, "config": config}
    return _report_start(_with_server(options, lambda server: server.ask("POST", "/servers", _Said, body)))


def run_tools(options: argparse.Namespace) -> None:
    tools = _with_server(options, lambda server: server.ask("GET", f"{_path(options)}/tools", _Tools)).tools
    rows = [(one.name, one.offered_as, one.state, one.description.partition("\n")[0][:80]) for one in tools]
    print(table(("name", "offered as", "state", "what it does"), rows) if rows else "It lists no tools.")


def run_accept(options: argparse.Namespace) -> None:
    path = _path(options)

    async def accept(server: Server) -> list[_Tool]:
        listed = (await server.ask("GET", f"{path}/tools", _Tools)).tools
        chosen = [one for one in listed if one.state in (_NAMED if one.name in options.tools else _WAITING)]
        chosen = [one for one in chosen if not options.tools or one.name in options.tools]
        if chosen:
            await server.ask("POST", f"{path}/accept", _Tools, {"tools": [one.name for one in chosen]})
        return chosen

    for one in (accepted := _with_server(options, accept)):
        print(f"{one.name} ({one.state})\n{one.difference}\n")
    print(f"Accepted: {', '.join(one.name for one in accepted)}" if accepted else "There is nothing to accept.")


def run_reject(options: argparse.Namespace) -> None:
    body = {"tools": options.tools}
    _with_server(options, lambda server: server.ask("POST", f"{_path(options)}/reject", _Tools, body))
    print(f"Kept out: {', '.join(options.tools)}")


def run_call(options: argparse.Namespace) -> int:
    try:
        arguments = msgspec.json.decode(options.arguments, type=dict[str, object])
    except (msgspec.DecodeError, UnicodeError) as error:
        raise Misused(f"the arguments must be a JSON object: {error}") from None
    body = {"tool_name": options.tool, "arguments": arguments}
    path = f"{_path(options)}/tools/call"
    told = _with_server(options, lambda server: server.ask("POST", path, _Called, body))
    print(told.result if told.result is not None else f"{told.message} ({told.conversation_id})")
    return 0 if told.success else 1


def run_login(options: argparse.Namespace) -> None:
    path = f"{_path(options)}/login"

    async def login(server: Server) -> _Said:
        async with waiting_for_page(options.port) as page:
            begun = await server.ask("POST", path, _Page, {"redirect_uri": page.address})
            print(f"Sign in at this address:\n{openable(begun.authorization_url)}", flush=True)
            if not options.no_browser:
                await asyncio.to_thread(webbrowser.open, begun.authorization_url)
            answer = await page.answer(begun.state)
            return await server.ask("POST", f"{path}/answer", _Said, answer)

    print(_with_server(options, login).message)


def run_logout(options: argparse.Namespace) -> None:
    path = f"{_path(options)}/login"
    print(_with_server(options, lambda server: server.ask("DELETE", path, _Said)).message)


_WAITING = ("new", "changed")
_NAMED = (*_WAITING, "rejected")


def _run_act(act: str) -> Callable[[argparse.Namespace], int]:
    def run(options: argparse.Namespace) -> int:
        method, path = ("DELETE", _path(options)) if act == "remove" else ("POST", f"{_path(options)}/{act}")
        answer = _with_server(options, lambda server: server.ask(method, path, _Said))
        if act == "start":
            return _report_start(answer)
        print(answer.message)
        return 0

    return run


def _report_start(answer: _Said) -> int:
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


def _with_server(options: argparse.Namespace, ask: Callable[[Server], Awaitable[T]]) -> T:
    async def asked() -> T:
        async with server_or_store(set_up(options).config.store, options.url, options.key) as place:
            if not isinstance(place, Server):
                raise Misconfigured("no server is running: start one with `toolyard serve`, or name one with --server")
            return await ask(place)

    return asyncio.run(asked())


def _path(options: argparse.Namespace) -> str:
    return f"/servers/{quote(options.name, safe='')}"


def _pair(text: str, sign: str) -> tuple[str, str]:
    name, found, value = text.partition(sign)
    if not found or not name.strip():
        raise Misused(f"{text!r} must be NAME{sign}VALUE")
    return name.strip(), value.strip()
