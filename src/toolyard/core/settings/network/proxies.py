"""Reverse proxies that are trusted to name the client of a request. Pure.

Anybody can send `X-Forwarded-For`. It counts only if the peer of the connection is trusted, and each address in it only
as far as the address to the right of it, which passed it on, is trusted too.
"""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


def parse_network(text: str) -> Network:
    """Return the network of an address such as `10.0.0.1`, or of a range such as `10.0.0.0/8`. Raise ValueError."""
    try:
        network = ip_network(text)
    except ValueError:
        raise ValueError(f'{text[:80]!r} is not an IP address or a network such as "10.0.0.0/8"') from None
    if network.prefixlen == 0:
        raise ValueError(f"{text!r} contains every address, so anybody could claim to be anybody")
    return network


class TrustedProxies:
    """The networks of the proxies in front of a server."""

    def __init__(self, networks: Sequence[str] = ()) -> None:
        """Raise ValueError for a text that is no network."""
        self._networks = [parse_network(network) for network in networks]

    def __bool__(self) -> bool:
        return bool(self._networks)

    def trusts(self, address: str) -> bool:
        """Return whether a host, as an IP address, is one of the proxies."""
        parsed = _parse_address(address)
        return parsed is not None and self._contains(parsed)

    def find_client(self, peer: str, forwarded_for: Sequence[str]) -> str:
        """Return the address of the client: `peer`, unless that is a proxy and names another one.

        `forwarded_for` has the values of all headers of that name, in their order: each proxy appends its own peer.
        """
        client = peer
        hops = [hop for value in forwarded_for for hop in value.split(",")]
        while hops and self.trusts(client):
            address = _parse_address(hops.pop())
            if address is None:  # not an address: the last proxy that is known by one stands for its client
                break
            client = str(address)
        return client

    def _contains(self, address: Address) -> bool:
        return any(address in network for network in self._networks)


def _parse_address(text: str) -> Address | None:
    """Return an address as it stands in a header, perhaps with a port: `10.0.0.1`, `10.0.0.1:99`, `[::1]:99`."""
    text = text.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ip_address(text)
    except ValueError:
        return None
    # A socket for IPv6 that also takes IPv4 reports 10.0.0.1 as ::ffff:10.0.0.1.
    return address.ipv4_mapped or address if isinstance(address, IPv6Address) else address
