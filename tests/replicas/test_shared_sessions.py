"""A session of a client of the earlier MCP revisions is known at all replicas, until it is ended or too old."""

import msgspec
import pytest

from replicas.pair import open_replicas
from stores.memory_replicas import MemoryDatabase
from surfaces.api_client import build_key
from surfaces.mcp_host import LegacyHost, connect_host
from toolyard import tool
from toolyard.core.store import Key
from toolyard.surfaces.mcp import sessions

KEYS: list[Key] = [build_key("ann"), build_key("bob")]


@tool
def greet() -> str:
    """Greet."""
    return "hello"


async def test_a_session_that_one_replica_opens_serves_its_caller_at_the_other_until_it_is_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sessions, "CHECK_S", -1.0)  # so that time need not pass
    async with (
        open_replicas(tools=(greet,), keys=KEYS) as (first, second),
        connect_host(first.yard, x_api_key="ann") as host,
        connect_host(second.yard, x_api_key="ann") as other,
        host.open_session("2025-06-18", elicitation={}) as legacy,
    ):
        moved = LegacyHost(other._session, other._url, **legacy.headers)  # pyright: ignore[reportPrivateUsage]
        assert [listed["name"] for listed in (await moved.ask("tools/list")).result["tools"]] == ["greet"]
        called = await moved.ask("tools/call", {"name": "greet", "arguments": {}})
        assert called.text == "hello"
        stranger = await moved.send("POST", moved.build_request("tools/list"), x_api_key="bob")
        assert stranger.status == 404
        assert (await moved.send("DELETE")).status == 200
        assert (await legacy.ask("tools/list")).status == 404


async def test_stored_sessions_are_bounded_in_number_and_age() -> None:
    database = MemoryDatabase()

    def store_session(id: str, used_at: float, user: str = "ann") -> None:
        record = sessions.SessionRecord(user=user, tenant="t", version="2025-06-18", capabilities={}, used_at=used_at)
        database.records[sessions.SESSIONS, id] = msgspec.json.encode(record)

    async with open_replicas(1, database, keys=KEYS) as (only,), connect_host(only.yard, x_api_key="ann") as host:
        now = only.yard.service.clock.now()
        store_session("old", now - 2 * sessions.MAX_IDLE_S)
        store_session("of bob", now - 100, user="bob")
        for number in range(sessions.MAX_SESSIONS_PER_CALLER + 10):
            store_session(f"ann {number:03}", now - number)
        async with host.open_session("2025-06-18") as legacy:
            stored = {name for kind, name in database.records if kind == sessions.SESSIONS}
            assert legacy.headers["mcp-session-id"] in stored and "of bob" in stored and "old" not in stored
            assert len([name for name in stored if name != "of bob"]) == sessions.MAX_SESSIONS_PER_CALLER
            assert "ann 000" in stored and f"ann {sessions.MAX_SESSIONS_PER_CALLER + 9:03}" not in stored
        expired = await host.send("POST", legacy.build_request("tools/list"), mcp_session_id="old")
        assert expired.status == 404
