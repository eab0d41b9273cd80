"""Tools are enabled for each conversation, one by one; what is not enabled is not offered and does not run."""

import asyncio

import pytest

from surfaces.api_client import NOTHING_ENABLED, both_ways, build_key, open_api_client
from toolyard import tool
from toolyard.testing import Scripted, call, say


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
def subtract(a: int, b: int) -> int:
    """Subtract."""
    return a - b


@tool(roles=["boss"])
def fire() -> str:
    """For bosses."""
    return "fired"


@tool(enabled=False)
def retired_tool() -> str:
    """Not any more."""
    return ""


TOOLS = [add, subtract, fire, retired_tool]
ADD = {"server_id": "function", "tool_name": "add"}
SUBTRACT = {"server_id": "function", "tool_name": "subtract"}


@pytest.mark.proves("004.tools-available", "004.tools-enable", "004.tools-enabled", "004.tools-off-by-default")
@both_ways
async def test_a_tool_is_offered_once_it_is_enabled_and_not_before(way: str) -> None:
    model = Scripted([say("none"), call("add", a=1, b=2), say("three"), say("none again")])
    async with open_api_client(model, way=way, tools=TOOLS, default_settings=NOTHING_ENABLED) as http:
        path = await http.create_conversation()
        available = await http.get(f"{path}/tools/available")
        assert set(available) == {"success", "available_tools", "count"} and available["count"] == 2
        shown = available["available_tools"][0]
        assert shown.items() >= {**ADD, "server_name": "function", "server_slug": "function"}.items()
        assert shown["tool_description"] == "Add two numbers." and set(shown["input_schema"]["properties"]) == {
            "a",
            "b",
        }
        assert (await http.get(f"{path}/tools"))["enabled_tools"] == []
        await http.post(f"{path}/chat", {"content": "before"})
        for _ in range(2):  # a second time changes nothing
            enabled = await http.post(f"{path}/tools", ADD)
            assert enabled["enabled_tools"] == [ADD] and isinstance(enabled["message"], str)
        await http.post(f"{path}/chat", {"content": "between"})
        assert (await http.delete(f"{path}/tools", ADD))["enabled_tools"] == []
        await http.post(f"{path}/chat", {"content": "after"})
        offered = [[tool.name for tool in request.offer.tools] for request in model.requests]
        assert offered == [[], ["add"], ["add"], []]


async def test_where_everything_is_enabled_the_first_that_is_taken_leaves_the_others() -> None:
    async with open_api_client(tools=TOOLS) as http:
        path = await http.create_conversation()
        assert (await http.get(f"{path}/tools"))["enabled_tools"] == [ADD, SUBTRACT]
        assert (await http.post(f"{path}/tools", ADD))["enabled_tools"] == [ADD, SUBTRACT]
        assert (await http.delete(f"{path}/tools?server_id=function&tool_name=add"))["enabled_tools"] == [SUBTRACT]
        assert (await http.post(f"{path}/tools", ADD))["enabled_tools"] == [ADD, SUBTRACT]


async def test_a_tool_that_is_not_there_for_the_caller_cannot_be_enabled() -> None:

    keys = [build_key("ann"), build_key("boss", "boss")]
    async with open_api_client(tools=TOOLS, keys=keys, default_settings=NOTHING_ENABLED) as http:
        ann, boss = http.with_key("ann"), http.with_key("boss")
        path = await ann.create_conversation()
        for name in ("fire", "retired_tool", "nope"):
            refused = await ann.post(f"{path}/tools", {"server_id": "function", "tool_name": name}, expect=404)
            assert name in refused["error"]
        await ann.post(f"{path}/tools", {"server_id": "elsewhere", "tool_name": "add"}, expect=404)
        await ann.delete(f"{path}/tools", {"server_id": "function", "tool_name": "nope"}, expect=404)
        await ann.delete(f"{path}/tools", expect=422)
        await ann.delete(f"{path}/tools?server_id=function", expect=422)
        names = [tool["tool_name"] for tool in (await ann.get(f"{path}/tools/available"))["available_tools"]]
        assert names == ["add", "subtract"]
        hers = await boss.create_conversation()
        assert (await boss.get(f"{hers}/tools/available"))["count"] == 3
        fire = {"server_id": "function", "tool_name": "fire"}
        assert (await boss.post(f"{hers}/tools", fire))["enabled_tools"] == [fire]


async def test_a_tool_that_is_disabled_while_its_call_waits_does_not_run() -> None:
    ran: list[str] = []

    @tool(approval="ask")
    def dangerous() -> None:
        """Asks."""
        ran.append("dangerous")

    async with open_api_client([call("dangerous"), say("ok")], tools=[dangerous]) as http:
        path = await http.create_conversation()
        waiting = await http.post(f"{path}/chat", {"content": "go"}, expect=202)
        await http.delete(f"{path}/tools?server_id=function&tool_name=dangerous")
        await http.post(f"{path}/calls/{waiting['waiting'][0]['call_id']}/approve")
        finished = [event for _, event in await http.read_until_done(path) if event.get("state") == "finished"]
        assert [(event["ok"], event["error_type"]) for event in finished] == [(False, "permission_denied")]
        assert ran == []


async def test_of_many_who_enable_at_once_every_one_counts() -> None:
    @tool(name="t0")
    def first() -> None:
        """One of many."""

    many = [tool(name=f"t{number}")(first.function) for number in range(40)]
    async with open_api_client(tools=many, default_settings=NOTHING_ENABLED) as http:
        path = await http.create_conversation()
        names = [f"t{number}" for number in range(40)]
        await asyncio.gather(
            *(http.post(f"{path}/tools", {"server_id": "function", "tool_name": name}) for name in names)
        )
        assert [enabled["tool_name"] for enabled in (await http.get(f"{path}/tools"))["enabled_tools"]] == names
