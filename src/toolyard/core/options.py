"""Options for a model's answer, independent of the provider. Unset options are left to the provider."""

from typing import Literal

from msgspec import Struct

Effort = Literal["low", "medium", "high"]
Thinking = int | Literal["", "adaptive"] | Effort
"""How much a model may think before it answers: tokens, an effort, or `adaptive`; empty is the provider's default."""
THINKING_BUDGETS: dict[str, int] = {"low": 2_048, "medium": 8_192, "high": 24_576}


class Options(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a model is to answer."""

    max_tokens: int = 0
    """The limit for an answer; 0 is the provider's default."""
    temperature: float | None = None
    top_p: float | None = None
    stop: tuple[str, ...] = ()
    """Texts that end the answer; they are not part of it."""
    seed: int | None = None
    output_schema: dict[str, object] | None = None
    """The JSON Schema of the final text; None means free text."""
    thinking: Thinking = ""

    @property
    def effort(self) -> Effort | None:
        """Return the effort, for providers that take no number of tokens."""
        match self.thinking:
            case "low" | "medium" | "high":
                return self.thinking
            case "" | "adaptive" | 0:
                return None
            case tokens:
                return (
                    "low"
                    if tokens <= THINKING_BUDGETS["low"]
                    else "medium"
                    if tokens <= THINKING_BUDGETS["medium"]
                    else "high"
                )

    @property
    def budget(self) -> int:
        """Return the tokens, for providers that take no effort; 0 if the provider decides."""
        return self.thinking if isinstance(self.thinking, int) else THINKING_BUDGETS.get(self.thinking, 0)


DEFAULT_OPTIONS = Options()
