"""`GET /sse/conversations/{id}`: the calls of a conversation as events, in the form that older clients expect."""

from collections.abc import Iterator, Sequence

from litestar import get
from litestar.response import Stream

from toolyard.core.conversation.cursor import Cursor
from toolyard.core.conversation.events import CallEnded, CallsRequested, Entry, Published, RunQueued, TurnEnded
from toolyard.core.conversation.history import find_open_calls
from toolyard.core.items import Call, Item, ModelText, Result
from toolyard.surfaces.http.authorization import PathId, load_state
from toolyard.surfaces.http.openapi import ERRORS, EVENT_STREAM
from toolyard.surfaces.http.request_context import HttpRequest, get_request_context
from toolyard.surfaces.http.sse import build_stream_response, encode_event, stream_events
from toolyard.surfaces.shared.chat_messages import to_iso_time
from toolyard.surfaces.shared.runs.encoder import ObjectFraming

Fields = dict[str, object]


@get("/sse/conversations/{conversation_id:str}", media_type=EVENT_STREAM, responses=ERRORS, tags=["runs"])
async def watch_calls(request: HttpRequest, conversation_id: PathId) -> Stream:
    """Stream calls from now on: `connected`, then `tool_call`, `tool_response` and `tool_error`, without end.

    This is for older clients. `/conversations/{id}/events` has all events, and can be resumed.
    """
    service = request.backend.service
    context = get_request_context(request.scope)
    await load_state(service, conversation_id, context.caller, "see")
    reader = await service.conversations.follow(conversation_id, include_argument_deltas=False)
    encoder = CallEventEncoder(conversation_id, service.clock.now())
    return build_stream_response(stream_events(reader, encoder, context.correlation_id))


ROUTES = (watch_calls,)


class CallEventEncoder(ObjectFraming):
    """Encodes the calls of a conversation from some time on, without end."""

    over = False

    def __init__(self, conversation: str, at: float) -> None:
        self._connected: Fields = {
            "type": "connected",
            "conversation_id": conversation,
            "timestamp": to_iso_time(at),
        }

    def opening(self) -> bytes:
        return encode_event(self._connected)

    def item(self, published: Published, cursor: Cursor) -> bytes:
        """Return the call events of an entry; empty for entries without calls."""
        return encode_calls(published) if isinstance(published, Entry) else b""


def encode_calls(entry: Entry) -> bytes:
    match entry.event:
        case RunQueued(input=items):
            # The input may hold a history whose calls have their results already: only open calls are new.
            events = _iter_call_events(find_open_calls(items))
        case TurnEnded(items=items) | CallsRequested(calls=items):
            events = _iter_call_events(items)
        case CallEnded(result=result):
            events = iter([_build_result_event(result)])
        case _:
            return b""
    about = {"conversation_id": entry.conversation, "timestamp": to_iso_time(entry.at)}
    return b"".join(
        encode_event({"type": kind, **about, "data": {**data, "timestamp": about["timestamp"]}})
        for kind, data in events
    )


def _iter_call_events(items: Sequence[Item]) -> Iterator[tuple[str, Fields]]:
    """Yield the calls of a turn with its text, and the results of calls that the provider ran itself."""
    text = "".join(item.text for item in items if isinstance(item, ModelText))
    for item in items:
        if isinstance(item, Call):
            call = {"tool_call_id": item.id, "tool_name": item.tool, "arguments": item.arguments}
            yield "tool_call", {**call, "assistant_content": text or None}
        elif isinstance(item, Result):
            yield _build_result_event(item)


def _build_result_event(result: Result) -> tuple[str, Fields]:
    about: Fields = {"tool_call_id": result.call_id, "tool_name": result.tool}
    if result.outcome == "ok":
        return "tool_response", {**about, "result": result.content}
    return "tool_error", {**about, "error": result.error.error if result.error else result.outcome}
