"""`toolyard chat`: a conversation in the terminal, with a running server or with a yard of its own."""

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Generator
from contextlib import AsyncExitStack, aclosing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FrameType

import msgspec

from toolyard.app import OFFLINE, Wiring
from toolyard.cli.common import Commands, Misused, add_config_flags, add_server_flags, command, environment, set_up
from toolyard.cli.conversation import LocalTalk, ServerTalk, Talk
from toolyard.cli.demo import grocery_tools
from toolyard.cli.one_shot import OneQuestion
from toolyard.cli.screen import Screen
from toolyard.cli.server_client import connected, owner_url
from toolyard.cli.terminal import Interrupted, Left, Terminal
from toolyard.core.errors import Misconfigured, Refused, ToolyardError
from toolyard.core.events import Entry, RunSuspended
from toolyard.server.config import Config, data_directory
from toolyard.server.wiring import named_model, wiring
from toolyard.yard import Yard

EXAMPLES = """  toolyard chat --demo                            a grocery list and the offline model; nothing is kept
  toolyard chat --tools ./my_tools.py --model ollama:qwen3
  toolyard chat --server http://127.0.0.1:8080    with a running server (and --key, if it asks for one)
  toolyard chat "what is on my grocery list?"     one question: prints the answer and leaves
  echo "add milk to groceries" | toolyard chat    every line is a message

Without --server it talks to the server that has the configured store, if one runs; else it opens the store itself.
Ctrl-C stops a run, a second one leaves. A call that asks first is answered with y, n or e (edit its arguments).
"""
COMMANDS = """  /new      begin another conversation
  /history  what was said in this one
  /quit     leave (or Ctrl-D)
  /help     this"""
GRACE_S = 1.0


def add_to(commands: Commands) -> None:
    made = command(commands, "chat", run, "talk in the terminal", EXAMPLES)
    made.add_argument("message", nargs="*", help="one message; without it, messages are typed or read from a pipe")
    made.add_argument("--demo", action="store_true", help="the offline model and a grocery list, kept in memory")
    add_server_flags(made)
    add_config_flags(made, "model", "store", "tools")


def run(options: argparse.Namespace) -> int:
    if options.demo and options.url:
        raise Misused("--demo is a yard of its own: leave --server out")
    return asyncio.run(_ask_once(options, " ".join(options.message)) if options.message else _chat(options))


async def _ask_once(options: argparse.Namespace, message: str) -> int:
    """Print the answer to one message. Return 1, with the reason on standard error, if there is none."""
    async with AsyncExitStack() as opened:
        talk = await _talk(options, None, opened)
        question = OneQuestion(talk)
        try:
            return await question.ask(message)
        except asyncio.CancelledError:  # Ctrl-C: nobody waits for the answer any more
            await talk.stop()
            raise


async def _chat(options: argparse.Namespace) -> int:
    terminal = Terminal()
    remembered = Path(data_directory(environment(), sys.platform)) / "chat_history"
    async with AsyncExitStack() as opened:
        talk = await _talk(options, terminal, opened)
        with terminal.remembering(remembered):
            try:
                await _Chat(talk, terminal).until_left()
            except Left:
                terminal.line()
            except asyncio.CancelledError:  # a second Ctrl-C
                terminal.line("  … left; what was running is taken up at the next start")
                return 130
    return 0


async def _talk(options: argparse.Namespace, terminal: Terminal | None, opened: AsyncExitStack) -> Talk:
    """With the server that was named, with a yard of our own, or with the server that has its store."""

    def greet(text: str) -> None:
        if terminal is not None:
            terminal.line(f"Toolyard chat · {text} · /help tells more")

    url = options.url
    if not url:
        wired = _demo() if options.demo else _wired(options)
        try:
            yard = await opened.enter_async_context(Yard.wired(wired))
        except Misconfigured as error:
            url = owner_url(wired.store, error)
        else:
            greet(f"model {yard.service.default_model} · {_tools(yard)}")
            return LocalTalk(yard)
    server = await opened.enter_async_context(connected(url, options.key))
    health = await server.ask("GET", "/ai/tools/health", _Health)  # now, and not after the first message
    greet(f"server {url} · model {health.model}")
    return ServerTalk(server)


class _Health(msgspec.Struct):
    model: str


def _wired(options: argparse.Namespace) -> Wiring:
    setup = set_up(options)
    return replace(wiring(setup.config, setup.base), grace_s=GRACE_S)


def _demo() -> Wiring:
    named = partial(named_model, config=Config(), environment=os.environ)
    return Wiring(model=OFFLINE, named_model=named, tools=grocery_tools(), grace_s=GRACE_S)


def _tools(yard: Yard) -> str:
    names = [name for name in yard.tool_names if name not in ("read_result", "find_tools")]
    return f"tools: {', '.join(names)}" if names else "no tools (see `toolyard serve --help`)"


class _Chat:
    """Message by message, until somebody leaves."""

    def __init__(self, talk: Talk, terminal: Terminal) -> None:
        self._talk = talk
        self._terminal = terminal

    async def until_left(self) -> None:
        warned = False
        while True:
            try:
                message = self._terminal.ask("" if self._terminal.alone else "\nyou: ")
            except Interrupted:
                if warned:
                    raise Left from None
                warned = True
                self._terminal.line("  (Ctrl-C once more, or /quit, leaves)")
                continue
            warned = False
            self._terminal.remember(message)
            if message == "/quit":
                return
            try:
                await self._obey(message)
            except ToolyardError as error:
                self._terminal.line(f"  ! {error}")

    async def _obey(self, message: str) -> None:
        match message:
            case "":
                pass
            case "/help":
                self._terminal.line(COMMANDS)
            case "/new":
                self._talk.conversation = ""
                self._terminal.line("  a new conversation")
            case "/history":
                for who, said in await self._talk.history() if self._talk.conversation else ():
                    self._terminal.line(f"  {who}: {said}")
            case _ if message.startswith("/"):
                self._terminal.line(f"  there is no command {message.split()[0]}; these there are:\n{COMMANDS}")
            case _:
                await self._run(message)

    async def _run(self, message: str) -> None:
        """Show a run to its end. The first Ctrl-C stops it, the second leaves."""
        pressed = asyncio.Event()
        with _ctrl_c(pressed):
            over = asyncio.Event()
            await asyncio.gather(self._shown(message, pressed, over), self._stopped(pressed, over))

    async def _shown(self, message: str, pressed: asyncio.Event, over: asyncio.Event) -> None:
        screen = Screen(self._terminal)
        try:
            async with aclosing(self._talk.say(message)) as items:
                async for item in items:
                    screen.show(item)
                    if isinstance(item, Entry) and isinstance(item.event, RunSuspended):
                        await self._decide(screen, pressed)
        finally:
            over.set()
            pressed.set()

    async def _stopped(self, pressed: asyncio.Event, over: asyncio.Event) -> None:
        await pressed.wait()
        if not over.is_set():
            self._terminal.line("  … stopping; Ctrl-C once more leaves")
            await self._talk.stop()

    async def _decide(self, screen: Screen, pressed: asyncio.Event) -> None:
        """Ask the person about each call, until what they say is accepted. Ctrl-C in answer stops the run."""
        waiting = screen.waiting()
        while waiting and not pressed.is_set():
            try:
                await self._talk.decide(screen.decision(waiting[0]))
                del waiting[0]
            except Interrupted:
                pressed.set()
            except Refused as error:  # it expired, or somebody else was quicker
                self._terminal.line(f"    ! {error}")
                del waiting[0]
            except ToolyardError as error:
                self._terminal.line(f"    ! {error}")


@contextmanager
def _ctrl_c(pressed: asyncio.Event) -> Generator[None]:
    """The first sets the event, the second cancels the task that is running now."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None

    def press(number: int, frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(task.cancel if pressed.is_set() else pressed.set)

    before = signal.signal(signal.SIGINT, press)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
