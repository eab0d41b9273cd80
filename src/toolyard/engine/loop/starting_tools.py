"""Finds what has to wait for the tools of a server that is still starting, for as long as that server may take."""

import math
from collections.abc import Callable

from toolyard.core.caller import Caller
from toolyard.core.conversation.plan import NOTHING_HELD, Held
from toolyard.core.conversation.run_state import CallState
from toolyard.core.conversation.state import State
from toolyard.engine.dependencies import Deps
from toolyard.engine.tools.registry import Registry, get_caller

POLL_S = 0.1
"""How often it is looked whether a server has started."""
MAX_LISTING_S = 10.0
"""How long after its start a server is waited for by those who need any tools: a turn, or a list of the tools."""


def find_held(state: State, epoch: int, registry: Registry, now: float) -> Held:
    """Return what the run needs of servers that are starting: its calls, or the tools to offer in its next turn.

    Calls of listed tools are held too: the start of a server is not part of the time that a call of its tools may take.
    """
    if state.run is None:
        return NOTHING_HELD
    caller = get_caller(state)

    def is_held(call: CallState) -> bool:
        if call.phase not in ("requested", "allowed", "running") or (call.phase == "running" and call.epoch == epoch):
            return False
        entry = registry.lookup(call, state)
        return registry.starts_until(caller, entry.tool if entry else None) > now

    calls = frozenset(call.call.id for call in state.calls.values() if is_held(call))
    turn = state.run.request.tool_choice != "none" and registry.starts_until(caller, max_s=MAX_LISTING_S) > now
    return Held(calls=calls, turn=turn) if calls or turn else NOTHING_HELD


async def wait_for_tools(caller: Caller, deps: Deps, is_listed: Callable[[], bool] | None = None) -> None:
    """Wait while a server that has never listed its tools is starting, or until `is_listed` returns True."""
    max_s = MAX_LISTING_S if is_listed is None else math.inf
    while deps.registry.starts_until(caller, max_s=max_s) > deps.clock.now():
        if is_listed is not None and is_listed():
            return
        await deps.sleep(POLL_S)
