"""Readers: from any place, any number, however slow, each sees everything once."""

import asyncio

import pytest

from support import collect_events, open_yard
from toolyard import Yard, call, say, tool
from toolyard.core.cursor import Cursor, parse_cursor
from toolyard.core.errors import Invalid
from toolyard.core.events import Entry, RunEnded, TextAppended
from toolyard.engine.readers import RING_SIZE, Published

WORDS = ["Ich ", "hätte ", "gern ", "面粉 ", "und ", "🥛."]


@tool
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


async def all_from(yard: Yard, conversation: str, after: str = "") -> list[tuple[str, Published]]:
    reader = await yard.follow(conversation, after)
    seen: list[tuple[str, Published]] = []
    async for item in reader:
        seen.append((str(reader.cursor), item))
        if isinstance(item, Entry) and isinstance(item.event, RunEnded):
            break
    reader.detach()
    return seen


def told(seen: list[tuple[str, Published]]) -> tuple[str, list[int]]:
    pieces = "".join(item.text for _, item in seen if isinstance(item, TextAppended))
    return pieces, [item.seq for _, item in seen if isinstance(item, Entry)]


async def test_a_reader_that_leaves_at_any_point_and_comes_back_has_no_gap_and_no_repeat() -> None:
    async with open_yard([call("add", a=1, b=2), say(*WORDS)], [add]) as yard:
        live = asyncio.create_task(all_from(yard, "c"))
        await collect_events(yard.run("go", conversation="c"))
        whole = await live
        text, seqs = told(whole)
        assert text == "".join(WORDS) and seqs == list(range(1, len(seqs) + 1))
        for index, (cursor, _) in enumerate(whole[:-1]):
            rest = await all_from(yard, "c", cursor)
            joined = [*whole[: index + 1], *rest]
            assert told(joined) == (text, seqs), f"left after {cursor}"


async def test_a_reader_that_comes_in_the_middle_of_an_answer_gets_the_text_so_far() -> None:
    async with open_yard([say(*WORDS)]) as yard:
        run = yard.run("go", conversation="c")
        late: asyncio.Task[list[tuple[str, Published]]] | None = None
        async for event in run:
            if isinstance(event, TextAppended) and event.text == "gern " and late is None:
                late = asyncio.create_task(all_from(yard, "c"))
        assert late is not None
        assert told(await late)[0] == "".join(WORDS)


async def test_a_slow_reader_is_overrun_and_still_misses_nothing() -> None:
    count = 3 * RING_SIZE
    async with open_yard([say(*["x"] * count)]) as yard:
        reader = await yard.follow("c")
        run = asyncio.create_task(collect_events(yard.run("go", conversation="c")))
        first = await anext(reader)
        assert isinstance(first, Entry) and first.seq == 1
        await run  # all is said while this reader looked elsewhere
        seen: list[Published] = [first]
        async for item in reader:
            seen.append(item)
            if isinstance(item, Entry) and isinstance(item.event, RunEnded):
                break
        reader.detach()
        text, seqs = told([("", item) for item in seen])
        assert len(text) == count and seqs == list(range(1, len(seqs) + 1))
        assert len(seen) < count


async def test_a_late_reader_may_leave_between_the_text_of_a_turn_and_its_end() -> None:
    async with open_yard([call("add", a=1, b=2), say(*WORDS)], [add]) as yard:
        await collect_events(yard.run("go", conversation="c"))
        whole = await all_from(yard, "c")
        for index, (cursor, _) in enumerate(whole[:-1]):
            assert told([*whole[: index + 1], *await all_from(yard, "c", cursor)]) == told(whole), (
                f"left after {cursor}"
            )


async def test_a_batch_holds_all_that_is_there_and_is_empty_when_nothing_comes() -> None:
    async with open_yard([say(*WORDS)]) as yard:
        await collect_events(yard.run("go", conversation="c"))
        reader = await yard.follow("c")
        seen: list[tuple[Published, Cursor]] = []
        while batch := await reader.read_batch(timeout_s=0.05):
            seen += batch
        assert [item.seq for item, _ in seen if isinstance(item, Entry)] == list(range(1, reader.cursor.seq + 1))
        assert seen[-1][1] == reader.cursor
        reader.detach()


def test_a_cursor_that_we_never_gave_out_is_refused_with_what_to_send() -> None:
    for wrong in ("x", "1.2", "-1", "1.2.3.4", "９", "1" * 40):
        with pytest.raises(Invalid, match="send the id of the last event"):
            parse_cursor(wrong)
