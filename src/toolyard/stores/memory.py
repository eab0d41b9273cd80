"""Keeps conversations as objects in the memory of this process, until it exits."""

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, takewhile

import msgspec
from msgspec.structs import replace

from toolyard.core.conversation.events import REQUEST_KEY_S, ConversationChanged, ConversationOpened, Entry, RunQueued
from toolyard.core.conversation.search_texts import fold_case
from toolyard.core.errors import Fenced
from toolyard.core.store import (
    KEYS,
    AccessToken,
    Append,
    BudgetBalance,
    BudgetCharge,
    BudgetShare,
    CatalogQuery,
    Claim,
    ConversationCard,
    FigureRow,
    FutureLike,
    Key,
    OpenCounts,
    RecordChange,
    RequestRecord,
    Reservation,
    SnapshotHead,
    SnapshotUpdate,
    UsageQuery,
    UsageRow,
    find_place,
)
from toolyard.core.store.audit_chain import AuditEntry, AuditQuery, AuditRecord, seal_record, seal_trim
from toolyard.core.store.figures import merge_steps
from toolyard.stores.entries import (
    build_closed_error,
    build_repeated_error,
    check_order,
    contains_text,
    select_catalog_entries,
)
from toolyard.stores.memory_ledger import MemoryLedger
from toolyard.stores.single_process import SingleProcessPorts


@dataclass(slots=True)
class MemoryConversation:
    """The log of a conversation, and who may append to it."""

    epoch: int = 0
    """Negative for a deleted conversation: it equals no owner's epoch, and the next claim counts on from it."""
    entries: list[Entry] = field(default_factory=list[Entry])
    """Entry n is at index n - 1, since `append` allows no gaps."""
    wake_at: float | None = None


@dataclass(slots=True)
class MemorySnapshot:
    """The snapshot of one conversation."""

    head: SnapshotHead | None = None
    pieces: dict[str, bytes] = field(default_factory=dict[str, bytes])

    def save(self, update: SnapshotUpdate) -> bool:
        if not update.previous:
            self.pieces.clear()
        elif self.head is None or self.head.token != update.previous:
            return False
        for name in update.dropped:
            self.pieces.pop(name, None)
        self.pieces.update(update.pieces)
        self.head = update.head
        return True


class MemoryData:
    """What a memory store holds."""

    def __init__(self) -> None:
        self.conversations: defaultdict[str, MemoryConversation] = defaultdict(MemoryConversation)
        self.blobs: dict[tuple[str, str], bytes] = {}
        self.figures: dict[tuple[str, str, float, float], bytes] = {}
        self.snapshots: defaultdict[str, MemorySnapshot] = defaultdict(MemorySnapshot)
        self.cards: dict[str, ConversationCard] = {}
        self.traces: dict[tuple[str, str], tuple[str, float]] = {}
        """The correlation id of each conversation and run, and when the run was queued."""
        self.requests: dict[str, RequestRecord] = {}
        self.request_keys: list[str] = []
        """The keys of `requests`, sorted: a request is found by the beginning of its key."""
        self.keys: dict[str, Key] = {}
        self.tokens: dict[tuple[str, str], AccessToken] = {}
        self.records: dict[tuple[str, str], bytes] = {}
        self.audit: list[AuditEntry] = []
        self.ledger = MemoryLedger()


class _StoredAppend:
    """The outcome of an append that is stored at once: a future that is done."""

    def done(self) -> bool:
        return True

    def result(self) -> bool:
        return False

    def exception(self) -> None:
        return None

    def add_done_callback(self, callback: Callable[[FutureLike], object], /) -> None:
        callback(self)


_STORED = _StoredAppend()


class MemoryStore(SingleProcessPorts):
    """A store for tests, demos and programs that need nothing to outlive the process."""

    def __init__(self) -> None:
        super().__init__()
        self._data = MemoryData()
        self._closed = False

    def begin_append(self, append: Append) -> FutureLike:
        self._require_open()
        conversation, entries = append.conversation, append.entries
        row = self._require_epoch(conversation, append.epoch)
        check_order(conversation, entries, len(row.entries) + 1)
        if catalog_entries := select_catalog_entries(entries):
            self._record_requests(conversation, catalog_entries)
            self._project(conversation, catalog_entries)
        row.entries.extend(entries)
        row.wake_at = append.wake_at
        if append.usage:
            self._data.ledger.add_usage(append.usage)
        if append.settlements:
            self._data.ledger.end_turns(conversation, append.settlements)
        return _STORED

    async def append(self, append: Append) -> bool:
        return self.begin_append(append).result()

    async def read(self, conversation: str, after: int = 0, limit: int = 0) -> Sequence[Entry]:
        self._require_open()
        row = self._data.conversations.get(conversation)
        entries = row.entries if row else []
        return entries[after : after + limit] if limit else entries[after:]

    async def claim(self, conversation: str) -> Claim:
        self._require_open()
        row = self._data.conversations[conversation]
        row.epoch = abs(row.epoch) + 1
        return Claim(conversation=conversation, epoch=row.epoch, last_seq=len(row.entries))

    async def claim_new(self, conversation: str) -> Claim:
        return await self.claim(conversation)

    async def claim_many(self, conversations: Sequence[str]) -> Sequence[Claim]:
        return [await self.claim(conversation) for conversation in conversations]

    async def find_due(self, now: float, limit: int) -> tuple[Sequence[str], float | None]:
        self._require_open()
        open_ones = [(row.wake_at, id) for id, row in self._data.conversations.items() if row.wake_at is not None]
        due = [id for wake_at, id in open_ones if wake_at <= now]
        return due[:limit], min((wake_at for wake_at, _ in open_ones if wake_at > now), default=None)

    async def put_blob(self, conversation: str, handle: str, body: bytes) -> None:
        self._require_open()
        row = self._data.conversations.get(conversation)
        if row is None or row.epoch >= 0:
            self._data.blobs[conversation, handle] = body

    async def get_blob(self, conversation: str, handle: str) -> bytes | None:
        self._require_open()
        return self._data.blobs.get((conversation, handle))

    async def save_snapshot(self, conversation: str, update: SnapshotUpdate) -> bool:
        self._require_open()
        row = self._data.conversations.get(conversation)
        if row is None or len(row.entries) < update.head.seq:
            return False
        return self._data.snapshots[conversation].save(update)

    async def read_snapshot(self, conversation: str) -> SnapshotHead | None:
        self._require_open()
        snapshot = self._data.snapshots.get(conversation)
        return snapshot.head if snapshot else None

    async def read_snapshot_pieces(self, conversation: str, names: Sequence[str]) -> Sequence[bytes]:
        self._require_open()
        pieces = self._data.snapshots[conversation].pieces
        return [pieces[name] for name in names if name in pieces]

    async def add_figures(self, rows: Sequence[FigureRow]) -> None:
        self._require_open()
        for row in rows:
            key = row.tenant, row.user, row.step_s, row.at
            self._data.figures[key] = merge_steps(self._data.figures.get(key), row.body)

    async def read_figures(self, tenant: str, user: str, step_s: float, since: float) -> Sequence[tuple[float, bytes]]:
        self._require_open()
        scope = tenant, user, step_s
        return [(key[3], body) for key, body in self._data.figures.items() if key[:3] == scope and key[3] >= since]

    async def drop_figures(self, step_s: float, before: float) -> None:
        self._require_open()
        figures = self._data.figures
        self._data.figures = {key: body for key, body in figures.items() if key[2] != step_s or key[3] >= before}

    async def card(self, conversation: str) -> ConversationCard | None:
        self._require_open()
        return self._data.cards.get(conversation)

    async def cards(self, query: CatalogQuery) -> Sequence[ConversationCard]:
        self._require_open()
        cards = sorted(self._data.cards.values(), key=lambda card: card.position, reverse=True)
        return list(islice((card for card in cards if self._matches(card, query)), query.limit))

    async def list_open(self, tenant: str, user: str, limit: int) -> Sequence[ConversationCard]:
        self._require_open()
        cards = sorted(self._data.cards.values(), key=lambda card: card.position, reverse=True)
        return [
            card
            for card in cards
            if card.tenant == tenant
            and (not user or card.user == user)
            and self._data.conversations[card.id].wake_at is not None
        ][:limit]

    async def count_open(self, now: float) -> OpenCounts:
        self._require_open()
        times = [row.wake_at for row in self._data.conversations.values() if row.wake_at is not None]
        running = sum(wake_at <= now for wake_at in times)
        return OpenCounts(running=running, waiting=len(times) - running)

    async def list_deleted(self, before: float, limit: int) -> Sequence[str]:
        deleted = [card for card in self._data.cards.values() if card.place == "deleted" and card.updated_at < before]
        return [card.id for card in sorted(deleted, key=lambda card: card.updated_at)[:limit]]

    async def find_runs(self, correlation_id: str) -> Sequence[tuple[str, str]]:
        self._require_open()
        runs = [(at, run) for run, (id, at) in self._data.traces.items() if id == correlation_id]
        return [run for _, run in sorted(runs)]

    async def find_request(self, key: str) -> RequestRecord | None:
        self._require_open()
        keys = self._data.request_keys
        index = bisect_left(keys, f"{key}g") - 1  # keys have digits of base 16 only, which come before `g`
        return self._data.requests[keys[index]] if index >= 0 and keys[index].startswith(key) else None

    async def list_expired_requests(self, before: float, limit: int) -> Sequence[str]:
        self._require_open()
        records = self._data.requests.values()
        expired = sorted((record.at, record.conversation) for record in records if record.at < before)
        return [conversation for _, conversation in expired[:limit]]

    async def drop_request(self, conversation: str, before: float) -> None:
        self._require_open()
        requests = self._data.requests.items()
        self._data.requests = {
            key: record for key, record in requests if record.conversation != conversation or record.at >= before
        }
        self._data.request_keys = sorted(self._data.requests)

    async def delete_conversation(self, conversation: str) -> Sequence[str]:
        self._require_open()
        data = self._data
        if row := data.conversations.get(conversation):
            data.conversations[conversation] = MemoryConversation(epoch=-abs(row.epoch))
        data.ledger.forget_conversation(conversation)
        data.cards.pop(conversation, None)
        data.snapshots.pop(conversation, None)
        data.blobs = {key: body for key, body in data.blobs.items() if key[0] != conversation}
        data.traces = {key: trace for key, trace in data.traces.items() if key[0] != conversation}
        data.tokens = {key: token for key, token in data.tokens.items() if token.conversation != conversation}
        return ()

    async def keys(self) -> Sequence[Key]:
        self._require_open()
        return [self._data.keys[name] for name in sorted(self._data.keys)]

    async def save_key(self, key: Key) -> None:
        self._require_open()
        self._data.keys[key.name] = key

    async def revoke_key(self, name: str) -> bool:
        self._require_open()
        return self._data.keys.pop(name, None) is not None

    async def save_token(self, token: AccessToken) -> None:
        self._require_open()
        tokens = self._data.tokens.items()
        self._data.tokens = {key: other for key, other in tokens if other.expires_at > token.created_at}
        row = self._data.conversations.get(token.conversation)
        if not token.conversation or (row is not None and row.epoch > 0):
            self._data.tokens[token.kind, token.hash] = token

    async def read_token(self, kind: str, hash: str) -> AccessToken | None:
        self._require_open()
        return self._data.tokens.get((kind, hash))

    async def list_tokens(self, kind: str, conversation: str) -> Sequence[AccessToken]:
        self._require_open()
        tokens = [
            token for token in self._data.tokens.values() if (token.kind, token.conversation) == (kind, conversation)
        ]
        return sorted(tokens, key=lambda token: token.created_at)

    async def extend_token(self, kind: str, hash: str, expires_at: float) -> None:
        self._require_open()
        if token := self._data.tokens.get((kind, hash)):
            self._data.tokens[kind, hash] = replace(token, expires_at=expires_at)

    async def delete_token(self, kind: str, hash: str) -> None:
        self._require_open()
        self._data.tokens.pop((kind, hash), None)

    async def list_records(self, kind: str) -> Sequence[tuple[str, bytes]]:
        self._require_open()
        return [(name, body) for (record_kind, name), body in self._data.records.items() if record_kind == kind]

    async def read_record(self, kind: str, name: str) -> bytes | None:
        self._require_open()
        return self._data.records.get((kind, name))

    async def set_record(self, kind: str, name: str, body: bytes) -> None:
        self._require_open()
        self._data.records[kind, name] = body

    async def add_records(self, kind: str, records: Mapping[str, bytes]) -> Mapping[str, bytes]:
        self._require_open()
        return {name: self._data.records.setdefault((kind, name), body) for name, body in records.items()}

    async def delete_record(self, kind: str, name: str) -> None:
        self._require_open()
        self._data.records.pop((kind, name), None)

    async def change_records(self, changes: Sequence[RecordChange]) -> Sequence[AuditEntry]:
        self._require_open()
        entries = [await self.append_audit(change.audit) for change in changes if change.audit is not None]
        for change in changes:
            if change.kind == KEYS:
                self._data.keys.pop(change.name, None)
                if change.body is not None:
                    self._data.keys[change.name] = msgspec.json.decode(change.body, type=Key)
            elif change.body is None:
                self._data.records.pop((change.kind, change.name), None)
            else:
                self._data.records[change.kind, change.name] = change.body
        return entries

    async def append_audit(self, record: AuditRecord) -> AuditEntry:
        self._require_open()
        entry = seal_record(record, self._data.audit[-1] if self._data.audit else None)
        self._data.audit.append(entry)
        return entry

    async def read_audit(self, query: AuditQuery) -> Sequence[AuditEntry]:
        self._require_open()
        entries = self._data.audit if query.oldest_first else reversed(self._data.audit)
        return list(islice((entry for entry in entries if query.selects(entry)), query.limit))

    async def trim_audit(self, record: AuditRecord, before: float, limit: int) -> AuditEntry | None:
        self._require_open()
        entries = self._data.audit
        removed = list(islice(takewhile(lambda entry: entry.at < before, entries), limit))
        if not removed:
            return None
        entry = seal_trim(record, entries[-1], removed[-1], len(removed))
        self._data.audit = [*entries[len(removed) :], entry]
        return entry

    async def reserve(self, reservation: Reservation) -> BudgetShare | None:
        self._require_open()
        return self._data.ledger.reserve(reservation)

    async def settle_reservations(self, now: float, limit: int) -> tuple[int, Sequence[BudgetCharge]]:
        self._require_open()
        return self._data.ledger.settle(now, limit, self._has_run)

    async def has_reservations(self) -> bool:
        return self._data.ledger.has_reservations()

    async def read_reserved(self, conversation: str) -> Mapping[str, int]:
        return self._data.ledger.read_reserved(conversation)

    async def read_balances(self, periods: Sequence[str]) -> Sequence[BudgetBalance]:
        self._require_open()
        return [balance for key, balance in sorted(self._data.ledger.balances.items()) if key[2] in periods]

    async def read_usage(self, query: UsageQuery) -> Sequence[UsageRow]:
        self._require_open()
        return self._data.ledger.read_usage(query)

    def _has_run(self, conversation: str) -> bool:
        row = self._data.conversations.get(conversation)
        return row is not None and row.wake_at is not None

    async def close(self) -> None:
        self._closed = True

    def _require_epoch(self, conversation: str, epoch: int) -> MemoryConversation:
        """Return the row of a conversation that this epoch owns. Raises Fenced.

        An owner that lost its claim has an older epoch, and must not write after the new owner has read.
        """
        row = self._data.conversations.get(conversation)
        current = row.epoch if row else None
        if row is None or epoch != current or epoch < 0:
            raise Fenced(f"epoch {epoch} does not own conversation {conversation!r}: its epoch is {current}")
        return row

    def _record_requests(self, conversation: str, entries: Sequence[Entry]) -> None:
        """Record the requests of entries that are about to be stored. Raises RequestRepeated before it records any."""
        stamped = [(entry.request, entry) for entry in entries if entry.request is not None]
        for request, entry in stamped:
            earlier = self._data.requests.get(request.key_hash)
            if earlier is None or earlier.at <= request.counts_from(entry.at) - REQUEST_KEY_S:
                continue
            if not request.replaces or request.replaces != earlier.run:
                raise build_repeated_error()
        for request, entry in stamped:
            if request.key_hash not in self._data.requests:
                insort(self._data.request_keys, request.key_hash)
            self._data.requests[request.key_hash] = RequestRecord(
                body_hash=request.body_hash,
                conversation=conversation,
                seq=entry.seq,
                run=entry.run,
                at=request.counts_from(entry.at),
            )

    def _project(self, conversation: str, entries: Sequence[Entry]) -> None:
        cards = self._data.cards
        for entry in entries:
            match entry.event:
                case ConversationOpened(owner=owner, settings=settings):
                    cards[conversation] = ConversationCard(
                        id=conversation,
                        user=owner.user,
                        tenant=owner.tenant,
                        title=settings.title,
                        description=settings.description,
                        created_at=entry.at,
                        updated_at=entry.at,
                        unlisted=settings.unlisted,
                        place=find_place(settings),
                    )
                case ConversationChanged(settings=settings) if card := cards.get(conversation):
                    cards[conversation] = replace(
                        card, title=settings.title, description=settings.description, place=find_place(settings)
                    )
                case RunQueued() if entry.correlation_id:
                    self._data.traces.setdefault((conversation, entry.run), (entry.correlation_id, entry.at))
                case _:
                    pass
        if card := cards.get(conversation):
            cards[conversation] = replace(card, updated_at=entries[-1].at)

    def _matches(self, card: ConversationCard, query: CatalogQuery) -> bool:
        if (card.unlisted and not query.unlisted) or card.place not in query.places:
            return False
        if card.tenant != query.tenant or (query.user and card.user != query.user):
            return False
        if query.after and card.position >= query.after:
            return False
        needle, entries = fold_case(query.text), self._data.conversations[card.id].entries
        return contains_text(card, needle, entries)

    def _require_open(self) -> None:
        if self._closed:
            raise build_closed_error()
