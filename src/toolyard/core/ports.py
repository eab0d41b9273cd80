"""The seams. Each is one small protocol; each implementation is one file, wired in `app.py`."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Protocol, runtime_checkable

from msgspec import Struct

from toolyard.core.caller import Caller
from toolyard.core.conversation_settings import Settings
from toolyard.core.events import Decision, ModelDelta, ParkedKind, TurnEnded, TurnFailed
from toolyard.core.history import History
from toolyard.core.items import Call, Part, Problem
from toolyard.core.mcp_client import McpClient
from toolyard.core.mcp_servers import ServerAction, ServerCard, ServerSpec, SignIn, SignInAnswer
from toolyard.core.tools import Tool
from toolyard.core.web_search import NativeTools


class Clock(Protocol):
    """Where ids and times come from: the only source of both."""

    def new_id(self, prefix: str) -> str: ...

    def now(self) -> float: ...


class Offer(Struct, frozen=True, kw_only=True, eq=False, weakref=True):
    """The tools that one turn shows to the model. The same object as long as they are the same."""

    tools: tuple[Tool, ...]
    digest: str
    hashes: dict[str, str]
    note: str = ""
    """What the model is told about them besides."""
    search: str = ""
    """Where a search of the web runs, and why there, if anybody spoke of one."""


RECORDED_TURN_PREFIX = "turn."
"""How the handles of what was kept of a turn begin: they are for operators, not for a model to read."""


class WireExchange(Struct, frozen=True, kw_only=True):
    """What was sent to a provider for one turn and what came back, as it went over the wire. No key is in it."""

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
    correlation_id: str = ""
    memo: dict[str, object] = {}
    """The conversation's scratch pad: a wire keeps what it has encoded here, under its own name."""
    record_exchange: "Callable[[WireExchange], None] | None" = None
    """Told what went over the wire, if somebody wants to look at it."""
    fail_fast: bool = False
    """Another model is asked if this one cannot answer now: it is not worth a wait."""


class Model(Protocol):
    """A language model. Yields deltas, then exactly one TurnEnded or TurnFailed."""

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | TurnEnded | TurnFailed, None]: ...

    async def close(self) -> None: ...


@runtime_checkable
class NativeToolsModel(Protocol):
    """A model whose provider runs some tools itself."""

    @property
    def native(self) -> NativeTools: ...


class Context(Struct, frozen=True, kw_only=True):
    """What a tool may know about the call that it serves."""

    caller: Caller
    conversation: str
    run_id: str
    call_id: str
    correlation_id: str
    idempotency_key: str
    """The same for every attempt of this call and for no other call: hand it to whatever you write to."""
    attempt: int
    deadline: float
    """The time (as `time.time()` tells it) at which this attempt is given up."""
    progress: Callable[..., None]
    """`progress(0.4)`, `progress(2, total=5, message="…")`: shown to live readers, never stored."""
    fields: Mapping[str, object] = {}
    """The context of the request and of the conversation, by name. The caller says so: nobody has checked it."""
    answer: dict[str, object] | None = None
    resume_token: str = ""
    may_use: Callable[[Tool], bool] = lambda _: False
    """Whether the caller may use another tool in this conversation, as things stand."""
    mcp_client: McpClient | None = None
    """The MCP client that made the request, if it is one."""


class Value(Struct, frozen=True, kw_only=True):
    """A venue's answer when the tool came to a value: anything that can be written as JSON."""

    value: object
    parts: tuple[Part, ...] = ()
    """Images and files that came with it."""
    native: bytes = b""
    """The whole answer as JSON in the venue's own form, where that holds more than the value."""


class Failure(Struct, frozen=True, kw_only=True):
    """A venue's answer when the tool failed. `passing` says that trying again may help."""

    problem: Problem
    retryable: bool = False
    native: bytes = b""


class Pending(Struct, frozen=True, kw_only=True):
    """A venue's answer when the result, or an answer that it needs, will come from outside."""

    kind: ParkedKind
    question: dict[str, object] = {}
    resume_token: str = ""


AuthorizeHook = Callable[[Caller], "Verdict | None"]
ValidateHook = Callable[[dict[str, object]], Problem | None]


class ToolHooks(Struct, frozen=True, kw_only=True):
    """What a tool itself has to say, if anything: who may use it, and whether arguments fit it.

    The gate is asked at offer and at call. Without a check the tool's JSON Schema is what arguments are held to.
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
class Monitored(Protocol):
    """A venue that can tell when something is wrong with it."""

    def warnings(self) -> Sequence[str]:
        """Return a sentence for each thing that an operator should look at."""
        ...


class CallerTools(Struct, frozen=True, eq=False):
    """Where a caller gets other tools than the rest: by name the tool as it is for this caller, or None for none."""

    tools: Mapping[str, Tool | None]


@runtime_checkable
class CallerToolsVenue(Venue, Protocol):
    """A venue of which some callers get other tools than the rest."""

    def caller_tools(self, caller: Caller) -> tuple[CallerTools, ...]:
        """The same objects as long as nothing changes for this caller."""
        ...

    def knows_tool(self, tool: Tool, caller: Caller) -> bool:
        """Whether it is known that this caller gets the tool so; else it is as those get it of whom nothing is."""
        ...

    def can_dispatch(self, tool: Tool, caller: Caller) -> bool:
        """Whether a call of this tool by this caller would be run now, rather than wait for its server or fail."""
        ...

    def unavailable_tools(self, caller: Caller) -> Sequence[Tool]:
        """Return the tools of this caller's servers that are stopped or failed, as they were listed last."""
        ...


class Verdict(Struct, frozen=True):
    decision: Decision
    rule: str


class PolicyRequest(Struct, frozen=True, kw_only=True):
    """What a rule is asked: may this caller use this tool here? `arguments` is None when tools are listed."""

    tool: Tool
    caller: Caller
    settings: Settings
    remembered: frozenset[str] = frozenset()
    arguments: dict[str, object] | None = None


Rule = Callable[[PolicyRequest], Verdict | None]


class Policy(Protocol):
    """Answers allow, ask or deny, always: a rule that fails denies."""

    cacheable: bool
    """Whether its verdict depends on the question alone, so that an offer may be used again."""

    def judge(self, request: PolicyRequest) -> Verdict: ...


class SignIns(Protocol):
    """Signing in to servers that want a person for it: the server's token, or the caller's own."""

    async def begin(self, id: str, caller: Caller, redirect_uri: str) -> SignIn:
        """Raises NotFound, Refused or Unavailable."""
        ...

    async def finish(self, id: str, caller: Caller, answer: SignInAnswer) -> ServerCard: ...

    async def forget(self, id: str, caller: Caller) -> ServerCard: ...


class Servers(Protocol):
    """The MCP servers, as a surface may see and change them."""

    sign_ins: SignIns

    def cards(self) -> Sequence[ServerCard]: ...

    async def add(self, id: str, spec: ServerSpec) -> ServerCard:
        """Raises Refused if there is one of that id."""
        ...

    async def change(self, id: str, spec: ServerSpec) -> ServerCard:
        """Give a server another configuration. Raises NotFound, or Refused for one of the configuration file."""
        ...

    async def act(self, id: str, action: ServerAction, tools: Sequence[str] = ()) -> ServerCard:
        """Raises NotFound, or Refused for what cannot be done."""
        ...


NotificationHandler = Callable[[str, str, dict[str, object], Caller | None], None]
"""Told what a server says unasked: the server, the method, the parameters, and whose session it was, if not all's."""


class McpProxy(Protocol):
    """What MCP servers have besides tools: resources, prompts, completions. Requests and answers pass as they came."""

    def find_servers(self, capability: str, caller: Caller) -> Mapping[str, bool]:
        """The servers for this caller that run now and can do this, and whether each has tools for anybody."""
        ...

    def get_definition(self, server: str, tool: str, caller: Caller) -> dict[str, object]:
        """A tool as its server lists it for this caller, with fields that nobody here knows; empty if it does not."""
        ...

    async def ask(
        self,
        server: str,
        caller: Caller,
        method: str,
        params: dict[str, object],
        client: McpClient | None = None,
    ) -> dict[str, object]:
        """Raises Declined with the server's own error, or Unavailable."""
        ...

    def subscribe(self, handler: NotificationHandler) -> Callable[[], None]:
        """Be told what servers say unasked; what this gives back ends it."""
        ...
