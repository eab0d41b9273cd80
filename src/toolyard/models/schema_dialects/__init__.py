"""Converts a tool's JSON Schema into one that a provider accepts. Pure.

A converted schema is never stricter than its original: what a provider cannot express is left out, and described in the
description where that helps. Arguments are always validated against the original, so that a looser one does no harm.
OpenAI's strict mode is the exception: there an object has all its properties and no others, an optional one may be null
(`remove_forced_nulls` removes those nulls again), and for any other schema `convert` raises UnsupportedSchema.
"""

from functools import lru_cache
from typing import Literal, assert_never

import msgspec

from toolyard.core.tools.schema_expansion import UnboundedSchema, measure_schema
from toolyard.models.schema_dialects.gemini import to_gemini
from toolyard.models.schema_dialects.plain import to_anthropic, to_openai
from toolyard.models.schema_dialects.schema import Schema, UnsupportedSchema
from toolyard.models.schema_dialects.strict import ANTHROPIC_OUTPUT, OPENAI_OUTPUT, remove_forced_nulls, to_strict

__all__ = ["Dialect", "UnsupportedSchema", "convert", "remove_forced_nulls"]

MAX_CACHED_SCHEMAS = 2_048
ANY_OBJECT: Schema = {"type": "object", "properties": dict[str, object]()}
Dialect = Literal["openai_strict", "openai", "gemini", "anthropic", "openai_output", "anthropic_output"]
ENFORCED: tuple[Dialect, ...] = ("openai_strict", "openai_output", "anthropic_output")
"""The dialects that decoding enforces, which do not have every schema; `…_output` is for answers, not for tools."""


def convert(schema: Schema, dialect: Dialect) -> Schema:
    """Return the converted schema. It is cached and shared, so it must not be changed.

    Raises UnsupportedSchema for the enforced dialects only: a tool can then be offered in the dialect `openai`.
    """
    try:
        # Keyed by content, not by identity: applications send their tools again with every request.
        converted = _convert_cached(msgspec.json.encode(schema), dialect)
    except RecursionError:
        converted = _give_up("it is nested too deeply", dialect)
    if isinstance(converted, str):
        raise UnsupportedSchema(converted)
    return converted


@lru_cache(maxsize=MAX_CACHED_SCHEMAS)
def _convert_cached(encoded: bytes, dialect: Dialect) -> Schema | str:
    """Return the converted schema, or why there is none: `lru_cache` does not cache exceptions."""
    schema: Schema = msgspec.json.decode(encoded)
    try:
        measure_schema(schema)
    except UnboundedSchema as error:  # one of an old log, or with references that a validator would not follow
        return _give_up(str(error), dialect)
    try:
        return _convert(schema, dialect)
    except UnsupportedSchema as error:
        return str(error)


def _give_up(why: str, dialect: Dialect) -> Schema | str:
    return why if dialect in ENFORCED else ANY_OBJECT


def _convert(schema: Schema, dialect: Dialect) -> Schema:
    match dialect:
        case "openai_strict":
            return to_strict(schema)
        case "openai_output":
            return to_strict(schema, OPENAI_OUTPUT)
        case "anthropic_output":
            return to_strict(schema, ANTHROPIC_OUTPUT)
        case "openai":
            return to_openai(schema)
        case "gemini":
            return to_gemini(schema)
        case "anthropic":
            return to_anthropic(schema)
        case _:
            assert_never(dialect)
