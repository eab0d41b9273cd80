"""Server-sent events of providers, in whatever packets they come."""

import pytest

from toolyard.models.http.sse import MAX_EVENT_BYTES, SseParser

STREAM = (
    b'event: a\ndata: {"n":1}\n\ndata: {"n":2}\n\n: comment\n\ndata:3\n\n'
    b'data: 4\ndata: 5\n\n{"error":6}\n\ndata: 7\n\n\n'
)
EVENTS = [b'{"n":1}', b'{"n":2}', b"3", b"4\n5", b'{"error":6}', b"7"]


@pytest.mark.parametrize("size", range(1, len(STREAM) + 1))
def test_packets_of_any_size_give_the_same_events(size: int) -> None:
    for stream in (STREAM, STREAM.replace(b"\n", b"\r\n")):
        parser = SseParser()
        packets = [stream[start : start + size] for start in range(0, len(stream), size)]
        assert [event for packet in packets for event in parser.feed(packet)] + parser.end() == EVENTS


@pytest.mark.parametrize("packet", [b"data: 1\n\n", b"data: 1\n\ndata: 2\n\n", b"data: \n\n", b"data: 1\n\n\n\n"])
def test_a_packet_of_whole_events_gives_what_its_lines_give(packet: bytes) -> None:
    parser = SseParser()
    by_line = [event for line in packet.splitlines(keepends=True) for event in parser.feed(line)]
    assert SseParser().feed(packet) == by_line


def test_lines_without_data_count_for_their_own_event_only() -> None:
    parser = SseParser()
    for _ in range(3):
        assert parser.feed(b"event: " + b"x" * (MAX_EVENT_BYTES // 2) + b"\n") == []
        assert parser.feed(b"data: a\n\n") == [b"a"]
