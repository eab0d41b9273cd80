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
from toolyard.core.options import DEFAULT_OPTIONS, Options
from toolyard.core.ports import ModelRequest, Offer
from toolyard.core.tools import Tool
from toolyard.models.chat.reasoning_details import collect_details
from toolyard.models.encode_cache import NO_RESULT, get_encode_cache
from toolyard.models.files import parse_inline_file
from toolyard.models.images import convert_image_file, list_images, resolve_image_url, supports_images
from toolyard.models.schema_dialects import convert
from toolyard.models.tool_names import to_provider_name
from toolyard.models.unicode import encode_json

CACHE_KEY = "openai_chat"
EMPTY_TEXT = "[no text]"
"""Stands in for a message without a word: not everybody takes one."""


class ChatQuirks(Struct, frozen=True, kw_only=True):
    """What a provider takes of what OpenAI does."""

    forced_choice: bool = True
    """That the model must call, or call this tool."""
    accepts_files: bool = True
    """PDFs; a text is told in its own words."""
    max_tokens_field: str = "max_completion_tokens"
    """What the bound of an answer is called."""
    uses_budgets: bool = False
    """How much it thinks is said in tokens, not as an effort."""
    reasoning_field: str = ""
    """Where the thought before a call goes back, for who refuses the call without it; empty if nowhere."""
    returns_details: bool = False
    """A thought goes back as it came, to the model that signed it."""


OPENAI_QUIRKS, COMPATIBLE_QUIRKS = ChatQuirks(), ChatQuirks(max_tokens_field="max_tokens")
QUIRKS = {
    "dashscope": ChatQuirks(forced_choice=False, accepts_files=False, max_tokens_field="max_tokens", uses_budgets=True),
    "ollama": COMPATIBLE_QUIRKS,
    "deepseek": ChatQuirks(max_tokens_field="max_tokens", reasoning_field="reasoning_content"),
    "openrouter": ChatQuirks(max_tokens_field="max_tokens", returns_details=True),
}
_encoder = msgspec.json.Encoder()
_tools: WeakKeyDictionary[Offer, bytes] = WeakKeyDictionary()


def to_wire(
    request: ModelRequest, model: str = "", provider: str = "openai", options: Options = DEFAULT_OPTIONS
) -> bytes:
    """The body. `model` is the name on the wire, if it is not the request's own."""
    manners = QUIRKS.get(provider, OPENAI_QUIRKS)
    to = _ChatTarget(provider, model or request.model, manners, supports_images(model or request.model))
    known = get_encode_cache(request, _build_cache_key(to))
    known.set_system(request.system, _encode_system)
    open_end, _ = known.extend(request.history.items_from(known.count), partial(_encode_group, to))
    messages: list[bytes | bytearray | memoryview] = [part for part in (known.system, known.joined, open_end) if part]
    if messages:
        messages[-1] = memoryview(messages[-1])[:-1]  # without the last comma
    tools = _encode_tools(request.offer)
    return b"".join(
        (
            b'{"model":',
            _encoder.encode(to.model),
            b',"stream":true,"stream_options":{"include_usage":true}',
            b"" if options is DEFAULT_OPTIONS else _encode_options(options, manners),
            tools and b',"tools":',
            tools,
            b',"messages":[',
            *messages,
            b"]",
            tools and b',"tool_choice":' + _encode_tool_choice(request.tool_choice, manners),
            b"}",
        )
    )


class _ChatTarget(Struct, frozen=True):
    """Whom a request is for."""

    provider: str
    model: str
    quirks: ChatQuirks
    supports_images: bool
    """The model looks at images."""


def _build_cache_key(target: _ChatTarget) -> str:
    """Providers that are sent the same share what is kept."""
    whose = f":{target.provider}" if target.quirks.reasoning_field or target.quirks.returns_details else ""
    which = f":{target.model}" if target.quirks.returns_details else ""
    return (
        CACHE_KEY
        + whose
        + which
        + (":looks" if target.supports_images else "")
        + ("" if target.quirks.accepts_files else ":no files")
    )


def _encode_options(options: Options, quirks: ChatQuirks) -> bytes:
    given: dict[str, object] = {}
    if options.max_tokens:
        given[quirks.max_tokens_field] = options.max_tokens
    if options.temperature is not None:
        given["temperature"] = options.temperature
    if options.thinking and quirks.uses_budgets:
        given["enable_thinking"] = True
        if options.budget:
            given["thinking_budget"] = options.budget
    elif options.effort:
        given["reasoning_effort"] = options.effort
    return b"," + _encoder.encode(given)[1:-1] if given else b""


def _encode_system(text: str) -> bytes:
    return encode_json({"role": "system", "content": text}) + b","


def _encode_group(target: _ChatTarget, group: Sequence[Item], role: str, last: bool) -> tuple[bytes, str]:
    """The messages of a group, each with a comma after it."""
    return b"".join([encode_json(message) + b"," for message in _build_messages(group, target)]), role


def _build_messages(group: Sequence[Item], target: _ChatTarget) -> list[dict[str, object]]:
    first, manners = group[0], target.quirks
    if isinstance(first, SystemText):
        return [{"role": "system", "content": first.text or EMPTY_TEXT}]
    if isinstance(first, UserMessage):
        return [{"role": "user", "content": _build_content(first, manners)}]
    texts = [item.text for item in group if isinstance(item, ModelText) and item.text]
    calls = {item.id: item for item in group if isinstance(item, Call)}
    if not texts and not calls:
        return []
    said: dict[str, object] = {"role": "assistant", "content": "\n\n".join(texts) if texts else None}
    if manners.returns_details and (details := collect_details(group, target.provider, target.model)):
        said["reasoning_details"] = details
    if calls:
        if manners.reasoning_field:
            said[manners.reasoning_field] = _join_reasoning(group, target.provider)
        said["tool_calls"] = [_build_call(call) for call in calls.values()]
    results = {item.call_id: item for item in reversed(group) if isinstance(item, Result)}
    told = {call_id: result.content for call_id, result in results.items()}
    answers: list[dict[str, object]] = [
        {"role": "tool", "tool_call_id": call_id, "content": told.get(call_id, NO_RESULT)} for call_id in calls
    ]
    return [
        said,
        *answers,
        *(_build_image_messages([results[one] for one in calls if one in results]) if target.supports_images else ()),
    ]


def _join_reasoning(group: Sequence[Item], provider: str) -> str:
    """What this provider thought before it called; empty, but there, if it was another who called."""
    return "\n\n".join([item.text for item in group if isinstance(item, Reasoning) and item.provider == provider])


def _build_image_messages(results: Sequence[Result]) -> list[dict[str, object]]:
    """A result is words here: its images come right after, as if the user showed them."""
    parts: list[dict[str, object]] = []
    for result in results:
        shown = list_images(result)
        if shown:
            parts.append({"type": "text", "text": f"[images in the result of {result.tool}]"})
        for image in shown:
            parts.append({"type": "image_url", "image_url": {"url": image.url}})
    return [{"role": "user", "content": parts}] if parts else []


def _build_call(call: Call) -> dict[str, object]:
    arguments = encode_json(call.arguments).decode()
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": to_provider_name(call.tool), "arguments": arguments},
    }


def _build_content(message: UserMessage, quirks: ChatQuirks) -> object:
    if all(isinstance(part, TextPart) for part in message.parts):
        return message.text or EMPTY_TEXT
    return [_build_part(part, quirks) for part in message.parts]


def _build_part(part: Part, quirks: ChatQuirks) -> dict[str, object]:
    match part := convert_image_file(part):
        case TextPart():
            return {"type": "text", "text": part.text or EMPTY_TEXT}
        case ImagePart():
            url, words = resolve_image_url(part.url)
            return {"type": "image_url", "image_url": {"url": url}} if url else {"type": "text", "text": words}
        case FilePart() if file := parse_inline_file(part):
            if not (file.is_pdf and quirks.accepts_files):
                return {"type": "text", "text": file.prompt_text}
            return {"type": "file", "file": {"file_data": file.url, "filename": file.name or "file"}}
        case FilePart():
            return {"type": "text", "text": f"[file {part.name}: {part.url}]" if part.name else f"[file: {part.url}]"}
        case _:
            assert_never(part)


def _encode_tools(offer: Offer) -> bytes:
    """The tools as JSON, once for each offer; empty if there are none. A provider's own tools have no place here."""
    kept = _tools.get(offer)
    if kept is None:
        shown = [_build_tool(tool) for tool in offer.tools if tool.venue != "provider"]
        kept = _tools[offer] = encode_json(shown) if shown else b""
    return kept


def _build_tool(tool: Tool) -> dict[str, object]:
    described = {"description": tool.description} if tool.description else {}
    return {
        "type": "function",
        "function": {"name": tool.name, **described, "parameters": convert(tool.parameters, "openai")},
    }


def _encode_tool_choice(choice: str, quirks: ChatQuirks) -> bytes:
    if choice not in ("auto", "none") and not quirks.forced_choice:
        return b'"auto"'
    if choice in ("auto", "none", "required"):
        return _encoder.encode(choice)
    return _encoder.encode({"type": "function", "function": {"name": choice}})
