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
from toolyard.core.options import PLAIN, Options
from toolyard.core.ports import ModelRequest, Offer
from toolyard.core.tools import Tool
from toolyard.models.encode_cache import NO_RESULT, kept
from toolyard.models.gemini.hosted_tools import offered, unsealed
from toolyard.models.gemini.parts import IMAGES, parts_of, text_part
from toolyard.models.images import images_of
from toolyard.models.schema_dialects import convert
from toolyard.models.tool_names import GEMINI, to_provider
from toolyard.models.unicode import encoded

MEMO = "gemini"
UNSIGNED = "skip_thought_signature_validator"
"""Google's own word for a call that none of its models wrote, or that it gave no signature for."""
LEFT_OUT = "[what was said before is left out]"
"""Begins a history that the model would begin."""
GO_ON = "[go on]"
"""Ends one that the model would end."""
_THINKS = re.compile(r"gemini-(?:2\.5|[3-9]|\d\d)(?!.*(?:image|tts|live|audio|embedding))")
_LOOKS_AT_RESULTS = re.compile(r"gemini-(?:[3-9]|\d\d)")
_BUDGETS = re.compile(r"gemini-2\.5")
_MODES = {"auto": "AUTO", "none": "NONE", "required": "ANY"}
_tools: "WeakKeyDictionary[Offer, dict[str, _Tools]]" = WeakKeyDictionary()
Content = tuple[str, Sequence[object]]


class _Tools(Struct, frozen=True):
    """An offer in this wire's words."""

    encoded: bytes
    functions: frozenset[str]
    native: bool


def to_wire(request: ModelRequest, model: str = "", provider: str = "gemini", options: Options = PLAIN) -> bytes:
    """The body. `model` is the name on the wire, if it is not the request's own."""
    name = model or request.model
    sealed_by = f"{provider}:{name}"
    known = kept(request, f"{MEMO}:{sealed_by}")
    known.set_system(request.system, _system)
    open_end, role = known.extend(request.history.since(known.count), partial(_encoded_group, sealed_by))
    rest = b"" if role == "user" else _joined([("user", [text_part(GO_ON if role else LEFT_OUT)])], role)[0]
    tools = _encoded_tools(request.offer, name)
    return b"".join(
        (
            b"{",
            known.system,
            tools.encoded and b'"tools":' + tools.encoded + b",",
            _generation(options, name),
            b'"contents":[',
            known.joined,
            open_end,
            rest,
            b"]}]",
            tools.encoded and _tool_config(request.tool_choice, tools),
            b"}",
        )
    )


@functools.lru_cache(maxsize=64)
def _generation(options: Options, model: str) -> bytes:
    given: dict[str, object] = {}
    if _THINKS.search(model):
        given["thinkingConfig"] = {"includeThoughts": True, **_thinking(options, model)}
    if options.max_tokens:
        given["maxOutputTokens"] = options.max_tokens
    if options.temperature is not None:
        given["temperature"] = options.temperature
    return b'"generationConfig":' + encoded(given) + b"," if given else b""


def _thinking(options: Options, model: str) -> dict[str, object]:
    """From its third generation on a model knows efforts; before, only tokens."""
    if isinstance(options.thinking, str) and options.effort and not _BUDGETS.search(model):
        return {"thinkingLevel": options.effort.upper()}
    return {"thinkingBudget": options.budget} if options.budget else {}


def _system(text: str) -> bytes:
    return b'"systemInstruction":' + encoded({"parts": [text_part(text)]}) + b","


def _encoded_group(sealed_by: str, group: Sequence[Item], role: str, last: bool) -> tuple[bytes, str]:
    contents = _contents(group, sealed_by)
    if not role and contents and contents[0][0] == "model":
        contents = [("user", [text_part(LEFT_OUT)]), *contents]
    return _joined(contents, role)


def _joined(contents: Iterable[Content], role: str) -> tuple[bytes, str]:
    """Contents after one of this role. The last one stays open: what the same role says next belongs to it."""
    written: list[bytes] = []
    for next_role, parts in contents:
        if next_role != role:
            written.append(b'%s{"role":"%s","parts":[' % (b"]}," if role else b"", next_role.encode()))
            role = next_role
        else:
            written.append(b",")
        written.append(encoded(parts)[1:-1])
    return b"".join(written), role


def _contents(group: Sequence[Item], sealed_by: str) -> list[Content]:
    first = group[0]
    if isinstance(first, SystemText):
        return [("user", [text_part(first.text)])]
    if isinstance(first, UserMessage):
        return [("user", parts_of(first))]
    results = {item.call_id: item for item in reversed(group) if isinstance(item, Result)}
    said: list[object] = []
    answers: list[object] = []
    for item in group:
        if isinstance(item, ModelText) and item.text:
            said.append(_signed({"text": item.text}, _signature(item, sealed_by)))
        elif isinstance(item, Call) and item.ran_at and item.ran_at == sealed_by.partition(":")[0]:
            said += _ran(item, results.get(item.id), sealed_by)
        elif isinstance(item, Call):
            said.append(_call(item, sealed_by, first=not answers))
            answers.append(_answer(item, results.get(item.id), looks=bool(_LOOKS_AT_RESULTS.search(sealed_by))))
    return [(role, parts) for role, parts in (("model", said), ("user", answers)) if parts]


def _signature(item: ModelText | Call, sealed_by: str) -> str | None:
    return item.seal.data if item.seal is not None and item.seal.provider == sealed_by else None


def _signed(part: dict[str, object], signature: str | None) -> dict[str, object]:
    return {**part, "thoughtSignature": signature} if signature else part


def _call(call: Call, sealed_by: str, *, first: bool) -> dict[str, object]:
    name = to_provider(call.tool, GEMINI)
    part: dict[str, object] = {"functionCall": {"id": call.id, "name": name, "args": call.arguments}}
    return _signed(part, _signature(call, sealed_by) or (UNSIGNED if first else None))


def _answer(call: Call, result: Result | None, *, looks: bool) -> dict[str, object]:
    told = {"error": NO_RESULT} if result is None else {"output" if result.outcome == "ok" else "error": result.content}
    answer: dict[str, object] = {"id": call.id, "name": to_provider(call.tool, GEMINI), "response": told}
    if looks and (shown := images_of(result, IMAGES)):
        answer["parts"] = [{"inlineData": {"mimeType": image.kind, "data": image.data}} for image in shown]
    return {"functionResponse": answer}


def _ran(call: Call, result: Result | None, sealed_by: str) -> list[object]:
    """What Google ran goes back as it came, call and result together; what was only told of it does not."""
    asked = unsealed(call, sealed_by)
    answered = unsealed(result, sealed_by) if result else None
    return [asked, answered] if asked and answered else []


def _encoded_tools(offer: Offer, model: str) -> _Tools:
    """The tools as JSON, once for each offer and model; empty if there are none."""
    kept_for = _tools.setdefault(offer, {})
    known = kept_for.get(model)
    if known is None:
        functions = [_function(tool) for tool in offer.tools if tool.venue != "provider"]
        native = offered(offer.tools, model)
        shown = [*([{"functionDeclarations": functions}] if functions else []), *native]
        known = kept_for[model] = _Tools(
            encoded(shown) if shown else b"",
            frozenset(tool.name for tool in offer.tools if tool.venue != "provider"),
            bool(native),
        )
    return known


def _function(tool: Tool) -> dict[str, object]:
    shape = convert(tool.parameters, "gemini")
    any_at_all = shape.get("properties") or "additionalProperties" in shape
    takes = {"parametersJsonSchema": shape} if any_at_all else {}
    return {"name": to_provider(tool.name, GEMINI), "description": tool.description or tool.name, **takes}


def _tool_config(choice: str, tools: _Tools) -> bytes:
    config: dict[str, object] = {}
    if choice in tools.functions:
        config["functionCallingConfig"] = {"mode": "ANY", "allowedFunctionNames": [to_provider(choice, GEMINI)]}
    elif tools.functions:
        config["functionCallingConfig"] = {"mode": _MODES.get(choice, "AUTO")}
    if tools.functions and tools.native:
        config["includeServerSideToolInvocations"] = True
    return b',"toolConfig":' + encoded(config) if config else b""
