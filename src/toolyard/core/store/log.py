"""The ports for logs of conversations, and for what is stored beside them: whole results and snapshots."""

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct

from toolyard.core.conversation.events import Entry
from toolyard.core.store.ledger import Settlement, UsageRow


class FutureLike(Protocol):
    """The part of a future that the journal uses."""

    def done(self) -> bool: ...

    def exception(self) -> BaseException | None: ...

    def result(self) -> bool: ...

    def add_done_callback(self, callback: Callable[["FutureLike"], object], /) -> None: ...


class CommandAnswer(Struct, frozen=True, kw_only=True):
    """The outcome of a forwarded command: an encoded `CommandOutcome`."""

    number: int
    outcome: bytes


class Append(Struct, frozen=True, kw_only=True, eq=False):
    """Entries of one conversation, and what is committed with them."""

    conversation: str
    epoch: int
    entries: Sequence[Entry] = ()
    """Numbered on from the last stored entry; without any only the other fields take effect."""
    opens: bool = False
    """Whether the ownership is written with it: the claim was left unwritten, and nothing was appended since."""
    wake_at: float | None = None
    """When the conversation must be driven again: 0 means now, None never."""
    answers: Sequence[CommandAnswer] = ()
    """The outcomes of the forwarded commands that the entries come from."""
    usage: Sequence[UsageRow] = ()
    """What the entries add to the usage of models and tools."""
    settlements: Sequence[Settlement] = ()
    """The costs of the turns that the entries end, for the reservations of this conversation."""
    release_at: int | None = None
    """Give up the ownership with this commit, unless a command after this number was forwarded. None keeps it."""


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


class LogHead(Struct, frozen=True, kw_only=True):
    """The end of a log, and the replica that owns the conversation; empty if none does."""

    last_seq: int
    epoch: int
    """Negative if the conversation was deleted."""
    replica: str = ""


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
