"""Options for a model's answer, independent of the provider. Unset options are left to the provider."""

from collections.abc import Iterator
from typing import Literal, cast, get_args

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from toolyard.core.errors import Invalid
from toolyard.core.json_types import is_object
from toolyard.core.settings.types import RequestFields, RequestSchema

Effort = Literal["minimal", "low", "medium", "high", "xhigh"]
PlainEffort = Literal["low", "medium", "high"]
Thinking = int | Literal["", "adaptive"] | Effort
"""How much a model may think before it answers: tokens, an effort, or `adaptive`; empty is the provider's default."""
MIN_THINKING_TOKENS = 1_024
"""The smallest budget for thinking that the Messages API takes."""
MAX_TEMPERATURE = 2.0
MAX_STOPS, MAX_STOP_CHARS = 16, 500
MAX_SCHEMA_BYTES = 100_000
MAX_TOKENS = 10_000_000
OUTPUT_INVALID = "output_invalid"
"""The error type of an answer that does not fit the request's output schema."""
UNSUPPORTED_OPTION = "unsupported_option"
"""The error type of a turn whose provider does not have an option that is set."""
MAX_SEED = 2**63 - 1
THINKING_BUDGETS: dict[str, int] = {"minimal": 2_048, "low": 2_048, "medium": 8_192, "high": 24_576, "xhigh": 24_576}
EXTRA_OPTIONS = frozenset(
    {
        "frequency_penalty",
        "logit_bias",
        "logprobs",
        "metadata",
        "prediction",
        "presence_penalty",
        "prompt_cache_key",
        "safety_identifier",
        "service_tier",
        "top_logprobs",
        "user",
        "verbosity",
    }
)
"""OpenAI's options that are only preferences: a provider that lacks one answers without it."""
ForwardedOption = Literal["service_tier", "user", "safety_identifier", "metadata"]
"""The extra options that change the price or may name a person: a provider gets them only if its settings say so."""
FORWARDED_OPTIONS: frozenset[str] = frozenset(get_args(ForwardedOption))
MAX_EXTRA_BYTES = 100_000
"""The size of one extra option; there are as many as have names."""


class Options(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a model is to answer."""

    max_tokens: int = 0
    """The limit for an answer; 0 is the provider's default."""
    temperature: float | None = None
    top_p: float | None = None
    stop: tuple[str, ...] = ()
    """Texts that end the answer; they are not part of it."""
    seed: int | None = None
    output_schema: RequestSchema = None
    """The JSON Schema of the final text, which is validated; None means free text. ANY_OBJECT means any JSON object."""
    thinking: Thinking = ""
    parallel_tool_calls: bool | None = None
    """Whether a turn may hold more than one call; None is the provider's default. It matters only beside tools."""
    extra: RequestFields = {}
    """Preferences under OpenAI's names, with OpenAI's values: some of EXTRA_OPTIONS."""

    def __hash__(self) -> int:
        """Return a hash that leaves out what is a dict."""
        return hash((self.max_tokens, self.temperature, self.top_p, self.stop, self.seed, self.thinking))

    @property
    def effort(self) -> Effort | None:
        """Return the effort, for providers that take no number of tokens."""
        match self.thinking:
            case "minimal" | "low" | "medium" | "high" | "xhigh":
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
    def plain_effort(self) -> PlainEffort | None:
        """Return the effort, for providers that have only three of them."""
        match self.effort:
            case "minimal":
                return "low"
            case "xhigh":
                return "high"
            case effort:
                return effort

    @property
    def budget(self) -> int:
        """Return the tokens, for providers that take no effort; 0 if the provider decides."""
        return self.thinking if isinstance(self.thinking, int) else THINKING_BUDGETS.get(self.thinking, 0)

    def iter_problems(self) -> Iterator[tuple[str, str]]:
        """Yield the option and what is wrong with it, for each value that no provider takes."""
        # Written as `low <= value <= high`, which is false for a value that is not a number.
        if not 0 <= self.max_tokens <= MAX_TOKENS:
            yield "max_tokens", f"must be from 0 to {MAX_TOKENS:,}"
        if self.temperature is not None and not 0 <= self.temperature <= MAX_TEMPERATURE:
            yield "temperature", f"must be from 0 to {MAX_TEMPERATURE:g}"
        if self.top_p is not None and not 0 <= self.top_p <= 1:
            yield "top_p", "must be from 0 to 1"
        if self.seed is not None and not -MAX_SEED <= self.seed <= MAX_SEED:
            yield "seed", "must be a whole number of at most 63 bits"
        if len(self.stop) > MAX_STOPS:
            yield "stop", f"may hold at most {MAX_STOPS} texts"
        if not all(1 <= len(text) <= MAX_STOP_CHARS for text in self.stop):
            yield "stop", f"must hold texts of 1 to {MAX_STOP_CHARS} characters"
        if isinstance(self.thinking, int) and not 0 <= self.thinking <= MAX_TOKENS:
            yield "thinking", f"must be from 0 to {MAX_TOKENS:,} tokens"
        if self.output_schema is not None and (problem := _find_schema_problem(self.output_schema)):
            yield "output_schema", problem
        yield from _iter_extra_problems(self.extra)


DEFAULT_OPTIONS = Options()
ANY_OBJECT: dict[str, object] = {"type": "object"}
"""The output schema that any JSON object fits. Providers with a JSON mode are asked for that."""
_WORDS_ABOUT_SCHEMAS = frozenset({"type", "title", "description", "$schema"})


def allows_any_object(schema: RequestSchema) -> bool:
    """Return whether every JSON object fits the schema: it says nothing about properties."""
    return schema is not None and not schema.keys() - _WORDS_ABOUT_SCHEMAS


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
    for name, problem in options.iter_problems():
        raise Invalid(f"the option {name} {problem}", {"field": f"options.{name}"})


def _find_schema_problem(schema: object) -> str:
    """Return what is wrong with a schema; empty if nothing is."""
    kind = schema.get("type") if is_object(schema) else None
    if kind != "object":
        return "must be a JSON Schema of type object"
    size = _measure_json(cast("object", schema))
    if size is None:
        return "must be JSON, and not be nested too deeply"
    return f"may have at most {MAX_SCHEMA_BYTES:,} bytes" if size > MAX_SCHEMA_BYTES else ""


def _iter_extra_problems(extra: dict[str, object]) -> Iterator[tuple[str, str]]:
    for name, value in extra.items():
        if problem := _find_extra_problem(name, value):
            yield f"extra.{name[:40]}", problem


def _find_extra_problem(name: str, value: object) -> str:
    """Return what is wrong with an extra option; empty if nothing is."""
    if name not in EXTRA_OPTIONS:
        return f"is none of {', '.join(sorted(EXTRA_OPTIONS))}"
    size = _measure_json(value)
    if size is None:
        return "must be JSON, and not be nested too deeply"
    return f"may have at most {MAX_EXTRA_BYTES:,} bytes" if size > MAX_EXTRA_BYTES else ""


def _measure_json(value: object) -> int | None:
    """Return the bytes of a value as JSON; None if it is not JSON."""
    try:
        return len(msgspec.json.encode(value))
    except (TypeError, ValueError, RecursionError):
        return None
