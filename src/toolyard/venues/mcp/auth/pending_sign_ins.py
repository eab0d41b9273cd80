"""The sign-ins that people have begun: each waits for its answer, for a while. It does not know OAuth, nor the SDK.

Whoever began one ends it: an answer is taken from the same caller only, and only with the word that the page was given.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import parse_qs, urlsplit

from toolyard.core.caller import Caller
from toolyard.core.errors import Invalid, Refused, Unavailable
from toolyard.core.mcp_servers import ServerCard, SignIn, SignInAnswer
from toolyard.core.ports import Clock
from toolyard.venues.mcp.dependencies import Connector
from toolyard.venues.mcp.server import CallerKey, ManagedServer

BEGIN_S = 30.0
ANSWER_S = 600.0
"""How long a person may take."""
FINISH_S = 30.0
MAX_PENDING = 200
MAX_ERROR_CHARS = 300
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


class SpawnTask(Protocol):
    def __call__(self, work: Coroutine[object, object, None]) -> "asyncio.Task[None]": ...


@dataclass(slots=True, eq=False)
class _PendingSignIn:
    """A sign-in on its way: the page is known first, then what the person came back with."""

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
        """The page to sign in at. One that the same caller had begun is given up."""
        server = self._get_server(id)
        _require_sign_in_possible(server, redirect_uri)
        who, seen_as = server.resolve_caller(caller)
        self._cancel((id, who))
        if len(self._pending) >= MAX_PENDING:
            raise Unavailable(f"{MAX_PENDING} sign-ins are open already; try again later")
        loop = asyncio.get_running_loop()
        made = _PendingSignIn(loop.create_future(), loop.create_future())
        expires_at = self._clock.now() + ANSWER_S

        async def run_sign_in() -> None:
            try:
                async with asyncio.timeout(ANSWER_S):
                    await self._get_connector().sign_in(
                        server.spec,
                        seen_as,
                        server.build_grant_store(who),
                        redirect_uri,
                        made.page.set_result,
                        made.answer,
                    )
            finally:
                if self._pending.get((id, who)) is made:
                    del self._pending[id, who]

        self._pending[id, who] = made
        made.task = self._spawn(run_sign_in())
        made.task.add_done_callback(_retrieve_exception)
        await asyncio.wait((made.page, made.task), timeout=BEGIN_S, return_when=asyncio.FIRST_COMPLETED)
        if not made.page.done():
            await _wait_for_end(made.task, "the server and its authorization server did not answer in time", 0.0)
        made.state = parse_qs(urlsplit(made.page.result()).query)["state"][0]
        return SignIn(url=made.page.result(), state=made.state, expires_at=expires_at)

    async def finish(self, id: str, caller: Caller, answer: SignInAnswer) -> ServerCard:
        """Take what the page answered, and connect with what it is worth."""
        server = self._get_server(id)
        found = self._pending.get((id, server.resolve_caller(caller)[0]))
        if (
            found is None
            or found.task is None
            or not secrets.compare_digest(found.state.encode(), answer.state.encode())
        ):
            raise Refused("this answers no sign-in that is open here; begin one")
        if answer.error or not answer.code:
            found.task.cancel()
            said = answer.error_description or answer.error or "no code came back"
            raise Refused(f"the sign-in was not granted: {said[:MAX_ERROR_CHARS]}")
        if not found.answer.done():
            found.answer.set_result(answer)
        await _wait_for_end(found.task, "the authorization server did not answer in time", FINISH_S)
        return await self._reconnect(server, caller)

    async def forget(self, id: str, caller: Caller) -> ServerCard:
        """Sign out: what is kept for this caller is thrown away, and its session with it."""
        server = self._get_server(id)
        who, _ = server.resolve_caller(caller)
        self._cancel((id, who))
        await server.build_grant_store(who).forget()
        return await self._reconnect(server, caller)

    def close(self) -> None:
        for one in list(self._pending):
            self._cancel(one)

    def _cancel(self, key: tuple[str, CallerKey]) -> None:
        if (found := self._pending.pop(key, None)) is not None and found.task is not None:
            found.task.cancel()

    async def _reconnect(self, server: ManagedServer, caller: Caller) -> ServerCard:
        """Once the session with the new grant is up, or has failed."""
        if not server.record.wanted:
            return server.build_card()
        link = server.reconnect(caller)
        await self._wait_until(lambda: link.status != "starting")
        return server.build_card()


async def _wait_for_end(task: "asyncio.Task[None]", timeout_text: str, within_s: float) -> None:
    """Wait for a sign-in's end, and raise what it raises."""
    done, _ = await asyncio.wait((task,), timeout=within_s)
    if not done:
        task.cancel()
        raise Unavailable(timeout_text)
    if task.cancelled():
        raise Refused("the sign-in was given up: another one was begun")
    if (error := task.exception()) is not None:
        raise Refused("the sign-in was not answered in time") if isinstance(error, TimeoutError) else error


def _retrieve_exception(task: "asyncio.Task[None]") -> None:
    """Whoever waits is told; if nobody does, it is no news."""
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
    if not _is_loopback(redirect_uri):
        said = "redirect_uri must be an http address of the loopback, such as http://127.0.0.1:8765/callback"
        raise Invalid(said, {"field": "redirect_uri"})


def _is_loopback(address: str) -> bool:
    """Where only the person who opened the page can be sent back to: nobody is signed in on behalf of another."""
    try:
        target = urlsplit(address)
        return target.scheme == "http" and target.hostname in LOOPBACK and not target.username and bool(target.port)
    except ValueError:
        return False
