"""Results are governed: bounded for the model, whole in the store, readable by handle."""

import asyncio
import json
import time
from collections.abc import Coroutine
from dataclasses import dataclass

import msgspec
import pytest
from pydantic import BaseModel

from support import collect_events, get_problem, get_result, get_results, open_yard
from toolyard import Limits, Settings, UserMessage, tool
from toolyard.core.items import Result
from toolyard.core.ports import ModelRequest
from toolyard.testing import Turn, call, say


async def test_a_result_over_the_bound_is_cut_and_the_model_can_read_on_and_search() -> None:
    full_text = "".join(f"line {number}: nothing here\n" for number in range(50_000)) + "the NEEDLE at the end"

    @tool
    def export() -> str:
        """A lot of text."""
        return full_text

    def script(request: ModelRequest) -> Turn:
        last = request.history[-1]
        result_count = sum(isinstance(item, Result) for item in request.history)
        if result_count == 0:
            return call("export")
        handle = next(item.handle for item in request.history if isinstance(item, Result) and item.handle)
        if result_count == 1:
            assert isinstance(last, Result) and len(last.content.encode()) <= 16_384
            assert last.content.startswith("line 0") and last.content.endswith("the NEEDLE at the end")
            assert [tool.name for tool in request.offer.tools] == ["export", "read_result"]
            return call("read_result", handle=handle, offset=100, length=50)
        return call("read_result", handle=handle, pattern="needle|haystack") if result_count == 2 else say("ok")

    async with open_yard(script, [export]) as yard:
        cut, read, search_result = get_results(await collect_events(yard.run("go")))
        assert cut.whole_bytes == len(full_text)
        window = json.loads(read.content)
        assert (
            window["text"] == full_text[100:150]
            and window["next_offset"] == 150
            and window["total_bytes"] == len(full_text)
        )
        matches = json.loads(search_result.content)
        assert matches["found"] == 1 and matches["matches"][0]["text"].endswith("NEEDLE at the end")


async def test_a_handle_is_worth_nothing_in_another_conversation() -> None:
    @tool
    def export() -> str:
        """A lot of text."""
        return "x" * 20_000

    handles: list[str] = []

    def script(request: ModelRequest) -> Turn:
        last = request.history[-1]
        if isinstance(last, Result):
            handles.append(last.handle)
            return say("ok")
        return call("read_result", handle=handles[0]) if handles else call("export")

    async with open_yard(script, [export]) as yard:
        assert get_result(await collect_events(yard.run("one"))).handle
        assert get_problem(get_result(await collect_events(yard.run("two")))) == ("error", "not_found")


@dataclass
class Material:
    name: str
    quantity: int


class MaterialModel(BaseModel):
    material: Material


class Opaque:
    pass


CYCLE: list[object] = []
CYCLE.append(CYCLE)


@pytest.mark.parametrize(
    ("value", "content"),
    [
        ("plain text", "plain text"),
        ({"高筋面粉": 100}, '{"高筋面粉":100}'),
        ([Material("flour", 2)], '[{"name":"flour","quantity":2}]'),
        (MaterialModel(material=Material("flour", 2)), '{"material":{"name":"flour","quantity":2}}'),
        (None, "null"),
        ("lone \ud800 surrogate", "lone ? surrogate"),
    ],
)
async def test_values_are_written_as_the_model_reads_them(value: object, content: str) -> None:
    @tool
    def give() -> object:
        """Gives a value."""
        return value

    async with open_yard([call("give"), say("ok")], [give]) as yard:
        assert get_result(await collect_events(yard.run("go"))).content == content


@pytest.mark.parametrize("value", [Opaque(), {"deep": Opaque()}, CYCLE, {("a", "b"): 1}, {"bad": "\ud800"}])
async def test_what_cannot_be_written_is_a_clear_error_and_says_that_the_tool_ran(value: object) -> None:
    @tool
    def give() -> object:
        """Gives a value."""
        return value

    async with open_yard([call("give"), say("ok")], [give]) as yard:
        call_result = get_result(await collect_events(yard.run("go")))
        assert get_problem(call_result) == ("error", "execution_error")
        assert "the tool ran, but its result" in call_result.content and "hint" in call_result.content


async def test_a_hundred_megabytes_are_refused_with_what_to_do() -> None:
    @tool
    def give() -> str:
        """Gives far too much."""
        return "x" * 100_000_000

    async with open_yard([call("give"), say("ok")], [give]) as yard:
        call_result = get_result(await collect_events(yard.run("go")))
        assert (
            get_problem(call_result) == ("error", "too_large") and "have the tool return a link" in call_result.content
        )


async def test_a_conversation_that_names_its_tools_can_still_read_on_in_a_large_result() -> None:
    @tool
    def export() -> str:
        """A lot of text."""
        return "x" * 20_000

    def script(request: ModelRequest) -> Turn:
        last = request.history[-1]
        if isinstance(last, Result) and last.handle:
            return call("read_result", handle=last.handle)
        return say("ok") if isinstance(last, Result) else call("export")

    async with open_yard(script, [export]) as yard:
        run = yard.run("go", settings=Settings(tools=frozenset({"export"})))
        assert [result.outcome for result in get_results(await collect_events(run))] == ["ok", "ok"]


@dataclass
class Report:
    title: str
    rows: list[dict[str, object]]


class PageModel(BaseModel):
    text: str


ROWS: list[dict[str, object]] = [
    {"n": number, "name": f"größe {number}", "tags": ["a", None]} for number in range(9000)
]


@pytest.mark.parametrize(
    "value",
    [
        "größer 世界 " * 200_000,
        {"text": 'quoted "größe"\n' * 200_000, "small": [1, [2]], 7: "a name that is a number"},
        ROWS,
        tuple(range(300_000)),
        [["x" * 400_000, [""]], ["y" * 800_000]],
        {"deep": {"deeper": ROWS, "none": None}},
        Report("all", ROWS),
        [PageModel(text="p" * 700_000), PageModel(text="q" * 700_000)],
        {"pages": [{"text": "世" * 100_000}] * 20},
    ],
    ids=["text", "object", "rows", "numbers", "nested", "deep", "dataclass", "models", "repeated"],
)
async def test_a_large_value_is_written_as_a_small_one_is(value: object) -> None:
    """Large ones are written in pieces: what comes of it is the same."""
    expected = value if isinstance(value, str) else encode_small_json(value)

    @tool(max_result_bytes=60_000_000)
    def export() -> object:
        """Returns it all."""
        return value

    async with open_yard([], [export]) as yard:
        assert get_result(await collect_events(yard.call("export", {}))).content == expected


def encode_small_json(value: object) -> str:
    return msgspec.json.encode(value, enc_hook=lambda model: model.model_dump(mode="json")).decode()


async def test_a_text_is_found_where_two_windows_of_a_large_result_meet() -> None:
    words = "世界 needle 大小 "
    full_text = words * 100_000
    needle_count, last = full_text.count("needle"), full_text.rindex("needle")

    @tool
    def export() -> str:
        """A lot of text."""
        return full_text

    def script(request: ModelRequest) -> Turn:
        handles = [item.handle for item in request.history if isinstance(item, Result) and item.handle]
        result_count = sum(isinstance(item, Result) for item in request.history)
        patterns = ["NEEDLE", "needle 大小 世界 needle|zzz"]
        return (
            call("export")
            if not result_count
            else call("read_result", handle=handles[0], pattern=patterns[result_count - 1])
        )

    async with open_yard(script, [export]) as yard:
        run = yard.run("go", limits=Limits(turns_per_request=3))
        _, first, second = get_results(await collect_events(run))
        search_answer = json.loads(first.content)
        assert search_answer["found"] == min(needle_count, 1000) and last > 0
        step = len(words.encode())
        assert [match["offset"] for match in search_answer["matches"]] == [7 + step * number for number in range(20)]
        assert json.loads(second.content)["found"] == min(needle_count // 2, 1000)
        assert (
            search_answer["matches"][0]["text"].startswith("世界 needle")
            and len(search_answer["matches"][5]["text"]) <= 406
        )


async def test_nobody_waits_while_a_large_result_is_written_or_searched() -> None:
    """Compared with the work itself: written in one go it would be one stall as long as all of the work."""
    large_value = {"text": "größer 世界 " * 3_000_000}

    @tool
    async def export() -> object:
        """A lot of text."""
        return large_value

    def script(request: ModelRequest) -> Turn:
        handles = [item.handle for item in request.history if isinstance(item, Result) and item.handle]
        match len([item for item in request.history if isinstance(item, Result)]), request.history[-1]:
            case 0, _:
                return call("export")
            case 1, UserMessage():
                return call("read_result", handle=handles[0], pattern="nowhere|at all")
            case _:
                return say("ok")

    async with open_yard(script, [export]) as yard:
        for message in ("write it", "search it"):
            run = yard.run(message, conversation="c")
            assert await measure_longest_stall(collect_events(run)) < 0.5, message


async def measure_longest_stall(work: Coroutine[None, None, object]) -> float:
    """Return the longest stretch in which nothing else could run, as a share of the work.

    Both are CPU time of the process, so that other processes of the machine do not count.
    """
    began = last = time.process_time()
    longest, task = 0.0, asyncio.create_task(work)
    while not task.done():
        await asyncio.sleep(0)
        now = time.process_time()
        longest, last = max(longest, now - last), now
    await task
    return longest / (last - began)
