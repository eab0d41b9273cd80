"""Signing in to the page at a real identity provider: the package `oidc-provider` of npm, with its own pages."""

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import ExitStack, asynccontextmanager
from urllib.parse import parse_qs, urlsplit

import aiohttp
import pytest

from support import TEST_TIMEOUT_S
from surfaces.http_server import serve_yard
from surfaces.real_provider import CLIENT_ID, CLIENT_SECRET, Person, start_real_provider
from surfaces.stand_in_provider import Visitor
from toolyard import Yard
from toolyard.app import Wiring
from toolyard.server.config import OidcConfig
from toolyard.server.oidc import OidcProvider
from toolyard.testing import Scripted


@pytest.fixture(scope="module")
def issuer() -> Generator[str]:
    with start_real_provider() as address:
        yield address


def build_config(issuer: str, **changes: object) -> OidcConfig:
    options: dict[str, object] = {
        "issuer": issuer,
        "client_id": CLIENT_ID,
        "client_secret": CLIENT_SECRET,
        "scopes": ("openid", "profile", "groups"),
        "roles": {"ops": ("operator",)},
        "tenants": {"ops": "shop", "cellar": "wine"},
        **changes,
    }
    return OidcConfig(**options)  # pyright: ignore[reportArgumentType]


@asynccontextmanager
async def open_pair(config: OidcConfig) -> AsyncGenerator[tuple[Visitor, Person]]:
    """Yield the browser at a yard, and the person in front of it at the provider."""
    parts = Wiring(model=Scripted([]), identity_provider=OidcProvider(config, request_s=TEST_TIMEOUT_S))
    async with (
        asyncio.timeout(2 * TEST_TIMEOUT_S),
        Yard.from_wiring(parts) as yard,
        serve_yard(yard) as url,
        aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as http,
        aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as provider_http,
    ):
        yield Visitor(http, url), Person(provider_http, config.issuer)


async def sign_in(visitor: Visitor, person: Person, login: str) -> str:
    """Return where the sign-in leads to in the end."""
    return await visitor.come_back(urlsplit(await person.sign_in(await visitor.begin(), login)).query)


async def check_ann(visitor: Visitor) -> None:
    me = await visitor.get_me()
    assert me is not None and (me["user"], me["roles"], me["tenant"]) == ("ann", ["operator"], "shop")


async def test_somebody_signs_in_and_has_the_rights_of_their_groups(issuer: str) -> None:
    async with open_pair(build_config(issuer)) as (visitor, person):
        assert await visitor.get_me() is None
        assert await sign_in(visitor, person, "ann") == "/"
        await check_ann(visitor)


async def test_groups_in_the_token_itself_count_and_so_does_another_claim_for_the_user() -> None:
    with start_real_provider(groups_in_token=True) as issuer:
        async with open_pair(build_config(issuer, user_claim="preferred_username")) as (visitor, person):
            assert await sign_in(visitor, person, "ann") == "/"
            await check_ann(visitor)


async def test_a_public_client_needs_no_secret(issuer: str) -> None:
    async with open_pair(build_config(issuer, client_id="public", client_secret="")) as (visitor, person):
        assert await sign_in(visitor, person, "ann") == "/"
        await check_ann(visitor)


async def test_who_has_no_group_here_is_told_so(issuer: str) -> None:
    async with open_pair(build_config(issuer)) as (visitor, person):
        assert await sign_in(visitor, person, "eve") == "/?sign_in_error=no_access"
        assert await visitor.get_me() is None


async def test_who_cancels_at_the_provider_is_not_signed_in(issuer: str) -> None:
    async with open_pair(build_config(issuer)) as (visitor, person):
        callback = await person.refuse(await visitor.begin())
        assert await visitor.come_back(urlsplit(callback).query) == "/?sign_in_error=denied"
        assert await visitor.get_me() is None


async def test_neither_an_answer_nor_its_code_counts_twice(issuer: str) -> None:
    async with open_pair(build_config(issuer)) as (visitor, person):
        answer = urlsplit(await person.sign_in(await visitor.begin(), "ann")).query
        assert await visitor.come_back(answer) == "/"
        attacker = Visitor(visitor.http, visitor.url)
        assert await attacker.come_back(answer) == "/?sign_in_error=expired"
        state = parse_qs(urlsplit(await attacker.begin()).query)["state"][0]
        code = parse_qs(answer)["code"][0]
        assert await attacker.come_back(f"code={code}&state={state}&iss={issuer}") == "/?sign_in_error=failed"
        assert await attacker.get_me() is None


async def test_a_code_of_somebody_elses_attempt_is_not_exchanged(issuer: str) -> None:
    async with open_pair(build_config(issuer)) as (visitor, person):
        stolen = parse_qs(urlsplit(await person.sign_in(await visitor.begin(), "ann")).query)["code"][0]
        attacker = Visitor(visitor.http, visitor.url)
        state = parse_qs(urlsplit(await attacker.begin()).query)["state"][0]
        assert await attacker.come_back(f"code={stolen}&state={state}&iss={issuer}") == "/?sign_in_error=failed"
        assert await attacker.get_me() is None


async def test_a_code_for_another_client_is_not_exchanged(issuer: str) -> None:
    async with open_pair(build_config(issuer)) as (visitor, person):
        page = (await visitor.begin()).replace("client_id=toolyard", "client_id=other")
        callback = await person.sign_in(page, "ann")
        assert await visitor.come_back(urlsplit(callback).query) == "/?sign_in_error=failed"
        assert await visitor.get_me() is None


async def test_a_wrong_secret_of_the_client_signs_nobody_in(issuer: str) -> None:
    async with open_pair(build_config(issuer, client_secret="wrong")) as (visitor, person):
        assert await sign_in(visitor, person, "ann") == "/?sign_in_error=failed"


async def test_a_provider_that_ends_meanwhile_is_told_of() -> None:
    with ExitStack() as running:
        issuer = running.enter_context(start_real_provider())
        async with open_pair(build_config(issuer)) as (visitor, person):
            callback = await person.sign_in(await visitor.begin(), "ann")
            running.close()
            assert await visitor.come_back(urlsplit(callback).query) == "/?sign_in_error=unavailable"
            assert await visitor.get_me() is None
