"""A call that has to be confirmed: a floor under every rule, and what the next message makes of it."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from support import (
    TEST_TIMEOUT_S,
    collect_events,
    find_history_faults,
    get_ending,
    get_results,
    join_text,
    list_asked_calls,
)
from toolyard import Caller, Run, Yard, tool
from toolyard.core.conversation.events import CallJudged, Event
from toolyard.core.errors import Refused
from toolyard.core.items import Confirm
from toolyard.core.ports import PolicyRequest, Verdict
from toolyard.testing import Scripted, ScriptedCall, Turn, say

ANN = Caller(user="ann")
OFFLINE = "toolyard:offline"


class Orders:
    """Orders that can be deleted, and how often each was."""

    def __init__(self, approval: str = "never") -> None:
        self.deleted_numbers: list[int] = []

        @tool(approval=approval, examples=["delete order {number}"])  # pyright: ignore[reportArgumentType]
        def delete_order(number: int) -> str:
            "Delete an order for good."
            self.deleted_numbers.append(number)
            return f"order {number} is gone"

        @tool(read_only=True, examples=["show my orders"])
        def list_orders() -> list[int]:
            "List the orders that there are."
            return [number for number in (6, 7, 8) if number not in self.deleted_numbers]

        self.tools = [delete_order, list_orders]


@asynccontextmanager
async def open_order_yard(orders: Orders, **options: object) -> AsyncGenerator[Yard]:
    async with asyncio.timeout(TEST_TIMEOUT_S):
        async with Yard(tools=orders.tools, **{"model": OFFLINE, **options}) as yard:  # pyright: ignore[reportArgumentType]
            yield yard


async def send(yard: Yard, message: str, conversation: str = "conversation_1") -> list[Event]:
    """Send a message and follow its run until it rests."""
    run = yard.run(message, caller=ANN, conversation=conversation)
    return await _follow_until_rest(run)


async def _follow_until_rest(run: Run) -> list[Event]:
    events: list[Event] = []
    async for event in run:
        events.append(event)
        if list_asked_calls(events):
            break
    return events


def delete(number: int, confirm: Confirm) -> Turn:
    return Turn(calls=(ScriptedCall(tool="delete_order", arguments={"number": number}, confirm=confirm),))


@pytest.mark.parametrize("message", ["Bob wants me to delete order 7", "delete order 7?", "should I delete order 7"])
async def test_what_is_no_plain_order_is_proposed_and_runs_only_after_a_yes(message: str) -> None:
    orders = Orders()
    async with open_order_yard(orders) as yard:
        events = await send(yard, message)
        assert len(list_asked_calls(events)) == 1 and orders.deleted_numbers == []
        answered = await collect_events(yard.run("yes, please", caller=ANN, conversation="conversation_1"))
        assert orders.deleted_numbers == [7]
        assert "order 7 is gone" in join_text(answered) and get_ending(answered).ending == "done"
        assert await find_history_faults(yard, "conversation_1") == []


async def test_a_plain_order_runs_without_a_question() -> None:
    orders = Orders()
    async with open_order_yard(orders) as yard:
        assert list_asked_calls(await send(yard, "Please delete order 4711.")) == []
        assert orders.deleted_numbers == [4711]


@pytest.mark.parametrize(("message", "says"), [("no", "nothing was done"), ("show my orders", "7")])
async def test_any_other_message_takes_the_proposal_back(message: str, says: str) -> None:
    orders = Orders()
    async with open_order_yard(orders) as yard:
        first = yard.run("delete order 7?", caller=ANN, conversation="conversation_1")
        await _follow_until_rest(first)
        events = await collect_events(yard.run(message, caller=ANN, conversation="conversation_1"))
        assert orders.deleted_numbers == [] and says in join_text(events)
        again = await collect_events(yard.run("yes", caller=ANN, conversation="conversation_1"))
        assert orders.deleted_numbers == [] and get_ending(again).ending == "done"


async def test_a_proposal_that_was_stopped_is_not_brought_back_by_a_yes() -> None:
    orders = Orders()
    async with open_order_yard(orders) as yard:
        await send(yard, "delete order 7?")
        await yard.stop("conversation_1", caller=ANN)
        await collect_events(yard.run("yes", caller=ANN, conversation="conversation_1"))
        assert orders.deleted_numbers == []


async def test_a_yes_is_the_one_approval_that_a_tool_with_approval_needs() -> None:
    orders = Orders(approval="ask")
    async with open_order_yard(orders) as yard:
        await send(yard, "delete order 7?")
        answered = await collect_events(yard.run("yes", caller=ANN, conversation="conversation_1"))
        assert list_asked_calls(answered) == [] and orders.deleted_numbers == [7]


async def test_a_proposal_survives_the_end_of_its_process(tmp_path: Path) -> None:
    orders, store = Orders(), f"sqlite:///{tmp_path / 'orders.db'}"
    async with open_order_yard(orders, store=store) as yard:
        await send(yard, "delete order 7?")
    async with open_order_yard(orders, store=store) as yard:
        await collect_events(yard.run("yes", caller=ANN, conversation="conversation_1"))
    assert orders.deleted_numbers == [7]


async def test_neither_a_rule_nor_a_remembered_approval_lowers_the_floor() -> None:
    orders = Orders(approval="ask")
    script = [delete(7, "ask"), say("done"), delete(8, "ask")]

    def allow(question: PolicyRequest) -> Verdict | None:
        return Verdict("allow", "the rule allows everything")

    async with open_order_yard(orders, model=Scripted(script), rules=[allow]) as yard:
        run = yard.run("delete order 7", caller=ANN, conversation="conversation_1")
        (call_id,) = list_asked_calls(await _follow_until_rest(run))
        with pytest.raises(Refused, match="confirmed each time"):
            await yard.approve("conversation_1", call_id, remember="tool", caller=ANN)
        await yard.approve("conversation_1", call_id, caller=ANN)
        await collect_events(run)
        assert orders.deleted_numbers == [7]
        assert len(list_asked_calls(await send(yard, "delete order 8"))) == 1


async def test_a_confirmation_does_not_lift_a_denial() -> None:
    orders = Orders()
    script = [delete(7, "given"), say("no")]

    def deny(question: PolicyRequest) -> Verdict | None:
        return Verdict("deny", "never") if question.arguments is not None else None

    async with open_order_yard(orders, model=Scripted(script), rules=[deny]) as yard:
        events = await collect_events(yard.run("delete order 7", caller=ANN))
        assert [result.outcome for result in get_results(events)] == ["denied"] and orders.deleted_numbers == []


async def test_a_proposal_expires_after_ten_minutes() -> None:
    orders = Orders()
    async with open_order_yard(orders) as yard:
        events = await send(yard, "delete order 7?")
        (judged,) = [event for event in events if isinstance(event, CallJudged)]
        assert judged.expires_at - yard.service.clock.now() <= 600
