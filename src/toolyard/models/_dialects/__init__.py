"""A tool's JSON Schema → one that a provider takes. Pure; it does not know tools, wires or values.

A converted schema is never stricter than its original: what a provider cannot express is left out, and told in the
description where it helps. Arguments are always checked against the original, so that a looser one does no harm.
OpenAI's strict mode is the exception: there an object has all its properties and no others, an optional one may be
null (`without_forced_nulls` takes those nulls out again), and a schema that needs more is `Inexpressible`.
"""

from typing import Literal, assert_never

from toolyard.models._dialects._gemini import gemini
from toolyard.models._dialects._plain import anthropic, openai
from toolyard.models._dialects._schema import Inexpressible, Schema
from toolyard.models._dialects._strict import strict, without_forced_nulls

__all__ = ["Dialect", "Inexpressible", "convert", "without_forced_nulls"]

Dialect = Literal["openai_strict", "openai", "gemini", "anthropic"]


def convert(schema: Schema, dialect: Dialect) -> Schema:
    """Raises Inexpressible for `openai_strict` only: then offer the tool without strict mode, as `openai` has it."""
    try:
        match dialect:
            case "openai_strict":
                return strict(schema)
            case "openai":
                return openai(schema)
            case "gemini":
                return gemini(schema)
            case "anthropic":
                return anthropic(schema)
            case _:
                assert_never(dialect)
    except RecursionError:
        if dialect == "openai_strict":
            raise Inexpressible("it is nested too deeply") from None
        return {"type": "object", "properties": {}}
