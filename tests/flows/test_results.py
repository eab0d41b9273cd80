"""Results are governed: bounded for the model, whole in the store, readable by handle."""

import json
from dataclasses import dataclass

import pytest
from pydantic import BaseModel

from support import events_of, in_yard, problem, result, results
from toolyard import Settings, Yard, call, say, tool
from toolyard.core.items import Result
from toolyard.core.ports import ModelRequest
from toolyard.models.scripted import Turn


def test_a_result_over_the_bound_is_cut_and_the_model_can_read_on_and_search() -> None:
    whole = "".join(f"line {number}: nothing here\n" for number in range(50_000)) + "the NEEDLE at the end"

    @tool
    def export() -> str:
        """A lot of text."""
        return whole

    def script(request: ModelRequest) -> Turn:
        last = request.history[-1]
        done = sum(isinstance(item, Result) for item in request.history)
        if done == 0:
            return call("export")
        handle = next(item.handle for item in request.history if isinstance(item, Result) and item.handle)
        if done == 1:
            assert isinstance(last, Result) and len(last.content.encode()) <= 16_384
            assert last.content.startswith("line 0") and last.content.endswith("the NEEDLE at the end")
            assert [tool.name for tool in request.offer.tools] == ["export", "read_result"]
            return call("read_result", handle=handle, offset=100, length=50)
        return call("read_result", handle=handle, pattern="needle|haystack") if done == 2 else say("ok")

    async def test(yard: Yard) -> None:
        cut, read, found = results(await events_of(yard.run("go")))
        assert cut.whole_bytes == len(whole)
        told = json.loads(read.content)
        assert told["text"] == whole[100:150] and told["next_offset"] == 150 and told["total_bytes"] == len(whole)
        matches = json.loads(found.content)
        assert matches["found"] == 1 and matches["matches"][0]["text"].endswith("NEEDLE at the end")

    in_yard(test, script, [export])


def test_a_handle_is_worth_nothing_in_another_conversation() -> None:
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

    async def test(yard: Yard) -> None:
        assert result(await events_of(yard.run("one"))).handle
        assert problem(result(await events_of(yard.run("two")))) == ("error", "not_found")

    in_yard(test, script, [export])


@dataclass
class Material:
    name: str
    quantity: int


class Model(BaseModel):
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
        (Model(material=Material("flour", 2)), '{"material":{"name":"flour","quantity":2}}'),
        (None, "null"),
        ("lone \ud800 surrogate", "lone ? surrogate"),
    ],
)
def test_values_are_written_as_the_model_reads_them(value: object, content: str) -> None:
    @tool
    def give() -> object:
        """Gives a value."""
        return value

    async def test(yard: Yard) -> None:
        assert result(await events_of(yard.run("go"))).content == content

    in_yard(test, [call("give"), say("ok")], [give])


@pytest.mark.parametrize("value", [Opaque(), {"deep": Opaque()}, CYCLE, {("a", "b"): 1}, {"bad": "\ud800"}])
def test_what_cannot_be_written_is_a_clear_error_and_says_that_the_tool_ran(value: object) -> None:
    @tool
    def give() -> object:
        """Gives a value."""
        return value

    async def test(yard: Yard) -> None:
        found = result(await events_of(yard.run("go")))
        assert problem(found) == ("error", "execution_error")
        assert "the tool ran, but what it returned" in found.content and "hint" in found.content

    in_yard(test, [call("give"), say("ok")], [give])


def test_a_hundred_megabytes_are_refused_with_what_to_do() -> None:
    @tool
    def give() -> str:
        """Gives far too much."""
        return "x" * 100_000_000

    async def test(yard: Yard) -> None:
        found = result(await events_of(yard.run("go")))
        assert problem(found) == ("error", "too_large") and "have the tool return a link" in found.content

    in_yard(test, [call("give"), say("ok")], [give])


def test_a_conversation_that_names_its_tools_can_still_read_on_in_a_large_result() -> None:
    @tool
    def export() -> str:
        """A lot of text."""
        return "x" * 20_000

    def script(request: ModelRequest) -> Turn:
        last = request.history[-1]
        if isinstance(last, Result) and last.handle:
            return call("read_result", handle=last.handle)
        return say("ok") if isinstance(last, Result) else call("export")

    async def test(yard: Yard) -> None:
        run = yard.run("go", settings=Settings(tools=frozenset({"export"})))
        assert [one.outcome for one in results(await events_of(run))] == ["ok", "ok"]

    in_yard(test, script, [export])
