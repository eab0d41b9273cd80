"""The `toolyard` command. It parses words and prints; everything else is the yard's."""

import argparse
import asyncio
import sys
from collections.abc import Sequence

from toolyard.core.errors import ToolyardError
from toolyard.core.events import (
    CallEnded,
    CallJudged,
    CallStarted,
    Event,
    RunEnded,
    TextAppended,
    TurnEnded,
    TurnFailed,
)
from toolyard.core.items import Call
from toolyard.core.ports import Model
from toolyard.demo import HELP, demo_script, grocery_tools
from toolyard.engine.telemetry import configure_logging
from toolyard.models.scripted import Scripted
from toolyard.yard import Yard

EPILOG = """examples:
  toolyard chat --demo                            a grocery list, no key needed
  toolyard chat --model openai:gpt-4o-mini        the same tools with a real model (OPENAI_API_KEY)
  toolyard chat --model http://127.0.0.1:8000/v1#my-model
"""


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parser().parse_args(arguments)
    if options.verbose:
        configure_logging()
    try:
        asyncio.run(_chat(options.model, options.store))
    except ToolyardError as error:
        sys.exit(f"toolyard: {error}")
    except KeyboardInterrupt:
        sys.exit(130)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="toolyard",
        description="Run tools for a language model: in this process, durably, with limits.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="command")
    chat = commands.add_parser(
        "chat", help="talk in the terminal", epilog=EPILOG, formatter_class=parser.formatter_class
    )
    chat.add_argument("--demo", dest="model", action="store_const", const="", help="a scripted model (the default)")
    chat.add_argument("--model", default="", help="such as openai:gpt-4o-mini, dashscope:qwen-plus, ollama:qwen3")
    chat.add_argument("--store", default="memory:", help="memory: (the default) or sqlite:///path/to/toolyard.db")
    chat.add_argument("--verbose", action="store_true", help="show the log lines, each with its correlation id")
    return parser


async def _chat(model_name: str, store: str) -> None:
    model: str | Model = model_name or Scripted(demo_script)
    async with Yard(tools=grocery_tools(), model=model, store=store) as yard:
        print(f"Toolyard chat · model {model_name or 'scripted demo'} · tools: {', '.join(yard.tool_names)}")
        print(HELP if not model_name else "Say something; an empty line or Ctrl-D ends.")
        conversation = ""
        while message := await asyncio.to_thread(_read_line):
            run = yard.run(message, conversation=conversation)
            conversation = run.conversation
            shown = _Screen()
            async for event in run:
                shown.show(event)


def _read_line() -> str:
    try:
        return input("\nyou: ").strip()
    except EOFError:
        return ""


class _Screen:
    """A run as lines in a terminal."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def show(self, event: Event) -> None:
        match event:
            case TextAppended(text=text):
                print(text, end="", flush=True)
            case TurnEnded(items=items):
                self._names |= {item.id: item.tool for item in items if isinstance(item, Call)}
            case CallStarted(call_id=call_id):
                print(f"  → {self._names.get(call_id, 'tool')} …")
            case CallJudged(verdict="ask", call_id=call_id):
                print(f"  ? {self._names.get(call_id)} waits for approval")
            case CallEnded(result=result):
                print(f"  ← {result.tool}: {result.outcome} ({result.duration_ms:.0f} ms)")
            case TurnFailed(problem=problem):
                print(f"  ! {problem.error}")
            case RunEnded(ending=ending, detail=detail, message=message):
                told = message.text if message else "" if ending == "done" else f"[{ending}: {detail}]"
                print(told)
            case _:
                pass
