"""Programs that call tools of MCP servers: typed results, their types, and questions that servers ask."""

from pathlib import Path

import msgspec
import pytest

from support import Script, collect_events, get_results, open_yard, wait_for_event
from toolyard.core.conversation.events import CallParked
from toolyard.core.items import Result
from toolyard.core.ports import ModelRequest
from toolyard.testing import Turn, call, say
from venues.code.shop import get_program_result
from venues.mcp.modern import over_stdio
from venues.mcp.plain import PlainServer


def _script(code: str) -> list[Turn]:
    return [call("run_code", code=code), say("ok")]


async def _run(tmp_path: Path, script: Script) -> list[Result]:
    plain = PlainServer(tmp_path, "typed")
    async with open_yard(script, servers={"plain": plain.spec}, code=True) as yard:
        return get_results(await collect_events(yard.run("go")))


async def test_structured_content_is_the_value_that_a_program_gets(tmp_path: Path) -> None:
    code = "typed = await typed_right()\n[typed['count'] + 1, await look()]"
    results = await _run(tmp_path, _script(code))
    value = msgspec.json.decode(get_program_result(results).content)["value"]
    assert value[0] == 4
    assert isinstance(value[1], str), "what has no structured content is text"


@pytest.mark.parametrize(
    ("code", "complaint"),
    [
        ("(await typed_right())['number']", "number"),
        ("(await typed_right())['count'] + 'x'", "Operator `+` is not supported"),
        ("len(await typed_right() + 1)", "line 1"),
    ],
)
async def test_a_program_is_checked_against_the_output_schemas_before_it_runs(
    tmp_path: Path, code: str, complaint: str
) -> None:
    results = await _run(tmp_path, _script(code))
    error = get_program_result(results).error
    assert error is not None
    assert error.error_type == "type_error"
    assert complaint in error.error
    assert len(results) == 1, "no call was made"


async def test_a_result_that_breaks_its_schema_raises_and_one_of_an_odd_schema_is_of_any_type(tmp_path: Path) -> None:
    code = """
try:
    wrong = await typed_wrong()
except RuntimeError as error:
    wrong = str(error)
[wrong, (await typed_oddly())['count']]
"""
    results = await _run(tmp_path, _script(code))
    wrong, odd = msgspec.json.decode(get_program_result(results).content)["value"]
    assert "does not match its outputSchema" in wrong
    assert odd == "three"


async def test_find_tools_tells_what_a_tool_returns_where_programs_are_enabled(tmp_path: Path) -> None:
    offered: list[list[str]] = []

    def script(request: ModelRequest) -> Turn:
        offered.append([tool.name for tool in request.offer.tools])
        return say("ok") if len(request.history) > 1 else call("find_tools", query="typed right")

    (result,) = await _run(tmp_path, script)
    found = {tool["name"]: tool for tool in msgspec.json.decode(result.content)["tools"]}
    assert found["typed_right"]["returns"]["properties"] == {"count": {"type": "integer"}}
    assert {"find_tools", "run_code", "typed_right"} <= set(offered[0])


async def test_without_programs_find_tools_is_not_offered_for_types_alone(tmp_path: Path) -> None:
    offered: list[str] = []

    def script(request: ModelRequest) -> Turn:
        offered[:] = [tool.name for tool in request.offer.tools]
        return say("ok")

    async with open_yard(script, servers={"plain": PlainServer(tmp_path, "typed").spec}) as yard:
        await yard.ask("go")
    assert "typed_right" in offered
    assert "find_tools" not in offered


@pytest.mark.parametrize("era", ["old", "new"])
async def test_a_server_asks_a_person_inside_a_program_which_goes_on_with_the_answer(tmp_path: Path, era: str) -> None:
    plain = PlainServer(tmp_path)
    servers = {"plain": plain.spec} if era == "old" else {"modern": over_stdio()}
    name = "ask" if era == "old" else "greet"
    code = f"said = await {name}()\nstr(said).upper()"
    async with open_yard(_script(code), servers=servers, code=True) as yard:
        run = yard.run("go")
        parked, run = await wait_for_event(run, CallParked)
        state = await yard.service.conversations.view(run.conversation)
        child = state.calls[parked.call_id]
        assert child.parent
        assert parked.question["message"] == "What is your name?"
        await yard.answer(run.conversation, parked.call_id, {"name": "Ann"})
        events = await collect_events(run)
    value = msgspec.json.decode(get_program_result(get_results(events)).content)["value"]
    assert "ANN" in value
    if era == "old":
        assert plain.read_notes("began") == ["ask"], "it was not called again"
