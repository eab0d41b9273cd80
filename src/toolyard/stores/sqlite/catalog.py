"""The catalog of the SQLite store: writes it together with the entries, and queries it."""

import sqlite3
from collections.abc import Generator, Sequence
from contextlib import closing
from unicodedata import category

import msgspec

from toolyard.core.events import REQUEST_KEY_S, ConversationChanged, ConversationOpened, Entry, RunQueued
from toolyard.core.store import CatalogQuery, ConversationCard, RequestRecord
from toolyard.stores.entries import build_repeated_error, fold_case, is_mentioned
from toolyard.stores.sqlite.schema import decode_batch

MAX_PATTERN = 40
_OPEN = """INSERT OR REPLACE INTO cards
(conversation, tenant, user, title, description, created_at, unlisted) VALUES (?,?,?,?,?,?,?)"""
_CHANGE = "UPDATE cards SET title = ?, description = ? WHERE conversation = ?"
_QUEUE = "INSERT OR IGNORE INTO traces (conversation, run, correlation_id, at) VALUES (?, ?, ?, ?)"
_FIND_RUNS = "SELECT conversation, run FROM traces WHERE correlation_id = ? ORDER BY at, conversation, run"
_ADD_REQUEST = """INSERT INTO requests (key, body, conversation, seq, run, at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (key) DO UPDATE SET body = ?2, conversation = ?3, seq = ?4, run = ?5, at = ?6 WHERE at <= ?6 - ?7"""
_LIST_EXPIRED_REQUESTS = "SELECT conversation FROM requests WHERE at < ? ORDER BY at LIMIT ?"
_DROP_REQUEST = "DELETE FROM requests WHERE conversation = ? AND at < ?"
_FIND_REQUEST = "SELECT body, conversation, seq, run, at FROM requests WHERE key = ?"
_COLUMNS = "cards.conversation, user, tenant, title, description, created_at, updated_at, unlisted"
_CARD = f"SELECT {_COLUMNS} FROM cards JOIN conversations ON id = conversation WHERE conversation = ?"
_SAYS = "CAST(entries AS TEXT) LIKE :pattern ESCAPE '\\'"
_CANDIDATES = f"""SELECT {_COLUMNS} FROM cards JOIN conversations ON id = conversation
WHERE conversation IN (SELECT value FROM json_each(:ids))
AND (title LIKE :pattern ESCAPE '\\' OR description LIKE :pattern ESCAPE '\\'
OR instr(CAST(title || description AS BLOB), x'00')  -- at which LIKE would stop
OR EXISTS (SELECT 1 FROM batches WHERE batches.conversation = cards.conversation AND {_SAYS}))"""
_BATCHES = f"SELECT entries FROM batches WHERE conversation = :id AND {_SAYS}"
_REMOVALS = """SELECT entries FROM batches
WHERE conversation = :id AND instr(entries, CAST('"message.removed"' AS BLOB))"""
_FORGET = (
    # The row stays, with a negative epoch: it fences the last owner, whose epoch no longer matches, and the next claim
    # counts on from it. With a new row epochs would begin at 1 again, and the last owner could match one.
    "UPDATE conversations SET epoch = -abs(epoch), last_seq = 0, wake_at = NULL, updated_at = NULL WHERE id = ?",
    "DELETE FROM batches WHERE conversation = ?",
    "DELETE FROM blobs WHERE conversation = ?",
    "DELETE FROM cards WHERE conversation = ?",
    "DELETE FROM traces WHERE conversation = ?",
)


def project(connection: sqlite3.Connection, conversation: str, entry: Entry) -> None:
    """Write what the catalog shows of this entry, in the transaction that writes the entry."""
    if entry.request is not None:
        row = (entry.request.key_hash, entry.request.body_hash, conversation, entry.seq, entry.run, entry.at)
        if not connection.execute(_ADD_REQUEST, (*row, REQUEST_KEY_S)).rowcount:
            raise build_repeated_error()
    match entry.event:
        case ConversationOpened(owner=owner, settings=settings):
            columns = (settings.title, settings.description, entry.at, settings.unlisted)
            connection.execute(_OPEN, (conversation, owner.tenant, owner.user, *columns))
        case ConversationChanged(settings=settings):
            connection.execute(_CHANGE, (settings.title, settings.description, conversation))
        case RunQueued() if entry.correlation_id:
            connection.execute(_QUEUE, (conversation, entry.run, entry.correlation_id, entry.at))
        case _:
            pass


def find_request(connection: sqlite3.Connection, key: str) -> RequestRecord | None:
    row = connection.execute(_FIND_REQUEST, (key,)).fetchone()
    return RequestRecord(**dict(zip(RequestRecord.__struct_fields__, row, strict=True))) if row else None


def list_expired_requests(connection: sqlite3.Connection, before: float, limit: int) -> list[str]:
    rows = connection.execute(_LIST_EXPIRED_REQUESTS, (before, limit)).fetchall()
    return [conversation for (conversation,) in rows]


def drop_request(connection: sqlite3.Connection, conversation: str, before: float) -> int:
    return connection.execute(_DROP_REQUEST, (conversation, before)).rowcount


def forget(connection: sqlite3.Connection, conversation: str) -> int:
    """Delete a conversation; return how many rows were deleted or changed."""
    return sum(connection.execute(statement, (conversation,)).rowcount for statement in _FORGET)


def find_runs(connection: sqlite3.Connection, correlation_id: str) -> list[tuple[str, str]]:
    return connection.execute(_FIND_RUNS, (correlation_id,)).fetchall()


def read_card(connection: sqlite3.Connection, conversation: str) -> ConversationCard | None:
    cards = _read_cards(connection.execute(_CARD, (conversation,)))
    return cards[0] if cards else None


def read_page(connection: sqlite3.Connection, catalog_query: CatalogQuery) -> list[ConversationCard]:
    """Return a page of the cards that a query without text selects."""
    order, values = _build_query(catalog_query, catalog_query.limit)
    query = f"""SELECT {_COLUMNS} FROM ({order}) JOIN cards ON cards.conversation = id
    ORDER BY updated_at DESC, id DESC"""
    return _read_cards(connection.execute(query, values))


def list_ids(connection: sqlite3.Connection, catalog_query: CatalogQuery) -> list[str]:
    """Return the ids of all conversations that a query selects without its text, in order."""
    order, values = _build_query(catalog_query, -1)
    return [conversation for conversation, _ in connection.execute(order, values).fetchall()]


def search(connection: sqlite3.Connection, among: Sequence[str], text: str) -> list[ConversationCard]:
    """Return the cards of those conversations, in their order, that contain the text."""
    needle = fold_case(text)
    values = {"ids": msgspec.json.encode(among).decode(), "pattern": build_pattern(needle)}
    candidates = {card.id: card for card in _read_cards(connection.execute(_CANDIDATES, values))}
    ordered = (candidates[conversation] for conversation in among if conversation in candidates)
    return [card for card in ordered if _matches(connection, card, needle)]


def build_pattern(needle: str) -> str:
    """Return a LIKE pattern that matches every batch whose messages may contain the folded text.

    It may match more: LIKE only preselects batches, which `_matches` then decodes.
    """
    return f"%{''.join(map(_escape_like, needle[:MAX_PATTERN]))}%"


def _escape_like(character: str) -> str:
    if character in '"\\' or character < " ":
        return "%"  # JSON escapes this character
    if character in "%_":
        return f"\\{character}"
    return character if character.isascii() or category(character) == "Lo" else "_"  # LIKE folds ASCII only


def _build_query(catalog_query: CatalogQuery, limit: int) -> tuple[str, dict[str, str | float]]:
    updated_at, last = catalog_query.after or (0.0, "")
    query = f"""SELECT id, updated_at FROM cards CROSS JOIN conversations ON id = conversation
    WHERE tenant = :tenant {"AND user = :user" if catalog_query.user else ""}
    {"" if catalog_query.unlisted else "AND NOT unlisted"}
    {"AND (updated_at, id) < (:updated_at, :last)" if catalog_query.after else ""}
    ORDER BY updated_at DESC, id DESC LIMIT :most"""
    values = {
        "tenant": catalog_query.tenant,
        "user": catalog_query.user,
        "updated_at": updated_at,
        "last": last,
        "most": limit,
    }
    return query, values


def _read_cards(rows: sqlite3.Cursor) -> list[ConversationCard]:
    return [
        ConversationCard(
            id=id,
            user=user,
            tenant=tenant,
            title=title,
            description=text,
            created_at=created,
            updated_at=updated,
            unlisted=bool(unlisted),
        )
        for id, user, tenant, title, text, created, updated, unlisted in rows.fetchall()
    ]


def _matches(connection: sqlite3.Connection, card: ConversationCard, needle: str) -> bool:
    if needle in fold_case(card.title) or needle in fold_case(card.description):
        return True
    values = {"id": card.id, "pattern": build_pattern(needle)}

    def read_entries(query: str) -> Generator[Entry]:
        with closing(connection.execute(query, values)) as batches:  # an open cursor would hold an old snapshot
            for (lines,) in batches:
                yield from decode_batch(lines)

    with closing(read_entries(_BATCHES)) as entries:
        return is_mentioned(needle, entries, lambda: read_entries(_REMOVALS))
