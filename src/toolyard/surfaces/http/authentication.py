"""Authenticate each request before its route: the caller of a key, of a token or of the session in a cookie.

Credentials are checked again while a stream or a WebSocket is open, which is cut off once they are no longer valid.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack

from toolyard.core.caller import Caller
from toolyard.core.errors import Forbidden, NotFound, RateLimited, ToolyardError, Unauthenticated
from toolyard.core.store.audit_chain import Actor
from toolyard.engine.access.authentication import read_secrets
from toolyard.engine.access.refusals import MAX_WRONG_KEYS
from toolyard.observability.auditor import current_actor
from toolyard.surfaces.http.authorization import RECORDER_KEY
from toolyard.surfaces.http.errors import send_error
from toolyard.surfaces.http.open_sockets import OpenRequests, OpenSockets
from toolyard.surfaces.http.request_context import (
    BACKEND_KEY,
    CONTEXT_KEY,
    AsgiApp,
    Receive,
    RequestContext,
    RequestHead,
    Scope,
    Send,
    get_client_address,
    get_request_head,
)
from toolyard.surfaces.http.session_cookie import SAFE_METHODS, SessionCookies
from toolyard.surfaces.surface import Backend, PathRules

ANONYMOUS = Caller(user="")
"""The caller of a public path: credentials are not checked there, and this caller has no rights."""
RECHECK_S = 3.0
"""How often the credentials of an open stream or WebSocket are checked again."""
_POLICY_VIOLATION = 1008


class AuthenticationMiddleware:
    """Attaches the backend and a `RequestContext` to each request, or answers it with an error."""

    def __init__(self, app: AsgiApp, backend: Backend, rules: PathRules) -> None:
        service = backend.service
        self._app = app
        self._backend = backend
        self._access = backend.access
        self._sessions = backend.sessions
        self._cookies = SessionCookies(backend.sessions.limits.allow_http)
        self._rules = rules
        self._count_failure = service.failed_sign_ins.count
        self._count_unauthenticated = service.metrics.count_unauthenticated
        self._record_refusal = service.refused_attempts.count
        self._sockets = OpenSockets(backend.socket_limits)
        self._requests = OpenRequests(backend.socket_limits)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        head = get_request_head(scope)
        with ExitStack() as opened:
            try:
                # The body is not read before this: a caller without a key cannot make the server parse anything.
                caller, key = await self._admit(scope, head, opened)
            except Exception as error:
                await send_error(scope, send, await self._count_refusal(scope, head.headers, error))
                return
            scope[BACKEND_KEY] = self._backend
            scope[CONTEXT_KEY] = RequestContext(caller=caller, correlation_id=head.correlation_id)
            if caller is ANONYMOUS:
                await self._app(scope, receive, send)
                return
            scope[RECORDER_KEY] = self._record_refusal
            opened.callback(current_actor.reset, current_actor.set(_build_actor(scope, caller, key, head)))
            await self._serve(scope, receive, send, caller, head)

    async def _admit(self, scope: Scope, head: RequestHead, opened: ExitStack) -> tuple[Caller, str]:
        """Return the caller, and the name of the key; `opened` keeps the count of what the caller has open."""
        if scope["type"] == "websocket":
            caller, key = self._access.identify(head.headers)
            if head.path not in self._rules.websocket:
                raise NotFound(f"there is no WebSocket at {head.path[:80]!r}")
            await self._count_foreign(scope, head.headers)
            opened.enter_context(self._sockets.add(caller))
            return caller, key
        caller, key = ANONYMOUS, ""
        if not head.is_public:
            caller, key = await self._identify(scope, head)
            await self._count_foreign(scope, head.headers)
        await self._access.save_uses()
        # Without keys everybody is the same user, on this machine.
        if caller is not ANONYMOUS and not self._access.is_local:
            opened.enter_context(self._requests.add(caller))
        return caller, key

    async def _serve(self, scope: Scope, receive: Receive, send: Send, caller: Caller, head: RequestHead) -> None:
        """Run the route, and end what it sends once the credentials are no longer valid."""
        # Only what is being sent is cut off. A request whose response has not begun is answered: it was permitted.
        watch = _CredentialWatch(lambda: self._has_valid_credentials(caller, head), lambda: head.status != 0)
        try:
            await self._app(scope, receive, send)
        except asyncio.CancelledError:
            if not watch.caused_cancellation():
                raise
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": _POLICY_VIOLATION, "reason": "the key was revoked"})
            else:
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            watch.close()

    async def _count_refusal(self, scope: Scope, headers: Mapping[str, str], error: Exception) -> Exception:
        """Count a request with a wrong key, or in the metrics without one, and return the error to answer with."""
        if isinstance(error, Unauthenticated):
            self._count_unauthenticated()
        secret = self._access.select_secret(headers)
        if not isinstance(error, Unauthenticated) or not secret:
            return error
        wait_s = 0.0
        for _ in range(max(1, self._access.count_foreign(headers))):
            wait_s = await self._count_failure(get_client_address(scope))
        # Only after the key was found to be wrong: others behind the same address never wait. Nor do tokens, as nobody
        # guesses a signature and clients get a new token only when they are told that the old one has expired.
        if not wait_s or self._access.find_verifier(secret) is not None:
            return error
        return RateLimited.after("too many requests with wrong keys came from your address", wait_s, MAX_WRONG_KEYS)

    async def _count_foreign(self, scope: Scope, headers: Mapping[str, str]) -> None:
        """Count a wrong key beside a valid one, else whoever has a key could guess others unnoticed."""
        if "authorization" not in headers or "x-api-key" not in headers:
            return
        for _ in range(self._access.count_foreign(headers)):
            await self._count_failure(get_client_address(scope))

    async def _identify(self, scope: Scope, head: RequestHead) -> tuple[Caller, str]:
        """Return the caller of a key or a token in the headers, else that of the session in the cookie.

        With it comes the name of the key, else `session` or `token`.
        """
        # A key comes first: a program that sends one must not become somebody else by a cookie beside it. A browser
        # sends cookies by itself, so that they count only where the page needs them.
        if not (token := self._find_session(head)):
            return self._access.identify(head.headers)
        if scope["method"] not in SAFE_METHODS or "upgrade" in head.headers:
            self._cookies.require_same_origin(head.headers)
        return await self._sessions.identify(token, head.headers)

    def _find_session(self, head: RequestHead) -> str:
        """Return the token of the session that a request is made with; empty if it is not made with one."""
        if read_secrets(head.headers) or self._access.is_local or head.path not in self._rules.session:
            return ""
        return self._cookies.read(head.headers)

    async def _has_valid_credentials(self, caller: Caller, head: RequestHead) -> bool:
        """Return whether the credentials of a request are still those of its caller."""
        try:
            if token := self._find_session(head):
                return await self._sessions.is_open(token)
            # A verified token was good when the request was made. It may well expire during a long answer.
            if self._access.find_verifier(secret := self._access.select_secret(head.headers)) is not None:
                return not self._access.is_past_grace(secret)
            return self._access.authenticate(head.headers) == caller
        except (Unauthenticated, Forbidden):
            return False
        except ToolyardError:
            return True  # the store is down: what is open goes on until it is known to be over


class _CredentialWatch:
    """Cancels the task that created it once the credentials of its request are no longer valid.

    A client that still has valid ones connects again and misses nothing; all others are refused then.
    """

    def __init__(self, is_valid: Callable[[], Awaitable[bool]], is_sending: Callable[[], bool]) -> None:
        self._is_valid = is_valid
        self._is_sending = is_sending
        self._served = asyncio.current_task()
        self._loop = asyncio.get_running_loop()
        self._has_cancelled = False
        self._checking: asyncio.Task[None] | None = None
        # A timer at first: most responses are over before it would be worth a task.
        self._timer = self._loop.call_later(RECHECK_S, self._start)

    def caused_cancellation(self) -> bool:
        """Return whether the credentials are the only reason why the task was cancelled."""
        return self._has_cancelled and self._served is not None and not self._served.uncancel()

    def close(self) -> None:
        self._timer.cancel()
        if self._checking is not None:
            self._checking.cancel()

    def _start(self) -> None:
        self._checking = self._loop.create_task(self._check())

    async def _check(self) -> None:
        if not self._is_sending() or await self._is_valid():
            self._timer = self._loop.call_later(RECHECK_S, self._start)
        elif self._served is not None:
            self._has_cancelled = True
            self._served.cancel()


def _build_actor(scope: Scope, caller: Caller, key: str, head: RequestHead) -> Actor:
    address = get_client_address(scope)
    return Actor(user=caller.user, tenant=caller.tenant, key=key, address=address, correlation_id=head.correlation_id)
