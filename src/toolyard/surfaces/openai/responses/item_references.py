"""Puts items of earlier responses in place of references to them, which clients send instead of the items."""

import re
from collections.abc import Sequence

from toolyard.core.caller import Caller
from toolyard.core.conversation.run_view import RunView
from toolyard.core.errors import NotFound
from toolyard.engine.service import Service
from toolyard.surfaces.http.errors import FieldNotFound
from toolyard.surfaces.openai.responses.output import OutputItem, list_output

REFERENCE = "item_reference"
_ITEM_ID = re.compile(r"[a-z]+_([0-9a-f]{24})[0-9a-f]{24}\w*")
"""The id of an output item, which begins with the digits of its conversation."""


async def replace_references(
    service: Service, items: Sequence[OutputItem], caller: Caller, conversation: str
) -> list[OutputItem]:
    """Return the input with the items that it refers to. Those of `conversation`, which it goes on in, are left out.

    Raise FieldNotFound for a reference to an item that is not there for this caller.
    """
    outputs: dict[str, dict[str, OutputItem]] = {}
    replaced: list[OutputItem] = []
    for index, item in enumerate(items):
        if item.get("type") != REFERENCE:
            replaced.append(item)
            continue
        item_id = str(item.get("id") or "")
        match = _ITEM_ID.fullmatch(item_id)
        source = f"conversation_{match[1]}" if match else ""
        if source and source not in outputs:
            outputs[source] = await _load_output(service, source, caller)
        if item_id not in outputs.get(source, {}):
            raise FieldNotFound(f"there is no item {item_id[:80]!r}: send the item itself", f"input.{index}.id")
        if source != conversation:
            replaced.append(outputs[source][item_id])
    return replaced


async def _load_output(service: Service, conversation: str, caller: Caller) -> dict[str, OutputItem]:
    """Return the output items of all responses in a conversation, by their ids; none if it is not the caller's."""
    try:
        await service.conversations.require(conversation, caller)
    except NotFound:
        return {}
    views: dict[str, RunView] = {}
    for entry in await service.conversations.read_entries(conversation):
        if entry.run:
            views.setdefault(entry.run, RunView(run_id=entry.run, conversation=conversation)).apply(entry)
    return {str(item["id"]): item for view in views.values() for item in list_output(view)}
