"""Finds the runs that a client was told to wait for: its answers hold the links to calls that a person decides.

While the run waits, a new request gets the same sentence again and starts nothing. Once it has ended, its calls, their
results and its own answer stand in the history in place of the sentence.
"""

import re
from collections.abc import Sequence

from msgspec import Struct

from toolyard.core.caller import Caller
from toolyard.core.errors import NotFound
from toolyard.core.events import CallJudged
from toolyard.core.items import Item, ModelText
from toolyard.core.run_view import RunView
from toolyard.engine.service import Service
from toolyard.surfaces.call_ids import parse_call_id
from toolyard.surfaces.openai.current_run import wait_for_current_run

_LINKED_CALL = re.compile(r"[?]call=(call_[0-9a-f]{24}-[0-9a-f]{24})")


class LinkedCall(Struct, frozen=True, kw_only=True):
    """A call that an answer of a history names, and where that answer is."""

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


async def replace_earlier_sentences(
    service: Service, items: Sequence[Item], caller: Caller, end: int
) -> tuple[list[Item], list[str]]:
    """Return the history with what was done in place of each sentence before `end`, and the conversations of that.

    A sentence stays where its run has not ended, or is not the caller's.
    """
    replaced: list[Item] = []
    sources: list[str] = []
    for position, item in enumerate(items):
        links = _LINKED_CALL.findall(item.text) if isinstance(item, ModelText) and position < end else []
        view = await _find_ended_run(service, *parse_call_id(links[-1]), caller) if links else None
        replaced += [item] if view is None else view.list_items()
        sources += [view.conversation] if view is not None else []
    return replaced, sources


async def _find_ended_run(service: Service, conversation: str, call_id: str, caller: Caller) -> RunView | None:
    try:
        await service.require_conversation(conversation, caller)
    except NotFound:
        return None
    entries = await service.read_entries(conversation)
    judged = (entry for entry in entries if isinstance(entry.event, CallJudged) and entry.event.call_id == call_id)
    run = next((entry.run for entry in judged), "")
    view = RunView(run_id=run, conversation=conversation)
    for entry in entries if run else ():
        view.apply(entry)
    return view if view.status == "ended" else None


async def wait_for_decided_run(service: Service, linked: LinkedCall, caller: Caller) -> RunView | None:
    """Return the run of a linked call once it waits or has ended; None if there is none, or it is somebody else's."""
    try:
        await service.require_conversation(linked.conversation, caller)
    except NotFound:
        return None
    view = await wait_for_current_run(service, linked.conversation, caller)
    return view if view is not None and linked.call_id in view.calls else None


def replace_sentence(items: Sequence[Item], linked: LinkedCall, view: RunView) -> list[Item]:
    """Return the history with what the run did in place of the sentence that told the client to wait."""
    return [*items[: linked.position], *view.list_items(), *items[linked.position + 1 :]]
