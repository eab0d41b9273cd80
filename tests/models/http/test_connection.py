"""The HTTP client of the wires: what providers, proxies and networks do to a connection."""

import asyncio
import base64
import datetime
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tcp_servers import serve_connections
from toolyard.core.errors import Misconfigured
from toolyard.models.http.problems import WireFailure
from toolyard.models.http.retries import Deadlines, HttpClient, HttpResponse, Retry
from wire.local import SleepRecorder, raw_server

ConnectionHandler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
HOST = "provider.test"


def build_client(url: str, sleeps: SleepRecorder | None = None, attempts: int = 2) -> HttpClient:
    return HttpClient(
        url=url,
        headers={"Content-Type": "application/json"},
        deadlines=Deadlines(connect_s=5, first_byte_s=5, idle_s=5),
        retry=Retry(attempts=attempts),
        sleep=sleeps or SleepRecorder(),
        random=lambda: 0.0,
    )


async def post(http: HttpClient) -> bytes:
    """The whole body of the answer."""
    answer = await http.send(b"{}", {}, lambda: 0.0)
    body = await read_rest(answer)
    await answer.drain()
    return body


async def read_rest(answer: HttpResponse) -> bytes:
    pieces, piece = [answer.first], answer.first
    while piece:
        piece = await answer.read()
        pieces.append(piece)
    return b"".join(pieces)


async def read_request(reader: asyncio.StreamReader) -> bytes:
    """The head of one request whose body has two bytes."""
    head = await reader.readuntil(b"\r\n\r\n")
    await reader.readexactly(2)
    return head


def answer_with(*answers: bytes, then_hang_up: bool = True) -> ConnectionHandler:
    """Answers one request after another on a connection."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in answers:
            await read_request(reader)
            writer.write(answer)
            await writer.drain()
        if not then_hang_up:
            await reader.read()

    return talk


def run_against(
    talk: ConnectionHandler, use: Callable[[HttpClient], Awaitable[None]], sleeps: SleepRecorder | None = None
) -> None:
    async def run() -> None:
        async with raw_server(talk) as url:
            http = build_client(url, sleeps)
            await use(http)
            await http.close()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (OK, b"hi"),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + OK, b"hi"),
        (b"HTTP/1.1 200 OK\r\n\r\nuntil I hang up", b"until I hang up"),
        (b"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\nold", b"old"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n1\r\nb\r\n0\r\n\r\n", b"ab"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
    ],
    ids=["length", "signs of life", "until the end", "1.0", "chunked", "nothing"],
)
def test_every_way_to_end_a_body_is_read(answer: bytes, body: bytes) -> None:
    async def use(http: HttpClient) -> None:
        assert await post(http) == body

    run_against(answer_with(answer), use)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", "not HTTP/1.1"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"a" * 100_000, "head is longer than"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nhi", "compressed (gzip)"),
        (b"", "hung up"),
    ],
    ids=["another protocol", "endless head", "compressed", "nothing"],
)
def test_what_cannot_be_read_is_told(answer: bytes, says: str) -> None:
    async def use(http: HttpClient) -> None:
        with pytest.raises(WireFailure) as caught:
            await post(http)
        assert caught.value.problem.error_type == "unavailable"
        assert says in caught.value.problem.error

    run_against(answer_with(answer), use)


def test_a_body_that_breaks_off_is_told_after_what_came_of_it() -> None:
    async def use(http: HttpClient) -> None:
        answer = await http.send(b"{}", {}, lambda: 0.0)
        assert answer.first == b"hal"
        with pytest.raises(WireFailure, match="broke off in the middle"):
            await answer.read()

    run_against(answer_with(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhal"), use)


def test_a_kept_connection_that_the_server_left_meanwhile_costs_one_more_attempt_and_no_wait() -> None:
    sleeps, connections = SleepRecorder(), 0

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await read_request(reader)
        writer.write(OK)
        await read_request(reader)  # it reads the next request and hangs up without a word

    async def use(http: HttpClient) -> None:
        assert [await post(http), await post(http)] == [b"hi", b"hi"]

    run_against(talk, use, sleeps)
    assert (connections, sleeps.durations_s) == (2, [0.0])


def test_a_connection_on_which_the_server_talks_unasked_is_not_used_again() -> None:
    connections = 0

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await read_request(reader)
        writer.write(OK + OK)
        await reader.read()

    async def use(http: HttpClient) -> None:
        assert [await post(http), await post(http)] == [b"hi", b"hi"]

    run_against(talk, use)
    assert connections == 2


def test_a_connection_on_which_a_request_still_waits_to_be_sent_is_not_used_again() -> None:
    connections: list[bytes] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(OK)  # before the rest of the request was taken
        await writer.drain()
        await asyncio.Event().wait()

    async def use(http: HttpClient) -> None:
        large = b" " * 20_000_000
        for _ in range(2):
            answer = await http.send(large, {}, lambda: 0.0)
            assert await read_rest(answer) == b"hi"
            await answer.drain()

    run_against(talk, use)
    assert len(connections) == 2


def test_an_answer_that_nobody_reads_waits_at_the_other_side() -> None:
    size, sent = 64 * 1024 * 1024, 0

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.transport.set_write_buffer_limits(0)
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        while sent < size:
            writer.write(b"x" * 65_536)
            await writer.drain()
            sent += 65_536

    async def use(http: HttpClient) -> None:
        answer = await http.send(b"{}", {}, lambda: 0.0)
        seen, still = -1, 0
        while still < 200:
            await asyncio.sleep(0)
            still = still + 1 if sent == seen else 0
            seen = sent
        assert sent < size // 2
        assert len(await read_rest(answer)) == size
        answer.close()

    run_against(talk, use)


@pytest.mark.parametrize("url", ["ftp://host/v1", "https://", "http://me:secret@host/v1", "http://host:port/v1"])
def test_an_address_to_which_nothing_can_be_sent_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(Misconfigured) as caught:
        build_client(url)
    assert "secret" not in str(caught.value)


def test_a_header_that_would_not_stay_one_header_is_not_sent() -> None:
    async def use(http: HttpClient) -> None:
        with pytest.raises(ValueError, match="cannot be sent"):
            await http.send(b"{}", {"X-Correlation-ID": "a\r\nX-Admin: yes"}, lambda: 0.0)

    run_against(answer_with(OK), use)


# TLS and proxies


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """The certificate and the key of HOST, signed by itself, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, HOST)])
    now = datetime.datetime.now(datetime.UTC)
    names = [x509.DNSName(HOST), x509.IPAddress(ip_address("127.0.0.1"))]
    cert = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    plain = serialization.NoEncryption()
    path = tmp_path / "provider.pem"
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
        + cert.public_bytes(serialization.Encoding.PEM)
    )
    return path


@asynccontextmanager
async def tls_server(certificate: Path, talk: ConnectionHandler) -> AsyncGenerator[int, None]:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    async with serve_connections(talk, tls=context) as port:
        yield port


class Proxy:
    """Lets through whatever comes to the one port it knows, and notes what it was asked."""

    def __init__(self, port: int, answer: bytes = b"HTTP/1.1 200 Connection established\r\n\r\n") -> None:
        self.heads: list[bytes] = []
        self._port = port
        self._answer = answer

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(self._answer)
        if b" 200 " not in self._answer or not self.heads[-1].startswith(b"CONNECT"):
            return
        upstream_reader, upstream_writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            await asyncio.gather(_pump(reader, upstream_writer), _pump(upstream_reader, writer))
        finally:
            upstream_writer.close()


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    while data := await source.read(65_536):
        sink.write(data)
    sink.close()


async def test_tls_holds_for_the_authority_that_ssl_cert_file_names(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    async with tls_server(certificate, answer_with(OK, OK)) as port:
        http = build_client(f"https://127.0.0.1:{port}/v1")
        assert [await post(http), await post(http)] == [b"hi", b"hi"]
        await http.close()


async def test_a_certificate_that_nobody_vouches_for_is_refused_and_not_tried_again(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    sleeps = SleepRecorder()
    async with tls_server(certificate, answer_with(OK)) as port:
        with pytest.raises(WireFailure, match="CERTIFICATE_VERIFY_FAILED"):
            await post(build_client(f"https://127.0.0.1:{port}/v1", sleeps))
    assert sleeps.durations_s == []


async def test_a_proxy_of_the_environment_is_tunnelled_through_with_its_credentials(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    async with tls_server(certificate, answer_with(OK)) as port:
        proxy = Proxy(port)
        async with raw_server(proxy.talk) as url:
            monkeypatch.setenv("https_proxy", f"http://me:s%40fe@127.0.0.1:{urlsplit(url).port}")
            http = build_client(f"https://{HOST}/v1")
            assert await post(http) == b"hi"
            await http.close()
        [head] = proxy.heads
        assert head.startswith(b"CONNECT provider.test:443 HTTP/1.1\r\n")
        assert b"Basic " + base64.b64encode(b"me:s@fe") in head


async def test_a_plain_address_is_asked_of_the_proxy_whole_and_this_machine_never(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    proxy = Proxy(0, OK)
    async with raw_server(proxy.talk) as url, raw_server(answer_with(OK)) as here:
        monkeypatch.setenv("http_proxy", url)
        for address in (f"http://{HOST}/v1?a=1", here):
            http = build_client(address)
            assert await post(http) == b"hi"
            await http.close()
    [head] = proxy.heads
    assert head.startswith(b"POST http://provider.test/v1?a=1 HTTP/1.1\r\nHost: provider.test\r\n")


async def test_a_proxy_that_refuses_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = Proxy(0, b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
    async with raw_server(proxy.talk) as url:
        monkeypatch.setenv("https_proxy", url)
        with pytest.raises(WireFailure, match="the proxy answers 407 Proxy Authentication Required"):
            await post(build_client(f"https://{HOST}/v1"))
