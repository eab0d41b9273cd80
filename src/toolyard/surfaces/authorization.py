"""What most routes ask first: may this caller do this here, and now? It does not know what they do then."""

from typing import Literal

from litestar.params import FromPath

from toolyard.core.caller import Caller
from toolyard.core.conversation_settings import Settings
from toolyard.core.errors import NotFound
from toolyard.core.limits import Limits
from toolyard.core.state import State
from toolyard.engine.service import Service
from toolyard.surfaces.errors import build_rate_headers

PathId = FromPath[str]
MAX_TURNS = 10
"""How many tool turns a chat takes where neither the conversation nor the yard says less (seed 004)."""


async def load_state(
    service: Service, conversation: str, caller: Caller, permission: Literal["see", "decide", "own"] = "own"
) -> State:
    """The state of a conversation in which the caller may do so much. Raises NotFound for any other.

    Nothing waits between its return and the caller's next step, so a conversation that is deleted at the same time is
    not opened anew.
    """
    await service.require_conversation(conversation, caller, permission)
    state = await service.state(conversation)
    if state.owner is None:
        raise NotFound("the conversation was deleted")
    return state


def resolve_max_turns(settings: Settings, yard: Limits) -> int:
    return settings.limits.turns_per_request if settings.limits else min(MAX_TURNS, yard.turns_per_request)


async def admit_request(service: Service, caller: Caller) -> dict[str, str]:
    """Count a request that starts a run; the headers that say what is left. Raises RateLimited."""
    allowance, per_minute = await service.admit(caller), service.requests_per_minute(caller)
    if not per_minute:
        return {}
    return build_rate_headers(per_minute, allowance.remaining, (per_minute - allowance.remaining) * 60 / per_minute)
