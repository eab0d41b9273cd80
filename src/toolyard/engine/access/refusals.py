"""Failed sign-ins and refused attempts, counted for the audit log, where a flood of them must not fill the disk.

The first event of an address or a caller is written at once, the further ones of the same minute as one entry with
their number. Of many addresses or callers in a minute only some have entries of their own; the others share one.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from functools import partial
from ipaddress import IPv6Address, IPv6Network, ip_address

from msgspec.structs import replace

from toolyard.core.caller import Caller
from toolyard.core.errors import ToolyardError
from toolyard.core.ports import Spawn
from toolyard.core.store.audit_chain import Actor, AuditAction
from toolyard.observability.auditor import Auditor, current_actor

WINDOW_S = 60.0
MAX_ADDRESSES = 20
"""Addresses with entries of their own in a minute."""
OTHER_ADDRESSES = "other addresses"
MAX_WRONG_KEYS = 60
"""Failures of an address in a minute after which a wrong key is answered with the time to wait."""
IPV6_PREFIX = 64
"""How many bits of an IPv6 address name its network, whose owner chooses the other bits."""
MAX_CALLERS = 200
"""Pairs of a caller and an action with entries of their own in a minute. A trusted key may name any number of users."""
OTHER_CALLERS = "other callers"

_log = logging.getLogger("toolyard.audit")


@dataclass(slots=True)
class _Count:
    write: Callable[[int], Awaitable[None]]
    """Writes an entry that stands for a number of events."""
    unwritten: int = 0


class CountedEntries:
    """Counts events by their keys, in windows of a minute. A store that is down is only logged."""

    def __init__(self, name: str, auditor: Auditor, spawn: Spawn, window_s: float) -> None:
        self._name = name
        self._auditor = auditor
        self._spawn = spawn
        self._window_s = window_s
        self._counts: dict[Hashable, _Count] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    def __len__(self) -> int:
        """Return the number of keys in the current window."""
        return len(self._counts)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._counts

    async def count(
        self, key: Hashable, actor: Actor, action: AuditAction, target: str = "", content_hash: str = ""
    ) -> tuple[int, float]:
        """Count an event. Return its number in the current window, and the seconds until the window ends."""
        if self._closed:  # the store is about to be closed, and nobody waits for a timer any more
            return 0, 0.0
        loop = asyncio.get_running_loop()
        if self._timer is None:
            self._timer = loop.call_later(self._window_s, self._end_window)
        remaining_s = max(0.0, self._timer.when() - loop.time())
        if (count := self._counts.get(key)) is not None:
            count.unwritten += 1
            return count.unwritten + 1, remaining_s
        write = partial(self._write, actor, action, target, content_hash)
        self._counts[key] = _Count(write)
        await write(1)
        return 1, remaining_s

    async def close(self) -> None:
        """Write what was counted so far, and count no more."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        await self._write_counts()

    def _end_window(self) -> None:
        self._spawn(self._write_counts())

    async def _write_counts(self) -> None:
        counts, self._counts, self._timer = self._counts, {}, None
        for count in counts.values():
            if count.unwritten:
                await count.write(count.unwritten)

    async def _write(self, actor: Actor, action: AuditAction, target: str, content_hash: str, count: int) -> None:
        token = current_actor.set(actor)
        try:
            await self._auditor.write(action, target, outcome="refused", count=count, content_hash=content_hash)
        except ToolyardError as error:
            _log.warning("%d %s are missing in the audit log: %s", count, self._name, error)
        finally:
            current_actor.reset(token)


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
    """Counts the failed sign-ins of each address in a minute, for the audit log and to slow guessing down."""

    def __init__(self, auditor: Auditor, spawn: Spawn, window_s: float = WINDOW_S) -> None:
        self._entries = CountedEntries("failed sign-ins", auditor, spawn, window_s)
        self.close = self._entries.close

    async def count(self, address: str) -> float:
        """Count a failure, and return how many seconds its address has to wait: zero unless it has failed too often."""
        address = find_network(address)
        if address not in self._entries and len(self._entries) >= MAX_ADDRESSES:
            address = OTHER_ADDRESSES
        # Nobody is known by a key that is wrong: the entry names the address alone.
        number, remaining_s = await self._entries.count(address, Actor(address=address), "sign_in.refuse")
        return remaining_s if number > MAX_WRONG_KEYS else 0.0


class RefusedAttempts:
    """Writes to the audit log what known callers may not do and tried: one entry per caller, action and minute."""

    def __init__(self, auditor: Auditor, spawn: Spawn, window_s: float = WINDOW_S) -> None:
        self._entries = CountedEntries("refused attempts", auditor, spawn, window_s)
        self.close = self._entries.close

    async def count(self, action: AuditAction, target: str, by: Caller | None = None, content_hash: str = "") -> None:
        """Count an attempt of the current request's caller. The entry of a minute names the target of the first one."""
        actor = current_actor.get()
        if by is not None:
            actor = replace(actor, user=by.user, tenant=by.tenant)
        key = (actor.user, actor.tenant, actor.key, action)
        if key not in self._entries and len(self._entries) >= MAX_CALLERS:
            actor, target, content_hash = Actor(user=OTHER_CALLERS), "", ""
            key = (OTHER_CALLERS, "", "", action)
        await self._entries.count(key, actor, action, target, content_hash)
