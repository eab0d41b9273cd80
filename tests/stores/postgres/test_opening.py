"""Opening a PostgreSQL store: the migration, and one clear sentence for each thing that may be wrong."""

import asyncio
import os
import re
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import pytest

from postgres import create_database, start_own_server
from support import claim_epoch
from tcp_servers import serve_connections
from toolyard import Yard, tool
from toolyard.app import open_store
from toolyard.core.errors import Misconfigured, StoreDown, ToolyardError
from toolyard.core.store import (
    LOG_FORMAT,
    Append,
    CatalogQuery,
    Claim,
    CommandAnswer,
    FigureRow,
    Key,
    SnapshotHead,
    SnapshotUpdate,
)
from toolyard.stores.postgres import PostgresStore, migrate
from toolyard.stores.postgres.connections import Database
from toolyard.stores.postgres.lease import Lease
from toolyard.stores.postgres.maintenance import Maintenance
from toolyard.stores.postgres.schema import SCHEMA_VERSION
from toolyard.stores.postgres_settings import PostgresSettings
from toolyard.testing import Scripted, call, say

SCALING = Path(__file__).parents[3] / "docs" / "how-to" / "scaling.md"
QUICK = PostgresSettings(connect_timeout_s=1.0)


@tool
def read_report() -> str:
    """Return more than fits into a message."""
    return "x" * 200_000


async def execute(url: str, *statements: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()


async def list_tables(url: str) -> set[str]:
    connection = await asyncpg.connect(url)
    try:
        rows = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname NOT LIKE 'pg\\_%'")
        return {name for (name,) in rows} - {"sql_features", "sql_implementation_info", "sql_parts", "sql_sizing"}
    finally:
        await connection.close()


async def fail_to_open(url: str, settings: PostgresSettings = QUICK) -> ToolyardError:
    with pytest.raises(ToolyardError) as raised:
        await open_store(url, settings)
    assert "\n" not in str(raised.value) and "secret" not in str(raised.value)
    return raised.value


@asynccontextmanager
async def serve_as_version_13(port: int) -> AsyncGenerator[int]:
    """Pass connections on to a server, and let it say that it is PostgreSQL 13."""

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data.replace(b"server_version\x0018.6\x00", b"server_version\x0013.9\x00"))
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            await asyncio.gather(pump(reader, server_writer), pump(server_reader, writer), return_exceptions=True)
        finally:
            server_writer.close()

    async with serve_connections(serve) as proxy_port:
        yield proxy_port


@asynccontextmanager
async def serve_as_pooler() -> AsyncGenerator[int]:
    """Refuse the parameters of a connection as pgbouncer does."""
    fields = b"SFATAL\0C08P01\0Munsupported startup parameter: lock_timeout\0\0"

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        length = int.from_bytes(await reader.readexactly(4), "big")
        await reader.readexactly(length - 4)
        writer.write(b"E" + (len(fields) + 4).to_bytes(4, "big") + fields)
        await writer.drain()

    async with serve_connections(serve) as port:
        yield port


async def test_the_address_of_a_pooler_is_recognised_and_what_to_set_is_said() -> None:
    async with serve_as_pooler() as port:
        error = await fail_to_open(f"postgresql://ann:secret@127.0.0.1:{port}/yard?sslmode=disable")
    assert "set pgbouncer = true, and listen_url to that of the database" in str(error)


async def test_of_twenty_starts_at_once_one_migrates_and_all_serve(postgres_url: str) -> None:
    settings = PostgresSettings(pool_size=1)
    stores = await asyncio.gather(*(PostgresStore.open(postgres_url, settings) for _ in range(20)))
    answers = await asyncio.gather(*(store.claim(f"c{number}") for number, store in enumerate(stores)))
    assert all(isinstance(answer, Claim) for answer in answers)
    assert len({store.replica for store in stores}) == 20
    await asyncio.gather(*(store.close() for store in stores))
    connection = await asyncpg.connect(postgres_url)
    assert await connection.fetchval("SELECT count(*) FROM replicas") == 0
    assert await connection.fetchval("SELECT count(*) FROM conversations WHERE replica <> ''") == 0
    await connection.close()


async def test_a_schema_of_its_own_is_named_in_the_address(postgres_url: str) -> None:
    assert "there is no schema" in str(await fail_to_open(f"{postgres_url}?search_path=yard"))
    await execute(postgres_url, "CREATE SCHEMA yard", "CREATE TABLE public.conversations (id text)")
    store = await PostgresStore.open(f"{postgres_url}?search_path=yard")
    assert isinstance(await store.claim("c"), Claim)
    await store.close()


async def test_a_newer_schema_is_used_while_it_admits_this_code(postgres_url: str) -> None:
    await (await PostgresStore.open(postgres_url)).close()
    await execute(postgres_url, f"UPDATE toolyard_version SET version = {SCHEMA_VERSION + 5}")
    store = await PostgresStore.open(postgres_url)
    assert isinstance(await store.claim("c"), Claim)
    await store.close()
    await execute(postgres_url, f"UPDATE toolyard_version SET oldest = {SCHEMA_VERSION + 1}")
    error = await fail_to_open(postgres_url)
    assert isinstance(error, Misconfigured) and "use a newer one" in str(error)


@pytest.mark.parametrize("table", ["conversations", "figures", "rates", "keys"])
async def test_tables_of_another_program_are_left_alone(postgres_url: str, table: str) -> None:
    await execute(postgres_url, f"CREATE TABLE {table} (id text)")
    error = await fail_to_open(postgres_url)
    assert isinstance(error, Misconfigured) and f"tables of another program, such as {table!r}" in str(error)
    assert await list_tables(postgres_url) == {table}


async def test_a_user_who_may_not_create_tables_is_told_what_to_grant(postgres_url: str) -> None:
    role = f"guest_{os.getpid()}"
    await execute(postgres_url, f"CREATE ROLE {role} LOGIN")
    try:
        error = await fail_to_open(postgres_url.replace("toolyard@", f"{role}:secret@"))
    finally:
        await execute(postgres_url, f"DROP ROLE {role}")
    assert isinstance(error, Misconfigured) and f"GRANT CREATE, USAGE ON SCHEMA public TO {role}" in str(error)
    assert await list_tables(postgres_url) == set()


async def test_the_documented_rights_are_enough_for_a_server_that_may_not_change_tables(postgres_url: str) -> None:
    admin, server = f"toolyard_admin_{os.getpid()}", f"toolyard_server_{os.getpid()}"
    text = SCALING.read_text().replace("toolyard_admin", admin).replace("toolyard_server", server)
    for_new_tables, for_tables = re.findall(r"```sql\n(.*?)```", text, re.DOTALL)
    await execute(postgres_url, for_new_tables)
    try:
        admin_url, server_url = (postgres_url.replace("toolyard@", f"{role}@") for role in (admin, server))
        error = await fail_to_open(server_url)
        assert isinstance(error, Misconfigured) and f"the user '{server}' may not create tables" in str(error)
        await migrate(admin_url, QUICK)
        await use_everything(server_url)
        await execute(postgres_url, f"REVOKE ALL ON ALL TABLES IN SCHEMA public FROM {server}")
        error = await fail_to_open(server_url)
        assert isinstance(error, StoreDown) and f"as '{server}' (permission denied for table" in str(error)
        await execute(postgres_url, for_tables)
        await use_everything(server_url)
    finally:
        for role in (server, admin):
            await execute(postgres_url, f"DROP OWNED BY {role}", f"DROP ROLE {role}")


async def use_everything(url: str) -> None:
    """Let a server do what it does with each table, also what its background tasks do."""
    async with Yard(tools=[read_report], model=Scripted([call("read_report"), say("hello")]), store=url) as yard:
        assert await yard.ask("milk please", conversation="c") == "hello"
    store = await PostgresStore.open(url)
    await store.index_texts()
    (card,) = await store.cards(CatalogQuery(tenant="", text="milk"))
    assert card.id == "c"
    epoch = await claim_epoch(store, "c")
    head = SnapshotHead(token="t", seq=1, body=b"")
    assert await store.save_snapshot("c", SnapshotUpdate(head=head, pieces=[("p", b"")]))
    await store.follow("c")
    await store.forward_command("c", "k", b"command")
    _, (forwarded,) = await store.read_forwarded("c", epoch)
    await store.answer_forwarded("c", epoch, CommandAnswer(number=forwarded.number, outcome=b""))
    await store.unfollow("c")
    await store.drop_request("c", 0.0)
    await store.delete_conversation("c")
    await store.save_key(Key(name="k", hash="h", user="u"))
    await store.revoke_key("k")
    await store.set_record("kind", "name", b"{}")
    await store.delete_record("kind", "name")
    await store.take_allowance("key", 1, 0.0)
    await store.add_figures([FigureRow(tenant="", user="", step_s=60.0, at=0.0, body=b"{}")])
    await store.drop_figures(60.0, 1.0)
    await store.close()
    database = Database(url, QUICK)
    lease = Lease(database, "rights")
    await lease.start()
    await Maintenance(database, lease).tidy_up()
    await lease.close()
    database.close()


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("postgresql://toolyard:secret@127.0.0.1:port/db", "the address of the PostgreSQL store is wrong"),
        ("postgresql://toolyard:secret@127.0.0.1:1/db", "cannot be reached"),
        ("postgresql://toolyard:secret@host.invalid/db", "cannot be reached"),
        ("postgresql://toolyard@{server}/missing", "there is no such database"),
        ("postgresql://nobody_here:secret@{server}/{database}", "does not accept this user"),
        ("postgresql://toolyard@{server}/{database}?sslmode=require", "does not offer TLS"),
        ("postgresql://toolyard@{server}/{database}?sslmode=always", "the address of the PostgreSQL store is wrong"),
    ],
)
async def test_a_wrong_address_is_answered_in_one_sentence(postgres_url: str, address: str, sentence: str) -> None:
    server, _, database = postgres_url.partition("@")[2].partition("/")
    error = await fail_to_open(address.format(server=server, database=database))
    assert isinstance(error, Misconfigured | StoreDown)
    assert sentence in str(error), str(error)
    assert await list_tables(postgres_url) == set()


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://toolyard:secret#1@127.0.0.1/db",
        "postgresql://toolyard:1/secret@127.0.0.1/db",
        "postgresql://toolyard:1?secret@127.0.0.1/db",
        "postgresql://toolyard:[secret@127.0.0.1/db",
        "postgresql:toolyard:secret@127.0.0.1/db",
        "postgresql:///db?user=toolyard&password=secret&host=127.0.0.1&port=secret",
        "mysql:toolyard:secret@127.0.0.1/db",
    ],
)
async def test_no_part_of_a_password_is_told_however_the_address_is_cut(address: str) -> None:
    error = await fail_to_open(address)
    assert isinstance(error, Misconfigured) and error.__cause__ is None
    assert "toolyard:1" not in str(error)


@pytest.mark.parametrize(
    ("listen_url", "sentence"),
    [
        ("http://toolyard:secret@127.0.0.1/db", "listen_url is wrong"),
        ("postgresql://toolyard:secret@127.0.0.1:port/db", "listen_url is wrong"),
        ("postgresql://toolyard@{server}/db?sslmode=secret", "listen_url is wrong: check its sslmode"),
        (
            "postgresql://toolyard:secret@127.0.0.1:1/db",
            "listen_url (postgresql://127.0.0.1:1/db): the database",
        ),
        (
            "postgresql://toolyard:secret@{server}/missing",
            "listen_url (postgresql://{server}/missing): there is no",
        ),
        ("postgresql://toolyard:secret@{server}/postgres", "{server}/postgres, which is not the database of the store"),
    ],
)
async def test_a_listen_url_must_lead_to_the_database_of_the_store(
    postgres_url: str, listen_url: str, sentence: str
) -> None:
    server = postgres_url.partition("@")[2].partition("/")[0]
    settings = PostgresSettings(connect_timeout_s=1.0, pgbouncer=True, listen_url=listen_url.format(server=server))
    error = await fail_to_open(postgres_url, settings)
    assert isinstance(error, Misconfigured) and sentence.format(server=server) in str(error), str(error)


async def test_a_listen_url_may_name_the_database_in_another_way(postgres_url: str) -> None:
    await execute(postgres_url, "CREATE SCHEMA yard")
    listen_url = postgres_url.replace("127.0.0.1", "localhost")
    store = await PostgresStore.open(f"{postgres_url}?search_path=yard", PostgresSettings(listen_url=listen_url))
    await store.close()


async def test_a_wrong_password_a_standby_and_an_old_server_are_refused(tmp_path: Path) -> None:
    async with start_own_server() as server, create_database(server.url) as url:
        async with serve_as_version_13(server.port) as port:
            error = await fail_to_open(url.replace(str(server.port), str(port)))
            assert isinstance(error, Misconfigured) and "PostgreSQL 13: use version 14 or later" in str(error)
        await execute(url, "CREATE ROLE guarded LOGIN PASSWORD 'right'")
        access = server.directory / "data" / "pg_hba.conf"
        access.write_text(f"host all guarded 127.0.0.1/32 scram-sha-256\n{access.read_text()}")
        await execute(url, "SELECT pg_reload_conf()")
        error = await fail_to_open(url.replace("toolyard@", "guarded:secret@"))
        assert isinstance(error, StoreDown) and "does not accept the password" in str(error)
        password = tmp_path / "password"
        password.write_text("right\n")
        error = await fail_to_open(url.replace("toolyard@", "guarded@"), PostgresSettings(password_file=str(password)))
        assert isinstance(error, Misconfigured) and "may not create tables" in str(error)
        await asyncio.to_thread(server.stop, "fast")
        (server.directory / "data" / "standby.signal").touch()
        await asyncio.to_thread(server.start)
        error = await fail_to_open(url)
        assert isinstance(error, Misconfigured) and "read-only standby" in str(error)
        assert await list_tables(url) == set()


async def test_migrate_creates_the_tables_and_check_says_whether_it_has_to(postgres_url: str) -> None:
    async def run(*flags: str) -> tuple[int | None, str]:
        command = [sys.executable, "-m", "toolyard", "migrate", "--store", postgres_url, *flags]
        process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, stderr=None)
        output, _ = await process.communicate()
        return process.returncode, output.decode()

    code, output = await run("--check")
    assert (code, "missing: run toolyard migrate" in output) == (1, True)
    assert await list_tables(postgres_url) == set()
    assert await run() == (0, "the tables are up to date\n")
    assert await run("--check") == (0, "the tables are up to date\n")
    assert "conversations" in await list_tables(postgres_url)


async def test_statements_for_a_pooler_need_no_session(postgres_url: str) -> None:
    store = await PostgresStore.open(postgres_url, PostgresSettings(pgbouncer=True, listen_url=postgres_url))
    answer = await store.claim("c")
    assert isinstance(answer, Claim)
    assert await store.append(Append(conversation="c", epoch=answer.epoch, wake_at=0.0, release_at=0)) is True
    async with store.lock("kind", "name"):
        assert (await store.find_due(1.0, 10))[0] == ["c"]
    messages: list[bytes] = []
    store.listen(messages.append)
    async with asyncio.timeout(10):
        while not messages:
            store.tell(store.replica, b"hint")
            await asyncio.sleep(0.01)
    await store.close()


async def test_the_oldest_format_is_that_of_the_oldest_replica_that_lives(postgres_url: str) -> None:
    store = await open_store(postgres_url)
    try:
        assert await store.read_oldest_format() == LOG_FORMAT
        for alive_until, expected in (("now() - interval '1 second'", LOG_FORMAT), ("now() + interval '1 hour'", 1)):
            row = f"('older-{expected}', 'p', {alive_until})"
            await execute(postgres_url, f"INSERT INTO replicas (id, process, alive_until) VALUES {row}")
            assert await store.read_oldest_format() == expected
    finally:
        await store.close()
