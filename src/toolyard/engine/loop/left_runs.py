"""Stops runs whose client has left: nobody reads their answer, and nobody has an id to stop them with."""

import asyncio

from toolyard.core.conversation.events import StopRequested
from toolyard.core.conversation.run_state import RunState
from toolyard.core.conversation.state import State
from toolyard.engine.log.journal import Journal
from toolyard.engine.tools.registry import Registry

CHECK_EVERY_S = 1.0
CLIENT_LEFT = "its client has left"


class LeaveWatch:
    """Looks every second whether anybody reads a conversation whose run ends without its client.

    Its owner knows all readers: its own, and the replicas that follow the conversation. A client that comes back joins
    the run as a reader, and a run that another process has left begins its time anew here.
    """

    def __init__(self, journal: Journal, registry: Registry, stopped_by: str) -> None:
        self._journal = journal
        self._registry = registry
        self._stopped_by = stopped_by
        self._loop = asyncio.get_running_loop()
        self._left_at: float | None = None
        self._timer = self._loop.call_later(CHECK_EVERY_S, self._check)

    def close(self) -> None:
        self._timer.cancel()

    def _check(self) -> None:
        state, now = self._journal.state, self._loop.time()
        if state.run is None or not self._is_left(state.run):
            self._left_at = None
        elif self._left_at is None:
            self._left_at = now
        elif now - self._left_at >= state.run.request.leave_s and not has_changing_call(state, self._registry):
            self._journal.emit(StopRequested(by=self._stopped_by, detail=CLIENT_LEFT))
            return
        self._timer = self._loop.call_later(CHECK_EVERY_S, self._check)

    def _is_left(self, run: RunState) -> bool:
        """Return whether nobody reads a run that ends without its client, and it does not wait for anybody."""
        is_read = self._journal.readers.attached > 0 or bool(self._journal.followers)
        return bool(run.request.leave_s) and not is_read and run.suspended_at is None and run.stopped_by is None


def has_changing_call(state: State, registry: Registry) -> bool:
    """Return whether a call runs that may change something."""
    request = state.run.request if state.run else None
    for call in state.calls.values():
        if call.phase == "running" and request is not None:
            entry = registry.find(call.call.tool, request.app_tools, request.caller)
            if entry is None or not entry.tool.read_only:
                return True
    return False
