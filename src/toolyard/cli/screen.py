"""A run as a person sees it in the terminal, and the questions that it comes to. It does not know where the run is."""

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
    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._calls: dict[str, Call] = {}
        self._asking: dict[str, CallJudged | CallParked] = {}
        self._turn = 0

    def show(self, item: Published) -> None:
        event: Event = item.event if isinstance(item, Entry) else item
        self._record(event)
        say = self._terminal.write_line
        match event:
            case TextAppended(text=text):
                self._terminal.write(text)
            case CallStarted(call_id=call_id, attempt=attempt):
                say(f"  → {self._get_tool_name(call_id)} …" + (f" (attempt {attempt})" if attempt > 1 else ""))
            case CallProgressed(call_id=call_id, message=message) if message:
                say(f"    {self._get_tool_name(call_id)}: {message}")
            case CallEnded(result=result):
                why = f": {result.error.error}" if result.error else ""
                say(f"  ← {result.tool}: {result.outcome} ({result.duration_ms:.0f} ms){why}")
            case CallParked(call_id=call_id, kind="client"):
                say(f"  … {self._get_tool_name(call_id)} runs in an application, not in this chat; Ctrl-C stops it")
            case TurnFailed(problem=problem):
                say(f"  ! {problem.error}")
            case RunEnded(ending=ending, detail=detail, message=message) if message or ending != "done":
                say(message.text if message else f"  [{ending}: {detail}]")
            case _:
                pass

    def list_waiting_calls(self) -> list[str]:
        """The calls that wait for the person."""
        return list(self._asking)

    def ask_decision(self, call_id: str) -> Decision:
        """What the person says to one of them. Raises Left or Interrupted."""
        asked = self._asking[call_id]
        return self._ask_approval(call_id, asked) if isinstance(asked, CallJudged) else self._ask_answer(asked)

    def _record(self, event: Event) -> None:
        """Keep what later events refer to."""
        match event:
            case RunQueued(input=items) | TurnEnded(items=items):
                self._calls |= {item.id: item for item in items if isinstance(item, Call)}
            case TurnStarted(number=number):
                if number == self._turn:
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
        """A question with a form is asked field by field; one without, as a text."""
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
        """What was typed, as the kind of value that the form asks for; a text if it is not one."""
        if self.type == "string":
            return text
        try:
            return msgspec.json.decode(text)
        except msgspec.DecodeError:
            return text


class _Schema(msgspec.Struct):
    properties: dict[str, _Field] = {}


class _Form(msgspec.Struct):
    """The parts of a question (as MCP's elicitation has them) that a terminal can ask."""

    message: str = "it needs an answer"
    requestedSchema: _Schema = msgspec.field(default_factory=_Schema)  # noqa: N815 - MCP's name
