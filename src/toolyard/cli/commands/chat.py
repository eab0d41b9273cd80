"""`toolyard chat`: a conversation in the terminal, with a running server or with a yard in this process."""

import argparse
import asyncio
import signal
import sys
from collections.abc import Generator
from contextlib import AsyncExitStack, aclosing, contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Annotated

import msgspec
from pydantic import Field

from toolyard.app import Wiring
from toolyard.cli.commands import COMMANDS
from toolyard.cli.common import (
    Commands,
    add_command,
    add_config_flags,
    add_server_flags,
    load_setup,
    read_environment,
)
from toolyard.cli.conversation import ChatClient, LocalChatClient, ServerChatClient
from toolyard.cli.one_shot import OneShotChat
from toolyard.cli.screen import Screen
from toolyard.cli.server_client import connect, find_owner_url
from toolyard.cli.terminal import InputEnded, Interrupted, Terminal
from toolyard.cli.usage import UsageError
from toolyard.core.conversation.events import Entry, RunSuspended
from toolyard.core.errors import Misconfigured, Refused, ToolyardError
from toolyard.core.settings.models.names import OFFLINE
from toolyard.server.config import find_data_directory
from toolyard.server.wiring import build_wiring
from toolyard.venues.function import FunctionTool, tool
from toolyard.yard import Yard

EXAMPLES = """  toolyard chat --demo                            a grocery list and the offline model; nothing is saved
  toolyard chat --tools ./my_tools.py --model ollama:qwen3
  toolyard chat --server http://127.0.0.1:8080    with a running server (and --key, if it asks for one)
  toolyard chat "what is on my grocery list?"     send one message, print the answer and exit
  echo "add milk to groceries" | toolyard chat    every line of the input is a message

Without --server, the chat uses the server that has the configured store open, or opens the store itself if no server
runs. Ctrl-C stops a run, and a second Ctrl-C exits. If a tool call needs approval, answer y (yes), n (no) or
e (edit its arguments); a (all) and d (deny all) answer for all calls of a program that ask at once.
"""
CHAT_COMMANDS = """  /new      begin another conversation
  /history  show the messages of this conversation
  /quit     exit (or Ctrl-D)
  /help     show this list"""
GRACE_S = 1.0


def add_to(commands: Commands) -> None:
    parser = add_command(commands, "chat", run, COMMANDS["chat"], EXAMPLES)
    parser.add_argument(
        "message", nargs="*", help="one message; without it, messages are typed in or read from standard input"
    )
    parser.add_argument(
        "--demo", action="store_true", help="use the offline model and a grocery list; the configuration is not read"
    )
    add_server_flags(parser)
    add_config_flags(parser, "model", "store", "tools")


def run(options: argparse.Namespace) -> int:
    if options.demo and options.url:
        raise UsageError("--demo uses no server: leave --server out")
    return asyncio.run(_ask_once(options, " ".join(options.message)) if options.message else _chat(options))


async def _ask_once(options: argparse.Namespace, message: str) -> int:
    """Print the answer to one message. Return 1, with the reason on standard error, if there is no answer."""
    async with AsyncExitStack() as opened:
        client = await _open_client(options, None, opened)
        try:
            return await OneShotChat(client).ask(message)
        except asyncio.CancelledError:  # Ctrl-C: on a server the run would otherwise go on
            await client.stop()
            raise


async def _chat(options: argparse.Namespace) -> int:
    terminal = Terminal()
    history_file = Path(find_data_directory(read_environment(), sys.platform)) / "chat_history"
    async with AsyncExitStack() as opened:
        client = await _open_client(options, terminal, opened)
        with terminal.keep_history(history_file):
            try:
                await _ChatLoop(client, terminal).run_until_exit()
            except InputEnded:
                terminal.write_line()
            except asyncio.CancelledError:  # a second Ctrl-C
                terminal.write_line("  … left; a run that has not ended goes on at the next start")
                return 130
    return 0


async def _open_client(options: argparse.Namespace, terminal: Terminal | None, opened: AsyncExitStack) -> ChatClient:
    """Open the server that `--server` names, else a yard of this process, else the server that has its store open."""

    def greet(text: str) -> None:
        if terminal is not None:
            terminal.write_line(f"Toolyard chat · {text} · /help lists the commands")

    url = options.url
    if not url:
        wired = _build_demo_wiring() if options.demo else _load_wiring(options)
        try:
            yard = await opened.enter_async_context(Yard.from_wiring(wired))
        except Misconfigured as error:
            url = find_owner_url(wired.store, error)
        else:
            greet(f"model {yard.service.models.default} · {_describe_tools(yard)}")
            return LocalChatClient(yard)
    server = await opened.enter_async_context(connect(url, options.key))
    health = await server.request("GET", "/ai/tools/health", _Health)  # fail now, not after the first message
    greet(f"server {url} · model {health.model}")
    return ServerChatClient(server)


class _Health(msgspec.Struct):
    model: str


def _load_wiring(options: argparse.Namespace) -> Wiring:
    setup = load_setup(options)
    return replace(build_wiring(setup.config, setup.base), grace_s=GRACE_S)


def _build_demo_wiring() -> Wiring:
    return Wiring(model=OFFLINE, tools=build_grocery_tools(), grace_s=GRACE_S)


def build_grocery_tools() -> list[FunctionTool[..., object]]:
    """Return the tools of `--demo`: a grocery list in memory, which needs no file, no key and no network."""
    groceries: list[str] = []

    @tool(
        examples=["add {item} to groceries", "add {qty} {item} to groceries", "把{item}加到购物清单"],
        propose=["we need {qty} {item}"],
        says=["Added {qty} {item} to the grocery list.", "已将{item}加入购物清单，数量 {qty}。"],
    )
    def add_to_groceries(item: Annotated[str, Field(examples=["milk", "牛奶"])], qty: int = 1) -> dict[str, object]:
        """Put an item on the grocery list."""
        groceries.append(f"{qty} × {item}" if qty > 1 else item)
        return {"ok": True, "item": item, "qty": qty, "on_the_list": len(groceries)}

    @tool(read_only=True, examples=["show groceries", "查看购物清单"])
    def show_groceries() -> list[str]:
        """Everything on the grocery list."""
        return groceries

    return [add_to_groceries, show_groceries]


def _describe_tools(yard: Yard) -> str:
    names = [name for name in yard.tool_names if name not in ("read_result", "find_tools")]
    return f"tools: {', '.join(names)}" if names else "no tools (see `toolyard serve --help`)"


class _ChatLoop:
    """The loop that reads messages and commands until the user exits."""

    def __init__(self, client: ChatClient, terminal: Terminal) -> None:
        self._client = client
        self._terminal = terminal

    async def run_until_exit(self) -> None:
        warned = False
        while True:
            try:
                message = self._terminal.ask("" if self._terminal.is_piped else "\nyou: ")
            except Interrupted:
                if warned:
                    raise InputEnded from None
                warned = True
                self._terminal.write_line("  (Ctrl-C once more, or /quit, leaves)")
                continue
            warned = False
            self._terminal.add_to_history(message)
            if message == "/quit":
                return
            try:
                await self._handle_input(message)
            except ToolyardError as error:
                self._terminal.write_line(f"  ! {error}")

    async def _handle_input(self, message: str) -> None:
        match message:
            case "":
                pass
            case "/help":
                self._terminal.write_line(CHAT_COMMANDS)
            case "/new":
                self._client.conversation = ""
                self._terminal.write_line("  a new conversation")
            case "/history":
                for role, text in await self._client.list_messages() if self._client.conversation else ():
                    self._terminal.write_line(f"  {role}: {text}")
            case _ if message.startswith("/"):
                self._terminal.write_line(
                    f"  there is no command {message.split()[0]}; the commands are:\n{CHAT_COMMANDS}"
                )
            case _:
                await self._run_message(message)

    async def _run_message(self, message: str) -> None:
        """Send a message and show its run to the end. The first Ctrl-C stops the run, the second exits."""
        pressed = asyncio.Event()
        with _catch_ctrl_c(pressed):
            over = asyncio.Event()
            await asyncio.gather(self._show_run(message, pressed, over), self._stop_on_interrupt(pressed, over))

    async def _show_run(self, message: str, pressed: asyncio.Event, over: asyncio.Event) -> None:
        screen = Screen(self._terminal)
        try:
            async with aclosing(self._client.send(message)) as items:
                async for item in items:
                    screen.show(item)
                    if isinstance(item, Entry) and isinstance(item.event, RunSuspended):
                        await self._decide(screen, pressed)
        finally:
            self._terminal.end_text()
            over.set()
            pressed.set()  # ends _stop_on_interrupt, which waits for it

    async def _stop_on_interrupt(self, pressed: asyncio.Event, over: asyncio.Event) -> None:
        await pressed.wait()
        if not over.is_set():
            self._terminal.write_line("  … stopping; Ctrl-C once more leaves")
            await self._client.stop()

    async def _decide(self, screen: Screen, pressed: asyncio.Event) -> None:
        """Ask the user about each call until the decision is accepted. Ctrl-C at the question stops the run."""
        waiting = screen.list_waiting_calls()
        refusals = await self._client.list_refusals()
        for call_id in [call_id for call_id in waiting if call_id in refusals]:
            self._terminal.write_line(f"  … {refusals[call_id]}; Ctrl-C stops it")
            waiting.remove(call_id)
        while waiting and not pressed.is_set():
            try:
                await self._client.decide(screen.ask_decision(waiting[0]))
                del waiting[0]
            except Interrupted:
                pressed.set()
            except Refused as error:  # the call expired, or another user decided first
                self._terminal.write_line(f"    ! {error}")
                del waiting[0]
            except ToolyardError as error:
                self._terminal.write_line(f"    ! {error}")


@contextmanager
def _catch_ctrl_c(pressed: asyncio.Event) -> Generator[None]:
    """Let the first Ctrl-C within the block set the event, and the second cancel the current task."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None

    def press(number: int, frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(task.cancel if pressed.is_set() else pressed.set)

    before = signal.signal(signal.SIGINT, press)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
