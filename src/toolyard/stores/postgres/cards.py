"""The cards of conversations in the PostgreSQL store: a page of a list is a scan of an index."""

from asyncpg import Record

from toolyard.core.store import CatalogQuery, ConversationCard
from toolyard.stores.postgres.connections import Database

CARD_COLUMNS = "conversation, owner, tenant, title, description, created_at, updated_at, unlisted"
_SCAN = f"""(SELECT {CARD_COLUMNS}, unindexed FROM cards WHERE tenant = $1 AND {{owner}} AND unlisted = {{unlisted}}
AND (updated_at, conversation) < ($3::float8, $4::text) ORDER BY updated_at DESC, conversation DESC LIMIT $5)"""


async def read_page(database: Database, query: CatalogQuery) -> list[ConversationCard]:
    """Return a page of the cards that a query without text selects."""
    page, values = build_page_query(query)
    rows = await database.fetch(f"SELECT {CARD_COLUMNS} FROM ({page}) AS page", *values)
    return [read_card(row) for row in rows]


def build_page_query(query: CatalogQuery) -> tuple[str, tuple[object, ...]]:
    """Return a query for a page of cards, without its text, and the values $1 to $5 of it."""
    # One scan of an index for listed conversations and one for unlisted ones: each stops after a page.
    owner = "owner = $2" if query.user else "$2 = ''::bytea"
    scans = [_SCAN.format(owner=owner, unlisted=unlisted) for unlisted in ("false", "true")[: 1 + query.unlisted]]
    page = " UNION ALL ".join(scans)
    statement = f"SELECT * FROM ({page}) AS scans ORDER BY updated_at DESC, conversation DESC LIMIT $5"
    updated_at, last = query.after or (float("inf"), "")
    return statement, (query.tenant.encode(), query.user.encode(), updated_at, last, query.limit)


def read_card(row: Record) -> ConversationCard:
    id, user, tenant, title, description, created_at, updated_at, unlisted, *_ = row
    return ConversationCard(
        id=id,
        user=user.decode(),
        tenant=tenant.decode(),
        title=title.decode(),
        description=description.decode(),
        created_at=created_at,
        updated_at=updated_at,
        unlisted=unlisted,
    )
