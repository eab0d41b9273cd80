"""The page for those who come from a framework is true: its programs get an answer with the frameworks themselves."""

import re
from collections.abc import Awaitable, Callable
from pathlib import Path

from surfaces.openai.clients import list_exchange, serve_script
from surfaces.openai.real_clients.processes import PYTHON, ROOT
from surfaces.openai.real_clients.test_page import ANSWER, URL, run_command
from toolyard.testing import Script, call, say

PAGE = (ROOT / "docs" / "coming-from" / "frameworks.md").read_text("utf-8")
SECTION = re.compile(r"^## (.+?)\n(?:(?!^#).)*?^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
PROGRAMS = dict(SECTION.findall(PAGE))
SCRIPTS: dict[str, Script] = {
    "LiteLLM": [say(ANSWER)],
    "LangGraph": [say(ANSWER)],
    "OpenAI Agents": [call("shop_of", item="milk"), say(ANSWER)],
}


RUN_BY_DRIVERS = {"openai-agents": "OpenAI Agents", "litellm": "LiteLLM"}
"""The packages whose programs `test_real_clients.py` runs in the processes that drive them."""


async def test_the_program_for_langgraph_gets_an_answer(tmp_path: Path) -> None:
    assert PROGRAMS.keys() == SCRIPTS.keys() == {"LangGraph", *RUN_BY_DRIVERS.values()}
    await check_program("LangGraph", lambda program: run_command(str(PYTHON), "-c", program, folder=tmp_path))


async def check_program(name: str, run_program: Callable[[str], Awaitable[str]]) -> None:
    """Check that a program of the page gets its answer."""
    assert URL in PROGRAMS[name]
    async with serve_script(SCRIPTS[name]) as served:
        assert await run_program(PROGRAMS[name].replace(URL, served.url)) == f"{ANSWER}\n"
        exchange = list_exchange(served.model.requests[-1].history)
        assert any("the dairy" in item for item in exchange) == (name == "OpenAI Agents")
