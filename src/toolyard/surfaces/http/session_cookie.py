"""The cookie of a session, and the check that a request comes from the server's own page.

Browsers send a cookie with requests that other sites make. `SameSite=Strict` keeps most of them out; the check of the
Origin also keeps out pages of neighbouring names, such as another application on the same domain.
"""

import re
from collections.abc import Mapping
from typing import Literal
from urllib.parse import SplitResult, urlsplit

from toolyard.core.errors import Forbidden, Invalid
from toolyard.core.settings.network_addresses import is_loopback

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
COOKIE = "__Host-toolyard"
LOOPBACK_COOKIE = "toolyard"
_TOKEN = re.compile(r"[\w-]{22,128}", re.ASCII)


def name_cookie(headers: Mapping[str, str], purpose: str = "") -> str:
    """Return the name of a cookie at the address that the request was sent to: that of the session, or of a purpose."""
    # Browsers keep `__Host-` cookies only over https, which a server on this machine seldom has. The port is part of
    # the name there, as the cookies of all ports are sent to each of them.
    host = _split_host(headers)
    suffix = f"-{purpose}" if purpose else ""
    return f"{LOOPBACK_COOKIE}{suffix}-{host.port or 80}" if is_loopback(host.hostname or "") else f"{COOKIE}{suffix}"


def build_cookie(
    headers: Mapping[str, str],
    token: str,
    max_age_s: float,
    purpose: str = "",
    same_site: Literal["Strict", "Lax"] = "Strict",
) -> str:
    """Return the Set-Cookie header of a session or of a purpose; an empty token with an age of 0 deletes the cookie."""
    name = name_cookie(headers, purpose)
    secure = "; Secure" if name.startswith(COOKIE) else ""
    return f"{name}={token}; Path=/; Max-Age={int(max_age_s)}; HttpOnly; SameSite={same_site}{secure}"


def read_session_cookie(headers: Mapping[str, str]) -> str:
    """Return the token of the session's cookie; empty if there is none, or none that could be a token."""
    return read_cookie(headers, "")


def read_cookie(headers: Mapping[str, str], purpose: str) -> str:
    """Return the token of the cookie for this purpose; empty if there is none, or none that could be a token."""
    cookie_name = name_cookie(headers, purpose)
    pairs = [pair.strip().partition("=") for pair in headers.get("cookie", "").split(";")]
    values = {value for name, _, value in pairs if name == cookie_name}
    # The server sets one cookie of this name. A second one was planted, by another program on this machine for example,
    # and would sign its victim in under an account of the attacker's: nobody can say which one is ours.
    token = values.pop() if len(values) == 1 else ""
    return token if _TOKEN.fullmatch(token) else ""


def build_origin(headers: Mapping[str, str], scheme: str) -> str:
    """Return the origin that a browser knows this server by; `scheme` counts on this machine only, others need https.

    Raises Invalid for a request without a Host.
    """
    host = _split_host(headers)
    if not host.hostname:
        raise Invalid("the request has no Host header; a proxy in front has to pass it on", {"field": "host"})
    return f"{scheme if is_loopback(host.hostname) else 'https'}://{host.netloc}"


def require_same_origin(headers: Mapping[str, str]) -> None:
    """Raise Forbidden unless a page of this server sent the request."""
    host = _split_host(headers)
    schemes = ("https", "http") if is_loopback(host.hostname or "") else ("https",)
    if not host.netloc or headers.get("origin") not in [f"{scheme}://{host.netloc}" for scheme in schemes]:
        raise Forbidden(
            "with a session only the page of this server may send this; a proxy in front has to pass on the Host "
            "header, and other programs send a key"
        )


def _split_host(headers: Mapping[str, str]) -> SplitResult:
    try:
        host = urlsplit(f"//{headers.get('host', '')}")
        _ = host.port  # raises ValueError if it is no number
    except ValueError:
        return urlsplit("")
    return host
