"""Commands with a store in PostgreSQL: they leave its tables alone, count its replicas and print no password."""

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import asyncpg
import pytest

from cli.process import CommandResult, ServerProcess, request_json, run_toolyard, start_server
from ports import reserve_port
from support import claim_epoch, wait_until
from tcp_servers import serve_connections
from toolyard.core.store import Key
from toolyard.stores.postgres import PostgresStore
from toolyard.stores.sqlite import SqliteStore
from toolyard.venues.mcp.auth.grants import SIGN_INS, TOKENS
from toolyard.venues.mcp.auth.sealed_records import SealedRecords

PASSWORD = "hunter2"
SECRET = "a-secret-of-more-than-32-characters!"
ADD_KEY = ("keys", "add", "me", "--user", "me", "--role", "admin")
COMMAND_SERVER = f'[servers.plain]\ncommand = "{sys.executable}"\nargs = ["-c", "pass"]\n'


@pytest.fixture
def store_url(postgres_url: str) -> str:
    """Return an address with a password in both places; the database accepts any."""
    return f"{postgres_url.replace('toolyard@', f'toolyard:{PASSWORD}@')}?password={PASSWORD}"


async def run(folder: Path, *arguments: str, **more: str) -> CommandResult:
    done = await asyncio.to_thread(run_toolyard, folder, *arguments, **more)
    assert PASSWORD not in done.out + done.errors
    return done


async def list_tables(url: str) -> list[str]:
    connection = await asyncpg.connect(url)
    try:
        return [name for (name,) in await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname='public'")]
    finally:
        await connection.close()


@pytest.mark.parametrize("command", [ADD_KEY, ("keys", "list"), ("trace", "some-id"), ("servers", "list")])
async def test_a_command_asks_for_the_migration_and_does_not_do_it(
    command: Sequence[str], store_url: str, tmp_path: Path
) -> None:
    done = await run(tmp_path, *command, "--store", store_url)
    assert done.code == 1 and done.errors.count("\n") == 1
    assert "lacks tables or their last changes: run `toolyard migrate` with this store first" in done.errors
    assert await list_tables(store_url) == []


async def test_after_the_migration_the_first_key_can_be_added(store_url: str, tmp_path: Path) -> None:
    assert (await run(tmp_path, "migrate", "--store", store_url)).code == 0
    done = await run(tmp_path, *ADD_KEY, "--store", store_url)
    assert done.code == 0, done.errors
    assert "me" in (await run(tmp_path, "keys", "list", "--store", store_url)).out


async def test_the_doctor_tells_of_missing_tables_of_replicas_and_of_servers_that_are_not_started(
    store_url: str, tmp_path: Path
) -> None:
    (tmp_path / "toolyard.toml").write_text(COMMAND_SERVER)
    doctor = ("doctor", "--port", "0", "--store", store_url)
    done = await run(tmp_path, *doctor)
    assert done.code == 0 and "! store     postgresql://127.0.0.1:" in done.out, done.out
    assert "run `toolyard migrate` with this store first, or let the server do so" in done.out
    assert '! servers   plain is not started: set replicas = "each"' in done.out
    assert await list_tables(store_url) == []
    replica = await PostgresStore.open(store_url)
    assert "can be written; 1 replica serves it" in (await run(tmp_path, *doctor)).out
    await replica.close()
    assert "can be written; no replica serves it" in (await run(tmp_path, *doctor)).out


async def test_who_manages_servers_is_told_to_name_a_replica(store_url: str, tmp_path: Path) -> None:
    replica = await PostgresStore.open(store_url)
    done = await run(tmp_path, "servers", "list", "--store", store_url)
    assert done.errors == "toolyard: 1 replica serves this store: name one with --server or TOOLYARD_URL\n"
    await replica.close()
    assert "no server is running" in (await run(tmp_path, "servers", "list", "--store", store_url)).errors


async def test_a_replica_says_why_it_starts_no_copy_of_a_command_and_that_it_drains(
    store_url: str, tmp_path: Path
) -> None:
    (tmp_path / "toolyard.toml").write_text(COMMAND_SERVER)

    def use_server() -> None:
        with start_server(tmp_path, "--store", store_url, TOOLYARD_DRAIN_S="600") as server:
            assert "postgresql://127.0.0.1:" in server.read_until("  store  ")
            listed = run_toolyard(tmp_path, "servers", "list", "--server", server.url)
            assert 'set replicas = "each", or run it once over HTTP and give its url' in listed.out
            add = ("servers", "add", "more", "--server", server.url)
            refused = run_toolyard(tmp_path, *add, "--", sys.executable, "-c", "pass")
            assert refused.code == 1 and 'set replicas = "each"' in refused.errors
            assert "more" not in run_toolyard(tmp_path, "servers", "list", "--server", server.url).out
            run_toolyard(tmp_path, *add, "--each-replica", "--", sys.executable, "-c", "pass")
            assert "more" in run_toolyard(tmp_path, "servers", "list", "--server", server.url).out
            server.process.send_signal(signal.SIGTERM)
            while request_json(f"{server.url}/readyz", headers={"x-correlation-id": "a-probe"})[0] == 200:
                pass
            assert request_json(f"{server.url}/healthz")[0] == 200  # the line of the probe is written by now
            assert server.stop(signal.SIGINT) == 130
            log = server.errors()
            assert any("[INFO ]" in line and "draining for 600 s" in line for line in log), log
            probes = [line for line in log if "a-probe" in line and "status=503" in line]
            assert probes and all("[INFO ]" in line for line in probes), log
            assert PASSWORD not in "\n".join((*server.output_lines, *log))

    await asyncio.to_thread(use_server)


def forward_to(url: str, port: int) -> AbstractAsyncContextManager[int]:
    """Forward connections to this port to the database, as if it had been started there."""
    target = url.partition("@")[2].partition("/")[0].partition(":")

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
        finally:
            writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        to_reader, to_writer = await asyncio.open_connection(target[0], int(target[2]))
        try:
            await asyncio.gather(pump(reader, to_writer), pump(to_reader, writer), return_exceptions=True)
        finally:
            to_writer.close()

    return serve_connections(serve, port=port)


def move_to_port(url: str, port: int) -> str:
    head, _, tail = url.rpartition("@")
    return f"{head}@127.0.0.1:{port}/{tail.partition('/')[2]}"


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
async def test_a_replica_that_cannot_reach_its_database_waits_for_it_and_is_not_ready_meanwhile(
    postgres_url: str, tmp_path: Path, host: str
) -> None:
    store = await PostgresStore.open(postgres_url)
    await store.save_key(Key(name="ann", hash="of-her-key", user="ann"))
    await store.close()
    with reserve_port() as port, reserve_port() as database_port:
        arguments = ("--port", str(port), "--host", host, "--store", move_to_port(postgres_url, database_port))
        server = ServerProcess(tmp_path, arguments, {})
        try:
            await wait_until(lambda: server.has_logged("the database cannot be reached; the server waits for it"))
            address = f"http://127.0.0.1:{port}"
            status, answer = await asyncio.to_thread(request_json, f"{address}/readyz")
            assert (status, answer["error"], answer["error_type"]) == (
                503,
                "the server is starting and waits for its store: the database cannot be reached",
                "unavailable",
            )
            assert (await asyncio.to_thread(request_json, f"{address}/healthz"))[1]["status"] == "ok"
            early = asyncio.gather(asyncio.to_thread(request_json, f"{address}/openapi.json"))
            async with forward_to(postgres_url, database_port):
                await asyncio.to_thread(server.read_address)
                assert (await early)[0][0] == 200  # it waited instead of being refused
                assert (await asyncio.to_thread(request_json, f"{address}/readyz"))[0] == 200
                assert await asyncio.to_thread(server.stop) == 0
        finally:
            await asyncio.to_thread(server.kill)


async def test_a_replica_waits_for_its_database_with_a_deadline(postgres_url: str, tmp_path: Path) -> None:
    with reserve_port() as database_port:
        url = move_to_port(postgres_url, database_port)
        done = await run(tmp_path, "serve", "--port", "0", "--store", url, TOOLYARD_POSTGRES__START_TIMEOUT_S="3")
    assert done.code == 1 and done.errors.splitlines()[-1].endswith("the database cannot be reached"), done.errors
    assert "waits for it, not ready, for up to 3 s" in done.errors


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("toolyard@", "nobody_here@"), "does not accept this user"),
        (("/test_", "/missing_"), "there is no such database"),
        (("", "?sslmode=require"), "does not offer TLS"),
    ],
)
async def test_a_replica_does_not_wait_for_what_only_a_person_can_mend(
    postgres_url: str, tmp_path: Path, change: tuple[str, str], reason: str
) -> None:
    url = postgres_url.replace(*change) if change[0] else postgres_url + change[1]
    assert url != postgres_url
    done = await run(tmp_path, "serve", "--port", "0", "--store", url)
    assert done.code == 1 and reason in done.errors and done.errors.count("\n") == 1, done.errors


@pytest.fixture
async def source_url(tmp_path: Path) -> str:
    """Return a SQLite store with tokens that are not encrypted."""
    store = await SqliteStore.open(tmp_path / "source.db")
    await claim_epoch(store, "c")
    await store.save_key(Key(name="ops", hash="h", user="ops"))
    for kind in (TOKENS, SIGN_INS):
        await store.set_record(kind, "notes", f'{{"kind":"{kind}"}}'.encode())
    await store.set_record(TOKENS, "sealed", SealedRecords(store, SECRET).seal(TOKENS, "sealed", b"{}"))
    await store.close()
    return f"sqlite:///{tmp_path}/source.db"


async def test_tokens_arrive_encrypted_or_nothing_is_copied(source_url: str, store_url: str, tmp_path: Path) -> None:
    command = ("migrate-store", source_url, store_url)
    refused = await run(tmp_path, *command)
    assert refused.code == 1 and "set TOOLYARD_SECRET to at least 32 characters" in refused.errors
    assert "must have at least 32 characters" in (await run(tmp_path, *command, TOOLYARD_SECRET="short")).errors
    target = await PostgresStore.open(store_url)
    assert not await target.keys() and not await target.list_record_kinds()
    await target.close()
    done = await run(tmp_path, *command, TOOLYARD_SECRET=SECRET)
    assert done.code == 0, done.errors
    assert "3 records to postgresql://127.0.0.1:" in done.out
    target = await PostgresStore.open(store_url)
    records = SealedRecords(target, SECRET)
    for kind in (TOKENS, SIGN_INS):
        assert all(body.startswith(b"sealed1:") for _, body in await target.list_records(kind))
        assert await records.read(kind, "notes") == f'{{"kind":"{kind}"}}'.encode()
    assert await records.read(TOKENS, "sealed") == b"{}"
    await target.close()


async def test_a_copy_uses_the_settings_of_the_configuration(source_url: str, store_url: str, tmp_path: Path) -> None:
    config = tmp_path / "cluster.toml"
    config.write_text('[postgres]\npassword_file = "password"\nlisten_url = "postgresql://127.0.0.1:1/other"\n')
    command = ("migrate-store", source_url, store_url, "--config", str(config))
    refused = await run(tmp_path, *command, TOOLYARD_SECRET=SECRET)
    assert refused.code == 1 and "the password_file of the PostgreSQL store cannot be read" in refused.errors
    (tmp_path / "password").write_text(PASSWORD)
    done = await run(tmp_path, *command, TOOLYARD_SECRET=SECRET)
    assert done.code == 0, done.errors


async def test_a_user_without_rights_is_named(postgres_url: str, tmp_path: Path) -> None:
    role = f"guest_{os.getpid()}"
    assert (await run(tmp_path, "migrate", "--store", postgres_url)).code == 0
    connection = await asyncpg.connect(postgres_url)
    await connection.execute(f"CREATE ROLE {role} LOGIN")
    try:
        done = await run(tmp_path, "keys", "list", "--store", postgres_url.replace("toolyard@", f"{role}@"))
    finally:
        await connection.execute(f"DROP ROLE {role}")
        await connection.close()
    assert done.code == 1 and f"as '{role}' (permission denied for table toolyard_version)" in done.errors
    assert "grant it the rights" in done.errors
