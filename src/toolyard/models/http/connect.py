"""Opens connections to an address: plain or TLS, directly or through the proxy that the environment names.

Certificates are the system's; `SSL_CERT_FILE` names others. `client` decides what is sent.
"""

import asyncio
import base64
import functools
import os
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from toolyard.core.errors import Misconfigured
from toolyard.core.masking import shorten_address
from toolyard.core.settings.network.addresses import is_loopback, is_public
from toolyard.models.http.connection import HttpConnection


class PrivateAddress(OSError):
    """The host of an address that must be public is not."""


@dataclass(frozen=True, slots=True)
class HttpEndpoint:
    """The destination of requests: the host, the request target, and the proxy in between."""

    host: str
    port: int
    tls: bool
    target: str
    """The request target: a path, or a whole URL for a proxy that forwards plain HTTP."""
    authority: str
    proxy: SplitResult | None = None


def parse_endpoint(url: str) -> HttpEndpoint:
    """Return the endpoint of a URL. Raises Misconfigured if it is not an address for requests."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:  # its text may contain a part of a password
        raise Misconfigured(f"{shorten_address(url)!r} is not an address: its host or port is wrong") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
        raise Misconfigured(f"{shorten_address(url)!r} is not an address to send requests to: write https://host/path")
    tls = parts.scheme == "https"
    authority = parts.netloc.encode("idna").decode() if not parts.netloc.isascii() else parts.netloc
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    # This machine is never reached through a proxy.
    proxy = None if is_loopback(parts.hostname) else _find_proxy(parts.scheme, parts.netloc)
    if proxy is not None and not tls:
        target = f"http://{authority}{target}"
    return HttpEndpoint(parts.hostname, port or (443 if tls else 80), tls, target, authority, proxy)


async def connect(
    address: HttpEndpoint, on_idle: Callable[[HttpConnection], None], due: float, *, public_only: bool = False
) -> HttpConnection:
    """Return a new connection. Raises OSError, which includes `ssl.SSLError` for an invalid certificate.

    With `public_only` it connects to public addresses only. A proxy is the administrator's, and decides itself.
    """
    loop = asyncio.get_running_loop()
    connection = HttpConnection(loop, on_idle)
    proxy = address.proxy
    context = _load_certificates(os.environ.get("SSL_CERT_FILE", "")) if address.tls else None
    if proxy is None:
        name = address.host if address.tls else None
        host = await _find_public_address(address) if public_only else address.host
        await loop.create_connection(lambda: connection, host, address.port, ssl=context, server_hostname=name)
        return connection
    await loop.create_connection(lambda: connection, proxy.hostname or "", proxy.port or 8080)
    if context is not None:
        try:
            await _open_tunnel(connection, address, context, due)
        except BaseException:
            connection.close()
            raise
    return connection


async def _find_public_address(address: HttpEndpoint) -> str:
    """Return an IP address of the host. The connection goes to the address that was checked, without a second lookup.

    Raises PrivateAddress if the host has none on the public network.
    """
    addresses = await asyncio.get_running_loop().getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    for *_, (ip_address, *_) in addresses:
        if is_public(str(ip_address)):
            return str(ip_address)
    raise PrivateAddress(
        f"{address.host} is not on the public network: an administrator may allow it with private_addresses = true"
    )


def build_proxy_headers(address: HttpEndpoint) -> dict[str, str]:
    """Return the credentials for a proxy that forwards plain HTTP; a TLS tunnel carries them in its CONNECT."""
    return {} if address.proxy is None or address.tls else _build_proxy_authorization(address.proxy)


async def _open_tunnel(connection: HttpConnection, address: HttpEndpoint, context: ssl.SSLContext, due: float) -> None:
    assert address.proxy is not None
    target = f"{address.host}:{address.port}"
    headers = {"Host": target, **_build_proxy_authorization(address.proxy)}
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    connection.send(f"CONNECT {target} HTTP/1.1\r\n{lines}\r\n".encode("ascii"))
    await connection.read_head(due)
    if connection.status != 200:
        raise ConnectionRefusedError(f"the proxy answers {connection.status} {connection.reason}")
    loop = asyncio.get_running_loop()
    await connection.start_tls(lambda plain: loop.start_tls(plain, connection, context, server_hostname=address.host))


def _find_proxy(scheme: str, netloc: str) -> SplitResult | None:
    address = getproxies().get(scheme)
    if not address or proxy_bypass(netloc):
        return None
    proxy = urlsplit(address if "://" in address else f"http://{address}")
    if proxy.scheme != "http" or not proxy.hostname:
        raise Misconfigured(f"the proxy {shorten_address(address)!r} cannot be used: write http://host:port")
    return proxy


def _build_proxy_authorization(proxy: SplitResult) -> dict[str, str]:
    if proxy.username is None:
        return {}
    pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return {"Proxy-Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}


@functools.lru_cache(maxsize=4)
def _load_certificates(cert_file: str) -> ssl.SSLContext:
    """Return the TLS context, loaded once for each `SSL_CERT_FILE`: loading takes tens of milliseconds.

    `cert_file` is only the cache key; OpenSSL reads the environment variable itself.
    """
    return ssl.create_default_context()
