"""Encodes one turn's request as a Responses body. Pure but for the memo, which caches encoded items.

Nothing is stored at the provider (`store: false`), so a request carries all that it needs: its encrypted reasoning and
the calls that it ran. Only what may change from turn to turn follows the input, so a body begins with the bytes of the
one before. The body is valid for a strict provider with any history.
"""

from collections.abc import Iterable, Sequence
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
from toolyard.core.media import PDF
from toolyard.core.ports import ModelRequest, Offer
from toolyard.core.settings.models.options import DEFAULT_OPTIONS, Options, allows_any_object
from toolyard.core.tools.definition import Tool
from toolyard.models.http.problems import WireFailure
from toolyard.models.responses.hosted_tools import INCLUDE_FIELDS, build_native_tool, unseal_call
from toolyard.models.responses.wire_types import OutputItem
from toolyard.models.schema_dialects import UnsupportedSchema, convert
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
    supports_reasoning,
)
from toolyard.models.shared.tool_names import to_provider_name

CACHE_KEY = "openai_responses"
MISSING_OPTIONS = ("stop", "seed")
PHASES = ("commentary", "final_answer")
EXTRA_OPTIONS = frozenset({"metadata", "prompt_cache_key", "safety_identifier", "service_tier", "user", "verbosity"})
_tools: "WeakKeyDictionary[Offer, ResponsesTools]" = WeakKeyDictionary()


class _SignedReasoning(Struct, frozen=True):
    """Reasoning as the model that produced it accepts it back."""

    model: str
    id: str
    encrypted_content: str
    summary: list[str] = []


class ResponsesTools(Struct, frozen=True):
    """The tools of an offer, encoded for this wire."""

    encoded: bytes
    """The tools as JSON; empty if there are none."""
    names: tuple[str, ...]
    strict: dict[str, dict[str, object]]
    """The original schemas of the tools in strict mode, by name."""
    include: tuple[str, ...]
    max_uses: tuple[int, ...]
    """The limit that each of the provider's own tools sets; 0 if it sets none."""


_decode_signed = msgspec.json.Decoder(_SignedReasoning).decode


def encode_reasoning(item: OutputItem, model: str) -> str:
    """Return the signature of a reasoning item: what must go back, with the model's name; empty if nothing must."""
    if not item.id or not item.encrypted_content:
        return ""
    summary = [part.text for part in item.summary or () if part.text]
    return encode_json(_SignedReasoning(model, item.id, item.encrypted_content, summary)).decode()


def to_wire(
    request: ModelRequest, model: str = "", provider: str = "openai", forward: frozenset[str] = NO_OPTIONS
) -> bytes:
    """Return the body. `model` is the name on the wire; if it is empty, the request's. Raises WireFailure."""
    name = model or request.model
    options = b"" if request.options is DEFAULT_OPTIONS else _encode_options(request.options, name, forward)
    cache = open_cache(request, model, provider)
    cache.set_system(_build_system(request), _encode_instructions)
    open_end, _ = cache.extend(request.history)
    parts: list[Piece] = [part for part in (cache.joined, open_end) if part]
    if request.instructions:
        parts.insert(0, encode_json({"role": "user", "content": request.instructions}) + b",")
    if parts:
        parts[-1] = memoryview(parts[-1])[:-1]  # without the last comma
    tools = encode_tools(request.offer)
    # OpenAI has one limit for all of its tools together.
    max_calls = sum(uses or request.default_tool_uses for uses in tools.max_uses)
    return b"".join(
        (
            b'{"model":',
            encode_json(name),
            b',"stream":true,"store":false',
            _encode_include(name, tools),
            cache.system,
            tools.encoded and b',"tools":' + tools.encoded,
            b',"input":[',
            *parts,
            b"]",
            tools.encoded and b',"tool_choice":' + _encode_tool_choice(request),
            tools.encoded and encode_parallel_calls(request.options),
            b',"max_tool_calls":%d' % max_calls if max_calls else b"",
            options,
            b"}",
        )
    )


def open_cache(request: ModelRequest, model: str, provider: str) -> EncodeCache:
    """Return the cache that `to_wire` encodes the request's history with."""
    name = model or request.model
    # Encrypted reasoning goes back only to its model, and images only to models that see: hence the model in the key.
    return get_encode_cache(request, f"{CACHE_KEY}:{provider}:{name}", partial(_encode_group, provider, name))


def _build_system(request: ModelRequest) -> str:
    schema = request.options.output_schema
    # This API's JSON mode needs the word JSON in an input item, so any object is asked for and is a loose schema.
    return add_output_prompt(request.system, schema) if schema and allows_any_object(schema) else request.system


def select_sent_extras(options: Options, model: str, forward: frozenset[str]) -> dict[str, object]:
    """Return the extra options that are sent, by their own names."""
    return select_extras(options, EXTRA_OPTIONS - find_refused_extras(model), forward) if options.extra else {}


def _encode_options(options: Options, model: str, forward: frozenset[str]) -> bytes:
    if problem := find_unsupported(options, MISSING_OPTIONS, "OpenAI's Responses API"):
        raise WireFailure(problem)
    fields = select_sent_extras(options, model, forward)
    text: dict[str, object] = {"verbosity": fields.pop("verbosity")} if "verbosity" in fields else {}
    if options.max_tokens:
        fields["max_output_tokens"] = options.max_tokens
    if options.temperature is not None:
        fields["temperature"] = options.temperature
    if options.top_p is not None:
        fields["top_p"] = options.top_p
    if options.output_schema is not None:
        text["format"] = {"type": "json_schema", **build_openai_format(options.output_schema)}
    if text:
        fields["text"] = text
    if options.effort and supports_reasoning(model):
        fields["reasoning"] = {"effort": options.effort, "summary": "auto"}
    return b"," + encode_json(fields)[1:-1] if fields else b""


def _encode_include(model: str, tools: ResponsesTools) -> bytes:
    """Return the `include` field: what OpenAI sends only on request."""
    values = [*(["reasoning.encrypted_content"] if supports_reasoning(model) else []), *tools.include]
    return b',"include":' + encode_json(values) if values else b""


def _encode_instructions(text: str) -> bytes:
    return b',"instructions":' + encode_json(text)


def _encode_group(provider: str, model: str, group: Sequence[Item], role: str, last: bool) -> tuple[bytes, str]:
    """Return the input items of a group, each followed by a comma."""
    return b"".join([encode_json(item) + b"," for item in _build_input(group, provider, model)]), role


def _build_input(group: Sequence[Item], provider: str, model: str) -> Iterable[object]:
    first = group[0]
    if isinstance(first, SystemText):
        return [{"role": "system", "content": first.text}]
    if isinstance(first, UserMessage):
        return [{"role": "user", "content": _build_content(first)}]
    spoken: list[object] = []
    results = {item.call_id: item for item in reversed(group) if isinstance(item, Result)}
    answers: list[object] = []
    for item in group:
        if isinstance(item, Call):
            sealed_item = unseal_call(item, provider)
            spoken.append(sealed_item or _build_call(item))
            if sealed_item is None:
                output = _build_output(results.get(item.id), supports_images(model))
                answers.append({"type": "function_call_output", "call_id": item.id, "output": output})
        elif isinstance(item, ModelText) and item.text:
            spoken.append(_build_message(item, provider))
        elif isinstance(item, Reasoning):
            spoken += _build_reasoning(item, provider, model)
    return [*_strip_trailing_reasoning(spoken), *answers]


def _build_output(result: Result | None, sees_images: bool) -> object:
    content = result.content if result else NO_RESULT
    images = [{"type": "input_image", "image_url": image.url} for image in list_images(result)] if sees_images else []
    return [{"type": "input_text", "text": content}, *images] if images else content


def _strip_trailing_reasoning(items: Sequence[object]) -> Sequence[object]:
    """Return the items without reasoning at the end: OpenAI refuses reasoning that no item follows."""
    length = next((at for at in range(len(items), 0, -1) if not isinstance(items[at - 1], _ReasoningItem)), 0)
    return items[:length]


class _SummaryText(Struct, tag_field="type", tag="summary_text"):
    text: str


class _ReasoningItem(Struct, tag_field="type", tag="reasoning"):
    id: str
    summary: list[_SummaryText]
    encrypted_content: str


def _build_reasoning(item: Reasoning, provider: str, model: str) -> list[object]:
    """Return the reasoning as its model accepts it; nothing for another model or a signature that cannot be read."""
    if not item.signature or item.provider != provider:
        return []
    try:
        signed = _decode_signed(item.signature)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return []
    if signed.model != model:
        return []
    return [_ReasoningItem(signed.id, [_SummaryText(text) for text in signed.summary], signed.encrypted_content)]


def _build_message(item: ModelText, provider: str) -> dict[str, object]:
    message: dict[str, object] = {"role": "assistant", "content": item.text}
    if item.seal is not None and item.seal.provider == provider and item.seal.data in PHASES:
        message["phase"] = item.seal.data
    return message


def _build_call(call: Call) -> dict[str, object]:
    arguments = encode_json(call.arguments).decode()
    return {"type": "function_call", "call_id": call.id, "name": to_provider_name(call.tool), "arguments": arguments}


def _build_content(message: UserMessage) -> object:
    if all(isinstance(part, TextPart) for part in message.parts):
        return message.text
    return [_build_part(part) for part in message.parts]


def _build_part(part: Part) -> dict[str, object]:
    match part := convert_image_file(part):
        case TextPart():
            return {"type": "input_text", "text": part.text}
        case ImagePart():
            url, words = resolve_image_url(part.url)
            image: dict[str, object] = {"type": "input_image", "image_url": url, "detail": "auto"}
            return image if url else {"type": "input_text", "text": words}
        case FilePart() if file := parse_inline_file(part):
            is_text = file.text is not None or not file.body or file.kind.startswith(("text/", PDF))
            if is_text and not file.is_pdf:
                return {"type": "input_text", "text": file.prompt_text}
            return {"type": "input_file", "file_data": file.url, "filename": file.name or "file"}
        case FilePart():
            return {"type": "input_file", "file_url": part.url}
        case _:
            assert_never(part)


def encode_tools(offer: Offer) -> ResponsesTools:
    """Return the tools of an offer, encoded once."""
    tools = _tools.get(offer)
    if tools is None:
        functions = [tool for tool in offer.tools if tool.venue != "provider"]
        native = [tool for tool in offer.tools if tool.venue == "provider" and build_native_tool(tool)]
        definitions = [*map(_build_function, functions), *map(build_native_tool, native)]
        tools = _tools[offer] = ResponsesTools(
            encode_json(definitions) if definitions else b"",
            tuple(tool.name for tool in functions),
            {tool.name: tool.parameters for tool in functions if _build_strict_schema(tool) is not None},
            tuple(INCLUDE_FIELDS[tool.name] for tool in native),
            tuple(tool.options.max_uses if tool.options else 0 for tool in native),
        )
    return tools


def _build_function(tool: Tool) -> dict[str, object]:
    description = {"description": tool.description} if tool.description else {}
    strict_schema = _build_strict_schema(tool)
    schema = convert(tool.parameters, "openai") if strict_schema is None else strict_schema
    name = to_provider_name(tool.name)
    return {"type": "function", "name": name, **description, "parameters": schema, "strict": strict_schema is not None}


def _build_strict_schema(tool: Tool) -> dict[str, object] | None:
    """Return the schema for OpenAI's strict mode, which decoding enforces; None if strict mode cannot express it."""
    try:
        return convert(tool.parameters, "openai_strict")
    except UnsupportedSchema:
        return None


def _encode_tool_choice(request: ModelRequest) -> bytes:
    choice = request.tool_choice
    if choice in ("auto", "none", "required"):
        return encode_json(choice)
    if choice not in encode_tools(request.offer).names:
        return b'"auto"'
    return encode_json({"type": "function", "name": to_provider_name(choice)})
