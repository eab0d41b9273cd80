"""The calls of one program: recorded in the journal, run by the loop like any other call, answered from the log."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from time import monotonic

import msgspec

from toolyard.core.conversation.events import CallsRequested
from toolyard.core.conversation.run_state import CallState, ChildCall, ProgramState
from toolyard.core.conversation.state import State
from toolyard.core.failed_results import describe_program_calls, shorten_arguments
from toolyard.core.items import Call, Problem, child_id
from toolyard.core.ports import ProgramCall, ProgramResult, RecordedCall
from toolyard.core.settings.limits import Limits
from toolyard.core.tools.definition import Tool
from toolyard.engine.dependencies import Deps
from toolyard.engine.log.journal import Journal
from toolyard.engine.loop.outages import outlast_outage
from toolyard.engine.tools.registry import Registry, get_caller
from toolyard.tool_index.find_tools_result import FIND_TOOLS

ACTIVE_PHASES = ("requested", "allowed", "running")


class LoggedProgramCalls:
    """The calls of a program that runs now. `notify` is called whenever the conversation's state has changed."""

    def __init__(self, journal: Journal, deps: Deps, call_id: str) -> None:
        self._journal = journal
        self._deps = deps
        self._call_id = call_id
        self._changed = asyncio.Event()
        self._recorded: dict[str, RecordedCall] = {}
        self._printed = ""
        """What the program has printed and the log does not have yet."""
        self.recorded_seen = -1

    def reload(self) -> None:
        self._recorded, self._printed = self._list_recorded(), ""
        self.recorded_seen = self.program.seen if self._recorded else -1

    @property
    def program(self) -> ProgramState:
        return self._journal.state.calls[self._call_id].program or ProgramState()

    @property
    def limits(self) -> Limits:
        run = self._journal.state.run
        return run.limits if run else self._deps.limits

    def _list_recorded(self) -> dict[str, RecordedCall]:
        recorded = {child.call.id: RecordedCall(child.call, child.seen) for child in self.program.ended}
        return recorded | {child.call.id: RecordedCall(child.call, child.seen) for child in self.list_open()}

    def list_open(self) -> list[CallState]:
        """Return the calls of the program that have not ended."""
        return [call for call in self._journal.state.calls.values() if call.parent == self._call_id]

    def notify(self) -> None:
        self._changed.set()

    @cached_property
    def _all_tools(self) -> tuple[dict[str, Tool], list[Tool]]:
        state, registry = self._journal.state, self._deps.registry
        app_tools = state.run.request.app_tools if state.run else ()
        hidden = {tool.name for tool in app_tools if tool.hides_server_tool}
        tools, others = dict[str, Tool](), [*app_tools, *registry.native_tools(state.settings)]
        for entry in registry.table_for(get_caller(state)).values():
            tool = entry.tool
            if tool.name in hidden:
                continue  # a call of this name would be one of the application's tool
            if tool.venue not in ("function", "mcp") or entry.program_venue is not None:
                others.append(tool)
            elif tool.name == FIND_TOOLS:
                others += [tool] if FIND_TOOLS in state.offered else []
            elif self._deps.offers.may_use(tool, state):  # hints must not name tools that the caller may not use
                tools[tool.name] = tool
        return tools, others

    @property
    def tools(self) -> Mapping[str, Tool]:
        return self._all_tools[0]

    @property
    def other_tools(self) -> Sequence[Tool]:
        return self._all_tools[1]

    def find_recorded(self, position: int) -> RecordedCall | None:
        return self._recorded.get(child_id(self._call_id, position))

    def note_printed(self, text: str) -> None:
        self._printed += text

    def request(self, calls: Sequence[ProgramCall], seen: int) -> None:
        first, now = self.program.requested, self._deps.clock.now()
        items = tuple(
            Call(id=child_id(self._call_id, first + number), at=now, tool=call.tool, arguments=call.arguments)
            for number, call in enumerate(calls)
        )
        lines = tuple(call.line for call in calls)
        printed, self._printed = self._redact(self._printed), ""
        self._journal.emit(CallsRequested(parent=self._call_id, seen=seen, calls=items, lines=lines, printed=printed))

    def _redact(self, text: str) -> str:
        run = self._journal.state.run
        return self._deps.redaction.find(run.started_at).redact_text(text) if text and run is not None else text

    async def wait_result(self, number: int, max_wait_s: float | None) -> ProgramResult | None:
        until = None if max_wait_s is None else monotonic() + max_wait_s
        while True:
            self._changed.clear()
            self._journal.require_state()
            program = self.program
            if len(program.ended) > number:
                return await self._build_result(program.ended[number])
            # The run can be suspended only if the log says that the program has been given all results there are.
            # While calls of it run, the run is not suspended in any case, and the next entry of the program says so.
            if program.seen < number and not any(child.phase in ACTIVE_PHASES for child in self.list_open()):
                self.request((), number)
                continue
            # Not `asyncio.wait_for`: before Python 3.12 it can swallow a cancellation that comes with the event.
            try:
                async with asyncio.timeout(None if until is None else max(0.0, until - monotonic())):
                    await self._changed.wait()
            except TimeoutError:
                return None

    async def wait_closed(self, end_call: Callable[[CallState], None]) -> None:
        """Wait until all calls have ended. `end_call` ends those that have not started, and are not to start."""
        while children := self.list_open():
            self._changed.clear()
            self._journal.require_state()
            idle = [child for child in children if child.phase != "running"]
            for child in idle:
                end_call(child)
            if len(idle) < len(children):
                await self._changed.wait()

    async def _build_result(self, child: ChildCall) -> ProgramResult:
        position, result = int(child.call.id.rpartition(".")[2]), child.result
        if result.outcome != "ok":
            problem = result.error or Problem(error=result.content, error_type=result.outcome)
            return ProgramResult(position, result.outcome, problem=problem)
        max_bytes = self.limits.program_value_bytes
        size = result.whole_bytes or len(result.content)
        if size > max_bytes:
            error = f"the call ran, but its result of {size:,} bytes is more than the {max_bytes:,} that a program gets"
            return ProgramResult(position, "error", problem=Problem(error=error, error_type="too_large"))
        read = partial(self._deps.result_encoder.read_whole, self._journal.conversation, result)
        body = await (outlast_outage(read, self._journal, self._deps) if result.handle else read())
        if body is None:
            problem = Problem(error="the call ran, but its result is not kept any more", error_type="unavailable")
            return ProgramResult(position, "error", problem=problem)
        value: object = body.decode() if result.is_text else msgspec.json.decode(body)
        return ProgramResult(position, "ok", value=value)

    def describe_effects(self) -> dict[str, object]:
        """Return the details of a failed program: the calls that have run and may have changed something."""
        return describe_program_calls(list_effects(self.program, self._journal.state, self._deps.registry))

    def list_edits(self) -> list[dict[str, object]]:
        """Return the calls whose arguments a person has changed."""
        return [
            {
                "tool": child.call.tool,
                "arguments": shorten_arguments(child.call.arguments),
                "changed_to": shorten_arguments(child.edited),
            }
            for child in self.program.ended
            if child.edited is not None
        ]

    @property
    def sources(self) -> str:
        """Return the untrusted sources of the program and of the results of its calls."""
        return self._journal.state.calls[self._call_id].program_sources


def list_effects(program: ProgramState, state: State, registry: Registry) -> list[dict[str, object]]:
    """Return the ended calls of a program that had started and may have changed something."""

    def is_harmless(child: ChildCall) -> bool:
        entry = registry.find(child.call.tool, (), get_caller(state))
        return entry is not None and entry.tool.read_only

    return program.list_started(is_harmless)
