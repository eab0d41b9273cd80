"""Keeps conversations in this process's memory, as the objects they are. Knows no encoding, and forgets all at exit."""

from collections.abc import Sequence

from toolyard.core.errors import Fenced, StoreDown
from toolyard.core.events import Entry


class MemoryStore:
    """A store for tests, demos and programs that need nothing to outlive the process."""

    def __init__(self) -> None:
        self._epochs: dict[str, int] = {}
        self._entries: dict[str, list[Entry]] = {}
        """Of a claimed conversation; entry number n sits at n - 1, as `append` lets no gap in."""
        self._wake_at: dict[str, float] = {}
        self._blobs: dict[tuple[str, str], bytes] = {}
        self._closed = False

    async def append(self, conversation: str, epoch: int, entries: Sequence[Entry], wake_at: float | None) -> None:
        self._require_open()
        current = self._epochs.get(conversation)
        if epoch != current:
            raise Fenced(f"epoch {epoch} does not own conversation {conversation!r}: its epoch is {current}")
        kept = self._entries[conversation]
        for seq, entry in enumerate(entries, len(kept) + 1):
            if entry.seq != seq:
                raise Fenced(f"entry {entry.seq} of conversation {conversation!r} is out of order: {seq} comes next")
        kept.extend(entries)
        if wake_at is None:
            self._wake_at.pop(conversation, None)
        else:
            self._wake_at[conversation] = wake_at

    async def read(self, conversation: str, after: int = 0, most: int = 0) -> Sequence[Entry]:
        self._require_open()
        entries = self._entries.get(conversation, [])
        return entries[after : after + most] if most else entries[after:]

    async def claim(self, conversation: str) -> int:
        self._require_open()
        self._entries.setdefault(conversation, [])
        epoch = self._epochs.get(conversation, 0) + 1
        self._epochs[conversation] = epoch
        return epoch

    async def due(self, now: float) -> tuple[Sequence[str], float | None]:
        self._require_open()
        waiting = list(self._wake_at.items())
        later = (wake_at for _, wake_at in waiting if wake_at > now)
        return [conversation for conversation, wake_at in waiting if wake_at <= now], min(later, default=None)

    async def put(self, conversation: str, handle: str, body: bytes) -> None:
        self._require_open()
        self._blobs[conversation, handle] = body

    async def get(self, conversation: str, handle: str) -> bytes | None:
        self._require_open()
        return self._blobs.get((conversation, handle))

    async def close(self) -> None:
        self._closed = True

    def _require_open(self) -> None:
        if self._closed:
            raise StoreDown("this memory store is closed: open a new one")
