"""Show a run in the terminal, and ask the user about calls that wait. `ChatClient` is the connection to the run."""

from collections.abc import Sequence

import msgspec

from toolyard.cli.conversation import Decision
from toolyard.cli.terminal import Terminal
from toolyard.core.conversation.events import (
    CallEnded,
    CallJudged,
    CallParked,
    CallProgressed,
    CallStarted,
    Entry,
    Event,
    Published,
    RunEnded,
    TextAppended,
    TurnEnded,
    TurnFailed,
    TurnStarted,
)
from toolyard.core.conversation.run_view import OpenRuns, RunView
from toolyard.core.items import Call
from toolyard.core.tools.trust import UntrustedSource


class Screen:
    """Shows a run in the terminal."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._runs = OpenRuns()
        self._view = RunView(run_id="")
        """The run of the last item."""

    def show(self, item: Published) -> None:
        """Print what an event means for the user, if anything."""
        event: Event = item.event if isinstance(item, Entry) else item
        self._view = self._runs.apply(item) or self._view
        write_line = self._terminal.write_line
        match event:
            case TextAppended(text=text):
                self._terminal.write(text)
            case CallStarted(call_id=call_id, attempt=attempt):
                write_line(f"  → {self._get_tool_name(call_id)} …" + (f" (attempt {attempt})" if attempt > 1 else ""))
            case CallProgressed(call_id=call_id, message=message) if message:
                write_line(f"    {self._get_tool_name(call_id)}: {message}")
            case CallEnded(result=result):
                error_text = f": {result.error.error}" if result.error else ""
                write_line(f"  ← {result.tool}: {result.outcome} ({result.duration_ms:.0f} ms){error_text}")
            case CallParked() | CallJudged():
                self._show_wait(event.call_id)
            case TurnStarted() if self._view.turns[-1].restarted:  # its text comes once more
                write_line("  … the server began this answer again:")
            case TurnEnded(output_problem=problem) if problem is not None and self._view.needs_repair:
                write_line(f"  … {problem.error}; the model is asked again:")
            case TurnFailed(problem=problem):
                write_line(f"  ! {problem.error}")
            case RunEnded(ending=ending, detail=detail, message=message) if message or ending != "done":
                write_line(message.text if message else f"  [{ending}: {detail}]")
            case _:
                pass

    def _show_wait(self, call_id: str) -> None:
        """Print what a call waits for, if the user of this chat cannot end the wait."""
        call = self._view.calls.get(call_id)
        if call is None or not (call.awaited == "client" or call.needs_others):
            return
        waits = "runs in an application, not in this chat"
        if call.needs_others:
            waits = f"waits for {call.awaited_approval}"
        self._terminal.write_line(f"  … {call.call.tool} {waits}; Ctrl-C stops it")

    def list_waiting_calls(self) -> list[str]:
        """Return the ids of the calls that wait for the user, and not for somebody else's approval."""
        waiting = [call for call in self._view.open_calls if call.awaited in ("approval", "answer")]
        return [call.call.id for call in waiting if not call.needs_others]

    def ask_decision(self, call_id: str) -> Decision:
        """Ask the user about a call that waits, and return the decision. Raise InputEnded or Interrupted."""
        call = self._view.calls[call_id]
        if call.awaited == "answer" and call.parked is not None:
            return self._ask_answer(call.call, call.parked)
        return self._ask_approval(call.call, call.rule, call.sources)

    def _ask_approval(self, call: Call, rule: str, sources: Sequence[UntrustedSource]) -> Decision:
        call_id, arguments, terminal = call.id, call.arguments, self._terminal
        terminal.write_line(f"  ? {call.tool} asks first ({rule}):")
        terminal.write_line(f"    {msgspec.json.encode(arguments).decode()}")
        for source in sources:
            copied = f" ({', '.join(source.copied)} taken word for word)" if source.copied else ""
            # As JSON, so that a stranger's line breaks cannot pass for lines of this program.
            passage = msgspec.json.encode(source.passage).decode()
            terminal.write_line(f"    after untrusted content from {source.name}{copied}: {passage}")
        match terminal.ask_choice("    run it? [y]es, [n]o, [e]dit: ", "yne"):
            case "y":
                return Decision(call_id=call_id, action="approve")
            case "e":
                return Decision(call_id=call_id, action="approve", arguments=terminal.edit_arguments(arguments))
            case _:
                return Decision(call_id=call_id, action="deny", reason=terminal.ask("    why not? (may be empty) "))

    def _ask_answer(self, call: Call, event: CallParked) -> Decision:
        """Ask a question: field by field if it has a form, else for one text."""
        form = msgspec.convert(event.question, _Form, strict=False)
        self._terminal.write_line(f"  ? {call.tool} asks: {form.message}")
        content: dict[str, object] = {}
        for name, field in (form.requestedSchema.properties or {"answer": _Field()}).items():
            content[name] = field.parse(self._terminal.ask(f"    {name}{field.build_hint()}: "))
        return Decision(call_id=event.call_id, action="answer", content=content)

    def _get_tool_name(self, call_id: str) -> str:
        call = self._view.calls.get(call_id)
        return call.call.tool if call else "a tool"


class _Field(msgspec.Struct):
    """One field of a question's form."""

    type: str = "string"
    description: str = ""

    def build_hint(self) -> str:
        return f" ({self.description or self.type})" if self.description or self.type != "string" else ""

    def parse(self, text: str) -> object:
        """Return the input as the JSON value that the form asks for, or as a text if it is no JSON."""
        if self.type == "string":
            return text
        try:
            return msgspec.json.decode(text)
        except msgspec.DecodeError:
            return text


class _Schema(msgspec.Struct):
    properties: dict[str, _Field] = {}


class _Form(msgspec.Struct):
    """The parts of a question, in the format of MCP's elicitation, that a terminal can ask for."""

    message: str = "it needs an answer"
    requestedSchema: _Schema = msgspec.field(default_factory=_Schema)  # noqa: N815 - MCP's name
