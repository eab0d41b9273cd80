"""Finds the runs that a client was told to wait for: its answers hold the links to calls that a person decides.

While the run waits, the same request gets the same sentence again and starts nothing. A new message lets calls go that
only its user may decide; one that others decide stays open, and the answer begins with the sentence. Once the run has
ended, its calls, their results and its own answer stand in the history in place of the sentence.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from msgspec import Struct

from toolyard.core.caller import Caller
from toolyard.core.conversation.commands import Stop
from toolyard.core.conversation.run_view import RunView
from toolyard.core.errors import NotFound, Refused
from toolyard.core.items import Call, Item, ModelText, Result, UserMessage
from toolyard.engine.service import Service
from toolyard.surfaces.shared.call_ids import parse_call_id
from toolyard.surfaces.shared.followed_run import watch_current_run
from toolyard.surfaces.shared.waiting_sentences import LINKED_CALL, find_links


def link_call(call_id: str) -> str:
    """Return a bare link to a call that was handed out, which is a sentence like any other; empty if it is none."""
    link = f"?call={call_id}"
    return link if LINKED_CALL.fullmatch(link) else ""


class LinkedCall(Struct, frozen=True, kw_only=True):
    """A call that the end of a history names."""

    conversation: str
    call_id: str
    is_last: bool
    """Whether the user said nothing after the answer that names it: the run itself answers the request."""


def find_linked_call(items: Sequence[Item]) -> LinkedCall | None:
    """Return the call that the last answer of a history waits for, if it holds a link to one."""
    positions = range(len(items) - 1, -1, -1)
    position = next((index for index in positions if isinstance(items[index], ModelText)), -1)
    last = items[position] if position >= 0 else None
    links = find_links(last) if last is not None else ()
    if not links:
        return None
    conversation, call_id = parse_call_id(links[-1])
    has_message = any(isinstance(item, UserMessage) for item in items[position + 1 :])
    return LinkedCall(conversation=conversation, call_id=call_id, is_last=not has_message)


def find_delivered_call(items: Sequence[Item]) -> LinkedCall | None:
    """Return the call that a request ends with the result of, if it was handed out here."""
    last = next((item for item in reversed(items) if isinstance(item, Call)), None)
    if last is None or not isinstance(items[-1], Result):
        return None
    conversation, call_id = parse_call_id(last.provider_id)
    return LinkedCall(conversation=conversation, call_id=call_id, is_last=False) if conversation else None


async def let_go(service: Service, view: RunView, caller: Caller) -> bool:
    """Deny what a run waits for, since its user has gone on. Return False if it waits for others: then it stays."""
    try:
        await service.conversations.submit(view.conversation, Stop(by=caller, run_id=view.run_id, went_on=True))
    except Refused:
        return False
    return True


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
        await service.conversations.require(linked.conversation, caller)
    except NotFound:
        return
    async with aclosing(watch_current_run(service, linked.conversation, caller)) as views:
        async for view in views:
            if view is None or linked.call_id not in view.calls:
                return
            yield view
