"""The catalog: lists of conversations, traces and requests, and how an append changes them.

That is written in the statement that stores the entries, so that lists never differ from the logs.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from asyncpg import Record

from toolyard.core.conversation.events import REQUEST_KEY_S, ConversationChanged, ConversationOpened, Entry, RunQueued
from toolyard.core.store import (
    Append,
    CardPlace,
    CatalogQuery,
    ConversationCard,
    OpenCounts,
    RequestRecord,
    find_place,
)
from toolyard.stores.entries import has_texts, list_places, select_catalog_entries
from toolyard.stores.postgres.access import FORGET_TOKENS
from toolyard.stores.postgres.connections import Database, transpose_rows
from toolyard.stores.postgres.lease import LeasedPorts
from toolyard.stores.postgres.ledger import CHARGE_RESERVED

CARD_COLUMNS = "conversation, owner, tenant, title, description, created_at, updated_at, unlisted, place"
_SCAN = f"""(SELECT {CARD_COLUMNS}, unindexed OR unlisted AS to_compare FROM cards
WHERE tenant = $1 AND {{owner}} AND unlisted = {{unlisted}} AND place IN ({{places}})
AND (updated_at, conversation) < ($3::float8, $4::text) ORDER BY updated_at DESC, conversation DESC LIMIT $5)"""
_LIST_DELETED = """SELECT conversation FROM cards WHERE place = 'deleted' AND updated_at < $1
ORDER BY updated_at LIMIT $2"""
_CARD = f"SELECT {CARD_COLUMNS} FROM cards WHERE conversation = $1"
_LIST_OPEN = f"""SELECT {CARD_COLUMNS} FROM cards WHERE tenant = $1 AND ($2 = ''::bytea OR owner = $2) AND has_run
ORDER BY updated_at DESC, conversation DESC LIMIT $3"""
# Two partial indexes hold what is open, one of what is owned and one of the rest: there is none for both.
_COUNT_OPEN = """SELECT sum(running)::bigint, sum(waiting)::bigint FROM (
    SELECT count(*) FILTER (WHERE wake_at <= $1) AS running, count(*) FILTER (WHERE wake_at > $1) AS waiting
    FROM conversations WHERE replica = '' AND wake_at IS NOT NULL
    UNION ALL
    SELECT count(*) FILTER (WHERE wake_at <= $1), count(*) FILTER (WHERE wake_at > $1)
    FROM conversations WHERE replica <> ''
) AS counts"""
_FIND_RUNS = "SELECT conversation, run FROM traces WHERE correlation_id = $1 ORDER BY at, conversation, run"
# Keys have digits of base 16 only, which come before `g`.
_FIND_REQUEST = """SELECT body, conversation, seq, run, at FROM requests WHERE key >= $1 AND key < $1 || 'g'
ORDER BY key DESC LIMIT 1"""
_LIST_EXPIRED_REQUESTS = "SELECT conversation FROM requests WHERE at < $1 ORDER BY at LIMIT $2"
_DROP_REQUEST = "DELETE FROM requests WHERE conversation = $1 AND at < $2"
# The row stays, with a negative epoch: it fences the last owner, whose epoch no longer matches, and the next claim
# counts on from it. `maintenance` deletes it later.
_FORGET = """WITH old AS (SELECT replica FROM conversations WHERE id = $1), fenced AS (
    UPDATE conversations SET epoch = -abs(epoch), last_seq = 0, wake_at = NULL, replica = '', deaths = 0,
        taken_at = now() WHERE id = $1
), no_batches AS (DELETE FROM batches WHERE conversation = $1),
no_blobs AS (DELETE FROM blobs WHERE conversation = $1),
no_card AS (DELETE FROM cards WHERE conversation = $1),
no_traces AS (DELETE FROM traces WHERE conversation = $1),
no_letters AS (DELETE FROM letters WHERE conversation = $1)
SELECT replica FROM old WHERE replica NOT IN ('', $2)
UNION SELECT replica FROM followers WHERE conversation = $1 AND replica <> $2 ORDER BY 1"""

_FORGET_COPIES = (
    "DELETE FROM search_texts WHERE conversation = $1",
    "DELETE FROM snapshots WHERE conversation = $1",
    "DELETE FROM snapshot_pieces WHERE conversation = $1",
    FORGET_TOKENS,
    CHARGE_RESERVED,
)
# Continues the statement of the writer, whose part `advanced` has the conversations that passed the fence. Its own
# parameters begin with $9: see `build_projection_parameters`. A request that was stored before violates the primary
# key, which undoes the whole statement: its entries must not be stored either. Expired ones are deleted before that;
# `recorded` refers to `replaced` because parts that do not refer to each other run in any order.
PROJECTION = f""", answered AS (
    UPDATE letters SET outcome = answer.outcome, answered_at = now()
    FROM unnest($9::text[], $10::bigint[], $11::bytea[]) AS answer (id, number, outcome) JOIN advanced USING (id)
    WHERE letters.conversation = id AND letters.number = answer.number AND letters.outcome IS NULL
), opened AS (
    INSERT INTO cards (
        conversation, tenant, owner, title, description, created_at, updated_at, unlisted, has_run, unindexed, place
    )
    SELECT id, tenant, owner, title, description, created_at, updated_at, unlisted, is_open, NOT unlisted, place
    FROM unnest(
        $12::text[], $13::bytea[], $14::bytea[], $15::bytea[], $16::bytea[],
        $17::float8[], $18::float8[], $19::boolean[], $20::text[]
    ) AS card (id, tenant, owner, title, description, created_at, updated_at, unlisted, place) JOIN advanced USING (id)
    ON CONFLICT (conversation) DO UPDATE SET tenant = excluded.tenant, owner = excluded.owner, title = excluded.title,
        description = excluded.description, created_at = excluded.created_at, updated_at = excluded.updated_at,
        unlisted = excluded.unlisted, has_run = excluded.has_run, unindexed = excluded.unindexed, indexed_seq = 0,
        place = excluded.place
), changed AS (
    UPDATE cards SET title = coalesce(change.title, cards.title),
        description = coalesce(change.description, cards.description),
        updated_at = coalesce(change.at, cards.updated_at), has_run = is_open,
        place = coalesce(change.place, cards.place),
        unindexed = cards.unindexed OR (change.id IS NOT NULL AND NOT cards.unlisted)
    FROM advanced LEFT JOIN unnest($21::text[], $22::bytea[], $23::bytea[], $24::float8[], $25::text[])
        AS change (id, title, description, at, place) USING (id)
    WHERE conversation = advanced.id AND (change.id IS NOT NULL OR was_open <> is_open) AND advanced.id <> ALL($12)
), traced AS (
    INSERT INTO traces (conversation, run, correlation_id, at)
    SELECT trace.* FROM unnest($26::text[], $27::text[], $28::bytea[], $29::float8[]) AS trace (id, run, trace, at)
    JOIN advanced USING (id) ON CONFLICT DO NOTHING
), request AS (
    SELECT request.* FROM unnest(
        $30::text[], $31::text[], $32::text[], $33::bigint[], $34::text[], $35::float8[], $36::text[]
    ) AS request (key, body, id, seq, run, at, replaces) JOIN advanced USING (id)
), replaced AS (
    DELETE FROM requests r USING request WHERE r.key = request.key
        AND (r.at <= request.at - {REQUEST_KEY_S} OR (request.replaces <> '' AND r.run = request.replaces)) RETURNING 1
), recorded AS (
    INSERT INTO requests (key, body, conversation, seq, run, at)
    SELECT key, body, id, seq, run, at FROM request WHERE (SELECT count(*) FROM replaced) >= 0 ORDER BY key
)"""
REQUEST_CONSTRAINT = "requests_pkey"

CardRow = tuple[bytes, bytes, bytes, bytes, float, float, bool, str]
"""Tenant, owner, title, description, when it was created and changed, whether lists leave it out, and its place."""
ChangeRow = tuple[bytes | None, bytes | None, float | None, str | None]
"""A new title and description, when, and a new place; None leaves each as it is. Any is for the search index, too."""


class PostgresCatalog(LeasedPorts):
    """The queries of the catalog, but for `cards`, which `search` has."""

    async def card(self, conversation: str) -> ConversationCard | None:
        row = await self._database.fetch_row(_CARD, conversation)
        return read_card(row) if row else None

    async def list_open(self, tenant: str, user: str, limit: int) -> Sequence[ConversationCard]:
        rows = await self._database.fetch(_LIST_OPEN, tenant.encode(), user.encode(), limit)
        return [read_card(row) for row in rows]

    async def count_open(self, now: float) -> OpenCounts:
        ((running, waiting),) = await self._database.fetch(_COUNT_OPEN, now)
        return OpenCounts(running=running, waiting=waiting)

    async def list_deleted(self, before: float, limit: int) -> Sequence[str]:
        return [conversation for (conversation,) in await self._database.fetch(_LIST_DELETED, before, limit)]

    async def find_runs(self, correlation_id: str) -> Sequence[tuple[str, str]]:
        rows = await self._database.fetch(_FIND_RUNS, correlation_id.encode())
        return [(conversation, run) for conversation, run in rows]

    async def find_request(self, key: str) -> RequestRecord | None:
        row = await self._database.fetch_row(_FIND_REQUEST, key)
        return RequestRecord(**dict(zip(RequestRecord.__struct_fields__, row, strict=True))) if row else None

    async def list_expired_requests(self, before: float, limit: int) -> Sequence[str]:
        return [conversation for (conversation,) in await self._database.fetch(_LIST_EXPIRED_REQUESTS, before, limit)]

    async def drop_request(self, conversation: str, before: float) -> None:
        await self._database.fetch(_DROP_REQUEST, conversation, before)

    async def delete_conversation(self, conversation: str) -> Sequence[str]:
        async with self._database.transaction() as connection:
            rows = await connection.fetch(_FORGET, conversation, self._lease.id)
            # Statements of their own: the first one waits for whoever indexes the conversation, and does not see what
            # that wrote meanwhile.
            for statement in _FORGET_COPIES:
                await connection.execute(statement, conversation)
        self._lease.owned.pop(conversation, None)
        return [replica for (replica,) in rows]


async def read_page(database: Database, query: CatalogQuery) -> list[ConversationCard]:
    """Return a page of the cards that a query without text selects."""
    page, values = build_page_query(query)
    rows = await database.fetch(f"SELECT {CARD_COLUMNS} FROM ({page}) AS page", *values)
    return [read_card(row) for row in rows]


def build_page_query(query: CatalogQuery) -> tuple[str, tuple[object, ...]]:
    """Return a query for a page of cards, without its text, and the values $1 to $5 of it."""
    # One scan of an index for listed conversations and one for unlisted ones: each stops after a page.
    owner = "owner = $2" if query.user else "$2 = ''::bytea"
    places = list_places(query)
    scans = [
        _SCAN.format(owner=owner, unlisted=unlisted, places=places)
        for unlisted in ("false", "true")[: 1 + query.unlisted]
    ]
    page = " UNION ALL ".join(scans)
    statement = f"SELECT * FROM ({page}) AS scans ORDER BY updated_at DESC, conversation DESC LIMIT $5"
    updated_at, last = query.after or (float("inf"), "")
    return statement, (query.tenant.encode(), query.user.encode(), updated_at, last, query.limit)


def read_card(row: Record) -> ConversationCard:
    id, user, tenant, title, description, created_at, updated_at, unlisted, place, *_ = row
    return ConversationCard(
        id=id,
        user=user.decode(),
        tenant=tenant.decode(),
        title=title.decode(),
        description=description.decode(),
        created_at=created_at,
        updated_at=updated_at,
        unlisted=unlisted,
        place=place,
    )


@dataclass(slots=True, frozen=True)
class Projection:
    """What the catalog shows of the entries of one append."""

    card: CardRow | None = None
    """Of a conversation that the append opens."""
    change: ChangeRow | None = None
    traces: Sequence[tuple[str, bytes, float]] = ()
    requests: Sequence[tuple[str, str, int, str, float, str]] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.card or self.change or self.requests)


def project_entries(entries: Sequence[Entry]) -> Projection:
    if catalog_entries := select_catalog_entries(entries):
        return _project_catalog(catalog_entries)
    return Projection(change=(None, None, None, None)) if has_texts(entries) else Projection()


def _project_catalog(entries: Sequence[Entry]) -> Projection:
    title: bytes | None = None
    description: bytes | None = None
    place: CardPlace | None = None
    opened: tuple[ConversationOpened, float] | None = None
    traces: list[tuple[str, bytes, float]] = []
    for entry in entries:
        match entry.event:
            case ConversationOpened() as event:
                opened = event, entry.at
                title, description = event.settings.title.encode(), event.settings.description.encode()
                place = find_place(event.settings)
            case ConversationChanged(settings=settings):
                title, description = settings.title.encode(), settings.description.encode()
                place = find_place(settings)
            case RunQueued() if entry.correlation_id:
                traces.append((entry.run, entry.correlation_id.encode(), entry.at))
            case _:
                pass
    requests = [
        (
            entry.request.key_hash,
            entry.request.body_hash,
            entry.seq,
            entry.run,
            entry.request.counts_from(entry.at),
            entry.request.replaces,
        )
        for entry in {entry.request.key_hash: entry for entry in entries if entry.request}.values()
        if entry.request
    ]
    updated_at = entries[-1].at
    if opened is None:
        return Projection(change=(title, description, updated_at, place), traces=traces, requests=requests)
    event, created_at = opened
    names = event.owner.tenant.encode(), event.owner.user.encode()
    card = *names, title or b"", description or b"", created_at, updated_at, event.settings.unlisted, place or ""
    return Projection(card=card, traces=traces, requests=requests)


def build_projection_parameters(group: Sequence[tuple[Append, Projection]]) -> list[list[object]]:
    """Return the parameters of PROJECTION for the appends of a group."""
    rows = [(append.conversation, append.answers, projection) for append, projection in group]
    answers = [(id, answer.number, answer.outcome) for id, answers, _ in rows for answer in answers]
    cards = [(id, *projection.card) for id, _, projection in rows if projection.card]
    changes = [(id, *projection.change) for id, _, projection in rows if projection.change]
    traces = [(id, *trace) for id, _, projection in rows for trace in projection.traces]
    requests = [
        (key, body, id, seq, run, at, replaces)
        for id, _, projection in rows
        for key, body, seq, run, at, replaces in projection.requests
    ]
    return [
        *transpose_rows(answers, 3),
        *transpose_rows(cards, 9),
        *transpose_rows(changes, 5),
        *transpose_rows(traces, 4),
        *transpose_rows(requests, 7),
    ]
