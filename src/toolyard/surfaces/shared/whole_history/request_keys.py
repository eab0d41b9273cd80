"""Recognises a request that a client sends again by itself, so that it joins the first one's run.

OpenAI's clients repeat a request after a lost connection, without an Idempotency-Key, and tell in a header that they
do. So each request is remembered for ten minutes under its caller and its body.

The key of an ordinary request ends in a time and random digits: two people may ask the same question at once, and each
gets a run. That of a request which is sent again, or delivers results or decisions, ends in zeros: it can take effect
only once, and if it reaches two replicas at the same time, the store takes one of the two equal keys and refuses the
other.
"""

import hashlib
from collections.abc import Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from toolyard.core.caller import Caller
from toolyard.core.conversation.events import RequestKey
from toolyard.core.ports import Clock
from toolyard.core.store import RequestRecord
from toolyard.engine.service import Service
from toolyard.surfaces.http.idempotency import KEY_HEADER, read_request_key
from toolyard.surfaces.http.request_context import HttpRequest, get_request_context

KEPT_S = 600.0
RETRY_HEADER = "x-stainless-retry-count"
# Together the 64 digits of a SHA-256, which is what stores expect of a key. 40 digits of a hash are 160 bits: enough
# that no two bodies meet. 12 digits of milliseconds last for 8,900 years, so that keys sort by their time.
_PREFIX_DIGITS, _TIME_DIGITS, _RANDOM_DIGITS = 40, 12, 12


class RequestIdentity(Struct, frozen=True, kw_only=True):
    """What two sendings of one request have in common."""

    prefix: str
    """The beginning of the request's key. Its end is the time, so that the last request with the prefix is found."""
    body_hash: str
    may_join: bool
    """Whether an earlier request is joined: this one is known to be sent again, or delivers results once more."""
    is_delivery: bool = False
    """Whether the request brings results or decisions, which can take effect only once."""
    own_key: RequestKey | None = None
    """The key that the client chose."""

    @property
    def lock_name(self) -> str:
        """Return what all sendings have in common."""
        return self.own_key.key_hash if self.own_key else self.prefix

    @property
    def has_new_key(self) -> bool:
        """Return whether `build_key` makes up another key each time."""
        return self.own_key is None and not self.may_join

    def build_key(self, clock: Clock) -> RequestKey:
        """Return the key under which this sending is remembered."""
        if self.own_key is not None:
            return self.own_key
        if self.may_join:
            # Without time and random digits all sendings have one key, so that the store's uniqueness decides. A lock
            # of this process cannot: another replica may be doing the same.
            end = "0" * (_TIME_DIGITS + _RANDOM_DIGITS)
            return RequestKey(key_hash=self.prefix + end, body_hash=self.body_hash, kept_s=KEPT_S)
        # Requests with the same body that are not sent again by the client itself are requests of their own.
        time = f"{int(clock.now() * 1000):0{_TIME_DIGITS}x}"[-_TIME_DIGITS:]
        random = clock.new_id("request")[-_RANDOM_DIGITS:]
        return RequestKey(key_hash=f"{self.prefix}{time}{random}", body_hash=self.body_hash, kept_s=KEPT_S)


async def identify_request(
    request: HttpRequest, *, is_delivery: bool, read_headers: Sequence[str] = ()
) -> RequestIdentity:
    """Return the identity of a request; one that delivers results is the same request if it is sent once more.

    `read_headers` are those that say what the request may do, as its body does.
    """
    caller = get_request_context(request.scope).caller
    body_hash = _hash_body(await request.body(), caller, [request.headers.get(name, "") for name in read_headers])
    is_again = request.headers.get(RETRY_HEADER, "0") not in ("", "0")
    own_key = await read_request_key(request) if KEY_HEADER in request.headers else None
    return RequestIdentity(
        prefix=_hash_prefix(caller, request.url.path, body_hash),
        body_hash=body_hash,
        may_join=is_again or is_delivery,
        is_delivery=is_delivery,
        own_key=replace(own_key, body_hash=body_hash) if own_key else None,
    )


async def find_earlier(service: Service, identity: RequestIdentity) -> RequestRecord | None:
    """Return the record of the last request with the same key, or caller and body; None if there is none."""
    if identity.own_key is not None:
        return await service.conversations.find_request(identity.own_key)
    # Stores look for the whole key first and then for the last one that begins with it.
    return await service.conversations.find_request(RequestKey(key_hash=identity.prefix, body_hash=identity.body_hash))


def _hash_body(body: bytes, caller: Caller, headers: Sequence[str]) -> str:
    """Return the hash of a body, with what else decides what the request may do: headers, and what a key is for."""
    scope = [*(sorted(names) for names in (caller.roles, caller.tools, caller.models)), caller.server_tools]
    more = msgspec.json.encode((scope, headers)) if any(scope) or any(headers) else b""
    return hashlib.sha256(body + more).hexdigest()


def _hash_prefix(caller: Caller, path: str, text: str) -> str:
    scope = msgspec.json.encode((caller.tenant, caller.user, path, text))
    return hashlib.sha256(scope).hexdigest()[:_PREFIX_DIGITS]
