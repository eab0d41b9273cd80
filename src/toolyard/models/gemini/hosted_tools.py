"""Google's own tools: how each is asked for, what their calls are in a conversation, and where they may be. Pure."""

from collections.abc import Sequence

import msgspec

from toolyard.core.items import Call, Citation, Item, ModelText, Outcome, Problem, Result, Seal
from toolyard.core.ports import Clock
from toolyard.core.results import format_problem
from toolyard.core.tools import ProviderOptions, Tool
from toolyard.models.gemini.chunks import GeminiPart, Grounding, GroundingSupport, decode_part
from toolyard.models.hosted_results import build_citation, build_hosted_result
from toolyard.models.hosted_tools import supports_functions_with_native
from toolyard.models.unicode import encode_json

_TOOL_TYPES = {"GOOGLE_SEARCH_WEB": "web_search", "FILE_SEARCH": "file_search"}


def build_native_tool(tool: Tool) -> dict[str, object] | None:
    """The tool in Google's words. None if it has none such, or cannot be held to the limits that are set for it."""
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
    """A call that Google ran, with its result if there is one; the seals are the parts as they came."""
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
    told = content if error is None else format_problem(error)
    seal = _seal_part(result_part, sealed_by) if result_part else None
    return [call, build_hosted_result(call, at, outcome, told, error, seal)]


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
    came_to = part.code_execution_result
    output = (came_to and came_to.output) or ""
    if came_to is not None and came_to.outcome == "OUTCOME_OK":
        return "ok", output
    return "error", output or (came_to and came_to.outcome) or "it failed"


def _seal_part(part: GeminiPart, sealed_by: str) -> Seal:
    return Seal(provider=sealed_by, data=encode_json(part).decode())


def unseal_part(item: Call | Result, sealed_by: str) -> GeminiPart | None:
    """The part of what Google ran, as it is sent back. A seal that cannot be read is none."""
    if not item.ran_at or item.seal is None or item.seal.provider != sealed_by:
        return None
    try:
        part = decode_part(item.seal.data)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    if isinstance(item, Call):
        whole = part.executable_code or part.tool_call
    else:
        whole = part.code_execution_result or part.tool_response
    return part if whole and part.text is None and part.function_call is None else None


def build_search_call(grounding: Grounding, provider: str, clock: Clock, at: float) -> list[Item]:
    """A search that shows only in what the answer rests on: a call with its sources. Nothing of it is sent back."""
    sources = [one.web or one.retrieved_context for one in grounding.grounding_chunks or ()]
    told = [{"url": one.uri or "", "title": one.title or ""} for one in sources if one]
    if not grounding.web_search_queries and not told:
        return []
    arguments: dict[str, object] = {"queries": grounding.web_search_queries or []}
    call = Call(id=clock.new_id("call"), at=at, tool="web_search", arguments=arguments, ran_at=provider)
    return [call, build_hosted_result(call, at, "ok", encode_json({"sources": told}).decode())]


def build_citations(text: ModelText, grounding: Grounding) -> tuple[Citation, ...]:
    """Which pieces of the text rest on which source."""
    sources = [one.web or one.retrieved_context for one in grounding.grounding_chunks or ()]
    found: list[Citation] = []
    for support in grounding.grounding_supports or ():
        place = _locate_segment(support, text.text)
        for number in support.grounding_chunk_indices or () if place else ():
            source = sources[number] if 0 <= number < len(sources) else None
            if place and source:
                found.append(build_citation(*place, source.uri, source.title))
    return tuple(found)


def _locate_segment(support: GroundingSupport, text: str) -> tuple[int, int] | None:
    """Where the segment is, in characters: its own count is in bytes, and of what was one part when it was written."""
    segment = support.segment
    if segment is None:
        return None
    whole = text.encode()
    start, end = segment.start_index or 0, segment.end_index or 0
    piece = whole[start:end].decode("utf-8", "ignore")
    if piece and piece == (segment.text or piece):
        before = len(whole[:start].decode("utf-8", "ignore"))
        return before, before + len(piece)
    at = text.find(segment.text) if segment.text else -1
    return (at, at + len(segment.text or "")) if at >= 0 else None


def build_native_tools(tools: Sequence[Tool], model: str) -> list[dict[str, object]]:
    """Those of the provider's tools that can go into a request of this model, in its words."""
    native = [asked for tool in tools if tool.venue == "provider" and (asked := build_native_tool(tool)) is not None]
    functions = any(tool.venue != "provider" for tool in tools)
    return [] if functions and not supports_functions_with_native(model) else native
