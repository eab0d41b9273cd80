"""Calls that others decide: never the one who asked, only who is named, as many as are needed, and each once."""

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import regex
from msgspec.structs import replace

from support import (
    collect_events,
    get_ending,
    get_problem,
    get_result,
    list_asked_calls,
    open_yard,
    read_entries,
    wait_for_event,
)
from toolyard import ApprovalTerms, Caller, PolicyRequest, Run, Verdict, Yard, tool
from toolyard.core.conversation.events import CallApproved, CallDenied, CallJudged, CallStarted, RunSuspended
from toolyard.core.errors import Misconfigured, Refused
from toolyard.core.store.audit_chain import AuditQuery, hash_content
from toolyard.core.tools.approval_terms import is_same_person
from toolyard.testing import Script, Scripted, ScriptedCall, Turn, call, say

IGNORABLE = regex.compile(r"\p{Default_Ignorable_Code_Point}")
ASKER = Caller(user="bob", tenant="t", roles=frozenset({"approver", "finance"}))
ANN = Caller(user="ann", tenant="t", roles=frozenset({"finance"}))
EVE = Caller(user="eve", tenant="t", roles=frozenset({"finance"}))
APPROVER = Caller(user="kim", tenant="t", roles=frozenset({"approver"}))


class Bank:
    """Tools that pay on different terms, and what was paid."""

    def __init__(self) -> None:
        self.paid: list[int] = []

        @tool(approval="other")
        async def pay(amount: int) -> str:
            """Pay if anybody else approves."""
            return self._pay(amount)

        @tool(approval="other", approvers=["role:finance", "user:dan"])
        async def wire(amount: int) -> str:
            """Pay if finance or dan approves."""
            return self._pay(amount)

        @tool(approval="other", approvers=["role:finance"], approvals=2)
        async def pay_twice_signed(amount: int) -> str:
            """Pay if two of finance approve."""
            return self._pay(amount)

        @tool(approval="ask", approval_reason=True)
        async def pay_for(amount: int) -> str:
            """Pay for a reason."""
            return self._pay(amount)

        @tool(approval="ask", approvers=["role:finance"])
        async def pay_if_named(amount: int) -> str:
            """Pay if finance approves."""
            return self._pay(amount)

        @tool(approval="ask")
        async def pay_small(amount: int) -> str:
            """Pay if the owner agrees."""
            return self._pay(amount)

        self.tools = [pay, wire, pay_twice_signed, pay_for, pay_if_named, pay_small]

    def _pay(self, amount: int) -> str:
        self.paid.append(amount)
        return f"paid {amount}"


class AskedCall:
    """A call that waits for a decision."""

    def __init__(self, yard: Yard, run: Run, call_id: str) -> None:
        self.yard, self.run, self.id = yard, run, call_id

    async def approve(self, by: Caller, **more: object) -> None:
        await self.yard.approve(self.run.conversation, self.id, caller=by, **more)  # pyright: ignore[reportArgumentType]

    async def deny(self, by: Caller, reason: str = "") -> None:
        await self.yard.deny(self.run.conversation, self.id, reason, caller=by)


@asynccontextmanager
async def ask_for(turn: Turn, bank: Bank, **options: object) -> AsyncGenerator[AskedCall]:
    async with open_yard([turn, say("ok")], bank.tools, **options) as yard:
        run = yard.run("go", caller=ASKER)
        suspended, _ = await wait_for_event(run, RunSuspended)
        yield AskedCall(yard, run, suspended.waiting_for[0])


async def wait_for_suspension(run: Run, number: int) -> str:
    """Return the call that a run waits for when it is suspended for that time."""
    async for event in run:
        number -= isinstance(event, RunSuspended)
        if isinstance(event, RunSuspended) and not number:
            return event.waiting_for[0]
    raise AssertionError("the run did not wait so often")


async def test_the_caller_who_asked_may_not_decide_and_is_told_who_may() -> None:
    bank = Bank()
    async with ask_for(call("pay", amount=5), bank) as asked:
        for decide in (asked.approve, asked.deny):
            with pytest.raises(Refused, match="'bob' asked for this call, and somebody else has to decide it: another"):
                await decide(ASKER)
        with pytest.raises(Refused, match="'ann' may not decide this call: that is for another user with the role"):
            await asked.approve(ANN)
        assert bank.paid == []
        await asked.approve(APPROVER)
        events = await collect_events(asked.run)
        assert get_ending(events).ending == "done" and bank.paid == [5]


@pytest.mark.parametrize(
    "name",
    ["Bob", "BOB", "ｂｏｂ", " bob ", "b\u200bob", "b\u00adob", "\ufeffbob", "bob\u2060", "bob\ufe0f", "\u200b bob"],
)
async def test_the_caller_who_asked_may_not_decide_under_a_name_that_is_written_differently(name: str) -> None:
    bank = Bank()
    async with ask_for(call("pay", amount=5), bank) as asked:
        with pytest.raises(Refused, match="asked for this call, and somebody else has to decide it"):
            await asked.approve(replace(ASKER, user=name))
        await asked.deny(APPROVER)
        await collect_events(asked.run)
        assert bank.paid == []


async def test_a_name_that_is_written_differently_is_not_a_second_approval() -> None:
    bank = Bank()
    composed, decomposed = (replace(ANN, user=name) for name in ("andr\u00e9", "Andre\u0301"))
    async with ask_for(call("pay_twice_signed", amount=5), bank) as asked:
        await asked.approve(composed)
        with pytest.raises(Refused, match="has approved this call already"):
            await asked.approve(decomposed)
        await asked.approve(EVE)
        await collect_events(asked.run)
        assert bank.paid == [5]


def test_no_character_that_unicode_ignores_makes_another_person() -> None:
    ignorable = [chr(code) for code in range(sys.maxunicode + 1) if IGNORABLE.match(chr(code))]
    assert len(ignorable) > 4_000
    assert [letter for letter in ignorable if not is_same_person(f"B{letter}ob", ["bob"])] == []
    assert [letter for letter in ignorable if not is_same_person(f"{letter}Andre{letter}\u0301", ["andr\u00e9"])] == []
    assert not is_same_person("bob", ["rob"])


@pytest.mark.parametrize("by", [ANN, Caller(user="dan", tenant="t")], ids=["by role", "by name"])
async def test_only_who_is_named_may_decide(by: Caller) -> None:
    bank = Bank()
    async with ask_for(call("wire", amount=5), bank) as asked:
        strangers = (APPROVER, Caller(user="dan", tenant="u"), Caller(user="finance", tenant="t"), Caller(user="dan"))
        for stranger in strangers:
            with pytest.raises(Refused, match="may not decide this call"):
                await asked.approve(stranger)
        with pytest.raises(Refused, match="the role finance or the user dan"):
            await asked.approve(ASKER)
        await asked.approve(by)
        await collect_events(asked.run)
        assert bank.paid == [5]


async def test_a_quorum_takes_so_many_people_and_each_counts_once() -> None:
    bank = Bank()
    async with ask_for(call("pay_twice_signed", amount=5), bank) as asked:
        await asked.approve(ANN)
        with pytest.raises(Refused, match="'ann' has approved this call already; it needs 1 more"):
            await asked.approve(ANN)
        state = await asked.yard.service.conversations.view(asked.run.conversation)
        assert (state.calls[asked.id].phase, bank.paid) == ("asking", [])
        await asked.approve(EVE)
        events = await collect_events(asked.run)
        approvals = [(event.by, event.remaining) for event in events if isinstance(event, CallApproved)]
        assert (approvals, bank.paid) == ([("ann", 1), ("eve", 0)], [5])


async def test_one_denial_denies_whoever_has_approved_before() -> None:
    bank = Bank()
    async with ask_for(call("pay_twice_signed", amount=5), bank) as asked:
        await asked.approve(ANN)
        await asked.deny(EVE, "too much")
        events = await collect_events(asked.run)
        assert (
            get_problem(get_result(events)) == ("denied", "denied_by_user") and "too much" in get_result(events).content
        )
        with pytest.raises(Refused, match="not asking"):
            await asked.approve(EVE)
        assert bank.paid == []


async def test_several_people_approve_the_same_arguments_and_nothing_is_remembered() -> None:
    bank = Bank()
    async with ask_for(call("pay_twice_signed", amount=5), bank) as asked:
        with pytest.raises(Refused, match="several approvals of the same arguments"):
            await asked.approve(ANN, arguments={"amount": 7})
        with pytest.raises(Refused, match="approved each time"):
            await asked.approve(ANN, remember="conversation")
        await asked.deny(ANN)
        await collect_events(asked.run)
        assert bank.paid == []


async def test_a_required_reason_is_asked_of_each_decision_and_kept() -> None:
    bank = Bank()
    async with ask_for(call("pay_for", amount=5), bank) as asked:
        for decide in (asked.approve, asked.deny):
            with pytest.raises(Refused, match="needs a reason"):
                await decide(ASKER)
        await asked.approve(ASKER, reason="invoice 7")
        events = await collect_events(asked.run)
        (approved,) = [event for event in events if isinstance(event, CallApproved)]
        assert (approved.reason, bank.paid) == ("invoice 7", [5])


async def test_a_call_that_others_do_not_decide_in_time_is_denied_with_words() -> None:
    paid: list[int] = []

    @tool(approval="other", approval_s=0.05)
    async def pay(amount: int) -> str:
        """Pay if anybody else approves in time."""
        paid.append(amount)
        return "paid"

    async with open_yard([call("pay", amount=5), say("ok")], [pay]) as yard:
        run = yard.run("go", caller=ASKER)
        result = get_result(await collect_events(run))
        assert get_problem(result) == ("expired", "approval_expired") and "nobody" in result.content, result.content
        assert paid == []


async def test_what_the_owner_remembered_or_confirmed_does_not_replace_the_others() -> None:
    bank = Bank()
    script: Script = [
        call("pay_small", amount=1),
        call("pay_if_named", amount=2),
        Turn(calls=(ScriptedCall(tool="pay", arguments={"amount": 3}, confirm="given"),)),
    ]
    async with open_yard(script, bank.tools) as yard:
        run = yard.run("go", caller=ASKER)
        first = await wait_for_suspension(run, 1)
        await yard.approve(run.conversation, first, remember="conversation", caller=ASKER)
        second = await wait_for_suspension(run, 2)
        assert bank.paid == [1]
        await yard.approve(run.conversation, second, caller=ANN)
        third = await wait_for_suspension(run, 3)
        assert bank.paid == [1, 2]
        with pytest.raises(Refused, match="asked for this call"):
            await yard.approve(run.conversation, third, caller=ASKER)
        await yard.stop(run.conversation, caller=ASKER)
        await collect_events(run)
        assert bank.paid == [1, 2]


def ask_finance(request: PolicyRequest) -> Verdict | None:
    """Let finance decide about large amounts."""
    amount = (request.arguments or {}).get("amount")
    if not isinstance(amount, int) or amount < 1000:
        return None
    return Verdict("ask", "large amount", ApprovalTerms(other=True, approvers=("role:finance",), within_s=60))


async def test_an_edit_that_needs_the_approval_of_others_is_asked_about_again() -> None:
    bank = Bank()
    async with ask_for(call("pay_small", amount=5), bank, rules=[ask_finance]) as asked:
        await asked.approve(ASKER, arguments={"amount": 5000})
        assert (await wait_for_suspension(asked.run, 2), bank.paid) == (asked.id, [])
        with pytest.raises(Refused, match="asked for this call"):
            await asked.approve(ASKER)
        await asked.approve(ANN)
        events = await collect_events(asked.run)
        assert [event.rule for event in events if isinstance(event, CallJudged)][-1] == "large amount"
        assert bank.paid == [5000]
        entries = await asked.yard.service.read_audit(AuditQuery(actor="ann"))
        assert [entry.content_hash for entry in entries] == [hash_content(("pay_small", {"amount": 5000}))]


async def test_approvals_survive_a_restart(tmp_path: Path) -> None:
    bank, store = Bank(), f"sqlite:///{tmp_path}/yard.db"
    async with Yard(tools=bank.tools, model=Scripted([call("pay_twice_signed", amount=5)]), store=store) as yard:
        run = yard.run("go", caller=ASKER)
        suspended, _ = await wait_for_event(run, RunSuspended)
        await yard.approve(run.conversation, suspended.waiting_for[0], caller=ANN)
    async with Yard(tools=bank.tools, model=Scripted([say("done")]), store=store) as yard:
        with pytest.raises(Refused, match="approved this call already"):
            await yard.approve(run.conversation, suspended.waiting_for[0], caller=ANN)
        await yard.approve(run.conversation, suspended.waiting_for[0], caller=EVE)
        await read_entries(yard, run.conversation)
        assert bank.paid == [5]


async def test_a_call_that_others_have_to_decide_expires_across_a_restart(tmp_path: Path) -> None:
    paid: list[int] = []

    @tool(approval="other", approval_s=0.5)
    async def pay(amount: int) -> str:
        """Pay if anybody else approves in time."""
        paid.append(amount)
        return "paid"

    store = f"sqlite:///{tmp_path}/yard.db"
    async with Yard(tools=[pay], model=Scripted([call("pay", amount=5)]), store=store) as yard:
        run = yard.run("go", caller=ASKER)
        suspended, _ = await wait_for_event(run, RunSuspended)
    async with Yard(tools=[pay], model=Scripted([say("too late")]), store=store) as yard:
        entries = await read_entries(yard, run.conversation)
        with pytest.raises(Refused, match="not asking"):
            await yard.approve(run.conversation, suspended.waiting_for[0], caller=APPROVER)
    assert get_problem(get_result([entry.event for entry in entries])) == ("expired", "approval_expired")
    assert paid == []


@pytest.mark.parametrize("share_of_denials", [0, 0.2])
async def test_of_fifty_who_decide_at_once_as_many_count_as_are_needed(share_of_denials: float) -> None:
    bank = Bank()
    people = [Caller(user=f"user{number}", tenant="t", roles=frozenset({"finance"})) for number in range(50)]
    denials = int(len(people) * share_of_denials)
    async with ask_for(call("pay_twice_signed", amount=5), bank) as asked:
        decisions = [asked.deny(person) for person in people[:denials]]
        decisions += [asked.approve(person) for person in people[denials:]]
        answers = await asyncio.gather(*decisions, return_exceptions=True)
        events = await collect_events(asked.run)
    refused = [answer for answer in answers if answer is not None]
    assert all(isinstance(error, Refused) for error in refused), refused
    approved, denied = (sum(isinstance(event, kind) for event in events) for kind in (CallApproved, CallDenied))
    started = sum(isinstance(event, CallStarted) for event in events)
    assert (approved, denied, started) in ([(2, 0, 1)] if not denials else [(2, 0, 1), (1, 1, 0), (0, 1, 0)])
    assert len(bank.paid) == started and approved + denied == len(people) - len(refused)
    assert len(list_asked_calls(events)) == 1


@pytest.mark.parametrize(
    ("rules", "problem"),
    [
        ({"approval": "other", "approvers": ["finance"]}, "role:NAME or a user as user:NAME"),
        ({"approval": "other", "approvers": ["role:"]}, "role:NAME or a user as user:NAME"),
        ({"approval": "other", "approvals": 0}, "from 1 to 20"),
        ({"approvers": ["role:finance"]}, "nobody would be asked"),
        ({"approval": "otter"}, "otter"),
    ],
)
def test_approval_settings_that_make_no_sense_are_refused(rules: dict[str, object], problem: str) -> None:
    with pytest.raises(Misconfigured, match=problem):

        @tool(**rules)  # pyright: ignore[reportArgumentType, reportCallIssue]
        async def pay() -> str:
            """Pay."""
            return ""
