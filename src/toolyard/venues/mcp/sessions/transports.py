"""How a server is reached: over the pipes of a child, or over HTTP. Who asks may stand in what is sent along.

Over HTTP each request is marked with what became of it on the way, so that a call that never left is told from one
whose answer was lost; and a failure of one request is not the end of the others.
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
from toolyard.core.mcp_servers import ServerSpec
from toolyard.venues.mcp.auth.oauth import SignedOut, Signing
from toolyard.venues.mcp.bounded_http import PLAIN, bounded
from toolyard.venues.mcp.dispatcher import Wire, sent_now
from toolyard.venues.mcp.sessions.child_reaper import Warden
from toolyard.venues.mcp.sessions.session import Streams
from toolyard.venues.mcp.sessions.stderr_log import Said
from toolyard.venues.mcp.sessions.stdio import MOST_MESSAGE_BYTES, Child, child

ANSWER_S = 30.0
SILENCE_S = 600.0
"""A call has its own deadline; a stream on which nothing comes for so long is given up."""
Signed = Callable[[], Awaitable[Signing]]
_OWN = re.compile(r"\{user\}|\{tenant\}")


def streams(spec: ServerSpec, caller: Caller | None, said: Said, warden: Warden, signed: Signed) -> Streams:
    async def over_pipes(stack: AsyncExitStack) -> tuple[Wire, Child | None]:
        env = filled_in(spec.env, caller)
        made = await stack.enter_async_context(child(spec.command, spec.args, env, spec.cwd, said, warden))
        return Wire(made.incoming, made.outgoing), made

    async def over_windows_pipes(stack: AsyncExitStack) -> tuple[Wire, Child | None]:
        """The SDK's own: ours is made for POSIX. What is lost with the child may then always have been read."""
        env = filled_in(spec.env, caller)
        made = StdioServerParameters(command=spec.command, args=list(spec.args), env=env, cwd=spec.cwd or None)
        return Wire(*await stack.enter_async_context(stdio_client(made))), None

    async def over_http(stack: AsyncExitStack) -> tuple[Wire, Child | None]:
        auth = await signed()
        stack.enter_context(_told_why(auth))
        client = httpx2.AsyncClient(
            headers={**PLAIN, **filled_in(spec.headers, caller)},
            timeout=httpx2.Timeout(ANSWER_S, read=SILENCE_S),
            transport=_Marking(),
            auth=auth,
        )
        await stack.enter_async_context(client)
        opened = streamable_http_client(spec.url, http_client=client, max_sse_event_size=MOST_MESSAGE_BYTES)
        return Wire(*await stack.enter_async_context(opened)), None

    if spec.url:
        return over_http
    return over_windows_pipes if sys.platform == "win32" else over_pipes


@contextmanager
def _told_why(auth: Signing) -> Generator[None]:
    """A connection that failed because it was not let in says so, whatever the SDK made of that."""
    try:
        yield
    except Exception as error:
        if not auth.refused:
            raise
        raise (SignedOut if auth.signed_out else OAuthFlowError)(auth.refused) from error


def filled_in(values: Mapping[str, str], caller: Caller | None) -> dict[str, str]:
    """The values with the caller's own names in place of `{user}` and `{tenant}`."""
    if caller is None:
        return dict(values)
    own = {"{user}": caller.user, "{tenant}": caller.tenant}
    return {name: _OWN.sub(lambda found: own[found[0]], value) for name, value in values.items()}


class _Marking(httpx2.AsyncHTTPTransport):
    """Notes what became of each request; one that could not be sent is answered as if by the server."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        sent = sent_now()
        try:
            response = await super().handle_async_request(request)
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            return _stands_for(error, request, unreached=True)
        except httpx2.TransportError as error:
            return _stands_for(error, request, unreached=False)
        if sent is not None:
            sent.status = response.status_code
        return bounded(response)


def _stands_for(error: httpx2.TransportError, request: httpx2.Request, *, unreached: bool) -> httpx2.Response:
    sent = sent_now()
    if sent is None:
        raise error  # the handshake, or a stream of ours: nobody would see the answer
    sent.trouble, sent.unreached = str(error) or type(error).__name__, unreached
    return httpx2.Response(503, request=request)
