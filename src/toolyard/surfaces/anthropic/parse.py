"""Read a request for a message: its options and instructions. Pure.

What cannot be done is refused by the name of its field. What only saves time or money, such as where to cache, is left
out for a model of another provider.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated

from msgspec import Meta, Struct

from toolyard.core.errors import Invalid
from toolyard.core.items import Seal
from toolyard.core.messages_blocks import (
    MAX_MARKS,
    Mark,
    RequestFields,
    SystemBlock,
    ThinkingFields,
    seal,
)
from toolyard.core.settings.models.options import MAX_TOKENS, Options, Thinking
from toolyard.core.tools.web_search_rule import SearchMode, parse_search
from toolyard.surfaces.anthropic.blocks import count_marks, list_blocks, read_mark
from toolyard.surfaces.anthropic.content import SentMessage
from toolyard.surfaces.anthropic.tools import is_web_search
from toolyard.surfaces.http.errors import invalid_field

MAX_TOOLS = 512
MAX_MESSAGES = 20_000
MIN_THINKING_TOKENS = 1_024
NO_THREADS = "thread_unsupported_request"
_EFFORTS: Mapping[str, Thinking] = {"low": "low", "medium": "medium", "high": "high", "xhigh": "xhigh", "max": "xhigh"}
_SERVICE_TIERS = {"auto": "auto", "standard_only": "default"}
_REFUSED_FIELDS = {
    "mcp_servers": "would run tools outside of this server's rules: add the MCP server to this server",
    "container": "would run code outside of this server's rules",
    "compaction": "is not done here: send the messages, and this server shortens a history that is too long",
    "fallbacks": "are set in this server's configuration",
    "fallback_credit_token": "is not known here",
    "inference_geo": "cannot be chosen here",
    "user_profile_id": "is not known here",
    "workspace_id": "is not known here",
}


class SentMetadata(Struct, kw_only=True):
    user_id: str | None = None


class OutputFormat(Struct, kw_only=True):
    type: str
    schema: dict[str, object] | None = None


class OutputConfig(Struct, kw_only=True):
    effort: str | None = None
    format: OutputFormat | None = None


class ToolChoice(Struct, forbid_unknown_fields=True, kw_only=True):
    type: str
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class ServerFields(Struct, kw_only=True):
    """What Anthropic's requests have no fields for."""

    server_tools: str | list[str] | None = None
    """The server's tools that the run may use: `all`, `none`, or their names."""
    web_search: SearchMode | bool | None = None
    """Where web searches run, as in the other APIs."""


class CountBody(Struct, forbid_unknown_fields=True, kw_only=True):
    """What a count of tokens needs to know of a request."""

    model: Annotated[str, Meta(min_length=1, max_length=500)]
    messages: Annotated[list[SentMessage], Meta(min_length=1, max_length=MAX_MESSAGES)]
    system: object = None
    """A text, or blocks of text."""
    tools: Annotated[list[dict[str, object]], Meta(max_length=MAX_TOOLS)] | None = None
    tool_choice: ToolChoice | None = None
    thinking: ThinkingFields | None = None
    output_config: OutputConfig | None = None
    output_format: OutputFormat | None = None
    """The older name of `output_config.format`."""
    cache_control: Mark | None = None
    """Where to cache is then the server's choice, as it is without any mark."""
    context_management: dict[str, object] | None = None
    mcp_servers: object = None
    compaction: object = None
    thread: object = None
    speed: str | None = None
    diagnostics: object = None
    toolyard: ServerFields | None = None


class MessageBody(CountBody, forbid_unknown_fields=True, kw_only=True):
    """A request for a message. `messages`, `tools` and the options are those of this request alone."""

    max_tokens: Annotated[int, Meta(ge=1, le=MAX_TOKENS)]
    stream: bool | None = None
    stop_sequences: list[str] | None = None
    temperature: Annotated[float, Meta(ge=0, le=1)] | None = None
    top_p: float | None = None
    top_k: int | None = None
    metadata: SentMetadata | None = None
    service_tier: str | None = None
    container: object = None
    fallbacks: object = None
    fallback_credit_token: object = None
    inference_geo: object = None
    user_profile_id: object = None
    workspace_id: object = None


OPTION_FIELDS = {"output_schema": "output_config.format", "stop": "stop_sequences", "user": "metadata.user_id"}
"""The names of the fields that options have in this request, where they differ."""


def check_fields(body: CountBody) -> None:
    """Raise Invalid for a field that no model can be told."""
    for name, why in _REFUSED_FIELDS.items():
        if getattr(body, name, None):
            raise invalid_field(name, why)
    if body.thread is not None:
        # Anthropic's clients read this code, and go on with the whole history in each request.
        details: dict[str, object] = {"error_code": NO_THREADS, "unsupported": ["thread"]}
        raise Invalid("thread: this server keeps no threads: send all messages", {"field": "thread", **details})


def check_marks(body: CountBody, message_marks: int) -> None:
    """Raise Invalid for more marks than the API takes, with those of the messages."""
    marks = count_marks(body.system, body.tools) + message_marks
    if marks > MAX_MARKS:
        raise invalid_field("cache_control", f"may be set {MAX_MARKS} times at most, and is set {marks} times")


def list_unread_fields(body: MessageBody) -> list[str]:
    """Return the fields of a request that have no effect. They only save time or money."""
    return [name for name in ("top_k", "speed", "context_management") if getattr(body, name) is not None]


def read_system(system: object) -> list[SystemBlock]:
    """Return the blocks of the instructions. Raise Invalid for anything but texts."""
    if system is None:
        return []
    blocks: list[SystemBlock] = []
    for number, block in enumerate(list_blocks(system, "system")):
        text = block.get("text")
        if block.get("type") != "text" or not isinstance(text, str):
            raise invalid_field(f"system.{number}", "must be a block of text")
        if text.strip():
            blocks.append(SystemBlock(text, read_mark(block, f"system.{number}")))
    return blocks


def read_native(body: CountBody, provider: str, betas: Sequence[str]) -> Seal | None:
    """Return what only a provider with this API is told; None if the model is another provider's."""
    if not provider:
        return None
    thinking = body.thinking
    return seal(
        provider,
        RequestFields(
            system=read_system(body.system),
            thinking=thinking if thinking and thinking.type != "disabled" else None,
            effort=body.output_config.effort or "" if body.output_config else "",
            betas=list(betas),
        ),
    )


def read_options(body: MessageBody) -> Options:
    """Return the options of the request. Raise Invalid for what cannot be done."""
    extra: dict[str, object] = {}
    if body.metadata and body.metadata.user_id:
        extra["user"] = body.metadata.user_id
    if body.service_tier is not None:
        if body.service_tier not in _SERVICE_TIERS:
            raise invalid_field("service_tier", f"must be one of {', '.join(_SERVICE_TIERS)}")
        extra["service_tier"] = _SERVICE_TIERS[body.service_tier]
    return Options(
        max_tokens=body.max_tokens,
        temperature=body.temperature,
        top_p=body.top_p,
        stop=tuple(body.stop_sequences or ()),
        output_schema=_read_schema(body),
        thinking=_read_thinking(body),
        parallel_tool_calls=False if body.tool_choice and body.tool_choice.disable_parallel_tool_use else None,
        extra=extra,
    )


def _read_schema(body: CountBody) -> dict[str, object] | None:
    sent = (body.output_config.format if body.output_config else None) or body.output_format
    if sent is None:
        return None
    if sent.type != "json_schema" or sent.schema is None:
        raise invalid_field("output_config.format", "must be of the type json_schema, and have a schema")
    return sent.schema


def _read_thinking(body: MessageBody) -> Thinking:
    effort = body.output_config.effort if body.output_config else None
    if effort is not None and effort not in _EFFORTS:
        raise invalid_field("output_config.effort", f"must be one of {', '.join(_EFFORTS)}")
    thinking = body.thinking
    if thinking is None:
        return _EFFORTS[effort] if effort else ""
    match thinking.type:
        case "disabled":
            return 0
        case "adaptive":
            return _EFFORTS[effort] if effort else "adaptive"
        case "enabled":
            budget = thinking.budget_tokens
            if budget is None or not MIN_THINKING_TOKENS <= budget < body.max_tokens:
                why = f"must be a number from {MIN_THINKING_TOKENS:,} to less than max_tokens"
                raise invalid_field("thinking.budget_tokens", why)
            return budget
        case _:
            raise invalid_field("thinking.type", "must be enabled, adaptive or disabled")


def read_tool_choice(choice: ToolChoice | None) -> str:
    """Return `auto`, `none`, `required` or the name of a tool."""
    match choice:
        case None | ToolChoice(type="auto"):
            return "auto"
        case ToolChoice(type="none"):
            return "none"
        case ToolChoice(type="any"):
            return "required"
        case ToolChoice(type="tool", name=name):
            if name and name not in ("auto", "none", "required"):
                return name
            raise invalid_field("tool_choice.name", "must be the name of a tool")
        case _:
            raise invalid_field("tool_choice.type", "must be auto, any, tool or none")


def read_search_mode(body: CountBody) -> SearchMode:
    """Return where web searches run. Raise Invalid for rules of a search, which the server's configuration has."""
    mode: SearchMode = ""
    for index, tool in enumerate(body.tools or ()):
        if is_web_search(tool):
            for name in ("allowed_domains", "blocked_domains", "user_location"):
                if tool.get(name):
                    raise invalid_field(f"tools.{index}.{name}", "is set in this server's configuration")
            mode = "auto"
    return parse_search({"web_search": body.toolyard.web_search if body.toolyard else None}, mode)
