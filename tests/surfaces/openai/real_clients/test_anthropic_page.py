"""The page on Anthropic clients is true: what it shows of each client gets an answer."""

import os
import re
from pathlib import Path

import pytest

from real_servers import find_node, install_npm_package
from surfaces.openai.clients import list_exchange, serve_model, serve_script
from surfaces.openai.real_clients.processes import PYTHON, ROOT
from surfaces.openai.real_clients.test_page import ANSWER, SECTION, URL, run_command
from toolyard.core.items import Result
from toolyard.core.ports import ModelRequest
from toolyard.testing import Scripted, Turn, call, say

PAGE = (ROOT / "docs" / "how-to" / "anthropic-clients.md").read_text("utf-8")
SNIPPETS = {name: (language, code) for name, language, code in SECTION.findall(PAGE)}
IN_PYTHON = ("Anthropic SDK for Python", "LangChain", "Pydantic AI")
IN_JAVASCRIPT = ("Anthropic SDK for JavaScript", "AI SDK")
CLAUDE_CODE_S = 120.0


def read_snippet(name: str, language: str, url: str) -> str:
    """Return what the page shows of a client, with the address of a server."""
    shown_language, code = SNIPPETS[name]
    assert shown_language == language and URL in code
    return code.replace(URL, url)


def test_every_client_of_the_page_is_tested() -> None:
    assert set(SNIPPETS) == {*IN_PYTHON, *IN_JAVASCRIPT, "Claude Code"}
    assert set(re.findall(r"^### (.+)$", PAGE, re.MULTILINE)) == set(SNIPPETS)


@pytest.mark.parametrize("name", IN_PYTHON)
async def test_a_python_client_gets_an_answer(name: str, tmp_path: Path) -> None:
    async with serve_script([say(ANSWER)]) as served:
        code = read_snippet(name, "python", served.url)
        assert await run_command(str(PYTHON), "-c", code, folder=tmp_path) == f"{ANSWER}\n"


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


async def test_claude_code_runs_its_own_tool_and_gets_an_answer(tmp_path: Path) -> None:
    def answer(request: ModelRequest) -> Turn:
        if any(isinstance(item, Result) for item in request.history):
            return say(ANSWER)
        return call("Bash", command="echo two litres", description="Look for milk")

    program = install_npm_package("@anthropic-ai/claude-code").parent.parent / ".bin" / "claude"
    words = [str(program), "-p", "Is there enough milk?", "--allowedTools", "Bash"]
    async with serve_model(Scripted(answer), timeout_s=CLAUDE_CODE_S) as served:
        variables = dict(line.split("=", 1) for line in read_snippet("Claude Code", "ini", served.url).split())
        # It uses no network but ours: a proxy that does not exist stands before all other addresses.
        output = await run_command(
            *words,
            folder=tmp_path,
            **variables,
            HOME=str(tmp_path),
            PATH=f"{Path(find_node()[0]).parent}:{os.environ['PATH']}",
            CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
            HTTPS_PROXY="http://127.0.0.1:9",
            NO_PROXY="127.0.0.1",
        )
    assert output.strip() == ANSWER
    requests = [request for request in served.model.requests if request.offer.tools]
    (bash_call, bash_result), *_ = [found for request in requests if (found := list_exchange(request.history))]
    assert bash_call.startswith("Bash['echo two litres'") and "two litres" in bash_result
