"""Replicas in one process: memory stores that share their data, with ownership, forwarded commands and messages.

They stand in for processes that share a PostgreSQL database, so that tests of replicas need none.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from toolyard.core.errors import Fenced, NotFound, Unavailable
from toolyard.core.store import (
    LOG_FORMAT,
    MAX_FORWARDED,
    Append,
    Claim,
    CommandAnswer,
    ForwardedCommand,
    FutureLike,
    Key,
    LogHead,
    OwnedElsewhere,
    RecordChange,
)
from toolyard.core.store.audit_chain import AuditEntry
from toolyard.named_locks import NamedLocks
from toolyard.stores.entries import ends_run
from toolyard.stores.memory import MemoryConversation, MemoryData, MemoryStore
from toolyard.stores.rate_limit import GcraLimiter


@dataclass(slots=True)
class Sharing:
    """What replicas know of a conversation besides its log."""

    replica: str = ""
    """The replica that owns it."""
    deaths: int = 0
    last_forwarded: int = 0
    """The number of the last forwarded command."""
    forwarded: dict[str, tuple[ForwardedCommand, bytes | None]] = field(
        default_factory=dict[str, tuple[ForwardedCommand, bytes | None]]
    )
    """The forwarded commands by their keys, each with its outcome."""
    last_read: int = 0
    """The number of the last forwarded command that an owner has read."""
    followers: set[str] = field(default_factory=set[str])

    @property
    def unanswered(self) -> list[ForwardedCommand]:
        return [command for command, outcome in self.forwarded.values() if outcome is None]

    def store_outcome(self, answer: CommandAnswer) -> None:
        for key, (command, _) in self.forwarded.items():
            if command.number == answer.number:
                self.forwarded[key] = command, answer.outcome


class MemoryDatabase(MemoryData):
    """What the replicas of a memory store share."""

    def __init__(self) -> None:
        super().__init__()
        self.sharing: defaultdict[str, Sharing] = defaultdict(Sharing)
        self.stores: dict[str, SharedMemoryStore] = {}
        """The replicas whose lease holds, by id."""
        self.replica_numbers = count(1)
        self.versions: defaultdict[str, int] = defaultdict(int)
        self.limits = GcraLimiter()
        self.locks = NamedLocks()


class SharedMemoryStore(MemoryStore):
    """The store of one replica. Several stores of one MemoryDatabase are replicas of each other."""

    is_shared = True
    log_format = LOG_FORMAT
    """What the code of this replica reads: less for one of an earlier version."""

    def __init__(self, database: MemoryDatabase | None = None) -> None:
        super().__init__()
        self.database = database = database or MemoryDatabase()
        self._data = database
        self._limits = database.limits
        self.lock = database.locks.lock
        self.replica = f"memory-{next(database.replica_numbers)}"
        database.stores[self.replica] = self
        self._on_message: Callable[[bytes], None] = lambda _: None

    def lose_lease(self) -> None:
        """Let the other replicas take over what this one owns, as if it had died or hung."""
        self.database.stores.pop(self.replica, None)

    def begin_append(self, append: Append) -> FutureLike:
        done = super().begin_append(append)
        shared = self.database.sharing[append.conversation]
        if ends_run(append.entries):
            shared.deaths = 0
        for answer in append.answers:
            shared.store_outcome(answer)
        if append.release_at is None or not self._release(append.conversation, append.release_at):
            return done
        released: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        released.set_result(True)
        return released

    def list_owned(self) -> Sequence[str]:
        return [id for id, shared in self.database.sharing.items() if shared.replica == self.replica]

    async def count_other_replicas(self) -> int:
        self._require_open()
        return len(self.database.stores.keys() - {self.replica})

    async def read_oldest_format(self) -> int:
        return min(store.log_format for store in self.database.stores.values())

    async def ensure_lease(self) -> None:
        self._require_open()

    async def claim(self, conversation: str) -> Claim | OwnedElsewhere:  # pyright: ignore[reportIncompatibleMethodOverride]
        self._require_open()
        shared = self.database.sharing[conversation]
        if shared.replica not in ("", self.replica):
            if shared.replica in self.database.stores:
                return OwnedElsewhere(shared.replica)
            shared.deaths += 1
        shared.replica = self.replica
        claim = await super().claim(conversation)
        return Claim(
            conversation=conversation,
            epoch=claim.epoch,
            last_seq=claim.last_seq,
            last_forwarded=shared.last_forwarded,
            has_forwarded=bool(shared.unanswered),
            deaths=shared.deaths,
            followers=tuple(sorted(shared.followers - {self.replica})),
        )

    async def claim_many(self, conversations: Sequence[str]) -> Sequence[Claim]:
        claims = [await self.claim(conversation) for conversation in conversations]
        return [claim for claim in claims if isinstance(claim, Claim)]

    async def release(self, conversation: str, epoch: int, last_forwarded: int, wake_at: float | None) -> bool:
        self._require_open()
        try:
            row = self._require_epoch(conversation, epoch)
        except Fenced:
            return True
        if not self._release(conversation, last_forwarded):
            return False
        row.wake_at = wake_at if row.entries else None
        return True

    async def find_due(self, now: float, limit: int) -> tuple[Sequence[str], float | None]:
        self._require_open()
        open_ones = [
            (row.wake_at, id, self.database.sharing[id].replica)
            for id, row in self.database.conversations.items()
            if row.wake_at is not None and self.database.sharing[id].replica not in self.database.stores
        ]
        due = [id for wake_at, id, owner in open_ones if owner or wake_at <= now]
        return due[:limit], min((wake_at for wake_at, _, _ in open_ones if wake_at > now), default=None)

    async def forward_command(self, conversation: str, key: str, body: bytes) -> str:
        self._require_open()
        row, shared = self.database.conversations.get(conversation), self.database.sharing[conversation]
        if row is None or row.epoch <= 0:
            raise NotFound(f"there is no conversation {conversation[:80]!r}")
        if len(shared.unanswered) >= MAX_FORWARDED:
            raise Unavailable("too many commands wait for this conversation's owner; come back in a moment")
        shared.last_forwarded += 1
        row.wake_at = 0.0
        command = ForwardedCommand(number=shared.last_forwarded, key=key, sender=self.replica, body=body)
        shared.forwarded[key] = command, None
        return shared.replica if shared.replica in self.database.stores else ""

    async def read_forwarded(self, conversation: str, epoch: int) -> tuple[int, Sequence[ForwardedCommand]]:
        self._require_open()
        self._require_epoch(conversation, epoch)
        shared = self.database.sharing[conversation]
        shared.last_read = shared.last_forwarded
        return shared.last_forwarded, shared.unanswered

    async def answer_forwarded(self, conversation: str, epoch: int, answer: CommandAnswer) -> None:
        self._require_open()
        self._require_epoch(conversation, epoch)
        self.database.sharing[conversation].store_outcome(answer)

    async def read_outcome(self, conversation: str, key: str) -> bytes | None:
        self._require_open()
        _, outcome = self.database.sharing[conversation].forwarded.get(key, (None, None))
        return outcome

    async def withdraw(self, conversation: str, key: str) -> bytes | None:
        self._require_open()
        shared = self.database.sharing[conversation]
        command, outcome = shared.forwarded.get(key, (None, None))
        if command is not None and outcome is None:
            if command.number <= shared.last_read:
                raise Unavailable("the owner of the conversation has read the command and has not answered yet")
            del shared.forwarded[key]
        return outcome

    async def find_forwarded(self) -> Sequence[str]:
        self._require_open()
        sharing = self.database.sharing.items()
        return [id for id, shared in sharing if shared.replica == self.replica and shared.unanswered]

    def tell(self, replica: str, body: bytes) -> None:
        if store := self.database.stores.get(replica):
            asyncio.get_running_loop().call_soon(store.receive, body)

    def receive(self, body: bytes) -> None:
        """Handle a message of another replica."""
        if not self._closed:
            self._on_message(body)

    def listen(self, handler: Callable[[bytes], None]) -> None:
        self._on_message = handler

    async def follow(self, conversation: str) -> LogHead | None:
        self._require_open()
        self.database.sharing[conversation].followers.add(self.replica)
        return (await self.read_heads((conversation,))).get(conversation)

    async def unfollow(self, conversation: str) -> None:
        self.database.sharing[conversation].followers.discard(self.replica)

    async def read_heads(self, conversations: Sequence[str]) -> Mapping[str, LogHead]:
        self._require_open()
        rows = {id: self.database.conversations[id] for id in conversations if id in self.database.conversations}
        owners = {id: self.database.sharing[id].replica for id in rows}
        return {
            id: LogHead(
                last_seq=len(row.entries),
                epoch=row.epoch,
                replica=owners[id] if owners[id] in self.database.stores else "",
            )
            for id, row in rows.items()
        }

    async def delete_conversation(self, conversation: str) -> Sequence[str]:
        await super().delete_conversation(conversation)
        shared = self.database.sharing[conversation]
        self.database.sharing[conversation] = Sharing(followers=shared.followers)
        return sorted(({shared.replica} | shared.followers) - {"", self.replica})

    async def save_key(self, key: Key) -> None:
        await super().save_key(key)
        self.database.versions["key"] += 1

    async def revoke_key(self, name: str) -> bool:
        self.database.versions["key"] += 1
        return await super().revoke_key(name)

    async def set_record(self, kind: str, name: str, body: bytes) -> None:
        await super().set_record(kind, name, body)
        self.database.versions[kind] += 1

    async def add_records(self, kind: str, records: Mapping[str, bytes]) -> Mapping[str, bytes]:
        self.database.versions[kind] += 1
        return await super().add_records(kind, records)

    async def delete_record(self, kind: str, name: str) -> None:
        await super().delete_record(kind, name)
        self.database.versions[kind] += 1

    async def change_records(self, changes: Sequence[RecordChange]) -> Sequence[AuditEntry]:
        for kind in {change.kind for change in changes}:
            self.database.versions[kind] += 1
        return await super().change_records(changes)

    async def read_versions(self) -> Mapping[str, int]:
        self._require_open()
        return dict(self.database.versions)

    async def close(self) -> None:
        if not self._closed:
            for id in self.list_owned():
                self.database.sharing[id].replica = ""
        await super().close()
        self.lose_lease()

    def _require_epoch(self, conversation: str, epoch: int) -> MemoryConversation:
        row = super()._require_epoch(conversation, epoch)
        if self.database.sharing[conversation].replica != self.replica:
            raise Fenced(f"this replica has released conversation {conversation!r}")
        return row

    def _release(self, conversation: str, last_forwarded: int) -> bool:
        row, shared = self.database.conversations[conversation], self.database.sharing[conversation]
        if shared.last_forwarded != last_forwarded:
            return False
        shared.replica = ""
        if not row.entries:  # nothing was written to it: it counts as deleted
            row.epoch = -abs(row.epoch)
        return True
