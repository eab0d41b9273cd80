"""The objects that every stream of ours carries, made from entries and fleeting events. Pure; it does not know SSE.

Every call shows a `started` and a `finished`, also one that was refused before it ran.
"""

from collections.abc import Sequence
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
from toolyard.core.history import calls_left_open
from toolyard.core.items import Call, Item, ModelText, Result, Usage
from toolyard.engine.run_result import cited

Object = dict[str, object]


class Objects:
    """Turns what was published into objects. It remembers the calls, whose later events name only their id."""

    def __init__(self) -> None:
        self._calls: dict[str, Call] = {}
        self._shown: set[str] = set()
        self._turn = 0
        self._usage = Usage()

    def of(self, item: Entry | Fleeting) -> list[Object]:
        if not isinstance(item, Entry):
            return self._fleeting(item)
        made = self._durable(item.event, item)
        for one in made:
            one["correlation_id"] = item.correlation_id
        return made

    def _fleeting(self, event: Fleeting) -> list[Object]:
        match event:
            case TextAppended(text=text):
                return [{"type": "text.delta", "content": text}]
            case ReasoningAppended(text=text):
                return [{"type": "reasoning.delta", "content": text}]
            case ArgumentsAppended():
                return []  # the whole arguments come with the call's `started`
            case CallProgressed():
                about = {"progress": event.progress, "total": event.total, "message": event.message}
                return [{"type": "tool.progress", **self._about(event.call_id), **about}]
            case _:
                assert_never(event)

    def _durable(self, event: Durable, entry: Entry) -> list[Object]:
        match event:
            case (
                CallJudged() | CallStarted() | CallParked() | CallEnded()
                | CallApproved() | CallDenied() | CallAnswered()
            ):  # fmt: skip
                return self._call(event)
            case TurnStarted() | TurnEnded() | TurnFailed():
                return self._turn_of(event)
            case RunQueued() | RunStarted() | RunSuspended() | RunEnded() | StopRequested():
                return self._run(event, entry)
            case HistoryCompacted():
                self._usage = self._usage.plus(event.usage)
                sizes = {"tokens_before": event.tokens_before, "tokens_after": event.tokens_after}
                return [{"type": "history.compacted", "summarised": event.summarised, **sizes}]
            case ConversationOpened() | ConversationChanged() | MessageAdded() | MessageRemoved():
                return []  # what a conversation is set to is asked for, not streamed
            case _:
                assert_never(event)

    def _turn_of(self, event: TurnStarted | TurnEnded | TurnFailed) -> list[Object]:
        match event:
            case TurnStarted(number=number):
                again, self._turn = number == self._turn, number
                return [{"type": "turn.restarted", "turn": number}] if again else []
            case TurnEnded(items=items, usage=usage):
                self._usage = self._usage.plus(usage)
                return self._said(items)
            case TurnFailed():
                return []  # the run tells why it ended, or makes room and asks the model again
            case _:
                assert_never(event)

    def _said(self, items: Sequence[Item]) -> list[Object]:
        """What a turn shows of itself at its end: what its provider ran, and what its words stand on."""
        made: list[Object] = []
        for item in items:
            if isinstance(item, Call):
                self._calls[item.id] = item
            elif isinstance(item, Result):
                made += self._finished(item, ran="provider")
        if citations := cited([item for item in items if isinstance(item, ModelText)]):
            made.append({"type": "text.cited", "citations": citations})
        return made

    def _run(
        self, event: RunQueued | RunStarted | RunSuspended | RunEnded | StopRequested, entry: Entry
    ) -> list[Object]:
        match event:
            case RunQueued(input=input):
                self._calls.update({call.id: call for call in calls_left_open(input)})
                return []
            case RunStarted():
                self._usage = Usage()
                return []
            case RunSuspended():
                return [self.done("waiting", entry.conversation, entry.run)]
            case RunEnded():
                return self._ended(event, entry)
            case StopRequested():
                return []
            case _:
                assert_never(event)

    def _ended(self, event: RunEnded, entry: Entry) -> list[Object]:
        made: list[Object] = []
        if event.message is not None:
            made.append({"type": "text.delta", "content": event.message.text})
        if (problem := event.problem) is not None:
            made.append({"type": "error", "error": problem.error, "error_type": problem.error_type})
        made.append({**self.done(event.ending, entry.conversation, entry.run), "detail": event.detail})
        return made

    def _call(
        self, event: CallJudged | CallApproved | CallDenied | CallStarted | CallParked | CallAnswered | CallEnded
    ) -> list[Object]:
        match event:
            case CallStarted(call_id=call_id):
                return self._started(call_id)
            case CallEnded(result=result):
                return self._finished(result, ran="")
            case CallJudged(verdict="ask", call_id=call_id, rule=rule, expires_at=expires_at):
                asked = self._with_arguments(call_id)
                if (call := self._calls.get(call_id)) is not None and call.confirm == "ask":
                    asked["confirm"] = True  # it cannot be remembered, and the next message may decide it
                return [{"type": "approval.required", **asked, "reason": rule, "expires_at": expires_at}]
            case CallParked(call_id=call_id, kind="client", expires_at=expires_at):
                return [{"type": "client.call", **self._with_arguments(call_id), "expires_at": expires_at}]
            case CallParked(call_id=call_id, question=question, expires_at=expires_at):
                asked = self._about(call_id)
                return [{"type": "question.asked", **asked, "question": question, "expires_at": expires_at}]
            case CallJudged() | CallApproved() | CallDenied() | CallAnswered():
                return []  # the call's `started` or `finished` follows
            case _:
                assert_never(event)

    def _started(self, call_id: str) -> list[Object]:
        if call_id in self._shown:
            return []
        self._shown.add(call_id)
        return [{"type": "tool.status", "state": "started", **self._with_arguments(call_id)}]

    def _finished(self, result: Result, ran: str) -> list[Object]:
        done: Object = {
            "type": "tool.status",
            "state": "finished",
            "name": result.tool,
            "call_id": result.call_id,
            "ok": result.outcome == "ok",
            "outcome": result.outcome,
            "duration_ms": round(result.duration_ms, 3),
        }
        if result.error is not None:
            done |= {"error": result.error.error, "error_type": result.error.error_type}
        if ran:
            done["ran"] = ran
        return [*self._started(result.call_id), done]

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
