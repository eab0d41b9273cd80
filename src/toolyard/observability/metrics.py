"""Counts and latencies of stored entries, in Prometheus' text format.

Labels are bounded: all tools that this server does not have share one label, whatever name was called.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from msgspec import Struct

from toolyard.core.conversation.events import (
    CallEnded,
    Entry,
    HistoryCompacted,
    RunEnded,
    RunStarted,
    TurnEnded,
    TurnFailed,
    TurnStarted,
)
from toolyard.core.conversation.state import State
from toolyard.core.failed_results import UNKNOWN_TOOL, is_unknown_tool
from toolyard.core.items import Result, Usage
from toolyard.core.masking import mask_model
from toolyard.core.settings.prices import MICROS, Cost
from toolyard.core.store.figures import OTHERS
from toolyard.observability.telemetry import Handlers, bind

CONTENT_TYPE = "text/plain; version=0.0.4"
PROVIDER = "(provider)"
BOUNDS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
MAX_TURNS = 100_000
"""Beyond this number of open turns their start times are dropped: some end in another process, never here."""

MAX_SPENT_LABELS = 1_000
"""Pairs of a model and a tenant that are counted apart. The others are counted together."""

Labels = Mapping[str, str]


class Load(Struct, frozen=True, kw_only=True):
    """The current load of the server."""

    running: int
    waiting: int
    queued: int
    open_streams: int


class Histogram:
    """A histogram with the buckets of BOUNDS_S."""

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_S) + 1)
        self.sum_s = 0.0

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(BOUNDS_S, seconds)] += 1
        self.sum_s += seconds


@dataclass(slots=True)
class _Spent:
    """What a model was used and has cost for one tenant."""

    usage: Usage = field(default_factory=Usage)
    micros: Counter[str] = field(default_factory=Counter[str])
    """By currency."""
    unpriced: int = 0

    def list_tokens(self) -> Iterable[tuple[str, int]]:
        usage = self.usage
        yield "cache_write", usage.cache_writes_5m + usage.cache_writes_1h
        yield from (("cached", usage.cached_tokens), ("input", usage.input_tokens), ("output", usage.output_tokens))
        yield "reasoning", usage.reasoning_tokens


class Metrics:
    """An observer that counts stored entries."""

    def __init__(
        self, is_tool: Callable[[str], bool], find_state: Callable[[str], State | None] = lambda _: None
    ) -> None:
        """`find_state` returns the state of a conversation that this process drives."""
        self._is_tool = is_tool
        self._find_state = find_state
        self._models: dict[str, str] = {}
        """The model of each open run."""
        self._spent: dict[tuple[str, str], _Spent] = {}
        """By model and tenant."""
        self._unauthenticated = 0
        self._runs: Counter[str] = Counter()
        self._turns: Counter[str] = Counter()
        self._calls: Counter[tuple[str, str]] = Counter()
        self._turn_s = Histogram()
        self._call_s: dict[str, Histogram] = {}
        self._began: dict[str, float] = {}
        """The start time of the open turn, by run."""
        self.handlers: Handlers = {
            **bind(RunStarted, self._start_run),
            **bind(TurnStarted, self._start_turn),
            **bind(TurnEnded, self._end_turn),
            **bind(TurnFailed, self._fail_turn),
            **bind(HistoryCompacted, self._count_summary),
            **bind(CallEnded, self._end_call),
            **bind(RunEnded, self._end_run),
        }

    def count_unauthenticated(self) -> None:
        """Count a request without a valid key or token: nobody whom the audit log could name."""
        self._unauthenticated += 1

    def _start_run(self, entry: Entry, event: RunStarted) -> None:
        if len(self._models) >= MAX_TURNS:
            self._models.clear()
        self._models[entry.run] = event.model

    def _count_spending(self, entry: Entry, model: str, usage: Usage, cost: Cost | None) -> None:
        state = self._find_state(entry.conversation)
        tenant = state.owner.tenant if state is not None and state.owner is not None else ""
        key = mask_model(model or self._models.get(entry.run, "")), tenant
        spent = self._spent.get(key)
        if spent is None:
            key = key if len(self._spent) < MAX_SPENT_LABELS else (OTHERS, OTHERS)
            spent = self._spent.setdefault(key, _Spent())
        spent.usage = spent.usage.plus(usage)
        if cost is None:
            spent.unpriced += 1
        else:
            spent.micros[cost.currency] += cost.micros

    def _start_turn(self, entry: Entry, _: TurnStarted) -> None:
        if len(self._began) >= MAX_TURNS:
            self._began.clear()
        self._began[entry.run] = entry.at

    def _end_turn(self, entry: Entry, event: TurnEnded) -> None:
        self._count_turn(entry, event.finish)
        self._count_spending(entry, event.fallback, event.usage, event.cost)
        for item in event.items:
            if isinstance(item, Result):
                self._calls[PROVIDER, item.outcome] += 1

    def _fail_turn(self, entry: Entry, event: TurnFailed) -> None:
        self._count_turn(entry, "failed")
        if event.cost is not None:
            self._count_spending(entry, "", Usage(), event.cost)

    def _count_summary(self, entry: Entry, event: HistoryCompacted) -> None:
        if event.usage.total or event.cost is not None:
            self._count_spending(entry, "", event.usage, event.cost)

    def _end_run(self, entry: Entry, event: RunEnded) -> None:
        if event.cost is not None:
            self._count_spending(entry, "", Usage(), event.cost)
        self._models.pop(event.run_id or entry.run, None)
        self._runs[event.ending] += 1

    def _count_turn(self, entry: Entry, finish: str) -> None:
        self._turns[finish] += 1
        began = self._began.pop(entry.run, None)
        if began is not None:
            self._turn_s.observe(max(0.0, entry.at - began))

    def _end_call(self, _: Entry, event: CallEnded) -> None:
        result = event.result
        tool = result.tool
        # A label that exists needs no second look.
        is_known = (tool, result.outcome) in self._calls or self._is_tool(tool)
        if not is_known or is_unknown_tool(result.error, result.duration_ms):
            tool = UNKNOWN_TOOL
        self._calls[tool, result.outcome] += 1
        if result.duration_ms:  # the call ran here: the time that an application takes is not our latency
            histogram = self._call_s.get(tool)
            if histogram is None:
                histogram = self._call_s[tool] = Histogram()
            histogram.observe(result.duration_ms / 1000)

    def render(self, load: Load) -> str:
        return "\n".join(
            (*self._render_counters(), *self._render_spending(), *self._render_histograms(), *_render_gauges(load), "")
        )

    def _render_counters(self) -> Iterator[str]:
        name = "toolyard_unauthenticated_requests_total"
        yield from _render_head(name, "counter", "Requests without a valid key or token.")
        yield _render_line(name, {}, self._unauthenticated)
        yield from _render_head("toolyard_runs_total", "counter", "Runs that ended, by their ending.")
        for ending, n in sorted(self._runs.items()):
            yield _render_line("toolyard_runs_total", {"ending": ending}, n)
        yield from _render_head("toolyard_turns_total", "counter", "Model turns that ended, by how they finished.")
        for finish, n in sorted(self._turns.items()):
            yield _render_line("toolyard_turns_total", {"finish": finish}, n)
        yield from _render_head("toolyard_calls_total", "counter", "Tool calls that ended, by tool and outcome.")
        for (tool, outcome), n in sorted(self._calls.items()):
            yield _render_line("toolyard_calls_total", {"tool": tool, "outcome": outcome}, n)
        yield from _render_head("toolyard_tokens_total", "counter", "Tokens as the providers counted them.")
        tokens: Counter[str] = Counter()
        for spent in self._spent.values():
            tokens.update(dict(spent.list_tokens()))
        for kind in ("cached", "input", "output"):
            yield _render_line("toolyard_tokens_total", {"kind": kind}, tokens[kind])

    def _render_spending(self) -> Iterator[str]:
        ordered = sorted(self._spent.items(), key=lambda item: item[0])
        spending = [({"model": model, "tenant": tenant}, spent) for (model, tenant), spent in ordered]
        name = "toolyard_model_tokens_total"
        yield from _render_head(name, "counter", "Tokens by model and tenant; cached and cache_write are also input.")
        for labels, spent in spending:
            for kind, n in spent.list_tokens():
                yield _render_line(name, {**labels, "kind": kind}, n)
        name = "toolyard_model_cost_total"
        yield from _render_head(name, "counter", "Costs by model and tenant, in units of the currency.")
        for labels, spent in spending:
            for currency, micros in sorted(spent.micros.items()):
                yield _render_line(name, {**labels, "currency": currency}, micros / MICROS)
        name = "toolyard_unpriced_turns_total"
        yield from _render_head(name, "counter", "Turns whose cost is unknown, by model and tenant.")
        for labels, spent in spending:
            yield _render_line(name, labels, spent.unpriced)

    def _render_histograms(self) -> Iterator[str]:
        yield from _render_head("toolyard_turn_seconds", "histogram", "How long model turns took.")
        yield from _render_histogram("toolyard_turn_seconds", {}, self._turn_s)
        yield from _render_head("toolyard_call_seconds", "histogram", "How long tool calls ran, by tool.")
        for tool, histogram in sorted(self._call_s.items()):
            yield from _render_histogram("toolyard_call_seconds", {"tool": tool}, histogram)


def _render_gauges(load: Load) -> Iterator[str]:
    for name, value, help_text in (
        ("toolyard_runs_running", load.running, "Runs at work in this process."),
        ("toolyard_runs_waiting", load.waiting, "Runs that wait for a person or for an application."),
        ("toolyard_runs_queued", load.queued, "Runs in line behind another run of their conversation."),
        ("toolyard_open_streams", load.open_streams, "Readers that follow a conversation now."),
    ):
        yield from _render_head(name, "gauge", help_text)
        yield _render_line(name, {}, value)


def _render_histogram(name: str, labels: Labels, histogram: Histogram) -> Iterator[str]:
    total = 0
    for bound, n in zip((*map(_format_number, BOUNDS_S), "+Inf"), histogram.counts, strict=True):
        total += n
        yield _render_line(f"{name}_bucket", {**labels, "le": bound}, total)
    yield _render_line(f"{name}_sum", labels, histogram.sum_s)
    yield _render_line(f"{name}_count", labels, total)


def _render_head(name: str, kind: str, help_text: str) -> Iterable[str]:
    return f"# HELP {name} {help_text}", f"# TYPE {name} {kind}"


def _render_line(name: str, labels: Labels, value: float) -> str:
    pairs = ",".join(f'{key}="{_escape_label(text)}"' for key, text in labels.items())
    return f"{name}{{{pairs}}} {_format_number(value)}" if pairs else f"{name} {_format_number(value)}"


def _escape_label(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _format_number(value: float) -> str:
    return repr(value)
