"""One turn's request → the bytes of a generateContent body. Pure but for the memo, which keeps what is encoded.

Whatever the history, the body is one that a strict provider takes: the user begins, roles alternate, each call is
answered in the very next content, no part is empty, and each step's first call carries a signature. The contents come
last but for what may change from turn to turn, so each body begins with the bytes of the one before.
"""

import functools
import re
from collections.abc import Iterable, Sequence
from functools import partial
from weakref import WeakKeyDictionary

from msgspec import Struct

from toolyard.core.items import Call, Item, ModelText, Result, SystemText, UserMessage
from toolyard.core.options import DEFAULT_OPTIONS, Options
from toolyard.core.ports import ModelRequest, Offer
from toolyard.core.tools import Tool
from toolyard.models.encode_cache import NO_RESULT, get_encode_cache
from toolyard.models.gemini.hosted_tools import build_native_tools, unseal_part
from toolyard.models.gemini.parts import IMAGE_LIMITS, build_parts, build_text_part
from toolyard.models.images import list_images
from toolyard.models.schema_dialects import convert
from toolyard.models.tool_names import GEMINI_ALPHABET, to_provider_name
from toolyard.models.unicode import encode_json

CACHE_KEY = "gemini"
SKIP_SIGNATURE = "skip_thought_signature_validator"
"""Google's own word for a call that none of its models wrote, or that it gave no signature for."""
HISTORY_OMITTED = "[what was said before is left out]"
"""Begins a history that the model would begin."""
CONTINUE_TEXT = "[go on]"
"""Ends one that the model would end."""
_SUPPORTS_THINKING = re.compile(r"gemini-(?:2\.5|[3-9]|\d\d)(?!.*(?:image|tts|live|audio|embedding))")
_SUPPORTS_RESULT_IMAGES = re.compile(r"gemini-(?:[3-9]|\d\d)")
_USES_BUDGETS = re.compile(r"gemini-2\.5")
_MODES = {"auto": "AUTO", "none": "NONE", "required": "ANY"}
_tools: "WeakKeyDictionary[Offer, dict[str, _GeminiTools]]" = WeakKeyDictionary()
RoleParts = tuple[str, Sequence[object]]


class _GeminiTools(Struct, frozen=True):
    """An offer in this wire's words."""

    encoded: bytes
    functions: frozenset[str]
    native: bool


def to_wire(
    request: ModelRequest, model: str = "", provider: str = "gemini", options: Options = DEFAULT_OPTIONS
) -> bytes:
    """The body. `model` is the name on the wire, if it is not the request's own."""
    name = model or request.model
    sealed_by = f"{provider}:{name}"
    known = get_encode_cache(request, f"{CACHE_KEY}:{sealed_by}")
    known.set_system(request.system, _encode_system)
    open_end, role = known.extend(request.history.items_from(known.count), partial(_encode_group, sealed_by))
    rest = (
        b""
        if role == "user"
        else _join_contents([("user", [build_text_part(CONTINUE_TEXT if role else HISTORY_OMITTED)])], role)[0]
    )
    tools = _encode_tools(request.offer, name)
    return b"".join(
        (
            b"{",
            known.system,
            tools.encoded and b'"tools":' + tools.encoded + b",",
            _encode_generation_config(options, name),
            b'"contents":[',
            known.joined,
            open_end,
            rest,
            b"]}]",
            tools.encoded and _encode_tool_config(request.tool_choice, tools),
            b"}",
        )
    )


@functools.lru_cache(maxsize=64)
def _encode_generation_config(options: Options, model: str) -> bytes:
    given: dict[str, object] = {}
    if _SUPPORTS_THINKING.search(model):
        given["thinkingConfig"] = {"includeThoughts": True, **_build_thinking_config(options, model)}
    if options.max_tokens:
        given["maxOutputTokens"] = options.max_tokens
    if options.temperature is not None:
        given["temperature"] = options.temperature
    return b'"generationConfig":' + encode_json(given) + b"," if given else b""


def _build_thinking_config(options: Options, model: str) -> dict[str, object]:
    """From its third generation on a model knows efforts; before, only tokens."""
    if isinstance(options.thinking, str) and options.effort and not _USES_BUDGETS.search(model):
        return {"thinkingLevel": options.effort.upper()}
    return {"thinkingBudget": options.budget} if options.budget else {}


def _encode_system(text: str) -> bytes:
    return b'"systemInstruction":' + encode_json({"parts": [build_text_part(text)]}) + b","


def _encode_group(sealed_by: str, group: Sequence[Item], role: str, last: bool) -> tuple[bytes, str]:
    contents = _build_contents(group, sealed_by)
    if not role and contents and contents[0][0] == "model":
        contents = [("user", [build_text_part(HISTORY_OMITTED)]), *contents]
    return _join_contents(contents, role)


def _join_contents(contents: Iterable[RoleParts], role: str) -> tuple[bytes, str]:
    """Contents after one of this role. The last one stays open: what the same role says next belongs to it."""
    written: list[bytes] = []
    for next_role, parts in contents:
        if next_role != role:
            written.append(b'%s{"role":"%s","parts":[' % (b"]}," if role else b"", next_role.encode()))
            role = next_role
        else:
            written.append(b",")
        written.append(encode_json(parts)[1:-1])
    return b"".join(written), role


def _build_contents(group: Sequence[Item], sealed_by: str) -> list[RoleParts]:
    first = group[0]
    if isinstance(first, SystemText):
        return [("user", [build_text_part(first.text)])]
    if isinstance(first, UserMessage):
        return [("user", build_parts(first))]
    results = {item.call_id: item for item in reversed(group) if isinstance(item, Result)}
    said: list[object] = []
    answers: list[object] = []
    for item in group:
        if isinstance(item, ModelText) and item.text:
            said.append(_add_signature({"text": item.text}, _find_signature(item, sealed_by)))
        elif isinstance(item, Call) and item.ran_at and item.ran_at == sealed_by.partition(":")[0]:
            said += _build_hosted_parts(item, results.get(item.id), sealed_by)
        elif isinstance(item, Call):
            said.append(_build_call(item, sealed_by, first=not answers))
            answers.append(
                _build_function_response(
                    item, results.get(item.id), looks=bool(_SUPPORTS_RESULT_IMAGES.search(sealed_by))
                )
            )
    return [(role, parts) for role, parts in (("model", said), ("user", answers)) if parts]


def _find_signature(item: ModelText | Call, sealed_by: str) -> str | None:
    return item.seal.data if item.seal is not None and item.seal.provider == sealed_by else None


def _add_signature(part: dict[str, object], signature: str | None) -> dict[str, object]:
    return {**part, "thoughtSignature": signature} if signature else part


def _build_call(call: Call, sealed_by: str, *, first: bool) -> dict[str, object]:
    name = to_provider_name(call.tool, GEMINI_ALPHABET)
    part: dict[str, object] = {"functionCall": {"id": call.id, "name": name, "args": call.arguments}}
    return _add_signature(part, _find_signature(call, sealed_by) or (SKIP_SIGNATURE if first else None))


def _build_function_response(call: Call, result: Result | None, *, looks: bool) -> dict[str, object]:
    told = {"error": NO_RESULT} if result is None else {"output" if result.outcome == "ok" else "error": result.content}
    answer: dict[str, object] = {"id": call.id, "name": to_provider_name(call.tool, GEMINI_ALPHABET), "response": told}
    if looks and (shown := list_images(result, IMAGE_LIMITS)):
        answer["parts"] = [{"inlineData": {"mimeType": image.kind, "data": image.data}} for image in shown]
    return {"functionResponse": answer}


def _build_hosted_parts(call: Call, result: Result | None, sealed_by: str) -> list[object]:
    """What Google ran goes back as it came, call and result together; what was only told of it does not."""
    asked = unseal_part(call, sealed_by)
    answered = unseal_part(result, sealed_by) if result else None
    return [asked, answered] if asked and answered else []


def _encode_tools(offer: Offer, model: str) -> _GeminiTools:
    """The tools as JSON, once for each offer and model; empty if there are none."""
    kept_for = _tools.setdefault(offer, {})
    known = kept_for.get(model)
    if known is None:
        functions = [_build_function(tool) for tool in offer.tools if tool.venue != "provider"]
        native = build_native_tools(offer.tools, model)
        shown = [*([{"functionDeclarations": functions}] if functions else []), *native]
        known = kept_for[model] = _GeminiTools(
            encode_json(shown) if shown else b"",
            frozenset(tool.name for tool in offer.tools if tool.venue != "provider"),
            bool(native),
        )
    return known


def _build_function(tool: Tool) -> dict[str, object]:
    shape = convert(tool.parameters, "gemini")
    any_at_all = shape.get("properties") or "additionalProperties" in shape
    takes = {"parametersJsonSchema": shape} if any_at_all else {}
    return {"name": to_provider_name(tool.name, GEMINI_ALPHABET), "description": tool.description or tool.name, **takes}


def _encode_tool_config(choice: str, tools: _GeminiTools) -> bytes:
    config: dict[str, object] = {}
    if choice in tools.functions:
        config["functionCallingConfig"] = {
            "mode": "ANY",
            "allowedFunctionNames": [to_provider_name(choice, GEMINI_ALPHABET)],
        }
    elif tools.functions:
        config["functionCallingConfig"] = {"mode": _MODES.get(choice, "AUTO")}
    if tools.functions and tools.native:
        config["includeServerSideToolInvocations"] = True
    return b',"toolConfig":' + encode_json(config) if config else b""
