"""A log as a test writes it: each event is stamped, numbered and folded at once. And the items that events carry."""

from collections.abc import Callable

from toolyard.core.caller import Caller
from toolyard.core.conversation.events import (
    CallEnded,
    CallJudged,
    CallsRequested,
    CallStarted,
    ConversationOpened,
    Durable,
    Entry,
    Finish,
    RunEnded,
    RunQueued,
    RunStarted,
    TurnEnded,
    TurnStarted,
)
from toolyard.core.conversation.settings import Settings
from toolyard.core.conversation.state import State, apply
from toolyard.core.items import Call, Item, ModelText, Result, TextPart, Usage, UserMessage, child_id, result_id
from toolyard.core.settings.limits import Limits
from toolyard.core.tool_identity import ToolIdentity

Apply = Callable[[State, Entry], State]
OWNER = Caller(user="owner")


def user(item_id: str, text: str = "hello") -> UserMessage:
    return UserMessage(id=item_id, at=0.0, parts=(TextPart(text=text),))


def model_text(item_id: str, text: str = "an answer") -> ModelText:
    return ModelText(id=item_id, at=0.0, text=text)


def tool_call(call_id: str, tool: str = "plain") -> Call:
    return Call(id=call_id, at=0.0, tool=tool, arguments={"of": call_id})


def ok_result(call_id: str, tool: str = "plain") -> Result:
    return Result(id=result_id(call_id), at=0.0, call_id=call_id, tool=tool, outcome="ok", content="fine")


def _find_run(event: Durable, state: State) -> str:
    """Return the run that the journal stamps on an event; empty if the event has none yet."""
    match event:
        case RunQueued():
            return ""
        case RunStarted():
            return state.queue[0].id if state.queue else ""
        case RunEnded(run_id=run_id) if run_id:
            return run_id
        case _:
            return state.run.id if state.run else ""


class Story:
    """One conversation's log and what it folds to."""

    def __init__(self, apply: Apply = apply) -> None:
        self._apply = apply
        self.log: list[Entry] = []
        self.state = State()
        self.epoch = 1

    def add(self, *events: Durable, at: float = 0.0, run: str = "") -> State:
        """Append all of the events, or none of them if one is refused."""
        state, entries = self.state, list[Entry]()
        for event in events:
            name = _find_run(event, state) or run
            seq = len(self.log) + len(entries) + 1
            entries.append(
                Entry(conversation="k", seq=seq, at=at, event=event, run=name, correlation_id="trace", epoch=self.epoch)
            )
            state = self._apply(state, entries[-1])
        self.log += entries
        self.state = state
        return state

    def open(self) -> "Story":
        self.add(ConversationOpened(owner=OWNER, settings=Settings()))
        return self

    def queue(self, run: str, *items: Item, limits: Limits | None = None) -> "Story":
        self.add(RunQueued(caller=OWNER, input=items or (user(f"{run}.in"),), limits=limits), run=run)
        return self

    def begin(self, run: str, *items: Item, limits: Limits | None = None, at: float = 0.0) -> "Story":
        """A run that has started."""
        self.queue(run, *items)
        self.add(RunStarted(model="m", limits=limits or Limits()), at=at)
        return self

    def ask(self, epoch: int = 1, at: float = 0.0) -> "Story":
        """A turn that is in flight."""
        number = self.state.turn.number if self.state.turn else self.state.turns + 1
        self.add(TurnStarted(number=number, epoch=epoch), at=at)
        return self

    def turn(self, *items: Item, finish: Finish | None = None, usage: Usage | None = None, at: float = 0.0) -> "Story":
        """A turn that came to these items."""
        self.ask(at=at)
        calls = any(isinstance(item, Call) for item in items)
        self.add(TurnEnded(items=items, finish=finish or ("calls" if calls else "stop"), usage=usage or Usage()), at=at)
        return self

    def allow(self, *call_ids: str, exclusive: bool = False) -> "Story":
        for call_id in call_ids:
            self.add(CallJudged(call_id=call_id, verdict="allow", rule="test", exclusive=exclusive))
        return self

    def hold(self, call_id: str, expires_at: float = 100.0) -> "Story":
        """A call that asks for approval."""
        tool = ToolIdentity("", self.state.calls[call_id].call.tool)
        self.add(CallJudged(call_id=call_id, verdict="ask", rule="test", expires_at=expires_at, tool=tool))
        return self

    def start(self, *call_ids: str, epoch: int = 1) -> "Story":
        for call_id in call_ids:
            attempt = self.state.calls[call_id].attempt + 1
            self.add(CallStarted(call_id=call_id, epoch=epoch, attempt=attempt))
        return self

    def nest(self, parent: str, *tools: str, seen: int = 0) -> "Story":
        """A program that asks for calls of these tools, one if none is named, and waits."""
        program = self.state.calls[parent].program
        first = program.requested if program else 0
        calls = tuple(tool_call(child_id(parent, first + n), tool) for n, tool in enumerate(tools or ("plain",)))
        self.add(CallsRequested(parent=parent, seen=seen, calls=calls))
        return self

    def close(self, result: Result) -> "Story":
        self.add(CallEnded(result=result))
        return self
