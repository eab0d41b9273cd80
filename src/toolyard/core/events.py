"""Everything that can happen in a conversation, once. Names are `noun.past_participle`.

Durable events are the log: folding them gives the state. Fleeting events are a courtesy to live readers and are
never stored; each names its stream and its offset, so that applying one twice changes nothing.
"""

from typing import Literal

from msgspec import Struct

from toolyard.core.caller import Caller
from toolyard.core.conversation_settings import Settings
from toolyard.core.items import Item, ModelText, Problem, Result, Usage
from toolyard.core.limits import Limits
from toolyard.core.mcp_client import McpClient
from toolyard.core.notes import Note
from toolyard.core.tools import Tool
from toolyard.core.web_search import SearchMode

FORMAT = 1
"""The format that is written today; every earlier one stays readable."""
Ending = Literal["done", "limit", "cancelled", "failed"]
Finish = Literal["stop", "calls", "length", "refused", "paused", "cancelled"]
Decision = Literal["allow", "ask", "deny"]
ParkedKind = Literal["client", "question"]
Remember = Literal["no", "tool", "conversation"]
Reply = Literal["accepted", "declined", "cancelled"]


class _Event(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag_field="type"):
    pass


class ConversationOpened(_Event, frozen=True, kw_only=True, tag="conversation.opened"):
    owner: Caller
    settings: Settings


class ConversationChanged(_Event, frozen=True, kw_only=True, tag="conversation.changed"):
    settings: Settings


class MessageAdded(_Event, frozen=True, kw_only=True, tag="message.added"):
    item: Item


class MessageRemoved(_Event, frozen=True, kw_only=True, tag="message.removed"):
    """The items that went: a call goes with its result."""

    ids: frozenset[str]


class HistoryCompacted(_Event, frozen=True, kw_only=True, tag="history.compacted"):
    """To make room, the model is shown less: the items up to and with `through` were replaced by these.

    Where `dropped` names results, those alone were replaced, each by a word that it was there.
    """

    through: str
    items: tuple[Item, ...] = ()
    dropped: tuple[str, ...] = ()
    summarised: bool = False
    """The items hold a summary that the model made."""
    problem: Problem | None = None
    """Why there is none although one was wanted."""
    usage: Usage = Usage()
    """What the summary took."""
    tokens_before: int = 0
    tokens_after: int = 0
    """Of the history, by estimate."""


class RunQueued(_Event, frozen=True, kw_only=True, tag="run.queued"):
    """A request joined the line, with all that it needs to be driven later and by another owner."""

    caller: Caller
    input: tuple[Item, ...]
    app_tools: tuple[Tool, ...] = ()
    tool_choice: str = "auto"
    model: str = ""
    limits: Limits | None = None
    web_search: SearchMode = ""
    context: dict[str, Note] = {}
    """Named context of this request alone, beside the conversation's."""
    language: str = ""
    mcp_client: McpClient | None = None


class RunStarted(_Event, frozen=True, kw_only=True, tag="run.started"):
    """The first in line began, with the model and the limits that hold for it."""

    model: str
    limits: Limits
    window: int = 0
    """How many tokens the model takes, if anybody knows: near it, history is compacted."""
    language: str = ""
    """In which its caller is told what no model says; empty in logs of earlier versions."""


class TurnStarted(_Event, frozen=True, kw_only=True, tag="turn.started"):
    """A model request began; a second one with the same number means that the first one's owner died."""

    number: int
    epoch: int
    offer: str = ""
    """The digest of the tools offered; `added` and `removed` say how they differ from the turn before."""
    offered: int = 0
    added: dict[str, str] = {}
    removed: tuple[str, ...] = ()
    search: str = ""
    """Where a search of the web runs, and why there, if anybody spoke of one."""

    def apply_to(self, offered: dict[str, str]) -> dict[str, str]:
        """What is offered from this turn on: the same object where nothing changed."""
        if not (self.added or self.removed):
            return offered
        gone = frozenset(self.removed)
        return {name: digest for name, digest in offered.items() if name not in gone} | self.added


class TurnEnded(_Event, frozen=True, kw_only=True, tag="turn.ended"):
    items: tuple[Item, ...]
    finish: Finish
    usage: Usage = Usage()
    model: str = ""


class TurnFailed(_Event, frozen=True, kw_only=True, tag="turn.failed"):
    problem: Problem


class CallJudged(_Event, frozen=True, kw_only=True, tag="call.judged"):
    call_id: str
    verdict: Decision
    rule: str
    exclusive: bool = False
    expires_at: float = 0.0


class CallApproved(_Event, frozen=True, kw_only=True, tag="call.approved"):
    call_id: str
    by: str
    arguments: dict[str, object] | None = None
    remember: Remember = "no"


class CallDenied(_Event, frozen=True, kw_only=True, tag="call.denied"):
    call_id: str
    by: str
    reason: str = ""


class CallStarted(_Event, frozen=True, kw_only=True, tag="call.started"):
    call_id: str
    epoch: int
    attempt: int = 1


class CallParked(_Event, frozen=True, kw_only=True, tag="call.parked"):
    """The result, or an answer to a question, will come from outside."""

    call_id: str
    kind: ParkedKind
    expires_at: float
    question: dict[str, object] = {}
    resume_token: str = ""


class CallAnswered(_Event, frozen=True, kw_only=True, tag="call.answered"):
    call_id: str
    by: str
    reply: Reply
    content: dict[str, object] = {}


class CallEnded(_Event, frozen=True, kw_only=True, tag="call.ended"):
    result: Result


class StopRequested(_Event, frozen=True, kw_only=True, tag="stop.requested"):
    """Of one call, or of the whole run."""

    by: str
    call_id: str = ""
    detail: str = ""
    """Why, where it was not simply asked for."""


class RunSuspended(_Event, frozen=True, kw_only=True, tag="run.suspended"):
    waiting_for: tuple[str, ...]
    wake_at: float


class RunEnded(_Event, frozen=True, kw_only=True, tag="run.ended"):
    """The run in front ended; or one that was stopped while it stood in line, which is then named."""

    ending: Ending
    detail: str = ""
    message: ModelText | None = None
    run_id: str = ""

    @property
    def problem(self) -> Problem | None:
        """Return why the run failed, None for every other ending. `plan` writes the type before the words."""
        if self.ending != "failed":
            return None
        error_type, _, error = self.detail.partition(": ")
        return Problem(error=error or self.detail, error_type=error_type)


class TextAppended(_Event, frozen=True, kw_only=True, tag="text.appended"):
    """A piece of the answer. `offset` counts the UTF-8 bytes of the turn's text before it."""

    turn: int
    offset: int
    text: str


class ReasoningAppended(_Event, frozen=True, kw_only=True, tag="reasoning.appended"):
    turn: int
    offset: int
    text: str


class ArgumentsAppended(_Event, frozen=True, kw_only=True, tag="arguments.appended"):
    """A piece of the arguments of the turn's call number `index`, as the model writes them."""

    turn: int
    index: int
    tool: str
    offset: int
    text: str


class CallProgressed(_Event, frozen=True, kw_only=True, tag="call.progressed"):
    """How far a running call is; `offset` numbers the reports of one call."""

    call_id: str
    offset: int
    progress: float
    total: float | None = None
    message: str = ""


ConversationEvent = ConversationOpened | ConversationChanged | MessageAdded | MessageRemoved | HistoryCompacted
RunEvent = RunQueued | RunStarted | StopRequested | RunSuspended | RunEnded
TurnEvent = TurnStarted | TurnEnded | TurnFailed
CallEvent = CallJudged | CallApproved | CallDenied | CallStarted | CallParked | CallAnswered | CallEnded
Durable = ConversationEvent | RunEvent | TurnEvent | CallEvent
ModelDelta = TextAppended | ReasoningAppended | ArgumentsAppended
Fleeting = ModelDelta | CallProgressed
Event = Durable | Fleeting


class Entry(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """One durable event as the log keeps it: stamped and numbered."""

    conversation: str
    seq: int
    at: float
    event: Durable
    run: str = ""
    correlation_id: str = ""
    epoch: int = 0
    """Of the owner that wrote it."""
    format: int = 1
    """An entry that does not say is of the first format."""


def event_name(event: Event) -> str:
    """The event's wire name, such as `call.ended`."""
    return str(type(event).__struct_config__.tag)
