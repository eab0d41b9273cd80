"""Whether something fits a schema that a server named: an answer its form, a structured result its `outputSchema`."""

import jsonschema_rs

MOST_ERRORS = 5
MOST_KEPT = 500
LONGEST = 200


class Forms:
    """Compiled schemas, for as long as they are the same objects."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[object, jsonschema_rs.Validator | None]] = {}

    def unfit(self, schema: object, content: object) -> str:
        """What is wrong with the content, field by field; empty if nothing is, or if the form itself is no schema."""
        validator = self._validator(schema)
        if validator is None or validator.is_valid(content):
            return ""
        found = [error for error, _ in zip(validator.iter_errors(content), range(MOST_ERRORS), strict=False)]
        return "; ".join(f"{_place(error)}: {error.message[:LONGEST]}" for error in found)

    def _validator(self, schema: object) -> jsonschema_rs.Validator | None:
        if (known := self._known.get(id(schema))) is None or known[0] is not schema:
            if len(self._known) >= MOST_KEPT:
                self._known.clear()
            known = self._known[id(schema)] = (schema, _compiled(schema))
        return known[1]


def _compiled(schema: object) -> jsonschema_rs.Validator | None:
    try:
        return jsonschema_rs.validator_for(schema, offline=True)  # pyright: ignore[reportArgumentType]
    except (ValueError, jsonschema_rs.ReferencingError):
        return None


def _place(error: jsonschema_rs.ValidationError) -> str:
    return ".".join(map(str, error.instance_path))[:LONGEST] or "the whole"
