"""Try a provider with real requests: its list of models, and a short answer of one of them."""

import asyncio
import time
from contextlib import aclosing

from msgspec import Struct

from toolyard.core.conversation.events import TurnEnded, TurnFailed
from toolyard.core.conversation.history import History
from toolyard.core.errors import Misconfigured
from toolyard.core.items import ModelText, TextPart, UserMessage
from toolyard.core.ports import Clock, ModelRequest, Offer
from toolyard.core.settings.models.cards import describe_model_problem
from toolyard.core.settings.models.options import Options
from toolyard.models.http.problems import WireFailure
from toolyard.models.model_lists import fetch_models
from toolyard.models.resolver import ModelEndpoint, ModelSettings, make_wired_model

CHECK_TIMEOUT_S = 20.0
MAX_REPLY_CHARS = 500
MAX_REPLY_TOKENS = 256
"""Enough for a model that thinks before it answers."""
QUESTION = "Reply with one word: ready"


class ProviderCheck(Struct, frozen=True, kw_only=True):
    """What a provider answered, in words."""

    ok: bool
    message: str
    models: list[str] = []
    """The names in the provider's list; empty if it has none."""
    reply: str = ""
    """The beginning of the model's answer."""
    duration_ms: int = 0


async def check_provider(settings: ModelSettings, provider: str, model: str, clock: Clock) -> ProviderCheck:
    """Request the provider's list of models and, if a model is named, an answer from it. Takes CHECK_TIMEOUT_S at most.

    No message contains a key.
    """
    try:
        endpoint = settings.find_endpoint(f"{provider}:{model or 'any'}")
    except Misconfigured as error:
        return ProviderCheck(ok=False, message=describe_model_problem(error))
    if endpoint.key_variable:
        return ProviderCheck(ok=False, message=f"{provider} has no key: give one, or set {endpoint.key_variable}")
    began = time.monotonic()
    try:
        async with asyncio.timeout(CHECK_TIMEOUT_S):
            models, problem = await _list_models(endpoint)
            if model:
                reply, problem = await _ask(endpoint, clock)
            else:
                reply = ""
    except TimeoutError:
        models, reply, problem = [], "", f"no answer within {CHECK_TIMEOUT_S:g} s"
    duration_ms = round((time.monotonic() - began) * 1000)
    if problem:
        return ProviderCheck(ok=False, message=problem, models=models, duration_ms=duration_ms)
    answered = f"{model} answered" if model else f"{provider} accepts the key and lists {len(models)} models"
    return ProviderCheck(
        ok=True, message=f"{answered} after {duration_ms} ms", models=models, reply=reply, duration_ms=duration_ms
    )


async def _list_models(endpoint: ModelEndpoint) -> tuple[list[str], str]:
    """Return the names of the models, and why there are none."""
    try:
        return await fetch_models(endpoint), ""
    except WireFailure as failure:
        return [], failure.problem.error


async def _ask(endpoint: ModelEndpoint, clock: Clock) -> tuple[str, str]:
    """Return the beginning of the answer, and why there is none."""
    message = UserMessage(id="question", at=clock.now(), parts=(TextPart(text=QUESTION),))
    request = ModelRequest(
        model=endpoint.model,
        turn=1,
        system="",
        history=History((message,)),
        offer=Offer(tools=(), digest="", hashes={}),
        tool_choice="none",
        clock=clock,
        options=Options(max_tokens=MAX_REPLY_TOKENS),
        fail_fast=True,
    )
    model = make_wired_model(endpoint)
    try:
        async with aclosing(model.stream(request)) as events:
            async for event in events:
                if isinstance(event, TurnFailed):
                    return "", event.problem.error
                if isinstance(event, TurnEnded):
                    text = "".join(item.text for item in event.items if isinstance(item, ModelText))
                    return text.strip()[:MAX_REPLY_CHARS], ""
    finally:
        await model.close()
    return "", "the model gave neither an end nor a failure"
