"""Programs that the model writes: what they may do, how their calls are judged, and what comes back."""

import asyncio
from collections.abc import AsyncIterator
from typing import TypeVar

import msgspec
import pytest

from support import STAFF, collect_events, find_history_faults, get_results, open_yard, wait_until
from toolyard import Context, tool
from toolyard.core.conversation.events import CallEnded, CallsRequested, CallStarted, Event, RunSuspended
from toolyard.core.items import Result
from toolyard.core.ports import ModelRequest
from toolyard.core.settings.limits import Budget, Limits
from toolyard.core.settings.redact_rules import RedactRules
from toolyard.testing import Turn, call, say
from venues.code.shop import ProgramShop, get_program_result

E = TypeVar("E")


def _script(code: str) -> list[Turn]:
    return [call("run_code", code=code), say("ok")]


async def _find_next(events: AsyncIterator[Event], kind: type[E]) -> E:
    """Return the next event of this type."""
    async for event in events:
        if isinstance(event, kind):
            return event
    raise AssertionError(f"no {kind.__name__} came")


async def _list_rest(events: AsyncIterator[Event]) -> list[Event]:
    return [event async for event in events]


async def _run(shop: ProgramShop, code: str, **options: object) -> tuple[Result, list[Event]]:
    async with open_yard(_script(code), shop.tools, code=True, **options) as yard:
        run = yard.run("go")
        events = await collect_events(run)
        assert not await find_history_faults(yard, run.conversation)
        return get_program_result(get_results(events)), events


def _read(result: Result) -> dict[str, object]:
    assert result.outcome == "ok", result.content
    return msgspec.json.decode(result.content, type=dict[str, object])


def _error(result: Result) -> str:
    assert result.outcome != "ok", result.content
    assert result.error is not None
    return f"{result.error.error_type}: {result.error.error}"


async def test_a_program_joins_the_results_of_parallel_calls_and_the_model_sees_one_result() -> None:
    shop = ProgramShop()
    code = """
import asyncio
orders = await asyncio.gather(*[get_order(id=n) for n in range(3)])
print("orders:", len(orders))
sum(order["total"] for order in orders)
"""
    result, events = await _run(shop, code)
    assert _read(result) == {"value": 30, "printed": "orders: 3\n"}
    (requested,) = [event for event in events if isinstance(event, CallsRequested)]
    assert [child.arguments for child in requested.calls] == [{"id": 0}, {"id": 1}, {"id": 2}]
    assert requested.lines == (3, 3, 3)


async def test_a_text_stays_a_text_and_a_large_result_comes_whole() -> None:
    code = '[await get_text(text="123"), len(await get_blob(size=100_000))]'
    result, _ = await _run(ProgramShop(), code)
    assert _read(result)["value"] == ["123", 100_000]


@pytest.mark.parametrize(
    ("code", "complaint"),
    [
        ("x = (", "syntax_error: the program was not run:\nline 1"),
        ("class A(dict): pass", "does not yet support"),
        ("add(item='a')", "is not awaited"),
        ("await get_ordr(id=1)", "did you mean get_order"),
        ("1\nawait get_order(id='one')", "type_error: the program was not run:\nline 2"),
        ("await add(item='x', size='xl')", "line 1"),
        ("await get_order()", "line 1"),
        ("await run_code(code='1')", "run_code cannot be called by a program"),
        ("await nothing_like_it()", "Name `nothing_like_it` used when not defined"),
    ],
)
async def test_a_program_is_checked_before_any_call_is_made(code: str, complaint: str) -> None:
    shop = ProgramShop()
    result, events = await _run(shop, f"await add(item='a')\n{code}" if "line" not in complaint else code)
    assert complaint in _error(result)
    assert shop.actions == []
    assert not any(isinstance(event, CallsRequested) for event in events)


async def test_a_call_that_asks_is_approved_inside_the_program_which_goes_on_from_there() -> None:
    shop = ProgramShop()
    code = "a = await add(item='a')\nb = await refund(order='7')\nc = await add(item='c')\n[a, b, c]"
    async with open_yard(_script(code), shop.tools, code=True) as yard:
        run = yard.run("go")
        events = aiter(run)
        suspended = await _find_next(events, RunSuspended)
        assert shop.actions == ["add a"]
        await yard.approve(run.conversation, suspended.waiting_for[0])
        result = get_program_result(get_results(await _list_rest(events)))
        assert _read(result) == {"value": ["added a", "refunded 7", "added c"]}
        assert shop.actions == ["add a", "refund 7 1", "add c"]


async def test_edited_arguments_are_what_runs_and_the_model_is_told() -> None:
    shop = ProgramShop()
    async with open_yard(_script("await refund(order='7', amount=99)"), shop.tools, code=True) as yard:
        run = yard.run("go")
        events = aiter(run)
        suspended = await _find_next(events, RunSuspended)
        await yard.approve(run.conversation, suspended.waiting_for[0], arguments={"order": "7", "amount": 3})
        result = get_program_result(get_results(await _list_rest(events)))
    assert shop.actions == ["refund 7 3"]
    edited = {"tool": "refund", "arguments": {"order": "7", "amount": 99}, "changed_to": {"order": "7", "amount": 3}}
    assert _read(result) == {"value": "refunded 7", "edited_by_a_person": [edited]}


async def test_a_denial_is_an_exception_that_a_program_may_catch_and_its_siblings_are_not_touched() -> None:
    shop = ProgramShop()
    code = """
import asyncio
async def attempt(order):
    try:
        return await refund(order=order)
    except PermissionError as error:
        return f"no: {error}"
await asyncio.gather(attempt("1"), attempt("2"))
"""
    async with open_yard(_script(code), shop.tools, code=True) as yard:
        run = yard.run("go")
        events = aiter(run)
        suspended = await _find_next(events, RunSuspended)
        first, second = suspended.waiting_for
        await yard.deny(run.conversation, second, "too dear")
        await _find_next(events, RunSuspended)  # the program was given the denial, and waits again
        await yard.approve(run.conversation, first)
        result = get_program_result(get_results(await _list_rest(events)))
    assert _read(result)["value"] == ["refunded 1", "no: denied_by_user: the user declined: too dear"]
    assert shop.actions == ["refund 1 1"]


async def test_an_expired_call_is_a_timeout_in_the_program() -> None:
    result, _ = await _run(
        ProgramShop(approval_s=0.05),
        "try:\n    x = await refund(order='7')\nexcept TimeoutError as error:\n    x = str(error)\nx",
    )
    assert _read(result)["value"] == "approval_expired: nobody approved this call in time"


async def test_a_failed_program_tells_which_calls_took_effect() -> None:
    shop = ProgramShop()
    code = "await get_order(id=1)\nawait add(item='a')\nawait add(item='b' * 5000)\nawait fail(why='no stock')"
    result, _ = await _run(shop, code)
    assert "program_error" in _error(result)
    assert "no stock" in _error(result)
    assert result.error is not None
    assert result.error.details["calls"] == [
        {"tool": "add", "arguments": {"item": "a"}, "outcome": "ok"},
        {"tool": "add", "arguments": '{"item":"' + "b" * 391 + "…", "outcome": "ok"},
        {"tool": "fail", "arguments": {"why": "no stock"}, "outcome": "error"},
    ]


async def test_calls_that_a_program_did_not_wait_for_do_not_run() -> None:
    shop = ProgramShop()
    result, _ = await _run(shop, "await get_order(id=1)\nx = add(item='b')\n1")
    answer = _read(result)
    assert answer["value"] == 1
    assert "1 calls were not awaited" in str(answer["note"])
    assert "add b" not in shop.actions


async def test_a_program_that_fails_waits_for_its_running_calls_and_withdraws_those_that_ask() -> None:
    shop = ProgramShop()
    code = "import asyncio\nawait asyncio.gather(hold(name='h'), refund(order='1'), fail(why='x'))"
    async with open_yard(_script(code), shop.tools, code=True) as yard:
        run = yard.run("go")
        events = aiter(run)
        ended = await _find_next(events, CallEnded)
        assert ended.result.tool == "fail"
        withdrawn = await _find_next(events, CallEnded)
        assert (withdrawn.result.tool, withdrawn.result.outcome) == ("refund", "cancelled")
        shop.gate.set()
        results = get_results(await _list_rest(events))
        assert [(result.tool, result.outcome) for result in results] == [("hold", "ok"), ("run_code", "error")]


@pytest.mark.parametrize("is_stopped", [False, True])
async def test_what_a_program_was_given_taints_its_next_calls_and_its_result(is_stopped: bool) -> None:
    shop = ProgramShop()
    code = "page = await read_page(url='x')\nawait send(text=page)"
    async with open_yard(_script(code), shop.tools, code=True) as yard:
        run = yard.run("go")
        events = aiter(run)
        suspended = await _find_next(events, RunSuspended)
        state = await yard.service.conversations.view(run.conversation)
        asked = state.calls[suspended.waiting_for[0]]
        assert asked.rule == "after content from the tool read_page"
        assert asked.sources[0].name == "the tool read_page"
        if is_stopped:
            await yard.stop(run.conversation, call_id=asked.parent)
        else:
            await yard.deny(run.conversation, suspended.waiting_for[0])
        result = get_program_result(get_results(await _list_rest(events)))
    assert result.outcome == ("cancelled" if is_stopped else "error")
    assert "read_page" in result.untrusted
    assert shop.actions == []


async def test_a_call_beside_an_untrusted_one_is_not_tainted_by_what_the_program_had_not_been_given() -> None:
    shop = ProgramShop()
    result, _ = await _run(shop, "import asyncio\nawait asyncio.gather(read_page(url='x'), send(text='hello'))")
    assert result.outcome == "ok"
    assert shop.actions == ["send hello"]


async def test_stop_stops_the_calls_of_a_program_first_and_tells_what_has_run() -> None:
    shop = ProgramShop()
    script = _script("await add(item='a')\nawait hold(name='h')")[:1]
    async with open_yard(script, shop.tools, code=True) as yard:
        run = yard.run("go")
        events = aiter(run)
        await _find_next(events, CallEnded)
        await wait_until(lambda: "hold h" in shop.actions)
        await yard.stop(run.conversation)
        results = get_results(await _list_rest(events))
    assert [(result.tool, result.outcome) for result in results] == [("hold", "cancelled"), ("run_code", "cancelled")]
    assert results[1].error is not None
    assert results[1].error.details["calls"] == [
        {"tool": "add", "arguments": {"item": "a"}, "outcome": "ok"},
        {"tool": "hold", "arguments": {"name": "h"}, "outcome": "cancelled"},
    ]


async def test_stopping_one_call_of_a_program_raises_in_it() -> None:
    shop = ProgramShop()
    code = "try:\n    await hold(name='h')\nexcept RuntimeError as error:\n    x = str(error)\nx"
    async with open_yard(_script(code), shop.tools, code=True) as yard:
        run = yard.run("go")
        events = aiter(run)
        requested = await _find_next(events, CallsRequested)
        await wait_until(lambda: "hold h" in shop.actions)
        await yard.stop(run.conversation, call_id=requested.calls[0].id)
        result = get_program_result(get_results(await _list_rest(events)))
    assert "cancelled" in str(_read(result)["value"])


async def test_without_the_setting_there_is_no_run_code() -> None:
    async with open_yard([], ProgramShop().tools) as yard:
        assert "run_code" not in yard.tool_names


async def test_a_hundred_programs_that_wait_hold_no_sandbox() -> None:
    """There are four sandboxes: a program that held one while it waits would keep the last program from running."""
    shop = ProgramShop()
    waiting, last = call("run_code", code="await refund(order='7')"), call("run_code", code="1 + 1")
    async with open_yard([*[waiting] * 100, last, say("ok")], shop.tools, code=True) as yard:
        runs = [yard.run("go") for _ in range(100)]
        await asyncio.gather(*(_find_next(aiter(run), RunSuspended) for run in runs))
        events = await collect_events(yard.run("go"))
        assert _read(get_program_result(get_results(events)))["value"] == 2


async def test_run_code_is_offered_beside_more_tools_than_a_model_is_shown() -> None:
    """A program may also call tools that the model is not shown."""
    shop = ProgramShop()
    offered: list[str] = []

    def script(request: ModelRequest) -> Turn:
        offered[:] = [tool.name for tool in request.offer.tools]
        return say("ok") if len(request.history) > 1 else call("run_code", code="await get_text(text='x')")

    async with open_yard(script, shop.tools, code=True, budget=Budget(tools=2)) as yard:
        events = await collect_events(yard.run("go"))
        assert {"find_tools", "run_code"} <= set(offered)
        assert "get_text" not in offered
        assert _read(get_program_result(get_results(events)))["value"] == "x"


@pytest.mark.parametrize("whole_run", [True, False])
@pytest.mark.parametrize(
    ("code", "reached", "outcomes"),
    [
        ("while True:\n    pass", CallStarted, {"run_code": "cancelled"}),
        ("await add(item='a')\nwhile True:\n    pass", CallEnded, {"run_code": "cancelled"}),
        ("await refund(order='7')", RunSuspended, {"refund": "cancelled", "run_code": "cancelled"}),
        ("await hold(name='h')", CallsRequested, {"hold": "cancelled", "run_code": "cancelled"}),
    ],
)
async def test_a_program_is_stopped_wherever_it_is(
    code: str, reached: type[Event], outcomes: dict[str, str], whole_run: bool
) -> None:
    script = _script(code)[: 1 if whole_run else 2]
    async with open_yard(script, ProgramShop().tools, code=True) as yard:
        run = yard.run("go")
        events = aiter(run)
        await _find_next(events, reached)
        program = next(iter((await yard.service.conversations.view(run.conversation)).calls))
        await yard.stop(run.conversation, call_id="" if whole_run else program)
        rest = await _list_rest(events)
        assert {result.tool: result.outcome for result in get_results(rest)} == outcomes
        assert not await find_history_faults(yard, run.conversation)


async def test_calls_of_a_program_are_retried_and_their_results_redacted_before_it_gets_them() -> None:
    attempts: list[str] = []

    @tool(idempotent=True)
    async def look_up(name: str, context: Context) -> str:
        """Fail once."""
        attempts.append(context.idempotency_key)
        if len(attempts) == 1:
            raise ConnectionError("try again")
        return f"{name} is EMP-123456"

    rules = RedactRules(own={"staff_number": r"EMP-\d{6}"})
    script = _script("found = await look_up(name='ann')\n['EMP-1' in found, found]")
    async with open_yard(script, [look_up], code=True, redact=rules) as yard:
        result = get_program_result(get_results(await collect_events(yard.run("go"))))
    assert len(attempts) == 2
    assert attempts[0] == attempts[1]
    value = _read(result)["value"]
    assert isinstance(value, list)
    assert value[0] is False


async def test_the_limits_of_a_run_hold_for_its_programs() -> None:
    code = "for n in range(3):\n    await get_text(text='x')\n1"
    result, _ = await _run(ProgramShop(), code, limits=Limits(program_calls=2))
    assert "a program may make 2 calls" in _error(result)
    result, _ = await _run(ProgramShop(), code, limits=Limits(program_calls=3, calls_per_turn=1))
    assert _read(result)["value"] == 1


async def test_a_program_cannot_call_what_its_caller_may_not_use_nor_learn_its_name() -> None:
    ran: list[str] = []

    @tool(roles={"boss"})
    async def pay_salaries() -> str:
        """Pay everybody."""
        ran.append("paid")
        return "paid"

    for code in ("await pay_salaries()", "await pay_salary()"):
        async with open_yard(_script(code), [pay_salaries], code=True) as yard:
            result = get_program_result(get_results(await collect_events(yard.run("go", caller=STAFF))))
        assert "Name `pay_salar" in _error(result)
        assert "did you mean" not in _error(result)
    assert ran == []
