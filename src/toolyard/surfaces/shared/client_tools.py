"""Build the tools that a client declares in its request and runs itself."""

from typing import cast

from toolyard.core.tools.definition import EMPTY_OBJECT, Tool
from toolyard.surfaces.http.errors import invalid_field


def build_client_tool(
    name: object, description: object, parameters: object, key: str, *, hides_server_tool: bool = True
) -> Tool:
    """Return a tool of the client. Raise Invalid, with `key` as the field, if it has no name or no schema."""
    if not isinstance(name, str) or not name:
        raise invalid_field(key, "has no name")
    schema, text = parameters or dict(EMPTY_OBJECT), description or ""
    if not isinstance(schema, dict) or not isinstance(text, str):
        raise invalid_field(key, "needs a description, and its parameters: they must be a JSON Schema")
    return Tool(
        name=name,
        description=text,
        parameters=cast("dict[str, object]", schema),
        venue="client",
        hides_server_tool=hides_server_tool,
    )
