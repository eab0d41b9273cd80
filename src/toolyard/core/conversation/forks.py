"""Finds the items that a fork of a conversation begins with. Pure."""

from collections.abc import Sequence

from toolyard.core.conversation.branches import find_path
from toolyard.core.conversation.events import Entry, MessageRemoved, RunEnded, RunQueued
from toolyard.core.conversation.history import History, find_trailing_calls
from toolyard.core.conversation.state import State, fold
from toolyard.core.errors import Refused


def find_fork_items(state: State, after: str, entries: Sequence[Entry]) -> History:
    """Return all items, or those up to the end of the run or up to the item that `after` names, on any branch.

    `entries` is the whole log if `after` is set. Raises Refused for a place inside a turn.
    """
    if not after:
        if not state.is_idle or find_trailing_calls(state.history):
            raise Refused("a run is open, or a call has no result: name an earlier run or message to fork after")
        return state.full_history
    if any(entry.run == after and isinstance(entry.event, RunQueued) for entry in entries):
        return _find_items_after_run(after, entries)
    return find_path(state.full_history, state.branches, after)


def _find_items_after_run(run_id: str, entries: Sequence[Entry]) -> History:
    for number, entry in enumerate(entries, 1):
        if entry.run == run_id and isinstance(entry.event, RunEnded):
            if entry.event.run_id:
                raise Refused(f"run {run_id!r} was stopped before it started: name another one to fork after")
            removed = (event.ids for later in entries[number:] if isinstance(event := later.event, MessageRemoved))
            return fold(entries[:number]).full_history.without(frozenset[str]().union(*removed))
    raise Refused(f"run {run_id!r} has not ended: wait for it, or name an earlier one to fork after")
