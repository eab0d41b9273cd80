"""Transports to a server: the pipes of a child process, or HTTP. Headers and environment may name the caller.

Over HTTP the outcome of each request is recorded on its `SentRequest`. That distinguishes a call that was never sent
from one whose answer was lost, and the failure of one request does not end the others.
"""

import re
import sys
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import AsyncExitStack, contextmanager

import httpx2
from mcp.client.auth import OAuthFlowError
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from toolyard.core.caller import Caller
from toolyard.core.tools.mcp_servers import ServerSpec
from toolyard.venues.mcp.auth.oauth import RequestAuth, SignInRequired
from toolyard.venues.mcp.bounded_http import UNCOMPRESSED, BoundedTransport
from toolyard.venues.mcp.dispatcher import RecordingDispatcher, get_current_request
from toolyard.venues.mcp.sessions.child_reaper import ChildReaper
from toolyard.venues.mcp.sessions.session import OpenTransport
from toolyard.venues.mcp.sessions.stderr_log import StderrLog
from toolyard.venues.mcp.sessions.stdio import MAX_MESSAGE_BYTES, ChildProcess, run_child

ANSWER_S = 30.0
SILENCE_S = 600.0
"""A stream without any data for so long is closed. A call has its own, usually shorter, deadline."""
AuthFactory = Callable[[], Awaitable[RequestAuth]]
_PLACEHOLDERS = re.compile(r"\{user\}|\{tenant\}")


def select_transport(
    spec: ServerSpec,
    caller: Caller | None,
    stderr_log: StderrLog,
    reaper: ChildReaper,
    make_auth: AuthFactory,
    is_public_only: Callable[[], bool],
) -> OpenTransport:
    """Return how to open a session. `is_public_only` is asked each time whether a URL may lead to private addresses."""

    async def open_stdio(stack: AsyncExitStack) -> tuple[RecordingDispatcher, ChildProcess | None]:
        env = fill_placeholders(spec.env, caller)
        child = await stack.enter_async_context(run_child(spec.command, spec.args, env, spec.cwd, stderr_log, reaper))
        return RecordingDispatcher(child.incoming, child.outgoing), child

    async def open_windows_stdio(stack: AsyncExitStack) -> tuple[RecordingDispatcher, ChildProcess | None]:
        """Open the SDK's transport, as ours needs POSIX. Every request lost with the child counts as read."""
        env = fill_placeholders(spec.env, caller)
        parameters = StdioServerParameters(command=spec.command, args=list(spec.args), env=env, cwd=spec.cwd or None)
        return RecordingDispatcher(*await stack.enter_async_context(stdio_client(parameters))), None

    async def open_http(stack: AsyncExitStack) -> tuple[RecordingDispatcher, ChildProcess | None]:
        auth = await make_auth()
        stack.enter_context(_explain_refusal(auth))
        client = httpx2.AsyncClient(
            headers={**UNCOMPRESSED, **fill_placeholders(spec.headers, caller)},
            timeout=httpx2.Timeout(ANSWER_S, read=SILENCE_S),
            transport=_TrackingTransport(public_only=is_public_only()),
            auth=auth,
        )
        await stack.enter_async_context(client)
        streams = streamable_http_client(spec.url, http_client=client, max_sse_event_size=MAX_MESSAGE_BYTES)
        return RecordingDispatcher(*await stack.enter_async_context(streams)), None

    if spec.url:
        return open_http
    return open_windows_stdio if sys.platform == "win32" else open_stdio


@contextmanager
def _explain_refusal(auth: RequestAuth) -> Generator[None]:
    """Raise the reason of `auth` for a connection that failed because the server refused it, instead of the SDK's."""
    try:
        yield
    except Exception as error:
        if not auth.refusal:
            raise
        raise (SignInRequired if auth.signed_out else OAuthFlowError)(auth.refusal) from error


def fill_placeholders(values: Mapping[str, str], caller: Caller | None) -> dict[str, str]:
    """Return the values with the caller's names in place of `{user}` and `{tenant}`."""
    if caller is None:
        return dict(values)
    # One pass over the template: a user whose name is "{tenant}" is not replaced a second time.
    replacements = {"{user}": caller.user, "{tenant}": caller.tenant}
    return {name: _PLACEHOLDERS.sub(lambda match: replacements[match[0]], value) for name, value in values.items()}


class _TrackingTransport(BoundedTransport):
    """Records the outcome of each request. A request that could not be sent gets an error response, not an exception.

    An exception would end the SDK's transport, and all other requests on the session with it.
    """

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        sent = get_current_request()
        try:
            response = await super().handle_async_request(request)
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            return _build_error_response(error, request, unreached=True)
        except httpx2.TransportError as error:
            return _build_error_response(error, request, unreached=False)
        if sent is not None:
            sent.status = response.status_code
        return response


def _build_error_response(error: httpx2.TransportError, request: httpx2.Request, *, unreached: bool) -> httpx2.Response:
    sent = get_current_request()
    if sent is None:
        raise error  # the handshake, or a stream of the session itself: there is no request to record it on
    sent.transport_error, sent.unreached = str(error) or type(error).__name__, unreached
    return httpx2.Response(503, request=request)
