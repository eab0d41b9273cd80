"""Which address a request comes from, if proxies stand in front of the server."""

import pytest

from toolyard.core.settings.network.proxies import TrustedProxies, parse_network

PROXIES = TrustedProxies(["10.0.0.0/8", "192.0.2.1", "2001:db8::/32"])


@pytest.mark.parametrize(
    ("peer", "forwarded_for", "client"),
    [
        pytest.param("10.0.0.1", ["203.0.113.5"], "203.0.113.5", id="one proxy"),
        pytest.param("10.0.0.1", ["203.0.113.5, 10.9.9.9"], "203.0.113.5", id="two proxies"),
        pytest.param("10.0.0.1", ["203.0.113.5", "192.0.2.1"], "203.0.113.5", id="two proxies in two headers"),
        pytest.param("10.0.0.1", ["198.51.100.9, 203.0.113.5"], "203.0.113.5", id="the client forged the left part"),
        pytest.param("10.0.0.1", ["10.1.1.1, 203.0.113.5"], "203.0.113.5", id="the client posed as a proxy"),
        pytest.param("203.0.113.5", ["198.51.100.9"], "203.0.113.5", id="the peer is no proxy"),
        pytest.param("192.0.2.2", ["198.51.100.9"], "192.0.2.2", id="a neighbour of a proxy"),
        pytest.param("10.0.0.1", [], "10.0.0.1", id="a proxy that names nobody"),
        pytest.param("10.0.0.1", ["10.2.2.2"], "10.2.2.2", id="a proxy that is itself the client"),
        pytest.param("10.0.0.1", ["198.51.100.9, unknown, 10.2.2.2"], "10.2.2.2", id="no address on the way"),
        pytest.param("10.0.0.1", ["198.51.100.9,,"], "10.0.0.1", id="nothing on the way"),
        pytest.param("10.0.0.1", ["203.0.113.5:4711"], "203.0.113.5", id="with a port"),
        pytest.param("2001:db8::1", ["[2001:DB9:0::5]:4711"], "2001:db9::5", id="IPv6 with a port"),
        pytest.param("::ffff:10.0.0.1", ["::ffff:203.0.113.5"], "203.0.113.5", id="IPv4 on a socket for IPv6"),
        pytest.param("", ["203.0.113.5"], "", id="no peer"),
    ],
)
def test_the_client_is_the_first_address_from_the_right_that_is_no_proxy(
    peer: str, forwarded_for: list[str], client: str
) -> None:
    assert PROXIES.find_client(peer, forwarded_for) == client


def test_without_proxies_the_peer_is_the_client() -> None:
    assert not TrustedProxies() and TrustedProxies().find_client("127.0.0.1", ["203.0.113.5"]) == "127.0.0.1"


@pytest.mark.parametrize("text", ["proxy.example", "10.0.0.1/8", "0.0.0.0/0", "::/0", "10.0.0.0/33", ""])
def test_names_and_networks_of_everybody_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"network|every address"):
        parse_network(text)
