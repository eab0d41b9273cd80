"""Finds the runs that a client was told to wait for: its answers hold the links to calls that a person decides.

While the run waits, a new request gets the same sentence again and starts nothing. Once it has ended, its calls, their
results and its own answer stand in the history in place of the sentence.
"""

import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing

from msgspec import Struct

from toolyard.core.caller import Caller
from toolyard.core.errors import NotFound
from toolyard.core.events import CallJudged
from toolyard.core.items import Call, Item, ModelText, Result, SystemText, UserMessage
from toolyard.core.run_view import RunView
from toolyard.engine.service import Service
from toolyard.surfaces.call_ids import parse_call_id
from toolyard.surfaces.current_run import watch_current_run

MAX_LINKS = 32
"""How many of the last links of a history are followed: each reads a log."""
MAX_SENTENCE_CHARS = 20_000
_LINKED_CALL = re.compile(r"[?]call=(call_[0-9a-f]{24}-[0-9a-f]{24})")


def link_call(call_id: str) -> str:
    """Return a bare link to a call that was handed out, which is a sentence like any other; empty if it is none."""
    link = f"?call={call_id}"
    return link if _LINKED_CALL.fullmatch(link) else ""


class LinkedCall(Struct, frozen=True, kw_only=True):
    """A call that the end of a history names."""

    conversation: str
    call_id: str
    is_last: bool
    """Whether nothing was said after the answer that names it: the run itself answers the request."""


def find_linked_call(items: Sequence[Item]) -> LinkedCall | None:
    """Return the call that the last answer of a history waits for, if it holds a link to one."""
    positions = range(len(items) - 1, -1, -1)
    position = next((index for index in positions if isinstance(items[index], ModelText)), -1)
    last = items[position] if position >= 0 else None
    links = _find_links(last) if last is not None else ()
    if not links:
        return None
    conversation, call_id = parse_call_id(links[-1])
    return LinkedCall(conversation=conversation, call_id=call_id, is_last=position == len(items) - 1)


def find_delivered_call(items: Sequence[Item]) -> LinkedCall | None:
    """Return the call that a request ends with the result of, if it was handed out here."""
    last = next((item for item in reversed(items) if isinstance(item, Call)), None)
    if last is None or not isinstance(items[-1], Result):
        return None
    conversation, call_id = parse_call_id(last.provider_id)
    return LinkedCall(conversation=conversation, call_id=call_id, is_last=False) if conversation else None


async def replace_sentences(
    service: Service, items: Sequence[Item], caller: Caller
) -> tuple[Sequence[Item], list[str]]:
    """Return the history with what was done in place of each sentence, and the conversations of that.

    A sentence stays where its run has not ended, or is not the caller's; a bare link is left out.
    """
    sentences = _find_sentences(items)
    links = dict.fromkeys(link for of_item in sentences.values() for link in of_item)
    sources: list[str] = []
    for link in list(links)[-MAX_LINKS:]:
        view = await _find_ended_run(service, *parse_call_id(link), caller)
        # A sentence may link to several calls of one run.
        if view is not None and (replaced := _select_sentences(items, sentences, view)):
            items = _replace_sentences(items, replaced, view)
            sources.append(view.conversation)
    # A bare link says nothing to the model.
    return [item for item in items if not (isinstance(item, ModelText) and _LINKED_CALL.fullmatch(item.text))], sources


def _find_sentences(items: Sequence[Item]) -> dict[str, Sequence[str]]:
    """Return the links of each item that tells the client to wait, by the item's id."""
    return {item.id: links for item in items if (links := _find_links(item))}


def _find_links(item: Item) -> Sequence[str]:
    # The sentence is the end of an answer, which may be as long as a request.
    return _LINKED_CALL.findall(item.text[-MAX_SENTENCE_CHARS:]) if isinstance(item, ModelText) else ()


def _select_sentences(items: Sequence[Item], sentences: Mapping[str, Sequence[str]], view: RunView) -> set[str]:
    """Return the ids of the items that tell the client to wait for a call of the run."""
    return {
        item.id for item in items if any(parse_call_id(link)[1] in view.calls for link in sentences.get(item.id, ()))
    }


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
    last: RunView | None = None
    async with aclosing(watch_decided_run(service, linked, caller)) as views:
        async for view in views:
            last = view
    return last


async def find_decided_run(service: Service, linked: LinkedCall, caller: Caller) -> RunView | None:
    """Return the run of a linked call as it is; None if there is none, or it is somebody else's."""
    async with aclosing(watch_decided_run(service, linked, caller)) as views:
        return await anext(views, None)


async def watch_decided_run(service: Service, linked: LinkedCall, caller: Caller) -> AsyncGenerator[RunView, None]:
    """Yield the run of a linked call until it waits or has ended; nothing if it is somebody else's or not there."""
    try:
        await service.require_conversation(linked.conversation, caller)
    except NotFound:
        return
    async with aclosing(watch_current_run(service, linked.conversation, caller)) as views:
        async for view in views:
            if view is None or linked.call_id not in view.calls:
                return
            yield view


def _replace_sentences(items: Sequence[Item], sentences: set[str], view: RunView) -> list[Item]:
    """Return the history with what the run did in place of what the client was told while it waited.

    That is the sentence, as often as the client got it, and what clients of `/v1/responses` send back beside it: the
    calls and texts of the run so far.
    """
    first = next(index for index, item in enumerate(items) if item.id in sentences)
    asked = (index for index in range(first, -1, -1) if isinstance(items[index], UserMessage | SystemText))
    start = next(asked, -1) + 1
    echoes = _find_echoes(items[start:], view) | sentences
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
    repeated = {item.id for item in items if isinstance(item, ModelText) and item.text in texts}
    return calls | results | repeated
