"""The snapshots of the memory store."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from toolyard.core.store import SnapshotHead, SnapshotUpdate


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

    def read_pieces(self, names: Sequence[str]) -> list[bytes]:
        return [self.pieces[name] for name in names if name in self.pieces]
