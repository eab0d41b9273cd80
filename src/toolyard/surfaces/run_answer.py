"""Run a chat and build one answer from it: the assistant's message, or what the run waits for."""

import asyncio
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from toolyard.core.commands import Start
from toolyard.core.events import (
    CallEnded,
    CallParked,
    Entry,
    HistoryCompacted,
    RunEnded,
    RunStarted,
    RunSuspended,
    TurnEnded,
)
from toolyard.core.history import History
from toolyard.core.items import Call, Item, Usage
from toolyard.core.limits import Limits
from toolyard.core.state import State
from toolyard.engine.readers import Reader
from toolyard.engine.service import Service
from toolyard.surfaces.chat_messages import ChatMessage, to_messages
from toolyard.surfaces.errors import ModelFailed

ANSWER_GRACE_S = 10.0
"""How long to wait beyond the run's own time limit: a run that reaches the limit takes a moment to stop."""

Status = Literal["done", "limit", "cancelled", "waiting", "queued", "running"]
Awaited = Literal["approval", "client", "answer"]
_STATUS_MESSAGES: dict[Status, str] = {
    "done": "Chat completed successfully",
    "limit": "The run reached a limit",
    "cancelled": "The run was stopped",
    "waiting": "The run waits; decide, answer or run each of the calls",
    "queued": "The message waits for the run in front of it, which has not ended yet",
    "running": "The run goes on; follow it on /events",
}


class WaitingCall(Struct, kw_only=True, rename={"awaited": "for"}):
    """A call that waits for an approval, for the application to run it, or for the answer to its question."""

    call_id: str
    name: str
    arguments: dict[str, object]
    awaited: Awaited


class ChatAnswer(Struct, kw_only=True):
    """The answer to a chat message. Without an assistant message `status` says why; `…/events` shows what follows."""

    user_message: ChatMessage
    assistant_message: ChatMessage | None
    message: str
    status: Status
    run_id: str
    detail: str = ""
    """Which limit was reached, or who stopped the run."""
    waiting: list[WaitingCall] = []
    token_count: int = 0
    """Tokens of this run, sent and received."""
    tokens_sent: int = 0
    messages_in_context: int = 0
    """Messages that the last model request of this run held, the system prompt not counted."""
    success: bool = True


class RunProgress:
    """The progress of one run, updated from its entries."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.status: Status = "queued"
        self.over = False
        """Whether the run has ended or waits for somebody."""
        self.detail = ""
        self.failure: ModelFailed | None = None
        self.items: list[Item] = []
        self.usage = Usage()
        self.last_turn: Sequence[Item] = ()
        self.waiting_for: Sequence[str] = ()
        self._parked: dict[str, Awaited] = {}

    def add(self, entry: Entry) -> None:
        match entry.event:
            case RunStarted():
                self.status = "running"
            case TurnEnded(items=items, usage=usage):
                self.items += items
                self.usage = self.usage.plus(usage)
                self.last_turn = items or self.last_turn
            case HistoryCompacted(usage=usage):
                self.usage = self.usage.plus(usage)
            case CallParked(call_id=call_id, kind=kind):
                self._parked[call_id] = "client" if kind == "client" else "answer"
            case CallEnded(result=result):
                self.items.append(result)
            case RunSuspended(waiting_for=waiting_for):
                self.status, self.waiting_for, self.over = "waiting", waiting_for, True
            case RunEnded():
                self._add_end(entry.event)
            case _:
                pass

    def _add_end(self, event: RunEnded) -> None:
        self.over, self.detail = True, event.detail
        if event.ending == "failed":
            problem = event.problem
            assert problem is not None
            self.failure = ModelFailed(problem.error, {"run_id": self.run_id, "cause": problem.error_type})
            return
        self.status = event.ending
        if event.message:
            self.items.append(event.message)

    def list_waiting_calls(self) -> list[WaitingCall]:
        calls = {item.id: item for item in self.items if isinstance(item, Call)}
        return [
            WaitingCall(
                call_id=call.id, name=call.tool, arguments=call.arguments, awaited=self._parked.get(call.id, "approval")
            )
            for call in map(calls.__getitem__, self.waiting_for)
        ]

    def find_final_message(self) -> ChatMessage | None:
        """Return the last message if it is the assistant's answer to the user, else None."""
        messages = to_messages(self.items) if self.over and self.status != "waiting" else []
        last = messages[-1] if messages else None
        return last if last and last.role == "assistant" and not last.tool_calls else None


async def run_chat(service: Service, conversation: str, start: Start, limits: Limits) -> ChatAnswer:
    """Start a run and return its answer once it ends or waits. Raise ModelFailed if it fails.

    The run does not depend on this wait: it goes on when the client disconnects.
    """
    progress = RunProgress(start.run_id)
    reader = await service.follow(conversation, include_argument_deltas=False)
    try:
        await service.submit(conversation, start)
        async with asyncio.timeout(limits.run_seconds + ANSWER_GRACE_S):
            await _wait_until_rest(service, conversation, reader, progress)
    except TimeoutError:
        pass  # the answer then has the status "running" or "queued"
    finally:
        reader.detach()
    if progress.failure is not None:
        raise progress.failure
    return build_chat_answer(progress, start, await service.state(conversation))


async def _wait_until_rest(service: Service, conversation: str, reader: Reader, progress: RunProgress) -> None:
    if _is_behind_waiting_run(await service.state(conversation), progress.run_id):
        return
    async for item in reader:
        if not isinstance(item, Entry):
            continue
        if item.run == progress.run_id:
            progress.add(item)
            if progress.over:
                return
        elif isinstance(item.event, RunSuspended) and _is_behind_waiting_run(
            await service.state(conversation), progress.run_id
        ):
            return


def _is_behind_waiting_run(state: State, run_id: str) -> bool:
    """Return whether the run is queued behind one that waits for somebody, which can take days."""
    front = state.run
    return front is not None and front.id != run_id and front.suspended_at is not None


def build_chat_answer(progress: RunProgress, start: Start, state: State) -> ChatAnswer:
    message = _STATUS_MESSAGES[progress.status]
    return ChatAnswer(
        user_message=to_messages(start.input)[-1],
        assistant_message=progress.find_final_message(),
        message=f"{message}: {progress.detail}" if progress.detail else message,
        status=progress.status,
        run_id=progress.run_id,
        detail=progress.detail,
        waiting=progress.list_waiting_calls(),
        token_count=progress.usage.total,
        tokens_sent=progress.usage.input_tokens,
        messages_in_context=count_messages_before(state.history, progress.last_turn),
    )


def count_messages_before(history: History, turn: Sequence[Item]) -> int:
    """Return how many messages the history has before the items of a turn.

    The turn is searched from the end, where it usually is; the history keeps running sums, so the count is not a scan.
    """
    if not turn:
        return 0
    positions = range(len(history) - 1, -1, -1)
    first = next((at for at in positions if history[at].id == turn[0].id), len(history))
    return history.sum_first(first)[1]
