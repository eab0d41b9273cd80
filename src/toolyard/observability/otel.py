"""Spans for OpenTelemetry, with its conventions for generative AI, made from committed entries. Needs `toolyard[otel]`.

Every id follows from the log (the trace's from the correlation id, a span's from what it is of), so that a span knows
nothing of the others and a run that goes on in another process stays one trace. What was said is never exported.
"""

import asyncio
import hashlib
import re
from collections.abc import Callable
from importlib.metadata import version
from urllib.parse import urlsplit

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, Status, StatusCode, TraceFlags
from opentelemetry.trace.propagation import set_span_in_context

from toolyard.core.events import (
    CallEnded,
    CallStarted,
    Entry,
    HistoryCompacted,
    RunEnded,
    RunStarted,
    TurnEnded,
    TurnFailed,
    TurnStarted,
)
from toolyard.core.items import Problem, Result, Usage
from toolyard.observability.telemetry import mask_secrets

MAX_OPEN_RUNS = 10_000
"""Beyond so many open runs the oldest one's beginning is forgotten: its last span starts where it was seen again."""
CLOSING_S = 3.0
SIGNAL_PATH = "/v1/traces"
AGENT = "toolyard"
_HEX_ID = re.compile(r"(?!0{32})[0-9a-f]{32}")

Attributes = dict[str, str | int | list[str]]


class _OpenRun:
    """What is kept of a run until it ends."""

    def __init__(self, started_at: float, model: str = "") -> None:
        self.started_at = started_at
        self.model = model
        self.turn = 0
        self.turn_at = started_at
        self.calls: dict[str, float] = {}
        self.usage = Usage()


class _FixedIds(IdGenerator):
    """Hands out the ids that were set; the SDK asks for them as it starts a span."""

    trace_id = span_id = 0

    def generate_trace_id(self) -> int:
        return self.trace_id

    def generate_span_id(self) -> int:
        return self.span_id


class Spans:
    """An observer of committed entries."""

    def __init__(
        self, processor: SpanProcessor, service_name: str = AGENT, give_up: Callable[[], None] = lambda: None
    ) -> None:
        self._give_up = give_up
        self._ids = _FixedIds()
        resource = Resource.create({"service.name": service_name, "service.version": version("toolyard")})
        self._provider = TracerProvider(resource=resource, id_generator=self._ids, shutdown_on_exit=False)
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("toolyard", version("toolyard"))
        self._runs: dict[str, _OpenRun] = {}

    async def close(self) -> None:
        """Hand over what is left; a collector that does not take it in a few seconds is given up."""
        handing_over = asyncio.get_running_loop().run_in_executor(None, self._provider.shutdown)
        _, late = await asyncio.wait((handing_over,), timeout=CLOSING_S)
        if late:
            self._give_up()
        await handing_over

    def observe(self, entry: Entry) -> None:
        if not entry.run:
            return
        match entry.event:
            case RunStarted(model=model):
                self._remember_run(entry.run, _OpenRun(entry.at, model))
            case TurnStarted(number=number):
                run = self._get_run(entry)
                run.turn, run.turn_at = number, entry.at
            case TurnEnded() as ended:
                self._export_turn(entry, ended)
            case TurnFailed(problem=problem):
                self._export_chat(entry, {}, problem)
            case HistoryCompacted(usage=usage):
                run = self._get_run(entry)
                run.usage = run.usage.plus(usage)
            case CallStarted(call_id=call_id):
                self._get_run(entry).calls.setdefault(call_id, entry.at)
            case CallEnded(result=result):
                started_at = self._get_run(entry).calls.pop(result.call_id, entry.at - result.duration_ms / 1000)
                self._export_call(entry, result, started_at, parent=entry.run)
            case RunEnded() as ended:
                self._export_run(entry, ended)
            case _:
                pass

    def _remember_run(self, run_id: str, run: _OpenRun) -> _OpenRun:
        if len(self._runs) >= MAX_OPEN_RUNS:
            del self._runs[next(iter(self._runs))]
        self._runs[run_id] = run
        return run

    def _get_run(self, entry: Entry) -> _OpenRun:
        """The run; one that began in another process begins here with what is seen of it first."""
        return self._runs.get(entry.run) or self._remember_run(entry.run, _OpenRun(entry.at))

    def _export_turn(self, entry: Entry, ended: TurnEnded) -> None:
        run = self._get_run(entry)
        run.usage = run.usage.plus(ended.usage)
        about: Attributes = {"gen_ai.response.finish_reasons": [ended.finish], **_usage_attributes(ended.usage)}
        if ended.model:
            about["gen_ai.response.model"] = ended.model
        self._export_chat(entry, about)
        for result in (item for item in ended.items if isinstance(item, Result)):
            started_at = max(run.turn_at, entry.at - result.duration_ms / 1000)
            self._export_call(entry, result, started_at, parent=_turn_key(entry, run), ran="extension")

    def _export_chat(self, entry: Entry, about: Attributes, problem: Problem | None = None) -> None:
        run = self._get_run(entry)
        provider, model = _split_model_name(run.model)
        model = model or str(about.get("gen_ai.response.model", "unknown"))
        self._export_span(
            entry,
            f"chat {model}",
            _turn_key(entry, run),
            {"gen_ai.operation.name": "chat", "gen_ai.request.model": model, **_provider_attributes(provider), **about},
            started_at=run.turn_at,
            parent=entry.run,
            kind=SpanKind.CLIENT,
            problem=problem,
        )

    def _export_call(self, entry: Entry, result: Result, started_at: float, parent: str, ran: str = "function") -> None:
        about: Attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": result.tool,
            "gen_ai.tool.call.id": result.call_id,
            "gen_ai.tool.type": ran,
            "toolyard.outcome": result.outcome,
        }
        name = f"execute_tool {result.tool}"
        self._export_span(
            entry, name, result.call_id, about, started_at=started_at, parent=parent, problem=result.error
        )

    def _export_run(self, entry: Entry, ended: RunEnded) -> None:
        run = self._get_run(entry)
        del self._runs[entry.run]
        provider, model = _split_model_name(run.model)
        about: Attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": AGENT,
            **_provider_attributes(provider),
        }
        about |= {"toolyard.ending": ended.ending, **_usage_attributes(run.usage)}
        if model:
            about["gen_ai.request.model"] = model
        kind, _, said = ended.detail.partition(": ")
        failure = Problem(error=said or ended.detail, error_type=kind) if ended.ending == "failed" else None
        self._export_span(entry, f"invoke_agent {AGENT}", entry.run, about, started_at=run.started_at, problem=failure)

    def _export_span(
        self,
        entry: Entry,
        name: str,
        key: str,
        about: Attributes,
        *,
        started_at: float,
        parent: str = "",
        kind: SpanKind = SpanKind.INTERNAL,
        problem: Problem | None = None,
    ) -> None:
        about |= {"gen_ai.conversation.id": entry.conversation, "toolyard.run.id": entry.run}
        about["toolyard.correlation_id"] = entry.correlation_id
        if problem is not None:
            about["error.type"] = problem.error_type
        self._ids.trace_id, self._ids.span_id = trace_id(entry.correlation_id or entry.run), span_id(key)
        context = self._build_parent_context(parent) if parent else Context()
        span = self._tracer.start_span(name, context, kind, about, start_time=_ns(started_at))
        if problem is not None:
            span.set_status(Status(StatusCode.ERROR, str(mask_secrets(problem.error))))
        span.end(_ns(max(started_at, entry.at)))

    def _build_parent_context(self, parent: str) -> Context:
        """A parent that ends later. It is sampled if it will be then: that follows from the trace's id."""
        decision = self._provider.sampler.should_sample(None, self._ids.trace_id, f"invoke_agent {AGENT}").decision
        flags = TraceFlags(TraceFlags.SAMPLED if decision.is_sampled() else TraceFlags.DEFAULT)
        above = SpanContext(self._ids.trace_id, span_id(parent), is_remote=False, trace_flags=flags)
        return set_span_in_context(NonRecordingSpan(above), Context())


def to_collector(endpoint: str = "", service_name: str = AGENT) -> Spans:
    """Spans to a collector over OTLP/HTTP, in the background. Without an endpoint the usual OTEL_ variables name it."""
    exporter = OTLPSpanExporter(endpoint=_signal_url(endpoint)) if endpoint else OTLPSpanExporter()
    return Spans(BatchSpanProcessor(exporter), service_name, exporter.shutdown)


def trace_id(correlation_id: str) -> int:
    """The caller's own trace id where the correlation id came from `traceparent`; else one that follows from it."""
    if _HEX_ID.fullmatch(correlation_id):
        return int(correlation_id, 16)
    return int.from_bytes(hashlib.blake2b(correlation_id.encode(), digest_size=16).digest()) or 1


def span_id(key: str) -> int:
    return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest()) or 1


def _turn_key(entry: Entry, run: _OpenRun) -> str:
    return f"{entry.run}/turn/{run.turn}"


def _usage_attributes(usage: Usage) -> Attributes:
    about: Attributes = {"gen_ai.usage.input_tokens": usage.input_tokens}
    about["gen_ai.usage.output_tokens"] = usage.output_tokens
    if usage.cached_tokens:
        about["gen_ai.usage.cache_read.input_tokens"] = usage.cached_tokens
    return about


def _provider_attributes(provider: str) -> Attributes:
    return {"gen_ai.provider.name": provider} if provider else {}


def _split_model_name(model: str) -> tuple[str, str]:
    """The provider and its model: `openai:gpt-4o-mini`; a server by its address speaks OpenAI's protocol."""
    if urlsplit(model).scheme in ("http", "https"):
        return "openai", model.partition("#")[2]
    provider, _, name = model.partition(":")
    return (provider, name) if name else ("", model)


def _signal_url(endpoint: str) -> str:
    return endpoint if urlsplit(endpoint).path.endswith(SIGNAL_PATH) else endpoint.rstrip("/") + SIGNAL_PATH


def _ns(seconds: float) -> int:
    return int(seconds * 1e9)
