"""`GET /sse/conversations/{id}`: the calls of a conversation as events, in the form that older clients expect."""

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing

import msgspec
from litestar import get
from litestar.handlers import HTTPRouteHandler
from litestar.response import Stream

from toolyard.core.cursor import Cursor
from toolyard.core.events import CallEnded, Entry, RunQueued, TurnEnded
from toolyard.core.items import Call, Item, ModelText, Result
from toolyard.engine.readers import Published, Reader
from toolyard.engine.service import Service
from toolyard.surfaces.authorization import PathId, load_state
from toolyard.surfaces.chat_messages import to_iso_time
from toolyard.surfaces.openapi import ERRORS, EVENT_STREAM
from toolyard.surfaces.request_context import HttpRequest, get_request_context
from toolyard.surfaces.sse import RunStreamFilter, build_stream_response, stream_events

Fields = dict[str, object]


def routes(service: Service) -> list[HTTPRouteHandler]:
    @get("/sse/conversations/{conversation_id:str}", media_type=EVENT_STREAM, responses=ERRORS, tags=["runs"])
    async def watch_calls(request: HttpRequest, conversation_id: PathId) -> Stream:
        """Stream calls from now on: `connected`, then `tool_call`, `tool_response` and `tool_error`, without end.

        This is for older clients. `/conversations/{id}/events` has all events, and can be resumed.
        """
        context = get_request_context(request.scope)
        await load_state(service, conversation_id, context.caller, "see")
        reader = await service.follow(conversation_id, include_argument_deltas=False)
        connected: Fields = {
            "type": "connected",
            "conversation_id": conversation_id,
            "timestamp": to_iso_time(service.clock.now()),
        }
        return build_stream_response(_watch(reader, connected, context.correlation_id))

    return [watch_calls]


async def _watch(reader: Reader, connected: Fields, correlation_id: str) -> AsyncGenerator[bytes, None]:
    try:
        yield _encode_event(connected)
        async with aclosing(stream_events(reader, render_calls, RunStreamFilter(), correlation_id)) as pieces:
            async for piece in pieces:
                yield piece
    finally:
        reader.detach()  # `stream_events` does so too, but a client may disconnect before it has started


def render_calls(item: Published, _: Cursor) -> bytes:
    """Return the call events of an entry; empty for entries without calls."""
    if not isinstance(item, Entry):
        return b""
    match item.event:
        case RunQueued(input=items):
            # The input may hold a history whose calls have their results already: only open calls are new.
            answered = {entry.call_id for entry in items if isinstance(entry, Result)}
            events = _iter_call_events(
                [entry for entry in items if isinstance(entry, Call) and entry.id not in answered]
            )
        case TurnEnded(items=items):
            events = _iter_call_events(items)
        case CallEnded(result=result):
            events = iter([_build_result_event(result)])
        case _:
            return b""
    about = {"conversation_id": item.conversation, "timestamp": to_iso_time(item.at)}
    return b"".join(
        _encode_event({"type": kind, **about, "data": {**data, "timestamp": about["timestamp"]}})
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


def _encode_event(event: Fields) -> bytes:
    return b"data: %b\n\n" % msgspec.json.encode(event)
