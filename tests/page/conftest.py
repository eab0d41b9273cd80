"""The browser of the page's tests: one for all of them, and a clean window for each."""

import shutil
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import cast

import pytest
from playwright.sync_api import Browser, sync_playwright

from page.site import Site, start_site
from page.window import Windows

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PAGE = Path(__file__).parents[2] / "src" / "toolyard" / "page" / "index.html"


def find_chromium() -> str:
    executable = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert executable, "this needs a browser: apt-get install -y chromium"
    return executable


@pytest.fixture(scope="module")
def browser() -> Generator[Browser]:
    """One for a module: as long as Playwright is there no other test could run a loop in this thread."""
    assert PAGE.is_file(), "the page is not built: make page"
    with sync_playwright() as playwright:
        chromium_browser = playwright.chromium.launch(executable_path=find_chromium(), args=FLAGS)
        yield chromium_browser
        chromium_browser.close()


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest) -> Generator[Site]:
    """The module's server: with its SCENES, its TOOLS, and what else its WIRING says."""
    module = cast(ModuleType, request.module)  # pyright: ignore[reportUnknownMemberType]
    with start_site(module.SCENES, tools=module.TOOLS, **getattr(module, "WIRING", {})) as site:
        yield site


@pytest.fixture
def sites() -> Generator[ExitStack]:
    """Where a test enters a server of its own: it stops after the windows have closed."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def windows(browser: Browser, sites: ExitStack) -> Generator[Windows]:
    """Opens windows; at the end none of them may have complained or asked anybody else for anything."""
    with ExitStack() as stack:
        opened_windows = Windows(browser, stack)
        yield opened_windows
    assert [
        complaint
        for complaint in opened_windows.complaints
        if not opened_windows.expected_complaint or opened_windows.expected_complaint not in complaint
    ] == []
