"""A copy of a store in use is the store of one moment, and appears only when it is complete."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from stores.sqlite.opening import open_store
from toolyard.stores.sqlite.backup import PAGES_PER_STEP, copy_file

BLOB_BYTES = 4_000_000
"""So large that the copy takes a second step."""


async def test_a_copy_in_many_steps_is_of_one_moment_although_the_owner_goes_on_writing(tmp_path: Path) -> None:
    path, copy = tmp_path / "store.db", tmp_path / "copy.db"
    async with open_store(path) as store:
        for number in range(3):
            await store.put_blob("c", f"blob_{number}", bytes(BLOB_BYTES))
        await store.set_record("kind", "name", b"before")
        steps: list[tuple[int, int]] = []
        with closing(sqlite3.connect(path, isolation_level=None)) as writing:

            def report(done: int, total: int) -> None:
                assert not copy.exists()
                steps.append((done, total))
                writing.execute("UPDATE shelf SET body = x'00' WHERE kind = 'kind'")
                writing.execute("INSERT INTO blobs VALUES ('c', ?, zeroblob(5000000))", (f"late_{len(steps)}",))

            copy_file(path, copy, report)
        assert await store.list_records("kind") == [("name", b"\x00")]
    assert len(steps) > 1 and len({total for _, total in steps}) == 1
    assert [done for done, _ in steps[:-1]] == [PAGES_PER_STEP * step for step in range(1, len(steps))]
    assert steps[-1][0] == steps[-1][1]
    async with open_store(copy) as store:
        assert await store.list_records("kind") == [("name", b"before")]
        assert sorted(await store.list_blob_handles("c")) == ["blob_0", "blob_1", "blob_2"]
    assert copy.stat().st_mode & 0o077 == 0


def test_a_copy_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    path, copy = tmp_path / "store.db", tmp_path / "copy.db"
    path.write_bytes(b"not a database, but long enough to be read as one" * 100)
    copy.write_bytes(b"an earlier copy")
    with pytest.raises(sqlite3.DatabaseError):
        copy_file(path, copy)
    assert copy.read_bytes() == b"an earlier copy"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["copy.db", "store.db"]


async def test_two_copies_to_the_same_place_at_once_do_not_touch_each_other(tmp_path: Path) -> None:
    path, copy = tmp_path / "store.db", tmp_path / "copy.db"
    async with open_store(path) as store:
        await store.put_blob("c", "blob", bytes(BLOB_BYTES * 2))
        unfinished: list[Path] = []

        def copy_again(done: int, total: int) -> None:
            if not unfinished:
                unfinished.extend(tmp_path.glob("copy.db.*.partial"))
                copy_file(path, copy)

        copy_file(path, copy, copy_again)
    assert len(unfinished) == 1 and not unfinished[0].exists()
    assert sorted(file.name for file in tmp_path.glob("copy.db*")) == ["copy.db"]
    async with open_store(copy) as store:
        assert await store.list_blob_handles("c") == ["blob"]
