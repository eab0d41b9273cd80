"""Import the user's modules and files, and find the tools that they define."""

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

NO_TOOL = "defines no tool: decorate a typed function with @tool, or list the tools in TOOLS"


def load_tools(names: Sequence[str], base: Path) -> list[object]:
    """Return the tools of modules (`household.tools`) and files (`./my_tools.py`), in order of definition.

    Modules are searched in `base` first, and files are relative to it. A module with a list TOOLS defines exactly
    the tools in it.
    """
    tools: list[object] = []
    problems: list[str] = []
    for name in names:
        try:
            tools += _find_tools(load_tool_module(name, base), name)
        except Misconfigured as error:
            problems.append(str(error))
    if problems:
        raise Misconfigured("\n".join(problems))
    return tools


def load_tool_module(name: str, base: Path) -> ModuleType:
    """Import a module or a file of tools. Raise Misconfigured if it cannot be imported."""
    return _import_file(name, base) if is_file(name) else _import_module(name, base)


def _import_module(name: str, base: Path) -> ModuleType:
    with _import_context(name, base):
        return importlib.import_module(name)


def _import_file(name: str, base: Path) -> ModuleType:
    file = (base / name).expanduser().absolute()
    if not file.is_file():
        raise Misconfigured(f"tools {name!r}: there is no file {file}")
    # The name contains a hash of the path: two files with the same stem must not be one module.
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
    """Allow imports from a directory within the block, and raise Misconfigured for any error in it."""
    before = sys.path[:]
    sys.path.insert(0, str(directory))
    importlib.invalidate_caches()
    try:
        yield
    except (Exception, SystemExit) as error:  # a module may call sys.exit() while it is imported
        raise Misconfigured(f"tools {name!r} cannot be imported: {_describe_error(error)}") from error
    finally:
        sys.path[:] = before


def _describe_error(error: BaseException) -> str:
    """Return the last line of the exception, and the line of the user's code that raised it."""
    text = str(error) if isinstance(error, ToolyardError) else traceback.format_exception_only(error)[-1].strip()
    if isinstance(error, SyntaxError) and error.filename:
        return f"{text} ({Path(error.filename).name} line {error.lineno})"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_user_code(Path(frame.filename))]
    return f"{text} ({Path(frames[-1].filename).name} line {frames[-1].lineno})" if frames else text


def _is_user_code(file: Path) -> bool:
    """Return whether a file belongs neither to Toolyard nor to Python nor to an installed package."""
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
    tools = _find_defined_tools(module, name) if listed is None else list(cast("list[object]", listed))
    if not tools:
        raise Misconfigured(f"tools {name!r} {NO_TOOL}")
    return tools


def _find_defined_tools(module: ModuleType, name: str) -> list[object]:
    values = {id(value): value for value in vars(module).values()}.values()  # each once, however many names it has
    candidates = [value for value in values if _is_tool(value, module)]
    # Where a module defines a class and makes an instance of it, only the instance is a tool.
    classes = {id(cast(object, type(candidate))) for candidate in candidates}
    tools = [candidate for candidate in candidates if id(candidate) not in classes]
    for tool in tools:
        if inspect.isclass(tool) and not _takes_no_arguments(tool):
            raise Misconfigured(f"tools {name!r}: the class {tool.__name__} needs arguments: make an instance of it")
    return tools


def _is_tool(value: object, module: ModuleType) -> bool:
    if isinstance(value, FunctionTool):
        return getattr(value.function, "__module__", "") == module.__name__
    if inspect.isclass(value):
        is_complete = hasattr(value, "execute") and hasattr(value, "name") and not inspect.isabstract(value)
        return is_complete and value.__module__ == module.__name__
    return isinstance(value, ExecutorLike) and not _is_imported(value, module)


def _is_imported(value: object, module: ModuleType) -> bool:
    """Return whether this instance was imported from elsewhere: it is also in the module of its class."""
    home = sys.modules.get(type(value).__module__)
    return home is not None and home is not module and any(other is value for other in vars(home).values())


def _takes_no_arguments(kind: type) -> bool:
    try:
        inspect.signature(kind).bind()
    except (TypeError, ValueError):
        return False
    return True
