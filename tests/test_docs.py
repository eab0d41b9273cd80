"""The documentation is true: its examples run, its links lead somewhere, and the files that it names exist."""

import asyncio
import importlib.util
import os
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from client.drivers import build_package, node_path
from surfaces.http_server import connect_client, serve_yard
from toolyard import Yard
from toolyard.testing import Scripted, call, say
from toolyard.venues.function import as_tool
from wire.messages_streams import encode_cited_text, encode_search, encode_search_result
from wire.strict import Reply
from wire.strict_chat import StrictChat, asks, says
from wire.strict_messages import StrictMessages, encode_end, encode_start

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "toolyard"
PAGES = sorted(
    page
    for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md", "web/client/*.md")
    for page in ROOT.glob(pattern)
    if "node_modules" not in page.parts
)
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:)([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
NAMED_FILE = re.compile(r"`((?:[\w.-]+/)+(?:[\w-]+\.(?:py|md|ts|toml|tsv|json)|[\w-]+))`")
BUILT_PATHS = {"web/client/dist", "src/toolyard/page"}
"""Folders that a build makes."""
PACKAGE_ROW = re.compile(r"^\| `([\w/]+)` \|", re.MULTILINE)


async def run_python(code: str, folder: Path, **environment: str) -> str:
    """Return the output of a Python program."""
    return await run_command(sys.executable, "-c", code, folder=folder, **environment)


async def run_command(*command: str, folder: Path, **environment: str) -> str:
    """Return the output of a program in a process of its own."""
    variables = {**os.environ, **environment}
    process = await asyncio.create_subprocess_exec(*command, cwd=folder, env=variables, stdout=-1, stderr=-1)
    out, errors = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, (out.decode(), errors.decode())
    return out.decode()


def python_blocks(page: str) -> list[str]:
    """Return the Python examples of a page."""
    examples = BLOCK.findall((ROOT / page).read_text("utf-8"))
    assert examples, f"{page} has no Python example"
    return examples


# Examples


async def test_the_first_tool_of_the_readme_answers_through_a_real_socket(tmp_path: Path) -> None:
    provider = StrictChat(
        asks(("search_materials", {"keyword": "flour"})), says("Two: bread flour ", "and cake flour.")
    )
    (code,) = python_blocks("README.md")
    async with provider.serving() as base_url:
        out = await run_python(code, tmp_path, OPENAI_API_KEY="test", OPENAI_BASE_URL=base_url)
    assert out == "Two: bread flour and cake flour.\n"
    assert provider.refusals == [] and b"bread flour" in provider.bodies[1]


async def test_the_tools_of_the_first_tutorial_answer_and_wait_for_approval() -> None:
    (code,) = python_blocks("docs/tutorial/first-server.md")
    module: dict[str, object] = {}
    exec(code, module)

    tools = [as_tool(module["get_stock"]), as_tool(module["order_material"])]
    async with Yard(tools=tools, model="toolyard:offline") as yard, connect_client(yard) as http:
        question, order = {"prompt": "how much sugar is there"}, {"prompt": "order 5 kg of sugar"}
        events = [event async for _, event in http.stream("POST", "/ai/respond", question)]
        assert [event["name"] for event in events if event["type"] == "tool.status"] == ["get_stock", "get_stock"]
        text = "".join(str(event["content"]) for event in events if event["type"] == "text.delta")
        assert text.startswith("20 kg")
        asked, _, done = [event async for _, event in http.stream("POST", "/ai/respond", order)]
        assert (asked["type"], done["ending"]) == ("approval.required", "waiting")
        path = f"/conversations/{done['conversation_id']}/calls/{asked['call_id']}/approve"
        status, _, _ = await http.ask("POST", path, {})
        assert status == 200


@pytest.mark.proves("002.native-needs-no-mcp", "002.native-answer")
async def test_the_page_on_searching_shows_what_comes_of_a_native_one(tmp_path: Path) -> None:
    provider = StrictMessages(
        Reply(
            packets=[
                encode_start(),
                encode_search(0, "srvtoolu_1"),
                encode_search_result(1, "srvtoolu_1"),
                encode_cited_text(2, "It is so."),
                encode_end(),
            ]
        )
    )
    native, own_search = python_blocks("docs/how-to/web-search.md")
    async with provider.serving() as base_url:
        out = await run_python(native, tmp_path, ANTHROPIC_API_KEY="test", ANTHROPIC_BASE_URL=base_url)
    assert provider.refusals == [] and len(provider.bodies) == 1
    first, second, _ = out.split("\n")
    assert first.startswith("It is so. 1 ") and first.endswith("https://a.org")
    assert second == "[('web_search', 'provider', 'anthropic')]"
    assert await run_python(own_search, tmp_path) == ""


async def test_the_page_on_structured_output_shows_a_value_of_the_type(tmp_path: Path) -> None:
    provider = StrictChat(says("Two of milk."), says('{"product": "milk", "amount": 2}'))
    (code,) = python_blocks("docs/how-to/structured-output.md")
    async with provider.serving() as base_url:
        out = await run_python(code, tmp_path, OPENAI_API_KEY="test", OPENAI_BASE_URL=base_url)
    assert provider.refusals == [] and len(provider.bodies) == 2
    assert out == "2 milk\n"


@pytest.mark.parametrize(
    ("page", "output"),
    [
        ("docs/tutorial/library.md", "order 7 is deleted\nOrder 7 is deleted."),
        ("docs/how-to/many-tools.md", ""),
        ("docs/how-to/mcp-servers.md", ""),
        ("docs/how-to/mcp-hosts.md", ""),
        ("docs/how-to/offline.md", ""),
    ],
)
async def test_the_examples_of_a_page_run_one_after_the_other(page: str, output: str, tmp_path: Path) -> None:
    assert await run_python("\n".join(python_blocks(page)), tmp_path) == output


async def test_the_example_of_the_page_on_programs_prints_what_the_page_shows(tmp_path: Path) -> None:
    page = "docs/how-to/programs.md"
    (shown,) = re.findall(r"```text\n(.*?)```", (ROOT / page).read_text("utf-8"), re.DOTALL)
    household = ROOT / "examples" / "household"
    out = await run_python("\n".join(python_blocks(page)), household, HOUSEHOLD_DB=str(tmp_path / "household.db"))
    assert out == shown


ADDED_TURNS = [call("search_products", query="milk"), call("add_to_cart", code="M1"), say("Added ", "milk.")]
SHOWN_OUTPUT = "[search_products]\n[add_to_cart]\nAdded milk.\n"


async def test_the_python_of_the_page_on_app_tools_runs_against_a_server(tmp_path: Path) -> None:
    model = Scripted([*ADDED_TURNS, call("get_cart"), say("Milk.")])
    async with Yard(model=model) as yard, serve_yard(yard) as url:
        code = "\n".join(python_blocks("docs/tutorial/app-tools.md"))
        assert await run_python(code, tmp_path, TOOLYARD_URL=url) == f"{SHOWN_OUTPUT}[get_cart]\nMilk.\n"


async def test_the_python_of_the_page_on_app_tools_ends_without_a_language_model(tmp_path: Path) -> None:
    async with Yard(model="toolyard:offline") as yard, serve_yard(yard) as url:
        code = "\n".join(python_blocks("docs/tutorial/app-tools.md"))
        out = await run_python(code, tmp_path, TOOLYARD_URL=url)
    assert "waits for an approval]" in out


async def test_the_typescript_of_the_page_on_app_tools_fits_the_types_and_runs_against_a_server(tmp_path: Path) -> None:
    build_package()
    (code,) = re.findall(r"```ts\n(.*?)```", (ROOT / "docs/tutorial/app-tools.md").read_text("utf-8"), re.DOTALL)
    (tmp_path / "node_modules" / "@toolyard").mkdir(parents=True)
    (tmp_path / "node_modules" / "@toolyard" / "client").symlink_to(ROOT / "web" / "client")
    (tmp_path / "example.mts").write_text(code)
    (tmp_path / "node.d.ts").write_text(NODE_TYPES)
    options = ["--noEmit", "--strict", "--target", "es2022", "--module", "esnext", "--moduleResolution", "bundler"]

    compiler = ROOT / "web" / "client" / "node_modules" / "typescript" / "bin" / "tsc"
    assert await run_command(node_path(), str(compiler), *options, "example.mts", "node.d.ts", folder=tmp_path) == ""
    async with Yard(model=Scripted(ADDED_TURNS)) as yard, serve_yard(yard) as url:
        run = run_command(
            node_path(), "--disable-warning=ExperimentalWarning", "example.mts", folder=tmp_path, TOOLYARD_URL=url
        )
        assert await run == SHOWN_OUTPUT
    async with Yard(model="toolyard:offline") as yard, serve_yard(yard) as url:
        run = run_command(
            node_path(), "--disable-warning=ExperimentalWarning", "example.mts", folder=tmp_path, TOOLYARD_URL=url
        )
        assert "waits for an approval]" in await run


NODE_TYPES = """declare const process: {
  env: Record<string, string | undefined>;
  stdout: { write(text: string): void };
};
"""


# References


def load_references() -> ModuleType:
    """Return the generator of the reference pages, which is not part of a package."""
    spec = importlib.util.spec_from_file_location("references", ROOT / "docs" / "references.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_generated_parts_of_the_reference_are_current() -> None:
    pages: dict[Path, str] = load_references().render_pages()
    assert {path.name for path in pages} == {"cli.md", "conversations.md", "http.md", "respond.md"}
    stale = [path.name for path, page in pages.items() if path.read_text("utf-8") != page]
    assert stale == [], "run python docs/references.py"


# Links and names


def test_the_index_lists_every_page() -> None:
    docs = ROOT / "docs"
    links = LINK.findall((docs / "index.md").read_text("utf-8"))
    listed = {(docs / link.partition("#")[0]).resolve().relative_to(ROOT).as_posix() for link in links}
    outside = re.findall(r'^    "([^"]+[.]md)": "', (docs / "hooks.py").read_text("utf-8"), re.MULTILINE)
    pages = {page.relative_to(ROOT).as_posix() for page in docs.glob("**/*.md")} | set(outside)
    missing = sorted(page for page in pages - listed if not page.startswith("docs/decisions/0"))
    assert missing == ["docs/index.md"], "each page has a line there; the decisions have an index of their own"


def anchors_of(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and MkDocs make them."""
    headings = HEADING.findall(FENCED.sub("", page.read_text("utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(page: Path) -> list[str]:
    """Return the links of a page whose file, or whose heading, does not exist."""
    broken: list[str] = []
    for link in LINK.findall(FENCED.sub("", page.read_text("utf-8"))):
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in anchors_of(target)):
            broken.append(link)
    return broken


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    assert broken_links(page) == []


def test_a_link_to_no_file_or_to_no_heading_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# One heading\n[x](b.md) [y](a.md#another) [z](#one-heading)")
    assert broken_links(tmp_path / "a.md") == ["b.md", "a.md#another"]


def test_every_page_of_the_documentation_is_reached_from_its_index() -> None:
    index = ROOT / "docs" / "index.md"
    reached, waiting = {index}, [index]
    while waiting:
        page = waiting.pop()
        paths = [link.partition("#")[0] for link in LINK.findall(page.read_text("utf-8"))]
        linked = {(page.parent / path).resolve() for path in paths if path.endswith(".md")}
        waiting += linked - reached
        reached |= linked
    assert [page for page in PAGES if "docs" in page.relative_to(ROOT).parts and page not in reached] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_files_of_the_repository_that_a_page_names_exist(page: Path) -> None:
    tops = {path.name for folder in (ROOT, SOURCE) for path in folder.iterdir() if path.is_dir()} - {"page"}
    named = [name for name in NAMED_FILE.findall(page.read_text("utf-8")) if name.partition("/")[0] in tops]
    built_paths = {"web/client/dist", "src/toolyard/page", "deploy/secrets", "deploy/secrets/openai_api_key"}
    assert [
        name for name in named if name not in built_paths and not any((top / name).exists() for top in (ROOT, SOURCE))
    ] == []


def list_packages() -> set[str]:
    """Return the packages of the source, two levels deep."""
    folders = {path.parent.relative_to(SOURCE) for path in SOURCE.rglob("__init__.py")}
    return {package.as_posix() for package in folders if 1 <= len(package.parts) <= 2}


def test_the_map_of_the_architecture_names_exactly_the_packages_that_exist() -> None:
    page = (ROOT / "docs" / "explanation" / "architecture.md").read_text("utf-8")
    section = page.partition("\n## Packages\n")[2].partition("\n## ")[0]
    rows = PACKAGE_ROW.findall(section)
    assert sorted(rows) == sorted(list_packages())
    modules = {path.name for path in SOURCE.glob("*.py")} - {"__init__.py"}
    assert all(f"`{module}`" in section for module in modules)


def test_a_page_that_says_how_to_install_says_so_for_a_clone() -> None:
    """There is no release: `pip install toolyard` would find nothing, or something else."""
    released, cloned = re.compile(r"pip install '?toolyard|npm install @toolyard"), re.compile(r"\bclone\b")
    sources = [*ROOT.glob("src/**/*.py"), *ROOT.glob("examples/**/*.py")]
    for file in {*PAGES, *sources} - {ROOT / "CHANGELOG.md"}:
        paragraphs = file.read_text("utf-8").split("\n\n")
        assert not [text for text in paragraphs if released.search(text) and not cloned.search(text)], file
