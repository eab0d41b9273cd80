"""The output items of a response, from the view of its run. Pure.

A turn is a reasoning item, a message and calls. A call that the client runs is a `function_call`, or an item of the
tool's own type; one that ran on the server is an `mcp_call`: the one kind of item that every client takes as done by
the server.
"""

from collections.abc import Sequence

import msgspec

from toolyard.core.conversation.run_view import CallView, RunView, TurnView, merge_citations
from toolyard.core.items import Call, Citation, Item, ModelText, Reasoning
from toolyard.surfaces.openai.responses.ids import build_item_id, encode_response_id
from toolyard.surfaces.openai.responses.tool_kinds import build_call_item, find_wire_tool
from toolyard.surfaces.shared.call_ids import encode_call_id
from toolyard.surfaces.shared.runs.notices import get_first_notice

OutputItem = dict[str, object]
SERVER_LABEL = "toolyard"


def list_output(view: RunView, waiting_text: str = "", approvals: Sequence[OutputItem] = ()) -> list[OutputItem]:
    """Return the items of a run as of now. `waiting_text` says what it waits for, if not the client.

    `approvals` are the items that ask the client to decide, if it takes them.
    """
    output = [*list_first_notices(view), *(item for turn in view.turns for item in list_turn_output(view, turn))]
    if view.end is not None and view.end.message is not None:
        output.append(build_message(view.end.message.id, view.end.message.text, ()))
        return output
    output += approvals
    if waiting_text:
        output.append(build_waiting_message(view, waiting_text))
    return output


def list_first_notices(view: RunView) -> list[OutputItem]:
    """Return the message that the answer begins with, if an earlier call waits for others."""
    notice = "" if has_schema(view) else get_first_notice(view)
    return [build_message(f"note_{view.run_id}", notice)] if notice else []


def build_waiting_message(view: RunView, text: str) -> OutputItem:
    """Return the message that says what a run waits for.

    It is a refusal if the answer has to fit a schema: clients parse every other text as the schema's JSON.
    """
    return (build_refusal if has_schema(view) else build_message)(f"wait_{view.run_id}", text)


def list_turn_output(view: RunView, turn: TurnView) -> list[OutputItem]:
    """Return the items of a turn that has ended; none of one that has not."""
    output: list[OutputItem] = []
    if text := join_reasoning(turn.items):
        output.append(build_reasoning(turn_id(view, turn), text, as_summary=wants_summary(view)))
    messages: list[OutputItem] = []
    if shows_text(view, turn) and (text := join_text(turn)):
        item_id = turn_id(view, turn)
        is_refusal = refuses_schema(view, turn)
        messages.append(
            build_refusal(item_id, text) if is_refusal else build_message(item_id, text, merge_citations(turn.texts))
        )
    calls = [build_call(view, call) for call in view.list_turn_calls(turn.number)]
    return [*output, *messages, *calls] if precedes_calls(turn) else [*output, *calls, *messages]


def turn_id(view: RunView, turn: TurnView) -> str:
    """Return the id that the items of a turn are named by, from before it has any."""
    return (
        f"turn_{encode_response_id(view.conversation, view.run_id).removeprefix('resp_')}t{turn.number}s{turn.starts}"
    )


def shows_text(view: RunView, turn: TurnView) -> bool:
    """Return whether the text of a turn is part of the answer: one that has to fit a schema is alone."""
    return not has_schema(view) or (turn.finish not in (None, "calls") and turn.output_problem is None)


def refuses_schema(view: RunView, turn: TurnView) -> bool:
    """Return whether the text of a turn says why the model gives no answer that fits the schema."""
    return has_schema(view) and turn.finish == "refused"


def has_schema(view: RunView) -> bool:
    return view.request is not None and view.request.options.output_schema is not None


def join_text(turn: TurnView) -> str:
    return "".join(text.text for text in turn.texts)


def join_reasoning(items: Sequence[Item]) -> str:
    """Return the reasoning before the text of a turn."""
    first_text = next((index for index, item in enumerate(items) if isinstance(item, ModelText)), len(items))
    return "".join(item.text for item in items[:first_text] if isinstance(item, Reasoning))


def is_client_call(view: RunView, call: CallView) -> bool:
    return view.is_client_tool(call.call.tool)


def build_refusal(item_id: str, text: str) -> OutputItem:
    """Return a message that is no answer. Clients with a schema parse every other text as its JSON."""
    return {**build_message(item_id, text), "content": [{"type": "refusal", "refusal": text}]}


def build_message(item_id: str, text: str, citations: Sequence[Citation] = (), status: str = "completed") -> OutputItem:
    return {
        "id": build_item_id("msg", item_id),
        "type": "message",
        "role": "assistant",
        "status": status,
        "content": [build_text_part(text, citations)],
    }


def build_text_part(text: str, citations: Sequence[Citation] = ()) -> OutputItem:
    annotations = [
        {
            "type": "url_citation",
            "start_index": cited.start,
            "end_index": cited.end,
            "url": cited.url,
            "title": cited.title,
        }
        for cited in citations
        if cited.url
    ]
    return {"type": "output_text", "text": text, "annotations": annotations, "logprobs": []}


def build_reasoning(item_id: str, text: str, *, as_summary: bool = False) -> OutputItem:
    """Return the reasoning of a turn: as its content, or as the summary that the client asked for."""
    summary = [build_summary_part(text)] if text and as_summary else []
    content = [{"type": "reasoning_text", "text": text}] if text and not as_summary else []
    return {"id": build_item_id("rs", item_id), "type": "reasoning", "summary": summary, "content": content}


def build_summary_part(text: str) -> OutputItem:
    return {"type": "summary_text", "text": text}


def wants_summary(view: RunView) -> bool:
    """Return whether the client asked for summaries of the reasoning."""
    return bool(view.request and view.request.client_fields.get("reasoning_summary"))


def precedes_calls(turn: TurnView) -> bool:
    """Return whether the text of a turn comes before its calls, as it does unless the model wrote it after them."""
    first = next((item for item in turn.items if isinstance(item, ModelText | Call)), None)
    return not isinstance(first, Call)


def build_call(view: RunView, call: CallView) -> OutputItem:
    """Return a call with what came of it; one that waits for its client is completed, as the client's part begins."""
    if is_client_call(view, call):
        call_id = encode_call_id(view.conversation, call.call.id)
        return build_call_item(
            find_wire_tool(view, call.call.tool), call.call.id, call_id, call.arguments, view.conversation
        )
    result = call.result
    item: OutputItem = {
        "id": build_item_id("mcp", call.call.id, view.conversation),
        "type": "mcp_call",
        "server_label": SERVER_LABEL,
        "name": call.call.tool,
        "arguments": msgspec.json.encode(call.arguments).decode(),
        "status": "in_progress",
        "output": None,
        "error": None,
    }
    if result is not None and result.outcome == "ok":
        item |= {"status": "completed", "output": result.content}
    elif result is not None:
        message = result.error.error if result.error else result.outcome
        content = [{"type": "text", "text": message}]
        item |= {"status": "failed", "error": {"type": "mcp_tool_execution_error", "content": content}}
    return item
