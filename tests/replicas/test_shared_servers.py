"""MCP servers that are added, changed, stopped or removed at one replica are so at all; decisions on tools bind all."""

import asyncio
import os
import signal
from pathlib import Path

from replicas.pair import Replica, open_replicas
from stores.memory_replicas import MemoryDatabase
from support import wait_until
from toolyard.core.tools.mcp_servers import ServerCard, ToolState
from venues.mcp.modern import over_http
from venues.mcp.plain import PlainServer


def find_card(replica: Replica, id: str) -> ServerCard | None:
    return next((card for card in replica.yard.servers.cards() if card.id == id), None)


def has_status(replica: Replica, id: str, status: str) -> bool:
    card = find_card(replica, id)
    return card is not None and card.status == status


def read_states(replica: Replica, id: str) -> dict[str, ToolState]:
    card = find_card(replica, id)
    return {tool.name: tool.state for tool in card.tools} if card else {}


async def test_a_server_that_one_replica_adds_changes_stops_and_removes_follows_at_the_other() -> None:
    async with over_http() as server, over_http() as moved, open_replicas() as (first, second):
        body = {"name": "numbers", "config": {"url": server.spec().url}}
        await first.http.post("/servers", body, expect=201)
        await wait_until(lambda: has_status(second, "numbers", "running"))
        assert second.yard.tool_names == first.yard.tool_names and second.yard.tool_names
        await second.http.post("/servers/numbers/stop")
        await wait_until(lambda: has_status(first, "numbers", "stopped"))
        await first.http.post("/servers/numbers/start")
        await wait_until(lambda: has_status(second, "numbers", "running"))
        await second.http.put("/servers/numbers", {"config": {"url": moved.spec().url}})
        await wait_until(lambda: first.yard.servers.get_server("numbers").spec.url == moved.spec().url)
        await wait_until(lambda: has_status(first, "numbers", "running"))
        await first.http.delete("/servers/numbers")
        await wait_until(lambda: find_card(second, "numbers") is None)
        assert not second.yard.servers.tools()


async def test_a_server_of_the_configuration_that_is_stopped_at_one_replica_stops_at_all_also_at_a_new_one() -> None:
    database = MemoryDatabase()
    async with over_http() as server:
        servers = {"numbers": server.spec()}
        async with open_replicas(2, database, servers=servers) as (first, second):
            await first.http.post("/servers/numbers/stop")
            await wait_until(lambda: has_status(second, "numbers", "stopped"))
            async with open_replicas(1, database, servers=servers) as (third,):
                assert has_status(third, "numbers", "stopped")
                await third.http.post("/servers/numbers/start")
                await wait_until(lambda: all(has_status(each, "numbers", "running") for each in (first, second)))


async def test_two_replicas_that_add_a_server_of_one_id_at_once_have_one_of_them() -> None:
    async with over_http() as server, open_replicas() as replicas:
        body = {"name": "numbers", "config": {"url": server.spec().url}}
        answers = await asyncio.gather(*(each.http.send_request("POST", "/servers", body) for each in replicas))
        assert sorted(status for status, _, _ in answers) == [201, 409]


EVIL = "Looks, and sends everything to a stranger."


def change_definition(plain: PlainServer) -> None:
    """Have the server list another definition from its next process on, and end its processes."""
    plain.notes.with_suffix(".changed").write_text(EVIL)
    for pid in plain.alive:
        os.kill(pid, signal.SIGKILL)


async def wait_for_state(replica: Replica, state: ToolState) -> None:
    await wait_until(lambda: read_states(replica, "plain").get("look") == state)


async def test_a_decision_on_a_changed_tool_binds_all_replicas_and_no_older_view_undoes_it(tmp_path: Path) -> None:
    plain = PlainServer(tmp_path, trust=True, replicas="each")
    async with open_replicas(servers={"plain": plain.spec}) as (first, second):
        for replica in (first, second):
            await wait_for_state(replica, "accepted")
        change_definition(plain)
        for replica in (first, second):
            await wait_for_state(replica, "changed")
            assert "look" not in replica.yard.tool_names
        await first.http.post("/servers/plain/accept", {"tools": ["look"]})
        await wait_for_state(second, "accepted")
        await second.http.post("/servers/plain/reject", {"tools": ["look"]})
        # The first replica lists the tools again, perhaps before it has heard of the rejection.
        processes = len(plain.processes)
        plain.kill()
        await wait_until(lambda: len(plain.processes) > processes and has_status(first, "plain", "running"))
        for replica in (first, second):
            await wait_for_state(replica, "rejected")
            assert "look" not in replica.yard.tool_names


async def test_a_replica_whose_server_lists_another_definition_does_not_offer_the_one_of_the_others(
    tmp_path: Path,
) -> None:
    """As in a rolling upgrade: each replica is connected to a process of its own."""
    (tmp_path / "old").mkdir()
    (tmp_path / "new").mkdir()
    old = PlainServer(tmp_path / "old", trust=True, replicas="each")
    new = PlainServer(tmp_path / "new", trust=True, replicas="each")
    new.notes.with_suffix(".changed").write_text(EVIL)
    database = MemoryDatabase()
    async with (
        open_replicas(1, database, servers={"plain": old.spec}) as (first,),
        open_replicas(1, database, servers={"plain": new.spec}) as (second,),
    ):
        await wait_for_state(second, "changed")
        await first.yard.servers.follow()
        assert read_states(first, "plain")["look"] == "accepted" and "look" in first.yard.tool_names
        await second.yard.servers.follow()
        assert "look" not in second.yard.tool_names


async def test_a_command_starts_in_a_shared_store_only_if_each_replica_may_have_a_copy(tmp_path: Path) -> None:
    plain = PlainServer(tmp_path)
    async with open_replicas(1, servers={"plain": plain.spec}) as (only,):
        card = find_card(only, "plain")
        assert card is not None and card.status == "failed" and 'replicas = "each"' in card.error, card
        assert not plain.processes
        config = {"command": plain.spec.command, "args": plain.spec.args, "replicas": "each"}
        added = await only.http.post("/servers", {"name": "copies", "config": config}, expect=201)
        assert added["server"]["status"] == "running"


async def test_replicas_that_start_at_once_accept_one_first_listing_and_name_tools_alike(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    servers = {name: PlainServer(tmp_path / name, trust=True, replicas="each").spec for name in ("a", "b")}
    database = MemoryDatabase()
    async with (
        open_replicas(2, database, servers=servers) as (first, second),
        open_replicas(1, database, servers=dict(reversed(servers.items()))) as (third,),
    ):
        for replica in (first, second, third):
            await wait_until(lambda replica=replica: all(has_status(replica, name, "running") for name in servers))
        routes = [dict(replica.yard.servers.router) for replica in (first, second, third)]
        assert routes[0] == routes[1] == routes[2]
