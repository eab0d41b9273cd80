"""Show a run in the terminal, and ask the user about calls that wait. `ChatClient` is the connection to the run."""

import msgspec

from toolyard.cli.conversation import Decision
from toolyard.cli.terminal import Terminal
from toolyard.core.events import (
    CallEnded,
    CallJudged,
    CallParked,
    CallProgressed,
    CallStarted,
    Entry,
    Event,
    RunEnded,
    RunQueued,
    TextAppended,
    TurnEnded,
    TurnFailed,
    TurnStarted,
)
from toolyard.core.items import Call
from toolyard.engine.readers import Published


class Screen:
    """The view of one run. It remembers the calls to which later events refer by id."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._calls: dict[str, Call] = {}
        self._asking: dict[str, CallJudged | CallParked] = {}
        self._turn = 0

    def show(self, item: Published) -> None:
        """Print what an event means for the user, if anything."""
        event: Event = item.event if isinstance(item, Entry) else item
        self._record(event)
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
            case CallParked(call_id=call_id, kind="client"):
                write_line(
                    f"  … {self._get_tool_name(call_id)} runs in an application, not in this chat; Ctrl-C stops it"
                )
            case TurnFailed(problem=problem):
                write_line(f"  ! {problem.error}")
            case RunEnded(ending=ending, detail=detail, message=message) if message or ending != "done":
                write_line(message.text if message else f"  [{ending}: {detail}]")
            case _:
                pass

    def list_waiting_calls(self) -> list[str]:
        """Return the ids of the calls that wait for the user."""
        return list(self._asking)

    def ask_decision(self, call_id: str) -> Decision:
        """Ask the user about a call that waits, and return the decision. Raise InputEnded or Interrupted."""
        event = self._asking[call_id]
        return self._ask_approval(call_id, event) if isinstance(event, CallJudged) else self._ask_answer(event)

    def _record(self, event: Event) -> None:
        """Remember the calls and questions to which later events refer."""
        match event:
            case RunQueued(input=items) | TurnEnded(items=items):
                self._calls |= {item.id: item for item in items if isinstance(item, Call)}
            case TurnStarted(number=number):
                if number == self._turn:  # the turn was restarted, and its text comes once more
                    self._terminal.write_line("  … the server began this answer again:")
                self._turn = number
            case CallJudged(verdict="ask", call_id=call_id) | CallParked(kind="question", call_id=call_id):
                self._asking[call_id] = event
            case CallStarted(call_id=call_id):
                self._asking.pop(call_id, None)
            case CallEnded(result=result):
                self._asking.pop(result.call_id, None)
            case _:
                pass

    def _ask_approval(self, call_id: str, event: CallJudged) -> Decision:
        call, terminal = self._calls.get(call_id), self._terminal
        arguments = call.arguments if call else {}
        terminal.write_line(f"  ? {self._get_tool_name(call_id)} asks first ({event.rule}):")
        terminal.write_line(f"    {msgspec.json.encode(arguments).decode()}")
        match terminal.ask_choice("    run it? [y]es, [n]o, [e]dit: ", "yne"):
            case "y":
                return Decision(call_id=call_id, action="approve")
            case "e":
                return Decision(call_id=call_id, action="approve", arguments=terminal.edit_arguments(arguments))
            case _:
                return Decision(call_id=call_id, action="deny", reason=terminal.ask("    why not? (may be empty) "))

    def _ask_answer(self, event: CallParked) -> Decision:
        """Ask a question: field by field if it has a form, else for one text."""
        form = msgspec.convert(event.question, _Form, strict=False)
        self._terminal.write_line(f"  ? {self._get_tool_name(event.call_id)} asks: {form.message}")
        content: dict[str, object] = {}
        for name, field in (form.requestedSchema.properties or {"answer": _Field()}).items():
            content[name] = field.parse(self._terminal.ask(f"    {name}{field.build_hint()}: "))
        return Decision(call_id=event.call_id, action="answer", content=content)

    def _get_tool_name(self, call_id: str) -> str:
        call = self._calls.get(call_id)
        return call.tool if call else "a tool"


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
