"""Requests of a wire to its provider: deadlines, retries before the first byte, and what went wrong as a Problem.

It does not know what is sent nor what the answer means, and it never lets a secret into a problem.
"""

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime

from toolyard.core.items import Problem
from toolyard.models.http.connect import build_proxy_headers, connect, parse_endpoint
from toolyard.models.http.connection import HttpConnection
from toolyard.models.http.problems import WireFailure, build_failure, classify_status, parse_error_body, suggest_fix

MAX_ERROR_BYTES = 65_536
DRAIN_S = 0.25
"""How long the end of an answer that is complete is waited for, so that its connection can be used again."""
LARGE_BODY_BYTES = 65_536
"""A larger body is not copied behind its head: that costs more than one more write."""
KEEP_ALIVE_S = 30.0
MAX_IDLE_CONNECTIONS = 100
"""Connections that are kept for the next requests."""
MAX_FAIL_FAST_WAIT_S = 1.0
"""As long as a provider may ask to wait where another one can answer."""
FAIL_FAST_FIRST_BYTE_S = 20.0
"""As long as the first byte is waited for there."""
PERMANENT_CODES = ("insufficient_quota",)
"""Codes of a 429 that no waiting helps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlines:
    connect_s: float = 10.0
    first_byte_s: float = 120.0
    """From sending the request to the first byte of the body."""
    idle_s: float = 60.0
    """Between two reads of the body."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    attempts: int = 4
    first_wait_s: float = 0.5
    max_wait_s: float = 8.0
    max_retry_after_s: float = 60.0
    """A provider that asks to wait longer is not waited for."""
    after_timeouts: bool = True
    """What took its time is tried again, too."""

    def to_fail_fast(self) -> "Retry":
        """For a request that somebody else can answer: once more at most, and only if that is soon."""
        attempts, asked = min(self.attempts, 2), min(self.max_retry_after_s, MAX_FAIL_FAST_WAIT_S)
        return replace(self, attempts=attempts, max_retry_after_s=asked, after_timeouts=False)

    def compute_wait_s(self, attempt: int, random: float) -> float:
        """Twice as long each time, less up to a half so that many clients do not come back together."""
        return min(self.max_wait_s, self.first_wait_s * 2 ** (attempt - 1)) * (1 - random / 2)


@dataclass(frozen=True, slots=True)
class _FailedAttempt:
    """One attempt that came to nothing."""

    problem: Problem
    retryable: bool = False
    retry_after_s: float | None = None


class _ConnectTimeout(Exception):
    """Nobody answered the call in time."""


class _CompressedResponse(ConnectionError):
    """The answer cannot be read."""


class HttpResponse:
    """A body that has begun to arrive."""

    __slots__ = ("_connection", "_idle_s", "_loop", "_over", "first", "request_id")

    def __init__(self, connection: HttpConnection, first: bytes, idle_s: float) -> None:
        self._connection = connection
        self._idle_s = idle_s
        self._loop = asyncio.get_running_loop()
        self._over = False
        self.first = first
        self.request_id = _find_request_id(connection)

    async def read(self) -> bytes:
        """The next bytes, empty at the end. Raises WireFailure."""
        try:
            return await self._connection.read(self._loop.time() + self._idle_s)
        except TimeoutError:
            said = f"nothing came for {self._idle_s:g} s in the middle of the reply (the idle deadline)"
            raise build_failure(said, "timeout", deadline="idle") from None
        except OSError as error:
            said = f"the connection broke off in the middle of the reply: {_describe_error(error)}"
            raise build_failure(said, "unavailable") from error

    async def drain(self) -> None:
        """All that matters was read: keep the connection, if the very end of the answer comes at once."""
        due = self._loop.time() + DRAIN_S
        with contextlib.suppress(TimeoutError, OSError):
            while await self._connection.read(due):
                pass
        self._over = True
        self._connection.release()

    def close(self) -> None:
        """Hang up, unless it was read to its end."""
        if not self._over:
            self._connection.close()


class HttpClient:
    """Posts to one address."""

    def __init__(
        self,
        *,
        url: str,
        headers: Mapping[str, str],
        deadlines: Deadlines,
        retry: Retry,
        sleep: Callable[[float], Awaitable[None]],
        random: Callable[[], float],
    ) -> None:
        self._address = parse_endpoint(url)
        same = {"Host": self._address.authority, **build_proxy_headers(self._address), **headers}
        self._head = f"POST {self._address.target} HTTP/1.1\r\n{_encode_headers(same)}"
        self._deadlines = deadlines
        self._retry = retry
        self._sleep = sleep
        self._random = random
        self._idle: list[HttpConnection] = []
        self._closed = False

    async def post(
        self, body: bytes, headers: Mapping[str, str], now: Callable[[], float], *, fail_fast: bool = False
    ) -> HttpResponse:
        """The answer once its body begins. Raises WireFailure when no attempt came to one."""
        retry = self._retry.to_fail_fast() if fail_fast else self._retry
        usual_s = self._deadlines.first_byte_s
        first_byte_s = min(usual_s, FAIL_FAST_FIRST_BYTE_S) if fail_fast else usual_s
        attempt = 1
        while True:
            outcome = await self._attempt(body, headers, now, first_byte_s)
            if isinstance(outcome, HttpResponse):
                return outcome
            wait_s = self._next_wait_s(outcome, attempt, retry)
            if wait_s is None:
                raise WireFailure(_add_attempts(outcome.problem, attempt))
            await self._sleep(wait_s)
            attempt += 1

    async def close(self) -> None:
        self._closed = True
        while self._idle:
            self._idle.pop().close()

    def _next_wait_s(self, refusal: _FailedAttempt, attempt: int, retry: Retry) -> float | None:
        """How long to wait before the next attempt; None if there is none."""
        over = attempt >= retry.attempts or (refusal.problem.error_type == "timeout" and not retry.after_timeouts)
        if over or not refusal.retryable:
            return None
        asked = refusal.retry_after_s
        if asked is None:
            return retry.compute_wait_s(attempt, self._random())
        if asked > retry.max_retry_after_s:
            said = f"; it asks to wait {asked:g} s, and at most {retry.max_retry_after_s:g} s are waited"
            problem = refusal.problem
            details = {**problem.details, "retry_after_s": asked, "attempts": attempt}
            raise WireFailure(Problem(error=problem.error + said, error_type=problem.error_type, details=details))
        return asked

    async def _attempt(
        self, body: bytes, headers: Mapping[str, str], now: Callable[[], float], first_byte_s: float
    ) -> HttpResponse | _FailedAttempt:
        loop = asyncio.get_running_loop()
        head = f"{self._head}{_encode_headers(headers)}Content-Length: {len(body)}\r\n\r\n".encode("latin-1")
        request = (head + body,) if len(body) < LARGE_BODY_BYTES else (head, body)
        connection = self._take_idle(loop.time())
        answer: HttpResponse | None = None
        try:
            if connection is None:
                connection = await self._connect(loop.time() + self._deadlines.connect_s)
            due = loop.time() + first_byte_s
            connection.send(*request)
            await connection.read_head(due)
            if not 200 <= connection.status < 300:
                return await _read_error(connection, due, now())
            _require_uncompressed(connection)
            answer = HttpResponse(connection, await connection.read(due), self._deadlines.idle_s)
            return answer
        except _ConnectTimeout:
            return self._build_timeout(
                f"no connection within {self._deadlines.connect_s:g} s", "connect", retryable=True
            )
        except TimeoutError:
            return self._build_timeout(f"no answer within {first_byte_s:g} s", "first_byte", retryable=False)
        except OSError as error:
            problem = Problem(
                error=f"the provider cannot be reached: {_describe_error(error)}", error_type="unavailable"
            )
            stale = connection is not None and connection.used and not connection.headers
            return _FailedAttempt(problem, retryable=_is_retryable(error), retry_after_s=0.0 if stale else None)
        finally:
            if connection is not None and answer is None:
                connection.close()

    def _take_idle(self, now: float) -> HttpConnection | None:
        """The connection that was used last, if any is still good."""
        while self._idle:
            connection = self._idle.pop()
            if not connection.closed and now - connection.idle_since < KEEP_ALIVE_S:
                return connection
            connection.close()
        return None

    async def _connect(self, due: float) -> HttpConnection:
        try:
            async with asyncio.timeout_at(due):
                return await connect(self._address, self._keep_idle, due)
        except TimeoutError:
            raise _ConnectTimeout from None

    def _keep_idle(self, connection: HttpConnection) -> None:
        if self._closed or len(self._idle) >= MAX_IDLE_CONNECTIONS:
            connection.close()
        else:
            self._idle.append(connection)

    def _build_timeout(self, message: str, deadline: str, *, retryable: bool) -> _FailedAttempt:
        error = f"{message} (the {deadline.replace('_', ' ')} deadline)"
        return _FailedAttempt(Problem(error=error, error_type="timeout", details={"deadline": deadline}), retryable)


async def _read_error(connection: HttpConnection, due: float, now: float) -> _FailedAttempt:
    body = bytearray()
    with contextlib.suppress(ConnectionError):
        while len(body) < MAX_ERROR_BYTES and (packet := await connection.read(due)):
            body += packet
    words, given = parse_error_body(bytes(body[:MAX_ERROR_BYTES]))
    status = connection.status
    if location := connection.headers.get("location"):
        words = f"it redirects to {location}; set the base URL to where it is now. {words}"
    details: dict[str, object] = {**given, "status": status}
    if request_id := _find_request_id(connection):
        details["request_id"] = request_id
    problem = Problem(
        error=f"the provider answered {status} {connection.reason}: {words}{suggest_fix(words)}",
        error_type=classify_status(status, f"{words} {given}"),
        details=details,
    )
    passing = (status in (408, 429) or status >= 500) and given.get("code") not in PERMANENT_CODES
    return _FailedAttempt(problem, passing, parse_retry_after(connection.headers, now))


def _require_uncompressed(connection: HttpConnection) -> None:
    packed = connection.headers.get("content-encoding", "identity")
    if packed != "identity":
        raise _CompressedResponse(f"the answer is compressed ({packed}), which was not asked for")


def _encode_headers(headers: Mapping[str, str]) -> str:
    """Raises ValueError if a header would not stay one header."""
    for name, value in headers.items():
        if not (name + value).isprintable():
            raise ValueError(f"the header {name!r} has characters that cannot be sent")
    return "".join(f"{name}: {value}\r\n" for name, value in headers.items())


def parse_retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """How long the provider asks to wait: in seconds, or until an HTTP date."""
    said = headers.get("retry-after", "").strip()
    try:
        return max(0.0, float(said))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(said).timestamp() - now)
    except (ValueError, OverflowError):
        return None


def _add_attempts(problem: Problem, attempts: int) -> Problem:
    if attempts == 1:
        return problem
    details = {**problem.details, "attempts": attempts}
    return Problem(error=f"{problem.error} ({attempts} attempts)", error_type=problem.error_type, details=details)


def _is_retryable(error: OSError) -> bool:
    return not isinstance(error, ssl.SSLError | _CompressedResponse)


def _find_request_id(connection: HttpConnection) -> str:
    return connection.headers.get("x-request-id") or connection.headers.get("request-id") or ""


def _describe_error(error: Exception) -> str:
    return str(error) or type(error).__name__
