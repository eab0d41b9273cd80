"""Ours, as a user writes it: a yard, a tool, and `async for event in yard.run(…)`.

`TOOLYARD_STORE` names the store, `TOOLYARD_WIRE` a wire other than Chat Completions.
"""

import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from toolyard import Limits, UserMessage, Yard, tool
from toolyard.app import wired
from toolyard.core.events import TextAppended, TurnStarted
from toolyard.core.items import Item, ModelText, TextPart
from toolyard.core.limits import Budget
from toolyard.core.ports import Model
from toolyard.models.providers import Provider

sys.path.insert(0, str(Path(__file__).parent))
from _measure import QUESTION, Run, Setting, main

EVERYTHING = Budget(tools=10_000, schema_bytes=10_000_000)
"""The others show every tool, too."""


def tools_of(setting: Setting) -> list[object]:
    others = [tool(name=f"add_{number}")(setting.add) for number in range(1, setting.tools)]
    return [setting.add, setting.nap, *others]


def question(setting: Setting) -> str | Sequence[Item]:
    if not setting.prior:
        return QUESTION
    items: list[Item] = []
    for number, (asked, said) in enumerate(setting.texts()):
        items.append(UserMessage(id=f"asked_{number}", at=0.0, parts=(TextPart(text=asked),)))
        items.append(ModelText(id=f"said_{number}", at=0.0, text=said))
    return [*items, UserMessage(id="question", at=0.0, parts=(TextPart(text=QUESTION),))]


def model_of(setting: Setting) -> str | Model:
    wire = os.environ.get("TOOLYARD_WIRE", "")
    if not wire:
        return f"{setting.base_url}#bench"
    return wired(Provider(wire=wire), base_url=setting.base_url, model="bench", api_key="bench")


@asynccontextmanager
async def toolyard(setting: Setting) -> AsyncIterator[Run]:
    store = os.environ.get("TOOLYARD_STORE", "memory:")
    tools, asked = tools_of(setting), question(setting)
    async with Yard(tools=tools, model=model_of(setting), store=store, limits=Limits(), budget=EVERYTHING) as yard:

        async def run() -> str:
            text: list[str] = []
            async for event in yard.run(asked):
                if isinstance(event, TextAppended):
                    text.append(event.text)
                elif isinstance(event, TurnStarted):
                    text.clear()
            return "".join(text)

        yield run


if __name__ == "__main__":
    main(toolyard)
