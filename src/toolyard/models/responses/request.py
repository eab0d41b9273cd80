"""One turn's request → the bytes of a Responses body. Pure but for the memo, which keeps what is encoded.

Nothing is stored at the provider, so all that it needs comes along: its reasoning, sealed, and the calls that it ran.
The input comes last but for what may change from turn to turn, so each body begins with the bytes of the one before.
Whatever the history, the body is one that a strict provider takes.
"""

import re
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
from toolyard.core.options import PLAIN, Options
from toolyard.core.ports import ModelRequest, Offer
from toolyard.core.tools import Tool
from toolyard.models.encode_cache import NO_RESULT, kept
from toolyard.models.files import PDF, inline
from toolyard.models.images import address_of, as_shown, images_of, sees
from toolyard.models.responses.events import OutputItem
from toolyard.models.responses.hosted_tools import INCLUDED, native_tool, unsealed
from toolyard.models.schema_dialects import Inexpressible, convert
from toolyard.models.tool_names import to_provider
from toolyard.models.unicode import encoded

MEMO = "openai_responses"
PHASES = ("commentary", "final_answer")
_REASONS = re.compile(r"(?:^|[/:.])(?:o\d|gpt-[5-9]|gpt-\d\d|gpt-oss|codex)")
_tools: "WeakKeyDictionary[Offer, Tools]" = WeakKeyDictionary()


class _Signed(Struct, frozen=True):
    """A piece of reasoning, as the model that made it takes it back."""

    model: str
    id: str
    encrypted_content: str
    summary: list[str] = []


class Tools(Struct, frozen=True):
    """An offer in this wire's words."""

    encoded: bytes
    """The tools as JSON; empty if there are none."""
    names: tuple[str, ...]
    strict: dict[str, dict[str, object]]
    """The schemas of those that are held to them while the model writes."""
    include: tuple[str, ...]
    most_native: int


_decode_signed = msgspec.json.Decoder(_Signed).decode


def sealed_reasoning(item: OutputItem, model: str) -> str:
    """What must be sent back of a reasoning item, as one text; empty if there is nothing to send back."""
    if not item.id or not item.encrypted_content:
        return ""
    summary = [part.text for part in item.summary or () if part.text]
    return encoded(_Signed(model, item.id, item.encrypted_content, summary)).decode()


def reasons(model: str) -> bool:
    """Whether a model of this name reasons; one that does not refuses to be asked for it."""
    return bool(_REASONS.search(model)) and "chat" not in model


def to_wire(request: ModelRequest, model: str = "", provider: str = "openai", options: Options = PLAIN) -> bytes:
    """The body. `model` is the name on the wire, if it is not the request's own."""
    name = model or request.model
    known = kept(request, f"{MEMO}:{provider}:{name}")
    known.set_system(request.system, _instructions)
    encode = partial(_encoded_group, provider, name)
    open_end, _ = known.extend(request.history.since(known.count), encode)
    said: list[bytes | bytearray | memoryview] = [part for part in (known.joined, open_end) if part]
    if said:
        said[-1] = memoryview(said[-1])[:-1]  # without the last comma
    tools = tools_of(request.offer)
    return b"".join(
        (
            b'{"model":',
            encoded(name),
            b',"stream":true,"store":false',
            b"" if options is PLAIN else _encoded_options(options, name),
            _include(name, tools),
            known.system,
            tools.encoded and b',"tools":' + tools.encoded,
            b',"input":[',
            *said,
            b"]",
            tools.encoded and b',"tool_choice":' + _tool_choice(request),
            b',"max_tool_calls":%d' % tools.most_native if tools.most_native else b"",
            b"}",
        )
    )


def _encoded_options(options: Options, model: str) -> bytes:
    given: dict[str, object] = {}
    if options.max_tokens:
        given["max_output_tokens"] = options.max_tokens
    if options.temperature is not None:
        given["temperature"] = options.temperature
    if options.effort and reasons(model):
        given["reasoning"] = {"effort": options.effort, "summary": "auto"}
    return b"," + encoded(given)[1:-1] if given else b""


def _include(model: str, tools: Tools) -> bytes:
    """What is to come along that does not by itself."""
    asked = [*(["reasoning.encrypted_content"] if reasons(model) else []), *tools.include]
    return b',"include":' + encoded(asked) if asked else b""


def _instructions(text: str) -> bytes:
    return b',"instructions":' + encoded(text)


def _encoded_group(provider: str, model: str, group: Sequence[Item], role: str, last: bool) -> tuple[bytes, str]:
    """The input items of a group, each with a comma after it."""
    return b"".join([encoded(item) + b"," for item in _input(group, provider, model)]), role


def _input(group: Sequence[Item], provider: str, model: str) -> Iterable[object]:
    first = group[0]
    if isinstance(first, SystemText):
        return [{"role": "system", "content": first.text}]
    if isinstance(first, UserMessage):
        return [{"role": "user", "content": _content(first)}]
    said: list[object] = []
    results = {item.call_id: item for item in reversed(group) if isinstance(item, Result)}
    answers: list[object] = []
    for item in group:
        if isinstance(item, Call):
            mine = unsealed(item, provider)
            said.append(mine or _call(item))
            if mine is None:
                output = _output(results.get(item.id), sees(model))
                answers.append({"type": "function_call_output", "call_id": item.id, "output": output})
        elif isinstance(item, ModelText) and item.text:
            said.append(_text(item, provider))
        elif isinstance(item, Reasoning):
            said += _reasoning(item, provider, model)
    return [*_followed(said), *answers]


def _output(result: Result | None, looks: bool) -> object:
    content = result.content if result else NO_RESULT
    shown = [{"type": "input_image", "image_url": image.url} for image in images_of(result)] if looks else []
    return [{"type": "input_text", "text": content}, *shown] if shown else content


def _followed(said: Sequence[object]) -> Sequence[object]:
    """Without reasoning at the end: it is refused where nothing comes of it."""
    last = next((at for at in range(len(said), 0, -1) if not isinstance(said[at - 1], _Thought)), 0)
    return said[:last]


class _SummaryText(Struct, tag_field="type", tag="summary_text"):
    text: str


class _Thought(Struct, tag_field="type", tag="reasoning"):
    id: str
    summary: list[_SummaryText]
    encrypted_content: str


def _reasoning(item: Reasoning, provider: str, model: str) -> list[object]:
    """Only to the model that made it, as it made it; a signature that cannot be read is none."""
    if not item.signature or item.provider != provider:
        return []
    try:
        signed = _decode_signed(item.signature)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return []
    if signed.model != model:
        return []
    return [_Thought(signed.id, [_SummaryText(text) for text in signed.summary], signed.encrypted_content)]


def _text(item: ModelText, provider: str) -> dict[str, object]:
    said: dict[str, object] = {"role": "assistant", "content": item.text}
    if item.seal is not None and item.seal.provider == provider and item.seal.data in PHASES:
        said["phase"] = item.seal.data
    return said


def _call(call: Call) -> dict[str, object]:
    arguments = encoded(call.arguments).decode()
    return {"type": "function_call", "call_id": call.id, "name": to_provider(call.tool), "arguments": arguments}


def _content(message: UserMessage) -> object:
    if all(isinstance(part, TextPart) for part in message.parts):
        return message.text
    return [_part(part) for part in message.parts]


def _part(part: Part) -> dict[str, object]:
    match part := as_shown(part):
        case TextPart():
            return {"type": "input_text", "text": part.text}
        case ImagePart():
            url, words = address_of(part.url)
            shown: dict[str, object] = {"type": "input_image", "image_url": url, "detail": "auto"}
            return shown if url else {"type": "input_text", "text": words}
        case FilePart() if file := inline(part):
            said = file.text is not None or not file.body or file.kind.startswith(("text/", PDF))
            if said and not file.is_pdf:
                return {"type": "input_text", "text": file.told}
            return {"type": "input_file", "file_data": file.url, "filename": file.name or "file"}
        case FilePart():
            return {"type": "input_file", "file_url": part.url}
        case _:
            assert_never(part)


def tools_of(offer: Offer) -> Tools:
    """The offer in this wire's words, made once."""
    known = _tools.get(offer)
    if known is None:
        functions = [tool for tool in offer.tools if tool.venue != "provider"]
        native = [tool for tool in offer.tools if tool.venue == "provider" and native_tool(tool)]
        shown = [*map(_function, functions), *map(native_tool, native)]
        known = _tools[offer] = Tools(
            encoded(shown) if shown else b"",
            tuple(tool.name for tool in functions),
            {tool.name: tool.parameters for tool in functions if _strict(tool) is not None},
            tuple(INCLUDED[tool.name] for tool in native),
            _most_native(native),
        )
    return known


def _most_native(tools: Iterable[Tool]) -> int:
    """OpenAI counts the calls of all its own tools together: one without a bound shares those of the others."""
    return sum(tool.options.max_uses for tool in tools if tool.options)


def _function(tool: Tool) -> dict[str, object]:
    described = {"description": tool.description} if tool.description else {}
    exact = _strict(tool)
    shape = convert(tool.parameters, "openai") if exact is None else exact
    name = to_provider(tool.name)
    return {"type": "function", "name": name, **described, "parameters": shape, "strict": exact is not None}


def _strict(tool: Tool) -> dict[str, object] | None:
    """The schema for OpenAI's strict mode, in which the model cannot write anything else; None if it has none."""
    try:
        return convert(tool.parameters, "openai_strict")
    except Inexpressible:
        return None


def _tool_choice(request: ModelRequest) -> bytes:
    choice = request.tool_choice
    if choice in ("auto", "none", "required"):
        return encoded(choice)
    if choice not in tools_of(request.offer).names:
        return b'"auto"'
    return encoded({"type": "function", "name": to_provider(choice)})
