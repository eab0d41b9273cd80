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

from surfaces.api_client import build_key
from surfaces.fuzzed import EXAMPLES, SILENCE_S, TIMEOUT_S, fuzzed_app, make_settings, serve_in_thread

HOST = b"Host: 127.0.0.1\r\n"
JSON = b"Content-Type: application/json\r\n"
CLOSE_HEADER = b"Connection: close\r\n"
KEY = b"X-API-Key: ann\r\n"


@pytest.fixture(scope="module", params=["local", "with keys"])
def url(request: pytest.FixtureRequest) -> Generator[str]:
    keys = [build_key("ann")] if request.param == "with keys" else []
    with serve_in_thread(partial(fuzzed_app, "memory:", keys)) as url:
        yield url


def connect(url: str) -> socket.socket:
    to = urlsplit(url)
    return socket.create_connection((to.hostname or "", to.port or 0), timeout=TIMEOUT_S)


def read_until_silence(wire: socket.socket, silence_s: float) -> bytes:
    """Everything until the server hangs up or falls silent."""
    wire.settimeout(silence_s)
    pieces: list[bytes] = []
    try:
        while piece := wire.recv(65536):
            pieces.append(piece)
    except (TimeoutError, ConnectionResetError):
        pass
    return b"".join(pieces)


def send_raw(url: str, raw: bytes, silence_s: float = TIMEOUT_S) -> bytes:
    with closing(connect(url)) as wire:
        with suppress(BrokenPipeError, ConnectionResetError):  # it has heard enough
            wire.sendall(raw)
        return read_until_silence(wire, silence_s)


def parse_statuses(answers: bytes) -> list[int]:
    return [int(status) for status in re.findall(rb"(?:^|[}\n.])HTTP/1\.[01] (\d{3})", answers)]


def check_health(url: str) -> None:
    with closing(http.client.HTTPConnection(urlsplit(url).netloc, timeout=TIMEOUT_S)) as connection:
        connection.request("GET", "/healthz")
        assert connection.getresponse().status == 200


def build_get(path: bytes, *headers: bytes, method: bytes = b"GET", version: bytes = b"HTTP/1.1") -> bytes:
    lines = b"".join(header + b"\r\n" for header in headers)
    return method + b" " + path + b" " + version + b"\r\n" + HOST + KEY + CLOSE_HEADER + lines + b"\r\n"


def build_post(path: bytes, body: bytes, *headers: bytes) -> bytes:
    return build_get(path, JSON[:-2], *headers, method=b"POST") + body


REFUSED: dict[str, bytes] = {
    "no http": b"hello\r\n\r\n",
    "http/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "tls": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
    "no version": b"GET /healthz HTTP/\r\n\r\n",
    "version 9": build_get(b"/healthz", version=b"HTTP/9.9"),
    "no path": b"GET  HTTP/1.1\r\n" + HOST + b"\r\n",
    "no method": b" /healthz HTTP/1.1\r\n" + HOST + b"\r\n",
    "an unknown method": build_get(b"/healthz", method=b"FROB"),
    "a lower case method": build_get(b"/healthz", method=b"get"),
    "connect": build_get(b"127.0.0.1:80", method=b"CONNECT"),
    "every path": build_get(b"*", method=b"OPTIONS"),
    "a path that is not ascii": build_get("/conversations/é".encode()),
    "a path with a nul": build_get(b"/conversations/\0"),
    "a header without a colon": build_get(b"/healthz", b"what"),
    "a header with a space": build_get(b"/healthz", b"X Y: z"),
    "a header with a nul": build_get(b"/healthz", b"X-Correlation-ID: a\0b"),
    "a length that is none": build_post(b"/conversations", b"{}", b"Content-Length: two"),
    "a negative length": build_post(b"/conversations", b"{}", b"Content-Length: -2"),
    "a length beyond all": build_post(b"/conversations", b"{}", b"Content-Length: " + b"9" * 100),
    "two lengths": build_post(b"/conversations", b"{}", b"Content-Length: 2", b"Content-Length: 3"),
    "a length and chunks": build_post(
        b"/conversations", b"0\r\n\r\n", b"Content-Length: 5", b"Transfer-Encoding: chunked"
    ),
    "chunks that are none": build_post(b"/conversations", b"zz\r\n{}\r\n0\r\n\r\n", b"Transfer-Encoding: chunked"),
    "a chunk beyond all": build_post(b"/conversations", b"f" * 40 + b"\r\n{}", b"Transfer-Encoding: chunked"),
    "a long length": build_post(b"/conversations", b"{}", b"Content-Length: 99999999999"),
    "a foreign host": b"GET /conversations HTTP/1.1\r\nHost: evil.example\r\n" + CLOSE_HEADER + b"\r\n",
    "a host that is none": b"GET /conversations HTTP/1.1\r\nHost: [\r\n" + CLOSE_HEADER + b"\r\n",
    "no host": b"GET /conversations HTTP/1.1\r\n" + CLOSE_HEADER + b"\r\n",
    "an origin that is none": build_get(b"/conversations/x", b"Origin: http://["),
    "a foreign preflight": build_get(
        b"/keys", b"Origin: https://evil.example", b"Access-Control-Request-Method: POST", method=b"OPTIONS"
    ),
    "a key that is not ascii": build_get(b"/keys/x", b"X-API-Key: \xff\xfe", b"X-User: \xff"),
    "a user named without a key": build_get(b"/conversations", b"X-User: admin", b"X-Roles: admin"),
    "a traversal": build_get(b"/conversations/../../etc/passwd"),
    "an encoded traversal": build_get(b"/conversations/%2e%2e%2f%2e%2e%2fetc%2fpasswd"),
    "an encoded nul": build_get(b"/conversations/%00"),
    "an encoded slash": build_get(b"/conversations/a%2Fb/messages"),
    "a path that is not utf-8": build_get(b"/conversations/%ff%fe"),
    "a broken percent": build_get(b"/conversations/%zz%"),
    "a surrogate": build_get(b"/conversations/%ed%a0%80"),
    "unicode": build_get(b"/conversations/%F0%9F%92%A5%E2%80%AE"),
    "a query that is not utf-8": build_get(b"/conversations/search?q=%ff%fe&limit=%00"),
    "a query of ampersands": build_get(b"/conversations/x?" + b"&=" * 5000),
    "slashes": build_get(b"/" * 1000 + b"x"),
    "a long path": build_get(b"/conversations/" + b"x" * 60_000),
    "a body without a type": build_get(b"/conversations", b"Content-Length: 2", method=b"POST") + b"{}",
    "a form": build_get(
        b"/conversations", b"Content-Type: multipart/form-data", b"Content-Length: 2", method=b"POST"
    ) + b"{}",
    "a charset": build_get(
        b"/conversations", b"Content-Type: application/json; charset=utf-99", b"Content-Length: 2", method=b"POST"
    ) + b"{}",
    "compressed": build_post(b"/conversations", b"\x1f\x8b\x08\x00", b"Content-Encoding: gzip", b"Content-Length: 4"),
    "an accept that is none": build_post(
        b"/conversations/x/chat", b'{"content":"x"}', b"Accept: ;;q=x,/", b"Content-Length: 15"
    ),
    "a cookie that is none": build_get(b"/conversations/x", b"Cookie: " + b"=;" * 1000 + b"\xff"),
    "a place that is none": build_get(b"/conversations/x/events", b"Last-Event-ID: \xff\xff"),
}  # fmt: skip


@pytest.mark.parametrize("raw", REFUSED.values(), ids=REFUSED.keys())
def test_what_makes_no_sense_is_refused(url: str, raw: bytes) -> None:
    answer = send_raw(url, raw)
    (status,) = parse_statuses(answer)
    assert 400 <= status < 500 and b"Traceback" not in answer, answer
    check_health(url)


ODD: dict[str, bytes] = {
    "http/1.0": build_get(b"/healthz", version=b"HTTP/1.0"),
    "an absolute path": build_get(b"http://127.0.0.1/healthz"),
    "a fragment": build_get(b"/healthz#x"),
    "a query": build_get(b"/healthz?" + b"x" * 60_000),
    "a folded header": build_get(b"/healthz", b"X-Correlation-ID: a", b" b"),
    "a header twice": build_get(b"/healthz", b"X-Correlation-ID: a", b"X-Correlation-ID: b"),
    "an upgrade": build_get(b"/healthz", b"Upgrade: websocket", b"Sec-WebSocket-Version: 13"),
    "ten thousand headers": build_get(b"/healthz", *(b"X-%d: y" % number for number in range(10_000))),
    "a huge header": build_get(b"/healthz", b"X-Huge: " + b"y" * 1_000_000),
    "a huge correlation id": build_get(b"/healthz", b"X-Correlation-ID: " + b"y" * 100_000),
    "a correlation id that is not ascii": build_get(b"/healthz", "X-Correlation-ID: ünïcode".encode()),
    "a body where none is asked for": build_get(b"/healthz", b"Content-Length: 5") + b"hello",
    "chunks": build_post(b"/healthz", b"2\r\n{}\r\n0\r\n\r\n", b"Transfer-Encoding: chunked"),
    "head": build_get(b"/healthz", method=b"HEAD"),
    "options": build_get(b"/healthz", method=b"OPTIONS"),
}


@pytest.mark.parametrize("raw", ODD.values(), ids=ODD.keys())
def test_what_is_odd_is_answered_without_harm(url: str, raw: bytes) -> None:
    (status,) = parse_statuses(send_raw(url, raw))
    assert status < 500
    check_health(url)


@pytest.mark.parametrize("where", [b"/conversations/%s", b"/traces/%s", b"/conversations/search?q=%s", b"/%s"])
@pytest.mark.parametrize("line", [b"%0d%0aX-Injected:%201", b"%0aX-Injected:%201", b"%E5%98%8A%E5%98%8DX-Injected:1"])
def test_no_header_can_be_injected_through_an_id(url: str, where: bytes, line: bytes) -> None:
    head = send_raw(url, build_get(where % line, b"X-Correlation-ID: x\rX-Injected: 1")).partition(b"\r\n\r\n")[0]
    assert b"\nx-injected" not in head.lower() and all(status < 500 for status in parse_statuses(head))
    head = send_raw(url, build_get(where % line)).partition(b"\r\n\r\n")[0]
    assert head and b"\nx-injected" not in head.lower() and all(status < 500 for status in parse_statuses(head))
    check_health(url)


def test_requests_in_one_piece_are_answered_in_their_order(url: str) -> None:
    paths = [b"/healthz", b"/nowhere", b"/healthz", b"/conversations/x/events", b"/healthz"] * 20
    raw = b"".join(b"GET " + path + b" HTTP/1.1\r\n" + HOST + KEY + b"\r\n" for path in paths) + build_get(b"/healthz")
    assert parse_statuses(send_raw(url, raw)) == [200, 404, 200, 404, 200] * 20 + [200]
    check_health(url)


def test_whoever_is_slow_holds_up_nobody(url: str) -> None:
    raw = build_post(b"/conversations", b'{"title":"slow"}', b"Content-Length: 16")
    with ExitStack() as open_wires:
        wires = [open_wires.enter_context(closing(connect(url))) for _ in range(2 * len(raw) // 3)]
        for number, wire in enumerate(wires):
            wire.sendall(raw[: number + 1])  # cut off in every place
        check_health(url)
        for number, wire in enumerate(wires[::10]):
            wire.sendall(raw[10 * number + 1 :])
            assert parse_statuses(read_until_silence(wire, TIMEOUT_S)) == [201]
    check_health(url)


def test_whoever_reads_nothing_holds_up_nobody(url: str) -> None:
    with ExitStack() as open_wires:
        for _ in range(20):
            wire = open_wires.enter_context(closing(connect(url)))
            wire.sendall(b"GET /openapi.json HTTP/1.1\r\n" + HOST + b"\r\n")
        check_health(url)
    check_health(url)


VALID = [
    build_get(b"/conversations?limit=5&after=x", b"X-Correlation-ID: abc", b"Accept-Language: de"),
    build_post(b"/conversations", b'{"title":"hello"}', b"Content-Length: 17"),
    build_post(b"/ai/respond", b'11\r\n{"prompt":"hello"}\r\n0\r\n\r\n', b"Transfer-Encoding: chunked"),
]
cuts = strategies.tuples(strategies.integers(0, 400), strategies.integers(0, 8), strategies.binary(max_size=8))


@make_settings(25 * EXAMPLES)
@given(raw=strategies.sampled_from(VALID), changes=strategies.lists(cuts, min_size=1, max_size=4))
def test_a_request_with_a_few_bytes_wrong_does_no_harm(
    url: str, raw: bytes, changes: list[tuple[int, int, bytes]]
) -> None:
    for change, length, put in changes:
        raw = raw[:change] + put + raw[change + length :]
    answers = send_raw(url, raw, SILENCE_S)
    assert all(status < 500 for status in parse_statuses(answers)), (raw, answers)
    check_health(url)
