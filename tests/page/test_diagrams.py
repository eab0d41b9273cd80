"""Diagrams in answers: drawn in a sandboxed frame once the answer is complete, and code where they cannot be."""

import socket
import threading
from collections.abc import Generator

import pytest
from playwright.sync_api import Frame, expect

from page.axe import run_axe
from page.site import HOLD, Site
from page.test_formulas import list_chunks
from page.test_hostile import EVIL
from page.window import Window, Windows
from toolyard.testing import Turn, say

FLOW = "flowchart LR\n  A[Order] --> B{In stock?}\n  B -- yes --> C[Ship]\n  B -- no --> D[Wait]"
SEQUENCE = "sequenceDiagram\n  Ann->>Bob: Hello\n  Bob-->>Ann: Good day"
CHART = 'pie title Pets\n  "Dogs" : 3\n  "Cats" : 5'
WRONG = "flowchart LR\n  A --"
LONG = "flowchart LR\n" + "\n".join(f"  A{number} --> B{number}" for number in range(2000))


def fence(source: str) -> str:
    return f"```mermaid\n{source}\n```"


def hostile_sources(foreign: str) -> list[str]:
    return [
        f'flowchart LR\n  A["{EVIL}"] --> B["<a href=\'javascript:window.pwned=1\'>x</a>"]',
        'flowchart LR\n  A[Click] --> B\n  click A "javascript:parent.pwned=1" _top\n  click B call alert("pwned")',
        f'flowchart LR\n  A[Link]\n  click A href "{foreign}/link" _self',
        '%%{init: {"securityLevel": "loose", "secure": [], "flowchart": {"htmlLabels": true}}}%%\n'
        f'flowchart LR\n  A["{EVIL}"]\n  click A call eval("parent.pwned = 1")',
        f'%%{{init: {{"themeCSS": "@import url({foreign}/a.css); * {{ background: url({foreign}/b.png) }}"}}}}%%\n'
        f"{FLOW}",
        f'---\nconfig:\n  themeCSS: "svg {{ background: url({foreign}/c.png) }}"\n  securityLevel: loose\n---\n{FLOW}',
        f'flowchart LR\n  A@{{ img: "{foreign}/d.png", label: "far", w: 60, h: 60 }}\n  A --> B',
        f'flowchart LR\n  A["<img src={foreign}/e.png>"]\n  style A fill:url({foreign}/f.svg#x)',
        f"sequenceDiagram\n  participant Ann\n  link Ann: Far @ {foreign}/g\n  Ann->>Ann: <iframe src={foreign}/h>",
        f'classDiagram\n  class Shape\n  link Shape "{foreign}/i" "tip"\n  callback Shape "eval" "tip"',
    ]


class ForeignServer:
    """A port that belongs to somebody else, and counts who connects."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self.connections = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self.connections += 1
            connection.close()

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def foreign() -> Generator[ForeignServer]:
    foreign_server = ForeignServer()
    yield foreign_server
    foreign_server.close()


SCENES: dict[str, list[Turn]] = {
    "diagrams": [say("Look:\n\n", *(f"{fence(source)}\n\n" for source in (FLOW, SEQUENCE, CHART)), "The end.")],
    "slowly": [say(f"{fence(FLOW)}\n\nand ", HOLD, "so on.")],
    "wrong": [say(f"{fence(WRONG)}\n\n{fence(LONG)}\n\nThe end.")],
}
TOOLS: list[object] = []


def list_frames(window: Window) -> list[Frame]:
    return [frame for frame in window.page.frames if frame.url.endswith("/diagram")]


@pytest.mark.parametrize(("width", "dark"), [(1200, True), (375, False)], ids=["desktop-dark", "phone-light"])
def test_diagrams_are_drawn_and_loaded_when_the_first_is_met(
    windows: Windows, server: Site, width: int, dark: bool
) -> None:
    window = windows.open(server, width=width, dark=dark)
    page = window.page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    window.send("hello")
    expect(window.answer).to_have_text("You said: hello")
    assert "Diagram" not in list_chunks(window) and not list_frames(window)
    window.send("diagrams")
    expect(window.answer).to_contain_text("The end.")
    expect(window.answer.locator(".diagram[data-drawn]")).to_have_count(3)
    expect(window.answer.locator("pre")).to_have_count(0)
    flow = page.frame_locator('iframe[title^="Diagram: flowchart LR A[Order]"]')
    expect(flow.locator("svg")).to_contain_text("In stock?")
    # The frame is as high as its diagram, and no wider than the page.
    for frame in list_frames(window):
        frame.wait_for_function("() => document.documentElement.scrollHeight <= innerHeight")
        assert run_axe(frame, "svg") == []
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    label = flow.locator("svg .nodeLabel").first
    text_brightness: int = label.evaluate("(one) => +getComputedStyle(one).color.match(/\\d+/)[0]")
    assert text_brightness > 150 if dark else text_brightness < 100
    assert run_axe(window.page) == []
    window.button("Copy source").first.click()
    assert window.read_clipboard("flowchart") == FLOW


def test_a_diagram_is_code_until_the_answer_is_complete_and_follows_the_colours_of_the_page(
    windows: Windows, server: Site
) -> None:
    window = windows.open(server, dark=True)
    window.send("slowly")
    expect(window.answer).to_contain_text("and")
    expect(window.answer.locator("pre")).to_have_text(FLOW)
    assert not list_frames(window)
    server.resume()
    label = window.page.frame_locator(".diagram[data-drawn] iframe").locator("svg .nodeLabel").first
    expect(label).to_have_css("color", "rgb(235, 232, 226)")  # that of the page's own text
    window.page.get_by_role("button", name="Theme: System").click()
    expect(label).to_have_css("color", "rgb(36, 33, 28)")


def test_what_cannot_be_drawn_is_code_that_says_so(windows: Windows, server: Site) -> None:
    window = windows.open(server)
    window.send("wrong")
    expect(window.answer).to_contain_text("The end.")
    expect(window.answer).to_contain_text("mermaid (cannot be drawn)")
    expect(window.answer).to_contain_text("mermaid (too long to be drawn)")
    expect(window.answer.locator("pre").first).to_have_text(WRONG)
    expect(window.answer.locator("iframe")).to_have_count(0)


def test_a_diagram_runs_nothing_and_loads_nothing(windows: Windows, server: Site, foreign: ForeignServer) -> None:
    windows.expected_complaint = "Content Security Policy"
    sources = hostile_sources(foreign.url)
    server.scenes = {**server.scenes, "hostile": [say("\n\n".join([*map(fence, sources), "The end."]))]}
    window = windows.open(server)
    window.send("hostile")
    expect(window.answer).to_contain_text("The end.")
    # Each is drawn, or is code again.
    settled = window.answer.locator(".diagram[data-drawn], .code:has-text('cannot be drawn')")
    expect(settled).to_have_count(len(sources))
    frames = list_frames(window)
    assert len(frames) >= 6
    for frame in frames:
        assert frame.evaluate("() => origin === 'null' && window.pwned === undefined")
        assert frame.locator("a[href], script, iframe, img, image").count() == 0
        for node in frame.locator("svg .clickable, svg .node, svg a").all()[:3]:
            node.dispatch_event("click")
        assert frame.url.endswith("/diagram")
        # The frame reaches neither the page nor the server, even for a script that got into it.
        assert frame.evaluate("() => fetch('/me').then(() => 'answered', () => 'refused')") == "refused"
        assert frame.evaluate("() => { try { return parent.document.title } catch { return 'refused' } }") == "refused"
    sandboxes: list[str] = window.page.evaluate(
        "() => [...document.querySelectorAll('iframe')].map((one) => one.sandbox.value)"
    )
    assert set(sandboxes) == {"allow-scripts"}
    assert window.page.evaluate("() => window.pwned === undefined")
    assert foreign.connections == 0
    # The browser tells of a request that its policy refused, as of one that was made.
    windows.complaints = [complaint for complaint in windows.complaints if foreign.url not in complaint]
