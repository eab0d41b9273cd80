"""Encode entries and fleeting events as the JSON objects of a stream. Pure; `sse` turns the objects into events.

Every call has a `started` and a `finished` object, also one that was refused before it ran.
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
from toolyard.core.history import find_open_calls
from toolyard.core.items import Call, Item, ModelText, Result, Usage
from toolyard.engine.run_result import merge_citations

StreamObject = dict[str, object]


class ObjectEncoder:
    """Encodes published items as objects. It remembers calls, since later events name a call only by its id."""

    def __init__(self) -> None:
        self._calls: dict[str, Call] = {}
        self._started_calls: set[str] = set()
        self._turn = 0
        self._usage = Usage()

    def encode(self, item: Entry | Fleeting) -> list[StreamObject]:
        if not isinstance(item, Entry):
            return self._encode_fleeting(item)
        objects = self._encode_durable(item.event, item)
        for stream_object in objects:
            stream_object["correlation_id"] = item.correlation_id
        return objects

    def _encode_fleeting(self, event: Fleeting) -> list[StreamObject]:
        match event:
            case TextAppended(text=text):
                return [{"type": "text.delta", "content": text}]
            case ReasoningAppended(text=text):
                return [{"type": "reasoning.delta", "content": text}]
            case ArgumentsAppended():
                return []  # the whole arguments come with the call's `started`
            case CallProgressed():
                about = {"progress": event.progress, "total": event.total, "message": event.message}
                return [{"type": "tool.progress", **self._call_fields(event.call_id), **about}]
            case _:
                assert_never(event)

    def _encode_durable(self, event: Durable, entry: Entry) -> list[StreamObject]:
        match event:
            case (
                CallJudged() | CallStarted() | CallParked() | CallEnded()
                | CallApproved() | CallDenied() | CallAnswered()
            ):  # fmt: skip
                return self._encode_call(event)
            case TurnStarted() | TurnEnded() | TurnFailed():
                return self._encode_turn(event)
            case RunQueued() | RunStarted() | RunSuspended() | RunEnded() | StopRequested():
                return self._encode_run(event, entry)
            case HistoryCompacted():
                self._usage = self._usage.plus(event.usage)
                sizes = {"tokens_before": event.tokens_before, "tokens_after": event.tokens_after}
                return [{"type": "history.compacted", "summarised": event.summarised, **sizes}]
            case ConversationOpened() | ConversationChanged() | MessageAdded() | MessageRemoved():
                return []  # settings and added messages are read by their own routes, not streamed
            case _:
                assert_never(event)

    def _encode_turn(self, event: TurnStarted | TurnEnded | TurnFailed) -> list[StreamObject]:
        match event:
            case TurnStarted(number=number):
                # A second start under the same number means that the process of the first one died: the client has to
                # drop the text that it has received of this turn.
                again, self._turn = number == self._turn, number
                return [{"type": "turn.restarted", "turn": number}] if again else []
            case TurnEnded(items=items, usage=usage):
                self._usage = self._usage.plus(usage)
                return self._encode_turn_items(items)
            case TurnFailed():
                return []  # the end of the run carries the error, or the history is compacted for another attempt
            case _:
                assert_never(event)

    def _encode_turn_items(self, items: Sequence[Item]) -> list[StreamObject]:
        """Return the objects for the end of a turn: calls that the provider ran itself, and citations of the text."""
        objects: list[StreamObject] = []
        for item in items:
            if isinstance(item, Call):
                self._calls[item.id] = item
            elif isinstance(item, Result):
                objects += self._encode_call_finish(item, ran_by="provider")
        if citations := merge_citations([item for item in items if isinstance(item, ModelText)]):
            objects.append({"type": "text.cited", "citations": citations})
        return objects

    def _encode_run(
        self, event: RunQueued | RunStarted | RunSuspended | RunEnded | StopRequested, entry: Entry
    ) -> list[StreamObject]:
        match event:
            case RunQueued(input=input):
                self._calls.update({call.id: call for call in find_open_calls(input)})
                return []
            case RunStarted():
                self._usage = Usage()
                return []
            case RunSuspended():
                return [self.build_done("waiting", entry.conversation, entry.run)]
            case RunEnded():
                return self._encode_run_end(event, entry)
            case StopRequested():
                return []
            case _:
                assert_never(event)

    def _encode_run_end(self, event: RunEnded, entry: Entry) -> list[StreamObject]:
        objects: list[StreamObject] = []
        if event.message is not None:
            objects.append({"type": "text.delta", "content": event.message.text})
        if (problem := event.problem) is not None:
            objects.append({"type": "error", "error": problem.error, "error_type": problem.error_type})
        objects.append({**self.build_done(event.ending, entry.conversation, entry.run), "detail": event.detail})
        return objects

    def _encode_call(
        self, event: CallJudged | CallApproved | CallDenied | CallStarted | CallParked | CallAnswered | CallEnded
    ) -> list[StreamObject]:
        match event:
            case CallStarted(call_id=call_id):
                return self._encode_call_start(call_id)
            case CallEnded(result=result):
                return self._encode_call_finish(result, ran_by="")
            case CallJudged(verdict="ask", call_id=call_id, rule=rule, expires_at=expires_at):
                fields = self._call_fields_with_arguments(call_id)
                if (call := self._calls.get(call_id)) is not None and call.confirm == "ask":
                    # The user is asked in the conversation: the next message may decide, and `remember` is refused.
                    fields["confirm"] = True
                return [{"type": "approval.required", **fields, "reason": rule, "expires_at": expires_at}]
            case CallParked(call_id=call_id, kind="client", expires_at=expires_at):
                return [{"type": "client.call", **self._call_fields_with_arguments(call_id), "expires_at": expires_at}]
            case CallParked(call_id=call_id, question=question, expires_at=expires_at):
                fields = self._call_fields(call_id)
                return [{"type": "question.asked", **fields, "question": question, "expires_at": expires_at}]
            case CallJudged() | CallApproved() | CallDenied() | CallAnswered():
                return []  # the call's `started` or `finished` follows
            case _:
                assert_never(event)

    def _encode_call_start(self, call_id: str) -> list[StreamObject]:
        # Also called for the end of a call: one that was denied or that a provider ran has no CallStarted of its own.
        if call_id in self._started_calls:
            return []
        self._started_calls.add(call_id)
        return [{"type": "tool.status", "state": "started", **self._call_fields_with_arguments(call_id)}]

    def _encode_call_finish(self, result: Result, ran_by: str) -> list[StreamObject]:
        done: StreamObject = {
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
        if ran_by:
            done["ran"] = ran_by
        return [*self._encode_call_start(result.call_id), done]

    def _call_fields(self, call_id: str) -> StreamObject:
        call = self._calls.get(call_id)
        return {"name": call.tool if call else "", "call_id": call_id}

    def _call_fields_with_arguments(self, call_id: str) -> StreamObject:
        call = self._calls.get(call_id)
        return {**self._call_fields(call_id), "arguments": call.arguments if call else {}}

    def build_done(self, ending: str, conversation: str, run: str) -> StreamObject:
        usage = {"input_tokens": self._usage.input_tokens, "output_tokens": self._usage.output_tokens}
        usage["cached_tokens"] = self._usage.cached_tokens
        about = {"conversation_id": conversation, "run_id": run, "usage": usage}
        return {"type": "done", "ending": ending, **about}


def encode_object(stream_object: StreamObject) -> bytes:
    return msgspec.json.encode(stream_object)
