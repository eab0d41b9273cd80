"""What somebody does on the first day with a server: read the page, ask something, approve a call.

The tools are those of the tutorial, taken from its page.
"""

import re
import urllib.request
from pathlib import Path

from playwright.sync_api import sync_playwright

from chromium import FLAGS, find_chromium
from cli.process import join_text, open_stream, read_until, request_json

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial" / "first-server.md"
TIMEOUT_S = 30.0


def write_tools(folder: Path) -> str:
    """Save the tools of the tutorial, and return the name of their file."""
    block = re.search(r"```python\n(.*?)```", TUTORIAL.read_text("utf-8"), re.DOTALL)
    assert block is not None
    (folder / "shop_tools.py").write_text(block[1], "utf-8")
    return "./shop_tools.py"


def read_page(url: str) -> None:
    """Load the page and the scripts and styles that it names."""
    with urllib.request.urlopen(f"{url}/", timeout=TIMEOUT_S) as answer:
        page = answer.read().decode()
    assets = re.findall(r'(?:src|href)="\./(assets/[^"]+)"', page)
    assert any(name.endswith(".js") for name in assets), page[:500]
    for name in assets:
        with urllib.request.urlopen(f"{url}/{name}", timeout=TIMEOUT_S) as answer:
            assert answer.status == 200 and answer.read()


def ask_for_stock(url: str) -> None:
    with open_stream(f"{url}/ai/respond", {"prompt": "how much sugar is there"}) as objects:
        received = list(objects)
    assert received[-1]["ending"] == "done" and join_text(received).startswith("20 kg"), received


def order_and_approve(url: str) -> str:
    """Ask for an order, approve its call and return the conversation, once the order was made."""
    with open_stream(f"{url}/ai/respond", {"prompt": "order 5 kg of sugar"}) as objects:
        call = read_until(objects, type="approval.required", name="order_material")["call_id"]
        done = read_until(objects, type="done", ending="waiting")
    conversation = str(done["conversation_id"])
    status, answer = request_json(f"{url}/conversations/{conversation}/calls/{call}/approve", {})
    assert status == 200, answer
    with open_stream(f"{url}/conversations/{conversation}/events") as objects:
        read_until(objects, type="done", ending="done")
    return conversation


def take_screenshot(url: str, conversation: str, file: Path) -> None:
    """Open the conversation in a browser, wait for the approved call, and save a picture of the page."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=[*FLAGS])
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.goto(f"{url}/#/chat/{conversation}")
        page.get_by_text("ordered 5 kg of sugar").first.wait_for(timeout=TIMEOUT_S * 1000)
        page.screenshot(path=file)
        browser.close()
