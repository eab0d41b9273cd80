"""Runs by their correlation id: who may see them, and what is told of one that is open or over."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import msgspec
import pytest

from support import collect_events, wait_for_event
from surfaces.http_server import SocketClient, connect_client
from toolyard import Caller, Context, Yard, tool
from toolyard.app import Wiring
from toolyard.cli.waterfall import draw
from toolyard.core.conversation.events import RunSuspended
from toolyard.core.ports import ModelRequest
from toolyard.core.store import Key
from toolyard.engine.access.authentication import hash_key
from toolyard.observability.trace import Trace
from toolyard.testing import Script, Scripted, Turn, call, say

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
ANN = Caller(user="ann", tenant="t")
WHO = {
    "ann": Key(name="ann", hash=hash_key("ann"), user="ann", tenant="t"),
    "bob": Key(name="bob", hash=hash_key("bob"), user="bob", tenant="t"),
    "operator": Key(name="op", hash=hash_key("operator"), user="op", tenant="t", roles=frozenset({"operator"})),
    "stranger": Key(name="else", hash=hash_key("stranger"), user="op", tenant="u", roles=frozenset({"operator"})),
}


@tool(approval="ask")
def order(item: str) -> str:
    """Order it."""
    return item


@tool
def show_id(context: Context) -> str:
    """The id under which it runs."""
    return context.correlation_id


@asynccontextmanager
async def open_yard_and_client(script: Script, **options: object) -> AsyncGenerator[tuple[Yard, SocketClient], None]:
    wiring = Wiring(model=Scripted(script), tools=(order, show_id), **options)  # pyright: ignore[reportArgumentType]
    async with asyncio.timeout(30), Yard.from_wiring(wiring) as yard, connect_client(yard) as http:
        yield yard, http


def parse_runs(body: dict[str, object]) -> list[Trace]:
    return msgspec.convert(body["runs"], list[Trace])


async def test_a_run_that_waits_and_then_ends_is_shown_as_it_stands_and_can_be_drawn() -> None:
    async with open_yard_and_client([call("order", item="milk"), say("done")]) as (yard, http):
        run = yard.run("order milk", correlation_id="abc-123")
        suspended, _ = await wait_for_event(run, RunSuspended)
        _, body, _ = await http.ask("GET", "/traces/abc-123")
        (open_run,) = parse_runs(body)
        assert (open_run.status, open_run.ended_at, open_run.calls[0].tool) == ("waiting", None, "order")
        await yard.approve(run.conversation, suspended.waiting_for[0])
        await collect_events(run)
        status, body, _ = await http.ask("GET", "/traces/abc-123")
        assert (status, body["success"], body["correlation_id"], body["earlier"]) == (200, True, "abc-123", 0)
        (over,) = parse_runs(body)
        assert (over.ending, len(over.turns), over.calls[0].outcome, len(over.waits)) == ("done", 2, "ok", 1)
        assert "turn 2" in str(draw([over]))
        _, run_reply, _ = await http.ask("GET", f"/conversations/{run.conversation}/runs/{run.id}")
        assert msgspec.convert(run_reply["run"], Trace) == over


async def test_all_runs_of_an_id_are_shown_oldest_first_whatever_their_conversation() -> None:
    async with open_yard_and_client(lambda request: say("ok")) as (yard, http):
        runs = [yard.run("hi", correlation_id="abc", conversation=name) for name in ("k1", "k2", "k1")]
        for run in runs:
            await collect_events(run)
        await collect_events(yard.run("hi", correlation_id="other"))
        _, body, _ = await http.ask("GET", "/traces/abc")
        shown = [(run.conversation, run.run_id) for run in parse_runs(body)]
        assert shown == [(run.conversation, run.id) for run in runs]


@pytest.mark.parametrize(("who", "status"), [("ann", 200), ("operator", 200), ("bob", 404), ("stranger", 404)])
async def test_a_trace_is_seen_by_its_owner_and_the_tenant_s_operators_and_is_not_there_for_others(
    who: str, status: int
) -> None:
    async with open_yard_and_client([say("ok")], keys=list(WHO.values())) as (yard, http):
        run = yard.run("hi", correlation_id="abc", caller=ANN)
        await collect_events(run)
        for path in ("/traces/abc", f"/conversations/{run.conversation}/runs/{run.id}"):
            actual_status, body, _ = await http.ask("GET", path, x_api_key=who)
            assert (actual_status, body.get("error_type")) == (status, None if status == 200 else "not_found")


async def test_one_id_used_by_two_callers_shows_each_only_what_is_theirs() -> None:
    async with open_yard_and_client(lambda request: say("ok"), keys=list(WHO.values())) as (yard, http):
        for user in ("ann", "bob"):
            await collect_events(yard.run("hi", correlation_id="abc", caller=Caller(user=user, tenant="t")))
        _, body, _ = await http.ask("GET", "/traces/abc", x_api_key="bob")
        assert [run.user for run in parse_runs(body)] == ["bob"]
        _, body, _ = await http.ask("GET", "/traces/abc", x_api_key="operator")
        assert [run.user for run in parse_runs(body)] == ["ann", "bob"]


@pytest.mark.parametrize("path", ["/traces/nope", "/traces/%00", "/traces/a%2Fb", "/conversations/k/runs/r"])
async def test_what_is_not_there_is_not_found(path: str) -> None:
    async with open_yard_and_client([]) as (_, http):
        status, body, _ = await http.ask("GET", path)
        assert (status, body["error_type"]) == (404, "not_found")


async def test_a_run_is_not_found_in_another_conversation() -> None:
    async with open_yard_and_client(lambda request: say("ok")) as (yard, http):
        first, second = yard.run("hi"), yard.run("hi")
        await collect_events(first)
        await collect_events(second)
        status, _, _ = await http.ask("GET", f"/conversations/{first.conversation}/runs/{second.id}")
        assert status == 404


async def test_an_id_with_slashes_is_found_by_its_path() -> None:
    async with open_yard_and_client([say("ok")]) as (yard, http):
        await collect_events(yard.run("hi", correlation_id="shop/order:17"))
        for path in ("/traces/shop/order:17", "/traces/shop%2Forder%3A17", "/traces/shop/order:17/"):
            status, body, _ = await http.ask("GET", path)
            assert (status, body.get("correlation_id")) == (200, "shop/order:17"), path


@pytest.mark.parametrize(
    ("traceparent", "taken"),
    [
        (f"00-{TRACE}-00f067aa0ba902b7-01", True),
        (f"cc-{TRACE}-00f067aa0ba902b7-01-what-the-future-will-be-like", True),
        (f"ff-{TRACE}-00f067aa0ba902b7-01", False),
        (f"00-{'0' * 32}-00f067aa0ba902b7-01", False),
        (f"00-{TRACE}-{'0' * 16}-01", False),
        (f"00-{TRACE.upper()}-00f067aa0ba902b7-01", False),
        (f"00-{TRACE}", False),
    ],
)
async def test_a_sound_traceparent_names_the_trace_and_a_broken_one_does_not(traceparent: str, taken: bool) -> None:
    async with open_yard_and_client([]) as (_, http):
        _, _, headers = await http.ask("GET", "/healthz", traceparent=traceparent)
        assert (headers["x-correlation-id"] == TRACE) is taken


async def test_the_trace_id_of_a_traceparent_reaches_the_model_the_tool_and_the_trace() -> None:
    model_trace_ids: list[str] = []

    def script(request: ModelRequest) -> Turn:
        model_trace_ids.append(request.correlation_id)
        return call("show_id") if len(model_trace_ids) == 1 else say("done")

    async with open_yard_and_client(script) as (yard, http):
        parent = f"00-{TRACE}-00f067aa0ba902b7-01"
        received = [event async for _, event in http.stream("POST", "/ai/respond", {"prompt": "x"}, traceparent=parent)]
        assert {event.get("correlation_id", TRACE) for event in received} == {TRACE}
        assert model_trace_ids == [TRACE, TRACE]
        _, body, _ = await http.ask("GET", f"/traces/{TRACE}")
        (run,) = parse_runs(body)
        (result,) = [event for event in received if event.get("state") == "finished"]
        assert (run.calls[0].id, run.calls[0].outcome) == (result["call_id"], "ok")
        entries = await yard.service.conversations.read_entries(run.conversation)
        assert {entry.correlation_id for entry in entries} == {TRACE}
        assert any(TRACE in str(entry.event) for entry in entries if "Result" in str(entry.event))
