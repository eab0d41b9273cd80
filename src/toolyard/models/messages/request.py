"""Encodes one turn's request as the body of a Messages request. Pure but for the memo, which caches encoded items.

The body is valid for the provider with any history: roles alternate, the user begins, results come first and right
after their calls, no text is empty, and thinking goes back only to its provider and signed. At most four marks say what
the provider is to cache; apart from these, a body begins with the bytes of the one before.
"""

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple
from weakref import WeakKeyDictionary

import msgspec
from msgspec.structs import replace

from toolyard.core.messages_blocks import (
    MAX_MARKS,
    RequestFields,
    SystemBlock,
    decode_request,
    decode_tool,
    join_system,
    unseal,
)
from toolyard.core.ports import ModelRequest, Offer
from toolyard.core.settings.models.options import DEFAULT_OPTIONS, Options, allows_any_object
from toolyard.core.tools.definition import ProviderOptions, Tool
from toolyard.models.http.problems import WireFailure
from toolyard.models.messages.history import PAUSED, MessagesEncoder, join_blocks
from toolyard.models.messages.parts import Block, build_text_block, is_blank, mark_block
from toolyard.models.schema_dialects import UnsupportedSchema, convert
from toolyard.models.shared.encode_cache import EncodeCache, Piece, get_encode_cache, insert_first_part
from toolyard.models.shared.json_values import encode_json
from toolyard.models.shared.option_support import NO_OPTIONS, add_output_prompt, find_unsupported, select_extras
from toolyard.models.token_limits import choose_max_tokens, choose_thinking_tokens

CACHE_MARK = b',"cache_control":{"type":"ephemeral"}'
MISSING_OPTIONS = ("seed",)
UNSENT_OPTIONS = ("temperature", "top_p")
"""Current models have neither."""
SERVICE_TIERS = {"auto": "auto", "default": "standard_only"}
"""Anthropic's names of the service tiers that it has."""
MAX_USER_CHARS = 256
CONTINUE_TEXT = "[go on]"
"""The last user message of a history that the model would end: the API would continue that text as the answer."""
PLACEHOLDER_TOOL: Block = {
    "name": "none",
    "description": "There is no tool to be used now.",
    "input_schema": {"type": "object", "properties": {}},
}
"""Offered where the history has calls and the turn has no tools: the API refuses `tool_use` without any tool."""


class EncodedTools(NamedTuple):
    """The tools of an offer as JSON, with our own mark at the last one and without it."""

    marked: bytes
    plain: bytes


class WireParts(NamedTuple):
    """The parts of a body that marks may be in, encoded."""

    tools: bytes
    system: bytes
    messages: Sequence[Piece]


_tools: WeakKeyDictionary[Offer, dict[tuple[str, int], EncodedTools]] = WeakKeyDictionary()
_NO_NATIVE = RequestFields()
_CLIENT_MARK_KEY = b',"cache_control": '
_CLIENT_MARK = re.compile(rb',"cache_control": {[^{}]*}')
"""See `mark_block`."""
_LACKS_OUTPUT_SCHEMAS = re.compile(r"claude-(?:[23]|instant|(?:opus|sonnet)-4(?:-0|-20|@|$))")
_USER_HEAD = b'{"role":"user","content":['
_USER = _USER_HEAD + b'{"type":'
_ASSISTANT = b'{"role":"assistant","content":[{"type":'


def to_wire(
    request: ModelRequest, model: str = "", provider: str = "anthropic", forward: frozenset[str] = NO_OPTIONS
) -> bytes:
    """Return the body. `model` is the name on the wire; if it is empty, the request's. Raises WireFailure."""
    options = request.options
    native = unseal(request.native, provider, decode_request) or _NO_NATIVE
    encoded_options = b"" if options is DEFAULT_OPTIONS else _encode_options(options, provider, forward)
    system, output_config = _build_output(request, model or request.model, native.effort)
    cache = open_cache(request, model, provider)
    cache.set_system(system, _encode_system)
    open_end, role = cache.extend(request.history)
    encoded_tools = _encode_tools(request.offer, provider, request.default_tool_uses)
    tools = encoded_tools.marked or (_encoded_placeholder_tool if _has_calls(cache, open_end) else b"")
    parts = WireParts(tools, cache.system, _join_messages(cache, open_end, role, request.instructions))
    if native is not _NO_NATIVE or _CLIENT_MARK_KEY in cache.joined or _CLIENT_MARK_KEY in open_end:
        plain = WireParts(
            encoded_tools.plain or tools,
            _encode_native_system(system, native.system),
            _join_messages(cache, open_end, role, request.instructions, with_marks=False),
        )
        parts = _keep_client_marks(plain) or parts
    forced = bool(tools) and request.tool_choice not in ("auto", "none")
    # The API refuses thinking together with a forced tool choice.
    thinks = bool(options.thinking) and not forced and (role == "assistant" or _may_think(cache, open_end))
    return b"".join(
        (
            b'{"model":',
            encode_json(model or request.model),
            b',"stream":true',
            parts.tools and b',"tools":' + parts.tools,
            parts.system and b',"system":' + parts.system,
            b',"messages":[',
            *parts.messages,
            b"]",
            tools and b',"tool_choice":' + encode_json(_build_tool_choice(request)),
            # The client's own limit includes its thinking.
            b',"max_tokens":%d'
            % choose_max_tokens(model or request.model, options, thinks=thinks and not native.thinking),
            b',"thinking":' + encode_json(native.thinking or _build_thinking(options)) if thinks else b"",
            output_config,
            encoded_options,
            b"}",
        )
    )


def _keep_client_marks(parts: WireParts) -> WireParts | None:
    """Return the parts with the marks of the client and none of our own; None if the client has set none.

    A part of the history may come from an earlier request with marks of its own: only the last ones are kept.
    """
    messages = b"".join(parts.messages)
    marks = sum(part.count(_CLIENT_MARK_KEY) for part in (parts.tools, parts.system, messages))
    if marks > MAX_MARKS:
        messages = _CLIENT_MARK.sub(b"", messages, count=marks - MAX_MARKS)
    return WireParts(parts.tools, parts.system, [messages]) if marks else None


def open_cache(request: ModelRequest, model: str, provider: str) -> EncodeCache:
    """Return the cache that `to_wire` encodes the request's history with. All models of a provider share it."""
    return get_encode_cache(request, f"messages:{provider}", MessagesEncoder(provider).encode_group)


def select_sent_extras(options: Options, forward: frozenset[str]) -> dict[str, object]:
    """Return the extra options that are sent, by OpenAI's names."""
    extras = select_extras(options, ("service_tier", "user", "safety_identifier"), forward)
    if extras.get("service_tier") not in SERVICE_TIERS:
        extras.pop("service_tier", None)
    return extras


def _build_extra_fields(options: Options, forward: frozenset[str]) -> Block:
    extras = select_sent_extras(options, forward)
    fields: Block = {}
    if "service_tier" in extras:
        fields["service_tier"] = SERVICE_TIERS[str(extras["service_tier"])]
    if user := extras.get("safety_identifier") or extras.get("user"):
        fields["metadata"] = {"user_id": str(user)[:MAX_USER_CHARS]}
    return fields


def _encode_options(options: Options, provider: str, forward: frozenset[str]) -> bytes:
    """Return the options besides thinking and `max_tokens`."""
    if problem := find_unsupported(options, MISSING_OPTIONS, provider):
        raise WireFailure(problem)
    fields = _build_extra_fields(options, forward) if options.extra else {}
    if options.stop:
        fields["stop_sequences"] = options.stop
    return b"," + encode_json(fields)[1:-1] if fields else b""


def _build_output(request: ModelRequest, model: str, effort: str = "") -> tuple[str, bytes]:
    """Return the system text and the output format. A schema that cannot be enforced is asked for in the text."""
    schema, config = request.options.output_schema, Block()
    if effort:
        config["effort"] = effort
    system = request.system
    if schema is not None:
        output_format = _build_output_format(schema, model)
        if output_format is None:
            system = add_output_prompt(system, schema)
        else:
            config["format"] = output_format
    return system, b',"output_config":' + encode_json(config) if config else b""


def _build_output_format(schema: dict[str, object], model: str) -> Block | None:
    """Return the format that enforces a schema; None if it cannot be enforced."""
    if not allows_any_object(schema) and not _LACKS_OUTPUT_SCHEMAS.search(model):
        with suppress(UnsupportedSchema):
            return {"type": "json_schema", "schema": convert(schema, "anthropic_output")}
    return None


def _build_thinking(options: Options) -> Block:
    budget = choose_thinking_tokens(options)
    return {"type": "enabled", "budget_tokens": budget} if budget else {"type": "adaptive"}


def _may_think(cache: EncodeCache, open_end: bytes) -> bool:
    """Return whether thinking may be on: between calls and results only if the model's first message there has it.

    The API refuses thinking in the middle of calls that began without it, for example at another provider. They began
    after the last user message that does not begin with tool results. The encoded bytes are searched for it: quotation
    marks in a text are escaped there, so only a tool's input of the same shape could be mistaken for a message.
    """
    messages = cache.joined + open_end if open_end else cache.joined
    question = max(messages.rfind(_USER + kind) for kind in (b'"text"', b'"image"', b'"document"'))
    answer = messages.find(_ASSISTANT, question)
    return answer < 0 or messages.startswith((b'"thinking"', b'"redacted_thinking"'), answer + len(_ASSISTANT))


def _encode_system(text: str) -> bytes:
    return b"" if is_blank(text) else b"[" + encode_json(build_text_block(text))[:-1] + CACHE_MARK + b"}]"


def _encode_native_system(text: str, sent: Sequence[SystemBlock]) -> bytes:
    """Return the system text in the blocks that the client has sent, with its marks, and what is around them."""
    before, sent_text, after = text.partition(join_system(sent)) if sent else (text, "", "")
    blocks = [SystemBlock(before), *(sent if sent_text else [SystemBlock(sent_text)]), SystemBlock(after)]
    encoded = [
        mark_block(build_text_block(block.text), block.cache_control) for block in blocks if not is_blank(block.text)
    ]
    return encode_json(encoded) if encoded else b""


def _join_messages(
    cache: EncodeCache, open_end: bytes, role: str, instructions: str, *, with_marks: bool = True
) -> list[Piece]:
    """Return the messages, with a cache mark at the end of the newest user message and at the previous request's end.

    The older mark matters because the provider looks back only 20 blocks from a mark for what it has cached, and a turn
    with many calls adds more. A mark belongs inside the last block, hence `mark - 1`, before its closing brace.
    """
    newest = len(cache.joined) if role == "user" and not open_end else 0
    marks = sorted({cache.mark, newest} - {0}) if with_marks else []
    cache.mark = newest or cache.mark
    joined, start = memoryview(cache.joined), 0
    pieces: list[Piece] = []
    for mark in marks:
        pieces += [joined[start : mark - 1], CACHE_MARK]
        start = mark - 1
    pieces += [joined[start:], open_end]
    if role not in ("user", PAUSED):
        pieces.append(join_blocks([("user", build_text_block(CONTINUE_TEXT))], role)[0])
    if instructions:
        pieces = insert_first_part(pieces, _USER_HEAD, encode_json(build_text_block(instructions)))
    return [*pieces, b"]}"]


def _has_calls(cache: EncodeCache, open_end: bytes) -> bool:
    return b'"type":"tool_use"' in cache.joined or b'"type":"tool_use"' in open_end


def _encode_tools(offer: Offer, provider: str, default_uses: int) -> EncodedTools:
    """Return the tools as JSON, encoded once for each offer, provider and limit; empty if there are none."""
    by_target = _tools.setdefault(offer, {})
    encoded = by_target.get((provider, default_uses))
    if encoded is None:
        built = [_build_tool(tool, provider, default_uses) for tool in offer.tools]
        blocks = [block for block in built if block is not None]
        plain = encode_json(blocks) if blocks else b""
        # A tool that is loaded later cannot be cached.
        is_markable = blocks and not any(name in blocks[-1] for name in ("cache_control", "defer_loading"))
        encoded = EncodedTools(plain[:-2] + CACHE_MARK + b"}]" if is_markable else plain, plain)
        by_target[provider, default_uses] = encoded
    return encoded


def _build_tool(tool: Tool, provider: str, default_uses: int) -> Block | None:
    if tool.venue == "provider":
        return _build_provider_tool(tool, default_uses)
    fields = unseal(tool.seal, provider, decode_tool)
    if fields is not None and fields.definition is not None:
        return mark_block(fields.definition, fields.cache_control)
    block: Block = {"name": tool.name, "input_schema": convert(tool.parameters, "anthropic")}
    if not is_blank(tool.description):
        block["description"] = tool.description
    if fields is None:
        return block
    return mark_block({**block, **msgspec.to_builtins(replace(fields, cache_control=None))}, fields.cache_control)


def _build_provider_tool(tool: Tool, default_uses: int = 0) -> Block | None:
    """Return the tool as Anthropic defines it; None for a tool that it does not have."""
    if tool.name == "code_execution":
        return {"type": "code_execution_20250825", "name": tool.name}
    if tool.name != "web_search":
        return None
    options = tool.options or ProviderOptions()
    block: Block = {"type": "web_search_20250305", "name": tool.name}
    if max_uses := options.max_uses or default_uses:
        block["max_uses"] = max_uses
    if options.user_location:
        block["user_location"] = {"type": "approximate", **msgspec.to_builtins(options.user_location)}
    if options.allowed_domains:  # Anthropic refuses both lists together
        allowed = [domain for domain in options.allowed_domains if domain not in options.blocked_domains]
        return {**block, "allowed_domains": allowed} if allowed else None
    return {**block, "blocked_domains": list(options.blocked_domains)} if options.blocked_domains else block


def _build_tool_choice(request: ModelRequest) -> Block:
    choice, parallel = _build_plain_choice(request), request.options.parallel_tool_calls
    # The API knows the opposite field, as a part of the choice, and refuses it where no tool may be called.
    return (
        choice
        if parallel is None or choice["type"] == "none"
        else {**choice, "disable_parallel_tool_use": not parallel}
    )


def _is_known(tool: Tool) -> bool:
    """Return whether the API has a tool; it has not every tool of other providers."""
    return tool.venue != "provider" or _build_provider_tool(tool) is not None


def _build_plain_choice(request: ModelRequest) -> Block:
    if not any(map(_is_known, request.offer.tools)):
        return {"type": "none"}
    match request.tool_choice:
        case "auto" | "none" as plain:
            return {"type": plain}
        case "required":
            return {"type": "any"}
        case name:
            unknown = any(tool.name == name and not _is_known(tool) for tool in request.offer.tools)
            return {"type": "auto"} if unknown else {"type": "tool", "name": name}


_encoded_placeholder_tool = encode_json([PLACEHOLDER_TOOL])
