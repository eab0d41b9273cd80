"""AG-UI's own schemas and the rules of its clients accept every frame of any run."""

import asyncio
from typing import Literal

from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st

from core.published import StoredLog
from core.test_properties import Script, play, scripts
from surfaces.ag_ui.real_clients.agents import AgentProcess, serve_script
from surfaces.ag_ui.recorded import Stream, encode_exchanges
from toolyard.core.conversation.events import Entry, RunQueued, TextAppended

MIN_STREAMS = 500


async def test_every_frame_fits_its_schema_and_comes_in_order(process: AgentProcess) -> None:
    streams: list[Stream] = []

    @effort(max_examples=200, deadline=None, database=None)
    @given(script=scripts, how=st.sampled_from(["stop", "patience"]), lost=st.integers(2, 9), begin=st.integers(0, 30))
    def collect(script: Script, how: Literal["stop", "patience"], lost: int, begin: int) -> None:
        log = StoredLog(play(script, how))
        items = asyncio.run(log.read_live())
        # A reader that fell behind misses deltas, of which only those of the text are made up for.
        read = [
            (item, cursor)
            for number, (item, cursor) in enumerate(items)
            if isinstance(item, Entry | TextAppended) or number % lost
        ]
        for entry in log.entries:
            if isinstance(entry.event, RunQueued):
                streams.extend(encode_exchanges(read, entry.run))
                streams.extend(encode_exchanges(read[begin:], entry.run))

    await asyncio.to_thread(collect)
    assert len(streams) >= MIN_STREAMS
    kinds = {event["type"] for stream in streams for event in stream}
    assert kinds >= {"TOOL_CALL_RESULT", "REASONING_MESSAGE_CONTENT", "RUN_ERROR", "STEP_FINISHED", "CUSTOM"}
    outcomes = {event["outcome"]["type"] for stream in streams for event in stream if event["type"] == "RUN_FINISHED"}
    assert outcomes == {"success", "interrupt", "cancelled"}
    assert (await process.ask("check", streams=streams))["errors"] == []


async def test_the_check_finds_what_is_wrong(process: AgentProcess) -> None:
    started = {"type": "RUN_STARTED", "threadId": "t", "runId": "r"}
    finished = {"type": "RUN_FINISHED", "threadId": "t", "runId": "r"}
    opened = {"type": "TEXT_MESSAGE_START", "messageId": "m", "role": "assistant"}
    bad: list[Stream] = [[opened], [started, opened, finished], [{**started, "parentRunId": None}], [{"type": "NEW"}]]
    assert len((await process.ask("check", streams=[*bad, [started, finished]]))["errors"]) == len(bad)


async def test_capabilities_fit_their_schema(process: AgentProcess) -> None:
    async with serve_script(process, []) as served:
        capabilities = await served.get("/ag-ui/capabilities")
    checked = (await process.ask("checkCapabilities", capabilities=capabilities))["capabilities"]
    assert checked == capabilities
    assert {tool["name"] for tool in checked["tools"]["items"]} >= {"add_to_groceries", "order"}
