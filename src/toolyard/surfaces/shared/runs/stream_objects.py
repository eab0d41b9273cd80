"""Encode what a reader yields as the JSON objects of a stream. Pure; `sse` turns the objects into events.

Every call has a `started` and a `finished` object, also one that was refused before it ran.
"""

from typing import Literal, assert_never

from toolyard.core.conversation.events import (
    ArgumentsAppended,
    CallAnswered,
    CallApproved,
    CallDenied,
    CallEnded,
    CallEvent,
    CallJudged,
    CallParked,
    CallProgressed,
    CallsRequested,
    CallStarted,
    ConversationChanged,
    ConversationOpened,
    Durable,
    Entry,
    Fleeting,
    HistoryCompacted,
    HistoryRewound,
    MessageAdded,
    MessageRemoved,
    Published,
    ReasoningAppended,
    RunEnded,
    RunQueued,
    RunStarted,
    RunSuspended,
    StopRequested,
    TextAppended,
    TurnEnded,
    TurnEvent,
    TurnFailed,
    TurnStarted,
    is_call_event,
    is_turn_event,
)
from toolyard.core.conversation.run_view import RunView, merge_citations
from toolyard.core.items import Result
from toolyard.surfaces.http.model_failures import describe_failure
from toolyard.surfaces.shared.runs.notices import NOTICE_SEPARATOR, RunNotices

StreamObject = dict[str, object]


def build_objects(item: Published, view: RunView, notices: RunNotices) -> list[StreamObject]:
    """Return the objects of an item. The item is already applied to the view, which is that of its run."""
    if not isinstance(item, Entry):
        return _build_fleeting(item, view)
    objects = _build_durable(item.event, view, notices)
    for stream_object in objects:
        stream_object["correlation_id"] = item.correlation_id
    return objects


def build_done(view: RunView) -> StreamObject:
    """Return the object that ends the stream of a run that has ended or waits."""
    usage = {
        "input_tokens": view.usage.input_tokens,
        "output_tokens": view.usage.output_tokens,
        "cached_tokens": view.usage.cached_tokens,
    }
    about: StreamObject = {"conversation_id": view.conversation, "run_id": view.run_id, "usage": usage}
    done: StreamObject = {"type": "done", "ending": view.ending or "waiting", **about}
    if view.awaited_budget:
        done["budget"] = view.awaited_budget
    return {**done, "detail": view.detail} if view.end else done


def build_wait(view: RunView, notices: RunNotices) -> list[StreamObject]:
    """Return the objects that end the stream of a run that waits: what it waits for in words, and `done`."""
    return [*build_notice("waiting", notices.describe_waiting(view), view), build_done(view)]


def build_notice(kind: Literal["waiting", "failed"], sentence: str, view: RunView) -> list[StreamObject]:
    """Return a sentence of the server as the text that a client appends to what the run has said; none if it is empty.

    It is marked, since it is no text of the model: the cursor does not count it, and it comes with no id of its own.
    """
    if not sentence:
        return []
    separator = NOTICE_SEPARATOR if any(turn.texts for turn in view.turns) else ""
    return [{"type": "text.delta", "content": separator + sentence, "notice": kind}]


def _build_fleeting(event: Fleeting, view: RunView) -> list[StreamObject]:
    match event:
        case TextAppended(text=text):
            return [{"type": "text.delta", "content": text}]
        case ReasoningAppended(text=text):
            return [{"type": "reasoning.delta", "content": text}] if text else []
        case ArgumentsAppended():
            return []  # the whole arguments come with the call's `started`
        case CallProgressed():
            about = {"progress": event.progress, "total": event.total, "message": event.message}
            return [{"type": "tool.progress", **_call_fields(view, event.call_id), **about}]
        case _:
            assert_never(event)


def _build_durable(event: Durable, view: RunView, notices: RunNotices) -> list[StreamObject]:
    if is_call_event(event):
        return _build_call(event, view)
    if is_turn_event(event):
        return _build_turn(event, view)
    match event:
        case RunEnded():
            return _build_run_end(event, view, notices)
        case RunSuspended():
            return build_wait(view, notices)
        case HistoryCompacted():
            sizes = {"tokens_before": event.tokens_before, "tokens_after": event.tokens_after}
            return [{"type": "history.compacted", "summarised": event.summarised, **sizes}]
        case RunQueued() | RunStarted() | StopRequested():
            return []
        case CallsRequested():
            return []  # each call is told when it starts, asks or ends
        case HistoryRewound(to=to):
            return [{"type": "history.rewound", "to": to}]
        case ConversationOpened() | ConversationChanged() | MessageAdded() | MessageRemoved():
            return []  # settings and added messages are read by their own routes, not streamed
        case _:
            assert_never(event)


def _build_turn(event: TurnEvent, view: RunView) -> list[StreamObject]:
    match event:
        case TurnStarted(number=number):
            # The client has to drop the text that it has received of this turn.
            return [{"type": "turn.restarted", "turn": number}] if view.turns[-1].restarted else []
        case TurnEnded(items=items, output_problem=output_problem):
            objects: list[StreamObject] = []
            for item in items:
                if type(item) is Result:
                    objects += _build_call_finish(item, view, ran_by="provider")
            if citations := merge_citations(view.turns[-1].texts):
                objects.append({"type": "text.cited", "citations": citations})
            if output_problem is not None and view.needs_repair:
                # The same for a text that does not fit the output schema: the model writes another one.
                objects.append({"type": "turn.restarted", "turn": view.turns[-1].number, "error": output_problem.error})
            return objects
        case TurnFailed():
            return []  # the end of the run carries the error, or the history is compacted for another attempt
        case _:
            assert_never(event)


def _build_run_end(event: RunEnded, view: RunView, notices: RunNotices) -> list[StreamObject]:
    objects = build_notice("failed", notices.describe_failure(view), view)
    if event.message is not None:
        objects.append({"type": "text.delta", "content": event.message.text})
    if (problem := view.problem) is not None:
        about = {"error": problem.error, "error_type": problem.error_type, **describe_failure(problem).details}
        objects.append({"type": "error", **about})
    return [*objects, build_done(view)]


def _build_call(event: CallEvent, view: RunView) -> list[StreamObject]:
    match event:
        case CallStarted(call_id=call_id, attempt=attempt):
            return [_build_call_start(call_id, view)] if attempt == 1 else []
        case CallEnded(result=result):
            return _build_call_finish(result, view, ran_by="")
        case CallJudged(verdict="ask"):
            return [_build_approval_request(event, view)]
        case CallParked(call_id=call_id, kind="client", expires_at=expires_at):
            fields = _call_fields_with_arguments(view, call_id)
            return [{"type": "client.call", **fields, "expires_at": expires_at}]
        case CallParked(call_id=call_id, question=question, expires_at=expires_at):
            fields = _call_fields(view, call_id)
            return [{"type": "question.asked", **fields, "question": question, "expires_at": expires_at}]
        case CallApproved(call_id=call_id, by=by, remaining=remaining, reason=reason) if remaining:
            about = {"by": by, "remaining": remaining, **({"reason": reason} if reason else {})}
            return [{"type": "approval.given", **_call_fields(view, call_id), **about}]
        case CallJudged() | CallApproved() | CallDenied() | CallAnswered():
            return []  # the call's `started` or `finished` follows
        case _:
            assert_never(event)


def _build_approval_request(event: CallJudged, view: RunView) -> StreamObject:
    fields = _call_fields_with_arguments(view, event.call_id)
    if (call := view.calls.get(event.call_id)) is not None and call.call.confirm == "ask":
        # The user is asked in the conversation: the next message may decide, and `remember` is refused.
        fields["confirm"] = True
    if event.sources:
        fields["sources"] = event.sources
    if event.terms is not None:
        fields["terms"] = event.terms
    return {"type": "approval.required", **fields, "reason": event.rule, "expires_at": event.expires_at}


def _build_call_start(call_id: str, view: RunView) -> StreamObject:
    call = view.calls.get(call_id)
    decisions = {"decisions": call.decisions} if call and call.decisions else {}
    return {"type": "tool.status", "state": "started", **_call_fields_with_arguments(view, call_id), **decisions}


def _build_call_finish(result: Result, view: RunView, ran_by: str) -> list[StreamObject]:
    finished: StreamObject = {
        "type": "tool.status",
        "state": "finished",
        "name": result.tool,
        "call_id": result.call_id,
        "ok": result.outcome == "ok",
        "outcome": result.outcome,
        "duration_ms": round(result.duration_ms, 3),
        **_program_fields(view, result.call_id),
    }
    if result.error is not None:
        finished |= {"error": result.error.error, "error_type": result.error.error_type}
    if ran_by:
        finished["ran"] = ran_by
    # A call that was denied or that a provider ran has no CallStarted of its own.
    started = view.calls[result.call_id].attempt > 0
    return [finished] if started else [_build_call_start(result.call_id, view), finished]


def _call_fields(view: RunView, call_id: str) -> StreamObject:
    call = view.calls.get(call_id)
    return {"name": call.call.tool if call else "", "call_id": call_id, **_program_fields(view, call_id)}


def _program_fields(view: RunView, call_id: str) -> StreamObject:
    """Return the program that makes a call, and its line; nothing for a call of the model."""
    call = view.calls.get(call_id)
    if call is None or not call.parent:
        return {}
    return {"parent": call.parent, "line": call.line}


def _call_fields_with_arguments(view: RunView, call_id: str) -> StreamObject:
    call = view.calls.get(call_id)
    return {**_call_fields(view, call_id), "arguments": call.call.arguments if call else {}}
