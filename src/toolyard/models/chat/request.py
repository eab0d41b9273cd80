"""Encodes one turn's request as a Chat Completions body. Pure but for the memo, which caches encoded items.

An item is encoded once; the bytes of earlier turns are joined in. What may change from turn to turn (`tool_choice`, the
options) follows the messages, so a body begins with the bytes of the one before and providers can cache that prefix.
The body is valid for a strict provider with any history: a call without a result gets a placeholder, and a result
without its call is left out.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from itertools import takewhile
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
from toolyard.core.ports import ModelRequest, Offer
from toolyard.core.settings.models.options import DEFAULT_OPTIONS, Options, allows_any_object
from toolyard.core.tools.definition import Tool
from toolyard.models.chat.reasoning_details import collect_details
from toolyard.models.http.problems import WireFailure
from toolyard.models.providers import PROVIDERS, UNKNOWN_PROVIDER, ChatQuirks
from toolyard.models.schema_dialects import convert
from toolyard.models.shared.attachments import (
    convert_image_file,
    list_images,
    parse_inline_file,
    resolve_image_url,
    supports_images,
)
from toolyard.models.shared.encode_cache import NO_RESULT, EncodeCache, Piece, get_encode_cache
from toolyard.models.shared.json_values import encode_json
from toolyard.models.shared.option_support import (
    NO_OPTIONS,
    add_output_prompt,
    build_openai_format,
    encode_parallel_calls,
    find_refused_extras,
    find_unsupported,
    select_extras,
)
from toolyard.models.shared.tool_names import to_provider_name

CACHE_KEY = "openai_chat"
EMPTY_TEXT = "[no text]"
"""Replaces an empty message, which some providers refuse."""
_encoder = msgspec.json.Encoder()
_TEXT_HEADS: Mapping[type[Item], bytes] = {
    SystemText: b'{"role":"system","content":',
    UserMessage: b'{"role":"user","content":',
    ModelText: b'{"role":"assistant","content":',
}
# Encoded tools by offer, weakly: an entry goes when the last conversation drops its offer.
_tools: WeakKeyDictionary[Offer, bytes] = WeakKeyDictionary()


def to_wire(
    request: ModelRequest, model: str = "", provider: str = "openai", forward: frozenset[str] = NO_OPTIONS
) -> bytes:
    """Return the body. `model` is the name on the wire; if it is empty, the request's. Raises WireFailure."""
    target = _build_target(provider, model or request.model)
    quirks = target.quirks
    options = b"" if request.options is DEFAULT_OPTIONS else _encode_options(request.options, target, forward)
    cache = _get_cache(request, target)
    cache.set_system(_build_system(request, quirks), _encode_system)
    open_end, _ = cache.extend(request.history)
    messages: list[Piece] = [cache.system] if cache.system else []
    messages += _join_history(cache, open_end, request, target)
    if messages:
        messages[-1] = memoryview(messages[-1])[:-1]  # without the last comma
    tools = _encode_tools(request.offer)
    return b"".join(
        (
            b'{"model":',
            target.encoded_model,
            b',"stream":true,"stream_options":{"include_usage":true}',
            tools and b',"tools":',
            tools,
            b',"messages":[',
            *messages,
            b"]",
            tools and b',"tool_choice":' + _encode_tool_choice(request.tool_choice, quirks),
            tools and encode_parallel_calls(request.options),
            options,
            b"}",
        )
    )


class _ChatTarget(Struct, frozen=True):
    """The provider and model that a request is encoded for."""

    provider: str
    model: str
    quirks: ChatQuirks
    supports_images: bool
    """Whether the model accepts images."""
    cache_key: str
    """The key of the encode cache. Targets whose messages have the same bytes share it."""
    encoded_model: bytes


def open_cache(request: ModelRequest, model: str, provider: str) -> EncodeCache:
    """Return the cache that `to_wire` encodes the request's history with."""
    return _get_cache(request, _build_target(provider, model or request.model))


def _get_cache(request: ModelRequest, target: _ChatTarget) -> EncodeCache:
    return get_encode_cache(request, target.cache_key, partial(_encode_group, target))


@lru_cache(maxsize=256)  # the same for every turn with a model
def _build_target(provider: str, model: str) -> _ChatTarget:
    quirks, accepts_images = PROVIDERS.get(provider, UNKNOWN_PROVIDER).quirks, supports_images(model)
    # Reasoning goes back only to its provider (or, signed, only to its model), and images and files are encoded only
    # for targets that accept them: each of these must be part of the key.
    key_parts = (
        CACHE_KEY,
        f":{provider}" if quirks.reasoning_field or quirks.returns_details else "",
        f":{model}" if quirks.returns_details else "",
        ":looks" if accepts_images else "",
        "" if quirks.accepts_files else ":no files",
    )
    return _ChatTarget(provider, model, quirks, accepts_images, "".join(key_parts), _encoder.encode(model))


def _build_system(request: ModelRequest, quirks: ChatQuirks) -> str:
    schema = request.options.output_schema
    if schema is None or not _uses_json_mode(schema, quirks):
        return request.system
    return add_output_prompt(request.system, schema)  # in JSON mode, providers require the word in a message


def _uses_json_mode(schema: dict[str, object], quirks: ChatQuirks) -> bool:
    return allows_any_object(schema) or not quirks.has_output_schemas


def _build_response_format(schema: dict[str, object], quirks: ChatQuirks) -> dict[str, object]:
    if _uses_json_mode(schema, quirks):
        return {"type": "json_object"}
    return {"type": "json_schema", "json_schema": build_openai_format(schema)}


def select_sent_extras(options: Options, model: str, provider: str, forward: frozenset[str]) -> dict[str, object]:
    """Return the extra options that are sent."""
    if not options.extra:
        return {}
    names = PROVIDERS.get(provider, UNKNOWN_PROVIDER).quirks.extra_options
    return select_extras(options, names - find_refused_extras(model), forward)


def _encode_options(options: Options, target: _ChatTarget, forward: frozenset[str]) -> bytes:
    quirks = target.quirks
    if problem := find_unsupported(options, quirks.missing_options, target.provider):
        raise WireFailure(problem)
    fields = {**_build_sampling(options), **select_sent_extras(options, target.model, target.provider, forward)}
    if options.output_schema is not None:
        fields["response_format"] = _build_response_format(options.output_schema, quirks)
    if options.max_tokens:
        fields[quirks.max_tokens_field] = options.max_tokens
    if options.thinking and quirks.uses_budgets:
        fields["enable_thinking"] = True
        if options.budget:
            fields["thinking_budget"] = options.budget
    elif options.effort:
        fields["reasoning_effort"] = options.effort if quirks.has_every_effort else options.plain_effort
    return b"," + _encoder.encode(fields)[1:-1] if fields else b""


def _build_sampling(options: Options) -> dict[str, object]:
    fields: dict[str, object] = {}
    if options.temperature is not None:
        fields["temperature"] = options.temperature
    if options.top_p is not None:
        fields["top_p"] = options.top_p
    if options.stop:
        fields["stop"] = options.stop
    if options.seed is not None:
        fields["seed"] = options.seed
    return fields


def _encode_system(text: str) -> bytes:
    return encode_json({"role": "system", "content": text}) + b","


def _join_history(cache: EncodeCache, open_end: bytes, request: ModelRequest, target: _ChatTarget) -> list[Piece]:
    """Return the messages of the history, after one with the user's own instructions.

    Where roles have to alternate, the instructions join the first message after the system texts that begin the
    history, if it is the user's.
    """
    history: list[Piece] = [part for part in (cache.joined, open_end) if part]
    instructions, head = request.instructions, _TEXT_HEADS[UserMessage]
    if not instructions:
        return history
    if not (target.quirks.alternates_roles and history):
        return [head + encode_json(instructions) + b"},", *history]
    system_texts = takewhile(lambda item: type(item) is SystemText, request.history)
    begin = sum(len(_encode_group(target, (item,), "", False)[0]) for item in system_texts)
    first = memoryview(history[0])[begin:]
    opening = bytes(first[: len(head) + 1])
    if opening == head + b'"':
        joined = [head, encode_json(f"{instructions}\n\n")[:-1], first[len(head) + 1 :]]
    elif opening == head + b"[":  # the content is a list of parts
        joined = [head, b"[", encode_json({"type": "text", "text": instructions}), b",", first[len(head) + 1 :]]
    else:
        joined = [head, encode_json(instructions), b"},", first]
    return [piece for piece in (memoryview(history[0])[:begin], *joined, *history[1:]) if piece]


def _encode_group(target: _ChatTarget, group: Sequence[Item], role: str, last: bool) -> tuple[bytes, str]:
    """Return the messages of a group, each followed by a comma."""
    if len(group) == 1 and (encoded := _encode_text(group[0])):
        return encoded, role
    return b"".join([encode_json(message) + b"," for message in _build_messages(group, target)]), role


def _encode_text(item: Item) -> bytes:
    """Return the message of an item that is only a text, as most are that a client sends; else nothing."""
    if type(item) is UserMessage:
        text = part.text if len(item.parts) == 1 and type(part := item.parts[0]) is TextPart else ""
    else:
        text = item.text if type(item) is ModelText or type(item) is SystemText else ""
    try:
        return b"%b%b}," % (_TEXT_HEADS[type(item)], _encoder.encode(text)) if text else b""
    except UnicodeEncodeError:
        return b""


def _build_messages(group: Sequence[Item], target: _ChatTarget) -> list[dict[str, object]]:
    first, quirks = group[0], target.quirks
    if type(first) is SystemText:
        return [{"role": "system", "content": first.text or EMPTY_TEXT}]
    if type(first) is UserMessage:
        return [{"role": "user", "content": _build_content(first, quirks)}]
    texts, calls, results = _sort_items(group)
    if not texts and not calls:
        return []
    message: dict[str, object] = {"role": "assistant", "content": "\n\n".join(texts) if texts else None}
    if quirks.returns_details and (details := collect_details(group, target.provider, target.model)):
        message["reasoning_details"] = details
    if calls:
        if quirks.reasoning_field:
            message[quirks.reasoning_field] = _join_reasoning(group, target.provider)
        message["tool_calls"] = [_build_call(call) for call in calls.values()]
    messages = [message]
    for call_id in calls:
        content = results[call_id].content if call_id in results else NO_RESULT
        messages.append({"role": "tool", "tool_call_id": call_id, "content": content})
    if target.supports_images:
        messages += _build_image_messages([results[call_id] for call_id in calls if call_id in results])
    return messages


def _sort_items(group: Sequence[Item]) -> tuple[list[str], dict[str, Call], dict[str, Result]]:
    """Return the texts of a group, its calls by their ids, and the first result of each call."""
    texts: list[str] = []
    calls: dict[str, Call] = {}
    results: dict[str, Result] = {}
    for item in group:
        if type(item) is Call:
            calls[item.id] = item
        elif type(item) is Result:
            results.setdefault(item.call_id, item)
        elif type(item) is ModelText and item.text:
            texts.append(item.text)
    return texts, calls, results


def _join_reasoning(group: Sequence[Item], provider: str) -> str:
    """Return this provider's reasoning in a group. The field must exist even if another provider made the call."""
    return "\n\n".join([item.text for item in group if isinstance(item, Reasoning) and item.provider == provider])


def _build_image_messages(results: Sequence[Result]) -> list[dict[str, object]]:
    """Return the images of results as a user message: a `tool` message can only hold text."""
    parts: list[dict[str, object]] = []
    for result in results:
        images = list_images(result)
        if images:
            parts.append({"type": "text", "text": f"[images in the result of {result.tool}]"})
        for image in images:
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
    parts = message.parts
    if len(parts) == 1 and isinstance(parts[0], TextPart):
        return parts[0].text or EMPTY_TEXT
    if all(isinstance(part, TextPart) for part in parts):
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
    """Return the tools as JSON, encoded once for each offer; empty if there are none. This API runs no native tools."""
    encoded = _tools.get(offer)
    if encoded is None:
        functions = [_build_tool(tool) for tool in offer.tools if tool.venue != "provider"]
        encoded = _tools[offer] = encode_json(functions) if functions else b""
    return encoded


def _build_tool(tool: Tool) -> dict[str, object]:
    description = {"description": tool.description} if tool.description else {}
    return {
        "type": "function",
        "function": {"name": tool.name, **description, "parameters": convert(tool.parameters, "openai")},
    }


def _encode_tool_choice(choice: str, quirks: ChatQuirks) -> bytes:
    if choice not in ("auto", "none") and not quirks.forced_choice:
        return b'"auto"'
    if choice in ("auto", "none", "required"):
        return _encoder.encode(choice)
    return _encoder.encode({"type": "function", "function": {"name": choice}})
