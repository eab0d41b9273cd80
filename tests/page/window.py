"""A window of the browser on the page, in the words of somebody who uses it."""

from contextlib import ExitStack
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, Locator, Page, Request, expect

from page.site import Site

TIMEOUT_MS = 30_000
expect.set_options(timeout=TIMEOUT_MS)


LEAD_TO = """(hash) => new Promise((done) => {
    if (location.hash === hash) return done()
    addEventListener("hashchange", () => setTimeout(done), { once: true })
    location.hash = hash
})"""
"""Change the address, and wait until the application, which listens since before, has drawn what is there."""


class Windows:
    def __init__(self, browser: Browser, stack: ExitStack) -> None:
        self._browser = browser
        self._stack = stack
        self.complaints: list[str] = []
        self.expected_complaint = ""
        """Complaints that belong to the test say this: the browser tells of every answer that is no success."""
        self.other_host = ""
        """The host of another server that the test itself leads the visitor to."""

    def open(self, server: Site, *, width: int = 1200, dark: bool = False, locale: str = "en") -> "Window":
        """A window of a new visitor."""
        return self.open_url(server.url, width=width, dark=dark, locale=locale)

    def open_url(self, url: str, *, width: int = 1200, dark: bool = False, locale: str = "en") -> "Window":
        context = self._browser.new_context(
            viewport={"width": width, "height": 800},
            color_scheme="dark" if dark else "light",
            locale=locale,
            reduced_motion="reduce",
        )
        context.set_default_timeout(TIMEOUT_MS)
        self._stack.callback(context.close)
        return self.open_tab(context, url)

    def open_tab(self, context: BrowserContext, url: str) -> "Window":
        """One more window of the same visitor."""
        page = context.new_page()
        host = urlsplit(url).netloc

        def check_origin(request: Request) -> None:
            hosts = (host, self.other_host)
            if not request.url.startswith(("data:", "blob:")) and urlsplit(request.url).netloc not in hosts:
                self.complaints.append(f"asked another origin: {request.url}")

        page.on("request", check_origin)
        page.on("pageerror", lambda error: self.complaints.append(f"failed: {error}"))
        page.on("console", lambda message: self.complaints.append(message.text) if message.type == "error" else None)
        page.goto(url)
        return Window(page)


class Window:
    def __init__(self, page: Page) -> None:
        self.page = page

    @property
    def composer(self) -> Locator:
        return self.page.get_by_role("textbox", name="Write a message")

    @property
    def thread(self) -> Locator:
        return self.page.get_by_role("region", name="Messages")

    @property
    def answer(self) -> Locator:
        """The last words of the model."""
        return self.page.locator(".markdown").last

    def open_page(self, name: str) -> None:
        """Follow a link of the sidebar to a page. The links are behind one entry, which stays as it was left."""
        more = self.button("More pages")
        if more.get_attribute("aria-expanded") == "false":
            more.click()
        self.page.get_by_role("navigation", name="Pages").get_by_role("link", name=name).click()

    def go_to(self, route: str) -> None:
        """Go to a page as a link does. The page before it is not shown any longer: no later step can mean that."""
        self.page.evaluate(LEAD_TO, f"#/{route}")

    def choose_action(self, name: str) -> None:
        """Press a button of the conversation's toolbar, which is a menu on a phone."""
        menu, button = self.button("Menu of this conversation"), self.button(name)
        expect(menu.or_(button).first).to_be_visible()
        if menu.is_visible():
            menu.click()
        button.click()

    def start_chat(self) -> None:
        """Leave a conversation for a new one."""
        self.page.get_by_role("link", name="New chat").click()
        expect(self.page.get_by_role("heading", name="What shall we do?")).to_be_visible()

    def send(self, text: str) -> None:
        self.composer.fill(text)
        self.composer.press("Enter")

    def card(self, tool: str, number: int = 0) -> Locator:
        """The card of a call, by the tool's title or by its name, which the page shows as words."""
        return self.page.get_by_role("group", name=f"Call of {tool.replace('_', ' ')}").nth(number)

    def read_clipboard(self, begin: str) -> str:
        """What is on the clipboard, once it begins so. The button tells of it for a moment only."""
        self.page.wait_for_function(
            "async (begin) => (await navigator.clipboard.readText()).startsWith(begin)", arg=begin
        )
        return self.page.evaluate("() => navigator.clipboard.readText()")

    def button(self, name: str) -> Locator:
        return self.page.get_by_role("button", name=name, exact=True)


def pick(select: Locator, option: str) -> None:
    """Choose an option of a list that a button opens."""
    select.click()
    select.page.get_by_role("option", name=option, exact=True).click()
