"""Validates JSON against JSON Schemas: arguments against a tool's, a model's answer against a request's.

Errors are for the model and name each wrong field. The check is the same for every venue and every provider.
"""

import hashlib

import msgspec

from toolyard.core.errors import Misconfigured
from toolyard.core.items import Problem
from toolyard.core.settings.models.options import OUTPUT_INVALID
from toolyard.core.tools.definition import Tool
from toolyard.json_schema import InvalidSchema, SchemaError, SchemaValidator

MAX_ERRORS = 10
MAX_CACHED_SCHEMAS = 200_000
"""How many schemas all cached validators together may expand to. A typical tool has about ten."""


class Schemas:
    """A cache of compiled validators, one for each distinct tool definition or output schema."""

    def __init__(self) -> None:
        self._validators: dict[str, SchemaValidator] = {}
        self._cached_schemas = 0

    def compile(self, tool: Tool, key: str) -> SchemaValidator:
        """Return the validator of a tool whose definition hashes to `key`. Raises Misconfigured if it is invalid."""
        if (validator := self._validators.get(key)) is not None:
            return validator
        if tool.parameters.get("type", "object") != "object":
            raise Misconfigured(f"tool {tool.name!r}: its parameters must be a JSON Schema of type object")
        return self._compile(tool.parameters, key, f"tool {tool.name!r}: its parameters are")

    def validate(self, tool: Tool, key: str, arguments: dict[str, object]) -> Problem | None:
        """Return what is wrong with the arguments, field by field, or None.

        A schema that is refused is such a problem too: a log may hold one that was accepted by an earlier version.
        """
        try:
            validator = self.compile(tool, key)
        except Misconfigured as error:
            return Problem(error=str(error), error_type="validation_error")
        return _find_problem(validator, arguments, "wrong arguments", "validation_error")

    def compile_output(self, schema: dict[str, object]) -> SchemaValidator:
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
        except Misconfigured as error:  # a schema of an old log
            return Problem(error=f"{summary}: {error}", error_type=OUTPUT_INVALID)

    def _compile(self, schema: dict[str, object], key: str, subject: str) -> SchemaValidator:
        try:
            validator = SchemaValidator(schema)
        except InvalidSchema as error:
            raise Misconfigured(f"{subject} not a valid JSON Schema: {error}") from None
        self._cached_schemas += validator.expansion.schemas
        if self._cached_schemas > MAX_CACHED_SCHEMAS:
            self._validators.clear()  # validators that are still in use are compiled again on demand
            self._cached_schemas = validator.expansion.schemas
        self._validators[key] = validator
        return validator


def _find_problem(validator: SchemaValidator, value: object, summary: str, error_type: str) -> Problem | None:
    errors = [_describe_error(error) for error in validator.find_errors(value, MAX_ERRORS)]
    if not errors:
        return None
    faults = "; ".join(f"{fault['field']}: {fault['problem']}" for fault in errors)
    return Problem(error=f"{summary}: {faults}", error_type=error_type, details={"fields": errors})


def _describe_error(error: SchemaError) -> dict[str, object]:
    return {
        "field": ".".join(map(str, error.path)) or "(the whole)",
        "problem": error.message[:300],
        "expected": "/".join(map(str, error.schema_path)),
    }
