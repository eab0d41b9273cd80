"""Calls that ask first: approved, edited, denied, expired, in any order, and never on a wrong word."""

import asyncio
from pathlib import Path

import pytest

from support import (
    STAFF,
    collect_events,
    find_history_faults,
    get_ending,
    get_problem,
    get_result,
    get_results,
    list_asked_calls,
    open_yard,
    wait_for_event,
)
from toolyard import Caller, PolicyRequest, RunWaiting, Verdict, Yard, tool
from toolyard.core.conversation.events import (
    CallApproved,
    CallDenied,
    CallEnded,
    CallJudged,
    Event,
    RunEnded,
    RunSuspended,
)
from toolyard.core.errors import Invalid, Refused
from toolyard.testing import Scripted, call, say, together


class ApprovalShop:
    """Two tools that ask, one that does not, and what they did."""

    def __init__(self, *, approval_s: float = 600) -> None:
        self.actions: list[str] = []

        @tool(approval="ask", approval_s=approval_s)
        async def delete(name: str) -> str:
            """Delete something."""
            self.actions.append(f"delete {name}")
            return f"deleted {name}"

        @tool(approval="always", approval_s=approval_s)
        async def pay(amount: int) -> str:
            """Pay something."""
            self.actions.append(f"pay {amount}")
            return f"paid {amount}"

        @tool
        async def look() -> str:
            """Needs nothing."""
            self.actions.append("look")
            return "seen"

        self.tools = [delete, pay, look]


@pytest.mark.proves("004.approval")
async def test_a_call_that_asks_does_not_run_until_it_is_approved() -> None:
    shop = ApprovalShop()
    async with open_yard([call("delete", name="x"), say("ok")], shop.tools) as yard:
        run = yard.run("go")
        judged, _ = await wait_for_event(run, RunSuspended)
        assert shop.actions == [] and len(judged.waiting_for) == 1
        await yard.approve(run.conversation, judged.waiting_for[0])
        events = await collect_events(run)
        assert get_result(events).content == "deleted x" and get_ending(events).ending == "done"
        (approved,) = [event for event in events if isinstance(event, CallApproved)]
        assert approved.by == "local" and shop.actions == ["delete x"]


async def test_a_sibling_that_needs_nothing_runs_at_once() -> None:
    shop = ApprovalShop()
    async with open_yard([together(call("delete", name="x"), call("look")), say("ok")], shop.tools) as yard:
        run = yard.run("go")
        ended, _ = await wait_for_event(run, CallEnded)
        assert ended.result.tool == "look" and shop.actions == ["look"]
        suspended, _ = await wait_for_event(run, RunSuspended)
        await yard.approve(run.conversation, suspended.waiting_for[0])
        await collect_events(run)
        assert shop.actions == ["look", "delete x"]


@pytest.mark.proves("004.approval")
async def test_several_are_decided_one_by_one_in_any_order_and_only_the_approved_one_runs() -> None:
    shop = ApprovalShop()

    turn = together(call("delete", name="a"), call("delete", name="b"), call("pay", amount=3))
    async with open_yard([turn, say("ok")], shop.tools) as yard:
        run = yard.run("go")
        suspended, _ = await wait_for_event(run, RunSuspended)
        first, second, third = suspended.waiting_for
        await yard.deny(run.conversation, third, "too much")
        await yard.approve(run.conversation, second)
        await wait_for_event(run, CallApproved)
        await yard.deny(run.conversation, first)
        events = await collect_events(run)
        assert shop.actions == ["delete b"]
        results_by_id = {result.call_id: result for result in get_results(events)}
        assert get_problem(results_by_id[first]) == ("denied", "denied_by_user")
        assert "the user declined: too much" in results_by_id[third].content
        assert results_by_id[second].outcome == "ok"
        assert sum(isinstance(event, CallDenied) for event in events) == 2
        assert not await find_history_faults(yard, run.conversation)


async def test_edited_arguments_are_what_runs_and_the_model_is_told() -> None:
    shop = ApprovalShop()
    async with open_yard([call("pay", amount=500), say("ok")], shop.tools) as yard:
        run = yard.run("go")
        suspended, _ = await wait_for_event(run, RunSuspended)
        (call_id,) = suspended.waiting_for
        with pytest.raises(Invalid, match="amount"):
            await yard.approve(run.conversation, call_id, arguments={"amount": "much"})
        await yard.approve(run.conversation, call_id, arguments={"amount": 5})
        call_result = get_result(await collect_events(run))
        assert shop.actions == ["pay 5"]
        assert call_result.content == '[a person changed the arguments to {"amount":5}]\npaid 5'


async def test_nothing_runs_on_a_decision_that_is_forged_doubled_late_or_somebody_elses() -> None:
    shop = ApprovalShop()
    owner = Caller(user="ann", tenant="t")
    async with open_yard([call("delete", name="x"), say("ok")], shop.tools) as yard:
        run = yard.run("go", caller=owner)
        suspended, _ = await wait_for_event(run, RunSuspended)
        (call_id,) = suspended.waiting_for
        for wrong in ("call_forged", "", call_id + "x"):
            with pytest.raises(Refused, match="not asking"):
                await yard.approve(run.conversation, wrong, caller=owner)
        for stranger in (
            Caller(user="bob", tenant="t"),
            Caller(user="ann"),
            Caller(user="x", roles=frozenset({"approver"})),
        ):
            with pytest.raises(Refused, match="may not decide"):
                await yard.approve(run.conversation, call_id, caller=stranger)
        assert shop.actions == []
        await yard.deny(run.conversation, call_id, caller=Caller(user="eve", tenant="t", roles=frozenset({"approver"})))
        with pytest.raises(Refused, match="not asking"):
            await yard.approve(run.conversation, call_id, caller=owner)
        await collect_events(run)
        assert shop.actions == []


async def test_a_call_that_nobody_decides_expires_and_the_model_is_told() -> None:
    shop = ApprovalShop(approval_s=0.05)
    async with open_yard([call("delete", name="x"), say("ok")], shop.tools) as yard:
        run = yard.run("go")
        events = await collect_events(run)
        assert get_problem(get_result(events)) == ("expired", "approval_expired")
        with pytest.raises(Refused, match="not asking"):
            await yard.approve(run.conversation, list_asked_calls(events)[0])
        assert shop.actions == []


async def test_a_remembered_approval_holds_in_its_conversation_but_not_for_a_tool_that_always_asks() -> None:
    shop = ApprovalShop()

    async def decide(yard: Yard, script_run: str, conversation: str) -> list[Event]:
        run = yard.run(script_run, conversation=conversation)
        events: list[Event] = []
        async for event in run:
            events.append(event)
            if isinstance(event, RunSuspended):
                await yard.approve(run.conversation, event.waiting_for[0], remember="conversation")
        return events

    turns = [call("delete", name="x"), call("delete", name="y"), call("pay", amount=1), call("delete", name="z")]
    async with open_yard([step for turn in turns for step in (turn, say("ok"))], shop.tools) as yard:
        assert len(list_asked_calls(await decide(yard, "one", "c"))) == 1
        assert list_asked_calls(await decide(yard, "two", "c")) == []
        assert len(list_asked_calls(await decide(yard, "three", "c"))) == 1
        assert len(list_asked_calls(await decide(yard, "four", "other"))) == 1
        assert shop.actions == ["delete x", "delete y", "pay 1", "delete z"]


async def test_ask_says_that_the_run_waits_and_for_what() -> None:
    async with open_yard([call("delete", name="x")], ApprovalShop().tools) as yard:
        with pytest.raises(RunWaiting, match="approve, deny, answer or deliver") as caught:
            await yard.ask("go", caller=STAFF)
        assert len(caught.value.waiting_for) == 1
        await yard.stop(caught.value.conversation, caller=STAFF)
        await wait_until_ended(yard, caught.value.conversation)


async def wait_until_ended(yard: Yard, conversation: str) -> None:
    reader = await yard.follow(conversation)
    async for item in reader:
        if isinstance(getattr(item, "event", None), RunEnded):
            break
    reader.detach()


async def test_an_approval_survives_a_restart(tmp_path: Path) -> None:
    shop, store = ApprovalShop(), f"sqlite:///{tmp_path}/yard.db"

    async def before() -> tuple[str, str]:
        async with Yard(tools=shop.tools, model=Scripted([call("delete", name="x")]), store=store) as yard:
            run = yard.run("go")
            suspended, _ = await wait_for_event(run, RunSuspended)
            return run.conversation, suspended.waiting_for[0]

    async def after(conversation: str, call_id: str) -> None:
        async with Yard(tools=shop.tools, model=Scripted([say("gone")]), store=store) as yard:
            assert shop.actions == []
            await yard.approve(conversation, call_id)
            await wait_until_ended(yard, conversation)
            assert shop.actions == ["delete x"] and not await find_history_faults(yard, conversation)

    await asyncio.wait_for(after(*(await before())), 20)


async def test_policy_is_asked_again_when_an_approved_call_runs() -> None:
    shop = ApprovalShop()
    judged: list[CallJudged] = []

    revoked: list[bool] = []

    def revocable(question: PolicyRequest) -> Verdict | None:
        return Verdict("deny", "revoked") if revoked else None

    async with open_yard([call("delete", name="x"), say("ok")], shop.tools, rules=[revocable]) as yard:
        run = yard.run("go")
        async for event in run:
            if isinstance(event, CallJudged):
                judged.append(event)
            if isinstance(event, RunSuspended):
                revoked.append(True)
                await yard.approve(run.conversation, event.waiting_for[0])
            if isinstance(event, CallEnded):
                assert get_problem(event.result) == ("denied", "permission_denied")
        assert shop.actions == []
    assert judged[0].verdict == "ask"
