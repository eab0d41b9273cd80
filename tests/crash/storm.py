"""Kill the child again and again, let it finish, and check what it did against what its log says.

`python -m crash.storm --storms 50` in the folder of the tests is the long version (`make crash`); the tests run a short
one. With
`--programs` the calls are made by programs (`make program-storm`).
"""

import argparse
import asyncio
import random
import sys
import tempfile
from collections import Counter
from itertools import chain
from pathlib import Path

from forked_python import run_forked
from toolyard.core.conversation.events import CallEnded, CallsRequested, RunEnded
from toolyard.core.conversation.history import find_faults
from toolyard.core.conversation.state import fold
from toolyard.core.items import Call, Result
from toolyard.stores.sqlite import SqliteStore

CHILD = Path(__file__).with_name("yard_child.py")
CONVERSATIONS = [f"conversation-{number}" for number in range(6)]
KILLED = -9
GIVEN_UP = "the server stopped 5 times during this turn"


def storm(
    folder: Path, seed: int, *, kills: int = 12, falsely_idempotent: bool = False, programs: bool = False
) -> tuple[int, list[str]]:
    """How many processes were killed, and everything that is wrong afterwards."""
    chance, killed = random.Random(seed), 0
    database, effects = folder / "yard.db", folder / "effects"
    while True:
        kill_at = chance.randint(1, 6 if falsely_idempotent else 60) if killed < kills else 0
        words = [
            str(CHILD),
            str(database),
            str(effects),
            str(kill_at),
            *(["lie"] if falsely_idempotent else []),
            *(["programs"] if programs else []),
        ]
        code = run_forked(words, timeout_s=90)
        if code == KILLED:
            killed += 1
        elif code == 0:
            return killed, find_violations(effects, asyncio.run(read_logs(database)))
        else:
            return killed, [f"the child failed with {code}"]


Logs = dict[str, tuple[list[Call], list[Result], list[str]]]


async def read_logs(database: Path) -> Logs:
    """Of each conversation: its calls and those of programs, all results, and what is wrong with how it ended."""
    store = await SqliteStore.open(database)
    logs_by_conversation: Logs = {}
    for conversation in CONVERSATIONS:
        entries = await store.read(conversation)
        history = fold(entries).history
        endings = [entry.event for entry in entries if isinstance(entry.event, RunEnded)]
        sound = len(endings) == 1 and (endings[0].ending == "done" or GIVEN_UP in endings[0].detail)
        wrong = find_faults(history) + ([] if sound else [f"it ended as {endings}"])
        results = [entry.event.result for entry in entries if isinstance(entry.event, CallEnded)]
        requested = [entry.event.calls for entry in entries if isinstance(entry.event, CallsRequested)]
        calls = [item for item in (*history, *chain(*requested)) if isinstance(item, Call)]
        logs_by_conversation[conversation] = (calls, results, wrong)
    await store.close()
    return logs_by_conversation


def find_violations(effects: Path, logs_by_conversation: Logs) -> list[str]:
    """What must never be: a lost run, a second effect, a call that ran again after its result was stored."""
    start_counts, ended_keys, again = Counter[str](), set[str](), list[str]()
    for line in effects.read_text().splitlines():
        word, key = line.split()
        if word == "TOOL":
            start_counts[key] += 1
            again += [f"{key} ran again after its result was stored"] if key in ended_keys else []
        elif word == "ENDED":
            ended_keys.add(key)
    wrong = again
    for conversation, (calls, results, others) in logs_by_conversation.items():
        wrong += [f"{conversation}: {other}" for other in others]
        if sorted(call.id for call in calls) != sorted(result.call_id for result in results):
            wrong.append(f"{conversation}: {len(calls)} calls and {len(results)} results")
        for result in results:
            key = f"{conversation}:{result.call_id}"
            if result.tool in ("charge", "confirm") and start_counts[key] > 1:
                wrong.append(f"{key} took effect {start_counts[key]} times")
            if result.outcome == "ok" and result.tool not in ("tap", "run_code") and not start_counts[key]:
                wrong.append(f"{key} is ok but never ran")
            if result.outcome not in ("ok", "unknown"):
                wrong.append(f"{key} ended as {result.outcome}")
    return wrong


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--storms", type=int, default=50, help="how many databases to go through")
    options.add_argument("--kills", type=int, default=20, help="how many kills for each")
    options.add_argument("--programs", action="store_true", help="make the calls by programs")
    chosen = options.parse_args()
    failures = 0
    for seed in range(chosen.storms):
        with tempfile.TemporaryDirectory() as folder:
            killed, wrong = storm(Path(folder), seed, kills=chosen.kills, programs=chosen.programs)
        failures += bool(wrong)
        print(
            f"storm {seed + 1}/{chosen.storms}: {killed} kills, {'; '.join(wrong) or 'nothing lost, nothing doubled'}"
        )
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
