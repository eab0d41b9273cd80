"""The answer to a request for a message, from the view of its run. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import msgspec
from msgspec import Struct

from toolyard.core.conversation.run_view import CallView, RunView, TurnView
from toolyard.core.items import Call, Citation, Item, ModelText, Reasoning, Result, Usage
from toolyard.core.messages_blocks import (
    REDACTED_PREFIX,
    TextPiece,
    decode_call,
    decode_pieces,
    decode_result,
    unseal,
)
from toolyard.surfaces.shared.call_ids import encode_call_id
from toolyard.surfaces.shared.runs.notices import get_first_notice
from toolyard.surfaces.shared.whole_history.answers import (
    ToolyardAnswer,
    build_toolyard_answer,
    list_client_calls,
    wants_only_final_text,
)

Block = dict[str, object]
StopReason = Literal["end_turn", "max_tokens", "stop_sequence", "tool_use", "refusal"]
SERVER_NAME = "toolyard"
"""The name of the server of tools that are on no MCP server."""


class MessageUsage(Struct, kw_only=True):
    """Tokens of all model requests of the run. Those of the cache are counted apart from the other input."""

    input_tokens: int
    output_tokens: int
    cache_read_input_tokens: int = 0
    cache_creation_input_tokens: int = 0


class Message(Struct, kw_only=True):
    id: str
    model: str
    content: list[Block]
    stop_reason: StopReason | None
    usage: MessageUsage
    toolyard: ToolyardAnswer | None = None
    stop_sequence: str | None = None
    type: Literal["message"] = "message"
    role: Literal["assistant"] = "assistant"


def build_message(view: RunView, model: str, provider: str, waiting_text: str) -> Message:
    """Return the answer of a run that has ended or waits. `waiting_text` says what it waits for, if not the client.

    `provider` is that of the model, if its API is this one: what it has signed is handed out.
    """
    return Message(
        id=build_message_id(view.run_id),
        model=model,
        content=_build_content(view, provider, waiting_text),
        stop_reason=find_stop_reason(view, waiting_text),
        stop_sequence=find_stop_sequence(view),
        usage=build_usage(view.usage),
        toolyard=build_toolyard_answer(view),
    )


def build_message_id(run_id: str) -> str:
    return f"msg_{run_id.removeprefix('run_')}"


def _build_content(view: RunView, provider: str, waiting_text: str) -> list[Block]:
    has_schema = wants_only_final_text(view)
    texts = [] if has_schema else [get_first_notice(view)]
    blocks = [build_text_block(text) for text in texts if text]
    for turn in view.turns:
        shown = [item for item in turn.items if not has_schema or not isinstance(item, ModelText)]
        blocks += build_turn_blocks(shown, provider, view.calls)
        blocks += [block for call in list_server_calls(view, turn) for block in build_server_call(call)]
    last_text = waiting_text
    if has_schema and not waiting_text and not list_client_calls(view):
        last_text = view.text
    elif view.end is not None and view.end.message is not None:
        last_text = view.end.message.text
    return [*blocks, *build_client_calls(view), *([build_text_block(last_text)] if last_text else [])]


def build_turn_blocks(items: Sequence[Item], provider: str, calls: Mapping[str, CallView]) -> list[Block]:
    """Return what the model and its provider did in a turn, but for the calls that run here or at the client."""
    blocks: list[Block] = []
    for item in items:
        match item:
            case ModelText():
                blocks += build_text_blocks(item, provider)
            case Reasoning() if block := build_thinking_block(item, provider):
                blocks.append(block)
            case Call() if item.ran_at:
                blocks.append(_build_hosted_call(item))
            case Result() if item.ran_at:
                blocks.append(_build_hosted_result(item, calls[item.call_id].call.provider_id))
            case _:
                pass
    return blocks


def build_text_block(text: str) -> Block:
    return {"type": "text", "text": text, "citations": None}


def build_text_blocks(item: ModelText, provider: str) -> list[Block]:
    """Return a text as blocks, split where its provider has split it to cite sources."""
    pieces = unseal(item.seal, provider, decode_pieces) if provider else None
    if pieces is None:
        citations = [build_citation(citation) for citation in item.citations]
        return [{**build_text_block(item.text), "citations": citations or None}] if item.text else []
    blocks: list[Block] = []
    start = 0
    for piece in pieces:
        text, start = item.text[start : start + piece.length], start + piece.length
        blocks.append({**build_text_block(text), "citations": list_citations(piece) or None})
    return blocks


def list_citations(piece: TextPiece) -> list[Block]:
    return [{"file_id": None, **citation} if _has_file(citation) else citation for citation in piece.citations]


def _has_file(citation: Block) -> bool:
    return citation.get("type") in ("char_location", "page_location", "content_block_location")


def build_citation(citation: Citation) -> Block:
    """Return a source that another provider has named, as a search result. It has no index at Anthropic."""
    return {
        "type": "web_search_result_location",
        "url": citation.url,
        "title": citation.title or None,
        "cited_text": citation.quote,
        "encrypted_index": "",
    }


def build_thinking_block(item: Reasoning, provider: str) -> Block | None:
    """Return reasoning, with its signature if its provider takes it back in this form."""
    signature = item.signature if item.provider == provider else ""
    if signature.startswith(REDACTED_PREFIX):
        return {"type": "redacted_thinking", "data": signature.removeprefix(REDACTED_PREFIX)}
    return {"type": "thinking", "thinking": item.text, "signature": signature} if item.text or signature else None


def _build_hosted_call(call: Call) -> Block:
    sealed = unseal(call.seal, call.ran_at, decode_call)
    if sealed is None:
        return _build_mcp_call(call, call.arguments, call.ran_at)
    caller = {} if sealed.caller is None else {"caller": sealed.caller}
    return {"type": "server_tool_use", "id": call.provider_id, "name": sealed.name, "input": call.arguments, **caller}


def _build_hosted_result(result: Result, provider_id: str) -> Block:
    sealed = unseal(result.seal, result.ran_at, decode_result)
    if sealed is None:
        return _build_mcp_result(result)
    return {"type": sealed.type, "tool_use_id": provider_id, "content": sealed.content}


def list_server_calls(view: RunView, turn: TurnView) -> list[CallView]:
    """Return the calls of a turn that run on the server."""
    calls = (view.calls[item.id] for item in turn.items if isinstance(item, Call) and not item.ran_at)
    return [call for call in calls if not view.is_client_tool(call.call.tool)]


def build_server_call(call: CallView) -> Iterable[Block]:
    """Yield a call that ran on the server and its result, if both have happened."""
    if call.result is not None:
        yield _build_mcp_call(call.call, call.arguments, SERVER_NAME)
        yield _build_mcp_result(call.result)


def _build_mcp_call(call: Call, arguments: dict[str, object], server: str) -> Block:
    return {
        "type": "mcp_tool_use",
        "id": _build_mcp_id(call.id),
        "name": call.tool,
        "server_name": server,
        "input": arguments,
    }


def _build_mcp_result(result: Result) -> Block:
    content = [{"type": "text", "text": result.content, "citations": None}] if result.content else []
    return {
        "type": "mcp_tool_result",
        "tool_use_id": _build_mcp_id(result.call_id),
        "is_error": result.outcome != "ok",
        "content": content,
    }


def _build_mcp_id(call_id: str) -> str:
    return f"mcptoolu_{call_id.removeprefix('call_')}"


def build_client_calls(view: RunView) -> list[Block]:
    return [build_client_call(view, call, call.call.arguments) for call in list_client_calls(view)]


def build_client_call(view: RunView, call: CallView, arguments: dict[str, object]) -> Block:
    call_id = encode_call_id(view.conversation, call.call.id)
    return {"type": "tool_use", "id": call_id, "name": call.call.tool, "input": arguments}


def find_stop_reason(view: RunView, waiting_text: str = "") -> StopReason:
    if view.status == "waiting":
        if list_client_calls(view):
            return "tool_use"
        # Clients parse the text of an answer that has to fit a schema, unless the model has refused.
        return "refusal" if waiting_text and wants_only_final_text(view) else "end_turn"
    if view.ending == "limit":
        return "max_tokens"
    if view.detail == "refused":
        return "refusal"
    return "stop_sequence" if find_stop_sequence(view) else "end_turn"


def find_stop_sequence(view: RunView) -> str | None:
    """Return the client's stop sequence that ended the answer, if its provider tells it."""
    reply, stops = view.last_reply, view.request.options.stop if view.request else ()
    return reply.stop_sequence if view.ending == "done" and reply and reply.stop_sequence in stops else None


def build_usage(usage: Usage) -> MessageUsage:
    """Return the tokens as Anthropic counts them: input that was read from or written to a cache is no other input."""
    written = usage.cache_writes_5m + usage.cache_writes_1h
    return MessageUsage(
        input_tokens=usage.input_tokens - usage.cached_tokens - written,
        output_tokens=usage.output_tokens,
        cache_creation_input_tokens=written,
        cache_read_input_tokens=usage.cached_tokens,
    )


def encode_arguments(arguments: dict[str, object]) -> str:
    return msgspec.json.encode(arguments).decode()
