"""A client of chat completions that leaves stops its run after a time, unless that would leave something half done."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from support import wait_until
from surfaces.api_client import Json
from surfaces.openai.clients import HELLO, Served, add_to_groceries, added, order, serve_model, serve_script
from toolyard import tool
from toolyard.core.conversation.events import ModelDelta, TextAppended, TurnEnded, TurnFailed
from toolyard.core.conversation.state import State
from toolyard.core.items import Call, ModelText, Problem, Result
from toolyard.core.ports import ModelRequest
from toolyard.engine.loop import left_runs
from toolyard.engine.loop.left_runs import has_changing_call
from toolyard.engine.tools.registry import Registry
from toolyard.testing import call, say

LEAVE_S = 0.1
RETRY = {"x-stainless-retry-count": "1"}


@pytest.fixture(autouse=True)
def check_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(left_runs, "CHECK_EVERY_S", 0.02)


class PausingModel:
    """Says a word, then waits until it is released; a turn that is cut off before is counted."""

    def __init__(self) -> None:
        self.entered, self.released, self.cancelled = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.requests = 0

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | TurnEnded | TurnFailed, None]:
        self.requests += 1
        yield TextAppended(turn=request.turn, offset=0, text="Well")
        self.entered.set()
        try:
            await self.released.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        clock = request.clock
        item = ModelText(id=clock.new_id("item"), at=clock.now(), text="Well")
        yield TurnEnded(items=(item,), finish="stop", model="pausing")

    async def close(self) -> None:
        return


class PayingModel(PausingModel):
    """Calls `pay` first."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | TurnEnded | TurnFailed, None]:
        clock = request.clock
        if not any(isinstance(item, Result) for item in request.history):
            item = Call(id=clock.new_id("call"), at=clock.now(), tool="pay", arguments={})
            yield TurnEnded(items=(item,), finish="calls", model="paying")
            return
        async for delta in super().stream(request):
            yield delta


class RecoveringModel(PausingModel):
    """Fails once, for a reason that passes."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | TurnEnded | TurnFailed, None]:
        if not self.requests:
            self.requests += 1
            yield TurnFailed(problem=Problem(error="try again later", error_type="unavailable"))
            return
        async for delta in super().stream(request):
            yield delta


@asynccontextmanager
async def ask(
    served: Served, headers: dict[str, str] | None = None, **fields: Json
) -> AsyncGenerator[aiohttp.ClientResponse, None]:
    body = {"messages": HELLO, "model": "default", "stream": True, **fields}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{served.url}/v1/chat/completions", json=body, headers=headers) as answer,
    ):
        yield answer


async def leave(
    served: Served, model: PausingModel, headers: dict[str, str] | None = None, *, stream: bool = False
) -> None:
    """Ask, and leave in the middle of the answer."""

    async def read() -> None:
        async with ask(served, headers, stream=stream) as answer:
            await answer.read()

    asking = asyncio.create_task(read())
    await model.entered.wait()
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_the_run_of_a_client_that_left_is_stopped(stream: bool) -> None:
    model = PausingModel()
    async with serve_model(model, leave_s=LEAVE_S) as served:
        await leave(served, model, stream=stream)
        await model.cancelled.wait()
    assert model.requests == 1


async def test_the_run_of_a_request_that_is_sent_again_after_a_failure_is_stopped_as_well() -> None:
    model = RecoveringModel()
    async with serve_model(model, leave_s=LEAVE_S) as served:
        async with ask(served, stream=False) as failed:
            assert failed.status == 503
        await leave(served, model, RETRY)
        await model.cancelled.wait()
    assert model.requests == 2


@pytest.mark.parametrize("leave_s", [0.0, 60.0], ids=["without a time", "in time"])
async def test_a_client_that_comes_back_joins_its_run(leave_s: float) -> None:
    model = PausingModel()
    async with serve_model(model, leave_s=leave_s) as served:
        await leave(served, model, stream=False)
        model.released.set()
        async with ask(served, RETRY, stream=False) as answer:
            assert (await answer.json())["choices"][0]["message"]["content"] == "Well"
    assert (model.requests, model.cancelled.is_set()) == (1, False)


async def test_a_call_that_changes_something_is_not_cut_off_but_what_follows_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    entered, release = asyncio.Event(), asyncio.Event()
    ended: list[str] = []

    @tool
    async def pay() -> str:
        """Pay."""
        entered.set()
        await release.wait()
        ended.append("paid")
        return "paid"

    checks: list[bool] = []

    def count(state: State, registry: Registry) -> bool:
        checks.append(has_changing_call(state, registry))
        return checks[-1]

    monkeypatch.setattr(left_runs, "has_changing_call", count)
    model = PayingModel()
    async with serve_model(model, [pay], leave_s=LEAVE_S) as served:
        async with ask(served):
            await entered.wait()
        await wait_until(lambda: len(checks) > 3)
        assert all(checks) and ended == []
        release.set()
        await model.cancelled.wait()
    assert ended == ["paid"]


async def test_a_run_that_waits_for_a_person_stays_and_its_conversation_is_named() -> None:
    async with serve_script(
        [call("order", item="milk"), say("Ordered.")], [add_to_groceries, order], leave_s=LEAVE_S
    ) as served:
        async with ask(served) as answer:
            text = await answer.text()
            conversation = answer.headers["x-toolyard-conversation"]
        assert "waits for an approval" in text
        state = await served.yard.service.conversations.view(conversation)
        (waiting,) = state.calls
        await served.yard.approve(conversation, waiting)
        await wait_until(lambda: added == ["ordered milk"])
