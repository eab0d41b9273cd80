"""A server's definition of a tool becomes a Tool with rules, set by its hints if the server is trusted.

What a server lists is taken as it is. A definition that no model could be shown is kept, and said to be unusable.
"""

import hashlib
from typing import cast

import msgspec
from msgspec import Struct

from toolyard.core.mcp_servers import ServerSpec
from toolyard.core.tools import Tool

Json = dict[str, object]
PINNED_FIELDS = ("name", "title", "description", "inputSchema", "outputSchema", "annotations")
MAX_SCHEMA_BYTES = 256 * 1024
MAX_DESCRIPTION_CHARS = 32_000


def hash_definition(definition: Json) -> str:
    """A definition as a hash: of everything that says what the tool does, whatever the order of its fields."""
    shown = {key: definition[key] for key in PINNED_FIELDS if key in definition}
    return hashlib.sha256(msgspec.json.encode(shown, order="deterministic")).hexdigest()


def find_defect(definition: object) -> str:
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
    return f"its inputSchema of {size:,} bytes is over {MAX_SCHEMA_BYTES:,}" if size > MAX_SCHEMA_BYTES else ""


def build_tool(definition: Json, name: str, server: str, spec: ServerSpec) -> Tool:
    """The tool that a model is offered under this name."""
    hints = definition.get("annotations")
    known = cast(Json, hints) if isinstance(hints, dict) else {}
    effects = parse_effects(known, trust=spec.trust)
    remote = str(definition["name"])
    return Tool(
        name=name,
        description=_pick_description(definition, known, remote),
        parameters=cast(Json, definition["inputSchema"]),
        venue="mcp",
        server=server,
        remote=remote,
        approval="ask" if effects.destructive else "never",
        read_only=effects.read_only,
        destructive=effects.destructive,
        open_world=effects.open_world,
        idempotent=effects.idempotent,
        timeout_s=spec.call_s,
    )


class Effects(Struct, frozen=True, kw_only=True):
    """What a call may do to the world. The defaults are the worst."""

    read_only: bool = False
    destructive: bool = True
    open_world: bool = True
    idempotent: bool = False


def parse_effects(hints: Json, *, trust: bool) -> Effects:
    """Return what a tool's hints say. Hints are the server's own words, so they count only if it is trusted.

    What a trusted server does not say is unmarked, as it is of a function: its tools run without asking.
    """
    if not trust:
        return Effects()
    read_only = hints.get("readOnlyHint") is True
    return Effects(
        read_only=read_only,
        destructive=not read_only and hints.get("destructiveHint") is True,
        open_world=hints.get("openWorldHint") is True,
        idempotent=hints.get("idempotentHint") is True,
    )


def _pick_description(definition: Json, hints: Json, remote: str) -> str:
    said = definition.get("description") or definition.get("title") or hints.get("title") or remote
    return str(said)[:MAX_DESCRIPTION_CHARS]
