"""The state of a conversation: the fold of its durable events. An event that does not fit the state is refused.

States are immutable and share their history, so that applying an entry costs what it adds. No I/O and no clock: times
come with the entries.
"""

from collections.abc import Iterable, Sequence
from typing import assert_never

from msgspec import Struct
from msgspec.structs import replace

from toolyard.core.caller import Caller
from toolyard.core.conversation.branches import Branches, remove_from_branches, rewind
from toolyard.core.conversation.context.window import Window, apply_compaction, remove_items
from toolyard.core.conversation.events import (
    CallAnswered,
    CallApproved,
    CallDenied,
    CallEnded,
    CallEvent,
    CallJudged,
    CallParked,
    CallsRequested,
    CallStarted,
    ConversationChanged,
    ConversationOpened,
    Entry,
    HistoryCompacted,
    HistoryRewound,
    MessageAdded,
    MessageRemoved,
    Origin,
    RunEnded,
    RunEvent,
    RunQueued,
    RunStarted,
    RunSuspended,
    StopRequested,
    TurnEnded,
    TurnEvent,
    TurnFailed,
    TurnStarted,
    is_call_event,
    is_run_event,
    is_turn_event,
)
from toolyard.core.conversation.history import History, find_direct_calls
from toolyard.core.conversation.run_state import (
    CallState,
    ChildCall,
    Phase,
    ProgramState,
    QueuedRun,
    RunState,
    TurnState,
)
from toolyard.core.conversation.settings import AppliedPreset, Settings
from toolyard.core.errors import Refused
from toolyard.core.items import ApprovalRecord, Call, Item, Result, child_id
from toolyard.core.tools.remembered_approvals import ALL_APPROVED, RememberedApproval, remember_identity, remember_name
from toolyard.core.tools.trust import join_sources, mark_model_items, name_description_source

_REQUESTED: tuple[Phase, ...] = ("requested",)
_STARTABLE_PHASES: tuple[Phase, ...] = ("allowed", "running", "nested")
OPEN_PHASES: tuple[Phase, ...] = ("requested", "asking", "allowed", "running", "nested", "parked")


class State(Struct, frozen=True, gc=False, kw_only=True):
    """A conversation after some entry of its log."""

    owner: Caller | None = None
    settings: Settings = Settings()
    history: History = History()
    """The items that the model is shown."""
    window: Window = Window()
    provider_tokens: int = 0
    """Tokens by the provider's last count: prompt, tools and the first `provider_items` items of the history."""
    provider_items: int = 0
    queue: tuple[QueuedRun, ...] = ()
    run: RunState | None = None
    turn: TurnState | None = None
    calls: dict[str, CallState] = {}
    turns: int = 0
    tool_turns: int = 0
    offer: str = ""
    offered: dict[str, str] = {}
    unreviewed: tuple[str, ...] = ()
    """The servers whose descriptions the model was shown in the last turn, and which nobody vouches for."""
    shown_items: int = 0
    """The length of the history when the last turn started: later items may need more tools."""
    remembered: frozenset[RememberedApproval] = frozenset()
    """What is approved for the whole conversation."""
    has_handles: bool = False
    origin: Origin | None = None
    """The conversation that this one was forked from."""
    branches: Branches = ()
    """The histories that were left by a rewind."""
    last_request_at: float = 0.0
    """When the last request with an Idempotency-Key took effect: the conversation is kept while it is remembered."""
    epoch: int = 0
    """The owner that wrote the last entry."""
    last_at: float = 0.0
    """The time of the last entry."""

    def calls_in(self, *phases: Phase) -> list[CallState]:
        return [call for call in self.calls.values() if call.phase in phases]

    @property
    def full_history(self) -> History:
        """Return all items, including those that the model is no longer shown."""
        return self.window.join_past(self.history)

    def find_used_ids(self, ids: set[str]) -> set[str]:
        """Return those of the ids that an item of this conversation has, on any branch."""
        used = self.history.shared_ids(ids) | self.window.past.shared_ids(ids)
        for branch in self.branches:
            used |= branch.history.shared_ids(ids)
        return used

    @property
    def overhead_tokens(self) -> int:
        """Return by how much the provider's count exceeds our estimate of the history: prompt, tools and our error."""
        return self.provider_tokens - self.history.sum_first(self.provider_items)[0]

    @property
    def tokens(self) -> int:
        """Return the tokens of the next request: the provider's last count, and our estimate of what came since."""
        return self.history.tokens + self.overhead_tokens

    @property
    def is_idle(self) -> bool:
        """Return whether no run is open or queued."""
        return self.run is None and not self.queue

    @property
    def is_disposable(self) -> bool:
        """Return whether the conversation is ephemeral and idle, and no request that may be sent again needs it."""
        return self.settings.ephemeral and self.is_idle and not self.last_request_at

    @property
    def may_rest_without_owner(self) -> bool:
        """Return whether nothing is to be done until something outside happens, which any process can take up."""
        if self.run is None:
            return not self.queue and not self.is_disposable
        parked = (call.parked for call in self.calls.values() if call.phase == "parked")
        if self.run.suspended_at is None or self.run.awaited_budget:  # its owner asks for room again and again
            return False
        return not any(event is not None and event.bound for event in parked)

    @property
    def wake_at(self) -> float | None:
        """Return when an owner must drive the conversation again: 0 means at once, None never."""
        if self.run is None:
            return 0.0 if self.queue or self.is_disposable else None
        if self.run.suspended_at is None or self.run.awaited_budget:
            return 0.0
        return min(call.expires_at for call in self.calls_in("asking", "parked"))


def list_open_calls(state: State) -> list[CallState]:
    """Return the calls that have not ended, in an order in which they may end: a program after its calls."""
    calls = [call for call in state.calls.values() if call.phase != "closed"]
    return sorted(calls, key=_is_of_model) if any(call.parent for call in calls) else calls


def _is_of_model(call: CallState) -> bool:
    return not call.parent


def apply(state: State, entry: Entry) -> State:
    """Return the state after the entry. Raises Refused if the event does not fit the state."""
    last_request_at = entry.request.counts_from(entry.at) if entry.request is not None else state.last_request_at
    # The run that an owner drives is the usual case: checked here, as it saves a call for each entry.
    if state.run is not None and (entry.epoch != state.epoch or state.run.idle_owners):
        state = _count_owner(state, state.run, entry)
    state = _apply_event(state, entry)
    return replace(state, epoch=entry.epoch, last_at=entry.at, last_request_at=last_request_at)


def _count_owner(state: State, run: RunState, entry: Entry) -> State:
    """Count an owner that takes over an open run, and the time since the last entry as waiting: nobody drove the run.

    Owners record that they take over with a `conversation.changed` that changes nothing. Any other entry is progress.
    """
    if run.suspended_at is not None:
        return state
    is_progress = not isinstance(entry.event, ConversationChanged)
    if entry.epoch != state.epoch:
        idle_owners = 0 if is_progress else run.idle_owners + 1
        waited_s = run.waited_s + max(0.0, entry.at - state.last_at)
        return replace(state, run=replace(run, waited_s=waited_s, idle_owners=idle_owners))
    return replace(state, run=replace(run, idle_owners=0)) if run.idle_owners and is_progress else state


def _apply_event(state: State, entry: Entry) -> State:
    event = entry.event
    if is_call_event(event):  # frequent events first
        is_suspended = state.run is not None and state.run.suspended_at is not None
        return _apply_call_event(_resume_run(state, entry.at) if is_suspended else state, event)
    if is_turn_event(event):
        return _apply_turn_event(state, event, entry.at)
    if is_run_event(event):
        return _apply_run_event(state, event, entry)
    match event:
        case CallsRequested():
            return _request_calls(state, event)
        case ConversationOpened() | ConversationChanged() | MessageAdded() | MessageRemoved():
            return _apply_conversation_event(state, event)
        case HistoryCompacted():
            return _compact(state, event)
        case HistoryRewound():
            return _rewind(state, event, entry.at)
        case _:
            assert_never(event)


def fold(entries: Iterable[Entry]) -> State:
    """Return the state after all entries of a log."""
    state = State()
    for entry in entries:
        state = apply(state, entry)
    return state


def _apply_conversation_event(
    state: State, event: ConversationOpened | ConversationChanged | MessageAdded | MessageRemoved
) -> State:
    match event:
        case ConversationOpened():
            _require(state.owner is None, "the conversation is open already")
            return replace(state, owner=event.owner, settings=event.settings, origin=event.origin)
        case ConversationChanged():
            queue = tuple(_give_preset(run, event.preset) for run in state.queue) if event.preset else state.queue
            return replace(state, settings=event.settings, queue=queue)
        case MessageAdded():
            _require(state.run is None, "a message cannot be added while a run is open")
            has_handles = state.has_handles or (isinstance(event.item, Result) and bool(event.item.handle))
            return replace(state, history=state.history.plus((event.item,)), has_handles=has_handles)
        case MessageRemoved():
            _require(state.run is None, "a message cannot be removed while a run is open")
            history, window = remove_items(state.history, state.window, event.ids)
            branches = remove_from_branches(state.branches, event.ids)
            return _put_history(replace(state, branches=branches), history, window)
        case _:
            assert_never(event)


def _rewind(state: State, event: HistoryRewound, at: float) -> State:
    _require(state.run is None, "the history cannot be rewound while a run is open")
    history, window, branches = rewind(state.history, state.window, state.branches, event.to, at)
    return _put_history(replace(state, branches=branches), history, window)


def _put_history(state: State, history: History, window: Window) -> State:
    """Replace the history. The tools are looked for anew, and of the provider's count only the surplus is kept."""
    return replace(
        state, history=history, window=window, shown_items=0, provider_tokens=state.overhead_tokens, provider_items=0
    )


def _compact(state: State, event: HistoryCompacted) -> State:
    history, window = apply_compaction(state.history, state.window, event)
    run = state.run and replace(state.run, usage=state.run.usage.plus(event.usage), failure=None)
    shown_items = max(window.head, state.shown_items + len(history) - len(state.history))
    return replace(
        state,
        history=history,
        window=window,
        run=run,
        shown_items=shown_items,
        provider_tokens=state.overhead_tokens,
        provider_items=0,
    )


def _apply_run_event(state: State, event: RunEvent, entry: Entry) -> State:
    match event:
        case RunQueued():
            queued = QueuedRun(id=entry.run, correlation_id=entry.correlation_id, request=event)
            return replace(state, queue=(*state.queue, queued))
        case RunStarted():
            return _start_run(state, event, entry.at)
        case StopRequested():
            return _request_stop(_resume_run(state, entry.at), event)
        case RunSuspended():
            run = _require_run(state)
            is_waiting = bool(event.budget or state.calls_in("asking", "parked"))
            _require(is_waiting, "a run that waits for nothing cannot be suspended")
            run = replace(run, suspended_at=entry.at, awaited_budget=event.budget)
            return _release_programs(_keep_for_waits(replace(state, run=run)))
        case RunEnded(run_id=run_id) if run_id:
            _require(run_id in {run.id for run in state.queue}, f"run {run_id!r} does not stand in line")
            return replace(state, queue=tuple(run for run in state.queue if run.id != run_id))
        case RunEnded():
            _require_run(state)
            _require(not state.calls and state.turn is None, "a run cannot end while its work is open")
            history = state.history.plus((event.message,)) if event.message else state.history
            return replace(state, run=None, history=history)
        case _:
            assert_never(event)


def find_run_settings(settings: Settings, request: RunQueued) -> Settings:
    """Return the settings that a run starts with: the conversation's, or those of the preset that it names."""
    return request.preset.apply_to(settings) if request.preset else settings


def _give_preset(run: QueuedRun, preset: AppliedPreset) -> QueuedRun:
    request = run.request
    return run if request.model else replace(run, request=replace(request, model=preset.model, preset=preset.change))


def _start_run(state: State, event: RunStarted, at: float) -> State:
    _require(state.run is None and bool(state.queue), "no run is waiting to start")
    first, *queue = state.queue
    calls = {call.id: CallState(call=call) for call in find_direct_calls(first.request.input)}
    settings = find_run_settings(state.settings, first.request)
    if first.request.context:
        settings = replace(settings, context={**settings.context, **first.request.context})
    run = RunState(
        id=first.id,
        correlation_id=first.correlation_id,
        request=first.request,
        model=event.model,
        limits=event.limits,
        window=event.window,
        language=event.language or first.request.caller.locale,
        settings=settings,
        started_at=at,
        direct=bool(calls),
    )
    return replace(state, queue=tuple(queue), run=run, calls=calls, history=state.history.plus(first.request.input))


def _request_stop(state: State, event: StopRequested) -> State:
    if event.call_id:
        call = _require_call(state, event.call_id, *OPEN_PHASES)
        return _put_call(state, replace(call, stopping=True))
    return replace(state, run=replace(_require_run(state), stopped_by=event.by, stop_detail=event.detail))


def _apply_turn_event(state: State, event: TurnEvent, at: float) -> State:
    run = _require_run(state)
    match event:
        case TurnStarted():
            _require(not state.calls, "a turn cannot start while calls are open")
            if run.suspended_at is not None:  # the budget that it waited for has room
                state = _resume_run(state, at)
            # A turn that is still open was started by an owner that died: it starts again under the same number.
            restarts = state.turn is not None
            _require(event.number == state.turns + (0 if restarts else 1), f"turn {event.number} is out of order")
            owners = state.turn.owners + 1 if state.turn else 1
            return replace(
                state,
                turn=TurnState(number=event.number, epoch=event.epoch, owners=owners),
                turns=event.number,
                offer=event.offer,
                offered=event.apply_to(state.offered),
                unreviewed=event.unreviewed,
                shown_items=len(state.history),
            )
        case TurnEnded():
            return _end_turn(state, run, event)
        case TurnFailed():
            _require(state.turn is not None, "no turn is in flight")
            return replace(state, turn=None, run=replace(run, failure=event.problem))
        case _:
            assert_never(event)


def _end_turn(state: State, run: RunState, event: TurnEnded) -> State:
    _require(state.turn is not None, "no turn is in flight")
    ids = {item.id for item in event.items}
    is_unused = len(ids) == len(event.items) and not state.history.shared_ids(ids)
    _require(is_unused, "an id in this turn is used already")
    sources = state.history.sources
    if state.unreviewed:
        sources = join_sources(sources, *map(name_description_source, state.unreviewed))
    items = mark_model_items(event.items, sources)
    calls = _collect_open_calls(items)
    tool_turns = 1 if calls else 0
    run = replace(
        run,
        usage=run.usage.plus(event.usage),
        finish=event.finish,
        tool_turns=run.tool_turns + tool_turns,
        called_client=run.called_client or _calls_client(run, calls),
        pauses=run.pauses + (event.finish == "paused"),
        output_problem=event.output_problem,
        rejected_outputs=run.rejected_outputs + (event.output_problem is not None),
        failure=None,
    )
    history = state.history.plus(items)
    provider_tokens, provider_items = state.provider_tokens, state.provider_items
    if event.usage.input_tokens and not any(isinstance(item, Result) for item in event.items):
        # A turn in which the provider ran tools counts several requests together: it tells nothing about the size of
        # one request.
        provider_tokens, provider_items = event.usage.total, len(history)
    return replace(
        state,
        turn=None,
        run=run,
        calls=calls,
        history=history,
        tool_turns=state.tool_turns + tool_turns,
        provider_tokens=provider_tokens,
        provider_items=provider_items,
    )


def _calls_client(run: RunState, calls: dict[str, CallState]) -> bool:
    names = [tool.name for tool in run.request.app_tools]
    return bool(names) and any(call.call.tool in names for call in calls.values())


def _collect_open_calls(items: Sequence[Item]) -> dict[str, CallState]:
    """Return the calls that came without a result. Calls that the provider runs are never open here."""
    answered = {item.call_id for item in items if isinstance(item, Result)}
    calls = [item for item in items if isinstance(item, Call) and not item.ran_at]
    return {call.id: CallState(call=call) for call in calls if call.id not in answered}


def _apply_call_event(state: State, event: CallEvent) -> State:
    match event:
        case CallEnded():
            return _close_call(state, event.result)
        case CallStarted():
            return _start_call(state, event)
        case CallJudged():
            return _judge_call(state, event)
        case CallApproved():
            call = _require_call(state, event.call_id, "asking")
            record = ApprovalRecord(by=event.by, approved=True, reason=event.reason)
            call = replace(call, approvals=(*call.approvals, event), decisions=(*call.decisions, record))
            if event.remaining:
                return _put_call(state, call)
            state = replace(state, remembered=state.remembered.union(_list_remembered(call, event)))
            return _put_call(state, replace(call, phase="allowed", approved=event))
        case CallDenied():
            call = _require_call(state, event.call_id, "asking")
            record = ApprovalRecord(by=event.by, approved=False, reason=event.reason)
            return _put_call(state, replace(call, decisions=(*call.decisions, record)))
        case CallParked():
            call = _require_call(state, event.call_id, "running")
            # The count of owners starts again: the owner that parked the call did not die with it.
            parked = replace(call, phase="parked", parked=event, expires_at=event.expires_at, epoch=0, owners=0)
            return _keep_for_waits(_put_call(state, parked))
        case CallAnswered():
            call = _require_call(state, event.call_id, "parked")
            return _put_call(state, replace(call, phase="allowed", answer=event))
        case _:
            assert_never(event)


def _list_remembered(call: CallState, approval: CallApproved) -> tuple[RememberedApproval, ...]:
    if approval.remember == "conversation":
        return (ALL_APPROVED,)
    return (remember_identity(call.tool),) if approval.remember == "tool" and call.tool is not None else ()


def _remember_by_name(state: State, call: CallState, result: Result) -> State:
    """Remember an approval of a log that does not say which tool was approved: only the result may name its server."""
    if call.approved is None or call.approved.remember != "tool" or call.tool is not None:
        return state
    if not (hash := state.offered.get(call.call.tool)):
        return state
    return replace(state, remembered=state.remembered | {remember_name(call.call.tool, hash, result.untrusted)})


def _judge_call(state: State, event: CallJudged) -> State:
    call = _require_call(state, event.call_id, "requested", "allowed")
    if event.verdict == "deny":
        return _put_call(state, call)  # its call.ended follows in the same append
    phase: Phase = "allowed" if event.verdict == "allow" else "asking"
    judged = replace(
        call,
        phase=phase,
        exclusive=event.exclusive,
        expires_at=event.expires_at,
        sources=event.sources,
        rule=event.rule,
        terms=event.terms,
        tool=event.tool,
        approvals=(),  # whoever approved the call on other terms is asked again
    )
    return _put_call(state, judged)


def _start_call(state: State, event: CallStarted) -> State:
    call = _require_call(state, event.call_id, *(_STARTABLE_PHASES if event.rule is None else _REQUESTED))
    _require(event.attempt == call.attempt + 1, f"attempt {event.attempt} of call {event.call_id!r} is out of order")
    owners = call.owners + (event.epoch != call.epoch)  # a retry by the same owner does not count
    # A program that is run again computes up to where it waited before, and takes no place of a running call.
    phase: Phase = "nested" if call.phase == "nested" else "running"
    rule, exclusive = (call.rule, call.exclusive) if event.rule is None else (event.rule, event.exclusive)
    started = replace(
        call,
        phase=phase,
        epoch=event.epoch,
        attempt=event.attempt,
        owners=owners,
        rule=rule,
        exclusive=exclusive,
    )
    return _put_call(state, started)


def _close_call(state: State, result: Result) -> State:
    call = _require_call(state, result.call_id, *OPEN_PHASES)
    if call.decisions:
        result = replace(result, decisions=call.decisions)
    if call.parent:
        return _close_child(state, call, result)
    if call.program is not None:
        _require(
            len(call.program.ended) == call.program.requested, "a program cannot end while one of its calls is open"
        )
    state = _put_call(_remember_by_name(state, call, result), replace(call, phase="closed", result=result))
    if result.handle:
        state = replace(state, has_handles=True)
    # Results join the history together, in the order of the calls, when the last call has closed: providers require all
    # results of a turn right after its calls.
    results = [call.result for call in state.calls.values() if call.result is not None]
    if len(results) < len(state.calls):
        return state
    return replace(state, calls={}, history=state.history.plus(results))


def _request_calls(state: State, event: CallsRequested) -> State:
    call = _require_call(state, event.parent, "running", "nested")
    _require(not call.parent, "a call of a program cannot be a program")
    _require(state.run is not None and state.run.suspended_at is None, "the run of a program does not wait for people")
    program = call.program or ProgramState()
    _require(program.seen <= event.seen <= len(program.ended), "a program cannot have been given results to come")
    ids = [child.id for child in event.calls]
    expected = [child_id(event.parent, program.requested + number) for number in range(len(ids))]
    _require(ids == expected, f"the calls of program {event.parent!r} are out of order")
    _require(len(event.lines) in (0, len(ids)), "each call of a program is made by one line")
    requested = program.requested + len(ids)
    _require(requested > event.seen, "a program cannot wait for nothing")
    program = replace(program, requested=requested, seen=event.seen)
    # The count of owners starts again: the owner of a program that got this far did not die with it.
    calls = {**state.calls, event.parent: replace(call, phase="nested", program=program, owners=0)}
    lines = event.lines or (0,) * len(ids)
    for child, line in zip(event.calls, lines, strict=True):
        calls[child.id] = CallState(call=child, parent=event.parent, seen=event.seen, line=line)
    return replace(state, calls=calls)


def _close_child(state: State, call: CallState, result: Result) -> State:
    """Move a call of a program to the ended ones of the program. The model is not shown it: only its program is."""
    parent = state.calls[call.parent]
    assert parent.program is not None
    edited = call.approved.arguments if call.approved else None
    ended = ChildCall(call=call.call, seen=call.seen, attempt=call.attempt, edited=edited, result=result)
    program = replace(parent.program, ended=(*parent.program.ended, ended))
    calls = {**state.calls, call.parent: replace(parent, program=program)}
    del calls[call.call.id]
    return replace(state, calls=calls)


def _release_programs(state: State) -> State:
    """Record that no owner runs the programs of a suspended run: they are run again when a result has come."""
    programs = {id: replace(call, epoch=0) for id, call in state.calls.items() if call.phase == "nested"}
    return replace(state, calls={**state.calls, **programs}) if programs else state


def _resume_run(state: State, at: float) -> State:
    """End the suspension of the run, if it is suspended, and count it as waiting."""
    run = state.run
    if run is None or run.suspended_at is None:
        return state
    waited = run.waited_s + max(0.0, at - run.suspended_at)
    return replace(state, run=replace(run, suspended_at=None, awaited_budget="", waited_s=waited))


def _keep_for_waits(state: State) -> State:
    """Keep an ephemeral conversation that waits: people or an application hold the id of a call to be found again.

    One whose run ends if its client does not come back is kept only for people: the client has the whole history.
    """
    if not state.settings.ephemeral:
        return state
    run, waiting = _require_run(state), state.calls_in("asking", "parked")
    is_for_client = bool(waiting) and all(call.parked and call.parked.kind == "client" for call in waiting)
    if run.request.ends_on_expiry and is_for_client:
        return state
    return replace(state, settings=replace(state.settings, ephemeral=False))


def _put_call(state: State, call: CallState) -> State:
    return replace(state, calls={**state.calls, call.call.id: call})


def _require_call(state: State, call_id: str, *phases: Phase) -> CallState:
    call = state.calls.get(call_id)
    phase = call.phase if call else "closed or unknown"
    if call is None or call.phase not in phases:
        raise Refused(f"call {call_id!r} is {phase}, not {' or '.join(phases)}")
    return call


def _require_run(state: State) -> RunState:
    if state.run is None:
        raise Refused("no run is open")
    return state.run


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise Refused(otherwise)
