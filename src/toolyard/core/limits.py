"""How far a run may go."""

from msgspec import Struct
from msgspec.structs import asdict


class Limits(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Bounds of one run and of its conversation. Zero tokens means no bound."""

    turns_per_request: int = 50
    turns_per_conversation: int = 200
    run_seconds: float = 600.0
    run_tokens: int = 0
    calls_per_turn: int = 64
    parallel_calls: int = 16
    queued_messages: int = 16

    def cap_to(self, other: "Limits") -> "Limits":
        """These, but nowhere more than the others allow."""
        least = {name: min(value, getattr(other, name)) for name, value in asdict(self).items() if name != "run_tokens"}
        tokens = [tokens for tokens in (self.run_tokens, other.run_tokens) if tokens]
        return Limits(**least, run_tokens=min(tokens, default=0))


class Budget(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How many of a yard's tools a model is shown unasked; where there are more, it can ask for the others."""

    tools: int = 64
    schema_bytes: int = 40 * 1024
    """About 10,000 tokens."""
