"""Snapshots of a folded state: its items in pieces, each stored once, and a head that says where they belong.

Histories share lists of items that only grow. A snapshot therefore stores each list in pieces, and the next snapshot
adds only the items that came since. A list that was split off from another one names it and stores its own items.
Encoding and decoding give way to other tasks after each piece.
"""

import asyncio
import hashlib
import re
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import count

import msgspec
import msgspec.inspect
from msgspec import Struct

from toolyard.core.conversation.history import History, HistoryRoot
from toolyard.core.conversation.state import State
from toolyard.core.items import Item
from toolyard.core.store import SnapshotHead, SnapshotUpdate

VERSION = 1
"""Raised when states are to be folded anew although their shape is the same."""
MAX_PIECE_ITEMS = 100
MAX_PIECE_BYTES = 32 * 1024
MAX_BODY_BYTES = 256 * 1024
"""A state with more than this besides its items, such as a long request, gets no snapshot."""
MAX_COMPARED_LISTS = 4
"""How many lists a new list is compared with to find the one that it was split off from."""
MAX_PIECES_PER_READ = 8

ReadPieces = Callable[[Sequence[str]], Awaitable[Sequence[bytes]]]


class UnreadableSnapshot(Exception):
    """A snapshot of another version, or one whose pieces are not all stored any more."""


class ListLayout(Struct, frozen=True, array_like=True):
    """Where the items of a list are stored: the first `shared` items of the list `base`, then pieces."""

    base: int
    """The number of an earlier list in the snapshot, or -1."""
    shared: int
    pieces: tuple[tuple[str, int], ...]
    """The name of each piece, and how many items it has."""


class _Body(Struct, frozen=True):
    lists: tuple[ListLayout, ...]
    state: msgspec.Raw
    """The state, with a pair in place of each history: the number of its list, and its length."""


@dataclass(eq=False, slots=True)
class StoredList:
    """A list of items as a snapshot stores it. It refers weakly to the list in memory, to keep no items alive."""

    root: weakref.ref[HistoryRoot]
    base: "StoredList | None" = None
    shared: int = 0
    pieces: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])

    @property
    def length(self) -> int:
        return self.shared + sum(items for _, items in self.pieces)


@dataclass(frozen=True, slots=True)
class StoredSnapshot:
    """What is known about the snapshot of a conversation, so that the next one can go on from it."""

    token: str
    seq: int
    lists: Sequence[StoredList] = ()


_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
"""The address of a default value: it differs in each process."""
_encoder = msgspec.json.Encoder()
_bodies = msgspec.json.Decoder(_Body)
_pieces = msgspec.json.Decoder(list[Item])


@cache
def get_version() -> str:
    """Return the version of the snapshots that this code writes and reads: its number, and a digest of all shapes."""
    shapes = repr(msgspec.inspect.multi_type_info((State, Item)))
    digest = hashlib.sha256(_ADDRESS.sub("", shapes).encode()).hexdigest()
    return f"{VERSION}.{digest[:16]}"


async def _load_version() -> str:
    # The first call takes about 10 ms, so that it is made in a thread.
    return get_version() if get_version.cache_info().currsize else await asyncio.to_thread(get_version)


async def build_update(
    state: State, seq: int, token: str, before: StoredSnapshot | None
) -> tuple[SnapshotUpdate, StoredSnapshot] | None:
    """Return what to save for a state, and what is known about the snapshot then; None if the state is too large.

    `before` is the snapshot that is stored now.
    """
    lists, pieces = list[StoredList](), list[tuple[str, bytes]]()
    stored_lists = {root: stored for stored in before.lists if (root := stored.root()) is not None} if before else {}
    names = (f"{token}.{number}" for number in count())
    compared = list[tuple[StoredList, History]]()
    numbers = dict[HistoryRoot, StoredList]()
    for history in _select_longest(state):
        stored = stored_lists.get(history.root)
        if stored is None:
            base, shared = _find_base(history, compared)
            stored = StoredList(weakref.ref(history.root), base, shared)
        else:
            stored = StoredList(stored.root, stored.base, stored.shared, list(stored.pieces))
        async for body, items in _encode_pieces(history, stored.length):
            name = next(names)
            stored.pieces.append((name, items))
            pieces.append((name, body))
        compared = [*compared, (stored, history)][-MAX_COMPARED_LISTS:]
        numbers[history.root] = stored
        lists.append(stored)
    lists = _add_bases(lists)
    await _load_version()
    body = _encode_body(state, lists, numbers)
    if len(body) > MAX_BODY_BYTES:
        return None
    used = {name for stored in lists for name, _ in stored.pieces}
    dropped = [name for stored in before.lists for name, _ in stored.pieces if name not in used] if before else []
    head = SnapshotHead(token=token, seq=seq, body=body)
    update = SnapshotUpdate(head=head, previous=before.token if before else "", pieces=pieces, dropped=dropped)
    return update, StoredSnapshot(token, seq, lists)


async def restore_state(head: SnapshotHead, read_pieces: ReadPieces) -> tuple[State, StoredSnapshot]:
    """Return the state that a snapshot holds. Raises UnreadableSnapshot."""
    version, _, text = head.body.partition(b"\n")
    if version != (await _load_version()).encode():
        raise UnreadableSnapshot(f"it is of version {version[:40]!r}")
    try:
        body = _bodies.decode(text)
        histories = list[History]()
        lists = list[StoredList]()
        for layout in body.lists:
            history = await _restore_list(layout, histories, read_pieces)
            base = lists[layout.base] if layout.base >= 0 else None
            lists.append(StoredList(weakref.ref(history.root), base, layout.shared, list(layout.pieces)))
            histories.append(history)

        def restore_history(kind: type, value: object) -> object:
            if kind is not History:
                return value  # an argument of a call, whose type is `object`
            number, length = msgspec.convert(value, tuple[int, int])
            return histories[number].first(length) if number >= 0 else History()

        state = msgspec.json.decode(body.state, type=State, dec_hook=restore_history)
    except (msgspec.MsgspecError, IndexError) as error:
        raise UnreadableSnapshot(str(error)) from None
    return state, StoredSnapshot(head.token, head.seq, lists)


def _select_longest(state: State) -> list[History]:
    """Return the longest history of each list that the state refers to."""
    longest = dict[HistoryRoot, History]()
    for history in _list_histories(state):
        longest_yet = longest.get(history.root)
        if len(history) and (longest_yet is None or len(history) > len(longest_yet)):
            longest[history.root] = history
    return list(longest.values())


def _list_histories(state: State) -> Iterator[History]:
    yield from (branch.history for branch in state.branches)
    yield from (state.window.past, state.history)


def _find_base(history: History, compared: Sequence[tuple[StoredList, History]]) -> tuple[StoredList | None, int]:
    """Return the list that shares the most items with the beginning of a history, and how many these are."""
    base, most = None, 0
    for stored, other in compared:
        # Items are compared one by one: after a compaction two histories may differ before an item that both have.
        pairs = zip(history, other, strict=False)
        shared = next((at for at, (mine, its) in enumerate(pairs) if mine is not its), min(len(history), len(other)))
        if shared > most:
            base, most = stored, shared
    return base, most


async def _encode_pieces(history: History, start: int) -> AsyncGenerator[tuple[bytes, int], None]:
    """Yield the items from `start` on as pieces, each with the number of its items."""
    while start < len(history):
        encoded, size = list[bytes](), 0
        for item in history[start : start + MAX_PIECE_ITEMS]:
            encoded.append(_encoder.encode(item))
            size += len(encoded[-1])
            if size >= MAX_PIECE_BYTES:
                break
        yield b"[" + b",".join(encoded) + b"]", len(encoded)
        start += len(encoded)
        await asyncio.sleep(0)


def _add_bases(lists: Sequence[StoredList]) -> list[StoredList]:
    """Return the lists, each after the list that it was split off from."""
    ordered = dict[StoredList, None]()
    for stored in lists:
        path, base = [stored], stored.base
        while base is not None and base not in ordered:
            path.append(base)
            base = base.base
        ordered.update(dict.fromkeys(reversed(path)))
    return list(ordered)


def _encode_body(state: State, lists: Sequence[StoredList], by_root: dict[HistoryRoot, StoredList]) -> bytes:
    numbers = {stored: number for number, stored in enumerate(lists)}

    def encode_history(value: object) -> tuple[int, int]:
        if not isinstance(value, History):
            raise NotImplementedError(f"{type(value).__name__} cannot be encoded")
        stored = by_root.get(value.root)
        return (numbers[stored], len(value)) if stored is not None else (-1, 0)

    layouts = tuple(
        ListLayout(numbers[stored.base] if stored.base else -1, stored.shared, tuple(stored.pieces)) for stored in lists
    )
    text = msgspec.json.encode(state, enc_hook=encode_history)
    return b"\n".join((get_version().encode(), _encoder.encode(_Body(lists=layouts, state=msgspec.Raw(text)))))


async def _restore_list(layout: ListLayout, histories: Sequence[History], read_pieces: ReadPieces) -> History:
    history = History(histories[layout.base].items_from(0)[: layout.shared] if layout.base >= 0 else ())
    if len(history) != layout.shared:
        raise UnreadableSnapshot("a list is shorter than the one that was split off from it")
    for start in range(0, len(layout.pieces), MAX_PIECES_PER_READ):
        layouts = layout.pieces[start : start + MAX_PIECES_PER_READ]
        bodies = await read_pieces([name for name, _ in layouts])
        if len(bodies) != len(layouts):
            raise UnreadableSnapshot("a piece is missing")
        for body, (_, items) in zip(bodies, layouts, strict=True):
            piece = _pieces.decode(body)
            if len(piece) != items:
                raise UnreadableSnapshot("a piece has another number of items")
            history = history.plus(piece)
            history.scan()  # in steps, too: the first use would otherwise look at all items at once
            await asyncio.sleep(0)
    return history
