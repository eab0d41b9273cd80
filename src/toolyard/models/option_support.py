"""Options that not every provider has, and OpenAI's form of an output schema. Pure.

A turn with an option that its provider does not have fails before anything is sent: without it the answer would not be
what was asked for. Temperature and top_p are only preferences, and are left out where there is no field for them.
"""

from collections.abc import Collection

from toolyard.core.items import Problem
from toolyard.core.options import Options, list_set_options
from toolyard.models.schema_dialects import UnsupportedSchema, convert

UNSUPPORTED_OPTION = "unsupported_option"


def find_unsupported(options: Options, names: Collection[str], provider: str) -> Problem | None:
    """Return the problem of the first option that is set and that is one of `names`; None if there is none."""
    name = next((name for name in list_set_options(options) if name in names), "")
    return build_option_problem(name, f"{provider} has no such option") if name else None


def build_option_problem(name: str, why: str) -> Problem:
    error = f"the option {name} cannot be used here: {why}; leave it out, or choose another model"
    return Problem(error=error, error_type=UNSUPPORTED_OPTION, details={"option": name})


def build_openai_format(schema: dict[str, object]) -> dict[str, object]:
    """Return the schema as OpenAI's APIs name it: enforced (`strict`) if strict mode has exactly this schema."""
    try:
        return {"name": "answer", "strict": True, "schema": convert(schema, "openai_output")}
    except UnsupportedSchema:
        return {"name": "answer", "strict": False, "schema": convert(schema, "openai")}
