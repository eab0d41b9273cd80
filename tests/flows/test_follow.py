"""Readers: from any place, any number, however slow, each sees everything once."""

import asyncio
from collections.abc import AsyncGenerator

import pytest

from support import TEST_TIMEOUT_S, collect_events, open_yard
from toolyard import ModelRequest, Yard, tool
from toolyard.core.conversation.cursor import Cursor, parse_cursor
from toolyard.core.conversation.events import (
    Entry,
    ModelDelta,
    Published,
    RunEnded,
    TextAppended,
    TurnEnded,
    TurnFailed,
    TurnStarted,
)
from toolyard.core.errors import Invalid
from toolyard.engine.log.readers import RING_SIZE
from toolyard.testing import Scripted, call, say

WORDS = ["Ich ", "hätte ", "gern ", "面粉 ", "und ", "🥛."]


@tool
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


async def read_until_end(yard: Yard, conversation: str, after: str = "") -> list[tuple[str, Published]]:
    reader = await yard.follow(conversation, after)
    items: list[tuple[str, Published]] = []
    async for item in reader:
        items.append((str(reader.cursor), item))
        if isinstance(item, Entry) and isinstance(item.event, RunEnded):
            break
    reader.detach()
    return items


def split_items(items: list[tuple[str, Published]]) -> tuple[str, list[int]]:
    pieces = "".join(item.text for _, item in items if isinstance(item, TextAppended))
    return pieces, [item.seq for _, item in items if isinstance(item, Entry)]


async def test_a_reader_that_leaves_at_any_point_and_comes_back_has_no_gap_and_no_repeat() -> None:
    async with open_yard([call("add", a=1, b=2), say(*WORDS)], [add]) as yard:
        live = asyncio.create_task(read_until_end(yard, "c"))
        await collect_events(yard.run("go", conversation="c"))
        all_items = await live
        text, seqs = split_items(all_items)
        assert text == "".join(WORDS) and seqs == list(range(1, len(seqs) + 1))
        for index, (cursor, _) in enumerate(all_items[:-1]):
            remaining = await read_until_end(yard, "c", cursor)
            joined = [*all_items[: index + 1], *remaining]
            assert split_items(joined) == (text, seqs), f"left after {cursor}"


async def test_text_names_its_turn_also_to_readers_that_begin_right_after_the_start_of_the_turn() -> None:
    async with open_yard([call("add", a=1, b=2), say(*WORDS)], [add]) as yard:
        await collect_events(yard.run("go", conversation="c"))
        all_items = await read_until_end(yard, "c", "0")
        cursors = [cursor for cursor, item in all_items if isinstance(item, Entry)]
        for cursor in cursors[:-1]:
            remaining = await read_until_end(yard, "c", cursor)
            turns = {item.turn for _, item in remaining if isinstance(item, TextAppended)}
            assert turns <= {2}, f"left after {cursor}"


async def test_a_reader_that_comes_in_the_middle_of_an_answer_gets_the_text_so_far() -> None:
    async with open_yard([say(*WORDS)]) as yard:
        run = yard.run("go", conversation="c")
        late: asyncio.Task[list[tuple[str, Published]]] | None = None
        async for event in run:
            if isinstance(event, TextAppended) and event.text == "gern " and late is None:
                late = asyncio.create_task(read_until_end(yard, "c"))
        assert late is not None
        assert split_items(await late)[0] == "".join(WORDS)


async def test_a_slow_reader_is_overrun_and_still_misses_nothing() -> None:
    count = 3 * RING_SIZE
    async with open_yard([say(*["x"] * count)]) as yard:
        reader = await yard.follow("c")
        run = asyncio.create_task(collect_events(yard.run("go", conversation="c")))
        first = await anext(reader)
        assert isinstance(first, Entry) and first.seq == 1
        await run  # all is said while this reader looked elsewhere
        items: list[Published] = [first]
        async for item in reader:
            items.append(item)
            if isinstance(item, Entry) and isinstance(item.event, RunEnded):
                break
        reader.detach()
        text, seqs = split_items([("", item) for item in items])
        assert len(text) == count and seqs == list(range(1, len(seqs) + 1))
        assert len(items) < count


async def test_a_late_reader_may_leave_between_the_text_of_a_turn_and_its_end() -> None:
    async with open_yard([call("add", a=1, b=2), say(*WORDS)], [add]) as yard:
        await collect_events(yard.run("go", conversation="c"))
        all_items = await read_until_end(yard, "c")
        for index, (cursor, _) in enumerate(all_items[:-1]):
            assert split_items([*all_items[: index + 1], *await read_until_end(yard, "c", cursor)]) == split_items(
                all_items
            ), f"left after {cursor}"


async def test_a_reader_that_leaves_after_each_item_gets_on_and_sees_each_once() -> None:
    """Its cursor may be that of turn.started: then the reader after it has not read the number of the turn."""
    async with open_yard([call("add", a=1, b=2), say(*WORDS)], [add]) as yard:
        await collect_events(yard.run("go", conversation="c"))
        cursor, items = "0", list[tuple[str, Published]]()
        while not items or not (isinstance(items[-1][1], Entry) and isinstance(items[-1][1].event, RunEnded)):
            reader = await yard.follow("c", cursor)
            item = await anext(reader)
            assert str(reader.cursor) != cursor, f"no progress at {cursor}"
            cursor = str(reader.cursor)
            items.append((cursor, item))
            reader.detach()
        text, seqs = split_items(items)
        assert text == "".join(WORDS) and seqs == list(range(1, len(seqs) + 1))


class HaltingModel(Scripted):
    """A scripted model that waits before the last piece of its text."""

    def __init__(self) -> None:
        super().__init__([say(*WORDS)])
        self.paused, self.resumed = asyncio.Event(), asyncio.Event()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | TurnEnded | TurnFailed, None]:
        async for delta in super().stream(request):
            if isinstance(delta, TextAppended) and delta.text == WORDS[-1]:
                self.paused.set()
                await self.resumed.wait()
            yield delta


async def test_a_reader_after_the_start_of_a_turn_gets_its_text_while_it_is_written() -> None:
    model = HaltingModel()
    async with asyncio.timeout(TEST_TIMEOUT_S), Yard(model=model) as yard:
        answer = asyncio.create_task(yard.ask("go", conversation="c"))
        await model.paused.wait()
        entries = await yard.service.conversations.read_entries("c")
        assert isinstance(entries[-1].event, TurnStarted)
        reader = await yard.follow("c", str(entries[-1].seq))
        item = await anext(reader)
        reader.detach()
        assert isinstance(item, TextAppended) and (item.turn, item.text) == (1, WORDS[0])
        model.resumed.set()
        await answer


async def test_a_batch_holds_all_that_is_there_and_is_empty_when_nothing_comes() -> None:
    async with open_yard([say(*WORDS)]) as yard:
        await collect_events(yard.run("go", conversation="c"))
        reader = await yard.follow("c")
        items: list[tuple[Published, Cursor]] = []
        while batch := await reader.read_batch(timeout_s=0.05):
            items += batch
        assert [item.seq for item, _ in items if isinstance(item, Entry)] == list(range(1, reader.cursor.seq + 1))
        assert items[-1][1] == reader.cursor
        reader.detach()


async def test_a_reader_keeps_a_short_timeout_after_a_long_one() -> None:
    async with open_yard([say("Hi.")]) as yard:
        reader = await yard.follow("c")
        long_wait = asyncio.create_task(reader.read_batch(timeout_s=TEST_TIMEOUT_S))
        await collect_events(yard.run("Hello", conversation="c"))
        await long_wait
        async with asyncio.timeout(TEST_TIMEOUT_S / 4):
            while await reader.read_batch(timeout_s=0.01):
                pass
        reader.detach()


def test_a_cursor_that_we_never_gave_out_is_refused_with_what_to_send() -> None:
    for wrong in ("x", "1.2", "-1", "1.2.3.4", "９", "1" * 40):
        with pytest.raises(Invalid, match="send the id of the last event"):
            parse_cursor(wrong)
