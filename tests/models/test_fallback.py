"""Fallback models: asked when the model before is unavailable and has sent nothing."""

import asyncio
from collections.abc import AsyncGenerator

import pytest

from support import collect_events, join_text
from toolyard import Caller, Yard
from toolyard.app import Wiring
from toolyard.core.conversation.events import ModelDelta, TextAppended, TurnEnded, TurnFailed
from toolyard.core.items import Problem
from toolyard.core.ports import Model, ModelRequest
from toolyard.models.chat import OpenAIChat
from toolyard.models.fallback import FallbackModel
from toolyard.testing import Scripted, Turn, fail, say
from wire.local import SleepRecorder, open_model, request, user
from wire.strict import Reply, refuses
from wire.strict_chat import StrictChat, says


def run_fallback(*turns: Turn) -> tuple[list[ModelDelta | TurnEnded | TurnFailed], list[int]]:
    """What comes of a line of models that play one turn each, and how often each was asked."""
    models = {f"m{number}": Scripted([turn]) for number, turn in enumerate(turns)}
    line = FallbackModel(list(models), models.__getitem__)

    async def run() -> list[ModelDelta | TurnEnded | TurnFailed]:
        return [event async for event in line.stream(request([user("hi")]))]

    return asyncio.run(run()), [len(model.requests) for model in models.values()]


@pytest.mark.parametrize("error_type", ["unavailable", "rate_limited", "timeout"])
def test_the_next_model_is_asked_where_one_cannot_be_had(error_type: str) -> None:
    events, times = run_fallback(fail("down", error_type), say("here"), say("never"))
    assert isinstance(events[-1], TurnEnded)
    assert [event.text for event in events if isinstance(event, TextAppended)] == ["here"]
    assert times == [1, 1, 0]


def test_what_another_model_would_not_do_better_is_told_at_once() -> None:
    events, times = run_fallback(fail("bad request", "model_error"), say("never"))
    assert [type(event) for event in events] == [TurnFailed]
    assert times == [1, 0]


def test_the_last_one_s_failure_is_the_turn_s() -> None:
    events, _ = run_fallback(fail("down", "unavailable"), fail("down, too", "unavailable"))
    assert [event.problem.error for event in events if isinstance(event, TurnFailed)] == ["down, too"]


async def test_a_model_that_has_begun_is_not_followed_by_another() -> None:
    class BreaksOff:
        async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | TurnEnded | TurnFailed, None]:
            yield TextAppended(turn=request.turn, offset=0, text="I was ab")
            yield TurnFailed(problem=Problem(error="broke off", error_type="unavailable"))

        async def close(self) -> None:
            pass

    other = Scripted([say("never")])
    models: dict[str, Model] = {"a": BreaksOff(), "b": other}

    async def run() -> list[ModelDelta | TurnEnded | TurnFailed]:
        return [event async for event in FallbackModel(["a", "b"], models.__getitem__).stream(request([user("hi")]))]

    assert [type(event) for event in (await run())] == [TextAppended, TurnFailed]
    assert other.requests == []


async def test_a_yard_of_several_models_answers_with_the_first_that_can_be_had() -> None:
    models = {"a": Scripted([fail("down", "unavailable")]), "b": Scripted([say("from b")])}

    async def run() -> str:
        async with Yard.from_wiring(Wiring(model=["a", "b"], named_model=models.__getitem__)) as yard:
            return join_text(await collect_events(yard.run("hi")))

    assert (await run()) == "from b"
    assert [len(model.requests) for model in models.values()] == [1, 1]


async def test_a_model_that_the_callers_key_is_not_for_is_left_out() -> None:
    models = {"a": Scripted([fail("down", "unavailable")]), "b": Scripted([]), "c": Scripted([say("from c")])}
    caller = Caller(user="ann", models=frozenset({"a", "c*"}))
    async with Yard.from_wiring(Wiring(model=["a", "b", "c"], named_model=models.__getitem__)) as yard:
        assert join_text(await collect_events(yard.run("hi", caller=caller))) == "from c"


def run_two_providers(first: StrictChat, second: StrictChat) -> tuple[str, list[float], list[float]]:
    """What two providers come to, asked for one turn, and how long each was waited for."""
    sleeps = SleepRecorder(), SleepRecorder()

    async def run() -> str:
        async with (
            first.serving() as first_url,
            second.serving() as second_url,
            open_model(OpenAIChat(base_url=first_url, sleep=sleeps[0], random=lambda: 0.0)) as a,
            open_model(OpenAIChat(base_url=second_url, sleep=sleeps[1], random=lambda: 0.0)) as b,
        ):
            line = FallbackModel(["a", "b"], {"a": a, "b": b}.__getitem__)
            events = [event async for event in line.stream(request([user("hi")]))]
        return "".join(event.text for event in events if isinstance(event, TextAppended))

    return asyncio.run(run()), sleeps[0].durations_s, sleeps[1].durations_s


def test_a_provider_that_asks_to_wait_is_passed_over_at_once_where_another_can_answer() -> None:
    first = StrictChat(refuses(429, "slow down", Retry_After="60"), says("never"))
    assert run_two_providers(first, StrictChat(says("here"))) == ("here", [], [])
    assert len(first.bodies) == 1


@pytest.mark.parametrize(
    ("refusal", "waited", "times"),
    [
        (refuses(429, "slow down", Retry_After="1"), [1.0], 2),
        (refuses(503, "down"), [0.5], 2),
        (refuses(504, "it took too long"), [], 1),
    ],
)
def test_any_but_the_last_is_tried_once_more_at_most(refusal: Reply, waited: list[float], times: int) -> None:
    first = StrictChat(*[refusal] * 9)
    assert run_two_providers(first, StrictChat(says("here"))) == ("here", waited, [])
    assert len(first.bodies) == times


def test_the_last_one_is_waited_for() -> None:
    second = StrictChat(
        refuses(429, "slow down", Retry_After="5"), refuses(503, "down"), refuses(504, ""), says("late")
    )
    answer_text, _, waits_s = run_two_providers(StrictChat(refuses(429, "no", Retry_After="60")), second)
    assert (answer_text, waits_s) == ("late", [5.0, 1.0, 2.0])
