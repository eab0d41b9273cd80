"""What the documents show works as shown: every Python example is run, in the order of its page."""

import asyncio
import os
import re
import sys
from pathlib import Path

import pytest

from wire.strict_chat import StrictChat, asks, says

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)


async def ran(code: str, folder: Path, **environment: str) -> str:
    """The output of a program in a process of its own."""
    variables = {**os.environ, **environment}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, cwd=folder, env=variables, stdout=-1, stderr=-1
    )
    out, errors = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, errors.decode()
    return out.decode()


def blocks(page: str) -> list[str]:
    found = BLOCK.findall((ROOT / page).read_text())
    assert found, f"{page} has no Python example"
    return found


def test_the_first_tool_of_the_readme_answers_through_a_real_socket(tmp_path: Path) -> None:
    async def test() -> None:
        provider = StrictChat(
            asks(("search_materials", {"keyword": "flour"})), says("Two: bread flour ", "and cake flour.")
        )
        async with provider.serving() as base_url:
            out = await ran(blocks("README.md")[0], tmp_path, OPENAI_API_KEY="test", OPENAI_BASE_URL=base_url)
        assert out == "Two: bread flour and cake flour.\n"
        assert provider.refusals == [] and b"bread flour" in provider.bodies[1]

    asyncio.run(test())


def test_the_second_example_of_the_readme_asks_deletes_and_answers(tmp_path: Path) -> None:
    assert asyncio.run(ran(blocks("README.md")[1], tmp_path)) == "order 7 is gone\nOrder 7 is deleted."


@pytest.mark.parametrize("page", ["docs/library.md", "docs/mcp.md", "docs/mcp-server.md"])
def test_the_examples_of_a_page_run_one_after_the_other(page: str, tmp_path: Path) -> None:
    assert asyncio.run(ran("\n".join(blocks(page)), tmp_path)) == ""


def test_every_link_of_the_readme_leads_somewhere() -> None:
    links = re.findall(r"\]\((?!http)([^)#]+)\)", (ROOT / "README.md").read_text())
    assert links and [link for link in links if not (ROOT / link).exists()] == []
