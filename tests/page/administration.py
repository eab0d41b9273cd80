"""A server whose models and MCP servers are set on the page, and providers and MCP servers to set there."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Locator

from page.site import Site, start_site
from page.window import Window
from ports import reserve_port
from toolyard.core.settings.runtime import FixedSetting
from toolyard.models.resolver import ModelSettings
from venues.mcp.modern import SCRIPT, HttpServerProcess
from wire.keyed_provider import KeyedProvider

FIXED = [
    FixedSetting(name="port", value="8080", location="--port"),
    FixedSetting(name="store", value='"sqlite:///data/toolyard.db"', location="toolyard.toml:3"),
]
WIRING: dict[str, Any] = {
    "model": "toolyard:offline",
    "allowed_models": frozenset({"toolyard:offline"}),
    "configured_settings": {},
    "model_settings": ModelSettings(environment={}),
    "fixed_settings": FIXED,
    "private_addresses": True,
    "secret": "a secret of more than thirty characters",
    "secret_source": "toolyard.db.secret, which this server has made",
}


@contextmanager
def start_unconfigured(**more: Any) -> Generator[Site]:
    """A server without a model, tools and keys, unless `more` names some."""
    with start_site(**{**WIRING, **more}) as site:
        yield site


@contextmanager
def serve_provider(site: Site, provider: KeyedProvider) -> Generator[str]:
    """Yield the address of a provider, which runs in the site's loop."""
    serving = provider.serving()
    url = site.run(serving.__aenter__())
    try:
        yield url
    finally:
        site.run(serving.__aexit__(None, None, None))


@contextmanager
def serve_mcp(site: Site, script: Path = SCRIPT) -> Generator[str]:
    """Yield the address of an MCP server in a process of its own."""
    with reserve_port() as port:
        server = HttpServerProcess(script, port)
        try:
            site.run(server.start())
            yield server.spec().url
        finally:
            server.stop()


def open_section(window: Window, section: str) -> None:
    """Open a section of the administration as a link from another page does."""
    window.go_to(f"administration/{section}")


def fill(window: Window, **fields: str) -> None:
    """Fill in text fields of the open dialog by their names, with _ for a space."""
    for name, text in fields.items():
        locate_field(window, name.replace("_", " ")).fill(text)


def locate_field(window: Window, name: str) -> Locator:
    """The field of this name in the open dialog, without the buttons that name it too."""
    return window.page.get_by_role("dialog").get_by_label(name).and_(window.page.locator("input, textarea"))
