"""Finds the tools that modules and files of the user define. It does not know what becomes of them."""

import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from types import ModuleType
from typing import cast

from toolyard.core.errors import Misconfigured, ToolyardError
from toolyard.server.config.paths import is_file
from toolyard.venues.function import FunctionTool
from toolyard.venues.function.executor import ExecutorLike

NO_TOOL = "defines no tool: decorate a typed function with @tool, or list what is one in TOOLS"


def load_tools(names: Sequence[str], base: Path) -> list[object]:
    """The tools of modules (`household.tools`) and files (`./my_tools.py`), in order of definition.

    Modules are looked for in `base` first, and files are relative to it. A module's list TOOLS says exactly which.
    """
    found: list[object] = []
    problems: list[str] = []
    for name in names:
        try:
            found += _find_tools(load_tool_module(name, base), name)
        except Misconfigured as error:
            problems.append(str(error))
    if problems:
        raise Misconfigured("\n".join(problems))
    return found


def load_tool_module(name: str, base: Path) -> ModuleType:
    """Return a module or a file of tools. Raises Misconfigured if it cannot be imported."""
    return _import_file(name, base) if is_file(name) else _import_module(name, base)


def _import_module(name: str, base: Path) -> ModuleType:
    with _import_context(name, base):
        return importlib.import_module(name)


def _import_file(name: str, base: Path) -> ModuleType:
    file = (base / name).expanduser().absolute()
    if not file.is_file():
        raise Misconfigured(f"tools {name!r}: there is no file {file}")
    unique = f"toolyard_tools_{blake2b(str(file).encode(), digest_size=6).hexdigest()}_{file.stem}"
    spec = importlib.util.spec_from_file_location(unique, file)
    if spec is None or spec.loader is None:
        raise Misconfigured(f"tools {name!r}: {file} is not a Python file, its name must end in .py")
    module = sys.modules[unique] = importlib.util.module_from_spec(spec)
    try:
        with _import_context(name, file.parent):
            spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[unique]
        raise
    return module


@contextmanager
def _import_context(name: str, directory: Path) -> Generator[None]:
    """A block in which a directory can be imported from, and whatever goes wrong is the configuration's fault."""
    before = sys.path[:]
    sys.path.insert(0, str(directory))
    importlib.invalidate_caches()
    try:
        yield
    except (Exception, SystemExit) as error:
        raise Misconfigured(f"tools {name!r} cannot be imported: {_describe_error(error)}") from error
    finally:
        sys.path[:] = before


def _describe_error(error: BaseException) -> str:
    """The last line of the exception, and where in the user's code it comes from."""
    said = str(error) if isinstance(error, ToolyardError) else traceback.format_exception_only(error)[-1].strip()
    if isinstance(error, SyntaxError) and error.filename:
        return f"{said} ({Path(error.filename).name} line {error.lineno})"
    theirs = [one for one in traceback.extract_tb(error.__traceback__) if _is_user_code(Path(one.filename))]
    return f"{said} ({Path(theirs[-1].filename).name} line {theirs[-1].lineno})" if theirs else said


def _is_user_code(file: Path) -> bool:
    """Whether this is neither ours, nor Python's, nor that of a package they installed."""
    return (
        file.is_absolute()
        and "site-packages" not in file.parts
        and not {_TOOLYARD_DIRECTORY, _PYTHON_DIRECTORY} & set(file.parents)
    )


_TOOLYARD_DIRECTORY = Path(__file__).parents[2]
_PYTHON_DIRECTORY = Path(inspect.__file__).parent


def _find_tools(module: ModuleType, name: str) -> list[object]:
    listed: object = getattr(module, "TOOLS", None)
    if listed is not None and not isinstance(listed, list | tuple):
        raise Misconfigured(f"tools {name!r}: its TOOLS must be a list")
    found = _find_defined_tools(module, name) if listed is None else list(cast("list[object]", listed))
    if not found:
        raise Misconfigured(f"tools {name!r} {NO_TOOL}")
    return found


def _find_defined_tools(module: ModuleType, name: str) -> list[object]:
    values = {id(value): value for value in vars(module).values()}.values()  # each once, however many names it has
    found = [value for value in values if _is_tool(value, module)]
    made = {id(cast(object, type(one))) for one in found}  # a class of which there is an instance is not meant itself
    tools = [one for one in found if id(one) not in made]
    for one in tools:
        if inspect.isclass(one) and not _takes_no_arguments(one):
            raise Misconfigured(f"tools {name!r}: the class {one.__name__} needs arguments: make an instance of it")
    return tools


def _is_tool(value: object, module: ModuleType) -> bool:
    if isinstance(value, FunctionTool):
        return getattr(value.function, "__module__", "") == module.__name__
    if inspect.isclass(value):
        whole = hasattr(value, "execute") and hasattr(value, "name") and not inspect.isabstract(value)
        return whole and value.__module__ == module.__name__
    return isinstance(value, ExecutorLike) and not _is_imported(value, module)


def _is_imported(value: object, module: ModuleType) -> bool:
    """Whether this instance was imported: it is also in the module of its class."""
    home = sys.modules.get(type(value).__module__)
    return home is not None and home is not module and any(one is value for one in vars(home).values())


def _takes_no_arguments(kind: type) -> bool:
    try:
        inspect.signature(kind).bind()
    except (TypeError, ValueError):
        return False
    return True
