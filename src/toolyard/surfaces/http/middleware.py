"""Authenticate every request before any route: correlation id, CORS, cross-site guard, caller, stall cut-off.

This is plain ASGI: it costs little, and its headers are on every response, also on those that no route sends.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import ExitStack
from time import perf_counter
from typing import cast
from urllib.parse import SplitResult, urlsplit

import msgspec

from toolyard.core.caller import Caller
from toolyard.core.errors import Forbidden, Invalid, NotFound, RateLimited, ToolyardError, Unauthenticated
from toolyard.core.ports import Clock
from toolyard.core.settings.limits import DEFAULT_SOCKET_LIMITS, SocketLimits
from toolyard.core.settings.network_addresses import is_loopback
from toolyard.core.settings.trusted_proxies import TrustedProxies
from toolyard.core.store.audit_chain import Actor
from toolyard.engine.access.authentication import Authenticator, read_secrets
from toolyard.engine.access.failed_sign_ins import MAX_WRONG_KEYS
from toolyard.engine.access.sessions import Sessions
from toolyard.observability.audit import current_actor
from toolyard.surfaces.http.errors import ENCODER_KEY, CompressedBody, InvalidHead, answer_error
from toolyard.surfaces.http.open_sockets import OpenRequests, OpenSockets
from toolyard.surfaces.http.refusals import RECORDER_KEY, RecordRefusal
from toolyard.surfaces.http.request_context import CONTEXT_KEY, RequestContext, get_client_address, get_request_context
from toolyard.surfaces.http.request_log import log_request
from toolyard.surfaces.http.session_cookie import SAFE_METHODS, read_session_cookie, require_same_origin
from toolyard.surfaces.surface import ErrorAnswer, PathRules

Message = MutableMapping[str, object]
Scope = MutableMapping[str, object]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
AsgiApp = Callable[[Scope, Receive, Send], Awaitable[None]]

ANONYMOUS = Caller(user="")
"""The caller of a public path: credentials are not checked there, and this caller has no rights."""
MAX_STALL_S = 60.0
"""A response is cancelled if the client reads nothing for so long; a stream can be resumed by its last event id."""
RECHECK_S = 3.0
"""How often the credentials of an open stream or WebSocket are checked again."""
_POLICY_VIOLATION = 1008
_EXPOSED_HEADERS = (
    "x-correlation-id",
    "retry-after",
    "x-ratelimit-limit",
    "x-ratelimit-remaining",
    "x-ratelimit-reset",
    "idempotency-replayed",
    "x-toolyard-replica",
)
_HEADER_NAMES = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]+(?:, ?[a-z0-9!#$%&'*+.^_`|~-]+){0,99}", re.IGNORECASE)
_CORRELATION_ID = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}")
_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?")
"""W3C Trace Context; a later version may add fields. Ids of all zeros and version ff are invalid."""


class AuthMiddleware:
    """Attaches a `RequestContext` to each request, or answers it with an error."""

    def __init__(
        self,
        app: AsgiApp,
        access: Authenticator,
        sessions: Sessions,
        clock: Clock,
        rules: PathRules,
        cors_origins: frozenset[str] = frozenset(),
        get_replica: Callable[[], str] = lambda: "",
        socket_limits: SocketLimits = DEFAULT_SOCKET_LIMITS,
        proxies: TrustedProxies | None = None,
        count_failure: Callable[[str], Awaitable[float]] | None = None,
        count_unauthenticated: Callable[[], None] = lambda: None,
        record_refusal: RecordRefusal | None = None,
    ) -> None:
        """`get_replica` returns the id that responses name; it changes when the process loses its lease.

        `count_failure` is called with the address of each request whose key or token is wrong, and returns for how long
        that address has to wait.
        """
        self._count_failure = count_failure
        self._count_unauthenticated = count_unauthenticated
        self._record_refusal = record_refusal
        self._app = app
        self._get_replica = get_replica
        self._rules = rules
        self._exposed_headers = ", ".join((*_EXPOSED_HEADERS, *rules.response_headers)).encode()
        self._access = access
        self._sessions = sessions
        self._clock = clock
        self._origins = cors_origins
        self._sockets = OpenSockets(socket_limits)
        self._proxies = proxies
        self._requests = OpenRequests(socket_limits)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._proxies and scope["type"] in ("http", "websocket"):
            _apply_forwarded(scope, self._proxies)
        if scope["type"] == "websocket":
            await self._connect(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        started = perf_counter()
        headers = _read_headers(scope)
        correlation_id = _read_correlation_id(headers, self._clock)
        path = str(scope["path"]).removeprefix(str(scope.get("root_path", "")))
        if encoder := self._rules.find_encoder(path):
            scope[ENCODER_KEY] = encoder
        sender = _ResponseSender(send, self._build_response_headers(correlation_id, headers))
        sender.is_public = path in self._rules.public
        try:
            with ExitStack() as opened:
                await self._respond(scope, receive, sender, path, headers, correlation_id, opened)
        finally:
            sender.close()
            duration_s = perf_counter() - started
            log_request(scope, path, correlation_id, sender.status, duration_s, quiet=path in self._rules.quiet)

    async def _respond(
        self,
        scope: Scope,
        receive: Receive,
        send: "_ResponseSender",
        path: str,
        headers: dict[str, str],
        correlation_id: str,
        opened: ExitStack,
    ) -> None:
        try:
            _guard_host(scope, headers)
            # Without keys everybody is an administrator, so cross-site requests are refused first, on public paths too.
            if self._access.is_local:
                _guard_local(scope, headers, self._origins)
            # A preflight request carries no credentials: it has to be answered before authentication.
            if scope["method"] == "OPTIONS" and "access-control-request-method" in headers:
                if b"access-control-allow-origin" not in dict(send.extra_headers):
                    raise Forbidden("a page of this origin may not use this server; list it in cors_origins")
                await _send_response(send, 204, b"", {})
                return
            _guard_encoding(headers)
            # The body is not read before this: a caller without a key cannot make the server parse anything.
            caller, key = ANONYMOUS, ""
            if path not in self._rules.public:
                caller, key = await self._authenticate(scope, path, headers)
                await self._count_foreign(scope, headers)
            await self._access.save_uses()
            # Without keys everybody is the same user, on this machine.
            if caller is not ANONYMOUS and not self._access.is_local:
                opened.enter_context(self._requests.add(caller))
        except Exception as error:
            refusal = await self._count_refusal(scope, headers, error)
            answer = answer_error(scope, refusal, correlation_id)
            await _send_response(send, answer.status, msgspec.json.encode(answer.body), answer.headers)
            return
        scope[CONTEXT_KEY] = RequestContext(caller=caller, correlation_id=correlation_id)
        if caller is ANONYMOUS:
            await self._app(scope, receive, send)
            return
        scope[RECORDER_KEY] = self._record_refusal
        # Only what is being sent is cut off. A request whose response has not begun is answered: it was permitted.
        watch = _CredentialWatch(lambda: self._has_valid_credentials(caller, path, headers), lambda: send.status != 0)
        actor = current_actor.set(_build_actor(scope, caller, key, correlation_id))
        try:
            await self._app(scope, receive, send)
        except asyncio.CancelledError:
            if not watch.caused_cancellation():
                raise
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            current_actor.reset(actor)
            watch.close()

    async def _count_refusal(self, scope: Scope, headers: dict[str, str], error: Exception) -> Exception:
        """Count a request with a wrong key, or in the metrics without one, and return the error to answer with."""
        if isinstance(error, Unauthenticated):
            self._count_unauthenticated()
        secret = self._access.select_secret(headers)
        if self._count_failure is None or not isinstance(error, Unauthenticated) or not secret:
            return error
        wait_s = 0.0
        for _ in range(max(1, self._access.count_foreign(headers))):
            wait_s = await self._count_failure(get_client_address(scope))
        # Only after the key was found to be wrong: others behind the same address never wait. Nor do tokens, as nobody
        # guesses a signature and clients get a new token only when they are told that the old one has expired.
        if not wait_s or self._access.find_verifier(secret) is not None:
            return error
        return RateLimited.after("too many requests with wrong keys came from your address", wait_s, MAX_WRONG_KEYS)

    async def _count_foreign(self, scope: Scope, headers: dict[str, str]) -> None:
        """Count a wrong key beside a valid one, else whoever has a key could guess others unnoticed."""
        if self._count_failure is None or "authorization" not in headers or "x-api-key" not in headers:
            return
        for _ in range(self._access.count_foreign(headers)):
            await self._count_failure(get_client_address(scope))

    async def _authenticate(self, scope: Scope, path: str, headers: dict[str, str]) -> tuple[Caller, str]:
        """Return the caller of a key or a token in the headers, else that of the session in the cookie.

        With it comes the name of the key, else `session` or `token`.
        """
        # A key comes first: a program that sends one must not become somebody else by a cookie beside it. A browser
        # sends cookies by itself, so that they count only where the page needs them.
        if not (token := self._find_session(path, headers)):
            return self._access.identify(headers)
        if scope["method"] not in SAFE_METHODS or "upgrade" in headers:
            require_same_origin(headers)
        return await self._sessions.identify(token, headers)

    def _find_session(self, path: str, headers: dict[str, str]) -> str:
        """Return the token of the session that a request is made with; empty if it is not made with one."""
        if read_secrets(headers) or self._access.is_local or path not in self._rules.session:
            return ""
        return read_session_cookie(headers)

    async def _has_valid_credentials(self, caller: Caller, path: str, headers: dict[str, str]) -> bool:
        """Return whether the credentials of a request are still those of its caller."""
        try:
            if token := self._find_session(path, headers):
                return await self._sessions.is_open(token)
            # A verified token was good when the request was made. It may well expire during a long answer.
            if self._access.find_verifier(secret := self._access.select_secret(headers)) is not None:
                return not self._access.is_past_grace(secret)
            return self._access.authenticate(headers) == caller
        except (Unauthenticated, Forbidden):
            return False
        except ToolyardError:
            return True  # the store is down: what is open goes on until it is known to be over

    async def _connect(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a WebSocket on to its route as its caller, or refuse it before it is accepted."""
        started = perf_counter()
        headers = _read_headers(scope)
        correlation_id = _read_correlation_id(headers, self._clock)
        path = str(scope["path"]).removeprefix(str(scope.get("root_path", "")))
        if encoder := self._rules.find_encoder(path):
            scope[ENCODER_KEY] = encoder
        status = 101
        try:
            with ExitStack() as opened:
                try:
                    _guard_host(scope, headers)
                    caller, key = self._admit_websocket(path, headers)
                    await self._count_foreign(scope, headers)
                    opened.enter_context(self._sockets.add(caller))
                except Exception as error:
                    refusal = await self._count_refusal(scope, headers, error)
                    answer = answer_error(scope, refusal, correlation_id)
                    status = answer.status
                    await _refuse_websocket(scope, send, answer)
                    return
                scope[CONTEXT_KEY] = RequestContext(caller=caller, correlation_id=correlation_id)
                actor = current_actor.set(_build_actor(scope, caller, key, correlation_id))
                opened.callback(current_actor.reset, actor)
                await self._serve_websocket(scope, receive, send, path, headers)
        finally:
            scope["method"] = "WEBSOCKET"  # for the log; the router takes a scope without a method for a WebSocket
            log_request(scope, path, correlation_id, status, perf_counter() - started, quiet=path in self._rules.quiet)

    def _admit_websocket(self, path: str, headers: dict[str, str]) -> tuple[Caller, str]:
        if self._access.is_local:
            _guard_origin(headers, self._origins)
        caller, key = self._access.identify(headers)
        if path not in self._rules.websocket:
            raise NotFound(f"there is no WebSocket at {path[:80]!r}")
        return caller, key

    async def _serve_websocket(
        self, scope: Scope, receive: Receive, send: Send, path: str, headers: dict[str, str]
    ) -> None:
        caller = get_request_context(scope).caller
        watch = _CredentialWatch(lambda: self._has_valid_credentials(caller, path, headers), lambda: True)
        try:
            await self._app(scope, receive, send)
        except asyncio.CancelledError:
            if not watch.caused_cancellation():
                raise
            await send({"type": "websocket.close", "code": _POLICY_VIOLATION, "reason": "the key was revoked"})
        finally:
            watch.close()

    def _build_response_headers(self, correlation_id: str, headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
        """Return the headers that every response carries."""
        added = [(b"x-correlation-id", correlation_id.encode()), (b"x-content-type-options", b"nosniff")]
        if replica := self._get_replica():
            added.append((b"x-toolyard-replica", replica.encode()))
        origin = headers.get("origin", "")
        if origin not in self._origins and not (origin and "*" in self._origins):
            return added
        added += [
            (b"access-control-allow-origin", origin.encode()),
            (b"access-control-allow-methods", b"GET, POST, PUT, DELETE"),
            (b"access-control-expose-headers", self._exposed_headers),
            (b"vary", b"origin, access-control-request-headers"),
        ]
        # Each client library sends headers of its own. None of them gives a page more than its origin does.
        if _HEADER_NAMES.fullmatch(names := headers.get("access-control-request-headers", "")):
            added.append((b"access-control-allow-headers", names.encode()))
        return added


class _ResponseSender:
    """Sends a response with the headers that every response has, and cancels it when the client stops reading.

    There is one timer per response, not one per chunk: it checks periodically whether the same chunk is still unsent.
    """

    def __init__(self, send: Send, extra_headers: list[tuple[bytes, bytes]], stalled_s: float = MAX_STALL_S) -> None:
        self._check_every_s = stalled_s / 2
        self._send = send
        self.extra_headers = extra_headers
        self.status = 0
        """The status of the response, 0 until it has started."""
        self.is_public = True
        self._sent = 0
        self._last_checked = -1
        """The number of the chunk that was being sent at the last check; -1 if none was."""
        self._task = asyncio.current_task()
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(self._check_every_s, self._check_stalled)
        self._sending = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = cast(int, message["status"])
            headers = [*cast("list[tuple[bytes, bytes]]", message.get("headers", ())), *self.extra_headers]
            # What a key or a session opens must not be kept by the browser or a proxy, beyond the end of either.
            if not self.is_public and not any(name.lower() == b"cache-control" for name, _ in headers):
                headers.append((b"cache-control", b"no-store"))
            message["headers"] = headers
        self._sending = True
        await self._send(message)
        self._sending = False
        self._sent += 1

    def close(self) -> None:
        self._timer.cancel()

    def _check_stalled(self) -> None:
        # Two checks in a row saw the same chunk, so it has waited for at least half of the allowed time. Cancelling the
        # task runs the route's cleanup: a reader detaches, and a run goes on without its stream.
        if self._sending and self._last_checked == self._sent and self._task is not None:
            self._task.cancel()
            return
        self._last_checked = self._sent if self._sending else -1
        self._timer = self._loop.call_later(self._check_every_s, self._check_stalled)


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


def _build_actor(scope: Scope, caller: Caller, key: str, correlation_id: str) -> Actor:
    address = get_client_address(scope)
    return Actor(user=caller.user, tenant=caller.tenant, key=key, address=address, correlation_id=correlation_id)


def _read_headers(scope: Scope) -> dict[str, str]:
    pairs: list[tuple[bytes, bytes]] = scope["headers"]  # pyright: ignore[reportAssignmentType]
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in pairs}
    if "cookie" in headers:  # HTTP/2 sends each cookie as a header of its own
        headers["cookie"] = "; ".join(value.decode("latin-1") for name, value in pairs if name.lower() == b"cookie")
    return headers


def _apply_forwarded(scope: Scope, proxies: TrustedProxies) -> None:
    """Replace the peer and the scheme of a request by those that a trusted proxy names."""
    peer = cast("tuple[str, int] | None", scope.get("client"))
    if peer is None or not proxies.trusts(peer[0]):
        return
    # The pairs are read here, since a header that is sent several times is a list in the order of the pairs.
    pairs: list[tuple[bytes, bytes]] = scope["headers"]  # pyright: ignore[reportAssignmentType]
    forwarded_for = [value.decode("latin-1") for name, value in pairs if name.lower() == b"x-forwarded-for"]
    scope["client"] = (proxies.find_client(peer[0], forwarded_for), 0 if forwarded_for else peer[1])
    scheme = _read_headers(scope).get("x-forwarded-proto", "").strip().lower()
    if scheme in ("http", "https"):
        scope["scheme"] = scheme if scope["type"] == "http" else scheme.replace("http", "ws")


def _read_correlation_id(headers: dict[str, str], clock: Clock) -> str:
    """Return the caller's correlation id, else the trace id of its W3C trace, else a new id."""
    requested = headers.get("x-correlation-id", "")
    if _CORRELATION_ID.fullmatch(requested):
        return requested
    trace = _TRACEPARENT.fullmatch(headers.get("traceparent", ""))
    return trace[1] if trace else clock.new_id("trace")


def _guard_host(scope: Scope, headers: dict[str, str]) -> None:
    """Refuse a request with two hosts: a proxy in front may have checked the other one."""
    pairs: list[tuple[bytes, bytes]] = scope["headers"]  # pyright: ignore[reportAssignmentType]
    # Few requests have a header twice: only they are searched.
    if len(pairs) != len(headers) and sum(name.lower() == b"host" for name, _ in pairs) > 1:
        raise InvalidHead("a request has one Host header: this one has several")


def _guard_encoding(headers: dict[str, str]) -> None:
    """Refuse a compressed body: it has to be sent as it is."""
    encoding = headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("", "identity") and _has_body(headers):
        raise CompressedBody("this server takes no compressed bodies: send the body without Content-Encoding")


def _has_body(headers: dict[str, str]) -> bool:
    return headers.get("content-length", "0") != "0" or "transfer-encoding" in headers


def _guard_local(scope: Scope, headers: dict[str, str], origins: frozenset[str]) -> None:
    """Refuse what a web site could make a browser send to a server that needs no key."""
    _guard_origin(headers, origins)
    # A browser sends plain forms across origins without a preflight request, but never application/json.
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if scope["method"] in ("POST", "PUT", "PATCH", "DELETE") and _has_body(headers) and kind != "application/json":
        raise Invalid("send the body as application/json", {"field": "content-type"})


def _guard_origin(headers: dict[str, str], origins: frozenset[str]) -> None:
    """Refuse a request or a WebSocket that a page of another origin has opened."""
    # A site can point its own name at 127.0.0.1 (DNS rebinding); the Host header then still has that name.
    if not is_loopback(_split_url(f"//{headers.get('host', '')}").hostname or ""):
        raise Forbidden("without a key this server answers only to a loopback Host; add a key with `toolyard keys add`")
    origin = headers.get("origin")
    if origin is not None and origin not in origins and _split_url(origin).netloc != headers.get("host"):
        raise Forbidden("a page of another origin may not use this server; list it in cors_origins, and add a key")


def _split_url(address: str) -> SplitResult:
    """Return the parts of a URL, all empty for text that is not a URL, such as `http://[`."""
    try:
        return urlsplit(address)
    except ValueError:
        return urlsplit("")


async def _refuse_websocket(scope: Scope, send: Send, answer: ErrorAnswer) -> None:
    """Answer the handshake of a WebSocket with an error."""
    if "websocket.http.response" not in cast("dict[str, object]", scope.get("extensions") or {}):
        await send({"type": "websocket.close", "code": 1008})
        return
    body = msgspec.json.encode(answer.body)
    headers = {"content-type": "application/json", "content-length": str(len(body)), **answer.headers}
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "websocket.http.response.start", "status": answer.status, "headers": pairs})
    await send({"type": "websocket.http.response.body", "body": body})


async def _send_response(send: Send, status: int, body: bytes, headers: dict[str, str]) -> None:
    kind = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    more = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": [*kind, *more]})
    await send({"type": "http.response.body", "body": body})
