"""A run with an output schema ends with text that fits it: the model is asked once more, then the run fails."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypedDict

import pydantic
import pytest
from msgspec import Struct

from hostile_schemas import chain
from support import collect_events, find_history_faults, get_ending, join_text, open_yard, read_entries, wait_for_event
from toolyard import Limits, Options, RunFailed, Yard, tool
from toolyard.core.conversation.events import Event, RunEnded, RunSuspended, TurnEnded, TurnStarted
from toolyard.core.conversation.plan import AskModel, End, plan
from toolyard.core.conversation.run_view import RunView
from toolyard.core.conversation.state import fold
from toolyard.core.errors import Invalid
from toolyard.core.items import ModelText, SystemText
from toolyard.core.settings.models.options import ANY_OBJECT
from toolyard.core.tools.definition import Tool
from toolyard.surfaces.shared.runs.notices import RunNotices
from toolyard.surfaces.shared.runs.stream_objects import build_objects
from toolyard.testing import Script, Scripted, Turn, call, say

SCHEMA: dict[str, object] = {
    "type": "object",
    "properties": {"total": {"type": "integer", "minimum": 1}},
    "required": ["total"],
}
OPTIONS = Options(output_schema=SCHEMA)
GOOD, WORDS, WRONG = '{"total": 3}', "It is three.", '{"total": 0}'


@tool
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


class GroceryLine(Struct):
    product: str
    amount: int = 1


class GroceryOrder(Struct):
    lines: list[GroceryLine]


@dataclass
class Point:
    x: int
    y: int


class Named(TypedDict):
    name: str


class Model(pydantic.BaseModel):
    size: int

    @pydantic.field_validator("size")
    @classmethod
    def check_size(cls, size: int) -> int:
        if size == 13:
            raise ValueError("nobody wants 13")
        return size


def list_replies(events: list[Event]) -> list[TurnEnded]:
    return [event for event in events if isinstance(event, TurnEnded)]


@pytest.mark.parametrize("bad", [WORDS, WRONG, "", "[]", f"```json\n{GOOD}\n```"])
async def test_a_text_that_does_not_fit_is_asked_for_once_more_with_the_error(bad: str) -> None:
    model = Scripted([say(bad), say(GOOD)])
    async with asyncio.timeout(20), Yard(model=model) as yard:
        run = yard.run("add", options=OPTIONS, conversation="c")
        events = await collect_events(run)
        assert get_ending(events).ending == "done"
        result = await run.result()
        assert (result.text, result.output, result.model_calls) == (GOOD, {"total": 3}, 2)
        assert not await find_history_faults(yard, "c")
    first, second = list_replies(events)
    assert first.output_problem is not None and first.output_problem.error_type == "output_invalid"
    assert second.output_problem is None
    note = model.requests[1].history[-1]
    assert isinstance(note, SystemText) and first.output_problem.error[1:] in note.text


async def test_the_error_names_the_field_that_is_wrong() -> None:
    async with open_yard([say(WRONG), say(GOOD)]) as yard:
        (first, _) = list_replies(await collect_events(yard.run("add", options=OPTIONS)))
    assert first.output_problem is not None
    assert "total: 0 is less than the minimum of 1" in first.output_problem.error


async def test_a_second_text_that_does_not_fit_ends_the_run_and_stays_in_the_log() -> None:
    async with open_yard([say(WORDS), say(WRONG), say("hello")]) as yard:
        events = await collect_events(yard.run("add", options=OPTIONS, conversation="c"))
        ended = get_ending(events)
        assert ended.ending == "failed" and ended.problem is not None
        assert ended.problem.error_type == "output_invalid" and "total: 0" in ended.problem.error
        texts = [item.text for item in await yard.history("c") if isinstance(item, ModelText)]
        assert texts == [WORDS, WRONG]
        # Neither the schema nor its faults are those of the next run.
        assert await yard.ask("hello", conversation="c") == "hello"


async def test_the_model_may_call_tools_before_its_answer_and_before_its_second_answer() -> None:
    script = [call("add", a=1, b=2), say(WORDS), call("add", a=1, b=2), say(GOOD)]
    async with open_yard(script, [add]) as yard:
        result = await yard.execute("add", options=OPTIONS)
    assert (result.output, len(result.calls)) == ({"total": 3}, 2)


@pytest.mark.parametrize(("finish", "ending"), [("refused", "done"), ("length", "limit")])
async def test_a_refusal_and_a_text_that_was_cut_off_are_not_repaired(
    finish: Literal["refused", "length"], ending: str
) -> None:
    async with open_yard([Turn(text=[WORDS], finish=finish)]) as yard:
        events = await collect_events(yard.run("add", options=OPTIONS))
    assert get_ending(events).ending == ending
    assert [reply.output_problem for reply in list_replies(events)] == [None]


async def test_no_second_answer_is_asked_for_beyond_the_limit_of_tokens() -> None:
    async with open_yard([say(WORDS)]) as yard:
        events = await collect_events(yard.run("add", options=OPTIONS, limits=Limits(run_tokens=1)))
    assert (get_ending(events).ending, get_ending(events).detail) == ("limit", "run_tokens")


async def test_any_json_object_fits_the_schema_of_json_mode() -> None:
    async with open_yard([say("[1]"), say('{"a": [1]}')]) as yard:
        assert (await yard.execute("add", options=Options(output_schema=ANY_OBJECT))).output == {"a": [1]}


@pytest.mark.parametrize("schema", [{"type": "object", "properties": {"a": {"type": "nonsense"}}}, chain(24)])
async def test_a_schema_that_is_none_is_refused_before_the_run_is_queued(schema: dict[str, object]) -> None:
    async with open_yard([]) as yard:
        with pytest.raises(Invalid, match="the output schema is not a valid JSON Schema"):
            await yard.ask("add", options=Options(output_schema=schema))


async def test_readers_are_told_to_drop_the_first_text_and_end_with_the_last() -> None:
    async with open_yard([say("It is ", "three."), say(GOOD)]) as yard:
        run = yard.run("add", options=OPTIONS)
        view, text, objects = RunView(run_id=run.id), "", list[dict[str, object]]()
        async for item in run.stream():
            view.apply(item)
            for stream_object in build_objects(item, view, RunNotices()):
                objects.append(stream_object)
                if stream_object["type"] == "text.delta":
                    text += str(stream_object["content"])
                elif stream_object["type"] == "turn.restarted":
                    text = ""
    assert text == view.text == GOOD
    (restarted,) = [entry for entry in objects if entry["type"] == "turn.restarted"]
    assert restarted["turn"] == 1 and "is not JSON" in str(restarted["error"])


async def test_a_run_that_fails_keeps_its_last_text_for_readers() -> None:
    async with open_yard([say(WORDS), say(WRONG)]) as yard:
        events = await collect_events(yard.run("add", options=OPTIONS, conversation="c"))
        entries = await read_entries(yard, "c")
    view = RunView(run_id=entries[-1].run)
    restarts = 0
    for entry in entries:
        view.apply(entry)
        restarts += sum(entry["type"] == "turn.restarted" for entry in build_objects(entry, view, RunNotices()))
    assert (restarts, view.text, join_text(events)) == (1, WRONG, WORDS + WRONG)


@pytest.mark.parametrize(
    "script",
    [
        [say(WORDS), say(GOOD)],
        [say(WORDS), say(WRONG)],
        [call("add", a=1, b=2), say(WRONG), call("add", a=1, b=2), say(GOOD)],
    ],
)
async def test_the_log_decides_alone_whether_the_model_is_asked_again(script: Script, tmp_path: Path) -> None:
    """Each beginning of the log leads to the step that the loop took there: nothing is validated again."""
    async with open_yard(script, [add], store=f"sqlite:///{tmp_path}/yard.db") as yard:
        await collect_events(yard.run("add", options=OPTIONS, conversation="c"))
        entries = await read_entries(yard, "c")
        live = await yard.service.conversations.view("c")
    assert fold(entries) == live
    for number, entry in enumerate(entries):
        step = plan(fold(entries[:number]), entry.epoch, entry.at)
        match entry.event:
            case TurnStarted():
                assert step == AskModel()
            case RunEnded(ending=ending, detail=detail):
                assert step == End(ending, detail)
            case _:
                pass


async def test_a_repair_goes_on_after_a_restart(tmp_path: Path) -> None:
    store, look_up = f"sqlite:///{tmp_path}/yard.db", Tool(name="look_up", venue="client")
    async with open_yard([say(WORDS), call("look_up")], store=store) as yard:
        run = yard.run("add", options=OPTIONS, conversation="c", app_tools=[look_up])
        suspended, _ = await wait_for_event(run, RunSuspended)
    async with open_yard([say(WRONG)], store=store) as yard:
        await yard.deliver("c", suspended.waiting_for[0], "three")
        ended = (await read_entries(yard, "c"))[-1].event
    assert get_ending([ended]).detail.startswith("output_invalid")


async def test_a_type_gives_the_schema_and_the_output_has_that_type() -> None:
    model = Scripted([say('{"lines": [{"product": "milk", "amount": 2}]}')])
    async with asyncio.timeout(20), Yard(model=model) as yard:
        order = await yard.ask("order two milk", output_type=GroceryOrder)
    assert order == GroceryOrder(lines=[GroceryLine(product="milk", amount=2)])
    schema = model.requests[0].options.output_schema
    assert schema is not None and schema["type"] == "object" and schema["required"] == ["lines"]


@pytest.mark.parametrize(
    ("output_type", "text", "output"),
    [
        (GroceryOrder, '{"lines": []}', GroceryOrder(lines=[])),
        (Point, '{"x": 1, "y": 2}', Point(1, 2)),
        (Named, '{"name": "Ann"}', {"name": "Ann"}),
        (Model, '{"size": 3}', Model(size=3)),
        (dict[str, int], '{"a": 1}', {"a": 1}),
        (int, '{"value": 7}', 7),
        (list[int], '{"value": [1, 2]}', [1, 2]),
        (list[GroceryOrder], '{"value": [{"lines": []}]}', [GroceryOrder(lines=[])]),
        (list[Model], '{"value": [{"size": 3}]}', [Model(size=3)]),
    ],
)
async def test_every_kind_of_type_is_read_from_json(output_type: type[object], text: str, output: object) -> None:
    async with open_yard([say(WORDS), say(text)]) as yard:
        result = await yard.execute("go", output_type=output_type)
    assert result.output == output and type(result.output) is type(output)


async def test_a_run_with_a_type_that_ends_without_an_output_raises() -> None:
    async with open_yard([Turn(text=["I will not."], finish="refused")]) as yard:
        with pytest.raises(RunFailed, match="no output: it ended with refused: I will not"):
            await yard.ask("go", output_type=GroceryOrder)
    async with open_yard([say('{"size": 13}')]) as yard:
        with pytest.raises(RunFailed, match=r"output_invalid: .*nobody wants 13"):
            await yard.ask("go", output_type=Model)


async def test_a_type_without_a_schema_and_a_second_schema_are_errors() -> None:
    async with open_yard([]) as yard:
        with pytest.raises(TypeError, match="has no JSON Schema"):
            yard.run("go", output_type=Yard)
        with pytest.raises(TypeError, match="not both"):
            yard.run("go", output_type=GroceryOrder, options=OPTIONS)
