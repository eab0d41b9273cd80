"""The items that a response was asked with. Pure."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple, assert_never

from msgspec import Struct

from toolyard.core.caller import Caller
from toolyard.core.conversation.run_view import RunView
from toolyard.core.errors import NotFound
from toolyard.core.items import (
    Call,
    FilePart,
    ImagePart,
    Item,
    ModelText,
    Part,
    Reasoning,
    Result,
    SystemText,
    TextPart,
    UserMessage,
)
from toolyard.engine.service import Service
from toolyard.surfaces.http.errors import FieldNotFound
from toolyard.surfaces.openai.responses.ids import build_item_id
from toolyard.surfaces.openai.responses.output import OutputItem, build_message, list_output
from toolyard.surfaces.openai.responses.tool_kinds import WireTool, build_call_item, build_output_item, find_wire_tool

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


class StoredItem(NamedTuple):
    item: Item
    body: OutputItem
    """The item as clients are shown it."""


class InputItemList(Struct, kw_only=True):
    data: list[OutputItem]
    first_id: str | None
    last_id: str | None
    has_more: bool = False
    object: Literal["list"] = "list"


def build_input_items(
    view: RunView, *, order: Literal["asc", "desc"] = "desc", limit: int = 20, after: str = ""
) -> InputItemList:
    """Return a page of the input of a run, as `build_page` does."""
    stored = view.request.input if view.request else ()
    # A result names its call by our id: the client knows the call by the id that it sent.
    call_ids = {item.id: item.provider_id or item.id for item in stored if isinstance(item, Call)}
    items = build_items(stored, call_ids, lambda name: find_wire_tool(view, name))
    return build_page(items, order=order, limit=limit, after=after)


def build_items(
    items: Iterable[Item],
    call_ids: Mapping[str, str],
    find_tool: Callable[[str], WireTool] = lambda name: WireTool(name=name),
) -> list[StoredItem]:
    """Return the items that clients are shown, with their bodies. `call_ids` are the client's ids of calls.

    `find_tool` returns what the client calls the tool of a function.
    """
    stored = [StoredItem(item, _build_item(item, call_ids, find_tool)) for item in items]
    return [entry for entry in stored if entry.body]


def build_page(
    stored: Sequence[StoredItem], *, order: Literal["asc", "desc"] = "desc", limit: int = 20, after: str = ""
) -> InputItemList:
    """Return a page of the items, the last one first unless the order is `asc`. Raise NotFound for an unknown one."""
    items = [entry.body for entry in (stored if order == "asc" else reversed(stored))]
    ids = [str(item["id"]) for item in items]
    if after and after not in ids:
        raise NotFound(f"there is no item {after[:80]!r} here")
    start = ids.index(after) + 1 if after else 0
    end = start + limit
    page = ids[start:end]
    return InputItemList(
        data=items[start:end],
        first_id=page[0] if page else None,
        last_id=page[-1] if page else None,
        has_more=end < len(items),
    )


def _build_item(item: Item, call_ids: Mapping[str, str], find_tool: Callable[[str], WireTool]) -> OutputItem:
    match item:
        case UserMessage():
            content = [_build_part(part) for part in item.parts]
            return {"id": build_item_id("msg", item.id), "type": "message", "role": "user", "content": content}
        case SystemText():
            content = [{"type": "input_text", "text": item.text}]
            return {"id": build_item_id("msg", item.id), "type": "message", "role": "system", "content": content}
        case ModelText():
            return build_message(item.id, item.text, item.citations)
        case Call():
            return build_call_item(find_tool(item.tool), item.id, call_ids[item.id], item.arguments)
        case Result():
            call_id = call_ids.get(item.call_id, item.call_id)
            output = build_output_item(find_tool(item.tool), item.id, call_id, item.content)
            if item.parts:
                output["output"] = [{"type": "input_text", "text": item.content}, *map(_build_part, item.parts)]
            return output
        case Reasoning():
            return {}
        case _:
            assert_never(item)


def _build_part(part: Part) -> OutputItem:
    match part:
        case TextPart():
            return {"type": "input_text", "text": part.text}
        case ImagePart():
            return {"type": "input_image", "image_url": part.url, "detail": "auto"}
        case FilePart():
            return {"type": "input_file", "file_data": part.url, "filename": part.name}
        case _:
            assert_never(part)
