"""Load examples: their tools as the server loads them, from the file with its folder beside it, and their modules."""

import fcntl
import importlib.util
import inspect
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import msgspec

from toolyard import Limits, ToolLike
from toolyard.venues.function import FunctionTool

EXAMPLES = Path(__file__).parents[2] / "examples"


def load_module(example: str, name: str = "serve") -> ModuleType:
    """Return a module of an example, loaded anew."""
    spec = importlib.util.spec_from_file_location(
        f"{example.replace('-', '_')}_{name}", EXAMPLES / example / f"{name}.py"
    )
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def build_once(example: str, build: Callable[[], None]) -> None:
    """Build the page of an example if it is missing or out of date, however many processes want it.

    What is up to date stays as it is: another process may be serving it.
    """
    folder = EXAMPLES / example
    with (folder / "building.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        built, sources = folder / "dist" / "index.html", [*(folder / "page").iterdir(), folder / "package-lock.json"]
        if not built.exists() or built.stat().st_mtime < max(source.stat().st_mtime for source in sources):
            build()


class Configuration(msgspec.Struct):
    """What these tests use of an example's toolyard.toml."""

    tools: list[str]
    system_prompt: str
    limits: Limits
    model: str = ""
    tool: dict[str, dict[str, object]] = {}


def read_configuration(example: str) -> Configuration:
    text = (EXAMPLES / example / "toolyard.toml").read_text("utf-8")
    return msgspec.convert(tomllib.loads(text), Configuration)


def tools_of(example: str) -> list[ToolLike]:
    """The @tool functions and executor classes of its tools files, in their order."""
    return [thing for file in read_configuration(example).tools for thing in _tools_in(EXAMPLES / example / file)]


def _tools_in(file: Path) -> list[ToolLike]:
    spec = importlib.util.spec_from_file_location(f"{file.parent.name}_tools", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(file.parent))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(file.parent))
    own_classes = [
        thing for thing in vars(module).values() if inspect.isclass(thing) and thing.__module__ == module.__name__
    ]
    executors: list[ToolLike] = [thing for thing in own_classes if hasattr(thing, "execute")]
    return [*(thing for thing in vars(module).values() if isinstance(thing, FunctionTool)), *executors]
