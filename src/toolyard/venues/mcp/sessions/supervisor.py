"""Keeps one session to one server: opens it, and opens another when it ends, with patience. It knows no tools.

However many calls fail together with a session, there is one new session: they all wait for the same one.
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

from toolyard.core.mcp_client import Capability
from toolyard.core.mcp_servers import LAST_WORDS, ServerStatus
from toolyard.venues.mcp.auth.oauth import SignedOut
from toolyard.venues.mcp.outcomes import Answer, Answered, Barred, Era, Gone, Json, Opened, Progress, Rejected, Told
from toolyard.venues.mcp.sessions.backoff import Patience
from toolyard.venues.mcp.sessions.session import Lost, Session
from toolyard.venues.mcp.sessions.stderr_log import Said

_log = logging.getLogger("toolyard.mcp")
MOST_TRIES = 3
_ERA_REFUSED = (
    types.METHOD_NOT_FOUND,
    types.INVALID_REQUEST,
    types.INVALID_PARAMS,
    types.UNSUPPORTED_PROTOCOL_VERSION,
)
"""How servers of the new era only answer the handshake of the old one."""
Connect = Callable[[Era], AbstractAsyncContextManager[Session]]


class Down(Exception):
    """There is no session, and none is to be had now; the message says why."""


class Link:
    """`run` it as a task; `session` gives the session of the moment; `stop` ends it for good."""

    def __init__(
        self,
        server: str,
        connect: Connect,
        said: Said,
        *,
        idle_s: float,
        changed: Callable[[], None],
        one_era: bool = False,
    ) -> None:
        """`one_era`: a server that refuses the handshake is not asked again."""
        self.server = server
        self.era_refused = False
        self._one_era = one_era
        self.status: ServerStatus = "starting"
        self.error = ""
        self.sessions = 0
        self.used_at = monotonic()
        self._connect = connect
        self._said = said
        self._idle_s = idle_s
        self._changed = changed
        self._patience = Patience()
        self._current: Session | None = None
        self._news = asyncio.Event()
        self._wanted = asyncio.Event()
        self._stopped = asyncio.Event()
        self._era: Era = ""
        self._capabilities: Json = {}

    def told(self) -> Told:
        session = self._current
        return Told(
            error=self.error,
            process_id=session.process_id if session else None,
            protocol=session.protocol if session else "",
            sessions=self.sessions,
            in_flight=session.in_flight if session else 0,
            opened=session.opened if session else Opened(),
            capabilities=self._capabilities,
            log=tuple(self._said.log),
        )

    async def session(self) -> Session:
        """The open session, waited for while there is hope. Raises Down."""
        while True:
            if self._current is not None and not self._current.over.is_set():
                self.used_at = monotonic()
                return self._current
            if self.status in ("stopped", "failed"):
                raise Down(self.error.partition(LAST_WORDS)[0] or "the server is stopped")
            self._wanted.set()
            await self._news.wait()

    async def era(self) -> Era:
        """Return what is spoken, once that is known; empty if there is no session to be had."""
        if not self._era:
            try:
                await self.session()
            except Down:
                return ""
        return self._era

    async def ask(
        self,
        method: str,
        params: Json,
        *,
        progress: Progress | None = None,
        owner: object = None,
        barred: Barred | None = None,
        capabilities: frozenset[Capability] | None = None,
    ) -> Answer:
        """Ask the server; again, where it is certain that it did not read the request the time before.

        Whether it may be asked is looked at for each session anew: another may have listed something else.
        """
        gone, modern = Gone("the server is stopped", read=False), False
        for _ in range(MOST_TRIES):
            try:
                session = await self.session()
                if barred is not None and (why := barred()) is not None:
                    return why
                modern = session.modern
                raw = await session.request(method, params, progress=progress, owner=owner, capabilities=capabilities)
                return Answered(raw, modern)
            except Down as error:
                return Gone(str(error), read=False)
            except MCPError as error:
                return Rejected(error.code, error.message, error.data, modern)
            except Lost as error:
                gone = Gone(str(error), read=error.read)
                if error.read:
                    break
        return gone

    def suspect(self) -> None:
        if self._current is not None:
            self._current.suspect()

    def stop(self) -> None:
        self._stopped.set()
        self._wanted.set()
        if self._current is not None:
            self._current.over.set()

    async def run(self) -> None:
        """Until it is stopped. Whatever goes wrong with the server is told, and tried again."""
        try:
            while not self._stopped.is_set():
                await self._once()
        finally:
            self._tell("stopped")

    async def _once(self) -> None:
        self._tell("restarting" if self._patience.failures or self.sessions else "starting")
        self._said.again()
        began, answered, idle = monotonic(), False, False
        try:
            async with self._connect(self._era) as session:
                if self._stopped.is_set():
                    return  # by what it listed
                self.sessions += 1
                self._era = "modern" if session.modern else "legacy"
                self._current, self._capabilities, self.used_at = session, session.capabilities, monotonic()
                self._tell("running")
                idle = await self._while_used(session)
                answered = bool(session.answers)
            why = "it ended"
        except SignedOut as error:
            self._current = None
            await self._fail_for_good(str(error))
            return
        except Exception as error:
            if self._one_era and self._current is None and _refuses_era(error):
                self.era_refused = True
                await self._fail_for_good(_told(error))
                return
            why, self._era = _told(error), self._era if self._current else ""
            answered = bool(self._current and self._current.answers)
        self._current = None
        if self._stopped.is_set():
            return
        if idle:
            await self._sleep()
            return
        self._patience = self._patience.after(answered=answered, lived_s=monotonic() - began)
        words = self._said.tail
        self.error = f"{why}{LAST_WORDS}{words}" if words else why
        _log.warning("server %s is gone: %s", self.server, self.error)
        await self._wait()

    async def _while_used(self, session: Session) -> bool:
        """Until the session is over; True if that is because nobody used it."""
        if not self._idle_s:
            await session.over.wait()
            return False
        while not session.over.is_set():
            left_s = self.used_at + self._idle_s - monotonic()
            if left_s <= 0 and not session.in_flight:
                session.over.set()  # nobody is given it any more
                return True
            try:
                async with asyncio.timeout(max(left_s, 0.05)):
                    await session.over.wait()
            except TimeoutError:
                continue
        return False

    async def _sleep(self) -> None:
        self._wanted.clear()
        self._tell("idle")
        await self._wanted.wait()

    async def _wait(self) -> None:
        """Before the next attempt. With the breaker open, that attempt is a probe: the next failure opens it again."""
        self._tell("failed" if self._patience.open else "restarting")
        try:
            async with asyncio.timeout(self._patience.wait_s(random.random())):
                await self._stopped.wait()
        except TimeoutError:
            pass

    async def _fail_for_good(self, why: str) -> None:
        """Trying again does not help: whoever signs in, or starts it, begins another link."""
        self.error = why
        _log.warning("server %s does not let us in: %s", self.server, why)
        self._tell("failed")
        await self._stopped.wait()

    def _tell(self, status: ServerStatus) -> None:
        if status in ("starting", "restarting") and self._patience.open:
            status = "failed"
        if status == "running":
            self.error = ""
        self.status = status
        self._news.set()
        self._news = asyncio.Event()
        self._changed()


def _refuses_era(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return any(map(_refuses_era, cast("BaseExceptionGroup[BaseException]", error).exceptions))
    return isinstance(error, MCPError) and error.code in _ERA_REFUSED


def _told(error: BaseException) -> str:
    if isinstance(error, BaseExceptionGroup):
        return _told(cast("BaseExceptionGroup[BaseException]", error).exceptions[0])
    if isinstance(error, TimeoutError):
        return "it did not answer in time"
    return str(error) or type(error).__name__
