"""The design's table of commands, phases and events as data: what is accepted where, and where it leads.

`test_table.py` holds `decide` and the fold to it, both ways: what is written here is accepted, and all else is refused.
"""

from toolyard.core.conversation.run_state import Phase

PHASES: dict[Phase, dict[str, Phase]] = {
    "requested": {
        "call.judged allow": "allowed",
        "call.judged ask": "asking",
        "call.judged deny": "requested",  # its call.ended is in the same append
        "call.started with a rule": "running",  # it was allowed and had room
        "call.ended": "closed",
    },
    "asking": {
        "call.approved": "allowed",
        "call.denied": "asking",  # its call.ended is in the same append
        "call.ended": "closed",
    },
    "allowed": {
        "call.judged allow": "allowed",  # policy is asked again before it runs
        "call.judged ask": "asking",
        "call.judged deny": "allowed",  # its call.ended is in the same append
        "call.started": "running",
        "call.ended": "closed",
    },
    "running": {"call.started": "running", "call.parked": "parked", "call.ended": "closed"},
    "nested": {
        "call.started": "nested",  # its program is run again
        "call.ended": "closed",  # once the calls of its program have
    },
    "parked": {"call.answered": "allowed", "call.ended": "closed"},
    "closed": {},
}
"""For each phase of a call, the events that the fold accepts and the phase that each leads to.

A call is closed out of every phase: by a verdict, an expiry, a result, or because it was stopped.
"""

STANDINGS = ("unopened", "resting", "queued", "between turns", "in a turn", "calls open", "calls waiting", "suspended")
"""Where a conversation can stand, seen from its runs and turns."""

_OPENED_STANDINGS = frozenset(STANDINGS[1:])
_RUN_OPEN = frozenset({"between turns", "in a turn", "calls open", "calls waiting", "suspended"})

FACTS: dict[str, frozenset[str]] = {
    "conversation.opened": frozenset({"unopened"}),
    "conversation.changed": frozenset(STANDINGS),
    "message.added": frozenset({"unopened", "resting", "queued"}),
    "message.removed": frozenset({"unopened", "resting", "queued"}),
    "history.rewound": frozenset({"resting", "queued"}),
    "history.compacted": _OPENED_STANDINGS,
    "run.queued": frozenset(STANDINGS),
    "run.started": frozenset({"queued"}),
    "turn.started": frozenset({"between turns", "in a turn"}),
    "turn.ended": frozenset({"in a turn"}),
    "turn.failed": frozenset({"in a turn"}),
    "stop.requested": _RUN_OPEN,
    "run.suspended": frozenset({"calls waiting", "suspended"}),
    "run.ended": frozenset({"between turns"}),
    "calls.requested": frozenset({"calls waiting"}),
}
"""For each event that is not a call's, the standings in which the fold accepts it."""

SITUATIONS = (
    *STANDINGS,
    "line full",
    "asking",
    "asking, expired",
    "allowed",
    "running",
    "nested",
    "parked for the app",
    "parked with a question",
    "closed",
    "stopped",
)
"""The standings, and what else a command can meet. The situations of a call have a second call that is open."""

_IN_A_CALL = frozenset({"asking", "asking, expired", "allowed", "running", "nested", "parked for the app"})
_CALL_OPEN = _IN_A_CALL | {"calls open", "calls waiting", "suspended", "parked with a question", "stopped"}
_ASKING = frozenset({"asking", "calls waiting", "suspended", "stopped"})

COMMANDS: dict[str, frozenset[str]] = {
    "Start": frozenset(SITUATIONS) - {"line full"},
    "Start, interrupting": frozenset(SITUATIONS) - {"line full"},
    "Start of the same run": frozenset({"unopened", "resting"}),
    "Open": frozenset({"unopened"}),
    "AddMessage": frozenset({"unopened", "resting"}),
    "AddMessage of a call": frozenset({"unopened", "resting"}),
    "AddMessage of a result": frozenset(),
    "RemoveMessage": frozenset({"resting"}),
    "RemoveMessage that is not there": frozenset(),
    "Rewind": frozenset({"resting"}),
    "Rewind to an item that is not there": frozenset(),
    "Rewind by a stranger": frozenset(),
    "Fork": frozenset({"unopened"}),
    "Start without a message": frozenset(),
    "Change": frozenset(SITUATIONS) - {"unopened"},
    "Approve": _ASKING,
    "Approve by an approver": _ASKING,
    "Approve by a stranger": frozenset(),
    "Deny": _ASKING,
    "Deny by a stranger": frozenset(),
    "Deliver": frozenset({"parked for the app"}),
    "Deliver for another tool": frozenset(),
    "Deliver by a stranger": frozenset(),
    "Answer": frozenset({"parked with a question"}),
    "Answer by a stranger": frozenset(),
    "Stop": frozenset(SITUATIONS) - {"unopened", "resting", "queued"},
    "Stop of a call": _CALL_OPEN,
}
"""For each command, the situations in which it is accepted; in every other it is refused."""
