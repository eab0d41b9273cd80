"""Measure how slow a core is, all the time: a core of a shared machine is at times half as fast as a moment before.

Every few milliseconds it does the same work and notes the CPU time. A line on standard input with `since`, a moment of
the monotonic clock, is answered with the mean of the times since then, over the shortest so far. It has to run on the
core in question, and ends when its standard input ends. `python bench/metronome.py`
"""

import json
import select
import sys
from collections import deque
from statistics import mean
from time import perf_counter, process_time

PAUSE_S = 0.01
WARM_UP_S = 1.0
MAX_BEATS = 10_000


def work() -> int:
    """Do what interpreters do all day: calls, attributes, dictionaries."""
    counts: dict[str, int] = {}
    for number in range(1500):
        key = str(number & 63)
        counts[key] = counts.get(key, 0) + len(key)
    return len(counts)


def main() -> None:
    beats = deque[tuple[float, float]](maxlen=MAX_BEATS)
    shortest_s = float("inf")
    started_at = perf_counter()
    while True:
        before_s = process_time()
        work()
        took_s = process_time() - before_s
        beats.append((perf_counter(), took_s))
        if perf_counter() - started_at > WARM_UP_S:
            shortest_s = min(shortest_s, took_s)
        while select.select([sys.stdin], [], [], PAUSE_S)[0]:
            line = sys.stdin.readline()
            if not line:
                return
            since = json.loads(line)["since"]
            times_s = [beat_s for at, beat_s in beats if at >= since] or [beats[-1][1]]
            print(json.dumps({"slowness": mean(times_s) / min(shortest_s, *times_s)}), flush=True)


if __name__ == "__main__":
    main()
