"""What the page logs to the browser's console, so that a request can be found in the server's log."""

import re

import pytest
from playwright.sync_api import ConsoleMessage, Request, expect

from page.site import Site
from page.window import Window, Windows
from toolyard import ToolError, tool
from toolyard.testing import call, fail, say, together

LINE = re.compile(r"correlation_id=(\S+) \| (.*)")


@tool
def stock(item: str) -> str:
    """Say how much there is."""
    return "two"


@tool
def order(item: str) -> str:
    """Order something."""
    raise ToolError("the shop is closed", "unavailable")


TOOLS = [stock, order]
SCENES = {
    "secret milk": [together(call("stock", item="milk"), call("order", item="milk")), say("It is closed.")],
    "break": [fail("the provider is out of order")],
}


class Console:
    """The lines of a window's console, by level, and the correlation ids that its messages were sent with."""

    def __init__(self, window: Window) -> None:
        self.lines: list[tuple[str, str]] = []
        self.correlation_ids: list[str] = []
        window.page.on("console", self._add)
        window.page.on("request", self._record_request)

    def _add(self, message: ConsoleMessage) -> None:
        self.lines.append((message.type, message.text))

    def _record_request(self, request: Request) -> None:
        if request.method == "POST" and request.url.endswith("/chat"):
            self.correlation_ids.append(request.headers["x-correlation-id"])


@pytest.mark.proves("003.web-console")
def test_a_request_its_tools_and_its_error_are_told_under_the_servers_correlation_id(
    windows: Windows, server: Site
) -> None:
    window = windows.open(server)
    console = Console(window)
    window.send("secret milk")
    expect(window.answer).to_have_text("It is closed.")
    expect(window.button("Stop")).to_be_hidden()
    (correlation_id,) = console.correlation_ids
    parsed = [(level, LINE.fullmatch(text)) for level, text in console.lines]
    assert {match[1] for _, match in parsed if match} == {correlation_id}
    messages = [(level, match[2]) for level, match in parsed if match]
    assert messages[:3] == [
        ("info", "Sending a message"),
        ("info", "Run started with given"),
        ("info", "Model requested 2 tool call(s)"),
    ]
    assert sorted(messages[3:-1]) == [
        ("info", "tool_name=order | Tool started"),
        ("info", "tool_name=stock | Tool finished"),
        ("info", "tool_name=stock | Tool started"),
        ("warning", "tool_name=order | Tool ended with error | error_type=unavailable | the shop is closed"),
    ]
    assert messages[-1] == ("info", "Run ended: done")
    assert "secret" not in str(console.lines), "what people say stays out of the console"
    trace = window.page.request.get(f"{server.url}/traces/{correlation_id}")
    assert trace.ok and correlation_id in trace.text()

    second_window = windows.open_tab(window.page.context, window.page.url)
    replayed = Console(second_window)
    second_window.page.reload()
    expect(second_window.answer).to_have_text("It is closed.")
    assert replayed.lines == [], "what happened before is not told again"


def test_a_model_that_fails_is_told_as_a_warning(windows: Windows, server: Site) -> None:
    window = windows.open(server)
    console = Console(window)
    window.send("break")
    expect(window.thread.get_by_text("out of order").first).to_be_visible()
    expect(window.button("Stop")).to_be_hidden()
    warnings = [text.partition(" | ")[2] for level, text in console.lines if level == "warning"]
    assert "the provider is out of order" in warnings[0] and warnings[0].startswith("Model failed | error_type=")
    assert warnings[-1] == "Run ended: failed"
