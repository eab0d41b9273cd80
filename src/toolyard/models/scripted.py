"""A model that plays a script, for tests and demos. It raises ScriptError on a turn that the script does not have.

It is as strict as a strict provider: a history with an orphaned or duplicate item, or a bad tool name, is an error.
"""

from collections.abc import AsyncGenerator, Callable, Sequence

import msgspec
from msgspec import Struct

from toolyard.core.conversation.events import ArgumentsAppended, Finish, ModelDelta, TextAppended, TurnEnded, TurnFailed
from toolyard.core.conversation.history import find_faults
from toolyard.core.items import Call, Confirm, Item, ModelText, Problem, Usage
from toolyard.core.ports import ModelRequest
from toolyard.core.tools.definition import NAME_PATTERN


class ScriptError(AssertionError):
    """The conversation did not go as the script says."""


class ScriptedCall(Struct, frozen=True, kw_only=True):
    """One call of a scripted turn."""

    tool: str
    arguments: dict[str, object] = {}
    unreadable: str = ""
    confirm: Confirm = "no"


class Turn(Struct, frozen=True, kw_only=True):
    """One reply: a text in pieces, calls, or a failure, which may come after some text."""

    text: Sequence[str] = ()
    calls: Sequence[ScriptedCall] = ()
    failure: Problem | None = None
    finish: Finish | None = None
    """How the turn ended; None is `calls` or `stop`, as it has calls or not."""
    usage: Usage = Usage(input_tokens=10, output_tokens=5)


def say(*pieces: str) -> Turn:
    """Return a text answer, streamed in these pieces."""
    return Turn(text=pieces)


def call(tool: str, /, **arguments: object) -> Turn:
    """Return a turn that calls one tool."""
    return Turn(calls=(ScriptedCall(tool=tool, arguments=arguments),))


def together(*turns: Turn) -> Turn:
    """Return one turn with the texts and calls of several, or the failure of one of them after the texts."""
    return Turn(
        text=[piece for turn in turns for piece in turn.text],
        calls=[scripted for turn in turns for scripted in turn.calls],
        failure=next((turn.failure for turn in turns if turn.failure is not None), None),
    )


def fail(error: str, error_type: str = "model_error") -> Turn:
    return Turn(failure=Problem(error=error, error_type=error_type))


Script = Sequence[Turn] | Callable[[ModelRequest], Turn]


class Scripted:
    """Plays turns in order, or asks a function for each; `requests` keeps the requests."""

    def __init__(self, script: Script) -> None:
        self._next = script if callable(script) else None
        self._left = [] if callable(script) else list(script)
        self.requests: list[ModelRequest] = []
        self._unexpected = ""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | TurnEnded | TurnFailed, None]:
        self.requests.append(request)
        turn = self._next_turn(request)
        offset = 0
        for piece in turn.text:
            yield TextAppended(turn=request.turn, offset=offset, text=piece)
            offset += len(piece.encode())
        if turn.failure is not None:
            yield TurnFailed(problem=turn.failure)
            return
        items = _build_items(turn, request)
        for index, item in enumerate(item for item in items if isinstance(item, Call)):
            yield ArgumentsAppended(
                turn=request.turn,
                call_id=item.id,
                index=index,
                tool=item.tool,
                offset=0,
                text=_encode_arguments(item),
            )
        finish = turn.finish or ("calls" if turn.calls else "stop")
        yield TurnEnded(items=items, finish=finish, usage=turn.usage, model="scripted")

    async def close(self) -> None:
        """Raise ScriptError if a turn was not in the script, or turns of the script were never asked for."""
        if self._unexpected:
            raise ScriptError(self._unexpected)
        if self._left:
            raise ScriptError(f"{len(self._left)} steps of the script were never asked for, first {self._left[0]}")

    def _next_turn(self, request: ModelRequest) -> Turn:
        faults = find_faults(request.history)
        faults += [
            f"bad tool name {tool.name!r}" for tool in request.offer.tools if not NAME_PATTERN.fullmatch(tool.name)
        ]
        if faults:
            raise self._record_error(f"a strict provider would refuse this request: {'; '.join(faults)}")
        if self._next is not None:
            return self._next(request)
        if not self._left:
            raise self._record_error(f"the script is over, but turn {request.turn} was asked for")
        return self._left.pop(0)

    def _record_error(self, message: str) -> ScriptError:
        self._unexpected = self._unexpected or message
        return ScriptError(message)


def _build_items(turn: Turn, request: ModelRequest) -> tuple[Item, ...]:
    clock, items = request.clock, list[Item]()
    if turn.text:
        items.append(ModelText(id=clock.new_id("item"), at=clock.now(), text="".join(turn.text)))
    for scripted in turn.calls:
        items.append(
            Call(
                id=clock.new_id("call"),
                at=clock.now(),
                tool=scripted.tool,
                arguments=scripted.arguments,
                unreadable=scripted.unreadable,
                confirm=scripted.confirm,
            )
        )
    return tuple(items)


def _encode_arguments(call: Call) -> str:
    return msgspec.json.encode(call.arguments).decode()
