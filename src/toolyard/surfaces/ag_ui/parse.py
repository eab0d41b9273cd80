"""Read the input of an AG-UI run. Pure.

A client sends its whole thread, of which the log has all but the end: the last message of the user, the results of the
last message of the assistant, and the answers to interrupts. Nothing else of the messages is read.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, cast

from msgspec import Meta, Struct, ValidationError, convert
from msgspec.structs import replace

from toolyard.core.items import FilePart, ImagePart, Part, Problem, TextPart
from toolyard.core.json_types import is_list, is_object
from toolyard.core.ports import Failure, Value
from toolyard.core.tools.definition import Tool
from toolyard.core.tools.web_search_rule import SearchMode, parse_search
from toolyard.surfaces.http.errors import invalid_field
from toolyard.surfaces.http.request_body import LenientBody
from toolyard.surfaces.shared.client_tools import build_client_tool

MAX_MESSAGES = 20_000
MAX_TOOLS = 128
"""The largest number of tools that the providers accept."""
MAX_NAME_CHARS = 200
MAX_EXAMPLES = 20
CLIENT_S = 86_400.0
"""How long a run waits for the result of a front-end tool, which may ask a person."""
STATE_FIELD = "state"
"""The name under which tools and the model get the client's state."""
ShortText = Annotated[str, Meta(min_length=1, max_length=200)]
_WEB_URL = re.compile(r"https?://\S+")
_MEDIA_TYPE = re.compile(r"[\w.+-]+/[\w.+-]+")
_BASE64 = re.compile(r"[A-Za-z0-9+/=\s]+")
Table = dict[str, object]


class InputFunction(Struct, gc=False, kw_only=True):
    name: str = ""
    arguments: str = ""


class InputToolCall(Struct, gc=False, kw_only=True):
    id: str
    function: InputFunction | None = None


class InputMessage(Struct, gc=False, kw_only=True, rename="camel"):
    id: str
    role: str
    content: object = None
    """A text, or parts; of an activity an object."""
    tool_calls: list[InputToolCall] | None = None
    tool_call_id: str | None = None
    error: str | None = None


class InputTool(Struct, kw_only=True):
    """A tool that the front end runs. `metadata.toolyard.examples` are requests that it is meant for."""

    name: str
    description: str = ""
    parameters: object = None
    metadata: object = None


class InputContext(Struct, kw_only=True):
    description: str = ""
    value: object = None


class ResumeEntry(Struct, kw_only=True, rename="camel"):
    """An answer to an interrupt."""

    interrupt_id: str
    status: str
    payload: object = None


class RunInput(LenientBody, kw_only=True, rename="camel"):
    """A request to run the agent on a thread."""

    thread_id: ShortText
    run_id: ShortText
    messages: Annotated[list[InputMessage], Meta(max_length=MAX_MESSAGES)]
    tools: Annotated[list[InputTool], Meta(max_length=MAX_TOOLS)] | None = None
    context: list[InputContext] | None = None
    state: object = None
    forwarded_props: object = None
    """`toolyard` in it may have `regenerate`, `model` and `toolChoice`."""
    resume: list[ResumeEntry] | None = None
    protocol_version: str | None = None


class ForwardedOptions(Struct, frozen=True, kw_only=True):
    """The options in `forwardedProps.toolyard`, and the fields for web searches beside it."""

    regenerate: bool = False
    model: str = ""
    tool_choice: str = "auto"
    web_search: SearchMode = ""


class Resolution(Struct, frozen=True, kw_only=True):
    """The answer to an interrupt: a decision about a call, or the content of an answer."""

    call_id: str
    is_cancelled: bool
    payload: object
    field: str
    """Where it stands in the request, for errors."""


def find_last_user_message(messages: Sequence[InputMessage]) -> int | None:
    """Return the index of the last message of the user, or None if there is none."""
    return next((index for index in range(len(messages) - 1, -1, -1) if messages[index].role == "user"), None)


def read_user_parts(message: InputMessage, index: int) -> tuple[Part, ...]:
    """Return the parts of a user's message. Raise Invalid if it is empty, or has a part that no model can read."""
    field, content = f"messages.{index}.content", message.content
    if isinstance(content, str):
        parts: tuple[Part, ...] = (TextPart(text=content),) if content else ()
    elif is_list(content):
        parts = tuple(_read_part(part, f"{field}.{number}") for number, part in enumerate(content))
    else:
        parts = ()
    if not parts:
        raise invalid_field(field, "must be a text or a list of parts, and not empty")
    return parts


def read_plain_text(content: object) -> str:
    """Return a content that is a text; empty for anything else."""
    return content if isinstance(content, str) else ""


def read_results(messages: Sequence[InputMessage]) -> dict[str, Value | Failure]:
    """Return the results that follow the last message of the assistant, by the ids of their calls. Raise Invalid."""
    positions = (index for index in range(len(messages) - 1, -1, -1) if messages[index].role == "assistant")
    first = next(positions, -1) + 1
    results: dict[str, Value | Failure] = {}
    for index, message in enumerate(messages[first:], first):
        if message.role == "tool" and first:
            results[message.tool_call_id or ""] = _read_result(message, index)
    return results


def read_tools(tools: Sequence[InputTool] | None) -> list[Tool]:
    """Return the tools of the front end. Raise Invalid for one without a name or with parameters that are no schema."""
    return [_read_tool(tool, index) for index, tool in enumerate(tools or ())]


def read_context(body: RunInput) -> dict[str, object]:
    """Return the state and the context as fields by name, for tools and for the model."""
    fields: dict[str, object] = {STATE_FIELD: body.state} if body.state not in (None, {}, [], "") else {}
    for number, context in enumerate(body.context or (), 1):
        name = context.description[:MAX_NAME_CHARS] or "context"
        fields[name if name not in fields else f"{name} ({number})"] = context.value
    return fields


def read_forwarded_options(props: object) -> ForwardedOptions:
    """Return the options that the protocol does not have. Raise Invalid for a value of the wrong type."""
    forwarded = props if is_object(props) else {}
    mode = parse_search(forwarded)
    fields = forwarded.get("toolyard")
    if not is_object(fields):
        return ForwardedOptions(web_search=mode)
    regenerate, model, choice = fields.get("regenerate", False), fields.get("model", ""), fields.get("toolChoice")
    if not isinstance(regenerate, bool) or not isinstance(model, str) or not isinstance(choice, str | None):
        raise invalid_field("forwardedProps.toolyard", "has regenerate (true or false), model and toolChoice (texts)")
    return ForwardedOptions(
        regenerate=regenerate, model=model, tool_choice=choice or "auto", web_search=parse_search(fields, mode)
    )


def read_resume(entries: Sequence[ResumeEntry] | None) -> list[Resolution]:
    """Return the answers to interrupts. Raise Invalid for an unknown status, or two answers to one interrupt."""
    resolutions: list[Resolution] = []
    for index, entry in enumerate(entries or ()):
        field = f"resume.{index}"
        if entry.status not in ("resolved", "cancelled"):
            raise invalid_field(f"{field}.status", "must be resolved or cancelled")
        if any(entry.interrupt_id == earlier.call_id for earlier in resolutions):
            raise invalid_field(f"{field}.interruptId", "was answered in this request already")
        is_cancelled = entry.status == "cancelled"
        resolutions.append(
            Resolution(call_id=entry.interrupt_id, is_cancelled=is_cancelled, payload=entry.payload, field=field)
        )
    return resolutions


def read_approval(resolution: Resolution) -> tuple[bool, str, dict[str, object] | None]:
    """Return whether a call was approved, the reason, and edited arguments. Raise Invalid if it does not say."""
    payload = resolution.payload
    fields = payload if is_object(payload) else {"approved": payload}
    reason = fields.get("reason")
    if resolution.is_cancelled:
        return False, reason if isinstance(reason, str) else "", None
    approved, edited = fields.get("approved"), fields.get("editedArgs")
    if not isinstance(approved, bool):  # nothing is approved by mistake
        raise invalid_field(f"{resolution.field}.payload.approved", "must be true or false")
    if edited is not None and not isinstance(edited, dict):
        raise invalid_field(f"{resolution.field}.payload.editedArgs", "must be an object")
    arguments = cast("dict[str, object] | None", edited)
    return approved, reason if isinstance(reason, str) else "", arguments if approved else None


def read_answer(resolution: Resolution) -> dict[str, object]:
    """Return the fields of the answer to a question. Raise Invalid if it is not an object."""
    if not is_object(resolution.payload):
        raise invalid_field(f"{resolution.field}.payload", "must be an object with the fields that were asked for")
    return resolution.payload


def _read_result(message: InputMessage, index: int) -> Value | Failure:
    if message.error:
        return Failure(problem=Problem(error=message.error[:10_000], error_type="execution_error"))
    content = message.content
    if is_list(content):
        parts = [_read_part(part, f"messages.{index}.content.{number}") for number, part in enumerate(content)]
        if not all(isinstance(part, TextPart) for part in parts):
            raise invalid_field(f"messages.{index}.content", "the result of a tool may hold only text")
        return Value(value="".join(part.text for part in parts if isinstance(part, TextPart)))
    return Value(value="" if content is None else content)


def _read_tool(tool: InputTool, index: int) -> Tool:
    key = f"tools.{index}"
    built = build_client_tool(tool.name, tool.description, tool.parameters, key, hides_server_tool=False)
    examples = _read_examples(tool.metadata, f"{key}.metadata.toolyard.examples")
    return replace(built, client_s=CLIENT_S, examples=examples)


def _read_examples(metadata: object, field: str) -> tuple[str, ...]:
    extension = metadata.get("toolyard") if is_object(metadata) else None
    examples: object = extension.get("examples", ()) if is_object(extension) else ()
    try:
        return convert(examples, tuple[ShortText, ...])[:MAX_EXAMPLES]
    except ValidationError:
        raise invalid_field(field, "must be a list of texts") from None


def _read_part(part: object, field: str) -> Part:
    fields: Mapping[str, object] = part if is_object(part) else {}
    match fields.get("type"):
        case "text" if isinstance(text := fields.get("text"), str):
            return TextPart(text=text)
        case "image":
            return ImagePart(url=_read_source(fields.get("source"), field))
        case "document":
            metadata = fields.get("metadata")
            name = metadata.get("name") if is_object(metadata) else None
            url = _read_source(fields.get("source"), field)
            return FilePart(url=url, name=name[:MAX_NAME_CHARS] if isinstance(name, str) else "")
        case "binary":  # as clients before 1.0 send it
            return _read_binary(fields, field)
        case "audio" | "video":
            raise invalid_field(field, "audio and video cannot be sent here: send a text, images or documents")
        case _:
            raise invalid_field(field, "must be a part with the type text, image or document")


def _read_source(source: object, field: str) -> str:
    """Return the address of an image or a document. Raise Invalid for one that only its provider knows."""
    fields: Mapping[str, object] = source if is_object(source) else {}
    value, media_type = fields.get("value"), fields.get("mimeType")
    if fields.get("type") == "url" and isinstance(value, str) and _WEB_URL.fullmatch(value):
        return value
    if fields.get("type") == "data":
        return _build_data_url(value, media_type, field)
    raise invalid_field(f"{field}.source", "must be of the type data, in base64, or url, with https:")


def _read_binary(fields: Mapping[str, object], field: str) -> Part:
    media_type, name, url = fields.get("mimeType"), fields.get("filename"), fields.get("url")
    if not isinstance(url, str) or not _WEB_URL.fullmatch(url):
        url = _build_data_url(fields.get("data"), media_type, field)
    if isinstance(media_type, str) and media_type.startswith("image/"):
        return ImagePart(url=url)
    return FilePart(url=url, name=name[:MAX_NAME_CHARS] if isinstance(name, str) else "")


def _build_data_url(data: object, media_type: object, field: str) -> str:
    if not isinstance(data, str) or not isinstance(media_type, str):
        raise invalid_field(field, "needs its data in base64 and its mimeType")
    if not _MEDIA_TYPE.fullmatch(media_type) or not _BASE64.fullmatch(data):
        raise invalid_field(field, "its data must be base64, and its mimeType like image/png")
    return f"data:{media_type};base64,{data}"
