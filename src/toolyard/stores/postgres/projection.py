"""What an append changes besides the log: the cards and traces of the catalog, requests, and outcomes of commands.

It is written in the statement that stores the entries, so that lists never differ from the logs.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from toolyard.core.conversation.events import REQUEST_KEY_S, ConversationChanged, ConversationOpened, Entry, RunQueued
from toolyard.core.store import Append
from toolyard.stores.entries import has_texts, select_catalog_entries
from toolyard.stores.postgres.connections import transpose_rows

# Continues the statement of the writer, whose part `advanced` has the conversations that passed the fence. Its own
# parameters begin with $9: see `build_projection_parameters`. A request that was stored before violates the primary
# key, which undoes the whole statement: its entries must not be stored either. Expired ones are deleted before that;
# `recorded` refers to `expired` because parts that do not refer to each other run in any order.
PROJECTION = f""", answered AS (
    UPDATE letters SET outcome = answer.outcome, answered_at = now()
    FROM unnest($9::text[], $10::bigint[], $11::bytea[]) AS answer (id, number, outcome) JOIN advanced USING (id)
    WHERE letters.conversation = id AND letters.number = answer.number AND letters.outcome IS NULL
), opened AS (
    INSERT INTO cards
    SELECT id, tenant, owner, title, description, created_at, updated_at, unlisted, is_open
    FROM unnest(
        $12::text[], $13::bytea[], $14::bytea[], $15::bytea[], $16::bytea[],
        $17::float8[], $18::float8[], $19::boolean[]
    ) AS card (id, tenant, owner, title, description, created_at, updated_at, unlisted) JOIN advanced USING (id)
    ON CONFLICT (conversation) DO UPDATE SET tenant = excluded.tenant, owner = excluded.owner, title = excluded.title,
        description = excluded.description, created_at = excluded.created_at, updated_at = excluded.updated_at,
        unlisted = excluded.unlisted, has_run = excluded.has_run, unindexed = true, indexed_seq = 0
), changed AS (
    UPDATE cards SET title = coalesce(change.title, cards.title),
        description = coalesce(change.description, cards.description),
        updated_at = coalesce(change.at, cards.updated_at), has_run = is_open,
        unindexed = cards.unindexed OR change.id IS NOT NULL
    FROM advanced LEFT JOIN unnest($20::text[], $21::bytea[], $22::bytea[], $23::float8[])
        AS change (id, title, description, at) USING (id)
    WHERE conversation = advanced.id AND (change.id IS NOT NULL OR was_open <> is_open) AND advanced.id <> ALL($12)
), traced AS (
    INSERT INTO traces (conversation, run, correlation_id, at)
    SELECT trace.* FROM unnest($24::text[], $25::text[], $26::bytea[], $27::float8[]) AS trace (id, run, trace, at)
    JOIN advanced USING (id) ON CONFLICT DO NOTHING
), request AS (
    SELECT request.* FROM unnest(
        $28::text[], $29::text[], $30::text[], $31::bigint[], $32::text[], $33::float8[], $34::text[]
    ) AS request (key, body, id, seq, run, at, replaces) JOIN advanced USING (id)
), replaced AS (
    DELETE FROM requests r USING request WHERE r.key = request.key
        AND (r.at <= request.at - {REQUEST_KEY_S} OR (request.replaces <> '' AND r.run = request.replaces)) RETURNING 1
), recorded AS (
    INSERT INTO requests (key, body, conversation, seq, run, at)
    SELECT key, body, id, seq, run, at FROM request WHERE (SELECT count(*) FROM replaced) >= 0 ORDER BY key
)"""
REQUEST_CONSTRAINT = "requests_pkey"

CardRow = tuple[bytes, bytes, bytes, bytes, float, float, bool]
"""Tenant, owner, title, description, when it was created and changed, and whether lists leave it out."""
ChangeRow = tuple[bytes | None, bytes | None, float | None]
"""A new title and description, and when; None leaves each as it is. Any change is for the search index, too."""


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
    return Projection(change=(None, None, None)) if has_texts(entries) else Projection()


def _project_catalog(entries: Sequence[Entry]) -> Projection:
    title: bytes | None = None
    description: bytes | None = None
    opened: tuple[ConversationOpened, float] | None = None
    traces: list[tuple[str, bytes, float]] = []
    for entry in entries:
        match entry.event:
            case ConversationOpened() as event:
                opened = event, entry.at
                title, description = event.settings.title.encode(), event.settings.description.encode()
            case ConversationChanged(settings=settings):
                title, description = settings.title.encode(), settings.description.encode()
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
        return Projection(change=(title, description, updated_at), traces=traces, requests=requests)
    event, created_at = opened
    names = event.owner.tenant.encode(), event.owner.user.encode()
    card = *names, title or b"", description or b"", created_at, updated_at, event.settings.unlisted
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
        *transpose_rows(cards, 8),
        *transpose_rows(changes, 4),
        *transpose_rows(traces, 4),
        *transpose_rows(requests, 7),
    ]
