"""What stores that one process uses have in common: no other replicas, and locks and rate limits in its memory."""

from collections.abc import Callable, Mapping, Sequence
from uuid import uuid4

from toolyard.core.errors import NotFound
from toolyard.core.store import LOG_FORMAT, Allowance, CommandAnswer, ForwardedCommand, LogHead
from toolyard.named_locks import NamedLocks
from toolyard.stores.rate_limit import GcraLimiter


class SingleProcessPorts:
    """A replica without others: its lease always holds, and no commands are forwarded."""

    is_shared = False
    clock_offset = 0.0

    def __init__(self) -> None:
        self.replica = uuid4().hex
        self.lock = NamedLocks().lock
        self._limits = GcraLimiter()

    def _require_open(self) -> None:
        """Raise StoreDown if the store was closed."""
        raise NotImplementedError

    async def take_allowance(self, key: str, per_minute: int, now: float) -> Allowance:
        self._require_open()
        return self._limits.take_allowance(key, per_minute, now)

    async def return_allowance(self, key: str, per_minute: int) -> None:
        self._require_open()
        self._limits.return_allowance(key, per_minute)

    async def release(self, conversation: str, epoch: int, last_forwarded: int, wake_at: float | None) -> bool:
        return True  # nobody else claims: the next claim of this process raises the epoch

    def on_lost(self, handler: Callable[[Sequence[tuple[str, int]]], None]) -> None:
        pass

    def list_owned(self) -> Sequence[str]:
        return ()

    async def count_other_replicas(self) -> int:
        return 0

    async def read_oldest_format(self) -> int:
        return LOG_FORMAT

    async def ensure_lease(self) -> None:
        pass

    async def forward_command(self, conversation: str, key: str, body: bytes) -> str:
        raise NotFound(
            "this store has one process, which owns every conversation: there is nobody to forward a command to"
        )

    async def read_forwarded(self, conversation: str, epoch: int) -> tuple[int, Sequence[ForwardedCommand]]:
        return 0, ()

    async def answer_forwarded(self, conversation: str, epoch: int, answer: CommandAnswer) -> None:
        pass

    async def read_outcome(self, conversation: str, key: str) -> bytes | None:
        return None

    async def withdraw(self, conversation: str, key: str) -> bytes | None:
        return None

    async def find_forwarded(self) -> Sequence[str]:
        return ()

    def tell(self, replica: str, body: bytes) -> None:
        pass

    def listen(self, handler: Callable[[bytes], None]) -> None:
        pass

    async def follow(self, conversation: str) -> LogHead | None:
        return None

    async def unfollow(self, conversation: str) -> None:
        pass

    async def read_heads(self, conversations: Sequence[str]) -> Mapping[str, LogHead]:
        return {}

    async def read_versions(self) -> Mapping[str, int]:
        return {}
