"""Options for a model's answer, independent of the provider. Unset options are left to the provider."""

from typing import Literal, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from toolyard.core.errors import Invalid

Effort = Literal["low", "medium", "high"]
Thinking = int | Literal["", "adaptive"] | Effort
"""How much a model may think before it answers: tokens, an effort, or `adaptive`; empty is the provider's default."""
MAX_TEMPERATURE = 2.0
MAX_STOPS, MAX_STOP_CHARS = 16, 500
MAX_SCHEMA_BYTES = 100_000
MAX_TOKENS = 10_000_000
MAX_SEED = 2**63 - 1
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


def list_set_options(options: Options) -> list[str]:
    """Return the names of the options that are set."""
    names = Options.__struct_fields__
    return [name for name in names if getattr(options, name) != getattr(DEFAULT_OPTIONS, name)]


def merge_options(options: Options, defaults: Options) -> Options:
    """Return the options with those of `defaults` where they are not set."""
    if options is DEFAULT_OPTIONS:
        return defaults
    return replace(defaults, **{name: getattr(options, name) for name in list_set_options(options)})


def check_options(options: Options) -> None:
    """Raise Invalid, with the name of the option, for a value that no provider takes."""
    _require("max_tokens", 0 <= options.max_tokens <= MAX_TOKENS, f"must be from 0 to {MAX_TOKENS:,}")
    # Written as `low <= value <= high`, which is false for a value that is not a number.
    temperature, top_p, seed = options.temperature, options.top_p, options.seed
    _require("temperature", temperature is None or 0 <= temperature <= MAX_TEMPERATURE, "must be from 0 to 2")
    _require("top_p", top_p is None or 0 <= top_p <= 1, "must be from 0 to 1")
    _require("seed", seed is None or -MAX_SEED <= seed <= MAX_SEED, "must be a whole number of at most 63 bits")
    _require("stop", len(options.stop) <= MAX_STOPS, f"may hold at most {MAX_STOPS} texts")
    for text in options.stop:
        _require("stop", 1 <= len(text) <= MAX_STOP_CHARS, f"must hold texts of 1 to {MAX_STOP_CHARS} characters")
    if isinstance(options.thinking, int):
        _require("thinking", 0 <= options.thinking <= MAX_TOKENS, f"must be from 0 to {MAX_TOKENS:,} tokens")
    if options.output_schema is not None:
        _check_schema(options.output_schema)


def _check_schema(schema: object) -> None:
    kind = cast("dict[str, object]", schema).get("type") if isinstance(schema, dict) else None
    _require("output_schema", kind == "object", "must be a JSON Schema of type object")
    try:
        size = len(msgspec.json.encode(schema))
    except (TypeError, ValueError, RecursionError):
        size = -1
    _require("output_schema", size >= 0, "must be JSON, and not be nested too deeply")
    _require("output_schema", size <= MAX_SCHEMA_BYTES, f"may have at most {MAX_SCHEMA_BYTES:,} bytes")


def _require(name: str, holds: bool, why: str) -> None:
    if not holds:
        raise Invalid(f"the option {name} {why}", {"field": f"options.{name}"})
