"""The parts of a Chat Completions chunk that Toolyard reads. Providers omit fields, set them to null and repeat them.

The same shapes read a streamed chunk (`delta`) and a whole completion (`message`).
"""

import msgspec
from msgspec import Struct


class FunctionDelta(Struct, gc=False):
    name: str | None = None
    arguments: object = None
    """A piece of JSON text; some providers send the object itself."""


class CallDelta(Struct, gc=False):
    index: int | None = None
    id: str | None = None
    function: FunctionDelta | None = None


class ChatDelta(Struct, gc=False):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: object = None
    refusal: str | None = None
    tool_calls: list[CallDelta] | None = None


class ChatChoice(Struct, gc=False):
    index: int | None = None
    delta: ChatDelta | None = None
    message: ChatDelta | None = None
    finish_reason: str | None = None
    stop_reason: object = None
    matched_stop: object = None
    """vLLM and SGLang name the stop sequence, or the number of a token, that ended the text. OpenAI does not."""
    logprobs: object = None
    """The probabilities of the tokens of `content`, if the request asked for them."""


class PromptDetails(Struct, gc=False):
    cached_tokens: float | None = None
    cache_write_tokens: float | None = None
    """OpenRouter's name for tokens that were written to a cache."""
    cache_creation_input_tokens: float | None = None
    """DashScope's name for them."""


class CompletionDetails(Struct, gc=False):
    reasoning_tokens: float | None = None


class ChatUsage(Struct, gc=False):
    prompt_tokens: float | None = None
    completion_tokens: float | None = None
    completion_tokens_details: CompletionDetails | None = None
    prompt_tokens_details: PromptDetails | None = None
    prompt_cache_hit_tokens: float | None = None
    """DeepSeek's name for cached tokens."""


class ChatChunk(Struct, gc=False):
    choices: list[ChatChoice] | None = None
    usage: ChatUsage | None = None
    model: str | None = None
    error: object = None
    message: str | None = None
    """Only in an error that is not wrapped in `error`."""


decode_chunk = msgspec.json.Decoder(ChatChunk).decode
