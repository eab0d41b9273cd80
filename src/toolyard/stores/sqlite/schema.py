"""The tables of the SQLite store, and the migration of files of earlier versions, in place.

A step never changes once it was released: it reads what was written then, with types of its own (`_EntryV1`) instead of
those of the current code.
"""

import logging
import sqlite3
from collections.abc import Callable
from pathlib import Path

import msgspec

from toolyard.core.errors import Misconfigured, StoreDown
from toolyard.stores.sqlite.backup import copy_file

_log = logging.getLogger("toolyard.sqlite")

APPLICATION_ID = 0x546F6F6C  # "Tool", in the file's header
_FIRST = (
    """CREATE TABLE conversations (
    id TEXT PRIMARY KEY,
    epoch INTEGER NOT NULL,
    last_seq INTEGER NOT NULL DEFAULT 0,
    wake_at REAL
) WITHOUT ROWID""",
    "CREATE INDEX conversations_waiting ON conversations (wake_at) WHERE wake_at IS NOT NULL",
    """CREATE TABLE batches (
    conversation TEXT NOT NULL,
    last_seq INTEGER NOT NULL,
    entries BLOB NOT NULL,  -- one line each: a batch costs one row, however many it holds
    PRIMARY KEY (conversation, last_seq)
)""",
    """CREATE TABLE blobs (
    conversation TEXT NOT NULL,
    handle TEXT NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (conversation, handle)
)""",
    f"PRAGMA application_id = {APPLICATION_ID}",
)
_SECOND = (
    # updated_at has no index: one would make every append about a quarter slower, for lists that are sorted rarely.
    "ALTER TABLE conversations ADD COLUMN updated_at REAL",
    # Columns that an append does not change are in a table of their own, so that the row it rewrites stays short.
    """CREATE TABLE cards (
    conversation TEXT PRIMARY KEY,
    tenant TEXT NOT NULL,
    user TEXT NOT NULL,
    title TEXT NOT NULL,
    description TEXT NOT NULL,
    created_at REAL NOT NULL
) WITHOUT ROWID""",
    "CREATE INDEX cards_of ON cards (tenant, user)",
    """CREATE TABLE traces (
    conversation TEXT NOT NULL,
    run TEXT NOT NULL,
    correlation_id TEXT NOT NULL,
    at REAL NOT NULL,
    PRIMARY KEY (conversation, run)
) WITHOUT ROWID""",
    "CREATE INDEX traces_of ON traces (correlation_id, at)",
    "CREATE TABLE keys (name TEXT PRIMARY KEY, key BLOB NOT NULL) WITHOUT ROWID",
)
_THIRD = "CREATE TABLE shelf (kind TEXT NOT NULL, name TEXT NOT NULL, body BLOB NOT NULL, PRIMARY KEY (kind, name))"

_FOURTH = "ALTER TABLE cards ADD COLUMN unlisted INTEGER NOT NULL DEFAULT 0"


_FIFTH = (
    """CREATE TABLE requests (
    key TEXT PRIMARY KEY,
    body TEXT NOT NULL,
    conversation TEXT NOT NULL,
    seq INTEGER NOT NULL,
    run TEXT NOT NULL,
    at REAL NOT NULL
) WITHOUT ROWID""",
    "CREATE INDEX requests_by_age ON requests (at)",
    "CREATE INDEX requests_of ON requests (conversation)",
)

_SIXTH = (
    """CREATE TABLE snapshots (
    conversation TEXT PRIMARY KEY,
    token TEXT NOT NULL,
    seq INTEGER NOT NULL,
    body BLOB NOT NULL
)""",
    """CREATE TABLE snapshot_pieces (
    conversation TEXT NOT NULL,
    name TEXT NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (conversation, name)
)""",
    # A card changes when a run starts or ends, not with each append: its indexes cost little, and a page of a list is a
    # scan of one of them.
    "ALTER TABLE cards ADD COLUMN updated_at REAL NOT NULL DEFAULT 0",
    """UPDATE cards SET updated_at =
    coalesce((SELECT conversations.updated_at FROM conversations WHERE id = conversation), created_at)""",
    "DROP INDEX cards_of",
    "CREATE INDEX cards_of_tenant ON cards (tenant, unlisted, updated_at, conversation)",
    "CREATE INDEX cards_of_user ON cards (tenant, user, unlisted, updated_at, conversation)",
    "ALTER TABLE cards ADD COLUMN unindexed INTEGER NOT NULL DEFAULT 1",
    "ALTER TABLE cards ADD COLUMN indexed_seq INTEGER NOT NULL DEFAULT 0",
    "CREATE INDEX cards_unindexed ON cards (updated_at) WHERE unindexed",
    """CREATE TABLE search_texts (
    number INTEGER PRIMARY KEY,
    conversation TEXT NOT NULL,  -- empty once the conversation is deleted, until the terms are
    item TEXT NOT NULL,  -- empty for the title and the description
    text TEXT NOT NULL
)""",
    "CREATE INDEX search_texts_of ON search_texts (conversation, item)",
    """CREATE TABLE figures (
    tenant TEXT NOT NULL,
    user TEXT NOT NULL,  -- empty for all users of the tenant
    step_s REAL NOT NULL,
    at REAL NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (tenant, user, step_s, at)
)""",
    "CREATE INDEX figures_by_age ON figures (step_s, at)",
    """CREATE VIRTUAL TABLE search_terms
    USING fts5(terms, content='', columnsize=0, detail=none, tokenize='ascii')""",
)

_SEVENTH = (
    """CREATE TABLE access_tokens (
    kind TEXT NOT NULL,
    hash TEXT NOT NULL,
    conversation TEXT,  -- NULL if the token belongs to none
    created_at REAL NOT NULL,
    expires_at REAL NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (kind, hash)
)""",
    "CREATE INDEX access_tokens_of ON access_tokens (conversation) WHERE conversation IS NOT NULL",
    "CREATE INDEX access_tokens_by_expiry ON access_tokens (expires_at)",
)

_EIGHTH = (
    """CREATE TABLE audit (
    number INTEGER PRIMARY KEY,
    at REAL NOT NULL,
    action TEXT NOT NULL,
    target TEXT NOT NULL,
    tenant TEXT NOT NULL,
    actor TEXT NOT NULL,
    actor_tenant TEXT NOT NULL,
    key TEXT NOT NULL,
    address TEXT NOT NULL,
    content_hash TEXT NOT NULL,
    outcome TEXT NOT NULL,
    cause INTEGER NOT NULL,
    count INTEGER NOT NULL,
    correlation_id TEXT NOT NULL,
    previous TEXT NOT NULL UNIQUE,  -- a chain that forks has two entries after one
    hash TEXT NOT NULL
)""",
    "CREATE INDEX audit_of_tenant ON audit (tenant, number)",
    "CREATE INDEX audit_of_actor ON audit (actor, number)",
    "CREATE INDEX audit_of_action ON audit (action, number)",
    *(
        f"""CREATE TRIGGER audit_without_{change} BEFORE {change} ON audit
    BEGIN SELECT raise(ABORT, 'the audit log is append-only'); END"""
        for change in ("update", "delete")
    ),
)

_NINTH = (
    "DROP TRIGGER audit_without_delete",
    # What may be deleted is what an entry says to have been trimmed.
    """CREATE TRIGGER audit_without_delete BEFORE DELETE ON audit WHEN NOT EXISTS (
        SELECT 1 FROM audit WHERE action = 'audit.trim' AND CAST(target AS INTEGER) >= OLD.number
    ) BEGIN SELECT raise(ABORT, 'the audit log is append-only'); END""",
)

_TENTH = ("ALTER TABLE audit ADD COLUMN change TEXT NOT NULL DEFAULT ''",)
_ELEVENTH = (
    """CREATE TABLE budgets (
    budget TEXT NOT NULL,
    scope TEXT NOT NULL,
    period TEXT NOT NULL,
    spent INTEGER NOT NULL DEFAULT 0,
    reserved INTEGER NOT NULL DEFAULT 0,
    overdraft INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (budget, scope, period)
) WITHOUT ROWID""",
    """CREATE TABLE reservations (
    conversation TEXT NOT NULL,
    turn TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    budget TEXT NOT NULL,
    scope TEXT NOT NULL,
    period TEXT NOT NULL,
    at REAL NOT NULL,
    micros INTEGER NOT NULL,
    estimate INTEGER NOT NULL,
    cost INTEGER,  -- NULL until the turn has ended
    PRIMARY KEY (conversation, turn, attempt, budget)
)""",
    "CREATE INDEX reservations_ended ON reservations (conversation) WHERE cost IS NOT NULL",
    """CREATE TABLE usage (
    day INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    user TEXT NOT NULL,
    key TEXT NOT NULL,
    model TEXT NOT NULL,
    tool TEXT NOT NULL,
    preset TEXT NOT NULL,
    currency TEXT NOT NULL,
    turns INTEGER NOT NULL,
    input_tokens INTEGER NOT NULL,
    cached_tokens INTEGER NOT NULL,
    cache_writes_5m INTEGER NOT NULL,
    cache_writes_1h INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    reasoning_tokens INTEGER NOT NULL,
    uses INTEGER NOT NULL,
    cost_micros INTEGER NOT NULL,
    unknown_costs INTEGER NOT NULL,
    estimated_costs INTEGER NOT NULL,
    PRIMARY KEY (day, tenant, user, key, model, tool, preset, currency)
) WITHOUT ROWID""",
)

_TWELFTH = (
    "ALTER TABLE cards ADD COLUMN place TEXT NOT NULL DEFAULT ''",
    "CREATE INDEX cards_deleted ON cards (updated_at) WHERE place = 'deleted'",
)


def migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Migrate a file to the current version, after copying it to `build_copy_path`.

    Raises Misconfigured for a file of another program or a newer version.
    """
    (objects,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if not objects:
        version = 0
    elif application != APPLICATION_ID:
        raise Misconfigured(f"{path} is a database of another program: give another path")
    if version > SCHEMA_VERSION:
        raise Misconfigured(
            f"{path} is of schema version {version}, and this Toolyard knows up to {SCHEMA_VERSION}: use a newer one"
        )
    if version == SCHEMA_VERSION:
        return
    if version:
        copy = build_copy_path(path, version)
        copy_file(path, copy)
        _log.warning("migrating %s from schema version %d to %d; a copy is %s", path, version, SCHEMA_VERSION, copy)
    try:
        with connection:  # commits, or rolls everything back
            connection.execute("BEGIN IMMEDIATE")
            for step in _STEPS[version:]:
                step(connection)
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    except msgspec.MsgspecError as error:
        reason = f"it holds an entry that cannot be read: {error}. The file was left as it is"
        raise StoreDown(reason, address=str(path)) from error


def build_copy_path(path: Path, version: int) -> Path:
    """Return where a file of an earlier version is copied to before it is migrated."""
    return path.with_name(f"{path.name}.schema-{version}")


class _OwnerV1(msgspec.Struct):
    user: str = "local"
    tenant: str = ""


class _SettingsV1(msgspec.Struct):
    title: str = ""
    description: str = ""


class _EventV1(msgspec.Struct):
    type: str
    owner: _OwnerV1 = msgspec.field(default_factory=_OwnerV1)
    settings: _SettingsV1 = msgspec.field(default_factory=_SettingsV1)


class _EntryV1(msgspec.Struct):
    """The fields of an entry that the catalog needs, as files of the first version have them."""

    at: float
    event: _EventV1
    run: str = ""
    correlation_id: str = ""


_entry_v1 = msgspec.json.Decoder(_EntryV1)


def _make_tables(connection: sqlite3.Connection) -> None:
    for statement in _FIRST:
        connection.execute(statement)


def _add_catalog(connection: sqlite3.Connection) -> None:
    for statement in _SECOND:
        connection.execute(statement)
    changed = dict[str, float]()
    query = "SELECT conversation, entries FROM batches ORDER BY conversation, last_seq"
    for conversation, lines in connection.execute(query):
        for line in lines.split(b"\n"):
            entry = _entry_v1.decode(line)
            changed[conversation] = entry.at
            _project_entry(connection, conversation, entry)
    rows = [(at, conversation) for conversation, at in changed.items()]
    connection.executemany("UPDATE conversations SET updated_at = ? WHERE id = ?", rows)


def _project_entry(connection: sqlite3.Connection, conversation: str, entry: _EntryV1) -> None:
    event = entry.event
    settings = event.settings
    match event.type:
        case "conversation.opened":
            row = (conversation, event.owner.tenant, event.owner.user, settings.title, settings.description, entry.at)
            connection.execute("INSERT OR REPLACE INTO cards VALUES (?, ?, ?, ?, ?, ?)", row)
        case "conversation.changed":
            row = (settings.title, settings.description, conversation)
            connection.execute("UPDATE cards SET title = ?, description = ? WHERE conversation = ?", row)
        case "run.queued" if entry.correlation_id:
            row = (conversation, entry.run, entry.correlation_id, entry.at)
            connection.execute("INSERT OR IGNORE INTO traces VALUES (?, ?, ?, ?)", row)
        case _:
            pass


def _add_shelf(connection: sqlite3.Connection) -> None:
    connection.execute(_THIRD)


def _add_unlisted(connection: sqlite3.Connection) -> None:
    connection.execute(_FOURTH)


def _add_requests(connection: sqlite3.Connection) -> None:
    for statement in _FIFTH:
        connection.execute(statement)


def _bound_costs(connection: sqlite3.Connection) -> None:
    for statement in _SIXTH:
        connection.execute(statement)


def _add_access_tokens(connection: sqlite3.Connection) -> None:
    for statement in _SEVENTH:
        connection.execute(statement)


def _add_audit(connection: sqlite3.Connection) -> None:
    for statement in _EIGHTH:
        connection.execute(statement)


def _allow_trim(connection: sqlite3.Connection) -> None:
    for statement in _NINTH:
        connection.execute(statement)


def _add_audited_change(connection: sqlite3.Connection) -> None:
    for statement in _TENTH:
        connection.execute(statement)


def _add_ledger(connection: sqlite3.Connection) -> None:
    for statement in _ELEVENTH:
        connection.execute(statement)


def _add_places(connection: sqlite3.Connection) -> None:
    for statement in _TWELFTH:
        connection.execute(statement)


_STEPS: tuple[Callable[[sqlite3.Connection], None], ...] = (
    _make_tables,
    _add_catalog,
    _add_shelf,
    _add_unlisted,
    _add_requests,
    _bound_costs,
    _add_access_tokens,
    _add_audit,
    _allow_trim,
    _add_audited_change,
    _add_ledger,
    _add_places,
)
SCHEMA_VERSION = len(_STEPS)
