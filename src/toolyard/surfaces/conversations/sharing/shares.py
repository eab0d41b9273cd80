"""`/conversations/{id}/shares` and `/shares/{token}`: read-only links to a snapshot, within the tenant."""

from typing import Annotated

import msgspec
from litestar import delete, get, post
from litestar.params import JSONBody
from msgspec import Meta, Struct

from toolyard.engine.access.shares import Share
from toolyard.surfaces.conversations.sharing.transcript import Transcript, TranscriptContent, build_transcript
from toolyard.surfaces.http.authorization import PathId, load_state
from toolyard.surfaces.http.openapi import ERRORS
from toolyard.surfaces.http.request_context import HttpRequest, get_request_context
from toolyard.surfaces.shared.chat_messages import to_iso_time

SHARES_PATH = "/conversations/{conversation_id:str}/shares"
DAY_S = 24 * 3600
Lifetime = Annotated[int, Meta(ge=60, le=365 * DAY_S)]


class NewShare(Struct, forbid_unknown_fields=True, kw_only=True):
    """How long a link works, and what it shows besides the messages."""

    expires_s: Lifetime = 7 * DAY_S
    include_arguments: bool = False
    """Also show the arguments and the results of calls."""
    include_reasoning: bool = False


class ShareView(Struct, kw_only=True):
    """A link without its token, which is not stored."""

    id: str
    user: str
    created_at: str
    expires_at: str
    include_arguments: bool
    include_reasoning: bool


class NewShareAnswer(Struct, kw_only=True):
    share: ShareView
    token: str
    message: str = "keep the token now: it is not shown again"
    success: bool = True


class ShareList(Struct, kw_only=True):
    shares: list[ShareView]
    count: int
    success: bool = True


class ShareRevoked(Struct, kw_only=True):
    message: str
    success: bool = True


class SharedConversation(Struct, kw_only=True):
    """A conversation as it was when its link was made."""

    share: ShareView
    transcript: Transcript
    success: bool = True


@post(SHARES_PATH, responses=ERRORS, tags=["shares"])
async def create_share(request: HttpRequest, conversation_id: PathId, data: JSONBody[NewShare]) -> NewShareAnswer:
    """Create a read-only link to the conversation's current state, for signed-in users of the tenant."""
    service = request.backend.service
    caller = get_request_context(request.scope).caller
    card = await service.conversations.require(conversation_id, caller)
    state = await load_state(service, conversation_id, caller)
    content = TranscriptContent(arguments=data.include_arguments, reasoning=data.include_reasoning)
    transcript = build_transcript(card, state.full_history, content)
    now = service.clock.now()
    share = Share(
        id=service.clock.new_id("share"),
        tenant=card.tenant,
        user=caller.user,
        created_at=now,
        expires_at=now + data.expires_s,
        include_arguments=data.include_arguments,
        include_reasoning=data.include_reasoning,
        snapshot=msgspec.Raw(msgspec.json.encode(transcript)),
    )
    token = await service.shares.create(conversation_id, share)
    return NewShareAnswer(share=build_share_view(share), token=token)


@get(SHARES_PATH, responses=ERRORS, tags=["shares"])
async def list_shares(request: HttpRequest, conversation_id: PathId) -> ShareList:
    """List the valid links of a conversation, oldest first."""
    service = request.backend.service
    await service.conversations.require(conversation_id, get_request_context(request.scope).caller)
    shares = [build_share_view(share) for share in await service.shares.list(conversation_id)]
    return ShareList(shares=shares, count=len(shares))


@delete(f"{SHARES_PATH}/{{share_id:str}}", status_code=200, responses=ERRORS, tags=["shares"])
async def revoke_share(request: HttpRequest, conversation_id: PathId, share_id: PathId) -> ShareRevoked:
    """Revoke a link. It stops working at once."""
    service = request.backend.service
    await service.conversations.require(conversation_id, get_request_context(request.scope).caller)
    await service.shares.revoke(conversation_id, share_id)
    return ShareRevoked(message="the link is revoked")


@get("/shares/{token:str}", responses=ERRORS, tags=["shares"])
async def open_share(request: HttpRequest, token: PathId) -> SharedConversation:
    """Return the snapshot of a link."""
    share = await request.backend.service.shares.open(token, get_request_context(request.scope).caller)
    transcript = msgspec.json.decode(share.snapshot, type=Transcript)
    return SharedConversation(share=build_share_view(share), transcript=transcript)


ROUTES = (create_share, list_shares, revoke_share, open_share)


def build_share_view(share: Share) -> ShareView:
    return ShareView(
        id=share.id,
        user=share.user,
        created_at=to_iso_time(share.created_at),
        expires_at=to_iso_time(share.expires_at),
        include_arguments=share.include_arguments,
        include_reasoning=share.include_reasoning,
    )
