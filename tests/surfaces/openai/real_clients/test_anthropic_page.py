"""The page on Anthropic clients is true: what it shows of each client gets an answer."""

import re
from pathlib import Path

import pytest

from real_servers import find_node, install_npm_package
from surfaces.openai.clients import serve_script
from surfaces.openai.real_clients.processes import ROOT
from surfaces.openai.real_clients.test_page import ANSWER, SECTION, URL, run_command
from toolyard.testing import say

PAGE = (ROOT / "docs" / "how-to" / "anthropic-clients.md").read_text("utf-8")
SNIPPETS = {name: (language, code) for name, language, code in SECTION.findall(PAGE)}
PYTHON_CLIENTS = {
    "anthropic": "Anthropic SDK for Python",
    "langchain-anthropic": "LangChain",
    "pydantic-ai": "Pydantic AI",
}
"""The names of packages on the page. `test_anthropic_clients.py` runs what it shows of them."""
IN_JAVASCRIPT = ("Anthropic SDK for JavaScript", "AI SDK")
CLAUDE_CODE = "Claude Code"
"""Tested by `try_claude_code.py`: it takes 350 MB."""


def read_snippet(name: str, language: str, url: str) -> str:
    """Return what the page shows of a client, with the address of a server."""
    shown_language, code = SNIPPETS[name]
    assert shown_language == language and URL in code
    return code.replace(URL, url)


def test_every_client_of_the_page_is_tested() -> None:
    assert set(SNIPPETS) == {*PYTHON_CLIENTS.values(), *IN_JAVASCRIPT, CLAUDE_CODE}
    assert set(re.findall(r"^### (.+)$", PAGE, re.MULTILINE)) == set(SNIPPETS)


@pytest.mark.parametrize("name", IN_JAVASCRIPT)
async def test_a_javascript_client_gets_an_answer(name: str, tmp_path: Path) -> None:
    (tmp_path / "node_modules").symlink_to(install_npm_package("openai").parent)
    async with serve_script([say(ANSWER)]) as served:
        (tmp_path / "example.mjs").write_text(read_snippet(name, "js", served.url))
        assert await run_command(find_node()[0], "example.mjs", folder=tmp_path) == f"{ANSWER}\n"


async def test_curl_gets_an_answer(tmp_path: Path) -> None:
    command, *_ = re.findall(r"^```\n(curl .*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    async with serve_script([say(ANSWER)]) as served:
        assert ANSWER in await run_command("sh", "-c", command.replace(URL, served.url), folder=tmp_path)
