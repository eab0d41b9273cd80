"""Sign-ins that people have begun and not finished. The `Connector` runs the OAuth flow.

An answer is accepted only from the caller who began the sign-in, and only with the `state` of its page.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import parse_qs, urlsplit

from toolyard.core.caller import Caller
from toolyard.core.errors import Invalid, Refused, Unavailable
from toolyard.core.loopback import is_loopback
from toolyard.core.mcp_servers import ServerCard, SignIn, SignInAnswer
from toolyard.core.ports import Clock
from toolyard.venues.mcp.catalog.caller_views import CallerKey
from toolyard.venues.mcp.dependencies import Connector
from toolyard.venues.mcp.server import ManagedServer

BEGIN_S = 30.0
ANSWER_S = 600.0
"""How long a person may take to sign in."""
FINISH_S = 30.0
MAX_PENDING = 200
MAX_ERROR_CHARS = 300


class SpawnTask(Protocol):
    def __call__(self, work: Coroutine[object, object, None]) -> "asyncio.Task[None]": ...


@dataclass(slots=True, eq=False)
class _PendingSignIn:
    """A sign-in that has begun: first the address of its page is set, then the answer that the person brings back."""

    page: "asyncio.Future[str]"
    answer: "asyncio.Future[SignInAnswer]"
    task: "asyncio.Task[None] | None" = None
    state: str = ""


class PendingSignIns:
    def __init__(
        self,
        get_server: Callable[[str], ManagedServer],
        get_connector: Callable[[], Connector],
        spawn: SpawnTask,
        wait_until: Callable[[Callable[[], bool]], Awaitable[None]],
        clock: Clock,
    ) -> None:
        self._get_server = get_server
        self._get_connector = get_connector
        self._spawn = spawn
        self._wait_until = wait_until
        self._clock = clock
        self._pending: dict[tuple[str, CallerKey], _PendingSignIn] = {}

    async def begin(self, id: str, caller: Caller, redirect_uri: str) -> SignIn:
        """Begin a sign-in and return the page to open. An earlier one of the same caller is cancelled."""
        server = self._get_server(id)
        _require_sign_in_possible(server, redirect_uri)
        caller_key, owner = server.resolve_caller(caller)
        self._cancel((id, caller_key))
        if len(self._pending) >= MAX_PENDING:
            raise Unavailable(f"{MAX_PENDING} sign-ins are open already; try again later")
        loop = asyncio.get_running_loop()
        pending = _PendingSignIn(loop.create_future(), loop.create_future())
        expires_at = self._clock.now() + ANSWER_S

        async def run_sign_in() -> None:
            try:
                async with asyncio.timeout(ANSWER_S):
                    await self._get_connector().sign_in(
                        server.spec,
                        owner,
                        server.get_grant_store(caller_key),
                        redirect_uri,
                        pending.page.set_result,
                        pending.answer,
                    )
            finally:
                # A later sign-in of the same caller may have taken the place already.
                if self._pending.get((id, caller_key)) is pending:
                    del self._pending[id, caller_key]

        self._pending[id, caller_key] = pending
        pending.task = self._spawn(run_sign_in())
        pending.task.add_done_callback(_retrieve_exception)
        await asyncio.wait((pending.page, pending.task), timeout=BEGIN_S, return_when=asyncio.FIRST_COMPLETED)
        if not pending.page.done():
            await _wait_for_end(pending.task, "the server and its authorization server did not answer in time", 0.0)
        pending.state = parse_qs(urlsplit(pending.page.result()).query)["state"][0]
        return SignIn(url=pending.page.result(), state=pending.state, expires_at=expires_at)

    async def finish(self, id: str, caller: Caller, answer: SignInAnswer) -> ServerCard:
        """Take the answer of the page, finish the sign-in, and connect with the new grant."""
        server = self._get_server(id)
        pending = self._pending.get((id, server.resolve_caller(caller)[0]))
        if (
            pending is None
            or pending.task is None
            or not secrets.compare_digest(pending.state.encode(), answer.state.encode())
        ):
            raise Refused("this answers no sign-in that is open here; begin one")
        if answer.error or not answer.code:
            pending.task.cancel()
            reason = answer.error_description or answer.error or "no code came back"
            raise Refused(f"the sign-in was not granted: {reason[:MAX_ERROR_CHARS]}")
        if not pending.answer.done():
            pending.answer.set_result(answer)
        await _wait_for_end(pending.task, "the authorization server did not answer in time", FINISH_S)
        return await self._reconnect(server, caller)

    async def forget(self, id: str, caller: Caller) -> ServerCard:
        """Sign this caller out: delete the grant and end the sessions that use it."""
        server = self._get_server(id)
        caller_key, _ = server.resolve_caller(caller)
        self._cancel((id, caller_key))
        await server.get_grant_store(caller_key).forget()
        return await self._reconnect(server, caller)

    def close(self) -> None:
        for key in list(self._pending):
            self._cancel(key)

    def _cancel(self, key: tuple[str, CallerKey]) -> None:
        if (pending := self._pending.pop(key, None)) is not None and pending.task is not None:
            pending.task.cancel()

    async def _reconnect(self, server: ManagedServer, caller: Caller) -> ServerCard:
        """Open a session with the stored grant, and return the server's card once it is up or has failed."""
        if not server.record.wanted:
            return server.build_card()
        connection = server.reconnect(caller)
        await self._wait_until(lambda: connection.status != "starting")
        return server.build_card()


async def _wait_for_end(task: "asyncio.Task[None]", timeout_text: str, within_s: float) -> None:
    """Wait until a sign-in has ended, and raise what it raises. Raise Unavailable if that takes too long."""
    done, _ = await asyncio.wait((task,), timeout=within_s)
    if not done:
        task.cancel()
        raise Unavailable(timeout_text)
    if task.cancelled():
        raise Refused("the sign-in was given up: another one was begun")
    if (error := task.exception()) is not None:
        raise Refused("the sign-in was not answered in time") if isinstance(error, TimeoutError) else error


def _retrieve_exception(task: "asyncio.Task[None]") -> None:
    """Mark the exception as retrieved: asyncio would log it if nobody waits for the sign-in any more."""
    if not task.cancelled():
        task.exception()


def _require_sign_in_possible(server: ManagedServer, redirect_uri: str) -> None:
    spec = server.spec
    if not spec.url:
        raise Refused(f"the server {server.id!r} is a child process: nobody signs in to it")
    if spec.oauth is not None and spec.oauth.grant == "client_credentials":
        raise Refused(f"the server {server.id!r} has client credentials: nobody signs in to it")
    if "authorization" in {name.lower() for name in spec.headers}:
        raise Refused(f"the server {server.id!r} has a header Authorization: take it out to sign in instead")
    if not _is_local_callback(redirect_uri):
        error_text = "redirect_uri must be an http address of the loopback, such as http://127.0.0.1:8765/callback"
        raise Invalid(error_text, {"field": "redirect_uri"})


def _is_local_callback(address: str) -> bool:
    """Return whether an address is on the person's own machine; any other could send the code to somebody else."""
    try:
        target = urlsplit(address)
        return (
            target.scheme == "http" and is_loopback(target.hostname or "") and not target.username and bool(target.port)
        )
    except ValueError:
        return False
