"""Read-only links to conversations, within a tenant. A link leads to a snapshot of the moment at which it was made."""

import secrets
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from toolyard.core.caller import Caller
from toolyard.core.errors import NotFound, Refused
from toolyard.core.ports import Clock
from toolyard.core.store import SHARE, AccessToken, Store
from toolyard.core.store.audit_chain import hash_content
from toolyard.engine.access.authentication import hash_key
from toolyard.observability.auditor import Auditor

MAX_SHARES = 20
"""How many links a conversation may have at a time."""
MAX_SNAPSHOT_BYTES = 8 * 1024 * 1024
TOKEN_BYTES = 32


class Share(Struct, frozen=True, kw_only=True):
    """A link to a conversation, without its token, and the snapshot that it leads to."""

    id: str
    tenant: str
    user: str
    created_at: float
    expires_at: float
    include_arguments: bool = False
    include_reasoning: bool = False
    snapshot: msgspec.Raw
    """The JSON that readers get."""


_decoder = msgspec.json.Decoder(Share)


class Shares:
    """Makes, lists, revokes and follows links. Permissions in the conversation are checked by the caller."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._auditor = Auditor(store, clock)

    async def create(self, conversation: str, share: Share) -> str:
        """Store a link and return its token, which is stored nowhere. Raises Refused or NotFound."""
        if len(bytes(share.snapshot)) > MAX_SNAPSHOT_BYTES:
            raise Refused("this conversation is too long to be shared: export it instead")
        if len(await self.list(conversation)) >= MAX_SHARES:
            raise Refused(f"a conversation has at most {MAX_SHARES} links: revoke one first")
        token = secrets.token_urlsafe(TOKEN_BYTES)
        stored = AccessToken(
            kind=SHARE,
            hash=hash_key(token),
            created_at=share.created_at,
            expires_at=share.expires_at,
            conversation=conversation,
            body=msgspec.json.encode(share),
        )
        target, content_hash = f"{conversation}/{share.id}", hash_content(share.snapshot)
        async with self._auditor.record("share.create", target, tenant=share.tenant, content_hash=content_hash):
            await self._store.save_token(stored)
            if await self._store.read_token(SHARE, stored.hash) is None:
                raise NotFound("the conversation was deleted")
        return token

    async def list(self, conversation: str) -> Sequence[Share]:
        """Return the links of a conversation that have not expired, oldest first."""
        now = self._clock.now()
        tokens = await self._store.list_tokens(SHARE, conversation)
        return [_decoder.decode(token.body) for token in tokens if token.expires_at > now]

    async def revoke(self, conversation: str, share_id: str) -> None:
        """End a link. Raises NotFound if the conversation has none with this id."""
        for token in await self._store.list_tokens(SHARE, conversation):
            if _decoder.decode(token.body).id == share_id:
                async with self._auditor.record("share.revoke", f"{conversation}/{share_id}"):
                    await self._store.delete_token(SHARE, token.hash)
                return
        raise NotFound(f"this conversation has no link {share_id[:80]!r}")

    async def open(self, token: str, caller: Caller) -> Share:
        """Return what a link leads to. Raises NotFound, in the same words whatever the reason is."""
        stored = await self._store.read_token(SHARE, hash_key(token))
        if stored is not None and stored.expires_at > self._clock.now():
            share = _decoder.decode(stored.body)
            # The card is checked, too: a link must not outlive its conversation, whatever else went wrong.
            card = await self._store.card(stored.conversation)
            if share.tenant == caller.tenant and card is not None and card.place != "deleted":
                return share
        raise NotFound("there is no shared conversation at this link; it may have expired or been revoked")
