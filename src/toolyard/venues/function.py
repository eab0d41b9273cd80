"""Tools that run in this process: typed functions, and executor objects with permissions of their own.

It does not know who asks for a tool or what becomes of the result.
"""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast, overload, runtime_checkable

import msgspec

from toolyard.core.caller import Caller
from toolyard.core.errors import Misconfigured, ToolError
from toolyard.core.items import Call, Problem
from toolyard.core.ports import Context, Failure, Later, Own, Value, Verdict
from toolyard.core.results import problem_of
from toolyard.core.tools import Approval, Tool
from toolyard.venues._threads import Threads, TooManyAbandoned

if TYPE_CHECKING:  # pydantic is loaded with the first tool: whoever has none does not pay for it
    from toolyard.venues._signature import Signature

_PASSING = frozenset({"unavailable", "timeout"})
_log = logging.getLogger("toolyard.tools")

Function = Callable[..., object]


@runtime_checkable
class Executor(Protocol):
    """A tool as a class: it says what it is, who may use it, and runs."""

    name: str
    description: str
    parameters: dict[str, object]

    def is_enabled(self) -> bool: ...

    def requires_permission(self) -> bool: ...

    def has_permission(self, role: str) -> bool: ...

    def execute(self, call: Call, context: Context) -> object: ...


@dataclass(frozen=True, slots=True)
class FunctionTool:
    """A function that is a tool. Calling it calls the function."""

    definition: Tool
    function: Function
    signature: "Signature"

    def __call__(self, *args: object, **kwargs: object) -> object:
        return self.function(*args, **kwargs)

    async def run(self, call: Call, context: Context, threads: Threads) -> object:
        arguments = self.signature.read(call.arguments)
        if self.signature.context_parameter:
            arguments[self.signature.context_parameter] = context
        return await _called(lambda: self.function(**arguments), self.function, threads)

    def own(self) -> Own:
        return Own(check=self.signature.check)


@dataclass(frozen=True, slots=True)
class ExecutorTool:
    definition: Tool
    executor: Executor

    async def run(self, call: Call, context: Context, threads: Threads) -> object:
        return await _called(lambda: self.executor.execute(call, context), self.executor.execute, threads)

    def own(self) -> Own:
        def gate(caller: Caller) -> Verdict | None:
            if not self.executor.is_enabled():
                return Verdict("deny", "the tool is disabled")
            if not self.executor.requires_permission() or any(map(self.executor.has_permission, caller.roles)):
                return None
            return Verdict("deny", "it needs a permission that no role of the caller has")

        return Own(gate=gate)


@overload
def tool(function: Function, /) -> FunctionTool: ...
@overload
def tool(
    *,
    name: str = "",
    description: str = "",
    roles: Iterable[str] = (),
    divisions: Iterable[str] = (),
    approval: Approval = "never",
    enabled: bool = True,
    timeout_s: float = 30.0,
    approval_s: float = 86_400.0,
    retries: int = 2,
    read_only: bool = False,
    destructive: bool = False,
    open_world: bool = False,
    idempotent: bool = False,
    exclusive: bool = False,
    max_result_bytes: int = 16_384,
    examples: Sequence[str] = (),
    sources: Mapping[str, str] | None = None,
) -> Callable[[Function], FunctionTool]: ...
def tool(function: Function | None = None, /, **rules: object) -> FunctionTool | Callable[[Function], FunctionTool]:
    """Make a typed function a tool: its signature becomes the schema, its docstring the description."""
    if function is not None:
        return _made(function, {})
    return lambda function: _made(function, rules)


def _made(function: Function, rules: Mapping[str, object]) -> FunctionTool:
    name = str(rules.get("name") or getattr(function, "__name__", ""))
    signature: Signature = import_module("toolyard.venues._signature").Signature(function, name)
    given = {key: value for key, value in rules.items() if key not in ("name", "description") and value is not None}
    try:
        definition = msgspec.convert(
            {
                **given,
                "name": name,
                "description": rules.get("description") or inspect.getdoc(function) or "",
                "parameters": signature.schema,
            },
            Tool,
        )
    except msgspec.ValidationError as error:
        raise Misconfigured(f"tool {name!r}: {error}") from None
    if definition.read_only and definition.destructive:
        raise Misconfigured(f"tool {name!r} is read_only and destructive: set one of them")
    return FunctionTool(definition, function, signature)


def as_tool(thing: object) -> FunctionTool | ExecutorTool:
    """A tool made by `@tool`, a plain typed function, an executor, or an executor class without arguments."""
    if isinstance(thing, FunctionTool | ExecutorTool):
        return thing
    if inspect.isclass(thing) and hasattr(thing, "execute"):
        thing = cast(Callable[[], object], thing)()
    if isinstance(thing, Executor):
        definition = Tool(name=thing.name, description=thing.description, parameters=thing.parameters)
        return ExecutorTool(definition, thing)
    if hasattr(thing, "execute"):
        missing = [part for part in _EXECUTOR_PARTS if not hasattr(thing, part)]
        raise Misconfigured(f"executor {type(thing).__name__} lacks {', '.join(missing)}")
    if callable(thing):
        return _made(thing, {})
    raise Misconfigured(f"{thing!r} is not a tool: give a typed function, a @tool, or an executor")


_EXECUTOR_PARTS = (
    "name", "description", "parameters", "is_enabled", "requires_permission", "has_permission", "execute",
)  # fmt: skip


class FunctionVenue:
    def __init__(self, tools: Iterable[object], *, threads: int = 32) -> None:
        self._threads = Threads(threads)
        self._tools: dict[str, FunctionTool | ExecutorTool] = {}
        for one in map(as_tool, tools):
            if one.definition.name in self._tools:
                raise Misconfigured(f"two tools are named {one.definition.name!r}: rename one, with @tool(name=…)")
            self._tools[one.definition.name] = one

    def tools(self) -> Sequence[Tool]:
        return [one.definition for one in self._tools.values()]

    def own(self, tool: str) -> Own:
        return self._tools[tool].own()

    async def run(self, call: Call, tool: Tool, context: Context) -> Value | Failure | Later:
        """Whatever a tool raises is an answer to the model; only being stopped is not."""
        try:
            return Value(value=await self._tools[tool.name].run(call, context, self._threads))
        except asyncio.CancelledError:
            raise
        except ToolError as error:
            problem = problem_of(error.message, error.error_type, error.details)
            return Failure(problem=problem, passing=error.error_type in _PASSING)
        except TooManyAbandoned:
            said = "too many earlier calls still hang in threads that cannot be stopped; restart the server"
            return Failure(problem=Problem(error=said, error_type="unavailable"))
        except BaseException as error:
            _log.warning("tool %s raised", tool.name, exc_info=error)
            said = f"{type(error).__name__}: {_first_lines(error)}"
            return Failure(problem=problem_of(said, "execution_error"), passing=True)

    async def close(self) -> None:
        self._threads.close()


async def _called(call: Callable[[], object], function: Function, threads: Threads) -> object:
    answer = call() if inspect.iscoroutinefunction(function) else await threads.run(call)
    return await cast(Awaitable[object], answer) if inspect.isawaitable(answer) else answer


def _first_lines(error: BaseException, most: int = 1000) -> str:
    return str(error)[:most]
