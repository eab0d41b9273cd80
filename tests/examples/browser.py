"""A page in a real browser, for tests that are asynchronous themselves."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from playwright.async_api import ConsoleMessage, Page, async_playwright, expect

from chromium import FLAGS, find_chromium

TIMEOUT_MS = 30_000


@asynccontextmanager
async def page_of(url: str, before: str = "", *, expected: str = "404") -> AsyncGenerator[Page, None]:
    """A page of that address, with a script that runs before its own.

    What it complains of fails the test, unless it is about `expected`: an answer that is no success, for example.
    """
    complaints: list[str] = []
    async with async_playwright() as driver:
        window = await driver.chromium.launch(executable_path=find_chromium(), args=FLAGS)
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
