"""The tables of the PostgreSQL store, and their migration.

The version table also holds the oldest schema version whose code may run on the tables. A step first only adds what
older code can ignore, and leaves `oldest` as it is; a later release removes what no running code needs and raises it.
So replicas of two releases can share the database. A step never changes once it was released.
"""

import re

import asyncpg
from asyncpg import Connection
from msgspec import Struct

from toolyard.core.errors import Misconfigured, MissingTables
from toolyard.stores.postgres.connections import DATABASE_ERRORS, Database, get_sqlstate
from toolyard.stores.postgres_settings import PostgresSettings

MIN_SERVER_VERSION = 14
_MIGRATION_LOCK = 0x546F6F6C79617264
"""The key of the advisory lock that lets one replica migrate at a time."""

_FIRST = (
    """CREATE TABLE replicas (
    id text PRIMARY KEY,
    process text NOT NULL,  -- one process has a new id after its lease was lost
    alive_until timestamptz NOT NULL  -- '-infinity': its process is known to have ended
)""",
    # Every append updates a row of this table. No index covers a column that an append usually changes, and pages are
    # filled by 70 % only, so that an update stays in its page and touches no index (HOT).
    """CREATE TABLE conversations (
    id text COLLATE "C" PRIMARY KEY,
    epoch bigint NOT NULL,  -- negative if the conversation was deleted
    last_seq bigint NOT NULL DEFAULT 0,
    wake_at double precision,
    replica text NOT NULL DEFAULT '',
    mail bigint NOT NULL DEFAULT 0,
    deaths integer NOT NULL DEFAULT 0,
    taken_at timestamptz  -- when a replica last took it over from a dead one, or when it was deleted
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05)""",
    "CREATE INDEX conversations_due ON conversations (wake_at) WHERE replica = '' AND wake_at IS NOT NULL",
    "CREATE INDEX conversations_owned ON conversations (replica, wake_at) WHERE replica <> ''",
    "CREATE INDEX conversations_deleted ON conversations (taken_at) WHERE epoch < 0",
    "CREATE INDEX conversations_suspect ON conversations (deaths) WHERE deaths >= 3",
    """CREATE TABLE batches (
    conversation text COLLATE "C" NOT NULL,
    last_seq bigint NOT NULL,
    epoch bigint NOT NULL,  -- of the owner that wrote it: shows after a broken connection whose batch this is
    entries bytea NOT NULL,  -- one line each: a batch costs one row, however many it holds
    PRIMARY KEY (conversation, last_seq)
)""",
    """CREATE TABLE blobs (
    conversation text COLLATE "C" NOT NULL,
    handle text COLLATE "C" NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (conversation, handle)
)""",
    # Texts of people are bytea: `text` cannot hold U+0000.
    """CREATE TABLE cards (
    conversation text COLLATE "C" PRIMARY KEY,
    tenant bytea NOT NULL,
    owner bytea NOT NULL,
    title bytea NOT NULL,
    description bytea NOT NULL,
    created_at double precision NOT NULL,
    updated_at double precision NOT NULL,
    unlisted boolean NOT NULL,
    has_run boolean NOT NULL,  -- whether a run is open
    unindexed boolean NOT NULL DEFAULT true,  -- whether the search index lacks texts of it
    indexed_seq bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 80)""",
    "CREATE INDEX cards_of_tenant ON cards (tenant, unlisted, updated_at, conversation)",
    "CREATE INDEX cards_of_owner ON cards (tenant, owner, unlisted, updated_at, conversation)",
    "CREATE INDEX cards_unindexed ON cards (updated_at) WHERE unindexed",
    """CREATE TABLE search_texts (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    conversation text COLLATE "C" NOT NULL,
    item bytea NOT NULL,  -- empty for the title and the description
    text bytea NOT NULL,
    terms tsvector NOT NULL
)""",
    "CREATE INDEX search_texts_of ON search_texts (conversation, item)",
    # What is not in the index proper yet is scanned by every search: it stays small.
    "CREATE INDEX search_terms ON search_texts USING gin (terms) WITH (gin_pending_list_limit = 128)",
    # Snapshots and figures may be lost with a crash of the database, but a standby should have them.
    """CREATE TABLE snapshots (
    conversation text COLLATE "C" PRIMARY KEY,
    token text NOT NULL,
    seq bigint NOT NULL,
    body bytea NOT NULL
)""",
    """CREATE TABLE snapshot_pieces (
    conversation text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (conversation, name)
)""",
    """CREATE TABLE figures (
    tenant bytea NOT NULL,
    owner bytea NOT NULL,  -- empty for all users of the tenant
    step_s double precision NOT NULL,
    at double precision NOT NULL,
    replica text COLLATE "C" NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (tenant, owner, step_s, at, replica)
) WITH (fillfactor = 70)""",
    "CREATE INDEX figures_by_age ON figures (step_s, at)",
    "CREATE INDEX cards_open ON cards (tenant, updated_at, conversation) WHERE has_run",
    """CREATE TABLE traces (
    conversation text COLLATE "C" NOT NULL,
    run text COLLATE "C" NOT NULL,
    correlation_id bytea NOT NULL,
    at double precision NOT NULL,
    PRIMARY KEY (conversation, run)
)""",
    "CREATE INDEX traces_of ON traces (correlation_id, at)",
    """CREATE TABLE requests (
    key text COLLATE "C" PRIMARY KEY,
    body text NOT NULL,
    conversation text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    run text NOT NULL,
    at double precision NOT NULL
)""",
    "CREATE INDEX requests_by_age ON requests (at)",
    "CREATE INDEX requests_of ON requests (conversation)",
    """CREATE TABLE letters (
    conversation text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    key text COLLATE "C" NOT NULL,
    sender text NOT NULL,
    body bytea NOT NULL,
    is_read boolean NOT NULL DEFAULT false,
    outcome bytea,
    answered_at timestamptz,
    PRIMARY KEY (conversation, number)
)""",
    "CREATE UNIQUE INDEX letters_by_key ON letters (conversation, key)",
    "CREATE INDEX letters_open ON letters (conversation) WHERE outcome IS NULL",
    "CREATE INDEX letters_by_age ON letters (answered_at) WHERE outcome IS NOT NULL",
    # Interest and rates may be lost with a crash of the database: readers follow again, and allowances are full.
    """CREATE UNLOGGED TABLE followers (
    conversation text COLLATE "C" NOT NULL,
    replica text NOT NULL,
    PRIMARY KEY (conversation, replica)
)""",
    "CREATE INDEX followers_of ON followers (replica)",
    """CREATE UNLOGGED TABLE rates (
    key bytea NOT NULL,
    per_minute bigint NOT NULL,
    free_at numeric NOT NULL,
    PRIMARY KEY (key, per_minute)
) WITH (fillfactor = 50)""",
    'CREATE TABLE keys (name text COLLATE "C" PRIMARY KEY, body bytea NOT NULL)',
    """CREATE TABLE records (
    kind text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    position bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    body bytea NOT NULL,
    PRIMARY KEY (kind, name)
)""",
    'CREATE TABLE versions (kind text COLLATE "C" PRIMARY KEY, number bigint NOT NULL)',
)

_SECOND = (
    """CREATE TABLE access_tokens (
    kind text COLLATE "C" NOT NULL,
    hash text COLLATE "C" NOT NULL,
    conversation text COLLATE "C",  -- NULL if the token belongs to none
    created_at double precision NOT NULL,
    expires_at double precision NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (kind, hash)
)""",
    "CREATE INDEX access_tokens_of ON access_tokens (conversation) WHERE conversation IS NOT NULL",
    "CREATE INDEX access_tokens_by_expiry ON access_tokens (expires_at)",
)

_THIRD = (
    # References are escaped, so that they fit into `text`.
    """CREATE TABLE audit (
    number bigint PRIMARY KEY,
    at double precision NOT NULL,
    action text COLLATE "C" NOT NULL,
    target text NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    actor text COLLATE "C" NOT NULL,
    actor_tenant text NOT NULL,
    key text NOT NULL,
    address text NOT NULL,
    content_hash text NOT NULL,
    outcome text NOT NULL,
    cause bigint NOT NULL,
    count bigint NOT NULL,
    correlation_id text NOT NULL,
    previous text COLLATE "C" NOT NULL UNIQUE,  -- a chain that forks has two entries after one
    hash text NOT NULL
)""",
    "CREATE INDEX audit_of_tenant ON audit (tenant, number)",
    "CREATE INDEX audit_of_actor ON audit (actor, number)",
    "CREATE INDEX audit_of_action ON audit (action, number)",
    """CREATE FUNCTION refuse_audit_change() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'the audit log is append-only'; END $$""",
    """CREATE TRIGGER audit_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_audit_change()""",
)

_FOURTH = (
    "DROP TRIGGER audit_append_only ON audit",
    """CREATE TRIGGER audit_append_only BEFORE UPDATE OR TRUNCATE ON audit
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_audit_change()""",
    # What may be deleted is what an entry says to have been trimmed.
    """CREATE FUNCTION refuse_untrimmed_delete() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF NOT EXISTS (SELECT 1 FROM audit WHERE action = 'audit.trim' AND target::bigint >= OLD.number) THEN
        RAISE EXCEPTION 'the audit log is append-only';
    END IF;
    RETURN OLD;
    END $$""",
    """CREATE TRIGGER audit_delete_trimmed BEFORE DELETE ON audit
    FOR EACH ROW EXECUTE FUNCTION refuse_untrimmed_delete()""",
)

_FIFTH = ("ALTER TABLE audit ADD COLUMN change text NOT NULL DEFAULT ''",)
_SIXTH = (
    # Every request under a budget updates a row of it.
    """CREATE TABLE budgets (
    budget text COLLATE "C" NOT NULL,
    scope bytea NOT NULL,
    period text COLLATE "C" NOT NULL,
    spent bigint NOT NULL DEFAULT 0,
    reserved bigint NOT NULL DEFAULT 0,
    overdraft bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (budget, scope, period)
) WITH (fillfactor = 50)""",
    """CREATE TABLE reservations (
    conversation text COLLATE "C" NOT NULL,
    turn text COLLATE "C" NOT NULL,
    attempt bigint NOT NULL,
    budget text COLLATE "C" NOT NULL,
    scope bytea NOT NULL,
    period text COLLATE "C" NOT NULL,
    at double precision NOT NULL,
    micros bigint NOT NULL,
    estimate bigint NOT NULL,
    cost bigint,  -- NULL until the turn has ended
    PRIMARY KEY (conversation, turn, attempt, budget)
)""",
    "CREATE INDEX reservations_ended ON reservations (conversation) WHERE cost IS NOT NULL",
    # Each replica has rows of its own, so that none waits for another one.
    """CREATE TABLE usage (
    day bigint NOT NULL,
    tenant bytea NOT NULL,
    owner bytea NOT NULL,
    key bytea NOT NULL,
    model bytea NOT NULL,
    tool bytea NOT NULL,
    preset bytea NOT NULL,
    currency bytea NOT NULL,
    replica text COLLATE "C" NOT NULL,
    turns bigint NOT NULL,
    input_tokens bigint NOT NULL,
    cached_tokens bigint NOT NULL,
    cache_writes_5m bigint NOT NULL,
    cache_writes_1h bigint NOT NULL,
    output_tokens bigint NOT NULL,
    reasoning_tokens bigint NOT NULL,
    uses bigint NOT NULL,
    cost_micros bigint NOT NULL,
    unknown_costs bigint NOT NULL,
    estimated_costs bigint NOT NULL,
    PRIMARY KEY (day, tenant, owner, key, model, tool, preset, currency, replica)
) WITH (fillfactor = 70)""",
)
_SEVENTH = (
    "ALTER TABLE cards ADD COLUMN place text COLLATE \"C\" NOT NULL DEFAULT ''",
    "CREATE INDEX cards_deleted ON cards (updated_at) WHERE place = 'deleted'",
)

# Replicas of earlier versions do not name the column: they read the first format only.
_EIGHTH = ("ALTER TABLE replicas ADD COLUMN log_format integer NOT NULL DEFAULT 1",)

_STEPS: tuple[tuple[str, ...], ...] = (_FIRST, _SECOND, _THIRD, _FOURTH, _FIFTH, _SIXTH, _SEVENTH, _EIGHTH)
SCHEMA_VERSION = len(_STEPS)
OLDEST_CODE = 8
"""The oldest schema version whose code may run on the tables after all steps. Code before the eighth cannot read logs
in which calls start without a `call.judged`."""
_VERSION_TABLE = "toolyard_version"
_TABLES = re.findall(r"^CREATE (?:UNLOGGED )?TABLE (\w+)", "\n".join(map("\n".join, _STEPS)), re.MULTILINE)
"""Names that show, without the version table, that another program uses the schema."""


class SchemaState(Struct, frozen=True):
    version: int
    """0 if the database is empty."""
    oldest: int


async def prepare_schema(database: Database, *, may_migrate: bool = True) -> str:
    """Check that the server and the schema fit, migrate, and return an id of the tables.

    Raises Misconfigured or one of DATABASE_ERRORS. Without `may_migrate` it changes nothing, and tables must be there.
    """
    connection = await database.connect("setup")
    try:
        await _check_server(connection)
        if (await read_schema_state(connection)).version < SCHEMA_VERSION:
            if not may_migrate:
                raise MissingTables(
                    f"{database.address} lacks tables or their last changes: "
                    "run `toolyard migrate` with this store first"
                )
            await _migrate(connection)
        return str(await connection.fetchval(f"SELECT installation FROM {_VERSION_TABLE}"))
    finally:
        connection.terminate()


async def migrate(url: str, settings: PostgresSettings) -> None:
    """Bring the tables to the current version. Raises Misconfigured or StoreDown."""
    database = Database(url, settings)
    try:
        await prepare_schema(database)
    except DATABASE_ERRORS as error:
        raise database.build_error(error) from error


async def find_missing_steps(url: str, settings: PostgresSettings) -> int:
    """Return how many steps of the migration are missing. Raises Misconfigured or StoreDown."""
    database = Database(url, settings)
    try:
        connection = await database.connect("setup")
        try:
            await _check_server(connection)
            return max(0, SCHEMA_VERSION - (await read_schema_state(connection)).version)
        finally:
            connection.terminate()
    except DATABASE_ERRORS as error:
        raise database.build_error(error) from error


async def read_schema_state(connection: Connection) -> SchemaState:
    """Return the version of the tables. Raises Misconfigured if this code may not use them."""
    names = [_VERSION_TABLE, *_TABLES]
    query = "SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relname = ANY($1)"
    tables = {name for (name,) in await connection.fetch(query, names)}
    if _VERSION_TABLE not in tables:
        if tables:
            raise Misconfigured(
                f"the database has tables of another program, such as {min(tables)!r}: give another database, "
                "or a schema of its own with ?search_path=name"
            )
        return SchemaState(0, 0)
    row = await connection.fetchrow(f"SELECT version, oldest FROM {_VERSION_TABLE}")
    state = SchemaState(*row) if row else SchemaState(0, 0)
    if state.oldest > SCHEMA_VERSION:
        raise Misconfigured(
            f"the database is of schema version {state.version}, which needs code of version {state.oldest} or later, "
            f"and this Toolyard has version {SCHEMA_VERSION}: use a newer one"
        )
    return state


async def _check_server(connection: Connection) -> None:
    version = connection.get_server_version()[0]
    if version < MIN_SERVER_VERSION:
        raise Misconfigured(f"the server is PostgreSQL {version}: use version {MIN_SERVER_VERSION} or later")
    if await connection.fetchval("SELECT pg_is_in_recovery()"):
        raise Misconfigured("the server is a read-only standby: give the address of the primary server")
    if await connection.fetchval("SELECT current_schema() IS NULL"):
        path = await connection.fetchval("SHOW search_path")
        raise Misconfigured(f"there is no schema {path!r} in the database: create it first")


async def _migrate(connection: Connection) -> None:
    try:
        async with connection.transaction():
            # Replicas that start at the same time wait here, and then find nothing left to do.
            await connection.execute("SELECT pg_advisory_xact_lock($1)", _MIGRATION_LOCK)
            state = await read_schema_state(connection)
            if state.version >= SCHEMA_VERSION:
                return
            if not state.version:
                await connection.execute(
                    f"CREATE TABLE {_VERSION_TABLE} (version integer, oldest integer, installation uuid)"
                )
                await connection.execute(f"INSERT INTO {_VERSION_TABLE} VALUES (0, 0, gen_random_uuid())")
            for step in _STEPS[state.version :]:
                for statement in step:
                    await connection.execute(statement)
            await connection.execute(
                f"UPDATE {_VERSION_TABLE} SET version = $1, oldest = $2", SCHEMA_VERSION, OLDEST_CODE
            )
    except asyncpg.PostgresError as error:
        if get_sqlstate(error) == "42501":
            schema = await connection.fetchval("SELECT current_schema()")
            user = await connection.fetchval("SELECT current_user")
            raise Misconfigured(
                f"the user {user!r} may not create tables: run GRANT CREATE, USAGE ON SCHEMA {schema} TO {user}, "
                "or run toolyard migrate as a user who may"
            ) from error
        raise
