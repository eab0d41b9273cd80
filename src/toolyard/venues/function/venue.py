"""Tools that run in this process: typed functions, and executor objects with permissions of their own."""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Generic, ParamSpec, TypeVar, cast, overload

import msgspec

from toolyard.core.caller import Caller
from toolyard.core.errors import Invalid, Misconfigured, ToolError
from toolyard.core.items import Call, Problem
from toolyard.core.ports import Context, Failure, Pending, ToolHooks, Value, Verdict
from toolyard.core.settings.tool_rules import AfterUntrusted, Approval, iter_term_problems
from toolyard.core.tools.definition import Tool
from toolyard.core.tools.templates import check_sentences
from toolyard.venues.function.executor import REQUIRED_ATTRIBUTES, ExecutorLike, define_tool, list_sentences
from toolyard.venues.function.failures import describe_exception, find_reported_failure
from toolyard.venues.function.threads import NoThreadAvailable, ThreadPool

if TYPE_CHECKING:  # importing this loads pydantic, so it is imported at run time with the first function tool
    from toolyard.venues.function.signature import Signature

_log = logging.getLogger("toolyard.tools")

Function = Callable[..., object]
P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
RunBlocking = Callable[[Callable[[], object]], Awaitable[object]]
"""Runs a function that blocks in a thread. Raises NoThreadAvailable."""


@dataclass(frozen=True, slots=True)
class FunctionTool(Generic[P, R_co]):
    """A function that is a tool. Calling it calls the function, with the function's own parameters and result."""

    definition: Tool
    function: Callable[P, R_co]
    signature: "Signature"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        return self.function(*args, **kwargs)

    async def run(self, call: Call, context: Context, run_blocking: RunBlocking) -> object:
        arguments = self.signature.parse_arguments(call.arguments)
        if self.signature.context_parameter:
            arguments[self.signature.context_parameter] = context
        function = cast(Function, self.function)  # the arguments come from a model: their types are checked at run time
        if self.signature.is_coroutine_function:
            return await cast(Awaitable[object], function(**arguments))
        return await _invoke(lambda: function(**arguments), function, run_blocking)

    def hooks(self) -> ToolHooks:
        return ToolHooks(validate=self.signature.validate)


@dataclass(frozen=True, slots=True)
class ExecutorTool:
    definition: Tool
    executor: ExecutorLike

    async def run(self, call: Call, context: Context, run_blocking: RunBlocking) -> object:
        return await _invoke(lambda: self.executor.execute(call, context), self.executor.execute, run_blocking)

    def hooks(self) -> ToolHooks:
        def authorize(caller: Caller) -> Verdict | None:
            if not self.executor.is_enabled():
                return Verdict("deny", "the tool is disabled")
            if not self.executor.requires_permission() or any(map(self.executor.has_permission, caller.roles)):
                return None
            return Verdict("deny", "it needs a permission that no role of the caller has")

        return ToolHooks(authorize=authorize)


RunnableTool = FunctionTool[..., object] | ExecutorTool
ToolLike = Function | ExecutorLike | ExecutorTool
"""What a yard takes as a tool: a typed function, what `@tool` returns, an executor, or an executor class.

`Executor` is the base class of executors; any object with its attributes and methods works as well. A class is called
without arguments.
"""


@dataclass(frozen=True, slots=True)
class ToolDecorator:
    """Makes a function a tool with rules: what `@tool(…)` returns."""

    rules: Mapping[str, object]

    def __call__(self, function: Callable[P, R], /) -> FunctionTool[P, R]:
        return _build_tool(function, self.rules)


@overload
def tool(function: Callable[P, R], /) -> FunctionTool[P, R]: ...
@overload
def tool(
    *,
    name: str = "",
    title: str = "",
    description: str = "",
    roles: Iterable[str] = (),
    divisions: Iterable[str] = (),
    approval: Approval = "never",
    approvers: Sequence[str] = (),
    approvals: int = 1,
    approval_reason: bool = False,
    enabled: bool = True,
    timeout_s: float = 30.0,
    approval_s: float = 86_400.0,
    retries: int = 2,
    read_only: bool = False,
    destructive: bool = False,
    open_world: bool = False,
    untrusted: bool = False,
    after_untrusted: AfterUntrusted | None = None,
    idempotent: bool = False,
    exclusive: bool = False,
    max_result_bytes: int = 16_384,
    examples: Sequence[str] = (),
    propose: Sequence[str] = (),
    says: str | Sequence[str] = (),
    sources: Mapping[str, str] | None = None,
    checks_ok: bool = False,
) -> ToolDecorator: ...
def tool(function: Callable[P, R] | None = None, /, **rules: object) -> FunctionTool[P, R] | ToolDecorator:
    """Make a typed function a tool: its signature becomes the schema, its docstring the descriptions.

    What the docstring says about a parameter (in the style of Google, NumPy or Sphinx) describes the parameter; the
    rest describes the tool. `says` is a sentence for people about a call that succeeded, such as `Added {item}.`: a
    slot names a parameter, or a field that the function's return type declares.
    """
    return ToolDecorator(rules) if function is None else _build_tool(function, {})


def _build_tool(function: Callable[P, R], rules: Mapping[str, object]) -> FunctionTool[P, R]:
    from toolyard.venues.function.signature import Signature

    name = str(rules.get("name") or getattr(function, "__name__", ""))
    signature = Signature(function, name)
    options = {key: value for key, value in rules.items() if key not in ("name", "description") and value is not None}
    try:
        definition = msgspec.convert(
            {
                **options,
                "says": list_sentences(rules.get("says")),
                "name": name,
                "description": rules.get("description") or signature.description,
                "parameters": signature.schema,
            },
            Tool,
        )
    except msgspec.ValidationError as error:
        raise Misconfigured(f"tool {name!r}: {error}") from None
    result_fields = signature.list_result_fields() if definition.says else ()
    return FunctionTool(_require_consistent(definition, result_fields), function, signature)


def _require_consistent(tool: Tool, result_fields: Collection[str] = ()) -> Tool:
    if tool.read_only and tool.destructive:
        raise Misconfigured(f"tool {tool.name!r} is read_only and destructive: set one of them")
    for setting, problem in iter_term_problems(tool.approval, tool.approvers, tool.approvals):
        raise Misconfigured(f"tool {tool.name!r}: {setting} {problem}")
    try:
        check_sentences(tool, result_fields)
    except Invalid as error:
        raise Misconfigured(f"tool {tool.name!r}: {error}") from None
    return tool


def as_tool(thing: object) -> RunnableTool:
    """Return a tool for what `@tool` made, a typed function, an executor, or an executor class without arguments."""
    if isinstance(thing, FunctionTool):
        return cast(FunctionTool[..., object], thing)
    if isinstance(thing, ExecutorTool):
        return thing
    if inspect.isclass(thing) and hasattr(thing, "execute"):
        thing = cast(Callable[[], object], thing)()
    if isinstance(thing, ExecutorLike):
        return ExecutorTool(_require_consistent(define_tool(thing)), thing)
    if hasattr(thing, "execute"):
        missing = [part for part in REQUIRED_ATTRIBUTES if not hasattr(thing, part)]
        raise Misconfigured(f"executor {type(thing).__name__} lacks {', '.join(missing)}")
    if callable(thing):
        return _build_tool(thing, {})
    raise Misconfigured(f"{thing!r} is not a tool: give a typed function, a @tool, or an executor")


class FunctionVenue:
    def __init__(self, tools: Iterable[object], *, threads: int = 32) -> None:
        self._threads = ThreadPool(threads)
        self._tools: dict[str, RunnableTool] = {}
        for tool in map(as_tool, tools):
            if tool.definition.name in self._tools:
                raise Misconfigured(f"two tools are named {tool.definition.name!r}: rename one, with @tool(name=…)")
            self._tools[tool.definition.name] = tool

    def tools(self) -> Sequence[Tool]:
        return [tool.definition for tool in self._tools.values()]

    def hooks(self, tool: str) -> ToolHooks:
        return self._tools[tool].hooks()

    async def run(self, call: Call, tool: Tool, context: Context) -> Value | Failure | Pending:
        """Run a call. Whatever the tool raises becomes a failure for the model, except a cancellation."""
        try:
            # Not a nested function: each call would evaluate its annotations again, for five microseconds.
            value = await self._tools[tool.name].run(call, context, partial(self._run_blocking, tool, context))
            failure = find_reported_failure(value) if tool.checks_ok else None
            return failure or Value(value=value)
        except asyncio.CancelledError:
            raise
        except ToolError as error:
            return describe_exception(error)
        except NoThreadAvailable as error:
            error_text = f"{tool.name} was not started: {error}"
            return Failure(problem=Problem(error=error_text, error_type="unavailable", details={"started": False}))
        except BaseException as error:  # a tool that calls sys.exit() must not end the server
            _log.warning("tool %s raised", tool.name, exc_info=error if _is_writable(error) else None)
            return describe_exception(error)

    def _run_blocking(self, tool: Tool, context: Context, work: Callable[[], object]) -> Awaitable[object]:
        # Waiting for a thread may use up half of the deadline, so that the tool has the other half to run.
        return self._threads.run(work, owners=_build_owners(tool, context), max_wait_s=tool.timeout_s / 2)

    def warnings(self) -> Sequence[str]:
        """Return a warning for operators if threads hang, which are lost until their tools return."""
        hung = self._threads.abandoned
        return [f"{hung} synchronous call(s) hang past the deadline, each in a thread of its own"] if hung else []

    async def close(self) -> None:
        self._threads.close()


def _build_owners(tool: Tool, context: Context) -> dict[Hashable, float]:
    """Return the owners of a call's thread. A tool may hang in fewer threads than a caller, who has other tools."""
    caller = context.caller
    return {("tool", tool.name): 0.5, ("caller", caller.tenant, caller.user): 0.75}


async def _invoke(call: Callable[[], object], function: Function, run_blocking: RunBlocking) -> object:
    # A synchronous function may also return an awaitable, as a plain wrapper around an async function does.
    answer = call() if inspect.iscoroutinefunction(function) else await run_blocking(call)
    return await cast(Awaitable[object], answer) if inspect.isawaitable(answer) else answer


def _is_writable(error: BaseException) -> bool:
    """Return whether an error's text can be encoded: lone surrogates in it would break log handlers."""
    try:
        str(error).encode()
    except Exception:  # `__str__` of a tool's own exception may raise anything
        return False
    return True
