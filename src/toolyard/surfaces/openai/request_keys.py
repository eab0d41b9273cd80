"""Recognises a request that a client sends again by itself, so that it joins the first one's run.

OpenAI's clients repeat a request after a lost connection, without an Idempotency-Key, and tell in a header that they
do. So each request is remembered for ten minutes under its caller and its body.
"""

import hashlib

import msgspec
from msgspec import Struct

from toolyard.core.caller import Caller
from toolyard.core.errors import Invalid
from toolyard.core.events import RequestKey
from toolyard.core.ports import Clock
from toolyard.core.store import RequestRecord
from toolyard.engine.service import Service
from toolyard.surfaces.idempotency import KEY_HEADER, read_request_key
from toolyard.surfaces.request_context import HttpRequest, get_request_context

KEPT_S = 600.0
RETRY_HEADER = "x-stainless-retry-count"
_PREFIX_DIGITS, _TIME_DIGITS, _RANDOM_DIGITS = 40, 12, 12


class RequestIdentity(Struct, frozen=True, kw_only=True):
    """What two sendings of one request have in common."""

    prefix: str
    """The beginning of the request's key. Its end is the time, so that the last request with the prefix is found."""
    body_hash: str
    joins: bool
    """Whether an earlier request is joined: this one is known to be sent again, or delivers results once more."""
    own_key: RequestKey | None = None
    """The key that the client chose."""

    @property
    def lock_key(self) -> RequestKey:
        """Return a key that all sendings have in common."""
        return self.own_key or RequestKey(key_hash=self.prefix, body_hash=self.body_hash)

    def build_key(self, clock: Clock) -> RequestKey:
        """Return the key under which this sending is remembered."""
        if self.own_key is not None:
            return self.own_key
        time = f"{int(clock.now() * 1000):0{_TIME_DIGITS}x}"[-_TIME_DIGITS:]
        random = clock.new_id("request")[-_RANDOM_DIGITS:]
        return RequestKey(key_hash=f"{self.prefix}{time}{random}", body_hash=self.body_hash, kept_s=KEPT_S)


async def identify_request(request: HttpRequest, delivered_to: str = "") -> RequestIdentity:
    """Return the identity of a request. `delivered_to` is the conversation that it brings results to, if any."""
    caller = get_request_context(request.scope).caller
    body_hash = hashlib.sha256(await request.body()).hexdigest()
    is_again = request.headers.get(RETRY_HEADER, "0") not in ("", "0")
    return RequestIdentity(
        prefix=_hash_prefix(caller, request.url.path, delivered_to or body_hash),
        body_hash=body_hash,
        joins=is_again or bool(delivered_to),
        own_key=await read_request_key(request) if KEY_HEADER in request.headers else None,
    )


async def find_earlier(service: Service, identity: RequestIdentity) -> RequestRecord | None:
    """Return the record of the request that this one repeats, or None."""
    if identity.own_key is not None:
        return await service.find_request(identity.own_key)
    if not identity.joins:
        return None
    try:
        return await service.find_request(RequestKey(key_hash=identity.prefix, body_hash=identity.body_hash))
    except Invalid:  # other results for the same calls: not the same request
        return None


def _hash_prefix(caller: Caller, path: str, text: str) -> str:
    scope = msgspec.json.encode((caller.tenant, caller.user, path, text))
    return hashlib.sha256(scope).hexdigest()[:_PREFIX_DIGITS]
