"""Keeps conversations as objects in the memory of this process, until it exits."""

import asyncio
from collections.abc import Callable, Sequence
from itertools import islice

from msgspec.structs import replace

from toolyard.core.errors import Fenced, StoreDown
from toolyard.core.events import REQUEST_KEY_S, ConversationChanged, ConversationOpened, Entry, RunQueued
from toolyard.core.store import Allowance, CatalogQuery, ConversationCard, Key, RequestRecord
from toolyard.stores.entries import build_repeated_error, fold_case, is_mentioned, select_catalog_entries
from toolyard.stores.rate_limit import GcraLimiter
from toolyard.stores.subscribers import Subscribers


class MemoryStore:
    """A store for tests, demos and programs that need nothing to outlive the process."""

    def __init__(self) -> None:
        self._epochs: dict[str, int] = {}
        """Negative for a deleted conversation: it equals no owner's epoch, and the next claim counts on from it."""
        self._entries: dict[str, list[Entry]] = {}
        """The entries of each claimed conversation; entry n is at index n - 1, since `append` allows no gaps."""
        self._wake_at: dict[str, float] = {}
        self._blobs: dict[tuple[str, str], bytes] = {}
        self._cards: dict[str, ConversationCard] = {}
        """The cards as of the last change of title or description; `card` adds `updated_at`."""
        self._traces: dict[tuple[str, str], tuple[str, float]] = {}
        """The correlation id of each conversation and run, and when the run was queued."""
        self._requests: dict[str, RequestRecord] = {}
        self._subscribers = Subscribers()
        self._keys: dict[str, Key] = {}
        self._records: dict[tuple[str, str], bytes] = {}
        self._limits = GcraLimiter()
        self._closed = False

    def begin_append(
        self, conversation: str, epoch: int, entries: Sequence[Entry], wake_at: float | None
    ) -> asyncio.Future[int]:
        self._require_open()
        # The fence: an owner that lost its claim has an older epoch, and must not append after the new owner has read.
        current = self._epochs.get(conversation)
        if epoch != current or epoch < 0:
            raise Fenced(f"epoch {epoch} does not own conversation {conversation!r}: its epoch is {current}")
        log = self._entries[conversation]
        for seq, entry in enumerate(entries, len(log) + 1):
            if entry.seq != seq:
                raise Fenced(f"entry {entry.seq} of conversation {conversation!r} is out of order: {seq} comes next")
        catalog_entries = select_catalog_entries(entries)
        self._record_requests(conversation, catalog_entries)
        log.extend(entries)
        for entry in catalog_entries:
            self._project(conversation, entry)
        if wake_at is None:
            self._wake_at.pop(conversation, None)
        else:
            self._wake_at[conversation] = wake_at
        done = asyncio.get_running_loop().create_future()
        done.set_result(len(log))
        self._subscribers.notify(conversation)
        return done

    async def append(self, conversation: str, epoch: int, entries: Sequence[Entry], wake_at: float | None) -> None:
        self.begin_append(conversation, epoch, entries, wake_at)

    async def read(self, conversation: str, after: int = 0, limit: int = 0) -> Sequence[Entry]:
        self._require_open()
        entries = self._entries.get(conversation, [])
        return entries[after : after + limit] if limit else entries[after:]

    def subscribe(self, conversation: str, wake: Callable[[], None]) -> Callable[[], None]:
        return self._subscribers.subscribe(conversation, wake)

    async def claim(self, conversation: str) -> int:
        self._require_open()
        self._entries.setdefault(conversation, [])
        epoch = abs(self._epochs.get(conversation, 0)) + 1
        self._epochs[conversation] = epoch
        return epoch

    async def due(self, now: float) -> tuple[Sequence[str], float | None]:
        self._require_open()
        wake_times = list(self._wake_at.items())
        later = (wake_at for _, wake_at in wake_times if wake_at > now)
        return [conversation for conversation, wake_at in wake_times if wake_at <= now], min(later, default=None)

    async def put(self, conversation: str, handle: str, body: bytes) -> None:
        self._require_open()
        if self._epochs.get(conversation, 0) >= 0:
            self._blobs[conversation, handle] = body

    async def get(self, conversation: str, handle: str) -> bytes | None:
        self._require_open()
        return self._blobs.get((conversation, handle))

    async def card(self, conversation: str) -> ConversationCard | None:
        self._require_open()
        card = self._cards.get(conversation)
        return replace(card, updated_at=self._entries[conversation][-1].at) if card else None

    async def cards(self, query: CatalogQuery) -> Sequence[ConversationCard]:
        self._require_open()
        cards = [card for conversation in self._cards if (card := await self.card(conversation))]
        cards.sort(key=lambda card: card.position, reverse=True)
        return list(islice((card for card in cards if self._matches(card, query)), query.limit))

    async def find_runs(self, correlation_id: str) -> Sequence[tuple[str, str]]:
        self._require_open()
        runs = [(at, run) for run, (id, at) in self._traces.items() if id == correlation_id]
        return [run for _, run in sorted(runs)]

    async def find_request(self, key: str) -> RequestRecord | None:
        self._require_open()
        return self._requests.get(key)

    async def list_expired_requests(self, before: float, limit: int) -> Sequence[str]:
        self._require_open()
        expired = sorted((record.at, record.conversation) for record in self._requests.values() if record.at < before)
        return [conversation for _, conversation in expired[:limit]]

    async def drop_request(self, conversation: str, before: float) -> None:
        self._require_open()
        requests = self._requests.items()
        self._requests = {
            key: record for key, record in requests if record.conversation != conversation or record.at >= before
        }

    async def forget(self, conversation: str) -> None:
        self._require_open()
        if conversation in self._epochs:
            self._epochs[conversation] = -abs(self._epochs[conversation])
        self._entries.pop(conversation, None)
        self._wake_at.pop(conversation, None)
        self._cards.pop(conversation, None)
        self._blobs = {key: body for key, body in self._blobs.items() if key[0] != conversation}
        self._traces = {key: trace for key, trace in self._traces.items() if key[0] != conversation}
        self._subscribers.notify(conversation)

    async def keys(self) -> Sequence[Key]:
        self._require_open()
        return [self._keys[name] for name in sorted(self._keys)]

    async def save_key(self, key: Key) -> None:
        self._require_open()
        self._keys[key.name] = key

    async def revoke_key(self, name: str) -> bool:
        self._require_open()
        return self._keys.pop(name, None) is not None

    async def list_records(self, kind: str) -> Sequence[tuple[str, bytes]]:
        self._require_open()
        return [(name, body) for (record_kind, name), body in self._records.items() if record_kind == kind]

    async def set(self, kind: str, name: str, body: bytes) -> None:
        self._require_open()
        self._records[kind, name] = body

    async def delete(self, kind: str, name: str) -> None:
        self._require_open()
        self._records.pop((kind, name), None)

    async def take(self, key: str, per_minute: int, now: float) -> Allowance:
        self._require_open()
        return self._limits.take(key, per_minute, now)

    async def close(self) -> None:
        self._closed = True

    def _record_requests(self, conversation: str, entries: Sequence[Entry]) -> None:
        """Record the requests of entries that are about to be stored. Raises RequestRepeated before it records any."""
        stamped = [(entry.request, entry) for entry in entries if entry.request is not None]
        for request, entry in stamped:
            earlier = self._requests.get(request.key_hash)
            if earlier is not None and earlier.at > entry.at - REQUEST_KEY_S:
                raise build_repeated_error()
        for request, entry in stamped:
            self._requests[request.key_hash] = RequestRecord(
                body_hash=request.body_hash, conversation=conversation, seq=entry.seq, run=entry.run, at=entry.at
            )

    def _project(self, conversation: str, entry: Entry) -> None:
        match entry.event:
            case ConversationOpened(owner=owner, settings=settings):
                self._cards[conversation] = ConversationCard(
                    id=conversation,
                    user=owner.user,
                    tenant=owner.tenant,
                    title=settings.title,
                    description=settings.description,
                    created_at=entry.at,
                    updated_at=entry.at,
                    unlisted=settings.unlisted,
                )
            case ConversationChanged(settings=settings) if card := self._cards.get(conversation):
                changed = replace(card, title=settings.title, description=settings.description)
                self._cards[conversation] = changed
            case RunQueued() if entry.correlation_id:
                self._traces.setdefault((conversation, entry.run), (entry.correlation_id, entry.at))
            case _:
                pass

    def _matches(self, card: ConversationCard, query: CatalogQuery) -> bool:
        if card.unlisted and not query.unlisted:
            return False
        if card.tenant != query.tenant or (query.user and card.user != query.user):
            return False
        if query.after and card.position >= query.after:
            return False
        needle, entries = fold_case(query.text), self._entries[card.id]
        return (
            needle in fold_case(card.title)
            or needle in fold_case(card.description)
            or is_mentioned(needle, entries, lambda: entries)
        )

    def _require_open(self) -> None:
        if self._closed:
            raise StoreDown("this memory store is closed: open a new one")
