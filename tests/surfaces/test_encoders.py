"""An encoder that starts at any cursor yields exactly the rest of the stream, with the same ids."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st

from core.published import StoredLog
from core.test_properties import Script, play, scripts
from toolyard.core.conversation.cursor import START, Cursor
from toolyard.core.conversation.events import Published, RunQueued
from toolyard.core.conversation.run_view import OpenRuns, RunView
from toolyard.engine.log.open_runs import load_open_runs
from toolyard.surfaces.app_chat.answer import AnswerBuilder
from toolyard.surfaces.app_chat.stream import AppEncoder
from toolyard.surfaces.conversations.tool_events import CallEventEncoder
from toolyard.surfaces.http.sse import StreamEncoder
from toolyard.surfaces.shared.runs.encoder import EntryEncoder, ObjectEncoder, RunEncoder
from toolyard.surfaces.shared.runs.notices import RunNotices

NOTICES = RunNotices(base_url="http://localhost")
BuildEncoder = Callable[[OpenRuns, str, Cursor], StreamEncoder]


def encode_app(runs: OpenRuns, run_id: str, at: Cursor) -> StreamEncoder:
    return AppEncoder("k", AnswerBuilder("k", run_id, runs, NOTICES, seen_seq=at.seq, end_seq=at.seq), at)


ENCODERS: dict[str, BuildEncoder] = {
    "objects of a conversation": lambda runs, _, __: ObjectEncoder(runs, NOTICES),
    "objects of a run": lambda runs, run_id, _: RunEncoder(runs.find(run_id) or RunView(run_id=run_id), NOTICES),
    "entries": lambda _, __, ___: EntryEncoder(),
    "calls": lambda _, __, ___: CallEventEncoder("k", 0.0),
    "app": encode_app,
}


def encode_until_over(encoder: StreamEncoder, items: Sequence[tuple[Published, Cursor]]) -> list[bytes]:
    """Return the bytes of each item up to the end of the stream, and what closes it."""
    pieces: list[bytes] = []
    for item, cursor in items:
        if encoder.over:
            break
        pieces.append(encoder.item(item, cursor))
    return [*pieces, encoder.closing()] if encoder.over else pieces


@pytest.mark.parametrize("name", ENCODERS)
@effort(max_examples=40, deadline=None)
@given(
    script=scripts,
    how=st.sampled_from(["stop", "patience"]),
    run_pick=st.integers(0, 100),
    place_pick=st.integers(0, 10_000),
)
def test_an_encoder_that_starts_at_any_cursor_yields_the_rest(
    name: str, script: Script, how: Literal["stop", "patience"], run_pick: int, place_pick: int
) -> None:
    async def compare() -> None:
        log = StoredLog(play(script, how))
        items = await log.read_live()
        run_ids = [entry.run for entry in log.entries if isinstance(entry.event, RunQueued)]
        run_id = run_ids[run_pick % len(run_ids)]
        whole = encode_until_over(ENCODERS[name](OpenRuns(), run_id, START), items)
        # The last item is left out: a client that has its id has seen `done`, and asks an application's stream anew.
        position = place_pick % (len(whole) - 2)
        cursor = items[position][1]
        resumed = ENCODERS[name](await load_open_runs(log, "k", cursor), run_id, cursor)
        assert encode_until_over(resumed, items[position + 1 :]) == whole[position + 1 :]

    asyncio.run(compare())
