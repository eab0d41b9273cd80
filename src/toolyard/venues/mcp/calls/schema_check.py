"""Whether something fits a schema that a server named: an answer its form, a structured result its `outputSchema`."""

import jsonschema_rs

MAX_ERRORS = 5
MAX_CACHED = 500
MAX_TEXT_CHARS = 200


class SchemaValidators:
    """Compiled schemas, for as long as they are the same objects."""

    def __init__(self) -> None:
        self._cache: dict[int, tuple[object, jsonschema_rs.Validator | None]] = {}

    def validate(self, schema: object, content: object) -> str:
        """What is wrong with the content, field by field; empty if nothing is, or if the form itself is no schema."""
        validator = self._get_validator(schema)
        if validator is None or validator.is_valid(content):
            return ""
        found = [error for error, _ in zip(validator.iter_errors(content), range(MAX_ERRORS), strict=False)]
        return "; ".join(f"{_format_path(error)}: {error.message[:MAX_TEXT_CHARS]}" for error in found)

    def _get_validator(self, schema: object) -> jsonschema_rs.Validator | None:
        if (known := self._cache.get(id(schema))) is None or known[0] is not schema:
            if len(self._cache) >= MAX_CACHED:
                self._cache.clear()
            known = self._cache[id(schema)] = (schema, _compile(schema))
        return known[1]


def _compile(schema: object) -> jsonschema_rs.Validator | None:
    try:
        return jsonschema_rs.validator_for(schema, offline=True)  # pyright: ignore[reportArgumentType]
    except (ValueError, jsonschema_rs.ReferencingError):
        return None


def _format_path(error: jsonschema_rs.ValidationError) -> str:
    return ".".join(map(str, error.instance_path))[:MAX_TEXT_CHARS] or "the whole"
