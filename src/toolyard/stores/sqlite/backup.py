"""Copies of a SQLite file, by SQLite's online backup: also of a file that a server is using."""

import os
import sqlite3
import tempfile
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
    # A name that no other copy uses. Only the owner may read the file: a store holds hashes of keys, and tokens.
    descriptor, name = tempfile.mkstemp(prefix=f"{target.name}.", suffix=".partial", dir=target.parent)
    os.close(descriptor)
    partial = Path(name)
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
