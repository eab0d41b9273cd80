"""The parts of a generateContent chunk that Toolyard reads. Any field may be missing or null."""

import msgspec
from msgspec import Struct

from toolyard.core.json_types import Json


class GeminiFunctionCall(Struct, gc=False, rename="camel"):
    id: str | None = None
    name: str | None = None
    args: Json | None = None
    will_continue: bool | None = None


class ExecutableCode(Struct, gc=False, rename="camel", omit_defaults=True):
    language: str | None = None
    code: str | None = None
    id: str | None = None


class CodeExecutionResult(Struct, gc=False, rename="camel", omit_defaults=True):
    outcome: str | None = None
    output: str | None = None
    id: str | None = None


class GeminiToolCall(Struct, gc=False, rename="camel", omit_defaults=True):
    """A call of one of Google's own tools. It is shown only where functions were offered beside these tools."""

    tool_type: str | None = None
    id: str | None = None
    args: Json | None = None


class GeminiToolResponse(Struct, gc=False, rename="camel", omit_defaults=True):
    tool_type: str | None = None
    id: str | None = None
    response: Json | None = None


class GeminiPart(Struct, gc=False, rename="camel", omit_defaults=True):
    text: str | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    function_call: GeminiFunctionCall | None = None
    executable_code: ExecutableCode | None = None
    code_execution_result: CodeExecutionResult | None = None
    tool_call: GeminiToolCall | None = None
    tool_response: GeminiToolResponse | None = None


class GeminiContent(Struct, gc=False):
    parts: list[GeminiPart] | None = None


class GroundingSource(Struct, gc=False):
    uri: str | None = None
    title: str | None = None


class GroundingChunk(Struct, gc=False, rename="camel"):
    web: GroundingSource | None = None
    retrieved_context: GroundingSource | None = None


class GroundingSegment(Struct, gc=False, rename="camel"):
    start_index: int | None = None
    end_index: int | None = None
    """Both indexes count bytes of UTF-8."""
    text: str | None = None


class GroundingSupport(Struct, gc=False, rename="camel"):
    segment: GroundingSegment | None = None
    grounding_chunk_indices: list[int] | None = None


class Grounding(Struct, gc=False, rename="camel"):
    web_search_queries: list[str] | None = None
    grounding_chunks: list[GroundingChunk] | None = None
    grounding_supports: list[GroundingSupport] | None = None


class Candidate(Struct, gc=False, rename="camel"):
    index: int | None = None
    content: GeminiContent | None = None
    finish_reason: str | None = None
    finish_message: str | None = None
    grounding_metadata: Grounding | None = None


class PromptFeedback(Struct, gc=False, rename="camel"):
    block_reason: str | None = None
    block_reason_message: str | None = None


class GeminiUsage(Struct, gc=False, rename="camel"):
    prompt_token_count: float | None = None
    tool_use_prompt_token_count: float | None = None
    candidates_token_count: float | None = None
    thoughts_token_count: float | None = None
    cached_content_token_count: float | None = None


NO_RAW = msgspec.Raw()


class GeminiChunk(Struct, gc=False, rename="camel"):
    candidates: list[Candidate] | None = None
    prompt_feedback: PromptFeedback | None = None
    usage_metadata: msgspec.Raw = NO_RAW
    """Comes with every chunk, but only the last one is decoded: decoding each was a measurable cost."""
    model_version: str | None = None
    error: object = None


decode_chunk = msgspec.json.Decoder(GeminiChunk).decode
decode_usage = msgspec.json.Decoder(GeminiUsage | None).decode
decode_part = msgspec.json.Decoder(GeminiPart).decode
