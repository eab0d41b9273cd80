"""Spans as a collector gets them: names, parents, times and attributes of the conventions for generative AI."""

import asyncio
import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.trace import SpanKind, StatusCode

from core.story import model_text, ok_result, tool_call
from support import collect_events
from tcp_servers import serve_web_app
from toolyard import ToolError, Yard, tool
from toolyard.app import Wiring
from toolyard.core.conversation.events import (
    CallEnded,
    CallsRequested,
    CallStarted,
    Durable,
    Entry,
    RunEnded,
    RunStarted,
    TurnEnded,
    TurnFailed,
    TurnStarted,
)
from toolyard.core.items import Problem, Usage
from toolyard.core.settings.limits import Limits
from toolyard.observability.exporters import find_exporters
from toolyard.observability.otel import Spans, span_id, to_collector, trace_id
from toolyard.testing import Script, Scripted, call, say

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
Moments = Sequence[tuple[float, Durable]]


def record_spans(moments: Moments, correlation_id: str = TRACE, run: str = "r1") -> list[ReadableSpan]:
    """The spans that come of these events."""
    exporter = InMemorySpanExporter()
    spans = Spans(SimpleSpanProcessor(exporter))
    for seq, (at, event) in enumerate(moments, 1):
        entry = Entry(conversation="k", seq=seq, at=at, event=event, run=run, correlation_id=correlation_id)
        spans.observe(entry)
    asyncio.run(spans.close())
    return list(exporter.get_finished_spans())


def find_span(spans: Sequence[ReadableSpan], name: str) -> ReadableSpan:
    (span,) = [span for span in spans if span.name == name]
    return span


def get_attributes(span: ReadableSpan) -> dict[str, object]:
    return dict(span.attributes or {})


WHOLE_RUN: Moments = [
    (10.0, RunStarted(model="openai:gpt-4o-mini", limits=Limits())),
    (10.0, TurnStarted(number=1, epoch=1)),
    (11.5, TurnEnded(
        items=(tool_call("c1", "search"),),
        finish="calls",
        usage=Usage(input_tokens=10, output_tokens=2, cached_tokens=4),
        model="gpt-4o-mini-2024",
    )),
    (11.5, CallStarted(call_id="c1", epoch=1)),
    (12.0, CallStarted(call_id="c1", epoch=1, attempt=2)),
    (12.25, CallEnded(result=ok_result("c1", "search"))),
    (12.25, TurnStarted(number=2, epoch=1)),
    (13.0, TurnEnded(items=(model_text("i1"),), finish="stop", usage=Usage(input_tokens=14, output_tokens=3))),
    (13.0, RunEnded(ending="done")),
]  # fmt: skip


def test_a_run_is_one_trace_of_an_agent_with_its_turns_and_tools_inside() -> None:
    spans = record_spans(WHOLE_RUN)
    assert [span.name for span in spans] == [
        "chat gpt-4o-mini",
        "execute_tool search",
        "chat gpt-4o-mini",
        "invoke_agent toolyard",
    ]
    *inner, agent = spans
    assert agent.context is not None and agent.parent is None
    assert {span.context.trace_id for span in spans if span.context} == {int(TRACE, 16)}
    assert {span.parent.span_id for span in inner if span.parent} == {agent.context.span_id}
    assert len({span.context.span_id for span in spans if span.context}) == 4


def test_times_are_those_of_the_entries() -> None:
    times = [((span.start_time or 0) / 1e9, (span.end_time or 0) / 1e9) for span in record_spans(WHOLE_RUN)]
    assert times == [(10.0, 11.5), (11.5, 12.25), (12.25, 13.0), (10.0, 13.0)]


def test_a_model_turn_tells_its_model_provider_and_tokens() -> None:
    span = record_spans(WHOLE_RUN)[0]
    assert span.kind is SpanKind.CLIENT
    assert get_attributes(span) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4o-mini",
        "gen_ai.response.model": "gpt-4o-mini-2024",
        "gen_ai.response.finish_reasons": ("calls",),
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 2,
        "gen_ai.usage.cache_read.input_tokens": 4,
        "gen_ai.conversation.id": "k",
        "toolyard.run.id": "r1",
        "toolyard.correlation_id": TRACE,
    }


def test_a_call_tells_its_tool_and_its_outcome_but_not_its_arguments() -> None:
    span = find_span(record_spans(WHOLE_RUN), "execute_tool search")
    assert span.kind is SpanKind.INTERNAL
    assert get_attributes(span) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "search",
        "gen_ai.tool.call.id": "c1",
        "gen_ai.tool.type": "function",
        "gen_ai.conversation.id": "k",
        "toolyard.outcome": "ok",
        "toolyard.run.id": "r1",
        "toolyard.correlation_id": TRACE,
    }


def test_the_agent_tells_the_tokens_of_all_its_turns() -> None:
    attributes = get_attributes(find_span(record_spans(WHOLE_RUN), "invoke_agent toolyard"))
    assert (attributes["gen_ai.usage.input_tokens"], attributes["gen_ai.usage.output_tokens"]) == (24, 5)
    assert (attributes["gen_ai.operation.name"], attributes["toolyard.ending"]) == ("invoke_agent", "done")


def test_the_names_of_the_attributes_are_those_of_the_conventions() -> None:
    convention_names = {name for name in vars(gen_ai_attributes).values() if isinstance(name, str)}
    used_names = {name for span in record_spans(WHOLE_RUN) for name in get_attributes(span)}
    assert {name for name in used_names if name.startswith("gen_ai.")} <= convention_names


def test_what_fails_sets_the_status_and_the_error_s_type_and_keeps_secrets() -> None:
    problem = Problem(error="refused: api_key=0123456789", error_type="model_error")
    spans = record_spans(
        [
            *WHOLE_RUN[:2],
            (10.5, TurnFailed(problem=problem)),
            (10.5, RunEnded(ending="failed", detail="model_error: refused")),
        ]
    )
    chat, agent = spans
    assert [span.status.status_code for span in spans] == [StatusCode.ERROR, StatusCode.ERROR]
    assert (chat.status.description, agent.status.description) == ("refused: api_key=***", "refused")
    assert {get_attributes(span)["error.type"] for span in spans} == {"model_error"}


def test_a_tool_that_the_provider_ran_lies_inside_its_turn() -> None:
    items = (tool_call("c1", "web_search"), ok_result("c1", "web_search"))
    spans = record_spans([*WHOLE_RUN[:2], (11.5, TurnEnded(items=items, finish="stop"))])
    chat, search = find_span(spans, "chat gpt-4o-mini"), find_span(spans, "execute_tool web_search")
    assert chat.context is not None and search.parent is not None
    assert search.parent.span_id == chat.context.span_id
    assert get_attributes(search)["gen_ai.tool.type"] == "extension"


def test_the_calls_of_a_program_lie_inside_the_call_that_runs_it() -> None:
    child = tool_call("c1.0", "search")
    spans = record_spans(
        [
            *WHOLE_RUN[:2],
            (11.5, TurnEnded(items=(tool_call("c1", "run_code"),), finish="calls")),
            (11.5, CallStarted(call_id="c1", epoch=1)),
            (12.0, CallsRequested(parent="c1", seen=0, calls=(child,), lines=(1,))),
            (12.0, CallStarted(call_id="c1.0", epoch=1)),
            (12.5, CallEnded(result=ok_result("c1.0", "search"))),
            (13.0, CallEnded(result=ok_result("c1", "run_code"))),
            (13.0, RunEnded(ending="done")),
        ]
    )
    program, search = find_span(spans, "execute_tool run_code"), find_span(spans, "execute_tool search")
    agent = find_span(spans, "invoke_agent toolyard")
    assert program.context is not None and program.parent is not None
    assert agent.context is not None and search.parent is not None
    assert search.parent.span_id == program.context.span_id
    assert program.parent.span_id == agent.context.span_id
    assert [(span.start_time or 0) / 1e9 for span in (program, search)] == [11.5, 12.0]


def test_a_run_that_goes_on_in_another_process_stays_one_trace() -> None:
    """The second process has seen neither its beginning nor its first turn."""
    first, second = record_spans(WHOLE_RUN[:4]), record_spans(WHOLE_RUN[5:])
    agent = find_span(second, "invoke_agent toolyard")
    assert agent.context is not None
    assert {span.parent.span_id for span in (*first, *second) if span.parent} == {agent.context.span_id}
    assert (agent.start_time or 0) / 1e9 == 12.25
    assert get_attributes(second[1])["gen_ai.request.model"] == "unknown"


@pytest.mark.parametrize(
    ("model", "provider", "name"),
    [
        ("ollama:qwen3:8b", "ollama", "qwen3:8b"),
        ("http://127.0.0.1:8000/v1#mine", "openai", "mine"),
        ("given", None, "given"),
    ],
)
def test_a_model_s_name_is_told_apart_from_its_provider(model: str, provider: str | None, name: str) -> None:
    (span,) = record_spans([(1.0, RunStarted(model=model, limits=Limits())), (2.0, RunEnded(ending="done"))])
    assert (get_attributes(span).get("gen_ai.provider.name"), get_attributes(span)["gen_ai.request.model"]) == (
        provider,
        name,
    )


def test_a_correlation_id_that_is_no_trace_id_becomes_one_always_the_same() -> None:
    assert trace_id(TRACE) == int(TRACE, 16)
    assert trace_id("abc-123") == trace_id("abc-123") != trace_id("abc-124")
    assert 0 < trace_id("0" * 32) < 2**128 and 0 < span_id("x") < 2**64


@pytest.mark.parametrize(("ratio", "span_count"), [("0.0", 0), ("1.0", 4)])
def test_a_sampler_keeps_a_trace_whole_or_not_at_all(
    ratio: str, span_count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", ratio)
    assert len(record_spans(WHOLE_RUN)) == span_count


@asynccontextmanager
async def collector() -> AsyncGenerator[tuple[str, list[ExportTraceServiceRequest]], None]:
    """A receiver of OTLP over HTTP on a free port of this machine, and what it was sent."""
    received: list[ExportTraceServiceRequest] = []

    async def take(request: web.Request) -> web.Response:
        assert request.content_type == "application/x-protobuf"
        received.append(ExportTraceServiceRequest.FromString(await request.read()))
        return web.Response(content_type="application/x-protobuf")

    app = web.Application()
    app.router.add_post("/v1/traces", take)
    async with serve_web_app(app) as url:
        yield url, received


@tool
def fail_to_find(q: str) -> None:
    """Fails."""
    raise ToolError("nothing there", "not_found")


SCRIPT: Script = [call("fail_to_find", q="flour"), say("sorry")]


async def test_a_real_run_reaches_a_real_collector_over_http() -> None:
    async def test() -> list[ExportTraceServiceRequest]:
        async with asyncio.timeout(30), collector() as (url, received):
            wiring = Wiring(model=Scripted(SCRIPT), tools=(fail_to_find,), otlp_endpoint=url, service_name="grocer")
            async with Yard.from_wiring(wiring) as yard:
                await collect_events(yard.run("find flour", correlation_id=TRACE))
            return received

    sent = [scoped for request in (await test()) for scoped in request.resource_spans]
    names = {attribute.key: attribute.value.string_value for group in sent for attribute in group.resource.attributes}
    spans = [span for group in sent for scope in group.scope_spans for span in scope.spans]
    assert names["service.name"] == "grocer"
    assert sorted(span.name for span in spans) == [
        "chat given",
        "chat given",
        "execute_tool fail_to_find",
        "invoke_agent toolyard",
    ]
    assert {span.trace_id.hex() for span in spans} == {TRACE}
    (failed,) = [span for span in spans if span.name.startswith("execute_tool")]
    assert (failed.status.code, failed.status.message) == (2, "nothing there")


async def test_the_usual_variables_name_the_collector_too_and_may_switch_it_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)
    assert find_exporters("", "toolyard") == ()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    (spans,) = find_exporters("", "toolyard")
    assert isinstance(spans, Spans)
    await spans.close()
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "none")
    assert find_exporters("", "toolyard") == ()


async def test_a_collector_that_is_not_there_fails_no_run() -> None:
    spans = to_collector("http://127.0.0.1:9/v1/traces")
    async with asyncio.timeout(60):
        async with Yard.from_wiring(Wiring(model=Scripted([say("hi")]), observers=(spans.observe,))) as yard:
            assert await yard.ask("hello") == "hi"
        await spans.close()
