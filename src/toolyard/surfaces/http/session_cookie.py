"""The cookies of the web page, and the check that a request comes from the server's own page.

Browsers send a cookie with requests that other sites make. `SameSite=Strict` keeps most of them out; the check of the
Origin also keeps out pages of neighbouring names, such as another application on the same domain.
"""

import re
from collections.abc import Mapping
from typing import Literal
from urllib.parse import SplitResult, urlsplit

from toolyard.core.errors import Forbidden, Invalid
from toolyard.core.settings.network.addresses import is_loopback

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
COOKIE = "__Host-toolyard"
PLAIN_COOKIE = "toolyard"
_TOKEN = re.compile(r"[\w-]{22,128}", re.ASCII)


class SessionCookies:
    """Builds and reads the cookies of the web page, and checks where requests that carry them come from.

    Away from this machine they need https. With `allow_http` they do not, so that whoever can listen on the network can
    take a session over.
    """

    def __init__(self, allow_http: bool) -> None:
        self._allow_http = allow_http

    def build(
        self,
        headers: Mapping[str, str],
        token: str,
        max_age_s: float,
        purpose: str = "",
        same_site: Literal["Strict", "Lax"] = "Strict",
    ) -> str:
        """Return the Set-Cookie header of a session or a purpose; an empty token with an age of 0 deletes it."""
        name = self._name(headers, purpose)
        secure = "; Secure" if name.startswith(COOKIE) else ""
        return f"{name}={token}; Path=/; Max-Age={int(max_age_s)}; HttpOnly; SameSite={same_site}{secure}"

    def read(self, headers: Mapping[str, str], purpose: str = "") -> str:
        """Return the token of the session, or of a purpose; empty if there is none, or none that could be a token."""
        cookie_name = self._name(headers, purpose)
        pairs = [pair.strip().partition("=") for pair in headers.get("cookie", "").split(";")]
        values = {value for name, _, value in pairs if name == cookie_name}
        # The server sets one cookie of this name. A second one was planted, by another program on this machine for
        # example, and would sign its victim in under an account of the attacker's: nobody can say which one is ours.
        token = values.pop() if len(values) == 1 else ""
        return token if _TOKEN.fullmatch(token) else ""

    def build_origin(self, headers: Mapping[str, str], scheme: str) -> str:
        """Return the origin that a browser knows this server by; `scheme` counts only where https is not needed.

        Raises Invalid for a request without a Host.
        """
        host = _split_host(headers)
        if not host.hostname:
            raise Invalid("the request has no Host header; a proxy in front has to pass it on", {"field": "host"})
        return f"{'https' if self._needs_https(host) else scheme}://{host.netloc}"

    def require_same_origin(self, headers: Mapping[str, str]) -> None:
        """Raise Forbidden unless a page of this server sent the request, with https where that is needed."""
        host, origin = _split_host(headers), headers.get("origin")
        is_plain = origin == f"http://{host.netloc}"
        if host.netloc and is_plain and self._needs_https(host):
            raise Forbidden(
                "this page must be opened with https: only then does a browser keep the session. Put a proxy with TLS "
                "in front of the server; on a network that you trust, `[sessions] allow_http = true` in toolyard.toml "
                "allows http"
            )
        if not host.netloc or not (is_plain or origin == f"https://{host.netloc}"):
            raise Forbidden(
                "with a session only the page of this server may send this; a proxy in front has to pass on the Host "
                "header, and other programs send a key"
            )

    def _name(self, headers: Mapping[str, str], purpose: str) -> str:
        """Return the name of a cookie at the address that the request was sent to: of the session, or of a purpose."""
        # Browsers keep `__Host-` cookies only over https, which a server on this machine seldom has. The port is part
        # of the name there, as the cookies of all ports are sent to each of them.
        host = _split_host(headers)
        suffix = f"-{purpose}" if purpose else ""
        return f"{COOKIE}{suffix}" if self._needs_https(host) else f"{PLAIN_COOKIE}{suffix}-{host.port or 80}"

    def _needs_https(self, host: SplitResult) -> bool:
        return not (self._allow_http or is_loopback(host.hostname or ""))


def _split_host(headers: Mapping[str, str]) -> SplitResult:
    try:
        host = urlsplit(f"//{headers.get('host', '')}")
        _ = host.port  # raises ValueError if it is no number
    except ValueError:
        return urlsplit("")
    return host
