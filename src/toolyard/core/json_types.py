"""The type of a JSON object."""

Json = dict[str, object]
