"""Whether the server can do its work, and whether each tool that a caller is offered can be run."""

import asyncio
import resource
import shutil
import sqlite3
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from surfaces.api_client import ApiClient, Json, build_key, build_yard, connect_api_client, open_api_client
from toolyard import tool
from toolyard.core.tools.mcp_servers import ServerSpec
from venues.mcp.plain import SCRIPT, PlainServer

STUCK = "import sys\nsys.stdin.read()\n"
"""A program that never answers, and ends with its input."""


def make_tool(name: str, **rules: object) -> object:
    def function(item: str) -> str:
        """Do something with an item."""
        return item

    return tool(name=name, **rules)(function)  # pyright: ignore[reportCallIssue, reportArgumentType, reportUnknownVariableType]


async def wait_for_health(http: ApiClient, holds: Callable[[Json], bool]) -> Json:
    """Ask for the health until it is so; the test's own deadline ends this."""
    while True:
        _, health, _ = await http.send_request("GET", "/ai/tools/health")
        if holds(health):
            return health


async def test_a_yard_of_seven_tools_counts_seven_and_each_caller_sees_their_own() -> None:
    seven = [make_tool(f"tool_{number}") for number in range(6)]

    keys = [build_key("ann"), build_key("chef", "chef")]
    async with open_api_client(tools=[*seven, make_tool("cook", roles=["chef"])], keys=keys) as http:
        for user, count in (("ann", 6), ("chef", 7)):
            _, health, _ = await http.with_key(user).send_request("GET", "/ai/tools/health")
            tools = health["tools"]
            assert health["status"] == "healthy" and tools["total_schemas"] == tools["total_dispatchers"] == count
            assert ("cook" in str(health)) == (user == "chef")
            assert tools["built_in_names"] == ["read_result", "find_tools"]


@pytest.mark.proves("003.health-mismatch")
async def test_a_tool_that_is_offered_while_its_server_is_gone_is_told_and_unhealthy(tmp_path: Path) -> None:
    plain, program = PlainServer(tmp_path), tmp_path / "server.py"
    shutil.copy(SCRIPT, program)
    spec = ServerSpec(command=sys.executable, args=("-S", "-E", str(program), str(plain.notes)), trust=True)
    async with open_api_client(servers={"plain": spec}, tools=[make_tool("here")]) as http:
        full_health = await wait_for_health(http, lambda health: health["tools"]["total_schemas"] == 10)
        assert full_health["status"] == "healthy"
        program.write_text(STUCK)
        plain.kill()
        health = await wait_for_health(http, lambda health: health["status"] == "unhealthy")
        assert "add" in health["tools"]["schema_only"] and "here" not in health["tools"]["schema_only"]
        assert len(health["tools"]["schema_only"]) == 9 and health["tools"]["dispatcher_only"] == []


@pytest.mark.proves("003.health-mismatch")
async def test_a_tool_that_a_server_would_run_but_nobody_can_be_offered_is_told_and_unhealthy(tmp_path: Path) -> None:
    async with open_api_client(servers={"plain": PlainServer(tmp_path, "misshapen", trust=True).spec}) as http:
        health = await wait_for_health(http, lambda health: health["tools"]["total_schemas"] == 9)
        assert health["status"] == "unhealthy"
        assert health["tools"]["dispatcher_only"] == ["misshapen"] and health["tools"]["schema_only"] == []


def lock_store(path: Path) -> sqlite3.Connection:
    """Another program that holds the store's file, so that no write comes through until it lets go."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    return connection


async def test_a_server_whose_store_takes_no_write_is_not_ready_and_says_so_without_paths(tmp_path: Path) -> None:
    path = tmp_path / "yard.db"

    keys = [build_key("ann"), build_key("boss", "admin", tenant="")]
    async with open_api_client(store=f"sqlite:///{path}", keys=keys) as http:
        assert (await http.send_request("GET", "/readyz"))[:2] == (200, {"status": "ready", "ok": True})
        assert (await http.send_request("GET", "/ai/tools/health", x_api_key="ann"))[1]["store"] == "ok"
        other = lock_store(path)
        answers = await asyncio.gather(*(http.send_request("GET", "/readyz") for _ in range(50)))
        assert {status for status, _, _ in answers} == {503}
        error = answers[0][1]
        assert "the store took no write within 1 s" in error["error"] and error["error_type"] == "unavailable"
        _, health, _ = await http.send_request("GET", "/ai/tools/health", x_api_key="ann")
        assert health["status"] == "unhealthy" and "took no write" in health["store"]
        other.close()
        while (await http.send_request("GET", "/readyz"))[0] != 200:
            pass
        with sqlite3.connect(path) as connection:
            connection.execute("DROP TABLE shelf")
            connection.execute("DROP TABLE keys")
        for method, url, body in (
            ("GET", "/readyz", None),
            ("POST", "/keys", {"name": "new", "user": "new"}),
        ):
            status, error, _ = await http.send_request(method, url, body, x_api_key="boss")
            assert status == 503 and "no such table" in error["error"] and str(tmp_path) not in str(error)
        connection.close()


@contextmanager
def full_disk() -> Generator[None]:
    """Let no file of this process grow or be written beyond its first bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


async def test_a_server_whose_disk_is_full_is_not_ready_until_there_is_space_again(tmp_path: Path) -> None:
    async with open_api_client(store=f"sqlite:///{tmp_path}/yard.db") as http:
        assert (await http.send_request("GET", "/readyz"))[0] == 200
        with full_disk():
            assert (await http.send_request("POST", "/conversations", {"title": "groceries"}))[0] == 503
            health = await wait_for_health(http, lambda health: health["status"] == "unhealthy")
            assert health["store"].startswith("the store takes no write: ")
            for _ in range(2):
                status, error, _ = await http.send_request("GET", "/readyz")
                assert (status, error["error"]) == (503, health["store"])
        assert (await http.send_request("GET", "/readyz"))[0] == 200
        assert (await http.send_request("POST", "/conversations", {"title": "groceries"}))[0] == 201


async def test_a_probe_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "yard.db"
    async with open_api_client(store=f"sqlite:///{path}") as http:
        assert (await http.send_request("GET", "/readyz"))[0] == 200
        with sqlite3.connect(path) as connection:
            assert connection.execute("SELECT count(*) FROM shelf WHERE length(body) > 1000").fetchone() == (0,)
        connection.close()


async def test_many_probes_at_once_cost_one_write(tmp_path: Path) -> None:
    path = tmp_path / "yard.db"

    def count_probes(connection: sqlite3.Connection) -> int:
        return connection.execute("SELECT total FROM probes").fetchone()[0]

    async with open_api_client(store=f"sqlite:///{path}") as http:
        with sqlite3.connect(path) as connection:
            connection.execute("CREATE TABLE probes (total INTEGER)")
            connection.execute("INSERT INTO probes VALUES (0)")
            for change in ("INSERT", "UPDATE"):
                connection.execute(
                    f"CREATE TRIGGER count_{change} AFTER {change} ON shelf WHEN new.kind = 'readiness' "
                    "BEGIN UPDATE probes SET total = total + 1; END"
                )
        answers = await asyncio.gather(*(http.send_request("GET", "/readyz") for _ in range(100)))
        assert {status for status, _, _ in answers} == {200}
        assert 1 <= count_probes(connection) < 50
        connection.close()


async def test_a_server_that_is_about_to_stop_is_not_ready() -> None:
    async with asyncio.timeout(30), build_yard(()) as yard, connect_api_client(yard) as http:
        assert (await http.send_request("GET", "/readyz"))[0] == 200
        await yard.service.close(0)
        status, error, _ = await http.send_request("GET", "/readyz")
        assert status == 503 and "about to stop" in error["error"]
        assert (await http.send_request("GET", "/healthz"))[0] == 200


async def test_a_server_that_drains_is_not_ready_and_still_takes_requests() -> None:
    async with asyncio.timeout(30), build_yard(()) as yard, connect_api_client(yard) as http:
        yard.service.stop_claiming()
        status, error, headers = await http.send_request("GET", "/readyz")
        assert status == 503 and "about to stop" in error["error"]
        assert headers["retry-after"] == "2"
        assert (await http.send_request("POST", "/conversations", {"title": "late"}))[0] == 201
