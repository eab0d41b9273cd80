"""`POST /ai-sdk/chat`, `GET /ai-sdk/chat/{id}/stream` and `POST /ai-sdk/chat/{id}/stop`."""

from collections.abc import AsyncGenerator, Mapping

from litestar import Response, get, post
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import JSONBody
from litestar.response import Stream
from msgspec import Struct

from toolyard.core.errors import Invalid, NotFound, Refused, ToolyardError
from toolyard.surfaces.ai_sdk.encoder import UiMessageEncoder, WholeTurnReader, encode_failure
from toolyard.surfaces.ai_sdk.parse import CallAnswers, ChatRequest, read_message, read_request
from toolyard.surfaces.http.authorization import PathId
from toolyard.surfaces.http.openapi import ERRORS, EVENT_STREAM
from toolyard.surfaces.http.request_context import HttpRequest
from toolyard.surfaces.http.sse import build_stream_response, stream_events
from toolyard.surfaces.shared.runs.notices import RunNotices
from toolyard.surfaces.shared.threads import Thread, ThreadRun, build_threads
from toolyard.surfaces.surface import Surface

STREAM_HEADERS = {"x-vercel-ai-ui-message-stream": "v1"}
NOTHING_OPEN = ResponseSpec(data_container=None, description="No run of the thread is open", generate_examples=False)


class StopAnswer(Struct, kw_only=True):
    message: str
    success: bool = True


@post("/ai-sdk/chat", status_code=200, media_type=EVENT_STREAM, responses=ERRORS, tags=["ai-sdk"])
async def chat(request: HttpRequest, data: JSONBody[ChatRequest]) -> Stream:
    """Answer a message, or continue with the client's answers, as a UI message stream.

    A message that is in the log already is not answered again: its run is followed.
    """
    threads = request.backend.share(build_threads)
    thread = threads.find(request, data.id)
    answered: frozenset[str] = frozenset()
    try:
        message = read_message(data)
        if isinstance(message, CallAnswers):
            answered = message.call_ids
            run = await threads.answer_calls(thread, message.decisions, message.results)
        elif data.trigger == "regenerate-message":
            run = await threads.regenerate(thread, message, read_request(data))
        else:
            run = await threads.send(thread, message, read_request(data))
    except (Invalid, NotFound, Refused) as error:
        # The client shows the text of an error part to its user, and keeps its messages.
        return build_response(stream_failure(error, thread.correlation_id))
    return stream_run(run, thread, RunNotices(texts=request.backend.service.texts), answered)


@get(
    "/ai-sdk/chat/{thread_id:str}/stream",
    media_type=EVENT_STREAM,
    responses={**ERRORS, 204: NOTHING_OPEN},
    tags=["ai-sdk"],
)
async def resume(request: HttpRequest, thread_id: PathId) -> Stream | Response[None]:
    """Stream the current run of a thread from its beginning; 204 if none is open."""
    threads = request.backend.share(build_threads)
    thread = threads.find(request, thread_id)
    run = await threads.follow_open_run(thread)
    if run is None:
        return Response(None, status_code=204)
    return stream_run(run, thread, RunNotices(texts=request.backend.service.texts))


@post("/ai-sdk/chat/{thread_id:str}/stop", status_code=200, responses=ERRORS, tags=["ai-sdk"])
async def stop(request: HttpRequest, thread_id: PathId) -> StopAnswer:
    """Stop the runs of a thread. A client that only stops reading does not: its run goes on."""
    threads = request.backend.share(build_threads)
    await threads.stop(threads.find(request, thread_id))
    return StopAnswer(message="The run is stopped")


def stream_run(run: ThreadRun, thread: Thread, notices: RunNotices, answered: frozenset[str] = frozenset()) -> Stream:
    encoder = UiMessageEncoder(run.view, run.reader.end, answered, notices)
    pieces = stream_events(WholeTurnReader(run.reader), encoder, thread.correlation_id)
    return build_response(pieces, run.headers)


def build_response(pieces: AsyncGenerator[bytes, None], headers: Mapping[str, str] | None = None) -> Stream:
    return build_stream_response(pieces, {**STREAM_HEADERS, **(headers or {})})


async def stream_failure(error: ToolyardError, correlation_id: str) -> AsyncGenerator[bytes, None]:
    yield encode_failure(error, correlation_id)


SURFACE = Surface(routes=(chat, resume, stop))
