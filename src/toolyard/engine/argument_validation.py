"""Validates arguments against a tool's JSON Schema, with an error for the model that names each wrong field.

The check is the same for every venue. References in a schema are never fetched.
"""

from itertools import islice

import jsonschema_rs

from toolyard.core.errors import Misconfigured
from toolyard.core.items import Problem
from toolyard.core.tools import Tool

MAX_ERRORS = 10
MAX_VALIDATORS = 10_000


class Schemas:
    """A cache of compiled validators, one for each distinct tool definition."""

    def __init__(self) -> None:
        self._validators: dict[str, jsonschema_rs.Validator] = {}

    def compile(self, tool: Tool, key: str) -> jsonschema_rs.Validator:
        """Return the validator of a tool whose definition hashes to `key`. Raises Misconfigured if it is invalid."""
        validator = self._validators.get(key)
        if validator is None:
            if len(self._validators) >= MAX_VALIDATORS:
                self._validators.clear()  # validators that are still in use are compiled again on demand
            validator = self._validators[key] = _compile_schema(tool)
        return validator

    def validate(self, tool: Tool, key: str, arguments: dict[str, object]) -> Problem | None:
        """Return what is wrong with the arguments, field by field, or None."""
        validator = self.compile(tool, key)
        if validator.is_valid(arguments):
            return None
        errors = [_describe_error(error) for error in islice(validator.iter_errors(arguments), MAX_ERRORS)]
        summary = "; ".join(f"{fault['field']}: {fault['problem']}" for fault in errors)
        return Problem(error=f"wrong arguments: {summary}", error_type="validation_error", details={"fields": errors})


def _compile_schema(tool: Tool) -> jsonschema_rs.Validator:
    if tool.parameters.get("type", "object") != "object":
        raise Misconfigured(f"tool {tool.name!r}: its parameters must be a JSON Schema of type object")
    try:
        return jsonschema_rs.validator_for(tool.parameters, offline=True)
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        why = str(error).partition("\n")[0]
        raise Misconfigured(f"tool {tool.name!r}: its parameters are not a valid JSON Schema: {why}") from None


def _describe_error(error: jsonschema_rs.ValidationError) -> dict[str, object]:
    path = ".".join(str(part) for part in error.instance_path)
    return {
        "field": path or "(the whole)",
        "problem": error.message[:300],
        "expected": "/".join(str(part) for part in error.schema_path),
    }
