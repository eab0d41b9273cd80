"""Toolyard's loop, as a user writes it: a yard, a tool, and `async for event in yard.run(…)`.

`TOOLYARD_STORE` names the store, `TOOLYARD_WIRE` a wire other than Chat Completions.
"""

import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from toolyard import Limits, UserMessage, Yard, tool
from toolyard.core.conversation.events import TextAppended, TurnStarted
from toolyard.core.items import Item, ModelText, TextPart
from toolyard.core.ports import Model
from toolyard.core.settings.limits import Budget
from toolyard.models.providers import ProviderPreset
from toolyard.models.resolver import ModelEndpoint, make_wired_model

sys.path.insert(0, str(Path(__file__).parent))
from _measure import QUESTION, Run, Setting, main

EVERYTHING = Budget(tools=10_000, schema_bytes=10_000_000)
"""No limit, because the other libraries show every tool as well."""


def build_tools(setting: Setting) -> list[object]:
    others = [tool(name=f"add_{number}")(setting.add) for number in range(1, setting.tools)]
    return [setting.add, setting.nap, *others]


def build_question(setting: Setting) -> str | Sequence[Item]:
    if not setting.prior:
        return QUESTION
    items: list[Item] = []
    for number, (user_text, model_text) in enumerate(setting.build_prior_texts()):
        items.append(UserMessage(id=f"asked_{number}", at=0.0, parts=(TextPart(text=user_text),)))
        items.append(ModelText(id=f"said_{number}", at=0.0, text=model_text))
    return [*items, UserMessage(id="question", at=0.0, parts=(TextPart(text=QUESTION),))]


def choose_model(setting: Setting) -> str | Model:
    wire = os.environ.get("TOOLYARD_WIRE", "")
    if not wire:
        return f"{setting.base_url}#bench"
    preset = ProviderPreset(wire=wire)
    return make_wired_model(ModelEndpoint(base_url=setting.base_url, model="bench", api_key="bench", preset=preset))


@asynccontextmanager
async def open_toolyard(setting: Setting) -> AsyncIterator[Run]:
    store = os.environ.get("TOOLYARD_STORE", "memory:")
    tools, question = build_tools(setting), build_question(setting)
    async with Yard(tools=tools, model=choose_model(setting), store=store, limits=Limits(), budget=EVERYTHING) as yard:

        async def run() -> str:
            text: list[str] = []
            async for event in yard.run(question):
                if isinstance(event, TextAppended):
                    text.append(event.text)
                elif isinstance(event, TurnStarted):
                    text.clear()
            return "".join(text)

        yield run


if __name__ == "__main__":
    main(open_toolyard)
