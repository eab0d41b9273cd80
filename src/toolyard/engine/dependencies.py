"""What the loop needs, wired once."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from toolyard.core.caller import Caller
from toolyard.core.conversation_settings import Settings
from toolyard.core.division import DEFAULT_DIVISION, NO_DIVISIONS, Division, Divisions, find_division
from toolyard.core.limits import Limits
from toolyard.core.model_cards import ModelCard
from toolyard.core.ports import Clock, Failure, Model, Policy, Value
from toolyard.core.prices import Price
from toolyard.core.texts import NO_TEXTS, CustomTexts
from toolyard.engine.policy_check import PolicyCheck
from toolyard.engine.registry import Registry
from toolyard.engine.result_encoder import ResultEncoder
from toolyard.observability.wire_log import WireLog


@dataclass(slots=True, kw_only=True)
class Deps:
    registry: Registry
    policy: Policy
    policy_check: PolicyCheck
    result_encoder: ResultEncoder
    models: Callable[[str], Model]
    clock: Clock
    limits: Limits
    default_model: str
    windows: Callable[[str], int] = lambda _: 0
    """How many tokens a model takes; 0 where nobody knows."""
    allowed_models: frozenset[str] | None = None
    """The models that a request may name; None means any."""
    model_patterns: Sequence[str] = ()
    """Patterns for names of others that it may name."""
    model_cards: Callable[[], list[ModelCard]] = list[ModelCard]
    """What is known of each model that is configured."""
    default_settings: Settings = field(default_factory=Settings)
    """What a new conversation is set to unless its caller says otherwise."""
    requests_per_minute: int = 0
    """New requests that one caller may make; zero means no bound."""
    system_prompt: str = ""
    language: str = ""
    """Of the sentences that no model says; empty means the caller's own."""
    texts: CustomTexts = field(default_factory=lambda: NO_TEXTS)
    prices: Mapping[str, Price] = field(default_factory=dict[str, Price])
    wire_log: WireLog | None = None
    """Keeps what goes over the wire; None where nobody asked for it."""
    divisions: Divisions = field(default_factory=lambda: NO_DIVISIONS)
    """What holds for a division or a tenant in place of what holds for everybody."""
    unwrap_delivered: Callable[[Value | Failure], Value | Failure] = lambda answer: answer
    """Reads a result that an application delivers in a form other than its own, such as MCP's."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    draining: bool = field(default=False)
    """Set when the process is about to stop: nothing new is begun."""
    abandoned: set["asyncio.Task[None]"] = field(default_factory=set["asyncio.Task[None]"])

    def division_for(self, caller: Caller) -> Division:
        return find_division(caller, self.divisions) or DEFAULT_DIVISION

    def abandon(self, task: "asyncio.Task[None]") -> None:
        """Keep hold of a task that does not end, so that it is not lost without a trace; nobody waits for it."""
        self.abandoned.add(task)
        task.add_done_callback(self.abandoned.discard)
