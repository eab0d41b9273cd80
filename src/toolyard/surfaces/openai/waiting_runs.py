"""Finds the run that waits for the results of a request, and what its client does not know of: the server's own calls.

The request's messages are the truth, except that each exchange with calls of the waiting run is replaced by that run's
own items: with the calls that ran on the server, their results, and the model's reasoning, which providers want back.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from msgspec.structs import replace

from toolyard.core.caller import Caller
from toolyard.core.conversation.decide import build_left_result
from toolyard.core.conversation.state import State
from toolyard.core.errors import NotFound
from toolyard.core.items import Call, Item, ModelText, Result, SystemText, UserMessage
from toolyard.core.tools.trust import APPLICATION
from toolyard.engine.service import Service
from toolyard.surfaces.shared.call_ids import parse_call_id
from toolyard.surfaces.shared.followed_run import wait_for_current_run


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
    results = [call.result or build_left_result(call, now) for call in state.calls.values()]
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
                outcome="ok",
                content=sent.content,
                parts=sent.parts,
                error=None,
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
