"""What keeps its meaning in the source, as tests: imports, `Any`, tasks, machine paths. Exceptions are in lists."""

import ast
import importlib
import os
import re
import tomllib
from collections.abc import Callable, Collection, Iterator
from functools import cache
from pathlib import Path
from typing import TypeGuard

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "src").rglob("*.py"))
MAX_COMPLEXITY = 10
MAX_ATTRIBUTES = 30
"""CPython keeps the attributes of an object with more in a dict of its own, where each access is looked up anew."""

MAY_USE_ANY = {"venues/function/signature.py"}
"""Where pydantic's own types are handled: it takes and gives Any."""
MAY_CREATE_TASKS = {
    "engine/replicas/record_watcher.py",
    "engine/replicas/takeover.py",
    "engine/replicas/ownership.py",
    "engine/replicas/readiness.py",
    "engine/replicas/message_handler.py",
    "engine/service/__init__.py",
    "engine/loop/workers.py",
    "hosting.py",
    "models/model_lists.py",
    "stores/copy.py",
    "stores/postgres/bus.py",
    "stores/postgres/connections.py",
    "stores/postgres/lease.py",
    "stores/postgres/store.py",
    "stores/postgres/writer.py",
    "surfaces/openai/responses/websocket.py",
    "surfaces/http/event_stream.py",
    "surfaces/http/authentication.py",
    "venues/mcp/manager.py",
}
"""Where tasks are owned: they end with what owns them."""
MAY_IMPORT_INSIDE = {
    "app.py",
    "cli/__init__.py",
    "cli/commands/doctor.py",
    "cli/commands/mcp.py",
    "cli/commands/migrate.py",
    "cli/commands/serve.py",
    "cli/commands/trace.py",
    "cli/terminal.py",
    "client/app_client.py",
    "client/mcp_servers.py",
    "engine/run/output_types.py",
    "models/price_list.py",
    "models/resolver.py",
    "observability/exporters.py",
    "server/wiring.py",
    "surfaces/server_info/routes.py",
    "venues/function/docstring.py",
    "venues/function/venue.py",
    "venues/mcp/auth/sealed_records.py",
    "yard.py",
}
"""Where modules are loaded on first use: some need an optional extra, and others would make every start slower."""


@cache
def _parse(source: str) -> ast.Module:
    return ast.parse(source)


def imports_inside(source: str) -> list[str]:
    return [
        f"line {node.lineno} imports inside {function.name}"
        for function in _functions(_parse(source))
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]


def uses_of_any(source: str) -> list[str]:
    tree = list(ast.walk(_parse(source)))
    imported = [node for node in tree if isinstance(node, ast.ImportFrom) and _names(node) & {"Any"}]
    dotted = [node for node in tree if isinstance(node, ast.Attribute) and ast.unparse(node) == "typing.Any"]
    return [f"line {node.lineno} uses Any" for node in (*imported, *dotted)]


def without_a_docstring(source: str) -> list[str]:
    return [] if ast.get_docstring(_parse(source)) else ["does not say what it does"]


def tasks_made(source: str) -> list[str]:
    return [
        f"line {node.lineno} makes a task"
        for node in ast.walk(_parse(source))
        if isinstance(node, ast.Attribute) and node.attr in {"create_task", "ensure_future"}
    ]


def crowded_classes(source: str) -> list[str]:
    return [
        f"{owner.name} has {len(names)} attributes"
        for owner in ast.walk(_parse(source))
        if isinstance(owner, ast.ClassDef)
        for names in [{node.attr for node in ast.walk(owner) if _is_set_on_self(node)}]
        if len(names) > MAX_ATTRIBUTES
    ]


def words_without_an_issue(text: str) -> list[str]:
    """A note for later must name its issue: the word, then (#12)."""
    return [f"{match.group()} without an issue" for match in _LATER.finditer(text)]


def machine_words(text: str) -> list[str]:
    """Paths of one machine, and hosts of one registry."""
    return [f"{match.group()!r} is of one machine" for match in _MACHINE.finditer(text)]


_FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
_LATER = re.compile(rf"\b(?:{'|'.join(['todo', 'fixme', 'xxx']).upper()})\b(?!\(#\d+\))")
_MACHINE = re.compile(r"(?<![\w.])/(?:work|root)/|files\.pythonhosted|pypi\.org/simple|--(?:extra-)?index-url")
NOT_OURS = {"__pycache__", "node_modules", "dist", "build", "results"}
BUILT_PAGE = ROOT / "src" / "toolyard" / "page"


def _functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, _FUNCTION))


def _is_set_on_self(node: ast.AST) -> TypeGuard[ast.Attribute]:
    return isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self"


def _names(node: ast.ImportFrom) -> set[str]:
    return {alias.name for alias in node.names}


def _is_ours(name: str) -> bool:
    return name not in NOT_OURS and (not name.startswith(".") or name in {".ci", ".gitignore"})


def _texts() -> Iterator[tuple[str, str]]:
    """Every text file of the project, as a path from its root."""
    for folder, folders, names in os.walk(ROOT):
        folders[:] = sorted(name for name in folders if _is_ours(name) and Path(folder, name) != BUILT_PAGE)
        for path in (Path(folder, name) for name in sorted(names) if _is_ours(name)):
            try:
                yield path.relative_to(ROOT).as_posix(), path.read_text("utf-8")
            except UnicodeDecodeError:
                continue


def _check_sources(check: Callable[[str], list[str]], allowed: Collection[str] = ()) -> list[str]:
    package = ROOT / "src" / "toolyard"
    paths_by_name = {path.relative_to(package).as_posix(): path for path in SOURCES}
    return [
        f"{name}: {fault}"
        for name, path in paths_by_name.items()
        if name not in allowed
        for fault in check(path.read_text("utf-8"))
    ]


def test_imports_are_at_the_top() -> None:
    assert _check_sources(imports_inside, MAY_IMPORT_INSIDE) == []


def test_nothing_inside_is_any() -> None:
    assert _check_sources(uses_of_any, MAY_USE_ANY) == []


def test_every_module_says_what_it_does() -> None:
    assert _check_sources(without_a_docstring) == []


def test_tasks_are_made_only_where_they_are_owned() -> None:
    assert _check_sources(tasks_made, MAY_CREATE_TASKS) == []


def test_no_class_has_so_many_attributes_that_each_is_slow() -> None:
    assert _check_sources(crowded_classes) == []


def test_an_exception_that_is_no_longer_needed_is_taken_off_its_list() -> None:
    lists = ((imports_inside, MAY_IMPORT_INSIDE), (uses_of_any, MAY_USE_ANY), (tasks_made, MAY_CREATE_TASKS))
    for check, allowed in lists:
        assert {source.split(":")[0] for source in _check_sources(check)} == allowed


def test_the_linter_knows_where_imports_may_be_inside() -> None:
    ignores = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["ruff"]["lint"]["per-file-ignores"]
    listed = {path.removeprefix("src/toolyard/") for path, codes in ignores.items() if "PLC0415" in codes}
    assert listed - {"bench/*"} == MAY_IMPORT_INSIDE


def test_complexity_and_its_neighbours_are_checked_by_the_linter() -> None:
    lint = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["ruff"]["lint"]
    assert lint["mccabe"]["max-complexity"] == MAX_COMPLEXITY
    assert {"C90", "PLC0415", "F", "T20"} <= set(lint["select"])
    assert "C901" not in lint["ignore"]


def test_no_file_names_a_machine_or_a_registry() -> None:
    assert [f"{name}: {word}" for name, text in _texts() for word in machine_words(text)] == []


@pytest.mark.parametrize("file", ["constraints.txt", "tests/surfaces/openai/real_clients/requirements.txt"])
def test_a_constraint_names_a_version_and_nothing_else(file: str) -> None:
    lines = (ROOT / file).read_text("utf-8").splitlines()
    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][A-Za-z0-9.+!-]*", line)] == []
    assert lines == sorted(lines, key=str.lower)


def test_a_note_for_later_names_its_issue() -> None:
    assert [f"{name}: {fault}" for name, text in _texts() for fault in words_without_an_issue(text)] == []


LATER = "todo".upper()


def assign_attributes(count: int) -> str:
    return "\n".join(["class A:", "    def f(self):", *(f"        self.a{number} = 1" for number in range(count))])


@pytest.mark.parametrize(
    ("check", "bad", "good"),
    [
        (imports_inside, "class A:\n    def f(self):\n        import os\n", "import os\n"),
        (uses_of_any, "from typing import Any\n", "from typing import cast\n"),
        (uses_of_any, "import typing\nx: typing.Any = 1\n", "import typing\n"),
        (without_a_docstring, "x = 1\n", '"""Says what it does."""\n'),
        (tasks_made, "asyncio.create_task(f())\n", "await f()\n"),
        (tasks_made, "asyncio.ensure_future(f())\n", "await f()\n"),
        (crowded_classes, assign_attributes(MAX_ATTRIBUTES + 1), assign_attributes(MAX_ATTRIBUTES)),
        (words_without_an_issue, f"# {LATER}: tidy up", f"# {LATER}(#12): tidy up"),
        (machine_words, "/".join(["open('", "work", "x')"]), "https://example.org/work/x"),
        (machine_words, "-".join(["pip install -", "index", "url https://mirror"]), "an index of urls"),
    ],
)  # fmt: skip
def test_each_ceiling_can_be_hit(check: Callable[[str], list[str]], bad: str, good: str) -> None:
    assert len(check(bad)) == 1
    assert check(good) == []


def test_examples_benches_and_docs_import_names_that_exist() -> None:
    """The type checker reads src and tests only."""
    files = [file for folder in ("bench", "docs", "examples") for file in (ROOT / folder).rglob("*.py")]
    own_packages = {
        "toolyard",
        *(path.stem for path in (ROOT / "tests").iterdir() if path != ROOT / "tests" / "examples"),
    }
    imports = [
        (file, node.module, alias.name)
        for file in files
        for node in ast.walk(_parse(file.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] in own_packages
        for alias in node.names
    ]
    assert imports
    missing = [
        f"{file.relative_to(ROOT)}: {module}.{name}" for file, module, name in imports if not _exists(module, name)
    ]
    assert missing == []


def _exists(module: str, name: str) -> bool:
    loaded = importlib.import_module(module)
    if hasattr(loaded, name):
        return True
    is_package = hasattr(loaded, "__path__")
    return is_package and (Path(*loaded.__path__) / f"{name}.py").exists()
