"""Tools from what an application with OpenAI's API has already: a list of schemas, and a function that runs them."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from typing import cast

from toolyard.core.errors import Misconfigured
from toolyard.core.items import Call
from toolyard.core.ports import Context
from toolyard.core.tools.definition import EMPTY_OBJECT
from toolyard.venues.function.executor import Executor

Dispatch = Callable[..., object] | Mapping[str, Callable[..., object]]


class _DispatchedTool(Executor):
    """A tool with a schema of its own that another function runs."""

    def __init__(self, function: Mapping[str, object], run: Callable[[Call, Context], object]) -> None:
        self.name = str(function["name"])
        self.description = str(function.get("description") or "")
        self.parameters = cast(dict[str, object], function.get("parameters") or EMPTY_OBJECT)
        self._run = run

    def execute(self, call: Call, context: Context) -> object:
        return self._run(call, context)


def tools_from_openai(
    schemas: Iterable[Mapping[str, object]], dispatch: Dispatch, *, checks_ok: bool = False
) -> list[Executor]:
    """Return a tool for each schema in the format of OpenAI's APIs, chat completions or responses.

    `dispatch` is one function that is called with the tool's name and a dict of arguments, or a function for each name
    that is called with the arguments as keywords. Either may be async, and gets the `Context` of the call if it has a
    parameter `context`, unless that is an argument of the schema. The arguments are a copy, which may be changed.
    `checks_ok` means what it means for `@tool`; set other rules as attributes of the tools.

    Raises Misconfigured for an entry that is no function, and for a schema or a function without the other.
    """
    functions = [_get_function(schema) for schema in schemas]
    names = [str(function["name"]) for function in functions]
    if not callable(dispatch):
        _require_same_names(names, dispatch)
    tools: list[Executor] = []
    for name, function in zip(names, functions, strict=True):
        tool = _DispatchedTool(function, _bind(dispatch, name, function))
        tool.checks_ok = checks_ok
        tools.append(tool)
    return tools


def _get_function(schema: Mapping[str, object]) -> Mapping[str, object]:
    """Return the part of a schema that has the name: the chat completions API nests it under `function`."""
    nested = schema.get("function")
    function = cast(Mapping[str, object], nested) if isinstance(nested, Mapping) else schema
    if schema.get("type", "function") != "function" or not isinstance(function.get("name"), str):
        raise Misconfigured(f"this is not the schema of a function: {dict(schema)!r:.200}")
    return function


def _require_same_names(names: Iterable[str], dispatch: Mapping[str, object]) -> None:
    missing, extra = sorted(set(names) - dispatch.keys()), sorted(dispatch.keys() - set(names))
    if missing:
        raise Misconfigured(f"no function runs {', '.join(missing)}")
    if extra:
        raise Misconfigured(f"no schema describes {', '.join(extra)}")


def _bind(dispatch: Dispatch, name: str, schema: Mapping[str, object]) -> Callable[[Call, Context], object]:
    """Return a function that runs calls of one tool."""
    function = dispatch if callable(dispatch) else dispatch[name]
    takes_context = "context" in inspect.signature(function).parameters
    if not callable(dispatch) and "context" in _get_properties(schema):
        takes_context = False  # the model's argument of that name

    def run(call: Call, context: Context) -> object:
        arguments = deepcopy(call.arguments)  # those of the call are part of the log
        keywords: dict[str, object] = {"context": context} if takes_context else {}
        if callable(dispatch):
            return function(name, arguments, **keywords)
        return function(**(arguments | keywords))

    return run


def _get_properties(schema: Mapping[str, object]) -> Mapping[str, object]:
    parameters = cast(Mapping[str, object], schema.get("parameters") or {})
    return cast(Mapping[str, object], parameters.get("properties") or {})
