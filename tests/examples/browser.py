"""A page in a real browser, for tests that are asynchronous themselves."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Page, async_playwright, expect

from chromium import FLAGS, find_chromium

TIMEOUT_MS = 30_000


@asynccontextmanager
async def launch_browser() -> AsyncGenerator[Browser, None]:
    """A browser, in which a module's tests can open windows."""
    expect.set_options(timeout=TIMEOUT_MS)
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=find_chromium(), args=FLAGS)
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def open_window(browser: Browser, expected: str = "404") -> AsyncGenerator[BrowserContext, None]:
    """A window of a new visitor, whose pages are its tabs.

    What they complain of fails the test, unless it is about `expected`: an answer that is no success, for example.
    """
    complaints: list[str] = []
    context = await browser.new_context(viewport={"width": 1440, "height": 900})
    context.set_default_timeout(TIMEOUT_MS)
    context.on("weberror", lambda error: complaints.append(str(error.error)))
    context.on("console", lambda message: complaints.append(message.text) if _is_complaint(message, expected) else None)
    try:
        yield context
    finally:
        await context.close()
    assert complaints == []


@asynccontextmanager
async def page_of(url: str, before: str = "", *, expected: str = "404") -> AsyncGenerator[Page, None]:
    """A page of that address in a browser of its own, with a script that runs before its own."""
    async with launch_browser() as browser, open_window(browser, expected) as context:
        page = await context.new_page()
        if before:
            await page.add_init_script(before)
        await page.goto(url)
        yield page


def _is_complaint(message: ConsoleMessage, expected: str) -> bool:
    return message.type == "error" and expected not in message.text
