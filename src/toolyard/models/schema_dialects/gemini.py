"""JSON Schema as Gemini accepts it in `parametersJsonSchema`: few keywords, and references written out."""

from toolyard.core.json_types import is_list, is_object
from toolyard.models.schema_dialects.merge import MAX_BRANCHES, expand_schema, flatten_root, merge_all
from toolyard.models.schema_dialects.schema import (
    NormalizedSchema,
    Schema,
    as_list,
    as_schema,
    get_properties,
    get_required,
    get_types,
    note_omissions,
)

MAX_DEPTH = 10
"""A deeper or recursive schema is cut off here: below, any value is allowed."""
MAX_WRITTEN = 5_000
"""The most values of a converted schema. One with more is cut off at a lesser depth, as references are written out."""
_ANNOTATIONS = ("title", "description")
_BOUNDS = {
    "array": ("minItems", "maxItems"),
    "number": ("minimum", "maximum"),
    "integer": ("minimum", "maximum"),
}
_FORMATS = {"date-time", "date", "time", "int32", "int64", "float", "double"}
_DESCRIBED_KEYWORDS = (
    *("pattern", "minLength", "maxLength", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "default"),
    *("uniqueItems", "minProperties", "maxProperties", "not", "patternProperties", "dependentRequired"),
)


def to_gemini(schema: Schema) -> Schema:
    normalized = NormalizedSchema(schema)
    root: Schema = {**flatten_root(normalized), "type": "object"}
    converted = Schema()
    for max_depth in range(MAX_DEPTH, 0, -1):
        converted = _Converter(normalized, max_depth).convert(root, 0)
        if _count_written(converted, {}) <= MAX_WRITTEN:
            break
    return (
        converted
        if "additionalProperties" in converted
        else {**converted, "properties": converted.get("properties", {})}
    )


def _count_written(value: object, counts: dict[int, int]) -> int:
    """Return how many values a value is when it is written: objects that are used in several places count in each."""
    if is_object(value):
        parts = [*value.values()]
    elif is_list(value):
        parts = value
    else:
        return 1
    key = id(value)
    if key not in counts:
        counts[key] = 1 + sum(_count_written(part, counts) for part in parts)
    return counts[key]


class _Converter:
    """Converts schemas down to a depth, each once for each depth that it is at."""

    def __init__(self, normalized: NormalizedSchema, max_depth: int) -> None:
        self._normalized = normalized
        self._max_depth = max_depth
        self._converted: dict[tuple[int, int], tuple[Schema, Schema]] = {}

    def convert(self, node: Schema, depth: int) -> Schema:
        if depth > self._max_depth:
            return {}
        node = expand_schema(node, self._normalized)
        key = (id(node), depth)
        if key not in self._converted:  # the entry holds the node, so that its id cannot go to another object
            self._converted[key] = (node, self._convert_expanded(node, depth))
        return self._converted[key][1]

    def _convert_expanded(self, node: Schema, depth: int) -> Schema:
        if branches := [as_schema(branch) for branch in as_list(node.get("anyOf"))]:
            base = {name: value for name, value in node.items() if name not in ("anyOf", *_ANNOTATIONS)}
            return self._convert_choice(
                node, [merge_all([base, branch]) for branch in branches] if base else branches, depth
            )
        converted: Schema = {name: node[name] for name in _ANNOTATIONS if isinstance(node.get(name), str)}
        values = [node["const"]] if "const" in node else as_list(node.get("enum"))
        if values:
            return _convert_enum(node, converted, values)
        kinds = get_types(node)
        if len([kind for kind in kinds if kind != "null"]) > 1:
            return {**converted, "anyOf": [self._convert_type(node, kind, {}, depth) for kind in kinds]}
        if not kinds:
            return note_omissions(converted, node, ("properties", "items", *_DESCRIBED_KEYWORDS))
        kind = next((kind for kind in kinds if kind != "null"), "null")
        converted = self._convert_type(node, kind, converted, depth)
        return note_omissions(
            {**converted, "type": [kind, "null"]} if "null" in kinds and kind != "null" else converted,
            node,
            _DESCRIBED_KEYWORDS,
        )

    def _convert_choice(self, node: Schema, branches: list[Schema], depth: int) -> Schema:
        annotations: Schema = {name: node[name] for name in _ANNOTATIONS if isinstance(node.get(name), str)}
        if len(branches) > MAX_BRANCHES:
            return note_omissions(annotations, node, ("anyOf",))
        return {**annotations, "anyOf": [self.convert(branch, depth + 1) for branch in branches]}

    def _convert_type(self, node: Schema, kind: str, converted: Schema, depth: int) -> Schema:
        converted = {**converted, "type": kind, **{name: node[name] for name in _BOUNDS.get(kind, ()) if name in node}}
        if node.get("format") in _FORMATS and kind in ("string", "number", "integer"):
            converted["format"] = node["format"]
        if kind == "object":
            return self._convert_object(node, converted, depth)
        return self._convert_array(node, converted, depth) if kind == "array" else converted

    def _convert_object(self, node: Schema, converted: Schema, depth: int) -> Schema:
        properties = get_properties(node)
        if properties:
            converted["properties"] = {
                name: self.convert(property_schema, depth + 1) for name, property_schema in properties.items()
            }
            converted["required"] = [name for name in get_required(node) if name in properties]
        additional = node.get("additionalProperties")
        if is_object(additional) and "patternProperties" not in node:
            converted["additionalProperties"] = self.convert(additional, depth + 1)
        elif not properties and (additional is True or "patternProperties" in node):
            converted["additionalProperties"] = True
        return converted

    def _convert_array(self, node: Schema, converted: Schema, depth: int) -> Schema:
        prefix, items = as_list(node.get("prefixItems")), node.get("items")
        item_schema = {} if items is None or isinstance(items, bool) else self.convert(as_schema(items), depth + 1)
        if not prefix:
            return {**converted, "items": item_schema}
        positions = [self.convert(as_schema(schema), depth + 1) for schema in prefix]
        if items is False:
            max_items = node.get("maxItems")
            converted["maxItems"] = min(len(prefix), max_items) if isinstance(max_items, int) else len(prefix)
            return {**converted, "prefixItems": positions, "items": {"anyOf": positions}}
        return {**converted, "prefixItems": positions, "items": item_schema}


def _convert_enum(node: Schema, converted: Schema, values: list[object]) -> Schema:
    """Return an enum of strings or of numbers: Gemini accepts no other enums, and no empty string in one."""
    listed = [value for value in values if value is not None]
    for kind, types in (("string", str), ("number", int | float)):
        if (
            listed
            and "" not in listed
            and all(isinstance(entry, types) and not isinstance(entry, bool) for entry in listed)
        ):
            enum: Schema = {"type": kind, "enum": listed}
            null: Schema = {"type": "null"}
            return {**converted, **enum} if None not in values else {**converted, "anyOf": [enum, null]}
    return note_omissions(converted, node, ("const", "enum"))
