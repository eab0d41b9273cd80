"""The browser of the page's tests: one for all of them, and a clean window for each."""

import asyncio
from asyncio import _set_running_loop as set_running_loop  # pyright: ignore[reportPrivateUsage]
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import cast

import pytest
from playwright.sync_api import Browser, sync_playwright

from chromium import FLAGS, find_chromium
from page.site import Site, start_site
from page.window import Windows

PAGE = Path(__file__).parents[2] / "src" / "toolyard" / "page" / "index.html"


@pytest.fixture(scope="session")
def shared_browser() -> Generator[tuple[Browser, asyncio.AbstractEventLoop]]:
    """One for all modules of a process, with the loop that Playwright runs in the background of this thread."""
    assert PAGE.is_file(), "the page is not built: make page"
    with sync_playwright() as playwright:
        chromium_browser = playwright.chromium.launch(executable_path=find_chromium(), args=FLAGS)
        loop = asyncio.get_running_loop()
        set_running_loop(None)
        yield chromium_browser, loop
        set_running_loop(loop)
        chromium_browser.close()


@pytest.fixture(scope="module")
def browser(shared_browser: tuple[Browser, asyncio.AbstractEventLoop]) -> Generator[Browser]:
    """Playwright's loop counts as running while a module uses it: others run their own loops in this thread."""
    chromium_browser, loop = shared_browser
    set_running_loop(loop)
    yield chromium_browser
    set_running_loop(None)


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
