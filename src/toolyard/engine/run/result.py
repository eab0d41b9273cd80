"""The result of a request, for a caller in the same process: text, output, calls, tokens and how the run ended."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic

import msgspec
from msgspec import Struct

from toolyard.core.conversation.events import Ending
from toolyard.core.conversation.run_view import CallView, RunView
from toolyard.core.errors import RunFailed, RunWaiting
from toolyard.core.items import Citation, Outcome, Problem, Result, Usage
from toolyard.core.tools.definition import Tool, VenueName

if TYPE_CHECKING:  # a default, which `typing` has from Python 3.13 on: RunResult alone is that of any run
    from typing_extensions import TypeVar

    OutputT = TypeVar("OutputT", default=object, covariant=True)
else:
    from typing import TypeVar

    OutputT = TypeVar("OutputT", covariant=True)

FindTool = Callable[[str], Tool | None]


class ToolRun(Struct, frozen=True, kw_only=True):
    """A call that has ended."""

    id: str
    tool: str
    parent: str = ""
    """The call whose program made this one; empty for a call of the model."""
    arguments: dict[str, object] = {}
    """The arguments that the call ran with: the model's, or those of the approver."""
    outcome: Outcome
    content: str = ""
    """The result as the model reads it."""
    handle: str = ""
    """The handle of the whole result, if the content has only its head and tail: see `Yard.result`."""
    error: Problem | None = None
    ran: VenueName | None
    """The venue; None for an unknown tool."""
    at: str = ""
    """The MCP server, or the provider."""
    duration_ms: float = 0.0


class RunResult(Struct, Generic[OutputT], frozen=True, kw_only=True):
    """A run that has ended."""

    text: str
    output: OutputT
    """The value of the request's `output_type`. With an `output_schema`, the JSON value of the text; else None.

    With an `output_schema` it is None as well if the model refused or the run reached a limit.
    """
    usage: Usage
    calls: tuple[ToolRun, ...] = ()
    """The calls that have ended, in the order of their requests."""
    conversation: str
    ending: Ending
    run_id: str
    model_calls: int
    """How many requests were made to models, including those for a summary."""
    citations: tuple[Citation, ...] = ()
    """The sources of the text, where the provider names them."""


def build_run_result(view: RunView, find_tool: FindTool) -> RunResult:
    """Return the result of a run that has ended. Raises RunWaiting if it waits, or RunFailed if it failed."""
    if view.end is None:
        calls = f"{', '.join(view.waiting_for)}: approve, deny, answer or deliver each one"
        raise RunWaiting(
            f"the run waits for {f'room in the budget {view.awaited_budget}' if view.awaited_budget else calls}",
            conversation=view.conversation,
            waiting_for=view.waiting_for,
        )
    if view.end.ending == "failed":
        raise RunFailed(view.end.detail)
    return RunResult(
        text=view.text,
        output=_parse_output(view),
        usage=view.usage,
        calls=tuple(_build_tool_run(call, call.result, view, find_tool) for call in view.calls.values() if call.result),
        conversation=view.conversation,
        ending=view.end.ending,
        run_id=view.run_id,
        model_calls=view.model_calls,
        citations=view.citations,
    )


def read_program_value(answer: bytes | None) -> object:
    """Return the value of a program from its whole result. Raises RunFailed if the result is not kept any more."""
    if answer is None:
        raise RunFailed("unavailable: the program has ended, but its result is not kept any more")
    return msgspec.json.decode(answer, type=dict[str, object])["value"]


def _parse_output(view: RunView) -> object:
    if view.request is None or view.request.options.output_schema is None:
        return None
    try:
        return msgspec.json.decode(view.text)
    except msgspec.DecodeError:
        return None  # a refusal, or the message of a limit


def _build_tool_run(call: CallView, result: Result, view: RunView, find_tool: FindTool) -> ToolRun:
    app_tools = {tool.name: tool for tool in view.request.app_tools} if view.request else {}
    tool = app_tools.get(result.tool) or find_tool(result.tool)
    venue, at = (tool.venue, tool.server) if tool else (None, "")
    return ToolRun(
        id=call.call.id,
        tool=result.tool,
        parent=call.parent,
        arguments=call.arguments,
        outcome=result.outcome,
        content=result.content,
        handle=result.handle,
        error=result.error,
        ran="provider" if result.ran_at else venue,
        at=result.ran_at or at,
        duration_ms=result.duration_ms,
    )
