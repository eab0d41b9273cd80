"""From an address to a connection: plain or TLS, straight or through the proxy that the environment names.

It does not know what is sent. The certificates are the system's; `SSL_CERT_FILE` names others, as everywhere.
"""

import asyncio
import base64
import functools
import ipaddress
import os
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from toolyard.core.errors import Misconfigured
from toolyard.models.http.connection import HttpConnection


@dataclass(frozen=True, slots=True)
class HttpEndpoint:
    """Where requests go: the host to reach, what to ask it for, and how to get there."""

    host: str
    port: int
    tls: bool
    target: str
    """What the request line names."""
    authority: str
    proxy: SplitResult | None = None


def parse_endpoint(url: str) -> HttpEndpoint:
    """Raises Misconfigured if nobody can be reached there."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise Misconfigured(f"{url!r} is not an address: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
        raise Misconfigured(
            f"{_strip_credentials(parts)!r} is not an address to send requests to: write https://host/path"
        )
    tls = parts.scheme == "https"
    authority = parts.netloc.encode("idna").decode() if not parts.netloc.isascii() else parts.netloc
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    proxy = None if _is_loopback(parts.hostname) else _find_proxy(parts.scheme, parts.netloc)
    if proxy is not None and not tls:
        target = f"http://{authority}{target}"
    return HttpEndpoint(parts.hostname, port or (443 if tls else 80), tls, target, authority, proxy)


async def connect(address: HttpEndpoint, on_idle: Callable[[HttpConnection], None], due: float) -> HttpConnection:
    """A new connection. Raises OSError (a certificate that does not hold is one too)."""
    loop = asyncio.get_running_loop()
    connection = HttpConnection(loop, on_idle)
    proxy = address.proxy
    context = _load_certificates(os.environ.get("SSL_CERT_FILE", "")) if address.tls else None
    if proxy is None:
        name = address.host if address.tls else None
        await loop.create_connection(lambda: connection, address.host, address.port, ssl=context, server_hostname=name)
        return connection
    await loop.create_connection(lambda: connection, proxy.hostname or "", proxy.port or 8080)
    if context is not None:
        try:
            await _open_tunnel(connection, address, context, due)
        except BaseException:
            connection.close()
            raise
    return connection


def build_proxy_headers(address: HttpEndpoint) -> dict[str, str]:
    """What a proxy wants to see on a request that it passes on in plain."""
    return {} if address.proxy is None or address.tls else _build_proxy_authorization(address.proxy)


async def _open_tunnel(connection: HttpConnection, address: HttpEndpoint, context: ssl.SSLContext, due: float) -> None:
    assert address.proxy is not None
    to = f"{address.host}:{address.port}"
    headers = {"Host": to, **_build_proxy_authorization(address.proxy)}
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    connection.send(f"CONNECT {to} HTTP/1.1\r\n{lines}\r\n".encode("ascii"))
    await connection.read_head(due)
    if connection.status != 200:
        raise ConnectionRefusedError(f"the proxy answers {connection.status} {connection.reason}")
    loop = asyncio.get_running_loop()
    await connection.start_tls(lambda plain: loop.start_tls(plain, connection, context, server_hostname=address.host))


def _is_loopback(host: str) -> bool:
    """Whether it is this machine: no proxy stands in between, whatever the environment says."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _find_proxy(scheme: str, netloc: str) -> SplitResult | None:
    found = getproxies().get(scheme)
    if not found or proxy_bypass(netloc):
        return None
    proxy = urlsplit(found if "://" in found else f"http://{found}")
    if proxy.scheme != "http" or not proxy.hostname:
        raise Misconfigured(f"the proxy {_strip_credentials(proxy)!r} cannot be used: write http://host:port")
    return proxy


def _build_proxy_authorization(proxy: SplitResult) -> dict[str, str]:
    if proxy.username is None:
        return {}
    pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return {"Proxy-Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}


def _strip_credentials(parts: SplitResult) -> str:
    """The address without the name and the password that may stand in it."""
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


@functools.lru_cache(maxsize=4)
def _load_certificates(cert_file: str) -> ssl.SSLContext:
    """Read once: it takes tens of milliseconds. OpenSSL itself looks at what the environment names."""
    return ssl.create_default_context()
