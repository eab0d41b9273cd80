"""OpenAI's own tools: their definitions in a request, and their calls and citations in a conversation. Pure."""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from toolyard.core.failed_results import format_problem
from toolyard.core.items import Call, Citation, Item, Outcome, Problem, Seal
from toolyard.core.ports import Clock
from toolyard.core.tools.definition import ProviderOptions, Tool
from toolyard.models.responses.wire_types import Annotation, ContentPart, OutputItem
from toolyard.models.shared.hosted_tools import build_citation, build_hosted_result
from toolyard.models.shared.json_values import encode_json

HOSTED_CALL_TYPES = {
    "web_search_call": "web_search",
    "code_interpreter_call": "code_execution",
    "file_search_call": "file_search",
}
"""The types of output items that are calls of OpenAI's tools, and the tools' names here."""
INCLUDE_FIELDS = {
    "web_search": "web_search_call.action.sources",
    "code_execution": "code_interpreter_call.outputs",
    "file_search": "file_search_call.results",
}
"""The `include` value that makes OpenAI send a tool's results."""


class _WebSearchCall(Struct, tag="web_search_call"):
    id: str
    status: str
    action: dict[str, object]


class _CodeInterpreterCall(Struct, tag="code_interpreter_call"):
    id: str
    status: str
    code: str | None
    container_id: str
    outputs: list[dict[str, object]] | None


class _FileSearchCall(Struct, tag="file_search_call"):
    id: str
    status: str
    queries: list[str]
    results: list[dict[str, object]] | None


_decode_hosted = msgspec.json.Decoder(_WebSearchCall | _CodeInterpreterCall | _FileSearchCall).decode


def build_native_tool(tool: Tool) -> dict[str, object] | None:
    """Return the tool as OpenAI defines it; None if OpenAI has no such tool or cannot enforce the limits set for it."""
    options = tool.options or ProviderOptions()
    if tool.name == "web_search" and not options.blocked_domains:
        definition: dict[str, object] = {"type": "web_search"}
        if options.allowed_domains:
            definition["filters"] = {"allowed_domains": list(options.allowed_domains)}
        if options.user_location is not None:
            definition["user_location"] = {"type": "approximate", **msgspec.to_builtins(options.user_location)}
        return definition
    if tool.name == "code_execution":
        return {"type": "code_interpreter", "container": {"type": "auto"}}
    if tool.name == "file_search" and options.stores:
        return {"type": "file_search", "vector_store_ids": list(options.stores)}
    return None


def build_hosted_call(item: OutputItem, provider: str, clock: Clock, at: float) -> list[Item]:
    """Return a call that the provider ran, sealed as it must go back, and its result."""
    arguments, content = _parse_call(item)
    call = Call(
        id=clock.new_id("call"),
        at=at,
        tool=HOSTED_CALL_TYPES[item.type or ""],
        arguments=arguments,
        provider_id=item.id or "",
        ran_at=provider,
        seal=_build_seal(item, provider),
    )
    error: Problem | None = None
    outcome: Outcome = "ok"
    if item.status not in (None, "completed"):
        outcome, error = "error", Problem(error=f"{call.tool} is {item.status}", error_type="execution_error")
        content = format_problem(error)
    return [call, build_hosted_result(call, at, outcome, content, error)]


def _parse_call(item: OutputItem) -> tuple[dict[str, object], str]:
    """Return the arguments and the result of a provider's call, for readers of the conversation."""
    if item.type == "web_search_call":
        action = dict(item.action or {})
        sources = action.pop("sources", None)
        return action, encode_json({"sources": sources or []}).decode()
    if item.type == "file_search_call":
        return {"queries": item.queries or []}, encode_json({"results": item.results or []}).decode()
    return {"code": item.code or ""}, encode_json({"outputs": item.outputs or []}).decode()


def _build_seal(item: OutputItem, provider: str) -> Seal | None:
    sealed: Struct
    if item.type == "web_search_call" and item.action:
        sealed = _WebSearchCall(item.id or "", item.status or "completed", item.action)
    elif item.type == "code_interpreter_call" and item.container_id:
        sealed = _CodeInterpreterCall(
            item.id or "", item.status or "completed", item.code, item.container_id, item.outputs
        )
    elif item.type == "file_search_call":
        sealed = _FileSearchCall(item.id or "", item.status or "completed", item.queries or [], item.results)
    else:
        return None
    return Seal(provider=provider, data=encode_json(sealed).decode())


def unseal_call(call: Call, provider: str) -> Struct | None:
    """Return the item of a call that this provider ran, to send back; None if there is no seal that can be read."""
    if call.seal is None or call.seal.provider != provider or call.ran_at != provider:
        return None
    try:
        return _decode_hosted(call.seal.data)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def build_citations(parts: Sequence[ContentPart], text: str) -> tuple[Citation, ...]:
    """Return the citations of a message. The indexes of a part count from its own beginning."""
    citations: list[Citation] = []
    before = 0
    for part in parts:
        citations += [
            _build_citation(annotation, before, len(text)) for annotation in part.annotations or () if annotation.type
        ]
        before += len(part.text or part.refusal or "")
    return tuple(citations)


def _build_citation(annotation: Annotation, before: int, max_end: int) -> Citation:
    start = before + (annotation.start_index if annotation.start_index is not None else annotation.index or 0)
    end = before + annotation.end_index if annotation.end_index is not None else start
    start, end = min(max(start, 0), max_end), min(max(end, 0), max_end)
    return build_citation(start, max(start, end), annotation.url, annotation.title or annotation.filename)
