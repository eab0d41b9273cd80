"""Validates JSON against JSON Schemas: arguments against a tool's, a model's answer against a request's.

Errors are for the model and name each wrong field. The check is the same for every venue and every provider. References
in a schema are never fetched.
"""

import hashlib
from itertools import islice

import jsonschema_rs
import msgspec

from toolyard.core.errors import Misconfigured
from toolyard.core.items import Problem
from toolyard.core.options import OUTPUT_INVALID
from toolyard.core.tools import Tool

MAX_ERRORS = 10
MAX_VALIDATORS = 10_000


class Schemas:
    """A cache of compiled validators, one for each distinct tool definition or output schema."""

    def __init__(self) -> None:
        self._validators: dict[str, jsonschema_rs.Validator] = {}

    def compile(self, tool: Tool, key: str) -> jsonschema_rs.Validator:
        """Return the validator of a tool whose definition hashes to `key`. Raises Misconfigured if it is invalid."""
        if (validator := self._validators.get(key)) is not None:
            return validator
        if tool.parameters.get("type", "object") != "object":
            raise Misconfigured(f"tool {tool.name!r}: its parameters must be a JSON Schema of type object")
        return self._compile(tool.parameters, key, f"tool {tool.name!r}: its parameters are")

    def validate(self, tool: Tool, key: str, arguments: dict[str, object]) -> Problem | None:
        """Return what is wrong with the arguments, field by field, or None."""
        return _find_problem(self.compile(tool, key), arguments, "wrong arguments", "validation_error")

    def compile_output(self, schema: dict[str, object]) -> jsonschema_rs.Validator:
        """Return the validator of an output schema. Raises Misconfigured if it is not a valid JSON Schema."""
        key = f"output:{hashlib.sha256(msgspec.json.encode(schema)).hexdigest()}"
        return self._validators.get(key) or self._compile(schema, key, "the output schema is")

    def validate_output(self, schema: dict[str, object], text: str) -> Problem | None:
        """Return why a model's text is not JSON that fits the schema, field by field, or None."""
        summary = "the answer does not fit the output schema"
        try:
            value: object = msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError) as error:
            return Problem(error=f"{summary}: it is not JSON: {error}", error_type=OUTPUT_INVALID)
        try:
            return _find_problem(self.compile_output(schema), value, summary, OUTPUT_INVALID)
        except ValueError as error:  # nested too deeply for the validator
            return Problem(error=f"{summary}: {error}", error_type=OUTPUT_INVALID)

    def _compile(self, schema: dict[str, object], key: str, subject: str) -> jsonschema_rs.Validator:
        if len(self._validators) >= MAX_VALIDATORS:
            self._validators.clear()  # validators that are still in use are compiled again on demand
        try:
            validator = jsonschema_rs.validator_for(schema, offline=True)
        except (ValueError, jsonschema_rs.ReferencingError) as error:
            why = str(error).partition("\n")[0]
            raise Misconfigured(f"{subject} not a valid JSON Schema: {why}") from None
        self._validators[key] = validator
        return validator


def _find_problem(validator: jsonschema_rs.Validator, value: object, summary: str, error_type: str) -> Problem | None:
    if validator.is_valid(value):
        return None
    errors = [_describe_error(error) for error in islice(validator.iter_errors(value), MAX_ERRORS)]
    faults = "; ".join(f"{fault['field']}: {fault['problem']}" for fault in errors)
    return Problem(error=f"{summary}: {faults}", error_type=error_type, details={"fields": errors})


def _describe_error(error: jsonschema_rs.ValidationError) -> dict[str, object]:
    path = ".".join(str(part) for part in error.instance_path)
    return {
        "field": path or "(the whole)",
        "problem": error.message[:300],
        "expected": "/".join(str(part) for part in error.schema_path),
    }
