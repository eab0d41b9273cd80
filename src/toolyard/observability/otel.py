"""OpenTelemetry spans by the conventions for generative AI, made from stored entries. Needs `toolyard[otel]`.

Every id is derived from the log: a trace id from the correlation id, a span id from the run, turn or call. A run that
continues in another process therefore stays one trace. Messages, arguments and results are never exported.
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

from toolyard.core.conversation.events import (
    CallEnded,
    CallsRequested,
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
from toolyard.core.settings.models.names import parse_model_name
from toolyard.observability.telemetry import mask_secrets

MAX_OPEN_RUNS = 10_000
"""Beyond this number of open runs the start of the oldest is dropped: its span starts at the next entry of the run."""
CLOSING_S = 3.0
SIGNAL_PATH = "/v1/traces"
AGENT = "toolyard"
_HEX_ID = re.compile(r"(?!0{32})[0-9a-f]{32}")

Attributes = dict[str, str | int | list[str]]


class _OpenRun:
    """What the spans of a run need until it ends."""

    def __init__(self, started_at: float, model: str = "") -> None:
        self.started_at = started_at
        self.model = model
        self.turn = 0
        self.turn_at = started_at
        self.calls: dict[str, float] = {}
        self.programs: dict[str, str] = {}
        """The calls whose programs made other calls, by the ids of these."""
        self.usage = Usage()


class _FixedIds(IdGenerator):
    """An id generator that returns the ids that were set before the SDK starts a span."""

    trace_id = span_id = 0

    def generate_trace_id(self) -> int:
        return self.trace_id

    def generate_span_id(self) -> int:
        return self.span_id


class Spans:
    """An observer that turns stored entries into spans."""

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
        """Export the remaining spans; give up on a collector that takes longer than CLOSING_S."""
        shutdown = asyncio.get_running_loop().run_in_executor(None, self._provider.shutdown)
        _, late = await asyncio.wait((shutdown,), timeout=CLOSING_S)
        if late:
            self._give_up()
        await shutdown

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
            case CallStarted() | CallEnded() | CallsRequested():
                self._observe_call(entry, entry.event)
            case RunEnded() as ended:
                self._export_run(entry, ended)
            case _:
                pass

    def _observe_call(self, entry: Entry, event: CallStarted | CallEnded | CallsRequested) -> None:
        run = self._get_run(entry)
        match event:
            case CallStarted(call_id=call_id):
                run.calls.setdefault(call_id, entry.at)
            case CallEnded(result=result):
                started_at = run.calls.pop(result.call_id, entry.at - result.duration_ms / 1000)
                parent = run.programs.pop(result.call_id, entry.run)
                self._export_call(entry, result, started_at, parent=parent)
            case CallsRequested(parent=program, calls=calls):
                run.programs |= {call.id: program for call in calls}

    def _remember_run(self, run_id: str, run: _OpenRun) -> _OpenRun:
        if len(self._runs) >= MAX_OPEN_RUNS:
            del self._runs[next(iter(self._runs))]
        self._runs[run_id] = run
        return run

    def _get_run(self, entry: Entry) -> _OpenRun:
        """Return the open run of an entry. A run that started in another process starts here with its first entry."""
        return self._runs.get(entry.run) or self._remember_run(entry.run, _OpenRun(entry.at))

    def _export_turn(self, entry: Entry, ended: TurnEnded) -> None:
        run = self._get_run(entry)
        run.usage = run.usage.plus(ended.usage)
        attributes: Attributes = {"gen_ai.response.finish_reasons": [ended.finish], **_usage_attributes(ended.usage)}
        if ended.model:
            attributes["gen_ai.response.model"] = ended.model
        self._export_chat(entry, attributes)
        for result in (item for item in ended.items if isinstance(item, Result)):
            started_at = max(run.turn_at, entry.at - result.duration_ms / 1000)
            self._export_call(entry, result, started_at, parent=_turn_key(entry, run), ran="extension")

    def _export_chat(self, entry: Entry, attributes: Attributes, problem: Problem | None = None) -> None:
        run = self._get_run(entry)
        provider, model = _split_model_name(run.model)
        model = model or str(attributes.get("gen_ai.response.model", "unknown"))
        self._export_span(
            entry,
            f"chat {model}",
            _turn_key(entry, run),
            {
                "gen_ai.operation.name": "chat",
                "gen_ai.request.model": model,
                **_provider_attributes(provider),
                **attributes,
            },
            started_at=run.turn_at,
            parent=entry.run,
            kind=SpanKind.CLIENT,
            problem=problem,
        )

    def _export_call(self, entry: Entry, result: Result, started_at: float, parent: str, ran: str = "function") -> None:
        attributes: Attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": result.tool,
            "gen_ai.tool.call.id": result.call_id,
            "gen_ai.tool.type": ran,
            "toolyard.outcome": result.outcome,
        }
        name = f"execute_tool {result.tool}"
        self._export_span(
            entry, name, result.call_id, attributes, started_at=started_at, parent=parent, problem=result.error
        )

    def _export_run(self, entry: Entry, ended: RunEnded) -> None:
        run = self._get_run(entry)
        del self._runs[entry.run]
        provider, model = _split_model_name(run.model)
        attributes: Attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": AGENT,
            **_provider_attributes(provider),
        }
        attributes |= {"toolyard.ending": ended.ending, **_usage_attributes(run.usage)}
        if model:
            attributes["gen_ai.request.model"] = model
        kind, _, message = ended.detail.partition(": ")
        failure = Problem(error=message or ended.detail, error_type=kind) if ended.ending == "failed" else None
        self._export_span(
            entry, f"invoke_agent {AGENT}", entry.run, attributes, started_at=run.started_at, problem=failure
        )

    def _export_span(
        self,
        entry: Entry,
        name: str,
        key: str,
        attributes: Attributes,
        *,
        started_at: float,
        parent: str = "",
        kind: SpanKind = SpanKind.INTERNAL,
        problem: Problem | None = None,
    ) -> None:
        attributes |= {"gen_ai.conversation.id": entry.conversation, "toolyard.run.id": entry.run}
        attributes["toolyard.correlation_id"] = entry.correlation_id
        if problem is not None:
            attributes["error.type"] = problem.error_type
        self._ids.trace_id, self._ids.span_id = trace_id(entry.correlation_id or entry.run), span_id(key)
        context = self._build_parent_context(parent) if parent else Context()
        span = self._tracer.start_span(name, context, kind, attributes, start_time=_ns(started_at))
        if problem is not None:
            span.set_status(Status(StatusCode.ERROR, str(mask_secrets(problem.error))))
        span.end(_ns(max(started_at, entry.at)))

    def _build_parent_context(self, parent: str) -> Context:
        """Return the context of a parent span that is exported later.

        The sampler decides by the trace id, so that it gives the same answer now as when the parent is exported.
        """
        decision = self._provider.sampler.should_sample(None, self._ids.trace_id, f"invoke_agent {AGENT}").decision
        flags = TraceFlags(TraceFlags.SAMPLED if decision.is_sampled() else TraceFlags.DEFAULT)
        parent_context = SpanContext(self._ids.trace_id, span_id(parent), is_remote=False, trace_flags=flags)
        return set_span_in_context(NonRecordingSpan(parent_context), Context())


def to_collector(endpoint: str = "", service_name: str = AGENT) -> Spans:
    """Return spans that are exported over OTLP/HTTP in the background. Without an endpoint OTEL_ variables apply."""
    exporter = OTLPSpanExporter(endpoint=_signal_url(endpoint)) if endpoint else OTLPSpanExporter()
    return Spans(BatchSpanProcessor(exporter), service_name, exporter.shutdown)


def trace_id(correlation_id: str) -> int:
    """Return the caller's trace id if the correlation id came from `traceparent`, else an id derived from it."""
    if _HEX_ID.fullmatch(correlation_id):
        return int(correlation_id, 16)
    return int.from_bytes(hashlib.blake2b(correlation_id.encode(), digest_size=16).digest()) or 1


def span_id(key: str) -> int:
    return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest()) or 1


def _turn_key(entry: Entry, run: _OpenRun) -> str:
    return f"{entry.run}/turn/{run.turn}"


def _usage_attributes(usage: Usage) -> Attributes:
    attributes: Attributes = {"gen_ai.usage.input_tokens": usage.input_tokens}
    attributes["gen_ai.usage.output_tokens"] = usage.output_tokens
    if usage.cached_tokens:
        attributes["gen_ai.usage.cache_read.input_tokens"] = usage.cached_tokens
    return attributes


def _provider_attributes(provider: str) -> Attributes:
    return {"gen_ai.provider.name": provider} if provider else {}


def _split_model_name(model: str) -> tuple[str, str]:
    """Return the provider and its model from `openai:gpt-4o-mini`. A server named by its address counts as OpenAI."""
    parts = parse_model_name(model)
    if parts.base_url:
        return "openai", parts.model
    return (parts.provider, parts.model) if parts.model else ("", model)


def _signal_url(endpoint: str) -> str:
    return endpoint if urlsplit(endpoint).path.endswith(SIGNAL_PATH) else endpoint.rstrip("/") + SIGNAL_PATH


def _ns(seconds: float) -> int:
    return int(seconds * 1e9)
