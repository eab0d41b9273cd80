"""One long-lived HTTP session of a wire: deadlines, retries before the first byte, and what went wrong as a Problem.

It does not know what is sent nor what the answer means, and it never lets a secret into a problem.
"""

import asyncio
import contextlib
import io
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

import aiohttp

from toolyard.core.items import Problem
from toolyard.models._problems import WireFailure, error_type_of, failure, words_of

MAX_ERROR_BYTES = 65_536
LARGE_BODY_BYTES = 1_000_000
"""aiohttp wants a larger body as a file, which it sends piece by piece."""
DRAIN_S = 0.25
"""How long the end of an answer that is complete is waited for, so that its connection can be used again."""
KEEP_ALIVE_S = 30.0
POINTLESS = ("insufficient_quota",)
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
    first_s: float = 0.5
    most_s: float = 8.0
    most_retry_after_s: float = 60.0
    """A provider that asks to wait longer is not waited for."""

    def wait_s(self, attempt: int, random: float) -> float:
        """Twice as long each time, less up to a half so that many clients do not come back together."""
        return min(self.most_s, self.first_s * 2 ** (attempt - 1)) * (1 - random / 2)


@dataclass(frozen=True, slots=True)
class _Refusal:
    """One attempt that came to nothing."""

    problem: Problem
    passing: bool = False
    retry_after_s: float | None = None


class Answer:
    """A body that has begun to arrive."""

    __slots__ = ("_idle_s", "_loop", "_response", "_timer", "_waits_since", "first")

    def __init__(self, response: aiohttp.ClientResponse, first: bytes, idle_s: float) -> None:
        self._response = response
        self._idle_s = idle_s
        self._loop = asyncio.get_running_loop()
        self._waits_since: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.first = first

    @property
    def request_id(self) -> str:
        return _request_id(self._response)

    async def read(self) -> bytes:
        """The next bytes, empty at the end. Raises WireFailure."""
        content = self._response.content
        try:
            if packet := content.read_nowait():
                return packet
            self._waits_since = self._loop.time()
            if self._timer is None:
                self._timer = self._loop.call_later(self._idle_s, self._look)
            packet = await content.readany()
            self._waits_since = None
            return packet
        except TimeoutError:
            said = f"nothing came for {self._idle_s:g} s in the middle of the reply (the idle deadline)"
            raise failure(said, "timeout", deadline="idle") from None
        except (aiohttp.ClientError, OSError) as error:
            said = f"the connection broke off in the middle of the reply: {_reason(error)}"
            raise failure(said, "unavailable") from error

    def _look(self) -> None:
        """Hold the idle deadline with one timer that is moved on when it fires: one for each read costs 20 µs a chunk.

        A reader that is busy with what it has read is not waiting.
        """
        now = self._loop.time()
        due = (now if self._waits_since is None else self._waits_since) + self._idle_s
        if due > now:
            self._timer = self._loop.call_at(due, self._look)
        else:
            self._response.content.set_exception(TimeoutError())

    async def drain(self) -> None:
        """Read a finished answer to its very end, if that comes at once."""
        content = self._response.content
        with contextlib.suppress(TimeoutError, aiohttp.ClientError, OSError):
            if not content.at_eof():
                async with asyncio.timeout(DRAIN_S):
                    while await content.readany():
                        pass

    def close(self) -> None:
        """Hang up, unless the answer was read to its end."""
        if self._timer is not None:
            self._timer.cancel()
        self._response.close()


class Http:
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
        self._url = url
        self._headers = dict(headers)
        self._deadlines = deadlines
        self._retry = retry
        self._sleep = sleep
        self._random = random
        self._session: aiohttp.ClientSession | None = None

    async def post(self, body: bytes, headers: Mapping[str, str], now: Callable[[], float]) -> Answer:
        """The answer once its body begins. Raises WireFailure when no attempt came to one."""
        attempt = 1
        while True:
            outcome = await self._attempt(body, headers, now)
            if isinstance(outcome, Answer):
                return outcome
            wait_s = self._wait_s(outcome, attempt)
            if wait_s is None:
                raise WireFailure(_counted(outcome.problem, attempt))
            await self._sleep(wait_s)
            attempt += 1

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _wait_s(self, refusal: _Refusal, attempt: int) -> float | None:
        """How long to wait before the next attempt; None if there is none."""
        if not refusal.passing or attempt >= self._retry.attempts:
            return None
        asked = refusal.retry_after_s
        if asked is None:
            return self._retry.wait_s(attempt, self._random())
        if asked > self._retry.most_retry_after_s:
            said = f"; it asks to wait {asked:g} s, and at most {self._retry.most_retry_after_s:g} s are waited"
            problem = refusal.problem
            details = {**problem.details, "retry_after_s": asked, "attempts": attempt}
            raise WireFailure(Problem(error=problem.error + said, error_type=problem.error_type, details=details))
        return asked

    async def _attempt(self, body: bytes, headers: Mapping[str, str], now: Callable[[], float]) -> Answer | _Refusal:
        first_byte_s = self._deadlines.first_byte_s
        response: aiohttp.ClientResponse | None = None
        answer: Answer | None = None
        try:
            async with asyncio.timeout(first_byte_s):
                data = body if len(body) < LARGE_BODY_BYTES else io.BytesIO(body)
                response = await self._opened().post(self._url, data=data, headers=headers, allow_redirects=False)
                if not response.ok or response.status >= 300:
                    return await _refused(response, now())
                answer = Answer(response, await response.content.readany(), self._deadlines.idle_s)
                return answer
        except aiohttp.ServerTimeoutError:
            return self._too_late(f"no connection within {self._deadlines.connect_s:g} s", "connect", passing=True)
        except TimeoutError:
            return self._too_late(f"no answer within {first_byte_s:g} s", "first_byte", passing=False)
        except (aiohttp.ClientError, OSError) as error:
            problem = Problem(error=f"the provider cannot be reached: {_reason(error)}", error_type="unavailable")
            return _Refusal(problem, passing=_may_pass(error))
        finally:
            if response is not None and answer is None:
                response.close()

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=None, connect=self._deadlines.connect_s)
            connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE_S)
            self._session = aiohttp.ClientSession(
                connector=connector, timeout=timeout, headers=self._headers, cookie_jar=aiohttp.DummyCookieJar()
            )
        return self._session

    def _too_late(self, said: str, deadline: str, *, passing: bool) -> _Refusal:
        error = f"{said} (the {deadline.replace('_', ' ')} deadline)"
        return _Refusal(Problem(error=error, error_type="timeout", details={"deadline": deadline}), passing)


async def _refused(response: aiohttp.ClientResponse, now: float) -> _Refusal:
    body = bytearray()
    with contextlib.suppress(aiohttp.ClientError, OSError):
        while len(body) < MAX_ERROR_BYTES and (packet := await response.content.readany()):
            body += packet
    words, given = words_of(bytes(body[:MAX_ERROR_BYTES]))
    status = response.status
    if location := response.headers.get("Location"):
        words = f"it redirects to {location}; set the base URL to where it is now. {words}"
    details: dict[str, object] = {**given, "status": status}
    if request_id := _request_id(response):
        details["request_id"] = request_id
    problem = Problem(
        error=f"the provider answered {status} {response.reason or ''}: {words}",
        error_type=error_type_of(status),
        details=details,
    )
    passing = (status in (408, 429) or status >= 500) and given.get("code") not in POINTLESS
    return _Refusal(problem, passing, retry_after_s(response.headers, now))


def retry_after_s(headers: Mapping[str, str], now: float) -> float | None:
    """How long the provider asks to wait: in seconds, or until an HTTP date."""
    said = headers.get("Retry-After", "").strip()
    try:
        return max(0.0, float(said))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(said).timestamp() - now)
    except (ValueError, OverflowError):
        return None


def _counted(problem: Problem, attempts: int) -> Problem:
    if attempts == 1:
        return problem
    details = {**problem.details, "attempts": attempts}
    return Problem(error=f"{problem.error} ({attempts} attempts)", error_type=problem.error_type, details=details)


def _may_pass(error: Exception) -> bool:
    return not isinstance(error, aiohttp.ClientSSLError | aiohttp.InvalidURL)


def _request_id(response: aiohttp.ClientResponse) -> str:
    return response.headers.get("x-request-id") or response.headers.get("request-id") or ""


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__
