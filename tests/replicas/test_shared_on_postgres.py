"""What replicas share, on a real PostgreSQL: keys, servers, decisions on tools, sign-ins and sessions."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from postgres import create_database
from replicas.pair import Replica, open_replicas, wait_for_status
from replicas.test_shared_servers import change_definition, has_status, wait_for_state
from replicas.test_shared_sign_ins import SECRET
from support import wait_until
from surfaces.mcp_host import LegacyHost, connect_host
from venues.mcp.auth.test_sign_ins import BACK, follow_sign_in, only_card
from venues.mcp.modern import SIGNED, over_http, wait_until_settled
from venues.mcp.plain import PlainServer


@asynccontextmanager
async def open_postgres_replicas(**wiring: Any) -> AsyncGenerator[list[Replica]]:
    async with create_database() as url, open_replicas(2, url, **wiring) as replicas:
        yield replicas


async def test_keys_and_servers_of_one_replica_count_at_the_other() -> None:
    async with over_http() as server, open_postgres_replicas() as (first, second):
        body = {"name": "numbers", "config": {"url": server.spec().url}}
        await first.http.post("/servers", body, expect=201)
        await wait_until(lambda: has_status(second, "numbers", "running"))
        added = await second.http.post("/keys", {"name": "root", "user": "root", "roles": ["admin"]}, expect=201)
        await wait_for_status(first.http, "/tools", 401)
        root = first.http.with_key(added["secret"])
        await wait_for_status(root, "/tools", 200)
        more = await root.post("/keys", {"name": "app", "user": "app"}, expect=201)
        await wait_for_status(second.http.with_key(more["secret"]), "/tools", 200)
        await root.delete("/keys/app")
        await wait_for_status(second.http.with_key(more["secret"]), "/tools", 401)
        await root.delete("/servers/numbers")
        await wait_until(lambda: not second.yard.servers.cards())


async def test_a_decision_on_a_tool_binds_all_replicas(tmp_path: Path) -> None:
    plain = PlainServer(tmp_path, trust=True, replicas="each")
    async with open_postgres_replicas(servers={"plain": plain.spec}) as (first, second):
        for replica in (first, second):
            await wait_for_state(replica, "accepted")
        change_definition(plain)
        for replica in (first, second):
            await wait_for_state(replica, "changed")
        await second.http.post("/servers/plain/accept", {"tools": ["look"]})
        await wait_for_state(first, "accepted")


async def test_a_sign_in_and_a_session_go_on_at_the_other_replica() -> None:
    async with over_http(SIGNED) as server:
        servers = {"mail": server.spec(trust=True)}
        async with open_postgres_replicas(servers=servers, secret=SECRET) as (first, second):
            for replica in (first, second):
                await wait_until_settled(replica.yard)
            page = await first.http.post("/servers/mail/login", {"redirect_uri": BACK})
            answer = await follow_sign_in(page["authorization_url"])
            await second.http.post("/servers/mail/login/answer", {"state": answer.state, "code": answer.code})
            await wait_until(lambda: only_card(first.yard).status == "running")
            async with (
                connect_host(first.yard) as host,
                connect_host(second.yard) as other,
                host.open_session("2025-06-18") as legacy,
            ):
                moved = LegacyHost(other._session, other._url, **legacy.headers)  # pyright: ignore[reportPrivateUsage]
                assert [listed["name"] for listed in (await moved.ask("tools/list")).result["tools"]] == ["mailbox"]
