"""Validates content against a server's schema: an answer against its form, a result against its `outputSchema`."""

import jsonschema_rs

MAX_ERRORS = 5
MAX_CACHED = 500
MAX_TEXT_CHARS = 200


class SchemaValidators:
    """A cache of compiled schemas, by the identity of the schema objects."""

    def __init__(self) -> None:
        self._cache: dict[int, tuple[object, jsonschema_rs.Validator | None]] = {}

    def validate(self, schema: object, content: object) -> str:
        """Return the errors of the content, field by field; empty if it is valid, or if the schema itself is not."""
        validator = self._get_validator(schema)
        if validator is None or validator.is_valid(content):
            return ""
        errors = [error for error, _ in zip(validator.iter_errors(content), range(MAX_ERRORS), strict=False)]
        return "; ".join(f"{_format_path(error)}: {error.message[:MAX_TEXT_CHARS]}" for error in errors)

    def _get_validator(self, schema: object) -> jsonschema_rs.Validator | None:
        # Keyed by identity, as a schema is a dict and has no hash. The entry holds the schema itself, so that its id
        # cannot go to another object as long as the entry exists.
        if (entry := self._cache.get(id(schema))) is None or entry[0] is not schema:
            if len(self._cache) >= MAX_CACHED:
                self._cache.clear()
            entry = self._cache[id(schema)] = (schema, _compile(schema))
        return entry[1]


def _compile(schema: object) -> jsonschema_rs.Validator | None:
    try:
        return jsonschema_rs.validator_for(schema, offline=True)  # pyright: ignore[reportArgumentType]
    except (ValueError, jsonschema_rs.ReferencingError):
        return None


def _format_path(error: jsonschema_rs.ValidationError) -> str:
    return ".".join(map(str, error.instance_path))[:MAX_TEXT_CHARS] or "the whole"
