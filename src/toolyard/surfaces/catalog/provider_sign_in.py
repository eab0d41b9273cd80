"""`/session/oidc`: sign in to the web page at the identity provider. A browser opens both paths; programs send keys.

Each answer is a redirection: to the provider, or back to the page, which says in words why somebody is not signed in.
"""

import logging
from urllib.parse import urlencode

from litestar import Response, get

from toolyard.core.errors import NotFound, StoreDown
from toolyard.engine.access.provider_sign_in import (
    ATTEMPT_S,
    CallbackAnswer,
    FailureCode,
    ProviderSignIns,
    SignInFailed,
)
from toolyard.observability.log_lines import log_line
from toolyard.surfaces.http.request_context import HttpRequest, get_client_address, get_request_context
from toolyard.surfaces.http.session_cookie import SessionCookies

BEGIN_PATH = "/session/oidc"
CALLBACK_PATH = "/session/oidc/callback"
COOKIE_PURPOSE = "sign-in"
"""Names the cookie that ties a sign-in to its browser. It is `Lax`, as the browser comes back from another site."""
_log = logging.getLogger("toolyard.sign_in")


def require_provider(request: HttpRequest) -> ProviderSignIns:
    provider_sign_ins = request.backend.provider_sign_ins
    if provider_sign_ins is None:
        raise NotFound("signing in with OpenID Connect is not configured here: [oidc] is missing")
    return provider_sign_ins


@get(BEGIN_PATH, include_in_schema=False, status_code=302)
async def begin(request: HttpRequest) -> Response[None]:
    """Send the browser to the provider's page."""
    sign_ins, cookies = require_provider(request), SessionCookies(request.backend.sessions.limits.allow_http)
    redirect_uri = cookies.build_origin(request.headers, request.url.scheme) + _get_prefix(request) + CALLBACK_PATH
    try:
        begun = await sign_ins.begin(redirect_uri, get_client_address(request.scope))
    except (SignInFailed, StoreDown) as error:
        return _return_with_error(request, error)
    cookie = cookies.build(request.headers, begun.browser_token, ATTEMPT_S, COOKIE_PURPOSE, "Lax")
    return _redirect(begun.url, cookie)


@get(CALLBACK_PATH, include_in_schema=False, status_code=302)
async def finish(request: HttpRequest) -> Response[None]:
    """Open a session for the person who signed in at the provider, and redirect to the page."""
    sessions, sign_ins = request.backend.sessions, require_provider(request)
    cookies = SessionCookies(sessions.limits.allow_http)
    answer = CallbackAnswer(
        state=request.query_params.get("state", ""),
        code=request.query_params.get("code", ""),
        error=request.query_params.get("error", ""),
        issuer=request.query_params.get("iss"),
    )
    try:
        token = await sign_ins.finish(answer, cookies.read(request.headers, COOKIE_PURPOSE))
        if earlier := cookies.read(request.headers):
            await sessions.close(earlier)
    except (SignInFailed, StoreDown) as error:
        if isinstance(error, SignInFailed) and error.is_suspicious:
            await sessions.count_failure(get_client_address(request.scope))
        return _return_with_error(request, error)
    # The address is fixed: a link never decides where somebody who has just signed in goes.
    return _redirect(f"{_get_prefix(request)}/", cookies.build(request.headers, token, sessions.limits.total_s))


ROUTES = (begin, finish)


def _return_with_error(request: HttpRequest, error: SignInFailed | StoreDown) -> Response[None]:
    """Lead back to the page with the code of the failure. The reason is for the log: the page has its own words."""
    code: FailureCode = error.code if isinstance(error, SignInFailed) else "unavailable"
    correlation_id = get_request_context(request.scope).correlation_id
    log_line(_log, logging.WARNING, correlation_id, "Sign-in failed", code=code, reason=str(error))
    return _redirect(f"{_get_prefix(request)}/?{urlencode({'sign_in_error': code})}")


def _redirect(address: str, cookie: str = "") -> Response[None]:
    # The address of the callback holds a code: neither a cache nor the next page shall see it.
    headers = {"location": address, "cache-control": "no-store", "referrer-policy": "no-referrer"}
    return Response(None, status_code=302, headers={**headers, **({"set-cookie": cookie} if cookie else {})})


def _get_prefix(request: HttpRequest) -> str:
    """Return the path that this server is mounted under in another application; empty if it is not."""
    return request.scope["root_path"].rstrip("/")
