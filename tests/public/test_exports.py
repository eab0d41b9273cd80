"""The public names: what each module exports, what the reference lists, and what pages and examples import."""

import ast
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import get_args, get_type_hints

import pytest

import toolyard
from toolyard import Run, RunResult, Yard

ROOT = Path(__file__).parents[2]
PUBLIC_MODULES = ("toolyard", "toolyard.events", "toolyard.testing", "toolyard.client", "toolyard.tool_index")
REFERENCE = (ROOT / "docs" / "reference" / "python.md").read_text("utf-8")
BLOCK = re.compile(r"^( *)```(?:python|py)\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
LISTED_NAME = re.compile(r"`(\w+)`")


def public_names(module: ModuleType) -> list[str]:
    """Return the names of a module that do not begin with an underscore and are not its own submodules."""
    names = [name for name in dir(module) if name[0] != "_"]
    return [name for name in names if not isinstance(getattr(module, name), ModuleType)]


def internal_imports(source: str) -> list[str]:
    """Return the imports of Toolyard's modules that are not public, and of names that a public one does not export."""
    faults: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            faults += [alias.name for alias in node.names if is_internal(alias.name)]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            if is_internal(node.module):
                faults.append(node.module)
            elif node.module in PUBLIC_MODULES:
                exported = import_module(node.module).__all__
                faults += [f"{node.module}.{alias.name}" for alias in node.names if alias.name not in exported]
    return faults


def is_internal(module: str) -> bool:
    return module.partition(".")[0] == "toolyard" and module not in PUBLIC_MODULES


def list_sources() -> list[tuple[str, str]]:
    """Return the Python of the README, of all pages and of all examples, each with its file's name."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
    blocks = [(page, block) for page in pages for _, block in BLOCK.findall(page.read_text("utf-8"))]
    examples = [(file, file.read_text("utf-8")) for file in (ROOT / "examples").rglob("*.py")]
    return [(str(file.relative_to(ROOT)), source) for file, source in (*blocks, *examples)]


@pytest.mark.parametrize("name", PUBLIC_MODULES)
def test_the_exports_of_a_module_are_exactly_its_public_names(name: str) -> None:
    module = import_module(name)
    assert list(module.__all__) == public_names(module)


def test_type_checkers_read_the_names_that_are_imported_when_they_are_used() -> None:
    stub = ast.parse(Path(toolyard.__file__).with_suffix(".pyi").read_text("utf-8"))
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    pairs = [(str(node.module), alias.name) for node in imports for alias in node.names]
    assert sorted(name for _, name in pairs) == toolyard.__all__
    for module, name in pairs:
        assert getattr(toolyard, name) is getattr(import_module(module), name)


def test_importing_the_package_imports_nothing_else() -> None:
    program = "import sys, toolyard; print([name for name in sys.modules if name.startswith('toolyard.')])"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "[]\n"


def list_classes(hint: object) -> set[type]:
    """Return the classes of Toolyard that a type hint mentions."""
    inner = set[type]().union(*(list_classes(argument) for argument in get_args(hint)))
    return inner | ({hint} if isinstance(hint, type) and hint.__module__.startswith("toolyard.") else set())


def test_what_the_library_returns_can_be_named() -> None:
    methods = [method for name, method in vars(Yard).items() if name[0] != "_" and callable(method)]
    hints = [get_type_hints(method)["return"] for method in methods] + list(get_type_hints(RunResult).values())
    exported = [
        getattr(import_module(module), name) for module in PUBLIC_MODULES for name in import_module(module).__all__
    ]
    returned = set[type]().union(*map(list_classes, hints))
    assert {RunResult, Run} <= returned and [kind for kind in returned if kind not in exported] == []


@pytest.mark.parametrize("name", PUBLIC_MODULES)
def test_the_reference_lists_exactly_the_exports_of_a_module(name: str) -> None:
    section = REFERENCE.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    assert sorted(LISTED_NAME.findall("".join(rows))) == sorted(import_module(name).__all__)


def test_pages_and_examples_import_only_public_names() -> None:
    sources = list_sources()
    assert len(sources) > 10
    assert [f"{file}: {fault}" for file, source in sources for fault in internal_imports(source)] == []


def test_no_page_for_users_names_the_internal_core() -> None:
    folders = [ROOT / "docs" / name for name in ("tutorial", "how-to", "reference")]
    pages = [ROOT / "README.md", *(page for folder in (*folders, ROOT / "examples") for page in folder.rglob("*.md"))]
    assert [str(page.relative_to(ROOT)) for page in pages if "toolyard.core" in page.read_text("utf-8")] == []


@pytest.mark.parametrize(
    ("source", "faults"),
    [
        ("from toolyard.core.conversation.events import Entry", ["toolyard.core.conversation.events"]),
        ("import toolyard.engine.service", ["toolyard.engine.service"]),
        ("from toolyard import Yard, Nothing", ["toolyard.Nothing"]),
        ("from toolyard import events\nfrom toolyards import x", ["toolyard.events"]),
        ("import toolyard\nfrom toolyard.events import Entry", []),
    ],
)
def test_an_import_of_an_internal_name_is_noticed(source: str, faults: list[str]) -> None:
    assert internal_imports(source) == faults
