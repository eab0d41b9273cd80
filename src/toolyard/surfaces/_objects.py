"""The objects that every stream of ours carries, made from entries and fleeting events. Pure; it does not know SSE.

Every call shows a `started` and a `finished`, also one that was refused before it ran.
"""

from collections.abc import Iterator
from typing import assert_never

import msgspec

from toolyard.core.events import (
    ArgumentsAppended,
    CallAnswered,
    CallApproved,
    CallDenied,
    CallEnded,
    CallJudged,
    CallParked,
    CallProgressed,
    CallStarted,
    ConversationChanged,
    ConversationOpened,
    Durable,
    Entry,
    Fleeting,
    HistoryCompacted,
    MessageAdded,
    MessageRemoved,
    ReasoningAppended,
    RunEnded,
    RunQueued,
    RunStarted,
    RunSuspended,
    StopRequested,
    TextAppended,
    TurnEnded,
    TurnFailed,
    TurnStarted,
)
from toolyard.core.items import Call, Result, Usage

Object = dict[str, object]


class Objects:
    """Turns what was published into objects. It remembers the calls, whose later events name only their id."""

    def __init__(self) -> None:
        self._calls: dict[str, Call] = {}
        self._shown: set[str] = set()
        self._turn = 0
        self._usage = Usage()

    def of(self, item: Entry | Fleeting) -> Iterator[Object]:
        if isinstance(item, Entry):
            for made in self._durable(item.event, item):
                yield {**made, "correlation_id": item.correlation_id}
        else:
            yield from self._fleeting(item)

    def _fleeting(self, event: Fleeting) -> Iterator[Object]:
        match event:
            case TextAppended(text=text):
                yield {"type": "text.delta", "content": text}
            case ReasoningAppended(text=text):
                yield {"type": "reasoning.delta", "content": text}
            case ArgumentsAppended():
                pass  # the whole arguments come with the call's `started`
            case CallProgressed():
                about = {"progress": event.progress, "total": event.total, "message": event.message}
                yield {"type": "tool.progress", **self._about(event.call_id), **about}
            case _:
                assert_never(event)

    def _durable(self, event: Durable, entry: Entry) -> Iterator[Object]:
        match event:
            case (
                CallJudged() | CallStarted() | CallParked() | CallEnded()
                | CallApproved() | CallDenied() | CallAnswered()
            ):  # fmt: skip
                yield from self._call(event)
            case RunQueued() | RunStarted() | RunSuspended() | RunEnded() | StopRequested():
                yield from self._run(event, entry)
            case TurnStarted() | TurnEnded() | TurnFailed():
                yield from self._turn_of(event)
            case HistoryCompacted():
                self._usage = self._usage.plus(event.usage)
                sizes = {"tokens_before": event.tokens_before, "tokens_after": event.tokens_after}
                yield {"type": "history.compacted", "summarised": event.summarised, **sizes}
            case ConversationOpened() | ConversationChanged() | MessageAdded() | MessageRemoved():
                pass  # what a conversation is set to is asked for, not streamed
            case _:
                assert_never(event)

    def _turn_of(self, event: TurnStarted | TurnEnded | TurnFailed) -> Iterator[Object]:
        match event:
            case TurnStarted(number=number):
                if number == self._turn:
                    yield {"type": "turn.restarted", "turn": number}
                self._turn = number
            case TurnEnded(items=items, usage=usage):
                self._usage = self._usage.plus(usage)
                self._calls.update((item.id, item) for item in items if isinstance(item, Call))
                for result in (item for item in items if isinstance(item, Result)):
                    yield from self._finished(result, ran="provider")
            case TurnFailed(problem=problem):
                yield {"type": "error", "error": problem.error, "error_type": problem.error_type}
            case _:
                assert_never(event)

    def _run(
        self, event: RunQueued | RunStarted | RunSuspended | RunEnded | StopRequested, entry: Entry
    ) -> Iterator[Object]:
        match event:
            case RunQueued(input=input):
                self._calls.update((item.id, item) for item in input if isinstance(item, Call))
            case RunStarted():
                self._usage = Usage()
            case RunSuspended():
                yield self.done("waiting", entry.conversation, entry.run)
            case RunEnded(ending=ending, detail=detail, message=message):
                if message is not None:
                    yield {"type": "text.delta", "content": message.text}
                if ending == "failed":
                    error_type, _, error = detail.partition(": ")
                    yield {"type": "error", "error": error or detail, "error_type": error_type}
                yield {**self.done(ending, entry.conversation, entry.run), "detail": detail}
            case StopRequested():
                pass
            case _:
                assert_never(event)

    def _call(
        self, event: CallJudged | CallApproved | CallDenied | CallStarted | CallParked | CallAnswered | CallEnded
    ) -> Iterator[Object]:
        match event:
            case CallJudged(verdict="ask", call_id=call_id, rule=rule, expires_at=expires_at):
                asked = self._with_arguments(call_id)
                yield {"type": "approval.required", **asked, "reason": rule, "expires_at": expires_at}
            case CallStarted(call_id=call_id):
                yield from self._started(call_id)
            case CallParked(call_id=call_id, kind="client", expires_at=expires_at):
                yield {"type": "client.call", **self._with_arguments(call_id), "expires_at": expires_at}
            case CallParked(call_id=call_id, question=question, expires_at=expires_at):
                asked = self._about(call_id)
                yield {"type": "question.asked", **asked, "question": question, "expires_at": expires_at}
            case CallEnded(result=result):
                yield from self._finished(result, ran="")
            case CallJudged() | CallApproved() | CallDenied() | CallAnswered():
                pass  # the call's `started` or `finished` follows
            case _:
                assert_never(event)

    def _started(self, call_id: str) -> Iterator[Object]:
        if call_id not in self._shown:
            self._shown.add(call_id)
            yield {"type": "tool.status", "state": "started", **self._with_arguments(call_id)}

    def _finished(self, result: Result, ran: str) -> Iterator[Object]:
        yield from self._started(result.call_id)
        done: Object = {"type": "tool.status", "state": "finished", "name": result.tool, "call_id": result.call_id}
        done |= {"ok": result.outcome == "ok", "outcome": result.outcome, "duration_ms": round(result.duration_ms, 3)}
        if result.error is not None:
            done |= {"error": result.error.error, "error_type": result.error.error_type}
        yield done | ({"ran": ran} if ran else {})

    def _about(self, call_id: str) -> Object:
        call = self._calls.get(call_id)
        return {"name": call.tool if call else "", "call_id": call_id}

    def _with_arguments(self, call_id: str) -> Object:
        call = self._calls.get(call_id)
        return {**self._about(call_id), "arguments": call.arguments if call else {}}

    def done(self, ending: str, conversation: str, run: str) -> Object:
        usage = {"input_tokens": self._usage.input_tokens, "output_tokens": self._usage.output_tokens}
        usage["cached_tokens"] = self._usage.cached_tokens
        about = {"conversation_id": conversation, "run_id": run, "usage": usage}
        return {"type": "done", "ending": ending, **about}


def encoded(made: Object) -> bytes:
    return msgspec.json.encode(made)
