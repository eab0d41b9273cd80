"""Google's own tools: their definitions in a request, and their calls and citations in a conversation. Pure."""

from collections.abc import Sequence

import msgspec

from toolyard.core.failed_results import format_problem
from toolyard.core.items import Call, Citation, Item, ModelText, Outcome, Problem, Result, Seal
from toolyard.core.ports import Clock
from toolyard.core.tools.definition import ProviderOptions, Tool
from toolyard.models.gemini.wire_types import GeminiPart, Grounding, GroundingSupport, decode_part
from toolyard.models.shared.hosted_tools import build_citation, build_hosted_result, supports_functions_with_native
from toolyard.models.shared.json_values import encode_json

_TOOL_TYPES = {"GOOGLE_SEARCH_WEB": "web_search", "FILE_SEARCH": "file_search"}


def build_native_tool(tool: Tool) -> dict[str, object] | None:
    """Return the tool as Google defines it; None if Google has no such tool or cannot enforce the limits set for it."""
    options = tool.options or ProviderOptions()
    if tool.name == "web_search":
        limited = options.max_uses or options.allowed_domains or options.blocked_domains
        return None if limited else {"googleSearch": {}}
    if tool.name == "code_execution":
        return {"codeExecution": {}}
    if tool.name == "file_search" and options.stores:
        return {"fileSearch": {"fileSearchStoreNames": list(options.stores)}}
    return None


def build_hosted_call(
    call_part: GeminiPart, result_part: GeminiPart | None, provider: str, sealed_by: str, clock: Clock, at: float
) -> list[Item]:
    """Return a call that Google ran and its result, each sealed as its part arrived; no result part is an error."""
    tool, arguments = _parse_call(call_part)
    call = Call(
        id=clock.new_id("call"),
        at=at,
        tool=tool,
        arguments=arguments,
        ran_at=provider,
        seal=_seal_part(call_part, sealed_by),
    )
    outcome, content = _parse_result(result_part)
    error = None if outcome == "ok" else Problem(error=content, error_type="execution_error")
    text = content if error is None else format_problem(error)
    seal = _seal_part(result_part, sealed_by) if result_part else None
    return [call, build_hosted_result(call, at, outcome, text, error, seal)]


def _parse_call(part: GeminiPart) -> tuple[str, dict[str, object]]:
    if part.tool_call is not None:
        kind = part.tool_call.tool_type or ""
        return _TOOL_TYPES.get(kind, kind.lower()), part.tool_call.args or {}
    code = part.executable_code
    return "code_execution", {"language": (code and code.language) or "", "code": (code and code.code) or ""}


def _parse_result(part: GeminiPart | None) -> tuple[Outcome, str]:
    if part is None:
        return "error", "it came to no result"
    if part.tool_response is not None:
        return "ok", encode_json(part.tool_response.response or {}).decode()
    result = part.code_execution_result
    output = (result and result.output) or ""
    if result is not None and result.outcome == "OUTCOME_OK":
        return "ok", output
    return "error", output or (result and result.outcome) or "it failed"


def _seal_part(part: GeminiPart, sealed_by: str) -> Seal:
    return Seal(provider=sealed_by, data=encode_json(part).decode())


def unseal_part(item: Call | Result, sealed_by: str) -> GeminiPart | None:
    """Return the sealed part of a call or result that Google ran; None if it is another model's or cannot be read.

    The part is checked because a history may come from a client: a seal must not smuggle text or function calls in.
    """
    if not item.ran_at or item.seal is None or item.seal.provider != sealed_by:
        return None
    try:
        part = decode_part(item.seal.data)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    if isinstance(item, Call):
        content = part.executable_code or part.tool_call
    else:
        content = part.code_execution_result or part.tool_response
    return part if content and part.text is None and part.function_call is None else None


def build_search_call(grounding: Grounding, provider: str, clock: Clock, at: float) -> list[Item]:
    """Return a search that appears only in the grounding metadata as a call with its sources. It is never sent back."""
    sources = [chunk.web or chunk.retrieved_context for chunk in grounding.grounding_chunks or ()]
    listed = [{"url": source.uri or "", "title": source.title or ""} for source in sources if source]
    if not grounding.web_search_queries and not listed:
        return []
    arguments: dict[str, object] = {"queries": grounding.web_search_queries or []}
    call = Call(id=clock.new_id("call"), at=at, tool="web_search", arguments=arguments, ran_at=provider)
    return [call, build_hosted_result(call, at, "ok", encode_json({"sources": listed}).decode())]


def build_citations(text: ModelText, grounding: Grounding) -> tuple[Citation, ...]:
    """Return which parts of the text are supported by which sources."""
    sources = [chunk.web or chunk.retrieved_context for chunk in grounding.grounding_chunks or ()]
    citations: list[Citation] = []
    for support in grounding.grounding_supports or ():
        span = _locate_segment(support, text.text)
        for number in support.grounding_chunk_indices or () if span else ():
            source = sources[number] if 0 <= number < len(sources) else None
            if span and source:
                citations.append(build_citation(*span, source.uri, source.title))
    return tuple(citations)


def _locate_segment(support: GroundingSupport, text: str) -> tuple[int, int] | None:
    """Return the start and end of a segment in characters; None if it is not in the text.

    Google counts bytes, and from the beginning of its own part. Texts of several parts are joined here, so the offsets
    are used only if they point at the segment's text; else the text is searched for.
    """
    segment = support.segment
    if segment is None:
        return None
    encoded = text.encode()
    start, end = segment.start_index or 0, segment.end_index or 0
    piece = encoded[start:end].decode("utf-8", "ignore")
    if piece and piece == (segment.text or piece):
        before = len(encoded[:start].decode("utf-8", "ignore"))
        return before, before + len(piece)
    at = text.find(segment.text) if segment.text else -1
    return (at, at + len(segment.text or "")) if at >= 0 else None


def build_native_tools(tools: Sequence[Tool], model: str) -> list[dict[str, object]]:
    """Return the provider's tools that a request to this model may define."""
    native = [
        definition for tool in tools if tool.venue == "provider" and (definition := build_native_tool(tool)) is not None
    ]
    functions = any(tool.venue != "provider" for tool in tools)
    return [] if functions and not supports_functions_with_native(model) else native
