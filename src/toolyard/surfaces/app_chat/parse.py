"""Parse what an application sends: messages, its tools, results of calls.

Messages and tools are accepted in camel case, in the form of Chat Completions, and as MCP lists them.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, field

from toolyard.core.items import ImagePart, Part, TextPart
from toolyard.core.json_types import is_object
from toolyard.core.ports import Failure, Value
from toolyard.core.tools.definition import Tool
from toolyard.core.tools.templates import find_unknown_slots
from toolyard.surfaces.http.errors import invalid_field
from toolyard.surfaces.shared.chat_messages import ChatFunctionCall
from toolyard.surfaces.shared.client_tools import ClientToolError, LongText, build_client_tool, parse_client_result
from toolyard.surfaces.shared.history import ItemBuilder, RequestedCall

MAX_TOOLS = 128
"""The largest number of tools that the providers accept."""
MAX_NAME_CHARS, MAX_TEXT_CHARS = 500, 100_000
ShortText = Annotated[str, Meta(max_length=MAX_NAME_CHARS)]
IMAGE_URL = re.compile(r"https?://\S+|data:image/[\w.+-]+;base64,[A-Za-z0-9+/=]+")
APP_NOTE_PREFIX = "app:"
"""The key prefix of notes from an app's `context`; a new context replaces these notes and no others."""


class AppTextPart(Struct, kw_only=True, tag_field="type", tag="text"):
    text: str


class AppImagePart(Struct, kw_only=True, tag_field="type", tag="image"):
    """An image by its URL, or as base64 data as in MCP."""

    url: str = ""
    data: str = ""
    mime_type: str = field(default="image/png", name="mimeType")

    @property
    def address(self) -> str:
        return self.url or f"data:{self.mime_type};base64,{self.data}"


class _ImageUrl(Struct):
    url: str


class AppImageUrlPart(Struct, kw_only=True, tag_field="type", tag="image_url"):
    """An image in the form of Chat Completions."""

    image_url: _ImageUrl | str

    @property
    def address(self) -> str:
        return self.image_url if isinstance(self.image_url, str) else self.image_url.url


AppPart = AppTextPart | AppImagePart | AppImageUrlPart


class AppCall(Struct, gc=False, kw_only=True):
    """A call in the form of this server's answers, or in that of Chat Completions."""

    id: str
    name: str = ""
    arguments: dict[str, object] = {}
    function: ChatFunctionCall | None = None


class AppMessage(Struct, gc=False, kw_only=True):
    role: str
    content: object = None
    """A text or text parts; a user's message may have images as well, and a tool's message any JSON."""
    id: object = None
    """The application's id of a user's or an assistant's text. One that is not valid, or used before, is ignored."""
    timestamp: object = None
    """When it was written. One that is not a time, or in the future, is ignored."""
    camel_calls: list[AppCall] | None = field(default=None, name="toolCalls")
    snake_calls: list[AppCall] | None = field(default=None, name="tool_calls")
    camel_call_id: str | None = field(default=None, name="toolCallId")
    snake_call_id: str | None = field(default=None, name="tool_call_id")

    @property
    def calls(self) -> list[AppCall]:
        return self.camel_calls or self.snake_calls or []

    @property
    def call_id(self) -> str:
        return self.camel_call_id or self.snake_call_id or ""


class AppFunction(Struct, kw_only=True):
    name: str = ""
    description: Annotated[str, Meta(max_length=MAX_TEXT_CHARS)] = ""
    parameters: dict[str, object] | None = None


class AppTool(AppFunction, kw_only=True):
    """A tool that the app runs; `timeoutSeconds` is how long the run waits for its result.

    `examples` are requests that the tool is meant for; `propose` are further ones that are statements, for which the
    offline model asks before it runs the tool; `sources` names, for a parameter, the tool whose result has its
    value. `readOnly`, `destructive`, `openWorld` and `idempotent` describe its effects; MCP `annotations` only add
    caution.
    """

    mcp_schema: dict[str, object] | None = field(default=None, name="inputSchema")
    function: AppFunction | None = None
    timeout_s: Annotated[float, Meta(gt=0, le=86_400)] | None = field(default=None, name="timeoutSeconds")
    examples: Annotated[list[ShortText], Meta(max_length=20)] = []
    propose: Annotated[list[ShortText], Meta(max_length=20)] = []
    sources: Annotated[dict[ShortText, ShortText], Meta(max_length=100)] = {}
    read_only: bool = field(default=False, name="readOnly")
    destructive: bool = False
    open_world: bool = field(default=False, name="openWorld")
    idempotent: bool = False
    annotations: object = None


class ToolResult(Struct, forbid_unknown_fields=True, kw_only=True, rename="camel"):
    """Either the result, any JSON, or the error: a message, or an object with its type and details."""

    tool_call_id: str
    result: object = UNSET
    error: LongText | ClientToolError | UnsetType = UNSET


def parse_tool_result(body: ToolResult, index: int) -> Value | Failure:
    return parse_client_result(body.result, body.error, f"toolResults.{index}")


def add_app_message(builder: ItemBuilder, index: int, message: AppMessage) -> None:
    """Add an app's message to the history that is being built. Raise Invalid, with its index, if it does not fit."""
    role, content = message.role, message.content
    if content is None:
        content = ""
    elif type(content) is not str:
        parts = parse_parts(message, index)
        if role == "user" and not all(isinstance(part, AppTextPart) for part in parts):
            builder.add_parts(index, tuple(to_part(part, index) for part in parts), message.id, message.timestamp)
            return
        content = "".join(part.text for part in parts if isinstance(part, AppTextPart))
    calls = message.camel_calls or message.snake_calls
    requested = [to_requested_call(call) for call in calls] if calls else ()
    call_id = message.camel_call_id or message.snake_call_id or ""
    builder.add(index, role, content, requested, call_id, message.id, message.timestamp)


def to_requested_call(call: AppCall) -> RequestedCall:
    function = call.function
    return (call.id, call.name, call.arguments) if function is None else (call.id, function.name, function.arguments)


def parse_parts(message: AppMessage, index: int) -> list[AppPart]:
    """Return the parts of a message whose content is not a text. Raise Invalid if they cannot be read as such.

    A tool's message is an exception: any other JSON is its result, and becomes text.
    """
    content, role = message.content, message.role
    try:
        if role == "user":
            return msgspec.convert(content, list[AppPart])
        return [*msgspec.convert(content, list[AppTextPart])]
    except msgspec.ValidationError:
        if role == "tool":
            return [AppTextPart(text=msgspec.json.encode(content).decode())]
        what = "parts of text and images" if role == "user" else 'parts of {"type": "text"}'
        raise invalid_field(f"messages.{index}.content", f"must be a text, or {what}") from None


def to_part(part: AppPart, index: int) -> Part:
    if isinstance(part, AppTextPart):
        return TextPart(text=part.text)
    if not IMAGE_URL.fullmatch(part.address):
        why = "an image needs an address of http:, https: or data:image/…;base64,"
        raise invalid_field(f"messages.{index}.content", why)
    return ImagePart(url=part.address)


def select_new_messages(messages: Sequence[AppMessage]) -> Sequence[AppMessage]:
    """Return the messages after the assistant's last one: those that a stored conversation does not have yet."""
    positions = range(len(messages) - 1, -1, -1)
    last = next((index for index in positions if messages[index].role == "assistant"), -1)
    return messages[last + 1 :]


def count_tool_turns(messages: Iterable[AppMessage]) -> int:
    return len([message for message in messages if message.role == "assistant" and message.calls])


def parse_tool(body: AppTool, index: int) -> Tool:
    definition = body.function or body
    name = definition.name or body.name
    schema = definition.parameters or body.mcp_schema or body.parameters
    description = definition.description or body.description
    built = build_client_tool(name, description, schema, f"tools.{index}", hides_server_tool=False)
    if body.read_only and body.destructive:
        raise invalid_field(f"tools.{index}", "is readOnly and destructive: send one of them")
    # Hints come from whoever wrote the tool, perhaps an MCP server that the app passes on. They may only add caution.
    hints = body.annotations if is_object(body.annotations) else {}
    destructive = body.destructive or hints.get("destructiveHint") is True
    tool = msgspec.structs.replace(
        built,
        examples=tuple(body.examples),
        propose=tuple(body.propose),
        sources=body.sources,
        read_only=body.read_only and not destructive and hints.get("readOnlyHint") is not False,
        destructive=destructive,
        open_world=body.open_world or hints.get("openWorldHint") is True,
        idempotent=body.idempotent and hints.get("idempotentHint") is not False,
    )
    if slots := find_unknown_slots(tool):
        raise invalid_field(f"tools.{index}.examples", f"have a slot {slots[0]!r}, which is not a parameter of {name}")
    return tool if body.timeout_s is None else msgspec.structs.replace(tool, client_s=body.timeout_s)
