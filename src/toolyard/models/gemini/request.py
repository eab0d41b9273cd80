"""Encodes one turn's request as a generateContent body. Pure but for the memo, which caches encoded items.

The body is valid for a strict provider with any history: the user begins, roles alternate, each call is answered in the
next content, no part is empty, and the first call of each step carries a signature. Only what may change from turn to
turn follows the contents, so a body begins with the bytes of the one before.
"""

import functools
import re
from collections.abc import Iterable, Sequence
from functools import partial
from weakref import WeakKeyDictionary

from msgspec import Struct
from msgspec.structs import replace

from toolyard.core.items import Call, Item, ModelText, Result, SystemText, UserMessage
from toolyard.core.ports import ModelRequest, Offer
from toolyard.core.settings.models.options import DEFAULT_OPTIONS, Options, allows_any_object
from toolyard.core.tools.definition import Tool
from toolyard.models.gemini.hosted_tools import build_native_tools, unseal_part
from toolyard.models.gemini.parts import IMAGE_LIMITS, build_parts, build_text_part
from toolyard.models.http.problems import WireFailure
from toolyard.models.schema_dialects import convert
from toolyard.models.shared.attachments import list_images
from toolyard.models.shared.encode_cache import NO_RESULT, EncodeCache, Piece, get_encode_cache, insert_first_part
from toolyard.models.shared.json_values import encode_json
from toolyard.models.shared.option_support import add_output_prompt, build_option_problem, select_extras
from toolyard.models.shared.tool_names import GEMINI_ALPHABET, to_provider_name

CACHE_KEY = "gemini"
SKIP_SIGNATURE = "skip_thought_signature_validator"
"""Google's value for the signature of a call that another provider's model made or that came without one."""
HISTORY_OMITTED = "[what was said before is left out]"
"""The first user content of a history that the model would begin, which Gemini refuses."""
MAX_STOPS = 5
CONTINUE_TEXT = "[go on]"
"""The last user content of a history that the model would end, which Gemini refuses."""
_SUPPORTS_THINKING = re.compile(r"gemini-(?:2\.5|[3-9]|\d\d)(?!.*(?:image|tts|live|audio|embedding))")
_SUPPORTS_RESULT_IMAGES = re.compile(r"gemini-(?:[3-9]|\d\d)")
_SUPPORTS_OUTPUT_WITH_TOOLS = re.compile(r"gemini-(?:[3-9]|\d\d)")
_SUPPORTS_PENALTIES = re.compile(r"gemini-(?:1|2\.0)")
_PENALTY_FIELDS = {"frequency_penalty": "frequencyPenalty", "presence_penalty": "presencePenalty"}
_USES_BUDGETS = re.compile(r"gemini-2\.5")
_USER_HEAD = b'{"role":"user","parts":['
_MODES = {"auto": "AUTO", "none": "NONE", "required": "ANY"}
_tools: "WeakKeyDictionary[Offer, dict[str, _GeminiTools]]" = WeakKeyDictionary()
RoleParts = tuple[str, Sequence[object]]


class _GeminiTools(Struct, frozen=True):
    """The tools of an offer, encoded for this wire."""

    encoded: bytes
    functions: frozenset[str]
    native: bool


def to_wire(request: ModelRequest, model: str = "", provider: str = "gemini") -> bytes:
    """Return the body. `model` is the name on the wire; if it is empty, the request's. Raises WireFailure."""
    name = model or request.model
    cache = open_cache(request, model, provider)
    tools = _encode_tools(request.offer, name)
    if tools.encoded and request.options.parallel_tool_calls is False:
        raise WireFailure(build_option_problem("parallel_tool_calls", "Gemini has no such option"))
    system, options = _resolve_output(request, name, tools)
    cache.set_system(system, _encode_system)
    open_end, role = cache.extend(request.history)
    last_content = (
        b""
        if role == "user"
        else _join_contents([("user", [build_text_part(CONTINUE_TEXT if role else HISTORY_OMITTED)])], role)[0]
    )
    contents: list[Piece] = [cache.joined, open_end, last_content]
    if request.instructions:
        contents = insert_first_part(contents, _USER_HEAD, encode_json(build_text_part(request.instructions)))
    generation_config = _encode_generation_config(options, name)
    return b"".join(
        (
            b"{",
            cache.system,
            tools.encoded and b'"tools":' + tools.encoded + b",",
            b'"contents":[',
            *contents,
            b"]}]",
            tools.encoded and _encode_tool_config(request.tool_choice, tools),
            generation_config,
            b"}",
        )
    )


def open_cache(request: ModelRequest, model: str, provider: str) -> EncodeCache:
    """Return the cache that `to_wire` encodes the request's history with."""
    # Thought signatures are valid only for the model that made them, so the model is part of the seal and of the key.
    sealed_by = f"{provider}:{model or request.model}"
    return get_encode_cache(request, f"{CACHE_KEY}:{sealed_by}", partial(_encode_group, sealed_by))


def _resolve_output(request: ModelRequest, model: str, tools: _GeminiTools) -> tuple[str, Options]:
    """Return the system text and the options. Before Gemini 3, a schema beside tools is only asked for."""
    options, schema = request.options, request.options.output_schema
    if schema is None:
        return request.system, options
    if tools.encoded and not _SUPPORTS_OUTPUT_WITH_TOOLS.search(model):
        return add_output_prompt(request.system, schema), replace(options, output_schema=None)
    return add_output_prompt(request.system, schema) if allows_any_object(schema) else request.system, options


def _encode_generation_config(options: Options, model: str) -> bytes:
    if options is DEFAULT_OPTIONS:
        return _encode_default_config(model)
    config = _build_generation_config(options, model)
    return b',"generationConfig":' + encode_json(config) if config else b""


@functools.lru_cache(maxsize=64)
def _encode_default_config(model: str) -> bytes:
    config = _build_generation_config(DEFAULT_OPTIONS, model)
    return b',"generationConfig":' + encode_json(config) if config else b""


def select_sent_extras(options: Options, model: str) -> dict[str, object]:
    """Return the extra options that are sent, by OpenAI's names. Models after Gemini 2.0 refuse penalties."""
    names = _PENALTY_FIELDS if _SUPPORTS_PENALTIES.search(model) else ()
    return select_extras(options, names, ())


def find_unsent_options(model: str) -> Sequence[str]:
    """Return the options that are left out for a model."""
    return () if _SUPPORTS_THINKING.search(model) else ("thinking",)


def _build_generation_config(options: Options, model: str) -> dict[str, object]:
    if len(options.stop) > MAX_STOPS:
        raise WireFailure(build_option_problem("stop", f"Gemini takes at most {MAX_STOPS} texts"))
    config: dict[str, object] = {}
    if _SUPPORTS_THINKING.search(model):
        config["thinkingConfig"] = {"includeThoughts": True, **_build_thinking_config(options, model)}
    config.update(_build_sampling(options, model))
    if options.output_schema is not None:
        config["responseMimeType"] = "application/json"
        if not allows_any_object(options.output_schema):
            config["responseJsonSchema"] = convert(options.output_schema, "gemini")
    return config


def _build_sampling(options: Options, model: str) -> dict[str, object]:
    config: dict[str, object] = {}
    if options.max_tokens:
        config["maxOutputTokens"] = options.max_tokens
    if options.temperature is not None:
        config["temperature"] = options.temperature
    if options.top_p is not None:
        config["topP"] = options.top_p
    if options.stop:
        config["stopSequences"] = options.stop
    if options.seed is not None:
        config["seed"] = options.seed
    for name, value in select_sent_extras(options, model).items():
        config[_PENALTY_FIELDS[name]] = value
    return config


def _build_thinking_config(options: Options, model: str) -> dict[str, object]:
    """Return how much to think: Gemini 3 and later take efforts, Gemini 2.5 only a number of tokens."""
    if isinstance(options.thinking, str) and options.plain_effort and not _USES_BUDGETS.search(model):
        return {"thinkingLevel": options.plain_effort.upper()}
    return {"thinkingBudget": options.budget} if options.budget else {}


def _encode_system(text: str) -> bytes:
    return b'"systemInstruction":' + encode_json({"parts": [build_text_part(text)]}) + b","


def _encode_group(sealed_by: str, group: Sequence[Item], role: str, last: bool) -> tuple[bytes, str]:
    contents = _build_contents(group, sealed_by)
    if not role and contents and contents[0][0] == "model":
        contents = [("user", [build_text_part(HISTORY_OMITTED)]), *contents]
    return _join_contents(contents, role)


def _join_contents(contents: Iterable[RoleParts], role: str) -> tuple[bytes, str]:
    """Return the bytes that add contents after an open one of this role, and the role of the new open content.

    The last content stays open (without its closing brackets): roles must alternate, so parts of the same role join it.
    """
    pieces: list[bytes] = []
    for next_role, parts in contents:
        if next_role != role:
            pieces.append(b'%s{"role":"%s","parts":[' % (b"]}," if role else b"", next_role.encode()))
            role = next_role
        else:
            pieces.append(b",")
        pieces.append(encode_json(parts)[1:-1])
    return b"".join(pieces), role


def _build_contents(group: Sequence[Item], sealed_by: str) -> list[RoleParts]:
    first = group[0]
    if isinstance(first, SystemText):
        return [("user", [build_text_part(first.text)])]
    if isinstance(first, UserMessage):
        return [("user", build_parts(first))]
    results = {item.call_id: item for item in reversed(group) if isinstance(item, Result)}
    spoken: list[object] = []
    answers: list[object] = []
    for item in group:
        if isinstance(item, ModelText) and item.text:
            spoken.append(_add_signature({"text": item.text}, _find_signature(item, sealed_by)))
        elif isinstance(item, Call) and item.ran_at and item.ran_at == sealed_by.partition(":")[0]:
            spoken += _build_hosted_parts(item, results.get(item.id), sealed_by)
        elif isinstance(item, Call):
            spoken.append(_build_call(item, sealed_by, first=not answers))
            answers.append(
                _build_function_response(
                    item, results.get(item.id), sees_images=bool(_SUPPORTS_RESULT_IMAGES.search(sealed_by))
                )
            )
    return [(role, parts) for role, parts in (("model", spoken), ("user", answers)) if parts]


def _find_signature(item: ModelText | Call, sealed_by: str) -> str | None:
    return item.seal.data if item.seal is not None and item.seal.provider == sealed_by else None


def _add_signature(part: dict[str, object], signature: str | None) -> dict[str, object]:
    return {**part, "thoughtSignature": signature} if signature else part


def _build_call(call: Call, sealed_by: str, *, first: bool) -> dict[str, object]:
    name = to_provider_name(call.tool, GEMINI_ALPHABET)
    # Gemini refuses a step whose first call has no signature; calls after the first of a step need none.
    part: dict[str, object] = {"functionCall": {"id": call.id, "name": name, "args": call.arguments}}
    return _add_signature(part, _find_signature(call, sealed_by) or (SKIP_SIGNATURE if first else None))


def _build_function_response(call: Call, result: Result | None, *, sees_images: bool) -> dict[str, object]:
    response = (
        {"error": NO_RESULT} if result is None else {"output" if result.outcome == "ok" else "error": result.content}
    )
    answer: dict[str, object] = {
        "id": call.id,
        "name": to_provider_name(call.tool, GEMINI_ALPHABET),
        "response": response,
    }
    if sees_images and (images := list_images(result, IMAGE_LIMITS)):
        answer["parts"] = [{"inlineData": {"mimeType": image.kind, "data": image.data}} for image in images]
    return {"functionResponse": answer}


def _build_hosted_parts(call: Call, result: Result | None, sealed_by: str) -> list[object]:
    """Return a call that Google ran and its result as they arrived; nothing if either cannot go back: both must."""
    call_part = unseal_part(call, sealed_by)
    result_part = unseal_part(result, sealed_by) if result else None
    return [call_part, result_part] if call_part and result_part else []


def _encode_tools(offer: Offer, model: str) -> _GeminiTools:
    """Return the tools as JSON, encoded once for each offer and model; empty if there are none."""
    by_model = _tools.setdefault(offer, {})
    tools = by_model.get(model)
    if tools is None:
        functions = [_build_function(tool) for tool in offer.tools if tool.venue != "provider"]
        native = build_native_tools(offer.tools, model)
        definitions = [*([{"functionDeclarations": functions}] if functions else []), *native]
        tools = by_model[model] = _GeminiTools(
            encode_json(definitions) if definitions else b"",
            frozenset(tool.name for tool in offer.tools if tool.venue != "provider"),
            bool(native),
        )
    return tools


def _build_function(tool: Tool) -> dict[str, object]:
    shape = convert(tool.parameters, "gemini")
    has_parameters = shape.get("properties") or "additionalProperties" in shape
    parameters = {"parametersJsonSchema": shape} if has_parameters else {}
    return {
        "name": to_provider_name(tool.name, GEMINI_ALPHABET),
        "description": tool.description or tool.name,
        **parameters,
    }


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
