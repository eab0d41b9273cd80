"""Show a run in the terminal, and ask the user about calls that wait. `ChatClient` is the connection to the run."""

import msgspec
from msgspec.structs import replace

from toolyard.cli.conversation import Decision
from toolyard.cli.terminal import Terminal
from toolyard.core.conversation.events import (
    CallEnded,
    CallJudged,
    CallParked,
    CallProgressed,
    CallsRequested,
    CallStarted,
    Entry,
    Event,
    Published,
    RunEnded,
    RunSuspended,
    TextAppended,
    TurnEnded,
    TurnFailed,
    TurnStarted,
)
from toolyard.core.conversation.run_view import CallView, OpenRuns, RunView
from toolyard.core.items import Result
from toolyard.core.tools.definition import RUN_CODE_NAME


class Screen:
    """Shows a run in the terminal."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._runs = OpenRuns()
        self._view = RunView(run_id="")
        """The run of the last item."""
        self._decided: set[str] = set()
        """The calls that the user has decided. The run may be suspended again before it knows of each decision."""
        self._alike: dict[str, Decision] = {}
        """What the user has decided about calls together with another one, until they are asked about."""

    def show(self, item: Published) -> None:
        """Print what an event means for the user, if anything."""
        event: Event = item.event if isinstance(item, Entry) else item
        self._view = self._runs.apply(item) or self._view
        write_line = self._terminal.write_line
        match event:
            case TextAppended(text=text):
                self._terminal.write(text)
            case CallStarted() | CallsRequested():
                self._show_step(event)
            case CallProgressed(call_id=call_id, message=message) if message:
                write_line(f"    {self._get_tool_name(call_id)}: {message}")
            case CallEnded(result=result):
                self._show_result(result)
            case CallParked() | CallJudged() | RunSuspended():
                self._show_wait(event)
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

    def _show_step(self, event: CallStarted | CallsRequested) -> None:
        """Print that a call starts: a program with its text, once, and a call of a program with its line.

        Of a program that waits, print what it has printed.
        """
        if isinstance(event, CallsRequested):
            self._write_printed(event.printed)
            return
        call_id, attempt = event.call_id, event.attempt
        call = self._view.calls.get(call_id)
        if call is not None and call.call.tool == RUN_CODE_NAME:
            if attempt == 1:
                self._terminal.write_line(f"  → {RUN_CODE_NAME} …")
                if call_id not in self._decided or call.edited is not None:  # else the user has just read it
                    self._write_program(call)
            return  # a program that is run again from its start only goes on where it waited
        again = f" (attempt {attempt})" if attempt > 1 else ""
        self._terminal.write_line(f"{self._find_indent(call_id)}→ {describe_place(call)} …{again}")

    def _write_program(self, call: CallView) -> None:
        for number, line in enumerate(str(call.arguments.get("code", "")).rstrip("\n").split("\n"), 1):
            self._terminal.write_line(f"    {number:3} │ {line}")

    def _show_result(self, result: Result) -> None:
        """Print how a call ended, and what it printed if it was a program."""
        error_text = f": {result.error.error}" if result.error else ""
        indent = self._find_indent(result.call_id)
        self._terminal.write_line(
            f"{indent}← {result.tool}: {result.outcome} ({result.duration_ms:.0f} ms){error_text}"
        )
        if result.tool != RUN_CODE_NAME:
            return
        try:
            printed = msgspec.json.decode(result.content, type=_ProgramResult).printed
        except msgspec.DecodeError:
            printed = str(result.error.details.get("printed", "")) if result.error else ""
        call = self._view.calls.get(result.call_id)
        self._write_printed(printed.removeprefix(call.printed) if call is not None else printed)

    def _write_printed(self, text: str) -> None:
        for line in text.splitlines():
            self._terminal.write_line(f"    {line}")

    def _find_indent(self, call_id: str) -> str:
        """Return the space before a line about a call: that of a program lies below the program."""
        call = self._view.calls.get(call_id)
        return "      " if call is not None and call.parent else "  "

    def _show_wait(self, event: CallParked | CallJudged | RunSuspended) -> None:
        """Print what a call or the run waits for, if the user of this chat cannot end the wait."""
        if isinstance(event, RunSuspended):
            if event.budget:
                self._terminal.write_line(f"  … waits until the budget {event.budget} is raised; Ctrl-C stops it")
            return
        self._decided.discard(event.call_id)  # it waits for another decision
        call = self._view.calls.get(event.call_id)
        if call is None or not (call.awaited == "client" or call.needs_others):
            return
        waits = "runs in an application, not in this chat"
        if call.needs_others:
            waits = f"waits for {call.awaited_approval}"
        self._terminal.write_line(
            f"{self._find_indent(event.call_id)}… {describe_place(call)} {waits}; Ctrl-C stops it"
        )

    def list_waiting_calls(self) -> list[str]:
        """Return the ids of the calls that wait for the user, and not for somebody else's approval."""
        self._alike.clear()
        waiting = [call for call in self._view.open_calls if call.awaited in ("approval", "answer")]
        return [call.call.id for call in waiting if not call.needs_others and call.call.id not in self._decided]

    def ask_decision(self, call_id: str) -> Decision:
        """Ask the user about a call that waits, and return the decision. Raise InputEnded or Interrupted."""
        call = self._view.calls[call_id]
        if call.awaited == "answer" and call.parked is not None:
            decision = self._ask_answer(call, call.parked)
        else:
            decision = self._alike.pop(call_id, None) or self._ask_approval(call)
        self._decided.add(call_id)
        return decision

    def _list_others(self, call: CallView) -> list[CallView]:
        """Return the calls of the same program that wait as well, and that can be decided together with this one.

        Not those after untrusted content: a person has to look at each of them.
        """
        if not call.parent or call.sources:
            return []
        waiting = [other for other in self._view.open_calls if other.parent == call.parent and other is not call]
        undecided = [other for other in waiting if other.call.id not in self._decided and not other.sources]
        return [other for other in undecided if other.awaited == "approval" and not other.needs_others]

    def _ask_approval(self, call: CallView) -> Decision:
        call_id, arguments, terminal = call.call.id, call.call.arguments, self._terminal
        terminal.write_line(f"  ? {describe_place(call)} asks first ({call.rule}):")
        if call.call.tool == RUN_CODE_NAME:
            self._write_program(call)
        else:
            terminal.write_line(f"    {msgspec.json.encode(arguments).decode()}")
        others = self._list_others(call)
        for other in others:
            other_arguments = msgspec.json.encode(other.call.arguments).decode()
            terminal.write_line(f"    and {describe_place(other)} {other_arguments}")
        for source in call.sources:
            copied = f" ({', '.join(source.copied)} taken word for word)" if source.copied else ""
            # As JSON, so that a stranger's line breaks cannot pass for lines of this program.
            passage = msgspec.json.encode(source.passage).decode()
            terminal.write_line(f"    after untrusted content from {source.name}{copied}: {passage}")
        all_of_them = f", [a]ll {len(others) + 1}, [d]eny all {len(others) + 1}" if others else ""
        choice = terminal.ask_choice(f"    run it? [y]es, [n]o, [e]dit{all_of_them}: ", "yne" + "ad" * bool(others))
        if choice == "e":
            return Decision(call_id=call_id, action="approve", arguments=terminal.edit_arguments(arguments))
        decision = Decision(call_id=call_id, action="approve")
        if choice in "nd":
            decision = Decision(call_id=call_id, action="deny", reason=terminal.ask("    why not? (may be empty) "))
        if choice in "ad":
            self._alike |= {other.call.id: replace(decision, call_id=other.call.id) for other in others}
        return decision

    def _ask_answer(self, call: CallView, event: CallParked) -> Decision:
        """Ask a question: field by field if it has a form, else for one text."""
        form = msgspec.convert(event.question, _Form, strict=False)
        self._terminal.write_line(f"  ? {describe_place(call)} asks: {form.message}")
        content: dict[str, object] = {}
        for name, field in (form.requestedSchema.properties or {"answer": _Field()}).items():
            content[name] = field.parse(self._terminal.ask(f"    {name}{field.build_hint()}: "))
        return Decision(call_id=event.call_id, action="answer", content=content)

    def _get_tool_name(self, call_id: str) -> str:
        call = self._view.calls.get(call_id)
        return call.call.tool if call else "a tool"


def describe_place(call: CallView | None) -> str:
    """Return the name of a call's tool, after the line of the program that makes the call, if one does."""
    if call is None:
        return "a tool"
    return f"line {call.line}: {call.call.tool}" if call.parent else call.call.tool


class _ProgramResult(msgspec.Struct):
    """What a terminal shows of a program's result."""

    printed: str = ""


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
