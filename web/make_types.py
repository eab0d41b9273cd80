"""Writes `src/wire/types.ts`: what the server sends, as TypeScript, from the structs that it sends.

Run it after changing an event or an answer; a test fails as long as the file and the structs differ.
"""

import json
from pathlib import Path

import msgspec
from msgspec import inspect

from toolyard.core.events import Durable, Entry, Fleeting
from toolyard.core.items import Item, Part
from toolyard.surfaces.catalog import me, models, tools
from toolyard.surfaces.conversations import calls as conversation_calls
from toolyard.surfaces.conversations import conversations, direct_calls
from toolyard.surfaces.conversations import runs as conversation_runs
from toolyard.surfaces.conversations import tools as conversation_tools
from toolyard.surfaces.errors import ErrorBody
from toolyard.surfaces.operators import runs, servers, traces

PATH = Path(__file__).parent / "src" / "wire" / "types.ts"
HEAD = "// Made by web/make_types.py from the server's structs. Not for editing.\n"
UNIONS = {"Part": Part, "Item": Item, "Durable": Durable, "Fleeting": Fleeting}
ANSWERS = (
    ErrorBody,
    conversation_calls.CallAnswer,
    conversation_runs.Cancelled,
    conversation_tools.AvailableTools,
    conversation_tools.EnabledTools,
    conversations.ConversationAnswer,
    conversations.ConversationList,
    direct_calls.Called,
    me.Me,
    models.ModelList,
    runs.LiveAnswer,
    runs.OverviewAnswer,
    runs.RunList,
    servers.ServerList,
    servers.ServerTools,
    tools.ToolList,
    traces.TraceAnswer,
    traces.KeptTurnAnswer,
    traces.RunAnswer,
)


class Writer:
    """Collects an interface for every struct that is reached."""

    def __init__(self) -> None:
        self._made: dict[str, str] = {}
        self._unions: dict[str, str] = {}

    def text(self) -> str:
        return "\n".join([HEAD, *(self._made[name] for name in sorted(self._made))])

    def name(self, name: str, kind: inspect.Type) -> None:
        """From here on the union goes by this name."""
        written = self.write(kind)
        self._unions[written] = name
        self._made[name] = f"export type {name} = {written}\n"

    def write(self, kind: inspect.Type) -> str:
        match kind:
            case inspect.StructType():
                return self._struct(kind)
            case inspect.UnionType(types=types):
                written = " | ".join(dict.fromkeys(self.write(one) for one in types if not _is_unset(one)))
                return self._unions.get(written, written)
            case inspect.LiteralType(values=values):
                return " | ".join(json.dumps(value) for value in values)
            case inspect.ListType(item_type=item) | inspect.VarTupleType(item_type=item):
                return f"Array<{self.write(item)}>"
            case inspect.FrozenSetType(item_type=item) | inspect.SetType(item_type=item):
                return f"Array<{self.write(item)}>"
            case inspect.DictType(value_type=value):
                return f"Record<string, {self.write(value)}>"
            case inspect.TupleType(item_types=items):
                return f"[{', '.join(self.write(one) for one in items)}]"
            case inspect.Metadata(type=inner):
                return self.write(inner)
            case inspect.CustomType(cls=cls) if cls is object:
                return "unknown"
            case _:
                return _PLAIN[type(kind)]

    def _struct(self, kind: inspect.StructType) -> str:
        name = kind.cls.__name__
        if name not in self._made:
            self._made[name] = ""  # a struct may hold itself
            tag = [f"  {kind.tag_field}: {json.dumps(kind.tag)}"] if kind.tag_field else []
            lines = [*tag, *(self._field(kind, field) for field in kind.fields)]
            self._made[name] = f"export interface {name} {{\n" + "\n".join(lines) + "\n}\n"
        return name

    def _field(self, kind: inspect.StructType, field: inspect.Field) -> str:
        left_out = kind.cls.__struct_config__.omit_defaults and not field.required
        return f"  {field.encode_name}{'?' if left_out else ''}: {self.write(field.type)}"


_PLAIN: dict[type[inspect.Type], str] = {
    inspect.StrType: "string",
    inspect.IntType: "number",
    inspect.FloatType: "number",
    inspect.BoolType: "boolean",
    inspect.NoneType: "null",
    inspect.AnyType: "unknown",
}


def _is_unset(kind: inspect.Type) -> bool:
    return isinstance(kind, inspect.CustomType) and kind.cls is msgspec.UnsetType


def types() -> str:
    writer = Writer()
    for name, union in UNIONS.items():
        writer.name(name, inspect.type_info(union))
    for struct in (Entry, *ANSWERS):
        writer.write(inspect.type_info(struct))
    return writer.text()


if __name__ == "__main__":
    PATH.write_text(types(), "utf-8")
