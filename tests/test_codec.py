"""Entries survive being written, an old one stays readable, and a word that we do not know is an error."""

import msgspec
import pytest

from core.story import Story, model_text, tool_call
from toolyard import codec
from toolyard.core.conversation.events import FORMAT, CallEnded, Entry, TextAppended
from toolyard.core.conversation.state import fold
from toolyard.core.failed_results import build_unknown_result


def _log() -> list[Entry]:
    story = Story().open().begin("r1").turn(model_text("t"), tool_call("c", "safe"))
    story.add(CallEnded(result=build_unknown_result(tool_call("c", "safe"), 7.5)), at=7.5)
    return story.log


def test_a_log_reads_back_as_it_was_written() -> None:
    entries = _log()
    again = [codec.decode_entry(body) for body in codec.encode_entries(entries)]
    assert again == entries
    assert fold(again) == fold(entries)


def test_an_entry_is_one_line_of_json_that_names_its_event() -> None:
    body = codec.encode(_log()[-1])
    assert b"\n" not in body
    assert msgspec.json.decode(body)["event"]["type"] == "call.ended"


def test_an_entry_of_the_first_format_stays_readable() -> None:
    body = b'{"conversation":"k","seq":1,"at":1.5,"event":{"type":"stop.requested","by":"ann"},"run":"r"}'
    entry = codec.decode_entry(body)
    assert (entry.format, entry.run, entry.correlation_id) == (FORMAT, "r", "")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b'{"conversation":"k","seq":1,"at":1.5,"event":{"type":"nothing.known"}}',
        codec.encode(TextAppended(turn=1, offset=0, text="a fleeting event is never stored")),
    ],
)
def test_what_is_not_an_entry_is_an_error(body: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        codec.decode_entry(body)
