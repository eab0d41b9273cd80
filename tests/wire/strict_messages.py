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

from models.schema_dialects.dialect_rules import anthropic_faults
from wire.strict import Reply, Strict

ID = re.compile(r"[a-zA-Z0-9_-]+")
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
SERVER_ID = re.compile(r"srvtoolu_[a-zA-Z0-9_]+")
MOST_MARKS = 4
Text = Annotated[str, Meta(min_length=1)]


def signature_of(thinking: str) -> str:
    """What this server signs a thought with."""
    return "sig_" + hashlib.blake2b(thinking.encode(), digest_size=8).hexdigest()


class Mark(Struct, forbid_unknown_fields=True):
    type: Literal["ephemeral"]


class _Block(Struct, forbid_unknown_fields=True, tag_field="type", kw_only=True):
    pass


class _Marked(_Block, kw_only=True):
    cache_control: Mark | None = None


class Cited(Struct, forbid_unknown_fields=True, kw_only=True):
    type: Literal["web_search_result_location"]
    cited_text: str
    encrypted_index: str
    title: str | None
    url: str


class TextBlock(_Marked, tag="text", kw_only=True):
    text: Text
    citations: list[Cited] | None = None


class Source(Struct, forbid_unknown_fields=True, kw_only=True):
    type: Literal["base64", "url", "text"]
    media_type: str = ""
    data: str = ""
    url: str = ""


class Image(_Marked, tag="image", kw_only=True):
    source: Source


class Document(_Marked, tag="document", kw_only=True):
    source: Source
    title: Text | None = None


class Thinking(_Block, tag="thinking", kw_only=True):
    thinking: str
    signature: str


class Redacted(_Block, tag="redacted_thinking", kw_only=True):
    data: str


class ToolUse(_Marked, tag="tool_use", kw_only=True):
    id: str
    name: str
    input: dict[str, object]


class ToolResult(_Marked, tag="tool_result", kw_only=True):
    tool_use_id: str
    content: Text | Annotated[list[TextBlock | Image], Meta(min_length=1)] | None = None
    is_error: bool = False


class ServerToolUse(_Marked, tag="server_tool_use", kw_only=True):
    id: str
    name: Literal["web_search", "bash_code_execution", "text_editor_code_execution"]
    input: dict[str, object]
    caller: dict[str, object] | None = None


class WebSearchResult(_Marked, tag="web_search_tool_result", kw_only=True):
    tool_use_id: str
    content: list[dict[str, object]] | dict[str, object]


class BashResult(_Marked, tag="bash_code_execution_tool_result", kw_only=True):
    tool_use_id: str
    content: dict[str, object]


UserBlock = TextBlock | Image | Document | ToolResult
AssistantBlock = TextBlock | Thinking | Redacted | ToolUse | ServerToolUse | WebSearchResult | BashResult


class User(Struct, forbid_unknown_fields=True, tag_field="role", tag="user"):
    content: Annotated[list[UserBlock], Meta(min_length=1)]


class Assistant(Struct, forbid_unknown_fields=True, tag_field="role", tag="assistant"):
    content: Annotated[list[AssistantBlock], Meta(min_length=1)]


class Location(Struct, forbid_unknown_fields=True, kw_only=True):
    type: Literal["approximate"]
    city: Text | None = None
    region: Text | None = None
    country: Annotated[str, Meta(pattern="^[A-Z]{2}$")] | None = None
    timezone: Text | None = None


class Tool(Struct, forbid_unknown_fields=True, kw_only=True):
    name: str
    type: Literal["custom", "web_search_20250305", "code_execution_20250825"] = "custom"
    description: Text | None = None
    input_schema: dict[str, Any] | None = None
    cache_control: Mark | None = None
    max_uses: Annotated[int, Meta(ge=1)] | None = None
    allowed_domains: Annotated[list[str], Meta(min_length=1)] | None = None
    blocked_domains: Annotated[list[str], Meta(min_length=1)] | None = None
    user_location: Location | None = None


class Choice(Struct, forbid_unknown_fields=True, kw_only=True):
    type: Literal["auto", "any", "none", "tool"]
    name: str | None = None


class ThinkingConfig(Struct, forbid_unknown_fields=True, kw_only=True):
    type: Literal["enabled", "adaptive"]
    budget_tokens: Annotated[int, Meta(ge=1024)] | None = None


class Body(Struct, forbid_unknown_fields=True, kw_only=True):
    model: Text
    max_tokens: Annotated[int, Meta(ge=1)]
    messages: Annotated[list[User | Assistant], Meta(min_length=1)]
    stream: bool = False
    system: Annotated[list[TextBlock], Meta(min_length=1)] | None = None
    tools: Annotated[list[Tool], Meta(min_length=1)] | None = None
    tool_choice: Choice | None = None
    thinking: ThinkingConfig | None = None


def faults_of(body: bytes) -> list[str]:
    """Why the provider refuses this body; empty if it takes it."""
    try:
        asked = msgspec.json.decode(body, type=Body)
    except (msgspec.DecodeError, UnicodeError) as error:
        return [str(error)]
    blocks = [block for message in asked.messages for block in message.content]
    found = [*_order_faults(asked.messages), *_pair_faults(asked.messages), *_server_faults(asked.messages)]
    found += [fault for block in (*blocks, *(asked.system or ())) for fault in _block_faults(block)]
    found += _tool_faults(asked)
    if any(isinstance(block, ToolUse | ToolResult) for block in blocks) and not asked.tools:
        found.append("requests which include tool_use or tool_result blocks must define tools")
    marks = json.dumps(json.loads(body)).count('"cache_control"')
    if marks > MOST_MARKS:
        found.append(f"a maximum of {MOST_MARKS} blocks with cache_control may be provided, found {marks}")
    return [*found, *_thinking_faults(asked)]


def _order_faults(messages: Sequence[User | Assistant]) -> list[str]:
    found = [] if isinstance(messages[0], User) else ["first message must use the user role"]
    for before, message in pairwise(messages):
        if type(before) is type(message):
            found.append("roles must alternate")
    for message in messages:
        if isinstance(message, Assistant) and isinstance(message.content[-1], Thinking | Redacted):
            found.append("the final block in an assistant message cannot be thinking")
    last = messages[-1]
    if isinstance(last, Assistant):
        if isinstance(last.content[-1], TextBlock) and last.content[-1].text != last.content[-1].text.rstrip():
            found.append("final assistant content cannot end with trailing whitespace")
        if not isinstance(last.content[-1], ServerToolUse | WebSearchResult | BashResult):
            found.append("this model does not support assistant message prefill")
    return found


def _pair_faults(messages: Sequence[User | Assistant]) -> list[str]:
    found: list[str] = []
    seen: set[str] = set()
    waiting: list[str] = []
    for message in messages:
        results = [block.tool_use_id for block in message.content if isinstance(block, ToolResult)]
        first = [block for block in message.content[: len(results)] if isinstance(block, ToolResult)]
        if len(first) < len(results):
            found.append("tool_result blocks must come first")
        found += [f"unexpected tool_use_id {one!r} in tool_result" for one in results if one not in waiting]
        found += [f"tool_use {one!r} without a tool_result right after it" for one in waiting if one not in results]
        found += [f"more than one tool_result for {one!r}" for one in {*results} if results.count(one) > 1]
        waiting = [block.id for block in message.content if isinstance(block, ToolUse)]
        found += [f"tool_use ids must be unique: {one!r}" for one in waiting if one in seen or waiting.count(one) > 1]
        seen.update(waiting)
    return found + [f"tool_use {one!r} without a tool_result" for one in waiting]


def _server_faults(messages: Sequence[User | Assistant]) -> list[str]:
    found: list[str] = []
    for message in messages:
        uses = {block.id: block.name for block in message.content if isinstance(block, ServerToolUse)}
        open_uses = list[str]()
        for block in message.content:
            if isinstance(block, ServerToolUse):
                open_uses.append(block.id)
            elif isinstance(block, WebSearchResult | BashResult):
                kind = "web_search" if isinstance(block, WebSearchResult) else "bash_code_execution"
                if block.tool_use_id not in open_uses or uses[block.tool_use_id] != kind:
                    found.append(f"{kind}_tool_result {block.tool_use_id!r} does not follow its server_tool_use")
                else:
                    open_uses.remove(block.tool_use_id)
        if open_uses and not _goes_on(message, messages):
            found.append(f"server_tool_use {open_uses} was found without a corresponding result block")
    return found


def _goes_on(message: User | Assistant, messages: Sequence[User | Assistant]) -> bool:
    """Whether the provider runs what is open now: it paused, or waited for the results of calls made beside it."""
    if message is messages[-1]:
        return True
    beside = any(isinstance(block, ToolUse) for block in message.content)
    return beside and message is messages[-2] and all(isinstance(one, ToolResult) for one in messages[-1].content)


def _block_faults(block: UserBlock | AssistantBlock) -> list[str]:
    match block:
        case TextBlock():
            return [] if block.text.strip() else ["text content blocks must contain non-whitespace text"]
        case Thinking():
            signed = block.signature == signature_of(block.thinking)
            return [] if signed else ["invalid signature in thinking block"]
        case Redacted():
            return [] if block.data.startswith("hidden_") else ["invalid data in redacted_thinking block"]
        case ToolUse():
            found = [] if ID.fullmatch(block.id) else [f"bad tool_use id {block.id!r}"]
            return found + ([] if NAME.fullmatch(block.name) else [f"bad tool name {block.name!r}"])
        case ServerToolUse():
            return [] if SERVER_ID.fullmatch(block.id) else [f"bad server_tool_use id {block.id!r}"]
        case WebSearchResult():
            results = block.content if isinstance(block.content, list) else []
            forged = [one for one in results if not str(one.get("encrypted_content", "")).startswith("enc_")]
            return ["invalid encrypted_content in a search result"] if forged else []
        case Image():
            return _source_faults(block.source, ("image/jpeg", "image/png", "image/gif", "image/webp"))
        case Document():
            return _source_faults(block.source, ("application/pdf",))
        case _:
            return []


def _source_faults(source: Source, kinds: Sequence[str]) -> list[str]:
    if source.type == "url":
        return [] if source.url.startswith("https://") else ["only HTTPS URLs are supported"]
    if source.type == "text":
        return [] if source.media_type == "text/plain" and source.data.strip() else ["bad text document"]
    found = [] if source.media_type in kinds else [f"media type {source.media_type!r} is not supported"]
    try:
        return found if base64.b64decode(source.data, validate=True) else [*found, "empty base64"]
    except binascii.Error:
        return [*found, "invalid base64 data"]


def _tool_faults(asked: Body) -> list[str]:
    tools = asked.tools or []
    names = [tool.name for tool in tools]
    found = [f"bad tool name {name!r}" for name in names if not NAME.fullmatch(name)]
    found += [f"tool names must be unique: {name!r}" for name in {*names} if names.count(name) > 1]
    for tool in tools:
        if tool.type == "custom":
            schema = tool.input_schema
            found += ["input_schema: field required"] if schema is None else anthropic_faults(schema)
        elif tool.input_schema is not None or tool.description is not None:
            found.append(f"{tool.type}: extra inputs are not permitted")
        if tool.allowed_domains and tool.blocked_domains:
            found.append("allowed_domains and blocked_domains cannot be used together")
    choice = asked.tool_choice
    if choice is not None and not tools:
        found.append("tool_choice may only be specified while providing tools")
    if choice is not None and (choice.type == "tool") != (choice.name is not None):
        found.append("tool_choice.name goes with type tool")
    if choice is not None and choice.name is not None and choice.name not in names:
        found.append(f"tool_choice names {choice.name!r}, which is not offered")
    return found


def _thinking_faults(asked: Body) -> list[str]:
    if asked.thinking is None:
        return []
    budget, found = asked.thinking.budget_tokens, list[str]()
    if (budget is not None) != (asked.thinking.type == "enabled"):
        found.append("budget_tokens goes with type enabled")
    if budget is not None and budget >= asked.max_tokens:
        found.append("max_tokens must be greater than the budget")
    if asked.tool_choice is not None and asked.tool_choice.type in ("any", "tool"):
        found.append("thinking may not be enabled when tool_choice forces tool use")
    users = [n for n, message in enumerate(asked.messages) if not isinstance(message.content[0], ToolResult)]
    start = max(n for n in users if isinstance(asked.messages[n], User)) + 1
    if start < len(asked.messages) and not isinstance(asked.messages[start].content[0], Thinking | Redacted):
        found.append("when thinking is enabled, a final assistant message must start with a thinking block")
    return found


def event(kind: str, **more: object) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **more})}\n\n".encode()


def begins(**usage: int) -> bytes:
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


def block(index: int, start: dict[str, object], *deltas: dict[str, object]) -> bytes:
    """One block: how it begins, what is added to it, and its end."""
    pieces = [event("content_block_start", index=index, content_block=start)]
    pieces += [event("content_block_delta", index=index, delta=delta) for delta in deltas]
    return b"".join([*pieces, event("content_block_stop", index=index)])


def said(index: int, *pieces: str) -> bytes:
    deltas: list[dict[str, object]] = [{"type": "text_delta", "text": piece} for piece in pieces]
    return block(index, {"type": "text", "text": ""}, *deltas)


def thought(index: int, *pieces: str) -> bytes:
    deltas: list[dict[str, object]] = [{"type": "thinking_delta", "thinking": piece} for piece in pieces]
    signed: dict[str, object] = {"type": "signature_delta", "signature": signature_of("".join(pieces))}
    return block(index, {"type": "thinking", "thinking": "", "signature": ""}, *deltas, signed)


def called(index: int, id: str, name: str, *pieces: str, kind: str = "tool_use") -> bytes:
    deltas: list[dict[str, object]] = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    return block(index, {"type": kind, "id": id, "name": name, "input": {}}, *deltas)


def ends(reason: str = "end_turn", **usage: int) -> bytes:
    delta = {"stop_reason": reason, "stop_sequence": None}
    return event("message_delta", delta=delta, usage={"output_tokens": 5, **usage}) + event("message_stop")


def says(*pieces: str) -> Reply:
    """A text, streamed in these pieces."""
    return Reply(packets=[begins(), event("ping"), said(0, *pieces), ends()])


def asks(*calls: tuple[str, object], text: str = "", thinking: str = "") -> Reply:
    """Calls by tool and arguments; arguments that are a text are sent as they are."""
    packets = [begins()]
    packets += [thought(0, thinking)] if thinking else []
    packets += [said(len(packets) - 1, text)] if text else []
    for tool, arguments in calls:
        written = arguments if isinstance(arguments, str) else json.dumps(arguments)
        packets.append(called(len(packets) - 1, f"toolu_{len(packets)}", tool, written[:3], written[3:]))
    return Reply(packets=[*packets, ends("tool_use")])


def refuses(status: int, message: str, kind: str = "invalid_request_error", **headers: str) -> Reply:
    body = json.dumps({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_b"}).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(packets=[body], status=status, headers={"Content-Type": "application/json", **named})


class StrictMessages(Strict):
    def __init__(self, *replies: Reply) -> None:
        super().__init__("/messages", faults_of, *replies, refuse=refuses)

    @property
    def requests(self) -> list[Body]:
        return [msgspec.json.decode(body, type=Body) for body in self.bodies]
