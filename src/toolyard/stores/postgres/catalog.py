"""Queries of the catalog. The writer projects it together with the entries."""

from collections.abc import Sequence

from toolyard.core.store import CatalogQuery, ConversationCard, OpenCounts, RequestRecord
from toolyard.stores.postgres.access_tokens import FORGET_TOKENS
from toolyard.stores.postgres.cards import CARD_COLUMNS, read_card, read_page
from toolyard.stores.postgres.search import PostgresSearch

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
)


class PostgresCatalog(PostgresSearch):
    async def card(self, conversation: str) -> ConversationCard | None:
        row = await self._database.fetch_row(_CARD, conversation)
        return read_card(row) if row else None

    async def cards(self, query: CatalogQuery) -> Sequence[ConversationCard]:
        return await self.search(query) if query.text else await read_page(self._database, query)

    async def list_open(self, tenant: str, user: str, limit: int) -> Sequence[ConversationCard]:
        rows = await self._database.fetch(_LIST_OPEN, tenant.encode(), user.encode(), limit)
        return [read_card(row) for row in rows]

    async def count_open(self, now: float) -> OpenCounts:
        ((running, waiting),) = await self._database.fetch(_COUNT_OPEN, now)
        return OpenCounts(running=running, waiting=waiting)

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
