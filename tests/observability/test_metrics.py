"""What is counted of a run, and its Prometheus format."""

import re
from pathlib import Path

import pytest

from core.story import user
from support import collect_events, open_yard, wait_for_event
from toolyard import Caller, Limits, tool
from toolyard.core.conversation.events import (
    CallEnded,
    Durable,
    Entry,
    RunEnded,
    RunStarted,
    RunSuspended,
    TurnEnded,
    TurnFailed,
    TurnStarted,
)
from toolyard.core.conversation.state import State
from toolyard.core.failed_results import build_failed_result
from toolyard.core.items import Call, Outcome, Problem, Result, Usage
from toolyard.core.settings.prices import Cost
from toolyard.engine.access.authentication import LOCAL_ADMIN
from toolyard.observability.metrics import BOUNDS_S, MAX_SPENT_LABELS, Load, Metrics
from toolyard.observability.telemetry import Observers
from toolyard.testing import call, say

IDLE = Load(running=0, waiting=0, queued=0, open_streams=0)
SAMPLE = re.compile(r'(\w+)(\{(?:\w+="(?:[^"\\\n]|\\["\\n])*",?)+\})? (\S+)')


def parse_samples(text: str) -> dict[str, float]:
    """The lines by name and labels; every line must be as the format wants it."""
    values: dict[str, float] = {}
    for line in text.removesuffix("\n").split("\n"):
        if not line.startswith("# "):
            matched = SAMPLE.fullmatch(line)
            assert matched, line
            values[matched[1] + (matched[2] or "")] = float(matched[3])
    return values


class MetricsRecorder:
    """Metrics of a server with one tool, told of events one by one."""

    def __init__(self) -> None:
        self.metrics = Metrics(lambda tool: tool == "search", lambda _: State(owner=Caller(tenant="acme")))

    def add(self, event: Durable, at: float = 0.0) -> "MetricsRecorder":
        Observers(self.metrics.handlers).observe([Entry(conversation="k", seq=1, at=at, event=event, run="r")])
        return self

    def end_call(self, name: str, outcome: Outcome = "ok", ms: float = 0.0) -> "MetricsRecorder":
        result = Result(id="i", at=0.0, call_id="c", tool=name, outcome=outcome, content="", duration_ms=ms)
        return self.add(CallEnded(result=result))

    @property
    def samples(self) -> dict[str, float]:
        return parse_samples(self.metrics.render(IDLE))


def test_calls_are_counted_by_tool_and_outcome() -> None:
    values = MetricsRecorder().end_call("search").end_call("search").end_call("search", "timeout").samples
    assert values['toolyard_calls_total{tool="search",outcome="ok"}'] == 2
    assert values['toolyard_calls_total{tool="search",outcome="timeout"}'] == 1


def test_whatever_a_model_calls_a_tool_makes_one_label_only() -> None:
    recorder = MetricsRecorder()
    for number in range(100):
        recorder.end_call(f'made_up_{number}"}} 1\nx', "error", 5.0)
    assert recorder.samples['toolyard_calls_total{tool="(unknown)",outcome="error"}'] == 100
    assert sum("tool=" in name for name in recorder.samples) == 1 + len(BOUNDS_S) + 1 + 2


def test_a_call_that_found_no_tool_is_not_charged_to_a_tool_of_that_name() -> None:
    """Another caller may have it, or it came a moment later."""
    missing_call = Call(id="c", at=0.0, tool="search", arguments={})
    missing = Problem(error="there is no tool named 'search'", error_type="unknown_tool")
    values = MetricsRecorder().add(CallEnded(result=build_failed_result(missing_call, "error", missing, 0.0))).samples
    assert values['toolyard_calls_total{tool="(unknown)",outcome="error"}'] == 1
    ran = (
        MetricsRecorder()
        .add(CallEnded(result=build_failed_result(missing_call, "error", missing, 0.0, duration_ms=3.0)))
        .samples
    )
    assert ran['toolyard_calls_total{tool="search",outcome="error"}'] == 1, "it ran, and said so itself"


def test_a_latency_falls_into_every_bucket_from_its_own_on() -> None:
    values = (
        MetricsRecorder()
        .end_call("search", ms=30.0)
        .end_call("search", ms=50.0)
        .end_call("search", ms=999_000.0)
        .samples
    )
    assert values['toolyard_call_seconds_bucket{tool="search",le="0.025"}'] == 0
    assert values['toolyard_call_seconds_bucket{tool="search",le="0.05"}'] == 2
    assert values['toolyard_call_seconds_bucket{tool="search",le="300.0"}'] == 2
    assert values['toolyard_call_seconds_bucket{tool="search",le="+Inf"}'] == 3
    assert values['toolyard_call_seconds_count{tool="search"}'] == 3
    assert values['toolyard_call_seconds_sum{tool="search"}'] == pytest.approx(999.08)


def test_a_call_that_never_ran_here_has_no_latency() -> None:
    assert not [name for name in MetricsRecorder().end_call("search", "denied").samples if "call_seconds" in name]


def test_turns_are_counted_timed_and_their_tokens_added_up() -> None:
    recorder = MetricsRecorder()
    usage = Usage(input_tokens=10, output_tokens=2, cached_tokens=4)
    for finish in ("calls", "stop"):
        recorder.add(TurnStarted(number=1, epoch=1), at=1.0)
        recorder.add(TurnEnded(items=(), finish=finish, usage=usage), at=3.0)
    recorder.add(TurnStarted(number=3, epoch=1), at=4.0)
    recorder.add(TurnFailed(problem=Problem(error="no", error_type="model_error")), at=4.5)
    values = recorder.samples
    assert [values[f'toolyard_turns_total{{finish="{finish}"}}'] for finish in ("calls", "stop", "failed")] == [1, 1, 1]
    assert (values["toolyard_turn_seconds_count"], values["toolyard_turn_seconds_sum"]) == (3, 4.5)
    assert [values[f'toolyard_tokens_total{{kind="{kind}"}}'] for kind in ("input", "output", "cached")] == [20, 4, 8]


def test_a_turn_that_another_process_began_is_counted_but_not_timed() -> None:
    values = MetricsRecorder().add(TurnEnded(items=(), finish="stop"), at=3.0).samples
    assert values['toolyard_turns_total{finish="stop"}'] == 1
    assert values["toolyard_turn_seconds_count"] == 0


def test_what_the_provider_ran_is_counted_as_the_provider_s() -> None:
    result = Result(id="i", at=0.0, call_id="c", tool="web_search", outcome="ok", content="")
    values = MetricsRecorder().add(TurnEnded(items=(result,), finish="stop")).samples
    assert values['toolyard_calls_total{tool="(provider)",outcome="ok"}'] == 1


def test_runs_are_counted_by_ending() -> None:
    recorder = MetricsRecorder().add(RunEnded(ending="done")).add(RunEnded(ending="limit")).add(RunEnded(ending="done"))
    assert recorder.samples['toolyard_runs_total{ending="done"}'] == 2
    assert recorder.samples['toolyard_runs_total{ending="limit"}'] == 1


def test_every_metric_says_what_it_is_before_its_first_line() -> None:
    text = MetricsRecorder().end_call("search", ms=1.0).add(RunEnded(ending="done")).metrics.render(IDLE)
    assert text.endswith("\n")
    described_metrics: set[str] = set()
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            described_metrics.add(line.split()[2])
        elif not line.startswith("# "):
            name = re.split(r"[{ ]", line)[0]
            assert name in described_metrics or re.sub(r"_(bucket|sum|count)$", "", name) in described_metrics, line


@tool(approval="ask")
def order(item: str) -> str:
    """Order it."""
    return item


@tool
def search(q: str) -> str:
    """Find it."""
    return q


async def test_what_goes_on_now_is_told_and_a_wait_shows_until_it_is_over() -> None:
    async with open_yard([call("order", item="milk"), say("done"), say("yes")], [order]) as yard:
        run = yard.run("order milk")
        before = await yard.service.measure_load()
        suspended, _ = await wait_for_event(run, RunSuspended)
        behind = yard.service.runs.build_start(LOCAL_ADMIN, [user("i2", "and bread")])
        reader = await yard.follow(run.conversation)
        await yard.service.conversations.submit(run.conversation, behind)
        during = await yard.service.measure_load()
        reader.detach()
        await yard.approve(run.conversation, suspended.waiting_for[0])
        await collect_events(run)
        async for item in await yard.follow(run.conversation):
            if isinstance(item, Entry) and item.run == behind.run_id and isinstance(item.event, RunEnded):
                break
        (before, during, after) = [before, during, await yard.service.measure_load()]
    assert before == IDLE
    assert (during.running, during.waiting, during.queued, during.open_streams) == (0, 1, 1, 1)
    assert (after.running, after.waiting, after.queued) == (0, 0, 0)


async def test_a_real_run_is_counted() -> None:
    async with open_yard([call("search", q="flour"), call("nope"), say("done")], [search]) as yard:
        metrics = yard.service.metrics
        await collect_events(yard.run("find flour"))
        values = parse_samples(metrics.render(await yard.service.measure_load()))
    assert values['toolyard_runs_total{ending="done"}'] == 1
    assert values['toolyard_calls_total{tool="search",outcome="ok"}'] == 1
    assert values['toolyard_calls_total{tool="(unknown)",outcome="error"}'] == 1
    assert values["toolyard_turn_seconds_count"] == 3
    assert values['toolyard_call_seconds_count{tool="search"}'] == 1


async def test_a_run_that_an_earlier_process_left_waiting_is_still_counted(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/yard.db"
    async with open_yard([call("order", item="milk")], [order], store=store) as yard:
        await wait_for_event(yard.run("order milk"), RunSuspended)
    async with open_yard([], [order], store=store) as yard:
        assert (await yard.service.measure_load()).waiting == 1


def test_tokens_and_costs_are_counted_by_model_and_tenant_and_unknown_costs_apart() -> None:
    recorder = MetricsRecorder()
    usage = Usage(input_tokens=100, output_tokens=20, cached_tokens=50, cache_writes_5m=5, cache_writes_1h=1)
    recorder.add(RunStarted(model="openai:gpt-5", limits=Limits()))
    recorder.add(TurnEnded(items=(), finish="stop", usage=usage, cost=Cost(micros=1_500_000)))
    recorder.add(TurnEnded(items=(), finish="stop", usage=usage, fallback="ollama:small"))
    recorder.add(
        TurnFailed(problem=Problem(error="x", error_type="timeout"), cost=Cost(micros=500_000, estimated=True))
    )
    recorder.add(RunEnded(ending="cancelled", cost=Cost(micros=250_000, estimated=True)))
    values = recorder.samples
    first, second = 'model="openai:gpt-5",tenant="acme"', 'model="ollama:small",tenant="acme"'
    assert values[f'toolyard_model_cost_total{{{first},currency="USD"}}'] == 2.25
    assert values[f'toolyard_model_tokens_total{{{first},kind="cache_write"}}'] == 6
    assert values[f'toolyard_model_tokens_total{{{second},kind="output"}}'] == 20
    assert values[f"toolyard_unpriced_turns_total{{{second}}}"] == 1
    assert not [name for name in values if second in name and "cost_total" in name]


def test_the_labels_of_models_are_bounded() -> None:
    recorder = MetricsRecorder()
    for number in range(MAX_SPENT_LABELS + 50):
        recorder.add(TurnEnded(items=(), finish="stop", fallback=f"openai:made-up-{number}"))
    values = recorder.samples
    assert values['toolyard_unpriced_turns_total{model="(others)",tenant="(others)"}'] == 50
    assert sum(name.startswith("toolyard_unpriced_turns_total") for name in values) == MAX_SPENT_LABELS + 1
