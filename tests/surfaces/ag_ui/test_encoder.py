"""The stream of any run says what the log says, whatever a reader missed or read twice."""

import asyncio
import time
from collections.abc import Sequence
from typing import Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st

from core.published import StoredLog
from core.test_properties import Script, play, scripts
from surfaces.ag_ui.recorded import Stream, encode_exchanges, reduce_messages
from surfaces.api_client import Json
from toolyard.core.caller import Caller
from toolyard.core.conversation.cursor import Cursor
from toolyard.core.conversation.events import (
    ArgumentsAppended,
    Entry,
    MessageRemoved,
    Published,
    ReasoningAppended,
    RunEnded,
    RunQueued,
    RunStarted,
    TextAppended,
    TurnEnded,
    TurnFailed,
    TurnStarted,
)
from toolyard.core.conversation.run_view import RunView
from toolyard.core.conversation.state import fold
from toolyard.core.errors import Unavailable
from toolyard.core.items import Call, Item, ModelText, Problem, Reasoning
from toolyard.core.settings.limits import Limits
from toolyard.surfaces.ag_ui.encoder import AgUiEncoder, StreamRequest
from toolyard.surfaces.ag_ui.messages import build_messages, list_message_ids
from toolyard.surfaces.http.sse import StreamEncoder
from toolyard.surfaces.shared.runs.encoder import RunEncoder
from toolyard.surfaces.shared.runs.notices import RunNotices

ANN = Caller(user="ann")


@effort(max_examples=150, deadline=None)
@given(script=scripts, how=st.sampled_from(["stop", "patience"]), run_pick=st.integers(0, 100))
def test_a_stream_brings_the_messages_of_the_log(
    script: Script, how: Literal["stop", "patience"], run_pick: int
) -> None:
    log = StoredLog(play(script, how))
    items = asyncio.run(log.read_live())
    run_ids = [entry.run for entry in log.entries if isinstance(entry.event, RunQueued)]
    run_id = run_ids[run_pick % len(run_ids)]
    received = reduce_messages(encode_exchanges(items, run_id))
    # A message that was removed later was in the stream all the same.
    entries = [entry for entry in log.entries if not isinstance(entry.event, MessageRemoved)]
    stored = build_messages(fold(entries), list_message_ids(entries))
    for message in stored:
        if str(message["id"]).startswith(f"{run_id}-") and message["role"] == "assistant":
            assert simplify(received[str(message["id"])]) == simplify(message)


def simplify(message: Json) -> object:
    """Return a message without the arguments, which are made up in the recorded streams."""
    return message.get("content"), [(call["id"], call["function"]["name"]) for call in message.get("toolCalls", ())]


def encode_turn(*published: Published) -> Stream:
    """Return the only stream of a run with these items between its start and its end."""
    events: list[Published] = [
        build_entry(RunQueued(caller=ANN, input=())),
        build_entry(RunStarted(model="m", limits=Limits())),
        *published,
        build_entry(RunEnded(ending="done")),
    ]
    (stream,) = encode_exchanges([(item, Cursor(seq)) for seq, item in enumerate(events, 1)], "run")
    return stream


def build_entry(event: object) -> Entry:
    return Entry(conversation="k", seq=1, at=0.0, event=event, run="run")  # pyright: ignore[reportArgumentType]


def start_turn() -> Entry:
    return build_entry(TurnStarted(number=1, epoch=1))


def end_turn(*items: Item) -> Entry:
    return build_entry(TurnEnded(items=items, finish="stop"))


def write_arguments(offset: int, text: str, call_id: str = "c") -> ArgumentsAppended:
    return ArgumentsAppended(turn=1, call_id=call_id, index=0, tool="show", offset=offset, text=text)


def build_call(**arguments: object) -> Call:
    return Call(id="c", at=0.0, tool="show", arguments=arguments)


def join_arguments(stream: Stream) -> str:
    return "".join(event["delta"] for event in stream if event["type"] == "TOOL_CALL_ARGS")


@pytest.mark.parametrize(
    "pieces",
    [
        [],
        [write_arguments(0, '{"name":'), write_arguments(8, '"ö"}')],
        [write_arguments(0, '{"name":'), write_arguments(0, '{"name":"ö"}')],
        [write_arguments(0, '{"name":"ö"}'), write_arguments(0, '{"name":'), write_arguments(8, '"ö"}')],
        [write_arguments(0, '{"na'), write_arguments(9, "ö")],
        [write_arguments(4, 'me":"ö"}')],
        [write_arguments(0, "")],
    ],
    ids=["none", "all", "again from the start", "all again", "a gap", "no beginning", "an empty one"],
)
def test_arguments_are_complete_whatever_a_reader_got(pieces: Sequence[ArgumentsAppended]) -> None:
    stream = encode_turn(start_turn(), *pieces, end_turn(build_call(name="ö")))
    assert msgspec.json.decode(join_arguments(stream)) == {"name": "ö"}
    assert [event["type"] for event in stream].count("TOOL_CALL_END") == 1


def test_arguments_stay_as_the_model_wrote_them() -> None:
    written = '{ "name" : "\\u00f6" }'
    stream = encode_turn(start_turn(), write_arguments(0, written), end_turn(build_call(name="ö")))
    assert join_arguments(stream) == written


def test_a_gap_in_arguments_that_are_written_otherwise_ends_the_stream() -> None:
    """The client would run the call with the wrong arguments; it follows the run again, and gets them whole."""
    with pytest.raises(Unavailable, match="send the request again"):
        encode_turn(start_turn(), write_arguments(0, '{ "na'), end_turn(build_call(name="ö")))


def test_arguments_that_are_no_json_are_passed_on() -> None:
    call = msgspec.structs.replace(build_call(), unreadable="not JSON")
    assert join_arguments(encode_turn(start_turn(), write_arguments(0, "{oops"), end_turn(call))) == "{oops"


def test_a_call_of_a_turn_that_failed_gets_a_result_so_that_no_client_runs_it() -> None:
    failed = build_entry(TurnFailed(problem=Problem(error="out", error_type="model_error")))
    stream = encode_turn(start_turn(), write_arguments(0, "{"), failed, start_turn(), end_turn())
    ended = [event["toolCallId"] for event in stream if event["type"] in ("TOOL_CALL_END", "TOOL_CALL_RESULT")]
    assert ended == ["c", "c"]


def test_a_turn_that_starts_again_has_another_message() -> None:
    first, second = TextAppended(turn=1, offset=0, text="Hel"), TextAppended(turn=1, offset=0, text="Hello")
    text = ModelText(id="i", at=0.0, text="Hello")
    stream = encode_turn(start_turn(), first, start_turn(), second, end_turn(text))
    contents = {key: message["content"] for key, message in reduce_messages([stream]).items()}
    assert contents == {"run-1": "Hel", "run-1-2": "Hello"}


def test_reasoning_is_one_message_and_complete() -> None:
    reasoning = Reasoning(id="r", at=0.0, text="Hmm, well.")
    stream = encode_turn(
        start_turn(),
        ReasoningAppended(turn=1, offset=0, text="Hmm"),
        TextAppended(turn=1, offset=0, text="Hello"),
        ReasoningAppended(turn=1, offset=0, text="Hmm, "),
        ReasoningAppended(turn=1, offset=8, text="l."),
        end_turn(reasoning, ModelText(id="i", at=0.0, text="Hello")),
    )
    deltas = [event for event in stream if event["type"] == "REASONING_MESSAGE_CONTENT"]
    assert "".join(event["delta"] for event in deltas) == "Hmm, well."
    assert {event["messageId"] for event in deltas} == {"run-1-reasoning"}


def measure_chunk_s(encoder: StreamEncoder) -> float:
    """Return the least CPU time of several passes over the chunks of a turn."""
    events = (RunQueued(caller=ANN, input=()), RunStarted(model="m", limits=Limits()), TurnStarted(number=1, epoch=1))
    for event in events:
        encoder.item(build_entry(event), Cursor(1))
    chunks = [(TextAppended(turn=1, offset=5 * n, text="word "), Cursor(1, 1, 5 * n)) for n in range(2_000)]
    times: list[float] = []
    for _ in range(7):
        started = time.process_time()
        for chunk, cursor in chunks:
            encoder.item(chunk, cursor)
        times.append(time.process_time() - started)
    return min(times)


def test_a_chunk_costs_little_more_than_in_other_streams() -> None:
    exchange = StreamRequest(thread_id="t", run_id="r", is_current=True)
    cost_s = measure_chunk_s(AgUiEncoder(RunView(run_id="run"), exchange, 0, 0))
    assert cost_s <= 1.3 * measure_chunk_s(RunEncoder(RunView(run_id="run"), RunNotices()))
