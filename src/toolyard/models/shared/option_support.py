"""Options that not every provider has, and OpenAI's form of an output schema. Pure.

A turn with an option that its provider does not have fails before anything is sent: without it the answer would not be
what was asked for. Temperature, top_p and the extra options are only preferences, and are left out where there is no
field for them. An output schema that a provider cannot enforce is asked for in the system text: the engine validates
every answer.
"""

import re
from collections.abc import Collection
from contextlib import suppress

import msgspec

from toolyard.core.items import Problem
from toolyard.core.settings.models.options import (
    ANY_OBJECT,
    FORWARDED_OPTIONS,
    UNSUPPORTED_OPTION,
    Options,
    allows_any_object,
    list_set_options,
)
from toolyard.models.schema_dialects import UnsupportedSchema, convert

OUTPUT_PROMPT = "Your final answer, after any tool calls, must be nothing but {form}: no other text, no code block."
NO_OPTIONS: frozenset[str] = frozenset()
_SUPPORTS_REASONING = re.compile(r"(?:^|[/:.])(?:o\d|gpt-[5-9]|gpt-\d\d|gpt-oss|codex)")
_LACKS_VERBOSITY = re.compile(r"(?:^|[/:.])(?:o\d|gpt-[34]|chatgpt-4)")
_REFUSED_BY_REASONING = frozenset(
    {"frequency_penalty", "presence_penalty", "logit_bias", "logprobs", "top_logprobs", "prediction"}
)
_encoder = msgspec.json.Encoder(order="deterministic")


def find_unsupported(options: Options, names: Collection[str], provider: str) -> Problem | None:
    """Return the problem of the first option that is set and that is one of `names`; None if there is none."""
    name = next((name for name in list_set_options(options) if name in names), "")
    return build_option_problem(name, f"{provider} has no such option") if name else None


def build_option_problem(name: str, why: str) -> Problem:
    error = f"the option {name} cannot be used here: {why}; leave it out, or choose another model"
    return Problem(error=error, error_type=UNSUPPORTED_OPTION, details={"option": name})


def supports_reasoning(model: str) -> bool:
    """Return whether an OpenAI model of this name reasons. OpenAI refuses the fields for reasoning for any other."""
    return bool(_SUPPORTS_REASONING.search(model)) and "chat" not in model


def find_refused_extras(model: str) -> frozenset[str]:
    """Return the extra options that OpenAI refuses for a model of this name, although its API has them."""
    # gpt-oss is served by others, which sample it as any model.
    reasons = supports_reasoning(model) and "gpt-oss" not in model
    return (_REFUSED_BY_REASONING if reasons else NO_OPTIONS) | (
        {"verbosity"} if _LACKS_VERBOSITY.search(model) else NO_OPTIONS
    )


def select_extras(options: Options, names: Collection[str], forward: Collection[str]) -> dict[str, object]:
    """Return the extra options among `names`; those that need it only if they are in `forward`."""
    return {
        name: value
        for name, value in options.extra.items()
        if name in names and (name in forward or name not in FORWARDED_OPTIONS)
    }


def list_ignored(options: Options, sent_extras: Collection[str], unsent: Collection[str] = ()) -> list[str]:
    """Return the options that are set and not sent: those in `unsent`, and the extra ones that are not sent."""
    ignored = [name for name in list_set_options(options) if name in unsent]
    return [*ignored, *(name for name in options.extra if name not in sent_extras)]


def encode_parallel_calls(options: Options) -> bytes:
    """Return OpenAI's field, which its APIs take only beside tools; nothing if the option is not set."""
    match options.parallel_tool_calls:
        case None:
            return b""
        case True:
            return b',"parallel_tool_calls":true'
        case False:
            return b',"parallel_tool_calls":false'


def add_output_prompt(system: str, schema: dict[str, object]) -> str:
    """Return the system text, followed by the request for an answer that fits the schema."""
    form = "a JSON object" if schema == ANY_OBJECT else "JSON that fits the JSON Schema below"
    prompt = OUTPUT_PROMPT.format(form=form)
    if schema != ANY_OBJECT:
        prompt = f"{prompt}\n{_encoder.encode(schema).decode()}"
    return f"{system}\n\n{prompt}" if system else prompt


def build_openai_format(schema: dict[str, object]) -> dict[str, object]:
    """Return the schema as OpenAI's APIs name it: enforced (`strict`) if strict mode has exactly this schema."""
    with suppress(UnsupportedSchema):
        if not allows_any_object(schema):  # strict mode would allow no property
            return {"name": "answer", "strict": True, "schema": convert(schema, "openai_output")}
    return {"name": "answer", "strict": False, "schema": convert(schema, "openai")}
