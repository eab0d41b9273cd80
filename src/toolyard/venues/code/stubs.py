"""Declares tools as Python functions, for the checker of programs. Made from the JSON Schemas of the tools."""

import builtins
import keyword
import re
from collections.abc import Iterable, Mapping
from typing import cast

from toolyard.core.json_types import is_object
from toolyard.core.tools.definition import Tool

MAX_DEPTH = 6
MAX_SCHEMAS = 2000
"""The most schemas that the declarations for one program are made of. Whatever is beyond them is of any type."""
Schema = Mapping[str, object]
_HEAD = (
    "from typing import Any, Literal, NotRequired, TypedDict",
    # The checker's own list of built-in names lacks it.
    "class PermissionError(OSError): ...",
)
_RESERVED = frozenset((*dir(builtins), *keyword.kwlist, "Any", "Literal", "NotRequired", "TypedDict"))
_SIMPLE_TYPES = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
_WORD = re.compile(r"[^\W\d]\w*")


def name_function(tool: str) -> str:
    """Return the name that a program calls a tool by: the tool's own, changed only where Python does not allow it."""
    name = tool.replace("-", "_")
    if name in _RESERVED:
        return f"{name}_"
    return name if name.isidentifier() else f"t_{name}"


def name_functions(tools: Iterable[Tool]) -> dict[str, Tool]:
    """Return the tools by the names that a program calls them by."""
    functions: dict[str, Tool] = {}
    for tool in tools:
        name = name_function(tool.name)
        while name in functions:
            name += "_"
        functions[name] = tool
    return functions


def find_words(code: str) -> set[str]:
    """Return all words of a program: its names are among them. Parsing it would be for the sandbox to do."""
    return set(_WORD.findall(code))


def list_parameters(tool: Tool) -> list[str]:
    return list(_list_properties(tool.parameters)[0])


def build_stubs(functions: Mapping[str, Tool]) -> str:
    """Return a declaration for each function, with keyword-only parameters."""
    writer = _StubWriter()
    lines = [writer.declare(name, tool) for name, tool in functions.items()]
    return "\n".join([*_HEAD, *writer.classes.values(), *lines, ""])


class _StubWriter:
    def __init__(self) -> None:
        self.classes: dict[str, str] = {}
        """The declarations of types, by their names."""
        self._schemas_left = MAX_SCHEMAS
        self._open_targets: list[Schema] = []
        """The targets of the references that lead to the schema in hand: a recursive one is of any type inside."""

    def declare(self, name: str, tool: Tool) -> str:
        properties, required = _list_properties(tool.parameters)
        named = {key: schema for key, schema in properties.items() if is_name(key)}
        accepts_more = len(named) < len(properties) or tool.parameters.get("additionalProperties", True) is not False
        parameters = [
            f"{key}: {self._to_type(schema, f'{name}_{key}', tool.parameters)}{'' if key in required else ' = ...'}"
            for key, schema in named.items()
        ]
        # Extra arguments are refused by the checker where there are named ones: mostly they are misspelled.
        more = ["**more: Any"] if accepts_more and not named else []
        returned = "Any" if tool.returns is None else self._to_type(tool.returns, f"{name}_returned", tool.returns)
        return f"async def {name}({', '.join([*(['*'] if parameters else []), *parameters, *more])}) -> {returned}: ..."

    def _to_type(self, schema: Schema, name: str, root: Schema, depth: int = 0) -> str:
        self._schemas_left -= 1
        if depth > MAX_DEPTH or self._schemas_left < 0:
            return "Any"
        if isinstance(ref := schema.get("$ref"), str):
            return self._to_target_type(_resolve(root, ref), name, root, depth)
        if "const" in schema or "enum" in schema:
            values = schema.get("enum", [schema.get("const")])
            return _to_literal(cast("list[object]", values)) if isinstance(values, list) else "Any"
        options = schema.get("anyOf") or schema.get("oneOf")
        if isinstance(options, list):
            schemas = cast("list[object]", options)
            return self._join(
                [
                    self._to_type(cast(Schema, option), f"{name}_{number}", root, depth + 1)
                    for number, option in enumerate(schemas)
                    if isinstance(option, dict)
                ]
            )
        kind = schema.get("type")
        if isinstance(kind, list):
            kinds = cast("list[object]", kind)
            return self._join([self._to_type({**schema, "type": each}, name, root, depth + 1) for each in kinds])
        if kind == "array":
            items = schema.get("items")
            inner = (
                self._to_type(cast(Schema, items), f"{name}_item", root, depth + 1) if isinstance(items, dict) else ""
            )
            return f"list[{inner or 'Any'}]"
        if kind == "object":
            return self._to_object(schema, name, root, depth)
        return _SIMPLE_TYPES.get(kind, "Any") if isinstance(kind, str) else "Any"

    def _to_target_type(self, target: Schema | None, name: str, root: Schema, depth: int) -> str:
        if target is None or any(target is each for each in self._open_targets):
            return "Any"
        self._open_targets.append(target)
        type_name = self._to_type(target, name, root, depth + 1)
        self._open_targets.pop()
        return type_name

    @staticmethod
    def _join(types: list[str]) -> str:
        return " | ".join(dict.fromkeys(types)) if types and "Any" not in types else "Any"

    def _to_object(self, schema: Schema, name: str, root: Schema, depth: int) -> str:
        properties, required = _list_properties(schema)
        if not properties or not all(map(is_name, properties)):
            return "dict[str, Any]"
        fields = [(key, self._to_type(value, f"{name}_{key}", root, depth + 1)) for key, value in properties.items()]
        class_name = f"_{name}"
        while class_name in self.classes:
            class_name += "_"
        lines = [f"    {key}: {kind if key in required else f'NotRequired[{kind}]'}" for key, kind in fields]
        self.classes[class_name] = "\n".join([f"class {class_name}(TypedDict):", *lines])
        return class_name


def _list_properties(schema: Schema) -> tuple[dict[str, Schema], set[str]]:
    properties, required = schema.get("properties"), schema.get("required")
    named = cast("dict[str, object]", properties) if isinstance(properties, dict) else {}
    schemas = {key: cast(Schema, value if isinstance(value, dict) else {}) for key, value in named.items()}
    names = cast("list[object]", required) if isinstance(required, list) else []
    return schemas, {name for name in names if isinstance(name, str)}


def _resolve(root: Schema, ref: str) -> Schema | None:
    """Return the schema that a reference inside the document points to, or None."""
    target: object = root
    for part in ref.removeprefix("#/").split("/"):
        target = target.get(part) if is_object(target) else None
    return target if is_object(target) and ref.startswith("#/") else None


def _to_literal(values: list[object]) -> str:
    if not values or not all(value is None or isinstance(value, str | int | bool) for value in values):
        return "Any"
    return f"Literal[{', '.join(map(repr, values))}]"


def is_name(name: str) -> bool:
    """Return whether a parameter or a field can be written as it is."""
    return name.isidentifier() and not keyword.iskeyword(name) and name.isascii()
