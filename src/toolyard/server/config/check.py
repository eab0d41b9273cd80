"""Check the configuration, and report everything that is wrong with it at once, with where each value came from."""

from collections.abc import Callable
from dataclasses import dataclass

from msgspec import inspect

from toolyard.core.errors import Misconfigured
from toolyard.core.settings.checks import MAX_PROBLEMS, KeyPath, SettingChecker, Transform, Tree


@dataclass(frozen=True, slots=True, order=True)
class SourceLocation:
    """The origin of a value: a line of the file, an environment variable or a flag. Lines of the file sort first."""

    line: int
    name: str


def check_config(
    tree: Tree, root: inspect.StructType, transform: Transform, locate: Callable[[KeyPath], SourceLocation]
) -> Tree:
    """Return the tree with its texts transformed as their marks say. Raise Misconfigured if anything is wrong."""
    checker = SettingChecker(root, transform)
    checked = checker.check(tree)
    if not checker.problems:
        return checked
    problems = sorted(
        ((locate(path), build_message) for path, build_message in checker.problems), key=lambda problem: problem[0]
    )
    lines = [f"{location.name}: {build_message()}" for location, build_message in problems[:MAX_PROBLEMS]]
    if more := len(problems) - len(lines):
        lines.append(f"… and {more} more")
    raise Misconfigured("\n".join(lines))
