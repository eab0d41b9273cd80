"""The types of tools that a client of the Responses API runs, as functions and back. Pure.

Models are offered functions only. Each row of the table says how a tool of a type becomes a function, how a call of
that function becomes an item of the type, and how the items that the client sends back become a call and its result.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import cast

import msgspec
from msgspec import Struct

from toolyard.core.conversation.run_view import RunView
from toolyard.core.items import ImagePart, Part, TextPart
from toolyard.core.json_types import is_list, is_object
from toolyard.core.tools.definition import EMPTY_OBJECT, NAME_PATTERN, Tool
from toolyard.surfaces.http.errors import invalid_field
from toolyard.surfaces.openai.content import read_parts
from toolyard.surfaces.openai.responses.ids import build_item_id

Json = dict[str, object]
WIRE_TOOLS = "wire_tools"
"""The field of a run's `client_fields` with the client's names of its tools, by the names of their functions."""
NAMESPACE, FUNCTION = "namespace", "function"
MAX_NAME_CHARS, HASH_BYTES = 64, 4


class WireTool(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the client calls a tool: by its type and, if that has one, its name."""

    type: str = FUNCTION
    name: str = ""
    namespace: str = ""

    @property
    def function_name(self) -> str:
        """Return the name of the function that stands for the tool: always the same, and one that models may call."""
        name = self.name or self.type
        if self.namespace:
            name = f"{self.namespace}{'' if self.namespace.endswith('__') else '__'}{name}"
        if NAME_PATTERN.fullmatch(name) or not (self.namespace or self.type != FUNCTION):
            return name
        digits = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=HASH_BYTES).hexdigest()
        readable = "".join(char if NAME_PATTERN.fullmatch(char) else "_" for char in name)
        return f"{readable[: MAX_NAME_CHARS - len(digits) - 1]}_{digits}"


class ToolOutput(Struct, frozen=True):
    """The result of a call as its client sends it: a text, which names the images and files beside it."""

    text: str
    parts: tuple[Part, ...] = ()


class ToolKind(Struct, frozen=True, kw_only=True):
    """A type of tool that the client runs."""

    type: str
    call_type: str
    output_type: str
    id_prefix: str
    is_named: bool = False
    """Whether tools of the type have names, so that there can be several."""
    description: str = ""
    parameters: Mapping[str, object] | None = None
    """The schema of the function; None means the client's own."""
    streamed_field: str = ""
    """The field of the call's item that is streamed; empty if the item comes whole."""
    event: str = ""
    """The name of the events that stream it."""
    build_tool: Callable[[Tool], Json] = lambda _: {}
    """Returns what a response repeats of the tool, besides its type and name."""
    build_fields: Callable[[Json], Json]
    """Returns the fields of a call's item from the arguments of the function."""
    build_output: Callable[[str], Json] = lambda text: {"output": text}
    """Returns the fields of the item with the output from the text of the result."""
    call_id_fields: Sequence[str] = ("call_id",)
    """The fields of both items that may hold the id of the call, the first of which has it."""
    default_call_id: str = ""
    """The id of a call that has none, as its provider ran it and its output follows at once."""
    read_arguments: Callable[[Json], object]
    """Returns the arguments, or the JSON text of them, from the item of a call; None if it has none."""
    read_output: Callable[[Json, str], ToolOutput]
    """Returns the result from the item with the output. Raises Invalid, with the second argument as the field."""


def _encode(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _to_table(value: object) -> Json | None:
    return value if is_object(value) else None


def _read_content(item: Json, param: str) -> ToolOutput:
    content = item.get("output")
    if content is None or isinstance(content, str):
        return ToolOutput(content or "")
    return _join_parts(read_parts(content, f"{param}.output"))


def _join_parts(parts: tuple[Part, ...]) -> ToolOutput:
    texts = ["".join(part.text for part in parts if isinstance(part, TextPart))]
    others = tuple(part for part in parts if not isinstance(part, TextPart))
    texts += ["[image]" if isinstance(part, ImagePart) else f"[file {part.name}]" for part in others]
    return ToolOutput("\n".join(filter(None, texts)), others)


def _read_json_output(item: Json, param: str) -> ToolOutput:
    output = item.get("output")
    return ToolOutput(output if isinstance(output, str) else _encode(output))


def _read_patch_output(item: Json, param: str) -> ToolOutput:
    status, output = str(item.get("status") or "completed"), item.get("output")
    return ToolOutput(f"{status}: {output}" if isinstance(output, str) and output else status)


def _read_search_output(item: Json, param: str) -> ToolOutput:
    names = [wire.function_name for wire in _list_loaded_tools(item)]
    return ToolOutput(f"These tools can be called now: {', '.join(names)}" if names else "No tool was found.")


def _list_loaded_tools(item: Json) -> list[WireTool]:
    """Return the tools that an item with the output of a tool search has loaded."""
    loaded: list[WireTool] = []
    for table in _list_tables(item.get("tools")):
        if table.get("type") == NAMESPACE:
            namespace = str(table.get("name") or "")
            loaded += [_name_tool(inner, namespace) for inner in _list_tables(table.get("tools"))]
        else:
            loaded.append(_name_tool(table))
    return loaded


def _name_tool(table: Json, namespace: str = "") -> WireTool:
    return WireTool(type=str(table.get("type") or FUNCTION), name=str(table.get("name") or ""), namespace=namespace)


def _list_tables(value: object) -> list[Json]:
    return [table for entry in value if (table := _to_table(entry))] if is_list(value) else []


def _read_screenshot(item: Json, param: str) -> ToolOutput:
    output = _to_table(item.get("output")) or {}
    url = output.get("image_url")
    return _read_image(url, f"{param}.output") if url is not None else ToolOutput(_encode(output))


def _read_image(url: object, param: str) -> ToolOutput:
    return _join_parts(read_parts([{"type": "input_image", "image_url": url}], param))


def _build_input(arguments: Json) -> Json:
    text = arguments.get("input")
    return {"input": text if isinstance(text, str) else _encode(arguments)}


def _read_input(item: Json) -> object:
    text = item.get("input")
    return {"input": text} if isinstance(text, str) else None


def _read_action(item: Json) -> object:
    action = _to_table(item.get("action"))
    return (
        None if action is None else {key: value for key, value in action.items() if key != "type" and value is not None}
    )


def _read_search(item: Json) -> object:
    arguments = item.get("arguments")
    return arguments if isinstance(arguments, str) else _to_table(arguments) or {}


def _decode_shell_output(text: str) -> list[object]:
    try:
        return msgspec.json.decode(text, type=list[object])
    except msgspec.DecodeError:
        return [{"stdout": text, "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}]


def _text_schema(description: str) -> Json:
    return {"type": "string", "description": description}


_STRINGS: Json = {"type": "array", "items": {"type": "string"}}
_KINDS = (
    ToolKind(
        type=FUNCTION,
        call_type="function_call",
        output_type="function_call_output",
        id_prefix="fc",
        is_named=True,
        streamed_field="arguments",
        event="response.function_call_arguments",
        build_tool=lambda tool: {"description": tool.description, "parameters": tool.parameters, "strict": False},
        build_fields=lambda arguments: {"arguments": _encode(arguments)},
        read_arguments=lambda item: text if isinstance(text := item.get("arguments") or "{}", str) else None,
        read_output=_read_content,
    ),
    ToolKind(
        type="custom",
        call_type="custom_tool_call",
        output_type="custom_tool_call_output",
        id_prefix="ctc",
        is_named=True,
        parameters={
            "type": "object",
            "properties": {"input": _text_schema("The whole input of the tool, as plain text.")},
            "required": ["input"],
            "additionalProperties": False,
        },
        streamed_field="input",
        event="response.custom_tool_call_input",
        build_tool=lambda tool: {"description": tool.description, "format": {"type": "text"}},
        build_fields=_build_input,
        read_arguments=_read_input,
        read_output=_read_content,
    ),
    ToolKind(
        type="local_shell",
        call_type="local_shell_call",
        output_type="local_shell_call_output",
        id_prefix="lsh",
        description="Run a command on the user's machine, without a shell unless the command starts one.",
        parameters={
            "type": "object",
            "properties": {
                "command": {**_STRINGS, "description": "The program and its arguments."},
                "working_directory": _text_schema("The folder to run it in."),
                "timeout_ms": {"type": "integer"},
                "env": {"type": "object", "additionalProperties": {"type": "string"}},
            },
            "required": ["command"],
        },
        call_id_fields=("call_id", "id"),
        build_fields=lambda arguments: {"action": {"type": "exec", "env": {}, **arguments}},
        read_arguments=_read_action,
        read_output=_read_json_output,
    ),
    ToolKind(
        type="shell",
        call_type="shell_call",
        output_type="shell_call_output",
        id_prefix="sh",
        description="Run shell commands on the user's machine. Each has its output and its exit code in the result.",
        parameters={
            "type": "object",
            "properties": {
                "commands": {**_STRINGS, "description": "The commands."},
                "timeout_ms": {"type": "integer"},
                "max_output_length": {"type": "integer"},
            },
            "required": ["commands"],
        },
        build_output=lambda text: {"output": _decode_shell_output(text)},
        build_fields=lambda arguments: {"action": {"timeout_ms": None, "max_output_length": None, **arguments}},
        read_arguments=_read_action,
        read_output=_read_json_output,
    ),
    ToolKind(
        type="apply_patch",
        call_type="apply_patch_call",
        output_type="apply_patch_call_output",
        id_prefix="apc",
        description="Create, update or delete a file on the user's machine.",
        parameters={
            "type": "object",
            "properties": {
                "type": {"type": "string", "enum": ["create_file", "update_file", "delete_file"]},
                "path": _text_schema("The path of the file."),
                "diff": _text_schema("The change as a diff in the V4A format; not for delete_file."),
            },
            "required": ["type", "path"],
        },
        build_fields=lambda arguments: {"operation": arguments},
        read_arguments=lambda item: _to_table(item.get("operation")),
        read_output=_read_patch_output,
    ),
    ToolKind(
        type="tool_search",
        call_type="tool_search_call",
        output_type="tool_search_output",
        id_prefix="tsc",
        description="Search for further tools, which can be called once they were found.",
        build_tool=lambda tool: {
            "execution": "client",
            "description": tool.description,
            "parameters": tool.parameters,
        },
        default_call_id="tool_search",
        build_fields=lambda arguments: {"arguments": arguments, "execution": "client"},
        build_output=lambda _: {"execution": "client", "tools": []},
        read_arguments=_read_search,
        read_output=_read_search_output,
    ),
)
_COMPUTER = ToolKind(
    type="computer",
    call_type="computer_call",
    output_type="computer_call_output",
    id_prefix="cu",
    build_fields=lambda arguments: arguments,
    read_arguments=lambda item: {key: item[key] for key in ("action", "actions") if item.get(key) is not None},
    read_output=_read_screenshot,
)
"""Only in histories: no model here is offered a computer."""
KINDS: Mapping[str, ToolKind] = {kind.type: kind for kind in _KINDS}
CALL_KINDS: Mapping[str, ToolKind] = {kind.call_type: kind for kind in (*_KINDS, _COMPUTER)}
OUTPUT_KINDS: Mapping[str, ToolKind] = {kind.output_type: kind for kind in (*_KINDS, _COMPUTER)}
_HOSTED_CALLS: Mapping[str, tuple[str, str]] = {
    "web_search_call": ("action", "status"),
    "file_search_call": ("queries", "results"),
    "code_interpreter_call": ("code", "outputs"),
    "image_generation_call": ("revised_prompt", "result"),
}
"""The items of calls that a provider ran, with the fields of the arguments and of the result."""


def find_wire_tool(view: RunView, function_name: str) -> WireTool:
    """Return what the client of a run calls the tool of a function."""
    table = _to_table(view.request.client_fields.get(WIRE_TOOLS)) if view.request else None
    if table is None or function_name not in table:
        return WireTool(name=function_name)
    return msgspec.convert(table[function_name], WireTool)


def build_call_item(wire: WireTool, item_id: str, call_id: str, arguments: Json, conversation: str = "") -> Json:
    """Return the item of a call, for the client to run."""
    kind = KINDS[wire.type]
    item: Json = {
        "id": build_item_id(kind.id_prefix, item_id, conversation),
        "type": kind.call_type,
        "status": "completed",
        "call_id": call_id,
        **_build_names(wire),
    }
    if wire.namespace:
        item[NAMESPACE] = wire.namespace
    return item | kind.build_fields(arguments)


def build_output_item(wire: WireTool, item_id: str, call_id: str, text: str) -> Json:
    """Return the item that a client sends with the output of a call."""
    kind = KINDS[wire.type]
    names: Json = {"id": build_item_id(f"{kind.id_prefix}o", item_id), "type": kind.output_type, "call_id": call_id}
    return {**names, **kind.build_output(text), "status": "completed"}


def build_tool(wire: WireTool, tool: Tool) -> Json:
    """Return a tool as its client declared it."""
    return {"type": wire.type, **_build_names(wire), **KINDS[wire.type].build_tool(tool)}


def build_reference(wire: WireTool) -> Json:
    """Return what names a tool in a tool choice."""
    return {"type": wire.type, **_build_names(wire), **({NAMESPACE: wire.namespace} if wire.namespace else {})}


def _build_names(wire: WireTool) -> Json:
    return {"name": wire.name} if KINDS[wire.type].is_named else {}


def read_call(item: Json, param: str) -> tuple[str, str, str | Json]:
    """Return the client's id of a call, the name of its function and the arguments. Raise Invalid if one is missing."""
    kind = CALL_KINDS[str(item.get("type"))]
    name, namespace, arguments = item.get("name") or "", item.get("namespace") or "", kind.read_arguments(item)
    call_id = read_call_id(item, kind, param)
    is_named = isinstance(name, str) and (bool(name) or not kind.is_named)
    if not (is_named and isinstance(namespace, str) and isinstance(arguments, str | dict)):
        what = "a call_id, a name and arguments" if kind.is_named else f"the arguments of the tool {kind.type}"
        raise invalid_field(param, f"a {kind.call_type} needs {what}")
    wire = WireTool(type=kind.type, name=str(name) if kind.is_named else "", namespace=namespace)
    return call_id, wire.function_name, cast("str | Json", arguments)


def read_call_id(item: Json, kind: ToolKind, param: str) -> str:
    """Return the client's id of the call that an item is about. Raise Invalid if there is none."""
    call_id = next(filter(None, map(item.get, kind.call_id_fields)), kind.default_call_id)
    if not isinstance(call_id, str) or not call_id:
        raise invalid_field(f"{param}.call_id", "is missing")
    return call_id


def read_hosted_call(item: Json, param: str) -> tuple[str, Json, ToolOutput] | None:
    """Return the tool, the arguments and the result of a call that a provider ran; None for any other item."""
    call_type = str(item.get("type"))
    if call_type not in _HOSTED_CALLS:
        return None
    asked, answered = _HOSTED_CALLS[call_type]
    arguments, result = item.get(asked), item.get(answered)
    if call_type == "image_generation_call":
        output = _read_image(f"data:image/png;base64,{result}", param) if result else ToolOutput("")
    else:
        output = ToolOutput(result if isinstance(result, str) else _encode(result))
    return call_type.removesuffix("_call"), {} if arguments is None else {asked: arguments}, output


def build_tool_parameters(kind: ToolKind, parameters: Json | None) -> Json:
    """Return the schema of the function that stands for a tool with these parameters."""
    return dict(kind.parameters or parameters or EMPTY_OBJECT)
