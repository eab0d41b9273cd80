"""What the loop needs, wired once."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from toolyard.core.caller import Caller
from toolyard.core.division import EVERYBODY, UNDIVIDED, Division, Divisions, division_of
from toolyard.core.limits import Limits
from toolyard.core.ports import Failure, Mint, Model, Policy, Value
from toolyard.core.prices import Price
from toolyard.core.settings import Settings
from toolyard.engine.governor import Governor
from toolyard.engine.judge import Judge
from toolyard.engine.kept import Keeper
from toolyard.engine.registry import Registry


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
    default_settings: Settings = field(default_factory=Settings)
    """What a new conversation is set to unless its caller says otherwise."""
    requests_per_minute: int = 0
    """New requests that one caller may make; zero means no bound."""
    system_prompt: str = ""
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
