"""Waits for a shared store that is down."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from toolyard.core.errors import StoreDown
from toolyard.engine.dependencies import Deps
from toolyard.engine.log.journal import Journal

OUTAGE_RETRY_S = 0.5
_T = TypeVar("_T")


async def outlast_outage(work: Callable[[], Awaitable[_T]], journal: Journal, deps: Deps) -> _T:
    """Do the work, and again while a shared store is down: a call waits with it for as long as its run may."""
    while True:
        try:
            return await work()
        except StoreDown:
            if journal.broken or not deps.is_shared:
                raise
            await deps.sleep(OUTAGE_RETRY_S)
