"""A server's definition of a tool becomes a Tool with rules: hints set the defaults. It does not know any server.

What a server lists is taken as it is. A definition that no model could be shown is kept, and said to be unusable.
"""

import hashlib
from typing import cast

import msgspec

from toolyard.core.servers import ServerSpec
from toolyard.core.tools import Approval, Tool

Json = dict[str, object]
PINNED = ("name", "title", "description", "inputSchema", "outputSchema", "annotations")
MOST_SCHEMA_BYTES = 256 * 1024
MOST_DESCRIPTION = 32_000


def pin_of(definition: Json) -> str:
    """A definition as a hash: of everything that says what the tool does, whatever the order of its fields."""
    shown = {key: definition[key] for key in PINNED if key in definition}
    return hashlib.sha256(msgspec.json.encode(shown, order="deterministic")).hexdigest()


def unusable(definition: object) -> str:
    """Why no model could be shown this, if so."""
    if not isinstance(definition, dict):
        return "it is no object"
    definition = cast(Json, definition)
    name, schema = definition.get("name"), definition.get("inputSchema")
    if not isinstance(name, str) or not name:
        return "it has no name"
    if not isinstance(schema, dict) or cast(Json, schema).get("type", "object") != "object":
        return "its inputSchema is not one of an object"
    try:
        size = len(msgspec.json.encode(schema))
    except (RecursionError, msgspec.MsgspecError):
        return "its inputSchema cannot be written"
    return f"its inputSchema of {size:,} bytes is over {MOST_SCHEMA_BYTES:,}" if size > MOST_SCHEMA_BYTES else ""


def tool_of(definition: Json, name: str, server: str, spec: ServerSpec) -> Tool:
    """The tool that a model is offered under this name."""
    hints = definition.get("annotations")
    known = cast(Json, hints) if isinstance(hints, dict) else {}
    read_only = known.get("readOnlyHint") is True
    remote = str(definition["name"])
    return Tool(
        name=name,
        description=_description(definition, known, remote),
        parameters=cast(Json, definition["inputSchema"]),
        venue="mcp",
        server=server,
        remote=remote,
        approval=approval_of(known, trust=spec.trust),
        idempotent=read_only or known.get("idempotentHint") is True,
        timeout_s=spec.call_s,
    )


def approval_of(hints: Json, *, trust: bool) -> Approval:
    """Reading needs nobody's leave, destroying does; without a hint it depends on whether the server is trusted."""
    if hints.get("readOnlyHint") is True or hints.get("destructiveHint") is False:
        return "never"
    return "never" if trust and hints.get("destructiveHint") is None else "ask"


def _description(definition: Json, hints: Json, remote: str) -> str:
    said = definition.get("description") or definition.get("title") or hints.get("title") or remote
    return str(said)[:MOST_DESCRIPTION]
