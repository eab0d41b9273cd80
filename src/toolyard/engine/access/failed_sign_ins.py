"""Failed sign-ins, counted: in the audit log, where a flood of them must not fill the disk, and to slow guessing down.

The first failure of an address is written at once, the further ones of the same minute as one entry with their number.
Of many addresses in a minute only some have entries of their own; the others share one.
"""

import logging
from ipaddress import IPv6Address, IPv6Network, ip_address

from toolyard.core.errors import ToolyardError
from toolyard.core.ports import Spawn
from toolyard.core.store.audit_chain import Actor
from toolyard.engine.access.counted_entries import WINDOW_S, CountedEntries
from toolyard.observability.auditor import Auditor, current_actor

MAX_ADDRESSES = 20
"""Addresses with entries of their own in a minute."""
OTHER_ADDRESSES = "other addresses"
MAX_WRONG_KEYS = 60
"""Failures of an address in a minute after which a wrong key is answered with the time to wait."""
IPV6_PREFIX = 64
"""How many bits of an IPv6 address name its network, whose owner chooses the other bits."""

_log = logging.getLogger("toolyard.audit")


def find_network(address: str) -> str:
    """Return what failures are counted for: the address, or for IPv6 its network, which has one owner."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if not isinstance(parsed, IPv6Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    if parsed.is_loopback or parsed.is_link_local:
        return str(parsed)
    return str(IPv6Network((parsed, IPV6_PREFIX), strict=False))


class FailedSignIns:
    """Counts the failed sign-ins of each address in a minute, and writes them to the audit log."""

    def __init__(self, auditor: Auditor, spawn: Spawn, window_s: float = WINDOW_S) -> None:
        self._auditor = auditor
        self._entries = CountedEntries(spawn, window_s)
        self.close = self._entries.close

    async def count(self, address: str) -> float:
        """Count a failure, and return how many seconds its address has to wait: zero unless it has failed too often.

        A store that is down is only logged: the sign-in fails anyway.
        """
        address = find_network(address)
        if address not in self._entries and len(self._entries) >= MAX_ADDRESSES:
            address = OTHER_ADDRESSES
        number, remaining_s = await self._entries.count(address, lambda count: self._write(address, count))
        return remaining_s if number > MAX_WRONG_KEYS else 0.0

    async def _write(self, address: str, count: int) -> None:
        # Nobody is known by a key that is wrong: the entry names the address alone.
        token = current_actor.set(Actor(address=address))
        try:
            await self._auditor.write("sign_in.refuse", "", outcome="refused", count=count)
        except ToolyardError as error:
            _log.warning("%d failed sign-ins are missing in the audit log: %s", count, error)
        finally:
            current_actor.reset(token)
