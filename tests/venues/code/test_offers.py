"""Where programs are offered, what models are told of them, and which tools a program cannot call."""

from dataclasses import replace
from pathlib import Path

import pytest

from hosting import NativeScripted
from support import collect_events, get_results, open_yard
from surfaces.api_client import build_key, build_yard, connect_api_client
from toolyard import Caller, Context, Executor, Settings, Tool, Yard
from toolyard.core.items import Call
from toolyard.core.ports import ModelRequest
from toolyard.core.settings.limits import Budget
from toolyard.server.config import load
from toolyard.server.wiring import build_wiring
from toolyard.testing import Scripted, Turn, call, say
from toolyard.venues.provider import build_provider_tool
from venues.code.shop import ProgramShop, get_program_result

FILE = """
store = "memory:"
[code]
enabled = true
[tool.run_code]
divisions = ["clothing", "food"]
[divisions.clothing]
tools = ["run_code"]
[divisions.food]
tools = "none"
"""
FEW = Budget(tools=2)
"""So few that a model is offered `find_tools`."""


class MailExecutor(Executor):
    """A tool with a parameter whose name is a keyword of Python."""

    parameters = {  # noqa: RUF012 - read, never written
        "type": "object",
        "properties": {"to": {"type": "string"}, "from": {"type": "string"}},
        "required": ["to"],
    }

    def __init__(self, name: str) -> None:
        self.name = name

    async def execute(self, call: Call, context: Context) -> object:
        return call.arguments


def _list_offered(model: Scripted) -> list[bool]:
    """Return whether each request offered programs."""
    return ["run_code" in {tool.name for tool in request.offer.tools} for request in model.requests]


async def test_programs_are_offered_by_division(tmp_path: Path) -> None:
    file = tmp_path / "toolyard.toml"
    file.write_text(FILE)
    model = Scripted([say("ok")] * 3)
    wiring = replace(build_wiring(load(file, {}, {}), tmp_path), model=model, tools=ProgramShop().tools)
    async with Yard.from_wiring(wiring) as yard:
        for division in ("clothing", "food", "toys"):
            await yard.ask("go", caller=Caller(user="ann", division=division))
    assert _list_offered(model) == [True, False, False]


async def test_a_conversation_without_programs_runs_none_and_one_that_has_them_calls_its_own_tools_only() -> None:
    shop, code = ProgramShop(), call("run_code", code="await add(item='a')")
    async with open_yard([code, say("no"), code, say("ok")], shop.tools, code=True) as yard:
        for tools, complaint in (({"add"}, "not enabled in this conversation"), ({"run_code"}, "Name `add` used")):
            settings = Settings(tools=frozenset(tools))
            result = get_program_result(get_results(await collect_events(yard.run("go", settings=settings))))
            assert result.error is not None
            assert complaint in result.error.error
    assert shop.actions == []


async def test_programs_are_offered_by_preset() -> None:
    model = Scripted([say("ok")] * 2)
    wiring = {"tools": ProgramShop().tools, "keys": [build_key("ann")], "code": True}
    async with build_yard(model, **wiring) as yard, connect_api_client(yard) as http:
        ann = http.with_key("ann")
        for name, tools in (("coder", ["run_code", "add"]), ("reader", ["get_order"])):
            await ann.put(f"/presets/{name}", {"settings": {"tools": tools}})
            path = await ann.create_conversation("Test", model=f"preset:{name}")
            await ann.post(f"{path}/chat", {"content": "go"})
    assert _list_offered(model) == [True, False]


async def test_the_description_of_programs_is_the_same_whatever_tools_there_are() -> None:
    described: list[Tool] = []

    def script(request: ModelRequest) -> Turn:
        described.extend(tool for tool in request.offer.tools if tool.name == "run_code")
        return say("ok")

    shop = ProgramShop()
    for tools in ([], shop.tools[:1], shop.tools):
        async with open_yard(script, tools, code=True) as yard:
            await yard.ask("go")
    assert len(described) == 3
    assert described[0] == described[1] == described[2]


@pytest.mark.parametrize("name", ["run_code", "find_tools", "code_execution", "tap"])
async def test_what_a_program_cannot_call_is_named_before_it_runs(name: str) -> None:
    shop = ProgramShop()
    model = NativeScripted([call("run_code", code=f"await add(item='a')\nawait {name}()"), say("ok")])
    native = build_provider_tool("code_execution")
    async with Yard(tools=shop.tools, model=model, provider_tools=[native], budget=FEW, code=True) as yard:
        run = yard.run("go", app_tools=[Tool(name="tap", venue="client")])
        result = get_program_result(get_results(await collect_events(run)))
    assert result.error is not None
    assert "the program was not run:\nline 2: " in result.error.error
    assert f"{name} cannot be called by a program: call it yourself" in result.error.error
    assert shop.actions == []


async def test_a_tool_of_the_application_in_place_of_a_tool_of_the_server_is_not_called_by_a_program() -> None:
    shop = ProgramShop()
    async with open_yard([call("run_code", code="await add(item='a')"), say("ok")], shop.tools, code=True) as yard:
        run = yard.run("go", app_tools=[Tool(name="add", venue="client", hides_server_tool=True)])
        (result,) = get_results(await collect_events(run))
    assert result.error is not None
    assert "add cannot be called by a program: call it yourself" in result.error.error
    assert shop.actions == []


@pytest.mark.parametrize("budget", [Budget(), FEW])
async def test_find_tools_is_recommended_only_where_it_is_offered(budget: Budget) -> None:
    script = [call("run_code", code="await nothing_like_it()"), say("ok")]
    async with open_yard(script, ProgramShop().tools, code=True, budget=budget) as yard:
        result = get_program_result(get_results(await collect_events(yard.run("go"))))
    assert result.error is not None
    assert ("find_tools" in result.error.error) is (budget is FEW)


@pytest.mark.parametrize(
    ("code", "note"),
    [
        ("await list(to='a')", "the tool list is called as list_(…)"),
        ("await send-mail(to='a')", "the tool send-mail is called as send_mail(…)"),
        ("await send_mail(from='a', to='b')", "send_mail is given from as **{'from': …}"),
    ],
)
async def test_a_program_is_told_how_to_write_names_that_python_does_not_allow(code: str, note: str) -> None:
    model = Scripted([call("run_code", code=code), say("ok")])
    async with Yard(tools=[MailExecutor("list"), MailExecutor("send-mail")], model=model, code=True) as yard:
        result = get_program_result(get_results(await collect_events(yard.run("go"))))
    assert result.error is not None
    assert note in result.error.error.splitlines()


async def test_a_program_calls_tools_by_the_names_that_it_is_told() -> None:
    script = [call("run_code", code="await list_(to='a')\nawait send_mail(to='b', **{'from': 'a'})"), say("ok")]
    async with open_yard(script, [MailExecutor("list"), MailExecutor("send-mail")], code=True) as yard:
        result = get_program_result(get_results(await collect_events(yard.run("go"))))
    assert result.content == '{"value":{"to":"b","from":"a"}}'
