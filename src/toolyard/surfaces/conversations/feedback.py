"""`/conversations/{id}/feedback` and `…/runs/{run_id}/feedback`: what people think of the answers."""

from typing import Annotated

from litestar import delete, get, put
from litestar.params import JSONBody
from msgspec import Meta, Struct

from toolyard.engine.service.feedback import Rating, RunFeedback
from toolyard.surfaces.http.authorization import PathId
from toolyard.surfaces.http.openapi import ERRORS
from toolyard.surfaces.http.request_context import HttpRequest, get_request_context

FEEDBACK_PATH = "/conversations/{conversation_id:str}/runs/{run_id:str}/feedback"


class FeedbackBody(Struct, forbid_unknown_fields=True, kw_only=True):
    rating: Rating
    note: Annotated[str, Meta(max_length=2_000)] = ""


class FeedbackAnswer(Struct, kw_only=True):
    feedback: RunFeedback
    success: bool = True


class FeedbackList(Struct, kw_only=True):
    feedback: dict[str, RunFeedback]
    """By the id of the run."""
    success: bool = True


class FeedbackWithdrawn(Struct, kw_only=True):
    message: str = "the feedback is deleted"
    success: bool = True


@get("/conversations/{conversation_id:str}/feedback", responses=ERRORS, tags=["feedback"])
async def list_feedback(request: HttpRequest, conversation_id: PathId) -> FeedbackList:
    """Return the feedback on the runs of a conversation. Models are never shown it."""
    service = request.backend.service
    await service.conversations.require(conversation_id, get_request_context(request.scope).caller, "see")
    return FeedbackList(feedback=dict(await service.feedback.read(conversation_id)))


@put(FEEDBACK_PATH, responses=ERRORS, tags=["feedback"])
async def give_feedback(
    request: HttpRequest, conversation_id: PathId, run_id: PathId, data: JSONBody[FeedbackBody]
) -> FeedbackAnswer:
    """Say whether a run was helpful, with a note if there is more to say. It replaces what was said before."""
    service, caller = request.backend.service, get_request_context(request.scope).caller
    await service.conversations.require(conversation_id, caller)
    return FeedbackAnswer(feedback=await service.feedback.give(conversation_id, run_id, data.rating, data.note, caller))


@delete(FEEDBACK_PATH, status_code=200, responses=ERRORS, tags=["feedback"])
async def withdraw_feedback(request: HttpRequest, conversation_id: PathId, run_id: PathId) -> FeedbackWithdrawn:
    """Delete the feedback on a run."""
    service = request.backend.service
    await service.conversations.require(conversation_id, get_request_context(request.scope).caller)
    await service.feedback.withdraw(conversation_id, run_id)
    return FeedbackWithdrawn()


ROUTES = (list_feedback, give_feedback, withdraw_feedback)
