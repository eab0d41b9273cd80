"""Read a request of the AI SDK's chat transport. Pure.

The log is the truth: of the messages only the last one is read, or the one that `messageId` names. If it is the user's,
it is to be answered. If it is the assistant's, the tool parts of its last step hold the user's decisions and the
results of the client's own tools.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from toolyard.core.conversation.context.notes import to_notes
from toolyard.core.conversation.events import RunRequest
from toolyard.core.errors import Invalid
from toolyard.core.items import FilePart, ImagePart, Part, Problem, TextPart
from toolyard.core.json_types import is_object
from toolyard.core.ports import Failure, Value
from toolyard.core.tools.definition import Tool
from toolyard.surfaces.http.errors import invalid_field
from toolyard.surfaces.shared.answer_options import WebSearchFields
from toolyard.surfaces.shared.client_tools import build_client_tool
from toolyard.surfaces.shared.threads import CallDecision, ThreadMessage

MAX_MESSAGES = 20_000
MAX_TOOLS = 128
MAX_PARTS = 1_000
MAX_TEXT_CHARS = 1_000_000
MAX_ERROR_CHARS = 10_000
INSTRUCTIONS = "instructions"
"""The name under which the model reads the `system` text of a request."""
_FILE_URL = re.compile(r"https?://\S+|data:[\w.+/-]+(?:;[\w=.+-]+)*;base64,[A-Za-z0-9+/=\s]+")
Table = dict[str, object]


class UiMessage(Struct, gc=False, kw_only=True):
    """A message as the client shows it."""

    id: Annotated[str, Meta(max_length=1_000)] = ""
    role: str
    parts: list[Table] = []


class ChatRequest(WebSearchFields, kw_only=True, rename={"message_id": "messageId", "tool_choice": "toolChoice"}):
    """A request of the chat transport. What an application adds to its body is optional, and other fields are ignored.

    `messages` are all messages that the client has; sending only the last one is enough.
    """

    id: str
    messages: Annotated[list[UiMessage], Meta(min_length=1, max_length=MAX_MESSAGES)]
    trigger: Literal["submit-message", "regenerate-message"] = "submit-message"
    message_id: str | None = None
    """The message that is edited, answered again or continued."""
    model: Annotated[str, Meta(max_length=500)] = ""
    system: Annotated[str, Meta(max_length=100_000)] = ""
    """Instructions of this request, besides the server's."""
    tools: list[Table] | dict[str, Table] = field(default_factory=list[Table])
    """Tools that the client runs itself: each has a name, a description, and its parameters as a JSON Schema."""
    tool_choice: Annotated[str, Meta(max_length=100)] = "auto"


class CallAnswers(Struct, frozen=True, kw_only=True):
    """What an assistant's message brings back for the calls of its last step."""

    decisions: Sequence[CallDecision]
    results: Mapping[str, Value | Failure]

    @property
    def call_ids(self) -> frozenset[str]:
        return frozenset((*self.results, *(decision.call_id for decision in self.decisions)))


def read_message(body: ChatRequest) -> ThreadMessage | CallAnswers:
    """Return the message that the request is about. Raise Invalid for a part that cannot be read."""
    index = _find_message(body)
    message = body.messages[index]
    if message.role == "assistant" and body.trigger == "submit-message":
        return _read_answers(message.parts, f"messages.{index}.parts")
    if message.role != "user":
        raise invalid_field(f"messages.{index}", f"has the role {message.role[:40]!r}: send a message of the user")
    if not message.id:
        raise invalid_field(f"messages.{index}.id", "is missing: it tells a message that is sent again from a new one")
    return ThreadMessage(id=message.id, parts=_read_parts(message.parts, f"messages.{index}.parts"))


def _find_message(body: ChatRequest) -> int:
    """Return the index of the last message, or of an earlier one of the assistant that the request continues."""
    last = len(body.messages) - 1
    if body.trigger == "submit-message" and body.message_id:
        for index in range(last, -1, -1):
            if body.messages[index].id == body.message_id and body.messages[index].role == "assistant":
                return index
    return last


def read_request(body: ChatRequest) -> RunRequest:
    """Return what the request wants of its run. Raise Invalid for a tool without a name."""
    named = body.tools.items() if isinstance(body.tools, dict) else ((tool.get("name"), tool) for tool in body.tools)
    tools = [_read_tool(name, definition, f"tools.{index}") for index, (name, definition) in enumerate(named)]
    if len(tools) > MAX_TOOLS:
        raise invalid_field("tools", f"are more than {MAX_TOOLS}")
    return RunRequest(
        app_tools=tuple(tools),
        model="" if body.model == "default" else body.model,
        tool_choice=body.tool_choice,
        web_search=body.search_mode,
        context=to_notes({INSTRUCTIONS: body.system} if body.system else {}),
    )


def _read_tool(name: object, definition: Table, key: str) -> Tool:
    parameters = definition.get("parameters") or definition.get("inputSchema")
    return build_client_tool(name, definition.get("description"), parameters, key)


def _read_parts(parts: Sequence[Table], key: str) -> tuple[Part, ...]:
    if len(parts) > MAX_PARTS:
        raise invalid_field(key, f"are more than {MAX_PARTS}")
    read = tuple(part for index, raw in enumerate(parts) if (part := _read_part(raw, f"{key}.{index}")) is not None)
    if not any(not isinstance(part, TextPart) or part.text for part in read):
        raise invalid_field(key, "have neither a text nor a file")
    return read


def _read_part(part: Table, key: str) -> Part | None:
    """Return a part of a user's message; None for data of the application, which is not for the model."""
    kind = part.get("type")
    if kind == "text":
        text = part.get("text")
        if not isinstance(text, str) or len(text) > MAX_TEXT_CHARS:
            raise invalid_field(key, f"needs a text of at most {MAX_TEXT_CHARS} characters")
        return TextPart(text=text)
    if kind == "file":
        return _read_file(part, key)
    if isinstance(kind, str) and kind.startswith("data-"):
        return None
    raise invalid_field(key, f"is of the type {str(kind)[:40]!r}: a user's message has parts of text and file")


def _read_file(part: Table, key: str) -> Part:
    url, media_type, name = part.get("url"), part.get("mediaType"), part.get("filename")
    if not isinstance(url, str) or not _FILE_URL.fullmatch(url):
        raise invalid_field(key, "a file needs a url of https: or data:…;base64,")
    if isinstance(media_type, str) and media_type.startswith("image/"):
        return ImagePart(url=url)
    return FilePart(url=url, name=name if isinstance(name, str) else "")


def _read_answers(parts: Sequence[Table], key: str) -> CallAnswers:
    """Return the answers in the last step of an assistant's message: earlier steps are over."""
    steps = (index for index in range(len(parts) - 1, -1, -1) if parts[index].get("type") == "step-start")
    decisions: list[CallDecision] = []
    results: dict[str, Value | Failure] = {}
    for index in range(next(steps, -1) + 1, len(parts)):
        part, part_key = parts[index], f"{key}.{index}"
        if not _is_tool_part(part):
            continue
        match part.get("state"):
            case "approval-responded":
                decisions.append(_read_decision(part, part_key))
            case "output-available" if not part.get("providerExecuted") and not part.get("preliminary"):
                results[_read_call_id(part, part_key)] = Value(value=part.get("output"))
            case "output-error" if not part.get("providerExecuted"):
                problem = Problem(error=str(part.get("errorText"))[:MAX_ERROR_CHARS], error_type="execution_error")
                results[_read_call_id(part, part_key)] = Failure(problem=problem)
            case _:
                pass  # the server knows it, or the client has not answered it
    return CallAnswers(decisions=decisions, results=results)


def _is_tool_part(part: Table) -> bool:
    kind = part.get("type")
    return isinstance(kind, str) and (kind == "dynamic-tool" or kind.startswith("tool-"))


def _read_call_id(part: Table, key: str) -> str:
    call_id = part.get("toolCallId")
    if not isinstance(call_id, str) or not call_id:
        raise invalid_field(key, "has no toolCallId")
    return call_id


def _read_decision(part: Table, key: str) -> CallDecision:
    approval, arguments = part.get("approval"), part.get("input")
    fields = approval if is_object(approval) else {}
    approval_id, approved, reason = fields.get("id"), fields.get("approved"), fields.get("reason") or ""
    if not isinstance(approval_id, str) or not isinstance(approved, bool) or not isinstance(reason, str):
        raise invalid_field(key, "needs an approval with its id, and approved as true or false")
    if approval_id != _read_call_id(part, key):
        raise Invalid(f"{key}: the approval {approval_id[:80]!r} is not one of this call", {"field": key})
    return CallDecision(
        call_id=approval_id,
        approved=approved,
        reason=reason,
        arguments=arguments if is_object(arguments) else None,
    )
