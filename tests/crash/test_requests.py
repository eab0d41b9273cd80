"""Kill -9 right after every commit, then the same requests again: rewinds, forks and runs happen once."""

import asyncio
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from toolyard.core.conversation.state import fold
from toolyard.core.store import CatalogQuery
from toolyard.events import CallEnded, Entry, HistoryRewound, MessageAdded, RunQueued
from toolyard.stores.sqlite import SqliteStore

CHILD = Path(__file__).with_name("request_child.py")
KILLED = -9


class Clients:
    """Processes that send the requests, one after the other."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, folder: Path, kill_at: int, *, has_new_keys: bool = False) -> int:
        """Run a process, and return how it ended. It has a deadline of its own."""
        order = [str(folder / "yard.db"), str(folder / "effects"), kill_at, has_new_keys]
        assert self._process.stdin and self._process.stdout
        print(json.dumps(order), file=self._process.stdin, flush=True)
        return int(self._process.stdout.readline())


@pytest.fixture
def clients() -> Iterator[Clients]:
    command = [sys.executable, str(CHILD)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield Clients(process)


async def read_logs(database: Path) -> dict[str, list[Entry]]:
    store = await SqliteStore.open(database)
    cards = await store.cards(CatalogQuery(tenant="", unlisted=True))
    logs = {card.id: list(await store.read(card.id)) for card in cards}
    await store.close()
    return logs


def count_events(log: list[Entry], kind: type[object]) -> int:
    return sum(isinstance(entry.event, kind) for entry in log)


def find_violations(folder: Path) -> list[str]:
    """Return what must never be: something done twice, or something that is missing."""
    logs = asyncio.run(read_logs(folder / "yard.db"))
    states = {conversation: fold(log) for conversation, log in logs.items()}
    lines = (folder / "effects").read_text().splitlines()
    wrong = [f"{line} took effect {times} times" for line, times in Counter(lines).items() if times > 1]
    wrong += [f"{state.run} is still open" for state in states.values() if not state.is_idle]
    forks = [state for state in states.values() if state.origin]
    runs = sum(count_events(log, RunQueued) for log in logs.values())
    counts = {"conversations": len(logs), "forks": len(forks), "runs": runs}
    main = next(conversation for conversation, log in logs.items() if count_events(log, HistoryRewound))
    counts |= {
        "rewinds": count_events(logs[main], HistoryRewound),
        "branches": len(states[main].branches),
        "notes": count_events(logs[main], MessageAdded),
        "copies": len(forks[0].full_history) if forks else 0,
    }
    expected = {"conversations": 4, "forks": 1, "runs": 5, "rewinds": 1, "branches": 1, "notes": 1, "copies": 8}
    wrong += [f"{name}: {counts[name]}, not {number}" for name, number in expected.items() if counts[name] != number]
    happened = Counter(line.split()[1] for line in lines)
    for conversation, log in logs.items():
        results = [entry.event.result for entry in log if isinstance(entry.event, CallEnded)]
        for result in results:
            times = happened[f"{conversation}:{result.call_id}"]
            if result.outcome not in ("ok", "unknown") or (result.outcome == "ok" and times != 1):
                wrong.append(f"{result.call_id} ended as {result.outcome} and took effect {times} times")
    return wrong


@pytest.mark.parametrize("first", [1, 2])
def test_requests_that_are_sent_again_after_a_kill_at_any_commit_happen_once(
    tmp_path: Path, first: int, clients: Clients
) -> None:
    kill_at, kills = first, 0
    while True:
        folder = tmp_path / str(kill_at)
        folder.mkdir()
        code = clients.run(folder, kill_at)
        if code == KILLED:
            kills += 1
            code = clients.run(folder, 0)
        assert code == 0, f"the child failed after a kill at commit {kill_at}"
        assert find_violations(folder) == [], f"after a kill at commit {kill_at}"
        if kills < (kill_at - first) // 2 + 1:
            break  # it had fewer commits than that: every one was tried
        kill_at += 2
    assert kills >= 8


def test_the_check_can_fail_requests_with_new_keys_happen_twice(tmp_path: Path, clients: Clients) -> None:
    assert clients.run(tmp_path, 8, has_new_keys=True) == KILLED
    assert clients.run(tmp_path, 0, has_new_keys=True) == 0
    assert any("runs: " in fault or "conversations: " in fault for fault in find_violations(tmp_path))
