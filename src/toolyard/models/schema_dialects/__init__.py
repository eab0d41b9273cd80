"""A tool's JSON Schema → one that a provider takes. Pure; it does not know tools, wires or values.

A converted schema is never stricter than its original: what a provider cannot express is left out, and told in the
description where it helps. Arguments are always checked against the original, so that a looser one does no harm.
OpenAI's strict mode is the exception: there an object has all its properties and no others, an optional one may be
null (`without_forced_nulls` takes those nulls out again), and a schema that needs more is `Inexpressible`.
"""

from functools import lru_cache
from typing import Literal, assert_never

import msgspec

from toolyard.models.schema_dialects.gemini import to_gemini
from toolyard.models.schema_dialects.plain import to_anthropic, to_openai
from toolyard.models.schema_dialects.schema import Schema, UnsupportedSchema
from toolyard.models.schema_dialects.strict import remove_forced_nulls, to_strict

__all__ = ["Dialect", "UnsupportedSchema", "convert", "remove_forced_nulls"]

MAX_CACHED_SCHEMAS = 2_048
ANY_OBJECT: Schema = {"type": "object", "properties": dict[str, object]()}
Dialect = Literal["openai_strict", "openai", "gemini", "anthropic"]


def convert(schema: Schema, dialect: Dialect) -> Schema:
    """Made once for each schema, so do not change it: an application sends its tools with every request.

    Raises Inexpressible for `openai_strict` only: then offer the tool without strict mode, as `openai` has it.
    """
    try:
        made = _convert_cached(msgspec.json.encode(schema), dialect)
    except RecursionError:
        made = "it is nested too deeply" if dialect == "openai_strict" else ANY_OBJECT
    if isinstance(made, str):
        raise UnsupportedSchema(made)
    return made


@lru_cache(maxsize=MAX_CACHED_SCHEMAS)
def _convert_cached(encoded: bytes, dialect: Dialect) -> Schema | str:
    """The converted schema, or why there is none."""
    try:
        return _convert(msgspec.json.decode(encoded), dialect)
    except UnsupportedSchema as error:
        return str(error)


def _convert(schema: Schema, dialect: Dialect) -> Schema:
    match dialect:
        case "openai_strict":
            return to_strict(schema)
        case "openai":
            return to_openai(schema)
        case "gemini":
            return to_gemini(schema)
        case "anthropic":
            return to_anthropic(schema)
        case _:
            assert_never(dialect)
