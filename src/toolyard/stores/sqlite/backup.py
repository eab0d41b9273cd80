"""Copies of a SQLite file, by SQLite's online backup: also of a file that a server is using."""

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

PAGES_PER_STEP = 1000
ReportPages = Callable[[int, int], None]
"""Called with how many pages are copied, and how many there are."""


def copy_file(source: Path, target: Path, report: ReportPages = lambda done, total: None) -> None:
    """Copy the store at `source` as it is now to `target`, which is replaced once the copy is complete.

    A server may go on writing to the source. Raises sqlite3.Error or OSError.
    """
    partial = target.with_name(f"{target.name}.partial")
    partial.unlink(missing_ok=True)
    os.close(os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))  # a store holds hashes of keys, and tokens
    try:
        with (
            closing(sqlite3.connect(f"{source.resolve().as_uri()}?mode=ro", uri=True, isolation_level=None)) as reading,
            closing(sqlite3.connect(partial)) as writing,
        ):
            # With a transaction that stays open, all steps read the same state. Without it, SQLite would begin anew
            # after each write of the server.
            reading.execute("BEGIN")
            reading.execute("SELECT count(*) FROM sqlite_master").fetchone()
            reading.backup(
                writing,
                pages=PAGES_PER_STEP,
                progress=lambda status, remaining, total: report(total - remaining, total),
            )
        with partial.open("rb") as written:
            os.fsync(written.fileno())
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
