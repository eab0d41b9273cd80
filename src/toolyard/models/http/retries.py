"""HTTP requests from a wire to its provider: deadlines, retries before the first byte, and failures as a Problem.

The bodies are opaque here: `reader` and the wires read the answers, and `wire_client` masks secrets in problems.
"""

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from math import isfinite

from toolyard.core.items import Problem
from toolyard.core.model_failures import INTERRUPTED, RETRYABLE_ERROR_TYPES
from toolyard.models.http.connect import PrivateAddress, build_proxy_headers, connect, parse_endpoint
from toolyard.models.http.connection import HttpConnection
from toolyard.models.http.problems import WireFailure, build_failure, classify_status, parse_error_body, suggest_fix

MAX_ERROR_BYTES = 65_536
DRAIN_S = 0.25
"""The timeout for the end of a body whose reply is complete, so that its connection can be used again."""
LARGE_BODY_BYTES = 65_536
"""A larger body is written separately from its head: copying it would cost more than a second write."""
KEEP_ALIVE_S = 30.0
MAX_IDLE_CONNECTIONS = 100
"""Idle connections that one client keeps for later requests."""
MAX_RETRY_AFTER_S = 5.0
"""The longest `Retry-After` that is waited for. A longer one is told to the client, which may wait itself."""
MAX_RETRYING_S = 10.0
"""The longest time to go on retrying: the last failure has to reach a client before its own timeout."""
MAX_FAIL_FAST_WAIT_S = 1.0
"""The longest `Retry-After` that is honoured where another model can answer instead."""
FAIL_FAST_FIRST_BYTE_S = 20.0
"""The first-byte deadline where another model can answer instead."""


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
    max_retry_after_s: float = MAX_RETRY_AFTER_S
    """If a provider asks to wait longer, the request fails at once."""
    max_total_s: float = MAX_RETRYING_S
    """The longest time from the first attempt to the start of the last one."""
    after_timeouts: bool = True
    """Whether to retry also after a timeout: a connection that was not made in time, or a 408 or 504."""

    def to_fail_fast(self) -> "Retry":
        """Return the policy for a request that another model can answer: one retry at most, and only a quick one."""
        attempts, max_retry_after_s = min(self.attempts, 2), min(self.max_retry_after_s, MAX_FAIL_FAST_WAIT_S)
        return replace(self, attempts=attempts, max_retry_after_s=max_retry_after_s, after_timeouts=False)

    def compute_wait_s(self, attempt: int, random: float) -> float:
        """Return the backoff: doubled with each attempt, less up to half of it so that clients do not retry in step."""
        return min(self.max_wait_s, self.first_wait_s * 2 ** (attempt - 1)) * (1 - random / 2)


@dataclass(frozen=True, slots=True)
class _FailedAttempt:
    """One attempt that failed."""

    problem: Problem
    retryable: bool = False
    retry_after_s: float | None = None


class _ConnectTimeout(Exception):
    """The connection was not established in time."""


class _CompressedResponse(ConnectionError):
    """The answer is compressed although the request accepts only `identity`."""


class HttpResponse:
    """A successful answer whose body has begun to arrive. `first` holds its first bytes."""

    __slots__ = ("_connection", "_idle_s", "_loop", "_over", "first", "request_id")

    def __init__(self, connection: HttpConnection, first: bytes, idle_s: float) -> None:
        self._connection = connection
        self._idle_s = idle_s
        self._loop = connection.loop
        self._over = False
        self.first = first
        self.request_id = _find_request_id(connection)

    async def read(self) -> bytes:
        """Return the next bytes of the body, empty at its end. Raises WireFailure."""
        try:
            return await self._connection.read(self._loop.time() + self._idle_s)
        except TimeoutError:
            message = f"nothing came for {self._idle_s:g} s in the middle of the reply (the idle deadline)"
            raise build_failure(message, "timeout", deadline="idle", **{INTERRUPTED: True}) from None
        except OSError as error:
            message = f"the connection broke off in the middle of the reply: {_describe_error(error)}"
            raise build_failure(message, "unavailable", **{INTERRUPTED: True}) from error

    async def drain(self) -> None:
        """Release the connection for reuse once the reply is complete, if the body ends within `DRAIN_S`."""
        # A reply ends with an event such as `[DONE]`, before the last chunk of the HTTP body. A connection can only
        # be used again after that chunk, so it is read here instead of hanging up.
        if not self._connection.at_end:
            due = self._loop.time() + DRAIN_S
            with contextlib.suppress(TimeoutError, OSError):
                while await self._connection.read(due):
                    pass
        self._over = True
        self._connection.release()

    def close(self) -> None:
        """Close the connection unless `drain` has released it."""
        if not self._over:
            self._connection.close()


class HttpClient:
    """Sends requests to one address over kept-alive connections."""

    def __init__(
        self,
        *,
        url: str,
        headers: Mapping[str, str],
        deadlines: Deadlines,
        retry: Retry,
        sleep: Callable[[float], Awaitable[None]],
        random: Callable[[], float],
        method: str = "POST",
        is_public_only: Callable[[], bool] = lambda: False,
    ) -> None:
        """`is_public_only` tells, for each connection, whether to refuse private addresses."""
        self._address = parse_endpoint(url)
        constant_headers = {"Host": self._address.authority, **build_proxy_headers(self._address), **headers}
        self._head = f"{method} {self._address.target} HTTP/1.1\r\n{_encode_headers(constant_headers)}"
        self._deadlines = deadlines
        self._retry = retry
        self._sleep = sleep
        self._random = random
        self._is_public_only = is_public_only
        self._idle: list[HttpConnection] = []
        self._closed = False

    async def send(
        self,
        body: bytes,
        headers: Mapping[str, str],
        now: Callable[[], float],
        *,
        fail_fast: bool = False,
        admit: Callable[[Problem], Awaitable[None]] | None = None,
    ) -> HttpResponse:
        """Return the answer once its body begins. Raises WireFailure when every attempt failed.

        Retries happen only here, before the first byte of a body: deltas that were already sent on cannot be taken
        back, so a stream that breaks later ends the turn. `admit` is called with the failure of an attempt that the
        provider may charge for, before the next one; it raises WireFailure if there must be none.
        """
        retry = self._retry.to_fail_fast() if fail_fast else self._retry
        usual_s = self._deadlines.first_byte_s
        first_byte_s = min(usual_s, FAIL_FAST_FIRST_BYTE_S) if fail_fast else usual_s
        attempt, spent_s, loop = 1, 0.0, asyncio.get_running_loop()
        while True:
            began = loop.time()
            outcome = await self._attempt(body, headers, now, first_byte_s)
            if isinstance(outcome, HttpResponse):
                return outcome
            wait_s = self._next_wait_s(outcome, attempt, retry)
            spent_s += loop.time() - began + (wait_s or 0.0)
            if wait_s is None or spent_s > retry.max_total_s:
                raise WireFailure(_add_attempts(outcome.problem, attempt))
            if admit is not None and outcome.problem.details.get(INTERRUPTED):
                await admit(outcome.problem)
            await self._sleep(wait_s)
            attempt += 1

    async def close(self) -> None:
        self._closed = True
        while self._idle:
            self._idle.pop().close()

    def _next_wait_s(self, refusal: _FailedAttempt, attempt: int, retry: Retry) -> float | None:
        """Return the wait until the next attempt; None if there is none. Raises WireFailure if it would be too long."""
        over = attempt >= retry.attempts or (refusal.problem.error_type == "timeout" and not retry.after_timeouts)
        if over or not refusal.retryable:
            return None
        retry_after_s = refusal.retry_after_s
        if retry_after_s is None:
            return retry.compute_wait_s(attempt, self._random())
        if retry_after_s > retry.max_retry_after_s:
            reason = f"; it asks to wait {retry_after_s:g} s, and at most {retry.max_retry_after_s:g} s are waited"
            problem = refusal.problem
            details = {**problem.details, "attempts": attempt}
            raise WireFailure(Problem(error=problem.error + reason, error_type=problem.error_type, details=details))
        return retry_after_s

    async def _attempt(
        self, body: bytes, headers: Mapping[str, str], now: Callable[[], float], first_byte_s: float
    ) -> HttpResponse | _FailedAttempt:
        loop = asyncio.get_running_loop()
        head = f"{self._head}{_encode_headers(headers)}Content-Length: {len(body)}\r\n\r\n".encode("latin-1")
        request = (head + body,) if len(body) < LARGE_BODY_BYTES else (head, body)
        now_s = loop.time()
        connection = self._take_idle(now_s)
        answer: HttpResponse | None = None
        try:
            if connection is None:
                connection = await self._connect(now_s + self._deadlines.connect_s)
                now_s = loop.time()
            due = now_s + first_byte_s
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
            # Not retried: the provider has taken the request and may be working on it; a retry would start over.
            return self._build_timeout(f"no answer within {first_byte_s:g} s", "first_byte", retryable=False)
        except OSError as error:
            # A server may close an idle connection just as the next request goes out over it. No answer began, so the
            # provider is not at fault and the request goes out again without a wait.
            stale = connection is not None and connection.used and not connection.headers
            problem = Problem(
                error=f"the provider cannot be reached: {_describe_error(error)}",
                error_type="unavailable",
                details={INTERRUPTED: True} if connection is not None and not stale else {},
            )
            return _FailedAttempt(problem, retryable=_is_retryable(error), retry_after_s=0.0 if stale else None)
        finally:
            # Without an answer, also when cancelled, request and answer may be anywhere: never reuse such a connection.
            if connection is not None and answer is None:
                connection.close()

    def _take_idle(self, now: float) -> HttpConnection | None:
        """Return the idle connection that was used last, if any is still open and fresh enough."""
        while self._idle:
            connection = self._idle.pop()
            if not connection.closed and now - connection.idle_since < KEEP_ALIVE_S:
                return connection
            connection.close()
        return None

    async def _connect(self, due: float) -> HttpConnection:
        try:
            async with asyncio.timeout_at(due):
                return await connect(self._address, self._keep_idle, due, public_only=self._is_public_only())
        except TimeoutError:
            raise _ConnectTimeout from None

    def _keep_idle(self, connection: HttpConnection) -> None:
        if self._closed or len(self._idle) >= MAX_IDLE_CONNECTIONS:
            connection.close()
        else:
            self._idle.append(connection)

    def _build_timeout(self, message: str, deadline: str, *, retryable: bool) -> _FailedAttempt:
        error = f"{message} (the {deadline.replace('_', ' ')} deadline)"
        # Without a connection the provider knows nothing of the request.
        details: dict[str, object] = {"deadline": deadline} if retryable else {"deadline": deadline, INTERRUPTED: True}
        return _FailedAttempt(Problem(error=error, error_type="timeout", details=details), retryable)


async def _read_error(connection: HttpConnection, due: float, now: float) -> _FailedAttempt:
    body = bytearray()
    with contextlib.suppress(ConnectionError):
        while len(body) < MAX_ERROR_BYTES and (packet := await connection.read(due)):
            body += packet
    words, codes = parse_error_body(bytes(body[:MAX_ERROR_BYTES]))
    status = connection.status
    if location := connection.headers.get("location"):
        words = f"it redirects to {location}; set the base URL to where it is now. {words}"
    details: dict[str, object] = {**codes, "status": status}
    if request_id := _find_request_id(connection):
        details["request_id"] = request_id
    retry_after_s = parse_retry_after(connection.headers, now)
    if retry_after_s is not None:
        details["retry_after_s"] = retry_after_s
    error_type = classify_status(status, f"{words} {codes}")
    problem = Problem(
        error=f"the provider answered {status} {connection.reason}: {words}{suggest_fix(words)}",
        error_type=error_type,
        details=details,
    )
    return _FailedAttempt(problem, error_type in RETRYABLE_ERROR_TYPES, retry_after_s)


def _require_uncompressed(connection: HttpConnection) -> None:
    encoding = connection.headers.get("content-encoding", "identity")
    if encoding != "identity":
        raise _CompressedResponse(f"the answer is compressed ({encoding}), which was not asked for")


def _encode_headers(headers: Mapping[str, str]) -> str:
    """Return the header lines. Raises ValueError for a value, such as one with a line break, that would add headers."""
    for name, value in headers.items():
        if not (name + value).isprintable():
            raise ValueError(f"the header {name!r} has characters that cannot be sent")
    return "".join(f"{name}: {value}\r\n" for name, value in headers.items())


def parse_retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Return how many seconds the provider asks to wait. `Retry-After` holds seconds or an HTTP date."""
    milliseconds = headers.get("retry-after-ms", "").strip()
    if milliseconds.isdecimal():
        return int(milliseconds) / 1000
    value = headers.get("retry-after", "").strip()
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - now
        except (ValueError, OverflowError):
            return None
    return max(0.0, seconds) if isfinite(seconds) else None


def _add_attempts(problem: Problem, attempts: int) -> Problem:
    if attempts == 1:
        return problem
    details = {**problem.details, "attempts": attempts}
    return Problem(error=f"{problem.error} ({attempts} attempts)", error_type=problem.error_type, details=details)


def _is_retryable(error: OSError) -> bool:
    return not isinstance(error, ssl.SSLError | _CompressedResponse | PrivateAddress)


def _find_request_id(connection: HttpConnection) -> str:
    return connection.headers.get("x-request-id") or connection.headers.get("request-id") or ""


def _describe_error(error: Exception) -> str:
    return str(error) or type(error).__name__
