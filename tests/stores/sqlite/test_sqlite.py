"""What the SQLite store does beyond the contract: files, crashes, other processes and disks that fail."""

import asyncio
import gc
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from stores.appender import BATCH, CONVERSATION
from stores.sqlite.opening import open_store
from support import append_entries, claim_epoch
from toolyard.core.conversation.events import Entry, StopRequested
from toolyard.core.errors import Fenced, Misconfigured, StoreDown
from toolyard.core.store import Append
from toolyard.stores.sqlite import SqliteStore
from toolyard.stores.sqlite.schema import SCHEMA_VERSION

APPENDER = Path(__file__).parents[1] / "appender.py"
NOBODY = 65534


def make_entries(first: int, count: int = 1, by: str = "ana") -> list[Entry]:
    return [
        Entry(conversation="c", seq=seq, at=float(seq), event=StopRequested(by=by))
        for seq in range(first, first + count)
    ]


@pytest.fixture(autouse=True)
async def complaints() -> AsyncGenerator[list[dict[str, object]], None]:
    """Treat as an error what the event loop complains about."""
    complaints: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, complaint: complaints.append(complaint))
    yield complaints
    await asyncio.sleep(0)  # callbacks that are due have their turn
    gc.collect()  # an error that nobody asked for complains when it is collected
    assert complaints == []


async def write_three_entries(store: SqliteStore) -> None:
    epoch = await claim_epoch(store, "c")
    await append_entries(store, "c", epoch, make_entries(1, 3), 5.0)
    await store.put_blob("c", "blob_1", str(epoch).encode())


async def get_refusal(error: type[Exception], path: Path) -> str:
    """Why the path cannot be opened; the message names the file."""
    with pytest.raises(error, match=str(path)) as caught:
        async with open_store(path):
            pass
    return str(caught.value)


@pytest.fixture
async def store_path(tmp_path: Path) -> Path:
    path = tmp_path / "store.db"
    async with open_store(path) as store:
        await write_three_entries(store)
    return path


async def assert_all_there(store: SqliteStore) -> None:
    assert list(await store.read("c")) == make_entries(1, 3)
    assert await store.find_due(5.0, 10) == (["c"], None)
    epoch = await store.get_blob("c", "blob_1")
    assert epoch is not None and await claim_epoch(store, "c") == int(epoch) + 1


async def test_everything_outlives_a_close(store_path: Path) -> None:
    async with open_store(store_path) as store:
        await assert_all_there(store)


async def test_a_new_file_is_made_with_its_directories_and_is_private(tmp_path: Path) -> None:
    path = tmp_path / "new" / "deep" / "store.db"

    async with open_store(path) as store:
        await write_three_entries(store)
        modes = {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir()}
    assert modes == dict.fromkeys(("store.db", "store.db-wal", "store.db-shm", "store.db.lock"), 0o600)


def test_a_close_leaves_one_file_and_no_thread(store_path: Path) -> None:
    assert not Path(f"{store_path}-wal").exists()
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("toolyard")]


async def test_it_can_be_opened_again_at_once_in_the_same_process(store_path: Path) -> None:
    for _ in range(5):
        store = await SqliteStore.open(store_path)
        await claim_epoch(store, "other")
        await store.close()


async def test_a_second_store_of_this_process_is_refused_under_any_name(store_path: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(store_path)
    async with open_store(store_path) as store:
        for path in (store_path, link):
            with pytest.raises(Misconfigured, match="is in use by this process"):
                await SqliteStore.open(path)
        await assert_all_there(store)


async def test_a_file_with_two_names_is_refused_under_each_until_one_is_removed(
    store_path: Path, tmp_path: Path
) -> None:
    link = tmp_path / "hard.db"
    async with open_store(store_path) as store:
        os.link(store_path, link)
        # Each name has a lock file and a write-ahead log of its own.
        with pytest.raises(Misconfigured, match="has 2 names"):
            await SqliteStore.open(link)
        assert len(await store.read("c")) == 3
    for path in (store_path, link):
        with pytest.raises(Misconfigured, match="copy the file instead of linking it"):
            await SqliteStore.open(path)
    link.unlink()
    async with open_store(store_path) as store:
        await assert_all_there(store)


async def test_a_second_process_is_refused_and_told_who_owns_the_file(store_path: Path) -> None:
    async with open_store(store_path) as store:
        command = [sys.executable, str(APPENDER), str(store_path)]
        process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        out, err = await process.communicate()
        assert process.returncode == 1
        assert out == b""
        assert f"Misconfigured: {store_path} is in use by process {os.getpid()}" in err.decode()
        assert "name another file with `store`, at the command line with --store" in err.decode()
        await assert_all_there(store)


async def test_a_lock_file_without_an_owner_does_not_matter(store_path: Path) -> None:
    Path(f"{store_path}.lock").write_text("1\n")
    async with open_store(store_path) as store:
        await assert_all_there(store)


def find_crash_faults(reported_seqs: list[int], stored_seqs: list[int]) -> list[str]:
    """Name what a crash has broken, given what was reported as committed and what was found afterwards."""
    wrong: list[str] = []
    if stored_seqs != list(range(1, len(stored_seqs) + 1)):
        wrong.append("gap")
    if reported_seqs and reported_seqs[-1] > len(stored_seqs):
        wrong.append("lost")
    if len(stored_seqs) % BATCH:
        wrong.append("torn")
    return wrong


def test_the_crash_check_finds_what_is_lost_torn_or_missing() -> None:
    assert find_crash_faults([3, 6], [1, 2, 3, 4, 5, 6, 7, 8, 9]) == []
    assert find_crash_faults([3, 6], [1, 2, 3]) == ["lost"]
    assert find_crash_faults([3], [1, 2, 3, 4]) == ["torn"]
    assert find_crash_faults([3], [1, 3, 4]) == ["gap"]


async def test_what_was_told_committed_outlives_a_kill_at_any_moment(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    for lines in (1, 2, 9, 50, 3, 400, 1):
        command = [sys.executable, str(APPENDER), str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            output_lines = [process.stdout.readline() for _ in range(lines)]
            process.kill()
            output_lines += process.stdout.readlines()
        reported_seqs = [int(line) for line in output_lines if line.endswith("\n")]
        assert len(reported_seqs) >= lines
        async with open_store(path) as store:
            stored_seqs = [entry.seq for entry in await store.read(CONVERSATION)]
        assert find_crash_faults(reported_seqs, stored_seqs) == []


async def test_an_append_whose_waiter_is_cancelled_is_still_committed(tmp_path: Path) -> None:
    async with open_store(tmp_path / "store.db") as store:
        epoch = await claim_epoch(store, "c")
        task = asyncio.ensure_future(append_entries(store, "c", epoch, make_entries(1, 3), None))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await append_entries(store, "c", epoch, make_entries(4), None)
        assert list(await store.read("c")) == make_entries(1, 4)


async def test_a_close_commits_what_was_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with open_store(path) as store:
        epoch = await claim_epoch(store, "c")
        async with asyncio.TaskGroup() as tasks:
            for first in range(1, 40):
                tasks.create_task(append_entries(store, "c", epoch, make_entries(first), None))
            await asyncio.sleep(0)
            await store.close()
    async with open_store(path) as store:
        assert list(await store.read("c")) == make_entries(1, 39)


async def test_appends_that_come_together_share_commits_and_a_fenced_one_hurts_no_other(tmp_path: Path) -> None:
    async with open_store(tmp_path / "store.db") as store:
        names = [f"c{number}" for number in range(200)]
        epochs = await asyncio.gather(*(claim_epoch(store, name) for name in names))
        before = store.commits
        outcomes = await asyncio.gather(
            *(
                append_entries(store, name, epoch - number % 2, make_entries(1), None)
                for number, (name, epoch) in enumerate(zip(names, epochs, strict=True))
            ),
            return_exceptions=True,
        )
        assert 0 < store.commits - before < 20
        assert [type(outcome) for outcome in outcomes] == [type(None), Fenced] * 100
        assert [len(await store.read(name)) for name in names] == [1, 0] * 100


async def test_a_new_conversation_is_written_with_its_first_entries_only(tmp_path: Path) -> None:
    async with open_store(tmp_path / "store.db") as store:
        before = store.commits
        claims = [await store.claim_new(name) for name in ("c", "taken", "deleted", "torn")]
        assert store.commits == before
        await append_entries(store, "taken", await claim_epoch(store, "taken"), make_entries(1), None)
        await append_entries(store, "deleted", await claim_epoch(store, "deleted"), make_entries(1), None)
        await store.delete_conversation("deleted")
        first = {"c": 1, "taken": 1, "deleted": 1, "torn": 2}
        outcomes = await asyncio.gather(
            *(
                store.append(
                    Append(
                        conversation=claim.conversation,
                        epoch=claim.epoch,
                        entries=make_entries(first[claim.conversation]),
                        opens=claim.is_unwritten,
                    )
                )
                for claim in claims
            ),
            return_exceptions=True,
        )
        assert [type(outcome) for outcome in outcomes] == [bool, Fenced, Fenced, Fenced]
        assert [len(await store.read(name)) for name in first] == [1, 1, 0, 0]
        assert store.commits == before + 6


async def test_a_file_of_a_newer_version_is_refused(store_path: Path) -> None:
    with closing(sqlite3.connect(store_path)) as connection:
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    assert "use a newer one" in await get_refusal(Misconfigured, store_path)


async def test_a_database_of_another_program_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "photos.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE photos (id)")
    before = path.read_bytes()
    assert "give another path" in await get_refusal(Misconfigured, path)
    assert path.read_bytes() == before


async def test_an_unknown_setting_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="NORMAL or FULL"):
        (await SqliteStore.open(tmp_path / "store.db", synchronous="OFF"))  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("content", [b"hello", b"not a database. " * 1000], ids=["short", "long"])
async def test_a_file_that_is_no_database_is_refused_and_left_alone(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    assert "left as it is" in await get_refusal(StoreDown, path)
    assert path.read_bytes() == content


async def test_a_corrupt_file_is_down_with_advice_and_its_good_parts_stay_readable(store_path: Path) -> None:
    page = 4096
    with closing(sqlite3.connect(store_path)) as connection:
        (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'blobs'").fetchone()
    with store_path.open("r+b") as file:
        file.seek((root - 1) * page)
        file.write(b"\xff" * page)
    async with open_store(store_path) as store:
        with pytest.raises(StoreDown, match=f"{store_path}.*malformed.*restore a copy"):
            await store.put_blob("c", "blob_2", b"more")
        with pytest.raises(StoreDown, match="restore a copy"):
            await store.get_blob("c", "blob_1")
        assert list(await store.read("c")) == make_entries(1, 3)
        await append_entries(store, "c", await claim_epoch(store, "c"), make_entries(4), None)


async def test_an_entry_that_cannot_be_decoded_is_down_not_skipped(store_path: Path) -> None:
    with closing(sqlite3.connect(store_path)) as connection, connection:
        connection.execute(
            "UPDATE batches SET entries = CAST(replace(entries, 'stop.requested', 'stop.dreamt') AS BLOB)"
        )
    async with open_store(store_path) as store:
        with pytest.raises(StoreDown, match=f"{store_path}: it holds an entry that cannot be read.*stop.dreamt"):
            await store.read("c")


async def test_a_path_that_cannot_be_a_file_is_down_with_advice(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "directory").mkdir()
    for path in (tmp_path / "directory", tmp_path / "file" / "store.db", Path("/proc/store.db")):
        assert "Give a path to a file that this user may read and write" in await get_refusal(StoreDown, path)


@contextmanager
def without_privileges() -> Generator[None]:
    """As a user whom file permissions bind: root is made `nobody` for a while."""
    user = os.geteuid()
    os.seteuid(NOBODY if user == 0 else user)
    try:
        yield
    finally:
        os.seteuid(user)


@pytest.fixture
def open_directory() -> Generator[Path]:
    """A directory that `nobody` can reach, which pytest's own cannot be."""
    directory = Path(tempfile.mkdtemp(prefix="toolyard-"))
    directory.chmod(0o755)
    yield directory
    directory.chmod(0o755)
    shutil.rmtree(directory)


async def test_a_read_only_file_or_directory_is_down_with_advice(open_directory: Path) -> None:
    path = open_directory / "store.db"
    async with open_store(path) as store:
        await write_three_entries(store)
    path.chmod(0o444)
    Path(f"{path}.lock").chmod(0o666)
    with without_privileges():
        assert "Permission denied. Give a path to a file that this user may" in await get_refusal(StoreDown, path)
    path.chmod(0o666)
    open_directory.chmod(0o555)
    with without_privileges():
        assert "writable" in await get_refusal(StoreDown, path)
        assert "Permission denied" in await get_refusal(StoreDown, open_directory / "new.db")
        assert "Permission denied" in await get_refusal(StoreDown, open_directory / "new" / "store.db")
    async with open_store(path) as store:
        await assert_all_there(store)


@contextmanager
def limit_file_size(size: int) -> Generator[None]:
    """A disk that takes no more: the system refuses to write past this size."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_a_disk_that_takes_no_more_loses_nothing_and_work_goes_on_when_it_does(store_path: Path) -> None:
    async with open_store(store_path) as store:
        epoch = await claim_epoch(store, "c")
        with limit_file_size(64 * 1024):
            await append_entries(store, "c", epoch, make_entries(4), None)
            with pytest.raises(StoreDown, match=f"{store_path}: .*Check that the disk works, has space"):
                await append_entries(store, "c", epoch, make_entries(5, by="x" * 200_000), 9.0)
            assert list(await store.read("c")) == make_entries(1, 4)
            assert await store.find_due(9.0, 10) == ([], None)
        await append_entries(store, "c", epoch, make_entries(5, by="x" * 200_000), None)
    async with open_store(store_path) as store:
        assert list(await store.read("c")) == [*make_entries(1, 4), *make_entries(5, by="x" * 200_000)]


async def test_a_store_can_be_closed_while_the_disk_takes_no_more(store_path: Path) -> None:
    async with open_store(store_path) as store:
        await append_entries(store, "c", await claim_epoch(store, "c"), make_entries(4, by="x" * 200_000), None)
        with limit_file_size(32 * 1024):
            await store.close()
    async with open_store(store_path) as store:
        assert len(await store.read("c")) == 4
