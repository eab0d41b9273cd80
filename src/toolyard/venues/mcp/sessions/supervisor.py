"""Keeps one session to one server open: when it ends, opens another one, with backoff and a circuit breaker.

All calls that fail with a session wait for the same new one.
"""

import asyncio
import logging
import random
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from time import monotonic
from typing import cast

import mcp_types as types
from mcp.shared.exceptions import MCPError
from msgspec import Struct
from msgspec.structs import replace

from toolyard.core.json_types import Json
from toolyard.core.tools.mcp_servers import STDERR_LABEL, Capability, ServerStatus, name_address
from toolyard.venues.mcp.auth.oauth import SignInRequired
from toolyard.venues.mcp.outcomes import (
    ConnectionInfo,
    Era,
    ErrorReply,
    NoReply,
    OpenTimings,
    PreflightCheck,
    ProgressCallback,
    ResultReply,
    ServerReply,
)
from toolyard.venues.mcp.sessions.session import SessionLost, UpstreamSession
from toolyard.venues.mcp.sessions.stderr_log import StderrLog

_log = logging.getLogger("toolyard.mcp")
MAX_TRIES = 3
_ERA_REFUSED = (
    types.METHOD_NOT_FOUND,
    types.INVALID_REQUEST,
    types.INVALID_PARAMS,
    types.UNSUPPORTED_PROTOCOL_VERSION,
)
"""Error codes with which servers that speak only the new era answer the handshake of the old one."""
Connect = Callable[[Era], AbstractAsyncContextManager[UpstreamSession]]
FIRST_DELAY_S = 0.2
MAX_DELAY_S = 30.0
OPEN_AFTER = 5
"""So many failures in a row open the circuit breaker: calls fail at once, and the server is only probed."""
STABLE_S = 30.0
"""The end of a session that lived so long is not counted as a failure."""


class Backoff(Struct, frozen=True):
    """The number of failed attempts in a row, and the delay before the next one.

    The caller measures the time and draws the random jitter.
    """

    failures: int = 0

    @property
    def is_open(self) -> bool:
        return self.failures >= OPEN_AFTER

    def after_session(self, *, answered: bool, lived_s: float) -> "Backoff":
        """Return the state after a session ended: reset if it answered a call or lived for STABLE_S, else one more."""
        return Backoff() if answered or lived_s >= STABLE_S else replace(self, failures=self.failures + 1)

    def delay_s(self, jitter: float) -> float:
        """Return the delay before the next attempt; zero after the first failure.

        `jitter`, between 0 and 1, spreads the attempts of many servers that failed together.
        """
        if self.failures <= 1:
            return 0.0
        return min(MAX_DELAY_S, FIRST_DELAY_S * 2 ** (self.failures - 2)) * (0.5 + jitter)


class SessionUnavailable(Exception):
    """There is no session and none can be opened now; the message says why."""


class SessionSupervisor:
    """Run `run` as a task; `get_session` returns the current session; `stop` ends it for good."""

    def __init__(
        self,
        server: str,
        connect: Connect,
        stderr_log: StderrLog,
        *,
        idle_s: float,
        on_status_change: Callable[[], None],
        single_era: bool = False,
        url: str = "",
    ) -> None:
        """With `single_era`, a server that refuses the handshake is not tried again. Errors name the `url`."""
        self._url = url
        self._needs_sign_in = False
        self.server = server
        self.era_refused = False
        self._single_era = single_era
        self.status: ServerStatus = "starting"
        self.error = ""
        self.sessions = 0
        self.used_at = monotonic()
        self._connect = connect
        self._stderr_log = stderr_log
        self._idle_s = idle_s
        self._on_status_change = on_status_change
        self._backoff = Backoff()
        self._current: UpstreamSession | None = None
        self._status_event = asyncio.Event()
        self._wanted = asyncio.Event()
        self._stopped = asyncio.Event()
        self._era: Era = ""
        self._capabilities: Json = {}

    def describe(self) -> ConnectionInfo:
        session = self._current
        return ConnectionInfo(
            error=self.error,
            needs_sign_in=self._needs_sign_in,
            process_id=session.process_id if session else None,
            protocol=session.protocol if session else "",
            sessions=self.sessions,
            in_flight=session.in_flight if session else 0,
            timings=session.timings if session else OpenTimings(),
            capabilities=self._capabilities,
            log=tuple(self._stderr_log.log),
        )

    async def get_session(self) -> UpstreamSession:
        """Return the open session; wait while one is being opened. Raise SessionUnavailable if none can be."""
        while True:
            if self._current is not None and not self._current.over.is_set():
                self.used_at = monotonic()
                return self._current
            if self.status in ("stopped", "failed"):
                raise SessionUnavailable(self.error or "the server is stopped")
            self._wanted.set()
            await self._status_event.wait()

    async def get_era(self) -> Era:
        """Return the era that the server speaks, once that is known; empty if no session can be opened."""
        if not self._era:
            try:
                await self.get_session()
            except SessionUnavailable:
                return ""
        return self._era

    async def ask(
        self,
        method: str,
        params: Json,
        *,
        progress: ProgressCallback | None = None,
        owner: object = None,
        preflight: PreflightCheck | None = None,
        capabilities: frozenset[Capability] | None = None,
    ) -> ServerReply:
        """Send a request to the server; send it again if it is certain that the server did not read it.

        `preflight` is called again for each session, because another session may have listed other tools.
        """
        no_reply, modern = NoReply("the server is stopped", read=False), False
        for _ in range(MAX_TRIES):
            try:
                session = await self.get_session()
                if preflight is not None and (why := preflight()) is not None:
                    return why
                modern = session.modern
                raw = await session.request(method, params, progress=progress, owner=owner, capabilities=capabilities)
                return ResultReply(raw, modern)
            except SessionUnavailable as error:
                return NoReply(str(error), read=False)
            except MCPError as error:
                return ErrorReply(error.code, error.message, error.data, modern)
            except SessionLost as error:
                no_reply = NoReply(name_address(str(error), self._url), read=error.read)
                if error.read:  # it may have taken effect: only the caller knows whether it may be repeated
                    break
        return no_reply

    def report_timeout(self) -> None:
        if self._current is not None:
            self._current.report_timeout()

    def stop(self) -> None:
        self._stopped.set()
        self._wanted.set()
        if self._current is not None:
            self._current.over.set()

    async def run(self) -> None:
        """Keep a session open until `stop`. An error of the server is logged, and the server is tried again."""
        try:
            while not self._stopped.is_set():
                await self._run_session()
        finally:
            self._set_status("stopped")

    async def _run_session(self) -> None:
        self._set_status("restarting" if self._backoff.failures or self.sessions else "starting")
        self._stderr_log.reset()
        began, answered, idle = monotonic(), False, False
        try:
            async with self._connect(self._era) as session:
                if self._stopped.is_set():
                    return  # the first listing can stop it: a server with `auth = "caller"` needs it for nothing else
                self.sessions += 1
                self._era = "modern" if session.modern else "legacy"
                self._current, self._capabilities, self.used_at = session, session.capabilities, monotonic()
                self._set_status("running")
                idle = await self._wait_until_over(session)
                answered = bool(session.answers)
            why = "it ended"
        except SignInRequired as error:
            self._current, self._needs_sign_in = None, True
            await self._fail_permanently(str(error))
            return
        except Exception as error:
            if self._single_era and self._current is None and _refuses_era(error):
                self.era_refused = True
                await self._fail_permanently(name_address(_describe_error(error), self._url))
                return
            # A server that fails before its handshake may be another version now: negotiate the era again.
            why, self._era = _describe_error(error), self._era if self._current else ""
            answered = bool(self._current and self._current.answers)
        self._current = None
        if self._stopped.is_set():
            return
        if idle:
            await self._wait_until_wanted()
            return
        self._backoff = self._backoff.after_session(answered=answered, lived_s=monotonic() - began)
        tail = self._stderr_log.tail
        self.error = f"{why}{STDERR_LABEL}{tail}" if tail else name_address(why, self._url)
        _log.warning("server %s is gone: %s", self.server, self.error)
        await self._wait_for_retry()

    async def _wait_until_over(self, session: UpstreamSession) -> bool:
        """Wait until the session is over; return True if it was ended because nobody used it."""
        if not self._idle_s:
            await session.over.wait()
            return False
        while not session.over.is_set():
            left_s = self.used_at + self._idle_s - monotonic()
            if left_s <= 0 and not session.in_flight:
                session.over.set()  # `get_session` must not return it while it is being closed
                return True
            try:
                async with asyncio.timeout(max(left_s, 0.05)):
                    await session.over.wait()
            except TimeoutError:
                continue
        return False

    async def _wait_until_wanted(self) -> None:
        self._wanted.clear()
        self._set_status("idle")
        await self._wanted.wait()

    async def _wait_for_retry(self) -> None:
        """Wait before the next attempt. With the breaker open, that attempt is a probe."""
        self._set_status("failed" if self._backoff.is_open else "restarting")
        try:
            async with asyncio.timeout(self._backoff.delay_s(random.random())):
                await self._stopped.wait()
        except TimeoutError:
            pass

    async def _fail_permanently(self, why: str) -> None:
        """Fail without further attempts; a sign-in or a start replaces this supervisor by a new one."""
        self.error = why
        _log.warning("server %s refuses the connection: %s", self.server, why)
        self._set_status("failed")
        await self._stopped.wait()

    def _set_status(self, status: ServerStatus) -> None:
        if status in ("starting", "restarting") and self._backoff.is_open:
            status = "failed"
        if status == "running":
            self.error = ""
        self.status = status
        # Everybody who waits is woken once and looks at the status again; later waiters get a fresh event.
        self._status_event.set()
        self._status_event = asyncio.Event()
        self._on_status_change()


def _refuses_era(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return any(map(_refuses_era, cast("BaseExceptionGroup[BaseException]", error).exceptions))
    return isinstance(error, MCPError) and error.code in _ERA_REFUSED


def _describe_error(error: BaseException) -> str:
    if isinstance(error, BaseExceptionGroup):
        return _describe_error(cast("BaseExceptionGroup[BaseException]", error).exceptions[0])
    if isinstance(error, TimeoutError):
        return "it did not answer in time"
    return str(error) or type(error).__name__
