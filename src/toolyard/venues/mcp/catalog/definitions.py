"""Builds a `Tool` from a server's definition; its hints set the rules if the server is trusted.

Definitions are kept as the server listed them. One that no model could be shown is kept too, as unusable. A schema that
is not valid but plainly meant is mended in the tool, not in the definition.
"""

import hashlib
from functools import lru_cache
from typing import cast

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from toolyard.core.json_types import Json, is_object
from toolyard.core.tools.definition import Tool
from toolyard.core.tools.mcp_servers import ServerSpec
from toolyard.core.tools.schema_expansion import UnboundedSchema, measure_schema

PINNED_FIELDS = ("name", "title", "description", "inputSchema", "outputSchema", "annotations")
MAX_SCHEMA_BYTES = 256 * 1024
MAX_DESCRIPTION_CHARS = 32_000
MAX_TITLE_CHARS = 100
_TYPE_NAMES = frozenset({"string", "number", "integer", "boolean", "array", "object", "null"})
MAX_MEASURED_SCHEMAS = 2_048


def hash_definition(definition: Json) -> str:
    """Return the hash of a definition's pinned fields, whatever their order."""
    pinned = {key: definition[key] for key in PINNED_FIELDS if key in definition}
    return hashlib.sha256(msgspec.json.encode(pinned, order="deterministic")).hexdigest()


def find_defect(definition: object) -> str:
    """Return why a definition cannot be shown to a model; empty if it can."""
    if not is_object(definition):
        return "it is not an object"
    name, schema = definition.get("name"), definition.get("inputSchema")
    if not isinstance(name, str) or not name:
        return "it has no name"
    if not is_object(schema) or not _describes_object(schema):
        return "its inputSchema is not one of an object"
    defect = _find_size_defect(schema)
    return f"its inputSchema {defect}" if defect else ""


def _find_size_defect(schema: Json) -> str:
    """Return why a schema is too large to be shown to a model; empty if it is not."""
    try:
        encoded = msgspec.json.encode(schema)
    except (RecursionError, msgspec.MsgspecError):
        return "cannot be written"
    if len(encoded) > MAX_SCHEMA_BYTES:
        return f"of {len(encoded):,} bytes is over {MAX_SCHEMA_BYTES:,}"
    return _find_expansion_defect(encoded)


@lru_cache(maxsize=MAX_MEASURED_SCHEMAS)
def _find_expansion_defect(encoded: bytes) -> str:
    """Return why a schema expands to too much; empty if it does not. Definitions are checked many times."""
    try:
        measure_schema(msgspec.json.decode(encoded))
    except UnboundedSchema as error:
        return f"cannot be used: {error}"
    return ""


def _describes_object(schema: Json) -> bool:
    """Return whether a schema is of an object. Arguments always are one, so a missing type means that."""
    type_name = schema.get("type") or "object"
    return type_name == "object" or (isinstance(type_name, list) and "object" in type_name)


def mend_schema(schema: Json) -> Json:
    """Return an `inputSchema` that `find_defect` accepts with what it plainly means: the same object if it is valid.

    Its type is `object`, and a sub-schema that is the name of a type, such as `{"name": "string"}`, is that type.
    """
    mended = _mend_subschemas(schema)
    return mended if mended.get("type") == "object" else {**mended, "type": "object"}


def _mend_subschemas(schema: Json) -> Json:
    changes: Json = {}
    properties = schema.get("properties")
    if is_object(properties):
        mended = {name: _mend_subschema(subschema) for name, subschema in properties.items()}
        if any(mended[name] is not subschema for name, subschema in properties.items()):
            changes["properties"] = mended
    if "items" in schema and (items := _mend_subschema(schema["items"])) is not schema["items"]:
        changes["items"] = items
    # Serializers write null for a field that is not set, and PHP an empty list for an empty object.
    unset = {name for name in ("properties", "required") if name in schema and schema[name] is None}
    unset |= {"properties"} if properties == [] else set[str]()
    if not changes and not unset:
        return schema
    return {**{name: value for name, value in schema.items() if name not in unset}, **changes}


def _mend_subschema(subschema: object) -> object:
    if isinstance(subschema, str) and subschema in _TYPE_NAMES:
        return {"type": subschema}
    return _mend_subschemas(subschema) if is_object(subschema) else subschema


def build_tool(definition: Json, name: str, server: str, spec: ServerSpec, *, is_reviewed: bool = False) -> Tool:
    """Return the tool that is offered to models under this name. A person may have reviewed its definition."""
    annotations = definition.get("annotations")
    hints = annotations if is_object(annotations) else {}
    effects = parse_effects(hints, trust=spec.trust)
    remote = str(definition["name"])
    return Tool(
        name=name,
        title=_pick_title(definition, hints),
        description=_pick_description(definition, hints, remote),
        parameters=mend_schema(cast(Json, definition["inputSchema"])),
        returns=_pick_output_schema(definition),
        venue="mcp",
        server=server,
        remote=remote,
        approval="ask" if effects.destructive else "never",
        untrusted=not spec.trust,
        unreviewed=not spec.trust and not is_reviewed,
        timeout_s=spec.call_s,
        **asdict(effects),
    )


def distrust_tool(tool: Tool, *, is_reviewed: bool) -> Tool:
    """Return a tool of a trusted server as it would be if the server were not trusted."""
    return replace(tool, approval="ask", untrusted=True, unreviewed=not is_reviewed, **asdict(Effects()))


class Effects(Struct, frozen=True, kw_only=True):
    """The effects that a call may have. The defaults are the worst case."""

    read_only: bool = False
    destructive: bool = True
    open_world: bool = True
    idempotent: bool = False


def parse_effects(hints: Json, *, trust: bool) -> Effects:
    """Return the effects that a tool's hints claim; the worst case if the server is not trusted.

    A hint that a trusted server leaves out counts as False, as for a function, so its tools run without approval.
    (MCP's own default for a missing `destructiveHint` is True.)
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


def _pick_output_schema(definition: Json) -> Json | None:
    """Return the schema of the structured results, unless there is none or it could not be shown to a model."""
    schema = definition.get("outputSchema")
    return schema if is_object(schema) and not _find_size_defect(schema) else None


def _pick_title(definition: Json, hints: Json) -> str:
    """Return the title on one line, without characters that hide or reorder others: people decide by what it says."""
    title = definition.get("title") or hints.get("title")
    if not isinstance(title, str):
        return ""
    visible = "".join(letter if letter.isprintable() else " " for letter in title)
    return " ".join(visible.split())[:MAX_TITLE_CHARS]


def _pick_description(definition: Json, hints: Json, remote: str) -> str:
    description = definition.get("description") or definition.get("title") or hints.get("title") or remote
    return str(description)[:MAX_DESCRIPTION_CHARS]
