"""Checks of a document by axe, which finds what keeps people out."""

from collections.abc import Sequence
from pathlib import Path

from playwright.sync_api import Frame, Page

from surfaces.api_client import Json

AXE = Path(__file__).parents[2] / "web" / "node_modules" / "axe-core" / "axe.min.js"

COLOUR_RULES = ("color-contrast", "link-in-text-block")


def run_axe(document: Page | Frame, root: str = "", rules: Sequence[str] = ()) -> list[str]:
    """What axe finds in a document as it is, of any level, or only below an element, or only by some rules."""
    if not document.evaluate("() => 'axe' in window"):
        document.evaluate(f"() => {{ {AXE.read_text('utf-8')} }}")
    # Frames are sandboxed, so that axe cannot look into them from outside: it is run in each.
    options: Json = {"resultTypes": ["violations"], "iframes": False, "preload": False}
    if rules:
        options["runOnly"] = {"type": "rule", "values": list(rules)}
    report: Json = document.evaluate("([root, options]) => axe.run(root || document, options)", [root, options])
    return [
        f"{violation['id']}: {node['html'][:120]}" for violation in report["violations"] for node in violation["nodes"]
    ]
