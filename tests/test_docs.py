"""What the documents show works as shown: every Python example is run, in the order of its page."""

import asyncio
import os
import re
import sys
from pathlib import Path

import pytest

from client.drivers import build_package, node
from surfaces.served import served
from toolyard import Scripted, Yard, call, say
from wire.messages_streams import cited, search, searched
from wire.strict import Reply
from wire.strict_chat import StrictChat, asks, says
from wire.strict_messages import StrictMessages, begins, ends

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)


async def ran(code: str, folder: Path, **environment: str) -> str:
    """The output of a Python program."""
    return await output(sys.executable, "-c", code, folder=folder, **environment)


async def output(*command: str, folder: Path, **environment: str) -> str:
    """The output of a program in a process of its own."""
    variables = {**os.environ, **environment}
    process = await asyncio.create_subprocess_exec(*command, cwd=folder, env=variables, stdout=-1, stderr=-1)
    out, errors = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, (out.decode(), errors.decode())
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


@pytest.mark.proves("002.native-needs-no-mcp", "002.native-answer")
def test_the_page_on_searching_shows_what_comes_of_a_native_one(tmp_path: Path) -> None:
    async def test() -> None:
        provider = StrictMessages(
            Reply(packets=[begins(), search(0, "srvtoolu_1"), searched(1, "srvtoolu_1"), cited(2, "It is so."), ends()])
        )
        native, own = blocks("docs/how-to/web-search.md")
        async with provider.serving() as base_url:
            out = await ran(native, tmp_path, ANTHROPIC_API_KEY="test", ANTHROPIC_BASE_URL=base_url)
        assert provider.refusals == [] and len(provider.bodies) == 1
        first, second, _ = out.split("\n")
        assert first.startswith("It is so. 1 ") and first.endswith("https://a.org")
        assert second == "[('web_search', 'provider', 'anthropic')]"
        assert await ran(own, tmp_path) == ""

    asyncio.run(test())


@pytest.mark.parametrize(
    "page",
    ["docs/tutorial/library.md", "docs/how-to/many-tools.md", "docs/how-to/mcp-servers.md", "docs/how-to/mcp-hosts.md"],
)
def test_the_examples_of_a_page_run_one_after_the_other(page: str, tmp_path: Path) -> None:
    assert asyncio.run(ran("\n".join(blocks(page)), tmp_path)) == ""


ADDED = [call("search_products", query="milk"), call("add_to_cart", code="M1"), say("Added ", "milk.")]
SHOWN = "[search_products]\n[add_to_cart]\nAdded milk.\n"


def test_the_python_of_the_page_on_app_tools_runs_against_a_server(tmp_path: Path) -> None:
    async def test() -> None:
        model = Scripted([*ADDED, call("get_cart"), say("Milk.")])
        async with Yard(model=model) as yard, served(yard) as url:
            assert (
                await ran("\n".join(blocks("docs/tutorial/app-tools.md")), tmp_path, TOOLYARD_URL=url)
                == f"{SHOWN}Milk.\n"
            )

    asyncio.run(test())


def test_the_typescript_of_the_page_on_app_tools_fits_the_types_and_runs_against_a_server(tmp_path: Path) -> None:
    build_package()
    (code,) = re.findall(r"```ts\n(.*?)```", (ROOT / "docs/tutorial/app-tools.md").read_text(), re.DOTALL)
    (tmp_path / "node_modules" / "@toolyard").mkdir(parents=True)
    (tmp_path / "node_modules" / "@toolyard" / "client").symlink_to(ROOT / "web" / "client")
    (tmp_path / "example.mts").write_text(code)
    (tmp_path / "node.d.ts").write_text(NODE_TYPES)
    options = ["--noEmit", "--strict", "--target", "es2022", "--module", "esnext", "--moduleResolution", "bundler"]

    async def test() -> None:
        compiler = ROOT / "web" / "client" / "node_modules" / "typescript" / "bin" / "tsc"
        assert await output(node(), str(compiler), *options, "example.mts", "node.d.ts", folder=tmp_path) == ""
        async with Yard(model=Scripted(ADDED)) as yard, served(yard) as url:
            run = output(
                node(), "--disable-warning=ExperimentalWarning", "example.mts", folder=tmp_path, TOOLYARD_URL=url
            )
            assert await run == SHOWN

    asyncio.run(test())


NODE_TYPES = """declare const process: {
  env: Record<string, string | undefined>;
  stdout: { write(text: string): void };
};
"""


def test_every_link_of_the_readme_leads_somewhere() -> None:
    links = re.findall(r"\]\((?!http)([^)#]+)\)", (ROOT / "README.md").read_text())
    assert links and [link for link in links if not (ROOT / link).exists()] == []


def test_whoever_is_told_to_install_something_is_told_how_from_a_clone() -> None:
    """There is no release: `pip install toolyard` would find nothing, or something else."""
    released, cloned = re.compile(r"pip install '?toolyard|npm install @toolyard"), re.compile(r"\bclone\b")
    pages = [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("examples/**/*.md"),
        *ROOT.glob("web/client/*.md"),
    ]
    sources = [*ROOT.glob("src/**/*.py"), *ROOT.glob("examples/**/*.py")]
    for file in {*pages, *sources} - {ROOT / "CHANGELOG.md"}:
        paragraphs = file.read_text("utf-8").split("\n\n")
        assert not [text for text in paragraphs if released.search(text) and not cloned.search(text)], file
