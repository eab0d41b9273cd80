"""The loop, end to end: a scripted model, real tools, the memory store."""

import asyncio
from typing import Literal

import pytest

from support import (
    STAFF,
    collect_events,
    find_history_faults,
    get_ending,
    get_problem,
    get_result,
    get_results,
    join_text,
    open_yard,
    wait_for_event,
)
from toolyard import Caller, Limits, ToolError, Yard, tool
from toolyard.core.conversation.events import CallJudged, CallStarted, RunQueued, RunStarted, TurnStarted
from toolyard.core.errors import Invalid, Misconfigured, Refused, RunFailed
from toolyard.core.items import Call, Result
from toolyard.core.ports import ModelRequest
from toolyard.testing import Scripted, ScriptedCall, ScriptError, Turn, call, fail, say, together

TWO_AT_ONCE = Limits(parallel_calls=2)


@tool(idempotent=True)
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
def shout(words: str, times: Literal[1, 2, 3] = 1) -> str:
    """Say it loudly."""
    return words.upper() * times


@pytest.mark.proves("000.loop-until-text")
async def test_a_call_is_run_and_its_result_fed_back_until_there_is_a_text() -> None:
    async with open_yard([call("add", a=2, b=3), say("It is ", "5.")], [add]) as yard:
        run = yard.run("what is 2 + 3?")
        events = await collect_events(run)
        assert get_result(events).content == "5"
        assert join_text(events) == "It is 5."
        assert get_ending(events).ending == "done"
        kinds = [type(item).__name__ for item in await yard.history(run.conversation)]
        assert kinds == ["UserMessage", "Call", "Result", "ModelText"]


async def test_ask_gives_the_final_text_after_several_calls_in_sequence() -> None:
    async with open_yard([call("add", a=1, b=1), call("shout", words="x", times=2), say("done")], [add, shout]) as yard:
        assert await yard.ask("twice") == "done"


@pytest.mark.proves("004.parallel-execution")
async def test_calls_of_one_turn_run_side_by_side_and_come_back_in_the_models_order() -> None:
    barrier = asyncio.Barrier(3)

    @tool
    async def meet(name: str) -> str:
        """Wait for the others."""
        await barrier.wait()
        return name

    async with open_yard([together(*(call("meet", name=name) for name in "abc")), say("ok")], [meet]) as yard:
        run = yard.run("go")
        await collect_events(run)
        history = await yard.history(run.conversation)
        assert [item.content for item in history if isinstance(item, Result)] == ["a", "b", "c"]
        assert [item.arguments["name"] for item in history if isinstance(item, Call)] == ["a", "b", "c"]


async def test_a_call_with_room_starts_with_one_event_and_the_others_when_they_have_room() -> None:
    async with open_yard([together(*[call("shout", words="hey")] * 3), say("ok")], [shout], limits=TWO_AT_ONCE) as yard:
        events = await collect_events(yard.run("go"))
        judged = [event for event in events if isinstance(event, CallJudged)]
        first, second, third = (event for event in events if isinstance(event, CallStarted))
        assert (first.rule, second.rule, third.rule) == ("default", "default", None)
        assert [(event.call_id, event.verdict) for event in judged] == [(third.call_id, "allow")]
        assert [result.outcome for result in get_results(events)] == ["ok"] * 3


async def test_no_more_calls_run_at_once_than_the_limit_says() -> None:
    running, max_running = 0, 0

    @tool
    async def count() -> None:
        """Count who runs beside me."""
        nonlocal running, max_running
        running += 1
        max_running = max(max_running, running)
        await asyncio.sleep(0)
        running -= 1

    async with open_yard(
        [together(*[call("count")] * 10), say("ok")], [count], limits=Limits(parallel_calls=3)
    ) as yard:
        assert len(get_results(await collect_events(yard.run("go")))) == 10
        assert max_running == 3


@pytest.mark.parametrize("rule", ["exclusive", "destructive"])
async def test_an_exclusive_or_destructive_tool_never_runs_beside_another(rule: str) -> None:
    running: set[str] = set()
    beside: list[set[str]] = []

    @tool
    async def ordinary(name: str) -> None:
        """May run beside others."""
        running.add(name)
        await asyncio.sleep(0)
        running.discard(name)

    @tool(exclusive=rule == "exclusive", destructive=rule == "destructive")
    async def alone() -> None:
        """Must be alone."""
        beside.append(set(running))
        running.add("alone")
        await asyncio.sleep(0)
        beside.append(running - {"alone"})
        running.discard("alone")

    turn = together(call("ordinary", name="a"), call("alone"), call("ordinary", name="b"), call("ordinary", name="c"))
    async with open_yard([turn, say("ok")], [ordinary, alone]) as yard:
        assert all(result.outcome == "ok" for result in get_results(await collect_events(yard.run("go"))))
        assert beside == [set(), set()]


@pytest.mark.proves("003.validate-arguments")
async def test_wrong_arguments_name_each_field_and_the_tool_does_not_run() -> None:
    async with open_yard([call("add", a="two"), say("sorry")], [add]) as yard:
        call_result = get_result(await collect_events(yard.run("go")))
        assert get_problem(call_result) == ("error", "validation_error")
        assert call_result.error is not None
        fields = call_result.error.details["fields"]
        assert isinstance(fields, list)
        assert '"field":"a","problem":"Input should be a valid integer"' in call_result.content
        assert '"field":"b","problem":"Field required"' in call_result.content


async def test_an_unknown_tool_is_answered_with_the_tools_there_are_nearest_first() -> None:
    async with open_yard([call("shoot"), say("sorry")], [add, shout]) as yard:
        call_result = get_result(await collect_events(yard.run("go")))
        assert get_problem(call_result) == ("error", "unknown_tool")
        assert call_result.error is not None and call_result.error.details["tools"] == ["shout", "add"]


async def test_arguments_that_could_not_be_read_are_never_run() -> None:

    turn = Turn(calls=[ScriptedCall(tool="add", unreadable="the arguments break off after '{\"a\": 1'")])
    async with open_yard([turn, say("sorry")], [add]) as yard:
        call_result = get_result(await collect_events(yard.run("go")))
        assert get_problem(call_result) == ("error", "json_parse_error")


@pytest.mark.proves("003.structured-error", "003.error-types")
async def test_a_tool_that_raises_is_a_structured_error_and_the_run_goes_on() -> None:
    @tool
    def explode() -> None:
        """Fails."""
        raise ZeroDivisionError("by zero")

    @tool
    async def missing(name: str) -> None:
        """Fails in its own words."""
        raise ToolError(f"no {name} here", "not_found", {"name": name})

    async with open_yard([call("explode"), call("missing", name="flour"), say("sorry")], [explode, missing]) as yard:
        events = await collect_events(yard.run("go"))
        first, second = get_results(events)
        assert get_problem(first) == ("error", "execution_error") and "ZeroDivisionError: by zero" in first.content
        assert get_problem(second) == ("error", "not_found")
        assert (
            second.content == '{"ok":false,"error":"no flour here","error_type":"not_found","details":{"name":"flour"}}'
        )
        assert join_text(events) == "sorry"


@pytest.mark.proves("000.limit-turns-per-request", "001.max-iterations", "001.stop-text")
async def test_the_last_tool_turn_still_runs_and_then_the_run_ends_with_a_message_in_the_callers_language() -> None:
    async with open_yard([call("add", a=1, b=1)] * 5, [add], limits=Limits(turns_per_request=5)) as yard:
        run = yard.run("go", caller=Caller(user="w", locale="zh-CN"))
        events = await collect_events(run)
        assert len(get_results(events)) == 5
        end = get_ending(events)
        assert (end.ending, end.detail) == ("limit", "turns_per_request")
        assert end.message is not None and end.message.text == "抱歉，处理超时，请简化您的请求或重试。"
        assert (await yard.history(run.conversation))[-1] == end.message
        assert not await find_history_faults(yard, run.conversation)


async def test_a_run_that_answers_on_the_turn_after_its_last_tool_turn_but_one_is_done() -> None:
    async with open_yard([*[call("add", a=1, b=1)] * 4, say("ok")], [add], limits=Limits(turns_per_request=5)) as yard:
        assert get_ending(await collect_events(yard.run("go"))).ending == "done"


@pytest.mark.proves("000.limit-turns-per-session")
async def test_the_conversations_limit_counts_over_all_its_runs() -> None:

    script = [call("add", a=1, b=1), say("ok"), call("add", a=1, b=1)]
    async with open_yard(script, [add], limits=Limits(turns_per_conversation=2)) as yard:
        first = yard.run("one")
        assert get_ending(await collect_events(first)).ending == "done"
        end = get_ending(await collect_events(yard.run("two", conversation=first.conversation)))
        assert (end.ending, end.detail) == ("limit", "turns_per_conversation")


async def test_a_run_that_has_used_up_its_tokens_ends_with_a_message() -> None:
    async with open_yard([call("add", a=1, b=1)] * 2, [add], limits=Limits(run_tokens=30)) as yard:
        end = get_ending(await collect_events(yard.run("go")))
        assert (end.ending, end.detail) == ("limit", "run_tokens") and end.message is not None


async def test_a_run_that_is_out_of_time_is_stopped_in_the_middle_of_a_call() -> None:
    stopped = asyncio.Event()

    @tool
    async def hang() -> None:
        """Never comes back."""
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async with open_yard([call("hang")], [hang], limits=Limits(run_seconds=0.1)) as yard:
        run = yard.run("go")
        events = await collect_events(run)
        assert (get_ending(events).ending, get_ending(events).detail) == ("limit", "run_seconds")
        assert get_result(events).outcome == "cancelled" and stopped.is_set()
        assert not await find_history_faults(yard, run.conversation)


async def test_calls_beyond_the_bound_of_a_turn_are_refused_one_by_one_and_the_others_run() -> None:
    async with open_yard([together(*[call("add", a=1, b=1)] * 500), say("ok")], [add]) as yard:
        call_results = get_results(await collect_events(yard.run("go")))
        assert [result.outcome for result in sorted(call_results, key=lambda result: result.at)].count("ok") == 64
        assert sum(get_problem(result) == ("error", "too_large") for result in call_results if result.error) == 436


async def test_a_hanging_tool_is_ended_by_its_deadline() -> None:
    @tool(timeout_s=0.05)
    async def hang() -> None:
        """Never comes back."""
        await asyncio.Event().wait()

    async with open_yard([call("hang"), say("sorry")], [hang]) as yard:
        call_result = get_result(await collect_events(yard.run("go")))
        assert get_problem(call_result) == ("timeout", "timeout") and "may have taken effect" in call_result.content


def test_every_tool_has_a_deadline_by_default() -> None:
    assert add.definition.timeout_s == 30.0


@pytest.mark.proves("004.retry-failed-calls")
@pytest.mark.parametrize(("rule", "attempts"), [("idempotent", 3), ("read_only", 3), ("open_world", 1)])
async def test_only_a_tool_that_is_idempotent_or_only_reads_is_tried_again(rule: str, attempts: int) -> None:
    tried_keys: list[str] = []

    @tool(idempotent=rule == "idempotent", read_only=rule == "read_only", open_world=rule == "open_world")
    async def flaky(key: str) -> str:
        """Fails twice."""
        tried_keys.append(key)
        if len(tried_keys) < 3:
            raise ConnectionError("reset")
        return "fine"

    async with open_yard([call("flaky", key="k"), say("ok")], [flaky]) as yard:
        assert get_result(await collect_events(yard.run("go"))).outcome == ("ok" if attempts > 1 else "error")
        assert len(tried_keys) == attempts


@pytest.mark.parametrize(
    ("choice", "sent_choices"), [("auto", ["auto"]), ("required", ["required", "auto"]), ("add", ["add", "auto"])]
)
async def test_a_forced_choice_of_tool_holds_for_the_first_turn(choice: str, sent_choices: list[str]) -> None:
    script = [call("add", a=1, b=1), say("ok")] if len(sent_choices) == 2 else [say("ok")]
    model = Scripted(script)
    async with Yard(tools=[add], model=model) as yard:
        await yard.ask("go", tool_choice=choice)
    assert [request.tool_choice for request in model.requests] == sent_choices


async def test_with_tool_choice_none_no_tool_is_offered_and_none_runs() -> None:
    model = Scripted([call("add", a=1, b=1), say("ok")])
    async with Yard(tools=[add], model=model) as yard:
        events = await collect_events(yard.run("go", tool_choice="none"))
    assert get_problem(get_result(events)) == ("error", "permission_denied")
    assert model.requests[0].offer.tools == ()


async def test_a_tool_choice_that_names_no_tool_is_refused_before_anything_is_stored() -> None:
    async with open_yard([], [add]) as yard:
        with pytest.raises(Invalid, match="no tool named 'ad'; there are: add"):
            await yard.ask("go", tool_choice="ad")


async def test_requests_to_one_conversation_wait_in_line_and_never_mix() -> None:
    async with open_yard([say(str(n)) for n in range(5)]) as yard:
        runs = [yard.run(f"message {n}", conversation="c") for n in range(5)]
        answers = await asyncio.gather(*(collect_events(run) for run in runs))
        assert [join_text(events) for events in answers] == ["0", "1", "2", "3", "4"]
        log = [type(item).__name__ for item in await yard.history("c")]
        assert log == ["UserMessage", "ModelText"] * 5


async def test_a_line_that_is_full_refuses_the_next_request() -> None:
    gate = asyncio.Event()

    @tool
    async def wait() -> None:
        """Wait for the gate."""
        await gate.wait()

    def script(request: ModelRequest) -> Turn:
        return say("ok") if isinstance(request.history[-1], Result) else call("wait")

    async with open_yard(script, [wait], limits=Limits(queued_messages=2)) as yard:
        running, second, third = (yard.run("go", conversation="c") for _ in range(3))
        tasks = [asyncio.create_task(collect_events(running))]
        async for event in yard.run("go", conversation="c"):
            if isinstance(event, RunQueued):
                break
        tasks += [asyncio.create_task(collect_events(second))]
        await wait_for_event(second, RunQueued)
        with pytest.raises(Refused, match="2 requests wait in this conversation already"):
            await collect_events(third)
        gate.set()
        await asyncio.gather(*tasks)


async def test_a_model_that_fails_ends_the_run_as_failed_and_the_next_message_works() -> None:
    async with open_yard([fail("slow down", "rate_limited"), say("ok")]) as yard:
        with pytest.raises(RunFailed, match="rate_limited: slow down"):
            await yard.ask("one", conversation="c")
        assert await yard.ask("two", conversation="c") == "ok"
        assert not await find_history_faults(yard, "c")


async def test_a_model_that_says_nothing_fails_the_run_instead_of_answering_with_nothing() -> None:
    async with open_yard([Turn()]) as yard:
        with pytest.raises(RunFailed, match="without a word"):
            await yard.ask("one")


async def test_a_tool_can_be_called_directly_without_a_model() -> None:
    async with open_yard([], [add]) as yard:
        events = await collect_events(yard.call("add", {"a": 2, "b": 2}))
        assert get_result(events).content == "4" and get_ending(events).ending == "done"
        assert not any(isinstance(event, TurnStarted) for event in events)


async def test_the_run_says_which_model_and_limits_hold_for_it() -> None:
    async with open_yard([say("ok")]) as yard:
        events = await collect_events(yard.run("go", limits=Limits(turns_per_request=3), caller=STAFF))
        started = next(event for event in events if isinstance(event, RunStarted))
        assert started.limits.turns_per_request == 3


async def test_a_script_that_goes_otherwise_fails_the_test_that_uses_it() -> None:
    with pytest.raises(ScriptError, match="turn 1 was asked for"):
        async with open_yard([]) as yard:
            with pytest.raises(RunFailed, match="the script is over"):
                await yard.ask("go")
    with pytest.raises(ScriptError, match="never asked for"):
        async with open_yard([say("unheard")]) as yard:
            assert yard.tool_names == ["read_result", "find_tools"]


async def test_two_tools_with_one_name_are_refused_with_what_to_do() -> None:
    with pytest.raises(Misconfigured, match="two tools are named 'add': rename one"):
        async with open_yard([], [add, add]):
            pass
