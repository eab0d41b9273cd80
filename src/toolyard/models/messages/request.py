"""One turn's request → the bytes of a Messages body. Pure but for the memo, which keeps what is encoded.

Whatever the history, the body is one that the provider takes: roles alternate, the user begins, results come first and
right after their calls, no text is empty, and thinking goes back only where it came from and signed. What the
provider is to cache is marked at four places at most, and nothing else differs from one request to the next.
"""

from weakref import WeakKeyDictionary

import msgspec

from toolyard.core.options import DEFAULT_OPTIONS, Options
from toolyard.core.ports import ModelRequest, Offer
from toolyard.core.tools import ProviderOptions, Tool
from toolyard.models.answer_limits import choose_max_tokens, choose_thinking_tokens
from toolyard.models.encode_cache import EncodeCache, get_encode_cache
from toolyard.models.messages.history import PAUSED, MessagesEncoder, join_blocks
from toolyard.models.messages.parts import Block, build_text_block, is_blank
from toolyard.models.schema_dialects import convert
from toolyard.models.unicode import encode_json

CACHE_MARK = b',"cache_control":{"type":"ephemeral"}'
CONTINUE_TEXT = "[go on]"
"""Ends one that the model would end: its words would be taken for the beginning of its answer."""
PLACEHOLDER_TOOL: Block = {
    "name": "none",
    "description": "There is no tool to be used now.",
    "input_schema": {"type": "object", "properties": {}},
}
"""Offered where a history has calls and the turn has no tools: the provider wants one to be defined."""

_tools: WeakKeyDictionary[Offer, bytes] = WeakKeyDictionary()
_USER = b'{"role":"user","content":[{"type":'
_ASSISTANT = b'{"role":"assistant","content":[{"type":'


def to_wire(
    request: ModelRequest, model: str = "", provider: str = "anthropic", options: Options = DEFAULT_OPTIONS
) -> bytes:
    """The body. `model` is the name on the wire, if it is not the request's own."""
    known = get_encode_cache(request, f"messages:{provider}")
    known.set_system(request.system, _encode_system)
    open_end, role = known.extend(request.history.items_from(known.count), MessagesEncoder(provider).encode_group)
    tools = _encode_tools(request.offer) or (_encoded_placeholder_tool if _has_calls(known, open_end) else b"")
    forced = bool(tools) and request.tool_choice not in ("auto", "none")
    thinks = bool(options.thinking) and not forced and (role == "assistant" or _may_think(known, open_end))
    return b"".join(
        (
            b'{"model":',
            encode_json(model or request.model),
            b',"stream":true,"max_tokens":',
            encode_json(choose_max_tokens(model or request.model, options, thinks=thinks)),
            b',"thinking":' + encode_json(_build_thinking(options)) if thinks else b"",
            tools and b',"tools":' + tools,
            known.system and b',"system":' + known.system,
            b',"messages":[',
            *_join_messages(known, open_end, role),
            b"]",
            tools and b',"tool_choice":' + encode_json(_build_tool_choice(request)),
            b"}",
        )
    )


def _build_thinking(options: Options) -> Block:
    budget = choose_thinking_tokens(options)
    return {"type": "enabled", "budget_tokens": budget} if budget else {"type": "adaptive"}


def _may_think(known: EncodeCache, open_end: bytes) -> bool:
    """In the middle of its calls a model goes on thinking only if it thought at their beginning.

    They begin after the last message from the user that does not begin with results.
    """
    messages = known.joined + open_end if open_end else known.joined
    asked = max(messages.rfind(_USER + kind) for kind in (b'"text"', b'"image"', b'"document"'))
    said = messages.find(_ASSISTANT, asked)
    return said < 0 or messages.startswith((b'"thinking"', b'"redacted_thinking"'), said + len(_ASSISTANT))


def _encode_system(text: str) -> bytes:
    return b"" if is_blank(text) else b"[" + encode_json(build_text_block(text))[:-1] + CACHE_MARK + b"}]"


def _join_messages(known: EncodeCache, open_end: bytes, role: str) -> list[bytes | memoryview]:
    """The messages, with a mark at the end of the newest ones from the user and at the end of those before."""
    newest = len(known.joined) if role == "user" and not open_end else 0
    marks = sorted({known.mark, newest} - {0})
    known.mark = newest or known.mark
    whole, start = memoryview(known.joined), 0
    pieces: list[bytes | memoryview] = []
    for mark in marks:
        pieces += [whole[start : mark - 1], CACHE_MARK]
        start = mark - 1
    pieces += [whole[start:], open_end]
    if role not in ("user", PAUSED):
        pieces.append(join_blocks([("user", build_text_block(CONTINUE_TEXT))], role)[0])
    return [*pieces, b"]}"]


def _has_calls(known: EncodeCache, open_end: bytes) -> bool:
    return b'"type":"tool_use"' in known.joined or b'"type":"tool_use"' in open_end


def _encode_tools(offer: Offer) -> bytes:
    """The tools as JSON, once for each offer, with a mark at the last one; empty if there are none."""
    known = _tools.get(offer)
    if known is None:
        shown = [block for tool in offer.tools if (block := _build_tool(tool)) is not None]
        known = _tools[offer] = encode_json(shown)[:-2] + CACHE_MARK + b"}]" if shown else b""
    return known


def _build_tool(tool: Tool) -> Block | None:
    if tool.venue == "provider":
        return _build_provider_tool(tool)
    block: Block = {"name": tool.name, "input_schema": convert(tool.parameters, "anthropic")}
    return block if is_blank(tool.description) else {**block, "description": tool.description}


def _build_provider_tool(tool: Tool) -> Block | None:
    """None for a tool that this provider does not have."""
    if tool.name == "code_execution":
        return {"type": "code_execution_20250825", "name": tool.name}
    if tool.name != "web_search":
        return None
    options = tool.options or ProviderOptions()
    block: Block = {"type": "web_search_20250305", "name": tool.name}
    if options.max_uses:
        block["max_uses"] = options.max_uses
    if options.user_location:
        block["user_location"] = {"type": "approximate", **msgspec.to_builtins(options.user_location)}
    if options.allowed_domains:  # the provider takes one list or the other
        allowed = [one for one in options.allowed_domains if one not in options.blocked_domains]
        return {**block, "allowed_domains": allowed} if allowed else None
    return {**block, "blocked_domains": list(options.blocked_domains)} if options.blocked_domains else block


def _build_tool_choice(request: ModelRequest) -> Block:
    if not _encode_tools(request.offer):
        return {"type": "none"}
    match request.tool_choice:
        case "auto" | "none" as plain:
            return {"type": plain}
        case "required":
            return {"type": "any"}
        case name:
            unknown = any(tool.name == name and _build_tool(tool) is None for tool in request.offer.tools)
            return {"type": "auto"} if unknown else {"type": "tool", "name": name}


_encoded_placeholder_tool = encode_json([PLACEHOLDER_TOOL])
