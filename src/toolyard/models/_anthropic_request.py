"""One turn's request → the bytes of a Messages body. Pure but for the memo, which keeps what is encoded.

Whatever the history, the body is one that the provider takes: roles alternate, the user begins, results come first and
right after their calls, no text is empty, and thinking goes back only where it came from and signed. What the
provider is to cache is marked at four places at most, and nothing else differs from one request to the next.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import TypeVar
from weakref import WeakKeyDictionary

import msgspec

from toolyard.core.items import Call, Item, ModelText, Reasoning, Result, Seal, SystemText, UserMessage
from toolyard.core.ports import ModelRequest, Offer
from toolyard.core.tools import ProviderOptions, Tool
from toolyard.models._anthropic_blocks import REDACTED, SealedCall, SealedResult
from toolyard.models._anthropic_parts import Block, is_blank, parts, text_block
from toolyard.models._dialects import convert
from toolyard.models._kept import NO_RESULT, Kept, kept
from toolyard.models._names import to_provider
from toolyard.models._unicode import encoded

MEMO = "anthropic"
PROVIDER = "anthropic"
MARK = b',"cache_control":{"type":"ephemeral"}'
LEFT_OUT = "[what was said before is left out]"
"""Begins a history that the model would begin."""
GO_ON = "[go on]"
"""Ends one that the model would end: its words would be taken for the beginning of its answer."""
PAUSED = "paused"
"""The role of a model's message that ends in its provider's own work: there the provider goes on."""
NO_TOOL: Block = {
    "name": "none",
    "description": "There is no tool to be used now.",
    "input_schema": {"type": "object", "properties": {}},
}
"""Offered where a history has calls and the turn has no tools: the provider wants one to be defined."""

_tools: WeakKeyDictionary[Offer, bytes] = WeakKeyDictionary()
_NOT_IN_AN_ID = re.compile(r"[^a-zA-Z0-9_-]")
_decode_pieces = msgspec.json.Decoder(list[tuple[int, list[dict[str, object]]]]).decode
_decode_call = msgspec.json.Decoder(SealedCall).decode
_decode_result = msgspec.json.Decoder(SealedResult).decode
_USER = b'{"role":"user","content":[{"type":'
_ASSISTANT = b'{"role":"assistant","content":[{"type":'
T = TypeVar("T")
RoleBlock = tuple[str, Block]


def to_wire(request: ModelRequest, model: str = "", *, max_tokens: int = 16_384, thinking_tokens: int = 0) -> bytes:
    """The body. `model` is the name on the wire, if it is not the request's own."""
    known = kept(request, MEMO)
    known.set_system(request.system, _encoded_system)
    open_end, role = known.extend(request.history.since(known.count), _encoded_group)
    tools = _encoded_tools(request.offer) or (_encoded_no_tool if _has_calls(known, open_end) else b"")
    forced = bool(tools) and request.tool_choice not in ("auto", "none")
    thinks = thinking_tokens > 0 and not forced and (role == "assistant" or _may_think(known.joined + open_end))
    return b"".join(
        (
            b'{"model":',
            encoded(model or request.model),
            b',"stream":true,"max_tokens":',
            encoded(max_tokens + (thinking_tokens if thinks else 0)),
            b',"thinking":' + encoded({"type": "enabled", "budget_tokens": thinking_tokens}) if thinks else b"",
            tools and b',"tools":' + tools,
            known.system and b',"system":' + known.system,
            b',"messages":[',
            *_messages(known, open_end, role),
            b"]",
            tools and b',"tool_choice":' + encoded(_tool_choice(request)),
            b"}",
        )
    )


def open_calls(history: Sequence[Item]) -> list[Call]:
    """The calls in the last group of the history that the provider has begun and goes on with in the next turn."""
    answered: set[str] = set()
    found: list[Call] = []
    called = False
    for number in range(len(history) - 1, -1, -1):
        match history[number]:
            case Result(call_id=call_id) if not called:
                answered.add(call_id)
            case Call() as call:
                called = True
                if call.ran_at == PROVIDER and call.id not in answered:
                    found.append(call)
            case _:
                break
    return found


def _may_think(messages: bytes | bytearray) -> bool:
    """In the middle of its calls a model goes on thinking only if it thought at their beginning.

    They begin after the last message from the user that does not begin with results.
    """
    asked = max(messages.rfind(_USER + kind) for kind in (b'"text"', b'"image"', b'"document"'))
    said = messages.find(_ASSISTANT, asked)
    return said < 0 or messages.startswith((b'"thinking"', b'"redacted_thinking"'), said + len(_ASSISTANT))


def _encoded_system(text: str) -> bytes:
    return b"" if is_blank(text) else b"[" + encoded(text_block(text))[:-1] + MARK + b"}]"


def _messages(known: Kept, open_end: bytes, role: str) -> list[bytes | memoryview]:
    """The messages, with a mark at the end of the newest ones from the user and at the end of those before."""
    newest = len(known.joined) if role == "user" and not open_end else 0
    marks = sorted({known.mark, newest} - {0})
    known.mark = newest or known.mark
    whole, start = memoryview(known.joined), 0
    pieces: list[bytes | memoryview] = []
    for mark in marks:
        pieces += [whole[start : mark - 1], MARK]
        start = mark - 1
    pieces += [whole[start:], open_end]
    if role not in ("user", PAUSED):
        pieces.append(_joined([("user", text_block(GO_ON))], role)[0])
    return [*pieces, b"]}"]


def _encoded_group(group: Sequence[Item], role: str, last: bool) -> tuple[bytes, str]:
    blocks = list(_blocks(group, last))
    if not blocks:
        return b"", role
    if not role and blocks[0][0] == "assistant":
        blocks.insert(0, ("user", text_block(LEFT_OUT)))
    joined, role = _joined(blocks, role)
    return joined, PAUSED if role == "assistant" and _is_servers(blocks[-1][1]) else role


def _is_servers(block: Block) -> bool:
    return block["type"] == "server_tool_use" or str(block["type"]).endswith("_tool_result")


def _joined(blocks: Iterable[RoleBlock], role: str) -> tuple[bytes, str]:
    """The blocks after those of a message of this role, which is still open, as the new last one will be."""
    pieces: list[bytes] = []
    role = "assistant" if role == PAUSED else role
    for next_role, run in groupby(blocks, key=lambda one: one[0]):
        body = b",".join([encoded(block) for _, block in run])
        if next_role == role:
            pieces.append(b"," + body)
        else:
            closed = b"]}," if role else b""
            pieces.append(closed + b'{"role":"' + next_role.encode() + b'","content":[' + body)
        role = next_role
    return b"".join(pieces), role


def _blocks(group: Sequence[Item], last: bool) -> Iterable[RoleBlock]:
    first = group[0]
    if isinstance(first, SystemText):
        return [] if is_blank(first.text) else [("user", text_block(f"<system>\n{first.text}\n</system>"))]
    if isinstance(first, UserMessage):
        return [("user", block) for block in parts(first)]
    calls = {item.id: item for item in group if isinstance(item, Call) and not _sealed_call(item)}
    results = {item.call_id: item for item in reversed(group) if isinstance(item, Result)}
    said = [*_said(group, last), *(_tool_use(call) for call in calls.values())]
    while said and said[-1]["type"] in ("thinking", "redacted_thinking"):
        said.pop()
    answers = [_tool_result(call, results.get(call.id)) for call in calls.values()]
    return [*(("assistant", block) for block in said), *(("user", block) for block in answers)]


def _said(group: Sequence[Item], last: bool) -> Iterator[Block]:
    """What the model and its provider said, in their order; the calls that were ours to run are not among it."""
    going_on = {call.id for call in open_calls(group)} if last else set[str]()
    waiting: dict[str, Call] = {}
    for number, item in enumerate(group):
        match item:
            case ModelText():
                yield from _text(item)
            case Reasoning() if block := _thought(item):
                yield block
            case Call() if sealed := _sealed_call(item):
                if item.id in going_on or _answered(item, group[number:]):
                    waiting[item.id] = item
                    yield _server_tool_use(item, sealed)
            case Result() if (found := _sealed_result(item)) and (call := waiting.pop(item.call_id, None)):
                yield {"type": found.type, "tool_use_id": call.provider_id, "content": found.content}
            case _:
                pass


def _answered(call: Call, rest: Sequence[Item]) -> bool:
    return any(isinstance(item, Result) and item.call_id == call.id and _sealed_result(item) for item in rest)


def _text(item: ModelText) -> list[Block]:
    """A text in the blocks that its citations belong to."""
    pieces = _unsealed(item.seal, _decode_pieces) or [(len(item.text), list[dict[str, object]]())]
    blocks: list[Block] = []
    start = 0
    for length, citations in pieces:
        text = item.text[start : start + length]
        start += length
        if not is_blank(text):
            blocks.append({**text_block(text), "citations": citations} if citations else text_block(text))
    return blocks


def _thought(item: Reasoning) -> Block | None:
    if item.provider != PROVIDER or not item.signature:
        return None
    if item.signature.startswith(REDACTED):
        return {"type": "redacted_thinking", "data": item.signature[len(REDACTED) :]}
    return {"type": "thinking", "thinking": item.text, "signature": item.signature}


def _sealed_call(call: Call) -> SealedCall | None:
    """What the provider calls it, if it was the provider's own; any other is sent as one of ours."""
    return _unsealed(call.seal, _decode_call) if call.ran_at == PROVIDER else None


def _sealed_result(result: Result) -> SealedResult | None:
    return _unsealed(result.seal, _decode_result) if result.ran_at == PROVIDER else None


def _unsealed(seal: Seal | None, decode: Callable[[str], T]) -> T | None:
    if seal is None or seal.provider != PROVIDER:
        return None
    try:
        return decode(seal.data)
    except msgspec.DecodeError:
        return None


def _server_tool_use(call: Call, sealed: SealedCall) -> Block:
    block: Block = {"type": "server_tool_use", "id": call.provider_id, "name": sealed.name, "input": call.arguments}
    return block if sealed.caller is None else {**block, "caller": sealed.caller}


def _tool_use(call: Call) -> Block:
    return {"type": "tool_use", "id": _id(call.id), "name": to_provider(call.tool), "input": call.arguments}


def _tool_result(call: Call, result: Result | None) -> Block:
    block: Block = {"type": "tool_result", "tool_use_id": _id(call.id)}
    content = result.content if result else NO_RESULT
    if not is_blank(content):
        block["content"] = content
    return block if result and result.outcome == "ok" else {**block, "is_error": True}


def _id(call_id: str) -> str:
    return _NOT_IN_AN_ID.sub("_", call_id) or "_"


def _has_calls(known: Kept, open_end: bytes) -> bool:
    return b'"type":"tool_use"' in known.joined or b'"type":"tool_use"' in open_end


def _encoded_tools(offer: Offer) -> bytes:
    """The tools as JSON, once for each offer, with a mark at the last one; empty if there are none."""
    known = _tools.get(offer)
    if known is None:
        shown = [block for tool in offer.tools if (block := _tool(tool)) is not None]
        known = _tools[offer] = encoded(shown)[:-2] + MARK + b"}]" if shown else b""
    return known


def _tool(tool: Tool) -> Block | None:
    if tool.venue == "provider":
        return _provider_tool(tool)
    block: Block = {"name": tool.name, "input_schema": convert(tool.parameters, "anthropic")}
    return block if is_blank(tool.description) else {**block, "description": tool.description}


def _provider_tool(tool: Tool) -> Block | None:
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


def _tool_choice(request: ModelRequest) -> Block:
    if not _encoded_tools(request.offer):
        return {"type": "none"}
    match request.tool_choice:
        case "auto" | "none" as plain:
            return {"type": plain}
        case "required":
            return {"type": "any"}
        case name:
            unknown = any(tool.name == name and _tool(tool) is None for tool in request.offer.tools)
            return {"type": "auto"} if unknown else {"type": "tool", "name": name}


_encoded_no_tool = encoded([NO_TOOL])
