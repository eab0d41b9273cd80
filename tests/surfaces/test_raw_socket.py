"""What no client library would send: the server refuses it or hangs up, never answers 5xx, and goes on."""

import http.client
import re
import socket
from collections.abc import Generator
from contextlib import ExitStack, closing, suppress
from functools import partial
from urllib.parse import urlsplit

import pytest
from hypothesis import given, strategies

from surfaces.fuzzed import EXAMPLES, PATIENCE_S, SILENCE_S, apart, bounded, fuzzed_app
from surfaces.talk import build_key

HOST = b"Host: 127.0.0.1\r\n"
JSON = b"Content-Type: application/json\r\n"
LAST = b"Connection: close\r\n"
KEY = b"X-API-Key: ann\r\n"


@pytest.fixture(scope="module", params=["local", "with keys"])
def url(request: pytest.FixtureRequest) -> Generator[str]:
    keys = [build_key("ann")] if request.param == "with keys" else []
    with apart(partial(fuzzed_app, "memory:", keys)) as url:
        yield url


def opened(url: str) -> socket.socket:
    to = urlsplit(url)
    return socket.create_connection((to.hostname or "", to.port or 0), timeout=PATIENCE_S)


def heard(wire: socket.socket, silence_s: float) -> bytes:
    """Everything until the server hangs up or falls silent."""
    wire.settimeout(silence_s)
    pieces: list[bytes] = []
    try:
        while piece := wire.recv(65536):
            pieces.append(piece)
    except (TimeoutError, ConnectionResetError):
        pass
    return b"".join(pieces)


def told(url: str, raw: bytes, silence_s: float = PATIENCE_S) -> bytes:
    with closing(opened(url)) as wire:
        with suppress(BrokenPipeError, ConnectionResetError):  # it has heard enough
            wire.sendall(raw)
        return heard(wire, silence_s)


def statuses(answers: bytes) -> list[int]:
    return [int(status) for status in re.findall(rb"(?:^|[}\n.])HTTP/1\.[01] (\d{3})", answers)]


def is_well(url: str) -> None:
    with closing(http.client.HTTPConnection(urlsplit(url).netloc, timeout=PATIENCE_S)) as connection:
        connection.request("GET", "/healthz")
        assert connection.getresponse().status == 200


def got(path: bytes, *headers: bytes, method: bytes = b"GET", version: bytes = b"HTTP/1.1") -> bytes:
    lines = b"".join(header + b"\r\n" for header in headers)
    return method + b" " + path + b" " + version + b"\r\n" + HOST + KEY + LAST + lines + b"\r\n"


def posted(path: bytes, body: bytes, *headers: bytes) -> bytes:
    return got(path, JSON[:-2], *headers, method=b"POST") + body


REFUSED: dict[str, bytes] = {
    "no http": b"hello\r\n\r\n",
    "http/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "tls": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
    "no version": b"GET /healthz HTTP/\r\n\r\n",
    "version 9": got(b"/healthz", version=b"HTTP/9.9"),
    "no path": b"GET  HTTP/1.1\r\n" + HOST + b"\r\n",
    "no method": b" /healthz HTTP/1.1\r\n" + HOST + b"\r\n",
    "an unknown method": got(b"/healthz", method=b"FROB"),
    "a lower case method": got(b"/healthz", method=b"get"),
    "connect": got(b"127.0.0.1:80", method=b"CONNECT"),
    "every path": got(b"*", method=b"OPTIONS"),
    "a path that is not ascii": got("/conversations/é".encode()),
    "a path with a nul": got(b"/conversations/\0"),
    "a header without a colon": got(b"/healthz", b"what"),
    "a header with a space": got(b"/healthz", b"X Y: z"),
    "a header with a nul": got(b"/healthz", b"X-Correlation-ID: a\0b"),
    "a length that is none": posted(b"/conversations", b"{}", b"Content-Length: two"),
    "a negative length": posted(b"/conversations", b"{}", b"Content-Length: -2"),
    "a length beyond all": posted(b"/conversations", b"{}", b"Content-Length: " + b"9" * 100),
    "two lengths": posted(b"/conversations", b"{}", b"Content-Length: 2", b"Content-Length: 3"),
    "a length and chunks": posted(b"/conversations", b"0\r\n\r\n", b"Content-Length: 5", b"Transfer-Encoding: chunked"),
    "chunks that are none": posted(b"/conversations", b"zz\r\n{}\r\n0\r\n\r\n", b"Transfer-Encoding: chunked"),
    "a chunk beyond all": posted(b"/conversations", b"f" * 40 + b"\r\n{}", b"Transfer-Encoding: chunked"),
    "a long length": posted(b"/conversations", b"{}", b"Content-Length: 99999999999"),
    "a foreign host": b"GET /conversations HTTP/1.1\r\nHost: evil.example\r\n" + LAST + b"\r\n",
    "a host that is none": b"GET /conversations HTTP/1.1\r\nHost: [\r\n" + LAST + b"\r\n",
    "no host": b"GET /conversations HTTP/1.1\r\n" + LAST + b"\r\n",
    "an origin that is none": got(b"/conversations/x", b"Origin: http://["),
    "a foreign preflight": got(
        b"/keys", b"Origin: https://evil.example", b"Access-Control-Request-Method: POST", method=b"OPTIONS"
    ),
    "a key that is not ascii": got(b"/keys/x", b"X-API-Key: \xff\xfe", b"X-User: \xff"),
    "a user named without a key": got(b"/conversations", b"X-User: admin", b"X-Roles: admin"),
    "a traversal": got(b"/conversations/../../etc/passwd"),
    "an encoded traversal": got(b"/conversations/%2e%2e%2f%2e%2e%2fetc%2fpasswd"),
    "an encoded nul": got(b"/conversations/%00"),
    "an encoded slash": got(b"/conversations/a%2Fb/messages"),
    "a path that is not utf-8": got(b"/conversations/%ff%fe"),
    "a broken percent": got(b"/conversations/%zz%"),
    "a surrogate": got(b"/conversations/%ed%a0%80"),
    "unicode": got(b"/conversations/%F0%9F%92%A5%E2%80%AE"),
    "a query that is not utf-8": got(b"/conversations/search?q=%ff%fe&limit=%00"),
    "a query of ampersands": got(b"/conversations/x?" + b"&=" * 5000),
    "slashes": got(b"/" * 1000 + b"x"),
    "a long path": got(b"/conversations/" + b"x" * 60_000),
    "a body without a type": got(b"/conversations", b"Content-Length: 2", method=b"POST") + b"{}",
    "a form": got(
        b"/conversations", b"Content-Type: multipart/form-data", b"Content-Length: 2", method=b"POST"
    ) + b"{}",
    "a charset": got(
        b"/conversations", b"Content-Type: application/json; charset=utf-99", b"Content-Length: 2", method=b"POST"
    ) + b"{}",
    "compressed": posted(b"/conversations", b"\x1f\x8b\x08\x00", b"Content-Encoding: gzip", b"Content-Length: 4"),
    "an accept that is none": posted(
        b"/conversations/x/chat", b'{"content":"x"}', b"Accept: ;;q=x,/", b"Content-Length: 15"
    ),
    "a cookie that is none": got(b"/conversations/x", b"Cookie: " + b"=;" * 1000 + b"\xff"),
    "a place that is none": got(b"/conversations/x/events", b"Last-Event-ID: \xff\xff"),
}  # fmt: skip


@pytest.mark.parametrize("raw", REFUSED.values(), ids=REFUSED.keys())
def test_what_makes_no_sense_is_refused(url: str, raw: bytes) -> None:
    answer = told(url, raw)
    (status,) = statuses(answer)
    assert 400 <= status < 500 and b"Traceback" not in answer, answer
    is_well(url)


ODD: dict[str, bytes] = {
    "http/1.0": got(b"/healthz", version=b"HTTP/1.0"),
    "an absolute path": got(b"http://127.0.0.1/healthz"),
    "a fragment": got(b"/healthz#x"),
    "a query": got(b"/healthz?" + b"x" * 60_000),
    "a folded header": got(b"/healthz", b"X-Correlation-ID: a", b" b"),
    "a header twice": got(b"/healthz", b"X-Correlation-ID: a", b"X-Correlation-ID: b"),
    "an upgrade": got(b"/healthz", b"Upgrade: websocket", b"Sec-WebSocket-Version: 13"),
    "ten thousand headers": got(b"/healthz", *(b"X-%d: y" % number for number in range(10_000))),
    "a huge header": got(b"/healthz", b"X-Huge: " + b"y" * 1_000_000),
    "a huge correlation id": got(b"/healthz", b"X-Correlation-ID: " + b"y" * 100_000),
    "a correlation id that is not ascii": got(b"/healthz", "X-Correlation-ID: ünïcode".encode()),
    "a body where none is asked for": got(b"/healthz", b"Content-Length: 5") + b"hello",
    "chunks": posted(b"/healthz", b"2\r\n{}\r\n0\r\n\r\n", b"Transfer-Encoding: chunked"),
    "head": got(b"/healthz", method=b"HEAD"),
    "options": got(b"/healthz", method=b"OPTIONS"),
}


@pytest.mark.parametrize("raw", ODD.values(), ids=ODD.keys())
def test_what_is_odd_is_answered_without_harm(url: str, raw: bytes) -> None:
    (status,) = statuses(told(url, raw))
    assert status < 500
    is_well(url)


@pytest.mark.parametrize("where", [b"/conversations/%s", b"/traces/%s", b"/conversations/search?q=%s", b"/%s"])
@pytest.mark.parametrize("line", [b"%0d%0aX-Injected:%201", b"%0aX-Injected:%201", b"%E5%98%8A%E5%98%8DX-Injected:1"])
def test_no_header_can_be_injected_through_an_id(url: str, where: bytes, line: bytes) -> None:
    head = told(url, got(where % line, b"X-Correlation-ID: x\rX-Injected: 1")).partition(b"\r\n\r\n")[0]
    assert b"\nx-injected" not in head.lower() and all(status < 500 for status in statuses(head))
    head = told(url, got(where % line)).partition(b"\r\n\r\n")[0]
    assert head and b"\nx-injected" not in head.lower() and all(status < 500 for status in statuses(head))
    is_well(url)


def test_requests_in_one_piece_are_answered_in_their_order(url: str) -> None:
    paths = [b"/healthz", b"/nowhere", b"/healthz", b"/conversations/x/events", b"/healthz"] * 20
    raw = b"".join(b"GET " + path + b" HTTP/1.1\r\n" + HOST + KEY + b"\r\n" for path in paths) + got(b"/healthz")
    assert statuses(told(url, raw)) == [200, 404, 200, 404, 200] * 20 + [200]
    is_well(url)


def test_whoever_is_slow_holds_up_nobody(url: str) -> None:
    raw = posted(b"/conversations", b'{"title":"slow"}', b"Content-Length: 16")
    with ExitStack() as open_wires:
        wires = [open_wires.enter_context(closing(opened(url))) for _ in range(2 * len(raw) // 3)]
        for number, wire in enumerate(wires):
            wire.sendall(raw[: number + 1])  # cut off in every place
        is_well(url)
        for number, wire in enumerate(wires[::10]):
            wire.sendall(raw[10 * number + 1 :])
            assert statuses(heard(wire, PATIENCE_S)) == [201]
    is_well(url)


def test_whoever_reads_nothing_holds_up_nobody(url: str) -> None:
    with ExitStack() as open_wires:
        for _ in range(20):
            wire = open_wires.enter_context(closing(opened(url)))
            wire.sendall(b"GET /openapi.json HTTP/1.1\r\n" + HOST + b"\r\n")
        is_well(url)
    is_well(url)


VALID = [
    got(b"/conversations?limit=5&after=x", b"X-Correlation-ID: abc", b"Accept-Language: de"),
    posted(b"/conversations", b'{"title":"hello"}', b"Content-Length: 17"),
    posted(b"/ai/respond", b'11\r\n{"prompt":"hello"}\r\n0\r\n\r\n', b"Transfer-Encoding: chunked"),
]
cuts = strategies.tuples(strategies.integers(0, 400), strategies.integers(0, 8), strategies.binary(max_size=8))


@bounded(25 * EXAMPLES)
@given(raw=strategies.sampled_from(VALID), changes=strategies.lists(cuts, min_size=1, max_size=4))
def test_a_request_with_a_few_bytes_wrong_does_no_harm(
    url: str, raw: bytes, changes: list[tuple[int, int, bytes]]
) -> None:
    for place, length, put in changes:
        raw = raw[:place] + put + raw[place + length :]
    answers = told(url, raw, SILENCE_S)
    assert all(status < 500 for status in statuses(answers)), (raw, answers)
    is_well(url)
