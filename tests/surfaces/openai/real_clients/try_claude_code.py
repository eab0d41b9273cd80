"""Claude Code as the page on Anthropic clients sets it up, run by `make test-claude-code`: it takes 350 MB."""

import os
import subprocess
from pathlib import Path

from real_servers import find_node
from surfaces.openai.clients import list_exchange, serve_model
from surfaces.openai.real_clients.processes import ROOT
from surfaces.openai.real_clients.test_anthropic_page import CLAUDE_CODE, read_snippet
from surfaces.openai.real_clients.test_page import ANSWER, run_command
from toolyard.core.items import Result
from toolyard.core.ports import ModelRequest
from toolyard.testing import Scripted, Turn, call, say

PACKAGE = "@anthropic-ai/claude-code@2.1.326"
INSTALL_FOLDER = ROOT / "build" / "claude-code"
INSTALL_S, ANSWER_S = 600.0, 120.0


def install() -> Path:
    """Install Claude Code if need be, and return its program."""
    program = INSTALL_FOLDER / "node_modules" / ".bin" / "claude"
    if not program.exists():
        INSTALL_FOLDER.mkdir(parents=True, exist_ok=True)
        command = [*find_node(), "install", "--no-audit", "--no-fund", "--prefix", str(INSTALL_FOLDER), PACKAGE]
        subprocess.run(command, check=True, timeout=INSTALL_S)
    return program


async def test_claude_code_runs_its_own_tool_and_gets_an_answer(tmp_path: Path) -> None:
    def answer(request: ModelRequest) -> Turn:
        if any(isinstance(item, Result) for item in request.history):
            return say(ANSWER)
        return call("Bash", command="echo two litres", description="Look for milk")

    words = [str(install()), "-p", "Is there enough milk?", "--allowedTools", "Bash"]
    async with serve_model(Scripted(answer), timeout_s=ANSWER_S) as served:
        variables = dict(line.split("=", 1) for line in read_snippet(CLAUDE_CODE, "ini", served.url).split())
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
