"""The page for those who come from a framework is true: its programs get an answer with the frameworks themselves."""

import re
from pathlib import Path

import pytest

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


@pytest.mark.parametrize("name", SCRIPTS)
async def test_a_program_of_the_page_gets_an_answer(name: str, tmp_path: Path) -> None:
    assert PROGRAMS.keys() == SCRIPTS.keys() and URL in PROGRAMS[name]
    async with serve_script(SCRIPTS[name]) as served:
        code = PROGRAMS[name].replace(URL, served.url)
        assert await run_command(str(PYTHON), "-c", code, folder=tmp_path) == f"{ANSWER}\n"
        exchange = list_exchange(served.model.requests[-1].history)
        assert any("the dairy" in item for item in exchange) == (name == "OpenAI Agents")
