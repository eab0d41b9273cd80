"""A conversation goes on when its model's window is full: room is made, it is told, and nothing is lost to readers."""

import asyncio
from collections.abc import AsyncGenerator
from itertools import pairwise
from pathlib import Path

import pytest

from support import collect_events, read_entries, wait_for_event
from toolyard import Caller, Run, Settings, Yard, tool
from toolyard.app import Wiring
from toolyard.core.conversation.events import (
    HistoryCompacted,
    ModelDelta,
    RunEnded,
    RunRequest,
    RunStarted,
    TurnEnded,
    TurnFailed,
)
from toolyard.core.conversation.settings import SettingsChange
from toolyard.core.items import ModelText, Problem, Result, TextPart, Usage, UserMessage
from toolyard.core.ports import ModelRequest
from toolyard.core.settings.models.options import DEFAULT_OPTIONS, Options
from toolyard.engine.loop.history_summary import OMISSION_NOTE, SUMMARY_HEADER, SUMMARY_PROMPT
from toolyard.observability.trace import build_trace
from toolyard.testing import Script, Scripted, Turn, call, fail, say
from toolyard.venues.function import as_tool

WORDS = "word " * 1000
SILENT = Usage()


@tool
def look() -> str:
    """A long text."""
    return WORDS


def asks_for_summary(request: ModelRequest) -> bool:
    last = request.history[-1]
    return isinstance(last, UserMessage) and last.text == SUMMARY_PROMPT


def build_yard(script: Script, window: int = 10_000, store: str = "memory:") -> Yard:
    return Yard.from_wiring(
        Wiring(model=Scripted(script), tools=[as_tool(look)], store=store, windows={"given": window}, grace_s=0)
    )


async def talk(yard: Yard, turns: int, message: str = WORDS) -> list[HistoryCompacted]:
    for _ in range(turns):
        last = (await collect_events(yard.run(message, conversation="c")))[-1]
        assert isinstance(last, RunEnded) and last.ending == "done", last
    log = await yard.service.conversations.read_entries("c")
    return [entry.event for entry in log if isinstance(entry.event, HistoryCompacted)]


async def test_a_long_conversation_is_summarised_and_goes_on() -> None:
    requests: list[ModelRequest] = []

    def script(request: ModelRequest) -> Turn:
        if asks_for_summary(request):
            assert request.tool_choice == "none" and [tool.name for tool in request.offer.tools] == ["look"]
            return Turn(text=("They said word.",), usage=Usage(input_tokens=70, output_tokens=7))
        requests.append(request)
        return Turn(text=(WORDS,), usage=SILENT)

    async with asyncio.timeout(20):
        async with build_yard(script) as yard:
            first, *_ = compactions = await talk(yard, 12)
            assert len(compactions) >= 2 and all(event.summarised and event.problem is None for event in compactions)
            assert first.tokens_after < first.tokens_before / 2
            assert max(request.history.tokens for request in requests) < 10_000
            head = requests[-1].history[0]
            assert isinstance(head, UserMessage) and head.text == f"{SUMMARY_HEADER}\nThey said word."
            assert len([item for item in await yard.history("c") if isinstance(item, UserMessage)]) == 12
            log = await yard.service.conversations.read_entries("c")
            run = next(entry.run for entry in log if isinstance(entry.event, HistoryCompacted))
            trace = build_trace(log, run)
            assert trace is not None and trace.usage.input_tokens == 70
            assert [room.summarised for room in trace.compactions] == [True]
            (room,) = trace.compactions
            assert trace.queued_at <= room.started_at <= room.at <= trace.turns[0].started_at


async def test_a_summary_is_made_without_the_options_of_the_request() -> None:
    used_options: dict[bool, list[Options]] = {True: [], False: []}

    def script(request: ModelRequest) -> Turn:
        used_options[asks_for_summary(request)].append(request.options)
        return Turn(text=(WORDS,), usage=SILENT)

    options = Options(stop=("END",), output_schema={"type": "object"})
    async with asyncio.timeout(20), build_yard(script) as yard:
        for number in range(9):
            message = UserMessage(id=f"item_{number}", at=0.0, parts=(TextPart(text=WORDS),))
            start = yard.service.runs.build_start(Caller(user="local"), [message], RunRequest(options=options))
            await collect_events(Run(yard.service, "c", start))
    assert set(map(repr, used_options[True])) == {repr(DEFAULT_OPTIONS)}
    assert set(map(repr, used_options[False])) == {repr(options)}


@pytest.mark.parametrize(
    "summary", [Turn(text=("They said word.",), usage=Usage(input_tokens=70)), fail("no room", "x")]
)
async def test_a_summary_is_a_model_call_of_the_request_that_it_was_made_for(summary: Turn) -> None:
    def script(request: ModelRequest) -> Turn:
        return summary if asks_for_summary(request) else Turn(text=(WORDS,), usage=SILENT)

    async with asyncio.timeout(20):
        async with build_yard(script) as yard:
            executions = [await yard.execute(content=WORDS, conversation="c") for _ in range(9)]
            log = await yard.service.conversations.read_entries("c")
            ran = [entry.run for entry in log if isinstance(entry.event, HistoryCompacted)]
            assert ran
            for execution in executions:
                summaries = ran.count(execution.run_id)
                assert execution.model_calls == 1 + summaries
                assert execution.usage.input_tokens == (0 if summary.failure else 70 * summaries)


async def test_a_request_that_was_too_long_at_first_counts_as_often_as_it_was_sent() -> None:
    sent: list[ModelRequest] = []

    def script(request: ModelRequest) -> Turn:
        sent.append(request)
        return fail("too long", "too_large") if len(sent) == 4 else say(WORDS)

    async with asyncio.timeout(20):
        async with build_yard(script, window=0) as yard:
            *_, last = [await yard.execute(content=WORDS, conversation="c") for _ in range(4)]
            assert last.model_calls == len(sent) - 3 == 3


async def test_results_of_tools_are_left_out_before_anything_is_summarised() -> None:
    def script(request: ModelRequest) -> Turn:
        results = sum(isinstance(item, Result) for item in request.history)
        return Turn(text=("done",), usage=SILENT) if results == 12 else Turn(calls=call("look").calls, usage=SILENT)

    async with asyncio.timeout(20):
        async with build_yard(script) as yard:
            (compaction, *more) = await talk(yard, 1, "look at all of it")
            assert compaction.dropped and not compaction.summarised and not compaction.items
            assert all(event.dropped for event in more)
            contents = [item.content for item in await yard.history("c") if isinstance(item, Result)]
            assert contents == [WORDS] * 12  # people still see them


@pytest.mark.parametrize("failing", ["fails", "silent", "raises"])
async def test_a_summary_that_cannot_be_had_is_done_without(failing: str) -> None:
    requests: list[ModelRequest] = []

    class FailingSummaryModel:
        async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | TurnEnded | TurnFailed, None]:
            if not asks_for_summary(request):
                requests.append(request)
                text = ModelText(id=request.clock.new_id("item"), at=0.0, text=WORDS)
                yield TurnEnded(items=(text,), finish="stop")
            elif failing == "raises":
                raise RuntimeError("boom")
            elif failing == "silent":
                yield TurnEnded(items=(), finish="stop", usage=Usage(input_tokens=3))
            else:
                yield TurnFailed(problem=Problem(error="no room", error_type="unavailable"))

        async def close(self) -> None: ...

    async with asyncio.timeout(20):
        async with Yard.from_wiring(Wiring(model=FailingSummaryModel(), windows={"given": 10_000})) as yard:
            compactions = await talk(yard, 8)
            assert compactions and all(event.problem and not event.summarised for event in compactions)
            head = requests[-1].history[0]
            assert isinstance(head, UserMessage) and head.text == OMISSION_NOTE


async def test_a_run_is_stopped_while_a_summary_is_made() -> None:
    summary_requested, stopped = asyncio.Event(), asyncio.Event()

    class BlockedSummaryModel:
        async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | TurnEnded | TurnFailed, None]:
            if asks_for_summary(request):
                summary_requested.set()
                try:
                    await asyncio.Event().wait()
                finally:
                    stopped.set()
            text = ModelText(id=request.clock.new_id("item"), at=0.0, text=WORDS)
            yield TurnEnded(items=(text,), finish="stop")

        async def close(self) -> None: ...

    async with asyncio.timeout(20):
        async with Yard.from_wiring(Wiring(model=BlockedSummaryModel(), windows={"given": 10_000})) as yard:
            await talk(yard, 3)
            run = asyncio.create_task(collect_events(yard.run(WORDS, conversation="c")))
            await summary_requested.wait()
            await yard.stop("c")
            last = (await run)[-1]
            assert isinstance(last, RunEnded) and last.ending == "cancelled"
            await stopped.wait()


async def test_a_summary_that_a_crash_cut_off_is_made_again(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/yard.db"
    summary_requested = asyncio.Event()

    class HangingSummaryModel:
        async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | TurnEnded | TurnFailed, None]:
            if asks_for_summary(request):
                summary_requested.set()
                await asyncio.Event().wait()
            text = ModelText(id=request.clock.new_id("item"), at=0.0, text=WORDS)
            yield TurnEnded(items=(text,), finish="stop")

        async def close(self) -> None: ...

    async with Yard.from_wiring(
        Wiring(model=HangingSummaryModel(), windows={"given": 10_000}, store=store, grace_s=0)
    ) as yard:
        await talk(yard, 3)
        await wait_for_event(yard.run(WORDS, conversation="c"), RunStarted)
        await summary_requested.wait()
    async with asyncio.timeout(20):
        steps = [say("summed up"), say("here")]
        async with build_yard(steps, store=store) as yard:
            log = [entry.event for entry in await read_entries(yard, "c", ended_runs=4)]
            compactions = [event for event in log if isinstance(event, HistoryCompacted)]
            assert [event.summarised for event in compactions] == [True]
            assert isinstance(log[-1], RunEnded) and log[-1].ending == "done"


@pytest.mark.parametrize("change", [SettingsChange(max_messages=6), SettingsChange(max_tokens=5000)])
async def test_a_window_that_somebody_set_bounds_what_the_model_is_shown(change: SettingsChange) -> None:
    requests: list[ModelRequest] = []

    def script(request: ModelRequest) -> Turn:
        assert not asks_for_summary(request)
        requests.append(request)
        return Turn(text=(WORDS,), usage=SILENT)

    async with asyncio.timeout(20):
        async with build_yard(script, window=0) as yard:
            await talk(yard, 1)
            await yard.change("c", change)
            compactions = await talk(yard, 11)
            max_messages = change.max_messages or 1000
            assert compactions and not any(event.summarised for event in compactions)
            assert max(model_request.history.messages for model_request in requests) <= max_messages
            assert max(model_request.history.tokens for model_request in requests) <= (change.max_tokens or 1_000_000)
            assert all(isinstance(model_request.history[0], UserMessage) for model_request in requests)
            assert len(await yard.history("c")) == 24


async def test_between_two_times_that_room_is_made_a_request_only_grows() -> None:
    requests: list[ModelRequest] = []

    def script(request: ModelRequest) -> Turn:
        requests.append(request)
        return Turn(text=("fine",), usage=SILENT)

    async with asyncio.timeout(20):
        async with build_yard(script, window=0) as yard:
            await collect_events(yard.run("go", conversation="c", settings=Settings(max_messages=20)))
            compactions = await talk(yard, 59, "go on")
            shrunk = [
                now.turn
                for before, now in pairwise(requests)
                if list(now.history)[: len(before.history)] != list(before.history)
            ]
            assert len(shrunk) == len(compactions) <= 10
