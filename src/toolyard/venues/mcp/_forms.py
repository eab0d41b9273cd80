"""Whether an answer fits the form of a question."""

import jsonschema_rs

MOST_ERRORS = 5


def unfit(schema: object, content: object) -> str:
    """What is wrong with the content, field by field; empty if nothing is, or if the form itself is no schema."""
    try:
        validator = jsonschema_rs.validator_for(schema, offline=True)  # pyright: ignore[reportArgumentType]
    except (ValueError, jsonschema_rs.ReferencingError):
        return ""
    found = [error for error, _ in zip(validator.iter_errors(content), range(MOST_ERRORS), strict=False)]
    return "; ".join(f"{'.'.join(map(str, error.instance_path)) or 'the answer'}: {error.message}" for error in found)
