"""What the loop needs, wired once."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from toolyard.core.caller import Caller
from toolyard.core.conversation_settings import Settings
from toolyard.core.division import EVERYBODY, UNDIVIDED, Division, Divisions, division_of
from toolyard.core.limits import Limits
from toolyard.core.model_cards import ModelCard
from toolyard.core.ports import Failure, Mint, Model, Policy, Value
from toolyard.core.prices import Price
from toolyard.core.texts import NO_TEXTS, OwnTexts
from toolyard.engine.policy_check import Judge
from toolyard.engine.registry import Registry
from toolyard.engine.result_encoder import Governor
from toolyard.observability.wire_log import Keeper


@dataclass(slots=True, kw_only=True)
class Deps:
    registry: Registry
    policy: Policy
    judge: Judge
    governor: Governor
    models: Callable[[str], Model]
    mint: Mint
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
    texts: OwnTexts = field(default_factory=lambda: NO_TEXTS)
    prices: Mapping[str, Price] = field(default_factory=dict[str, Price])
    keeper: Keeper | None = None
    """Keeps what goes over the wire; None where nobody asked for it."""
    divisions: Divisions = field(default_factory=lambda: UNDIVIDED)
    """What holds for a division or a tenant in place of what holds for everybody."""
    unwrap_delivered: Callable[[Value | Failure], Value | Failure] = lambda answer: answer
    """Reads a result that an application delivers in a form other than its own, such as MCP's."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    draining: bool = field(default=False)
    """Set when the process is about to stop: nothing new is begun."""
    abandoned: set["asyncio.Task[None]"] = field(default_factory=set["asyncio.Task[None]"])

    def division(self, caller: Caller) -> Division:
        return division_of(caller, self.divisions) or EVERYBODY

    def abandon(self, task: "asyncio.Task[None]") -> None:
        """Keep hold of a task that does not end, so that it is not lost without a trace; nobody waits for it."""
        self.abandoned.add(task)
        task.add_done_callback(self.abandoned.discard)
