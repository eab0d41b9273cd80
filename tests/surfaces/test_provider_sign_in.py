"""Signing in at an identity provider: who gets a session, and what is forged, replayed, late or foreign and gets none.

The provider is a stand-in that can lie; `test_real_provider.py` has a real one.
"""

import asyncio
import json
import logging
import time
from base64 import urlsafe_b64encode
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from hashlib import sha256
from hmac import new as hmac_new
from urllib.parse import parse_qs, urlsplit

import aiohttp
import pytest
from aiohttp import web
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from starlette.applications import Starlette

from stores.memory_replicas import MemoryDatabase, SharedMemoryStore
from support import TEST_TIMEOUT_S, SettableClock
from surfaces.api_client import build_key
from surfaces.http_server import serve_app, serve_yard
from surfaces.stand_in_provider import (
    CLIENT_ID,
    CLIENT_SECRET,
    FOREIGN_KEY,
    KEY,
    Claims,
    StandInProvider,
    Visitor,
    serve_provider,
    sign_token,
)
from toolyard import Yard
from toolyard.app import Wiring
from toolyard.core.caller import Caller
from toolyard.core.settings.limits import SessionLimits
from toolyard.engine.access.authentication import Authenticator
from toolyard.engine.access.provider_sign_in import (
    ATTEMPT_S,
    MAX_ATTEMPTS_PER_ADDRESS,
    CallbackAnswer,
    ProviderSignIns,
    SignInAttempt,
    SignInFailed,
)
from toolyard.engine.access.sessions import Sessions
from toolyard.server.config import OidcConfig
from toolyard.server.oidc import MAX_ANSWER_BYTES, OidcProvider
from toolyard.stores.memory import MemoryStore
from toolyard.testing import Scripted, say

PATIENCE_S = 0.3
HOST = "tools.example"


def build_config(provider: StandInProvider, **changes: object) -> OidcConfig:
    options: dict[str, object] = {
        "issuer": provider.issuer,
        "client_id": CLIENT_ID,
        "client_secret": CLIENT_SECRET,
        "name": "Example",
        "roles": {"ops": ("operator", "approver"), "boss": ("admin",)},
        "tenants": {"ops": "shop", "boss": "", "cellar": "wine"},
        **changes,
    }
    return OidcConfig(**options)  # pyright: ignore[reportArgumentType]


def build_parts(config: OidcConfig, request_s: float = TEST_TIMEOUT_S, **wiring: object) -> Wiring:
    options = {"identity_provider": OidcProvider(config, request_s=request_s), **wiring}
    return Wiring(model=Scripted(lambda request: say("ok")), **options)  # pyright: ignore[reportArgumentType]


@asynccontextmanager
async def open_visitor(parts: Wiring, host: str = "") -> AsyncGenerator[Visitor]:
    async with (
        asyncio.timeout(TEST_TIMEOUT_S),
        Yard.from_wiring(parts) as yard,
        serve_yard(yard) as url,
        aiohttp.ClientSession() as http,
    ):
        yield Visitor(http, url, host)


@pytest.fixture
async def provider() -> AsyncGenerator[StandInProvider]:
    async with serve_provider() as stand_in:
        yield stand_in


@pytest.fixture
async def visitor(provider: StandInProvider) -> AsyncGenerator[Visitor]:
    async with open_visitor(build_parts(build_config(provider))) as opened:
        yield opened


async def sign_in(visitor: Visitor, provider: StandInProvider, **claims: object) -> str:
    """Sign in as somebody of the group `ops` with other claims, and return where that leads to."""
    return await visitor.come_back(provider.grant(await visitor.begin(), **{"groups": ["ops"], **claims}))


async def test_groups_become_roles_and_a_tenant_and_signing_out_ends_the_session(
    provider: StandInProvider, visitor: Visitor
) -> None:
    assert await visitor.get_me() is None
    assert await sign_in(visitor, provider, groups=["ops", "unknown"]) == "/"
    me = await visitor.get_me()
    assert me is not None
    assert (me["user"], me["roles"], me["tenant"], me["keyless"]) == ("ann", ["approver", "operator"], "shop", False)
    cookies = dict(visitor.cookies)
    headers = {"origin": visitor.url, "cookie": "; ".join(f"{name}={value}" for name, value in cookies.items())}
    async with visitor.http.delete(f"{visitor.url}/session", headers=headers) as response:
        assert response.status == 200
    assert await visitor.get_me() is None


async def test_the_page_is_told_the_name_of_the_provider_and_how_long_a_session_lasts(visitor: Visitor) -> None:
    async with visitor.http.get(f"{visitor.url}/session") as response:
        assert response.status == 200
        answer = {"provider": "Example", "idle_s": 12 * 3600, "total_s": 14 * 24 * 3600, "success": True}
        assert await response.json() == answer


async def test_without_a_provider_there_is_nothing_to_open() -> None:
    parts = Wiring(model=Scripted([]), keys=[build_key("ann")])
    async with open_visitor(parts) as visitor:
        assert await visitor.open("/session/oidc") == (404, "")
        assert await visitor.open("/session/oidc/callback?code=x&state=y") == (404, "")
        async with visitor.http.get(f"{visitor.url}/session") as response:
            assert (await response.json())["provider"] == ""


async def test_with_a_provider_and_no_keys_nobody_is_let_in_without_signing_in(visitor: Visitor) -> None:
    for path in ("/me", "/conversations", "/tools", "/servers", "/keys"):
        assert (await visitor.open(path))[0] == 401, path
    async with visitor.http.post(f"{visitor.url}/ai/respond", json={"prompt": "hi"}) as response:
        assert response.status == 401


async def test_cookies_are_kept_from_scripts_and_need_https_away_from_this_machine(provider: StandInProvider) -> None:
    async with open_visitor(build_parts(build_config(provider)), HOST) as visitor:
        page = await visitor.begin()
        assert parse_qs(urlsplit(page).query)["redirect_uri"] == [f"https://{HOST}/session/oidc/callback"]
        assert await visitor.come_back(provider.grant(page, groups=["ops"])) == "/"
        flags = {"path": "/", "httponly": True, "secure": True}
        assert visitor.flags == {
            "__Host-toolyard-sign-in": {**flags, "max-age": f"{ATTEMPT_S:.0f}", "samesite": "Lax"},
            "__Host-toolyard": {**flags, "max-age": f"{SessionLimits().total_s:.0f}", "samesite": "Strict"},
        }
        assert await visitor.get_me()


async def test_an_answer_counts_once_and_neither_does_its_code_count_again(
    provider: StandInProvider, visitor: Visitor
) -> None:
    answer = provider.grant(await visitor.begin(), groups=["ops"])
    code, state = parse_qs(answer)["code"][0], parse_qs(answer)["state"][0]
    assert await visitor.come_back(answer) == "/"
    exchanges = provider.requests.count("/token")
    sign_in_cookie = {name: value for name, value in visitor.cookies.items() if "sign-in" in name}
    visitor.cookies = dict(sign_in_cookie)
    assert await visitor.come_back(answer) == "/?sign_in_error=expired"
    assert provider.requests.count("/token") == exchanges
    fresh_state = parse_qs(urlsplit(await visitor.begin()).query)["state"][0]
    assert fresh_state != state
    replayed = f"code={code}&state={fresh_state}&iss={provider.issuer}"
    assert await visitor.come_back(replayed) == "/?sign_in_error=failed"
    assert await visitor.get_me() is None


async def test_an_answer_counts_only_in_the_browser_that_began_the_sign_in(
    provider: StandInProvider, visitor: Visitor
) -> None:
    answer = provider.grant(await visitor.begin(), groups=["ops"])
    victim = Visitor(visitor.http, visitor.url)
    assert await victim.come_back(answer) == "/?sign_in_error=expired"
    await victim.begin()
    assert await victim.come_back(answer) == "/?sign_in_error=expired"
    assert victim.cookies.keys() == {name for name in victim.cookies if "sign-in" in name}
    assert await victim.get_me() is None
    assert await visitor.come_back(answer) == "/"  # the right browser can still go on


@pytest.mark.parametrize("change", ["", "x", "again"])
async def test_a_state_that_was_made_up_signs_nobody_in(
    provider: StandInProvider, visitor: Visitor, change: str
) -> None:
    answer = parse_qs(provider.grant(await visitor.begin(), groups=["ops"]))
    state = answer["state"][0] * 2 if change == "again" else change
    assert await visitor.come_back(f"code={answer['code'][0]}&state={state}") == "/?sign_in_error=expired"
    assert "/token" not in provider.requests


async def test_a_session_that_was_planted_before_is_not_the_one_after_signing_in(
    provider: StandInProvider, visitor: Visitor
) -> None:
    port = visitor.url.rpartition(":")[2]
    visitor.cookies[f"toolyard-{port}"] = planted = "p" * 43
    assert await sign_in(visitor, provider) == "/"
    assert visitor.cookies[f"toolyard-{port}"] != planted
    assert await visitor.get_me()
    earlier = Visitor(visitor.http, visitor.url)
    earlier.cookies = dict(visitor.cookies)
    assert await sign_in(visitor, provider) == "/"
    assert await earlier.get_me() is None


async def test_a_refused_sign_in_is_in_the_audit_log_and_one_that_was_given_up_is_not(
    provider: StandInProvider, visitor: Visitor
) -> None:
    state = parse_qs(urlsplit(await visitor.begin()).query)["state"][0]
    assert await visitor.come_back(f"error=access_denied&state={state}") == "/?sign_in_error=denied"
    assert await sign_in(visitor, provider, groups=["boss"]) == "/"
    assert await visitor.list_audited() == []
    stranger = Visitor(visitor.http, visitor.url)
    assert await stranger.come_back("code=x&state=made-up") == "/?sign_in_error=expired"
    assert await visitor.list_audited() == [("sign_in.refuse", "127.0.0.1")]


async def test_no_parameter_decides_where_somebody_goes_after_signing_in(
    provider: StandInProvider, visitor: Visitor
) -> None:
    await visitor.open("/session/oidc?next=https://evil.example&redirect_uri=https://evil.example")
    page = await visitor.begin()
    assert parse_qs(urlsplit(page).query)["redirect_uri"] == [f"{visitor.url}/session/oidc/callback"]
    answer = provider.grant(page, groups=["ops"])
    assert await visitor.come_back(f"{answer}&next=//evil.example&return_to=https://evil.example") == "/"


async def test_refusals_of_the_provider_are_told_by_a_code_and_never_repeated(
    visitor: Visitor, caplog: pytest.LogCaptureFixture
) -> None:
    for error, code in (("access_denied", "denied"), ("<script>", "failed")):
        state = parse_qs(urlsplit(await visitor.begin()).query)["state"][0]
        query = f"error={error}&error_description=<b>no</b>&state={state}"
        assert await visitor.come_back(query) == f"/?sign_in_error={code}"
        assert await visitor.come_back(query) == "/?sign_in_error=expired"
    assert "<b>no</b>" not in caplog.text


def sign_nothing(claims: Claims) -> str:
    return "no token"


def sign_with_nothing(claims: Claims) -> str:
    return f"{encode_part({'alg': 'none', 'kid': 'k1'})}.{encode_part(claims)}."


def sign_with_public_key(claims: Claims) -> str:
    """Sign with HS256 and the provider's public key, which everybody has, as the secret."""
    signed = f"{encode_part({'alg': 'HS256', 'kid': 'k1'})}.{encode_part(claims)}"
    secret = KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return f"{signed}.{encode_bytes(hmac_new(secret, signed.encode(), sha256).digest())}"


def encode_part(part: Claims) -> str:
    return encode_bytes(json.dumps(part).encode())


def encode_bytes(content: bytes) -> str:
    return urlsafe_b64encode(content).rstrip(b"=").decode()


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"nonce": "of another sign-in"}, "made for another sign-in"),
        ({"nonce": None}, "made for another sign-in"),
        ({"nonce": 7}, "made for another sign-in"),
        ({"aud": "another client"}, "for somebody else"),
        ({"aud": None}, "lacks the claim aud"),
        ({"aud": [CLIENT_ID, "another client"]}, "issued to another client"),
        ({"aud": [CLIENT_ID, "another client"], "azp": "another client"}, "issued to another client"),
        ({"azp": "another client"}, "issued to another client"),
        ({"iss": "https://elsewhere.example"}, "for somebody else"),
        ({"iss": None}, "lacks the claim iss"),
        ({"exp": time.time() - 60}, "expired"),
        ({"exp": None}, "lacks the claim exp"),
        ({"nbf": time.time() + 3600}, "not valid yet"),
        ({"sub": None}, "does not tell the claim sub"),
    ],
)
async def test_a_token_that_is_foreign_late_or_of_another_attempt_signs_nobody_in(
    provider: StandInProvider, visitor: Visitor, claims: Claims, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert await sign_in(visitor, provider, **claims) == "/?sign_in_error=failed"
    assert reason in caplog.text
    assert await visitor.get_me() is None


@pytest.mark.parametrize(
    ("sign", "reason"),
    [
        (partial(sign_token, key=FOREIGN_KEY), "signature or its form is wrong"),
        (partial(sign_token, key=FOREIGN_KEY, key_id="k2"), "not the provider's"),
        (sign_with_nothing, "not signed with RS256"),
        (sign_with_public_key, "not signed with RS256"),
        (sign_nothing, "cannot be read"),
    ],
)
async def test_a_forged_token_signs_nobody_in(
    provider: StandInProvider,
    visitor: Visitor,
    sign: Callable[[Claims], str],
    reason: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    provider.sign = sign
    assert await sign_in(visitor, provider) == "/?sign_in_error=failed"
    assert reason in caplog.text
    assert await visitor.get_me() is None


async def test_a_token_for_several_clients_counts_if_it_was_issued_to_this_one(
    provider: StandInProvider, visitor: Visitor
) -> None:
    assert await sign_in(visitor, provider, aud=[CLIENT_ID, "another client"], azp=CLIENT_ID) == "/"


async def test_the_secret_is_sent_in_the_form_where_the_provider_takes_it_only_there(
    provider: StandInProvider, visitor: Visitor
) -> None:
    provider.metadata_changes = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
    assert await sign_in(visitor, provider) == "/"


@pytest.mark.parametrize("issuer", ["https://elsewhere.example", ""])
async def test_an_answer_of_another_provider_is_not_exchanged(
    provider: StandInProvider, visitor: Visitor, issuer: str
) -> None:
    answer = parse_qs(provider.grant(await visitor.begin(), groups=["ops"]))
    query = f"code={answer['code'][0]}&state={answer['state'][0]}" + (f"&iss={issuer}" if issuer else "")
    assert await visitor.come_back(query) == "/?sign_in_error=failed"
    assert "/token" not in provider.requests


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"issuer": "https://elsewhere.example"}, "names another issuer"),
        ({"authorization_endpoint": "http://elsewhere.example/authorize"}, "authorization_endpoint does not begin"),
        ({"authorization_endpoint": "javascript:alert(1)"}, "authorization_endpoint does not begin"),
        ({"token_endpoint": "http://elsewhere.example/token"}, "token_endpoint does not begin"),
        ({"jwks_uri": "file:///etc/passwd"}, "jwks_uri does not begin"),
        ({"userinfo_endpoint": "http://[", "jwks_uri": "https://id.example/keys"}, "userinfo_endpoint does not begin"),
        ({"token_endpoint": 7}, "cannot be read"),
    ],
)
async def test_a_provider_that_describes_itself_wrongly_is_not_used(
    provider: StandInProvider, visitor: Visitor, changes: Claims, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    provider.metadata_changes = changes
    assert await visitor.open("/session/oidc") == (302, "/?sign_in_error=failed")
    assert reason in caplog.text
    provider.metadata_changes = {}
    assert await sign_in(visitor, provider) == "/"  # the wrong description is not remembered


async def send_too_much(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    for _ in range(2 * MAX_ANSWER_BYTES // 65_536):
        await response.write(b" " * 65_536)
    return response


async def send_elsewhere(request: web.Request) -> web.Response:
    return web.Response(status=302, headers={"location": "/.well-known/openid-configuration?again"})


async def fail(request: web.Request) -> web.Response:
    return web.Response(status=500)


@pytest.mark.parametrize(
    ("path", "answer", "code"),
    [
        ("/.well-known/openid-configuration", send_too_much, "unavailable"),
        ("/.well-known/openid-configuration", send_elsewhere, "failed"),
        ("/.well-known/openid-configuration", fail, "unavailable"),
        ("/.well-known/openid-configuration", None, "unavailable"),
        ("/token", send_too_much, "unavailable"),
        ("/token", send_elsewhere, "failed"),
        ("/token", None, "unavailable"),
        ("/keys", send_too_much, "unavailable"),
        ("/keys", fail, "unavailable"),
        ("/keys", None, "unavailable"),
    ],
)
async def test_a_provider_that_hangs_fails_or_sends_too_much_is_given_up(
    provider: StandInProvider, path: str, answer: Callable[[web.Request], object] | None, code: str
) -> None:
    provider.answers[path] = answer or provider.hang  # pyright: ignore[reportArgumentType]
    request_s = PATIENCE_S if answer is None else TEST_TIMEOUT_S
    async with open_visitor(build_parts(build_config(provider), request_s)) as visitor:
        if "well-known" in path:
            assert await visitor.open("/session/oidc") == (302, f"/?sign_in_error={code}")
        else:
            assert await sign_in(visitor, provider) == f"/?sign_in_error={code}"
        del provider.answers[path]
        assert await visitor.get_me() is None


async def test_a_provider_that_is_down_is_told_of() -> None:
    async with serve_provider() as gone:
        config = build_config(gone)
    async with open_visitor(build_parts(config)) as visitor:
        assert await visitor.open("/session/oidc") == (302, "/?sign_in_error=unavailable")


async def test_groups_may_be_told_at_the_userinfo_address_about_the_same_person_only(
    provider: StandInProvider, visitor: Visitor
) -> None:
    provider.userinfo = {"sub": "eve", "groups": ["boss"]}
    assert await sign_in(visitor, provider, groups=None) == "/?sign_in_error=failed"
    provider.userinfo = {"sub": "ann", "groups": ["ops"], "iss": "ignored"}
    assert await sign_in(visitor, provider, groups=None) == "/"
    me = await visitor.get_me()
    assert me is not None and me["tenant"] == "shop"
    provider.userinfo = {"sub": "ann", "groups": ["boss"]}  # what the token itself says counts
    assert await sign_in(visitor, provider, groups=["cellar"]) == "/"
    me = await visitor.get_me()
    assert me is not None and (me["tenant"], me["roles"]) == ("wine", [])


async def test_the_token_counts_where_the_userinfo_address_says_something_else(provider: StandInProvider) -> None:
    provider.userinfo = {"sub": "ann", "groups": ["boss"], "nickname": "annie"}
    async with open_visitor(build_parts(build_config(provider, user_claim="nickname"))) as visitor:
        assert await sign_in(visitor, provider, groups=["cellar"]) == "/"
        me = await visitor.get_me()
        assert me is not None and (me["user"], me["tenant"], me["roles"]) == ("annie", "wine", [])


async def test_who_has_no_group_here_is_not_signed_in(provider: StandInProvider, visitor: Visitor) -> None:
    assert await sign_in(visitor, provider, groups=["elsewhere"]) == "/?sign_in_error=no_access"
    assert await sign_in(visitor, provider, groups=["ops", "cellar"]) == "/?sign_in_error=no_access"
    assert await visitor.get_me() is None


async def test_a_session_ends_when_the_settings_that_gave_its_rights_change(provider: StandInProvider) -> None:
    database, config = MemoryDatabase(), build_config(provider)

    async with open_visitor(build_parts(config, opened_store=SharedMemoryStore(database)), HOST) as visitor:
        assert await sign_in(visitor, provider) == "/"
        cookies = visitor.cookies
    for changes, is_open in (
        ({"client_secret": "renewed", "name": "Renamed"}, True),
        ({"roles": {"ops": ("operator",)}}, False),
        ({}, False),  # it was ended, and does not come back with the old settings
    ):
        parts = build_parts(build_config(provider, **changes), opened_store=SharedMemoryStore(database))
        async with open_visitor(parts, HOST) as visitor:
            visitor.cookies = cookies
            assert bool(await visitor.get_me()) is is_open, changes


async def test_without_the_provider_its_sessions_are_over(provider: StandInProvider) -> None:
    database = MemoryDatabase()
    async with open_visitor(
        build_parts(build_config(provider), opened_store=SharedMemoryStore(database)), HOST
    ) as visitor:
        assert await sign_in(visitor, provider) == "/"
        cookies = visitor.cookies
    keys = Wiring(model=Scripted([]), keys=[build_key("ann")], opened_store=SharedMemoryStore(database))
    async with open_visitor(keys, HOST) as visitor:
        visitor.cookies = cookies
        assert await visitor.get_me() is None


async def test_any_replica_can_finish_a_sign_in_and_only_one_does(provider: StandInProvider) -> None:
    database = MemoryDatabase()
    async with AsyncExitStack() as stack:
        first, second = [
            await stack.enter_async_context(
                open_visitor(build_parts(build_config(provider), opened_store=SharedMemoryStore(database)), HOST)
            )
            for _ in range(2)
        ]
        answer = provider.grant(await first.begin(), groups=["ops"])
        second.cookies = dict(first.cookies)
        locations = await asyncio.gather(first.come_back(answer), second.come_back(answer))
        assert sorted(locations) == ["/", "/?sign_in_error=expired"]
        winner, other = (first, second) if locations[0] == "/" else (second, first)
        other.cookies = dict(winner.cookies)
        assert await first.get_me() and await second.get_me()


async def test_a_server_under_a_path_of_another_application_comes_back_there(provider: StandInProvider) -> None:
    shop = Starlette()
    async with asyncio.timeout(TEST_TIMEOUT_S), Yard.from_wiring(build_parts(build_config(provider))) as yard:
        shop.mount("/assistant", yard.asgi())
        async with serve_app(shop) as url, aiohttp.ClientSession() as http:
            visitor = Visitor(http, url, prefix="/assistant")
            page = await visitor.begin()
            assert parse_qs(urlsplit(page).query)["redirect_uri"] == [f"{url}/assistant/session/oidc/callback"]
            assert await visitor.come_back("code=x&state=y") == "/assistant/?sign_in_error=expired"
            assert await visitor.come_back(provider.grant(page, groups=["ops"])) == "/assistant/"
            assert await visitor.get_me()


async def test_neither_a_code_nor_a_secret_is_logged(
    provider: StandInProvider, visitor: Visitor, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "toolyard")
    answer = parse_qs(provider.grant(await visitor.begin(), nonce="another", groups=["ops"]))
    query = f"code={answer['code'][0]}&state={answer['state'][0]}&iss={provider.issuer}"
    assert await visitor.come_back(query) == "/?sign_in_error=failed"
    for secret in (answer["code"][0], answer["state"][0], *visitor.cookies.values(), CLIENT_SECRET):
        assert secret not in caplog.text


class AlwaysAnn:
    """A provider that everybody comes back from as Ann."""

    name = "Example"
    rights = "digest"
    admin_tenants = frozenset[str]()

    async def build_url(self, attempt: SignInAttempt, state: str) -> str:
        return f"https://id.example/?state={state}"

    async def identify(self, attempt: SignInAttempt, answer: CallbackAnswer) -> Caller:
        return Caller(user="ann")


class LockCountingStore(MemoryStore):
    """A store that counts the locks that are taken."""

    def __init__(self) -> None:
        super().__init__()
        self.locks, self._take_lock = 0, self.lock
        self.lock = self._count_lock

    def _count_lock(self, kind: str, name: str) -> AbstractAsyncContextManager[None]:
        self.locks += 1
        return self._take_lock(kind, name)


class SignInBench:
    """Sign-ins with a clock that a test sets."""

    def __init__(self) -> None:
        self.clock, self.store, provider = SettableClock(), LockCountingStore(), AlwaysAnn()
        access = Authenticator(self.store, self.clock, provider_rights=provider.rights)
        limits = SessionLimits(idle_s=5000, total_s=5000)
        self.sessions = Sessions(self.store, access, self.clock, limits, self._ignore_failure)
        self.sign_ins = ProviderSignIns(self.store, self.sessions, provider, self.clock)

    async def _ignore_failure(self, address: str) -> None:
        """Failed sign-ins are counted elsewhere."""

    async def begin(self, address: str = "") -> tuple[str, str]:
        """Return the state and the browser's token."""
        begun = await self.sign_ins.begin("https://tools.example/session/oidc/callback", address)
        return begun.url.partition("state=")[2], begun.browser_token


async def test_an_attempt_is_over_after_ten_minutes() -> None:
    bench = SignInBench()
    (in_time, token), (late, late_token) = await bench.begin(), await bench.begin()
    bench.clock.time += ATTEMPT_S - 1
    session = await bench.sign_ins.finish(CallbackAnswer(state=in_time, code="x"), token)
    caller, _ = await bench.sessions.identify(session, {})
    assert caller.user == "ann"
    bench.clock.time += 1
    with pytest.raises(SignInFailed) as failure:
        await bench.sign_ins.finish(CallbackAnswer(state=late, code="x"), late_token)
    assert failure.value.code == "expired"


async def test_an_answer_that_was_made_up_takes_no_lock_of_the_store() -> None:
    bench = SignInBench()
    state, token = await bench.begin()
    with pytest.raises(SignInFailed):
        await bench.sign_ins.finish(CallbackAnswer(state="made up", code="x"), token)
    assert bench.store.locks == 0
    await bench.sign_ins.finish(CallbackAnswer(state=state, code="x"), token)
    assert bench.store.locks == 1


async def test_only_hashes_of_what_a_browser_holds_are_stored() -> None:
    bench = SignInBench()
    state, token = await bench.begin()
    stored = repr(await bench.store.list_tokens("sign_in", ""))
    assert "sign_in" in stored and state not in stored and token not in stored


async def test_sign_ins_that_are_begun_are_bounded_for_each_address() -> None:
    bench = SignInBench()
    for _ in range(MAX_ATTEMPTS_PER_ADDRESS):
        await bench.begin("10.0.0.1")
    with pytest.raises(SignInFailed) as failure:
        await bench.begin("10.0.0.1")
    assert failure.value.code == "busy"
    await bench.begin("10.0.0.2")


async def test_somebody_with_many_ipv6_addresses_cannot_use_up_the_sign_ins_of_all() -> None:
    bench = SignInBench()
    for number in range(MAX_ATTEMPTS_PER_ADDRESS):
        await bench.begin(f"2001:db8:1:2::{number:x}")
    with pytest.raises(SignInFailed) as failure:
        await bench.begin("2001:db8:1:2:ffff::1")
    assert failure.value.code == "busy"
    await bench.begin("2001:db8:1:3::1")
