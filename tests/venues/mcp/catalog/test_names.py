"""A name that models see is bound to one tool of one server for good, whichever server connects first."""

from pathlib import Path

import pytest

from support import open_yard, wait_until
from toolyard import Yard
from toolyard.core.mcp_servers import ServerSpec
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
