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
from toolyard.core.ports import Mint
from toolyard.venues.mcp.server import Server, Who
from toolyard.venues.mcp.shared import Connector

BEGIN_S = 30.0
ANSWER_S = 600.0
"""How long a person may take."""
FINISH_S = 30.0
MOST_OPEN = 200
LONGEST_SAID = 300
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


class Spawn(Protocol):
    def __call__(self, work: Coroutine[object, object, None]) -> "asyncio.Task[None]": ...


@dataclass(slots=True, eq=False)
class _Open:
    """A sign-in on its way: the page is known first, then what the person came back with."""

    page: "asyncio.Future[str]"
    answer: "asyncio.Future[SignInAnswer]"
    task: "asyncio.Task[None] | None" = None
    state: str = ""


class SignIns:
    def __init__(
        self,
        server: Callable[[str], Server],
        connector: Callable[[], Connector],
        spawn: Spawn,
        until: Callable[[Callable[[], bool]], Awaitable[None]],
        mint: Mint,
    ) -> None:
        self._server = server
        self._connector = connector
        self._spawn = spawn
        self._until = until
        self._mint = mint
        self._open: dict[tuple[str, Who], _Open] = {}

    async def begin(self, id: str, caller: Caller, redirect_uri: str) -> SignIn:
        """The page to sign in at. One that the same caller had begun is given up."""
        server = self._server(id)
        _require_sensible(server, redirect_uri)
        who, seen_as = server.seen_as(caller)
        self._give_up((id, who))
        if len(self._open) >= MOST_OPEN:
            raise Unavailable(f"{MOST_OPEN} sign-ins are open already; try again later")
        loop = asyncio.get_running_loop()
        made = _Open(loop.create_future(), loop.create_future())
        expires_at = self._mint.now() + ANSWER_S

        async def signed_in() -> None:
            try:
                async with asyncio.timeout(ANSWER_S):
                    await self._connector().sign_in(
                        server.spec, seen_as, server.keeper(who), redirect_uri, made.page.set_result, made.answer
                    )
            finally:
                if self._open.get((id, who)) is made:
                    del self._open[id, who]

        self._open[id, who] = made
        made.task = self._spawn(signed_in())
        made.task.add_done_callback(_looked_at)
        await asyncio.wait((made.page, made.task), timeout=BEGIN_S, return_when=asyncio.FIRST_COMPLETED)
        if not made.page.done():
            await _ended(made.task, "the server and its authorization server did not answer in time", 0.0)
        made.state = parse_qs(urlsplit(made.page.result()).query)["state"][0]
        return SignIn(url=made.page.result(), state=made.state, expires_at=expires_at)

    async def finish(self, id: str, caller: Caller, answer: SignInAnswer) -> ServerCard:
        """Take what the page answered, and connect with what it is worth."""
        server = self._server(id)
        found = self._open.get((id, server.seen_as(caller)[0]))
        if (
            found is None
            or found.task is None
            or not secrets.compare_digest(found.state.encode(), answer.state.encode())
        ):
            raise Refused("this answers no sign-in that is open here; begin one")
        if answer.error or not answer.code:
            found.task.cancel()
            said = answer.error_description or answer.error or "no code came back"
            raise Refused(f"the sign-in was not granted: {said[:LONGEST_SAID]}")
        if not found.answer.done():
            found.answer.set_result(answer)
        await _ended(found.task, "the authorization server did not answer in time", FINISH_S)
        return await self._connected(server, caller)

    async def forget(self, id: str, caller: Caller) -> ServerCard:
        """Sign out: what is kept for this caller is thrown away, and its session with it."""
        server = self._server(id)
        who, _ = server.seen_as(caller)
        self._give_up((id, who))
        await server.keeper(who).forget()
        return await self._connected(server, caller)

    def close(self) -> None:
        for one in list(self._open):
            self._give_up(one)

    def _give_up(self, which: tuple[str, Who]) -> None:
        if (found := self._open.pop(which, None)) is not None and found.task is not None:
            found.task.cancel()

    async def _connected(self, server: Server, caller: Caller) -> ServerCard:
        """Once the session with the new grant is up, or has failed."""
        if not server.record.wanted:
            return server.card()
        link = server.renew(caller)
        await self._until(lambda: link.status != "starting")
        return server.card()


async def _ended(task: "asyncio.Task[None]", late: str, within_s: float) -> None:
    """Wait for a sign-in's end, and raise what it raises."""
    done, _ = await asyncio.wait((task,), timeout=within_s)
    if not done:
        task.cancel()
        raise Unavailable(late)
    if task.cancelled():
        raise Refused("the sign-in was given up: another one was begun")
    if (error := task.exception()) is not None:
        raise Refused("the sign-in was not answered in time") if isinstance(error, TimeoutError) else error


def _looked_at(task: "asyncio.Task[None]") -> None:
    """Whoever waits is told; if nobody does, it is no news."""
    if not task.cancelled():
        task.exception()


def _require_sensible(server: Server, redirect_uri: str) -> None:
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
