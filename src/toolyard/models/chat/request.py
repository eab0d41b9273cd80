"""One turn's request → the bytes of a Chat Completions body. Pure but for the memo, which keeps what is encoded.

An item is encoded once: what earlier turns encoded is joined in as bytes, so that a turn costs what it adds. The
messages come last but for what may change from turn to turn, so each body begins with the bytes of the one before.
Whatever the history, the body is one that a strict provider takes: a call without a result gets a stand-in, a result
without its call is left out.
"""

from collections.abc import Sequence
from functools import partial
from typing import assert_never
from weakref import WeakKeyDictionary

import msgspec
from msgspec import Struct

from toolyard.core.items import (
    Call,
    FilePart,
    ImagePart,
    Item,
    ModelText,
    Part,
    Reasoning,
    Result,
    SystemText,
    TextPart,
    UserMessage,
)
from toolyard.core.options import PLAIN, Options
from toolyard.core.ports import ModelRequest, Offer
from toolyard.core.tools import Tool
from toolyard.models.chat.reasoning_details import details_of
from toolyard.models.encode_cache import NO_RESULT, kept
from toolyard.models.files import inline
from toolyard.models.images import address_of, as_shown, images_of, sees
from toolyard.models.schema_dialects import convert
from toolyard.models.tool_names import to_provider
from toolyard.models.unicode import encoded

MEMO = "openai_chat"
NOTHING = "[no text]"
"""Stands in for a message without a word: not everybody takes one."""


class Manners(Struct, frozen=True, kw_only=True):
    """What a provider takes of what OpenAI does."""

    forced_choice: bool = True
    """That the model must call, or call this tool."""
    files: bool = True
    """PDFs; a text is told in its own words."""
    max_tokens: str = "max_completion_tokens"
    """What the bound of an answer is called."""
    budgets: bool = False
    """How much it thinks is said in tokens, not as an effort."""
    thought: str = ""
    """Where the thought before a call goes back, for who refuses the call without it; empty if nowhere."""
    details: bool = False
    """A thought goes back as it came, to the model that signed it."""


OPENAI, OTHERS = Manners(), Manners(max_tokens="max_tokens")
MANNERS = {
    "dashscope": Manners(forced_choice=False, files=False, max_tokens="max_tokens", budgets=True),
    "ollama": OTHERS,
    "deepseek": Manners(max_tokens="max_tokens", thought="reasoning_content"),
    "openrouter": Manners(max_tokens="max_tokens", details=True),
}
_encoder = msgspec.json.Encoder()
_tools: WeakKeyDictionary[Offer, bytes] = WeakKeyDictionary()


def to_wire(request: ModelRequest, model: str = "", provider: str = "openai", options: Options = PLAIN) -> bytes:
    """The body. `model` is the name on the wire, if it is not the request's own."""
    manners = MANNERS.get(provider, OPENAI)
    to = _To(provider, model or request.model, manners, sees(model or request.model))
    known = kept(request, _memo(to))
    known.set_system(request.system, _encoded_system)
    open_end, _ = known.extend(request.history.since(known.count), partial(_encoded_group, to))
    messages: list[bytes | bytearray | memoryview] = [part for part in (known.system, known.joined, open_end) if part]
    if messages:
        messages[-1] = memoryview(messages[-1])[:-1]  # without the last comma
    tools = _encoded_tools(request.offer)
    return b"".join(
        (
            b'{"model":',
            _encoder.encode(to.model),
            b',"stream":true,"stream_options":{"include_usage":true}',
            b"" if options is PLAIN else _encoded_options(options, manners),
            tools and b',"tools":',
            tools,
            b',"messages":[',
            *messages,
            b"]",
            tools and b',"tool_choice":' + _tool_choice(request.tool_choice, manners),
            b"}",
        )
    )


class _To(Struct, frozen=True):
    """Whom a request is for."""

    provider: str
    model: str
    manners: Manners
    looks: bool
    """The model looks at images."""


def _memo(to: _To) -> str:
    """Providers that are sent the same share what is kept."""
    whose = f":{to.provider}" if to.manners.thought or to.manners.details else ""
    which = f":{to.model}" if to.manners.details else ""
    return MEMO + whose + which + (":looks" if to.looks else "") + ("" if to.manners.files else ":no files")


def _encoded_options(options: Options, manners: Manners) -> bytes:
    given: dict[str, object] = {}
    if options.max_tokens:
        given[manners.max_tokens] = options.max_tokens
    if options.temperature is not None:
        given["temperature"] = options.temperature
    if options.thinking and manners.budgets:
        given["enable_thinking"] = True
        if options.budget:
            given["thinking_budget"] = options.budget
    elif options.effort:
        given["reasoning_effort"] = options.effort
    return b"," + _encoder.encode(given)[1:-1] if given else b""


def _encoded_system(text: str) -> bytes:
    return encoded({"role": "system", "content": text}) + b","


def _encoded_group(to: _To, group: Sequence[Item], role: str, last: bool) -> tuple[bytes, str]:
    """The messages of a group, each with a comma after it."""
    return b"".join([encoded(message) + b"," for message in _messages(group, to)]), role


def _messages(group: Sequence[Item], to: _To) -> list[dict[str, object]]:
    first, manners = group[0], to.manners
    if isinstance(first, SystemText):
        return [{"role": "system", "content": first.text or NOTHING}]
    if isinstance(first, UserMessage):
        return [{"role": "user", "content": _content(first, manners)}]
    texts = [item.text for item in group if isinstance(item, ModelText) and item.text]
    calls = {item.id: item for item in group if isinstance(item, Call)}
    if not texts and not calls:
        return []
    said: dict[str, object] = {"role": "assistant", "content": "\n\n".join(texts) if texts else None}
    if manners.details and (details := details_of(group, to.provider, to.model)):
        said["reasoning_details"] = details
    if calls:
        if manners.thought:
            said[manners.thought] = _thought(group, to.provider)
        said["tool_calls"] = [_call(call) for call in calls.values()]
    results = {item.call_id: item for item in reversed(group) if isinstance(item, Result)}
    told = {call_id: result.content for call_id, result in results.items()}
    answers: list[dict[str, object]] = [
        {"role": "tool", "tool_call_id": call_id, "content": told.get(call_id, NO_RESULT)} for call_id in calls
    ]
    return [said, *answers, *(_images([results[one] for one in calls if one in results]) if to.looks else ())]


def _thought(group: Sequence[Item], provider: str) -> str:
    """What this provider thought before it called; empty, but there, if it was another who called."""
    return "\n\n".join([item.text for item in group if isinstance(item, Reasoning) and item.provider == provider])


def _images(results: Sequence[Result]) -> list[dict[str, object]]:
    """A result is words here: its images come right after, as if the user showed them."""
    parts: list[dict[str, object]] = []
    for result in results:
        shown = images_of(result)
        if shown:
            parts.append({"type": "text", "text": f"[images in the result of {result.tool}]"})
        for image in shown:
            parts.append({"type": "image_url", "image_url": {"url": image.url}})
    return [{"role": "user", "content": parts}] if parts else []


def _call(call: Call) -> dict[str, object]:
    arguments = encoded(call.arguments).decode()
    return {"id": call.id, "type": "function", "function": {"name": to_provider(call.tool), "arguments": arguments}}


def _content(message: UserMessage, manners: Manners) -> object:
    if all(isinstance(part, TextPart) for part in message.parts):
        return message.text or NOTHING
    return [_part(part, manners) for part in message.parts]


def _part(part: Part, manners: Manners) -> dict[str, object]:
    match part := as_shown(part):
        case TextPart():
            return {"type": "text", "text": part.text or NOTHING}
        case ImagePart():
            url, words = address_of(part.url)
            return {"type": "image_url", "image_url": {"url": url}} if url else {"type": "text", "text": words}
        case FilePart() if file := inline(part):
            if not (file.is_pdf and manners.files):
                return {"type": "text", "text": file.told}
            return {"type": "file", "file": {"file_data": file.url, "filename": file.name or "file"}}
        case FilePart():
            return {"type": "text", "text": f"[file {part.name}: {part.url}]" if part.name else f"[file: {part.url}]"}
        case _:
            assert_never(part)


def _encoded_tools(offer: Offer) -> bytes:
    """The tools as JSON, once for each offer; empty if there are none. A provider's own tools have no place here."""
    kept = _tools.get(offer)
    if kept is None:
        shown = [_tool(tool) for tool in offer.tools if tool.venue != "provider"]
        kept = _tools[offer] = encoded(shown) if shown else b""
    return kept


def _tool(tool: Tool) -> dict[str, object]:
    described = {"description": tool.description} if tool.description else {}
    return {
        "type": "function",
        "function": {"name": tool.name, **described, "parameters": convert(tool.parameters, "openai")},
    }


def _tool_choice(choice: str, manners: Manners) -> bytes:
    if choice not in ("auto", "none") and not manners.forced_choice:
        return b'"auto"'
    if choice in ("auto", "none", "required"):
        return _encoder.encode(choice)
    return _encoder.encode({"type": "function", "function": {"name": choice}})
