"""A process that is killed while a summary is made loses nothing but the summary, which the next one makes again."""

from pathlib import Path

from forked_python import run_forked
from toolyard.core.conversation.events import Entry, HistoryCompacted, RunEnded
from toolyard.core.conversation.state import fold
from toolyard.stores.sqlite import SqliteStore

CHILD = Path(__file__).with_name("long_child.py")
KILLED = -9


def run(database: Path, *, deadly: bool) -> int:
    return run_forked([str(CHILD), str(database), str(int(deadly))], timeout_s=60)


async def entries(database: Path) -> list[Entry]:
    store = await SqliteStore.open(database)
    try:
        return list(await store.read("c"))
    finally:
        await store.close()


async def test_a_summary_that_kill_9_cut_off_is_made_again(tmp_path: Path) -> None:
    database = tmp_path / "yard.db"
    for _ in range(3):
        assert run(database, deadly=True) == KILLED
    before = await entries(database)
    assert not any(isinstance(entry.event, HistoryCompacted) for entry in before)
    assert run(database, deadly=False) == 0
    log = await entries(database)
    assert log[: len(before)] == before
    assert [entry.event.summarised for entry in log if isinstance(entry.event, HistoryCompacted)] == [True]
    assert [entry.event.ending for entry in log if isinstance(entry.event, RunEnded)] == ["done"] * 4
    state = fold(log)
    assert state.full_history.messages == 8 and state.history.messages < 8
