"""Staying signed in: who gets a session, what it opens, and everything that ends it or must never be one."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from http.cookies import SimpleCookie
from pathlib import Path

import jwt
import pytest
from aiohttp import WSMsgType
from msgspec.structs import replace

from replicas.pair import open_replicas, wait_for_status
from support import SettableClock
from surfaces.api_client import ApiClient, build_key
from surfaces.http_server import SocketClient, connect_client
from surfaces.in_process_client import open_in_process_client
from surfaces.openai.sockets import open_talk
from toolyard import Yard
from toolyard.app import Wiring
from toolyard.core.caller import Caller
from toolyard.core.errors import RateLimited, Unauthenticated
from toolyard.core.settings.limits import SessionLimits
from toolyard.core.store import Key
from toolyard.engine.access.authentication import TOKEN_GRACE_S, Authenticator, hash_key
from toolyard.engine.access.sessions import MAX_FAILED_PER_ADDRESS, MAX_FAILED_PER_KEY, MAX_SESSIONS, Sessions
from toolyard.server.config import JwtConfig
from toolyard.server.jwt import verifier
from toolyard.stores.memory import MemoryStore
from toolyard.testing import Scripted, say

KEYS = [build_key("ann"), build_key("shop", "admin", tenant="", trusted=True, divisions=frozenset({"food"}))]


@asynccontextmanager
async def open_client(**wiring: object) -> AsyncGenerator[SocketClient]:
    options = {"keys": KEYS, **wiring}
    parts = Wiring(model=Scripted(lambda request: say("ok")), **options)  # pyright: ignore[reportArgumentType]
    async with asyncio.timeout(30), Yard.from_wiring(parts) as yard, connect_client(yard) as http:
        yield http


async def sign_in(http: SocketClient, key: str = "ann", **headers: str) -> str:
    """Sign in, and return the cookie as a browser sends it back."""
    status, body, answered = await http.ask("POST", "/session", {"key": key}, **{"origin": http.url, **headers})
    assert status == 200, body
    return answered["set-cookie"].partition(";")[0]


async def get_status(http: SocketClient, path: str, cookie: str, method: str = "GET", **headers: str) -> int:
    status, _, _ = await http.ask(method, path, {"title": "x"} if method == "POST" else None, cookie=cookie, **headers)
    return status


async def test_a_session_opens_the_paths_of_the_page_and_no_others() -> None:
    async with open_client() as http:
        cookie = await sign_in(http)
        status, me, _ = await http.ask("GET", "/me", cookie=cookie)
        assert (status, me["user"], me["tenant"], me["roles"]) == (200, "ann", "t", [])
        for path in ("/conversations", "/tools", "/models", "/live", "/traces", "/servers", "/ai/tools/health"):
            assert await get_status(http, path, cookie) == 200, path
        assert await get_status(http, "/conversations", cookie, "POST", origin=http.url) == 201
        ours = {"origin": http.url, "cookie": cookie}
        closed = ("/v1/chat/completions", "/v1/responses", "/mcp", "/ai-sdk/chat", "/ag-ui", "/ai/respond")
        for path in (*closed, "/chat/v1/conversation", "/webhooks/x"):
            assert (await http.ask("POST", path, {}, **ours))[0] == 401, path


async def test_the_cookie_is_kept_from_scripts_and_other_sites_and_needs_https_away_from_this_machine() -> None:
    async with open_client(sessions=SessionLimits(total_s=1000)) as http:

        async def read_cookie(**headers: str) -> tuple[str, dict[str, str]]:
            _, _, answered = await http.ask("POST", "/session", {"key": "ann"}, **headers)
            ((name, morsel),) = SimpleCookie(answered["set-cookie"]).items()
            return name, {key: value for key, value in morsel.items() if value}

        flags = {"path": "/", "max-age": "1000", "httponly": True, "samesite": "Strict"}
        port = http.url.rpartition(":")[2]
        assert await read_cookie(origin=http.url) == (f"toolyard-{port}", flags)
        away = await read_cookie(host="tools.example", origin="https://tools.example")
        assert away == ("__Host-toolyard", {**flags, "secure": True})
        status, body, answered = await http.ask(
            "POST", "/session", {"key": "ann"}, host="a.example", origin="http://a.example"
        )
        assert "set-cookie" not in answered, "over http the browser would not keep the cookie"
        assert status == 403 and "this page must be opened with https: " in str(body), body
        assert "allow_http = true" in str(body)
        cookie = await sign_in(http)
        assert len(cookie.partition("=")[2]) >= 43, "256 random bits"
        renamed = f"__Host-toolyard={cookie.partition('=')[2]}"
        assert await get_status(http, "/me", renamed) == 401, "another name"
        assert await get_status(http, "/me", renamed, host="tools.example") == 200


async def test_on_a_trusted_network_people_sign_in_over_http_and_other_origins_are_still_refused() -> None:
    async with open_client(sessions=SessionLimits(allow_http=True)) as http:
        page = {"host": "box.example:8080", "origin": "http://box.example:8080"}
        status, _, answered = await http.ask("POST", "/session", {"key": "ann"}, **page)
        cookie, _, flags = answered["set-cookie"].partition("; ")
        assert status == 200 and cookie.startswith("toolyard-8080=")
        assert "HttpOnly; SameSite=Strict" in flags and "Secure" not in flags
        assert await get_status(http, "/conversations", cookie, "POST", **page) == 201
        for origin in ("http://box.example", "http://other.example:8080", "null"):
            assert await get_status(http, "/conversations", cookie, "POST", **{**page, "origin": origin}) == 403, origin
        tls = {"host": "box.example", "origin": "https://box.example"}
        assert (await http.ask("POST", "/session", {"key": "ann"}, **tls))[0] == 200, "a proxy with TLS works as well"


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:1", ""])
async def test_nothing_is_changed_with_a_session_from_another_origin(origin: str) -> None:
    headers = {"origin": origin} if origin else {}
    async with open_client() as http:
        cookie = await sign_in(http)
        assert await get_status(http, "/conversations", cookie, "POST", **headers) == 403
        assert await get_status(http, "/conversations/x", cookie, "DELETE", **headers) == 403
        assert await get_status(http, "/session", cookie, "DELETE", **headers) == 403
        assert (await http.ask("POST", "/session", {"key": "ann"}, **headers))[0] == 403
        assert await get_status(http, "/conversations", cookie) == 200
        assert await get_status(http, "/conversations", "", "POST", x_api_key="ann", **headers) == 201


async def test_a_websocket_is_not_opened_with_a_session_from_another_origin() -> None:
    wiring = Wiring(model=Scripted(lambda request: say("ok")), keys=KEYS)
    async with Yard.from_wiring(wiring) as yard, open_in_process_client(yard) as http:
        ours = {"host": "tools.example", "origin": "https://tools.example"}
        _, _, headers = await http.ask("POST", "/session", {"key": "ann"}, **ours)
        cookie = headers["set-cookie"].partition(";")[0]
        for origin, status in (("https://evil.example", 403), ("https://a.tools.example", 403), (ours["origin"], 200)):
            upgrade = {"host": "tools.example", "upgrade": "websocket", "origin": origin}
            assert (await http.ask("GET", "/conversations", cookie=cookie, **upgrade))[0] == status, origin


async def test_a_session_speaks_for_nobody_else_even_with_a_trusted_key() -> None:
    async with open_client() as http:
        cookie = await sign_in(http, "shop")
        for name in ("x_user", "x_roles", "x_division"):
            assert await get_status(http, "/me", cookie, **{name: "food"}) == 403, name
        _, me, _ = await http.ask("GET", "/me", cookie=cookie, x_api_key="ann")
        assert me["user"] == "ann", "a key comes before a cookie"
        assert await get_status(http, "/me", cookie, x_api_key="wrong") == 401


async def test_a_forged_or_foreign_token_opens_nothing_nor_does_one_after_signing_out() -> None:
    async with open_client() as http, open_client() as other:
        cookie = await sign_in(http)
        name, _, token = cookie.partition("=")
        foreign = (await sign_in(other)).partition("=")[2]
        for forged in (foreign, token[:-1] + ("A" if token[-1] != "A" else "B"), "a" * 43, "ann", "", "%00"):
            assert await get_status(http, "/me", f"{name}={forged}") == 401, forged
        again = await sign_in(http, cookie=cookie)
        assert again != cookie
        assert await get_status(http, "/me", cookie) == 401, "signing in again ends the earlier session"
        status, _, headers = await http.ask("DELETE", "/session", cookie=again, origin=http.url)
        assert status == 200 and headers["set-cookie"].startswith(f"{name}=; ") and "Max-Age=0" in headers["set-cookie"]
        assert await get_status(http, "/me", again) == 401, "replayed"
        assert (await http.ask("POST", "/session", {"key": "wrong"}, origin=http.url))[0] == 401


async def test_no_answer_to_a_session_or_a_key_is_kept_by_browsers_and_proxies() -> None:
    async with open_client() as http:
        cookie = await sign_in(http)
        _, created, _ = await http.ask("POST", "/conversations", {"title": "x"}, cookie=cookie, origin=http.url)
        path = f"/conversations/{created['conversation']['id']}"  # pyright: ignore[reportIndexIssue]
        _, shared, _ = await http.ask("POST", f"{path}/shares", {}, cookie=cookie, origin=http.url)
        for opened in ("/me", path, f"{path}/export", f"{path}/export?format=json", f"/shares/{shared['token']}"):
            for headers in ({"cookie": cookie}, {"x_api_key": "ann"}):
                status, _, answered = await http.ask("GET", opened, **headers)
                assert (status, answered["cache-control"]) == (200, "no-store"), opened
        assert (await http.ask("GET", "/me"))[2]["cache-control"] == "no-store"
        assert (await http.ask("POST", "/session", {"key": "ann"}, origin=http.url))[2]["cache-control"] == "no-store"
        assert (await http.ask("GET", "/"))[2]["cache-control"] == "no-cache"


async def test_a_server_without_keys_has_no_sessions() -> None:
    async with open_client(keys=()) as http:
        status, body, headers = await http.ask("POST", "/session", {"key": "ann"}, origin=http.url)
        assert status == 409 and "no keys" in str(body["error"]) and "set-cookie" not in headers


async def test_revoking_the_key_ends_its_session() -> None:
    async with open_client(keys=[build_key("root", "admin", tenant="")]) as http:
        _, added, _ = await http.ask("POST", "/keys", {"name": "app", "user": "app"}, x_api_key="root")
        cookie = await sign_in(http, str(added["secret"]))
        assert await get_status(http, "/me", cookie) == 200
        await http.ask("DELETE", "/keys/app", x_api_key="root")
        assert await get_status(http, "/me", cookie) == 401


@pytest.mark.parametrize(
    "change", [{"roles": frozenset[str]()}, {"user": "eve"}, {"tenant": "u"}, {"divisions": frozenset({"a"})}]
)
async def test_a_key_that_is_narrowed_or_changed_ends_its_session_at_the_next_start(
    change: dict[str, object], tmp_path: Path
) -> None:
    key, store = build_key("oda", "operator"), f"sqlite:///{tmp_path / 'store.db'}"
    async with open_client(keys=[key], store=store) as http:
        token = (await sign_in(http, "oda")).partition("=")[2]
    for keys, status in (([key], 200), ([replace(key, **change)], 401), ([key], 401)):
        async with open_client(keys=keys, store=store) as http:
            port = http.url.rpartition(":")[2]
            assert await get_status(http, "/me", f"toolyard-{port}={token}") == status


async def test_replicas_share_sessions_and_their_end() -> None:
    async with open_replicas(keys=KEYS) as (first, second):
        host = {"host": "tools.example", "origin": "https://tools.example"}
        _, _, headers = await first.http.send_request("POST", "/session", {"key": "ann"}, **host)
        cookie = {"host": "tools.example", "cookie": headers["set-cookie"].partition(";")[0]}
        assert (await second.http.send_request("GET", "/me", **cookie))[1]["user"] == "ann"
        await second.http.send_request("DELETE", "/session", origin=host["origin"], **cookie)
        assert (await first.http.send_request("GET", "/me", **cookie))[0] == 401


async def test_a_key_that_one_replica_revokes_ends_its_sessions_at_the_other() -> None:
    async with open_replicas(keys=[build_key("root", "admin", tenant="")]) as (first, second):
        root = first.http.with_key("root")
        secret = (await root.post("/keys", {"name": "app", "user": "app"}, expect=201))["secret"]
        await wait_for_status(second.http.with_key(secret), "/tools", 200)
        host = {"host": "tools.example", "origin": "https://tools.example"}
        _, _, headers = await second.http.send_request("POST", "/session", {"key": secret}, **host)
        cookie = {"host": "tools.example", "cookie": headers["set-cookie"].partition(";")[0]}
        assert (await second.http.send_request("GET", "/me", **cookie))[0] == 200
        await root.delete("/keys/app")
        await wait_for_status(second.http.with_key(secret), "/tools", 401)
        assert (await second.http.send_request("GET", "/me", **cookie))[0] == 401


async def read_to_end(http: ApiClient, path: str, opened: asyncio.Event, **headers: str) -> None:
    """Read a stream of events until the server ends it."""
    async for _ in http.stream_get(path, **headers):
        opened.set()


async def test_an_open_stream_ends_with_its_session_or_its_key_and_no_other_does() -> None:
    keys = [build_key("root", "admin", tenant=""), build_key("ann")]
    async with open_client(keys=keys) as socket, asyncio.TaskGroup() as tasks:
        http = ApiClient(socket)
        root = http.with_key("root")
        secret = (await root.post("/keys", {"name": "app", "user": "ann", "tenant": "t"}, expect=201))["secret"]
        path = await http.with_key("ann").create_conversation()
        await http.with_key("ann").post(f"{path}/chat", {"content": "Hello"})
        signed_out, revoked = await sign_in(socket), await sign_in(socket, secret)
        other = await sign_in(socket)
        credentials = ({"cookie": signed_out}, {"cookie": revoked}, {"x_api_key": secret}, {"cookie": other})
        opened = [asyncio.Event() for _ in credentials]
        streams = [
            tasks.create_task(read_to_end(http, f"{path}/events", event, **headers))
            for event, headers in zip(opened, credentials, strict=True)
        ]
        for event in opened:
            await event.wait()
        await socket.ask("DELETE", "/session", cookie=signed_out, origin=socket.url)
        await streams[0]
        assert not any(stream.done() for stream in streams[1:])
        await root.delete("/keys/app")
        await asyncio.gather(*streams[1:3])
        assert await get_status(socket, "/me", other) == 200 and not streams[3].done()
        streams[3].cancel()


async def test_an_open_stream_outlives_its_token_by_a_while_and_not_for_ever() -> None:
    def encode_token(expires_at: float) -> str:
        return jwt.encode({"sub": "jo", "exp": expires_at}, "s" * 32, "HS256")

    def accept_token(token: str) -> Caller:
        """Take tokens that have expired, in place of the time that passes while a stream is open."""
        return Caller(user="jo")

    late, early = encode_token(time.time() - TOKEN_GRACE_S - 1), encode_token(time.time() - TOKEN_GRACE_S + 60)
    async with open_client(verify=accept_token) as socket, asyncio.TaskGroup() as tasks:
        http = ApiClient(socket, authorization=f"Bearer {early}")
        path = await http.create_conversation()
        await http.post(f"{path}/chat", {"content": "Hello"})
        opened = [asyncio.Event() for _ in range(2)]
        streams = [
            tasks.create_task(read_to_end(ApiClient(socket, authorization=f"Bearer {token}"), f"{path}/events", event))
            for token, event in zip((early, late), opened, strict=True)
        ]
        for event in opened:
            await event.wait()
        await streams[1]
        assert not streams[0].done()
        streams[0].cancel()


async def test_a_websocket_ends_with_its_key() -> None:
    async with open_client(keys=[build_key("root", "admin", tenant="")]) as socket:
        root = ApiClient(socket).with_key("root")
        secret = (await root.post("/keys", {"name": "app", "user": "app"}, expect=201))["secret"]
        async with open_talk(socket.url, authorization=f"Bearer {secret}") as talk:
            assert (await talk.create())[-1]["type"] == "response.completed"
            await root.delete("/keys/app")
            closed = await talk.socket.receive()
            assert (closed.type, closed.data) == (WSMsgType.CLOSE, 1008)


class SessionBench:
    """Sessions on a store in memory, with a clock that a test sets."""

    def __init__(self, *keys: Key, limits: SessionLimits | None = None, **options: object) -> None:
        self.clock, self.store = SettableClock(), MemoryStore()
        access = Authenticator(self.store, self.clock, configured=keys, **options)  # pyright: ignore[reportArgumentType]
        self.failures: list[str] = []
        limits = limits or SessionLimits(idle_s=100, total_s=1000)
        self.sessions = Sessions(self.store, access, self.clock, limits, self.count_failure)

    async def count_failure(self, address: str) -> None:
        self.failures.append(address)

    async def is_open(self, token: str) -> bool:
        try:
            return bool(await self.sessions.identify(token, {}))
        except Unauthenticated:
            return False


async def test_failed_sign_ins_are_reported_with_their_address_and_others_are_not() -> None:
    bench = SessionBench(*KEYS)
    await bench.sessions.open("ann", "10.0.0.1")
    for number in range(70):
        with pytest.raises((Unauthenticated, RateLimited)):
            await bench.sessions.open(f"{number}-wrong", "10.0.0.2")
    assert bench.failures == ["10.0.0.2"] * 70


async def test_a_session_ends_when_it_was_idle_for_too_long() -> None:
    bench = SessionBench(*KEYS)
    token, idle = await bench.sessions.open("ann", "a"), await bench.sessions.open("ann", "a")
    for _ in range(3):
        bench.clock.time += 90
        assert await bench.is_open(token)
    assert not await bench.is_open(idle)
    bench.clock.time += 100
    assert not await bench.is_open(token)
    bench.clock.time -= 100
    assert not await bench.is_open(token), "it is gone, whatever the clock says"


async def test_a_session_ends_after_its_total_time_however_much_it_is_used() -> None:
    bench = SessionBench(*KEYS)
    token = await bench.sessions.open("ann", "a")
    for _ in range(11):
        bench.clock.time += 90
        assert await bench.is_open(token)
    bench.clock.time += 10
    assert not await bench.is_open(token)


async def test_only_the_hash_of_a_session_is_stored() -> None:
    bench = SessionBench(*KEYS)
    token = await bench.sessions.open("ann", "a")
    stored = str(list(bench.store._data.tokens.values()))  # pyright: ignore[reportPrivateUsage]
    assert stored and token not in stored and "'ann'" not in stored


async def test_failed_sign_ins_are_bounded_for_each_address() -> None:
    bench = SessionBench(*KEYS)
    for number in range(MAX_FAILED_PER_ADDRESS):
        with pytest.raises(Unauthenticated):
            await bench.sessions.open(f"{number} guess", "198.51.100.7")
    for key in ("guess", "ann"):
        with pytest.raises(RateLimited):
            await bench.sessions.open(key, "198.51.100.7")
    assert await bench.sessions.open("ann", "198.51.100.8")
    bench.clock.time += 60
    assert await bench.sessions.open("ann", "198.51.100.7")


async def test_failed_sign_ins_of_one_ipv6_network_are_those_of_one_address() -> None:
    bench = SessionBench(*KEYS)
    for number in range(MAX_FAILED_PER_ADDRESS):
        with pytest.raises(Unauthenticated):
            await bench.sessions.open(f"{number} guess", f"2001:db8:1:2::{number:x}")
    with pytest.raises(RateLimited):
        await bench.sessions.open("guess", "2001:db8:1:2:ffff::1")
    assert await bench.sessions.open("ann", "2001:db8:1:3::1")


async def test_guesses_of_one_key_are_bounded_whatever_addresses_they_come_from() -> None:
    key = replace(build_key("ann"), hash=hash_key("ty_0123456789"))
    bench = SessionBench(key, *KEYS[1:])
    for number in range(MAX_FAILED_PER_KEY):
        with pytest.raises(Unauthenticated):
            await bench.sessions.open(f"ty_012345678{chr(65 + number)}", f"198.51.100.{number}")
    with pytest.raises(RateLimited):
        await bench.sessions.open("ty_0123456789", "198.51.100.99")
    assert await bench.sessions.open("shop", "198.51.100.1")
    bench.clock.time += 60
    assert await bench.sessions.open("ty_0123456789", "198.51.100.99")


async def test_sign_ins_that_succeed_do_not_count_nor_do_wrong_tokens_lock_out_other_tokens() -> None:
    secret = "s" * 32
    bench = SessionBench(*KEYS, verify=verifier(JwtConfig(algorithm="HS256", secret=secret)))
    bench.clock.time = 4_000_000_000.0
    for _ in range(MAX_FAILED_PER_ADDRESS + 1):
        assert await bench.sessions.open("ann", "a")
    claims = {"sub": "jo", "exp": bench.clock.time + 50}
    for _ in range(MAX_FAILED_PER_KEY + 1):
        with pytest.raises(Unauthenticated):
            await bench.sessions.open(jwt.encode(claims, "t" * 32, "HS256"), "b")
    assert await bench.sessions.open(jwt.encode(claims, secret, "HS256"), "b")


async def test_a_key_has_so_many_sessions_and_a_further_one_ends_the_oldest() -> None:
    bench = SessionBench(*KEYS)
    other = await bench.sessions.open("shop", "a")
    tokens: list[str] = []
    for _ in range(MAX_SESSIONS + 1):
        bench.clock.time += 1
        tokens.append(await bench.sessions.open("ann", "a"))
    assert [await bench.is_open(token) for token in (tokens[0], tokens[1], tokens[-1], other)] == [False, *[True] * 3]


async def test_of_two_cookies_with_the_name_none_is_believed_nor_is_a_very_long_one() -> None:
    async with open_client() as http:
        cookie, planted = await sign_in(http), await sign_in(http, "shop")
        name = cookie.partition("=")[0]
        assert await get_status(http, "/me", f"other=1; {cookie}; {cookie}") == 200
        for tossed in (f"{planted}; {cookie}", f"{cookie}; {planted}", f"{cookie}; {name}=x", f"{name}={'a' * 5000}"):
            assert await get_status(http, "/me", tossed) == 401, tossed[:200]


async def test_a_session_that_was_planted_before_signing_in_is_not_the_one_after_it() -> None:
    async with open_client() as http:
        planted = await sign_in(http, "shop")
        cookie_of_ann = await sign_in(http, cookie=planted)
        assert cookie_of_ann != planted
        _, me, _ = await http.ask("GET", "/me", cookie=cookie_of_ann)
        assert me["user"] == "ann"
        assert await get_status(http, "/me", planted) == 401


async def test_a_verified_token_opens_a_session_until_the_token_expires() -> None:
    secret = "s" * 32
    verify = verifier(JwtConfig(algorithm="HS256", secret=secret))
    bench = SessionBench(*KEYS, verify=verify)
    bench.clock.time = 4_000_000_000.0
    claims = {"sub": "jo", "roles": ["operator"], "exp": bench.clock.time + 50}
    token = await bench.sessions.open(jwt.encode(claims, secret, "HS256"), "a")
    caller = Caller(user="jo", roles=frozenset({"operator"}))
    assert await bench.sessions.identify(token, {}) == (caller, "session")
    bench.clock.time += 50
    assert not await bench.is_open(token)
    with pytest.raises(Unauthenticated):
        await bench.sessions.open(jwt.encode(claims, "t" * 32, "HS256"), "a")
