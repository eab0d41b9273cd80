"""What `toolyard` and `import toolyard` import before there is anything to do: each import makes every start slower."""

import subprocess
import sys

import pytest

from toolyard.cli.commands import COMMANDS

HEAVY = {"aiohttp", "cryptography", "jinja2", "jsonschema", "litestar", "mcp", "opentelemetry", "pydantic", "uvicorn"}
TIMEOUT_S = 60.0
LIST_AT_EXIT = "import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr))\n"
TOOL = """
import toolyard

@toolyard.tool
def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b
"""


def list_modules(code: str) -> set[str]:
    """Return the modules that a new process has imported after running the code."""
    command = [sys.executable, "-c", LIST_AT_EXIT + code]
    return set(subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=True).stderr.split())


@pytest.mark.parametrize("words", [["--version"], ["--help"], []])
def test_a_command_line_without_a_command_imports_no_command(words: list[str]) -> None:
    modules = list_modules(f"from toolyard.cli import main; main({words})")
    assert "toolyard.cli.commands" in modules
    own = {f"toolyard.cli.commands.{name.replace('-', '_')}" for name in COMMANDS}
    assert modules & (HEAVY | own | {"toolyard.cli.common", "toolyard.server.config"}) == set()


def test_the_library_is_imported_without_heavy_packages() -> None:
    modules = list_modules("from toolyard import Yard")
    assert "toolyard.yard" in modules
    assert modules & (HEAVY | {"toolyard.app", "toolyard.engine.service"}) == set()


def test_pydantic_is_imported_once_a_function_becomes_a_tool() -> None:
    assert "pydantic" in list_modules(TOOL)


def test_a_server_is_imported_without_the_packages_that_its_first_answer_does_not_need() -> None:
    modules = list_modules("import toolyard.cli.commands.serve, toolyard.server.serving, toolyard.surfaces.app")
    assert {"litestar", "uvicorn"} <= modules
    assert "toolyard.surfaces.server_info.stream_schemas" not in modules, "it is loaded with the OpenAPI document"
    assert modules & (HEAVY - {"litestar", "uvicorn", "pydantic"}) == set()
