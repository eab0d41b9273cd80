"""Turns what the checker says about a program into a problem that the model can act on: lines, reasons and hints."""

import difflib
import re
from collections.abc import Iterator
from itertools import filterfalse, islice

import pydantic_monty as monty

from toolyard.core.items import Problem
from toolyard.core.ports import ProgramCalls
from toolyard.core.settings.limits import Limits
from toolyard.tool_index.find_tools_result import FIND_TOOLS
from toolyard.venues.code.stubs import is_name, list_parameters, name_function

MAX_DIAGNOSTICS = 10
MAX_NOTES = 5
MAX_DIAGNOSTIC_CHARS = 400
"""A type may be written in millions of characters."""
_DIAGNOSTIC = re.compile(r"^[^\n:]*:(?P<line>\d+):(?P<column>\d+): (?P<text>.*)$", re.MULTILINE)
_TIME_LIMIT = re.compile(r"TimeoutError: (turn|feed) time limit exceeded")
_SUSPENSION_LIMIT = re.compile(r"suspension limit (\d+) exceeded$")
_UNKNOWN_NAME = re.compile(r"Name `(?P<name>\w+)` used when not defined")


def describe_syntax(error: "monty.MontySyntaxError") -> Problem:
    """Return the problem of a program that cannot be parsed, or that uses what the dialect lacks."""
    frames = error.traceback()
    line = frames[-1].line if frames else 0
    position = f"line {line}: " if line else ""
    return Problem(
        error=f"the program was not run: {position}{error.display('msg')}",
        error_type="syntax_error",
        details={"line": line} if line else {},
    )


def describe_error(text: str, limits: Limits) -> tuple[str, str]:
    """Return in words, and as an error type, why a program failed while it ran. The sandbox has its own words."""
    if limit := _TIME_LIMIT.match(text):  # at the beginning: an exception of the program follows a traceback
        is_step = limit[1] == "turn"
        place = f"{limits.program_step_seconds:g} s between two calls" if is_step else f"{limits.program_seconds:g} s"
        return f"the program computed for more than {place}", "timeout"
    return _SUSPENSION_LIMIT.sub(r"the program was stopped after \1 calls and requests", text), "program_error"


def describe_types(diagnostics: str, code: str, calls: ProgramCalls) -> Problem:
    """Return the problem of a program that does not fit the tools, or that uses unknown names."""
    lines: list[str] = []
    for match in _DIAGNOSTIC.finditer(diagnostics):
        hint = _find_hint(match["text"], calls)
        text = match["text"]
        shown = text if len(text) <= MAX_DIAGNOSTIC_CHARS else f"{text[:MAX_DIAGNOSTIC_CHARS]}…"
        lines.append(f"line {match['line']}: {shown}{hint}")
    listed = "\n".join(lines[:MAX_DIAGNOSTICS]) or diagnostics[:2000]
    more = f"\nand {len(lines) - MAX_DIAGNOSTICS} more" if len(lines) > MAX_DIAGNOSTICS else ""
    error_type = "syntax_error" if "[invalid-syntax]" in diagnostics else "type_error"
    notes = "".join(f"\n{note}" for note in islice(_list_notes(code, calls), MAX_NOTES))
    return Problem(error=f"the program was not run:\n{listed}{more}{notes}", error_type=error_type)


def _list_notes(code: str, calls: ProgramCalls) -> Iterator[str]:
    """Yield how to write what Python has no room for: names of tools and of parameters that are Python's own."""
    for tool in calls.tools.values():
        name = name_function(tool.name)
        if name != tool.name and f"{tool.name}(" in code:
            yield f"the tool {tool.name} is called as {name}(…)"
        for parameter in filterfalse(is_name, list_parameters(tool)) if name in code else ():
            if f"{parameter}=" in code:
                yield f"{name} is given {parameter} as **{{{parameter!r}: …}}"


def _find_hint(text: str, calls: ProgramCalls) -> str:
    unknown = _UNKNOWN_NAME.search(text)
    if unknown is None:
        return ""
    name = unknown["name"]
    others = {name_function(tool.name) for tool in calls.other_tools}
    if name in others:
        return f" ({name} cannot be called by a program: call it yourself)"
    if near := difflib.get_close_matches(name, map(name_function, calls.tools), n=3):
        return f" (did you mean {' or '.join(near)}?)"
    return " (find_tools finds tools that you are not shown)" if FIND_TOOLS in others else ""
