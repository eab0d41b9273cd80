"""A real browser for tests of pages: Debian's chromium, or whichever of its kin is there."""

import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from playwright.async_api import ConsoleMessage, Page, async_playwright, expect

NAMES = ("chromium", "chromium-browser", "google-chrome")
QUIET = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
TIMEOUT_MS = 30_000


def find_browser() -> str:
    path_found = next((path for name in NAMES if (path := shutil.which(name))), None)
    assert path_found, "the tests of pages need a browser: sudo apt-get install -y chromium"
    return path_found


@asynccontextmanager
async def page_of(url: str, before: str = "", *, expected: str = "404") -> AsyncGenerator[Page, None]:
    """A page of that address, with a script that runs before its own.

    What it complains of fails the test, unless it is about `expected`: an answer that is no success, for example.
    """
    complaints: list[str] = []
    async with async_playwright() as driver:
        window = await driver.chromium.launch(executable_path=find_browser(), args=list(QUIET))
        page = await window.new_page(viewport={"width": 1440, "height": 900})
        page.set_default_timeout(TIMEOUT_MS)
        expect.set_options(timeout=TIMEOUT_MS)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on(
            "console", lambda message: complaints.append(message.text) if _is_complaint(message, expected) else None
        )
        if before:
            await page.add_init_script(before)
        try:
            await page.goto(url)
            yield page
        finally:
            await window.close()
    assert complaints == []


def _is_complaint(message: ConsoleMessage, expected: str) -> bool:
    return message.type == "error" and expected not in message.text
