"""Run a chat and build one answer from it: the assistant's message, or what the run waits for."""

import asyncio
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from toolyard.core.conversation.events import Entry, RunSuspended
from toolyard.core.conversation.history import History
from toolyard.core.conversation.run_view import Awaited, CallView, RunView
from toolyard.core.conversation.state import State
from toolyard.core.items import Item, UserMessage
from toolyard.core.settings.limits import Limits
from toolyard.engine.log.open_runs import is_at_rest
from toolyard.engine.service import Service, StartedRun
from toolyard.surfaces.http.errors import raise_refusal
from toolyard.surfaces.shared.chat_messages import ChatMessage, to_message, to_messages
from toolyard.surfaces.shared.runs.followed_run import load_front_run
from toolyard.surfaces.shared.runs.notices import RunNotices, join_notice

ANSWER_GRACE_S = 10.0
"""How long to wait beyond the run's own time limit: a run that reaches the limit takes a moment to stop."""

Status = Literal["done", "limit", "cancelled", "waiting", "queued", "running"]
_STATUS_MESSAGES: dict[Status, str] = {
    "done": "Chat completed successfully",
    "limit": "The run reached a limit",
    "cancelled": "The run was stopped",
    "waiting": "The run waits; decide, answer or run each of the calls",
    "queued": "The message waits for the run in front of it, which has not ended yet",
    "running": "The run goes on; follow it on /events",
}
_BUDGET_MESSAGE = "The run waits until the amount of a budget is raised"


class WaitingCall(Struct, kw_only=True, omit_defaults=True, rename={"awaited": "for"}):
    """A call that waits for an approval, for the application to run it, or for the answer to its question."""

    call_id: str
    name: str
    arguments: dict[str, object]
    awaited: Awaited
    parent: str = ""
    """The call of `run_code` whose program makes this one; only for a call of a program."""
    line: int = 0
    """The line of the program that makes the call."""


class ChatAnswer(Struct, kw_only=True):
    """The answer to a chat message. `status` says whether it is final; `…/events` shows what follows.

    The assistant message of a run that waits says what it waits for. It is stored nowhere.
    """

    user_message: ChatMessage
    assistant_message: ChatMessage | None
    message: str
    status: Status
    run_id: str
    detail: str = ""
    """Which limit was reached, or who stopped the run."""
    waiting: list[WaitingCall] = []
    budget: str = ""
    """The budget that the run waits for, until its amount is raised."""
    token_count: int = 0
    """Tokens of this run, sent and received."""
    tokens_sent: int = 0
    messages_in_context: int = 0
    """Messages that the last model request of this run held, the system prompt not counted."""
    success: bool = True


async def wait_for_answer(service: Service, started: StartedRun, limits: Limits, notices: RunNotices) -> ChatAnswer:
    """Return the answer of a run once it ends or waits. Raise ModelFailed if it fails.

    The run does not depend on this wait: it goes on when the client disconnects.
    """
    view = RunView(run_id=started.run_id)
    try:
        async with asyncio.timeout(limits.run_seconds + ANSWER_GRACE_S):
            await _wait_until_rest(service, started, view)
    except TimeoutError:
        pass  # the answer then has the status "running" or "queued"
    finally:
        started.reader.detach()
    raise_refusal(view)
    state = await service.conversations.view(started.conversation)
    notice = notices.describe_waiting(view)
    if _is_behind_waiting_run(state, view.run_id):
        front = await load_front_run(service, started.conversation)
        notice = notices.describe_run_in_front(front) if front is not None else ""
    return build_chat_answer(view, state, notice)


async def _wait_until_rest(service: Service, started: StartedRun, view: RunView) -> None:
    if _is_behind_waiting_run(await service.conversations.view(started.conversation), view.run_id):
        return
    log_end = started.reader.end
    async for item in started.reader:
        is_own = view.apply(item) is not None
        if not isinstance(item, Entry):
            continue
        if is_at_rest(view, item.seq, log_end):
            return
        if (
            not is_own
            and isinstance(item.event, RunSuspended)
            and _is_behind_waiting_run(await service.conversations.view(started.conversation), view.run_id)
        ):
            return


def _is_behind_waiting_run(state: State, run_id: str) -> bool:
    """Return whether the run is queued behind one that waits for somebody, which can take days."""
    front = state.run
    return front is not None and front.suspended_at is not None and any(run.id == run_id for run in state.queue)


def build_chat_answer(view: RunView, state: State, notice: str = "") -> ChatAnswer:
    """Return the answer about a run that has not failed. `notice` says what it waits for."""
    status = _find_status(view)
    message = _BUDGET_MESSAGE if view.awaited_budget else _STATUS_MESSAGES[status]
    last_items = next((turn.items for turn in reversed(view.turns) if turn.items), ())
    return ChatAnswer(
        user_message=_find_question(view, state),
        assistant_message=_build_notice_message(view, notice) if notice else find_final_message(view),
        message=f"{message}: {view.detail}" if view.detail else message,
        status=status,
        run_id=view.run_id,
        detail=view.detail,
        waiting=[build_waiting_call(view.calls[call_id]) for call_id in view.waiting_for],
        budget=view.awaited_budget,
        token_count=view.usage.total,
        tokens_sent=view.usage.input_tokens,
        messages_in_context=_count_messages_before(last_items, state),
    )


def _find_status(view: RunView) -> Status:
    if view.status == "ended":
        assert view.ending is not None and view.ending != "failed"
        return view.ending
    return view.status


def find_final_message(view: RunView) -> ChatMessage | None:
    """Return the last message of a run that has ended if it is the assistant's answer to the user, else None."""
    messages = to_messages(view.list_items()) if view.status == "ended" else []
    last = messages[-1] if messages else None
    return last if last and last.role == "assistant" and not last.tool_calls else None


def _build_notice_message(view: RunView, notice: str) -> ChatMessage:
    """Return what the model has said so far and a sentence of the server as a message. It is stored nowhere."""
    return ChatMessage(role="assistant", content=join_notice(view.text, notice), id=f"notice_{view.run_id}")


def build_waiting_call(call: CallView) -> WaitingCall:
    return WaitingCall(
        call_id=call.call.id,
        name=call.call.tool,
        arguments=call.call.arguments,
        awaited=call.awaited or "approval",
        parent=call.parent,
        line=call.line,
    )


def _find_question(view: RunView, state: State) -> ChatMessage:
    """Return the message that the run answers: its own, or for a run without one the last message before it."""
    # Of a run that waits in the queue nothing was read yet.
    request = view.request or next((run.request for run in state.queue if run.id == view.run_id), None)
    if request is not None and request.input:
        return to_messages(request.input)[-1]
    path, position = _find_item(state.full_history, state, next((item.id for item in view.list_items()), ""))
    before = path.first(position)
    question = next((item for item in reversed(before) if isinstance(item, UserMessage)), None)
    if question is not None:
        return to_message([question])
    # The run answers a call that was made by hand, or the user's message was deleted since.
    messages = to_messages(before)
    return messages[-1] if messages else ChatMessage(role="user", content="")


def _find_item(current: History, state: State, item_id: str) -> tuple[History, int]:
    """Return the history that holds an item, the current one or that of a branch, and the item's position in it.

    If there is none, return the current history and its length.
    """
    for path in (current, *(branch.history for branch in state.branches)):
        if item_id and (position := path.find(item_id)) is not None:
            return path, position
    return current, len(current)


def _count_messages_before(turn: Sequence[Item], state: State) -> int:
    """Return how many messages the history has before the items of a turn.

    The turn is searched from the end, where it usually is; the history keeps running sums, so the count is not a scan.
    """
    if not turn:
        return 0
    path, position = _find_item(state.history, state, turn[0].id)
    return path.sum_first(position)[1]
