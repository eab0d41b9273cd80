"""Connections to the database: opens them, keeps those for reads in a pool, and explains errors.

Only this package imports asyncpg.
"""

import asyncio
import logging
import secrets
import ssl
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal, TypeVar

import asyncpg
from asyncpg import Connection, Record

from toolyard.core.errors import Invalid, Misconfigured, StoreDown, ToolyardError
from toolyard.stores.entries import build_closed_error
from toolyard.stores.postgres_settings import PostgresSettings, describe_address

_T = TypeVar("_T")

Role = Literal["writer", "heartbeat", "listener", "notifier", "reader", "locks", "setup"]
LOCK_TIMEOUT_S = 1
MAX_LOCK_S = 120.0
"""How long a lock on a record may be held, such as during a request to a sign-in server."""
DATABASE_ERRORS = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
"""What a connection or a statement may raise. TimeoutError is an OSError."""
_log = logging.getLogger("toolyard.postgres")

_REASONS = {
    "28P01": "the database does not accept the password: set PGPASSWORD or password_file",
    "28000": "the database does not accept this user: check its name and pg_hba.conf",
    "3D000": "there is no such database: create it first",
    "42501": "the user may not do this: grant it the rights on the schema and its tables",
    "53100": "the disk of the database is full: free some space there; the store then goes on by itself",
    "53300": "the database has too many connections: raise its max_connections or lower pool_size",
    "25006": "the database is read-only: give the address of the primary server",
    "57014": "a statement took longer than statement_timeout_s",
    "55P03": "a row stayed locked by another connection",
    "57P03": "the database is starting or stopping",
}
_OUTAGE_CLASSES = ("08", "53", "57P", "58")
"""SQLSTATE classes: connection, resources, operator intervention such as a shutdown, and system errors."""
READ_ONLY = "25006"
_FORBIDDEN = "42501"
_UNTRANSLATABLE = ("22021", "22P05")
_PARAMETERS = ("sslmode", "sslnegotiation", "target_session_attrs", "krbsrvname", "gsslib", "port", "user", "database")
"""Parameters of an address that the driver checks."""


def get_sqlstate(error: BaseException) -> str:
    return getattr(error, "sqlstate", None) or ""


def is_outage(error: BaseException) -> bool:
    """Return whether the database cannot be used now, in contrast to an error of one statement."""
    if not isinstance(error, asyncpg.PostgresError):
        return True
    state = get_sqlstate(error)
    return state == READ_ONLY or state.startswith(_OUTAGE_CLASSES)


def may_pass(error: BaseException) -> bool:
    """Return whether a connection that could not be opened may be later: nothing in the settings has to be changed."""
    if _is_pooler_error(error) or isinstance(error, ssl.SSLError) or _is_without_tls(error):
        return False
    return is_outage(error) and get_sqlstate(error) != READ_ONLY


def _is_pooler_error(error: BaseException) -> bool:
    return isinstance(error, asyncpg.PostgresError) and "unsupported startup parameter" in str(error)


def _is_without_tls(error: BaseException) -> bool:
    return isinstance(error, ConnectionError) and "SSL" in str(error)


def explain_error(error: BaseException) -> str:
    """Return why the database cannot be used, without its address or a password."""
    if isinstance(error, asyncpg.PostgresError):
        if _is_pooler_error(error):
            return "this is the address of a pooler: set pgbouncer = true, and listen_url to that of the database"
        return _REASONS.get(get_sqlstate(error)) or f"the database answers: {error}"
    if isinstance(error, TimeoutError):
        return "the database does not answer in time"
    if isinstance(error, ssl.SSLError):
        return "the certificate of the database or its TLS does not fit: check sslmode and sslrootcert"
    if _is_without_tls(error):
        return "the database does not offer TLS, which sslmode asks for"
    if isinstance(error, OSError):
        return "the database cannot be reached"
    return "the connection to the database is broken"


class DatabaseHealth:
    """Whether the database works, as the connections last experienced it. Each change is logged once."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._problems: dict[Role, str] = {}
        self._down_at = 0.0

    @property
    def problem(self) -> str:
        """Return why the store is down now, or an empty string."""
        return next(iter(self._problems.values()), "")

    def get_problem(self, role: Role) -> str:
        return self._problems.get(role, "")

    def fail(self, role: Role, error: BaseException) -> None:
        if not self._problems:
            self._down_at = time.monotonic()
            _log.error("%s: %s; work goes on by itself afterwards", self.address, explain_error(error))
        self._problems[role] = explain_error(error)

    def recover(self, role: Role) -> None:
        if self._problems.pop(role, None) and not self._problems:
            _log.warning("%s: the database works again after %.1f s", self.address, time.monotonic() - self._down_at)


class ConnectionPool:
    """Up to `size` connections of one role, opened when they are needed.

    asyncpg's own pool takes back a connection whose statement was cancelled only once the server has answered: after a
    cut network its caller would wait for a second deadline. Here such a connection is terminated at once.
    """

    def __init__(
        self, open_connection: Callable[[], Coroutine[None, None, Connection]], size: int, timeout_s: float
    ) -> None:
        self._open = open_connection
        self._slots = asyncio.Semaphore(size)
        self._timeout_s = timeout_s
        self._idle: list[Connection] = []
        self._closed = False

    @asynccontextmanager
    async def acquire(self) -> AsyncGenerator[Connection]:
        async with asyncio.timeout(self._timeout_s):
            await self._slots.acquire()
        try:
            connection = self._take_idle() or await self._open()
            try:
                yield connection
            except BaseException as error:
                # Only after an answer of the server is the state of the connection known.
                if not isinstance(error, asyncpg.PostgresError | ToolyardError) or connection.is_in_transaction():
                    connection.terminate()
                raise
            finally:
                if not connection.is_closed():
                    self._put_back(connection)
        finally:
            self._slots.release()

    def drop_idle(self) -> None:
        for connection in self._idle:
            connection.terminate()
        self._idle.clear()

    def close(self) -> None:
        self._closed = True
        self.drop_idle()

    def _take_idle(self) -> Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_closed():
                return connection
        return None

    def _put_back(self, connection: Connection) -> None:
        if self._closed:
            connection.terminate()
        else:
            self._idle.append(connection)


class Database:
    """One PostgreSQL database: opens connections to it and runs statements on those of the pool."""

    def __init__(self, url: str, settings: PostgresSettings) -> None:
        self.settings = settings
        self._url = url
        self.address = describe_address(url)
        self._listen_address = describe_address(settings.listen_url, "listen_url") if settings.listen_url else ""
        self._password = _read_password(settings.password_file)
        self._user = ""
        """The user's name as the database reports it."""
        self.health = DatabaseHealth(self.address)
        self.closed = False
        timeout_s = settings.statement_timeout_s
        self._readers = ConnectionPool(lambda: self.connect("reader"), settings.pool_size, timeout_s)
        self.locks = ConnectionPool(lambda: self.connect("locks"), max(2, settings.pool_size // 2), timeout_s)
        self.on_trouble: Callable[[], None] = lambda: None
        """Called when a statement found its connection broken."""

    async def connect(self, role: Role, timeout_s: float = 0.0) -> Connection:
        """Open a connection; the time limit is for this and for each statement.

        Raises one of DATABASE_ERRORS, or Misconfigured.
        """
        settings = self.settings
        url = settings.listen_url if role == "listener" and settings.listen_url else self._url
        pooled = settings.pgbouncer and url == self._url
        try:
            connection = await asyncpg.connect(
                url,
                password=self._password or None,
                timeout=min(settings.connect_timeout_s, timeout_s or settings.connect_timeout_s),
                command_timeout=timeout_s or settings.statement_timeout_s + LOCK_TIMEOUT_S,
                statement_cache_size=0 if pooled else 100,
                server_settings=_build_session_settings(role, settings, pooled),
            )
        except (ValueError, asyncpg.ClientConfigurationError) as error:
            name = "the address of the PostgreSQL store" if url == self._url else "listen_url"
            # The driver's text may quote a part of the address, and so of a password: only what it is about is told.
            parameter = next((parameter for parameter in _PARAMETERS if parameter in str(error)), "form")
            raise Misconfigured(f"{name} is wrong: check its {parameter}") from None
        self._user = getattr(connection.get_settings(), "session_authorization", "") or self._user
        return connection

    async def check_listen_url(self) -> None:
        """Raise Misconfigured if notifications would be awaited elsewhere than in the store's database."""
        if not self.settings.listen_url:
            return
        # A lock that the first connection holds is taken for the second one only in the same database. That needs no
        # rights, and works behind a pooler and with any schema.
        number = secrets.randbits(62)
        connection = await self.connect("setup")
        try:
            async with connection.transaction():
                await connection.execute("SELECT pg_advisory_xact_lock($1)", number)
                is_free = await self._try_lock_at_listen_url(number)
        finally:
            connection.terminate()
        if is_free:
            raise Misconfigured(
                f"listen_url leads to {self._listen_address}, which is not the database of the store: give the address "
                "of that database without its pooler"
            )

    async def _try_lock_at_listen_url(self, number: int) -> bool:
        try:
            listener = await self.connect("listener")
            try:
                return await listener.fetchval("SELECT pg_try_advisory_xact_lock($1)", number)
            finally:
                listener.terminate()
        except DATABASE_ERRORS as error:
            raise Misconfigured(f"listen_url ({self._listen_address}): {explain_error(error)}") from error

    async def fetch(self, query: str, *values: object) -> Sequence[Record]:
        """Run one statement on a connection of the pool. Raises StoreDown, or Invalid for text that it cannot hold."""
        for is_last in (False, True):
            self.require_up()
            try:
                async with self._readers.acquire() as connection:
                    return await self.run(connection, query, *values)
            except UnicodeEncodeError as error:
                raise Invalid("a text holds half a character (a lone surrogate)") from error
            except DATABASE_ERRORS as error:
                if is_last or not is_outage(error) or isinstance(error, TimeoutError):
                    raise self.build_error(error) from error
                # The connection may be a leftover from before a restart of the database: try once with a new one.
                self._readers.drop_idle()
                self.on_trouble()
        raise AssertionError("unreachable")

    async def run(self, connection: Connection, query: str, *values: object) -> Sequence[Record]:
        """Run one statement on a connection. Raises one of DATABASE_ERRORS."""
        if not self.settings.pgbouncer:
            return await connection.fetch(query, *values)
        # A pooler may give each transaction another session, and a statement is prepared and executed in two messages.
        async with connection.transaction():
            return await connection.fetch(query, *values)

    async def fetch_row(self, query: str, *values: object) -> Record | None:
        rows = await self.fetch(query, *values)
        return rows[0] if rows else None

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[Connection]:
        """Run several statements in one transaction. Raises StoreDown."""
        self.require_up()
        try:
            async with self._readers.acquire() as connection, connection.transaction():
                if self.settings.pgbouncer:
                    idle_ms = _compute_idle_ms("reader", self.settings)
                    await connection.execute(f"SET LOCAL idle_in_transaction_session_timeout = {idle_ms}")
                yield connection
        except DATABASE_ERRORS as error:
            raise self.build_error(error) from error

    def require_up(self, *, to_write: bool = False) -> None:
        """Raise StoreDown at once while the database is known to be down."""
        if self.closed:
            raise build_closed_error(self.address)
        if problem := self.health.problem if to_write else self.health.get_problem("heartbeat"):
            raise StoreDown(problem, address=self.address)

    def build_error(self, error: BaseException, *, opening: bool = False) -> ToolyardError:
        """Return the error to raise. One of `opening` the store says whether it may pass by itself."""
        if get_sqlstate(error) in _UNTRANSLATABLE:
            return Invalid("an id or a name holds U+0000, which the store cannot hold")
        if is_outage(error):
            self.on_trouble()
        # Only operators see the address: callers of a server are not told the name of its user.
        address = self.address
        if get_sqlstate(error) == _FORBIDDEN:
            address = f"{address} as {self._user!r} ({error})"
        return StoreDown(explain_error(error), address=address, may_pass=opening and may_pass(error))

    def close(self) -> None:
        self.closed = True
        self._readers.close()
        self.locks.close()


def _build_session_settings(role: Role, settings: PostgresSettings, pooled: bool) -> dict[str, str]:
    name = f"toolyard {role}"
    if pooled:  # a pooler refuses most settings at the start of a session
        return {"application_name": name}
    session = {
        "application_name": name,
        "lock_timeout": f"{LOCK_TIMEOUT_S}s",
        "statement_timeout": f"{int(settings.statement_timeout_s * 1000)}ms",
        "synchronous_commit": "off" if role == "notifier" else "on",
        "default_transaction_isolation": "read committed",
        "jit": "off",  # it costs more than it gains for statements of a millisecond
        "tcp_keepalives_idle": "10",
        "tcp_keepalives_interval": "5",
        "tcp_keepalives_count": "3",
    }
    if idle_ms := _compute_idle_ms(role, settings):
        session["idle_in_transaction_session_timeout"] = f"{idle_ms}ms"
    if role == "setup":
        session |= {"lock_timeout": "60s", "statement_timeout": "600s"}
    if role == "writer":
        # Its statements join a few rows with large tables, by their keys. A plan that was made while the tables were
        # small must not scan them once they have grown.
        session |= {"enable_seqscan": "off", "enable_mergejoin": "off"}
    return session


def _compute_idle_ms(role: Role, settings: PostgresSettings) -> int:
    """Return how long a transaction may do nothing before the database ends it; 0 means for ever.

    A process that hangs in the middle of one would keep its rows locked while others have long taken them over.
    """
    if role == "reader":
        return int(settings.lease_s * 1000 / 3)
    return int(max(MAX_LOCK_S, settings.lease_s) * 1000) if role == "locks" else 0


def _read_password(file: str) -> str:
    if not file:
        return ""
    try:
        return Path(file).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise Misconfigured(f"the password_file of the PostgreSQL store cannot be read: {error}") from error


async def finish_anyway(work: Coroutine[None, None, _T]) -> _T:
    """Return the result of the work, which goes on if the caller is cancelled."""
    task = asyncio.create_task(work)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())  # a cancelled caller retrieves nothing
    return await asyncio.shield(task)


def transpose_rows(rows: Sequence[tuple[object, ...]], width: int) -> list[list[object]]:
    """Return the columns of rows, as the parameters of an `unnest`."""
    return [[row[column] for row in rows] for column in range(width)]
