"""Signing in to the page at a real identity provider, in a browser: there, back, and out again."""

from contextlib import ExitStack
from typing import cast
from urllib.parse import urlsplit

from playwright.sync_api import expect

from page.axe import run_axe
from page.site import Site, start_site
from page.window import Window, Windows
from surfaces.api_client import Json
from surfaces.real_provider import CLIENT_ID, CLIENT_SECRET, start_real_provider
from toolyard.server.config import OidcConfig
from toolyard.server.oidc import OidcProvider


def start_site_with_provider(windows: Windows, sites: ExitStack) -> Site:
    issuer = sites.enter_context(start_real_provider())
    config = OidcConfig(
        issuer=issuer,
        client_id=CLIENT_ID,
        client_secret=CLIENT_SECRET,
        name="Example & Co",
        scopes=("openid", "groups"),
        roles={"ops": ("operator",)},
    )
    windows.expected_complaint = "401"
    windows.other_host = urlsplit(issuer).netloc
    return sites.enter_context(start_site(identity_provider=OidcProvider(config)))


def sign_in(window: Window, login: str) -> None:
    """Go to the provider, sign in there and consent."""
    page = window.page
    page.get_by_role("link", name="Sign in with Example & Co").click()
    page.get_by_placeholder("Enter any login").fill(login)
    page.get_by_placeholder("and password").fill("any")
    page.get_by_role("button", name="Sign-in").click()
    page.get_by_role("button", name="Continue").click()


def test_one_signs_in_at_the_provider_and_comes_back_to_what_was_open(windows: Windows, sites: ExitStack) -> None:
    server = start_site_with_provider(windows, sites)
    window = windows.open_url(f"{server.url}/#/tools")
    page = window.page
    expect(page.get_by_role("link", name="Sign in with Example & Co")).to_be_visible()
    expect(page.get_by_text("Or use an API key.")).to_be_visible()
    assert run_axe(page) == []
    sign_in(window, "ann")
    expect(page.get_by_role("heading", name="Tools")).to_be_visible()
    expect(page).to_have_url(f"{server.url}/#/tools")
    assert page.evaluate("async () => (await (await fetch('me')).json()).roles") == ["operator"]
    cookies = {cookie["name"]: cookie for cookie in cast(list[Json], page.context.cookies(server.url))}
    port = urlsplit(server.url).port
    assert cookies[f"toolyard-{port}"]["httpOnly"] and cookies[f"toolyard-{port}"]["sameSite"] == "Strict"
    assert cookies[f"toolyard-sign-in-{port}"]["httpOnly"] and cookies[f"toolyard-sign-in-{port}"]["sameSite"] == "Lax"
    page.reload()
    expect(page.get_by_role("heading", name="Tools")).to_be_visible()
    window.button("Sign out").click()
    expect(page.get_by_role("textbox", name="API key")).to_be_visible()


def test_who_may_not_use_the_server_is_told_so_once(windows: Windows, sites: ExitStack) -> None:
    server = start_site_with_provider(windows, sites)
    window = windows.open(server)
    page = window.page
    sign_in(window, "eve")
    expect(page.get_by_role("alert")).to_contain_text("your groups do not let you use this server")
    expect(page).to_have_url(f"{server.url}/")
    page.reload()
    expect(page.get_by_role("textbox", name="API key")).to_be_visible()
    expect(page.get_by_role("alert")).to_be_hidden()


def test_an_error_in_the_address_is_shown_in_the_pages_own_words(windows: Windows, sites: ExitStack) -> None:
    server = start_site_with_provider(windows, sites)
    window = windows.open_url(f"{server.url}/?sign_in_error=<b>Call%20555</b>", locale="de")
    expect(window.page.get_by_role("alert")).to_contain_text("Die Anmeldung ist gescheitert")
    expect(window.page.get_by_text("555")).to_have_count(0)
    expect(window.page.get_by_role("link", name="Mit Example & Co anmelden")).to_be_visible()
