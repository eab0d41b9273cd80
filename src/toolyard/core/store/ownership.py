"""The ports with which replicas share a store: ownership, forwarded commands, messages and followers."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from toolyard.core.store.log import CommandAnswer, LogHead


class Claim(Struct, frozen=True, kw_only=True):
    """The ownership of a conversation."""

    conversation: str
    epoch: int
    last_seq: int = 0
    """The number of the last stored entry."""
    last_forwarded: int = 0
    """The number of the last command that was forwarded."""
    has_forwarded: bool = False
    """Whether there are forwarded commands without an outcome."""
    deaths: int = 0
    """How many owners died with the run that is open now."""
    followers: tuple[str, ...] = ()
    """The other replicas whose readers follow the conversation."""
    is_unwritten: bool = False
    """Whether the first append writes the ownership as well: until then the store has nothing of the conversation."""


class OwnedElsewhere(Struct, frozen=True):
    """The answer to a claim while another replica owns the conversation and its lease holds."""

    replica: str


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


PROGRAM_FORMAT = 2
"""The format of logs since which there are programs, whose calls have entries of a new kind."""
LOG_FORMAT = PROGRAM_FORMAT
"""The newest format of logs that this code reads. A new kind of entry is written once all live replicas read it."""


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

    async def read_oldest_format(self) -> int:
        """Return the newest format of logs that all live replicas read, this one included."""
        ...

    async def ensure_lease(self) -> None:
        """Return once the lease holds for long enough to start an effect. Raises StoreDown after a time limit."""
        ...

    async def claim(self, conversation: str) -> Claim | OwnedElsewhere:
        """Become the owner under a new epoch, unless another replica owns the conversation and its lease holds.

        Raises StoreDown, or Unavailable for a conversation that several owners died with and that has to wait.
        """
        ...

    async def claim_new(self, conversation: str) -> Claim | OwnedElsewhere:
        """Claim a conversation whose id was made just now, so that no other process knows of it.

        A store may leave the writing to the first append, which is refused as Fenced if the id is known after all.
        """
        ...

    async def claim_many(self, conversations: Sequence[str]) -> Sequence[Claim]:
        """Claim those of the conversations that nobody owns, in one commit. Others are left out."""
        ...

    async def release(self, conversation: str, epoch: int, last_forwarded: int, wake_at: float | None) -> bool:
        """Give up the ownership, unless a command after `last_forwarded` came. Return whether nobody owns it now.

        `wake_at` is when a replica must drive it again, as in `Append`.
        """
        ...

    async def find_due(self, now: float, limit: int) -> tuple[Sequence[str], float | None]:
        """Return up to `limit` conversations that must be driven now, and when the next one is due.

        They are those without an owner whose time has come, those of replicas that died and, in a store that one
        process uses, all whose time has come.
        """
        ...


class ForwardedCommand(Struct, frozen=True, kw_only=True):
    """A command for the owner of a conversation, forwarded by another replica."""

    number: int
    """The commands of a conversation are numbered in the order in which they were forwarded."""
    key: str
    sender: str
    """The replica that forwarded it."""
    body: bytes


MAX_FORWARDED = 256
"""Forwarded commands of a conversation that may wait for an outcome."""


class ForwardedCommands(Protocol):
    """Commands on their way to the owners of conversations, and their outcomes."""

    async def forward_command(self, conversation: str, key: str, body: bytes) -> str:
        """Forward a command and let its conversation be driven at once. Return its owner, or an empty string.

        `key` is new for each command. Raises NotFound, or Unavailable if too many commands wait.
        """
        ...

    async def read_forwarded(self, conversation: str, epoch: int) -> tuple[int, Sequence[ForwardedCommand]]:
        """Return the number of the last command that was forwarded, and the commands without an outcome, in order.

        From now on they cannot be withdrawn: this owner, or the next one, will answer them. Raises Fenced if the epoch
        is not current.
        """
        ...

    async def answer_forwarded(self, conversation: str, epoch: int, answer: CommandAnswer) -> None:
        """Store an outcome that comes without entries, if the epoch is current. Raises Fenced."""
        ...

    async def read_outcome(self, conversation: str, key: str) -> bytes | None: ...

    async def withdraw(self, conversation: str, key: str) -> bytes | None:
        """Delete a command that no owner has read and return None: it certainly had no effect.

        Return the outcome if it has one by now. Raises Unavailable if an owner has read it and not answered it yet.
        """
        ...

    async def find_forwarded(self) -> Sequence[str]:
        """Return conversations that this replica owns and that have forwarded commands without an outcome."""
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
