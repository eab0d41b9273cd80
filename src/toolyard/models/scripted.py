"""A model that says what it was told to say. For tests and demos; it raises on a step that was not foreseen.

It is as strict as a strict provider: a history with an orphan, a double or a bad name is an error, not a request.
"""

from collections.abc import AsyncGenerator, Callable, Sequence

import msgspec
from msgspec import Struct

from toolyard.core.events import ArgumentsAppended, ModelDelta, TextAppended, TurnEnded, TurnFailed
from toolyard.core.history import find_faults
from toolyard.core.items import Call, Confirm, Item, ModelText, Problem, Usage
from toolyard.core.ports import ModelRequest
from toolyard.core.tools import NAME_PATTERN


class ScriptError(AssertionError):
    """The conversation did not go as the script says."""


class ScriptedCall(Struct, frozen=True, kw_only=True):
    """One call of a scripted turn."""

    tool: str
    arguments: dict[str, object] = {}
    unreadable: str = ""
    confirm: Confirm = "no"


class Turn(Struct, frozen=True, kw_only=True):
    """One reply: a text in pieces, calls, or a failure."""

    text: Sequence[str] = ()
    calls: Sequence[ScriptedCall] = ()
    failure: Problem | None = None
    usage: Usage = Usage(input_tokens=10, output_tokens=5)


def say(*pieces: str) -> Turn:
    """A text answer, streamed in these pieces."""
    return Turn(text=pieces)


def call(tool: str, /, **arguments: object) -> Turn:
    """A turn that asks for one tool."""
    return Turn(calls=(ScriptedCall(tool=tool, arguments=arguments),))


def together(*turns: Turn) -> Turn:
    """Several calls in one turn."""
    return Turn(
        text=[piece for turn in turns for piece in turn.text], calls=[one for turn in turns for one in turn.calls]
    )


def fail(error: str, error_type: str = "model_error") -> Turn:
    return Turn(failure=Problem(error=error, error_type=error_type))


Script = Sequence[Turn] | Callable[[ModelRequest], Turn]


class Scripted:
    """Plays turns one after the other, or asks a function for each; keeps the requests it got."""

    def __init__(self, script: Script) -> None:
        self._next = script if callable(script) else None
        self._left = [] if callable(script) else list(script)
        self.requests: list[ModelRequest] = []
        self._unexpected = ""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | TurnEnded | TurnFailed, None]:
        self.requests.append(request)
        turn = self._next_turn(request)
        if turn.failure is not None:
            yield TurnFailed(problem=turn.failure)
            return
        offset = 0
        for piece in turn.text:
            yield TextAppended(turn=request.turn, offset=offset, text=piece)
            offset += len(piece.encode())
        items = _build_items(turn, request)
        for index, item in enumerate(item for item in items if isinstance(item, Call)):
            yield ArgumentsAppended(
                turn=request.turn, index=index, tool=item.tool, offset=0, text=_encode_arguments(item)
            )
        yield TurnEnded(items=items, finish="calls" if turn.calls else "stop", usage=turn.usage, model="scripted")

    async def close(self) -> None:
        """Raises ScriptError if a step was not foreseen or was never taken."""
        if self._unexpected:
            raise ScriptError(self._unexpected)
        if self._left:
            raise ScriptError(f"{len(self._left)} steps of the script were never asked for, first {self._left[0]}")

    def _next_turn(self, request: ModelRequest) -> Turn:
        wrong = find_faults(request.history)
        wrong += [
            f"bad tool name {tool.name!r}" for tool in request.offer.tools if not NAME_PATTERN.fullmatch(tool.name)
        ]
        if wrong:
            raise self._record_error(f"a strict provider would refuse this request: {'; '.join(wrong)}")
        if self._next is not None:
            return self._next(request)
        if not self._left:
            raise self._record_error(f"the script is over, but turn {request.turn} was asked for")
        return self._left.pop(0)

    def _record_error(self, message: str) -> ScriptError:
        self._unexpected = self._unexpected or message
        return ScriptError(message)


def _build_items(turn: Turn, request: ModelRequest) -> tuple[Item, ...]:
    mint, items = request.clock, list[Item]()
    if turn.text:
        items.append(ModelText(id=mint.new_id("item"), at=mint.now(), text="".join(turn.text)))
    for one in turn.calls:
        items.append(
            Call(
                id=mint.new_id("call"),
                at=mint.now(),
                tool=one.tool,
                arguments=one.arguments,
                unreadable=one.unreadable,
                confirm=one.confirm,
            )
        )
    return tuple(items)


def _encode_arguments(call: Call) -> str:
    return msgspec.json.encode(call.arguments).decode()
