"""Checks arguments against a tool's JSON Schema and tells the model which field was wrong and what was expected.

It does not know venues: the same check holds wherever a tool runs. Nothing is ever fetched to resolve a reference.
"""

from itertools import islice

import jsonschema_rs

from toolyard.core.errors import Misconfigured
from toolyard.core.items import Problem
from toolyard.core.tools import Tool

MAX_ERRORS = 10
MAX_VALIDATORS = 10_000


class Schemas:
    """Compiled validators, one for each distinct schema."""

    def __init__(self) -> None:
        self._validators: dict[str, jsonschema_rs.Validator] = {}

    def compile(self, tool: Tool, key: str) -> jsonschema_rs.Validator:
        """The validator of a tool whose definition hashes to `key`. Raises Misconfigured for a broken schema."""
        validator = self._validators.get(key)
        if validator is None:
            if len(self._validators) >= MAX_VALIDATORS:
                self._validators.clear()  # those still in use are compiled again when they are asked for
            validator = self._validators[key] = _compile_schema(tool)
        return validator

    def validate(self, tool: Tool, key: str, arguments: dict[str, object]) -> Problem | None:
        validator = self.compile(tool, key)
        if validator.is_valid(arguments):
            return None
        found = [_describe_error(error) for error in islice(validator.iter_errors(arguments), MAX_ERRORS)]
        named = "; ".join(f"{fault['field']}: {fault['problem']}" for fault in found)
        return Problem(error=f"wrong arguments: {named}", error_type="validation_error", details={"fields": found})


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
