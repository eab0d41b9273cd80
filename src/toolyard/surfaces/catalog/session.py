"""`/session`: sign in to the web page with a key, and sign out."""

from litestar import Response, delete, get, post
from litestar.params import JSONBody
from msgspec import Struct

from toolyard.surfaces.http.openapi import ERRORS
from toolyard.surfaces.http.request_context import HttpRequest, get_client_address
from toolyard.surfaces.http.session_cookie import SessionCookies


class SessionRequest(Struct, forbid_unknown_fields=True, kw_only=True):
    """An API key, or a token that the server verifies."""

    key: str


class SessionAnswer(Struct, kw_only=True):
    message: str
    success: bool = True


class SignInOptions(Struct, kw_only=True):
    """How people can sign in besides with a key, and for how long."""

    provider: str
    """The name of the identity provider whose page `/session/oidc` leads to; empty if there is none."""
    idle_s: float
    """How long a session lasts without use."""
    total_s: float
    """How long a session lasts at most."""
    success: bool = True


@get("/session", responses=ERRORS, tags=["server"])
async def sign_in_options(request: HttpRequest) -> SignInOptions:
    """Return the ways to sign in to the web page. `/me` returns the current user."""
    sessions, provider_sign_ins = request.backend.sessions, request.backend.provider_sign_ins
    name, limits = provider_sign_ins.name if provider_sign_ins else "", sessions.limits
    return SignInOptions(provider=name, idle_s=limits.idle_s, total_s=limits.total_s)


@post("/session", status_code=200, responses=ERRORS, tags=["server"])
async def sign_in(request: HttpRequest, data: JSONBody[SessionRequest]) -> Response[SessionAnswer]:
    """Open a session for the owner of a key. Its token is in a cookie that scripts cannot read."""
    sessions = request.backend.sessions
    cookies = SessionCookies(sessions.limits.allow_http)
    # Also here: another site must not be able to sign a visitor in under an account of its own.
    cookies.require_same_origin(request.headers)
    token = await sessions.open(data.key.strip(), get_client_address(request.scope), request.headers)
    if earlier := cookies.read(request.headers):
        await sessions.close(earlier)
    cookie = cookies.build(request.headers, token, sessions.limits.total_s)
    return Response(
        SessionAnswer(message="you are signed in"), headers={"set-cookie": cookie, "cache-control": "no-store"}
    )


@delete("/session", status_code=200, responses=ERRORS, tags=["server"])
async def sign_out(request: HttpRequest) -> Response[SessionAnswer]:
    """End the session of the cookie. Its token is no longer accepted."""
    sessions = request.backend.sessions
    cookies = SessionCookies(sessions.limits.allow_http)
    cookies.require_same_origin(request.headers)
    if token := cookies.read(request.headers):
        await sessions.close(token)
    cookie = cookies.build(request.headers, "", 0)
    return Response(
        SessionAnswer(message="you are signed out"), headers={"set-cookie": cookie, "cache-control": "no-store"}
    )


ROUTES = (sign_in_options, sign_in, sign_out)
