"""The dependencies of the engine, wired once in `app`."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from toolyard.core.caller import Caller
from toolyard.core.conversation.run_state import RunState
from toolyard.core.conversation.settings import Settings
from toolyard.core.ports import Clock, Failure, Model, Policy, Value
from toolyard.core.settings.divisions import DEFAULT_DIVISION, NO_DIVISIONS, Division, Divisions, find_division
from toolyard.core.settings.limits import Limits
from toolyard.core.settings.models.access import ModelAccess
from toolyard.core.settings.models.cards import ModelCard
from toolyard.core.settings.texts import NO_TEXTS, CustomTexts
from toolyard.core.settings.versions import Versions
from toolyard.core.store import LOG_FORMAT
from toolyard.core.tool_identity import FindIdentity
from toolyard.engine.access.policy_check import PolicyCheck
from toolyard.engine.spending.spending import Spending
from toolyard.engine.tools.large_results import ResultEncoder
from toolyard.engine.tools.offers import Offers
from toolyard.engine.tools.redaction import Redaction
from toolyard.engine.tools.registry import Registry
from toolyard.observability.wire_log import WireLog


async def wait_for_nothing() -> None:
    """Return at once: without other replicas there is no lease."""


async def read_own_format() -> int:
    """Return the format that this code reads: there are no other replicas."""
    return LOG_FORMAT


@dataclass(slots=True, kw_only=True)
class Deps:
    """What the service, the loop and the workers use."""

    registry: Registry
    offers: Offers
    policy: Policy
    policy_check: PolicyCheck
    result_encoder: ResultEncoder
    models: Callable[[str], Model]
    spending: Spending
    """Prices requests to models, and reserves what they may cost."""
    clock: Clock
    limit_versions: Versions[Limits]
    default_model: str
    limits_changed_at: float = 0.0
    """When the limits of the server, of a division or of a tenant were last changed; 0 if they never were."""
    title_model: str = ""
    """Writes the titles of conversations that ask for one; empty means the model that answered."""
    windows: Callable[[str], int] = lambda _: 0
    """Returns the context window of a model in tokens; 0 if it is unknown."""
    allowed_models: frozenset[str] | None = None
    """The models that a request may name; None means any, but for addresses and files."""
    model_patterns: Sequence[str] = ()
    """Patterns of further model names that a request may name."""
    model_access: Mapping[str, ModelAccess] = field(default_factory=dict[str, ModelAccess])
    """Who may use which models, by the model's name or a pattern."""
    model_cards: Callable[[], list[ModelCard]] = list[ModelCard]
    """Returns a card for each configured model, and for each that a provider is known to list."""
    model_list_problems: Callable[[], dict[str, str]] = dict[str, str]
    """Returns why the lists of some providers could not be fetched, by provider."""
    default_settings: Settings = field(default_factory=Settings)
    """The settings of a new conversation unless its caller gives others."""
    requests_per_minute: int = 0
    """New requests that one caller may make; zero means no limit."""
    prompt_versions: Versions[str] = field(default_factory=lambda: Versions(""))
    """The server's prompt, with those that open runs began with."""
    language: str = ""
    """The language of the server's own messages to users; empty means the caller's."""
    texts: CustomTexts = field(default_factory=lambda: NO_TEXTS)
    redaction: Redaction = field(default_factory=Redaction)
    """Replaces secrets in results, and in what running tools report."""
    wire_log: WireLog | None = None
    """Records requests to models and their responses; None if recording is off."""
    keep_audit_days: int = 0
    """After how many days audit entries are deleted; 0 keeps all."""
    division_versions: Versions[Divisions] = field(default_factory=lambda: Versions(NO_DIVISIONS))
    """Settings that apply to a division or a tenant in place of the server's."""
    find_tool_identity: FindIdentity = lambda _: None
    """Returns the tool of an MCP server that a name is bound to; None for any other name."""
    unwrap_delivered: Callable[[Value | Failure], Value | Failure] = lambda answer: answer
    """Converts a delivered result that came in another form, such as an MCP result."""
    is_shared: bool = False
    """Whether other processes use the same store."""
    ensure_lease: Callable[[], Awaitable[None]] = wait_for_nothing
    """Returns once no other replica may take over what this process owns for long enough to start an effect."""
    read_oldest_format: Callable[[], Awaitable[int]] = read_own_format
    """Returns the newest format of logs that all live replicas read."""
    command_s: float = 10.0
    """How long a command may wait for the replica that owns its conversation."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    leaving: bool = False
    """Set when the process is about to stop and still serves requests: load balancers notice late."""
    draining: bool = field(default=False)
    """Set when the process is about to stop: nothing new is started."""
    abandoned: set["asyncio.Task[None]"] = field(default_factory=set["asyncio.Task[None]"])

    @property
    def limits(self) -> Limits:
        return self.limit_versions.current

    def cap_limits(self, run: RunState) -> Limits:
        """Return the limits of a run: those that it has from the server are no higher than the server's are now.

        The limits of a division or a tenant cap all others.
        """
        caller, begun_at = run.request.caller, run.started_at
        division = self.division_for(caller)
        if division.limits is not None:
            return run.limits.cap_to(division.limits)
        before = self.division_for(caller, begun_at).limits or self.limit_versions.get_at(begun_at)
        return run.limits.follow_lowered(before, self.limits)

    def division_for(self, caller: Caller, begun_at: float = math.inf) -> Division:
        """Return the division or tenant of a caller as it is now, or as it was when a run began."""
        return find_division(caller, self.division_versions.get_at(begun_at)) or DEFAULT_DIVISION

    def abandon(self, task: "asyncio.Task[None]") -> None:
        """Keep a reference to a task that does not end. Nobody waits for it any more."""
        # The event loop holds tasks weakly: without a reference the task could be collected while it runs.
        self.abandoned.add(task)
        task.add_done_callback(self.abandoned.discard)
