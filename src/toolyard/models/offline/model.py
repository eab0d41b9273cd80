"""`toolyard:offline`: a Model that needs no key and no network. The planner decides its turns."""

import re
from collections.abc import AsyncGenerator
from datetime import datetime
from weakref import WeakKeyDictionary

import msgspec

from toolyard.core.conversation.events import ArgumentsAppended, ModelDelta, TextAppended, TurnEnded, TurnFailed
from toolyard.core.items import Call, Item, ModelText, Usage, UserMessage
from toolyard.core.ports import ModelRequest, Offer
from toolyard.core.settings.models.options import Options, list_set_options
from toolyard.core.tools.definition import Tool
from toolyard.models.offline.catalogue import Catalogue, CatalogueTool
from toolyard.models.offline.dialogue import encode_dialogue
from toolyard.models.offline.parameters import detect_language
from toolyard.models.offline.planner import OfflineStep, Planner, offer_examples
from toolyard.models.shared.option_support import find_unsupported

NAME = "toolyard:offline"
MISSING_OPTIONS = ("stop", "output_schema")
MAX_CACHED_TOOLS = 2_000
"""The most tools whose parsed schemas are cached."""
MAX_RECENT_ITEMS = 200
"""How many items of a conversation are read: an exchange is far shorter."""


class Offline:
    def __init__(self) -> None:
        self._catalogues: WeakKeyDictionary[Offer, Catalogue] = WeakKeyDictionary()
        self._tools: dict[str, CatalogueTool] = {}

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | TurnEnded | TurnFailed, None]:
        # It writes the same text each time and cannot shape it; the other options have no meaning for it.
        if problem := find_unsupported(request.options, MISSING_OPTIONS, NAME):
            yield TurnFailed(problem=problem)
            return
        step = self.next_step(request)
        clock = request.clock
        offset = 0
        for piece in re.findall(r"\s*\S{1,40}", step.text):
            yield TextAppended(turn=request.turn, offset=offset, text=piece)
            offset += len(piece.encode())
        calls = [
            Call(
                id=clock.new_id("call"),
                at=clock.now(),
                tool=draft.tool,
                arguments=draft.arguments,
                confirm=step.confirm,
            )
            for draft in step.calls
        ]
        for index, call in enumerate(calls):
            text = msgspec.json.encode(call.arguments).decode()
            yield ArgumentsAppended(
                turn=request.turn, call_id=call.id, index=index, tool=call.tool, offset=0, text=text
            )
        items: list[Item] = []
        if step.dialogue is not None:
            items.append(encode_dialogue(step.dialogue, clock.new_id("item"), clock.now()))
        if step.text:
            items.append(
                ModelText(id=clock.new_id("item"), at=clock.now(), text=step.text, suggestions=step.suggestions)
            )
        usage = Usage(input_tokens=1 + len(request.history), output_tokens=len(step.text.split()) + len(calls))
        yield TurnEnded(items=(*items, *calls), finish="calls" if calls else "stop", usage=usage, model=NAME)

    def list_ignored(self, options: Options) -> list[str]:
        """Return all that is set: what has a meaning for it fails the turn."""
        plain = [name for name in list_set_options(options) if name not in (*MISSING_OPTIONS, "extra")]
        return [*plain, *options.extra]

    async def close(self) -> None:
        pass

    def next_step(self, request: ModelRequest) -> OfflineStep:
        items = request.history.items_from(max(0, len(request.history) - MAX_RECENT_ITEMS))
        catalogue = self._get_catalogue(request.offer).narrow_to(request.tool_choice)
        if request.tool_choice == "none":
            message = next((item.text for item in reversed(items) if isinstance(item, UserMessage)), "")
            return offer_examples(catalogue, message, detect_language(message))
        return Planner(catalogue).next_step(items, datetime.fromtimestamp(request.clock.now()))

    def _get_catalogue(self, offer: Offer) -> Catalogue:
        """Return the catalogue of an offer, built once. Built-in and provider tools are for language models only."""
        if (catalogue := self._catalogues.get(offer)) is None:
            tools = [tool for tool in offer.tools if not tool.built_in and tool.venue != "provider"]
            catalogue = self._catalogues[offer] = Catalogue([self._get_tool(tool) for tool in tools])
        return catalogue

    def _get_tool(self, tool: Tool) -> CatalogueTool:
        entry = self._tools.get(tool.name)
        if entry is None or entry.tool is not tool:
            if len(self._tools) >= MAX_CACHED_TOOLS:
                self._tools.clear()
            entry = self._tools[tool.name] = CatalogueTool(tool)
        return entry
