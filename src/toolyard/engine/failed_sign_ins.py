"""Failed sign-ins, counted: in the audit log, where a flood of them must not fill the disk, and to slow guessing down.

The first failure of an address is written at once, the further ones of the same minute as one entry with their number.
Of many addresses in a minute only some have entries of their own; the others share one.
"""

import asyncio
import logging
from collections import Counter
from ipaddress import IPv6Address, IPv6Network, ip_address

from toolyard.core.audit import Actor
from toolyard.core.errors import ToolyardError
from toolyard.core.ports import Spawn
from toolyard.observability.audit import Auditor, current_actor

WINDOW_S = 60.0
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
        self._spawn = spawn
        self._window_s = window_s
        self._counts = Counter[str]()
        """The failures of the current window that are not written yet."""
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    async def count(self, address: str) -> float:
        """Count a failure, and return how many seconds its address has to wait: zero unless it has failed too often.

        A store that is down is only logged: the sign-in fails anyway.
        """
        if self._closed:  # the store is about to be closed, and nobody waits for a timer any more
            return 0.0
        address = find_network(address)
        if address not in self._counts and len(self._counts) >= MAX_ADDRESSES:
            address = OTHER_ADDRESSES
        loop = asyncio.get_running_loop()
        if self._timer is None:
            self._timer = loop.call_later(self._window_s, self._end_window)
        remaining_s = max(0.0, self._timer.when() - loop.time())
        if address in self._counts:
            self._counts[address] += 1
            # The first one is written already, and not among the counts.
            return remaining_s if self._counts[address] >= MAX_WRONG_KEYS else 0.0
        self._counts[address] = 0
        await self._write(address, 1)
        return 0.0

    async def close(self) -> None:
        """Write what was counted so far, and count no more."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        await self._write_counts()

    def _end_window(self) -> None:
        self._spawn(self._write_counts())

    async def _write_counts(self) -> None:
        counts, self._counts, self._timer = self._counts, Counter[str](), None
        for address, count in counts.items():
            if count:
                await self._write(address, count)

    async def _write(self, address: str, count: int) -> None:
        # Nobody is known by a key that is wrong: the entry names the address alone.
        token = current_actor.set(Actor(address=address))
        try:
            await self._auditor.write("sign_in.refuse", "", outcome="refused", count=count)
        except ToolyardError as error:
            _log.warning("%d failed sign-ins are missing in the audit log: %s", count, error)
        finally:
            current_actor.reset(token)
