"""The `Idempotency-Key` of a request: sent again with the same key and body, a request takes effect once.

A repetition gets the answer of the first request, or joins its stream, for 24 hours.
"""

import hashlib
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

import msgspec

from toolyard.core.caller import Caller
from toolyard.core.conversation.events import RequestKey
from toolyard.engine.service import Service
from toolyard.surfaces.http.authorization import admit_request
from toolyard.surfaces.http.errors import invalid_field
from toolyard.surfaces.http.request_context import HttpRequest, get_request_context

KEY_HEADER = "idempotency-key"
REPLAYED_HEADERS: Mapping[str, str] = {"idempotency-replayed": "true"}
"""The headers of an answer to a request that had taken effect before."""
_KEY = re.compile(r"[\x21-\x7e]{1,255}")


async def read_request_key(request: HttpRequest) -> RequestKey | None:
    """Return the key of a request, or None if it has none. Raise Invalid for a malformed one."""
    key = request.headers.get(KEY_HEADER)
    if key is None:
        return None
    caller = get_request_context(request.scope).caller
    return build_request_key(key, caller, request.method, request.url.path, await request.body())


@asynccontextmanager
async def admit_once(service: Service, caller: Caller, key: RequestKey | None) -> AsyncGenerator[dict[str, str]]:
    """Count a request as `count_once` does, and hold its key: repetitions at the same time wait, and do not count.

    The block lasts until the request is stored.
    """
    async with service.runs.hold(key):
        yield await count_once(service, caller, key)


async def count_once(service: Service, caller: Caller, key: RequestKey | None) -> dict[str, str]:
    """Count a request that starts a run, unless it took effect before, and return the rate-limit headers.

    Raise RateLimited if there are too many, or Invalid if the key was sent with another body.
    """
    return {} if await service.conversations.find_request(key) else await admit_request(service, caller)


def build_request_key(key: str, caller: Caller, method: str, path: str, body: bytes) -> RequestKey:
    """Return the key of a request, which is its own for each caller, method and path. Raise Invalid."""
    if not _KEY.fullmatch(key):
        raise invalid_field(KEY_HEADER, "must be 1 to 255 visible ASCII characters, such as a UUID")
    scope = msgspec.json.encode((caller.tenant, caller.user, method, path, key))
    return RequestKey(key_hash=hashlib.sha256(scope).hexdigest(), body_hash=hashlib.sha256(body).hexdigest())
