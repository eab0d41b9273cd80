"""Finds the runs that a client was told to wait for: its answers hold the links to calls that a person decides.

While the run waits, the same request gets the same sentence again and starts nothing. A new message lets calls go that
only its user may decide; one that others decide stays open, and the answer begins with the sentence. Once the run has
ended, its calls, their results and its own answer stand in the history in place of the sentence.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from toolyard.core.caller import Caller
from toolyard.core.conversation.commands import Stop
from toolyard.core.conversation.decide import build_left_result
from toolyard.core.conversation.run_view import RunView
from toolyard.core.conversation.state import State
from toolyard.core.errors import NotFound, Refused
from toolyard.core.items import Call, Item, ModelText, Result, SystemText, UserMessage
from toolyard.core.tools.trust import APPLICATION
from toolyard.engine.service import Service
from toolyard.surfaces.shared.call_ids import parse_call_id
from toolyard.surfaces.shared.runs.followed_run import wait_for_current_run, watch_current_run
from toolyard.surfaces.shared.waiting_sentences import LINKED_CALL, find_links


def find_last_call(items: Sequence[Item]) -> Call | None:
    return next((item for item in reversed(items) if isinstance(item, Call)), None)


async def load_waiting(service: Service, conversation: str, caller: Caller) -> State | None:
    """Return the state of a conversation whose run waits for its client; None if it does not, or is somebody else's.

    While another call of the run goes on, such as one that a person has just approved, it is waited for.
    """
    try:
        await service.conversations.require(conversation, caller)
    except NotFound:
        return None
    view = await wait_for_current_run(service, conversation, caller)
    if view is None or view.status != "waiting" or view.request is None or not view.request.ends_on_expiry:
        return None
    state = await service.conversations.view(conversation)
    return state if state.run is not None and state.run.suspended_at is not None else None


def merge_waiting_run(items: Sequence[Item], state: State, now: float) -> list[Item]:
    """Return the items of a request with each exchange that the waiting run knows as the run has it."""
    stored_exchanges = _split_exchanges(_list_stored_items(state, now))
    merged: list[Item] = []
    for exchange in _split_exchanges(items):
        merged += _merge_exchange(exchange, stored_exchanges)
    return merged


def _list_stored_items(state: State, now: float) -> list[Item]:
    """Return the history of the waiting run. Calls that its client runs have a result that is to be replaced."""
    results = [call.result or build_left_result(call, now) for call in state.calls.values() if not call.parent]
    return [*state.full_history, *results]


def _split_exchanges(items: Sequence[Item]) -> list[list[Item]]:
    """Return the items in parts: each message of the user or the system by itself, and what lies between them."""
    exchanges: list[list[Item]] = [[item] for item in items[:1]]
    for before, item in pairwise(items):
        if isinstance(before, UserMessage | SystemText) or isinstance(item, UserMessage | SystemText):
            exchanges.append([])
        exchanges[-1].append(item)
    return exchanges


def _merge_exchange(exchange: list[Item], stored_exchanges: Sequence[list[Item]]) -> list[Item]:
    # The client's ids of calls are in `provider_id`; each leads to the id of a call that was handed out.
    handed_out = {item.id: parse_call_id(item.provider_id)[1] for item in exchange if isinstance(item, Call)}
    results = {
        handed_out[item.call_id]: item for item in exchange if isinstance(item, Result) and item.call_id in handed_out
    }
    for stored in stored_exchanges:
        stored_ids = {item.id for item in stored if isinstance(item, Call)}
        stored_calls = [id for id, call_id in handed_out.items() if call_id in stored_ids]
        if stored_calls and len(stored_calls) == len(handed_out):
            return [*_fill_results(stored, results), *_list_after(exchange, stored_calls)]
    return exchange


def _fill_results(stored: Sequence[Item], results: Mapping[str, Result]) -> list[Item]:
    """Return the stored items with the client's results for the calls that it ran."""
    filled: list[Item] = []
    for item in stored:
        if isinstance(item, Result) and (sent := results.get(item.call_id)):
            item = replace(
                item,
                outcome=sent.outcome,
                content=sent.content,
                parts=sent.parts,
                error=sent.error,
                seal=sent.seal,
                handle="",
                whole_bytes=0,
                untrusted=APPLICATION,
            )
        filled.append(item)
    return filled


def _list_after(exchange: Sequence[Item], delivered: Sequence[str]) -> list[Item]:
    """Return what the client has added after the last of these results, such as a text of its own."""
    positions = [index for index, item in enumerate(exchange) if isinstance(item, Result) and item.call_id in delivered]
    return [item for item in exchange[max(positions, default=-1) + 1 :] if isinstance(item, ModelText)]


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
