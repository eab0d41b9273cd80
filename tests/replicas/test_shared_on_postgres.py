"""What replicas share, on a real PostgreSQL: keys, servers, decisions on tools, sign-ins and sessions."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from postgres import create_database
from replicas.pair import Replica, open_replicas, wait_for_status
from replicas.test_shared_servers import change_definition, has_status, wait_for_state
from replicas.test_shared_sign_ins import SECRET
from support import TEST_TIMEOUT_S, wait_until
from surfaces.api_client import ApiClient, build_key
from surfaces.http_server import serve_yard
from surfaces.mcp_host import LegacyHost, connect_host
from surfaces.stand_in_provider import Visitor, serve_provider
from surfaces.test_provider_sign_in import build_config
from surfaces.unconfigured import MODEL, PROVIDER, WIRING, chat
from toolyard.core.ports import ModelRequest
from toolyard.engine.access.sessions import MAX_FAILED_PER_KEY, MAX_SESSIONS
from toolyard.server.oidc import OidcProvider
from toolyard.testing import Turn, say
from venues.mcp.auth.test_sign_ins import BACK, follow_sign_in, only_card
from venues.mcp.modern import SIGNED, over_http, wait_until_settled
from venues.mcp.plain import PlainServer
from wire.keyed_provider import KeyedProvider

MAX_DELAY_S = 2.0
"""Within which a change counts at every replica."""
HOST, ORIGIN = "tools.example", "https://tools.example"


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


async def test_a_provider_that_one_replica_stores_answers_at_the_other() -> None:
    provider = KeyedProvider("from the shop", "secret-key")
    wiring = {**WIRING, "script": "toolyard:offline", "secret": SECRET}
    async with provider.serving() as url, open_postgres_replicas(**wiring) as (first, second):
        await first.http.put(PROVIDER, {"value": {"base_url": url, "api_key": "secret-key"}})
        await first.http.put(MODEL, {"value": "shop:small"})
        await wait_until(lambda: second.yard.service.models.default == "shop:small")
        assert await chat(second.http) == "from the shop"
        assert (await second.http.get("/audit/verification"))["intact"]
        entries = (await second.http.get("/audit?action=setting.set"))["entries"]
        assert entries[0]["change"] == '{"after":"shop:small","before":null}'
        await second.http.delete(MODEL)
        await wait_until(lambda: first.yard.service.models.default == "toolyard:offline")


async def test_changes_count_at_the_other_replica_within_two_seconds_under_load() -> None:
    keys = [build_key("root", "admin", tenant="")]
    limits = {"requests_per_minute": 10_000, "private_addresses": True}
    wiring = {**WIRING, **limits, "script": "toolyard:offline", "secret": SECRET, "keys": keys}
    async with over_http() as server, open_postgres_replicas(**wiring) as (first, second):
        root, other = first.http.with_key("root"), second.http.with_key("root")
        await root.post("/servers", {"name": "numbers", "config": {"url": server.spec().url}}, expect=201)
        await wait_until(lambda: has_status(second, "numbers", "running"))
        secret = (await root.post("/keys", {"name": "app", "user": "app"}, expect=201))["secret"]
        await wait_for_status(second.http.with_key(secret), "/tools", 200)
        async with asyncio.TaskGroup() as tasks:
            load = [tasks.create_task(chat_on(http)) for http in (root, other) for _ in range(4)]
            async with asyncio.timeout(MAX_DELAY_S):
                await root.delete("/keys/app")
                await wait_for_status(second.http.with_key(secret), "/tools", 401)
            async with asyncio.timeout(MAX_DELAY_S):
                await root.put("/settings/general/models", {"value": ["openai:gpt-5"]})
                await wait_for_status(other, "/settings/general/models", 200)
                assert "openai:gpt-5" in str(await other.get("/models"))
            async with asyncio.timeout(MAX_DELAY_S):
                await root.delete("/servers/numbers")
                await wait_until(lambda: not second.yard.servers.cards())
            assert all([not task.done() for task in load])
            for task in load:
                task.cancel()


async def chat_on(http: ApiClient) -> None:
    while True:
        await chat(http)


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
                tools = (await moved.ask("tools/list")).result["tools"]
                assert [listed["name"] for listed in tools] == ["mailbox", "meet"]


async def test_a_session_of_the_page_counts_at_both_replicas_until_either_ends_it() -> None:
    keys = [build_key("root", "admin", tenant=""), build_key("ann")]
    async with open_postgres_replicas(script=answer_ok, keys=keys) as (first, second):
        root, ann = first.http.with_key("root"), first.http.with_key("ann")
        secret = (await root.post("/keys", {"name": "app", "user": "ann", "tenant": "t"}, expect=201))["secret"]
        path = await ann.create_conversation()
        await ann.post(f"{path}/chat", {"content": "Hello"})
        await wait_for_status(second.http.with_key(secret), "/me", 200)
        by_key, by_app, lasting = [await sign_in(first, key) for key in ("ann", secret, "ann")]
        for cookie in (by_key, by_app, lasting):
            assert (await second.http.send_request("GET", "/me", **cookie))[1]["user"] == "ann"
        async with asyncio.TaskGroup() as tasks:
            streams = [
                await open_stream(tasks, second, f"{path}/events", headers)
                for headers in (by_key, by_app, {"x_api_key": secret}, lasting)
            ]
            await first.http.send_request("DELETE", "/session", **by_key, origin=ORIGIN)
            assert (await second.http.send_request("GET", "/me", **by_key))[0] == 401
            await streams[0]
            await root.delete("/keys/app")
            await asyncio.gather(*streams[1:3])
            assert (await second.http.send_request("GET", "/me", **by_app))[0] == 401
            assert (await second.http.send_request("GET", "/me", **lasting))[0] == 200 and not streams[3].done()
            streams[3].cancel()


async def test_failed_sign_ins_count_at_both_replicas_and_successful_ones_at_none() -> None:
    async with open_postgres_replicas(keys=[build_key("ann")]) as replicas:
        first, second = replicas

        async def guess(replica: Replica, key: str) -> int:
            return (await replica.http.send_request("POST", "/session", {"key": key}, host=HOST, origin=ORIGIN))[0]

        for _ in range(MAX_SESSIONS // 2 + 1):
            assert await guess(first, "ann") == await guess(second, "ann") == 200
        for number in range(MAX_FAILED_PER_KEY):
            assert await guess(replicas[number % 2], f"anything {number}") == 401
        assert await guess(first, "anything x") == await guess(second, "anything x") == 429
        assert await guess(second, "ann") == 200


async def test_any_replica_can_finish_a_sign_in_at_a_provider_and_only_one_does() -> None:
    async with serve_provider() as provider, create_database() as url, aiohttp.ClientSession() as http:
        # Each replica has discovered the provider for itself.
        identity_providers = [OidcProvider(build_config(provider), request_s=TEST_TIMEOUT_S) for _ in range(2)]
        async with (
            open_replicas(1, url, identity_provider=identity_providers[0]) as (first,),
            open_replicas(1, url, identity_provider=identity_providers[1]) as (second,),
            serve_yard(first.yard) as first_url,
            serve_yard(second.yard) as second_url,
        ):
            beginner, finisher = Visitor(http, first_url, HOST), Visitor(http, second_url, HOST)
            answer = provider.grant(await beginner.begin(), groups=["ops"])
            finisher.cookies = dict(beginner.cookies)
            locations = await asyncio.gather(*(visitor.come_back(answer) for visitor in (beginner, finisher) * 3))
            assert sorted(locations) == ["/", *["/?sign_in_error=expired"] * 5]
            cookies = beginner.cookies | finisher.cookies
            for visitor in (beginner, finisher):
                visitor.cookies = dict(cookies)
                me = await visitor.get_me()
                assert me is not None and me["user"] == "ann"


def answer_ok(request: ModelRequest) -> Turn:
    return say("ok")


async def sign_in(replica: Replica, key: str) -> dict[str, str]:
    """Sign in to the page, and return the headers that a browser sends from then on."""
    _, _, headers = await replica.http.send_request("POST", "/session", {"key": key}, host=HOST, origin=ORIGIN)
    return {"host": HOST, "cookie": headers["set-cookie"].partition(";")[0]}


async def open_stream(
    tasks: asyncio.TaskGroup, replica: Replica, path: str, headers: dict[str, str]
) -> asyncio.Task[None]:
    """Open a stream that has events, and return the task that reads it until the server ends it."""
    opened = asyncio.Event()

    async def read() -> None:
        async for _ in replica.http.stream_get(path, **headers):
            opened.set()

    task = tasks.create_task(read())
    await opened.wait()
    return task
