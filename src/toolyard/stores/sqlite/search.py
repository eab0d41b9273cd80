"""The search index of the SQLite store: FTS5 over terms of three characters.

An append only marks its conversation as unindexed, which costs next to nothing. The writer thread indexes marked
conversations while it is idle, in small steps, once their run has ended, waits or takes long: each turn marks them
again. A search compares the texts of unindexed conversations itself, so that its answer never lags behind. Files of
earlier versions are indexed in the same way.

Unlisted conversations, such as those of requests that bring their whole history, are never indexed: they are many, most
are deleted soon, and few searches include them. Those compare their texts too.
"""

import asyncio
import logging
import sqlite3
from collections.abc import Iterator, Sequence
from time import time

import msgspec

from toolyard.core.conversation.events import Entry, MessageRemoved
from toolyard.core.conversation.search_texts import fold_case
from toolyard.core.errors import Unavailable
from toolyard.core.store import CatalogQuery, ConversationCard, ListPosition
from toolyard.stores.entries import decode_searched_entries, list_places
from toolyard.stores.search_terms import (
    MAX_RARE,
    SCAN_SIZE,
    ScanProgress,
    build_needle_terms,
    build_terms,
    cut_needle,
    fold_parts,
    is_exact,
    is_short,
    list_parts,
)
from toolyard.stores.sqlite.catalog import CARD_COLUMNS, build_page_query, matches_log, read_card, read_page
from toolyard.stores.sqlite.connections import SqliteDatabase, SqlitePorts

MAX_SEARCH_S = 2.0
"""A search that takes longer answers with what it has found. It may happen while a large file is indexed."""
SEARCH_TOO_LONG = "the search took too long: the search index is being built; try again later or with another text"
MAX_STEP_CHARS = 8_000
"""Characters that are indexed in one transaction: appends wait for it."""
MAX_READ_BYTES = 100_000
"""Entries of one conversation that are read for it."""
MAX_STEP_CONVERSATIONS = 20
"""Conversations that are indexed in one transaction."""
MAX_POSTPONED_S = 60.0
"""How long a run that goes on keeps its conversation from being indexed: some wait for hours, as for a budget."""
PROGRESS_EVERY = 10_000
"""Conversations between two log lines while a large file is indexed."""

# `wake_at` is 0 while a run goes on, and while it waits for a budget.
_NEXT_UNINDEXED = f"""SELECT conversation, title, description, indexed_seq FROM cards
WHERE unindexed AND (updated_at < ? OR NOT EXISTS (
SELECT 1 FROM conversations WHERE id = conversation AND wake_at = 0))
ORDER BY updated_at DESC LIMIT {MAX_STEP_CONVERSATIONS}"""
_ENTRIES = "SELECT last_seq, entries FROM batches WHERE conversation = ? AND last_seq > ? ORDER BY last_seq"
_ADVANCE = "UPDATE cards SET indexed_seq = ?, unindexed = ? WHERE conversation = ?"
_ADD_TEXT = "INSERT INTO search_texts (conversation, item, text) VALUES (?, ?, ?)"
_ADD_TERMS = "INSERT INTO search_terms (rowid, terms) VALUES (?, ?)"
_DROP_TEXT = "DELETE FROM search_texts WHERE number = ?"
_DROP_TERMS = "INSERT INTO search_terms (search_terms, rowid, terms) VALUES ('delete', ?, ?)"
_TEXTS_OF_ITEM = "SELECT number, text FROM search_texts WHERE conversation = ? AND item = ?"
_ORPHANS = "SELECT number, text FROM search_texts WHERE conversation = '' LIMIT 20"
_COUNT_UNINDEXED = "SELECT count(*) FROM cards WHERE unindexed"
_COMPARE = f"""SELECT {CARD_COLUMNS}, unindexed OR unlisted AS to_compare
FROM ({{page}}) AS page CROSS JOIN cards USING (conversation)
WHERE to_compare OR EXISTS (
SELECT 1 FROM search_texts WHERE search_texts.conversation = page.conversation AND instr(text, :needle))
ORDER BY cards.updated_at DESC, cards.conversation DESC"""
_PAGE_END = "SELECT count(*) OVER (), updated_at, conversation FROM ({page}) ORDER BY updated_at, conversation LIMIT 1"
_COUNT = "SELECT count(*) FROM (SELECT 1 FROM search_terms WHERE search_terms MATCH ? LIMIT ?)"
# The CROSS JOINs fix the order: the index first, then the texts, then the cards.
_FIND = f"""SELECT {CARD_COLUMNS}, unindexed OR unlisted AS to_compare FROM (
SELECT DISTINCT texts.conversation AS found FROM search_terms CROSS JOIN search_texts AS texts
ON texts.number = search_terms.rowid WHERE search_terms MATCH :terms AND instr(texts.text, :needle)
UNION SELECT conversation FROM cards INDEXED BY cards_unindexed WHERE unindexed AND tenant = :tenant
UNION SELECT conversation FROM cards WHERE :unlisted AND unlisted AND tenant = :tenant
) CROSS JOIN cards ON cards.conversation = found
WHERE tenant = :tenant AND (:user = '' OR user = :user) AND (:unlisted OR NOT unlisted)
AND place IN ({{places}}) AND (updated_at, conversation) < (:updated_at, :last)
ORDER BY updated_at DESC, conversation DESC"""

_log = logging.getLogger("toolyard.search")


class SearchIndexer:
    """Indexes the texts of unindexed conversations, a step at a time, in the writer thread."""

    def __init__(self) -> None:
        self._left = -1
        self._is_long = False

    def step(self, connection: sqlite3.Connection) -> bool:
        """Index some texts, or remove those of deleted conversations. Return whether there may be more to do."""
        if orphans := connection.execute(_ORPHANS).fetchall():
            _drop_texts(connection, orphans)
            return True
        chars = 0
        rows = connection.execute(_NEXT_UNINDEXED, (time() - MAX_POSTPONED_S,)).fetchall()
        for row in rows:
            chars += _index_conversation(connection, *row)
            self._count(connection)
            if chars >= MAX_STEP_CHARS:
                break
        if not rows:
            self._report(0)
        return bool(rows)

    def _count(self, connection: sqlite3.Connection) -> None:
        if self._left < 0:
            (self._left,) = connection.execute(_COUNT_UNINDEXED).fetchone()
            self._is_long = self._left > PROGRESS_EVERY
        self._left -= 1
        if self._left % PROGRESS_EVERY == 0:
            self._report(max(0, self._left))

    def _report(self, left: int) -> None:
        if self._left >= 0 and self._is_long:
            _log.info("search index: %s", f"{left} conversations to go" if left else "complete")
        self._left = left or -1


class SqliteSearch(SqlitePorts):
    def __init__(self, database: SqliteDatabase, indexer: SearchIndexer) -> None:
        super().__init__(database)
        self._indexer = indexer

    async def cards(self, query: CatalogQuery) -> Sequence[ConversationCard]:
        if query.text:
            return await self._search(query)
        return await self._database.read(lambda connection: read_page(connection, query))

    async def _search(self, query: CatalogQuery) -> Sequence[ConversationCard]:
        """Return a page of the cards that contain the query's text. Raises Unavailable after a time limit."""
        matches: list[ConversationCard] = []
        try:
            async with asyncio.timeout(MAX_SEARCH_S):
                steps = _search_in_steps(self._database.reading, query)
                # A job for each step, so that other reads run in between.
                while (
                    len(matches) < query.limit
                    and (cards := await self._database.read(lambda _: next(steps, None))) is not None
                ):
                    matches += cards
        except TimeoutError:
            if not matches:
                raise Unavailable(SEARCH_TOO_LONG) from None
        return matches[: query.limit]

    async def index_texts(self) -> None:
        """Complete the search index now. It is completed in the background anyway."""
        while await self._database.write(self._indexer.step):
            pass


def _search_in_steps(connection: sqlite3.Connection, query: CatalogQuery) -> Iterator[list[ConversationCard]]:
    """Yield the cards that contain the query's text, in order, a part in each step.

    A text that many conversations have is found by comparing the newest ones, any other one by the index.
    """
    needle, progress, is_common = fold_case(query.text), ScanProgress(query.limit), True
    while is_common:
        cards, end = _scan(connection, query, needle)
        yield cards
        if end is None:
            return
        query = msgspec.structs.replace(query, after=end)
        progress.add_step(len(cards))
        is_common = not progress.is_over and (progress.fills_page or _has_common_terms(connection, needle))
    yield from _find(connection, query, needle)


def _has_common_terms(connection: sqlite3.Connection, needle: str) -> bool:
    """Return whether the index has so many texts with these terms that comparing the newest ones is faster."""
    if is_short(needle):
        return False
    (count,) = connection.execute(_COUNT, (_build_match(needle), MAX_RARE)).fetchone()
    return count >= MAX_RARE


def _scan(
    connection: sqlite3.Connection, query: CatalogQuery, needle: str
) -> tuple[list[ConversationCard], ListPosition | None]:
    """Return which of the next conversations contain the folded text, and where they end; None at the end of all."""
    page, values = build_page_query(msgspec.structs.replace(query, limit=SCAN_SIZE))
    values["needle"] = cut_needle(needle)
    rows = connection.execute(_COMPARE.format(page=page), values).fetchall()
    last = connection.execute(_PAGE_END.format(page=page), values).fetchone()
    end = (last[1], last[2]) if last is not None and last[0] == SCAN_SIZE else None
    return _select_matches(connection, rows, needle), end


def _select_matches(connection: sqlite3.Connection, rows: Sequence[sqlite3.Row], needle: str) -> list[ConversationCard]:
    """Return the cards of candidates that contain the folded text: of indexed ones this is known already."""
    cards = [read_card(row) for row in rows]
    return [
        card
        for card, row in zip(cards, rows, strict=True)
        if (is_exact(needle) and not row["to_compare"]) or matches_log(connection, card, needle)
    ]


def _find(connection: sqlite3.Connection, query: CatalogQuery, needle: str) -> Iterator[list[ConversationCard]]:
    updated_at, last = query.after or (float("inf"), "")
    values = {
        "terms": _build_match(needle),
        "needle": cut_needle(needle),
        "tenant": query.tenant,
        "user": query.user,
        "unlisted": query.unlisted,
        "updated_at": updated_at,
        "last": last,
    }
    rows = connection.execute(_FIND.format(places=list_places(query)), values).fetchall()
    for start in range(0, len(rows), SCAN_SIZE):
        yield _select_matches(connection, rows[start : start + SCAN_SIZE], needle)


def _build_match(needle: str) -> str:
    terms = " ".join(f'"{term}"' for term in build_needle_terms(needle))
    return f"{terms} *" if is_short(needle) else terms


def _index_conversation(
    connection: sqlite3.Connection, conversation: str, title: str, description: str, indexed_seq: int
) -> int:
    """Index the next entries of a conversation. Return roughly how many characters that took."""
    chars = _index_title(connection, conversation, (title, description))
    batches = connection.execute(_ENTRIES, (conversation, indexed_seq))
    read_bytes = 0
    for last_seq, lines in batches:
        if (entries := decode_searched_entries(lines)) is None:
            continue
        for entry in entries:
            if entry.seq > indexed_seq:
                chars += _index_entry(connection, conversation, entry) + 20
        indexed_seq, read_bytes = last_seq, read_bytes + len(lines)
        if read_bytes >= MAX_READ_BYTES or chars >= MAX_STEP_CHARS:
            break
    is_unindexed = batches.fetchone() is not None
    batches.close()
    connection.execute(_ADVANCE, (indexed_seq, is_unindexed, conversation))
    return chars + 20


def _index_title(connection: sqlite3.Connection, conversation: str, texts: tuple[str, str]) -> int:
    stored = connection.execute(_TEXTS_OF_ITEM, (conversation, "")).fetchall()
    parts = [part for text in texts for part in fold_parts(text)]
    if [text for _, text in stored] == parts:
        return 0
    _drop_texts(connection, stored)
    return sum(_add_text(connection, conversation, "", part) for part in parts)


def _index_entry(connection: sqlite3.Connection, conversation: str, entry: Entry) -> int:
    if isinstance(entry.event, MessageRemoved):
        for item in entry.event.ids:
            _drop_texts(connection, connection.execute(_TEXTS_OF_ITEM, (conversation, item)).fetchall())
    return sum(_add_text(connection, conversation, item, part) for item, part in list_parts(entry.event))


def _add_text(connection: sqlite3.Connection, conversation: str, item: str, text: str) -> int:
    number = connection.execute(_ADD_TEXT, (conversation, item, text)).lastrowid
    connection.execute(_ADD_TERMS, (number, " ".join(build_terms(text))))
    return len(text)


def _drop_texts(connection: sqlite3.Connection, rows: Sequence[tuple[int, str]]) -> None:
    for number, text in rows:
        connection.execute(_DROP_TERMS, (number, " ".join(build_terms(text))))
        connection.execute(_DROP_TEXT, (number,))
