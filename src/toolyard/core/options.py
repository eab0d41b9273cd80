"""How a model is asked to answer, whatever its provider calls it. What is not given is left to the provider."""

from typing import Literal

from msgspec import Struct

Effort = Literal["low", "medium", "high"]
Thinking = int | Literal["", "adaptive"] | Effort
"""How much a model may think before it answers: tokens, an effort, or as much as it likes; empty is its own way."""
THINKING_BUDGETS: dict[str, int] = {"low": 2_048, "medium": 8_192, "high": 24_576}


class Options(Struct, frozen=True, kw_only=True):
    max_tokens: int = 0
    """What an answer may have."""
    temperature: float | None = None
    thinking: Thinking = ""

    @property
    def effort(self) -> Effort | None:
        """For providers that know no number of tokens."""
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
        """For providers that know no effort: tokens; 0 where it is not for us to say."""
        return self.thinking if isinstance(self.thinking, int) else THINKING_BUDGETS.get(self.thinking, 0)


DEFAULT_OPTIONS = Options()
