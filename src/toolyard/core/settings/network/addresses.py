"""Which addresses are this machine's own, and which are on the public network."""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

_TRANSLATED = IPv6Network("64:ff9b::/96")
"""NAT64: the last 32 bits are an IPv4 address."""
_GLOBAL_UNICAST = IPv6Network("2000::/3")
"""All public IPv6 addresses that are assigned. Others are IPv4 addresses in another form, or from retired ranges."""
_CLOUD_HOST_NETWORKS = (IPv4Network("192.0.0.0/24"), IPv4Network("168.63.129.16/32"))
"""Where machines at Oracle and Azure reach the services of their host; Python takes them for public addresses."""


def is_loopback(host: str) -> bool:
    """Return whether a host, as a name or an IP address, is this machine's own."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_public(address: str) -> bool:
    """Return whether an IP address is on the public network, and not of this machine or of a network behind it."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    parsed = _find_inner_address(parsed) or parsed
    if isinstance(parsed, IPv6Address):
        return parsed in _GLOBAL_UNICAST and parsed.is_global
    return (
        parsed.is_global and not parsed.is_multicast and not any(parsed in network for network in _CLOUD_HOST_NETWORKS)
    )


def _find_inner_address(address: IPv4Address | IPv6Address) -> IPv4Address | None:
    """Return the IPv4 address to which packets for an IPv6 address may be translated."""
    if isinstance(address, IPv4Address):
        return None
    if address in _TRANSLATED:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour
