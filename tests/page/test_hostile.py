"""What tools, servers and models send is shown, never obeyed, and what cannot be drawn takes nothing else with it."""

from collections.abc import Sequence

import pytest
from playwright.sync_api import expect
from pydantic import BaseModel

from page.site import Site
from page.window import Window, Windows
from toolyard import tool
from toolyard.core.items import Citation, ImagePart, ModelText, TextPart, UserMessage
from toolyard.testing import call, say

EVIL = "<img src=x onerror='window.pwned = 1'><script>window.pwned = 1</script>"
SVG = "data:image/svg+xml;base64,PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciLz4="
MARKDOWN = f"""{EVIL}

[one](javascript:window.pwned=1) [two](data:text/html,<script>1</script>) [three](vbscript:x)

<javascript:window.pwned=1>

<iframe src="javascript:window.pwned=1"></iframe><svg onload="window.pwned=1"><form action="https://elsewhere.example">

![{EVIL}]({SVG}) ![far](https://elsewhere.example/x.png)

<a href="javascript:window.pwned=1" onclick="window.pwned=1">x</a>

```"><img src=x onerror=window.pwned=1>
</code></pre>{EVIL}
```

| a | {EVIL} |
|---|---|
| [x](javascript:window.pwned=1) | {EVIL} |

The end."""
FIND_UNSAFE = """() => [...document.querySelectorAll("*")].flatMap((one) => [
    ...[...one.attributes].filter((at) => at.name.startsWith("on")
        || /^\\s*(?:javascript|vbscript|data:text)/i.test(at.value)).map((at) => `${one.nodeName} ${at.name}`),
    ...(["IFRAME", "OBJECT", "EMBED", "FORM"].includes(one.nodeName) && one.closest(".thread") ? [one.nodeName] : []),
])"""
"""Attributes and elements that would do something."""


class Node(BaseModel):
    name: str
    child: "Node | None" = None


@tool(idempotent=True, examples=[EVIL])
def evil(kind: str) -> object:
    """<img src=x onerror='window.pwned = 1'>: what it gives is made to be clicked on."""
    return {
        "links": [{"url": "javascript:window.pwned=1", "title": EVIL}, {"url": "https://a.example/", "title": EVIL}],
        "table": [{EVIL: EVIL, "link": "javascript:window.pwned=1"}],
        "picture": {"type": "image", "url": SVG},
        "text": EVIL,
    }[kind]


@tool(idempotent=True)
def plant(tree: Node, place: str = "garden") -> str:
    """A tree in a tree in a tree."""
    return tree.name


@tool(idempotent=True)
def much() -> str:
    """More than anybody reads."""
    return "[" * 200_000


TOOLS = [evil, plant, much]
SCENES = {
    "words": [say(MARKDOWN)],
    EVIL: [say("You said it.")],
    "much": [call("much"), say("That was much.")],
    **{kind: [call("evil", kind=kind), say("Look.")] for kind in ("links", "table", "picture", "text")},
}


def check_harmless(window: Window) -> None:
    unsafe: Sequence[str] = window.page.evaluate(FIND_UNSAFE)
    assert list(unsafe) == []
    assert window.page.evaluate("() => window.pwned === undefined")


@pytest.mark.parametrize("kind", ["links", "table", "picture", "text"])
def test_what_a_tool_gives_is_drawn_and_does_nothing(windows: Windows, server: Site, kind: str) -> None:
    window = windows.open(server)
    window.send(kind)
    expect(window.answer).to_have_text("Look.")
    window.card("evil").get_by_role("button").first.click()
    expect(window.card("evil")).to_contain_text("in this server")
    check_harmless(window)


def test_what_a_model_writes_is_clean_html(windows: Windows, server: Site) -> None:
    window = windows.open(server)
    window.send("words")
    expect(window.answer).to_contain_text("The end.")
    expect(window.answer.locator("img")).to_have_count(0)
    check_harmless(window)


def test_a_title_and_sources_are_texts(windows: Windows, server: Site) -> None:
    places = ("javascript:window.pwned=1", "https://a.example/", "https://a.example/", f"https://b.example/{EVIL}")
    cited = tuple(Citation(start=0, end=4, url=url, title=EVIL, quote=EVIL) for url in places)
    conversation = server.create_conversation(
        EVIL,
        UserMessage(id="a", at=0, parts=(TextPart(text=EVIL), ImagePart(url="javascript:window.pwned=1"))),
        ModelText(id="b", at=0, text="It is so.", citations=cited),
    )
    window = windows.open(server)
    window.page.goto(f"{server.url}/#/chat/{conversation}")
    expect(window.answer).to_have_text("It is so.")
    sources = window.page.get_by_role("list", name="Sources").get_by_role("link")
    expect(sources).to_have_count(1)
    expect(sources).to_have_attribute("href", "https://a.example/")
    check_harmless(window)


def test_a_schema_that_refers_to_itself_has_a_form_with_an_end(windows: Windows, server: Site) -> None:
    window = windows.open(server)
    window.page.goto(f"{server.url}/#/tools/plant")
    form = window.page.get_by_role("group", name="tree")
    expect(form.get_by_role("textbox", name="name")).to_have_count(3)
    expect(form.get_by_role("textbox", name="child")).to_have_count(1)
    form.get_by_role("textbox", name="name").first.fill("oak")
    window.button("Call plant").click()
    expect(window.card("plant")).to_contain_text("oak")
    check_harmless(window)


def test_a_result_without_end_or_sense_is_shown_as_a_text(windows: Windows, server: Site) -> None:
    window = windows.open(server)
    window.send("much")
    expect(window.answer).to_have_text("That was much.")
    window.card("much").get_by_role("button").first.click()
    expect(window.card("much")).to_contain_text("in this server")
