"""Options that not every provider has, and OpenAI's form of an output schema. Pure.

A turn with an option that its provider does not have fails before anything is sent: without it the answer would not be
what was asked for. Temperature and top_p are only preferences, and are left out where there is no field for them. An
output schema that a provider cannot enforce is asked for in the system text: the engine validates every answer.
"""

from collections.abc import Collection
from contextlib import suppress

import msgspec

from toolyard.core.items import Problem
from toolyard.core.options import ANY_OBJECT, UNSUPPORTED_OPTION, Options, allows_any_object, list_set_options
from toolyard.models.schema_dialects import UnsupportedSchema, convert

OUTPUT_PROMPT = "Your final answer, after any tool calls, must be nothing but {form}: no other text, no code block."
_encoder = msgspec.json.Encoder(order="deterministic")


def find_unsupported(options: Options, names: Collection[str], provider: str) -> Problem | None:
    """Return the problem of the first option that is set and that is one of `names`; None if there is none."""
    name = next((name for name in list_set_options(options) if name in names), "")
    return build_option_problem(name, f"{provider} has no such option") if name else None


def build_option_problem(name: str, why: str) -> Problem:
    error = f"the option {name} cannot be used here: {why}; leave it out, or choose another model"
    return Problem(error=error, error_type=UNSUPPORTED_OPTION, details={"option": name})


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
