"""Reads a log as it grows and says what must never be in one. It knows nothing of the fold: it counts for itself."""

from collections import Counter

from toolyard import codec
from toolyard.core.conversation.events import (
    CallAnswered,
    CallApproved,
    CallEnded,
    CallJudged,
    CallsRequested,
    CallStarted,
    Entry,
    RunEnded,
    RunQueued,
    RunStarted,
    TurnStarted,
)
from toolyard.core.conversation.history import find_faults
from toolyard.core.conversation.state import State
from toolyard.core.items import Call, Result

SAFE_TO_REPEAT = "safe"
"""The one tool of the simulation that is idempotent."""
PROGRAM = "program"
"""The tool of the simulation that runs a program, which has no effect of its own."""


class Broken(AssertionError):
    """Something happened that must not."""


def require(holds: bool, complaint: str) -> None:
    if not holds:
        raise Broken(complaint)


class LogChecker:
    def __init__(self) -> None:
        self.read_back: list[Entry] = []
        self.tools: dict[str, str] = {}
        self.ended_calls: set[str] = set()
        self.ended_runs: set[str] = set()
        self._starts: Counter[str] = Counter()
        self._answers: Counter[str] = Counter()
        self._permitted_calls: set[str] = set()
        self._children: dict[str, set[str]] = {}
        self._queued_runs: list[str] = []
        self._started_runs: list[str] = []

    def see(self, entry: Entry) -> None:
        written = codec.encode(entry)
        self.read_back.append(codec.decode_entry(written))
        require(self.read_back[-1] == entry, f"{written} reads back as another entry")
        event = entry.event
        match event:
            case CallJudged(verdict="allow") | CallApproved():
                self._permitted_calls.add(event.call_id)
            case CallAnswered():
                self._answers[event.call_id] += 1
            case CallStarted():
                self._check_start(event)
            case CallEnded():
                self._check_end(event.result.call_id)
            case CallsRequested():
                require(event.parent not in self.ended_calls, f"{event.parent} had ended and asked for calls")
                self._children.setdefault(event.parent, set()).update(call.id for call in event.calls)
            case RunQueued() | RunStarted() | RunEnded():
                self._check_run(event, entry.run)
            case TurnStarted():
                require(self._started_runs[-1] not in self.ended_runs, "a turn began outside of a run")
            case _:
                pass

    def _check_end(self, call_id: str) -> None:
        require(call_id not in self.ended_calls, f"{call_id} ended twice")
        self.ended_calls.add(call_id)
        open_children = self._children.get(call_id, set()) - self.ended_calls
        require(not open_children, f"{call_id} ended before its calls {sorted(open_children)}")

    def _check_run(self, event: RunQueued | RunStarted | RunEnded, run: str) -> None:
        match event:
            case RunQueued():
                self._queued_runs.append(run)
            case RunStarted():
                self._started_runs.append(self._queued_runs[len(self._started_runs)])
            case RunEnded(run_id=run_id) if run_id:
                require(run_id in self._queued_runs[len(self._started_runs) :], f"{run_id} was not in line")
                self._queued_runs.remove(run_id)
                self.ended_runs.add(run_id)
            case RunEnded():
                require(run == self._started_runs[-1], f"{run} ended out of turn")
                require(run not in self.ended_runs, f"{run} ended twice")
                self.ended_runs.add(run)

    def _check_start(self, event: CallStarted) -> None:
        call_id = event.call_id
        if event.rule is not None:
            self._permitted_calls.add(call_id)
        self._starts[call_id] += 1
        require(call_id not in self.ended_calls, f"{call_id} had ended and started again")
        require(call_id in self._permitted_calls, f"{call_id} started without leave")
        again = self._starts[call_id] - 1 - self._answers[call_id]
        may_repeat = self.tools[call_id] in (SAFE_TO_REPEAT, PROGRAM)
        require(again <= 0 or may_repeat, f"{call_id} is not idempotent and ran twice")

    def inspect(self, state: State) -> None:
        """Whatever happened, a state is in order."""
        running = state.calls_in("running")
        require(len(running) == 1 or not any(call.exclusive for call in running), "an exclusive call has company")
        if state.run is not None:
            bound = state.run.limits
            require(len(running) <= max(1, bound.parallel_calls), "too many calls run at once")
            require(state.run.tool_turns <= bound.turns_per_request, "a turn was made beyond the limit")
        if state.calls:
            return
        for history in (state.history, state.full_history):
            require(not find_faults(history), f"a strict provider would refuse: {find_faults(history)}")
            calls = [item.id for item in history if isinstance(item, Call)]
            results = [item.call_id for item in history if isinstance(item, Result)]
            require(sorted(calls) == sorted(results), "a call has no result, or two")
            children = set[str]().union(*self._children.values())
            require(children.isdisjoint(calls), "the model is shown the call of a program")
