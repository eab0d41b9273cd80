"""The events of a conversation. Their wire names are `noun.past_participle`.

Durable events are the log: folding them gives the state. Fleeting events are for live readers and are never stored;
each names its stream and its offset, so that applying one twice changes nothing.
"""

from typing import TYPE_CHECKING, Literal, get_args

from msgspec import Struct, field

from toolyard.core.caller import Caller
from toolyard.core.conversation.context.notes import Note
from toolyard.core.conversation.settings import AppliedPreset, Settings, SettingsChange
from toolyard.core.items import Call, Item, ModelText, Problem, Result, Seal, Usage
from toolyard.core.settings.limits import Limits
from toolyard.core.settings.models.options import DEFAULT_OPTIONS, Options
from toolyard.core.settings.prices import Cost
from toolyard.core.tool_identity import ToolIdentity
from toolyard.core.tools.approval_terms import ApprovalTerms
from toolyard.core.tools.definition import Tool
from toolyard.core.tools.mcp_servers import McpClient
from toolyard.core.tools.trust import UntrustedSource
from toolyard.core.tools.web_search_rule import SearchMode

if TYPE_CHECKING:
    from typing_extensions import TypeIs

FORMAT = 1
"""The format of new entries. Every earlier format stays readable."""
Ending = Literal["done", "limit", "cancelled", "failed"]
Finish = Literal["stop", "calls", "length", "refused", "paused", "cancelled"]
Decision = Literal["allow", "ask", "deny"]
ParkedKind = Literal["client", "question"]
Remember = Literal["no", "tool", "conversation"]
Reply = Literal["accepted", "declined", "cancelled"]


class _Event(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag_field="type"):
    pass


class Origin(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The place that a conversation was forked from."""

    conversation: str
    after: str = ""
    """The run or the item after which it was forked; empty for the end of the history at that time."""


class ConversationOpened(_Event, frozen=True, kw_only=True, tag="conversation.opened"):
    owner: Caller
    settings: Settings
    origin: Origin | None = None
    """Where the conversation was forked from. Its items follow as messages."""


class ConversationChanged(_Event, frozen=True, kw_only=True, tag="conversation.changed"):
    settings: Settings
    preset: AppliedPreset | None = None
    """The preset that the settings name as the new model, for the runs in line that name no model themselves."""


class MessageAdded(_Event, frozen=True, kw_only=True, tag="message.added"):
    item: Item


class MessageRemoved(_Event, frozen=True, kw_only=True, tag="message.removed"):
    """Items were removed; a call goes with its result."""

    ids: frozenset[str]


class HistoryRewound(_Event, frozen=True, kw_only=True, tag="history.rewound"):
    """The history ends with the item `to`, on whatever branch that is, or is empty. Later items stay as a branch."""

    to: str
    by: str


class HistoryCompacted(_Event, frozen=True, kw_only=True, tag="history.compacted"):
    """The model is shown less of the history: `items` replace the items up to and including `through`.

    Where `dropped` names results, only those were replaced, each by a note that it was left out.
    """

    through: str
    items: tuple[Item, ...] = ()
    dropped: tuple[str, ...] = ()
    summarised: bool = False
    """Whether the items hold a summary by the model."""
    problem: Problem | None = None
    """Why there is no summary although one was requested."""
    usage: Usage = field(default_factory=Usage)
    """The tokens of the summary request."""
    cost: Cost | None = None
    """What the summary request costs; None if that is unknown, or without a summary request."""
    tokens_before: int = 0
    tokens_after: int = 0
    """Estimated tokens of the history, before and after."""


class RunRequest(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """What a request asks of its run, besides its input."""

    app_tools: tuple[Tool, ...] = ()
    tool_choice: str = "auto"
    model: str = ""
    limits: Limits | None = None
    web_search: SearchMode = ""
    context: dict[str, Note] = {}
    """Named context of this request only, besides the conversation's."""
    instructions: str = ""
    """What the caller asks for in all their conversations, as it was when the request came."""
    language: str = ""
    mcp_client: McpClient | None = None
    """The MCP client that makes the request; None for any other client."""
    options: Options = DEFAULT_OPTIONS
    """Options for the model's answers, before those that are configured for the model."""
    ends_on_expiry: bool = False
    """Whether the run ends, without another model request, when a call that was handed to its client expires."""
    leave_s: float = 0.0
    """How long the run goes on while nobody reads it; 0 means until its end."""
    client_fields: dict[str, object] = {}
    """What the client said that its answers repeat. The engine does not read it."""
    preset: SettingsChange | None = None
    """The settings of the preset that the request names as its model, in place of the conversation's for this run."""
    native: Seal | None = None
    """What the request says in the words of its provider's own API. Models of other providers do not get it."""


class RunQueued(_Event, RunRequest, frozen=True, kw_only=True, tag="run.queued"):
    """A request was queued, with all that another owner needs to run it later."""

    caller: Caller
    input: tuple[Item, ...]


class RunStarted(_Event, frozen=True, kw_only=True, tag="run.started"):
    """The first queued run started, with the model and the limits that apply to it."""

    model: str
    limits: Limits
    window: int = 0
    """The model's context window in tokens, near which the history is compacted; 0 if it is unknown."""
    language: str = ""
    """The language of the server's own messages; empty in logs of earlier versions."""


class TurnStarted(_Event, frozen=True, kw_only=True, tag="turn.started"):
    """A model request started. A second event with the same number means that the owner of the first one died."""

    number: int
    epoch: int
    offer: str = ""
    """The digest of the offered tools; `added` and `removed` are the differences to the turn before."""
    offered: int = 0
    added: dict[str, str] = {}
    removed: tuple[str, ...] = ()
    search: str = ""
    """Where a web search runs and why; empty if no search mode is set."""
    unreviewed: tuple[str, ...] = ()
    """The servers whose offered descriptions nobody vouches for."""

    def apply_to(self, offered: dict[str, str]) -> dict[str, str]:
        """Return the tools offered from this turn on: the same object if nothing changed."""
        if not (self.added or self.removed):
            return offered
        removed = frozenset(self.removed)
        return {name: digest for name, digest in offered.items() if name not in removed} | self.added


class TurnEnded(_Event, frozen=True, kw_only=True, tag="turn.ended"):
    items: tuple[Item, ...]
    finish: Finish
    usage: Usage = field(default_factory=Usage)
    model: str = ""
    """The name of the model that the provider reports."""
    fallback: str = ""
    """The configured name of the model that answered in place of the run's own one; empty if that one did."""
    cost: Cost | None = None
    """What the turn costs; None if that is unknown, as in logs of earlier versions."""
    output_problem: Problem | None = None
    """Why the text does not fit the request's output schema. If the model is asked again, the last item tells it so."""
    stop_sequence: str = ""
    """The text of the request's `stop` that the answer ended before, if the provider tells it."""


class TurnFailed(_Event, frozen=True, kw_only=True, tag="turn.failed"):
    problem: Problem
    cost: Cost | None = None
    """The estimated cost of a reply that was lost; None if there is none to be expected, or it is unknown."""


class CallsRequested(_Event, frozen=True, kw_only=True, tag="calls.requested"):
    """A program waits for calls: for those that it asks for here, and for earlier ones that have not ended."""

    parent: str
    """The call that runs the program."""
    seen: int
    """How many results of its calls the program had been given by then, in the order in which the calls ended."""
    calls: tuple[Call, ...] = ()
    lines: tuple[int, ...] = ()
    """The line of the program that makes each call."""
    printed: str = ""
    """What the program has printed since its last such event. Its result has all of it once more."""


class CallJudged(_Event, frozen=True, kw_only=True, tag="call.judged"):
    call_id: str
    verdict: Decision
    rule: str
    exclusive: bool = False
    expires_at: float = 0.0
    sources: tuple[UntrustedSource, ...] = ()
    """The untrusted content before the call, if it is the reason for the approval."""
    terms: ApprovalTerms | None = None
    """Who may decide a call that asks, and how many of them; None means its owner or an approver."""
    tool: ToolIdentity | None = None
    """The tool of a call that asks: its name may stand for another one later. None in logs of earlier versions."""


class CallApproved(_Event, frozen=True, kw_only=True, tag="call.approved"):
    call_id: str
    by: str
    arguments: dict[str, object] | None = None
    remember: Remember = "no"
    reason: str = ""
    remaining: int = 0
    """How many more approvals the call needs: it runs when none is left."""


class CallDenied(_Event, frozen=True, kw_only=True, tag="call.denied"):
    call_id: str
    by: str
    reason: str = ""


class CallStarted(_Event, frozen=True, kw_only=True, tag="call.started"):
    """A call started. One that was allowed and had room at once has no `call.judged` of its own, but a `rule` here."""

    call_id: str
    epoch: int
    attempt: int = 1
    rule: str | None = None
    """The rule that allowed the call; None if a `call.judged` came before."""
    exclusive: bool = False
    """As in `call.judged`, if the rule is given."""


class CallParked(_Event, frozen=True, kw_only=True, tag="call.parked"):
    """A call waits for its result, or for the answer to a question, from outside."""

    call_id: str
    kind: ParkedKind
    expires_at: float
    question: dict[str, object] = {}
    resume_token: str = ""
    bound: bool = False
    """Whether only the process that parked the call can go on with it: its connection waits for the answer."""


class CallAnswered(_Event, frozen=True, kw_only=True, tag="call.answered"):
    call_id: str
    by: str
    reply: Reply
    content: dict[str, object] = {}


class CallEnded(_Event, frozen=True, kw_only=True, tag="call.ended"):
    result: Result
    cost: Cost | None = None
    """What the call costs, if its tool has a price."""


class StopRequested(_Event, frozen=True, kw_only=True, tag="stop.requested"):
    """A call or the whole run is to stop."""

    by: str
    call_id: str = ""
    detail: str = ""
    """The reason, if it was not a plain request to stop."""


class RunSuspended(_Event, frozen=True, kw_only=True, tag="run.suspended"):
    """The run only waits for people or for the application."""

    waiting_for: tuple[str, ...]
    """The calls that it waits for."""
    wake_at: float
    budget: str = ""
    """The budget whose amount is to be raised, if the run waits for room for its next request to the model."""


class RunEnded(_Event, frozen=True, kw_only=True, tag="run.ended"):
    """The current run ended; or, if `run_id` is set, a queued run that was stopped before it started."""

    ending: Ending
    detail: str = ""
    message: ModelText | None = None
    run_id: str = ""
    cost: Cost | None = None
    """The estimated cost of a summary whose answer nobody waited for; None if there was none, or it is unknown."""

    @property
    def problem(self) -> Problem | None:
        """Return why the run failed, or None for any other ending. In `detail` the error type comes before the text."""
        if self.ending != "failed":
            return None
        error_type, _, error = self.detail.partition(": ")
        return Problem(error=error or self.detail, error_type=error_type)


class TextAppended(_Event, frozen=True, kw_only=True, tag="text.appended"):
    """A delta of the answer. `offset` is the number of UTF-8 bytes of the turn's text before it."""

    turn: int
    offset: int
    text: str
    logprobs: str = ""
    """The probabilities of its tokens, as the items of `ModelText.logprobs`."""


class ReasoningAppended(_Event, frozen=True, kw_only=True, tag="reasoning.appended"):
    """A delta of the reasoning. One with a signature ends an item; it may be without text."""

    turn: int
    offset: int
    text: str
    signature: str = ""
    """As in `Reasoning`."""


class ArgumentsAppended(_Event, frozen=True, kw_only=True, tag="arguments.appended"):
    """A delta of the arguments of the turn's call number `index`, as the model writes them.

    `call_id` is the id of the call, from its first delta on: the turn's end brings the call under this id.
    """

    turn: int
    call_id: str
    index: int
    tool: str
    offset: int
    text: str


class CallProgressed(_Event, frozen=True, kw_only=True, tag="call.progressed"):
    """A progress report of a running call; `offset` numbers the reports of a call."""

    call_id: str
    offset: int
    progress: float
    total: float | None = None
    message: str = ""


ConversationEvent = (
    ConversationOpened | ConversationChanged | MessageAdded | MessageRemoved | HistoryRewound | HistoryCompacted
)
RunEvent = RunQueued | RunStarted | StopRequested | RunSuspended | RunEnded
TurnEvent = TurnStarted | TurnEnded | TurnFailed
CallEvent = CallJudged | CallApproved | CallDenied | CallStarted | CallParked | CallAnswered | CallEnded
Durable = ConversationEvent | RunEvent | TurnEvent | CallEvent | CallsRequested
ModelDelta = TextAppended | ReasoningAppended | ArgumentsAppended
Fleeting = ModelDelta | CallProgressed
Event = Durable | Fleeting

# The functions below take a tenth of the time of `isinstance` with a union, and each event is asked several times.
_RUN_EVENTS = frozenset(get_args(RunEvent))
_TURN_EVENTS = frozenset(get_args(TurnEvent))
_CALL_EVENTS = frozenset(get_args(CallEvent))


def is_run_event(event: Event) -> "TypeIs[RunEvent]":
    return type(event) in _RUN_EVENTS


def is_turn_event(event: Event) -> "TypeIs[TurnEvent]":
    return type(event) in _TURN_EVENTS


def is_call_event(event: Event) -> "TypeIs[CallEvent]":
    return type(event) in _CALL_EVENTS


REQUEST_KEY_S = 86_400.0
"""How long a request with an Idempotency-Key is remembered."""


class RequestKey(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """The identity of a request that a client may send again: it takes effect once."""

    key_hash: str
    """The hash of the client's Idempotency-Key, its caller and the request's method and path; 64 digits, base 16."""
    body_hash: str
    kept_s: float = REQUEST_KEY_S
    """How long the request is remembered; at most REQUEST_KEY_S."""
    replaces: str = ""
    """The run that the request is recorded with so far, if this one takes it over. Any other run is left in place."""

    def counts_from(self, at: float) -> float:
        """Return the time from which REQUEST_KEY_S is counted: before `at` if the request is remembered for less."""
        return at - REQUEST_KEY_S + self.kept_s


class Entry(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """A durable event as the log stores it, with its number, time, run and owner."""

    conversation: str
    seq: int
    at: float
    event: Durable
    run: str = ""
    correlation_id: str = ""
    epoch: int = 0
    """The epoch of the owner that wrote the entry."""
    format: int = 1
    """Entries without this field are of format 1."""
    request: RequestKey | None = None
    """The request that led to this entry and to those written with it; set on the last of them."""


Published = Entry | Fleeting
"""What a reader of a conversation yields."""


def event_name(event: Event) -> str:
    """Return the wire name of an event, such as `call.ended`."""
    return str(type(event).__struct_config__.tag)
