"""A chat's run as one answer: what came of it when it ended, or what it waits for. It does not know any route."""

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
"""How much longer than the run may take its answer is waited for: stopping one that took too long takes a moment."""

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
    """A call that somebody has to approve, to run in the application, or to answer a question of."""

    call_id: str
    name: str
    arguments: dict[str, object]
    awaited: Awaited


class ChatAnswer(Struct, kw_only=True):
    """What a chat came to. Where there is no assistant message `status` says why; `…/events` shows how it goes on."""

    user_message: ChatMessage
    assistant_message: ChatMessage | None
    message: str
    status: Status
    run_id: str
    detail: str = ""
    """Which limit was reached, or who stopped it."""
    waiting: list[WaitingCall] = []
    token_count: int = 0
    """Tokens of this run, sent and received."""
    tokens_sent: int = 0
    messages_in_context: int = 0
    """Messages that the last model request of this run held, the system prompt not counted."""
    success: bool = True


class RunProgress:
    """The course of one run, from its entries."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.status: Status = "queued"
        self.over = False
        """It ended, or it waits."""
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
        """What the model said last, if it was to the user."""
        messages = to_messages(self.items) if self.over and self.status != "waiting" else []
        last = messages[-1] if messages else None
        return last if last and last.role == "assistant" and not last.tool_calls else None


async def run_chat(service: Service, conversation: str, start: Start, limits: Limits) -> ChatAnswer:
    """Start a run and wait until it rests, but never for longer than it may take. Raises ModelFailed if it failed.

    Whoever waits here and leaves does not stop the run.
    """
    course = RunProgress(start.run_id)
    reader = await service.follow(conversation, include_argument_deltas=False)
    try:
        await service.submit(conversation, start)
        async with asyncio.timeout(limits.run_seconds + ANSWER_GRACE_S):
            await _wait_until_rest(service, conversation, reader, course)
    except TimeoutError:
        pass  # the course knows how far it came
    finally:
        reader.detach()
    if course.failure is not None:
        raise course.failure
    return build_chat_answer(course, start, await service.state(conversation))


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
    """Whether the run is in line behind one that waits for somebody: that can take days."""
    front = state.run
    return front is not None and front.id != run_id and front.suspended_at is not None


def build_chat_answer(progress: RunProgress, start: Start, state: State) -> ChatAnswer:
    said = _STATUS_MESSAGES[progress.status]
    return ChatAnswer(
        user_message=to_messages(start.input)[-1],
        assistant_message=progress.find_final_message(),
        message=f"{said}: {progress.detail}" if progress.detail else said,
        status=progress.status,
        run_id=progress.run_id,
        detail=progress.detail,
        waiting=progress.list_waiting_calls(),
        token_count=progress.usage.total,
        tokens_sent=progress.usage.input_tokens,
        messages_in_context=count_messages_before(state.history, progress.last_turn),
    )


def count_messages_before(history: History, turn: Sequence[Item]) -> int:
    """Return how many messages stand before the items of a turn.

    The turn is near the end, so it is looked for from there; the count up to it is a sum that the history has.
    """
    if not turn:
        return 0
    places = range(len(history) - 1, -1, -1)
    first = next((at for at in places if history[at].id == turn[0].id), len(history))
    return history.sum_first(first)[1]
