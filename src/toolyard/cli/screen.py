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
        self._note(event)
        say = self._terminal.line
        match event:
            case TextAppended(text=text):
                self._terminal.write(text)
            case CallStarted(call_id=call_id, attempt=attempt):
                say(f"  → {self._name(call_id)} …" + (f" (attempt {attempt})" if attempt > 1 else ""))
            case CallProgressed(call_id=call_id, message=message) if message:
                say(f"    {self._name(call_id)}: {message}")
            case CallEnded(result=result):
                why = f": {result.error.error}" if result.error else ""
                say(f"  ← {result.tool}: {result.outcome} ({result.duration_ms:.0f} ms){why}")
            case CallParked(call_id=call_id, kind="client"):
                say(f"  … {self._name(call_id)} runs in an application, which this chat is not; Ctrl-C stops it")
            case TurnFailed(problem=problem):
                say(f"  ! {problem.error}")
            case RunEnded(ending=ending, detail=detail, message=message) if message or ending != "done":
                say(message.text if message else f"  [{ending}: {detail}]")
            case _:
                pass

    def waiting(self) -> list[str]:
        """The calls that wait for the person."""
        return list(self._asking)

    def decision(self, call_id: str) -> Decision:
        """What the person says to one of them. Raises Left or Interrupted."""
        asked = self._asking[call_id]
        return self._approval(call_id, asked) if isinstance(asked, CallJudged) else self._answer(asked)

    def _note(self, event: Event) -> None:
        """Keep what later events refer to."""
        match event:
            case RunQueued(input=items) | TurnEnded(items=items):
                self._calls |= {item.id: item for item in items if isinstance(item, Call)}
            case TurnStarted(number=number):
                if number == self._turn:
                    self._terminal.line("  … the server began this answer again:")
                self._turn = number
            case CallJudged(verdict="ask", call_id=call_id) | CallParked(kind="question", call_id=call_id):
                self._asking[call_id] = event
            case CallStarted(call_id=call_id):
                self._asking.pop(call_id, None)
            case CallEnded(result=result):
                self._asking.pop(result.call_id, None)
            case _:
                pass

    def _approval(self, call_id: str, asked: CallJudged) -> Decision:
        call, terminal = self._calls.get(call_id), self._terminal
        arguments = call.arguments if call else {}
        terminal.line(f"  ? {self._name(call_id)} asks first ({asked.rule}):")
        terminal.line(f"    {msgspec.json.encode(arguments).decode()}")
        match terminal.choice("    run it? [y]es, [n]o, [e]dit: ", "yne"):
            case "y":
                return Decision(call_id=call_id, say="approve")
            case "e":
                return Decision(call_id=call_id, say="approve", arguments=terminal.edited(arguments))
            case _:
                return Decision(call_id=call_id, say="deny", reason=terminal.ask("    why not? (may be empty) "))

    def _answer(self, asked: CallParked) -> Decision:
        """A question with a form is asked field by field; one without, as a text."""
        form = msgspec.convert(asked.question, _Form, strict=False)
        self._terminal.line(f"  ? {self._name(asked.call_id)} asks: {form.message}")
        content: dict[str, object] = {}
        for name, field in (form.requestedSchema.properties or {"answer": _Field()}).items():
            content[name] = field.read(self._terminal.ask(f"    {name}{field.hint()}: "))
        return Decision(call_id=asked.call_id, say="answer", content=content)

    def _name(self, call_id: str) -> str:
        call = self._calls.get(call_id)
        return call.tool if call else "a tool"


class _Field(msgspec.Struct):
    """One field of a question's form."""

    type: str = "string"
    description: str = ""

    def hint(self) -> str:
        return f" ({self.description or self.type})" if self.description or self.type != "string" else ""

    def read(self, text: str) -> object:
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
