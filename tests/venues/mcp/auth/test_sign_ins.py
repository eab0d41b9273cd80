"""A server that wants a person: nothing waits for one; whoever signs in gets a token of their own, kept and renewed."""

import asyncio
import json
import logging
import re
import sqlite3
import time
import urllib.parse
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest
from msgspec.structs import replace

from support import TEST_TIMEOUT_S, collect_events, get_problem, get_result, wait_until
from tcp_servers import serve_connections
from toolyard import Caller, Yard
from toolyard.core.errors import Invalid, Refused, ToolyardError
from toolyard.core.tools.mcp_servers import OAuth, ServerCard, SignInAnswer
from toolyard.testing import Scripted
from toolyard.venues.mcp.auth.grants import Grant
from toolyard.venues.mcp.auth.oauth import RequestAuth, build_auth
from venues.mcp.modern import GUARDED, SIGNED, HttpServerProcess, over_http, wait_until_settled

ANN, BOB = Caller(user="ann", tenant="acme"), Caller(user="bob", tenant="acme")
BACK = "http://127.0.0.1:8765/callback"


@asynccontextmanager
async def open_signed_yard(
    store: str = "memory:", **more: object
) -> AsyncGenerator[tuple[Yard, HttpServerProcess], None]:
    """Open a yard with a server at which each person signs in."""
    async with (
        asyncio.timeout(TEST_TIMEOUT_S * 2),
        over_http(SIGNED) as server,
        Yard(model=Scripted([]), store=store, servers={"mail": server.spec(trust=True, **more)}) as yard,
    ):
        await wait_until_settled(yard)
        yield yard, server


def only_card(yard: Yard) -> ServerCard:
    (only,) = yard.servers.cards()
    return only


async def configure_server(server: HttpServerProcess, **words: str) -> dict[str, int]:
    async with httpx2.AsyncClient() as client:
        return (await client.get(f"http://127.0.0.1:{server.port}/control", params=words)).json()


async def follow_sign_in(url: str) -> SignInAnswer:
    """What a person's browser is sent back with, after the page."""
    async with httpx2.AsyncClient() as client:
        answer = await client.get(url)
    assert answer.status_code == 302, answer.text
    words = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(answer.headers["location"]).query))
    return SignInAnswer(**{name: words[name] for name in words if name in SignInAnswer.__struct_fields__})


async def sign_in(yard: Yard, caller: Caller = ANN) -> ServerCard:
    started = await yard.servers.sign_ins.begin("mail", caller, BACK)
    return await yard.servers.sign_ins.finish("mail", caller, await follow_sign_in(started.url))


async def call_mailbox(yard: Yard, caller: Caller = ANN) -> str:
    return get_result(await collect_events(yard.call("mailbox", {}, caller=caller))).content


async def test_a_server_that_wants_a_person_says_so_and_runs_once_somebody_signed_in() -> None:
    async with open_signed_yard() as (yard, server):
        assert (only_card(yard).status, only_card(yard).tools) == ("failed", ())
        assert "sign in: `toolyard servers login mail`" in only_card(yard).error
        assert (await configure_server(server))["clients"] == 0, "nobody is registered who has not asked to sign in"
        assert (await sign_in(yard)).status == "running"
        assert await call_mailbox(yard) == "the mailbox of ann"
        assert only_card(yard).error == ""


async def test_a_sign_in_that_is_denied_leaves_nothing_behind() -> None:
    async with open_signed_yard() as (yard, server):
        await configure_server(server, deny="yes")
        with pytest.raises(Refused, match="not granted: ann would rather not"):
            await sign_in(yard)
        assert only_card(yard).status == "failed"
        await configure_server(server)
        assert (await sign_in(yard)).status == "running"


async def test_an_answer_with_another_word_or_from_another_caller_is_not_taken() -> None:
    async with open_signed_yard(auth="caller") as (yard, _):
        sign_ins = yard.servers.sign_ins
        started = await sign_ins.begin("mail", ANN, BACK)
        answer = await follow_sign_in(started.url)
        with pytest.raises(Refused, match="no sign-in that is open"):
            await sign_ins.finish("mail", ANN, SignInAnswer(state="another", code=answer.code))
        with pytest.raises(Refused, match="no sign-in that is open"):
            await sign_ins.finish("mail", BOB, answer)
        with pytest.raises(Refused, match="failed"):
            await sign_ins.finish("mail", ANN, SignInAnswer(state=answer.state, code="guessed"))
        with pytest.raises(Refused, match="no sign-in that is open"):
            await sign_ins.finish("mail", ANN, answer)
        assert (await sign_in(yard)).sessions == 1


async def test_each_caller_signs_in_alone_and_nobody_uses_anothers_token() -> None:
    async with open_signed_yard(auth="caller") as (yard, server):
        await sign_in(yard, ANN)
        assert "sign in" in await call_mailbox(yard, BOB)
        await configure_server(server, user="bob")
        await sign_in(yard, BOB)
        assert await call_mailbox(yard, ANN) == "the mailbox of ann"
        assert await call_mailbox(yard, BOB) == "the mailbox of bob"
        await yard.servers.sign_ins.forget("mail", ANN)
        assert "sign in" in await call_mailbox(yard, ANN)
        assert await call_mailbox(yard, BOB) == "the mailbox of bob"


async def test_a_token_that_ran_out_is_renewed_also_after_a_restart(tmp_path: Path) -> None:
    """The SDK by itself takes a token that was kept for a valid one, and then asks a person again."""
    store = f"sqlite:///{tmp_path / 'yard.db'}"
    async with asyncio.timeout(TEST_TIMEOUT_S * 2), over_http(SIGNED) as server:
        servers = {"mail": server.spec(trust=True)}
        await configure_server(server, lifetime="0")
        async with Yard(model=Scripted([]), store=store, servers=servers) as yard:
            await sign_in(yard)
            assert await call_mailbox(yard) == "the mailbox of ann"
        before = (await configure_server(server, lifetime="3600"))["renewed"]
        assert before >= 1
        async with Yard(model=Scripted([]), store=store, servers=servers) as yard:
            await wait_until(lambda: only_card(yard).status == "running")
            assert await call_mailbox(yard) == "the mailbox of ann"
            assert (await configure_server(server, revoke="yes"))["renewed"] == before + 1
            assert await call_mailbox(yard) == "the mailbox of ann"
            assert (await configure_server(server))["renewed"] == before + 2


async def test_many_calls_at_once_with_a_revoked_token_renew_it_once() -> None:
    async with open_signed_yard() as (yard, server):
        await sign_in(yard)
        await configure_server(server, revoke="yes")
        assert set(await asyncio.gather(*(call_mailbox(yard) for _ in range(10)))) == {"the mailbox of ann"}
        assert (await configure_server(server))["renewed"] == 1


@pytest.mark.parametrize("how", ["expired", "revoked"])
async def test_calls_at_the_end_of_a_token_run_at_once_after_one_renewal(how: str) -> None:
    """Only the renewal is done by one call at a time: each of these calls ends only when all of them are running."""
    async with open_signed_yard(call_s=10.0) as (yard, server):
        await end_token(yard, server, how)
        before = (await configure_server(server))["renewed"]
        calls = (collect_events(yard.call("meet", {"count": 8}, caller=ANN)) for _ in range(8))
        assert [get_result(events).content for events in await asyncio.gather(*calls)] == ["met"] * 8
        assert (await configure_server(server))["renewed"] == before + 1


async def end_token(yard: Yard, server: HttpServerProcess, how: str) -> None:
    """Sign in, and have the token of the open session expire or be revoked; its successor is valid for an hour."""
    await configure_server(server, lifetime="1" if how == "expired" else "3600")
    await sign_in(yard)
    await wait_until(lambda: only_card(yard).status == "running")
    if how == "revoked":
        await configure_server(server, revoke="yes")
        return
    await configure_server(server, lifetime="3600")
    grant = await yard.servers.get_server("mail").get_grant_store(()).load()
    assert grant is not None and grant.expires_at is not None
    expires_at = grant.expires_at
    await wait_until(lambda: time.time() > expires_at)


async def test_a_token_that_cannot_be_renewed_any_more_is_thrown_away_and_a_person_asked() -> None:
    async with open_signed_yard() as (yard, server):
        await sign_in(yard)
        await configure_server(server, forget="yes")
        assert "toolyard servers login mail" in await call_mailbox(yard)
        assert only_card(yard).status == "failed"
        assert await yard.servers.get_server("mail").get_grant_store(("", "")).load() is None
        assert (await sign_in(yard)).status == "running"


async def test_two_sessions_with_one_grant_do_not_lose_the_token_that_the_other_renewed() -> None:
    """A refresh token is void once another session has spent it; the stored grant has its successor."""
    async with open_signed_yard() as (yard, server):
        await sign_in(yard)
        managed = yard.servers.get_server("mail")
        grants = managed.get_grant_store(("", ""))
        first, second = [await build_auth("mail", managed.spec, grants) for _ in range(2)]
        await configure_server(server, revoke="yes")
        for auth in (first, second):
            async with httpx2.AsyncClient(auth=auth) as client:
                answer = await client.post(managed.spec.url, json={}, headers={"accept": "application/json"})
            assert answer.status_code != 401 and not auth.signed_out, auth.refusal
        assert await grants.load() is not None
        assert await call_mailbox(yard) == "the mailbox of ann"


async def test_two_sessions_that_renew_at_once_spend_one_refresh_token_and_both_go_on() -> None:
    """The issuer refuses the slower renewal. That session uses the stored token instead, and no request fails."""
    async with open_signed_yard() as (yard, server):
        await sign_in(yard)
        managed = yard.servers.get_server("mail")
        grants = managed.get_grant_store(("", ""))
        first, second = [await build_auth("mail", managed.spec, managed.get_grant_store(("", ""))) for _ in range(2)]

        async def post(auth: RequestAuth) -> int:
            async with httpx2.AsyncClient(auth=auth) as client:
                answer = await client.post(managed.spec.url, json={}, headers={"accept": "application/json"})
            return answer.status_code

        before = (await configure_server(server, revoke="yes"))["renewed"]
        for statuses in (await asyncio.gather(post(first), post(second)), [await post(first), await post(second)]):
            assert 401 not in statuses
        assert not first.signed_out and not second.signed_out and await grants.load() is not None
        assert (await configure_server(server))["renewed"] == before + 1


async def test_an_authorization_server_that_is_down_does_not_cost_the_grant() -> None:
    async with open_signed_yard() as (yard, server):
        await sign_in(yard)
        await configure_server(server, revoke="yes", down="yes")
        assert "no token could be obtained" in await call_mailbox(yard)
        await configure_server(server)
        await yard.servers.act("mail", "start")
        assert await call_mailbox(yard) == "the mailbox of ann"


class EvilAuthorizationServer:
    """An authorization server that a server which was taken over names, and that says it knows our client already."""

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
        self.base = ""
        self.requests: list[bytes] = []

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        size = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
        self.requests.append(head + await reader.readexactly(int(size[1]) if size else 0))
        metadata: dict[str, object] = {"client_id": self._client_id, "redirect_uris": [BACK]}
        if head.startswith(b"GET"):
            places = {f"{name}_endpoint": f"{self.base}/{name}" for name in ("authorization", "token", "registration")}
            metadata = {"issuer": self.base, "response_types_supported": ["code"], **places}
        body = json.dumps(metadata).encode()
        status = b"200 OK" if head.startswith(b"GET") else b"201 Created"
        writer.write(b"HTTP/1.1 %b\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%b" % (status, len(body), body))
        writer.close()


async def test_what_renews_a_token_is_never_shown_to_another_issuer() -> None:
    async with open_signed_yard() as (yard, server):
        await sign_in(yard)
        grant = await yard.servers.get_server("mail").get_grant_store(("", "")).load()
        assert grant is not None
        evil = EvilAuthorizationServer(str(grant.client["client_id"]))
        async with serve_connections(evil.handle) as port:
            evil.base = f"http://127.0.0.1:{port}"
            await configure_server(server, revoke="yes", down="yes", issuer=evil.base)
            assert "sign in" in await call_mailbox(yard)
        assert len(evil.requests) >= 2, "it was asked who it is, and to register us"
        assert not [
            request
            for request in evil.requests
            if b"refresh-" in request or b"access-" in request or b"POST /token" in request
        ]


async def test_tokens_are_in_the_stores_private_file_and_nowhere_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    file = tmp_path / "yard.db"
    async with open_signed_yard(store=f"sqlite:///{file}") as (yard, server):
        await sign_in(yard)
        await configure_server(server, revoke="yes")
        assert await call_mailbox(yard) == "the mailbox of ann"
        await configure_server(server, revoke="yes", odd="yes")
        assert "no token could be obtained" in await call_mailbox(yard)
        with pytest.raises(Refused, match="failed") as refused:
            await sign_in(yard)
        assert "access-" not in str(refused.value) + repr(yard.servers.cards())
        grant = await yard.servers.get_server("mail").get_grant_store(("", "")).load()
        assert grant is not None and "access-" in str(grant.token) and "access-" not in repr(grant)
    assert [path.stat().st_mode & 0o077 for path in tmp_path.glob("yard.db*")] == [0] * len(
        list(tmp_path.glob("yard*"))
    )
    stored_count = sqlite3.connect(file).execute("select count(*) from shelf where kind = 'mcp.tokens'").fetchone()
    assert stored_count == (1,)
    assert "access-" not in caplog.text and "refresh-" not in caplog.text


async def test_a_server_that_is_removed_takes_its_tokens_along_and_another_address_does_not_get_them() -> None:
    async with (
        asyncio.timeout(TEST_TIMEOUT_S * 2),
        over_http(SIGNED) as server,
        over_http(SIGNED) as other,
        Yard(model=Scripted([])) as yard,
    ):
        await yard.servers.add("mail", server.spec(trust=True))
        await sign_in(yard)
        grants = yard.servers.get_server("mail").get_grant_store(("", ""))
        store = yard.servers.get_server("mail")._deps.sealed_records  # pyright: ignore[reportPrivateUsage]
        grants_at_other_url = type(grants)(store, "mail", ("", ""), other.spec().url)
        assert await grants.load() is not None and await grants_at_other_url.load() is None
        await yard.servers.act("mail", "remove")
        assert await grants.load() is None


@pytest.mark.parametrize(
    "back", ["https://evil.example/callback", "http://192.0.2.7:80/callback", "http://127.0.0.1:99999999/", "nonsense"]
)
async def test_a_person_is_sent_back_to_the_loopback_only(back: str) -> None:
    async with open_signed_yard() as (yard, _):
        with pytest.raises(Invalid, match="loopback"):
            await yard.servers.sign_ins.begin("mail", ANN, back)


async def test_a_server_that_wants_nobody_or_names_another_issuer_is_not_signed_in_to() -> None:
    async with asyncio.timeout(TEST_TIMEOUT_S * 2), over_http(SIGNED) as server, over_http() as free:
        oauth = OAuth(issuer="https://issuer.example", client_id="me", grant="authorization_code")
        secret = OAuth(issuer="https://issuer.example", client_id="me", client_secret="s")
        servers = {
            "mail": server.spec(oauth=oauth), "free": free.spec(), "secret": server.spec(oauth=secret),
            "header": server.spec(headers={"Authorization": "Bearer x"}),
        }  # fmt: skip
        async with Yard(model=Scripted([]), servers=servers) as yard:
            await wait_until_settled(yard)
            cards = {card.id: card.error for card in yard.servers.cards()}
            assert "does not take the header Authorization" in cards["header"]
            for id, expected in (
                ("mail", "another authorization server"), ("free", "did not ask"), ("secret", "client credentials"),
                ("header", "has a header Authorization"),
            ):  # fmt: skip
                with pytest.raises(ToolyardError, match=expected):
                    await yard.servers.sign_ins.begin(id, ANN, BACK)


async def test_a_slow_call_does_not_hold_up_the_others_of_a_server_that_wants_a_token() -> None:
    """The SDK's flow lets one request at a time through until its answer begins."""
    async with asyncio.timeout(TEST_TIMEOUT_S * 2), over_http(GUARDED) as server:
        issuer = f"http://127.0.0.1:{server.port}"
        oauth = OAuth(issuer=issuer, client_id="shop", client_secret="s3cret", scope="stock")
        async with Yard(model=Scripted([]), servers={"guarded": server.spec(oauth=oauth, trust=True)}) as yard:
            await wait_until_settled(yard)
            slow = asyncio.create_task(collect_events(yard.call("wait", {})))
            await wait_until(lambda: yard.servers.get_connection("guarded", ANN).describe().in_flight == 1)
            assert get_result(await collect_events(yard.call("stock", {}))).content == "seven"
            assert not slow.done()
            assert get_result(await collect_events(yard.call("release", {}))).content == "released"
            assert get_result(await slow).content == "waited"


async def test_a_call_that_needs_more_rights_says_so_and_the_next_sign_in_asks_for_them() -> None:
    async with open_signed_yard() as (yard, server):
        await sign_in(yard)
        await configure_server(server, more="archive")
        denied = get_result(await collect_events(yard.call("mailbox", {}, caller=ANN)))
        assert get_problem(denied) == ("error", "permission_denied")
        assert "archive" in denied.content and "toolyard servers login mail" in denied.content
        assert (only_card(yard).status, only_card(yard).restarts) == ("running", 0), (
            "others go on with what was granted"
        )
        await sign_in(yard)
        assert get_result(await collect_events(yard.call("mailbox", {}, caller=ANN))).content == "the mailbox of ann"


@pytest.mark.parametrize("at", ["method", "tools/list"])
async def test_a_session_that_needs_more_rights_to_begin_wants_a_sign_in(at: str) -> None:
    async with open_signed_yard() as (yard, server):
        await sign_in(yard)
        await configure_server(server, more="archive", at=at)
        yard.servers.get_server("mail").reconnect(ANN)
        await wait_until(lambda: only_card(yard).status == "failed")
        assert "archive" in only_card(yard).error and "toolyard servers login mail" in only_card(yard).error
        assert (await sign_in(yard)).status == "running"


async def test_what_one_call_needs_is_added_to_what_others_do_and_to_no_other_grant() -> None:
    async with open_signed_yard() as (yard, server):
        await sign_in(yard)
        grants = yard.servers.get_server("mail").get_grant_store(())

        async def needing(scope: str) -> Grant | None:
            await configure_server(server, more=scope)
            assert "more rights" in await call_mailbox(yard)
            return await grants.load()

        await needing("archive")
        both = await needing("papers")
        assert both is not None and both.missing_scopes == "archive papers"
        await grants.save(another := replace(both, token={"access_token": "of another sign-in"}, missing_scopes=""))
        assert await needing("drafts") == another
        await grants.forget()
        assert await needing("notes") is None


async def test_a_server_that_knows_no_old_way_to_begin_is_told_to_want_a_sign_in_all_the_same() -> None:
    async with open_signed_yard() as (yard, server):
        await configure_server(server, modern="yes")
        started = await yard.servers.act("mail", "start")
        assert "toolyard servers login mail" in started.error, started
        assert (await sign_in(yard)).status == "running"
