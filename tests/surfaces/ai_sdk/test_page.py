"""The page on the AI SDK is true: its example gets an answer, and its component uses names that exist."""

import asyncio
import re
from pathlib import Path

from real_servers import find_node, install_npm_package
from surfaces.api_client import build_yard
from surfaces.http_server import serve_yard
from toolyard.testing import say

URL = "http://127.0.0.1:8080"
ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "how-to" / "ai-sdk.md").read_text("utf-8")
RUN_S = 60


def read_snippet(language: str) -> str:
    (code,) = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    assert URL in code
    return code


async def run_node(script: Path) -> str:
    process = await asyncio.create_subprocess_exec(find_node()[0], script.name, cwd=script.parent, stdout=-1, stderr=-1)
    out, errors = await asyncio.wait_for(process.communicate(), RUN_S)
    assert process.returncode == 0, (out.decode(), errors.decode())
    return out.decode()


async def test_the_example_without_a_framework_gets_an_answer(tmp_path: Path) -> None:
    (tmp_path / "node_modules").symlink_to(install_npm_package("ai").parent)
    async with build_yard([say("Milk is on ", "the list.")]) as yard, serve_yard(yard) as url:
        script = tmp_path / "example.mjs"
        script.write_text(read_snippet("js").replace(URL, url))
        assert await run_node(script) == "Milk is on the list.\n"


async def test_the_component_uses_what_the_package_has(tmp_path: Path) -> None:
    """Its names only: no page is built."""
    (tmp_path / "node_modules").symlink_to(install_npm_package("ai").parent)
    (names,) = re.findall(r"^import \{ (.*?) \} from \"ai\";", read_snippet("jsx"), re.MULTILINE)
    script = tmp_path / "names.mjs"
    script.write_text(f'import {{ {names} }} from "ai";\nconsole.log([{names}].every(Boolean));\n')
    assert await run_node(script) == "true\n"
