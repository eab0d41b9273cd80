"""The loopback interface: the addresses of this machine that no other machine can reach."""

from ipaddress import ip_address


def is_loopback(host: str) -> bool:
    """Return whether a host, as a name or an IP address, is this machine's own."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
