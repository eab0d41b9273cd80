"""Entries survive being written, an old one stays readable, and a word that we do not know is an error."""

import msgspec
import pytest
from msgspec.structs import replace

from core.story import Story, model_text, tool_call
from toolyard import codec
from toolyard.core.conversation.events import FORMAT, CallEnded, Entry, TextAppended
from toolyard.core.conversation.state import fold
from toolyard.core.errors import Invalid
from toolyard.core.failed_results import build_unknown_result
from toolyard.core.items import Item, ModelText, SystemText, TextPart, UserMessage


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


LONG = "word " * 1000


@pytest.mark.parametrize(
    "item",
    [
        UserMessage(id="a", at=0.0, parts=(TextPart(text=LONG),)),
        UserMessage(id="a", at=0.0, parts=(TextPart(text=LONG), TextPart(text=LONG))),
        ModelText(id="a", at=0.0, text=LONG),
        SystemText(id="a", at=0.0, text=LONG),
    ],
)
def test_an_item_with_a_long_text_is_accepted_only_if_all_of_it_can_be_kept(item: Item) -> None:
    codec.check_items([codec.omit_long_text(item)])
    broken_text = LONG + "\ud800"
    if isinstance(item, UserMessage):
        broken = replace(item, parts=(*item.parts[:-1], TextPart(text=broken_text)))
    else:
        broken = replace(item, text=broken_text)
    for rejected in (broken, replace(item, at="now"), replace(item, id="\ud800")):
        with pytest.raises(Invalid, match="cannot be kept"):
            codec.check_items([codec.omit_long_text(rejected)])
