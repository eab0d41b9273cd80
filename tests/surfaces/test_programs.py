"""A program on each surface: one call of the model, and what waits inside it as any other call that waits."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager

import pytest

from support import TEST_TIMEOUT_S
from surfaces.api_client import Json
from surfaces.in_process_client import InProcessClient, open_in_process_client
from toolyard import Yard, tool
from toolyard.core.conversation.events import Entry, RunEnded
from toolyard.observability.trace import build_trace
from toolyard.testing import Scripted, call, say
from toolyard.yard import LOCAL_CALLER

CODE = "a = await add(item='x')\nb = await refund(order=a)\n[a, b]"
USER = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "go"}]}
REQUESTS: dict[str, Json] = {
    "/ai/respond": {"prompt": "go", "mode": "tools+chat"},
    "/ai-sdk/chat": {"id": "t", "messages": [USER], "trigger": "submit-message"},
    "/ag-ui": {"threadId": "t", "runId": "r", "messages": [{"id": "m1", "role": "user", "content": "go"}]},
    "/v1/responses": {"model": "given", "input": "go", "stream": True},
    "/v1/chat/completions": {"model": "given", "messages": [{"role": "user", "content": "go"}], "stream": True},
    "/v1/messages": {
        "model": "given",
        "max_tokens": 100,
        "messages": [{"role": "user", "content": "go"}],
        "stream": True,
    },
}


class Shop:
    def __init__(self) -> None:
        self.actions: list[str] = []

        @tool
        async def add(item: str) -> str:
            """Add an item."""
            self.actions.append("add")
            return f"added {item}"

        @tool(approval="ask")
        async def refund(order: str) -> str:
            """Refund an order."""
            self.actions.append("refund")
            return f"refunded {order}"

        self.tools = [add, refund]


@asynccontextmanager
async def _open(shop: Shop) -> AsyncGenerator[tuple[Yard, InProcessClient], None]:
    model = Scripted([call("run_code", code=CODE), say("All done.")])
    async with (
        asyncio.timeout(TEST_TIMEOUT_S),
        Yard(tools=shop.tools, model=model, code=True) as yard,
        open_in_process_client(yard) as http,
    ):
        yield yard, http


async def _read(http: InProcessClient, path: str, body: Json) -> str:
    """Return the whole stream of a request as text."""
    async with aclosing(http.stream_data("POST", path, body)) as events:
        return "\n".join([data async for data in events])


async def _find_waiting(yard: Yard) -> tuple[str, str]:
    """Return the only conversation and the call that it waits for."""
    (card,) = await yard.service.conversations.list_waiting(LOCAL_CALLER)
    (asked,) = (await yard.service.conversations.view(card.id)).calls_in("asking")
    return card.id, asked.call.id


@pytest.mark.parametrize("path", REQUESTS)
async def test_a_surface_shows_the_program_as_one_call_and_what_waits_inside_it(path: str) -> None:
    shop = Shop()
    async with _open(shop) as (yard, http):
        stream = await _read(http, path, REQUESTS[path])
        assert "refund" in stream  # the approval that it waits for
        if path != "/ai/respond":  # which tells of all calls of a program, with their parent
            assert "added x" not in stream.replace('"order":"added x"', "").replace('\\"order\\":\\"added x\\"', "")
        conversation, call_id = await _find_waiting(yard)
        reader = await yard.follow(conversation)
        await yard.approve(conversation, call_id)
        async for item in reader:
            if isinstance(item, Entry) and isinstance(item.event, RunEnded):
                break
        assert shop.actions == ["add", "refund"]


async def test_the_stream_of_ai_respond_names_the_program_and_the_line_of_each_call() -> None:
    async with _open(Shop()) as (yard, http):
        events = [event async for _, event in http.stream("POST", "/ai/respond", REQUESTS["/ai/respond"])]
        program = events[0]["call_id"]
        calls = [
            (event["type"], event["name"], event.get("parent"), event.get("line"))
            for event in events
            if "name" in event
        ]
        assert calls == [
            ("tool.status", "run_code", None, None),
            ("tool.status", "add", program, 1),
            ("tool.status", "add", program, 1),
            ("approval.required", "refund", program, 2),
        ]
        conversation, call_id = await _find_waiting(yard)
        status, _, _ = await http.ask("POST", f"/conversations/{conversation}/calls/{call_id}/approve", {})
        assert status == 200
        async with aclosing(http.stream("GET", f"/conversations/{conversation}/events")) as stream:
            async for _, event in stream:
                if event["type"] == "done" and event["ending"] == "done":
                    break


async def test_a_chat_of_the_ai_sdk_approves_a_call_inside_a_program() -> None:
    shop = Shop()
    async with _open(shop) as (yard, http):
        await _read(http, "/ai-sdk/chat", REQUESTS["/ai-sdk/chat"])
        _, call_id = await _find_waiting(yard)
        part = {
            "type": "tool-refund",
            "toolCallId": call_id,
            "state": "approval-responded",
            "approval": {"id": call_id, "approved": True},
        }
        answer = {"id": "m2", "role": "assistant", "parts": [{"type": "step-start"}, part]}
        stream = await _read(http, "/ai-sdk/chat", {**REQUESTS["/ai-sdk/chat"], "messages": [USER, answer]})
        assert "All done." in stream
        assert shop.actions == ["add", "refund"]


async def test_ag_ui_resumes_a_call_inside_a_program() -> None:
    shop = Shop()
    async with _open(shop) as (yard, http):
        asked = await _read(http, "/ag-ui", REQUESTS["/ag-ui"])
        _, call_id = await _find_waiting(yard)
        (interrupt,) = json.loads(asked.splitlines()[-1])["outcome"]["interrupts"]
        assert interrupt["metadata"]["arguments"] == {"order": "added x"}
        assert (interrupt["metadata"]["line"], f"{interrupt['metadata']['parent']}.1") == (2, call_id)
        resume = [{"interruptId": call_id, "status": "resolved", "payload": {"approved": True}}]
        assert "All done." in await _read(http, "/ag-ui", {**REQUESTS["/ag-ui"], "resume": resume})
        assert shop.actions == ["add", "refund"]


async def test_the_trace_nests_the_calls_of_a_program() -> None:
    async with _open(Shop()) as (yard, http):
        await _read(http, "/ai/respond", REQUESTS["/ai/respond"])
        conversation, call_id = await _find_waiting(yard)
        reader, entries = await yard.follow(conversation), list[Entry]()
        await yard.deny(conversation, call_id)
        async for item in reader:
            if isinstance(item, Entry):
                entries.append(item)
                if isinstance(item.event, RunEnded):
                    break
        trace = build_trace(entries, entries[-1].run)
        assert trace is not None
        program = trace.calls[0].id
        spans = [(span.tool, span.parent, span.line, span.outcome) for span in trace.calls]
        assert spans == [("run_code", "", 0, "error"), ("add", program, 1, "ok"), ("refund", program, 2, "denied")]
