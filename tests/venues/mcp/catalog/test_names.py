"""A name that models see is bound to one tool of one server for good, whichever server connects first."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from postgres import create_database
from replicas.pair import open_replicas
from stores.memory_replicas import MemoryDatabase
from support import TEST_TIMEOUT_S, collect_events, get_result, open_yard, wait_for_event, wait_until
from surfaces.api_client import build_yard
from toolyard import Caller, Yard
from toolyard.app import open_store
from toolyard.core.conversation.commands import Open
from toolyard.core.conversation.events import Remember, RunSuspended
from toolyard.core.conversation.settings import Settings, SettingsChange
from toolyard.core.errors import NotFound, Refused
from toolyard.core.store import Key
from toolyard.core.tool_identity import TOOL_NAMES
from toolyard.core.tools.definition import Tool, may_use_with_key
from toolyard.core.tools.mcp_servers import ServerSpec
from toolyard.server.config import Config, ToolRules
from toolyard.server.wiring import build_wiring
from toolyard.testing import Script, call, say
from venues.mcp.plain import PlainServer

ALIASES = {"look": "find"}


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/toolyard.db"


def build_servers(folder: Path, *ids: str, **settings: object) -> dict[str, ServerSpec]:
    """Return servers, all of which alias their tool `look` to `find` unless told otherwise."""
    for id in ids:
        (folder / id).mkdir(exist_ok=True)
    return {id: PlainServer(folder / id, **{"names": ALIASES, **settings}).spec for id in ids}


def list_names(yard: Yard, tool: str = "look") -> dict[str, str]:
    """Return the name under which each server's tool is offered, by the server's id."""
    return {offered.server: offered.name for offered in yard.servers.tools() if offered.remote == tool}


async def wait_for_names(yard: Yard, count: int) -> dict[str, str]:
    await wait_until(lambda: len(list_names(yard)) == count)
    return list_names(yard)


async def test_an_alias_of_two_servers_stays_with_the_one_that_had_it_first(tmp_path: Path, store: str) -> None:
    servers = build_servers(tmp_path, "one", "two")
    async with open_yard([], servers={"one": servers["one"]}, store=store) as yard:
        assert await wait_for_names(yard, 1) == {"one": "find"}
    names = {"one": "find", "two": "two__find"}
    for order in (("two", "one"), ("one", "two"), ("two", "one")):
        async with open_yard([], servers={id: servers[id] for id in order}, store=store) as yard:
            assert await wait_for_names(yard, 2) == names, order


async def test_the_configuration_and_not_the_first_connection_decides_who_gets_an_alias(
    tmp_path: Path, store: str
) -> None:
    servers = build_servers(tmp_path, "one", "two")
    absent = {"one": ServerSpec(command=str(tmp_path / "nothing"), names=ALIASES), "two": servers["two"]}
    names = {"one": "find", "two": "two__find"}
    async with open_yard([], servers=absent, store=store) as yard:
        assert await wait_for_names(yard, 1) == {"two": names["two"]}
    for order in (("two", "one"), ("one", "two")):
        async with open_yard([], servers={id: servers[id] for id in order}, store=store) as yard:
            assert await wait_for_names(yard, 2) == names, order


async def test_a_store_of_a_version_without_bindings_keeps_the_names_of_its_pins(tmp_path: Path, store: str) -> None:
    servers = build_servers(tmp_path, "one", "two")
    async with open_yard([], servers=servers, store=store) as yard:
        assert await wait_for_names(yard, 2) == {"one": "find", "two": "two__find"}
    opened = await open_store(store)
    for name, _ in await opened.list_records(TOOL_NAMES):
        await opened.delete_record(TOOL_NAMES, name)
    await opened.close()
    async with open_yard([], servers=dict(reversed(servers.items())), store=store) as yard:
        assert await wait_for_names(yard, 2) == {"one": "find", "two": "two__find"}


async def test_what_was_set_under_an_earlier_name_is_about_the_same_tool(tmp_path: Path, store: str) -> None:
    rules = build_wiring(
        Config(servers=build_servers(tmp_path, "one"), tool={"look": ToolRules(approval="always")}), tmp_path
    )
    async with open_yard([], servers=build_servers(tmp_path, "one", names={}), store=store) as yard:
        assert await wait_for_names(yard, 1) == {"one": "look"}
        await yard.service.conversations.submit("c", Open(by=Caller(), settings=Settings(tools=frozenset({"look"}))))
    servers = build_servers(tmp_path, "one")
    async with build_yard([], servers=servers, store=store, apply_rules=rules.apply_rules) as yard:
        assert await wait_for_names(yard, 1) == {"one": "find"}
        (find,) = [tool for tool in yard.service.tools.list_usable(Caller()) if tool.name == "find"]
        assert find.approval == "always", "[tool.look] of the file"
        assert (await yard.service.conversations.view("c")).settings.allows(find)


class Moved:
    """A yard whose server `one` has the name `find`, until it is given to the server `two`."""

    def __init__(self, yard: Yard, servers: dict[str, ServerSpec]) -> None:
        self.yard = yard
        self._servers = servers

    async def add(self, id: str) -> dict[str, str]:
        await self.yard.servers.add(id, self._servers[id])
        return await wait_for_names(self.yard, 1)

    async def give_name_to_other(self) -> None:
        await self.yard.servers.act("one", "remove")
        await self.yard.servers.free_names("one")
        assert await self.add("two") == {"two": "find"}


@asynccontextmanager
async def open_moved(folder: Path, script: Script = ()) -> AsyncGenerator[Moved]:
    """Open a yard with the server `one`, whose calls ask, as those of `two` will."""

    def ask(tool: Tool) -> Tool:
        return replace(tool, approval="ask")

    async with asyncio.timeout(TEST_TIMEOUT_S), build_yard(script, apply_rules=ask) as yard:
        moved = Moved(yard, build_servers(folder, "one", "two"))
        assert await moved.add("one") == {"one": "find"}
        yield moved


async def run_and_approve(yard: Yard, remember: Remember) -> list[str]:
    """Run a request in the conversation `c`, approve each call, and return the calls that asked."""
    run, asked = yard.run("go", conversation="c"), list[str]()
    async for event in run:
        if isinstance(event, RunSuspended):
            asked += event.waiting_for
            await yard.approve("c", event.waiting_for[0], remember=remember)
    return asked


async def test_a_removed_server_keeps_the_names_of_its_tools_until_a_person_frees_them(tmp_path: Path) -> None:
    async with open_moved(tmp_path) as moved:
        servers = moved.yard.servers
        with pytest.raises(Refused, match="until it is removed"):
            await servers.free_names("one")
        await servers.act("one", "remove")
        assert await moved.add("two") == {"two": "two__find"}
        await servers.act("two", "remove")
        assert await moved.add("one") == {"one": "find"}, "a server of the same id has its names again"
        await servers.act("one", "remove")
        assert "find" in await servers.free_names("one")
        with pytest.raises(NotFound, match="no names"):
            await servers.free_names("one")
        assert await moved.add("two") == {"two": "two__find"}, "a name is bound for good"
        await servers.act("two", "remove")
        await servers.free_names("two")
        assert await moved.add("two") == {"two": "find"}


async def test_a_remembered_approval_is_not_for_another_server_that_gets_the_name(tmp_path: Path) -> None:
    script = [step for _ in range(4) for step in (call("find"), say("ok"))]
    async with open_moved(tmp_path, script) as moved:
        assert len(await run_and_approve(moved.yard, "tool")) == 1
        assert await run_and_approve(moved.yard, "tool") == []
        await moved.give_name_to_other()
        assert len(await run_and_approve(moved.yard, "tool")) == 1
        assert await run_and_approve(moved.yard, "tool") == []


async def test_an_approval_is_asked_for_again_if_the_name_stands_for_another_tool_by_then(tmp_path: Path) -> None:
    async with open_moved(tmp_path, [call("find"), say("ok")]) as moved:
        suspended, run = await wait_for_event(moved.yard.run("go", conversation="c"), RunSuspended)
        await moved.give_name_to_other()
        await moved.yard.approve("c", suspended.waiting_for[0])
        again, run = await wait_for_event(run, RunSuspended)
        assert again.waiting_for == suspended.waiting_for and not (tmp_path / "two" / "notes").read_text().count(
            "ended"
        )
        await moved.yard.approve("c", again.waiting_for[0])
        assert get_result(await collect_events(run)).outcome == "ok"
        assert "ended look" in (tmp_path / "two" / "notes").read_text()


async def test_enabled_tools_stay_with_their_server_when_the_name_moves(tmp_path: Path) -> None:
    async with open_moved(tmp_path) as moved:
        service = moved.yard.service
        await service.conversations.submit("c", Open(by=Caller(), settings=Settings(tools=frozenset({"find"}))))
        await service.conversations.submit("d", Open(by=Caller(), settings=Settings(tools=frozenset())))
        await moved.yard.change("d", SettingsChange(enable_tool="find"))

        async def list_enabled(conversation: str) -> list[str]:
            settings = (await service.conversations.view(conversation)).settings
            return [tool.server for tool in service.tools.list_usable(Caller()) if settings.allows(tool)]

        assert [await list_enabled(conversation) for conversation in "cd"] == [["one"], ["one"]]
        await moved.give_name_to_other()
        assert [await list_enabled(conversation) for conversation in "cd"] == [[], []]
        await moved.yard.change("d", SettingsChange(enable_tool="find"))
        assert await list_enabled("d") == ["two"], "who names it now means the one that has the name now"


async def test_a_key_is_for_the_tool_that_its_name_stood_for(tmp_path: Path) -> None:
    async with open_moved(tmp_path) as moved:
        access = moved.yard.access
        key, _ = await access.add(Key(name="k", hash="", user="u", tools=frozenset({"find"})))
        caller = access.find_caller(key.name)
        assert caller is not None
        (find,) = [tool for tool in moved.yard.servers.tools() if tool.name == "find"]
        assert may_use_with_key(find, caller)
        await moved.give_name_to_other()
        (find,) = [tool for tool in moved.yard.servers.tools() if tool.name == "find"]
        assert find.server == "two" and not may_use_with_key(find, caller)


@pytest.mark.parametrize("place", ["memory", "postgresql"])
async def test_replicas_agree_on_the_names_in_whichever_order_their_servers_connect(place: str, tmp_path: Path) -> None:
    servers = build_servers(tmp_path, "one", "two", replicas="each")
    async with AsyncExitStack() as stack:
        database = MemoryDatabase() if place == "memory" else await stack.enter_async_context(create_database())
        for order in (("one", "two"), ("two", "one")):
            ordered = {id: servers[id] for id in order}
            replicas = await stack.enter_async_context(open_replicas(1, database, servers=ordered))
            names = await wait_for_names(replicas[0].yard, 2)
            assert names == {"one": "find", "two": "two__find"}, order
