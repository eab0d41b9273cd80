"""The answer to a chat completion, from the view of its run. Pure."""

from typing import Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from toolyard.core.conversation.run_view import RunView, merge_citations
from toolyard.core.items import Citation, Reasoning, Usage
from toolyard.surfaces.shared.call_ids import encode_call_id
from toolyard.surfaces.shared.runs.notices import get_first_notice
from toolyard.surfaces.shared.whole_history.answers import (
    ToolyardAnswer,
    build_toolyard_answer,
    list_client_calls,
    wants_only_final_text,
)

FinishReason = Literal["stop", "length", "tool_calls", "content_filter"]
TURN_SEPARATOR = "\n\n"
"""Between the texts of two turns: a client sees the texts of all turns as one."""


class CalledFunction(Struct, kw_only=True):
    name: str
    arguments: str


class CompletionToolCall(Struct, kw_only=True):
    """A call for the client to run. Its result comes as a message of the role `tool` with the same id."""

    id: str
    function: CalledFunction
    type: Literal["function"] = "function"


class UrlCitation(Struct, kw_only=True):
    start_index: int
    end_index: int
    url: str
    title: str


class CompletionAnnotation(Struct, kw_only=True):
    url_citation: UrlCitation
    type: Literal["url_citation"] = "url_citation"


class CompletionAnswer(Struct, kw_only=True):
    content: str | None
    tool_calls: list[CompletionToolCall] | UnsetType = UNSET
    annotations: list[CompletionAnnotation] | UnsetType = UNSET
    reasoning_content: str | UnsetType = UNSET
    refusal: str | None = None
    role: Literal["assistant"] = "assistant"


class ChoiceLogprobs(Struct, kw_only=True):
    """The probabilities of the tokens of the text, as the provider gave them."""

    content: list[dict[str, object]]
    refusal: None = None


class Choice(Struct, kw_only=True):
    message: CompletionAnswer
    finish_reason: FinishReason
    index: int = 0
    logprobs: ChoiceLogprobs | None = None


class PromptTokens(Struct, kw_only=True):
    cached_tokens: int


class CompletionTokens(Struct, kw_only=True):
    reasoning_tokens: int


class CompletionUsage(Struct, kw_only=True):
    """Tokens of all model requests of the run."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokens
    completion_tokens_details: CompletionTokens


class Completion(Struct, kw_only=True):
    id: str
    created: int
    model: str
    choices: list[Choice]
    usage: CompletionUsage
    toolyard: ToolyardAnswer
    object: Literal["chat.completion"] = "chat.completion"


def build_completion(view: RunView, model: str, created: int, waiting_text: str) -> Completion:
    """Return the answer of a run that has ended or waits. `waiting_text` says what it waits for, if not the client."""
    calls = build_tool_calls(view)
    text = join_texts(view)
    # Clients parse the content of an answer that has to fit a schema, and take a refusal as a text for people.
    refusal = waiting_text if waiting_text and wants_only_final_text(view) else None
    if refusal:
        text = ""
    elif waiting_text:
        text = TURN_SEPARATOR.join(filter(None, (text, waiting_text)))
    message = CompletionAnswer(
        content=text or None,
        refusal=refusal,
        tool_calls=calls or UNSET,
        annotations=build_annotations(view) or UNSET,
        reasoning_content=join_reasoning(view) or UNSET,
    )
    return Completion(
        id=build_completion_id(view.run_id),
        created=created,
        model=model,
        choices=[Choice(message=message, finish_reason=find_finish_reason(view), logprobs=_build_logprobs(view))],
        usage=build_usage(view.usage),
        toolyard=build_toolyard_answer(view),
    )


def build_completion_id(run_id: str) -> str:
    return f"chatcmpl-{run_id.removeprefix('run_')}"


def join_texts(view: RunView) -> str:
    """Return the texts of all turns, or the last one's if it has to fit a schema."""
    if wants_only_final_text(view):
        return "" if list_client_calls(view) else view.text
    texts = [get_first_notice(view), *("".join(text.text for text in turn.texts) for turn in view.turns)]
    if view.end is not None and view.end.message is not None:
        texts.append(view.end.message.text)
    return TURN_SEPARATOR.join(filter(None, texts))


def join_reasoning(view: RunView) -> str:
    """Return the reasoning of all turns, as a stream shows it."""
    return "".join(item.text for turn in view.turns for item in turn.items if isinstance(item, Reasoning))


def join_logprobs(view: RunView) -> str:
    """Return the probabilities of the tokens of `join_texts`, as `ModelText.logprobs` has them."""
    turns = view.turns[-1:] if wants_only_final_text(view) else view.turns
    return ",".join(text.logprobs for turn in turns for text in turn.texts if text.logprobs)


def _build_logprobs(view: RunView) -> ChoiceLogprobs | None:
    tokens = join_logprobs(view)
    content = msgspec.json.decode(f"[{tokens}]", type=list[dict[str, object]]) if tokens else []
    return ChoiceLogprobs(content=content) if content else None


def build_tool_calls(view: RunView) -> list[CompletionToolCall]:
    return [
        CompletionToolCall(
            id=encode_call_id(view.conversation, call.call.id),
            function=CalledFunction(name=call.call.tool, arguments=msgspec.json.encode(call.call.arguments).decode()),
        )
        for call in list_client_calls(view)
    ]


def build_annotations(view: RunView) -> list[CompletionAnnotation]:
    """Return the sources of the text, with offsets into the joined text."""
    citations: list[Citation] = []
    notice = "" if wants_only_final_text(view) else get_first_notice(view)
    offset = len(notice) + len(TURN_SEPARATOR) if notice else 0
    for turn in view.turns if not wants_only_final_text(view) else view.turns[-1:]:
        length = sum(len(text.text) for text in turn.texts)
        for cited in merge_citations(turn.texts):
            citations.append(msgspec.structs.replace(cited, start=cited.start + offset, end=cited.end + offset))
        offset += length + len(TURN_SEPARATOR) if length else 0
    return [
        CompletionAnnotation(
            url_citation=UrlCitation(start_index=cited.start, end_index=cited.end, url=cited.url, title=cited.title)
        )
        for cited in citations
        if cited.url
    ]


def find_finish_reason(view: RunView) -> FinishReason:
    if view.status == "waiting":
        return "tool_calls" if list_client_calls(view) else "stop"
    if view.ending == "limit":
        return "length"
    return "content_filter" if view.detail == "refused" else "stop"


def build_usage(usage: Usage) -> CompletionUsage:
    return CompletionUsage(
        prompt_tokens=usage.input_tokens,
        completion_tokens=usage.output_tokens,
        total_tokens=usage.total,
        prompt_tokens_details=PromptTokens(cached_tokens=usage.cached_tokens),
        completion_tokens_details=CompletionTokens(reasoning_tokens=usage.reasoning_tokens),
    )
