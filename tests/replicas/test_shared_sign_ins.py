"""People sign in to MCP servers at any replica, and their tokens are encrypted in a store that replicas share."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest

from replicas.pair import Replica, open_replicas
from stores.memory_replicas import MemoryDatabase, SharedMemoryStore
from support import TEST_TIMEOUT_S, wait_until
from toolyard import Yard
from toolyard.app import Wiring
from toolyard.core.errors import Misconfigured, Refused
from toolyard.stores.memory import MemoryStore
from toolyard.stores.sqlite import SqliteStore
from toolyard.testing import Scripted
from toolyard.venues.mcp.auth.grants import Grant, GrantStore
from toolyard.venues.mcp.auth.oauth import RequestAuth, build_auth
from toolyard.venues.mcp.auth.sealed_records import SealedRecords
from venues.mcp.auth.test_sign_ins import ANN, BACK, configure_server, follow_sign_in, only_card, sign_in
from venues.mcp.modern import SIGNED, HttpServerProcess, over_http, wait_until_settled

SECRET = "the first secret of this server; long enough"
LATER_SECRET = "the second secret of this server; as long"


@asynccontextmanager
async def open_signed_replicas(
    database: MemoryDatabase | None = None, secret: str = SECRET, count: int = 2
) -> AsyncGenerator[tuple[list[Replica], HttpServerProcess]]:
    async with over_http(SIGNED) as server:
        servers = {"mail": server.spec(trust=True)}
        async with open_replicas(count, database, servers=servers, secret=secret) as replicas:
            for replica in replicas:
                await wait_until_settled(replica.yard)
            yield replicas, server


async def test_a_sign_in_that_begins_at_one_replica_ends_at_another_and_counts_at_all() -> None:
    database = MemoryDatabase()
    async with open_signed_replicas(database) as ((first, second), _):
        page = await first.http.post("/servers/mail/login", {"redirect_uri": BACK})
        answer = await follow_sign_in(page["authorization_url"])
        body = {"state": answer.state, "code": answer.code}
        done = await second.http.post("/servers/mail/login/answer", body)
        assert done["server"]["status"] == "running", done
        await wait_until(lambda: only_card(first.yard).status == "running")
        await first.http.post("/servers/mail/login/answer", body, expect=409)  # an answer counts once
        stored = b"".join(body for _, body in database.records.items())
        assert b"access-" not in stored and b"refresh-" not in stored
        await first.http.delete("/servers/mail/login")
        await wait_until(lambda: only_card(second.yard).status == "failed")
        assert "toolyard servers login mail" in only_card(second.yard).error


async def test_two_replicas_that_renew_at_once_spend_one_refresh_token() -> None:
    async with open_signed_replicas() as ((first, second), server):
        await sign_in(first.yard)
        await wait_until(lambda: only_card(second.yard).status == "running")
        managed = [replica.yard.servers.get_server("mail") for replica in (first, second)]
        url = managed[0].spec.url
        auths = [await build_auth("mail", each.spec, each.get_grant_store(())) for each in managed]

        async def post(auth: RequestAuth) -> int:
            async with httpx2.AsyncClient(auth=auth) as client:
                return (await client.post(url, json={}, headers={"accept": "application/json"})).status_code

        before = (await configure_server(server, revoke="yes"))["renewed"]
        assert 401 not in await asyncio.gather(*(post(auth) for auth in auths))
        assert (await configure_server(server))["renewed"] == before + 1


async def test_without_a_secret_nobody_signs_in_where_replicas_share_the_store() -> None:
    async with open_signed_replicas(secret="", count=1) as ((only,), server):
        refused = await only.http.post("/servers/mail/login", {"redirect_uri": BACK}, expect=409)
        assert "TOOLYARD_SECRET" in refused["error"]
        assert (await configure_server(server))["clients"] == 0


@asynccontextmanager
async def open_yard_on_file(server: HttpServerProcess, file: Path, secret: str) -> AsyncGenerator[Yard]:
    wiring = Wiring(
        model=Scripted([]), store=f"sqlite:///{file}", servers={"mail": server.spec(trust=True)}, secret=secret
    )
    async with asyncio.timeout(TEST_TIMEOUT_S), Yard.from_wiring(wiring) as yard:
        await wait_until_settled(yard)
        yield yard


async def read_token_record(file: Path) -> bytes:
    store = await SqliteStore.open(file)
    try:
        ((_, body),) = await store.list_records("mcp.tokens")
        return body
    finally:
        await store.close()


async def test_a_secret_may_come_later_and_change_and_a_wrong_one_is_said_in_one_sentence(tmp_path: Path) -> None:
    file = tmp_path / "yard.db"
    async with over_http(SIGNED) as server:
        async with open_yard_on_file(server, file, "") as yard:
            await sign_in(yard)
        assert b"access-" in await read_token_record(file)
        for secret in (SECRET, f"{LATER_SECRET},{SECRET}", LATER_SECRET):
            await configure_server(server, revoke="yes")  # so that the token is renewed, and stored anew
            async with open_yard_on_file(server, file, secret) as yard:
                assert only_card(yard).status == "running", only_card(yard)
            assert b"access-" not in await read_token_record(file)
        for secret, reason in ((SECRET, "is not the one"), ("", "is not set")):
            async with open_yard_on_file(server, file, secret) as yard:
                assert only_card(yard).status == "failed"
                assert f"TOOLYARD_SECRET {reason}" in only_card(yard).error
        async with open_yard_on_file(server, file, SECRET) as yard:
            assert (await sign_in(yard)).status == "running"


async def test_a_token_that_is_moved_to_another_callers_place_is_not_read() -> None:
    database = MemoryDatabase()
    async with open_signed_replicas(database, count=1) as ((only,), _):
        await sign_in(only.yard)
        store = SharedMemoryStore(database)
        ((_, body),) = await store.list_records("mcp.tokens")
        await store.set_record("mcp.tokens", '["mail","acme","bob"]', body)
        grants = only.yard.servers.get_server("mail").get_grant_store(("acme", "bob"))
        with pytest.raises(Refused, match="cannot be decrypted"):
            await grants.load()


def test_a_short_secret_is_refused_with_how_to_make_one() -> None:
    with pytest.raises(Misconfigured, match=r"at least 32 characters.*openssl rand"):
        asyncio.run(open_briefly("short"))


async def open_briefly(secret: str) -> None:
    async with Yard.from_wiring(Wiring(model=Scripted([]), secret=secret)):
        pass


async def test_a_sign_in_is_void_once_its_caller_has_begun_another_one() -> None:
    async with open_signed_replicas() as ((first, second), _):
        started = await first.yard.servers.sign_ins.begin("mail", ANN, BACK)
        answer = await follow_sign_in(started.url)
        await first.yard.servers.sign_ins.begin("mail", ANN, BACK)
        with pytest.raises(Refused, match="no sign-in that is open"):
            await second.yard.servers.sign_ins.finish("mail", ANN, answer)


@pytest.mark.parametrize("is_own", [True, False])
async def test_a_grant_that_comes_and_goes_between_two_looks_at_the_records_is_noticed(is_own: bool) -> None:
    records = SealedRecords(MemoryStore())
    watching, other = (GrantStore(records, "mail", (), "https://mail.example/mcp") for _ in range(2))
    grant = Grant(url="https://mail.example/mcp", issuer="https://id.example", token={}, client={}, sign_in_id="1")
    await watching.load_for_session()
    assert not watching.is_replaced({})
    await (watching if is_own else other).save(grant)
    await watching.load_for_session()
    assert watching.is_replaced({}), "another replica has signed out since"
    assert not watching.is_replaced({})
