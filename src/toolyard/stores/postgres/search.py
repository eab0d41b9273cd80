"""The search index of the PostgreSQL store: a GIN index over terms of three characters. It needs no extension.

An append only marks its conversation as unindexed. Every replica indexes marked conversations in the background, a few
at a time. A search compares the texts of unindexed conversations itself, so that its answer never lags behind.
Unlisted conversations are never indexed, as in the SQLite store.
"""

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from asyncpg import Connection, Record
from msgspec.structs import replace

from toolyard.core.conversation.events import Entry, MessageRemoved
from toolyard.core.conversation.search_texts import fold_case
from toolyard.core.errors import ToolyardError, Unavailable
from toolyard.core.store import CatalogQuery, ConversationCard
from toolyard.stores.entries import contains_text, decode_batch, decode_searched_entries, list_places
from toolyard.stores.postgres.catalog import CARD_COLUMNS, build_page_query, read_card, read_page
from toolyard.stores.postgres.connections import Database, transpose_rows
from toolyard.stores.postgres.lease import LeasedPorts
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

COMPARE_SIZE = 32
"""Unindexed conversations whose logs are read at once."""
MAX_SEARCH_S = 2.0
SEARCH_TOO_LONG = "the search took too long: the search index is being built; try again later or with another text"
INDEX_PAUSE_S = 1.0
QUIET_S = 2.0
"""A conversation is indexed this long after its last change: its owner must not wait for the lock of its card."""
STEP_SIZE = 20
MAX_STEP_BATCHES = 400
MAX_STEP_BYTES = 256 * 1024
"""How much of the logs a step reads, and at least a batch: the cards stay locked meanwhile."""
MAX_ADDED_PARTS = 50
"""Parts of texts that one statement adds. The database ends a transaction that sends none for a while."""

_NEXT_UNINDEXED = """SELECT conversation, title, description, indexed_seq FROM cards
WHERE unindexed AND updated_at <= $1 ORDER BY updated_at DESC LIMIT $2 FOR NO KEY UPDATE SKIP LOCKED"""
_BATCHES = """WITH next AS (
    SELECT batches.conversation, last_seq, entries, octet_length(entries) AS bytes
    FROM unnest($1::text[], $2::bigint[]) AS job (conversation, after)
    JOIN batches ON batches.conversation = job.conversation AND batches.last_seq > job.after
    ORDER BY batches.conversation, last_seq LIMIT $3
), summed AS (
    SELECT *, sum(bytes) OVER (ORDER BY conversation, last_seq) - bytes AS bytes_before, count(*) OVER () AS total
    FROM next
)
SELECT conversation, last_seq, entries, total FROM summed WHERE bytes_before < $4 ORDER BY conversation, last_seq"""
_LOGS = "SELECT conversation, entries FROM batches WHERE conversation = ANY($1) ORDER BY conversation, last_seq"
_ADVANCE = """UPDATE cards SET indexed_seq = job.seq, unindexed = job.unindexed
FROM unnest($1::text[], $2::bigint[], $3::boolean[]) AS job (id, seq, unindexed) WHERE conversation = job.id"""
_DROP_TEXTS = """DELETE FROM search_texts USING unnest($1::text[], $2::bytea[]) AS job (id, item)
WHERE search_texts.conversation = job.id AND search_texts.item = job.item"""
_ADD_TEXTS = """INSERT INTO search_texts (conversation, item, text, terms)
SELECT conversation, item, text, array_to_tsvector(string_to_array(terms, ' '))
FROM unnest($1::text[], $2::bytea[], $3::bytea[], $4::text[]) AS job (conversation, item, text, terms)"""
# The last row comes in any case: it says where the page ends.
_SCAN = f"""WITH page AS MATERIALIZED ({{page}}), compared AS (
    SELECT page.*, row_number() OVER (ORDER BY updated_at DESC, conversation DESC) AS number, count(*) OVER () AS total,
        to_compare OR EXISTS (
            SELECT 1 FROM search_texts t WHERE t.conversation = page.conversation AND position($6::bytea IN text) > 0
        ) AS is_candidate
    FROM page
)
SELECT {CARD_COLUMNS}, to_compare, is_candidate, total FROM compared WHERE is_candidate OR number = total
ORDER BY number"""
_COUNT = "SELECT count(*) FROM (SELECT 1 FROM search_texts WHERE terms @@ $1::tsquery LIMIT $2) AS texts"
_FIND = f"""WITH found AS MATERIALIZED (
    SELECT DISTINCT conversation FROM search_texts WHERE terms @@ $1::tsquery AND position($2::bytea IN text) > 0
    UNION SELECT conversation FROM cards WHERE unindexed AND tenant = $3
    UNION SELECT conversation FROM cards WHERE $5 AND unlisted AND tenant = $3
)
SELECT {CARD_COLUMNS}, unindexed OR unlisted AS to_compare FROM found JOIN cards USING (conversation)
WHERE tenant = $3 AND ($4 = ''::bytea OR owner = $4) AND ($5 OR NOT unlisted)
AND place IN ({{places}}) AND (updated_at, conversation) < ($6::float8, $7::text)
ORDER BY updated_at DESC, conversation DESC"""

_log = logging.getLogger("toolyard.search")


class PostgresSearch(LeasedPorts):
    async def cards(self, query: CatalogQuery) -> Sequence[ConversationCard]:
        return await self._search(query) if query.text else await read_page(self._database, query)

    async def _search(self, query: CatalogQuery) -> Sequence[ConversationCard]:
        """Return a page of the cards that contain the query's text. Raises Unavailable after a time limit."""
        matches: list[ConversationCard] = []
        try:
            async with asyncio.timeout(MAX_SEARCH_S):
                async for cards in _search_in_steps(self._database, query):
                    matches += cards
                    if len(matches) >= query.limit:
                        break
        except TimeoutError:
            if not matches:
                raise Unavailable(SEARCH_TOO_LONG) from None
        return matches[: query.limit]

    async def index_texts(self) -> None:
        """Complete the search index now. It is completed in the background anyway."""
        while await index_some(self._database, quiet_s=float("-inf")):
            pass


class PostgresIndexer(LeasedPorts):
    async def run(self) -> None:
        """Index what is unindexed, until cancelled."""
        while True:
            await asyncio.sleep(INDEX_PAUSE_S * random.uniform(0.8, 1.2))
            with suppress(ToolyardError):
                while await index_some(self._database, QUIET_S):
                    pass


@dataclass(slots=True)
class _Changes:
    """What one step changes in the index, as far as it is not written yet."""

    dropped: list[tuple[str, bytes]] = field(default_factory=list[tuple[str, bytes]])
    added: list[tuple[str, bytes, bytes, str]] = field(default_factory=list[tuple[str, bytes, bytes, str]])

    def drop(self, conversation: str, item: str) -> None:
        key = conversation, item.encode()
        self.dropped.append(key)
        self.added = [row for row in self.added if row[:2] != key]

    def add(self, conversation: str, item: str, part: str) -> None:
        self.added.append((conversation, item.encode(), part.encode(), " ".join(build_terms(part))))

    async def add_entry(self, connection: Connection, entry: Entry) -> None:
        if isinstance(entry.event, MessageRemoved):
            for item in entry.event.ids:
                self.drop(entry.conversation, item)
        for item, part in list_parts(entry.event):
            self.add(entry.conversation, item, part)
            if len(self.added) >= MAX_ADDED_PARTS:
                await self.write(connection)
            # The terms of a long text take seconds: requests must not wait for all of them.
            await asyncio.sleep(0)

    async def write(self, connection: Connection) -> None:
        await connection.execute(_DROP_TEXTS, *transpose_rows(self.dropped, 2))
        await connection.execute(_ADD_TEXTS, *transpose_rows(self.added, 4))
        self.dropped, self.added = [], []


async def index_some(database: Database, quiet_s: float) -> bool:
    """Index some conversations that did not change for a while. Return whether there may be more."""
    async with database.transaction() as connection:
        until = await connection.fetchval("SELECT extract(epoch FROM clock_timestamp())::float8") - quiet_s
        # The cards stay locked, so that an append to one of them marks it after this step. Those that are locked
        # themselves are left out: nobody waits for two locks here.
        cards = await connection.fetch(_NEXT_UNINDEXED, until, STEP_SIZE)
        if not cards:
            return False
        await _index(connection, cards)
    return True


async def _index(connection: Connection, cards: Sequence[Record]) -> None:
    seqs = {conversation: seq for conversation, _, _, seq in cards}
    rows = await connection.fetch(_BATCHES, list(seqs), list(seqs.values()), MAX_STEP_BATCHES, MAX_STEP_BYTES)
    complete = set(seqs)
    if rows and (len(rows) < rows[0]["total"] or len(rows) == MAX_STEP_BATCHES):  # the rest is for the next step
        complete = {conversation for conversation in seqs if conversation < rows[-1][0]}
    changes = _Changes()
    for conversation, title, description, _ in cards:
        changes.drop(conversation, "")
        for part in (*fold_parts(title.decode()), *fold_parts(description.decode())):
            changes.add(conversation, "", part)
    for conversation, last_seq, lines, _ in rows:
        entries = decode_searched_entries(lines)
        for entry in entries or ():
            if entry.seq > seqs[conversation]:
                await changes.add_entry(connection, entry)
        if entries is not None:
            seqs[conversation] = last_seq
        await asyncio.sleep(0)
    await changes.write(connection)
    unindexed = [conversation not in complete for conversation in seqs]
    await connection.execute(_ADVANCE, list(seqs), list(seqs.values()), unindexed)


async def _search_in_steps(database: Database, query: CatalogQuery) -> AsyncGenerator[list[ConversationCard]]:
    """Yield the cards that contain the query's text, in order, a part in each step.

    A text that many conversations have is found by comparing the newest ones, any other one by the index.
    """
    needle, progress, is_common = fold_case(query.text), ScanProgress(query.limit), True
    while is_common:
        page, values = build_page_query(replace(query, limit=SCAN_SIZE))
        rows = await database.fetch(_SCAN.format(page=page), *values, cut_needle(needle).encode())
        cards = await _select_matches(database, [row for row in rows if row["is_candidate"]], needle)
        yield cards
        if not rows or rows[-1]["total"] < SCAN_SIZE:
            return
        query = replace(query, after=read_card(rows[-1]).position)
        progress.add_step(len(cards))
        is_common = not progress.is_over and (progress.fills_page or await _has_common_terms(database, needle))
    updated_at, last = query.after or (float("inf"), "")
    names = query.tenant.encode(), query.user.encode()
    text = cut_needle(needle).encode()
    rows = await database.fetch(
        _FIND.format(places=list_places(query)), _build_match(needle), text, *names, query.unlisted, updated_at, last
    )
    for start in range(0, len(rows), SCAN_SIZE):
        yield await _select_matches(database, rows[start : start + SCAN_SIZE], needle)


async def _has_common_terms(database: Database, needle: str) -> bool:
    """Return whether the index has so many texts with these terms that comparing the newest ones is faster."""
    if is_short(needle):
        return False
    ((count,),) = await database.fetch(_COUNT, _build_match(needle), MAX_RARE)
    return count >= MAX_RARE


def _build_match(needle: str) -> str:
    terms = " & ".join(f"'{term}'" for term in build_needle_terms(needle))
    return f"{terms}:*" if is_short(needle) else terms


async def _select_matches(database: Database, rows: Sequence[Record], needle: str) -> list[ConversationCard]:
    """Return the cards of candidates that contain the folded text: of indexed ones this is known already."""
    cards = [read_card(row) for row in rows]
    uncertain = [card for card, row in zip(cards, rows, strict=True) if row["to_compare"] or not is_exact(needle)]
    rejected = {card.id for card in uncertain}
    for start in range(0, len(uncertain), COMPARE_SIZE):
        rejected -= await _compare_logs(database, uncertain[start : start + COMPARE_SIZE], needle)
    return [card for card in cards if card.id not in rejected]


async def _compare_logs(database: Database, cards: Sequence[ConversationCard], needle: str) -> set[str]:
    logs: dict[str, list[Entry]] = {card.id: [] for card in cards}
    for conversation, lines in await database.fetch(_LOGS, list(logs)):
        logs[conversation] += decode_batch(lines)
    return {card.id for card in cards if contains_text(card, needle, logs[card.id])}
