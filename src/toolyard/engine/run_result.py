"""The result of a request, built from its entries: text, model calls, tokens and where each tool ran."""

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from toolyard.core.errors import RunFailed, RunWaiting
from toolyard.core.events import (
    CallEnded,
    Ending,
    Entry,
    HistoryCompacted,
    RunEnded,
    RunSuspended,
    TurnEnded,
    TurnFailed,
)
from toolyard.core.items import Citation, Item, ModelText, Outcome, Result, Usage
from toolyard.core.tools import Tool, VenueName


class ToolRun(Struct, frozen=True, kw_only=True):
    """A call that has ended."""

    tool: str
    ran: VenueName | None
    """The venue; None for an unknown tool."""
    at: str = ""
    """The MCP server, or the provider."""
    outcome: Outcome
    duration_ms: float = 0.0


class RunResult(Struct, frozen=True, kw_only=True):
    text: str
    conversation: str
    run_id: str
    ending: Ending
    model_calls: int
    """How many requests were made to models, including those for a summary."""
    usage: Usage
    tools: tuple[ToolRun, ...] = ()
    citations: tuple[Citation, ...] = ()
    """The sources of the text, where the provider names them."""


class RunResultBuilder:
    """Collects the entries of a run into its RunResult."""

    def __init__(self, find_tool: Callable[[str], Tool | None]) -> None:
        self._find_tool = find_tool
        self._texts: list[ModelText] = []
        self._model_calls = 0
        self._usage = Usage()
        self._tools: list[ToolRun] = []

    def add(self, entry: Entry) -> RunResult | None:
        """Return the result once the run has ended, else None. Raises RunWaiting for a suspended run, or RunFailed."""
        match entry.event:
            case TurnEnded(items=items, usage=usage):
                self._add_turn(items, usage)
            case TurnFailed():
                self._model_calls += 1
            case HistoryCompacted(usage=usage, summarised=summarised, problem=problem):
                self._model_calls += summarised or problem is not None
                self._usage = self._usage.plus(usage)
            case CallEnded(result=result):
                self._tools.append(self._build_tool_run(result))
            case RunSuspended(waiting_for=waiting_for):
                raise RunWaiting(
                    f"the run waits for {', '.join(waiting_for)}: approve, deny, answer or deliver each one",
                    conversation=entry.conversation,
                    waiting_for=waiting_for,
                )
            case RunEnded(ending="failed", detail=detail):
                raise RunFailed(detail)
            case RunEnded(ending=ending, message=message):
                return self._build_result(entry, ending, [message] if message else self._texts)
            case _:
                pass
        return None

    def _add_turn(self, items: tuple[Item, ...], usage: Usage) -> None:
        self._model_calls += 1
        self._usage = self._usage.plus(usage)
        self._texts = [item for item in items if isinstance(item, ModelText)]
        self._tools += [self._build_tool_run(item) for item in items if isinstance(item, Result)]

    def _build_tool_run(self, result: Result) -> ToolRun:
        tool = self._find_tool(result.tool)
        venue, at = (tool.venue, tool.server) if tool else (None, "")
        return ToolRun(
            tool=result.tool,
            ran="provider" if result.ran_at else venue,
            at=result.ran_at or at,
            outcome=result.outcome,
            duration_ms=result.duration_ms,
        )

    def _build_result(self, entry: Entry, ending: Ending, texts: list[ModelText]) -> RunResult:
        return RunResult(
            text="".join(text.text for text in texts),
            conversation=entry.conversation,
            run_id=entry.run,
            ending=ending,
            model_calls=self._model_calls,
            usage=self._usage,
            tools=tuple(self._tools),
            citations=merge_citations(texts),
        )


def merge_citations(texts: list[ModelText]) -> tuple[Citation, ...]:
    """Return the citations of the texts, with offsets into the joined text."""
    merged: list[Citation] = []
    offset = 0
    for text in texts:
        merged += [replace(cited, start=cited.start + offset, end=cited.end + offset) for cited in text.citations]
        offset += len(text.text)
    return tuple(merged)
