"""The ports of a store: small protocols, and `Store`, which combines them."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol, runtime_checkable

from msgspec import Struct

from toolyard.core.audit import AuditEntry, AuditQuery, AuditRecord
from toolyard.core.events import Entry
from toolyard.core.setting_types import Hash, Name, Origin, RecordedHash, RecordedTime, RecordedTools, Timestamp


class FutureLike(Protocol):
    """The part of a future that the journal uses."""

    def done(self) -> bool: ...

    def exception(self) -> BaseException | None: ...

    def result(self) -> bool: ...

    def add_done_callback(self, callback: Callable[["FutureLike"], object], /) -> None: ...


class LetterAnswer(Struct, frozen=True, kw_only=True):
    """The outcome of a letter: an encoded `CommandOutcome`."""

    number: int
    outcome: bytes


class Append(Struct, frozen=True, kw_only=True, eq=False):
    """Entries of one conversation, and what is committed with them."""

    conversation: str
    epoch: int
    entries: Sequence[Entry] = ()
    """Numbered on from the last stored entry; without any only the other fields take effect."""
    wake_at: float | None = None
    """When the conversation must be driven again: 0 means now, None never."""
    answers: Sequence[LetterAnswer] = ()
    """The outcomes of letters that the entries come from."""
    release_at: int | None = None
    """Give up the ownership with this commit, unless a letter after this number was posted. None keeps it."""


class Log(Protocol):
    """The append-only logs of conversations."""

    def begin_append(self, append: Append) -> FutureLike | None:
        """Start an append and return its future, or None without starting it if the store has no room.

        The result of the future is whether the ownership was given up. A store that one process uses keeps it: there is
        nobody to give it up for.
        """
        ...

    async def append(self, append: Append) -> bool:
        """Commit in one transaction, if the epoch is current. Return whether the ownership was given up.

        Raises Fenced if another owner has claimed the conversation, StoreDown, or RequestRepeated for an entry whose
        request was stored with another entry in the last 24 hours.
        """
        ...

    async def read(self, conversation: str, after: int = 0, limit: int = 0) -> Sequence[Entry]: ...


class Claim(Struct, frozen=True, kw_only=True):
    """The ownership of a conversation."""

    conversation: str
    epoch: int
    last_seq: int = 0
    """The number of the last stored entry."""
    mail: int = 0
    """The number of the last letter that was posted."""
    has_mail: bool = False
    """Whether there are letters without an outcome."""
    deaths: int = 0
    """How many owners died with the run that is open now."""
    followers: tuple[str, ...] = ()
    """The other replicas whose readers follow the conversation."""


class Owned(Struct, frozen=True):
    """The answer to a claim while another replica owns the conversation and its lease holds."""

    replica: str


class LogHead(Struct, frozen=True, kw_only=True):
    """The end of a log, and the replica that owns the conversation; empty if none does."""

    last_seq: int
    epoch: int
    """Negative if the conversation was deleted."""
    replica: str = ""


class Sharing(Protocol):
    """Says whether a store is one process's own."""

    @property
    def is_shared(self) -> bool:
        """Return whether other processes may use the store at the same time."""
        ...


MAX_DEATHS = 8
"""How many owners may die with a run, which may be what kills them. The claim after so many is the last one that
happens by itself: with it the engine ends the run as failed, before anything runs."""
SUSPECT_DEATHS = 3
"""A conversation with so many deaths of owners may be their cause: it is taken up alone, with growing delay."""


class Claims(Sharing, Protocol):
    """The ownership of conversations, and the lease of this replica.

    Safety comes from the epoch alone: a new claim rejects the appends of every earlier owner. The lease decides when
    others may claim what this replica owns.
    """

    @property
    def replica(self) -> str:
        """Return the id of this process among those that share the store: a new one after its lease was lost."""
        ...

    @property
    def clock_offset(self) -> float:
        """Return the seconds to add to this machine's clock for the clock that all replicas share."""
        ...

    def on_lost(self, handler: Callable[[Sequence[tuple[str, int]]], None]) -> None:
        """Call `handler` with the conversations, and their epochs, that others took over after the lease had ended."""
        ...

    def list_owned(self) -> Sequence[str]:
        """Return the conversations that this replica owns; none for a store that one process uses."""
        ...

    async def count_other_replicas(self) -> int:
        """Return how many other processes use the store now: servers, and commands while they run."""
        ...

    async def ensure_lease(self) -> None:
        """Return once the lease holds for long enough to start an effect. Raises StoreDown after a time limit."""
        ...

    async def claim(self, conversation: str) -> Claim | Owned:
        """Become the owner under a new epoch, unless another replica owns the conversation and its lease holds.

        Raises StoreDown, or Unavailable for a conversation that several owners died with and that has to wait.
        """
        ...

    async def claim_many(self, conversations: Sequence[str]) -> Sequence[Claim]:
        """Claim those of the conversations that nobody owns, in one commit. Others are left out."""
        ...

    async def release(self, conversation: str, epoch: int, mail: int, wake_at: float | None) -> bool:
        """Give up the ownership, unless a letter after the number `mail` was posted. Return whether nobody owns it now.

        `wake_at` is when a replica must drive it again, as in `Append`.
        """
        ...

    async def find_due(self, now: float, limit: int) -> tuple[Sequence[str], float | None]:
        """Return up to `limit` conversations that must be driven now, and when the next one is due.

        They are those without an owner whose time has come, those of replicas that died and, in a store that one
        process uses, all whose time has come.
        """
        ...


class Letter(Struct, frozen=True, kw_only=True):
    """A command for the owner of a conversation, posted by another replica."""

    number: int
    """Letters of a conversation are numbered in the order in which they were posted."""
    key: str
    sender: str
    """The replica that posted it."""
    body: bytes


MAX_LETTERS = 256
"""Letters of a conversation that may wait for an outcome."""


class Mail(Protocol):
    """Commands on their way to the owners of conversations, and their outcomes."""

    async def post(self, conversation: str, key: str, body: bytes) -> str:
        """Post a letter and let the conversation be driven at once. Return its owner, or an empty string.

        `key` is new for each letter. Raises NotFound, or Unavailable if too many letters wait.
        """
        ...

    async def read_mail(self, conversation: str, epoch: int) -> tuple[int, Sequence[Letter]]:
        """Return the number of the last letter that was posted, and the letters without an outcome, in order.

        From now on they cannot be withdrawn: this owner, or the next one, will answer them. Raises Fenced if the epoch
        is not current.
        """
        ...

    async def answer(self, conversation: str, epoch: int, answer: LetterAnswer) -> None:
        """Store an outcome that comes without entries, if the epoch is current. Raises Fenced."""
        ...

    async def read_outcome(self, conversation: str, key: str) -> bytes | None: ...

    async def withdraw(self, conversation: str, key: str) -> bytes | None:
        """Delete a letter that no owner has read and return None: it certainly had no effect.

        Return the outcome if it has one by now. Raises Unavailable if an owner has read it and not answered it yet.
        """
        ...

    async def find_mail(self) -> Sequence[str]:
        """Return conversations that this replica owns and that have letters without an outcome."""
        ...


class Bus(Protocol):
    """Messages between replicas. They are hints: one may be lost or come twice."""

    def tell(self, replica: str, body: bytes) -> None:
        """Send a message of at most MAX_MESSAGE_BYTES to a replica, soon. A message to an unknown one is dropped."""
        ...

    def listen(self, handler: Callable[[bytes], None]) -> None:
        """Call `handler` with each message to this replica, and with an empty one when some may have been missed."""
        ...


MAX_MESSAGE_BYTES = 7_900
"""PostgreSQL limits a notification to 8,000 bytes."""


class Followers(Protocol):
    """Which replicas have readers of which conversation, so that its owner can wake them."""

    async def follow(self, conversation: str) -> LogHead | None:
        """Record that readers of this replica follow a conversation; later claims return it.

        Return None for a conversation that nobody has claimed yet.
        """
        ...

    async def unfollow(self, conversation: str) -> None: ...

    async def read_heads(self, conversations: Sequence[str]) -> Mapping[str, LogHead]:
        """Return where the logs end now. An unknown conversation is left out."""
        ...


class Blobs(Protocol):
    """Whole results by random handle, scoped to a conversation and deleted with it."""

    async def put_blob(self, conversation: str, handle: str, body: bytes) -> None: ...

    async def get_blob(self, conversation: str, handle: str) -> bytes | None: ...


class SnapshotHead(Struct, frozen=True, kw_only=True):
    """The stored snapshot of a conversation's state, without the pieces that hold its items."""

    token: str
    """Names this snapshot: it is new for each one that is saved."""
    seq: int
    """The number of the last entry that the snapshot includes."""
    body: bytes


class SnapshotUpdate(Struct, frozen=True, kw_only=True):
    """A snapshot to save: it goes on from `previous`, or replaces whatever is stored if that is empty."""

    head: SnapshotHead
    previous: str = ""
    """The token of the snapshot whose pieces stay."""
    pieces: Sequence[tuple[str, bytes]] = ()
    """New pieces by name. A name is used once, so that pieces of two snapshots are never mixed."""
    dropped: Sequence[str] = ()
    """The names of pieces that the snapshot no longer uses."""


class Snapshots(Protocol):
    """A cache of folded states. Losing a snapshot costs time only; it is deleted with its conversation."""

    async def save_snapshot(self, conversation: str, update: SnapshotUpdate) -> bool:
        """Save a snapshot. Return False, and save nothing, if `previous` is not stored or the log ends before it."""
        ...

    async def read_snapshot(self, conversation: str) -> SnapshotHead | None: ...

    async def read_snapshot_pieces(self, conversation: str, names: Sequence[str]) -> Sequence[bytes]:
        """Return the pieces in this order. One that is not stored any more is left out."""
        ...


class FigureRow(Struct, frozen=True, kw_only=True):
    """Figures of one step of time, to be added to those that are stored: a JSON object of `core.figures`."""

    tenant: str
    user: str
    """Empty for all users of the tenant together."""
    step_s: float
    at: float
    body: bytes


class Figures(Protocol):
    """Statistics by tenant, user and step of time."""

    async def add_figures(self, rows: Sequence[FigureRow]) -> None: ...

    async def read_figures(self, tenant: str, user: str, step_s: float, since: float) -> Sequence[tuple[float, bytes]]:
        """Return the start and the figures of each step from that time on. A step may come several times."""
        ...

    async def drop_figures(self, step_s: float, before: float) -> None: ...


class RequestRecord(Struct, frozen=True, kw_only=True):
    """A request that took effect: the hash of its body, and the last entry that it led to."""

    body_hash: str
    conversation: str
    seq: int
    run: str
    at: float


ListPosition = tuple[float, str]
"""The position of a conversation in a list: the time of its last change, then its id."""


class ConversationCard(Struct, frozen=True, kw_only=True):
    """A conversation as a list shows it."""

    id: str
    user: str
    tenant: str
    title: str
    description: str
    created_at: float
    updated_at: float
    unlisted: bool = False
    """Whether lists for people leave it out."""

    @property
    def position(self) -> ListPosition:
        return self.updated_at, self.id


class CatalogQuery(Struct, frozen=True, kw_only=True):
    """A query for conversations of a tenant and of one user, or of all users if `user` is empty. Newest first."""

    tenant: str
    user: str = ""
    text: str = ""
    """Text in the title, the description or a message, ignoring case; empty means any."""
    after: ListPosition | None = None
    """Only conversations after this position: the `position` of a page's last card leads to the next page."""
    limit: int = 50
    unlisted: bool = False
    """Whether to include unlisted conversations."""


class OpenCounts(Struct, frozen=True, kw_only=True):
    """How many conversations have a run that is driven, and how many one that waits for people or applications."""

    running: int
    waiting: int


class Catalog(Protocol):
    """Projections of the logs, written in the same transaction as the entries."""

    async def card(self, conversation: str) -> ConversationCard | None: ...

    async def cards(self, query: CatalogQuery) -> Sequence[ConversationCard]: ...

    async def find_runs(self, correlation_id: str) -> Sequence[tuple[str, str]]:
        """Return the conversations and runs with this correlation id, oldest first."""
        ...

    async def find_request(self, key: str) -> RequestRecord | None:
        """Return the last of the requests whose keys begin with this text, if an entry with one was stored."""
        ...

    async def list_expired_requests(self, before: float, limit: int) -> Sequence[str]:
        """Return the conversations of up to `limit` requests that took effect before that time, oldest first."""
        ...

    async def drop_request(self, conversation: str, before: float) -> None:
        """Forget the requests of a conversation that took effect before that time."""
        ...

    async def list_open(self, tenant: str, user: str, limit: int) -> Sequence[ConversationCard]:
        """Return conversations with an open run, of all users if `user` is empty, the last changed first."""
        ...

    async def count_open(self, now: float) -> OpenCounts:
        """Return how many conversations have an open run, in all replicas."""
        ...

    async def delete_conversation(self, conversation: str) -> Sequence[str]:
        """Delete a conversation with everything that belongs to it, and fence its owner.

        Return the other replicas that own or follow it.
        """
        ...


class Key(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An API key as it is stored: its hash, never the key itself, and the caller that it stands for."""

    name: Name
    hash: Hash
    user: Name
    roles: frozenset[Name] = frozenset()
    tenant: str = ""
    divisions: frozenset[Name] = frozenset()
    trusted: bool = False
    """Whether requests with this key may name the end user whom they are made for."""
    tools: frozenset[Name] = frozenset()
    """The tools that requests with this key may use, by name or as patterns such as `stock_*`; empty means any."""
    bound_tools: RecordedTools = frozenset()
    """Those of `tools` that named a tool of a server when the key was added, with that tool."""
    models: frozenset[Name] = frozenset()
    """The models that requests with this key may use, by name or as patterns; empty means any."""
    origins: frozenset[Origin] = frozenset()
    """The origins of the pages that may use this key, such as `https://shop.example`; empty means any client."""
    not_before: Timestamp = 0.0
    expires_at: Timestamp = 0.0
    """When the key is no longer accepted; zero means never."""
    created_at: RecordedTime = 0.0
    previous_hash: RecordedHash = ""
    """The hash of the secret before the last rotation, which is accepted until `previous_until`."""
    previous_until: RecordedTime = 0.0

    def find_time_problem(self, now: float) -> str:
        """Return why the key is not accepted at this time; empty if it is."""
        if now < self.not_before:
            return "this API key is not valid yet"
        return "this API key has expired" if self.expires_at and now >= self.expires_at else ""

    def list_hashes(self, now: float) -> list[str]:
        """Return the hashes of the secrets that are accepted at this time."""
        return [self.hash, self.previous_hash] if self.previous_hash and now < self.previous_until else [self.hash]

    def administers(self, tenant: str) -> bool:
        """Return whether this is the key of an administrator of the tenant or of the whole server."""
        return "admin" in self.roles and self.tenant in ("", tenant)


class Keys(Protocol):
    """The API keys that were added at run time."""

    async def keys(self) -> Sequence[Key]: ...

    async def save_key(self, key: Key) -> None: ...

    async def revoke_key(self, name: str) -> bool:
        """Delete a key. Return whether it existed."""
        ...


SESSION = "session"
SHARE = "share"
"""The kinds of access tokens."""


class AccessToken(Struct, frozen=True, kw_only=True):
    """A random token that this server has handed out, as it is stored: its hash, never the token itself."""

    kind: str
    """What the token opens, such as `session`."""
    hash: str
    created_at: float
    expires_at: float
    conversation: str = ""
    """The conversation that the token is deleted with; empty if it belongs to none."""
    body: bytes = b""
    """Opaque to the store."""


class AccessTokens(Protocol):
    """Tokens of sessions and of shared conversations. The store does not check whether a token has expired."""

    async def save_token(self, token: AccessToken) -> None:
        """Store a token, unless its conversation does not exist, and delete those that had expired when it was made."""
        ...

    async def read_token(self, kind: str, hash: str) -> AccessToken | None: ...

    async def list_tokens(self, kind: str, conversation: str) -> Sequence[AccessToken]:
        """Return the tokens of a conversation, or those that belong to none, oldest first."""
        ...

    async def extend_token(self, kind: str, hash: str, expires_at: float) -> None:
        """Set when a token expires. A token that was deleted meanwhile stays deleted."""
        ...

    async def delete_token(self, kind: str, hash: str) -> None: ...


class Allowance(Struct, frozen=True, kw_only=True):
    """The answer of the limiter. If it is not `granted`, the request did not count."""

    granted: bool
    remaining: int
    retry_after_s: float


class Limiter(Protocol):
    """Limits requests per minute by caller, exact at the boundary (GCRA)."""

    async def take_allowance(self, key: str, per_minute: int, now: float) -> Allowance: ...

    async def return_allowance(self, key: str, per_minute: int) -> None:
        """Take back a request that was granted and shall not count. The allowance never becomes more than full."""
        ...


class KeyValue(Protocol):
    """Small records by kind and name, such as servers, pins and tokens. Their content is opaque to the store."""

    async def read_record(self, kind: str, name: str) -> bytes | None: ...

    async def list_records(self, kind: str) -> Sequence[tuple[str, bytes]]:
        """Return all records of a kind, in the order in which they were first set."""
        ...

    async def set_record(self, kind: str, name: str, body: bytes) -> None: ...

    async def add_records(self, kind: str, records: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """Set those of the records whose names are free, and return what is stored under each name now.

        Of several replicas that add a name at once, one does, and all of them get its record.
        """
        ...

    async def delete_record(self, kind: str, name: str) -> None: ...

    async def read_versions(self) -> Mapping[str, int]:
        """Return a number for each kind of record that grows with each change; keys are of the kind `key`.

        A store that one process uses returns none: nobody else changes its records.
        """
        ...

    def lock(self, kind: str, name: str) -> AbstractAsyncContextManager[None]:
        """Keep the other tasks and replicas that lock the same name waiting until the block ends."""
        ...


class AuditLog(Protocol):
    """The chain of audit entries. Nothing changes one, and only `trim_audit` deletes some."""

    async def append_audit(self, record: AuditRecord) -> AuditEntry:
        """Store a record after the last entry of all replicas, and return it with its place in the chain."""
        ...

    async def read_audit(self, query: AuditQuery) -> Sequence[AuditEntry]:
        """Return a page of entries, the newest first unless the query says otherwise."""
        ...

    async def trim_audit(self, record: AuditRecord, before: float, limit: int) -> AuditEntry | None:
        """Delete up to `limit` of the oldest entries, all of them older than `before`, and store the record about it.

        Both happen or nothing does. Return the new entry, which ends the chain; None if there is nothing to delete.
        """
        ...


class SharedKeyValue(KeyValue, Sharing, Protocol):
    """Records for users that also have to know whether other processes change them."""


class AuditedKeyValue(SharedKeyValue, AuditLog, Protocol):
    """Records whose changes are audited."""


class Store(
    Log,
    Claims,
    Mail,
    Bus,
    Followers,
    Blobs,
    Snapshots,
    Figures,
    Catalog,
    Keys,
    AccessTokens,
    Limiter,
    KeyValue,
    AuditLog,
    Protocol,
):
    """All ports of a store."""

    async def close(self) -> None: ...


@runtime_checkable
class Export(Protocol):
    """Lists of what a store holds besides its catalog, so that all of it can be copied to another store."""

    async def list_stored_conversations(self, after: str, limit: int) -> Sequence[tuple[str, float | None]]:
        """Return conversations with an id after `after`, in order, each with when it must be driven again."""
        ...

    async def list_blob_handles(self, conversation: str) -> Sequence[str]: ...

    async def list_record_kinds(self) -> Sequence[str]: ...

    async def list_figures(self, offset: int, limit: int) -> Sequence[FigureRow]:
        """Return rows after the first `offset` ones, in an order of their own. A step may come several times."""
        ...

    async def copy_audit(self, entries: Sequence[AuditEntry]) -> None:
        """Store entries of another store as they are. Their numbers must not be taken here."""
        ...


class CopyableStore(Store, Export, Protocol):
    """A store that can be copied, or copied to."""
