"""Finds the run that a client was told to wait for: its last answer holds the link to a call that a person decides.

While the run waits, a new request gets the same sentence again and starts nothing. Once it has ended, its calls, their
results and its own answer stand in the history in place of the sentence.
"""

import re
from collections.abc import Sequence

from msgspec import Struct

from toolyard.core.caller import Caller
from toolyard.core.errors import NotFound
from toolyard.core.items import Call, Item, ModelText, Result, SystemText, UserMessage
from toolyard.core.run_view import RunView
from toolyard.engine.service import Service
from toolyard.surfaces.call_ids import parse_call_id
from toolyard.surfaces.openai.current_run import wait_for_current_run

_LINKED_CALL = re.compile(r"[?]call=(call_[0-9a-f]{24}-[0-9a-f]{24})")


class LinkedCall(Struct, frozen=True, kw_only=True):
    """A call that the last answer of a history names, and where that answer is."""

    conversation: str
    call_id: str
    position: int


def find_linked_call(items: Sequence[Item]) -> LinkedCall | None:
    """Return the call that the last answer of a history waits for, if it holds a link to one."""
    positions = range(len(items) - 1, -1, -1)
    position = next((index for index in positions if isinstance(items[index], ModelText)), -1)
    last = items[position] if position >= 0 else None
    links = _LINKED_CALL.findall(last.text) if isinstance(last, ModelText) else []
    if not links:
        return None
    conversation, call_id = parse_call_id(links[-1])
    return LinkedCall(conversation=conversation, call_id=call_id, position=position)


async def wait_for_decided_run(service: Service, linked: LinkedCall, caller: Caller) -> RunView | None:
    """Return the run of a linked call once it waits or has ended; None if there is none, or it is somebody else's."""
    try:
        await service.require_conversation(linked.conversation, caller)
    except NotFound:
        return None
    view = await wait_for_current_run(service, linked.conversation, caller)
    return view if view is not None and linked.call_id in view.calls else None


def replace_sentence(items: Sequence[Item], linked: LinkedCall, view: RunView) -> list[Item]:
    """Return the history with what the run did in place of what the client was told while it waited.

    That is the sentence, as often as the client got it, and what clients of `/v1/responses` send back beside it: the
    calls and texts of the run so far.
    """
    first = next(index for index, item in enumerate(items[: linked.position + 1]) if _is_sentence(item, view))
    asked = (index for index in range(first, -1, -1) if isinstance(items[index], UserMessage | SystemText))
    start = next(asked, -1) + 1
    echoes = _find_echoes(items[start:], view)
    before, after = [[item for item in part if item.id not in echoes] for part in (items[start:first], items[first:])]
    return [*items[:start], *before, *view.list_items(), *after]


def _find_echoes(items: Sequence[Item], view: RunView) -> set[str]:
    """Return the ids of the items that repeat what the run has said or called."""
    texts = {text.text for turn in view.turns for text in turn.texts}
    calls = {
        item.id
        for item in items
        if isinstance(item, Call) and f"call_{item.provider_id.removeprefix('mcp_')}" in view.calls
    }
    results = {item.id for item in items if isinstance(item, Result) and item.call_id in calls}
    sentences = {
        item.id for item in items if isinstance(item, ModelText) and (item.text in texts or _is_sentence(item, view))
    }
    return calls | results | sentences


def _is_sentence(item: Item, view: RunView) -> bool:
    """Return whether an item tells the client to wait for a call of the run."""
    links = _LINKED_CALL.findall(item.text) if isinstance(item, ModelText) else []
    return any(parse_call_id(link)[1] in view.calls for link in links)
