"""The ports of the engine: protocols of models, venues, policies and MCP servers. `app` wires the implementations."""

import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from typing import Protocol, runtime_checkable

from msgspec import Struct

from toolyard.core.caller import Caller, is_admitted
from toolyard.core.conversation.events import Decision, ModelDelta, ParkedKind, TurnEnded, TurnFailed
from toolyard.core.conversation.history import History
from toolyard.core.conversation.settings import Settings
from toolyard.core.items import Call, Outcome, Part, Problem, Seal
from toolyard.core.settings.limits import Limits
from toolyard.core.settings.models.access import is_denied
from toolyard.core.settings.models.options import DEFAULT_OPTIONS, Options
from toolyard.core.settings.prices import Quote
from toolyard.core.tools.approval_terms import ApprovalTerms
from toolyard.core.tools.definition import Tool
from toolyard.core.tools.mcp_servers import (
    Connection,
    McpClient,
    ServerAction,
    ServerCard,
    ServerSpec,
    ServerTrial,
    SignIn,
    SignInAnswer,
)
from toolyard.core.tools.remembered_approvals import RememberedApproval
from toolyard.core.tools.web_search_rule import NativeTools


class PriceFinder(Protocol):
    """Finds the prices of models by their configured names, or else by the names that providers report."""

    def get(self, model: str, reported: str, now: float) -> Quote | None:
        """Return the price of a model that was looked up before; None if it has none or was not looked up."""
        ...

    async def find(self, model: str, reported: str, now: float) -> Quote | None:
        """Return the price of a model; None if it is unknown."""
        ...


Spawn = Callable[[Coroutine[None, None, None]], object]
"""Starts work in the background, in a task group that outlives its caller."""


class Clock(Protocol):
    """The only source of ids and times."""

    def new_id(self, prefix: str) -> str: ...

    def now(self) -> float: ...


class Offer(Struct, frozen=True, kw_only=True, eq=False, weakref=True):
    """The tools that a turn shows to the model: the same object as long as they are the same."""

    tools: tuple[Tool, ...]
    digest: str
    hashes: dict[str, str]
    note: str = ""
    """A note about the tools, added to the system text."""
    search: str = ""
    """Where a web search runs and why; empty if no search mode is set."""
    unreviewed: tuple[str, ...] = ()
    """The servers of tools whose descriptions are untrusted."""


RECORDED_TURN_PREFIX = "turn."
"""The prefix of the handles of recorded turns, which are for operators: no tool reads them for a model."""
FEEDBACK_HANDLE = "feedback."
"""The handle of what people think of the runs of a conversation: no tool reads it for a model."""
ORIGINAL_PREFIX = "original."
"""The prefix of the handles of results as they were before secrets were replaced: for administrators only."""


class WireExchange(Struct, frozen=True, kw_only=True):
    """The HTTP request and response of one turn, without keys."""

    url: str
    headers: dict[str, str]
    request: bytes
    response: bytes


class ModelRequest(Struct, frozen=True, kw_only=True):
    """Everything that a model needs for one turn."""

    model: str
    turn: int
    system: str
    history: History
    offer: Offer
    tool_choice: str
    clock: Clock
    options: Options = DEFAULT_OPTIONS
    """The request's options; a ConfiguredModel adds those that are configured for the model."""
    native: Seal | None = None
    """What the request says in the words of one provider's own API."""
    instructions: str = ""
    """The user's own instructions for all their conversations, with a header. Each wire sends them as the user's words
    before the history. They are no part of it, so that encoding it does not depend on them."""
    default_tool_uses: int = 0
    """How often the provider may use a tool of its own that sets no limit itself, where the wire has a field for it. 0
    means as often as it likes."""
    correlation_id: str = ""
    memo: dict[str, object] = {}
    """The conversation's cache for wires: each keeps its encoded history here, under its own name."""
    record_exchange: "Callable[[WireExchange], None] | None" = None
    """Called with the request and its response, if turns are recorded."""
    fail_fast: bool = False
    """Fail at once instead of waiting and retrying: another model will be asked."""
    key_models: frozenset[str] = frozenset()
    """The models that the caller's key is limited to, by name or as patterns; empty means any."""
    denied_models: frozenset[str] = frozenset()
    """The models that are for other roles or tenants than the caller's, by name or as patterns."""
    admit_attempt: "Callable[[str, Problem], Awaitable[TurnFailed | None]] | None" = None
    """Called before a fallback is asked, or a model again that may charge for the attempt before, with the name of the
    model and the failure of that attempt. It returns why not to ask."""

    def may_use(self, model: str) -> bool:
        """Return whether the caller may use a model."""
        return is_admitted(model, self.key_models) and not is_denied(model, self.denied_models)


class Model(Protocol):
    """A language model. Yields deltas, then exactly one TurnEnded or TurnFailed."""

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | TurnEnded | TurnFailed, None]: ...

    async def close(self) -> None: ...


@runtime_checkable
class NativeToolsModel(Protocol):
    """A model whose provider runs some tools itself."""

    @property
    def native(self) -> NativeTools: ...


@runtime_checkable
class NativeApiModel(Protocol):
    """A model whose provider has an API of its own."""

    def find_provider(self, wire: str) -> str:
        """Return the name of the provider if its API is the one with this name; empty for any other."""
        ...


@runtime_checkable
class SelectiveModel(Protocol):
    """A model that can tell which options it leaves out."""

    def list_ignored(self, options: Options) -> Sequence[str]:
        """Return the names of the options that are set and not sent, those of `extra` by their own names."""
        ...


class ProgramCalls(Protocol):
    """The calls of a program, as the log has them. Results are numbered in the order in which the calls ended."""

    @property
    def tools(self) -> Mapping[str, Tool]:
        """Return the tools that the program may call."""
        ...

    @property
    def other_tools(self) -> Sequence[Tool]:
        """Return the tools that the model may call, and a program may not."""
        ...

    @property
    def limits(self) -> Limits:
        """Return the limits of the run."""
        ...

    def reload(self) -> None:
        """Look up what the log has of the program, which is about to run from its start."""
        ...

    @property
    def recorded_seen(self) -> int:
        """Return how many results the program had been given when it last began to wait; -1 if it never has."""
        ...

    def find_recorded(self, position: int) -> "RecordedCall | None":
        """Return the call at a position that the log has from an earlier run of the program."""
        ...

    def note_printed(self, text: str) -> None:
        """Keep what the program has printed for the next record that it waits."""
        ...

    def request(self, calls: "Sequence[ProgramCall]", seen: int) -> None:
        """Record that the program waits, after it has been given `seen` results, also for these further calls."""
        ...

    async def wait_result(self, number: int, max_wait_s: float | None) -> "ProgramResult | None":
        """Return the result that came as the `number`th, from 0 on; None if it does not come within the time."""
        ...


class ProgramCall(Struct, frozen=True):
    """A call that a program makes."""

    tool: str
    arguments: dict[str, object]
    line: int


class RecordedCall(Struct, frozen=True):
    """A call that a program has made before, and how many results it had been given by then."""

    call: Call
    seen: int


class ProgramResult(Struct, frozen=True):
    """The result of a program's call: the position of the call, and its value or the problem in place of it."""

    position: int
    outcome: Outcome
    value: object = None
    problem: Problem | None = None


class Context(Struct, frozen=True, kw_only=True):
    """What a tool is told about its call."""

    caller: Caller
    conversation: str
    run_id: str
    call_id: str
    correlation_id: str
    idempotency_key: str
    """The same for every attempt of this call and for no other call: pass it on to the systems that you write to."""
    attempt: int
    deadline: float
    """The time, as of `time.time()`, at which this attempt is cancelled."""
    progress: Callable[..., None]
    """`progress(0.4)`, `progress(2, total=5, message="…")`: shown to live readers, never stored."""
    fields: Mapping[str, object] = {}
    """The context of the request and of the conversation, by name. It comes from the caller and is not verified."""
    answer: dict[str, object] | None = None
    resume_token: str = ""
    may_use: Callable[[Tool], bool] = lambda _: False
    """Returns whether the caller may use another tool in this conversation now."""
    mcp_client: McpClient | None = None
    """The MCP client that made the request; None for any other client."""
    listed: Tool | None = None
    """The tool as its venue lists it, without the rules that were set while the server runs."""


class Value(Struct, frozen=True, kw_only=True):
    """A venue's answer if the tool returned a value: anything that can be encoded as JSON."""

    value: object
    parts: tuple[Part, ...] = ()
    """Images and files that belong to the value."""
    structured: object = None
    """The value as data, if there is such beside a `value` that is text for a model: programs are given this."""
    native: bytes = b""
    """The whole answer as JSON in the venue's own format, if that holds more than the value."""
    untrusted: str = ""
    """Who may have written the value, if that is not to be trusted although the tool is."""


class Failure(Struct, frozen=True, kw_only=True):
    """A venue's answer if the tool failed. `retryable` means that another attempt may succeed."""

    problem: Problem
    retryable: bool = False
    native: bytes = b""


class Pending(Struct, frozen=True, kw_only=True):
    """A venue's answer if the result, or an answer that the tool needs, will come from outside."""

    kind: ParkedKind
    question: dict[str, object] = {}
    resume_token: str = ""
    bound: bool = False
    """Whether only this process can go on with the call."""


AuthorizeHook = Callable[[Caller], "Verdict | None"]
ValidateHook = Callable[[dict[str, object]], Problem | None]


class ToolHooks(Struct, frozen=True, kw_only=True):
    """A tool's own checks: who may use it, and whether arguments are valid.

    `authorize` is asked when tools are offered and when one is called. Without `validate` arguments are checked
    against the tool's JSON Schema.
    """

    authorize: AuthorizeHook | None = None
    validate: ValidateHook | None = None


class Venue(Protocol):
    """A place where tools run."""

    def tools(self) -> Sequence[Tool]: ...

    def hooks(self, tool: str) -> ToolHooks: ...

    async def run(self, call: Call, tool: Tool, context: Context) -> Value | Failure | Pending: ...

    async def close(self) -> None: ...


@runtime_checkable
class ProgramVenue(Venue, Protocol):
    """A venue whose tools run programs, which make further calls. A program is run again from its start to go on."""

    async def run_program(self, call: Call, context: Context, calls: ProgramCalls) -> Value | Failure: ...


@runtime_checkable
class Monitored(Protocol):
    """A venue that reports problems to operators."""

    def warnings(self) -> Sequence[str]:
        """Return a sentence for each problem."""
        ...


class CallerTools(Struct, frozen=True, eq=False):
    """Tools that a caller gets instead of everybody's, by name; None where the caller does not get the tool."""

    tools: Mapping[str, Tool | None]


@runtime_checkable
class CallerToolsVenue(Venue, Protocol):
    """A venue that gives some callers other tools than everybody else."""

    def caller_tools(self, caller: Caller) -> tuple[CallerTools, ...]:
        """Return the caller's own tools: the same objects as long as nothing changes for this caller."""
        ...

    def knows_tool(self, tool: Tool, caller: Caller) -> bool:
        """Return whether the venue knows this caller's version of the tool; until then it is everybody's."""
        ...

    def can_dispatch(self, tool: Tool, caller: Caller) -> bool:
        """Return whether a call of this tool by this caller would run now, rather than wait for its server or fail."""
        ...

    def unavailable_tools(self, caller: Caller) -> Sequence[Tool]:
        """Return the last listed tools of this caller's servers that are stopped or failed."""
        ...

    @property
    def is_starting(self) -> bool:
        """Return whether any server is being started."""
        ...

    def starts_until(self, caller: Caller, tool: Tool | None, max_s: float) -> float:
        """Return until when the server of this tool may take to start; 0.0 if it does not start.

        Without a tool, the servers count that have never listed their tools: any of them may have the one that is
        missing. `max_s` bounds the time since the start of each server.
        """
        ...

    def explain_absence(self, name: str, caller: Caller) -> Problem | None:
        """Return why a tool that one of this caller's servers has is not offered; None if no server has it."""
        ...

    def list_outages(self, caller: Caller) -> Sequence[str]:
        """Return for each of this caller's servers whose tools are not known why it does not run."""
        ...


STRICTNESS: dict[Decision, int] = {"allow": 0, "ask": 1, "deny": 2}


class Verdict(Struct, frozen=True):
    """A decision about a tool or a call, and the rule that made it."""

    decision: Decision
    rule: str
    terms: ApprovalTerms | None = None
    """Who may decide, for `ask`; None means what the tool says."""

    def raise_to(self, floor: "Verdict") -> "Verdict":
        """Return the stricter of this verdict and a floor, which no rule lowers: deny, then ask, then allow."""
        return floor if STRICTNESS[floor.decision] > STRICTNESS[self.decision] else self


class PolicyRequest(Struct, frozen=True, kw_only=True):
    """The input of a rule: may this caller use this tool? `arguments` is None when tools are listed."""

    tool: Tool
    caller: Caller
    settings: Settings
    remembered: frozenset[RememberedApproval] = frozenset()
    arguments: dict[str, object] | None = None
    begun_at: float = math.inf
    """When the run began. What was restricted since counts, and what was widened does not."""


Rule = Callable[[PolicyRequest], Verdict | None]


class CheckedRule(Struct, frozen=True, kw_only=True):
    """A rule that was asked about a tool, and what it said."""

    rule: str
    decision: Decision | None = None
    """None if the rule leaves the decision to the next one."""
    reason: str = ""


def build_checked_rule(name: str, verdict: Verdict | None) -> CheckedRule:
    if verdict is None:
        return CheckedRule(rule=name)
    return CheckedRule(rule=name, decision=verdict.decision, reason=verdict.rule)


class Policy(Protocol):
    """Judges every request as allow, ask or deny. A rule that fails denies."""

    cacheable: bool
    """Whether the verdict depends on the request alone, so that offers can be cached."""

    def judge(self, request: PolicyRequest) -> Verdict: ...

    def explain(self, request: PolicyRequest) -> Sequence[CheckedRule]:
        """Return the rules that are asked, in their order. The last one that decides is the verdict of `judge`."""
        ...


class SignIns(Protocol):
    """Sign-ins to MCP servers that need a person: for the server's token, or for the caller's own."""

    async def begin(self, id: str, caller: Caller, redirect_uri: str) -> SignIn:
        """Begin a sign-in. Raises NotFound, Refused or Unavailable."""
        ...

    async def finish(self, id: str, caller: Caller, answer: SignInAnswer) -> ServerCard: ...

    async def forget(self, id: str, caller: Caller) -> ServerCard: ...

    async def list_connections(self, caller: Caller) -> Sequence[Connection]:
        """Return the servers that the caller has signed in to; for their administrators also those with one token."""
        ...


class Servers(Protocol):
    """The MCP servers, for surfaces that list and change them."""

    @property
    def sign_ins(self) -> SignIns: ...

    def cards(self) -> Sequence[ServerCard]: ...

    async def add(self, id: str, spec: ServerSpec) -> ServerCard:
        """Add a server. Raises Refused if the id is taken."""
        ...

    async def add_all(self, specs: Mapping[str, ServerSpec]) -> Sequence[ServerCard]:
        """Add servers: all of them, or none. Raises Refused if an id is taken."""
        ...

    async def set_all(self, specs: Mapping[str, ServerSpec], *, dry_run: bool = False) -> None:
        """Add servers and replace others: all of them, or none. Raises Refused for one of the configuration file.

        With `dry_run` nothing is stored.
        """
        ...

    async def change(self, id: str, spec: ServerSpec, expected: str | None = None) -> ServerCard:
        """Replace the configuration of a server. Raises NotFound, or Refused for a server of the configuration file.

        Raises Outdated if `expected` is given and is not the version of its configuration.
        """
        ...

    async def act(
        self,
        id: str,
        action: ServerAction,
        tools: Sequence[str] = (),
        hashes: Collection[str] = (),
        expected: str | None = None,
    ) -> ServerCard:
        """Carry out an action on a server or some of its tools. Raises NotFound, Refused or, as `change`, Outdated.

        With `hashes`, only definitions with one of them are accepted or rejected.
        """
        ...

    async def test(self, spec: ServerSpec, caller: Caller) -> ServerTrial:
        """Connect to a server and list its tools, without adding it. Raises Refused if it could not be started here."""
        ...

    def list_names(self, id: str) -> Sequence[str]:
        """Return the names that are bound to tools of a server, also of one that was removed."""
        ...

    async def free_names(self, id: str) -> Sequence[str]:
        """Free the tool names of a server that was removed, for tools of other servers, and return them.

        Raises NotFound if none is bound to it, and Refused while there is the server.
        """
        ...


NotificationHandler = Callable[[str, str, dict[str, object], Caller | None], None]
"""Called with a notification: server, method, parameters, and the caller whose session it came from, or None."""


class McpProxy(Protocol):
    """Access to what MCP servers have besides tools: resources, prompts, completions. Messages pass unchanged."""

    def find_servers(self, capability: str, caller: Caller) -> Mapping[str, bool]:
        """Return this caller's running servers with the capability, and whether each has tools for anybody."""
        ...

    def get_definition(self, server: str, tool: str, caller: Caller) -> dict[str, object]:
        """Return a tool as its server lists it for this caller, unknown fields included; empty if it is not listed."""
        ...

    async def ask(
        self,
        server: str,
        caller: Caller,
        method: str,
        params: dict[str, object],
        client: McpClient | None = None,
    ) -> dict[str, object]:
        """Send a request to a server and return its answer. Raises Declined with the server's error, or Unavailable."""
        ...

    def subscribe(self, handler: NotificationHandler) -> Callable[[], None]:
        """Call `handler` for each notification of a server. Return a function that unsubscribes it."""
        ...
