"""A division has its own prompt, tools and limits, and nobody reaches another one's tools."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from surfaces.api_client import ApiClient, build_key, open_api_client
from surfaces.app_client import AppClient, user_message
from toolyard import Context, Limits, tool
from toolyard.core.errors import Misconfigured
from toolyard.core.items import Result
from toolyard.core.ports import ModelRequest
from toolyard.core.settings.divisions import Division, build_divisions
from toolyard.server.config import load
from toolyard.server.wiring import build_wiring
from toolyard.testing import Scripted, Turn, call, say


@tool
def find_coat(context: Context) -> str:
    """The clothing division's."""
    return f"a coat of {context.caller.division}"


@tool
def find_bread() -> str:
    """The food division's."""
    return "bread"


@tool
def opening_hours() -> str:
    """Everybody's but those of a division that lists its tools."""
    return "9 to 5"


DIVISIONS = {
    ("", "clothing"): Division(prompt="You sell clothes.", tools=frozenset({"find_coat"})),
    ("", "food"): Division(prompt="You sell food.", tools=frozenset({"find_bread", "opening_hours"})),
    ("", "head"): Division(limits=Limits(turns_per_request=1), requests_per_minute=1),
}
KEYS = [
    build_key("seller", divisions=frozenset({"clothing", "food"})),
    build_key("baker", divisions=frozenset({"food"})),
    build_key("boss", divisions=frozenset({"head"})),
    build_key("backend", trusted=True, divisions=frozenset({"clothing"})),
]


@asynccontextmanager
async def open_divided(model: Scripted, **more: object) -> AsyncGenerator[ApiClient, None]:
    tools = [find_coat, find_bread, opening_hours]
    async with open_api_client(model, keys=KEYS, divisions=DIVISIONS, tools=tools, **more) as http:  # pyright: ignore[reportArgumentType]
        yield http


def build_asking_model(name: str) -> Scripted:
    def reply(request: ModelRequest) -> Turn:
        return say("ok") if isinstance(request.history[-1], Result) else call(name)

    return Scripted(reply)


@pytest.mark.proves("000.division-scoped")
async def test_a_division_is_offered_its_tools_and_a_call_of_another_ones_is_refused() -> None:
    model = build_asking_model("find_coat")
    async with open_divided(model, system_prompt="Be kind.") as http:
        for division in ("clothing", "food"):
            await AppClient(http.with_key("seller"), ()).ask("go", context={"division": division})
    offered_names = [[tool.name for tool in request.offer.tools] for request in model.requests]
    assert offered_names == [["find_coat"]] * 2 + [["find_bread", "opening_hours"]] * 2
    results = [item for request in model.requests for item in request.history if isinstance(item, Result)]
    assert results[0].content == "a coat of clothing"
    assert results[1].outcome == "denied" and "division food does not have it" in results[1].content
    assert [request.system.split("\n\n")[:2] for request in model.requests[::2]] == [
        ["Be kind.", "You sell clothes."],
        ["Be kind.", "You sell food."],
    ]


@pytest.mark.parametrize(
    ("who", "division", "offered"),
    [
        ("seller", "", []),
        ("baker", "", ["find_bread", "opening_hours"]),
        ("boss", "", ["find_coat", "find_bread", "opening_hours"]),
    ],
)
async def test_who_names_no_division_has_that_of_a_key_with_one_and_else_no_divisions_tools(
    who: str, division: str, offered: list[str]
) -> None:
    model = Scripted([say("ok")])
    async with open_divided(model) as http:
        await AppClient(http.with_key(who), ()).ask("go")
        available = await http.with_key(who).get(f"{await http.with_key(who).create_conversation()}/tools/available")
        assert [tool["tool_name"] for tool in available["available_tools"]] == offered
    assert [tool.name for tool in model.requests[0].offer.tools] == offered


@pytest.mark.parametrize(("who", "division"), [("baker", "clothing"), ("boss", "food"), ("seller", "nowhere")])
async def test_a_division_that_is_not_the_keys_is_403(who: str, division: str) -> None:
    async with open_divided(Scripted([])) as http:
        app = AppClient(http.with_key(who), ())
        error_body = await app.ask("go", expect=403, context={"division": division})
        assert f"'{division}' is not one of this key's" in error_body["error"]


async def test_a_header_and_the_body_may_not_name_two_divisions() -> None:
    async with open_divided(Scripted([say("ok")])) as http:
        app = AppClient(http.with_key("backend"), ())
        body = {"messages": [user_message("go")], "context": {"division": "clothing"}}
        await app.post(body, x_user="eve", x_division="clothing")
        await app.post({**body, "context": {"division": "food"}}, expect=403, x_user="eve", x_division="clothing")


async def test_a_divisions_limits_hold_for_it() -> None:
    async with open_divided(build_asking_model("find_bread")) as http:
        boss = http.with_key("boss")
        first = await AppClient(boss, ()).ask("go")
        assert first["stopReason"] == "max_tool_turns"
        await AppClient(boss, ()).ask("go", expect=429)
        too_many = {"title": "t", "max_turns": 2}
        await boss.post("/conversations", too_many, expect=422)


TOML = """
store = "memory:"
tools = ["./division_tools.py"]
[limits]
requests_per_minute = 7
[divisions.clothing]
prompt = "You sell clothes."
tools = ["find_coat"]
[divisions.clothing.limits]
turns_per_request = 3
"""


def test_divisions_of_the_file_are_wired_and_a_tool_that_is_not_there_is_refused(tmp_path: Path) -> None:
    (tmp_path / "division_tools.py").write_text(
        "from flows.test_divisions import find_coat, find_bread\nTOOLS = [find_coat, find_bread]\n"
    )
    file = tmp_path / "toolyard.toml"
    file.write_text(TOML)
    config = load(file, {}, {})
    wiring = build_wiring(config, tmp_path)
    division = build_divisions(wiring.division_settings, wiring.tenant_settings, config.limits)["", "clothing"]
    assert division.prompt == "You sell clothes." and division.tools == frozenset({"find_coat"})
    assert (division.limits, division.requests_per_minute) == (Limits(turns_per_request=3), 7)
    file.write_text(TOML.replace('"find_coat"', '"find_cot"'))
    with pytest.raises(Misconfigured, match=r"\[divisions.clothing\] tools names 'find_cot'.*did you mean find_coat"):
        build_wiring(load(file, {}, {}), tmp_path)


TENANTS = """
store = "memory:"
tools = ["./division_tools.py"]
system_prompt = "Be kind."
[limits]
turns_per_request = 9
run_tokens = 1000
[divisions.clothing]
prompt = "You sell clothes."
tools = ["find_coat"]
limits = { turns_per_request = 3 }
[tenants.acme]
prompt = "You work for Acme."
tools = ["find_coat", "opening_hours"]
limits = { run_tokens = 5, requests_per_minute = 2 }
[tenants.acme.divisions.food]
prompt = "You sell Acme's food."
limits = { run_tokens = 6 }
[tenants.acme.divisions.closed]
tools = "none"
[tenants.plain]
prompt = "You are plain."
"""
TENANT_KEYS = [
    build_key("ann", tenant="acme", divisions=frozenset({"clothing", "food", "toys"})),
    build_key("bob", tenant="plain"),
    build_key("cid", tenant="other", divisions=frozenset({"clothing"})),
]


@pytest.mark.proves("000.division-scoped")
async def test_a_tenant_has_its_own_prompt_tools_and_limits_and_so_has_each_of_its_divisions(tmp_path: Path) -> None:
    (tmp_path / "division_tools.py").write_text(
        "from flows.test_divisions import find_coat, find_bread, opening_hours\n"
        "TOOLS = [find_coat, find_bread, opening_hours]\n"
    )
    file = tmp_path / "toolyard.toml"
    file.write_text(TENANTS)
    config = load(file, {}, {})
    wiring = build_wiring(config, tmp_path)
    divisions = build_divisions(wiring.division_settings, wiring.tenant_settings, config.limits)
    model = Scripted(lambda request: say("ok"))
    async with open_api_client(
        model,
        tools=wiring.tools,
        keys=TENANT_KEYS,
        division_settings=wiring.division_settings,
        tenant_settings=wiring.tenant_settings,
        system_prompt=wiring.system_prompt,
    ) as http:
        await AppClient(http.with_key("bob"), ()).ask("go")
        for division in ("clothing", "food", "toys"):
            await AppClient(http.with_key("ann"), ()).ask("go", context={"division": division})
        await AppClient(http.with_key("cid"), ()).ask("go")
    prompts_and_tools = [
        (request.system.split("\n\n"), [tool.name for tool in request.offer.tools]) for request in model.requests
    ]
    acme = ["Be kind.", "You work for Acme."]
    assert prompts_and_tools == [
        (["Be kind.", "You are plain."], ["find_bread"]),
        ([*acme, "You sell clothes.", "division: clothing"], ["find_coat"]),
        ([*acme, "You sell Acme's food.", "division: food"], ["find_coat", "opening_hours"]),
        ([*acme, "division: toys"], ["find_coat", "opening_hours"]),
        (["Be kind.", "You sell clothes."], ["find_coat"]),
    ]
    assert divisions["acme", "closed"].tools == frozenset()
    limits = {name: (division.limits, division.requests_per_minute) for name, division in divisions.items()}
    assert limits == {
        ("", "clothing"): (Limits(turns_per_request=3, run_tokens=1000), 30),
        ("acme", ""): (Limits(turns_per_request=9, run_tokens=5), 2),
        ("acme", "clothing"): (Limits(turns_per_request=3, run_tokens=5), 2),
        ("acme", "closed"): (Limits(turns_per_request=9, run_tokens=5), 2),
        ("acme", "food"): (Limits(turns_per_request=9, run_tokens=6), 2),
        ("plain", ""): (Limits(turns_per_request=9, run_tokens=1000), 30),
        ("plain", "clothing"): (Limits(turns_per_request=3, run_tokens=1000), 30),
    }


async def test_a_tenants_limits_hold_for_its_callers_and_a_tool_that_is_not_its_own_is_refused() -> None:
    tenant = Division(tools=frozenset({"find_coat"}), requests_per_minute=1)
    model = build_asking_model("find_bread")
    async with open_api_client(
        model, keys=TENANT_KEYS, divisions={("acme", ""): tenant}, tools=[find_coat, find_bread]
    ) as http:
        await AppClient(http.with_key("ann"), ()).ask("go")
        await AppClient(http.with_key("ann"), ()).ask("go", expect=429)
        await AppClient(http.with_key("bob"), ()).ask("go")
    results = [item for request in model.requests for item in request.history if isinstance(item, Result)]
    assert [result.outcome for result in results] == ["denied", "ok"]
    assert "the tenant acme does not have it" in results[0].content
