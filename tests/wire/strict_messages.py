"""A Messages server as strict as Anthropic's, and a little stricter: it answers by script and keeps what it was sent.

It answers 400 to what the real one refuses: roles that do not alternate, results that do not come first and right after
their calls, blank texts, thinking that it did not sign, too many cache marks, prefilled answers, bad names and schemas.
"""

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from models.schema_dialects.dialect_rules import anthropic_faults, anthropic_output_faults
from wire.strict import Reply, StrictServer

ID = re.compile(r"[a-zA-Z0-9_-]+")
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
SERVER_ID = re.compile(r"srvtoolu_[a-zA-Z0-9_]+")
MAX_MARKS = 4
Text = Annotated[str, Meta(min_length=1)]


def signature_of(thinking: str) -> str:
    """What this server signs a thought with."""
    return "sig_" + hashlib.blake2b(thinking.encode(), digest_size=8).hexdigest()


class CacheMark(Struct, forbid_unknown_fields=True):
    type: Literal["ephemeral"]
    ttl: Literal["5m", "1h"] | None = None


class _Block(Struct, forbid_unknown_fields=True, tag_field="type", kw_only=True):
    pass


class _CacheableBlock(_Block, kw_only=True):
    cache_control: CacheMark | None = None


class CitedSource(Struct, forbid_unknown_fields=True, kw_only=True):
    type: Literal["web_search_result_location"]
    cited_text: str
    encrypted_index: str
    title: str | None
    url: str


class TextBlock(_CacheableBlock, tag="text", kw_only=True):
    text: Text
    citations: list[CitedSource] | None = None


class MediaSource(Struct, forbid_unknown_fields=True, kw_only=True):
    type: Literal["base64", "url", "text"]
    media_type: str = ""
    data: str = ""
    url: str = ""


class Image(_CacheableBlock, tag="image", kw_only=True):
    source: MediaSource


class DocumentCitations(Struct, forbid_unknown_fields=True):
    enabled: bool


class Document(_CacheableBlock, tag="document", kw_only=True):
    source: MediaSource
    title: Text | None = None
    context: Text | None = None
    citations: DocumentCitations | None = None


class ThinkingBlock(_Block, tag="thinking", kw_only=True):
    thinking: str
    signature: str


class RedactedBlock(_Block, tag="redacted_thinking", kw_only=True):
    data: str


class ToolUse(_CacheableBlock, tag="tool_use", kw_only=True):
    id: str
    name: str
    input: dict[str, object]


class ToolReference(_CacheableBlock, tag="tool_reference", kw_only=True):
    tool_name: Text


class ToolResult(_CacheableBlock, tag="tool_result", kw_only=True):
    tool_use_id: str
    content: Text | Annotated[list[TextBlock | Image | ToolReference], Meta(min_length=1)] | None = None
    is_error: bool = False


class ServerToolUse(_CacheableBlock, tag="server_tool_use", kw_only=True):
    id: str
    name: Literal["web_search", "bash_code_execution", "text_editor_code_execution"]
    input: dict[str, object]
    caller: dict[str, object] | None = None


class WebSearchResult(_CacheableBlock, tag="web_search_tool_result", kw_only=True):
    tool_use_id: str
    content: list[dict[str, object]] | dict[str, object]


class BashResult(_CacheableBlock, tag="bash_code_execution_tool_result", kw_only=True):
    tool_use_id: str
    content: dict[str, object]


UserBlock = TextBlock | Image | Document | ToolResult
AssistantBlock = TextBlock | ThinkingBlock | RedactedBlock | ToolUse | ServerToolUse | WebSearchResult | BashResult


class User(Struct, forbid_unknown_fields=True, tag_field="role", tag="user"):
    content: Annotated[list[UserBlock], Meta(min_length=1)]


class Assistant(Struct, forbid_unknown_fields=True, tag_field="role", tag="assistant"):
    content: Annotated[list[AssistantBlock], Meta(min_length=1)]


class MessagesLocation(Struct, forbid_unknown_fields=True, kw_only=True):
    type: Literal["approximate"]
    city: Text | None = None
    region: Text | None = None
    country: Annotated[str, Meta(pattern="^[A-Z]{2}$")] | None = None
    timezone: Text | None = None


class MessagesTool(Struct, forbid_unknown_fields=True, kw_only=True):
    name: str
    type: Literal["custom", "web_search_20250305", "code_execution_20250825", "bash_20250124"] = "custom"
    description: Text | None = None
    input_schema: dict[str, Any] | None = None
    cache_control: CacheMark | None = None
    defer_loading: bool | None = None
    strict: bool | None = None
    eager_input_streaming: bool | None = None
    input_examples: list[dict[str, object]] | None = None
    max_uses: Annotated[int, Meta(ge=1)] | None = None
    allowed_domains: Annotated[list[str], Meta(min_length=1)] | None = None
    blocked_domains: Annotated[list[str], Meta(min_length=1)] | None = None
    user_location: MessagesLocation | None = None


class MessagesToolChoice(Struct, forbid_unknown_fields=True, kw_only=True):
    type: Literal["auto", "any", "none", "tool"]
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class ThinkingConfig(Struct, forbid_unknown_fields=True, kw_only=True):
    type: Literal["enabled", "adaptive"]
    display: Literal["summarized", "omitted"] | None = None
    budget_tokens: Annotated[int, Meta(ge=1024)] | None = None


class MessagesOutputFormat(Struct, forbid_unknown_fields=True):
    type: Literal["json_schema"]
    schema: dict[str, object]


class OutputConfig(Struct, forbid_unknown_fields=True):
    format: MessagesOutputFormat | None = None
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None


class MessagesMetadata(Struct, forbid_unknown_fields=True):
    user_id: Annotated[str, Meta(max_length=256)]


class StrictMessagesBody(Struct, forbid_unknown_fields=True, kw_only=True):
    model: Text
    max_tokens: Annotated[int, Meta(ge=1)]
    messages: Annotated[list[User | Assistant], Meta(min_length=1)]
    stream: bool = False
    system: Annotated[list[TextBlock], Meta(min_length=1)] | None = None
    tools: Annotated[list[MessagesTool], Meta(min_length=1)] | None = None
    tool_choice: MessagesToolChoice | None = None
    thinking: ThinkingConfig | None = None
    stop_sequences: Annotated[list[Text], Meta(min_length=1)] | None = None
    output_config: OutputConfig | None = None
    service_tier: Literal["auto", "standard_only"] | None = None
    metadata: MessagesMetadata | None = None


def faults_of(body: bytes) -> list[str]:
    """Return why the provider refuses this body; empty if it accepts it."""
    try:
        request_body = msgspec.json.decode(body, type=StrictMessagesBody)
    except (msgspec.DecodeError, UnicodeError) as error:
        return [str(error)]
    blocks = [block for message in request_body.messages for block in message.content]
    output = request_body.output_config
    faults = [
        *(anthropic_output_faults(output.format.schema) if output and output.format else ()),
        *_order_faults(request_body.messages),
        *_pair_faults(request_body.messages),
        *_server_faults(request_body.messages),
    ]
    faults += [fault for block in (*blocks, *(request_body.system or ())) for fault in _block_faults(block)]
    faults += _tool_faults(request_body)
    if any(isinstance(block, ToolUse | ToolResult) for block in blocks) and not request_body.tools:
        faults.append("requests which include tool_use or tool_result blocks must define tools")
    marked = (*blocks, *(request_body.system or ()), *(request_body.tools or ()))
    marks = sum(getattr(part, "cache_control", None) is not None for part in marked)
    if marks > MAX_MARKS:
        faults.append(f"a maximum of {MAX_MARKS} blocks with cache_control may be provided, found {marks}")
    return [*faults, *_thinking_faults(request_body)]


def _order_faults(messages: Sequence[User | Assistant]) -> list[str]:
    faults = [] if isinstance(messages[0], User) else ["first message must use the user role"]
    for before, message in pairwise(messages):
        if type(before) is type(message):
            faults.append("roles must alternate")
    for message in messages:
        if isinstance(message, Assistant) and isinstance(message.content[-1], ThinkingBlock | RedactedBlock):
            faults.append("the final block in an assistant message cannot be thinking")
    last = messages[-1]
    if isinstance(last, Assistant):
        if isinstance(last.content[-1], TextBlock) and last.content[-1].text != last.content[-1].text.rstrip():
            faults.append("final assistant content cannot end with trailing whitespace")
        if not isinstance(last.content[-1], ServerToolUse | WebSearchResult | BashResult):
            faults.append("this model does not support assistant message prefill")
    return faults


def _pair_faults(messages: Sequence[User | Assistant]) -> list[str]:
    faults: list[str] = []
    seen: set[str] = set()
    waiting: list[str] = []
    for message in messages:
        results = [block.tool_use_id for block in message.content if isinstance(block, ToolResult)]
        first = [block for block in message.content[: len(results)] if isinstance(block, ToolResult)]
        if len(first) < len(results):
            faults.append("tool_result blocks must come first")
        faults += [f"unexpected tool_use_id {result!r} in tool_result" for result in results if result not in waiting]
        faults += [
            f"tool_use {call_id!r} without a tool_result right after it"
            for call_id in waiting
            if call_id not in results
        ]
        faults += [f"more than one tool_result for {call_id!r}" for call_id in {*results} if results.count(call_id) > 1]
        waiting = [block.id for block in message.content if isinstance(block, ToolUse)]
        faults += [
            f"tool_use ids must be unique: {call_id!r}"
            for call_id in waiting
            if call_id in seen or waiting.count(call_id) > 1
        ]
        seen.update(waiting)
    return faults + [f"tool_use {call_id!r} without a tool_result" for call_id in waiting]


def _server_faults(messages: Sequence[User | Assistant]) -> list[str]:
    faults: list[str] = []
    for message in messages:
        uses = {block.id: block.name for block in message.content if isinstance(block, ServerToolUse)}
        open_uses = list[str]()
        for block in message.content:
            if isinstance(block, ServerToolUse):
                open_uses.append(block.id)
            elif isinstance(block, WebSearchResult | BashResult):
                kind = "web_search" if isinstance(block, WebSearchResult) else "bash_code_execution"
                if block.tool_use_id not in open_uses or uses[block.tool_use_id] != kind:
                    faults.append(f"{kind}_tool_result {block.tool_use_id!r} does not follow its server_tool_use")
                else:
                    open_uses.remove(block.tool_use_id)
        if open_uses and not _is_continued(message, messages):
            faults.append(f"server_tool_use {open_uses} was found without a corresponding result block")
    return faults


def _is_continued(message: User | Assistant, messages: Sequence[User | Assistant]) -> bool:
    """Whether the provider runs what is open now: it paused, or waited for the results of calls made beside it."""
    if message is messages[-1]:
        return True
    beside = any(isinstance(block, ToolUse) for block in message.content)
    return beside and message is messages[-2] and all(isinstance(block, ToolResult) for block in messages[-1].content)


def _block_faults(block: UserBlock | AssistantBlock) -> list[str]:
    match block:
        case TextBlock():
            return [] if block.text.strip() else ["text content blocks must contain non-whitespace text"]
        case ThinkingBlock():
            is_signed = block.signature == signature_of(block.thinking)
            return [] if is_signed else ["invalid signature in thinking block"]
        case RedactedBlock():
            return [] if block.data.startswith("hidden_") else ["invalid data in redacted_thinking block"]
        case ToolUse():
            faults = [] if ID.fullmatch(block.id) else [f"bad tool_use id {block.id!r}"]
            return faults + ([] if NAME.fullmatch(block.name) else [f"bad tool name {block.name!r}"])
        case ServerToolUse():
            return [] if SERVER_ID.fullmatch(block.id) else [f"bad server_tool_use id {block.id!r}"]
        case WebSearchResult():
            results = block.content if isinstance(block.content, list) else []
            forged_results = [
                result for result in results if not str(result.get("encrypted_content", "")).startswith("enc_")
            ]
            return ["invalid encrypted_content in a search result"] if forged_results else []
        case Image():
            return _source_faults(block.source, ("image/jpeg", "image/png", "image/gif", "image/webp"))
        case Document():
            return _source_faults(block.source, ("application/pdf",))
        case _:
            return []


def _source_faults(source: MediaSource, kinds: Sequence[str]) -> list[str]:
    if source.type == "url":
        return [] if source.url.startswith("https://") else ["only HTTPS URLs are supported"]
    if source.type == "text":
        return [] if source.media_type == "text/plain" and source.data.strip() else ["bad text document"]
    faults = [] if source.media_type in kinds else [f"media type {source.media_type!r} is not supported"]
    try:
        return faults if base64.b64decode(source.data, validate=True) else [*faults, "empty base64"]
    except binascii.Error:
        return [*faults, "invalid base64 data"]


def _tool_faults(request_body: StrictMessagesBody) -> list[str]:
    tools = request_body.tools or []
    names = [tool.name for tool in tools]
    faults = [f"bad tool name {name!r}" for name in names if not NAME.fullmatch(name)]
    faults += [f"tool names must be unique: {name!r}" for name in {*names} if names.count(name) > 1]
    for tool in tools:
        if tool.type == "custom":
            schema = tool.input_schema
            faults += ["input_schema: field required"] if schema is None else anthropic_faults(schema)
        elif tool.input_schema is not None or tool.description is not None:
            faults.append(f"{tool.type}: extra inputs are not permitted")
        if tool.allowed_domains and tool.blocked_domains:
            faults.append("allowed_domains and blocked_domains cannot be used together")
    faults += _late_tool_faults(request_body, tools)
    choice = request_body.tool_choice
    if choice is not None and not tools:
        faults.append("tool_choice may only be specified while providing tools")
    if choice is not None and (choice.type == "tool") != (choice.name is not None):
        faults.append("tool_choice.name goes with type tool")
    if choice is not None and choice.type == "none" and choice.disable_parallel_tool_use is not None:
        faults.append("tool_choice.none.disable_parallel_tool_use: extra inputs are not permitted")
    if choice is not None and choice.name is not None and choice.name not in names:
        faults.append(f"tool_choice names {choice.name!r}, which is not offered")
    return faults


def _late_tool_faults(request_body: StrictMessagesBody, tools: Sequence[MessagesTool]) -> list[str]:
    faults = [] if not tools or not all(tool.defer_loading for tool in tools) else ["all tools have defer_loading"]
    if any(tool.defer_loading and tool.cache_control for tool in tools):
        faults.append("tools with defer_loading cannot use prompt caching")
    results = [block for message in request_body.messages for block in message.content if isinstance(block, ToolResult)]
    parts = [part for result in results if isinstance(result.content, list) for part in result.content]
    references = {part.tool_name for part in parts if isinstance(part, ToolReference)}
    unknown = references - {tool.name for tool in tools}
    return [*faults, *(f"tool reference {name!r} not found in available tools" for name in unknown)]


def _thinking_faults(request_body: StrictMessagesBody) -> list[str]:
    if request_body.thinking is None:
        return []
    budget, faults = request_body.thinking.budget_tokens, list[str]()
    if (budget is not None) != (request_body.thinking.type == "enabled"):
        faults.append("budget_tokens goes with type enabled")
    if budget is not None and budget >= request_body.max_tokens:
        faults.append("max_tokens must be greater than the budget")
    if request_body.tool_choice is not None and request_body.tool_choice.type in ("any", "tool"):
        faults.append("thinking may not be enabled when tool_choice forces tool use")
    users = [n for n, message in enumerate(request_body.messages) if not isinstance(message.content[0], ToolResult)]
    start = max(n for n in users if isinstance(request_body.messages[n], User)) + 1
    if start < len(request_body.messages) and not isinstance(
        request_body.messages[start].content[0], ThinkingBlock | RedactedBlock
    ):
        faults.append("when thinking is enabled, a final assistant message must start with a thinking block")
    return faults


def event(kind: str, **more: object) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **more})}\n\n".encode()


def encode_start(**usage: int) -> bytes:
    nothing: list[object] = []
    counts = {"input_tokens": 10, "output_tokens": 1, **usage}
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "strict-1",
        "content": nothing,
        "usage": counts,
    }
    return event("message_start", message={**message, "stop_reason": None, "stop_sequence": None})


def encode_block(index: int, start: dict[str, object], *deltas: dict[str, object]) -> bytes:
    """One block: how it begins, what is added to it, and its end."""
    pieces = [event("content_block_start", index=index, content_block=start)]
    pieces += [event("content_block_delta", index=index, delta=delta) for delta in deltas]
    return b"".join([*pieces, event("content_block_stop", index=index)])


def encode_text(index: int, *pieces: str) -> bytes:
    deltas: list[dict[str, object]] = [{"type": "text_delta", "text": piece} for piece in pieces]
    return encode_block(index, {"type": "text", "text": ""}, *deltas)


def encode_thinking(index: int, *pieces: str) -> bytes:
    deltas: list[dict[str, object]] = [{"type": "thinking_delta", "thinking": piece} for piece in pieces]
    signature_delta: dict[str, object] = {"type": "signature_delta", "signature": signature_of("".join(pieces))}
    return encode_block(index, {"type": "thinking", "thinking": "", "signature": ""}, *deltas, signature_delta)


def encode_tool_use(index: int, id: str, name: str, *pieces: str, kind: str = "tool_use") -> bytes:
    deltas: list[dict[str, object]] = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    return encode_block(index, {"type": kind, "id": id, "name": name, "input": {}}, *deltas)


def encode_end(reason: str = "end_turn", stop_sequence: str | None = None, **usage: int) -> bytes:
    delta = {"stop_reason": reason, "stop_sequence": stop_sequence}
    return event("message_delta", delta=delta, usage={"output_tokens": 5, **usage}) + event("message_stop")


def says(*pieces: str) -> Reply:
    """A text, streamed in these pieces."""
    return Reply(packets=[encode_start(), event("ping"), encode_text(0, *pieces), encode_end()])


def asks(*calls: tuple[str, object], text: str = "", thinking: str = "") -> Reply:
    """Calls by tool and arguments; arguments that are a text are sent as they are."""
    packets = [encode_start()]
    packets += [encode_thinking(0, thinking)] if thinking else []
    packets += [encode_text(len(packets) - 1, text)] if text else []
    for tool, arguments in calls:
        arguments_text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        packets.append(
            encode_tool_use(len(packets) - 1, f"toolu_{len(packets)}", tool, arguments_text[:3], arguments_text[3:])
        )
    return Reply(packets=[*packets, encode_end("tool_use")])


def refuses(status: int, message: str, kind: str = "invalid_request_error", **headers: str) -> Reply:
    body = json.dumps({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_b"}).encode()
    http_headers = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(packets=[body], status=status, headers={"Content-Type": "application/json", **http_headers})


class StrictMessages(StrictServer):
    def __init__(self, *replies: Reply) -> None:
        super().__init__("/messages", faults_of, *replies, refuse=refuses)

    @property
    def requests(self) -> list[StrictMessagesBody]:
        return [msgspec.json.decode(body, type=StrictMessagesBody) for body in self.bodies]
