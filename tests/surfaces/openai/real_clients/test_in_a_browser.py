"""Other people's clients of `/v1` in a page of another, allowed origin, in a real browser."""

import shutil
import subprocess
from pathlib import Path

import pytest

from examples.browser import launch_browser
from real_servers import find_node, install_npm_package
from surfaces.openai.real_clients.processes import DRIVERS, ROOT
from surfaces.other_origin import ANN, open_page_of_another_origin

BUNDLER = ROOT / "web" / "node_modules" / "rolldown" / "bin" / "cli.mjs"
BUNDLE_S = 60
ASK = "([client, url, key]) => window.clients[client](`${url}/v1`, key)"


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a script for a page, with the clients as a bundler puts them together."""
    folder = tmp_path_factory.mktemp("page")
    (folder / "node_modules").symlink_to(install_npm_package("openai").parent)
    shutil.copy(DRIVERS / "browser_clients.mjs", folder)
    command = [
        find_node()[0],
        str(BUNDLER),
        "browser_clients.mjs",
        "--platform=browser",
        "--format=iife",
        "--file=page.js",
    ]
    subprocess.run(command, cwd=folder, check=True, timeout=BUNDLE_S, stdout=subprocess.DEVNULL)
    return folder / "page.js"


async def test_a_page_of_a_listed_origin_streams_a_chat_completion_and_gets_a_response(script: Path) -> None:
    async with launch_browser() as browser:
        for client in ("openai", "ai-sdk"):
            async with open_page_of_another_origin(browser, keys=[ANN]) as (page, backend):
                await page.add_script_tag(path=script)
                assert await page.evaluate(ASK, [client, backend.url, "ann-secret"]) == ["ok", "ok"]
                paths = ("/v1/chat/completions", "/v1/responses")
                assert backend.requests == [(method, path) for path in paths for method in ("OPTIONS", "POST")]
