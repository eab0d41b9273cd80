"""Validates content against a server's schema: an answer against its form, a result against its `outputSchema`."""

from toolyard.core.json_types import is_object
from toolyard.json_schema import InvalidSchema, SchemaError, SchemaValidator

MAX_ERRORS = 5
MAX_CACHED = 500
MAX_TEXT_CHARS = 200


class SchemaValidators:
    """A cache of compiled schemas, by the identity of the schema objects."""

    def __init__(self) -> None:
        self._cache: dict[int, tuple[object, SchemaValidator | None]] = {}

    def validate(self, schema: object, content: object) -> str:
        """Return the errors of the content, field by field; empty if it is valid, or if the schema itself is not."""
        validator = self._get_validator(schema)
        errors = validator.find_errors(content, MAX_ERRORS) if validator else []
        return "; ".join(f"{_format_path(error)}: {error.message[:MAX_TEXT_CHARS]}" for error in errors)

    def _get_validator(self, schema: object) -> SchemaValidator | None:
        # Keyed by identity, as a schema is a dict and has no hash. The entry holds the schema itself, so that its id
        # cannot go to another object as long as the entry exists.
        if (entry := self._cache.get(id(schema))) is None or entry[0] is not schema:
            if len(self._cache) >= MAX_CACHED:
                self._cache.clear()
            entry = self._cache[id(schema)] = (schema, _compile(schema))
        return entry[1]


def _compile(schema: object) -> SchemaValidator | None:
    try:
        return SchemaValidator(schema) if is_object(schema) else None
    except InvalidSchema:
        return None


def _format_path(error: SchemaError) -> str:
    return ".".join(map(str, error.path))[:MAX_TEXT_CHARS] or "the whole"
