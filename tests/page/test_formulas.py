"""Formulas in answers: drawn once they are complete, loaded when the first is met, and shown as source if wrong."""

from playwright.sync_api import expect

from page.site import HOLD, Site
from page.test_hostile import EVIL, check_harmless
from page.window import Window, Windows
from toolyard.testing import say

WRONG = "$\\frac{1$"
HOSTILE = [
    f"$\\text{{{EVIL}}}$",
    "$\\href{javascript:window.pwned=1}{x}$",
    "$\\url{javascript:window.pwned=1}$",
    "$\\includegraphics{https://elsewhere.example/x.png}$",
    '$\\htmlStyle{position:fixed}{x} \\htmlData{a=b}{x} \\htmlId{page}{x} \\htmlClass{"onclick=1}{x}$',
    "$\\unicode{x3c}\\char`<img src=x onerror=window.pwned=1>$",
    f"$</var>{EVIL}$",
    f"$$</math></annotation><style><!--</style>{EVIL}-->$$",
    "\\(\\def\\a{\\a\\a}\\a\\)",
    "$\\rule{9999em}{9999em}$",
    "\\[" + "{" * 500 + "\\]",
    f"$\\mbox{{</mtext><mglyph><style></math>{EVIL}}}$",
]
SCENES = {
    "formulas": [
        say("It is $E = mc^2$, not $5 or $6.\n\n$$\n\\sum_{i=1}^n\n+ i_1\n$$\n\n- \\(a_1\\)\n\n`$x$`\n\n", WRONG)
    ],
    "slowly": [say("Well, $a^", "2$ is ", HOLD, "it.")],
    "hostile": [say("\n\n".join([*HOSTILE, "The end."]))],
}
TOOLS: list[object] = []
FIND_LARGE = "() => [...document.querySelectorAll('math *')].some((one) => one.getBoundingClientRect().height > 1000)"


def list_chunks(window: Window) -> list[str]:
    """The names of the page's files that were loaded, without their hashes."""
    names: list[str] = window.page.evaluate(
        "() => performance.getEntriesByType('resource').map((one) => one.name.split('/').pop())"
    )
    return [name.partition("-")[0] for name in names if name.endswith(".js")]


def test_formulas_are_drawn_and_their_chunk_is_loaded_when_the_first_is_met(windows: Windows, server: Site) -> None:
    window = windows.open(server, width=375)
    window.send("hello")
    expect(window.answer).to_have_text("You said: hello")
    assert "math" not in list_chunks(window)
    window.send("formulas")
    formulas = window.answer.locator("math")
    expect(formulas).to_have_count(3)
    assert "math" in list_chunks(window)
    expect(formulas.nth(0).locator("msup")).to_have_text("c2")
    expect(formulas.nth(1)).to_have_attribute("display", "block")
    expect(formulas.nth(1).locator("munderover")).to_be_visible()
    expect(window.answer.locator("li math")).to_have_text("a1")
    expect(window.answer).to_contain_text("not $5 or $6.")
    expect(window.answer.locator("code")).to_have_text("$x$")
    expect(window.answer).to_contain_text(WRONG)
    assert window.page.evaluate("() => document.documentElement.scrollWidth") <= 375


def test_a_formula_is_source_while_its_paragraph_grows(windows: Windows, server: Site) -> None:
    window = windows.open(server)
    window.send("slowly")
    expect(window.answer).to_contain_text("$a^2$ is")
    expect(window.answer.locator("math")).to_have_count(0)
    server.resume()
    expect(window.answer.locator("math msup")).to_have_text("a2")


def test_a_formula_does_nothing_but_show_itself(windows: Windows, server: Site) -> None:
    window = windows.open(server)
    window.send("hostile")
    expect(window.answer).to_contain_text("The end.")
    expect(window.answer.locator("math").first).to_be_attached()
    # The source is shown for what is no formula, and no formula has an element or attribute of HTML.
    expect(window.answer).to_contain_text("\\href{javascript:window.pwned=1}{x}")
    attributes: list[str] = window.answer.evaluate(
        "(answer) => [...answer.querySelectorAll('math, math *')].flatMap((one) => one.getAttributeNames())"
    )
    assert not {"style", "class", "id", "href", "src", "data-a"} & set(attributes)
    expect(window.answer.locator("math :is(img, style, script, a, mglyph, annotation)")).to_have_count(0)
    expect(window.answer.locator("img")).to_have_count(0)
    assert not window.page.evaluate(FIND_LARGE)
    check_harmless(window)
