"""A conversation's stream: from any place, for any number of readers, however slow, across drops and restarts."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

import pytest

from surfaces.api_client import (
    ApiClient,
    Json,
    both_ways,
    build_yard,
    connect_api_client,
    drop_deltas,
    is_over,
    join_deltas,
    open_api_client,
)
from toolyard import tool
from toolyard.core.conversation.events import ModelDelta, TextAppended, TurnEnded, TurnFailed
from toolyard.core.items import ModelText
from toolyard.core.ports import ModelRequest
from toolyard.engine.log.readers import RING_SIZE
from toolyard.testing import call, say, together

WORDS = ["Ich ", "hätte ", "gern ", "面粉 ", "und ", "🥛."]


@tool
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


class StepwiseModel:
    """A model that streams one word for each permit."""

    def __init__(self, words: list[str] = WORDS, let: int = 0) -> None:
        self.words = words
        self.permits = asyncio.Semaphore(let)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | TurnEnded | TurnFailed, None]:
        offset = 0
        for word in self.words:
            await self.permits.acquire()
            await asyncio.sleep(0)  # others have their turn, as with a model that is far away
            yield TextAppended(turn=request.turn, offset=offset, text=word)
            offset += len(word.encode())
        await self.permits.acquire()
        text = ModelText(id=request.clock.new_id("item"), at=request.clock.now(), text="".join(self.words))
        yield TurnEnded(items=(text,), finish="stop")

    async def close(self) -> None:
        pass


async def read_events(http: ApiClient, path: str, count: int, last_id: str = "") -> list[tuple[str, Json]]:
    """Return the next `count` events, then disconnect."""
    received: list[tuple[str, Json]] = []
    async with aclosing(http.stream_events(f"{path}/events", last_id)) as events:
        async for event in events:
            received.append(event)
            if len(received) == count:
                break
    return received


@both_ways
async def test_a_client_that_drops_after_any_event_and_rejoins_has_no_gap_and_no_repeat(way: str) -> None:
    async with open_api_client(
        [together(say("Eins. "), call("add", a=1, b=2)), say(*WORDS)], way=way, tools=[add]
    ) as http:
        path = await http.create_conversation()
        reading = asyncio.ensure_future(http.read_until_done(path))  # live, in the model's own pieces
        await http.post(f"{path}/chat", {"content": "go"})
        all_events = await reading
        assert join_deltas(all_events) == "Eins. " + "".join(WORDS)
        for index, (last, _) in enumerate(all_events[:-1]):
            joined = [*all_events[: index + 1], *await http.read_until_done(path, last)]
            assert join_deltas(joined) == join_deltas(all_events), f"left after {last}"
            assert drop_deltas(joined) == drop_deltas(all_events), f"left after {last}"
        for count in range(1, len(await http.read_until_done(path))):  # from the log, in pieces as large as can be
            first = await read_events(http, path, count)
            joined = [*first, *await http.read_until_done(path, first[-1][0])]
            assert (join_deltas(joined), drop_deltas(joined)) == (join_deltas(all_events), drop_deltas(all_events))


@both_ways
async def test_a_client_that_drops_after_every_piece_of_an_answer_in_progress_gets_it_whole(way: str) -> None:
    model = StepwiseModel()
    async with open_api_client(model, way=way) as http:
        path = await http.create_conversation()
        chat = asyncio.ensure_future(http.post(f"{path}/chat", {"content": "go"}))
        received: list[tuple[str, Json]] = []
        for _ in WORDS:
            model.permits.release()
            received += await read_events(http, path, 1, received[-1][0] if received else "")
        assert [event["content"] for _, event in received] == WORDS
        model.permits.release()
        received += await http.read_until_done(path, received[-1][0])
        assert join_deltas(received) == "".join(WORDS) == (await chat)["assistant_message"]["content"]
        assert len(drop_deltas(received)) == 1


@both_ways
async def test_any_number_of_readers_see_the_same_from_wherever_they_begin(way: str) -> None:
    model = StepwiseModel()
    async with open_api_client(model, way=way) as http:
        path = await http.create_conversation()
        early = [asyncio.ensure_future(http.read_until_done(path)) for _ in range(3)]
        chat = asyncio.ensure_future(http.post(f"{path}/chat", {"content": "go"}))
        for _ in WORDS[:3]:
            model.permits.release()
        half = await read_events(http, path, 3)  # what three words came to, in pieces
        late = asyncio.ensure_future(http.read_until_done(path))
        for _ in WORDS[3:]:
            model.permits.release()
        model.permits.release()
        await chat
        for seen in (*await asyncio.gather(*early), await late):
            assert join_deltas(seen) == "".join(WORDS) and is_over(seen[-1][1])
        assert join_deltas(half) == "".join(WORDS[:3])


async def test_a_reader_that_takes_nothing_slows_nobody_and_misses_nothing() -> None:
    pieces = ["x" * 10_000] * (3 * RING_SIZE)  # more than any buffer on the way holds
    async with open_api_client(StepwiseModel(pieces, let=len(pieces) + 1), way="socket") as http:
        path = await http.create_conversation()
        async with aclosing(http.stream_events(f"{path}/events")) as events:
            chat = asyncio.ensure_future(http.post(f"{path}/chat", {"content": "go"}))
            received = [await anext(events)]
            assert (await chat)["status"] == "done"  # all is said while this reader looked elsewhere
            async for event in events:
                received.append(event)
                if is_over(event[1]):
                    break
        assert join_deltas(received) == "".join(pieces)
        assert len(received) < len(pieces)  # it was overrun, and got the rest from the log


async def test_a_reader_that_has_left_is_not_kept() -> None:
    async with asyncio.timeout(30), build_yard([say("ok"), say("ok")]) as yard, connect_api_client(yard) as http:
        path = await http.create_conversation()
        await http.post(f"{path}/chat", {"content": "go"})
        async with (
            aclosing(http.stream_events(f"{path}/events")) as waiting,
            aclosing(http.stream_events(f"{path}/events")) as cut,
        ):
            await anext(cut)  # left with events still to come
            assert [(await anext(waiting))[1]["type"] for _ in range(2)] == ["text.delta", "done"]
            assert (await yard.service.measure_load()).open_streams == 2
        assert (await yard.service.measure_load()).open_streams == 0
        async with aclosing(http.stream_chat(path, "again")) as events:
            await anext(events)
        assert (await yard.service.measure_load()).open_streams == 0


@both_ways
async def test_the_stream_stays_open_and_shows_every_run_each_closed_by_its_done(way: str) -> None:
    async with open_api_client([say("to one"), say("to two")], way=way) as http:
        path = await http.create_conversation()
        async with aclosing(http.stream_events(f"{path}/events")) as events:
            for content in ("one", "two"):
                answer = await http.post(f"{path}/chat", {"content": content})
                received: list[tuple[str, Json]] = []
                async for event in events:
                    received.append(event)
                    if is_over(event[1]):
                        break
                assert (join_deltas(received), received[-1][1]["run_id"]) == (f"to {content}", answer["run_id"])


@both_ways
async def test_the_logs_own_entries_are_served_where_they_are_asked_for(way: str) -> None:
    async with open_api_client([say("ok")], way=way) as http:
        path = await http.create_conversation()
        await http.post(f"{path}/chat", {"content": "go"})
        received: list[tuple[str, Json]] = []
        async with aclosing(http.stream_events(f"{path}/events?format=entries")) as events:
            async for event in events:
                received.append(event)
                if event[1].get("event", {}).get("type") == "run.ended":
                    break
        entries = [(last, event) for last, event in received if "event" in event]
        assert [entry["seq"] for _, entry in entries] == list(range(1, len(entries) + 1))
        assert [last for last, _ in entries] == [str(entry["seq"]) for _, entry in entries]
        assert entries[0][1]["event"]["type"] == "conversation.opened"
        async with aclosing(http.stream_events(f"{path}/events?format=entries&after={entries[-2][0]}")) as events:
            assert await anext(events) == received[-1]
        async with aclosing(http.stream_events(f"{path}/events?after=1", last_id=entries[-2][0])) as events:
            assert (await anext(events))[1]["type"] == "done"  # the header wins over the address


@both_ways
@pytest.mark.parametrize("last", ["x", "1.2", "-1", "1.2.3.4", "9" * 40, "1e3", "999", "999.1.2"])
async def test_a_place_that_was_never_given_out_is_refused(way: str, last: str) -> None:
    async with open_api_client(way=way) as http:
        path = await http.create_conversation()
        for status, expected, _ in (
            await http.send_request("GET", f"{path}/events", last_event_id=last),
            await http.send_request("GET", f"{path}/events?after={last}"),
        ):
            assert (status, expected["error_type"]) == (422, "validation_error"), expected
        await http.get(f"{path}/events?format=xml", expect=422)


@both_ways
async def test_after_a_restart_in_the_middle_of_an_answer_the_stream_goes_on(way: str, tmp_path: Path) -> None:
    """The turn begins again, the stream says so, and what was said of it before is dropped."""
    store = f"sqlite:///{tmp_path}/yard.db"
    async with asyncio.timeout(30):
        model = StepwiseModel()
        async with build_yard(model, store=store, grace_s=0.0) as yard, connect_api_client(yard, way) as http:
            path = await http.create_conversation()
            async with aclosing(http.stream_chat(path, "go")) as events:
                for _ in WORDS[:3]:
                    model.permits.release()
                before = [await anext(events) for _ in WORDS[:3]]
                await yard.service.close(0)
                ending = [event async for event in events]
            assert [event["error_type"] for _, event in ending] == ["unavailable"]
        async with build_yard([say(*WORDS)], store=store) as yard, connect_api_client(yard, way) as http:
            after = await http.read_until_done(path, before[-1][0])
            assert [event["type"] for event in drop_deltas(after)] == ["turn.restarted", "done"]
            assert join_deltas(after) == "".join(WORDS)
            assert (await http.list_messages(path))[-1]["content"] == "".join(WORDS)


async def test_after_a_restart_during_a_call_the_reader_that_comes_back_sees_each_call_once(tmp_path: Path) -> None:
    store, ran = f"sqlite:///{tmp_path}/yard.db", list[str]()
    stuck = asyncio.Event()

    @tool(name="look", idempotent=True)
    async def hanging() -> str:
        """Hangs."""
        ran.append("first")
        stuck.set()
        await asyncio.Event().wait()
        return ""

    @tool(name="look", idempotent=True)
    async def working() -> str:
        """Works."""
        ran.append("second")
        return "seen"

    async with asyncio.timeout(30):
        first_yard = build_yard([call("look")], store=store, grace_s=0.0, tools=[hanging])
        async with first_yard as yard, connect_api_client(yard, "socket") as http:
            path = await http.create_conversation()
            async with aclosing(http.stream_chat(path, "go")) as events:
                first = [await anext(events)]
                await stuck.wait()
                await yard.service.close(0)
        async with (
            build_yard([say("Seen.")], store=store, tools=[working]) as yard,
            connect_api_client(yard, "socket") as http,
        ):
            received = [*first, *await http.read_until_done(path, first[-1][0])]
            states = [event.get("state") or event["type"] for event in drop_deltas(received)]
            assert (states, join_deltas(received)) == (["started", "finished", "done"], "Seen.")
            assert received[1][1]["name"] == "look"  # although this reader began after its start
            assert (await http.list_messages(path))[2]["content"] == "seen"
    assert ran == ["first", "second"]


async def test_a_reader_that_comes_back_to_a_run_of_a_thousand_entries_is_told_of_all_its_tokens() -> None:

    @tool(approval="always")
    async def book(day: str) -> str:
        """Book."""
        return f"booked {day}"

    adding = together(*(call("add", a=number, b=1) for number in range(100)))
    turns = [*[adding] * 6, call("book", day="Monday"), say("Booked.")]
    async with asyncio.timeout(60), open_api_client(turns, tools=[add, book]) as http:
        path = await http.create_conversation()
        received = [event async for event in http.stream_chat(path, "go")]
        last_id, done = received[-1]
        assert int(last_id) > 1100 and done["ending"] == "waiting"
        (asked,) = [event for _, event in received if event["type"] == "approval.required"]
        await http.post(f"{path}/calls/{asked['call_id']}/approve", {})
        later = [event for _, event in await http.read_until_done(path, last_id)]
        assert [event["type"] for event in later] == ["tool.status", "tool.status", "text.delta", "done"]
        assert (later[0]["name"], later[0]["arguments"]) == ("book", {"day": "Monday"})
        assert later[-1]["usage"]["input_tokens"] * 7 == done["usage"]["input_tokens"] * 8 > 0  # eight turns in all
