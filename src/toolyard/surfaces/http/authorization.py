"""Checks that most routes begin with: access to the conversation, limits, and the rate limit of the caller."""

from typing import Literal

from litestar.params import FromPath

from toolyard.core.caller import Caller
from toolyard.core.conversation.settings import Settings
from toolyard.core.conversation.state import State
from toolyard.core.errors import NotFound
from toolyard.core.settings.limits import Limits
from toolyard.engine.service import Service
from toolyard.surfaces.http.errors import build_rate_headers

PathId = FromPath[str]
MAX_TURNS = 10
"""The default number of tool turns of a chat, unless the conversation sets one or the server allows fewer."""


async def load_state(
    service: Service, conversation: str, caller: Caller, permission: Literal["see", "decide", "own"] = "own"
) -> State:
    """Return the state of a conversation. Raise NotFound if the caller lacks the permission, or it does not exist."""
    await service.conversations.require(conversation, caller, permission)
    state = await service.conversations.view(conversation)
    # It may have been deleted since the check above. It may also be deleted before the route submits its command: one
    # that may open a conversation then says `may_open=False`.
    if state.owner is None:
        raise NotFound("the conversation was deleted")
    return state


def resolve_max_turns(settings: Settings, server_limits: Limits) -> int:
    return settings.limits.turns_per_request if settings.limits else min(MAX_TURNS, server_limits.turns_per_request)


async def admit_request(service: Service, caller: Caller) -> dict[str, str]:
    """Count a request that starts a run, and return the rate-limit headers. Raise RateLimited if there are too many."""
    allowance, per_minute = await service.runs.admit(caller), service.runs.requests_per_minute(caller)
    if not per_minute:
        return {}
    return build_rate_headers(per_minute, allowance.remaining, (per_minute - allowance.remaining) * 60 / per_minute)
