"""The catalog of the SQLite store: writes it together with the entries, and queries it."""

import sqlite3
from collections.abc import Generator, Sequence
from contextlib import closing
from unicodedata import category

from toolyard.core.conversation.events import REQUEST_KEY_S, ConversationChanged, ConversationOpened, Entry, RunQueued
from toolyard.core.store import CatalogQuery, ConversationCard, OpenCounts, RequestRecord, find_place
from toolyard.stores.entries import build_repeated_error, decode_batch, is_mentioned, is_titled, list_places
from toolyard.stores.sqlite.access import FORGET_TOKENS
from toolyard.stores.sqlite.connections import SqlitePorts
from toolyard.stores.sqlite.ledger import CHARGE_RESERVED

MAX_PATTERN = 40
_OPEN = """INSERT OR REPLACE INTO cards
(conversation, tenant, user, title, description, created_at, unlisted, unindexed, updated_at, place)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, NOT ?7, ?8, ?9)"""
_TOUCH = "UPDATE cards SET updated_at = ?, unindexed = NOT unlisted WHERE conversation = ?"
_MARK_UNINDEXED = "UPDATE cards SET unindexed = 1 WHERE conversation = ? AND NOT unindexed AND NOT unlisted"
_CHANGE = "UPDATE cards SET title = ?, description = ?, place = ? WHERE conversation = ?"
_QUEUE = "INSERT OR IGNORE INTO traces (conversation, run, correlation_id, at) VALUES (?, ?, ?, ?)"
_FIND_RUNS = "SELECT conversation, run FROM traces WHERE correlation_id = ? ORDER BY at, conversation, run"
_ADD_REQUEST = """INSERT INTO requests (key, body, conversation, seq, run, at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (key) DO UPDATE SET body = ?2, conversation = ?3, seq = ?4, run = ?5, at = ?6
WHERE at <= ?6 - ?7 OR (?8 <> '' AND run = ?8)"""
_LIST_EXPIRED_REQUESTS = "SELECT conversation FROM requests WHERE at < ? ORDER BY at LIMIT ?"
_DROP_REQUEST = "DELETE FROM requests WHERE conversation = ? AND at < ?"
# Keys have digits of base 16 only, which come before `g`.
_FIND_REQUEST = """SELECT body, conversation, seq, run, at FROM requests WHERE key >= ?1 AND key < ?1 || 'g'
ORDER BY key DESC LIMIT 1"""
CARD_COLUMNS = "cards.conversation, user, tenant, title, description, created_at, cards.updated_at, unlisted, place"
_CARD = f"SELECT {CARD_COLUMNS} FROM cards WHERE conversation = ?"
_SCAN = """SELECT conversation, updated_at FROM cards WHERE tenant = :tenant {user} AND unlisted = {unlisted}
AND place IN ({places}) {after} ORDER BY updated_at DESC, conversation DESC LIMIT :limit"""
_LIST_DELETED = """SELECT conversation FROM cards INDEXED BY cards_deleted WHERE place = 'deleted' AND updated_at < ?
ORDER BY updated_at LIMIT ?"""
_NEWEST_FIRST = "ORDER BY cards.updated_at DESC, cards.conversation DESC"
_LIST_OPEN = f"""SELECT {CARD_COLUMNS} FROM conversations CROSS JOIN cards ON id = conversation
WHERE wake_at IS NOT NULL AND tenant = ?1 AND (?2 = '' OR user = ?2)
ORDER BY cards.updated_at DESC, id DESC LIMIT ?3"""
_COUNT_OPEN = """SELECT count(*) FILTER (WHERE wake_at <= ?1), count(*) FILTER (WHERE wake_at > ?1)
FROM conversations WHERE wake_at IS NOT NULL"""
_SAYS = "CAST(entries AS TEXT) LIKE :pattern ESCAPE '\\'"
_BATCHES = f"SELECT entries FROM batches WHERE conversation = :id AND {_SAYS}"
_REMOVALS = """SELECT entries FROM batches
WHERE conversation = :id AND instr(entries, CAST('"message.removed"' AS BLOB))"""
_FORGET = (
    # The row stays, with a negative epoch: it fences the last owner, whose epoch no longer matches, and the next claim
    # counts on from it. With a new row epochs would begin at 1 again, and the last owner could match one.
    "UPDATE conversations SET epoch = -abs(epoch), last_seq = 0, wake_at = NULL WHERE id = ?",
    "DELETE FROM batches WHERE conversation = ?",
    "DELETE FROM blobs WHERE conversation = ?",
    "DELETE FROM cards WHERE conversation = ?",
    "DELETE FROM traces WHERE conversation = ?",
    "UPDATE search_texts SET conversation = '' WHERE conversation = ?",
    "DELETE FROM snapshots WHERE conversation = ?",
    "DELETE FROM snapshot_pieces WHERE conversation = ?",
    FORGET_TOKENS,
    CHARGE_RESERVED,
)


class SqliteCatalog(SqlitePorts):
    """The queries of the catalog, but for `cards`, which `search` has."""

    async def card(self, conversation: str) -> ConversationCard | None:
        row = await self._database.fetch_row(_CARD, conversation)
        return read_card(row) if row else None

    async def list_open(self, tenant: str, user: str, limit: int) -> Sequence[ConversationCard]:
        return [read_card(row) for row in await self._database.fetch(_LIST_OPEN, tenant, user, limit)]

    async def count_open(self, now: float) -> OpenCounts:
        ((running, waiting),) = await self._database.fetch(_COUNT_OPEN, now)
        return OpenCounts(running=running, waiting=waiting)

    async def list_deleted(self, before: float, limit: int) -> Sequence[str]:
        return [conversation for (conversation,) in await self._database.fetch(_LIST_DELETED, before, limit)]

    async def find_runs(self, correlation_id: str) -> Sequence[tuple[str, str]]:
        return [(conversation, run) for conversation, run in await self._database.fetch(_FIND_RUNS, correlation_id)]

    async def find_request(self, key: str) -> RequestRecord | None:
        row = await self._database.fetch_row(_FIND_REQUEST, key)
        return RequestRecord(**dict(zip(RequestRecord.__struct_fields__, row, strict=True))) if row else None

    async def list_expired_requests(self, before: float, limit: int) -> Sequence[str]:
        return [conversation for (conversation,) in await self._database.fetch(_LIST_EXPIRED_REQUESTS, before, limit)]

    async def drop_request(self, conversation: str, before: float) -> None:
        await self._database.execute(_DROP_REQUEST, conversation, before)

    async def delete_conversation(self, conversation: str) -> Sequence[str]:
        def work(connection: sqlite3.Connection) -> None:
            for statement in _FORGET:
                connection.execute(statement, (conversation,))

        await self._database.write(work)
        return ()


def project(connection: sqlite3.Connection, conversation: str, entry: Entry) -> None:
    """Write what the catalog shows of this entry, in the transaction that writes the entry."""
    if entry.request is not None:
        at = entry.request.counts_from(entry.at)
        row = (entry.request.key_hash, entry.request.body_hash, conversation, entry.seq, entry.run, at)
        if not connection.execute(_ADD_REQUEST, (*row, REQUEST_KEY_S, entry.request.replaces)).rowcount:
            raise build_repeated_error()
    match entry.event:
        case ConversationOpened(owner=owner, settings=settings):
            columns = (
                settings.title,
                settings.description,
                entry.at,
                settings.unlisted,
                entry.at,
                find_place(settings),
            )
            connection.execute(_OPEN, (conversation, owner.tenant, owner.user, *columns))
        case ConversationChanged(settings=settings):
            connection.execute(_CHANGE, (settings.title, settings.description, find_place(settings), conversation))
        case RunQueued() if entry.correlation_id:
            connection.execute(_QUEUE, (conversation, entry.run, entry.correlation_id, entry.at))
        case _:
            pass


def touch_card(connection: sqlite3.Connection, conversation: str, updated_at: float | None) -> None:
    """Mark the texts of a conversation as unindexed, and move it to the front of lists if it was updated."""
    if updated_at is None:
        connection.execute(_MARK_UNINDEXED, (conversation,))
    else:
        connection.execute(_TOUCH, (updated_at, conversation))


def read_page(connection: sqlite3.Connection, catalog_query: CatalogQuery) -> list[ConversationCard]:
    """Return a page of the cards that a query without text selects."""
    page, values = build_page_query(catalog_query)
    query = f"SELECT {CARD_COLUMNS} FROM ({page}) AS page CROSS JOIN cards USING (conversation) {_NEWEST_FIRST}"
    return [read_card(row) for row in connection.execute(query, values)]


def build_page_query(catalog_query: CatalogQuery) -> tuple[str, dict[str, str | float]]:
    """Return a query for the ids and times of a page of cards, without its text, and the values for it."""
    # One scan of an index for listed conversations and one for unlisted ones: each stops after a page.
    user = "AND user = :user" if catalog_query.user else ""
    after = "AND (updated_at, conversation) < (:updated_at, :last)" if catalog_query.after else ""
    places = list_places(catalog_query)
    scans = [
        _SCAN.format(user=user, after=after, unlisted=value, places=places)
        for value in range(1 + catalog_query.unlisted)
    ]
    query = " UNION ALL ".join(f"SELECT * FROM ({scan})" for scan in scans)
    updated_at, last = catalog_query.after or (0.0, "")
    values: dict[str, str | float] = {
        "tenant": catalog_query.tenant,
        "user": catalog_query.user,
        "updated_at": updated_at,
        "last": last,
        "limit": catalog_query.limit,
    }
    return f"{query} ORDER BY updated_at DESC, conversation DESC LIMIT :limit", values


def build_pattern(needle: str) -> str:
    """Return a LIKE pattern that matches every batch whose messages may contain the folded text.

    It may match more: LIKE only preselects batches, which `matches_log` then decodes.
    """
    return f"%{''.join(map(_escape_like, needle[:MAX_PATTERN]))}%"


def _escape_like(character: str) -> str:
    if character in '"\\' or character < " ":
        return "%"  # JSON escapes this character
    if character in "%_":
        return f"\\{character}"
    return character if character.isascii() or category(character) == "Lo" else "_"  # LIKE folds ASCII only


def read_card(row: sqlite3.Row) -> ConversationCard:
    id, user, tenant, title, description, created_at, updated_at, unlisted, place, *_ = row
    return ConversationCard(
        id=id,
        user=user,
        tenant=tenant,
        title=title,
        description=description,
        created_at=created_at,
        updated_at=updated_at,
        unlisted=bool(unlisted),
        place=place,
    )


def matches_log(connection: sqlite3.Connection, card: ConversationCard, needle: str) -> bool:
    """Return whether the title, the description or a message in the log contains the folded text."""
    if is_titled(card, needle):
        return True
    values = {"id": card.id, "pattern": build_pattern(needle)}

    def read_entries(query: str) -> Generator[Entry]:
        with closing(connection.execute(query, values)) as batches:  # an open cursor would hold an old snapshot
            for (lines,) in batches:
                yield from decode_batch(lines)

    with closing(read_entries(_BATCHES)) as entries:
        return is_mentioned(needle, entries, lambda: read_entries(_REMOVALS))
