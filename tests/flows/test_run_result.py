"""`Run.result()`: what came of a request, for code that does not follow its events."""

import pytest

from toolyard import Caller, RunFailed, RunWaiting, Tool, Yard, tool
from toolyard.core.conversation.events import Event, RunEnded, RunRequest
from toolyard.core.items import TextPart, UserMessage
from toolyard.core.settings.models.options import Options
from toolyard.engine.run.run import Run
from toolyard.testing import Scripted, Turn, call, say, together
from toolyard.testing import fail as fail_turn

SCHEMA: dict[str, object] = {"type": "object", "properties": {"total": {"type": "integer"}}}
LOOK_UP = Tool(name="look_up", venue="client")


@tool
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool
async def fail() -> str:
    """Fail."""
    raise ValueError("broken")


@tool(approval="always")
async def book(day: str) -> str:
    """Book."""
    return f"booked {day}"


async def test_waiting_for_the_result_starts_the_run_and_tells_text_calls_tokens_and_ending() -> None:
    model = Scripted([together(call("add", a=1, b=2), call("fail")), say("Three.")])
    async with Yard(tools=[add, fail], model=model) as yard:
        run = yard.run("go")
        result = await run.result()
        assert (result.text, result.output, result.ending) == ("Three.", None, "done")
        assert (result.conversation, result.run_id, result.model_calls) == (run.conversation, run.id, 2)
        assert result.usage.total > 0
        added, failed = result.calls
        assert (added.tool, added.arguments, added.outcome, added.content) == ("add", {"a": 1, "b": 2}, "ok", "3")
        assert (added.ran, added.error, added.id != failed.id) == ("function", None, True)
        assert failed.outcome == "error" and failed.error is not None and "broken" in failed.error.error
        assert await run.result() == result, "the run was started a second time"
        assert len(model.requests) == 2


async def test_a_run_that_was_iterated_over_has_its_result_at_hand() -> None:
    async with Yard(model=Scripted([say("Hello.")])) as yard:
        run = yard.run("hi")
        events: list[Event] = [event async for event in run]
        assert isinstance(events[-1], RunEnded)
        assert (await run.result()).text == "Hello."


async def test_a_run_that_waits_says_so_each_time_until_it_is_decided_and_then_has_a_result() -> None:
    async with Yard(tools=[book], model=Scripted([call("book", day="Monday"), say("Booked.")])) as yard:
        run = yard.run("book")
        with pytest.raises(RunWaiting) as first:
            await run.result()
        with pytest.raises(RunWaiting) as second:
            await run.result()
        assert first.value.waiting_for == second.value.waiting_for
        (call_id,) = first.value.waiting_for
        await yard.approve(run.conversation, call_id, arguments={"day": "Tuesday"})
        (booked,) = (await run.result()).calls
        assert (booked.id, booked.arguments) == (call_id, {"day": "Tuesday"})
        assert booked.content.endswith("booked Tuesday")


async def test_a_call_of_the_applications_tool_ran_at_the_client() -> None:
    async with Yard(model=Scripted([call("look_up"), say("Found.")])) as yard:
        run = yard.run("go", app_tools=[LOOK_UP])
        with pytest.raises(RunWaiting) as waiting:
            await run.result()
        (call_id,) = waiting.value.waiting_for
        await yard.deliver(run.conversation, call_id, "here")
        assert [(done.tool, done.ran) for done in (await run.result()).calls] == [("look_up", "client")]


async def test_a_run_that_failed_raises_why() -> None:
    async with Yard(model=Scripted([fail_turn("slow down", "rate_limited")])) as yard:
        with pytest.raises(RunFailed, match="rate_limited: slow down"):
            await yard.run("hi").result()


@pytest.mark.parametrize(
    ("turn", "schema", "output"),
    [
        (say('{"total": 3}'), SCHEMA, {"total": 3}),
        (Turn(text=["I will not."], finish="refused"), SCHEMA, None),
        (say('{"total": 3}'), None, None),
    ],
    ids=["JSON", "a refusal", "no schema"],
)
async def test_the_output_is_the_json_of_the_text_if_the_request_has_a_schema(
    turn: Turn, schema: dict[str, object] | None, output: object
) -> None:
    async with Yard(model=Scripted([turn])) as yard:
        message = UserMessage(id="item_1", at=0.0, parts=(TextPart(text="add"),))
        request = RunRequest(options=Options(output_schema=schema))
        start = yard.service.runs.build_start(Caller(user="ann"), [message], request)
        result = await Run(yard.service, "conversation_output", start).result()
    assert (result.text, result.output) == ("".join(turn.text), output)
