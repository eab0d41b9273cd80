"""The page on identity providers is true: with each of its configurations the right people sign in, and no others.

A stand-in answers as the provider does: its claims, its ways to authenticate a client, and whether it names its issuer.
"""

import asyncio
import re
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

import aiohttp
import pytest
from msgspec.structs import replace

from support import TEST_TIMEOUT_S
from surfaces.http_server import serve_yard
from surfaces.stand_in_provider import CLIENT_ID, CLIENT_SECRET, Claims, StandInProvider, Visitor, serve_provider
from toolyard import Yard
from toolyard.app import Wiring
from toolyard.server.config import OidcConfig, load
from toolyard.server.oidc import OidcProvider
from toolyard.testing import Scripted

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "identity-providers.md").read_text("utf-8")
SECTION = re.compile(r"^## (\w+)\n(.*?)(?=^## )", re.DOTALL | re.MULTILINE)
CALLBACK = "/session/oidc/callback"
OBJECT_ID = "22222222-2222-2222-2222-222222222222"


@dataclass(frozen=True)
class Walkthrough:
    """One configuration of the page, what its provider says of people, and what they become here."""

    section: str
    number: int
    issuer: str
    admitted: Claims
    user: str
    roles: list[str]
    refused: list[Claims]
    names_issuer: bool = False
    metadata: Claims = field(default_factory=dict[str, object])


BOTH_METHODS: Claims = {"token_endpoint_auth_methods_supported": ["client_secret_post", "client_secret_basic"]}
GOOGLE_ANN: Claims = {"sub": "108", "azp": CLIENT_ID, "email": "ann@example.org", "email_verified": True}
WALKTHROUGHS = {
    "Keycloak": Walkthrough(
        section="Keycloak",
        number=0,
        issuer="https://login.example/realms/shop",
        admitted={
            "sub": "f:1",
            "azp": CLIENT_ID,
            "preferred_username": "ann",
            "groups": ["shop-ops", "offline_access"],
        },
        user="f:1",
        roles=["approver", "operator"],
        refused=[{"sub": "f:2", "groups": []}, {"sub": "f:3", "groups": ["/shop-ops"]}],
        names_issuer=True,
    ),
    "Entra": Walkthrough(
        section="Entra",
        number=0,
        issuer="https://login.microsoftonline.com/00000000-0000-0000-0000-000000000000/v2.0",
        admitted={"sub": "pairwise", "oid": OBJECT_ID, "tid": "0", "ver": "2.0", "roles": ["toolyard-admin"]},
        user=OBJECT_ID,
        roles=["admin"],
        refused=[{"sub": "p", "oid": OBJECT_ID}, {"sub": "p", "roles": ["toolyard-admin"]}],
        metadata={"token_endpoint_auth_methods_supported": ["client_secret_post"]},
    ),
    "Google, by domain": Walkthrough(
        section="Google",
        number=0,
        issuer="https://accounts.google.com",
        admitted={**GOOGLE_ANN, "hd": "example.org"},
        user="108",
        roles=["approver"],
        refused=[GOOGLE_ANN, {**GOOGLE_ANN, "hd": "example.com"}],
        metadata=BOTH_METHODS,
    ),
    "Google, by person": Walkthrough(
        section="Google",
        number=1,
        issuer="https://accounts.google.com",
        admitted=GOOGLE_ANN,
        user="ann@example.org",
        roles=["admin"],
        refused=[{**GOOGLE_ANN, "email_verified": False}, {**GOOGLE_ANN, "email": "eve@example.org"}],
        metadata=BOTH_METHODS,
    ),
}


def load_oidc(walkthrough: Walkthrough, folder: Path) -> OidcConfig:
    """Return the configuration that the page shows, as a server loads it."""
    text = dict(SECTION.findall(PAGE))[walkthrough.section]
    shown = re.findall(r"^```toml\n(.*?)^```", text, re.DOTALL | re.MULTILINE)[walkthrough.number]
    (folder / "toolyard.toml").write_text(shown)
    config = load(folder / "toolyard.toml", {"OIDC_SECRET": "s3cret", "HOME": str(folder)}, {}).oidc
    assert config is not None and (config.issuer, config.client_secret) == (walkthrough.issuer, "s3cret")
    return config


@pytest.fixture
async def provider() -> AsyncGenerator[StandInProvider]:
    async with serve_provider() as stand_in:
        yield stand_in


async def sign_in(
    visitor: Visitor, provider: StandInProvider, walkthrough: Walkthrough, claims: Claims
) -> dict[str, object] | None:
    """Return who the server takes somebody with these claims for."""
    page = await visitor.begin()
    (redirect_uri,) = parse_qs(urlsplit(page).query)["redirect_uri"]
    assert redirect_uri == f"{visitor.url}{CALLBACK}" and f"https://toolyard.example{CALLBACK}" in PAGE
    answer = parse_qsl(provider.grant(page, **claims))
    await visitor.come_back(urlencode([pair for pair in answer if walkthrough.names_issuer or pair[0] != "iss"]))
    return await visitor.get_me()


@pytest.mark.parametrize("name", WALKTHROUGHS)
async def test_the_right_people_sign_in_with_the_configuration_of_the_page(
    name: str, provider: StandInProvider, tmp_path: Path
) -> None:
    walkthrough = WALKTHROUGHS[name]
    shown = load_oidc(walkthrough, tmp_path)
    provider.metadata_changes = {
        "authorization_response_iss_parameter_supported": walkthrough.names_issuer,
        **walkthrough.metadata,
    }
    # Only the address and the client are those of the stand-in.
    config = replace(shown, issuer=provider.issuer, client_id=CLIENT_ID, client_secret=CLIENT_SECRET)
    wiring = Wiring(model=Scripted([]), identity_provider=OidcProvider(config))
    async with (
        asyncio.timeout(TEST_TIMEOUT_S),
        Yard.from_wiring(wiring) as yard,
        serve_yard(yard) as url,
        aiohttp.ClientSession() as http,
    ):
        for claims in walkthrough.refused:
            assert await sign_in(Visitor(http, url), provider, walkthrough, claims) is None, claims
        me = await sign_in(Visitor(http, url), provider, walkthrough, walkthrough.admitted)
    assert me is not None and (me["user"], me["roles"]) == (walkthrough.user, walkthrough.roles)


def test_every_configuration_of_the_page_is_tested() -> None:
    shown = {section: text.count("```toml") for section, text in SECTION.findall(PAGE) if "```toml" in text}
    tested = [walkthrough.section for walkthrough in WALKTHROUGHS.values()]
    assert shown == {section: tested.count(section) for section in tested}
