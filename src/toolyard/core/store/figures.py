"""Statistics of runs, tools and models in one step of time. They are added up as runs go on, not counted afterwards.

Durations are counted in classes whose bounds grow by a constant factor: a percentile is at most 5 % off.
"""

from functools import cache
from math import ceil, log

import msgspec
from msgspec import Struct

MAX_NAMES = 200
"""Tools or models that one step counts by name. The others are counted together: applications name their own tools."""
OTHERS = "(others)"
STEPS_S: dict[float, float] = {
    60.0: 4 * 3_600.0,
    300.0: 24 * 3_600.0,
    1_800.0: 6 * 86_400.0,
    10_800.0: 24 * 86_400.0,
    43_200.0: 91 * 86_400.0,
}
"""The lengths of steps in seconds, and how long each is kept: the longest period that is shown in such steps."""
MAX_ERROR = 0.05
_FACTOR = (1 + MAX_ERROR) / (1 - MAX_ERROR)
_LOG_FACTOR = log(_FACTOR)
MIN_MS = 0.01

Times = dict[int, int]
"""How many durations there are in each class."""


class ToolCounts(Struct, omit_defaults=True):
    """The calls of a tool."""

    calls: int = 0
    errors: int = 0
    times: Times = {}
    last_at: float = 0.0
    last_error: str = ""
    last_error_at: float | None = None

    def add(self, other: "ToolCounts") -> None:
        self.add_counts(other)
        add_times(self.times, other.times)

    def add_counts(self, other: "ToolCounts") -> None:
        """Add all but the durations."""
        self.calls += other.calls
        self.errors += other.errors
        self.last_at = max(self.last_at, other.last_at)
        if other.last_error_at is not None and other.last_error_at >= (self.last_error_at or 0.0):
            self.last_error, self.last_error_at = other.last_error, other.last_error_at


class ModelCounts(Struct, omit_defaults=True):
    """The turns of a model."""

    turns: int = 0
    failed: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    times: Times = {}

    def add(self, other: "ModelCounts") -> None:
        self.add_counts(other)
        add_times(self.times, other.times)

    def add_counts(self, other: "ModelCounts") -> None:
        """Add all but the durations."""
        self.turns += other.turns
        self.failed += other.failed
        self.input_tokens += other.input_tokens
        self.output_tokens += other.output_tokens


class StepCounts(Struct, omit_defaults=True):
    """All figures of one step."""

    runs: int = 0
    failed: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    tools: dict[str, ToolCounts] = {}
    models: dict[str, ModelCounts] = {}

    def find_tool(self, name: str) -> ToolCounts:
        if (counts := self.tools.get(name)) is not None:
            return counts
        return self.tools.setdefault(name if len(self.tools) < MAX_NAMES else OTHERS, ToolCounts())

    def find_model(self, name: str) -> ModelCounts:
        if (counts := self.models.get(name)) is not None:
            return counts
        return self.models.setdefault(name if len(self.models) < MAX_NAMES else OTHERS, ModelCounts())

    def add(self, other: "StepCounts") -> None:
        self.runs += other.runs
        self.failed += other.failed
        self.input_tokens += other.input_tokens
        self.output_tokens += other.output_tokens
        for name, tool in other.tools.items():
            self.find_tool(name).add(tool)
        for name, model in other.models.items():
            self.find_model(name).add(model)


_decoder = msgspec.json.Decoder(StepCounts)


def decode_step(body: bytes) -> StepCounts:
    """Return stored figures; none if they are of another version."""
    try:
        return _decoder.decode(body)
    except msgspec.DecodeError:
        return StepCounts()


def merge_steps(stored: bytes | None, body: bytes) -> bytes:
    """Return the sum of the figures that are stored, if any, and of new ones."""
    if stored is None:
        return body
    step = decode_step(stored)
    step.add(decode_step(body))
    return msgspec.json.encode(step)


def add_time(times: Times, ms: float) -> None:
    number = ceil(log(max(ms, MIN_MS)) / _LOG_FACTOR)
    times[number] = times.get(number, 0) + 1


def add_times(times: Times, others: Times) -> None:
    if not times:
        times.update(others)  # far faster, and most sums have one part
        return
    for number, count in others.items():
        times[number] = times.get(number, 0) + count


def compute_percentiles(times: Times, *percents: int) -> list[float] | None:
    """Return the values that these shares of the durations do not exceed, up to MAX_ERROR; None without any.

    The percents come in rising order.
    """
    if not times:
        return None
    if len(times) == 1:
        (number,) = times
        return [_compute_value(number)] * len(percents)
    total, classes = sum(times.values()), iter(sorted(times))
    number, count, values = 0, 0, list[float]()
    for percent in percents:
        rank = ceil(total * percent / 100)
        while count < rank:
            number = next(classes)
            count += times[number]
        values.append(_compute_value(number))
    return values


@cache
def _compute_value(number: int) -> float:
    return 2 * _FACTOR**number / (_FACTOR + 1)


def select_step(period_s: float, points: int) -> float:
    """Return the longest step that shows a period in that many points."""
    return max((step for step in STEPS_S if step <= period_s / points), default=min(STEPS_S))
