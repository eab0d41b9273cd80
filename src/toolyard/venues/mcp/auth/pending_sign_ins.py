"""Sign-ins that people have begun and not finished. The `Connector` runs the OAuth flow.

They are stored, because the answer may come to another replica. An answer is accepted only from the caller who began
the sign-in, only with the `state` of its page, and only once.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Iterable, Sequence
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from toolyard.core.caller import Caller
from toolyard.core.errors import Invalid, Refused, Unavailable
from toolyard.core.masking import mask_addresses
from toolyard.core.ports import Clock
from toolyard.core.settings.network.addresses import is_loopback
from toolyard.core.tools.mcp_servers import Connection, ServerCard, SignIn, SignInAnswer
from toolyard.observability.auditor import Auditor
from toolyard.venues.mcp.auth.grants import SIGN_INS, TOKENS, GrantStore, OpenSignIn, build_record_name
from toolyard.venues.mcp.auth.sealed_records import SealedRecords, UndecryptableRecord
from toolyard.venues.mcp.dependencies import Connector
from toolyard.venues.mcp.server import ManagedServer

BEGIN_S = 30.0
ANSWER_S = 600.0
"""How long a person may take to sign in."""
FINISH_S = 30.0
MAX_PENDING = 200
MAX_ERROR_CHARS = 300


_decoder = msgspec.json.Decoder(OpenSignIn)


class PendingSignIns:
    def __init__(
        self,
        get_server: Callable[[str], ManagedServer],
        list_servers: Callable[[], Iterable[ManagedServer]],
        get_connector: Callable[[], Connector],
        wait_until: Callable[[Callable[[], bool]], Awaitable[None]],
        records: SealedRecords,
        clock: Clock,
        auditor: Auditor,
    ) -> None:
        self._get_server = get_server
        self._list_servers = list_servers
        self._get_connector = get_connector
        self._wait_until = wait_until
        self._records = records
        self._clock = clock
        self._auditor = auditor

    async def begin(self, id: str, caller: Caller, redirect_uri: str) -> SignIn:
        """Begin a sign-in and return the page to open. An earlier one of the same caller is void."""
        server = self._get_server(id)
        _require_sign_in_possible(server, redirect_uri)
        self._records.require_secret()
        caller_key, owner = server.resolve_caller(caller)
        name = build_record_name(id, caller_key)
        await self._records.delete(SIGN_INS, name)
        if await self._count() >= MAX_PENDING:
            raise Unavailable(f"{MAX_PENDING} sign-ins are open already; try again later")
        try:
            async with asyncio.timeout(BEGIN_S):
                sign_in = await self._get_connector().begin_sign_in(
                    server.spec,
                    owner,
                    server.get_grant_store(caller_key),
                    redirect_uri,
                    public_only=server.is_public_only(),
                )
        except TimeoutError:
            raise Unavailable("the server and its authorization server did not answer in time") from None
        sign_in = replace(sign_in, expires_at=self._clock.now() + ANSWER_S)
        await self._records.set(SIGN_INS, name, msgspec.json.encode(sign_in))
        return SignIn(url=sign_in.page, state=sign_in.state, expires_at=sign_in.expires_at)

    async def finish(self, id: str, caller: Caller, answer: SignInAnswer) -> ServerCard:
        """Take the answer of the page, finish the sign-in, and connect with the new grant."""
        server = self._get_server(id)
        caller_key, owner = server.resolve_caller(caller)
        sign_in = await self._take(server, build_record_name(id, caller_key), answer)
        if answer.error or not answer.code:
            reason = answer.error_description or answer.error or "no code came back"
            raise Refused(f"the sign-in was not granted: {reason[:MAX_ERROR_CHARS]}")
        try:
            async with asyncio.timeout(FINISH_S):
                grant = await self._get_connector().finish_sign_in(
                    server.spec, owner, sign_in, answer, public_only=server.is_public_only()
                )
        except TimeoutError:
            raise Unavailable("the authorization server did not answer in time") from None
        async with self._auditor.record("server.sign_in", id, by=caller):
            await server.get_grant_store(caller_key).save(grant)
        return await self._reconnect(server, caller)

    async def _take(self, server: ManagedServer, name: str, answer: SignInAnswer) -> OpenSignIn:
        """Return the sign-in that an answer belongs to, and delete it: an answer counts once, at one replica."""
        async with self._records.lock(SIGN_INS, name):
            body = await self._records.read(SIGN_INS, name)
            sign_in = _decoder.decode(body) if body is not None else None
            if (
                sign_in is None
                or sign_in.server_url != server.spec.url
                or sign_in.expires_at < self._clock.now()
                or not secrets.compare_digest(sign_in.state.encode(), answer.state.encode())
            ):
                raise Refused("this answers no sign-in that is open here; begin one")
            await self._records.delete(SIGN_INS, name)
            return sign_in

    async def _count(self) -> int:
        """Return how many sign-ins are open, and delete those that nobody can finish any more."""
        count = 0
        for name, body in await self._records.list_sealed(SIGN_INS):
            try:
                sign_in = _decoder.decode(self._records.unseal(SIGN_INS, name, body))
            except UndecryptableRecord:
                sign_in = None
            if sign_in is None or sign_in.expires_at < self._clock.now():
                await self._records.delete(SIGN_INS, name)
            else:
                count += 1
        return count

    async def forget(self, id: str, caller: Caller) -> ServerCard:
        """Sign this caller out: delete the grant and end the sessions that use it."""
        server = self._get_server(id)
        caller_key, _ = server.resolve_caller(caller)
        async with self._auditor.record("server.sign_out", id, by=caller):
            await self._records.delete(SIGN_INS, build_record_name(id, caller_key))
            await server.get_grant_store(caller_key).forget()
        return await self._reconnect(server, caller)

    async def list_connections(self, caller: Caller) -> Sequence[Connection]:
        """Return the servers that the caller has signed in to; for their administrators also those with one token."""
        stored = {name for name, _ in await self._records.list_sealed(TOKENS)}
        connections: list[Connection] = []
        for server in self._list_servers():
            caller_key, owner = server.resolve_caller(caller)
            is_visible = owner is not None or caller.administers_server
            if is_visible and build_record_name(server.id, caller_key) in stored:
                connections += await _build_connections(server, server.get_grant_store(caller_key))
        return connections

    async def _reconnect(self, server: ManagedServer, caller: Caller) -> ServerCard:
        """Open a session with the stored grant, and return the server's card once it is up or has failed."""
        if not server.record.should_run:
            return server.build_card()
        connection = server.reconnect(caller)
        await self._wait_until(lambda: connection.status != "starting")
        return server.build_card()


async def _build_connections(server: ManagedServer, grants: GrantStore) -> list[Connection]:
    """Return the connection of a stored grant; none if it is for another address than the server has now."""
    address = mask_addresses(server.spec.url, every_parameter=True)
    connection = Connection(
        server=server.id,
        name=server.spec.display_name or server.id,
        address=address,
        shared=server.spec.auth == "server",
    )
    try:
        grant = await grants.load()
    except UndecryptableRecord as error:
        return [replace(connection, problem=str(error))]
    if grant is None:
        return []
    scope = grant.token.get("scope")
    return [
        replace(
            connection,
            issuer=grant.issuer,
            scope=scope if isinstance(scope, str) else "",
            expires_at=grant.expires_at,
            renewable=bool(grant.token.get("refresh_token")),
        )
    ]


def _require_sign_in_possible(server: ManagedServer, redirect_uri: str) -> None:
    spec = server.spec
    if not spec.url:
        raise Refused(f"the server {server.id!r} is a child process and has no sign-in")
    if spec.oauth is not None and spec.oauth.grant == "client_credentials":
        raise Refused(f"the server {server.id!r} has client credentials and needs no sign-in")
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
